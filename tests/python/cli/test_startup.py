"""What the command line loads: nothing heavy before it is needed; and what a shell is told."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cli.conftest import Run
from magicbyte.cli import COMMANDS

from places import DATA

SEGMENT = DATA / "kafka-logs" / "orders-0" / "00000000000000000000.log"
HEAVY = {
    "pyarrow",
    "pyspark",
    "numpy",
    "pandas",
    "polars",
    "duckdb",
    "plotly",
    "asyncio",
    "urllib.request",
    "http.client",
}


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        *([name, "--help"] for name in COMMANDS),
        ["inspect", str(SEGMENT)],
        ["dump", "--json", str(SEGMENT)],
        ["verify", str(SEGMENT)],
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported(args: list[str]) -> None:
    # A fresh interpreter each time, as for a user.
    code = "import sys; from magicbyte.cli import main; s = main(sys.argv[1:]); print(*sys.modules, file=sys.stderr); sys.exit(s)"
    ran = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert not HEAVY & set(ran.stderr.split())


def test_every_help_has_examples_and_fits(run: Run) -> None:
    for name in COMMANDS:
        ran = run(name, "--help")
        assert ran.status == 0
        assert "Examples:" in ran.out and f"magicbyte {name}" in ran.out, name
    assert "Examples:" in run("--help").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, run: Run) -> None:
    ran = run("completion", shell)
    assert ran.status == 0 and "_MAGICBYTE_COMPLETE" in ran.out


@pytest.mark.parametrize(
    "words, at, expected",
    [
        ("magicbyte du", "1", {"plain,dump"}),
        ("magicbyte dump --isol", "2", {"plain,--isolation"}),
        ("magicbyte dump --mode ", "3", {"plain,FAILFAST", "plain,DROPMALFORMED", "plain,PERMISSIVE"}),
        ("magicbyte verify ord", "2", {"file,ord"}),
    ],
)
def test_what_a_shell_completes(words: str, at: str, expected: set[str]) -> None:
    code = "import sys; sys.argv[0] = 'magicbyte'; from magicbyte.cli import main; sys.exit(main())"
    env = {**os.environ, "_MAGICBYTE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": at}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=300
    )
    # How a choice without case is written differs between versions of click.
    assert {word.lower() for word in ran.stdout.split()} >= {word.lower() for word in expected}, ran.stdout + ran.stderr
