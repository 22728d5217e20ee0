"""The sink: rows of Arrow batches become segments aside, in the tasks; one commit on the driver gives them their names."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from . import commit
from .gather import Plan, Run
from .sink_options import SinkOptions, check, place

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from magicbyte.writer import Writer


@dataclass
class Written(datasource.WriterCommitMessage):
    """What one task wrote, by names: plain values."""

    task: int
    runs: list[Run]
    job: str
    query: str | None = None


class Sink:
    """What batch and streaming writes have in common. Plain fields: it is pickled before anything is written."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        self._options = check(schema, options)
        # A worker may stand in another directory.
        self._root = Path(self._options.path).absolute()
        self._overwrite = overwrite
        self._has_epochs = "leaderepoch" in (name.lower() for name in schema.fieldNames())
        if self._root.exists() and not self._root.is_dir():
            raise NotADirectoryError(f"{self._root} is a file, not a log directory")
        if any(self._root.glob("*.log")):
            raise ValueError(f"{self._root} holds segments itself: give the log directory above")

    def _write(self, iterator: Iterable[pa.RecordBatch], job: str, query: str | None) -> Written:
        from pyspark import TaskContext

        context = TaskContext.get()
        number, attempt = (context.partitionId(), context.taskAttemptId()) if context is not None else (0, 0)
        own = commit.aside(self._root, job) / f"{number}-{attempt}-{uuid.uuid4().hex[:8]}"
        task = Task(self._options, own)
        try:
            task.write(iterator)
            runs = task.close(self._root)
        except BaseException:
            task.abandon()
            raise
        return Written(number, runs, job, query)

    def _commit(
        self, messages: Sequence[datasource.WriterCommitMessage | None], job: str, stream: tuple[str, int] | None
    ) -> None:
        written = sorted((it for it in messages if isinstance(it, Written)), key=lambda it: it.task)
        with commit.locked(self._root):
            if stream is not None and commit.last_batch(self._root, stream[0]) >= stream[1]:
                # It was committed before the query died; its records must not come twice.
                shutil.rmtree(commit.aside(self._root, job), ignore_errors=True)
                return
            staged = f"{commit.aside(self._root, job).name}/final-{uuid.uuid4().hex[:8]}"
            plan = Plan(self._root, staged, self._options, self._has_epochs)
            try:
                moves = plan.moves([run for it in written for run in it.runs], self._overwrite)
            except BaseException:
                shutil.rmtree(commit.aside(self._root, job), ignore_errors=True)
                raise
            commit.carry_out(self._root, job, moves, stream)
            commit.swept(self._root)


class BatchSink(Sink, datasource.DataSourceArrowWriter):
    """``df.write.format("magicbyte")``."""

    def __init__(self, options: SinkOptions, schema: StructType, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite)
        self._job = uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task: everything goes aside."""
        return self._write(iterator, self._job, None)

    def commit(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks have ended well."""
        self._commit(messages, self._job, None)

    def abort(self, messages: list[datasource.WriterCommitMessage | None]) -> None:
        """On the driver, when one has not, or the commit has not."""
        shutil.rmtree(commit.aside(self._root, self._job), ignore_errors=True)


class StreamSink(Sink, datasource.DataSourceStreamArrowWriter):
    """``df.writeStream.format("magicbyte")``: each batch of a query once, however often Spark asks."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """In a task. The query's id is in its checkpoint, so it is the same after a restart."""
        from pyspark import TaskContext

        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context is not None else None
        if not query:
            raise RuntimeError("Spark does not say which streaming query this is, so batches could come twice")
        return self._write(iterator, hashlib.md5(query.encode(), usedforsecurity=False).hexdigest(), query)

    def commit(self, messages: list[datasource.WriterCommitMessage | None], batchId: int) -> None:
        """On the driver, when all tasks of the batch have ended well; again, where Spark died before it took note."""
        for message in messages:
            if isinstance(message, Written) and message.query is not None:
                self._commit(messages, message.job, (message.query, batchId))
                return

    def abort(self, messages: list[datasource.WriterCommitMessage | None], batchId: int) -> None:
        """On the driver, when a task has failed: what the others wrote goes."""
        for message in messages:
            if isinstance(message, Written):
                for run in message.runs:
                    shutil.rmtree((self._root / run.directory).parent, ignore_errors=True)


class Task:
    """Writes the rows of one task below a directory of its own."""

    def __init__(self, options: SinkOptions, directory: Path) -> None:
        from magicbyte import _core

        self._options = options
        self._directory = directory
        _many_files()
        self._writers: dict[tuple[str, int], Writer] = {}
        self._encoder = _core.ColumnEncoder(
            options.format,
            options.batch_size,
            {"codec": options.codec, "level": options.level, "leader_epoch": 0},
            topic=options.topic,
            partition=options.partition,
            # As a producer does where nobody says when.
            timestamp=int(time.time() * 1000),
            keep_offsets=options.offsets == "keep",
            keep_producers=options.producers == "keep",
        )

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Appends rows to the segments of their partitions."""
        from magicbyte.encoding import pieces

        for batch in batches:
            for piece in pieces(batch):
                self._append(self._encoder.push(piece))
        self._append(self._encoder.finish())

    def _append(self, ready: list[tuple[str, int, bytes]]) -> None:
        from magicbyte.writer import Writer

        for topic, partition, data in ready:
            writer = self._writers.get((topic, partition))
            if writer is None:
                writer = self._writers[topic, partition] = Writer(
                    self._directory / place(topic, partition),
                    format=self._options.format,
                    segment_bytes=self._options.segment_bytes,
                    index_interval=self._options.index_interval,
                    read_format=self._options.read_format,
                )
            writer.append(data)

    def close(self, root: Path) -> list[Run]:
        """Brings everything to disk; names it relative to ``root``."""
        runs = []
        for (topic, partition), writer in self._writers.items():
            writer.close()
            bases = tuple(int(name.partition(".")[0]) for name in writer.segments)
            runs.append(Run(topic, partition, writer.directory.relative_to(root).as_posix(), bases, writer.next_offset))
        return runs

    def abandon(self) -> None:
        """Leaves nothing."""
        for writer in self._writers.values():
            writer.abandon()
        shutil.rmtree(self._directory, ignore_errors=True)


def _many_files() -> None:
    """A file stays open for each partition that the task has rows of: as many as the system allows, at last."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))


def in_order(frame: DataFrame) -> DataFrame:
    """The rows of each partition in one task, by rising offset: what a write that keeps offsets asks for.

    What the reader gives is in that order already. Rows that were shuffled since, by a join or an ``orderBy``, are not.
    """
    return frame.repartition("topic", "partition").sortWithinPartitions("topic", "partition", "offset")
