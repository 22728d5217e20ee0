"""The command line on real Kafka files: what it says of them is what Kafka's own library says."""

from __future__ import annotations

import base64
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run, assert_harmless

from golden.corpus import Case, Damaged, Record, damaged, logs, shorten

CASES = logs(".log", ".checkpoint")


def params(cases: Sequence[Case | Damaged]) -> list[Any]:
    """The selection that ships is enough for a quick run."""
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.name.startswith("golden/") else [])
        for case in cases
    ]


@pytest.fixture(params=params(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def stored(shown: Any) -> Any:
    """The bytes that JSON stands for."""
    data = base64.b64decode(shown["base64"]) if isinstance(shown, dict) else None if shown is None else shown.encode()
    return shorten(data)


def seen(line: dict[str, Any], sequence: int) -> Record:
    types = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
    headers = tuple((header["key"], stored(header["value"])) for header in line["headers"])
    kind = types[line["timestampType"]]
    return Record(
        line["offset"], line["timestampMs"], kind, sequence, stored(line["key"]), stored(line["value"]), headers
    )


def test_dump_says_what_kafka_says(run: Run, case: Case) -> None:
    ran = run("dump", case.path, "--json", "--control")
    assert ran.status == (0 if case.records else 3)
    assert_harmless(ran.out)
    # A dump shows no sequence numbers.
    assert [seen(line, r.sequence) for line, r in zip(ran.json, case.records, strict=True)] == case.records
    controls = [control for batch in case.batches for control in batch.controls]
    for line, control in zip(ran.json, controls, strict=True):
        assert (line["control"] is None) == (control is None)
        if control is not None and line["control"]["type"] in ("COMMIT", "ABORT"):
            assert line["control"] == {
                "type": control["type"],
                "version": control["keyVersion"],
                "coordinatorEpoch": control["coordinatorEpoch"],
            }
    count = run("dump", case.path, "--count")
    assert count.out == f"{len(case.delivered)}\n"


def test_inspect_lists_the_batches(run: Run, case: Case) -> None:
    ran = run("inspect", case.path, "--batches", "--json")
    assert ran.status == (0 if case.batches else 3)
    names = {
        "position": "position",
        "size": "sizeInBytes",
        "magic": "magic",
        "codec": "compressionType",
        "lastOffset": "lastOffset",
        "maxTimestampMs": "maxTimestamp",
        "timestampType": "timestampType",
        "leaderEpoch": "partitionLeaderEpoch",
        "producerId": "producerId",
        "producerEpoch": "producerEpoch",
        "isTransactional": "isTransactional",
        "isControl": "isControlBatch",
        "crc": "crc",
        "crcOk": "isValid",
    }
    heads = [{ours: batch.head[theirs] for ours, theirs in names.items()} for batch in case.batches]
    assert [{name: line[name] for name in names} for line in ran.json] == heads


@pytest.mark.parametrize("small", [0, 1 << 40], ids=["columns", "records"])
def test_inspect_adds_up(run: Run, case: Case, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from magicbyte.cli import gather, inspect

    monkeypatch.setattr(inspect, "SMALL", small)
    monkeypatch.setattr(gather, "STRETCH", 100_000)
    ran = run("inspect", case.path, "--json")
    (totals,) = [line["totals"] for line in ran.json]
    heads = [batch.head for batch in case.batches]
    records = case.delivered
    headers = [header for record in records for header in record.headers]
    assert (totals["batches"], totals["records"], totals["headers"]) == (len(heads), len(records), len(headers))
    codecs = Counter(head["compressionType"] for head in heads)
    assert {name: codec["batches"] for name, codec in totals["codecs"].items()} == codecs
    assert totals["keyBytes"] == sum(length(record.key) for record in records)
    assert totals["valueBytes"] == sum(length(record.value) for record in records)
    assert totals["headerBytes"] == sum(len(key.encode()) + length(value) for key, value in headers)
    assert {w["key"]: w["count"] for w in totals["headerKeys"]} == Counter(key for key, _ in headers)
    assert sum(totals["controlRecords"].values()) == len(case.records) - len(records)


def length(data: bytes | tuple[str, int] | None) -> int:
    return 0 if data is None else data[1] if isinstance(data, tuple) else len(data)


@pytest.fixture(params=params(damaged()))
def broken(request: pytest.FixtureRequest) -> Damaged:
    return request.param


def test_damage_gives_words_and_never_a_traceback(run: Run, broken: Damaged) -> None:
    runs = [["dump", "--count"], ["inspect"], ["inspect", "--batches"]]
    if "bomb" not in broken.name:  # their text is hundreds of megabytes, and as it should be
        runs += [["dump"], ["dump", "--json", "--control", "--mode", "DROPMALFORMED"]]
    for args in runs:
        unharmed(run, *args, broken.path)


def unharmed(run: Run, *args: object) -> None:
    ran = run(*args)
    assert ran.status in (0, 1, 3)
    assert_harmless(ran.out + ran.err)
    if ran.status == 1:
        assert "at byte" in ran.out + ran.err


@pytest.mark.parametrize("seed", range(40))
def test_any_bytes(run: Run, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    data = bytearray(chance.choice([case for case in CASES if case.name.startswith("data")]).path.read_bytes()[:20_000])
    for _ in range(chance.randint(1, 20)):
        if data:
            data[chance.randrange(len(data))] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    segment = tmp_path / "some-0" / "00000000000000000000.log"
    segment.parent.mkdir()
    segment.write_bytes(data[: chance.randint(0, len(data))] if chance.random() < 0.3 else data)
    for args in (["dump", "--control"], ["dump", "--json", "--mode", "DROPMALFORMED", "--no-check-crc"], ["inspect"]):
        unharmed(run, *args, segment)
