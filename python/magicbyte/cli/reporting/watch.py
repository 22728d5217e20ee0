"""What a report wants to know beside a survey: sizes, times, lags and producers, each in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from magicbyte._core import RecordBatch

MOST_BINS = 4096  # of a timeline; with more, each becomes twice as wide
MOST_PRODUCERS = 10_000
MS = 1000

#: Upper ends of the classes of lags, in ms, and their names.
LAGS = (
    (0, "none"), (MS, "up to 1 s"), (10 * MS, "to 10 s"), (60 * MS, "to 1 min"), (600 * MS, "to 10 min"),
    (3600 * MS, "to 1 h"), (86_400 * MS, "to 1 day"), (float("inf"), "more"),
)  # fmt: skip


@dataclass
class Timeline:
    """Counts by time: bins of one width, which doubles when there are too many of them."""

    width: int = MS
    bins: Counter[int] = field(default_factory=Counter)

    @property
    def span(self) -> int:
        """From the first time to the last, in ms."""
        return (max(self.bins) - min(self.bins) + 1) * self.width if self.bins else 0

    def add(self, bin_: int, count: int) -> None:
        """Adds to a bin of the width of now."""
        self.bins[bin_] += count
        if len(self.bins) > MOST_BINS:
            self.widen(self.width * 2)

    def times(self, milliseconds: Iterable[int]) -> None:
        """Adds single times."""
        for time in milliseconds:
            if time >= 0:
                self.add(time // self.width, 1)

    def column(self, column: Any) -> None:
        """Adds an Arrow column of times in ms."""
        import pyarrow.compute as pc

        width = self.width
        bins = pc.divide(column.filter(pc.greater_equal(column, 0)), width)
        for found in pc.value_counts(bins):
            bin_, count = found["values"].as_py(), found["counts"].as_py()
            # The width may have doubled meanwhile.
            self.add(bin_ * width // self.width, count)

    def widen(self, width: int) -> None:
        """Makes the bins as wide as ``width``, a multiple of what they are."""
        wider: Counter[int] = Counter()
        for bin_, count in self.bins.items():
            wider[bin_ * self.width // width] += count
        self.width, self.bins = width, wider

    def merge(self, other: Timeline) -> None:
        """Adds another's counts."""
        if other.width > self.width:
            self.widen(other.width)
        for bin_, count in other.bins.items():
            self.add(bin_ * other.width // self.width, count)

    def dense(self, share: float) -> Timeline:
        """The shortest stretch that holds so much of all counts, as a timeline of its own."""
        found = sorted(self.bins.items())
        enough = share * sum(self.bins.values())
        first, held, best = 0, 0, (found[0][0], found[-1][0])
        for last, count in found:
            held += count
            while held - found[first][1] >= enough:
                held -= found[first][1]
                first += 1
            if held >= enough and last - found[first][0] < best[1] - best[0]:
                best = (found[first][0], last)
        return Timeline(self.width, Counter({bin_: n for bin_, n in found if best[0] <= bin_ <= best[1]}))

    def points(self, most: int) -> tuple[int, list[tuple[int, int]]]:
        """The width in ms of at most so many steps over the whole span, and (start in ms, count) of those that have any."""
        if not self.bins:
            return self.width, []
        # A step is a number of bins, so that no count is split.
        times = -(-self.span // (most * self.width))
        steps: Counter[int] = Counter()
        for bin_, count in self.bins.items():
            steps[bin_ // times] += count
        width = times * self.width
        return width, [(step * width, count) for step, count in sorted(steps.items())]


@dataclass
class Producer:
    """What one producer id wrote."""

    batches: int = 0
    records: int = 0
    bytes: int = 0
    transactional: int = 0
    epoch: int = -1
    first_time: int = -1
    last_time: int = -1
    topics: set[str] = field(default_factory=set)


@dataclass
class Watch:
    """Looks at the batches of one topic.

    Attributes:
        sizes: batches by the power of two above their bytes; counts: the same by their records.
        lateness: batches by how far their earliest time lies behind the newest before them in the partition (CreateTime).
        delay: batches by how long after the client's time the broker appended them (LogAppendTime).
    """

    topic: str = ""
    sizes: Counter[int] = field(default_factory=Counter)
    counts: Counter[int] = field(default_factory=Counter)
    timeline: Timeline = field(default_factory=Timeline)
    lateness: Counter[str] = field(default_factory=Counter)
    delay: Counter[str] = field(default_factory=Counter)
    producers: dict[int, Producer] = field(default_factory=dict)
    producers_cut: bool = False
    newest: int = -1

    def partition(self) -> None:
        """Another partition begins."""
        self.newest = -1

    def batch(self, batch: RecordBatch) -> None:
        """A sound batch."""
        self.sizes[batch.size.bit_length()] += 1
        if batch.control:
            return
        if batch.count is not None:
            self.counts[batch.count.bit_length()] += 1
        self._lag(batch)
        producer = self.producers.get(batch.producer_id)
        if producer is None:
            if len(self.producers) >= MOST_PRODUCERS:
                self.producers_cut = True
                return
            producer = self.producers[batch.producer_id] = Producer()
        producer.batches += 1
        producer.records += batch.count or 0
        producer.bytes += batch.size
        producer.transactional += batch.transactional
        producer.epoch = max(producer.epoch, batch.producer_epoch)
        producer.topics.add(self.topic)
        if batch.max_timestamp >= 0:
            first = producer.first_time
            producer.first_time = batch.max_timestamp if first < 0 else min(first, batch.max_timestamp)
            producer.last_time = max(producer.last_time, batch.max_timestamp)

    def _lag(self, batch: RecordBatch) -> None:
        # Under a delete horizon the base timestamp is that horizon, no time of a record.
        if batch.max_timestamp < 0 or batch.delete_horizon:
            return
        # In message sets there is no base timestamp: the entry's own time stands for it.
        base = batch.base_timestamp if batch.base_timestamp >= 0 else batch.max_timestamp
        if batch.timestamp_type == 1:
            self.delay[lag_class(batch.max_timestamp - base)] += 1
        else:
            self.lateness[lag_class(self.newest - base if self.newest >= 0 else 0)] += 1
        self.newest = max(self.newest, batch.max_timestamp)

    def merge(self, other: Watch) -> None:
        """Adds another topic's figures."""
        self.sizes += other.sizes
        self.counts += other.counts
        self.lateness += other.lateness
        self.delay += other.delay
        self.timeline.merge(other.timeline)
        self.producers_cut |= other.producers_cut
        for number, theirs in other.producers.items():
            mine = self.producers.get(number)
            if mine is None:
                if len(self.producers) >= MOST_PRODUCERS:
                    self.producers_cut = True
                    continue
                mine = self.producers[number] = Producer()
            for name in ("batches", "records", "bytes", "transactional"):
                setattr(mine, name, getattr(mine, name) + getattr(theirs, name))
            mine.epoch = max(mine.epoch, theirs.epoch)
            mine.topics |= theirs.topics
            times = [t for t in (mine.first_time, theirs.first_time) if t >= 0]
            mine.first_time = min(times, default=-1)
            mine.last_time = max(mine.last_time, theirs.last_time)


def lag_class(milliseconds: int) -> str:
    """The class of a lag: ``none``, ``up to 1 s`` …"""
    return next(name for most, name in LAGS if milliseconds <= most)
