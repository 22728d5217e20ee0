"""Tracing: one trace over two services, per record of a batch; W3C's and B3's examples; hostile headers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("opentelemetry.sdk.trace", reason="OpenTelemetry is not installed")

from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import magicbyte as mb
from magicbyte.ids import HeaderIds
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined
from magicbyte.middleware.tracing import Tracing

PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TRACE_ID = 0x4BF92F3577B34DA6A3CE929D0E0E4736
OTHER = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Service:
    """A process of its own, as far as tracing goes: its provider, and what it exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(tracer_provider=self.provider)
        self.tracer = self.provider.get_tracer("test")

    def spans(self) -> list[Any]:
        return list(self.exporter.get_finished_spans())


def received(headers: Any = (), offset: int = 0) -> mb.ConsumerRecord:
    return mb.ConsumerRecord("orders", 1, offset, 5, 0, b"k", b"v", headers)


def over_the_wire(records: list[mb.ProducerRecord]) -> list[mb.ConsumerRecord]:
    return list(mb.decode(b"".join(mb.encode_batches(records)), topic="orders", partition=1))


def test_one_trace_over_two_services_for_each_record_of_a_batch() -> None:
    shop, billing = Service(), Service()
    sent = []
    for number in range(3):
        with shop.tracer.start_as_current_span(f"request {number}"):
            token = context.attach(baggage.set_baggage("customer", f"c{number} ä"))
            sent += Chain(shop.tracing, errors="raise").post_serialize(mb.ProducerRecord("orders", b"%d" % number))
            context.detach(token)
    for record in billing.tracing.each(Chain(billing.tracing, errors="raise")(over_the_wire(sent))):
        with billing.tracer.start_as_current_span("charge"):
            assert baggage.get_baggage("customer") == f"c{record.offset} ä"
    assert not trace.get_current_span().get_span_context().is_valid

    requests = [span for span in shop.spans() if span.name.startswith("request")]
    creates = {span.context.span_id: span for span in shop.spans() if span.name == "create orders"}
    for name in ("receive orders", "process orders"):
        spans = [span for span in billing.spans() if span.name == name]
        assert [span.context.trace_id for span in spans] == [span.context.trace_id for span in requests]
        assert [creates[span.parent.span_id].parent.span_id for span in spans] == [
            span.context.span_id for span in requests
        ]
        assert [span.attributes["messaging.kafka.offset"] for span in spans] == [0, 1, 2]
    charges = [span for span in billing.spans() if span.name == "charge"]
    assert [span.context.trace_id for span in charges] == [span.context.trace_id for span in requests]
    assert dict(billing.tracing.counts) == {"continued": 3}


def test_a_batch_as_a_whole_has_links() -> None:
    billing = Service()
    with billing.tracing.batch([received([("traceparent", PARENT)]), received(), received([("traceparent", OTHER)])]):
        pass
    [span] = billing.spans()
    assert [link.context.trace_id for link in span.links] == [TRACE_ID, int(OTHER[3:35], 16)]
    assert span.attributes["messaging.batch.message_count"] == 3


def test_a_mirror_keeps_the_trace_whole() -> None:
    mirror = Service()
    state = b"rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
    record = received([("traceparent", PARENT), ("tracestate", state), ("own", b"1")]).to_producer_record()
    mirror.tracing.post_serialize(record)
    [span] = mirror.spans()
    assert (span.context.trace_id, span.parent.span_id) == (TRACE_ID, 0x00F067AA0BA902B7)
    assert record.headers.to_list() == [
        ("own", b"1"),
        ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-%016x-01" % span.context.span_id),
        ("tracestate", state),
    ]


@pytest.mark.parametrize(
    "headers",
    [
        [("traceparent", PARENT)],
        [("traceparent", b'"' + PARENT + b'"')],
        [("traceparent", PARENT), ("traceparent", PARENT)],
        [("b3", b"4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1")],
        [("X-B3-TraceId", PARENT[3:35]), ("X-B3-SpanId", PARENT[36:52]), ("X-B3-Sampled", b"1")],
        [("x-b3-traceid", PARENT[3:35]), ("x-b3-spanid", PARENT[36:52]), ("x-b3-sampled", b"1")],
        [
            (
                "traceparent",
                b"\0\0" + bytes.fromhex(PARENT[3:35].decode()) + b"\1" + bytes.fromhex("00f067aa0ba902b7") + b"\2\1",
            )
        ],
    ],
    ids=["w3c", "json", "same twice", "b3", "B3 multi", "b3 multi", "binary"],
)
def test_contexts_of_others_are_read(headers: Any) -> None:
    service = Service()
    with service.tracing.process(received(headers)) as span:
        assert span.get_span_context().trace_id == TRACE_ID
    [done] = service.spans()
    assert done.parent.span_id == 0x00F067AA0BA902B7


