"""Logs into Parquet files, a directory a topic and day: written from Arrow columns, each record once, however often it runs.

```text
target/
  topic=orders/date=2026-11-21/00003-00000000000000451200-0.parquet    partition 3, from offset 451200 on
  _magicbyte/offsets.json          up to which offset each partition has landed
  _magicbyte/journal.json          a run that is being committed: what is renamed to where, and the offsets behind it
  _magicbyte/tmp/<run>/…           files that nobody is to see yet
```
A run writes its files aside; then it writes the journal, which is the moment from which on it counts; then files get their
names, offsets are put in place, the journal goes. Whoever comes next finishes what a journal says, and removes what no
journal names. Readers (Spark, DuckDB, pyarrow) leave out what begins with ``_``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from magicbyte._aside import flush_directory, written_aside
from magicbyte._extras import extra
from magicbyte._layout import absolute
from magicbyte._tasks import Run, one_by_one
from magicbyte.log import Log, Stretch

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from magicbyte.log import Source

__all__ = ["Landed", "Landing", "land"]

DAY = 86_400_000  # milliseconds
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
OPEN = 16  # files that a task has open at a time: one a day
ROWS, BYTES = 1 << 17, 16 << 20  # of a row group at most, bytes before compression: readers go by them
STATE = "_magicbyte"
COLUMNS = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers")
"""Of the files: those of Spark's Kafka source but for ``topic``, which is in their names. A record without headers has an
empty list, and one without a time has none: where the source has NULL, and 1969."""


@dataclass(frozen=True, slots=True)
class Landing:
    """How to land.

    Attributes:
        format: how to read the log, as ``Log`` has it.
        isolation: ``read_committed`` leaves out what was aborted, and ends at the last stable offset until the next run.
        compression: of the Parquet files: ``zstd``, ``snappy``, ``lz4``, ``gzip``, ``none``.
        target_bytes: of a log, that one task reads.
        fail_on_data_loss: an error where records were deleted, or cut off, that had not landed.
        table: plain ``parquet`` files, or a ``delta`` table (``pip install 'magicbyte[delta]'``), which keeps the offsets in its own
            log.
    """

    format: str = "kafka"
    isolation: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    compression: str = "zstd"
    target_bytes: int = 256 << 20
    fail_on_data_loss: bool = True
    table: Literal["parquet", "delta"] = "parquet"


@dataclass(slots=True)
class Landed:
    """What landed.

    Attributes:
        records: their number.
        bytes: of the log that were read.
        files: paths of the Parquet files, below the target.
        offsets: up to which offset each partition has landed, in all runs together.
        seconds: how long it took.
    """

    records: int = 0
    bytes: int = 0
    files: list[str] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Task:
    """Neighbouring stretches of one partition; plain values, which travel."""

    stretches: tuple[Stretch, ...]
    size: int
    transactions: bytes | None


Outcome = tuple[int, str, list[str]]
"""How many records, where below the run's directory the files are, their names."""


def land(
    source: Log | Source,
    target: str | os.PathLike[str],
    landing: Landing | None = None,
    *,
    progress: Callable[[int], object] | None = None,
    run: Run[Task, Outcome] | None = None,
) -> Landed:
    """Lands what is new in a log since the last run. Columns are those of Spark's Kafka source; ``topic`` and ``date`` (of the
    record's timestamp, in UTC) are in the directories' names.

    Only one run at a time works on a target: another one is refused. ``progress`` is told the bytes read. ``run`` does the
    tasks elsewhere: ``magicbyte.spark.land``.

    Raises:
        CorruptRecordError: damage; nothing of this run lands. ``recover`` makes a sound copy.
        ValueError: records are gone that had not landed, with ``fail_on_data_loss``.
        BlockingIOError: another run is at work on this target.
        ImportError: no pyarrow; ``pip install 'magicbyte[arrow]'``.
    """
    with extra("arrow"):  # told at once, not in the midst of the work
        import pyarrow.parquet  # noqa: F401

    landing = landing or Landing()
    began = time.monotonic()
    log = source if isinstance(source, Log) else Log(source, format=landing.format)
    root = Path(target).absolute()
    with _locked(root):
        if landing.table == "delta":
            from magicbyte import _delta

            if (root / STATE / "offsets.json").exists():
                raise ValueError(f"{root} holds plain Parquet files already, not a Delta table")
            shutil.rmtree(root / STATE / "tmp", ignore_errors=True)
            offsets = _delta.offsets(root, log.partitions)
        elif (root / "_delta_log").exists():
            raise ValueError(f"{root} is a Delta table: land into it with table='delta'")
        else:
            offsets = _recovered(root)
        ends = _ends(log, offsets, landing)
        tasks = [(task.size, task) for task in _tasks(log, offsets, ends, landing)]
        aside = root / STATE / "tmp" / uuid.uuid4().hex
        work = _Work(str(aside), landing)
        try:
            results = run(tasks, work) if run is not None else one_by_one(tasks, work, progress)
            done = Landed(sum(rows for rows, _, _ in results), sum(size for size, _ in tasks))
            places = {name: str(Path(attempt, name)) for _, attempt, names in results for name in names}
            done.files = sorted(places)
            done.offsets = {**offsets, **ends}
            if landing.table == "delta":
                _delta.commit(root, aside, places, log.scan(COLUMNS).schema, offsets, done.offsets)
            else:
                _commit(root, aside, done, places)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    done.seconds = time.monotonic() - began
    return done


