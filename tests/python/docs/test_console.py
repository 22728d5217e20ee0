"""Every ```` ```console ```` block of the documentation: the commands run, and say what the page says they do.

A line that begins with ``$`` is a command, run by bash in a directory that has `tests/data/kafka-logs`; what follows is what it prints,
standard error too. ``…`` stands for any text, alone on a line for any lines; ``[2]`` at the end is an exit status that is not 0.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from places import DATA, REPOSITORY

FENCE = re.compile(r"^```console[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    page
    for page in [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    if "```console" in page.read_text()
]


class Command(NamedTuple):
    """A command, and what it is said to print."""

    line: str
    said: str
    status: int


def commands(text: str) -> list[Command]:
    found = []
    for block in FENCE.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            line, _, said = part.partition("\n")
            status = re.search(r"^\[(\d+)\]\n\Z", said, re.MULTILINE)
            found.append(Command(line, said[: status.start()] if status else said, int(status[1]) if status else 0))
    return found


def pattern(said: str) -> str:
    lines = ["(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + " *\n" for line in said.splitlines()]
    return "".join(lines) if said.strip() else "(?:.*\n)*"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_the_commands_do_what_the_page_says(page: Path, tmp_path: Path) -> None:
    shutil.copytree(DATA / "kafka-logs", tmp_path / "tests" / "data" / "kafka-logs")
    here = Path(sys.executable).parent
    path = os.pathsep.join([str(here), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200", "LC_ALL": "C.UTF-8"}
    if shutil.which("magicbyte", path=str(here)) is None:
        pytest.skip("the command is not installed in this environment")
    asked = commands(page.read_text())
    assert asked
    for command in asked:
        ran = subprocess.run(
            ["bash", "-c", command.line], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        said = command.said
        assert re.fullmatch(pattern(said), ran.stdout), (
            f"$ {command.line}\nprinted:\n{ran.stdout}\nthe page says:\n{said}"
        )
        assert ran.returncode == command.status, f"$ {command.line}\n{ran.stdout}"
