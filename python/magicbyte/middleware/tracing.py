"""Tracing: a trace that begins in one service goes on in the next, record by record.

The context travels in W3C's ``traceparent``, ``tracestate`` and ``baggage`` headers, written and read by OpenTelemetry's
propagators; B3's headers (Zipkin) are read as well. Spans are those of OpenTelemetry's semantic conventions for messaging.

    tracing = Tracing()
    Producer(config, interceptors=tracing)             # a `create` span for each record, its context in the headers
    consumer = Consumer(config, interceptors=tracing)  # a `receive` span for each record
    with tracing.process(consumer.poll()): ...         # a `process` span, current within the block
    for record in tracing.each(consumer.consume(500)): ...   # the same for each record of a batch
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from magicbyte._core import ConsumerRecord, Headers
from magicbyte._extras import extra
from magicbyte.records import ProducerRecord
from magicbyte.vocabulary import decode

from ._base import AnyRecord, HeaderMiddleware, HeaderName, Policy, Quarantine, header_name

with extra("otel"):
    from opentelemetry import context as otel_context
    from opentelemetry import trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.context import Context
    from opentelemetry.propagators.b3 import B3MultiFormat
    from opentelemetry.propagators.composite import CompositePropagator
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Tracing"]

W3C = ("traceparent", "tracestate", "baggage")
B3 = frozenset(("b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags"))
Carrier = dict[str, list[str]]


class _Reading:
    """OpenTelemetry's ``Getter``."""

    def get(self, carrier: Carrier, key: str) -> list[str] | None:
        return carrier.get(key) or carrier.get(key.lower())

    def keys(self, carrier: Carrier) -> list[str]:
        return list(carrier)


