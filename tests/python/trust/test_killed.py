"""kill -9 while something is written: the destination holds the old or the new, never a half, and the input is untouched.

A handful of moments here; MAGICBYTE_KILLS=50 (``make test-all``) for as many as the issue asks for.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import magicbyte as mb

FIRST = "00000000000000000000.log"
MOMENTS = int(os.environ.get("MAGICBYTE_KILLS", "2"))
OLD = b"what stood there before"

CALLS = {
    "convert": "from magicbyte.cli import main; sys.exit(main(['convert', sys.argv[1], sys.argv[2], '--to', 'v2', "
    "'--codec', 'zstd', '--overwrite']))",
    "convert_file": "mb.convert_file(sys.argv[1], sys.argv[2], 'v1', codec='gzip')",
    "convert_partition": "mb.convert_partition(mb.Log(sys.argv[1]), sys.argv[2], 'v2', codec='zstd')",
    "recover": "mb.recover(sys.argv[1], sys.argv[2], segment_bytes=300_000)",
}
SCRIPT = "import sys, magicbyte as mb\nprint('go', flush=True)\n{call}"


def fingerprint(path: Path) -> dict[str, tuple[str, int]]:
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    return {
        str(file.relative_to(path)): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in files
    }


def content(path: Path) -> object:
    """What stands at a path, whenever it was written."""
    return {name: digest for name, (digest, _) in fingerprint(path).items()} if path.exists() else None


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("killed") / "orders-0"
    path.mkdir()
    records = [mb.ProducerRecord("", b"%06d" % at * 20, b"k%d" % at) for at in range(60_000)]
    (path / FIRST).write_bytes(b"".join(mb.encode_batches(records)) + b"torn")
    return path


def start(call: str, *arguments: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SCRIPT.format(call=call), *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "go\n"
    return process


def killed(process: subprocess.Popen[str], after: float) -> bool:
    """Whether it was still at work."""
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    with process:
        return process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("name", CALLS)
def test_the_old_or_the_new(source: Path, tmp_path: Path, name: str) -> None:
    given = source / FIRST if name == "convert_file" else source
    target = tmp_path / "out-0"

    def before() -> None:
        """Something old stands there, where the call replaces what it finds."""
        if name == "convert_file":
            target.write_bytes(OLD)
            return
        shutil.rmtree(target, ignore_errors=True)
        if name == "convert_partition":
            target.mkdir()
            (target / FIRST).write_bytes(mb.encode([mb.ProducerRecord("", OLD)]))

    whole = float("inf")
    for _ in range(1 if MOMENTS < 20 else 3):  # the quickest of three: moments behind its end prove little
        before()
        process = start(CALLS[name], given, target)
        begun = time.monotonic()
        with process:
            assert process.wait(300) == 0
        whole = min(whole, time.monotonic() - begun)
    made, input_was = content(target), fingerprint(source)
    assert made is not None
    before()
    old = content(target)
    random_moments = random.Random(name)
    ends = {"old": 0, "new": 0}
    for _ in range(MOMENTS):
        killed(start(CALLS[name], given, target), random_moments.uniform(0, whole))
        now = content(target)
        assert now in (old, made), "a half"
        ends["new" if now == made else "old"] += 1
        # Its remains are such that a broker or the next run takes no notice of them.
        for left in tmp_path.iterdir():
            if left != target:
                assert left.name.endswith(("-delete", ".part")), left
        before()
    assert fingerprint(source) == input_was
    print(f"{name}: {MOMENTS} kills within {whole:.2f} s: {ends}")
    assert ends["old"] > 0 or MOMENTS < 20
    with start(CALLS[name], given, target) as process:
        assert process.wait(300) == 0
    assert content(target) == made


LIMITED = """
import resource, signal, sys, magicbyte as mb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    {call}
except OSError as error:
    print(type(error).__name__, error.errno)
    sys.exit(9)
"""


@pytest.mark.parametrize("name", ["convert_file", "recover"])
def test_a_full_disk(source: Path, tmp_path: Path, name: str) -> None:
    """Files may not grow beyond 100 kB: as good as a disk that is full."""
    given = source / FIRST if name == "convert_file" else source
    target = tmp_path / "room" / "out"
    target.parent.mkdir()
    if name == "convert_file":
        target.write_bytes(OLD)
    was = content(target)
    command = [sys.executable, "-c", LIMITED.format(call=CALLS[name]), str(given), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 9, done.stderr
    assert content(target) == was
    assert [path.name for path in target.parent.iterdir()] == ([] if was is None else ["out"])


def test_no_permission(source: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    if os.access(locked, os.W_OK):
        pytest.skip("this user may write anywhere (setpriv --bounding-set -dac_override has root obey)")
    calls: list[Callable[[], object]] = [
        lambda: mb.recover(source, locked / "out-0"),
        lambda: mb.convert_file(source / FIRST, locked / "out.log", "v1"),
        lambda: mb.Writer(locked / "out-0"),
    ]
    for call in calls:
        with pytest.raises(PermissionError):
            call()
    assert list(locked.iterdir()) == []


def test_a_directory_that_cannot_be_made(source: Path, tmp_path: Path) -> None:
    """A file stands where a directory is to be: for root, too."""
    (tmp_path / "file").write_bytes(OLD)
    for call in (
        lambda: mb.recover(source, tmp_path / "file" / "out-0"),
        lambda: mb.convert_file(source / FIRST, tmp_path / "file" / "out.log", "v1"),
    ):
        with pytest.raises(OSError):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == OLD


def test_a_pipe_and_a_link_stay_what_they_are(source: Path, tmp_path: Path) -> None:
    """Nothing takes the place of a device or a pipe (for root, ``-o /dev/null`` would end badly), nor of a link."""
    made = tmp_path / "made"
    mb.convert_file(source / FIRST, made, "v1")
    pipe, link, behind = tmp_path / "pipe", tmp_path / "link", tmp_path / "room" / "file"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    mb.convert_file(source / FIRST, pipe, "v1")
    reader.join()
    assert received == [made.read_bytes()] and pipe.is_fifo()
    behind.parent.mkdir()
    link.symlink_to(behind)
    for _ in range(2):  # what it leads to is not there, then it is
        mb.convert_file(source / FIRST, link, "v1")
        assert link.is_symlink() and behind.read_bytes() == made.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "made", "pipe", "room"]
    assert [path.name for path in behind.parent.iterdir()] == ["file"]
