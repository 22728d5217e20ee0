"""The router: where a record goes is told by its headers (KIP-82's first use case), without touching its value.

    router = Router(
        (equals("region", b"us"), To("{topic}", cluster="us")),
        (has("x-debug"), To("debug", also=True)),          # a copy; the record itself goes on
        (matches("tenant", "test-.*"), DROP),
    )

Inline around a client, over logs and in Spark. Destinations come from the rules alone: no header can name a topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magicbyte._core import ConsumerRecord
from magicbyte.records import ProducerRecord

from ._base import HeaderMiddleware, HeaderName, Policy, Quarantine, header_name
from .predicates import Predicate, as_predicate

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DROP", "Router", "To"]


@dataclass(frozen=True)
class To:
    """A destination.

    Attributes:
        topic: its name; ``{topic}`` stands for the record's own. None drops the record.
        cluster: the name of another cluster: its sender in ``Router(clusters=…)`` takes the record; without one the record
            goes on with the name in a header.
        partition: a number; None keeps the record's own while the topic stays, and else lets the producer choose.
        also: a copy goes there, and the rules behind are asked for the record itself.
    """

    topic: str | None = "{topic}"
    cluster: str | None = None
    partition: int | None = None
    also: bool = False

    def named(self, topic: str) -> str:
        """The destination's name for a record of that topic."""
        return (self.topic or "").replace("{topic}", topic)


DROP = To(None)
"""The record ends here."""


class Router(HeaderMiddleware):
    """Sends records where their headers say.

    Args:
        rules: (predicate, destination), asked in order; the first that holds decides, after those with ``also``. A predicate
            may be a header's name, a destination a topic.
        default: where records go for which no rule holds; by default they stay as they are.
        clusters: by name, what sends a ``ProducerRecord`` to another cluster (``Producer.produce`` for one). What it took
            leaves the chain. Not used over Arrow, where the name stands in the header.
        cluster_header: the header that names the cluster where nobody sends.
        policy: for records on which a predicate of one's own raised.

    Outcomes: ``routed``, ``copied``, ``dropped``, ``unmatched``, ``predicate failed``.
    """

    def __init__(
        self,
        *rules: tuple[Predicate | str | Callable[..., Any], To | str],
        default: To | str | None = None,
        clusters: Mapping[str, Callable[[ProducerRecord], Any]] | None = None,
        cluster_header: HeaderName = "mb.cluster",
        policy: Policy = "pass",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        self.rules = tuple((as_predicate(predicate), _to(where)) for predicate, where in rules)
        self.default = None if default is None else _to(default)
        self.clusters = dict(clusters or {})
        self.cluster_header = header_name(cluster_header)

    def decide(self, record: Any) -> tuple[list[To], To | None]:
        """Where copies go, and where the record itself goes; None lets it be. What a predicate raises comes out."""
        copies: list[To] = []
        for predicate, where in self.rules:
            if predicate(record.headers):
                if not where.also:
                    return copies, where
                copies.append(where)
        return copies, self.default

    def __call__(self, record: Any) -> Any:
        """Routes a record of either side."""
        try:
            copies, where = self.decide(record)
        except Exception as error:
            return self.bad(record, "predicate failed", f"{type(error).__name__}: {error}")
        made = [one for copy in copies for one in self._moved(record.copy(), copy)]
        self.counts.add("copied", len(copies))
        if where is None:
            self.counts.add("unmatched")
            return [*made, record] if made else record
        if where.topic is None:
            self.counts.add("dropped")
            return made
        self.counts.add("routed")
        return [*made, *self._moved(record, where)]

    post_serialize = __call__
    pre_deserialize = __call__

    def _moved(self, record: Any, where: To) -> list[Any]:
        topic = where.named(record.topic)
        send = None if where.cluster is None else self.clusters.get(where.cluster)
        consumed = isinstance(record, ConsumerRecord)
        partition = where.partition
        if partition is None:
            partition = record.partition if topic == record.topic or (consumed and send is None) else None
        if send is not None:
            out = record.to_producer_record(topic) if consumed else record.copy()
            out.topic, out.partition = topic, partition
            send(out)
            return []
        if record.headers.read_only:
            record = record.copy()
        # The cluster is not the record's own to say.
        if where.cluster is not None:
            record.headers.remove(self.cluster_header).add(self.cluster_header, where.cluster.encode())
        if consumed:
            return [record.replace(topic=topic, partition=partition)]
        record.topic, record.partition = topic, partition
        return [record]

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same over Kafka's columns; a copy stands before its record. ``partition`` stays where no rule names one."""
        from ._router_arrow import routed

        for batch in batches:
            yield routed(self, batch) if batch.num_rows else batch

    sending_arrow = arrow


def _to(given: To | str) -> To:
    if isinstance(given, str):
        return To(given)
    if not isinstance(given, To):
        raise TypeError(f"a destination is a topic or a To, not {given!r}")
    return given
