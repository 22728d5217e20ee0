"""Every page of the documentation runs: its Python blocks, one after the other, in one namespace.

A page's blocks run in a directory of their own, in which `tests/data/kafka-logs` is a small real log. A block that needs more than
that (a broker, a registry) is marked ```` ```python no-run ````; what is not run is at least compiled, and counted. A block that
uses `spark` runs with the session of the tests.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from places import DATA, REPOSITORY

FENCE = re.compile(r"^( *)```(python[^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
MOST_NOT_RUN = 24
"""Blocks of all pages that may be marked `no-run`: raised with a reason, and not by the way."""


class Block(NamedTuple):
    """One block of Python, with its line in the page."""

    code: str
    line: int
    runs: bool


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        indent = len(match[1])
        code = "\n".join(line[indent:] for line in match[3].splitlines())
        found.append(Block(code, text[: match.start(3)].count("\n") + 1, "no-run" not in match[2].split()))
    return found


def name_of(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


WITH_CODE = [page for page in PAGES if blocks_of(page)]


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    blocks = blocks_of(page)
    shutil.copytree(DATA / "kafka-logs", tmp_path / "tests" / "data" / "kafka-logs")
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        # Told where it stands in the page, so that an error names the line.
        code = compile("\n" * (block.line - 1) + block.code, str(page), "exec")
        if not block.runs:
            continue
        if re.search(r"\bspark\.", block.code) and "spark" not in space:
            pytest.importorskip("pyspark")
            space["spark"] = request.getfixturevalue("spark")
        exec(code, space)


def test_few_blocks_are_not_run() -> None:
    left_out = [f"{name_of(page)}:{block.line}" for page in WITH_CODE for block in blocks_of(page) if not block.runs]
    assert len(left_out) <= MOST_NOT_RUN, left_out
    assert sum(block.runs for page in WITH_CODE for block in blocks_of(page)) > len(left_out)


def test_links_lead_somewhere() -> None:
    """Links between pages, and to files of the repository."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if not re.match(r"[a-z]+:", target):
                assert (page.parent / target).exists(), f"{name_of(page)}: {target}"
