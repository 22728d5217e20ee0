"""`magicbyte recover`: what it prints, and its exit statuses."""

from __future__ import annotations

from pathlib import Path

from cli.conftest import FIRST, Run
from cli.segments import batch


def test_recover(run: Run, damaged: Path, tmp_path: Path) -> None:
    before = damaged.read_bytes()
    ran = run("recover", damaged.parent, tmp_path / "saved-3")
    assert ran.status == 1
    assert [line.partition(":")[0] for line in ran.lines] == ["lost", "tail", "missing", str(tmp_path / "saved-3")]
    assert run("verify", tmp_path / "saved-3").status == 0
    assert damaged.read_bytes() == before
    # What stands there already is not touched.
    assert run("recover", damaged.parent, tmp_path / "saved-3").status == 2
    assert run("recover", damaged.parent, damaged.parent / "inside").status == 2
    (document,) = run("recover", "--json", damaged, tmp_path / "again-3").json
    assert (document["records"], [lost["tail"] for lost in document["lost"]]) == (4, [False, True])


def test_nothing_is_missing(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a-0"
    path.mkdir()
    (path / FIRST).write_bytes(batch([(b"a", b"1")]) + bytes(100))
    assert run("recover", path, tmp_path / "b-0").status == 0
    assert run("recover", tmp_path / "absent", tmp_path / "c-0").status == 2
