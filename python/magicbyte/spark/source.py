"""The data source ``magicbyte``: batch reads of stored logs.

The driver plans by names, sizes and indexes and hands each task plain values; the extension does its reading in the
task. Spark has no column pruning for Python sources, so a narrower ``.schema(…)`` is how a user asks for fewer columns.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from magicbyte.log import Stretch

from . import columns, findings, offsets, paths
from .filters import Range, Wanted, wanted
from .options import Options, parse

if TYPE_CHECKING:
    import pyarrow as pa

    from magicbyte._core import Reader as CoreReader
    from magicbyte._core import Transactions
    from magicbyte.log import Log


class DataSource(datasource.DataSource):
    """``spark.read.format("magicbyte").load("logs/")``: rows as Spark's own Kafka source gives them, from files.

    Found by Spark without a call, through the module ``pyspark_magicbyte``. Paths are those that ``magicbyte.Log``
    takes, with globs (``logs/orders-*``, ``{a,b}``), several with commas or as a list.

    Which records, in the words of the Kafka source:
        ``subscribe`` (a list with commas), ``subscribePattern``, ``assign`` (JSON).
        ``startingOffsets``, ``endingOffsets``: ``earliest``, ``latest``, or JSON that names every partition.
        ``startingTimestamp``, ``endingTimestamp`` (ms), ``startingOffsetsByTimestamp``, ``endingOffsetsByTimestamp``
        (JSON): from, or to, the first offset of that time or later; ``startingOffsetsByTimestampStrategy``.
        ``includeHeaders``: true here, unless set to false.
    Which records, beyond it:
        ``topic``, ``partition``: name what has no name of its own, and choose among what has one.
        ``isolation``: ``read_uncommitted`` | ``read_committed``, which ends a partition at its last stable offset;
        ``pastLso``: goes on behind it, and leaves only transactions out whose end is not in the data.
        ``control`` (control records too).
        ``replicas``: where several paths hold copies of one partition: ``lineage`` (also the default, where every copy has
        its ``leader-epoch-checkpoint``), ``longest``, ``first``.
        ``pushdown``: filters on topic, partition, offset and timestamp skip segments and batches; needs the conf
        ``spark.sql.python.filterPushdown.enabled``.
    Columns:
        ``columns``: a list with commas chooses; with ``+`` before its first name it adds to the usual ones. Spark has
        no column pruning here: this, or a narrower ``.schema(…)``, is how to read less.
    What was passed over:
        Damage is an error that names file and position (``mode`` ``FAILFAST``), left out (``DROPMALFORMED``), or a row with
        ``_corrupt_record`` (``PERMISSIVE``). What was left out, and where ``read_committed`` ended and how many records it
        left behind, is a warning in the task's log (logger ``magicbyte.spark``). ``findings=true`` reads the same way and
        gives these as rows, in place of records: ``path topic partition position kind size message``.
    How to read:
        ``format``, ``mode``, ``checkCrc``, ``limits.record``, ``limits.batch``, ``limits.decompressed``,
        ``limits.headers``, ``maxPartitionBytes`` (128m: larger segments are cut between batches).
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._settings = parse(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "magicbyte"

    def schema(self) -> StructType:
        """The columns of Spark's Kafka source with headers, or those that the option ``columns`` names."""
        if self._settings.findings:
            return findings.SCHEMA
        return columns.schema_of(columns.chosen(self._settings))

    def reader(self, schema: StructType) -> Reader:
        """The reader for these columns; one that takes filters only if asked for, since Spark refuses it by default."""
        if self._settings.findings:
            if schema != findings.SCHEMA:
                raise ValueError("schema: with the option findings it is " + findings.SCHEMA.simpleString())
            damaged = "DROPMALFORMED" if self._settings.mode == "FAILFAST" else self._settings.mode
            return FindingsReader(replace(self._settings, mode=damaged), schema)
        columns.check(schema)
        if "_corrupt_record" not in schema.fieldNames() and self._settings.mode == "PERMISSIVE":
            # As Spark's own sources: without the column, a row of nulls would only be taken for a record.
            return self._reader(replace(self._settings, mode="DROPMALFORMED"), schema)
        return self._reader(self._settings, schema)

    def _reader(self, settings: Options, schema: StructType) -> Reader:
        # What this build can't do is said here, not in every task.
        from magicbyte import _core

        _core.Reader([], isolation=settings.isolation, **settings.reading())
        return (FilteringReader if settings.pushdown else Reader)(settings, schema)


@dataclass
class Piece(datasource.InputPartition):
    """What one task reads: plain values only, which pickle without the extension."""

    stretch: Stretch
    transactions: bytes | None = None
    """What is known of the partition's transactions: found out once, by whoever plans, not in every task."""


class Reader(datasource.DataSourceReader):
    """Reads segments, one task a segment, large ones cut between batches."""

    def __init__(self, settings: Options, schema: StructType) -> None:
        self._settings = settings
        self._fields = [(field.name, field.nullable) for field in schema]
        self._wanted = Wanted()

    def partitions(self) -> Sequence[datasource.InputPartition]:
        """The stretches of files to read, in the order of topic, partition and offset."""
        opened = paths.logs(self._settings)
        spans = offsets.spans(opened, self._settings)
        if self._wanted.empty:
            return []
        chosen = {}
        for name, (first, end) in spans.items():
            both = Range(first, end).meet(self._wanted.offsets)
            if self._wanted.takes(*name) and not both.empty:
                chosen[name] = (both.first, both.end)
        times = (self._wanted.timestamps.first, self._wanted.timestamps.end)
        states = "transactionstate" in (name.lower() for name, _ in self._fields)
        known = Known(states or self._settings.isolation == "read_committed")
        found: list[Piece] = []
        for log in opened:
            empty = {segment.path for segment in log.segments if segment.size == 0}
            stretches = log.stretches(chosen, times, self._settings.max_partition_bytes)
            found += [Piece(it, known.of(log, it)) for it in stretches if it.path not in empty]
        found.sort(key=lambda piece: (piece.stretch.topic, piece.stretch.partition))
        return found

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, as Arrow batches of exactly the schema's types."""
        # Spark makes an empty list of partitions into one without a value.
        if not isinstance(partition, Piece):
            return
        import pyarrow as pa

        reader = self._open(partition)
        scan = reader.scan([name for name, _ in self._fields], spark=True)
        if all(nullable for _, nullable in self._fields):
            yield from scan
        else:
            # A user's NOT NULL is a promise that Spark wants to see in the Arrow schema too.
            promised = [
                field.with_nullable(nullable) for field, (_, nullable) in zip(scan.schema, self._fields, strict=True)
            ]
            for batch in scan:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=pa.schema(promised))
        findings.tell(partition.stretch, reader.findings)

    def _open(self, partition: Piece) -> CoreReader:
        from magicbyte import _core

        times = self._wanted.timestamps
        known = partition.transactions
        return _core.Reader(
            [
                _core.Part(
                    *partition.stretch, transactions=None if known is None else _core.Transactions.from_bytes(known)
                )
            ],
            isolation=self._settings.isolation,
            past_lso=self._settings.past_lso,
            control=self._settings.control,
            timestamps=None if times == Range() else (times.first, times.end),
            **self._settings.reading(),
        )


