"""`magicbyte convert` and `magicbyte savings`: files, partitions, directories; what is refused; the figures."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import magicbyte as mb
from cli.conftest import FIRST, Run, assert_harmless
from cli.segments import batch


def test_a_file(run: Run, logs: Path, tmp_path: Path) -> None:
    source, target = logs / "orders-0" / FIRST, tmp_path / "v3.log"
    ran = run("convert", source, target, "--to", "v3")
    assert (ran.status, ran.err) == (0, "")
    assert ran.lines[0].startswith(f"{source}: ") and ran.lines[0].endswith(" in v3")
    assert target.read_bytes() == mb.convert(source.read_bytes(), "v3").data
    assert run("convert", target, tmp_path / "v2.log", "--to", "v2").status == 0
    assert (tmp_path / "v2.log").read_bytes() == source.read_bytes()


def test_what_is_lost_is_told(run: Run, logs: Path, tmp_path: Path) -> None:
    ran = run("convert", logs / "orders-0" / FIRST, tmp_path / "v0.log", "--to", "v0")
    assert ran.status == 0
    assert [line.strip() for line in ran.lines[1:]] == [
        "lost: 5 headers",
        "lost: 5 timestamps",
        "lost: 1 batch without its producer state",
        "lost: 1 record of a transaction that looks like any other now",
        "lost: 1 control batch",
    ]
    (told,) = run("convert", logs / "orders-0" / FIRST, tmp_path / "v0.log", "--to", "v0", "--json", "--overwrite").json
    assert told["converted"][0]["dropped"]["headers"] == 5
    assert told["converted"][0]["written"] == (tmp_path / "v0.log").stat().st_size


def test_a_partition_gets_what_a_broker_wants(run: Run, data: Path, tmp_path: Path) -> None:
    source, target = data / "kafka-logs" / "payments-0", tmp_path / "payments-0"
    assert run("convert", source, target, "--to", "v3", "--codec", "zstd", "--segment-bytes", 8000).status == 0
    have, want = mb.Log(target), mb.Log(source)
    assert list(have.records()) == list(want.records())
    assert {batch.format for batch in have.batches()} == {"v3"}
    assert len(have.segments) > 2
    for segment in have.segments:
        assert Path(segment.path).with_suffix(".timeindex").exists()


def test_a_directory_of_partitions(run: Run, data: Path, tmp_path: Path) -> None:
    source = data / "kafka-logs"
    ran = run("convert", source, tmp_path / "new", "--to", "v2", "--codec", "lz4")
    assert ran.status == 0, ran.err
    have, want = mb.Log(tmp_path / "new"), mb.Log(source)
    assert have.partitions == want.partitions
    plain = [[(r.topic, r.partition, r.offset, r.key, r.value) for r in log.records()] for log in (have, want)]
    assert plain[0] == plain[1]


def test_standard_input_and_output(run: Run, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (logs / "orders-0" / FIRST).read_bytes()
    out = io.BytesIO()
    monkeypatch.setattr(
        sys, "stdin", SimpleNamespace(buffer=SimpleNamespace(isatty=lambda: False, read=io.BytesIO(data).read))
    )
    stdout = SimpleNamespace(buffer=out, isatty=lambda: False, flush=lambda: None, write=lambda text: None)
    monkeypatch.setattr(sys, "stdout", stdout)
    assert run("convert", "-", "-", "--to", "v3").status == 0
    assert out.getvalue() == mb.convert(data, "v3").data


@pytest.mark.parametrize("name", ["meta.properties", "recovery-point-offset-checkpoint"])
@pytest.mark.parametrize("to", ["v3", "kip82a", "kip82b", "kip87"])
def test_no_draft_into_a_brokers_directory(run: Run, logs: Path, tmp_path: Path, name: str, to: str) -> None:
    broker = tmp_path / "broker"
    (broker / "orders-0").mkdir(parents=True)
    (broker / name).write_text("")
    (broker / "orders-0" / FIRST).write_bytes(b"")
    pay = logs / "pay-1"
    for source, target in ((logs, broker), (pay, broker / "orders-0"), (pay / FIRST, broker / "orders-0" / FIRST)):
        ran = run("convert", source, target, "--to", to)
        assert ran.status == 2 and name in ran.err and "--into-broker" in ran.err
    assert (broker / "orders-0" / FIRST).read_bytes() == b""
    assert run("convert", pay, broker / "orders-0", "--to", to, "--into-broker").status == 2
    assert run("convert", pay, broker / "orders-0", "--to", to, "--into-broker", "--overwrite").status == 0
    assert run("convert", pay, broker / "orders-0", "--to", "v2", "--overwrite").status == 0


def test_what_the_format_cannot_carry(run: Run, data: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.log"
    source = data / "kafka-logs" / "basic-4" / FIRST
    ran = run("convert", source, target, "--to", "v1")
    assert ran.status == 2 and "zstd" in ran.err and "--codec" in ran.err
    assert run("convert", source, target, "--to", "v1", "--codec", "gzip").status == 0
    ran = run("convert", data / "kafka-logs" / "headers-0" / FIRST, target, "--to", "kip82b", "--overwrite")
    assert ran.status == 2 and "null value" in ran.err
    assert {batch.codec for batch in mb.Log(target).batches()} == {"gzip"}
    assert [path.name for path in tmp_path.iterdir()] == ["t.log"]


def test_damage(run: Run, damaged: Path, tmp_path: Path) -> None:
    target = tmp_path / "new.log"
    ran = run("convert", damaged, target, "--to", "v3")
    assert ran.status == 1 and "checksum" in ran.err and "DROPMALFORMED" in ran.err and not target.exists()
    ran = run("convert", damaged, target, "--to", "v3", "--mode", "DROPMALFORMED")
    assert ran.status == 1 and "error:" in ran.err and "note:" in ran.err
    assert [record.key for record in mb.Log(target).records()] == [b"a", b"b", b"e", b"f"]


def test_what_stands_there_stays(run: Run, logs: Path, tmp_path: Path) -> None:
    orders = logs / "orders-0"
    before = {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()}
    for source, target in (
        (orders, orders), (orders / FIRST, orders / FIRST), (orders, logs), (logs, logs / "new"), (orders, logs / "pay-1"),
        (orders / FIRST, orders / "00000000000000000006.log"), (orders, tmp_path / FIRST),
    ):  # fmt: skip
        ran = run("convert", source, target, "--to", "v1")
        assert ran.status == 2 and str(target) in ran.err, ran.err
    for source, target in ((orders, orders), (orders / FIRST, orders / FIRST), (orders, logs), (logs, logs / "new")):
        assert run("convert", source, target, "--to", "v1", "--overwrite").status == 2
    assert {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()} == before
    (tmp_path / "empty").mkdir()
    assert run("convert", orders, tmp_path / "empty", "--to", "v1").status == 0


def test_wrong_usage(run: Run, logs: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    cases = {
        (logs, tmp_path / "file", "--to", "v3"): 2,
        (logs / "pay-1" / FIRST, tmp_path, "--to", "v3"): 2,
        (logs, "-", "--to", "v3"): 2,
        (logs, tmp_path / "x"): 2,
        (logs, tmp_path / "x", "--to", "v4"): 2,
        (tmp_path / "none", tmp_path / "x", "--to", "v3"): 2,
        (tmp_path / "empty", tmp_path / "x", "--to", "v3"): 3,
    }
    for arguments, status in cases.items():
        assert run("convert", *arguments).status == status, arguments
    assert not (tmp_path / "x").exists()


# savings


def test_savings_add_up(run: Run, data: Path) -> None:
    ran = run("savings", data / "kafka-logs", "--codec", "all", "--json")
    assert ran.status == 0
    (document,) = ran.json
    total = document["totals"]
    batches = [batch for batch in mb.Log(data / "kafka-logs").batches() if batch.format == "v2"]
    assert total["batches"] == len(batches) and total["records"] == sum(batch.count for batch in batches)
    assert total["storedBytes"] == sum(batch.size for batch in batches)
    assert total["olderEntries"] > 0
    plain = total["uncompressed"]
    assert plain["v2"] == sum(len(mb.convert(batch.raw, "v2", codec="none").data) for batch in batches)
    assert plain["v3"] == sum(len(mb.convert(batch.raw, "v3", codec="none").data) for batch in batches)
    assert plain["saved"] == plain["v2"] - plain["v3"] == plain["headers"] + plain["attributes"] + plain["rest"]
    assert plain["attributes"] == total["records"]
    assert 0 <= plain["rest"] < 10
    assert set(total["compressed"]) == {"own", "none", "gzip", "snappy", "lz4", "zstd"}
    assert total["compressed"]["none"]["saved"] == plain["saved"]
    for topic in document["topics"]:
        assert topic["uncompressed"]["headers"] >= 8 * topic["batches"]


def test_savings_of_v3_are_those_of_its_v2(run: Run, data: Path, tmp_path: Path) -> None:
    """Whatever format a log has now, the two sides are the same."""
    source = data / "kafka-logs" / "payments-0"
    mb.convert_partition(mb.Log(source), tmp_path / "payments-0", "v3")
    first, second = (run("savings", path, "--json").json[0]["totals"] for path in (source, tmp_path / "payments-0"))
    assert first["storedBytes"] - second["storedBytes"] == first["uncompressed"]["saved"]
    for key in ("batches", "records", "uncompressed", "compressed"):
        assert first[key] == second[key]


def test_savings_for_people(run: Run, logs: Path) -> None:
    ran = run("savings", logs)
    assert ran.status == 0
    assert_harmless(ran.out)
    assert [line.split()[0] for line in ran.lines[2:5]] == ["orders", "pay", "all"]
    assert ran.lines[-1] == "1 entry of an older format was left out."
    assert "note:" in ran.err


def test_savings_of_nothing(run: Run, tmp_path: Path, damaged: Path) -> None:
    (tmp_path / FIRST).write_bytes(b"")
    assert run("savings", tmp_path / FIRST).status == 3
    ran = run("savings", damaged)
    assert ran.status == 1 and "damaged" in ran.out
    (tmp_path / "one.log").write_bytes(batch([(b"k", b"v")]))
    assert json.loads(run("savings", tmp_path / "one.log", "--json").out)["totals"]["batches"] == 1


def test_a_device_takes_what_comes(run: Run, logs: Path) -> None:
    if not Path("/dev/null").is_char_device():
        pytest.skip("no such device here")
    assert run("convert", logs / "orders-0" / FIRST, "/dev/null", "--to", "v1").status == 0
