"""The routes of records across clusters, rebuilt from the routing-trail header: hops, latencies, loops.

A hop goes from where the record was last (a topic of a cluster; for the first hop, who sent it) into a topic of a cluster. Its
latency is the time from one arrival to the next; for the first hop, from the record's own timestamp. See
``magicbyte.middleware.trail``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magicbyte._extras import extra
from magicbyte.log import Log, Stretch
from magicbyte.usage import by_stretch

if TYPE_CHECKING:
    import pyarrow as pa

    from magicbyte._tasks import Run
    from magicbyte.log import Source
    from magicbyte.middleware.trail import Hop

__all__ = ["Leg", "Routes", "routes"]

COLUMNS = ("timestamp", "headers")


@dataclass(slots=True)
class Leg:
    """All hops from one place to another: their number, and their latencies in milliseconds (of ``timed`` of them)."""

    records: int = 0
    timed: int = 0
    total: int = 0
    least: int = 0
    most: int = 0

    def add(self, latency: int | None) -> None:
        """One more hop; ``None``: its latency is not known."""
        self.records += 1
        if latency is not None:
            self.merge(Leg(0, 1, latency, latency, latency))

    def merge(self, other: Leg) -> None:
        """Takes in others."""
        if other.timed:
            self.least = min(self.least, other.least) if self.timed else other.least
            self.most = max(self.most, other.most) if self.timed else other.most
        self.records += other.records
        self.timed += other.timed
        self.total += other.total


@dataclass(slots=True)
class Routes:
    """What the trails of a log say.

    Attributes:
        legs: by (from, to).
        records: records that were read; ``trails`` of them have a trail, ``broken`` one with a hop that cannot be read
            (its other hops count), ``loops`` one that comes into the same place twice.
        groups: how many legs there may be: names are chosen by who sends. ``left_out`` hops came when there were as many.
    """

    legs: dict[tuple[str, str], Leg] = field(default_factory=dict)
    records: int = 0
    trails: int = 0
    broken: int = 0
    loops: int = 0
    left_out: int = 0
    groups: int = 10_000

    def leg(self, origin: str, place: str, latency: int | None) -> None:
        """Counts a hop."""
        leg = self._of(origin, place)
        if leg is None:
            self.left_out += 1
        else:
            leg.add(latency)

    def _of(self, origin: str, place: str) -> Leg | None:
        if (origin, place) not in self.legs and len(self.legs) >= self.groups:
            return None
        return self.legs.setdefault((origin, place), Leg())

    def path(self, hops: Iterable[Hop], timestamp: int) -> None:
        """Counts the hops of one record, whose timestamp is in milliseconds, −1 for none."""
        at: str | None = None
        since = timestamp
        arrived: set[str] = set()
        looped = False
        for hop in hops:
            source = place(hop.source_cluster, hop.source_topic)
            into = place(hop.cluster, hop.topic)
            if into is None:
                # A mirror's consumer says where it read: what brought the record there may not have said so.
                at = source if source is not None else at
                continue
            looped |= into in arrived
            arrived.add(into)
            self.leg(source or at or hop.who, into, hop.time - since if since >= 0 else None)
            at, since = into, hop.time
        self.loops += looped

    def merge(self, other: Routes) -> None:
        """Takes in what another part of a log says."""
        for (origin, into), leg in other.legs.items():
            own = self._of(origin, into)
            if own is None:
                self.left_out += leg.records
            else:
                own.merge(leg)
        self.records += other.records
        self.trails += other.trails
        self.broken += other.broken
        self.loops += other.loops
        self.left_out += other.left_out

    def table(self) -> list[dict[str, Any]]:
        """A row for each leg, the most used first: ``from``, ``to``, ``records``, and latencies in ms, None where not known."""
        rows = [
            {
                "from": origin, "to": into, "records": leg.records,
                "min_ms": leg.least if leg.timed else None,
                "mean_ms": leg.total / leg.timed if leg.timed else None,
                "max_ms": leg.most if leg.timed else None,
            }
            for (origin, into), leg in self.legs.items()
        ]  # fmt: skip
        return sorted(rows, key=lambda row: (-row["records"], row["from"], row["to"]))

    def dot(self) -> str:
        """The graph, in Graphviz's language."""
        lines = ["digraph routes {", "  rankdir=LR;", "  node [shape=box];"]
        for row in self.table():
            mean = "" if row["mean_ms"] is None else f", {row['mean_ms']:.0f} ms"
            label = _quoted(f"{row['records']:,}{mean}")
            lines.append(f"  {_quoted(row['from'])} -> {_quoted(row['to'])} [label={label}];")
        return "\n".join([*lines, "}"]) + "\n"


def place(cluster: str, topic: str) -> str | None:
    """``eu:orders``; None where neither is told."""
    return f"{cluster}:{topic}" if cluster or topic else None


def _quoted(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else f"<{ord(letter):x}>" for letter in text)
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'


def routes(
    source: Log | Source,
    *,
    header: str = "mb.trail",
    groups: int = 10_000,
    format: str = "kafka",
    progress: Callable[[int], object] | None = None,
    run: Run[Stretch, Routes] | None = None,
) -> Routes:
    """The routes of all records of a log. ``groups`` bounds the legs of each task and of all; ``progress`` is told the bytes
    read; ``run`` does the work elsewhere: ``magicbyte.spark.usage``.

    Raises:
        CorruptRecordError: damage between the records. A trail that cannot be read is counted.
        ImportError: no pyarrow; ``pip install 'magicbyte[arrow]'``.
    """
    with extra("arrow"):
        import pyarrow  # noqa: F401

    log = source if isinstance(source, Log) else Log(source, format=format)
    found = Routes(groups=groups)
    for one in by_stretch(log, _Work(header, groups, log.format), progress, run):
        found.merge(one)
    return found


@dataclass(frozen=True)
class _Work:
    """Follows the trails of one stretch. Travels to workers."""

    header: str
    groups: int
    format: str

    def __call__(self, stretch: Stretch) -> Routes:
        from magicbyte import _core

        found = Routes(groups=self.groups)
        reader = _core.Reader([_core.Part(*stretch)], format=self.format)
        for batch in reader.scan(COLUMNS):
            self._batch(batch, found)
        return found

    def _batch(self, batch: pa.RecordBatch, found: Routes) -> None:
        import pyarrow as pa

        from magicbyte.middleware._arrow import HeaderColumn
        from magicbyte.middleware._retention_arrow import timestamps
        from magicbyte.middleware.trail import Hop

        headers = HeaderColumn.of(batch)
        mine = headers.named(self.header)
        found.records += batch.num_rows
        values = headers.values.take(pa.array(mine)).to_pylist()
        times = timestamps(batch)
        rows: dict[int, list[Hop]] = {}
        broken: set[int] = set()
        for row, value in zip(headers.parents[mine].tolist(), values, strict=True):
            hops = rows.setdefault(row, [])
            try:
                hops.append(Hop.from_bytes(value))
            except ValueError:
                broken.add(row)
        for row, hops in rows.items():
            found.path(hops, int(times[row]))
        found.trails += len(rows)
        found.broken += len(broken)
