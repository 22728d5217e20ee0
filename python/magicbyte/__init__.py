"""Reads, writes and converts Kafka records as bytes: no broker, straight to Python, Arrow and Spark."""

from ._core import (
    COLUMNS,
    DEFAULT_COLUMNS,
    ConsumerRecord,
    Control,
    Header,
    Headers,
    Limits,
    Record,
    RecordBatch,
    Scan,
    __version__,
)
from .errors import CorruptRecordError, IllegalStateError, MagicbyteError, UnsupportedCodecError
from .log import Log, Segment
from .raw import decode, decode_arrow, decode_batches
from .records import ProducerRecord

__all__ = [
    "COLUMNS",
    "DEFAULT_COLUMNS",
    "ConsumerRecord",
    "Control",
    "CorruptRecordError",
    "Header",
    "Headers",
    "IllegalStateError",
    "Limits",
    "Log",
    "MagicbyteError",
    "ProducerRecord",
    "Record",
    "RecordBatch",
    "Scan",
    "Segment",
    "UnsupportedCodecError",
    "__version__",
    "decode",
    "decode_arrow",
    "decode_batches",
]
