"""The routing trail, a paper trail on the record itself: who moved it, when, from where and into which cluster and topic.

Each hop is a header of its own, behind those before it: a mirror adds one and touches none. The trail tells loops apart from
long ways, and says where in the source a record was.

    Trail("shop", cluster="eu")                              # a producer: a hop into eu and the record's topic
    Trail("mirror-3", cluster="eu", on_read=True)            # a mirror's consumer: a hop out of eu, with the offset
    Trail("mirror-3", cluster="us")                          # a mirror's producer: a hop into us, unless it was there
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from magicbyte._core import ConsumerRecord, Headers
from magicbyte.records import ProducerRecord

from ._base import HeaderMiddleware, HeaderName, Policy, Quarantine, header_name
from ._trail_bytes import Audit, Deletion, Hop

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Audit", "Deletion", "Hop", "Path", "Trail", "now"]


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Path:
    """A record's hops, oldest first, and what is wrong with headers that are none (``hop 2: cut at byte 9``)."""

    hops: tuple[Hop, ...]
    problems: tuple[str, ...] = ()

    def visits(self, cluster: str, topic: str) -> int:
        """How often the record was moved into a topic of a cluster."""
        return sum(hop.cluster == cluster and hop.topic == topic for hop in self.hops)


class Trail(HeaderMiddleware):
    """Writes and reads the trail.

    Args:
        who: what moves records here: a client id, the name of a mirror.
        cluster: where it sends to, or reads from.
        on_read: the receiving side adds a hop as well: out of this cluster, with topic, partition and offset (KIP-87's
            provenance). For mirrors and jobs.
        audit: the sending side gives records that have none KIP-82's audit fields: a message id, the client, the cluster.
        deletes: the sending side notes on tombstones who issued the delete, and when (KIP-87).
        visits: how often a record may come into the same topic of a cluster. Beyond that it is a ``loop``.
        most: hops that a trail may have; a longer one counts as a ``loop``, too.
        loops: the policy for loops.
        header, audit_header, delete_header: the headers' names.
        clock: gives milliseconds since 1970. ``new_id``: gives message ids.
        policy: for a ``broken`` trail. What is passed on keeps its broken headers, and gets a sound one behind them.

    Outcomes: ``moved``, ``no trail``, ``read``, ``broken``, ``loop``.
    """

    def __init__(
        self,
        who: str,
        *,
        cluster: str = "",
        on_read: bool = False,
        audit: bool = False,
        deletes: bool = False,
        visits: int = 1,
        most: int = 64,
        loops: Policy = "reject",
        header: HeaderName = "mb.trail",
        audit_header: HeaderName = "mb.audit",
        delete_header: HeaderName = "mb.deleted",
        clock: Callable[[], int] = now,
        new_id: Callable[[], UUID] = uuid.uuid4,
        policy: Policy = "pass",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        self.who, self.cluster, self.on_read, self.audit, self.deletes = who, cluster, on_read, audit, deletes
        self.visits, self.most, self.clock, self.new_id = visits, most, clock, new_id
        self.header, self.audit_header = header_name(header), header_name(audit_header)
        self.delete_header = header_name(delete_header)
        self.loops: Policy = loops
        Hop(who, 0, cluster=cluster).to_bytes()  # texts that are too long are told here
        self._ready()

    def _ready(self) -> None:
        self._looping = HeaderMiddleware(policy=self.loops, quarantine=self.quarantine)
        self._looping.name, self._looping.counts = self.name, self.counts

    # Reading

    def path(self, headers: Headers) -> Path:
        """The trail that headers carry; never raises on bytes."""
        hops, problems = [], []
        for number, value in enumerate(headers.get(self.header)):
            try:
                hops.append(Hop.from_bytes(value))
            except ValueError as error:
                problems.append(f"hop {number}: {error}")
        return Path(tuple(hops), tuple(problems))

    def audit_of(self, headers: Headers) -> Audit | None:
        """The audit fields; None where there are none, or none that can be read. The first header counts: it is the
        origin's."""
        found: Audit | None = _read(headers, self.audit_header, Audit.from_bytes)
        return found

    def deletion_of(self, headers: Headers) -> Deletion | None:
        """Who deleted a key, and when; None as for ``audit_of``."""
        found: Deletion | None = _read(headers, self.delete_header, Deletion.from_bytes)
        return found

    def look(self, headers: Headers, topic: str, *, adding: bool) -> tuple[str, str]:
        """Outcome and detail for a record of a topic, or for one that is to get one more hop into it."""
        path = self.path(headers)
        if path.problems:
            return "broken", path.problems[0]
        if (visits := path.visits(self.cluster, topic)) > self.visits - adding:
            return "loop", f"{visits} times into {self.cluster}:{topic}"
        if len(path.hops) > self.most - adding:
            return "loop", f"{len(path.hops)} hops"
        return ("read", "") if path.hops else ("no trail", "")

    # Stages

    def post_serialize(self, record: ProducerRecord) -> Any:
        """Adds a hop into ``cluster`` and the record's topic; a record that was there already is a loop."""
        outcome, detail = self.look(record.headers, record.topic, adding=True)
        if outcome == "loop":
            return self._looping.bad(record, outcome, detail)
        if outcome == "broken" and self.policy != "pass":
            return self.bad(record, outcome, detail)
        if record.headers.read_only:
            record = record.copy()
        time = self.clock()
        record.headers.add(self.header, Hop(self.who, time, cluster=self.cluster, topic=record.topic).to_bytes())
        if self.audit and self.audit_header not in record.headers:
            record.headers.add(self.audit_header, Audit(self.new_id(), self.who, self.cluster).to_bytes())
        if self.deletes and record.tombstone:
            record.headers.remove(self.delete_header).add(self.delete_header, Deletion(self.who, time).to_bytes())
        self.counts.add("broken" if outcome == "broken" else "moved")
        return record

    def pre_deserialize(self, record: ConsumerRecord) -> Any:
        """Looks at the trail; with ``on_read``, adds a hop out of here."""
        outcome, detail = self.look(record.headers, record.topic, adding=False)
        if outcome == "loop":
            return self._looping.bad(record, outcome, detail)
        if outcome == "broken" and self.policy != "pass":
            return self.bad(record, outcome, detail)
        self.counts.add(outcome)
        if self.on_read:
            record.headers.add(self.header, self.out_of(record).to_bytes())
        return record

    def out_of(self, record: ConsumerRecord) -> Hop:
        """The hop that says where a record was read."""
        return Hop(self.who, self.clock(), self.cluster, record.topic, record.partition, record.offset)

    # Arrow

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The receiving side over Kafka's columns, one time for all rows of a batch."""
        from ._trail_arrow import received

        for batch in batches:
            yield received(self, batch) if batch.num_rows else batch

    def sending_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sending side over Kafka's columns, one time for all rows of a batch."""
        from ._trail_arrow import sent

        for batch in batches:
            yield sent(self, batch) if batch.num_rows else batch


def _read(headers: Headers, name: str, reader: Callable[[bytes | None], Any]) -> Any:
    values = headers.get(name)
    try:
        return reader(values[0]) if values else None
    except ValueError:
        return None
