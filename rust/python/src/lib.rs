//! The door between Python and the core crate: newtypes with short methods. What Python sees is the list below.

mod arguments;
mod attributes;
mod batch;
mod block;
mod clean;
mod columns_in;
mod consumer_record;
mod convert;
mod encode;
mod error;
mod follow;
mod gate;
mod header;
mod header_iterator;
mod headers;
mod held;
mod hops;
mod iterators;
mod keys;
mod made;
mod new_batch;
mod opened;
mod part;
mod quick;
mod reader;
mod rewrite;
mod scan;
mod segment;
mod segment_writer;
mod slots;
mod steps;
mod transactions;
mod verify;

// It needs no GIL: what threads share never changes or has a lock (`DESIGN.md`, "Shared and locked"). That is PyO3's
// default, and said here so that it stays a promise.
/// Kafka records as bytes.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::batch::{Record, RecordBatch};
    #[pymodule_export]
    use crate::clean::Cleaner;
    #[pymodule_export]
    use crate::columns_in::ColumnEncoder;
    #[pymodule_export]
    use crate::consumer_record::{ConsumerRecord, Control};
    #[pymodule_export]
    use crate::convert::{ConvertIterator, detect, of_request};
    #[pymodule_export]
    use crate::encode::{EncodeIterator, encode, encode_batch};
    #[pymodule_export]
    use crate::follow::Follower;
    #[pymodule_export]
    use crate::header::Header;
    #[pymodule_export]
    use crate::headers::Headers;
    #[pymodule_export]
    use crate::part::{Limits, Part};
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::rewrite::Rewriter;
    #[pymodule_export]
    use crate::scan::Scan;
    #[pymodule_export]
    use crate::segment::{
        OffsetIndex, TimeIndex, aborted_transactions, leader_epochs, producer_snapshot, segment_name,
        topic_partition,
    };
    #[pymodule_export]
    use crate::segment_writer::{PartitionBuilder, partition_metadata};
    #[pymodule_export]
    use crate::transactions::Transactions;
    #[pymodule_export]
    use crate::verify::{LedgerRow, Verifier, digest};

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        use magicbyte::arrow::Column;
        crate::consumer_record::HOT.learn(module.py());
        crate::header::HOT.learn(module.py());
        let names = |columns: &[Column]| columns.iter().map(|column| column.name()).collect::<Vec<_>>();
        let tuple = |names: Vec<&str>| pyo3::types::PyTuple::new(module.py(), names);
        module.add("COLUMNS", tuple(names(&Column::ALL))?)?;
        module.add("DEFAULT_COLUMNS", tuple(names(&Column::DEFAULT))?)?;
        module.add("FORMATS", tuple(magicbyte::Dialect::NAMES.to_vec())?)?;
        module.add("TARGETS", tuple(magicbyte::Format::ALL.map(magicbyte::Format::name).to_vec())?)?;
        module.add("CODECS", tuple(magicbyte::Codec::ALL.map(magicbyte::Codec::name).to_vec())?)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
