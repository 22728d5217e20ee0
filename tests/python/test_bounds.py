"""Memory is bounded before it is taken, in every way in: bombs of each codec, false sizes, millions of tiny things.

Each case runs in a process of its own, whose peak memory is measured.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

import bombs
import magicbyte as mb

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory is read from /proc")

#: What the interpreter, pyarrow and magicbyte take before anything is read is measured, and taken off. The default limit for
#: decompressed bytes is 256 MiB; what is noted of records and headers may be as much again, and grows by doubling.
ALLOWED_MB = 256 + 64
ALLOWED_NOTES_MB = 256 * 4

SCRIPT = """
import sys
from pathlib import Path
import pyarrow
import magicbyte as mb

def peak():
    # A child's ru_maxrss begins with its parent's, so Linux is asked for the memory of this very program.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) >> 10

path = sys.argv[1]
data = Path(path).read_bytes()
folder = Path(path).parent
made = iter(range(100))
low = mb.Limits(decompressed=1 << 20)
log = lambda **options: mb.Log(path, check_crc=False, **options)

def all_of(iterator):
    for _ in iterator:
        pass

def records_of_batches(iterator):
    for batch in iterator:
        batch.records

def ways(limits):
    options = {"check_crc": False, "limits": limits}
    yield "records", lambda: all_of(log(limits=limits).records())
    yield "batches", lambda: records_of_batches(log(limits=limits).batches())
    yield "scan", lambda: log(limits=limits).scan().to_arrow()
    yield "views", lambda: log(limits=limits).scan(views=True).to_arrow()
    yield "count", lambda: log(limits=limits).scan(["offset"]).count()
    yield "decode", lambda: all_of(mb.decode(data, **options))
    yield "decode_batches", lambda: records_of_batches(mb.decode_batches(data, **options))
    yield "decode_arrow", lambda: mb.decode_arrow(data, **options)
    yield "convert", lambda: mb.convert(data, "v3" if data[16] == 2 else "v1", **options)
    yield "convert_file", lambda: mb.convert_file(path, folder / "out", "v3" if data[16] == 2 else "v1", **options)
    yield "digest", lambda: mb.digest(log(limits=limits))
    yield "diff", lambda: mb.diff(log(limits=limits), data)

before = peak()
wanted = sys.argv[2].split(",")
for limits in (low, None):
    for name, way in ways(limits):
        if limits is None and name not in wanted:
            continue
        try:
            way()
        except mb.CorruptRecordError as error:
            assert error.kind in sys.argv[3].split(","), (name, error)
            assert error.position == 0
        else:
            raise SystemExit(f"{name}: no error under {limits}")
# These go on behind what is over the limit.
for limits in (low, None):
    report = mb.Log(path, limits=limits).verify()
    assert report.ok is False, report
    assert log(mode="DROPMALFORMED", limits=limits).scan().to_arrow().num_rows == 0
    out = mb.recover(path, folder / f"recovered{next(made)}", limits=limits)
    assert out.records == 0
print(peak() - before)
"""


def measured(folder: Path, data: bytes, ways: str, kinds: str) -> tuple[int, float]:
    """Peak MB over what the process took before, and seconds."""
    path = folder / "00000000000000000000.log"
    path.write_bytes(data)
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), ways, kinds], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout), time.monotonic() - begun


@pytest.mark.parametrize("name, data", bombs.bombs().items(), ids=list(bombs.bombs()))
def test_a_bomb_ends_at_the_limit(name: str, data: bytes, tmp_path: Path) -> None:
    kinds = "limit,decompress" if "says" in name else "limit"
    megabytes, seconds = measured(tmp_path, data, "records,scan", kinds)
    print(f"{name}: {len(data)} bytes, {megabytes} MB at the peak, {seconds:.1f} s")
    assert megabytes < ALLOWED_MB


@pytest.mark.parametrize("make", [bombs.tiny_records, bombs.tiny_headers], ids=lambda make: make.__name__)
def test_millions_of_tiny_things_end_at_the_limit(make: object, tmp_path: Path) -> None:
    data = make()  # type: ignore[operator]
    megabytes, seconds = measured(tmp_path, data, "records,scan", "limit")
    print(f"{len(data)} bytes, {megabytes} MB at the peak, {seconds:.1f} s")
    assert megabytes < ALLOWED_MB


@pytest.mark.parametrize("magic", [0, 1])
def test_deep_nesting_is_refused_at_the_second_level(magic: int) -> None:
    data = bombs.nested(500, magic)
    for mode in ("FAILFAST", "DROPMALFORMED"):
        with (
            pytest.raises(mb.CorruptRecordError, match="a wrapper within a wrapper") if mode == "FAILFAST" else _none()
        ):
            assert list(mb.decode(data, mode=mode)) == []
    assert mb.verify(data).ok is False


def test_limits_are_options_of_every_way_in() -> None:
    data = mb.encode([mb.Record(0, value=b"x" * 1000), mb.Record(1, headers=[("k", b"v")] * 30)], codec="gzip")
    for limits, what in [
        (mb.Limits(record=900), "record"),
        (mb.Limits(batch=100), "batch"),
        (mb.Limits(decompressed=1000), "decompressed"),
        (mb.Limits(headers=20), "headers"),
    ]:
        for way in (
            lambda limits=limits: list(mb.decode(data, limits=limits)),
            lambda limits=limits: [batch.records for batch in mb.decode_batches(data, limits=limits)],
            lambda limits=limits: mb.decode_arrow(data, limits=limits),
            lambda limits=limits: mb.convert(data, "v3", limits=limits),
            lambda limits=limits: mb.digest(mb.Log(data, limits=limits)),
        ):
            with pytest.raises(mb.CorruptRecordError, match=f"over the limit for {what}") as raised:
                way()
            assert raised.value.kind == "limit"
        report = mb.verify(data, limits=limits)
        assert report.ok is False and [d.kind for d in report.defects if d.severity == "error"] == ["limit"]


def _none() -> object:
    import contextlib

    return contextlib.nullcontext()
