"""The options and the columns of ``df.write.format("magicbyte")``, read once on the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from magicbyte._names import CODECS
from magicbyte.encoding import BATCH_SIZE
from magicbyte.writer import INDEX_INTERVAL, SEGMENT_BYTES

from .options import OF_SPARK, READ_NAMES, boolean, converted, one_of, positive_size
from .paths import local

SERVED = ("v2", "v1", "v0")
"""Formats that brokers keep, and serve."""
BATCHES = ("v2", "v3", "kip82b")
"""Formats whose batches name their producer."""
DRAFTS = ("v3", "kip82a", "kip82b", "kip87")
"""Formats that no broker serves: proposals."""


@dataclass(frozen=True)
class SinkOptions:
    """Plain values, which travel to the tasks."""

    path: str
    format: str = "v2"
    draft: bool = False
    codec: str = "none"
    level: int | None = None
    batch_size: int = BATCH_SIZE
    segment_bytes: int = SEGMENT_BYTES
    index_interval: int = INDEX_INTERVAL
    offsets: str | None = None
    topic: str | None = None
    partition: int | None = None
    leader_epoch: int | None = None
    producers: str = "drop"

    @property
    def read_format(self) -> str:
        """How to read what is written."""
        return "kafka" if self.format in (*SERVED, "v3") else self.format


def parse(options: Mapping[str, str]) -> SinkOptions:
    """Reads the options; ``ValueError`` names one that is not known, or whose value is not right."""
    given: dict[str, str] = {}
    for key, value in options.items():
        name = _NAMES.get(key.lower())
        if name is not None:
            given[name] = value
        elif not key.lower().startswith(OF_SPARK):
            near = get_close_matches(key.lower(), list(_NAMES), n=1, cutoff=0.5)
            known = f"did you mean {_NAMES[near[0]]}?" if near else f"known are {', '.join(sorted(_NAMES.values()))}"
            raise ValueError(f"option {key} is not known to the writer; {known}")
    if "path" not in given:
        raise ValueError("no path: give the log directory to save() that gets the partition directories")
    read = {attribute: converted(name, given[name], to) for name, (attribute, to) in _PLAIN.items() if name in given}
    found = SinkOptions(path=local(given["path"]), **read)
    if found.format in DRAFTS and not found.draft:
        raise ValueError(
            f"option format: {found.format} is a proposal that no broker serves; it is written with option draft=true"
        )
    if found.partition is not None and found.partition < 0:
        raise ValueError(f"option partition: {found.partition} is below 0")
    return found


def for_writing(options: Mapping[str, str]) -> bool:
    """Whether there is an option among them that only the writer knows: Spark does not say what it is up to."""
    return any(key.lower() in _NAMES.keys() - READ_NAMES.keys() for key in options)


def _format(text: str) -> str:
    return one_of(*SERVED, *DRAFTS)(text)


_PLAIN: dict[str, tuple[str, Callable[[str], Any]]] = {
    "format": ("format", _format),
    "draft": ("draft", boolean),
    "codec": ("codec", one_of(*CODECS)),
    "level": ("level", int),
    "batchSize": ("batch_size", positive_size),
    "segmentBytes": ("segment_bytes", positive_size),
    "indexInterval": ("index_interval", positive_size),
    "offsets": ("offsets", one_of("keep", "assign")),
    "topic": ("topic", str),
    "partition": ("partition", int),
    "leaderEpoch": ("leader_epoch", int),
    "producers": ("producers", one_of("drop", "keep")),
}
_NAMES = {name.lower(): name for name in (*_PLAIN, "path")}

_NUMBERS = (IntegerType, LongType, ShortType, ByteType)
_BYTES = (BinaryType, StringType)
_TYPES: dict[str, tuple[type[DataType], ...]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": (StringType,),
    "partition": _NUMBERS,
    "offset": _NUMBERS,
    "timestamp": (TimestampType,),
    "timestampms": _NUMBERS,
    "timestamptype": _NUMBERS,
    "leaderepoch": _NUMBERS,
    "tombstone": (BooleanType,),
    "iscontrol": (BooleanType,),
    "istransactional": (BooleanType,),
    "producerid": _NUMBERS,
    "producerepoch": _NUMBERS,
    "sequence": _NUMBERS,
}
"""What each column may be, which Rust then takes as it is."""


def check(schema: StructType, options: SinkOptions) -> SinkOptions:
    """Refuses columns that would be lost or cannot be written; decides what the columns tell."""
    from magicbyte import _core

    known = {name.lower(): name for name in _core.COLUMNS}
    seen: set[str] = set()
    for field in schema:
        name = field.name.lower()
        if name not in known:
            near = get_close_matches(name, list(known), n=1, cutoff=0.6)
            hint = f"did you mean {known[near[0]]}?" if near else "drop it, or put it into value or headers"
            raise ValueError(f"column {field.name} is no part of a record: {hint}")
        if name in seen:
            raise ValueError(f"column {field.name} twice")
        seen.add(name)
        if not _fits(name, field.dataType):
            raise ValueError(f"column {field.name} cannot be {field.dataType.simpleString()}; cast it first")
    if "value" not in seen:
        raise ValueError("no column value")
    for name, given in (("topic", options.topic), ("partition", options.partition)):
        if given is None and name not in seen:
            raise ValueError(f"no column {name}, and no option {name} that names one for all rows")
    if options.topic is not None:
        place(options.topic, options.partition or 0)
    keep = options.offsets or ("keep" if "offset" in seen else "assign")
    if keep == "keep" and "offset" not in seen:
        raise ValueError("option offsets: there is no column offset to keep")
    if keep == "assign" and options.format == "v0" and options.codec != "none":
        raise ValueError("compressed v0 holds its offsets inside, so they cannot be assigned at the end; use v1 or v2")
    if "leaderepoch" in seen and options.leader_epoch is not None:
        raise ValueError("leaderEpoch: give the option or the column, not both")
    if options.producers == "keep":
        _check_producers(seen, options.format, keep)
    # The fields of SinkOptions decide from here on.
    changed = {**options.__dict__, "offsets": keep}
    return SinkOptions(**changed)


PRODUCERS = ("producerId", "producerEpoch", "sequence", "isTransactional", "isControl")
"""The columns without which a producer's batches cannot be written as they were."""