# What is to be read


def _ends(log: Log, offsets: Mapping[tuple[str, int], int], landing: Landing) -> dict[tuple[str, int], int]:
    """The offset that each partition with something new is landed up to."""
    ends = {}
    for name, group in groupby(log.segments, lambda it: (it.topic, it.partition)):
        segments = list(group)
        end = log.end_offset(segments)
        start = offsets.get(name)
        if start is not None and landing.fail_on_data_loss:
            place = f"{name[0]}-{name[1]}: landed up to offset {start}"
            if segments[0].base_offset > start:
                raise ValueError(f"{place}, and the log begins at {segments[0].base_offset}: what lay between is gone")
            if end < start:
                raise ValueError(f"{place}, and the log ends at {end}: it was cut, or is another one")
        if landing.isolation == "read_committed":
            stable = log.transactions(*name).last_stable_offset
            end = end if stable is None else min(end, stable)
        if end > (start or 0) or (start is None and end >= 0):
            ends[name] = max(end, start or 0)
    return ends


def _tasks(
    log: Log, offsets: Mapping[tuple[str, int], int], ends: Mapping[tuple[str, int], int], landing: Landing
) -> Iterator[Task]:
    wanted = {name: (offsets.get(name), end) for name, end in ends.items() if end > offsets.get(name, 0)}
    sizes = {segment.path: segment.size for segment in log.segments}
    stretches = log.stretches(wanted, target_bytes=landing.target_bytes)
    for name, group in groupby(stretches, lambda it: (it.topic, it.partition)):
        known = None
        if landing.isolation == "read_committed":
            known = log.transactions(*name).to_bytes(*wanted[name])
        some: list[Stretch] = []
        room = 0
        for stretch in group:
            stop = sizes[stretch.path] if stretch.end is None else stretch.end
            size = max(stop - stretch.start, 0)
            if some and room + size > landing.target_bytes:
                yield Task(tuple(some), room, known)
                some, room = [], 0
            some.append(stretch._replace(path=absolute(stretch.path)))
            room += size
        if some:
            yield Task(tuple(some), room, known)


# The work of a task


class _Work:
    """Reads a task's stretches, writes its files aside. Travels to workers."""

    def __init__(self, aside: str, landing: Landing) -> None:
        self.aside, self.landing = aside, landing

    def __call__(self, task: Task) -> Outcome:
        """A task may be tried twice at the same time: each attempt has a directory of its own."""

        from magicbyte import _core

        known = None if task.transactions is None else _core.Transactions.from_bytes(task.transactions)
        parts = [_core.Part(*stretch, transactions=known) for stretch in task.stretches]
        reader = _core.Reader(parts, format=self.landing.format, isolation=self.landing.isolation)
        attempt = uuid.uuid4().hex
        files = _Files(
            os.path.join(self.aside, attempt),
            task.stretches[0].topic,
            task.stretches[0].partition,
            self.landing.compression,
        )
        rows = 0
        try:
            for batch in reader.scan(COLUMNS, batch_rows=ROWS, batch_bytes=BYTES):
                rows += batch.num_rows
                for day, own in _by_day(batch):
                    files.write(day, own)
        finally:
            files.close()
        return rows, attempt, files.names


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each day (UTC), in the order in which they come."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if not batch.num_rows:
        return
    times = batch.column("timestamp")
    unit = times.type.unit if pa.types.is_timestamp(times.type) else "ms"
    numbers = pc.fill_null(times.cast(pa.int64()), np.iinfo(np.int64).min).to_numpy(zero_copy_only=False)
    days = numbers // (DAY * {"ms": 1, "us": 1000}[unit])
    days[numbers < 0] = -1
    found, first = np.unique(days, return_index=True)
    for at in np.argsort(first):
        day = int(found[at])
        own = batch if len(found) == 1 else batch.filter(pa.array(days == day))
        yield _named(day), own