@pytest.mark.parametrize(
    "headers, outcome",
    [
        ([("traceparent", PARENT), ("traceparent", OTHER)], "repeated"),
        ([("traceparent", b"00-zz")], "broken"),
        ([("traceparent", None)], "broken"),
        ([("traceparent", PARENT.upper())], "broken"),
        ([("traceparent", b"ff" + PARENT[2:])], "broken"),
        ([("traceparent", PARENT[:3] + b"0" * 32 + PARENT[35:])], "broken"),
        ([("b3", b"what")], "broken"),
    ],
)
def test_a_bad_context_begins_a_new_trace(headers: Any, outcome: str) -> None:
    service = Service()
    record = received([*headers, ("baggage", b"a=1")])
    assert service.tracing.pre_deserialize(record) == record
    with service.tracing.process(record) as span:
        assert span.get_span_context().trace_id != TRACE_ID
        assert span.parent is None
        assert baggage.get_baggage("a") == "1"
    assert dict(service.tracing.counts) == {outcome: 1}
    marked = Tracing(policy="quarantine").pre_deserialize(received(headers))
    assert quarantined(marked)[0].startswith(f"Tracing: {outcome}")
    assert Tracing(policy="reject").pre_deserialize(received(headers)) == ()


def test_an_error_in_the_block_is_noted_and_comes_out() -> None:
    service = Service()
    with pytest.raises(ValueError, match="no"), service.tracing.process(received()):
        raise ValueError("no")
    [span] = service.spans()
    assert span.status.status_code.name == "ERROR" and span.events[0].name == "exception"


def test_names_are_configurable_and_tasks_get_the_options() -> None:
    ids = HeaderIds()
    ids.reserve_private(100, 200)
    ids.register(101, "trace.context")
    tracing = Tracing(headers={"traceparent": (ids, 101)}, spans=False, policy="reject")
    copy = pickle.loads(pickle.dumps(tracing))
    assert (copy.headers["traceparent"], copy.policy, copy.spans) == ("trace.context", "reject", False)
    record = mb.ProducerRecord("t", b"v")
    with Service().tracer.start_as_current_span("x") as span:
        copy.post_serialize(record)
    assert record.headers.keys() == ["trace.context"]
    assert int((record.headers.get("trace.context")[0] or b"")[3:35], 16) == span.get_span_context().trace_id
    with pytest.raises(ValueError, match="other names"):
        Tracing(headers={"b3": "x"})


PIECES = st.sampled_from(
    [PARENT, OTHER, PARENT.upper(), b"", b"1", b"-", b"\xff", b"=", b",", b"a=1", b'"', b"00-" + b"0" * 32]
)
VALUES = st.none() | st.binary(max_size=60) | st.lists(PIECES, max_size=4).map(b"".join)
NAMES = st.sampled_from(
    ["traceparent", "tracestate", "baggage", "b3", "X-B3-TraceId", "x-b3-spanid", "X-B3-Sampled", "own"]
)
HEADERS = st.lists(st.tuples(NAMES, VALUES), max_size=6)


@given(HEADERS)
def test_no_headers_break_it(headers: Any) -> None:
    service = Service()
    record = received(headers)
    assert service.tracing.pre_deserialize(record).headers == mb.Headers(headers)
    with service.tracing.process(record):
        pass
    service.tracing.post_serialize(record.to_producer_record())
    assert sum(service.tracing.counts.values()) == 2


@given(st.lists(HEADERS, max_size=6), st.sampled_from(["pass", "quarantine", "reject"]))
def test_arrow_does_what_records_do(rows: Any, policy: Any) -> None:
    pytest.importorskip("pyarrow")
    data = b"".join(mb.encode_batches([mb.ProducerRecord("t", b"v", b"k", headers, timestamp=5) for headers in rows]))
    one, other = (Tracing(spans=False, policy=policy) for _ in range(2))
    got = [
        [(h["key"], h["value"]) for h in row["headers"]]
        for batch in one.arrow(mb.decode_arrow(data).to_batches())
        for row in batch.to_pylist()
    ]
    assert got == [record.headers.to_list() for record in Chain(other, errors="raise")(mb.decode(data))]
    assert dict(one.counts) == dict(other.counts)
    with Service().tracer.start_as_current_span("job"):
        sent = [
            [(h["key"], h["value"]) for h in row["headers"]]
            for batch in one.sending_arrow(mb.decode_arrow(data).to_batches())
            for row in batch.to_pylist()
        ]
        want = [other.post_serialize(record.to_producer_record()).headers.to_list() for record in mb.decode(data)]
    assert sent == want
