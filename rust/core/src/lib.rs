#![doc = include_str!("../../../README.md")]

#[cfg(feature = "arrow")]
pub mod arrow;
pub mod batch;
pub mod bytes;
pub mod checksum;
pub mod clean;
pub mod codec;
pub mod convert;
pub mod detect;
pub mod digest;
pub mod encode;
pub mod encode_error;
pub mod entry;
pub mod error;
mod fill;
pub mod format;
mod frame;
pub mod head;
pub mod header;
pub mod limits;
pub mod log;
pub mod message_set;
pub mod new_record;
pub mod places;
mod prefetch;
pub mod record;
pub mod request;
pub mod segment;
pub mod select;
pub mod source;
pub mod transactions;
pub mod varint;
pub mod verify;

pub use batch::control::{Control, ControlType};
pub use codec::{Buffer, Codec, Compressor, Decompressor, Lz4Checksum};
pub use convert::{Conversion, ConvertError, Converted, Converter, Dropped, convert, convert_entries};
pub use detect::detect;
pub use digest::Digest;
pub use encode::{Batcher, Encoder, Writer, Written};
pub use encode_error::{EncodeError, EncodeFlaw};
pub use entry::{Entry, Payload};
pub use error::{Error, Flaw, Kind, Result};
pub use format::{Dialect, Family, Format};
pub use head::{Head, TimestampType};
pub use header::{Header, HeaderLayout, Headers};
pub use limits::Limits;
pub use log::{Damage, Log, Mode, Options, Step, Walker};
pub use new_record::{BatchFields, NewHeaders, NewRecord};
pub use record::{Record, Sink};
pub use request::{Protocol, Request, request_format};
pub use select::{HeaderCondition, HeaderTest, Selection};
pub use source::{Entries, Next, Source};
pub use transactions::{
    Isolation, Judge, Ruling, SegmentOf, Survey, TransactionState, Transactions, Unstable,
};
