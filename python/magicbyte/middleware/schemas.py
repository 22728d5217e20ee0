"""Avro with the schema's identity in headers, so that values are plain Avro, and any reader finds the schema (extra ``avro``).

    schemas = SchemaHeaders(registry=DirectoryRegistry("schemas/"), schema=ORDER, write="confluent")
    Producer(config, value_serializer=schemas)         # or interceptors=[schemas]: objects in, Avro and a header out
    Consumer(config, value_deserializer=schemas)       # or interceptors=[schemas]: objects out
    df.mapInArrow(schemas.typed(), ...)                # in Spark: records of many schemas as typed columns

Identities, by the name under which ``write`` and ``read`` know them; ``key`` stands for ``value`` where keys are meant:

    confluent     ``__value_schema_id``: 01 and a 16-byte GUID, or 00 and an int32 id; Protobuf's message indexes may follow. Of
                  several headers the last one counts, as in Java
    apicurio      ``apicurio.value.globalId``, else ``.contentId``: int64; ``apicurio.value.encoding``: ``BINARY``
    md5           ``schema-md5`` (``key-schema-md5``): the 16 bytes of the MD5 of the canonical form; ``content-type``: ``avro/binary``
    prefix        no header: 00 and an int32 id, or 01 and a GUID, before the value itself

All numbers are big-endian. They are looked for in the order of ``read``; a header that is there and cut is not passed over for the next.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from magicbyte._core import ConsumerRecord, Headers
from magicbyte._extras import extra
from magicbyte.records import ProducerRecord
from magicbyte.serdes import SerializationError

from ._base import Answer, HeaderMiddleware, Policy, Quarantine
from .registries import Registry, md5_of

with extra("avro"):
    import fastavro

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["SchemaHeaders", "SchemaId", "confluent_id"]

Style = Literal["confluent", "apicurio", "md5", "prefix"]
Schema = dict[str, Any] | list[Any] | str
STYLES: tuple[Style, ...] = ("confluent", "apicurio", "md5", "prefix")
AVRO = b"avro/binary"
CACHED = 4096
INT, LONG = struct.Struct(">i"), struct.Struct(">q")


class SchemaId(NamedTuple):
    """Who a schema is: by id, GUID or MD5; the others are None. ``indexes``: Protobuf's path to a message."""

    id: int | None = None
    guid: str | None = None
    md5: bytes | None = None
    indexes: tuple[int, ...] = ()


def confluent_id(data: bytes) -> tuple[SchemaId, bytes] | None:
    """A schema id in Confluent's form at the beginning of bytes, and what is behind it; None if there is none."""
    if len(data) >= 5 and data[0] == 0:
        return SchemaId(id=INT.unpack_from(data, 1)[0]), data[5:]
    if len(data) >= 17 and data[0] == 1:
        return SchemaId(guid=str(uuid.UUID(bytes=data[1:17]))), data[17:]
    return None


def message_indexes(data: bytes) -> tuple[int, ...] | None:
    """Protobuf's message indexes: a zigzag count and so many zigzag varints; a count of 0 means the first message. None if cut."""
    numbers: list[int] = []
    at, wanted = 0, 1
    while len(numbers) < wanted:
        value = shift = 0
        while True:
            if at >= len(data) or shift > 28:
                return None
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if not data[at - 1] & 0x80:
                break
        numbers.append((value >> 1) ^ -(value & 1))
        if len(numbers) == 1:
            wanted = 1 + numbers[0]
            if not 0 <= numbers[0] <= len(data):
                return None
    return tuple(numbers[1:]) or (0,)