def _check_producers(seen: set[str], format: str, offsets: str) -> None:
    if format not in BATCHES:
        raise ValueError(f"option producers: {format} has none; {', '.join(BATCHES)} have")
    if offsets != "keep":
        raise ValueError("option producers: sequences go with offsets, so both are kept (offsets=keep)")
    missing = [name for name in PRODUCERS if name.lower() not in seen]
    if missing:
        raise ValueError(
            f"option producers: there is no column {missing[0]}; read with columns=+{','.join(PRODUCERS)} and control=true"
        )


def place(topic: str, partition: int) -> str:
    """The name of a partition's directory; ``ValueError`` where no broker would take it, or it would lead elsewhere."""
    from magicbyte import _core

    name = f"{topic}-{partition}"
    if _core.topic_partition(name) != (topic, partition):
        raise ValueError(
            f"topic {topic!r}, partition {partition}: a topic's name has 1 to 249 of a-z A-Z 0-9 . _ -, "
            "a partition's number is not below 0"
        )
    return name


def _fits(name: str, of: DataType) -> bool:
    if isinstance(of, NullType):
        return True
    if name == "headers":
        inner = of.elementType if isinstance(of, ArrayType) else None
        if not isinstance(inner, StructType) or len(inner) != 2:
            return False
        return isinstance(inner[0].dataType, StringType) and isinstance(inner[1].dataType, _BYTES)
    if name == "rawheaderkeys":
        return isinstance(of, ArrayType) and isinstance(of.elementType, _BYTES)
    return name not in _TYPES or isinstance(of, _TYPES[name])
