"""Every undamaged file, batch by batch and record by record, as Kafka's own library reads it."""

from __future__ import annotations

from typing import Any

import pytest

import magicbyte as mb

from golden import compare
from golden.corpus import Case, whole

CASES = whole()


@pytest.fixture(params=CASES, ids=[case.name for case in CASES])
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


def test_batches(case: Case, count: Any) -> None:
    batches = list(mb.Log(case.path).batches())
    compare.same([compare.expected_head(batch) for batch in case.batches], [compare.head(batch) for batch in batches])
    for expected, batch in zip(case.batches, batches, strict=True):
        got = [compare.stored(record, batch.timestamp_type) for record in batch.records]
        compare.same(expected.records, got)
    end = batches[-1].position + batches[-1].size if batches else 0
    assert end == case.end["validBytes"]


def test_records(case: Case, count: Any) -> None:
    log = mb.Log(case.path)
    compare.same(case.records, [compare.consumed(record) for record in log.records(control=True)])
    compare.same(case.delivered, [compare.consumed(record) for record in log.records()])
    count("records", case.name)


def test_arrow(case: Case, count: Any) -> None:
    scan = mb.Log(case.path).scan(columns=compare.ARROW_COLUMNS)
    compare.same(case.delivered, compare.rows(scan.to_arrow()))
    assert scan.count() == len(case.delivered)
    count("arrow", case.name)


def test_views(case: Case) -> None:
    """Columns that point into the file hold the same."""
    scan = mb.Log(case.path).scan(columns=compare.ARROW_COLUMNS, views=True)
    compare.same(case.delivered, compare.rows(scan.to_arrow()))


def test_batch_columns(case: Case) -> None:
    """What Arrow says of a record's batch."""
    table = mb.Log(case.path).scan(columns=BATCH_COLUMNS).to_arrow()
    got = list(zip(*(table.column(name).to_pylist() for name in BATCH_COLUMNS), strict=True))
    expected = [
        (
            record.offset,
            head["partitionLeaderEpoch"],
            head["producerId"],
            head["producerEpoch"],
            head["baseOffset"],
            head["position"],
            head["magic"],
            head["compressionType"],
            head["isTransactional"],
            head["isControlBatch"],
            record.value is None,
        )
        for batch in case.batches
        if not (head := batch.head)["isControlBatch"]
        for record in batch.records
    ]
    compare.same(expected, got)


BATCH_COLUMNS = (
    "offset",
    "leaderEpoch",
    "producerId",
    "producerEpoch",
    "baseOffset",
    "batchPosition",
    "magic",
    "codec",
    "isTransactional",
    "isControl",
    "tombstone",
)


def test_bytes_in_memory(case: Case) -> None:
    """The same bytes without a path."""
    data = case.path.read_bytes()
    compare.same(case.delivered, [compare.consumed(record) for record in mb.decode(data)])
    compare.same(case.delivered, compare.rows(mb.decode_arrow(data, columns=compare.ARROW_COLUMNS)))


CONTROLS = [case for case in CASES if any(control for batch in case.batches for control in batch.controls)]


@pytest.mark.parametrize("case", CONTROLS, ids=[case.name for case in CONTROLS])
def test_control_records(case: Case) -> None:
    """Markers are decoded: which one, and of which coordinator."""
    expected = [
        (control["type"], control["typeId"], control["coordinatorEpoch"]) if control else None
        for batch in case.batches
        for control in batch.controls
    ]
    got = [
        (record.control.type, record.control.type_id, record.control.coordinator_epoch) if record.control else None
        for record in mb.Log(case.path).records(control=True)
    ]
    compare.same(expected, got)


TAILS = [case for case in CASES if case.end["validBytes"] != case.end.get("fileBytes", case.end["validBytes"])]


@pytest.mark.parametrize("case", TAILS, ids=[case.name for case in TAILS])
def test_preallocated_tail_is_reported_and_not_raised(case: Case) -> None:
    from magicbyte import _core

    reader = _core.Reader([_core.Part(str(case.path))])
    assert len(list(reader.records())) == len(case.delivered)
    [(path, position, kind, size, _)] = reader.findings
    end = case.end
    assert (path, position, kind, size) == (
        str(case.path),
        end["validBytes"],
        "zero_tail",
        end["fileBytes"] - end["validBytes"],
    )
