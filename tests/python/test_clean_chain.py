"""A chain at compaction time: what it may do, what it may not, and that it does what it does elsewhere."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from magicbyte._compacting import Compaction
from magicbyte.interceptors import Chain, ConsumerInterceptor

from partitions import T, batch, partition
from places import DATA

NOW = mb.Cleaning(now=T)


class Upper(ConsumerInterceptor):
    """Drops, changes values and headers, and looks at many at once."""

    def pre_deserialize(self, record: mb.ConsumerRecord) -> Any:
        record.headers.add("at", b"%d" % record.offset).remove("gone")
        return () if record.headers.get("drop") else record

    def on_record(self, record: mb.ConsumerRecord) -> mb.ConsumerRecord:
        return record if record.value is None else record.replace(value=record.value.upper())

    def on_consume(self, records: list[mb.ConsumerRecord]) -> list[mb.ConsumerRecord]:
        return [record for record in records if record.key != b"hidden"]


def facts(records: Any) -> list[Any]:
    return [
        (r.topic, r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, r.headers.to_list(), r.sequence)
        for r in records
    ]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    one = batch(
        0,
        (b"a", b"old"),
        (b"b", b"one", [("gone", b"1"), ("stays", None), ("stays", None)]),
        (b"hidden", b"two"),
        codec="zstd",
        producer_id=7,
        producer_epoch=1,
        base_sequence=40,
    )
    two = batch(3, (b"c", b"dropped", [("drop", b"1")]), at=T + 5)
    three = batch(4, (b"a", b"new"), (b"d", None), at=T + 9, codec="gzip")
    return partition(tmp_path / "in", one, two, three)


def test_the_same_answers_as_over_a_log_and_in_a_shape_that_a_broker_has(source: Path, tmp_path: Path) -> None:
    mb.clean(source, tmp_path / "plain" / "t-0", NOW)
    chain = Chain(Upper(), errors="raise")
    done = mb.clean(source, tmp_path / "out" / "t-0", NOW, chain=chain)
    expected = facts(Chain(Upper(), errors="raise")(mb.Log(tmp_path / "plain" / "t-0").records()))
    assert facts(mb.Log(tmp_path / "out" / "t-0").records()) == expected
    assert [(row[2], row[6]) for row in expected] == [(1, b"ONE"), (4, b"NEW"), (5, None)]
    assert {name: done.counts[name] for name in ("chain_records", "chain_changed", "chain_dropped")} == {
        "chain_records": 5,
        "chain_changed": 3,
        "chain_dropped": 2,
    }
    assert chain.timings["Upper"].calls > 5
    assert mb.Log(tmp_path / "out" / "t-0").verify().ok
    first, last = mb.Log(tmp_path / "out" / "t-0").batches()
    shape = (first.base_offset, first.last_offset, first.codec, first.producer_id, first.base_sequence, first.count)
    assert shape == (0, 2, "zstd", 7, 40, 1)
    assert (last.base_offset, last.last_offset, last.codec, last.max_timestamp) == (4, 5, "gzip", T + 9)
    names = {path.name for path in (tmp_path / "plain" / "t-0").iterdir()}
    assert {path.name for path in (tmp_path / "out" / "t-0").iterdir()} == names


def test_a_chain_that_changes_nothing_gives_the_bytes_of_a_cleaning(source: Path, tmp_path: Path) -> None:
    mb.clean(source, tmp_path / "plain-0", NOW)
    mb.clean(source, tmp_path / "out-0", NOW, chain=Chain(lambda record: record, errors="raise"))
    for path in (tmp_path / "plain-0").iterdir():
        assert (tmp_path / "out-0" / path.name).read_bytes() == path.read_bytes()


def test_a_batch_that_remembers_a_producer_stays(tmp_path: Path) -> None:
    data = batch(0, (b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=9)
    source = partition(tmp_path, data, batch(1, (b"b", b"1")), batch(2, (b"c", b"1")))
    mb.clean(source, tmp_path / "out-0", mb.Cleaning(now=T, segment_bytes=1 << 20), chain=Chain(lambda record: ()))
    left = [(b.base_offset, b.last_offset, b.count, b.size) for b in mb.Log(tmp_path / "out-0").batches()]
    assert left == [(0, 0, 0, 61), (2, 2, 0, 61)]
    assert not [defect for defect in mb.Log(tmp_path / "out-0").verify().defects if defect.severity == "error"]


def other_key(record: Any) -> Any:
    return record.replace(key=b"other")


def other_time(record: Any) -> Any:
    return record.replace(timestamp=5)


def other_offset(record: Any) -> Any:
    return record.replace(offset=record.offset + 100)


def twice(record: Any) -> Any:
    return record, record.copy()


class Holds:
    def __init__(self) -> None:
        self.held: list[Any] = []

    def pre_deserialize(self, record: Any) -> Any:
        self.held.append(record)
        return ()

    def flush(self) -> Any:
        return self.held


@pytest.mark.parametrize(
    "link, said",
    [
        (other_key, "changed key or time of t-0, offset 1"),
        (other_time, "changed key or time of t-0, offset 1"),
        (other_offset, "t-0, offset 101, which is not its place"),
        (twice, "gave offset 1 of t-0 twice"),
        (Holds(), "held back 5 records, the first of offset 1"),
    ],
)
def test_what_a_chain_may_not_do(source: Path, tmp_path: Path, link: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mb.clean(source, tmp_path / "out-0", NOW, chain=Chain(link))
    assert not (tmp_path / "out-0").exists() and [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("format", ["v0", "v1", "v2", "v3", "kip82a", "kip82b", "kip87"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_every_format(tmp_path: Path, format: str, codec: str) -> None:
    dialect = format if format.startswith("kip") else "kafka"
    data = batch(0, *((b"%d" % n, b"v%d" % n) for n in range(6)), format=format, codec=codec)
    path, out = tmp_path / "given.log", tmp_path / "out.log"
    path.write_bytes(data)

    def link(record: Any) -> Any:
        return () if record.offset in (0, 5) else record.replace(value=b"new") if record.offset == 2 else record

    with out.open("wb") as file:
        Compaction(Chain(link, errors="raise"), "t", 0, dialect, None).write(path, file)
    changed = out.read_bytes()
    found = [(r.offset, r.key, r.value, r.timestamp) for r in mb.decode(changed, format=dialect)]
    before = list(mb.decode(data, format=dialect))
    value: Callable[[Any], bytes] = lambda r: b"new" if r.offset == 2 else r.value  # noqa: E731
    assert found == [(r.offset, r.key, value(r), r.timestamp) for r in before[1:5]]
    assert {b.format for b in mb.decode_batches(changed, format=dialect)} == {format}


def test_headers_alone_over_real_segments(tmp_path: Path) -> None:
    """Every field of a rebuilt batch but its records, checksum and sizes is what it was."""
    seen = 0
    for path in sorted(DATA.rglob("*.log")):
        try:
            before = [b for b in mb.Log(path).batches() if not b.control and b.records]
        except mb.MagicbyteError:
            continue
        if any(b.magic < 2 for b in before):
            continue  # no headers
        out = tmp_path / "out.log"
        with out.open("wb") as file:
            Compaction(Chain(stamp, errors="raise"), "", -1, "kafka", None).write(path, file)
        after = [b for b in mb.Log(out).batches() if not b.control and b.records]
        plain = {r.offset: r for r in mb.Log(path).records()}
        for record in mb.Log(out).records():
            was = plain[record.offset]
            assert (record.key, record.value, record.timestamp) == (was.key, was.value, was.timestamp)
        for one, other in zip(before, after, strict=True):
            seen += 1
            for name in FIELDS:
                assert getattr(one, name) == getattr(other, name), (path, name)
            assert [r.headers.get("stamp")[-1:] for r in other.records] == [[b"x"]] * len(other.records)
    assert seen > 10


FIELDS = (
    "format codec base_offset last_offset timestamp_type base_timestamp partition_leader_epoch transactional delete_horizon "
    "producer_id producer_epoch base_sequence count"
).split()


def stamp(record: Any) -> Any:
    record.headers.add("stamp", b"x")
    return record


def test_on_the_command_line(source: Path, tmp_path: Path) -> None:
    (tmp_path / "house.py").write_text(
        "def at_compaction(record):\n    record.headers.add('seen', b'1')\n    return record\n"
    )

    def run(chain: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "magicbyte",
            "clean",
            str(source),
            "out/t-0",
            "--chain",
            chain,
            "--now",
            str(T),
        ]
        command.append("--overwrite")
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = run("house:at_compaction")
    assert done.returncode == 0, done.stderr
    assert "5 records through the chain: 5 changed, 0 dropped" in done.stdout
    assert all(record.headers.get("seen") == [b"1"] for record in mb.Log(tmp_path / "out" / "t-0").records())
    for wrong, said in (("house:nothing", "nothing"), ("no_house", "no_house"), ("house:__name__", "interceptor")):
        done = run(wrong)
        assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
