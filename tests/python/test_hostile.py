"""Mutated real files through every public way in: only the documented errors come out, soon, and in little memory."""

from __future__ import annotations

import contextlib
import resource
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.ids import HeaderIds

from making import FORMATS, batches
from places import DATA

READ_AS = ("kafka", "kip87", "kip82a", "kip82b", "v0", "v1", "v2", "v3")
MODES = ("FAILFAST", "DROPMALFORMED", "PERMISSIVE")
MOST = 6000  # bytes of a file that are taken
LIMITS = st.sampled_from([None, mb.Limits(record=200), mb.Limits(batch=300), mb.Limits(decompressed=500, headers=2)])
#: What reading may raise; converting may also say that the target cannot carry a record.
DOCUMENTED = (mb.CorruptRecordError, mb.UnsupportedCodecError)


@cache
def seeds() -> list[bytes]:
    paths = [*sorted(DATA.rglob("*.bin")), *sorted(DATA.rglob("*.log"))]
    return [path.read_bytes()[:MOST] for path in paths]


def edited(data: bytearray, edits: list[tuple[int, int, int, bytes]]) -> bytes:
    """The bytes with some places changed: (place in 1/65536, how, length, bytes)."""
    for place, how, length, new in edits:
        at = len(data) * place >> 16
        if how == 0:
            data[at : at + len(new)] = new
        elif how == 1:
            data[at:at] = new
        elif how == 2:
            del data[at : at + length]
        elif how == 3:
            data[at:at] = data[at : at + length]
        else:
            del data[at:]
    return bytes(data)


