"""Reads, writes and converts Kafka records as bytes: no broker, straight to Python, Arrow and Spark."""

# Type checkers know the name; to import `typing` for it would be most of what importing this package costs.
TYPE_CHECKING = False

if TYPE_CHECKING:
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
    from .cleaning import Cleaned, CleanedPartition, Cleaning, clean
    from .conversion import Converted, convert, convert_file, detect, request_format
    from .encoding import encode, encode_arrow, encode_batch, encode_batches
    from .errors import CorruptRecordError, IllegalStateError, MagicbyteError, UnsupportedCodecError
    from .landing import Landed, Landing, land
    from .log import Log, Segment
    from .raw import decode, decode_arrow, decode_batches, verify
    from .records import ProducerRecord
    from .recovery import Filled, Lost, Recovered, recover
    from .replicas import Replica
    from .rewriting import Redaction, Retaining, Rewritten, redact, retain
    from .writer import Writer, convert_partition

# Where each name is from: imported when it is first asked for, so that `import magicbyte` costs next to nothing.
_MODULES = {
    "_compare": "Difference Digest diff digest",
    "_core": "COLUMNS DEFAULT_COLUMNS ConsumerRecord Control Header Headers LedgerRow Limits Record RecordBatch Scan __version__",
    "_report": "Defect Report",
    "cleaning": "Cleaned CleanedPartition Cleaning clean",
    "conversion": "Converted convert convert_file detect request_format",
    "encoding": "encode encode_arrow encode_batch encode_batches",
    "errors": "CorruptRecordError IllegalStateError MagicbyteError UnsupportedCodecError",
    "landing": "Landed Landing land",
    "log": "Log Segment",
    "raw": "decode decode_arrow decode_batches verify",
    "records": "ProducerRecord",
    "recovery": "Filled Lost Recovered recover",
    "replicas": "Replica",
    "rewriting": "Redaction Retaining Rewritten redact retain",
    "writer": "Writer convert_partition",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "COLUMNS",
    "DEFAULT_COLUMNS",
    "Cleaned",
    "CleanedPartition",
    "Cleaning",
    "ConsumerRecord",
    "Control",
    "Converted",
    "CorruptRecordError",
    "Defect",
    "Difference",
    "Digest",
    "Filled",
    "Header",
    "Headers",
    "IllegalStateError",
    "Landed",
    "Landing",
    "LedgerRow",
    "Limits",
    "Log",
    "Lost",
    "MagicbyteError",
    "ProducerRecord",
    "Record",
    "RecordBatch",
    "Recovered",
    "Redaction",
    "Replica",
    "Report",
    "Retaining",
    "Rewritten",
    "Scan",
    "Segment",
    "UnsupportedCodecError",
    "Writer",
    "__version__",
    "clean",
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
    "encode_arrow",
    "encode_batch",
    "encode_batches",
    "land",
    "recover",
    "redact",
    "request_format",
    "retain",
    "verify",
]

if not TYPE_CHECKING:  # a checker knows the names from above, and no others

    def __getattr__(name: str) -> object:
        import importlib

        if name in _HOME:
            found = getattr(importlib.import_module(f"magicbyte.{_HOME[name]}"), name)
            globals()[name] = found
            return found
        # A room of the package, by its name.
        if not name.startswith("__"):
            try:
                return importlib.import_module(f"magicbyte.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"magicbyte.{name}":
                    raise
        raise AttributeError(f"module 'magicbyte' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
