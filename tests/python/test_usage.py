"""Charge-back over stored logs adds up to what the records are."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import magicbyte as mb
from magicbyte import usage

from places import DATA

pytest.importorskip("pyarrow", reason="pyarrow is not installed")


@pytest.mark.parametrize("task_bytes", [1 << 30, 5_000])
def test_sums_are_those_of_the_records(task_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "TASK_BYTES", task_bytes)
    told: list[int] = []
    log = mb.Log(DATA / "kafka-logs")
    rows = usage.chargeback(log, "topic", progress=told.append).table()
    wanted: Counter[tuple[str, str]] = Counter()
    for record in log.records():
        wanted[record.topic, "records"] += 1
        wanted[record.topic, "key_bytes"] += len(record.key or b"")
        wanted[record.topic, "value_bytes"] += len(record.value or b"")
        wanted[record.topic, "header_bytes"] += sum(len(h.raw_key) + len(h.value or b"") for h in record.headers)
    found = {(row["topic"], name): row[name] for row in rows for name in row if name != "topic"}
    assert {key: number for key, number in found.items() if number} == {k: n for k, n in wanted.items() if n}
    assert told[-1] == log.size


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    from magicbyte.cli import main

    path = str(DATA / "kafka-logs" / "orders-0")
    assert main(["chargeback", path, "--by", "topic", "--json"]) == 0
    (row,) = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (row["topic"], row["records"]) == ("orders", 516)
    assert main(["chargeback", path, "--by", "topic"]) == 0
    assert "100.0%" in capsys.readouterr().out
    assert main(["chargeback", path, "--by", "records"]) == 2
