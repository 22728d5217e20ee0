"""The commit by itself: what is moved, and what a process that dies in the middle leaves to the next one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from dying import JOB, dies_at
from magicbyte.spark import commit, sweep
from magicbyte.spark.commit import Move


def made(root: Path) -> list[Move]:
    """A new directory, one that takes another's place, a new file and one that is replaced."""
    aside = commit.aside(root, JOB)
    for name in ("new", "swap"):
        (aside / name).mkdir(parents=True)
        (aside / name / "f").write_text("new")
    (root / "t-1").mkdir()
    (root / "t-1" / "f").write_text("old")
    (root / "t-2").mkdir()
    (root / "t-2" / "replaced").write_text("old")
    for name in ("file", "replaced"):
        (aside / name).write_text("new")
    (aside / "old").write_text("old")
    return [
        Move(f"{aside.name}/new", "t-0"),
        Move(f"{aside.name}/swap", "t-1", inode=(aside / "swap").stat().st_ino),
        Move(f"{aside.name}/file", "t-2/file"),
        Move(f"{aside.name}/replaced", "t-2/replaced", old=f"{aside.name}/old"),
    ]


def state(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in (commit.LOCK, commit.STREAMS)
    }


BEFORE = {"t-1/f": "old", "t-2/replaced": "old"}
AFTER = {"t-0/f": "new", "t-1/f": "new", "t-2/file": "new", "t-2/replaced": "new"}


def test_everything_is_moved(tmp_path: Path) -> None:
    moves = made(tmp_path)
    with commit.locked(tmp_path):
        commit.carry_out(tmp_path, JOB, moves, None)
    assert state(tmp_path) == AFTER


@pytest.mark.parametrize("at", range(4))
def test_an_error_on_the_way_takes_all_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    moves, done = made(tmp_path), []
    forward = Move.forward

    def fails(self: Move, root: Path) -> None:
        if len(done) == at:
            raise OSError("no space")
        done.append(self)
        forward(self, root)

    monkeypatch.setattr(Move, "forward", fails)
    with commit.locked(tmp_path), pytest.raises(OSError, match="no space"):
        commit.carry_out(tmp_path, JOB, moves, None)
    assert state(tmp_path) == BEFORE


@pytest.mark.parametrize("stream", [None, ("query", 7)])
@pytest.mark.parametrize("at", range(5))
def test_who_comes_next_settles_what_a_dead_process_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, stream: tuple[str, int] | None
) -> None:
    back, forget = Move.back, commit._forget
    dies_at(at, tmp_path, made(tmp_path), stream, monkeypatch)
    assert (tmp_path / commit.JOURNAL).exists()
    assert (Move.back, commit._forget) == (back, forget)
    sweep(tmp_path)
    # A batch job never said that it had succeeded; a stream will be asked for that batch again.
    assert state(tmp_path) == (BEFORE if stream is None else AFTER)
    assert commit.last_batch(tmp_path, "query") == (-1 if stream is None else 7)


def test_orphans_go_when_they_are_old(tmp_path: Path) -> None:
    young, old = commit.aside(tmp_path, "young"), commit.aside(tmp_path, "old")
    for directory in (young, old):
        (directory / "0-1").mkdir(parents=True)
        (directory / "0-1" / "f").write_text("")
    past = time.time() - 2 * commit.ORPHAN_AGE
    for path in (old, old / "0-1", old / "0-1" / "f"):
        os.utime(path, (past, past))
    assert sweep(tmp_path) == [old.name]
    assert young.exists() and not old.exists()
    assert sweep(tmp_path, older_than=0) == [young.name]
