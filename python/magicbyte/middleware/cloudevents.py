"""CloudEvents 1.0 on Kafka records: binary and structured mode, both ways, by the Kafka protocol binding.

    events = CloudEvents(source="/orders", type="com.example.order")
    Producer(config, interceptors=[events])          # what is no event yet becomes one
    Consumer(config, interceptors=[events])          # structured events come out in binary mode: one form for all behind
    event_of(record).type                            # what a record says, in either mode

Binary mode: each attribute is a header ``ce_`` and its name, UTF-8; ``content-type`` is ``datacontenttype``; the value is the data.
Structured mode: ``content-type`` begins with ``application/cloudevents``, in any case of letters; the value is the whole event in JSON
(``data``, or ``data_base64`` for what is no text).

The tombstone rule: an event without data is a null value in binary mode, and so deletes its key in a compacted topic; in structured
mode it has a value and deletes nothing. So null values are never put into structured mode, and a structured event without data
comes out with a null value and ``tombstone=False``.

JSON data that comes out of structured mode is the same JSON, not the same bytes: white space between values is gone.

Batched mode is not a part of the binding, and is passed on as bytes of an unknown event format.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from magicbyte._core import ConsumerRecord, Headers
from magicbyte.errors import MagicbyteError
from magicbyte.records import ProducerRecord

from ._base import Answer, AnyRecord, HeaderMiddleware, Policy, Quarantine, each

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ATTRIBUTES", "CloudEvent", "CloudEvents", "NoEventError", "event_of", "partition_key", "to_record"]

Mode = Literal["binary", "structured"]
PREFIX = "ce_"
CONTENT_TYPE = "content-type"
MEDIA_TYPE = "application/cloudevents"
STRUCTURED = "application/cloudevents+json; charset=UTF-8"
REQUIRED = ("specversion", "id", "source", "type")
OPTIONAL = ("datacontenttype", "dataschema", "subject", "time")
ATTRIBUTES = (*REQUIRED, *OPTIONAL)
"""The attributes of the core specification, in the order in which they are written."""
NAME = re.compile(r"[a-z0-9]+")
JSON_TYPE = re.compile(r"[^;]*[/+]json\s*(;|$)", re.IGNORECASE)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# Made once: the functions of the module make a new one for each call with options.
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
DECODER = json.JSONDecoder(parse_constant=_no_constant)


class NoEventError(MagicbyteError):
    """A record that is no CloudEvent (``outcome`` ``no event``), or no sound one (``malformed``, ``unknown format``)."""

    def __init__(self, outcome: str, detail: str = "") -> None:
        super().__init__(f"{outcome}, {detail}" if detail else outcome)
        self.outcome, self.detail = outcome, detail

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (self.outcome, self.detail))


@dataclass(frozen=True, kw_only=True)
class CloudEvent:
    """An event: the attributes of the core specification, the others, and the data as bytes (None: there is none)."""

    id: str
    source: str
    type: str
    specversion: str = "1.0"
    datacontenttype: str | None = None
    dataschema: str | None = None
    subject: str | None = None
    time: str | None = None
    data: bytes | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)

    def attributes(self) -> dict[str, str]:
        """All that it has, data left out."""
        own = {name: getattr(self, name) for name in ATTRIBUTES}
        return {name: value for name, value in {**own, **self.extensions}.items() if value is not None}


def _event(attributes: dict[str, str], data: bytes | None) -> CloudEvent:
    for name in REQUIRED:
        if not attributes.get(name):
            raise NoEventError("malformed", f"no {name}")
    if attributes["specversion"] != "1.0":
        raise NoEventError("malformed", f"specversion {attributes['specversion'][:20]}")
    for name in attributes:
        if not NAME.fullmatch(name):
            raise NoEventError("malformed", f"attribute {name[:40]}")
    own = {name: attributes.pop(name) for name in ATTRIBUTES if name in attributes}
    return CloudEvent(**own, data=data, extensions=attributes)


def event_of(record: AnyRecord) -> CloudEvent:
    """The event that a record is, whose key and value are bytes.

    Raises:
        NoEventError: it is none: neither mode, an attribute that is missing, repeated, no UTF-8 or of a wrong name, or an
            event format that is not JSON.
    """
    kind = _text(record.headers, CONTENT_TYPE)
    if kind is not None and kind.lower().startswith(MEDIA_TYPE):
        return _structured(kind, record.value)
    attributes: dict[str, str] = {}
    for header in record.headers:
        if header.key.startswith(PREFIX):
            name = header.key[len(PREFIX) :]
            if name in attributes:
                raise NoEventError("malformed", f"{name[:40]} is repeated")
            attributes[name] = _decoded(header.value, name)
    if "specversion" not in attributes:
        raise NoEventError("no event")
    if kind is not None:
        attributes["datacontenttype"] = kind
    return _event(attributes, record.value)


def _decoded(value: bytes | None, name: str) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        raise NoEventError("malformed", f"{name[:40]} is no UTF-8") from None


def _text(headers: Headers, name: str) -> str | None:
    found = headers.last_header(name)
    return None if found is None else _decoded(found.value, name)


def _structured(kind: str, value: bytes | None) -> CloudEvent:
    form = kind.partition(";")[0].strip().lower()
    if form not in (MEDIA_TYPE, MEDIA_TYPE + "+json"):
        raise NoEventError("unknown format", form[:60])
    try:
        given = _parsed((value or b"").decode())
    except (ValueError, RecursionError):
        raise NoEventError("malformed", "no JSON") from None
    if not isinstance(given, dict):
        raise NoEventError("malformed", "no JSON object")
    data = _data(given)
    attributes = {}
    for name, one in given.items():
        if isinstance(one, bool) or (isinstance(one, int) and -(2**31) <= one < 2**31):
            one = json.dumps(one)  # the canonical string form of a Boolean and of an Integer
        if one is not None and not isinstance(one, str):
            raise NoEventError("malformed", f"attribute {name[:40]} is no text, Boolean or 32-bit integer")
        if one is not None:
            attributes[name] = one
    return _event(attributes, data)


def _data(given: dict[str, Any]) -> bytes | None:
    """Takes the data out of a structured event; JSON values as JSON, strings of other types as their text."""
    coded, data = given.pop("data_base64", None), given.pop("data", None)
    if coded is not None:
        if data is not None or not isinstance(coded, str):
            raise NoEventError("malformed", "data_base64")
        try:
            return base64.b64decode(coded, validate=True)
        except ValueError:
            raise NoEventError("malformed", "data_base64") from None
    if data is None:
        return None
    kind = given.get("datacontenttype")
    try:
        if isinstance(data, str) and isinstance(kind, str) and not JSON_TYPE.match(kind):
            return data.encode()
        return ENCODER.encode(data).encode()
    except (ValueError, RecursionError):
        raise NoEventError("malformed", "data") from None


def to_record(
    event: CloudEvent,
    topic: str,
    key: bytes | None = None,
    mode: Mode = "binary",
    *,
    key_mapper: Callable[[CloudEvent], bytes | None] | None = None,
    **fields: Any,
) -> ProducerRecord:
    """The record of an event. ``fields`` are more of ``ProducerRecord``: ``headers``, ``partition``, ``timestamp``.

    Args:
        key_mapper: makes the key of the event where ``key`` is None; ``partition_key`` is the specification's own.
    """
    if key is None and key_mapper is not None:
        key = key_mapper(event)
    record = ProducerRecord(topic, event.data, key, **fields)
    for header in [one.key for one in record.headers if one.key.startswith(PREFIX) or one.key == CONTENT_TYPE]:
        record.headers.remove(header)
    if mode == "structured" and event.data is not None:
        record.value = _json(event)
        record.headers.add(CONTENT_TYPE, STRUCTURED.encode())
        return record
    _add(record.headers, event)
    return record


def partition_key(event: CloudEvent) -> bytes | None:
    """The key mapper of the binding: the extension ``partitionkey``, as it is."""
    found = event.extensions.get("partitionkey")
    return None if found is None else found.encode()


def _add(headers: Headers, event: CloudEvent) -> None:
    for name, value in event.attributes().items():
        headers.add(CONTENT_TYPE if name == "datacontenttype" else PREFIX + name, value.encode())


def _json(event: CloudEvent) -> bytes:
    attributes: dict[str, str] = event.attributes()
    data, kind = event.data or b"", event.datacontenttype
    try:
        text = data.decode()
        if kind is None or JSON_TYPE.match(kind):
            _parsed(text)
            inside = f'"data":{text}'  # as it was: numbers, white space and all
        elif kind.lower().startswith(("text/", "application/xml")):
            inside = f'"data":{ENCODER.encode(text)}'
        else:
            raise ValueError
    except (ValueError, RecursionError):
        inside = f'"data_base64":"{base64.b64encode(data).decode()}"'
    head = ENCODER.encode(attributes)
    return f"{head[:-1]},{inside}}}".encode()


def _parsed(text: str) -> Any:
    """Strict JSON.

    Raises:
        ValueError, RecursionError: it is none.
    """
    return DECODER.decode(text)


class CloudEvents(HeaderMiddleware):
    """Makes events of what is sent, and brings what comes in into binary mode.

    Args:
        source, type: of what is sent and is no event yet: then it gets an id (a UUID) and the time, too. None: it is left
            alone.
        mode: what is sent is brought into this mode; None leaves it in its own.
        required: what comes in and is no event is bad; else it passes, counted as ``no event``.
        policy, quarantine: for bad records: ``malformed``, ``unknown format``, and ``no event`` if required. By default they go on,
            marked.

    Counts also ``made``, ``sent`` (events as they were), ``event``.
    """

    def __init__(
        self,
        *,
        source: str | None = None,
        type: str | None = None,
        mode: Mode | None = None,
        required: bool = False,
        policy: Policy = "quarantine",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        if (source is None) != (type is None) or source == "" or type == "":
            raise ValueError("an event has a source and a type")
        if mode not in (None, "binary", "structured"):
            raise ValueError(f"mode is binary or structured, not {mode!r}")
        self.source, self.type, self.mode, self.required = source, type, mode, required

    def post_serialize(self, record: ProducerRecord) -> Answer:
        """Makes an event of the record, and brings it into the mode."""
        try:
            event = event_of(record)
            self.counts.add("sent")
        except NoEventError as error:
            if error.outcome != "no event":
                return self.bad(record, error.outcome, error.detail)
            if self.source is None or self.type is None:
                self.counts.add("no event")
                return record
            event = CloudEvent(
                id=str(uuid.uuid4()),
                source=self.source,
                type=self.type,
                time=datetime.now(UTC).isoformat().replace("+00:00", "Z"),
                datacontenttype=_text(record.headers, CONTENT_TYPE),
                data=record.value,
            )
            self.counts.add("made")
            return self._sent(record, event, self.mode or "binary")
        return record if self.mode is None else self._sent(record, event, self.mode)

    def _sent(self, record: ProducerRecord, event: CloudEvent, mode: Mode) -> ProducerRecord:
        made = to_record(event, record.topic, record.key, mode, headers=record.headers)
        return record.replace(value=made.value, headers=made.headers)

    def pre_deserialize(self, record: ConsumerRecord) -> Answer:
        """Brings a structured event into binary mode, and looks at a binary one."""
        try:
            event = event_of(record)
        except NoEventError as error:
            if error.outcome == "no event" and not self.required:
                self.counts.add("no event")
                return record
            return self.bad(record, error.outcome, error.detail)
        self.counts.add("event")
        if not (_text(record.headers, CONTENT_TYPE) or "").lower().startswith(MEDIA_TYPE):
            return record
        made = to_record(event, record.topic, headers=record.headers)
        if event.data is None:
            return record.replace(value=None, headers=made.headers, tombstone=False)
        return record.replace(value=event.data, headers=made.headers)

    # Columns

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(events.arrow, df.schema)``: the receiving side over rows of Kafka's columns.

        What is no event, and sound binary ones, are told apart for all rows at once; a record is made of the others only.
        """
        return each(batches, self._receive_rows)

    def _receive_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np
        import pyarrow.compute as pc

        from ._arrow import HeaderColumn, is_utf8

        headers = HeaderColumn.of(batch)
        kinds = headers.last(CONTENT_TYPE)[0]
        structured = pc.match_substring_regex(kinds.fill_null(b""), f"^{MEDIA_TYPE}", ignore_case=True)
        sound = is_utf8(kinds) & ~structured.to_numpy(zero_copy_only=False)
        plain = sound & ~headers.begins(PREFIX)
        sound &= self._binary_rows(headers)
        self.counts.add("event", int(sound.sum()))
        if not self.required:
            self.counts.add("no event", int(plain.sum()))
            sound |= plain
        return self._one_by_one(batch, np.flatnonzero(~sound).tolist(), self.pre_deserialize)

    def _one_by_one(self, batch: pa.RecordBatch, rows: list[int], work: Callable[[Any], Answer]) -> pa.RecordBatch:
        """Rows that have to be looked at as records."""
        from ._arrow import records_of, replaced

        answers: dict[int, list[AnyRecord]] = {}
        for row, before in zip(rows, records_of(batch, rows), strict=True):
            answer = work(before.copy())
            some = [answer] if isinstance(answer, ConsumerRecord | ProducerRecord) else list(answer)
            if (
                len(some) != 1
                or (some[0].value, some[0].headers) != (before.value, before.headers)
                or some[0].topic != before.topic
            ):
                answers[row] = some
        return replaced(batch, answers) if answers else batch

    def sending_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(events.sending_arrow, df.schema)``: the sending side over rows of Kafka's columns.

        What becomes an event in binary mode does so for all rows at once; a record is made of the others only.
        """
        return each(batches, self._send_rows)

    def _send_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from ._arrow import HeaderColumn, column, is_utf8, with_columns

        headers = HeaderColumn.of(batch)
        kinds, typed = headers.last(CONTENT_TYPE)
        structured = pc.match_substring_regex(kinds.fill_null(b""), f"^{MEDIA_TYPE}", ignore_case=True)
        plain = is_utf8(kinds) & ~structured.to_numpy(zero_copy_only=False) & ~headers.begins(PREFIX)
        if self.source is None or self.type is None:
            self.counts.add("no event", int(plain.sum()))
            return self._one_by_one(batch, np.flatnonzero(~plain).tolist(), self._sent_row)
        if self.mode == "structured":
            plain &= column(batch, "value").is_null().to_numpy(zero_copy_only=False)
        count = batch.num_rows
        ids = pa.array([str(uuid.uuid4()).encode() if made else None for made in plain.tolist()], pa.binary())
        made = headers.without(CONTENT_TYPE, plain)
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        for name, value in (("specversion", "1.0"), ("id", None), ("source", self.source), ("type", self.type)):
            values = ids if value is None else pa.array([value.encode()] * count, pa.binary())
            made = made.with_header(PREFIX + name, values, plain)
        made = made.with_header(CONTENT_TYPE, kinds.fill_null(b""), plain & (typed > 0))
        made = made.with_header(PREFIX + "time", pa.array([now.encode()] * count, pa.binary()), plain)
        self.counts.add("made", int(plain.sum()))
        done = with_columns(batch, {"headers": made.array()})
        return self._one_by_one(done, np.flatnonzero(~plain).tolist(), self._sent_row)

    def _sent_row(self, record: ConsumerRecord) -> Answer:
        """The sending side for a row, which is a record that was read; its place and time stay."""
        return self.post_serialize(record.to_producer_record(partition=record.partition))

    @staticmethod
    def _binary_rows(headers: Any) -> Any:
        """Rows that have what an event in binary mode needs, without any doubt."""
        import pyarrow.compute as pc

        sound = headers.sound_names(PREFIX, NAME.pattern)
        for name in REQUIRED:
            values = headers.last(PREFIX + name)[0]
            fits = pc.equal(values, b"1.0") if name == "specversion" else pc.greater(pc.binary_length(values), 0)
            sound &= pc.fill_null(fits, False).to_numpy(zero_copy_only=False)
        return sound

    def columns(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The attributes of binary events as columns behind those that are there: ``ce_id``, ``ce_source``, … as text, null where
        a row has none, ``ce_datacontenttype`` the content type. Behind ``arrow``, where structured events may occur."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from ._arrow import HeaderColumn, is_utf8

        for batch in batches:
            headers = HeaderColumn.of(batch)
            for name in ATTRIBUTES:
                values, _ = headers.last(CONTENT_TYPE if name == "datacontenttype" else PREFIX + name)
                text = pc.if_else(pa.array(is_utf8(values)), values, pa.scalar(None, pa.binary())).cast(pa.string())
                batch = batch.append_column(pa.field(PREFIX + name, pa.string()), text)
            yield batch
