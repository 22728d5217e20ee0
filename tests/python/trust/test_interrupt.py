"""Ctrl-C ends whatever takes long, in a process of its own, soon: half a second on a machine with nothing else to do.

How soon is told in the process's own time on the processor: that of others, on a busy machine, is not counted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import magicbyte as mb

SOON = 3.0  # seconds of the processor; the slowest machine may need some for the way out of Python
SEGMENTS = 3000

CALLS = {
    "records": "for record in mb.Log(path).records(): pass",
    "batches": "for batch in mb.Log(path).batches(): pass",
    "count": "mb.Log(path).scan(['offset']).count()",
    "columns": "for batch in mb.Log(path).scan(): pass",
    "verify": "mb.Log(path).verify()",
    "ledger": "for row in mb.Log(path).ledger(): pass",
    "digest": "mb.digest(path)",
    "recover": "mb.recover(path, out)",
    "convert": "for data in [one * 60] * 50: mb.convert(data, 'v1', codec='gzip')",
    "verify_bytes": "for data in [one * 150] * 50: mb.verify(data)",
    # Bytes in which no entry is found: one search, without a batch to stop at.
    "search_file": "list(mb.Log(junk, mode='DROPMALFORMED').records())",
    "search_mapped": "list(mb.Log(junk, mode='DROPMALFORMED', mmap=True).records())",
    "search_bytes": "for data in [noise] * 50: mb.verify(data)",
}

# Again and again: a machine with the file in its cache is through all of it before the signal comes.
SCRIPT = """
import sys, magicbyte as mb, pyarrow
path, out, junk, one = sys.argv[1], sys.argv[2], sys.argv[3], open(sys.argv[4], "rb").read()
noise = open(junk, "rb").read(200 << 20) if {needs_noise} else b""
try:
    print("go", flush=True)
    while True:
        {call}
except KeyboardInterrupt:
    sys.exit(42)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some gigabytes to read that take no room: one segment under many names; and 400 MB of what is no log."""
    root = tmp_path_factory.mktemp("large")
    records = [mb.ProducerRecord("", b"%05d" % at * 20, b"k", [("h", b"x")]) for at in range(10_000)]
    one = root / "one.bin"
    one.write_bytes(b"".join(mb.encode_batches(records)))
    (root / "big-0").mkdir()
    for number in range(SEGMENTS):
        os.link(one, root / "big-0" / f"{number * 10_000:020}.log")
    noise = os.urandom(1 << 20)
    with (root / "junk.bin").open("wb") as file:
        for _ in range(400):
            file.write(noise)
    return root


def spent(process: int) -> float:
    """Seconds of the processor that a process has used so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to ask")
@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c(large: Path, tmp_path: Path, name: str) -> None:
    arguments = [large / "big-0", tmp_path / "out-0", large / "junk.bin", large / "one.bin"]
    command = [
        sys.executable,
        "-c",
        SCRIPT.format(call=CALLS[name], needs_noise="noise" in CALLS[name]),
        *map(str, arguments),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "go\n"
        time.sleep(0.3)  # in the midst of the work, as a rule; before it, or between two calls, the end is the same
        before = spent(process.pid)
        process.send_signal(signal.SIGINT)
        try:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        finally:
            process.kill()
        taken = used.ru_utime + used.ru_stime - before
    assert process.returncode == 42
    assert taken < SOON, f"{name}: {taken:.2f} s"
    assert not (tmp_path / "out-0").exists()