EDIT = st.tuples(
    st.integers(0, 65535),
    st.integers(0, 4),
    st.integers(1, 200),
    st.binary(min_size=1, max_size=5)
    | st.sampled_from([b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x0f", bytes(13)]),
)
HEAVY = settings(
    deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@st.composite
def hostile(draw: st.DrawFn) -> bytes:
    """Real or made batches one after the other, changed in a few places, some with checksums that hold."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            parts.append(draw(st.sampled_from(seeds())))
        else:
            format = draw(st.sampled_from(FORMATS))
            parts.append(mb.encode_batch(draw(batches(format)), format=format))
    data = edited(bytearray(b"".join(parts)), draw(st.lists(EDIT, max_size=5)))
    return mended(data) if draw(st.booleans()) else data


def mended(data: bytes) -> bytes:
    """With the CRC-32 of v0 and v1 entries made to hold. (CRC-32C has no quick way in Python: `check_crc=False` is it.)"""
    out, at = bytearray(data), 0
    while at + 17 <= len(out):
        size = int.from_bytes(out[at + 8 : at + 12], "big")
        if out[at + 16] > 1 or not 14 <= size <= len(out) - at - 12:
            break
        out[at + 12 : at + 16] = zlib.crc32(out[at + 16 : at + 12 + size]).to_bytes(4, "big")
        at += 12 + size
    return bytes(out)


def touch(record: Any) -> None:
    """Asks a record for all that it has."""
    for name in ("offset", "timestamp", "timestamp_type", "key", "value", "leader_epoch", "tombstone", "control"):
        getattr(record, name)
    assert len(record.headers) == len([(h.key, h.value, h.raw_key) for h in record.headers])
    repr(record)


def touch_batch(batch: Any) -> None:
    repr(batch)
    for record in batch.records:
        (record.offset, record.timestamp, record.key, record.value, record.headers.to_list())


@contextlib.contextmanager
def documented(*more: type[Exception]) -> Iterator[None]:
    caught: Exception | None = None
    try:
        yield
    except (*DOCUMENTED, *more) as error:
        caught = error
    assert caught is None or str(caught)
    if isinstance(caught, mb.CorruptRecordError):
        assert caught.position >= 0 and caught.kind


@HEAVY
@given(
    hostile(),
    st.sampled_from(READ_AS),
    st.sampled_from(MODES),
    st.booleans(),
    LIMITS,
    st.sampled_from(["read_uncommitted", "read_committed"]),
    st.booleans(),
)
def test_reading(
    data: bytes, format: str, mode: str, check_crc: bool, limits: mb.Limits | None, isolation: str, flag: bool
) -> None:
    log = mb.Log(data, format=format, mode=mode, check_crc=check_crc, limits=limits)
    with documented():
        for record in log.records(isolation, control=flag, past_lso=flag):
            touch(record)
    with documented():
        for batch in log.batches():
            # In a batch whose checksum holds, the records may break by themselves.
            with documented():
                touch_batch(batch)
    table = None
    with documented():
        table = log.scan(mb.COLUMNS, isolation=isolation, control=flag, past_lso=flag).to_arrow()
        table.validate(full=True)
    with documented():
        views = log.scan(mb.COLUMNS, isolation=isolation, control=flag, past_lso=flag, views=True).to_arrow()
        assert table is not None and views.num_rows == table.num_rows
        assert views["value"].cast(pa.binary()).equals(table["value"])
    with documented():
        assert log.scan(["offset"], control=flag, isolation=isolation, past_lso=flag).count() >= 0
    options: dict[str, Any] = {"format": format, "mode": mode, "check_crc": check_crc, "limits": limits}
    with documented():
        sum(1 for _ in mb.decode(data, isolation=isolation, control=flag, **options))
    with documented():
        sum(1 for _ in mb.decode_batches(data, **options))
    with documented():
        mb.decode_arrow(data, control=flag, offsets=(0, 50), timestamps=(0, 2**62), **options)


@HEAVY
@given(hostile(), st.sampled_from(READ_AS), LIMITS)
def test_judging(data: bytes, format: str, limits: mb.Limits | None) -> None:
    log = mb.Log(data, format=format, limits=limits)
    report = log.verify()
    assert report.ok is not True or (report.records > 0 and not any(d.severity == "error" for d in report.defects))
    for defect in report.defects:
        assert 0 <= defect.position <= len(data) and defect.message
    at, end = -1, 0
    for _, row in log.ledger():
        # The size of a row whose checksum does not hold is only what it says of itself.
        assert row.position > at and (row.position >= end or not row.crc_ok)
        at, end = row.position, row.position + row.size if row.crc_ok else end
    assert mb.verify(data, format=format, limits=limits).batches == report.batches
    assert set(mb.detect(data)) <= set(FORMATS)
    with documented():
        mb.digest(log)
    with documented():
        assert mb.diff(log, log) == []


@HEAVY
@given(
    hostile(),
    st.sampled_from(READ_AS),
    st.sampled_from(FORMATS),
    st.sampled_from(MODES),
    st.booleans(),
    st.sampled_from([None, "none", "gzip", "zstd"]),
    st.none() | st.integers(0, 2**40),
    LIMITS,
)
def test_converting(
    data: bytes,
    format: str,
    to: str,
    mode: str,
    check_crc: bool,
    codec: str | None,
    first: int | None,
    limits: mb.Limits | None,
) -> None:
    options: dict[str, Any] = {"format": format, "mode": mode, "check_crc": check_crc, "limits": limits}
    with documented(ValueError):
        done = mb.convert(data, to, codec=codec, first_offset=first, **options)
        # What is written can be read.
        own = to if to.startswith("kip") else "kafka"
        assert sum(1 for _ in mb.decode(done.data, format=own, mode="DROPMALFORMED", check_crc=check_crc)) >= 0


@settings(HEAVY, max_examples=25)
@given(hostile(), st.sampled_from(READ_AS[:4]), st.binary(max_size=40), st.binary(max_size=70))
def test_files(data: bytes, format: str, index: bytes, txns: bytes) -> None:
    """The same bytes as a segment among broken indexes: read, verified, recovered; the input stays as it was."""
    with tempfile.TemporaryDirectory() as place:
        source = Path(place, "logs", "t-0")
        source.mkdir(parents=True)
        files = {
            "00000000000000000000.log": data,
            "00000000000000000000.index": index,
            "00000000000000000000.timeindex": index + txns,
            "00000000000000000000.txnindex": txns,
            "leader-epoch-checkpoint": index,
        }
        for name, content in files.items():
            (source / name).write_bytes(content)
        log = mb.Log(source, format=format)
        with documented():
            for record in log.records("read_committed"):
                touch(record)
        with documented():
            mb.Log(source, format=format, mode="DROPMALFORMED").scan(offsets=(3, 40)).to_arrow()
        log.verify()
        recovered = mb.recover(source, Path(place, "out"), format=format)
        assert recovered.records <= log.verify().records
        assert {path.name: path.read_bytes() for path in source.iterdir()} == files
        with documented(ValueError):
            mb.convert_file(source / "00000000000000000000.log", Path(place, "v3.log"), "v3", format=format)
        assert mb.verify(data, format=format).ok is not True or recovered.records > 0


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=300) | hostile())
def test_header_bytes(data: bytes) -> None:
    with documented():
        headers = mb.Headers.from_bytes(data)
        assert mb.Headers.from_bytes(headers.to_bytes()) == headers
    with documented():
        ids = HeaderIds().from_bytes(data)
        assert len(ids) * 8 + 4 <= len(data)


@pytest.mark.parametrize("read", [mb.Headers.from_bytes, HeaderIds().from_bytes])
@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xfe\xff\xff\xff\x0f"])
def test_a_false_count_of_headers_takes_no_memory(read: Callable[[bytes], mb.Headers], count: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(mb.CorruptRecordError):
        read(count + bytes(7))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
