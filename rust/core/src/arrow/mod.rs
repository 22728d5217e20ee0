//! Arrow columns straight from borrowed records: in bounded record batches, only those that are asked for, into
//! buffers that are used again once Arrow lets go of them.

mod bitmap;
mod builder;
mod cells;
mod column;
mod columns_in;
mod direct;
mod fill;
mod pool;
mod proven;
mod rows_in;
mod runs;
mod scan;

pub use builder::{Builder, Flavor, Shape};
pub use column::Column;
pub use pool::Pool;
pub use rows_in::{ColumnEncoder, ColumnsError, Incoming, Ready, RowFlaw};
pub use scan::{Columnar, Pulled, ReadError};

#[cfg(test)]
mod tests;