class _Writing:
    """OpenTelemetry's ``Setter``: whatever had the name goes."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def set(self, carrier: Headers, key: str, value: str) -> None:
        name = self.names.get(key, key)
        carrier.remove(name).add(name, value.encode("utf-8", "replace"))


_READING: Any = _Reading()


class Tracing(HeaderMiddleware):
    """Trace contexts on records.

    Args:
        tracer_provider: whose tracer makes the spans; None takes OpenTelemetry's global one. It is not pickled: in Spark,
            tasks take the global one of their worker.
        propagator: what writes and reads contexts; None stands for W3C's trace context and baggage.
        headers: other header names for ``traceparent``, ``tracestate`` and ``baggage``.
        spans: False makes no spans: sending passes the current context on as it is, receiving only looks.
        read_b3: where there is no ``traceparent``, B3's single and multiple headers are read.
        policy: for a ``broken`` or ``repeated`` context. A record that is passed on begins a trace of its own, as W3C has it.

    Outcomes: ``sent``, ``continued``, ``no trace``, ``broken``, ``repeated``.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        propagator: TextMapPropagator | None = None,
        headers: Mapping[str, HeaderName] | None = None,
        spans: bool = True,
        read_b3: bool = True,
        policy: Policy = "pass",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        given = dict(headers or {})
        if unknown := given.keys() - set(W3C):
            raise ValueError(f"headers has other names for {', '.join(W3C)}, not for {', '.join(sorted(unknown))}")
        self.headers = {name: header_name(given.get(name, name)) for name in W3C}
        self.propagator = propagator or CompositePropagator([TraceContextTextMapPropagator(), W3CBaggagePropagator()])
        self.spans, self.read_b3 = spans, read_b3
        self._provider = tracer_provider
        self._ready()

    def _ready(self) -> None:
        self._provider = getattr(self, "_provider", None)
        self._tracer = trace.get_tracer("magicbyte", tracer_provider=self._provider)
        self._writing: Any = _Writing(self.headers)

    # Sending

    def post_serialize(self, record: ProducerRecord) -> ProducerRecord:
        """Puts the current context into the headers, with ``spans`` that of a ``create`` span of the record's own.

        Where nothing is being traced, a context that the record has already is continued: so a mirror keeps traces whole.
        """
        if record.headers.read_only:
            record = record.copy()
        current = otel_context.get_current()
        if not trace.get_current_span(current).get_span_context().is_valid:
            current = self.context(record.headers, current)
        if self.spans:
            span = self._tracer.start_span(
                f"create {record.topic}", current, SpanKind.PRODUCER, self._said(record, "create")
            )
            current = trace.set_span_in_context(span, current)
            span.end()
        self.propagator.inject(record.headers, current, self._writing)
        self.counts.add("sent")
        return record

    # Receiving

    def look(self, headers: Headers) -> tuple[str, str]:
        """What there is of a context, as outcome and detail; nothing is changed."""
        name = self.headers["traceparent"]
        values = headers.get(name)
        if len(set(values)) > 1:
            return "repeated", f"{len(values)} times {name}"
        if values:
            said = decode("traceparent", values[0])
            if said.value is None or said.error is not None:
                return "broken", f"{name}: {said.error or 'null'}"
            return "continued", ""
        if self.read_b3:
            found = [(key, value) for key, value in headers if key.lower() in B3]
            for key, value in found:
                if value is None or (said := decode(key, value)).error is not None:
                    return "broken", f"{key}: {'null' if value is None else said.error}"
            if found:
                return "continued", ""
        return "no trace", ""

    def context(self, headers: Headers, base: Context | None = None) -> Context:
        """The context that headers carry, upon ``base`` (an empty one by default); never raises on bytes."""
        carrier: Carrier = {}
        sound = self.look(headers)[0] == "continued"
        for name, other in self.headers.items():
            if values := [one for value in headers.get(other) if (one := _word(name, value)) is not None]:
                # Several headers of a list are one list; only traceparent must be alone.
                carrier[name] = [",".join(values)] if name == "baggage" else values[:1] if name == W3C[0] else values
        if not sound:
            carrier.pop("traceparent", None)
        # A base that is traced itself must not look like the sender's.
        found = self.propagator.extract(carrier, base if base is not None else Context(), _READING)
        if sound and self.read_b3 and "traceparent" not in carrier:
            old = {
                key.lower(): [value.decode("ascii", "replace").strip()]
                for key, value in headers
                if value is not None and key.lower() in B3
            }
            found = B3MultiFormat().extract(old, found, _READING)
        return found

    def pre_deserialize(self, record: ConsumerRecord) -> Any:
        """Looks at the context; with ``spans``, a ``receive`` span that continues the sender's trace."""
        outcome, detail = self.look(record.headers)
        if outcome in ("broken", "repeated"):
            return self.bad(record, outcome, detail)
        self.counts.add(outcome)
        if self.spans:
            name = f"receive {record.topic}"
            self._tracer.start_span(
                name, self.context(record.headers), SpanKind.CONSUMER, self._said(record, "receive")
            ).end()
        return record

    @contextmanager
    def process(self, record: ConsumerRecord) -> Iterator[Span]:
        """A ``process`` span around the handling of one record: current in the block, and of the sender's trace.

        An error that comes out of the block is noted in the span, and comes out. Baggage is there as well.
        """
        base = self.context(record.headers)
        span = self._tracer.start_span(
            f"process {record.topic}", base, SpanKind.CONSUMER, self._said(record, "process")
        )
        token = otel_context.attach(trace.set_span_in_context(span, base))
        try:
            yield span
        except Exception as error:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
            raise
        finally:
            otel_context.detach(token)
            span.end()

    def each(self, records: Iterable[ConsumerRecord]) -> Iterator[ConsumerRecord]:
        """Records of a batch, each one's ``process`` span current until the next is asked for."""
        for record in records:
            with self.process(record):
                yield record

    @contextmanager
    def batch(self, records: Iterable[ConsumerRecord]) -> Iterator[Span]:
        """One ``process`` span around a batch that is handled as a whole, with a link to each record's sender."""
        some = list(records)
        links = []
        for record in some:
            found = trace.get_current_span(self.context(record.headers)).get_span_context()
            if found.is_valid:
                links.append(Link(found))
        said: dict[str, str | int] = {"messaging.system": "kafka", "messaging.batch.message_count": len(some)}
        with self._tracer.start_as_current_span(
            "process batch", kind=SpanKind.CONSUMER, attributes=said, links=links
        ) as span:
            yield span

    # Arrow

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The receiving side over Kafka's columns: looks, counts and answers by the policy. Makes no spans."""
        from ._tracing_arrow import received

        for batch in batches:
            yield received(self, batch) if batch.num_rows else batch

    def sending_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sending side: the current context in all rows, as ``spans=False`` has it; rows keep theirs where there is
        none."""
        from ._tracing_arrow import sent

        for batch in batches:
            yield sent(self, batch) if batch.num_rows else batch

    def current(self) -> Headers:
        """The headers of the current context; none where nothing is being traced and there is no baggage."""
        made = Headers()
        self.propagator.inject(made, otel_context.get_current(), self._writing)
        return made

    def _said(self, record: AnyRecord, operation: str) -> dict[str, str | int | bool]:
        said: dict[str, str | int | bool] = {
            "messaging.system": "kafka",
            "messaging.destination.name": record.topic,
            "messaging.operation.name": operation,
            "messaging.operation.type": operation,
        }
        if record.partition is not None and record.partition >= 0:
            said["messaging.destination.partition.id"] = str(record.partition)
        if isinstance(record, ConsumerRecord):
            said["messaging.kafka.offset"] = record.offset
        if record.value is None:
            said["messaging.kafka.message.tombstone"] = True
        elif isinstance(record.value, bytes):
            said["messaging.message.body.size"] = len(record.value)
        return said


def _word(name: str, value: bytes | None) -> str | None:
    """A header's text as a propagator wants it; quotes of a JSON mapper and binary forms are gone."""
    if value is None:
        return None
    if name == "traceparent":
        said = decode(name, value)
        return None if said.value is None else str(said.value)
    from magicbyte.vocabulary.values import text

    found = text(value).value
    return found if isinstance(found, str) else None