def _named(day: int) -> str:
    """A day since 1970 as a directory names it; none for records without a time, or before 1970, or after 9999."""
    if day < 0:
        return NO_VALUE
    try:
        return (date(1970, 1, 1) + timedelta(days=day)).isoformat()
    except OverflowError:
        return NO_VALUE


class _Files:
    """The files of one task: one a day, another one where a day comes back after many others."""

    def __init__(self, aside: str, topic: str, partition: int, compression: str) -> None:
        self.aside, self.compression = Path(aside), compression
        self.topic, self.partition = quote(topic, safe="._-") or NO_VALUE, partition
        self.names: list[str] = []
        self._open: dict[str, pq.ParquetWriter] = {}

    def write(self, day: str, batch: pa.RecordBatch) -> None:
        writer = self._open.pop(day, None)
        if writer is None:
            if len(self._open) == OPEN:
                self._open.pop(next(iter(self._open))).close()
            writer = self._begun(day, batch)
        # The one used last stands last.
        self._open[day] = writer
        writer.write_batch(batch)

    def _begun(self, day: str, batch: pa.RecordBatch) -> pq.ParquetWriter:
        import pyarrow.parquet as pq

        first = batch.column("offset")[0].as_py()
        partition = max(self.partition, 0)
        name = f"topic={self.topic}/date={day}/{partition:05d}-{first:020d}-{len(self.names)}.parquet"
        path = self.aside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.names.append(name)
        # A dictionary pays for what repeats; where a file holds what, offsets and times tell.
        return pq.ParquetWriter(
            path,
            batch.schema,
            compression=self.compression,
            use_dictionary=["headers.list.element.key"],
            write_statistics=["offset", "timestamp"],
        )

    def close(self) -> None:
        """Ends all files and brings them to disk."""
        for writer in self._open.values():
            writer.close()
        self._open.clear()
        for name in self.names:
            handle = os.open(self.aside / name, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


# The state of a target


@contextlib.contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Keeps other runs on this machine out; the lock goes with the process."""
    import fcntl

    (root / STATE).mkdir(parents=True, exist_ok=True)
    handle = os.open(root / STATE / "lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(error.errno, "another run is at work on this target", str(root)) from None
        yield
    finally:
        os.close(handle)


def _recovered(root: Path) -> dict[tuple[str, int], int]:
    """Finishes a run that had its journal, forgets one that had not; up to where partitions have landed."""
    with contextlib.suppress(FileNotFoundError):
        _finish(root, json.loads((root / STATE / "journal.json").read_bytes()))
    shutil.rmtree(root / STATE / "tmp", ignore_errors=True)
    try:
        told = json.loads((root / STATE / "offsets.json").read_bytes())
    except FileNotFoundError:
        return {}
    return {(topic, partition): offset for topic, partition, offset in told["offsets"]}


def _commit(root: Path, aside: Path, done: Landed, places: Mapping[str, str]) -> None:
    for directory in {(aside / place).parent for place in places.values()}:
        flush_directory(directory)
    journal = {
        "files": [[str((aside / places[name]).relative_to(root)), name] for name in done.files],
        "offsets": [[topic, partition, offset] for (topic, partition), offset in sorted(done.offsets.items())],
    }
    _write(root / STATE / "journal.json", journal)
    _finish(root, journal)


def _finish(root: Path, journal: dict[str, Any]) -> None:
    """What a journal says, as often as it takes."""
    directories = set()
    for place, name in journal["files"]:
        final = root / name
        final.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # it was renamed before
            os.rename(root / place, final)
        directories |= {final.parent, final.parent.parent}
    for directory in sorted(directories):
        flush_directory(directory)
    flush_directory(root)
    _write(root / STATE / "offsets.json", {"offsets": journal["offsets"]})
    (root / STATE / "journal.json").unlink(missing_ok=True)
    flush_directory(root / STATE)


def _write(path: Path, document: dict[str, Any]) -> None:
    with written_aside(path) as file:
        file.write(json.dumps(document).encode())
