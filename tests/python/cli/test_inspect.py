"""`magicbyte inspect`: the figures, as table and as JSON, by both ways of weighing payloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import FIRST, HOSTILE, Ran, Run, assert_harmless
from cli.segments import batch


@pytest.fixture(params=["records", "columns"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Payloads weighed record by record, or through Arrow columns in small stretches: the figures are the same."""
    from magicbyte.cli import gather, inspect

    if request.param == "columns":
        monkeypatch.setattr(inspect, "SMALL", 0)
        monkeypatch.setattr(gather, "STRETCH", 100)
    return str(request.param)


def document(ran: Ran) -> Any:
    return json.loads(ran.out)


def test_figures(run: Run, logs: Path, way: str) -> None:
    ran = run("inspect", logs, "--json")
    assert ran.status == 0
    found = document(ran)
    first, second, pay = found["segments"]
    assert (first["topic"], first["partition"], pay["topic"], pay["partition"]) == ("orders", 0, "pay", 1)
    assert (first["batches"], first["records"], first["firstOffset"], first["lastOffset"]) == (3, 5, 0, 5)
    assert (first["firstTimestampMs"], first["lastTimestampMs"]) == (1_769_860_800_000, 1_769_860_800_003)
    assert (first["keyBytes"], first["valueBytes"], first["headerBytes"]) == (5, 9, 8 + 3 + 1 + 1 + 8 + 3 + 3 + 2)
    assert first["headerShare"] == pytest.approx(29 / 43)
    assert first["headers"] == 5
    assert first["headerKeys"] == [
        {"key": "trace-id", "count": 2, "bytes": 22},
        {"key": "bin", "count": 1, "bytes": 5},
        {"key": "n", "count": 1, "bytes": 1},
        {"key": "e", "count": 1, "bytes": 1},
    ]
    assert (first["producers"], first["transactionalBatches"], first["controlRecords"]) == (1, 1, {"COMMIT": 1})
    assert first["codecs"]["none"]["payloadBytes"] == 43
    assert second["magics"] == {"1": 1, "2": 1}
    assert [finding["kind"] for finding in second["findings"]] == ["zero_tail"]
    assert second["findings"][0]["severity"] == "note"
    assert pay["timestampTypes"] == {"LogAppendTime": 1}
    totals = found["totals"]
    assert (totals["partitions"], totals["segments"], totals["batches"], totals["records"]) == (2, 3, 6, 17)
    assert [(p["topic"], p["segments"], p["records"]) for p in found["partitions"]] == [
        ("orders", 2, 16),
        ("pay", 1, 1),
    ]
    ((path, reason),) = [(entry["path"], entry["reason"]) for entry in found["leftOut"]]
    assert path.endswith(".log.deleted")
    assert reason


def test_table(run: Run, logs: Path, way: str) -> None:
    ran = run("inspect", logs)
    assert ran.status == 0
    header, *lines = ran.lines
    assert " ".join(header.split()) == "SEGMENT SIZE BATCHES RECORDS OFFSETS FROM TO MAGIC CODEC RATIO HEADERS NOTES"
    assert lines[0] == "orders-0"
    assert lines[1].split()[0] == FIRST
    assert "0..16" in next(line for line in lines if "2 segments" in line)
    assert any("zero_tail" in line and "at byte" in line for line in lines)
    assert any(".log.deleted" in line for line in lines)
    assert any(line.startswith("Control:") and "COMMIT 1" in line for line in lines)


def test_damage_is_shown_with_what_is_around_it(run: Run, damaged: Path, way: str) -> None:
    ran = run("inspect", damaged, "--json")
    assert ran.status == 1
    found = document(ran)
    assert [(f["position"], f["kind"], f["severity"]) for f in found["findings"]] == [
        (79, "crc", "error"),
        (237, "torn_tail", "note"),
    ]
    assert found["totals"]["batches"] == 3
    assert found["totals"]["records"] == 4
    table = run("inspect", damaged)
    assert table.status == 1
    assert f"crc: {damaged}: at byte 79: " in table.out
    assert f"torn_tail: {damaged}: at byte 237: " in table.out


def test_failfast_stops_at_damage(run: Run, tmp_path: Path, way: str) -> None:
    segment = tmp_path / FIRST
    good = batch([(b"a", b"1")])
    segment.write_bytes(good + b"\0" * 16 + b"\x63" + b"x" * 100)
    ran = run("inspect", segment, "--json", "--mode", "FAILFAST")
    assert ran.status == 1
    found = document(ran)
    assert (found["totals"]["batches"], found["totals"]["records"]) == (1, 1)
    assert [f["position"] for f in found["findings"]] == [len(good)]


def test_quick_reads_batch_headers_only(run: Run, damaged: Path) -> None:
    ran = run("inspect", damaged, "--quick", "--json")
    assert ran.status == 0
    assert document(ran)["totals"]["batches"] == 3
    assert document(ran)["totals"]["headerShare"] is None
    assert run("inspect", damaged, "--quick").status == 0


def test_batches_one_a_line(run: Run, damaged: Path) -> None:
    ran = run("inspect", damaged, "--batches", "--json")
    assert ran.status == 1
    assert [(b["position"], b["size"], b["baseOffset"], b["count"], b["crcOk"]) for b in ran.json] == [
        (0, 79, 0, 2, True),
        (79, 79, 2, 2, False),
        (158, 79, 4, 2, True),
    ]
    assert "at byte 79: wrong checksum" in ran.err
    text = run("inspect", damaged, "--batches")
    assert text.status == 1
    assert [line.split()[0] for line in text.lines] == ["POSITION", "0", "79", "158"]
    assert "BAD" in text.lines[2]


def test_nothing_to_inspect(run: Run, tmp_path: Path) -> None:
    ran = run("inspect", tmp_path)
    assert ran.status == 3
    assert str(tmp_path) in ran.err
    (tmp_path / FIRST).touch()
    assert run("inspect", tmp_path).status == 3
    assert run("inspect", tmp_path / "gone").status == 2


def test_hostile_headers_stay_text(run: Run, tmp_path: Path, way: str) -> None:
    segment = tmp_path / FIRST
    segment.write_bytes(batch([(b"k", b"v", [(HOSTILE.encode(), b"x")])]))
    assert_harmless(run("inspect", segment).out)
    ran = run("inspect", segment, "--json")
    assert_harmless(ran.out)
    assert document(ran)["totals"]["headerKeys"][0]["key"] == HOSTILE


def test_header_keys_are_bounded(run: Run, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from magicbyte.cli import survey

    monkeypatch.setattr(survey, "MOST_KEYS", 5)
    segment = tmp_path / FIRST
    segment.write_bytes(batch([(b"k", b"v", [(b"h%d" % i, b"x")]) for i in range(20)]))
    totals = document(run("inspect", segment, "--json"))["totals"]
    assert totals["headers"] == 20
    assert len(totals["headerKeys"]) == 5
    assert totals["headerKeysComplete"] is False
    assert "or more" in run("inspect", segment, "--keys", 2).out