class FindingsReader(Reader):
    """Reads as the others do, and hands out what it passed over, and where it ended, in place of records."""

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """The findings of one partition."""
        if isinstance(partition, Piece):
            reader = self._open(partition)
            reader.scan(["value"]).count()
            yield findings.batch(partition.stretch, reader.findings)


class Known:
    """What is known of transactions, cut to what a segment needs of it."""

    def __init__(self, asked: bool) -> None:
        self._asked = asked
        self._partitions: dict[tuple[int, str, int], Transactions] = {}
        self._segments: dict[tuple[int, str], bytes] = {}

    def of(self, log: Log, stretch: Stretch) -> bytes | None:
        """For a stretch of a log; ``None`` where nobody asks."""
        if not self._asked:
            return None
        place = (id(log), stretch.path)
        if place not in self._segments:
            name = (id(log), stretch.topic, stretch.partition)
            if name not in self._partitions:
                self._partitions[name] = log.transactions(stretch.topic, stretch.partition)
            own = [it for it in log.segments if (it.topic, it.partition) == (stretch.topic, stretch.partition)]
            at = next(number for number, segment in enumerate(own) if segment.path == stretch.path)
            # A segment holds what its name says, and ends where the next one begins.
            end = own[at + 1].base_offset if at + 1 < len(own) else -1
            first = own[at].base_offset
            self._segments[place] = self._partitions[name].to_bytes(
                first if first >= 0 else None, end if end > first >= 0 else None
            )
        return self._segments[place]


class FilteringReader(Reader):
    """A reader that skips what filters on topic, partition, offset and timestamp exclude (``pushdown=true``).

    Needs ``spark.sql.python.filterPushdown.enabled``: where it is off, Spark refuses any reader with ``pushFilters``.
    """

    def pushFilters(self, filters: list[datasource.Filter]) -> Iterator[datasource.Filter]:
        """Takes note of the filters, and leaves all of them for Spark to check again."""
        self._wanted = wanted(filters)
        yield from filters
