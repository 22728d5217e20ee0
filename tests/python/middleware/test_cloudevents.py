"""CloudEvents: the specification's examples, the tombstone rule, the CloudEvents SDK as oracle, hostile headers."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.middleware import quarantined
from magicbyte.middleware.cloudevents import CloudEvent, CloudEvents, NoEventError, event_of, partition_key, to_record

from kafka_rows import records_of, rows_of

# Kafka protocol binding 1.0.2, 3.2.5 and 3.3.4.
BINARY = mb.ProducerRecord(
    "mytopic",
    b"\x02avro",
    b"mykey",
    [
        ("ce_specversion", b"1.0"),
        ("ce_type", b"com.example.someevent"),
        ("ce_source", b"/mycontext/subcontext"),
        ("ce_id", b"1234-1234-1234"),
        ("ce_time", b"2018-04-05T03:56:24Z"),
        ("content-type", b"application/avro"),
    ],
)
STRUCTURED = mb.ProducerRecord(
    "mytopic",
    b"""{
    "specversion" : "1.0",
    "type" : "com.example.someevent",
    "source" : "/mycontext/subcontext",
    "id" : "1234-1234-1234",
    "time" : "2018-04-05T03:56:24Z",
    "datacontenttype" : "application/xml",
    "data" : "<much wow=\\"xml\\"/>"
}""",
    b"mykey",
    [("content-type", b"application/cloudevents+json; charset=UTF-8")],
)
# JSON event format 1.0.2, 3.1.1: what stands in an event as data → the bytes that it is.
DATA = [
    (
        '"datacontenttype": "application/json", "data": {"appinfoA": "abc", "appinfoB": 123, "appinfoC": true}',
        b'{"appinfoA":"abc","appinfoB":123,"appinfoC":true}',
    ),
    ('"datacontenttype": "application/json", "data": "I\'m just a string"', b'"I\'m just a string"'),
    ('"data": {"appinfoA": "abc"}', b'{"appinfoA":"abc"}'),
    ('"datacontenttype": "text/xml", "data": "<much wow=\\"xml\\"/>"', b'<much wow="xml"/>'),
    ('"datacontenttype": "application/vnd.apache.thrift.binary", "data_base64": "AAEC/w=="', b"\0\1\2\xff"),
    ('"datacontenttype": "application/vnd.sdf+json; charset=utf-8", "data": [1, null]', b"[1,null]"),
    ('"data": null', None),
    ('"subject": "none"', None),
]


def received(record: Any) -> mb.ConsumerRecord:
    return mb.ConsumerRecord(record.topic, 0, 7, 1000, 0, record.key, record.value, record.headers)


def structured(rest: str) -> mb.ProducerRecord:
    body = '{"specversion": "1.0", "type": "t", "source": "s", "id": "i", ' + rest + "}"
    return mb.ProducerRecord("t", body.encode(), None, [("content-type", b"APPLICATION/CloudEvents+JSON")])


def test_the_bindings_examples() -> None:
    event = event_of(BINARY)
    assert event == CloudEvent(
        id="1234-1234-1234",
        source="/mycontext/subcontext",
        type="com.example.someevent",
        time="2018-04-05T03:56:24Z",
        datacontenttype="application/avro",
        data=b"\x02avro",
    )
    again = to_record(event, "mytopic", b"mykey")
    assert sorted(again.headers.to_list()) == sorted(BINARY.headers.to_list()) and again.value == BINARY.value
    event = event_of(STRUCTURED)
    assert (event.id, event.datacontenttype, event.data) == ("1234-1234-1234", "application/xml", b'<much wow="xml"/>')
    again = to_record(event, "mytopic", b"mykey", "structured")
    assert again.headers == STRUCTURED.headers and json.loads(again.value) == json.loads(STRUCTURED.value)


@pytest.mark.parametrize("rest, data", DATA)
def test_the_json_formats_examples(rest: str, data: bytes | None) -> None:
    event = event_of(structured(rest))
    assert event.data == data
    assert event_of(to_record(event, "t", mode="structured")) == event
    assert event_of(to_record(event, "t", mode="binary")) == event


def test_extensions() -> None:
    event = event_of(
        structured('"comexampleextension1": "value", "comexampleothervalue": 5, "flag": true, "gone": null')
    )
    assert event.extensions == {"comexampleextension1": "value", "comexampleothervalue": "5", "flag": "true"}
    keyed = to_record(
        CloudEvent(id="1", source="s", type="t", extensions={"partitionkey": "k"}), "t", key_mapper=partition_key
    )
    assert keyed.key == b"k" and keyed.headers.last["ce_partitionkey"] == b"k"
    assert to_record(event, "t", key_mapper=partition_key).key is None


def test_the_tombstone_rule() -> None:
    nothing = CloudEvent(id="1", source="s", type="deleted")
    for mode in ("binary", "structured"):
        record = to_record(nothing, "t", b"k", mode)  # type: ignore[arg-type]
        assert record.value is None and record.tombstone
    kept = CloudEvents(mode="structured").post_serialize(to_record(nothing, "t", b"k"))
    assert kept.value is None and kept.headers.last["ce_id"] == b"1"
    # A structured event without data has a value: it deletes nothing, and says so when it comes out with a null value.
    [come] = [CloudEvents().pre_deserialize(received(structured('"subject": "x"')))]
    assert come.value is None and not come.tombstone and come.headers.last["ce_subject"] == b"x"
    deleted = received(to_record(nothing, "t", b"k"))
    assert CloudEvents().pre_deserialize(deleted).tombstone


def test_the_sdk_agrees() -> None:
    """What the CloudEvents SDK writes we read, and what we write it reads, in both modes."""
    kafka = pytest.importorskip("cloudevents.core.bindings.kafka")
    from cloudevents.core.formats.json import JSONFormat
    from cloudevents.core.v1.event import CloudEvent as Theirs

    attributes = {
        "id": "7",
        "source": "/ä/é",
        "type": "com.example",
        "subject": "s",
        "ext": "x",
        "datacontenttype": "application/json",
    }
    theirs = Theirs(attributes={**attributes, "specversion": "1.0"}, data={"a": [1, "ü"]})
    expected = CloudEvent(**{k: v for k, v in attributes.items() if k != "ext"}, extensions={"ext": "x"}, data=b"")
    for make, mode in ((kafka.to_binary, "binary"), (kafka.to_structured, "structured")):
        message = make(theirs, JSONFormat())
        event = event_of(mb.ProducerRecord("t", message.value, message.key, list(message.headers.items())))
        assert {**event.attributes(), "time": None} == {**expected.attributes(), "time": None}
        assert json.loads(event.data or b"") == {"a": [1, "ü"]}
        ours = to_record(event, "t", mode=mode)  # type: ignore[arg-type]
        back = kafka.from_kafka(kafka.KafkaMessage(dict(ours.headers.to_list()), ours.key, ours.value), JSONFormat())
        assert back.get_data() == {"a": [1, "ü"]} and back.get_id() == "7" and back.get_extension("ext") == "x"


def test_what_is_no_event() -> None:
    def without(name: str) -> Any:
        return BINARY.replace(headers=[header for header in BINARY.headers if header.key != name])

    def plus(*headers: Any) -> Any:
        return BINARY.replace(headers=[*BINARY.headers, *headers])

    cases = [
        (mb.ProducerRecord("t", b"v"), "no event"),
        (without("ce_specversion"), "no event"),
        (without("ce_id"), "malformed, no id"),
        (without("ce_source"), "malformed, no source"),
        (plus(("ce_id", b"again")), "malformed, id is repeated"),
        (plus(("ce_UPPER", b"")), "malformed, attribute UPPER"),
        (plus(("ce_", b"")), "malformed, attribute "),
        (plus(("ce_x", b"\xff")), "malformed, x is no UTF-8"),
        (plus(("content-type", b"\xff")), "malformed, content-type is no UTF-8"),
        (
            BINARY.replace(
                headers=[("ce_specversion", b"0.3"), ("ce_id", b"1"), ("ce_source", b"1"), ("ce_type", b"1")]
            ),
            "malformed, specversion 0.3",
        ),
        (STRUCTURED.replace(value=None), "malformed, no JSON"),
        (STRUCTURED.replace(value=b"[" * 100_000), "malformed, no JSON"),
        (STRUCTURED.replace(value=b"[]"), "malformed, no JSON object"),
        (STRUCTURED.replace(value=b"{}"), "malformed, no specversion"),
        (STRUCTURED.replace(value=b'{"id": NaN}'), "malformed, no JSON"),
        (
            STRUCTURED.replace(headers=[("content-type", b"application/cloudevents+avro")]),
            "unknown format, application/cloudevents+avro",
        ),
        (STRUCTURED.replace(headers=[("content-type", b"application/cloudevents-batch+json")]), "unknown format"),
        (structured('"x": {}'), "malformed, attribute x is no text"),
        (structured('"x": 5000000000'), "malformed, attribute x is no text"),
        (structured('"data_base64": "*"'), "malformed, data_base64"),
        (structured('"data": 1, "data_base64": "AA=="'), "malformed, data_base64"),
        (structured('"data": "\\ud800", "datacontenttype": "text/plain"'), "malformed, data"),
    ]
    for record, reason in cases:
        with pytest.raises(NoEventError) as error:
            event_of(record)
        assert str(error.value).startswith(reason)
        assert pickle.loads(pickle.dumps(error.value)).outcome == error.value.outcome
        found = CloudEvents(required=True).pre_deserialize(received(record))
        assert quarantined(found)[0].startswith(f"CloudEvents: {reason}") and found.value == record.value
        column = records_of(CloudEvents(required=True).arrow([rows_of([received(record)])]))
        assert column == [found]


def test_on_its_way() -> None:
    events = CloudEvents(source="/orders", type="com.example.order")
    sent = mb.ProducerRecord("t", b'{"a":1}', b"k", [("content-type", b"application/json"), ("other", b"x")])
    made = events.post_serialize(sent)
    event = event_of(made)
    assert (event.source, event.type, event.datacontenttype, event.data) == (
        "/orders",
        "com.example.order",
        "application/json",
        b'{"a":1}',
    )
    assert len(event.id) == 36 and (event.time or "").endswith("Z") and made.headers.last["other"] == b"x"
    assert events.post_serialize(made) is made
    put = CloudEvents(mode="structured").post_serialize(made)
    assert json.loads(put.value)["data"] == {"a": 1} and put.headers.keys() == ["other", "content-type"]
    back = CloudEvents().pre_deserialize(received(put))
    assert event_of(back) == event and back.headers.last["other"] == b"x"
    plain = mb.ProducerRecord("t", b"v")
    assert CloudEvents().post_serialize(plain) is plain
    bad = CloudEvents(source="s", type="t").post_serialize(BINARY.replace(headers=[*BINARY.headers, ("ce_id", b"2")]))
    assert quarantined(bad) and bad.value == BINARY.value
    for options in ({"source": "s"}, {"type": "t"}, {"mode": "batch"}, {"source": "", "type": "t"}):
        with pytest.raises(ValueError, match="."):
            CloudEvents(**options)


def test_attributes_as_columns() -> None:
    records = [
        received(BINARY),
        received(mb.ProducerRecord("t", b"v", None, [("ce_id", b"\xff")])),
        received(STRUCTURED),
    ]
    events = CloudEvents()
    [batch] = events.columns(events.arrow([rows_of(records)]))
    assert batch.column("ce_id").to_pylist() == ["1234-1234-1234", None, "1234-1234-1234"]
    assert batch.column("ce_datacontenttype").to_pylist() == ["application/avro", None, "application/xml"]
    assert batch.column("value").to_pylist()[2] == b'<much wow="xml"/>'


names = st.sampled_from(["ce_specversion", "ce_id", "ce_type", "ce_source", "ce_x", "ce_Ü", "content-type", "a"])
texts = st.none() | st.sampled_from([b"1.0", b"1", b"", b"\xff", b"application/json", b"Application/CloudEvents+json"])
headers = st.lists(st.tuples(names, texts), max_size=7)
good = st.just(list(BINARY.headers))
values = st.none() | st.binary(max_size=10) | st.just(STRUCTURED.value)


@given(st.lists(st.tuples(headers | good, values), max_size=6), st.booleans())
def test_columns_as_records(rows: list[Any], required: bool) -> None:
    records = [mb.ConsumerRecord("t", 0, n, 5, 0, None, value, some) for n, (some, value) in enumerate(rows)]
    one, other = (CloudEvents(required=required) for _ in "12")
    expected = [one.pre_deserialize(record.copy()) for record in records]
    # Columns have no tombstone flag.
    expected = [record.replace(tombstone=None) for record in expected]
    assert records_of(other.arrow([rows_of(records)])) == expected
    assert dict(one.counts) == dict(other.counts)


@given(
    st.lists(st.tuples(headers | good, values), max_size=6),
    st.sampled_from([None, "binary", "structured"]),
    st.booleans(),
)
def test_sent_in_columns(rows: list[Any], mode: Any, makes: bool) -> None:
    records = [mb.ConsumerRecord("t", 0, n, 5, 0, None, value, some) for n, (some, value) in enumerate(rows)]
    options = {"source": "s", "type": "x"} if makes else {}
    one, other = (CloudEvents(mode=mode, **options) for _ in "12")

    def shown(record: Any) -> Any:
        """Without what is made anew each time."""
        made = [(key, b"" if key in ("ce_id", "ce_time") else value) for key, value in record.headers.to_list()]
        kept = None if record.value is None or record.value.startswith(b'{"specversion":"1.0","id"') else record.value
        return made, kept, record.key, record.topic

    expected = [shown(one.post_serialize(mb.ProducerRecord("t", r.value, r.key, r.headers))) for r in records]
    found = records_of(other.sending_arrow([rows_of(records)]))
    assert [shown(record) for record in found] == expected
    assert [record.offset for record in found] == list(range(len(records)))
    assert dict(one.counts) == dict(other.counts)


@given(st.text(max_size=20), st.text(max_size=20) | st.none(), st.binary(max_size=30))
def test_any_event_there_and_back(source: str, kind: str | None, data: bytes) -> None:
    event = CloudEvent(id="1", source=source or "s", type="t", subject="ü", datacontenttype=kind, data=data)
    assert event_of(to_record(event, "t")) == event or (kind or "").lower().startswith("application/cloudevents")
    back = event_of(to_record(event, "t", mode="structured"))
    assert back.source == event.source
    assert back.data == data or json.loads(back.data or b"") == json.loads(data)
