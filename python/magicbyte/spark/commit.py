"""From what tasks wrote aside to the final names: all of it, or nothing.

```text
logs/                                     what save() names
  orders-0/00…042.log …                   final: a broker may open it
  .magicbyte-0.<job>-delete/              aside: one directory a job, or a streaming query
    7-31/orders-0/00…000.log …            what task attempt 31 wrote for Spark's partition 7
  .magicbyte-commit                       the journal: there only while a commit moves things
  .magicbyte-streams                      the last batch of each streaming query
  .magicbyte-lock                         held while a commit runs
```
A name in ``-delete`` is one that a broker removes when it starts, and that ``Log`` leaves out. The journal is written
when everything to be moved is complete and on disk; as long as it is there, ``Log`` reads what was there before. Who
finds one left behind by a process that died takes a batch job's moves back (it never said that it had succeeded) and
brings a streaming batch's to an end (Spark will ask for that same batch again, and its records must come once).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from magicbyte._aside import exchange, flush_directory, written_aside
from magicbyte._journal import ASIDE, JOURNAL, read

STREAMS, LOCK = ".magicbyte-streams", ".magicbyte-lock"
ORPHAN_AGE = 24 * 3600.0
"""Seconds without a change, after which what lies aside belongs to nobody."""


def aside(root: Path, job: str) -> Path:
    """Where a job's tasks write."""
    return root / f"{ASIDE}{job}-delete"


@contextlib.contextmanager
def locked(root: Path) -> Iterator[None]:
    """One commit at a time below ``root``; what a dead one left is settled first."""
    root.mkdir(parents=True, exist_ok=True)
    with (root / LOCK).open("a") as file:
        with contextlib.suppress(ImportError):  # a system without it has no Kafka broker either
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        _settle(root)
        yield


@dataclass(frozen=True)
class Move:
    """A rename within the root, by relative names.

    ``inode``: of a directory that changes places with the one that is there. ``old``: a copy of a file that is replaced.
    """

    source: str
    target: str
    inode: int | None = None
    old: str | None = None

    def forward(self, root: Path) -> None:
        """Does it, if it is not done."""
        source, target = root / self.source, root / self.target
        if self.inode is not None:
            if target.stat().st_ino != self.inode:
                exchange(source, target)
        elif source.exists():
            if self.old is None and target.exists():
                raise FileExistsError(f"{target} was not there when the commit began")
            os.replace(source, target)

    def back(self, root: Path) -> None:
        """Undoes it, if it is done."""
        source, target = root / self.source, root / self.target
        if self.inode is not None:
            if target.stat().st_ino == self.inode:
                exchange(source, target)
        elif self.old is not None:
            if (root / self.old).exists():
                os.replace(root / self.old, target)
        elif target.exists() and not source.exists():
            os.replace(target, source)


def carry_out(root: Path, job: str, moves: Sequence[Move], stream: tuple[str, int] | None) -> None:
    """Moves everything, within ``locked``. On an error, nothing is moved."""
    entry = {"job": job, "moves": [vars(move) for move in moves], "stream": stream}
    with written_aside(root / JOURNAL) as file:
        file.write(json.dumps(entry).encode())
    try:
        for move in moves:
            move.forward(root)
        _flush(root, moves)
        if stream is not None:
            _note_stream(root, *stream)
    except BaseException:
        for move in reversed(moves):
            move.back(root)
        _flush(root, moves)
        _forget(root, job)
        raise
    _forget(root, job)


def _settle(root: Path) -> None:
    """What a process that died in the middle left: forward for a stream, back for a batch job."""
    entry = read(root)
    if entry is None:
        return
    moves = [Move(**move) for move in entry.moves]
    if entry.stream is not None:
        for move in moves:
            move.forward(root)
        _flush(root, moves)
        _note_stream(root, *entry.stream)
    else:
        for move in reversed(moves):
            move.back(root)
        _flush(root, moves)
    _forget(root, entry.job)


def _flush(root: Path, moves: Sequence[Move]) -> None:
    for directory in {(root / move.target).parent for move in moves}:
        flush_directory(directory)


def _forget(root: Path, job: str) -> None:
    """In this order: without the journal, nobody must find what could be moved again."""
    (root / JOURNAL).unlink(missing_ok=True)
    flush_directory(root)
    shutil.rmtree(aside(root, job), ignore_errors=True)


def last_batch(root: Path, query: str) -> int:
    """The last batch of a streaming query that was committed here; -1 for none."""
    try:
        return int(json.loads((root / STREAMS).read_bytes()).get(query, -1))
    except FileNotFoundError:
        return -1


def _note_stream(root: Path, query: str, batch: int) -> None:
    path = root / STREAMS
    known = json.loads(path.read_bytes()) if path.exists() else {}
    known[query] = batch
    with written_aside(path) as file:
        file.write(json.dumps(known).encode())


def sweep(path: str | os.PathLike[str], older_than: float = ORPHAN_AGE) -> list[str]:
    """Settles a commit that died half-way, and removes what dead jobs left aside; names what was removed.

    Every write to ``path`` does the same when it commits. ``older_than``: seconds since something last changed in it; a
    job that still runs and has written nothing for so long would lose its work, and fail.
    """
    root = Path(path)
    with locked(root):
        return swept(root, older_than)


def swept(root: Path, older_than: float = ORPHAN_AGE) -> list[str]:
    """``sweep`` within ``locked``."""
    removed = []
    for directory in sorted(root.glob(f"{ASIDE}*-delete")):
        try:
            changed = max(entry.stat().st_mtime for entry in (directory, *directory.rglob("*")))
        except FileNotFoundError:  # it is being written to, or removed, at this moment
            continue
        if time.time() - changed >= older_than:
            shutil.rmtree(directory, ignore_errors=True)
            removed.append(directory.name)
    return removed
