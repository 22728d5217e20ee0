"""A commit that has not ended, and who reads meanwhile: the log as it was before, and a word about it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import magicbyte as mb
from dying import JOB, dies_at
from magicbyte import _journal, _layout
from magicbyte.spark import commit, sweep
from magicbyte.spark.commit import Move


def segment(directory: Path, base: int, text: str, count: int = 3) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base:020d}.log"
    records = [mb.Record(base + n, 1000, None, f"{text}{n}".encode()) for n in range(count)]
    path.write_bytes(mb.encode(records, base_offset=base) if count else b"")
    return path


def made(root: Path) -> list[Move]:
    """A new partition, one that is replaced, one that gets a segment more, one whose empty segment is replaced."""
    aside = commit.aside(root, JOB)
    segment(aside / "new", 0, "new")
    segment(root / "t-1", 0, "old")
    segment(aside / "swap", 0, "new")
    segment(root / "t-2", 0, "old")
    more = segment(aside / "more", 3, "new")
    segment(root / "t-3", 0, "old")
    empty = segment(root / "t-3", 3, "", count=0)
    filled = segment(aside / "filled", 3, "new")
    (aside / "old.log").write_bytes(b"")
    name = aside.name
    return [
        Move(f"{name}/new", "t-0"),
        Move(f"{name}/swap", "t-1", inode=(aside / "swap").stat().st_ino),
        Move(f"{name}/more/{more.name}", f"t-2/{more.name}"),
        Move(f"{name}/filled/{filled.name}", f"t-3/{empty.name}", old=f"{name}/old.log"),
    ]


def values(source: Path) -> dict[int, list[bytes | None]]:
    found: dict[int, list[bytes | None]] = {}
    for record in mb.Log(source).records():
        found.setdefault(record.partition, []).append(record.value)
    return found


OLD, NEW = [b"old0", b"old1", b"old2"], [b"new0", b"new1", b"new2"]
BEFORE = {1: OLD, 2: OLD, 3: OLD}
AFTER = {0: NEW, 1: NEW, 2: OLD + NEW, 3: OLD + NEW}


@pytest.mark.parametrize("stream", [None, ("query", 7)])
@pytest.mark.parametrize("at", range(5))
def test_a_reader_sees_what_was_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, stream: tuple[str, int] | None
) -> None:
    dies_at(at, tmp_path, made(tmp_path), stream, monkeypatch)
    assert values(tmp_path) == BEFORE
    for partition, own in BEFORE.items():
        directory = tmp_path / f"t-{partition}"
        assert values(directory) == {partition: own}
        # What is done with a log segment by segment (verify, transactions) sees no other one.
        assert mb.Log(directory).verify().ok
        first = mb.Log(directory / f"{0:020d}.log").segments[0]
        if partition != 1 or at < 2:
            assert [it.base_offset for it in _layout.beside(first)] == ([0, 3] if partition == 3 and at < 4 else [0])
    told = [path for path, reason in mb.Log(tmp_path).left_out if reason.startswith(_layout.UNFINISHED)]
    expected = ["t-0", "t-1", f"t-2/{3:020d}.log", f"t-3/{3:020d}.log"][:at]
    assert told == [str(tmp_path / name) for name in expected]
    if at:
        with pytest.raises(FileNotFoundError, match="a commit that has not ended"):
            mb.Log(tmp_path / "t-0")
    sweep(tmp_path)
    assert values(tmp_path) == (BEFORE if stream is None else AFTER)
    assert not [reason for _, reason in mb.Log(tmp_path).left_out if reason.startswith(_layout.UNFINISHED)]


def test_a_commit_that_ends_while_the_directory_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moves = made(tmp_path)
    dies_at(2, tmp_path, moves, ("query", 1), monkeypatch)
    looked = _layout._directory
    looks = 0

    def once(path: str, topic: str | None, partition: int | None) -> _layout.Found | OSError:
        nonlocal looks
        found = looked(path, topic, partition)
        looks += 1
        if looks == 1:
            sweep(tmp_path)
        return found

    monkeypatch.setattr(_layout, "_directory", once)
    assert values(tmp_path) == AFTER
    assert looks == 2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        json.dumps({"job": "a", "moves": [{}], "stream": None}),
        json.dumps({"job": "a", "moves": [], "stream": ["q"]}),
        *(
            json.dumps(
                {"job": "a", "moves": [{"source": s, "target": t, "inode": i, "old": None}], "stream": None}
            )
            for s, t, i in [
                ("../x", "t-0", None),
                (".magicbyte-0.a-delete/../../x", "t-0", None),
                ("/etc", "t-0", None),
                (".magicbyte-0.a-delete/x", "../t-0", None),
                (".magicbyte-0.a-delete/x", "/t-0", None),
                (".magicbyte-0.a-delete/x", "t-0", "7"),
                (".magicbyte-0.a-delete/x", "", None),
                ("t-1", "t-0", None),
            ]
        ),
    ],
    ids=lambda text: text[:60],
)  # fmt: skip
def test_a_journal_that_is_none(tmp_path: Path, text: str) -> None:
    segment(tmp_path / "t-0", 0, "old")
    (tmp_path / _journal.JOURNAL).write_text(text)
    with pytest.raises(ValueError, match="is no journal of a commit"):
        _journal.read(tmp_path)
    log = mb.Log(tmp_path)
    assert [path for path, reason in log.left_out if "is no journal" in reason] == [
        os.fspath(tmp_path / _journal.JOURNAL)
    ]
    assert len(list(log.records())) == 3
    # Nobody moves anything by what it says.
    with pytest.raises(ValueError, match="is no journal of a commit"):
        sweep(tmp_path)
