"""What stands in a partition's directory about all of its log, held against the log: producer snapshots, leader epochs.

Only what can't be the work of retention, compaction or expiry is called an error. A partition of which not all segments
are looked at is not judged, nor is what damage may explain.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ._layout import Segment, beside, file_kind
from ._remote import is_address
from .errors import CorruptRecordError

if TYPE_CHECKING:
    from ._core import Verifier

    Found = tuple[str, int, str, Literal["error", "note"], str]
    """Path, position, kind, severity, message."""

MAX_FILE = 64 << 20  # bytes of a snapshot or a checkpoint that are read
DAMAGE = frozenset({"crc", "length", "magic", "codec", "decompress", "record", "count", "hole", "limit", "torn_tail"})


class State:
    """The files of one partition's directory that tell of its whole log; each is compared when the log is at its place."""

    def __init__(self, segments: list[Segment]) -> None:
        self.found: list[Found] = []
        self.damaged = False
        """Whether damage was met that the verifier was not told of."""
        self._directory: Path | None = None
        self._snapshots: dict[int, Path] = {}
        self._base = segments[-1].base_offset
        if any(is_address(segment.path) for segment in segments):
            return
        directories = {os.path.dirname(os.path.abspath(segment.path)) for segment in segments}
        if len(directories) != 1 or any(segment.base_offset < 0 or not segment.path for segment in segments):
            return
        if len(beside(segments[0])) != len(segments):
            return
        self._directory = Path(directories.pop())
        for path in sorted(self._directory.iterdir()):
            kind, offset, _ = file_kind(path.name)
            if kind == "snapshot" and offset is not None and path.is_file():
                self._snapshots[offset] = path

    def before(self, segment: Segment, verifier: Verifier) -> None:
        """The log is read up to where a segment begins."""
        path = self._snapshots.pop(segment.base_offset, None)
        if path is not None:
            self._snapshot(path, segment.base_offset, verifier)

    def end(self, verifier: Verifier) -> list[Found]:
        """The log is read to its end; all that was found."""
        if self._directory is None:
            return []
        last = verifier.last_offset
        end = max(self._base, -1 if last is None else last + 1)
        for offset, path in self._snapshots.items():
            if offset == end:
                self._snapshot(path, offset, verifier)
            elif offset > end:
                self._tell(
                    path,
                    0,
                    "gap",
                    "error",
                    f"made at offset {offset}, the log ends at {end}: what was between is missing",
                )
            else:
                self._parse(path)
        self._epochs(self._directory / "leader-epoch-checkpoint", end, verifier)
        return self.found

    def _snapshot(self, path: Path, offset: int, verifier: Verifier) -> None:
        entries = self._parse(path)
        if not entries or self._excused(verifier):
            return
        states = verifier.producers()
        for producer, epoch, sequence, last, open_since in entries:
            if last >= offset:
                self._tell(path, 0, "sequence", "error", f"producer {producer}: offset {last} is not before {offset}")
            if producer not in states:
                continue
            own_epoch, own_sequence, own_last, own_open = states[producer]
            what = None
            if own_epoch > epoch:
                what = f"epoch {epoch}, the log has {own_epoch}"
            elif own_epoch == epoch and own_last is not None and last >= 0:
                if own_last > last:
                    what = f"last offset {last}, the log has {own_last}"
                elif own_last == last and own_sequence != sequence:
                    what = f"sequence {sequence} at offset {last}, the log has {own_sequence}"
            if what is None and own_open is not None and open_since is None:
                what = f"no open transaction, the log has one from offset {own_open} on"
            if what is not None:
                self._tell(path, 0, "sequence", "error", f"producer {producer}, before offset {offset}: {what}")

    def _parse(self, path: Path) -> list[tuple[int, int, int, int, int | None]]:
        from . import _core

        try:
            with path.open("rb") as file:
                return _core.producer_snapshot(file.read(MAX_FILE))
        except FileNotFoundError:  # a broker removes old ones
            return []
        except CorruptRecordError as error:
            self._tell(path, error.position, error.kind, "error", str(error))
            return []

    def _epochs(self, path: Path, end: int, verifier: Verifier) -> None:
        from . import _core

        try:
            with path.open("rb") as file:
                entries = _core.leader_epochs(file.read(MAX_FILE))
        except FileNotFoundError:
            return
        except CorruptRecordError as error:
            self._tell(path, error.position, error.kind, "error", str(error))
            return
        starts = [start for _, start in entries]
        for epoch, first, last in verifier.epochs():
            if entries and epoch > entries[-1][0]:
                message = f"epoch {epoch}, which begins at offset {first}, is not there"
                self._tell(path, 0, "epoch", "note", message)
                continue
            for offset in dict.fromkeys((first, last)):
                at = bisect_right(starts, offset) - 1
                # Below its first entry nothing is said: that is where the log began when it was written.
                if at >= 0 and entries[at][0] != epoch:
                    message = f"offset {offset} is of epoch {epoch} in the log, of {entries[at][0]} by this file"
                    self._tell(path, 0, "epoch", "error", message)
                    break
        for epoch, start in entries:
            if start > end and not self._excused(verifier):
                message = f"epoch {epoch} begins at offset {start}, the log ends at {end}: what was between is missing"
                self._tell(path, 0, "gap", "error", message)
                break

    def _excused(self, verifier: Verifier) -> bool:
        self.damaged = self.damaged or any(kind in DAMAGE for kind, _, _ in verifier.counts())
        return self.damaged

    def _tell(self, path: Path, position: int, kind: str, severity: Literal["error", "note"], message: str) -> None:
        self.found.append((str(path), position, kind, severity, message))
