"""Topics that speak many languages: which deserializer a record gets is said by its content type.

    polyglot = Polyglot({"application/json": JsonDeserializer(), "text/*": StringDeserializer()})
    for record in Chain(polyglot)(log.records()): ...       # values are objects; unknown types are marked, and stay bytes

The header is ``content-type``, UTF-8 text as HTTP has it: parameters behind ``;`` are left to the deserializer, letters may be large
or small. Types are matched as they are first, then by patterns in the order given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from magicbyte._core import ConsumerRecord
from magicbyte.records import ProducerRecord
from magicbyte.serdes import as_deserializer, as_serializer

from ._base import Answer, HeaderMiddleware, HeaderName, Policy, Quarantine, each, header_name, one_value

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["HEADER", "Polyglot", "media_type"]

HEADER = "content-type"
CACHED = 4096


def media_type(value: bytes | None) -> str:
    """A content type without parameters and in small letters; empty where there is none. Bytes that are no UTF-8 show as
    replacement characters, and so fit nothing."""
    return (value or b"").decode("utf-8", "replace").partition(";")[0].strip().lower()


class Polyglot(HeaderMiddleware):
    """Deserializes by content type where records come in; serializes by the value's class where they are sent.

    Args:
        deserializers: by content type or pattern (``text/*``): a ``Deserializer``, or whatever ``serdes.as_deserializer`` takes.
        serializers: by content type, in the same way.
        classes: the content type of values of a class that are sent without one; subclasses count, the first that fits.
        default: the content type of records that do not say theirs; None: such a record is ``untyped``.
        header: the header's name.
        policy, quarantine: for bad records: ``repeated`` (with different types), ``untyped``, ``unknown type``, ``broken`` (the
            deserializer raised an error). By default they go on as bytes, marked.

    Works in ``on_send``, before serializers, and ``on_record``, behind deserializers: those of the client are for bytes then.
    Null values stay null, whatever their type. Counts also ``read``, ``written``, ``left``, ``null``.
    """

    def __init__(
        self,
        deserializers: Mapping[str, Any] | None = None,
        *,
        serializers: Mapping[str, Any] | None = None,
        classes: Mapping[type, str] | None = None,
        default: str | None = None,
        header: HeaderName = HEADER,
        policy: Policy = "quarantine",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        self.deserializers = {kind.lower(): as_deserializer(one) for kind, one in (deserializers or {}).items()}
        self.serializers = {kind.lower(): as_serializer(one) for kind, one in (serializers or {}).items()}
        self.classes = dict(classes or {})
        self.default = default
        self.header = header_name(header)
        self._ready()

    def _ready(self) -> None:
        self._found: dict[bytes | None, Any] = {}

    def _deserializer(self, kind: bytes | None) -> Any:
        """The deserializer, or why there is none: (outcome, detail)."""
        found = self._found.get(kind)
        if found is None:
            name = media_type(kind) or media_type((self.default or "").encode())
            found = _fitting(self.deserializers, name) or (("unknown type", name[:80]) if name else ("untyped", ""))
            if len(self._found) < CACHED:
                self._found[kind] = found
        return found

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Serializes the value, and says its type where the sender did not. Bytes are taken as serialized already.

        Raises:
            ValueError: there is no serializer for this type, or no type for this class.
            SerializationError: the serializer cannot write this value.
        """
        if record.value is None or isinstance(record.value, bytes):
            self.counts.add("null" if record.value is None else "left")
            return record
        kind = record.headers.last_header(self.header)
        if kind is not None:
            name = media_type(kind.value)
        else:
            name = next((one for cls, one in self.classes.items() if isinstance(record.value, cls)), self.default or "")
        serializer = _fitting(self.serializers, media_type(name.encode()))
        if serializer is None:
            raise ValueError(f"no serializer for {name or type(record.value).__name__!r}")
        made = record.copy()
        if kind is None:
            made.headers.add(self.header, name.encode())
        made.value = serializer.serialize(record.topic, made.headers, record.value)
        self.counts.add("written")
        return made

    def on_record(self, record: ConsumerRecord) -> Answer:
        """Deserializes the value."""
        if record.value is None:
            self.counts.add("null")
            return record
        kind, count = one_value(record.headers, self.header)
        if count > 1 and len({media_type(value) for value in record.headers.get(self.header)}) > 1:
            return self.bad(record, "repeated")
        found = self._deserializer(kind)
        if isinstance(found, tuple):
            return self.bad(record, *found)
        made = record.copy()
        try:
            value = found.deserialize(record.topic, made.headers, record.value)
        # Deserializers come from anywhere, and so do bytes: whatever goes wrong is this record's.
        except Exception as error:
            return self.bad(record, "broken", f"{media_type(kind)[:80]}, {type(error).__name__}")
        self.counts.add("read")
        return made.replace(value=value)

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(polyglot.arrow, df.schema)``: what cannot be read is dealt with by the policy, for all rows at once.

        Values stay bytes: a column has one type. What makes columns of them is told by the content type then:
        ``from_json``, or ``SchemaHeaders.columns`` for Avro.
        """
        return each(batches, self._look)

    def _look(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np

        from ._arrow import HeaderColumn, column, groups, record_of

        headers = HeaderColumn.of(batch)
        kinds, counts = headers.last(self.header)
        null = column(batch, "value").is_null().to_numpy(zero_copy_only=False)
        self.counts.add("null", int(null.sum()))
        bad: dict[int, tuple[str, str]] = {}
        for row in np.flatnonzero((counts > 1) & ~null).tolist():
            if len({media_type(value) for value in record_of(batch, row).headers.get(self.header)}) > 1:
                bad[row] = ("repeated", "")
        for kind, rows in groups(kinds.dictionary_encode(null_encoding="encode")):
            found = self._deserializer(kind)
            if isinstance(found, tuple):
                bad |= {row: found for row in rows if not null[row] and row not in bad}
        self.counts.add("readable", batch.num_rows - int(null.sum()) - len(bad))
        return self.bad_rows(batch, bad)


def _fitting(known: Mapping[str, Any], name: str) -> Any:
    if not name:
        return None
    if name in known:
        return known[name]
    return next((one for pattern, one in known.items() if "*" in pattern and fnmatchcase(name, pattern)), None)
