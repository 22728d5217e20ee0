"""`read_committed` from files: golden partitions against their own markers, and copies of them with something missing."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from magicbyte import _core

from golden.corpus import Case, logs

States = dict[int, str]
OUTCOMES = {"ABORT": "aborted", "COMMIT": "committed"}


def fates(cases: list[Case]) -> States:
    """What became of each data record of a partition, by what Kafka's library reads: a record's marker is the first one
    of its producer behind it."""
    found: States = {}
    open_records: dict[int, list[int]] = {}
    for case in cases:
        for batch in case.batches:
            producer = batch.head.get("producerId", -1)
            if batch.head.get("isControlBatch"):
                for control in batch.controls:
                    if control and control["type"] in OUTCOMES:
                        for offset in open_records.pop(producer, []):
                            found[offset] = OUTCOMES[control["type"]]
                continue
            for record in batch.records:
                transactional = batch.head.get("isTransactional", False)
                found[record.offset] = "unknown" if transactional else "none"
                if transactional:
                    open_records.setdefault(producer, []).append(record.offset)
    return found


def partitions() -> dict[str, list[Case]]:
    grouped: dict[str, list[Case]] = {}
    for case in logs(".log"):
        grouped.setdefault(case.name.rpartition("/")[0], []).append(case)
    return grouped


PARTITIONS = partitions()
EVERY = pytest.mark.parametrize("name", PARTITIONS)


def shown(log: mb.Log, **options: object) -> States:
    table = log.scan(["offset", "transactionState"], **options).to_arrow()
    return dict(zip(table["offset"].to_pylist(), table["transactionState"].to_pylist(), strict=True))


def stable(states: States) -> States:
    """Those before the first unknown one."""
    end = min((offset for offset, state in states.items() if state == "unknown"), default=None)
    return {offset: state for offset, state in states.items() if end is None or offset < end}


def committed(states: States) -> list[int]:
    return [offset for offset, state in states.items() if state in ("committed", "none")]


@EVERY
def test_states_are_those_of_the_markers(name: str) -> None:
    expected = fates(PARTITIONS[name])
    log = mb.Log(PARTITIONS[name][0].path.parent)
    assert shown(log) == expected
    reader = log.reader(isolation="read_committed")
    assert [record.offset for record in reader.records()] == committed(stable(expected))
    assert shown(log, isolation="read_committed") == {
        offset: state for offset, state in stable(expected).items() if state != "aborted"
    }
    assert log.scan(isolation="read_committed").count() == len(committed(stable(expected)))
    assert log.scan(isolation="read_committed", past_lso=True).count() == len(committed(expected))
    assert log.scan(["offset"], isolation="read_committed", views=True).count() == len(committed(stable(expected)))
    # Healthy indexes agree with healthy markers.
    assert [finding for finding in reader.findings if finding[2] == "txnindex"] == []


@EVERY
def test_a_segment_alone_asks_those_beside_it(name: str) -> None:
    expected = fates(PARTITIONS[name])
    for case in PARTITIONS[name]:
        own = {record.offset for record in case.delivered}
        assert shown(mb.Log(case.path)) == {offset: state for offset, state in expected.items() if offset in own}


@EVERY
def test_bytes_know_their_own_markers(name: str) -> None:
    for case in PARTITIONS[name]:
        expected = fates([case])
        data = case.path.read_bytes()
        assert [r.offset for r in mb.decode(data, isolation="read_committed")] == committed(stable(expected))
        past = mb.decode(data, isolation="read_committed", past_lso=True)
        assert [record.offset for record in past] == committed(expected)
        table = mb.decode_arrow(data, columns=["transactionState"])
        assert table["transactionState"].to_pylist() == list(expected.values())


SEGMENTED = "data/payments-0"


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
    target = tmp_path / "payments-0"
    shutil.copytree(PARTITIONS[SEGMENTED][0].path.parent, target)
    for file in target.iterdir():
        file.chmod(0o644)
    return target


@pytest.fixture
def expected() -> States:
    return fates(PARTITIONS[SEGMENTED])


def markers(path: Path) -> list[mb.RecordBatch]:
    return [batch for batch in mb.Log(path).batches() if batch.control]


def cut_last_marker(path: Path) -> tuple[mb.RecordBatch, list[int]]:
    """Ends the partition before its last marker; returns that, and the offsets of its transaction."""
    *_, before, last = markers(path)
    segment = Path(last.path)
    segment.write_bytes(segment.read_bytes()[: last.position])
    for later in path.glob("*.log"):
        if later.name > segment.name:
            later.unlink()
    for index in path.glob("*.txnindex"):
        index.unlink()
    return last, [
        batch.base_offset
        for batch in mb.Log(path).batches()
        if batch.transactional and before.base_offset < batch.base_offset < last.base_offset
    ]


def test_a_transaction_without_end_is_unknown(copy: Path) -> None:
    marker, batches = cut_last_marker(copy)
    log = mb.Log(copy)
    states = shown(log)
    unknown = [offset for offset, state in states.items() if state == "unknown"]
    assert unknown
    assert unknown[0] == batches[0]
    reader = log.reader(isolation="read_committed")
    assert [record.offset for record in reader.records()] == committed(stable(states))
    [(path, position, kind, size, message)] = reader.findings
    batch = next(batch for batch in log.batches() if batch.base_offset == unknown[0])
    assert (path, position, kind) == (batch.path, batch.position, "unknown_transaction")
    left = sum(offset >= unknown[0] for offset in states)
    assert f"last stable offset {unknown[0]}" in message
    assert f"producer {marker.producer_id}" in message
    assert f"{left} records are left behind" in message
    behind = [one for one in log.batches() if one.base_offset >= unknown[0] and not one.control]
    assert size == sum(one.size for one in behind)
    # Columns say the same.
    other = log.reader(isolation="read_committed")
    assert other.scan(["offset"]).to_arrow()["offset"].to_pylist() == committed(stable(states))
    assert other.findings == reader.findings
    assert log.scan(isolation="read_committed", past_lso=True).count() == len(committed(states))
    known = log.transactions("payments", 0)
    assert (known.last_stable_offset, known.left_behind) == (unknown[0], left)
    assert known.state(marker.producer_id, unknown[0]) == "unknown"
    # Nothing is said where nothing was wanted from there on; and all is, where only that was.
    before = log.reader(offsets=(0, unknown[0]), isolation="read_committed")
    assert (len(list(before.records())), before.findings) == (len(committed(stable(states))), [])
    after = log.reader(offsets=(unknown[0] + 1, None), isolation="read_committed")
    assert (list(after.records()), len(after.findings)) == ([], 1)


def test_an_index_tells_what_the_data_lost(copy: Path, expected: States) -> None:
    aborted = [offset for offset, state in expected.items() if state == "aborted"]
    last = next(batch for batch in markers(copy) if batch.base_offset > aborted[-1])
    segment = Path(last.path)
    data = bytearray(segment.read_bytes())
    data[last.position + last.size - 1] ^= 1
    segment.write_bytes(data)
    log = mb.Log(copy, mode="DROPMALFORMED")
    assert shown(log) == expected
    reader = log.reader(isolation="read_committed")
    assert [record.offset for record in reader.records()] == committed(expected)
    assert {finding[2] for finding in reader.findings} == {"crc"}
    # Without it, nobody knows.
    segment.with_suffix(".txnindex").unlink()
    states = shown(mb.Log(copy, mode="DROPMALFORMED"))
    changed = {offset: state for offset, state in states.items() if state != expected[offset]}
    assert set(changed) <= set(aborted)
    assert set(changed.values()) == {"unknown"}
    reader = mb.Log(copy, mode="DROPMALFORMED").reader(isolation="read_committed")
    assert [record.offset for record in reader.records()] == committed(stable(states))
    [finding] = [finding for finding in reader.findings if finding[2] != "crc"]
    assert finding[2] == "unknown_transaction"
    assert "lies in damaged bytes" in finding[4]


@pytest.mark.parametrize("damage", ["emptied", "other", "torn", "version"])
def test_markers_win_over_an_index(copy: Path, expected: States, damage: str) -> None:
    index = next(path for path in sorted(copy.glob("*.txnindex")) if path.stat().st_size)
    data = bytearray(index.read_bytes())
    if damage == "emptied":
        data.clear()
    elif damage == "other":
        data[9] ^= 1
    elif damage == "torn":
        del data[-1]
    else:
        data[1] = 9
    index.write_bytes(data)
    log = mb.Log(copy)
    assert shown(log) == expected
    reader = log.reader(isolation="read_committed")
    assert [record.offset for record in reader.records()] == committed(expected)
    [(path, _, kind, _, message)] = reader.findings
    assert (path, kind) == (str(index), "txnindex")
    assert "the markers were believed" in message


def test_parts_travel_with_what_is_known(copy: Path, expected: States) -> None:
    parts = mb.Log(copy).split(4096)
    assert len(parts) > 6
    fresh = pickle.loads(pickle.dumps(parts))
    got = [r.offset for part in fresh for r in _core.Reader([part], isolation="read_committed").records()]
    assert got == committed(expected)
    known = parts[0].transactions
    assert known is not None
    assert known.last_stable_offset is None
    # What one has found out, the others are given.
    small = _core.Transactions.from_bytes(known.to_bytes(300, 400))
    assert len(small.to_bytes()) <= len(known.to_bytes())
    assert {small.state(1, 350)} | {known.state(1, 350)} <= {"committed", "aborted", "unknown"}
    with pytest.raises(ValueError, match="this version"):
        _core.Transactions.from_bytes(b"\x09")
    copied = pickle.loads(pickle.dumps(known))
    assert copied.to_bytes(0, 10) == known.to_bytes(0, 10)


def test_paths_without_a_log_know_each_other(copy: Path, expected: States) -> None:
    parts = [_core.Part(str(path), "payments", 0) for path in sorted(copy.glob("*.log"))]
    reader = _core.Reader(parts, isolation="read_committed")
    assert [record.offset for record in reader.records()] == committed(expected)


def test_a_partition_ends_by_itself(copy: Path, tmp_path: Path, expected: States) -> None:
    """The next partition is read, whatever the one before ended in."""
    shutil.copytree(copy, tmp_path / "payments-1")
    cut_last_marker(copy)
    states = shown(mb.Log(copy))
    table = mb.Log(tmp_path).scan(["partition"], isolation="read_committed").to_arrow()
    counts = [table["partition"].to_pylist().count(partition) for partition in (0, 1)]
    assert counts == [len(committed(stable(states))), len(committed(expected))]


def test_control_records_come_if_asked_for(copy: Path, expected: States) -> None:
    records = list(mb.Log(copy).records(isolation="read_committed", control=True))
    assert [r.offset for r in records if not r.control] == committed(expected)
    assert [r.offset for r in records if r.control] == [batch.base_offset for batch in markers(copy)]
    states = shown(mb.Log(copy), control=True)
    assert {states[batch.base_offset] for batch in markers(copy)} == {"none"}


def test_a_segment_that_is_gone_is_said(copy: Path) -> None:
    log = mb.Log(copy)
    gone = log.segments[-1].path
    Path(gone).unlink()
    with pytest.raises(FileNotFoundError) as error:
        list(log.records(isolation="read_committed", offsets=(0, 10)))
    assert error.value.filename == gone


def test_isolation_is_named_right(copy: Path) -> None:
    with pytest.raises(ValueError, match="unknown isolation"):
        mb.Log(copy).records(isolation="committed")


def test_a_marker_that_says_nothing(tmp_path: Path) -> None:
    """Kafka's consumer stops at a control record whose key is too short; no later marker may speak for what it ended."""

    def data(offset: int) -> bytes:
        records = [mb.ProducerRecord("t", b"v")]
        return mb.encode(
            records, base_offset=offset, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )

    def marker(offset: int, key: bytes) -> bytes:
        fields: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0, "transactional": True, "control": True}
        return mb.encode_batch(
            mb.RecordBatch(base_offset=offset, records=[mb.Record(offset, key=key, value=bytes(6))], **fields)
        )

    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(data(0) + marker(1, b"\0\0\0") + data(2) + marker(3, b"\0\0\0\1"))
    states = mb.Log(path).scan(["transactionState"]).to_arrow()
    assert states.column(0).to_pylist() == ["unknown", "committed"]
    reader = mb.Log(path).reader(isolation="read_committed")
    assert list(reader.records()) == []
    [(_, _, kind, _, message)] = reader.findings
    assert kind == "unknown_transaction" and "damaged" in message
