"""From the runs of all tasks to each partition's segments: their order, their numbers, and what stands beside them."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from magicbyte._aside import flush_directory
from magicbyte._seek import entry_size, last_indexed
from magicbyte.log import Log

from .commit import Move
from .sink_options import SinkOptions, place

_EPOCH_FILE = "leader-epoch-checkpoint"


@dataclass(frozen=True)
class Run:
    """What one task wrote of one partition: segments in a directory of its own, aside."""

    topic: str
    partition: int
    directory: str
    """Relative to the root."""
    bases: tuple[int, ...]
    end: int
    """The offset behind the last record."""

    @property
    def segments(self) -> list[tuple[int, int]]:
        """First offset and end (exclusive) of each segment."""
        return list(zip(self.bases, (*self.bases[1:], self.end), strict=True))


@dataclass(frozen=True)
class There:
    """A partition directory as it stands."""

    end: int
    epoch: int
    empty: int | None
    """The base offset of its last segment, where that has no record yet."""


@dataclass
class Plan:
    """Moves for one commit; ``staged`` is where what is made for it is put, aside, as relative names."""

    root: Path
    staged: str
    options: SinkOptions
    has_epochs: bool
    """Whether rows brought their leader epochs."""

    def moves(self, runs: Iterable[Run], overwrite: bool) -> list[Move]:
        """Everything that makes these runs the content, or a part of it, of their partitions.

        Raises ``ValueError`` where offsets that are kept do not rise from task to task, or not over what is there.
        """
        partitions: dict[tuple[str, int], list[Run]] = {}
        for run in runs:
            partitions.setdefault((run.topic, run.partition), []).append(run)
        found: list[Move] = []
        for (topic, partition), own in sorted(partitions.items()):
            found += self._partition(place(topic, partition), own, overwrite)
        return found

    def _partition(self, name: str, runs: list[Run], overwrite: bool) -> list[Move]:
        target = self.root / name
        there = None if overwrite or not target.exists() else _there(target, self.options.read_format)
        if self.options.producers == "keep":
            _whole_partition(name, runs, there)
        start = there.end if there is not None else 0
        if self.options.offsets == "keep":
            runs.sort(key=lambda run: run.bases)
            _rising(name, runs, there)
            shifts = [0] * len(runs)
        else:
            shifts = []
            for run in runs:
                shifts.append(start - run.bases[0])
                start += run.end - run.bases[0]
        epoch = self._epoch(name, there)
        for run, shift in zip(runs, shifts, strict=True):
            if shift or epoch is not None:
                for base, _ in run.segments:
                    renumber(self.root / run.directory / f"{base:020d}.log", shift, epoch)
        epochs = self._epochs(name, runs, shifts, epoch, there)
        files = _files(self.root, runs, shifts)
        if there is None:
            return [self._whole(name, target, files, epochs)]
        return self._beside(name, target, files, epochs, there)

    def _epoch(self, name: str, there: There | None) -> int | None:
        """The leader epoch to be written into batches that have got 0, if it is another."""
        if self.has_epochs or self.options.format not in ("v2", "v3", "kip82b"):
            return None
        known = there.epoch if there is not None else -1
        asked = self.options.leader_epoch
        if asked is None:
            return known if known > 0 else None
        if asked < known:
            raise ValueError(f"option leaderEpoch: {asked}, where {name} is at {known} already")
        return asked if asked > 0 else None

    def _epochs(
        self, name: str, runs: list[Run], shifts: list[int], epoch: int | None, there: There | None
    ) -> list[tuple[int, int]]:
        """The leader epochs that begin with these runs."""
        from magicbyte import _core

        last = there.epoch if there is not None else -1
        found: list[tuple[int, int]] = []
        for run, shift in zip(runs, shifts, strict=True):
            path = self.root / run.directory / _EPOCH_FILE
            known = _core.leader_epochs(path.read_bytes()) if path.exists() else []
            for own, first in known:
                own = own if epoch is None else epoch
                if own < last:
                    raise ValueError(
                        f"{name}: leader epoch {own} from offset {first + shift} on, behind {last}: epochs never fall"
                    )
                if own > last:
                    found.append((own, first + shift))
                    last = own
        return found

    def _whole(self, name: str, target: Path, files: list[tuple[str, str]], epochs: list[tuple[int, int]]) -> Move:
        """A directory that takes the final one's place at once."""
        made = self.root / self.staged / name
        made.mkdir(parents=True)
        for source, final in files:
            os.rename(self.root / source, made / final)
        if epochs:
            _write(made / _EPOCH_FILE, _checkpoint(epochs))
        # The topic is the same one, whatever is in it.
        metadata = target / "partition.metadata"
        if metadata.is_file():
            _write(made / metadata.name, metadata.read_bytes())
        flush_directory(made)
        return Move(f"{self.staged}/{name}", name, made.stat().st_ino if target.exists() else None)

    def _beside(
        self, name: str, target: Path, files: list[tuple[str, str]], epochs: list[tuple[int, int]], there: There
    ) -> list[Move]:
        """Files into a directory that is there; each log behind its indexes, for a log is what makes a segment."""
        from magicbyte import _core

        made = self.root / self.staged / name
        made.mkdir(parents=True)
        moves = []
        for source, final in files:
            # A broker keeps a last segment without a record, under the name that the next one must have.
            replaces = (target / final).exists() and final.startswith(f"{there.empty or 0:020d}.")
            moves.append(Move(source, f"{name}/{final}", old=self._copy(name, target / final) if replaces else None))
        if epochs:
            path = target / _EPOCH_FILE
            known = _core.leader_epochs(path.read_bytes()) if path.exists() else []
            _write(made / _EPOCH_FILE, _checkpoint(known + epochs))
            old = self._copy(name, path) if path.exists() else None
            moves.insert(0, Move(f"{self.staged}/{name}/{_EPOCH_FILE}", f"{name}/{_EPOCH_FILE}", old=old))
        return moves

    def _copy(self, name: str, path: Path) -> str:
        copy = f"{self.staged}/{name}/old-{path.name}"
        shutil.copyfile(path, self.root / copy)
        return copy


