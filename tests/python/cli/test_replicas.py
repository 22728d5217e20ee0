"""`--replicas`: copies of one partition at the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from cli.conftest import Run

from lineage import TRUTH, forks, values


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    return forks(tmp_path)


def test_copies_are_refused_until_the_rule_is_named(copies: list[Path], run: Run) -> None:
    done = run("dump", *copies)
    assert done.status == 2
    assert "orders-0 is in" in done.err and "--replicas lineage" in done.err
    done = run("dump", "--json", "--replicas", "lineage", *copies)
    assert done.status == 0
    assert len(done.lines) == 14
    assert "10 to 14" in done.err  # the fork is said


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
