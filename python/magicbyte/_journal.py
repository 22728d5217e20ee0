"""The journal of a commit that moves segments to their final names, for who writes it and for who reads meanwhile.

It stands beside the partition directories as ``.magicbyte-commit``, from the moment when everything to be moved is complete
until everything is moved. So a reader who finds one sees the log as it was before: what was moved already is left out,
and what gave way to it is read where it lies. ``magicbyte.spark.commit`` has the whole protocol.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

ASIDE, JOURNAL = ".magicbyte-0.", ".magicbyte-commit"
_MOST = 256 << 20
"""Bytes of a journal; a move takes about 200."""


@dataclass(frozen=True)
class Entry:
    """What a journal says: the moves as they were written, and the batch of a streaming query, if it is one's."""

    job: str
    moves: list[dict[str, Any]]
    stream: tuple[str, int] | None


def read(root: Path) -> Entry | None:
    """The journal of ``root``; ``None`` where there is none, ``ValueError`` where it is not one's."""
    path = root / JOURNAL
    try:
        with path.open("rb") as file:
            data = file.read(_MOST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if len(data) > _MOST:
            raise ValueError("too long")
        found = json.loads(data)
        for move in found["moves"]:
            _check(move)
        stream = found["stream"]
        return Entry(str(found["job"]), found["moves"], None if stream is None else (str(stream[0]), int(stream[1])))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is no journal of a commit: {error}") from None


def _check(move: dict[str, Any]) -> None:
    """Names that lead from the root into what lies aside, or to a partition directory, and nowhere else."""
    for name in ("source", "target", "old"):
        value = move[name]
        if value is None and name == "old":
            continue
        parts = PurePosixPath(value).parts
        ours = bool(parts) and parts[0].startswith(ASIDE)
        if not parts or value.startswith("/") or ".." in parts or ours != (name != "target"):
            raise ValueError(f"{name} {value!r} leads elsewhere")
    if move["inode"] is not None and not isinstance(move["inode"], int):
        raise TypeError("inode: no number")


@dataclass
class Pending:
    """What a commit that has not ended has moved below a root so far, by partition directory."""

    moved: dict[str, set[str]] = field(default_factory=dict)
    """Names in a directory that is there before and after; an empty set for the whole directory."""
    before: dict[str, Path] = field(default_factory=dict)
    """Where a directory lies that gave way to another as a whole. Of single files only empty ones are replaced."""

    def whole(self, directory: str) -> bool:
        """Whether the directory itself was moved there."""
        return directory in self.moved and not self.moved[directory]


def pending(root: Path) -> Pending | None:
    """What a reader below ``root`` leaves out; ``None`` where no commit is under way. ``ValueError`` as of ``read``."""
    entry = read(root)
    if entry is None:
        return None
    found = Pending()
    for move in entry.moves:
        target = PurePosixPath(move["target"])
        source = root / move["source"]
        if move["inode"] is not None:
            if _inode(root / target) == move["inode"]:
                found.moved[target.parts[0]] = set()
                found.before[target.parts[0]] = source
        elif not os.path.lexists(source) and len(target.parts) == 1:
            found.moved[target.name] = set()
        elif not os.path.lexists(source):
            found.moved.setdefault(target.parts[0], set()).add(target.name)
    return found


def stamp(root: Path) -> tuple[int, int]:
    """What changes with each commit that begins or ends below ``root``: of the directory, and of the journal in it."""
    try:
        journal = os.stat(root / JOURNAL).st_ino
    except OSError:
        journal = -1
    try:
        return os.stat(root).st_mtime_ns, journal
    except OSError:
        return -1, journal


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None