def _there(directory: Path, format: str) -> There:
    """Where a partition ends that is there; ``ValueError`` where its end cannot be trusted."""
    from magicbyte import _core

    path = directory / _EPOCH_FILE
    epochs = _core.leader_epochs(path.read_bytes()) if path.exists() else []
    epoch = epochs[-1][0] if epochs else -1
    try:
        log = Log(directory, format=format)
    except FileNotFoundError:
        return There(0, epoch, None)
    if not log.single or log.segments[-1].base_offset < 0:
        raise ValueError(f"{directory} is no partition's directory")
    last = log.segments[-1]
    if last.size == 0:
        return There(last.base_offset, epoch, last.base_offset)
    end = last.base_offset
    part = _core.Part(last.path, last.topic, last.partition, last_indexed(last, format))
    reader = _core.Reader([part], format=format, control=True)
    for batch in reader.batches():
        end = batch.last_offset + 1
    if reader.findings:
        _, position, kind, _, message = reader.findings[0]
        raise ValueError(f"{last.path} ends in {kind} at byte {position} ({message}): recover it before appending")
    return There(end, epoch, None)


def _whole_partition(name: str, runs: list[Run], there: There | None) -> None:
    """A transaction that began in another task, or in what is there, would get an index that does not know of it."""
    if there is not None:
        raise ValueError(
            f"{name} is there already, and producers are kept only where a partition is written as a whole"
        )
    if len(runs) > 1:
        raise ValueError(
            f"{name}: {len(runs)} tasks have rows of it, and producers are kept only where one has all; "
            "magicbyte.spark.in_order(df) brings them together"
        )


def _rising(name: str, runs: list[Run], there: There | None) -> None:
    pieces = sorted((first, end, run.directory) for run in runs for first, end in run.segments)
    if there is not None and pieces[0][0] < there.end:
        raise ValueError(
            f"{name} goes to offset {there.end - 1} already, and rows to be appended begin at {pieces[0][0]}: their "
            "offsets cannot be kept (offsets=assign numbers them anew)"
        )
    for (_, end, one), (first, _, other) in pairwise(pieces):
        if first < end:
            raise ValueError(
                f"{name}: two tasks have offsets that overlap ({one} goes to {end - 1}, {other} begins at {first}): "
                "the same rows twice, or rows of a partition spread over tasks; magicbyte.spark.in_order(df) brings "
                "them together, offsets=assign numbers them anew"
            )


def _files(root: Path, runs: list[Run], shifts: list[int]) -> list[tuple[str, str]]:
    """Where each file is, and its final name; of each segment the log comes last."""
    found = []
    for run, shift in zip(runs, shifts, strict=True):
        for base in run.bases:
            for ending in ("index", "timeindex", "txnindex", "log"):
                source = f"{run.directory}/{base:020d}.{ending}"
                if ending != "txnindex" or (root / source).exists():
                    found.append((source, f"{base + shift:020d}.{ending}"))
    return found


def renumber(path: Path, shift: int, epoch: int | None) -> None:
    """Adds ``shift`` to the offsets of a segment's entries, and sets their leader epoch.

    Both lie outside of what checksums cover, for a broker writes them on arrival. Indexes count from the segment's base
    offset, which is in its name, so they stay as they are.
    """
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        position = 0
        while position < len(data):
            size = entry_size(data[position : position + 18])
            if size is None:
                raise ValueError(f"{path}: no entry at byte {position}")
            offset = int.from_bytes(data[position : position + 8]) + shift
            data[position : position + 8] = offset.to_bytes(8)
            if epoch is not None:
                # v3: the size before it is a uvarint.
                at = position + 8
                if data[at] < 0x20:
                    at += 4
                else:
                    while data[at] >= 0x80:
                        at += 1
                    at += 1
                data[at : at + 4] = epoch.to_bytes(4)
            position += size
        data.flush()


def _checkpoint(epochs: list[tuple[int, int]]) -> bytes:
    """Version, count, then epoch and first offset a line, as Kafka's ``LeaderEpochCheckpointFile`` has it."""
    return "".join(["0\n", f"{len(epochs)}\n", *(f"{epoch} {first}\n" for epoch, first in epochs)]).encode()


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
