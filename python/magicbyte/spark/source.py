"""The data source ``magicbyte``: batch reads of stored logs, and the way to its writers.

The driver plans by names, sizes and indexes and hands each task plain values; the extension does its reading in the
task. Spark has no column pruning for Python sources, so a narrower ``.schema(…)`` is how a user asks for fewer columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from magicbyte.log import Stretch

from . import columns, findings, offsets, paths, sink_options, worker
from .filters import Range, Wanted, wanted
from .options import Options, parse
from .pack import Pack, Piece, packed
from .sink import BatchSink, StreamSink

LEAST = 64 << 10
"""Bytes of a task, below which more tasks bring nothing."""

if TYPE_CHECKING:
    import pyarrow as pa

    from magicbyte._core import Reader as CoreReader
    from magicbyte._core import Transactions
    from magicbyte.log import Log, Segment

    from .streaming import StreamReader


class DataSource(datasource.DataSource):
    """``spark.read.format("magicbyte").load("logs/")``: rows as Spark's own Kafka source gives them, from files.

    Found by Spark without a call, through the module ``pyspark_magicbyte``. Paths are those that ``magicbyte.Log``
    takes, with globs (``logs/orders-*``, ``{a,b}``), several with commas or as a list; and addresses: ``s3://``, ``gs://``,
    ``abfss://``, ``hdfs://`` and what else fsspec reaches (extra ``storage``, and the storage's own package, on each node).
    ``storage``: options for it, as JSON, over what it finds in the environment.

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
        ``header.filter``: a condition on headers (``trace-id=abc``, ``tenant!=acme``, ``retry``, ``!poison``), or a JSON list of
        such, that must all hold: what does not match is never copied (``magicbyte.Log.records`` has the details).
        ``replicas``: where several paths hold copies of one partition: ``lineage`` (also the default, where every copy has
        its ``leader-epoch-checkpoint``), ``longest``, ``first``. The rule also decides between segments of one directory
        that hold the same offsets.
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
        ``limits.headers``, ``maxPartitionBytes`` (128m: segments larger by over a tenth are cut between batches, smaller
        ones share a task, where opening a file counts as 1m), ``minPartitions`` (tasks, about so many or more: what
        is large is cut smaller, to 64k at least).

    ``spark.readStream.format("magicbyte")`` follows a log that grows, to its last complete entry: new segments and new
    partitions too; with ``isolation=read_committed`` to its last stable offset. ``startingOffsets`` may be ``latest`` then;
    ``maxOffsetsPerTrigger``; ``failOnDataLoss`` (true: a query ends where offsets that it has not read are deleted).
    Trigger.AvailableNow reads what is there, by these limits.

    ``df.write.format("magicbyte").mode("append").save("logs/")`` takes the same columns and writes partition directories
    that a broker opens: all of them when the job succeeds, none when it fails. ``value`` is needed; ``key``, ``headers``,
    ``timestamp`` or ``timestampMs`` (else: now), ``timestampType``, ``leaderEpoch``, ``tombstone``, ``rawHeaderKeys`` are
    taken where they are given; columns of batches, and of producers, are passed over.
        ``topic``, ``partition``: for all rows, over what they say themselves.
        ``offsets``: ``keep`` (usual, where there is a column ``offset``: they must rise, see ``in_order``) | ``assign``,
        counted on from the partition's end in the order of Spark's partitions.
        ``producers``: ``drop`` (usual) | ``keep``: producers, sequences, transactions and their markers as they were, from the
        columns ``producerId``, ``producerEpoch``, ``sequence``, ``isTransactional``, ``isControl`` of a read with
        ``control=true``; each partition as a whole, from one task (``in_order``).
        ``codec``, ``level``, ``batchSize`` (16k, before compression), ``segmentBytes`` (1g), ``indexInterval`` (4k),
        ``leaderEpoch``, ``format`` (``v2``, ``v1``, ``v0``; proposals that no broker serves with ``draft=true``).
        Mode ``append`` adds segments behind what is there; ``overwrite`` replaces the partitions that rows go to, and no
        other. A running broker does not see it: write while it is stopped, or into another directory.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)
        # Where a batch would have nothing to read, a stream has what comes.
        self._at_latest = self._given.get("startingOffsets", self._given.get("startingoffsets", "")).strip() == "latest"
        if not sink_options.for_writing(options):
            _ = self._settings

    @cached_property
    def _settings(self) -> Options:
        # Not before somebody reads: to a writer, other options are known.
        latest = self._at_latest
        return parse({k: v for k, v in self._given.items() if not latest or k.lower() != "startingoffsets"})

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
        if self._at_latest:
            raise ValueError("option startingOffsets: latest would leave nothing to read")
        if self._settings.findings:
            if schema != findings.SCHEMA:
                raise ValueError("schema: with the option findings it is " + findings.SCHEMA.simpleString())
            damaged = "DROPMALFORMED" if self._settings.mode == "FAILFAST" else self._settings.mode
            return FindingsReader(replace(self._settings, mode=damaged), schema)
        columns.check(schema)
        return self._reader(self._mild(schema), schema)

    def _mild(self, schema: StructType) -> Options:
        if "_corrupt_record" not in schema.fieldNames() and self._settings.mode == "PERMISSIVE":
            # As Spark's own sources: without the column, a row of nulls would only be taken for a record.
            return replace(self._settings, mode="DROPMALFORMED")
        return self._settings

    def streamReader(self, schema: StructType) -> StreamReader:
        """The reader that follows a log as it grows."""
        try:
            from .streaming import StreamReader
        except ImportError as error:
            raise RuntimeError("readStream needs PySpark 4.2 or newer") from error

        columns.check(schema)
        return StreamReader(self._mild(schema), schema, self._at_latest)

    def writer(self, schema: StructType, overwrite: bool) -> BatchSink:
        """The writer for these columns."""
        return BatchSink(sink_options.parse(self._given), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        """The writer for the batches of a stream."""
        return StreamSink(sink_options.parse(self._given), schema, overwrite)

    def _reader(self, settings: Options, schema: StructType) -> Reader:
        # What this build can't do is said here, not in every task.
        from magicbyte import _core

        _core.Reader([], isolation=settings.isolation, **settings.reading())
        return (FilteringReader if settings.pushdown else Reader)(settings, schema)


class Reader(datasource.DataSourceReader):
    """Reads segments: large ones cut between batches, small ones several to a task."""

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
        return self.plan(opened, chosen)

    def plan(
        self, opened: Sequence[Log], chosen: offsets.Spans, settled: Mapping[offsets.Name, int] | None = None
    ) -> list[Pack]:
        """Tasks for these offsets of each partition, by names, sizes and indexes.

        ``settled``: offsets before which every transaction is known to have ended, and nothing is chosen.
        """
        times = (self._wanted.timestamps.first, self._wanted.timestamps.end)
        states = "transactionstate" in (name.lower() for name, _ in self._fields)
        known = Known(states or self._settings.isolation == "read_committed", settled or {})
        sizes = {segment.path: segment.size for log in opened for segment in log.segments}

        def size_of(it: Stretch) -> int:
            return (sizes[it.path] if it.end is None else it.end) - it.start

        target = self._settings.max_partition_bytes
        if self._settings.min_partitions is not None:
            whole = sum(size_of(it) for log in opened for it in log.stretches(chosen, times))
            target = min(target, max(whole // self._settings.min_partitions, LEAST))
        found: list[Piece] = []
        for log in opened:
            for it in log.stretches(chosen, times, target):
                size = size_of(it)
                if sizes[it.path]:
                    found.append(Piece(it, size, known.of(log, it)))
        found.sort(key=lambda piece: (piece.stretch.topic, piece.stretch.partition))
        return packed(found, target)

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, as Arrow batches of exactly the schema's types."""
        # Spark makes an empty list of partitions into one without a value.
        if not isinstance(partition, Pack):
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
        findings.tell(partition.stretches, reader.findings)

    def _open(self, partition: Pack) -> CoreReader:
        from magicbyte import _core

        worker.settle()
        paths.reach(self._settings)
        times = self._wanted.timestamps
        return _core.Reader(
            [
                _core.Part(
                    *piece.stretch,
                    transactions=None
                    if piece.transactions is None
                    else _core.Transactions.from_bytes(piece.transactions),
                )
                for piece in partition.pieces
            ],
            isolation=self._settings.isolation,
            headers=self._settings.headers or None,
            past_lso=self._settings.past_lso,
            control=self._settings.control,
            timestamps=None if times == Range() else (times.first, times.end),
            **self._settings.reading(),
        )


class FindingsReader(Reader):
    """Reads as the others do, and hands out what it passed over, and where it ended, in place of records."""

    def read(self, partition: datasource.InputPartition) -> Iterator[pa.RecordBatch]:
        """The findings of one partition."""
        if isinstance(partition, Pack):
            reader = self._open(partition)
            reader.scan(["value"]).count()
            yield findings.batch(partition.stretches, reader.findings)


class Known:
    """What is known of transactions, cut to what a segment needs of it."""

    def __init__(self, asked: bool, settled: Mapping[offsets.Name, int]) -> None:
        self._asked = asked
        self._settled = settled
        self._partitions: dict[tuple[int, str, int], Transactions] = {}
        self._segments: dict[tuple[int, str], bytes] = {}
        self._own: dict[tuple[int, str, int], list[Segment]] = {}

    def of(self, log: Log, stretch: Stretch) -> bytes | None:
        """For a stretch of a log; ``None`` where nobody asks."""
        if not self._asked:
            return None
        place = (id(log), stretch.path)
        if place not in self._segments:
            name = (id(log), stretch.topic, stretch.partition)
            if name not in self._partitions:
                since = self._settled.get((stretch.topic, stretch.partition))
                self._partitions[name] = log.transactions(stretch.topic, stretch.partition, since)
            if name not in self._own:
                for it in log.segments:
                    self._own.setdefault((id(log), it.topic, it.partition), []).append(it)
            own = self._own[name]
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
