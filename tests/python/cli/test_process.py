"""The command line as a process: pipes, signals, start-up, terminals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli.conftest import FIRST
from cli.segments import batch

MAGICBYTE = [sys.executable, "-m", "magicbyte"]


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """More records than any pipe holds."""
    segment = tmp_path / FIRST
    one = batch([(b"k", b"v" * 500)] * 200)
    segment.write_bytes(one * 40)
    return segment


def test_a_closed_pipe_is_quiet(long: Path) -> None:
    with subprocess.Popen([*MAGICBYTE, "dump", long], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_exits_130(long: Path) -> None:
    # The pipe fills and the process blocks in the middle of its work.
    with subprocess.Popen([*MAGICBYTE, "dump", long], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        assert process.returncode == 130
        assert b"Traceback" not in errors


def test_standard_input_by_pipe(long: Path) -> None:
    with long.open("rb") as segment:
        ran = subprocess.run([*MAGICBYTE, "dump", "-", "--count"], stdin=segment, capture_output=True, check=True)
    assert ran.stdout == b"8000\n"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from magicbyte.cli import main; main(['--help']); main(['inspect', '--help']); "
        "main(['dump', '--help']); "
        "heavy = {'pyarrow', 'pyspark', 'numpy', 'pandas', 'asyncio'} & set(sys.modules); assert not heavy, heavy"
    )
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    print(f"three helps in one process: {time.perf_counter() - began:.3f} s")  # a figure, no verdict: machines differ


def test_small_segments_need_no_arrow(long: Path) -> None:
    code = f"import sys; from magicbyte.cli import main; main(['inspect', {str(long)!r}]); assert 'pyarrow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_plain_c_locale_gets_escapes(tmp_path: Path) -> None:
    segment = tmp_path / FIRST
    segment.write_bytes(batch([("ключ".encode(), b"v")]))
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    ran = subprocess.run([*MAGICBYTE, "dump", segment], capture_output=True, check=True, env=environment)
    assert rb"\u043a" in ran.stdout


@pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals")
@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_only_on_a_terminal_that_wants_them(long: Path, no_color: str) -> None:
    import pty

    environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm"}
    ours, theirs = pty.openpty()
    subprocess.run([*MAGICBYTE, "dump", long, "-n", "1"], stdout=theirs, check=True, env=environment)
    os.close(theirs)
    shown = os.read(ours, 4096)
    os.close(ours)
    assert (b"\x1b[" in shown) == (not no_color)
