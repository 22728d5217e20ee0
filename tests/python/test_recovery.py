"""`recover`: all that is readable is in the copy, what is not is told, and the input stays as it was."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import magicbyte as mb
from cli.segments import batch

FIRST = "00000000000000000000.log"


def fingerprint(path: Path) -> dict[str, tuple[str, int]]:
    return {
        str(file): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


@pytest.fixture
def torn(tmp_path: Path) -> Path:
    """Two segments: a batch with a wrong checksum, one with broken records, stray bytes, and a torn tail."""
    path = tmp_path / "in" / "orders-0"
    path.mkdir(parents=True)
    one = batch([(b"a", b"1"), (b"b", b"2")])
    bad = bytearray(batch([(b"c", b"3")], base=2))
    bad[-2] ^= 1
    after = batch([(b"d", b"4")], base=3)
    (path / FIRST).write_bytes(one + bytes(bad) + after)
    stray = b"\xff" * 21
    second = batch([(b"e", b"5")], base=4)
    (path / "00000000000000000004.log").write_bytes(second + stray + batch([(b"f", b"6")], base=5) + one[:30])
    return path


def test_what_is_readable_comes_out(torn: Path, tmp_path: Path) -> None:
    before = fingerprint(torn)
    out = tmp_path / "out" / "orders-0"
    done = mb.recover(torn, out)
    assert fingerprint(torn) == before
    assert [record.key for record in mb.Log(out).records()] == [b"a", b"b", b"d", b"e", b"f"]
    assert (done.batches, done.records) == (4, 5)
    size = len(batch([(b"c", b"3")]))
    assert [(Path(lost.path).name, lost.size) for lost in done.lost] == [
        (FIRST, size),
        ("00000000000000000004.log", 21),
        ("00000000000000000004.log", 30),
    ]
    assert (done.lost[0].first_offset, done.lost[0].last_offset) == (2, 2)
    assert "checksum" in done.lost[0].why
    assert done.lost[2].why.startswith("incomplete entry at the end: 30 of")
    kinds = {defect.kind for defect in mb.Log(out).verify().defects}
    assert kinds <= {"gap"}
    assert done.bytes + sum(lost.size for lost in done.lost) == sum(path.stat().st_size for path in torn.iterdir())


def test_a_sound_log_is_copied_whole(tmp_path: Path) -> None:
    path = tmp_path / "orders-0"
    path.mkdir()
    (path / FIRST).write_bytes(batch([(b"a", b"1")]) + batch([(b"b", b"2")], base=1))
    done = mb.recover(path, tmp_path / "copy-0")
    assert done.lost == []
    assert mb.diff(path, tmp_path / "copy-0") == []
    assert (tmp_path / "copy-0" / FIRST).read_bytes() == (path / FIRST).read_bytes()


def test_batches_whose_offsets_fall_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / FIRST
    path.write_bytes(batch([(b"a", b"1")] * 3) + batch([(b"b", b"2")], base=1) + batch([(b"c", b"3")], base=3))
    done = mb.recover(path, tmp_path / "copy-0")
    assert [record.key for record in mb.Log(tmp_path / "copy-0").records()] == [b"a", b"a", b"a", b"c"]
    assert [lost.first_offset for lost in done.lost] == [1]


def test_never_beside_what_is_read(torn: Path, tmp_path: Path) -> None:
    for place in (torn, torn / "sub", torn.parent):
        with pytest.raises(ValueError, match="must not stand"):
            mb.recover(torn, place)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "x").write_bytes(b"")
    with pytest.raises(FileExistsError):
        mb.recover(torn, tmp_path / "there")


@pytest.mark.golden
@pytest.mark.slow
def test_golden_damage(shared: Path, tmp_path: Path) -> None:
    """Of every damaged file, the copy holds what DROPMALFORMED reads, but for batches whose offsets fall.

    (A broken wrapper's may say so falsely.)
    """
    for path in sorted((shared / "golden" / "damaged").glob("*.bin")):
        if "bomb" in path.name:
            continue
        out = tmp_path / path.stem
        done = mb.recover(path, out)
        read = [(r.offset, r.key, r.value) for r in mb.Log(path, mode="DROPMALFORMED").records(control=True)]
        saved = [(r.offset, r.key, r.value) for r in mb.Log(out).records(control=True)]
        if done.report.counts.keys() & {(kind, "error") for kind in ("disorder", "overlap", "wrapper")}:
            assert set(saved) <= set(read), path.name
        else:
            assert saved == read, path.name
        assert done.bytes + sum(lost.size for lost in done.lost) == path.stat().st_size, path.name
