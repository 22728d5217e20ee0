"""Every damaged file: the records that a Kafka consumer is given, then the error or the end. Differences: exceptions.toml."""

from __future__ import annotations

from typing import Any

import pytest

import magicbyte as mb
from magicbyte import _core

from golden import compare, damage
from golden.corpus import Damaged, damaged

CASES = damaged()
COLUMNS = ("batchPosition", *compare.ARROW_COLUMNS)
# By file: the differences that were seen, so that an exception nobody needs any more is found.
seen: dict[str, set[str]] = {}


@pytest.fixture(params=CASES, ids=[case.name for case in CASES])
def case(request: pytest.FixtureRequest) -> Damaged:
    return request.param


def judge(case: Damaged, kafka: damage.Outcome, ours: damage.Outcome, what: str) -> None:
    differences = seen.setdefault(case.name, set())
    found = damage.deviations(kafka, ours)
    differences |= found
    beyond = found - damage.allowances(case.name)
    assert not beyond, (
        f"{what}: {sorted(beyond)}\n"
        f"  Kafka: {len(kafka.records)} records, error at {kafka.error}\n"
        f"  ours:  {len(ours.records)} records, error at {ours.error}"
    )


def test_records(case: Damaged, count: Any) -> None:
    """The whole file, as a consumer takes it."""
    kafka = damage.file_outcome(case.memory)
    ours = damage.consume(mb.Log(case.path).records(control=True), compare.consumed)
    judge(case, kafka, ours, "whole file")
    if (
        ours.error is not None
        and ours.error >= 0
        and kafka.error == ours.error
        and len(ours.records) == len(kafka.records)
    ):
        assert ours.of_entry == kafka.of_entry
    count("records", case.name)


def test_each_batch(case: Damaged) -> None:
    """Each batch by itself, those behind the first damage too; and where only the checksum is wrong, without it."""
    data = case.path.read_bytes()
    for batch in case.memory["batches"]:
        one = data[batch["position"] : batch["position"] + batch["sizeInBytes"]]
        kafka = damage.batch_outcome(batch | {"position": 0})
        ours = damage.consume(mb.decode(one, control=True), compare.consumed)
        judge(case, kafka, ours, f"batch at {batch['position']}")
        if batch["ensureValid"] != "ok" and "stored crc" in batch["ensureValid"]["message"]:
            kafka = damage.batch_outcome(batch | {"position": 0}, check_crc=False)
            ours = damage.consume(mb.decode(one, control=True, check_crc=False), compare.consumed)
            judge(case, kafka, ours, f"batch at {batch['position']}, checksum passed over")


TAILS = [
    case
    for case in CASES
    if case.memory["end"] == "stopped silently" and damage.file_outcome(case.memory).error is None
]


@pytest.mark.parametrize("case", TAILS, ids=[case.name for case in TAILS])
def test_tail_is_reported(case: Damaged) -> None:
    """Where Kafka stops without a word, an incomplete tail is there; we end as well, and say so."""
    kafka = damage.file_outcome(case.memory)
    reader = _core.Reader([_core.Part(str(case.path))], control=True)
    assert len(list(reader.records())) == len(kafka.records)
    [(path, position, kind, size, _)] = reader.findings
    consumed = case.memory["consumed"]
    assert (path, position, size) == (str(case.path), consumed, case.path.stat().st_size - consumed)
    assert kind == ("torn_tail" if any(case.path.read_bytes()[consumed:]) else "zero_tail")


def test_arrow(case: Damaged, count: Any) -> None:
    """Columns take a batch whole or not at all: every batch that Kafka reads whole, none that it reads in part."""
    table = mb.Log(case.path, mode="DROPMALFORMED").scan(columns=COLUMNS).to_arrow()
    damage.compare_columns(case, zip(table.column("batchPosition").to_pylist(), compare.rows(table), strict=True))
    count("arrow", case.name)


def test_arrow_raises_where_kafka_does(case: Damaged) -> None:
    kafka = damage.file_outcome(case.memory)
    raised = False
    try:
        mb.Log(case.path).scan(columns=COLUMNS).to_arrow()
    except (mb.CorruptRecordError, mb.UnsupportedCodecError):
        raised = True
    if raised != (kafka.error is not None):
        assert (damage.RAISES if raised else damage.PASSES) in damage.allowances(case.name)


def test_every_exception_is_needed(shared: Any) -> None:
    """Runs last: an exception whose difference is gone must go as well."""
    if set(seen) != {case.name for case in CASES}:
        pytest.skip("not all damaged files were read in this run")
    for entry in damage.exceptions():
        covered = [differences for name, differences in seen.items() if entry.covers(name)]
        assert covered, f"no file matches {entry.files}"
        unused = entry.deviations - set().union(*covered)
        assert not unused, f"{entry.files}: {unused} is no longer seen"
