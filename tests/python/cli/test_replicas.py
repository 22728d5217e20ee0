"""`--replicas`: copies of one partition at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from cli.conftest import Run

from lineage import TRUTH, forks, values, write


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    return forks(tmp_path)


def test_the_lineage_decides_without_a_rule(copies: list[Path], run: Run) -> None:
    for rule in ([], ["--replicas", "lineage"]):
        done = run("dump", "--json", *rule, *copies)
        assert done.status == 0
        assert len(done.lines) == 14
        assert "10 to 14" in done.err  # the fork is said
    assert run("dump", "--count", *copies).out == "14\n"


def test_copies_are_refused_where_no_checkpoint_is(copies: list[Path], run: Run) -> None:
    (copies[2] / "leader-epoch-checkpoint").unlink()
    done = run("dump", *copies)
    assert done.status == 2
    assert "orders-0 is there 3 times" in done.err and "--replicas longest" in done.err
    assert run("dump", "--count", "--replicas", "longest", *copies).out == "15\n"
    assert run("dump", "--follow", "--replicas", "longest", *copies).status == 2


def test_verify_says_how_they_relate(copies: list[Path], run: Run) -> None:
    done = run("verify", "--replicas", "lineage", *copies)
    assert done.status == 0
    assert "a fork from offset 10 on" in done.out
    document: dict[str, Any] = json.loads(run("verify", "--json", "--replicas", "lineage", *copies).out)
    assert [one["chosen"] for one in document["replicas"]] == [False, True, False]
    assert document["replicas"][0]["divergesAt"] == 10
    assert document["records"] == 14
    # Without a rule each is verified by itself.
    assert "42 records" in run("verify", *copies).out
    assert run("verify", *copies).status == 0


def test_recover(copies: list[Path], run: Run, tmp_path: Path) -> None:
    out = tmp_path / "out" / "orders-0"
    assert run("recover", *copies, out).status == 2
    done = run("recover", "--replicas", "lineage", *copies, out)
    assert done.status == 0, done.err
    assert values(mb.Log(out)) == TRUTH
    done = run("recover", "--replicas", "longest", *copies, tmp_path / "other-0")
    assert done.status == 0
    assert values(mb.Log(tmp_path / "other-0"))[-1] == "lost14"


@pytest.fixture
def overlap(tmp_path: Path) -> Path:
    """Two replicas brought together in one directory: the first segment has a fork from 10 on."""
    path = write(tmp_path / "orders-0", (0, 0, "a", 5), (0, 5, "a", 5), (1, 10, "fork", 5))
    later = write(tmp_path / "other" / "orders-0", (0, 5, "a", 5), (2, 10, "b", 7))
    for file in later.glob("*5.*"):
        (path / file.name).write_bytes(file.read_bytes())
    (path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 10\n")
    return path


@pytest.mark.parametrize("by_files", [False, True])
def test_segments_that_overlap(overlap: Path, run: Run, tmp_path: Path, by_files: bool) -> None:
    paths = sorted(overlap.glob("*.log")) if by_files else [overlap]
    done = run("dump", "--count", *paths)
    assert (done.status, done.out) == (0, "17\n")
    assert "00.log: offsets 0 to 9 are read from it" in done.err
    assert "05.log: offsets from 10 on are read from it" in done.err
    (overlap / "leader-epoch-checkpoint").unlink()
    done = run("dump", *paths)
    assert done.status == 2
    assert "both hold offset 5" in done.err and "--replicas first" in done.err and "Traceback" not in done.err
    assert run("dump", "--count", "--replicas", "first", *paths).out == "17\n"
    # What shows or judges the bytes as they are stored goes on.
    assert run("inspect", *paths).status in (0, 1)
    assert "overlap" in run("verify", *paths[:1]).out or by_files
    assert run("savings", *paths).status == 0


def test_every_command_that_reads_refuses_an_overlap(overlap: Path, run: Run, tmp_path: Path) -> None:
    (overlap / "leader-epoch-checkpoint").unlink()
    out = tmp_path / "out" / "orders-0"
    for given in (
        ("convert", overlap, out, "--to", "v3"),
        ("recover", overlap, out),
        ("diff", overlap, overlap),
        ("diff", overlap),
        ("dump", "--follow", overlap),
    ):
        done = run(*given)
        assert done.status == 2 and "--replicas" in done.err and "Traceback" not in done.err, given
        assert not out.exists()
    done = run("convert", overlap, out, "--to", "v3", "--replicas", "longest")
    assert done.status == 0, done.err
    assert len(values(mb.Log(out))) == 17
    assert run("diff", "--replicas", "longest", overlap, out).status == 0