class SchemaHeaders(HeaderMiddleware):
    """Writes objects as Avro and says by which schema; reads them again by the schema that wrote them.

    Args:
        registry: where schemas are kept.
        schema: of what is sent: an Avro schema, or schemas by topic (patterns as ``orders-*``; the first that fits). None: only reads.
        reader_schema: what comes in is read as this, by Avro's rules of resolution; None: as it was written.
        write: how the identity is said.
        read: which ones are looked for, in this order.
        field: ``value`` or ``key``. For both take one of each.
        subject: of (topic, field): where a schema is registered; ``topic-value`` by default.
        policy, quarantine: for bad records: ``no schema`` (none is named), ``malformed`` (a header that is cut), ``unknown schema``,
            ``unknown encoding``, ``broken`` (not of the schema). By default they go on as bytes, marked.

    Null stays null. Counts also ``written``, ``read``, ``null``.
    """

    def __init__(
        self,
        *,
        registry: Registry,
        schema: Schema | Mapping[str, Schema] | None = None,
        reader_schema: Schema | None = None,
        write: Style = "confluent",
        read: Sequence[Style] = STYLES,
        field: Literal["value", "key"] = "value",
        subject: Callable[[str, str], str] | None = None,
        policy: Policy = "quarantine",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        if not {write, *read} <= set(STYLES) or field not in ("value", "key"):
            raise ValueError(f"write and read are of {', '.join(STYLES)}; field is value or key")
        self.registry, self.write, self.read, self.field = registry, write, tuple(read), field
        by_topic = isinstance(schema, Mapping) and "type" not in schema
        self.schemas: dict[str, str] = {}
        if schema is not None:
            chosen: Mapping[str, Any] = schema if by_topic and isinstance(schema, Mapping) else {"*": schema}
            self.schemas = {topic: _text(one) for topic, one in chosen.items()}
        self.reader_schema = None if reader_schema is None else _text(reader_schema)
        self.subject = subject
        self._ready()

    def _ready(self) -> None:
        self._writers: dict[str, tuple[Any, SchemaId]] = {}
        self._parsed: dict[SchemaId, Any] = {}
        self._reader = None if self.reader_schema is None else fastavro.parse_schema(json.loads(self.reader_schema))
        prefix = "" if self.field == "value" else "key-"
        self._names = {
            "confluent": f"__{self.field}_schema_id",
            "md5": f"{prefix}schema-md5",
            "content-type": f"{prefix}content-type",
            "global": f"apicurio.{self.field}.globalId",
            "content": f"apicurio.{self.field}.contentId",
            "encoding": f"apicurio.{self.field}.encoding",
        }

    # Writing

    def _writer(self, topic: str) -> tuple[Any, SchemaId]:
        found = self._writers.get(topic)
        if found is None:
            text = next((one for pattern, one in self.schemas.items() if fnmatchcase(topic, pattern)), None)
            if text is None:
                raise SerializationError(f"no schema for topic {topic}", topic, self.field)
            subject = self.subject(topic, self.field) if self.subject else f"{topic}-{self.field}"
            made = self.registry.register(subject, text)
            if self.write == "confluent" and not made.guid:
                identity = SchemaId(id=made.id)  # a registry that gives no GUIDs
            else:
                identity = SchemaId(made.id, made.guid, md5_of(text))
            found = fastavro.parse_schema(json.loads(text)), identity
            if len(self._writers) < CACHED:
                self._writers[topic] = found
        return found

    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        """Avro bytes; the identity goes into the headers, in the place of one that was there.

        Raises:
            SerializationError: the object is not of the schema, or the topic has none.
        """
        if data is None:
            self.counts.add("null")
            return None
        schema, identity = self._writer(topic)
        out = io.BytesIO()
        if self.write == "prefix":
            out.write(b"\0" + INT.pack(identity.id or 0))
        try:
            fastavro.schemaless_writer(out, schema, data, strict_allow_default=True)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
            raise SerializationError(f"not of the schema: {error}", topic, self.field) from error
        for name, value in self._identity(identity):
            if name in headers:
                headers.remove(name)
            headers.add(name, value)
        self.counts.add("written")
        return out.getvalue()

    def _identity(self, identity: SchemaId) -> list[tuple[str, bytes]]:
        names = self._names
        if self.write == "confluent":
            guid = identity.guid
            value = b"\1" + uuid.UUID(guid).bytes if guid else b"\0" + INT.pack(identity.id or 0)
            return [(names["confluent"], value)]
        if self.write == "apicurio":
            return [(names["global"], LONG.pack(identity.id or 0)), (names["encoding"], b"BINARY")]
        if self.write == "md5":
            return [(names["content-type"], AVRO), (names["md5"], identity.md5 or b"")]
        return []

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Serializes the key or value; bytes are taken as serialized already."""
        data = record.key if self.field == "key" else record.value
        if not self.schemas or isinstance(data, bytes):
            return record
        made = record.copy()
        setattr(made, self.field, self.serialize(record.topic, made.headers, data))
        return made

    # Reading

    def identify(self, headers: Headers, data: bytes) -> tuple[SchemaId, bytes] | tuple[str, str]:
        """The schema that wrote this and the bytes of the object, or what is wrong: (outcome, detail)."""
        return self._identified(
            {name: found.value for name in self._names.values() if (found := headers.last_header(name))}, data
        )

    def _identified(self, last: Mapping[str, bytes | None], data: bytes) -> tuple[SchemaId, bytes] | tuple[str, str]:
        names = self._names
        for style in self.read:
            if style == "confluent" and names["confluent"] in last:
                found = confluent_id(last[names["confluent"]] or b"")
                if found is None:
                    return "malformed", names["confluent"]
                return found[0]._replace(indexes=message_indexes(found[1]) or ()), data
            if style == "apicurio":
                name = names["global"] if names["global"] in last else names["content"]
                if name in last:
                    id = _int64(last[name] or b"")
                    if id is None:
                        return "malformed", name
                    encoding = (last.get(names["encoding"]) or b"BINARY").upper()
                    if encoding != b"BINARY":
                        return "unknown encoding", encoding[:20].decode("utf-8", "replace")
                    return SchemaId(id=id), data
            if style == "md5" and names["md5"] in last:
                md5 = last[names["md5"]] or b""
                return (SchemaId(md5=md5), data) if len(md5) == 16 else ("malformed", names["md5"])
            if style == "prefix" and (found := confluent_id(data)) is not None:
                return found
        return "no schema", ""

    def _schema(self, who: SchemaId) -> Any:
        """The schema that wrote it, parsed; None if the registry does not know it, or it is no Avro."""
        who = who._replace(indexes=())
        found = self._parsed.get(who)
        if found is None:
            text: str | None = None
            if who.id is not None:
                text = self.registry.by_id(who.id)
            elif who.guid is not None:
                text = self.registry.by_guid(who.guid)
            elif who.md5 is not None:
                text = self.registry.by_md5(who.md5)
            if text is None:
                return None
            try:
                found = fastavro.parse_schema(json.loads(text))
            except Exception:  # the id may be that of another kind of schema: whoever wrote the header chose it
                return None
            if len(self._parsed) < CACHED:
                self._parsed[who] = found
        return found

    def _read(self, last: Mapping[str, bytes | None], data: bytes) -> tuple[Any] | tuple[str, str]:
        """(the object,), or (outcome, detail)."""
        found = self._identified(last, data)
        if isinstance(found[0], str):
            return found
        who, body = found
        schema = self._schema(who)
        if schema is None:
            return "unknown schema", who.guid or (str(who.id) if who.id is not None else (who.md5 or b"").hex())
        source = io.BytesIO(body)
        try:
            made = fastavro.schemaless_reader(source, schema, self._reader)
        # Bytes of any kind may come here, and the library lets many kinds of errors out.
        except Exception as error:
            return "broken", type(error).__name__
        if source.tell() != len(body):
            return "broken", "bytes behind the object"
        return (made,)

    def _last(self, headers: Headers) -> dict[str, bytes | None]:
        return {name: found.value for name in self._names.values() if (found := headers.last_header(name)) is not None}

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        """The object.

        Raises:
            SerializationError: for each of the outcomes of bad records.
        """
        if data is None:
            self.counts.add("null")
            return None
        done = self._read(self._last(headers), data)
        if len(done) == 2:
            self.counts.add(done[0])
            raise SerializationError(", ".join(filter(None, done)), topic, self.field)
        self.counts.add("read")
        return done[0]

    def on_record(self, record: ConsumerRecord) -> Answer:
        """Deserializes the key or value; the headers stay."""
        data = record.key if self.field == "key" else record.value
        if data is None:
            self.counts.add("null")
            return record
        done = self._read(self._last(record.headers), data)
        if len(done) == 2:
            return self.bad(record, *done)
        self.counts.add("read")
        return record.replace(**{self.field: done[0]})

    # Columns

    def typed(
        self, keep: Sequence[str] = ("topic", "partition", "offset", "timestamp")
    ) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """A function for ``df.mapInArrow(schemas.typed(), ddl)``: rows of Kafka's columns in, typed columns out, whatever schemas wrote
        them: the columns ``keep``, the fields of ``reader_schema`` (a record), and ``schema_error``: null, or why a row's fields
        are null. ``typed_schema`` says the types. Under ``policy="reject"`` bad rows are left out, under ``"raise"`` they raise; a
        quarantine callable gets them as records, and what it returns is not used.

        Raises:
            ValueError: there is no reader schema, or it is no record.
        """
        from ._avro_arrow import rows_to_columns

        self.typed_schema(keep)
        return lambda batches: (rows_to_columns(self, batch, keep) for batch in batches)

    def typed_schema(self, keep: Sequence[str] = ("topic", "partition", "offset", "timestamp")) -> pa.Schema:
        """The Arrow schema of ``typed``; ``pyspark.sql.pandas.types.from_arrow_schema`` makes Spark's of it."""
        from ._avro_arrow import schema_of

        return schema_of(self.reader_schema, keep)


def _text(schema: Any) -> str:
    """A schema as JSON text, looked at once."""
    # The name of a primitive type is text, too, and no JSON.
    text = schema if isinstance(schema, str) and schema.lstrip()[:1] in '{["' else json.dumps(schema)
    fastavro.parse_schema(json.loads(text))
    return text


def _int64(data: bytes) -> int | None:
    if len(data) == 8:
        number: int = LONG.unpack(data)[0]
        return number
    return int(data) if data.isdigit() and len(data) < 20 else None  # written as text by some
