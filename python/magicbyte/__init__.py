"""Reads, writes and converts Kafka records as bytes: no broker, straight to Python, Arrow and Spark."""

from ._compare import Difference, Digest, diff, digest
from ._core import (
    COLUMNS,
    DEFAULT_COLUMNS,
    ConsumerRecord,
    Control,
    Header,
    Headers,
    LedgerRow,
    Limits,
    Record,
    RecordBatch,
    Scan,
    __version__,
)
from ._report import Defect, Report
from .conversion import Converted, convert, convert_file, detect, request_format
from .encoding import encode, encode_batch, encode_batches
from .errors import CorruptRecordError, IllegalStateError, MagicbyteError, UnsupportedCodecError
from .log import Log, Segment
from .raw import decode, decode_arrow, decode_batches, verify
from .records import ProducerRecord
from .recovery import Lost, Recovered, recover
from .writer import Writer, convert_partition

__all__ = [
    "COLUMNS",
    "DEFAULT_COLUMNS",
    "ConsumerRecord",
    "Control",
    "Converted",
    "CorruptRecordError",
    "Defect",
    "Difference",
    "Digest",
    "Header",
    "Headers",
    "IllegalStateError",
    "LedgerRow",
    "Limits",
    "Log",
    "Lost",
    "MagicbyteError",
    "ProducerRecord",
    "Record",
    "RecordBatch",
    "Recovered",
    "Report",
    "Scan",
    "Segment",
    "UnsupportedCodecError",
    "Writer",
    "__version__",
    "convert",
    "convert_file",
    "convert_partition",
    "decode",
    "decode_arrow",
    "decode_batches",
    "detect",
    "diff",
    "digest",
    "encode",
    "encode_batch",
    "encode_batches",
    "recover",
    "request_format",
    "verify",
]
