"""Arrow columns: the same records in every way, for every reader of the PyCapsule interface."""

from __future__ import annotations

import struct
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import polars
import pyarrow
import pytest

import magicbyte as mb

LOGS = Path(__file__).parents[1] / "data" / "kafka-logs"
HEADERS = LOGS / "headers-0"
ORDERS = LOGS / "orders-0"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows(log: mb.Log) -> list[tuple]:
    return [
        (
            r.key,
            r.value,
            r.topic,
            r.partition,
            r.offset,
            None if r.timestamp == -1 else EPOCH + timedelta(milliseconds=r.timestamp),
            r.timestamp_type,
            [{"key": h.key, "value": h.value} for h in r.headers],
        )
        for r in log.records()
    ]


@pytest.mark.parametrize("views", [False, True])
@pytest.mark.parametrize("name", sorted(path.name for path in LOGS.iterdir() if path.is_dir()))
def test_columns_are_the_records(name: str, views: bool) -> None:
    log = mb.Log(LOGS / name)
    table = log.scan(views=views).to_arrow()
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == rows(log)
    table.validate(full=True)


def test_views_are_views_and_copies_are_not() -> None:
    assert mb.Log(HEADERS).scan(views=True).schema.field("value").type == pyarrow.binary_view()
    assert mb.Log(HEADERS).scan().schema.field("value").type == pyarrow.binary()


def test_every_column_can_be_asked_for_alone() -> None:
    log = mb.Log(LOGS / "payments-0")
    count = log.scan().count()
    built = list(mb.COLUMNS)
    whole = log.scan(columns=built).to_arrow()
    assert whole.column_names == built
    for name in built:
        alone = log.scan(columns=[name]).to_arrow()
        assert alone.num_rows == count
        assert alone.column(0).equals(whole.column(name)), name


def test_names_are_checked() -> None:
    with pytest.raises(ValueError, match='unknown column "vlaue"; known are key, value'):
        mb.Log(HEADERS).scan(columns=["vlaue"])


def test_producer_columns_hold_what_records_hold() -> None:
    log = mb.Log(LOGS / "payments-0")
    names = ["producerId", "producerEpoch", "sequence", "isTransactional", "tombstone", "leaderEpoch", "timestampMs"]
    table = log.scan(columns=names).to_arrow()
    want = [
        (r.producer_id, r.producer_epoch, r.sequence, r.transactional, r.tombstone, r.leader_epoch, r.timestamp)
        for r in log.records()
    ]
    assert any(row[3] for row in want), "the log has transactions"
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == want


def test_ranges_of_offsets_and_times() -> None:
    log = mb.Log(ORDERS)
    everything = list(log.records())
    offsets = log.scan(columns=["offset"], offsets=(17, 40)).to_arrow().column(0).to_pylist()
    assert offsets == [r.offset for r in everything if 17 <= r.offset < 40]
    middle = everything[len(everything) // 2].timestamp
    times = log.scan(columns=["timestampMs"], timestamps=(middle, middle + 5)).to_arrow().column(0).to_pylist()
    assert times == [r.timestamp for r in everything if middle <= r.timestamp < middle + 5]
    assert log.scan(offsets=(10**9, None)).count() == 0


def test_record_batches_are_bounded() -> None:
    sizes = [batch.num_rows for batch in mb.Log(ORDERS).scan(batch_rows=50)]
    assert len(sizes) > 2
    # One Kafka batch is never divided, so a record batch may be larger by less than one of them.
    assert max(sizes) < 50 + max(len(b.records) for b in mb.Log(ORDERS).batches())


def test_a_scan_can_be_read_again_and_by_polars_and_duckdb() -> None:
    log = mb.Log(HEADERS)
    scan = log.scan()
    want = scan.to_arrow()
    assert pyarrow.table(scan).equals(want)
    frame = polars.DataFrame(log.scan(views=True))
    assert frame["offset"].to_list() == want["offset"].to_pylist()
    assert frame["value"].to_list() == want["value"].to_pylist()
    # DuckDB finds the scan itself, by its name.
    [found] = duckdb.sql("select count(*), sum(len(headers)) from scan").fetchall()
    assert found == (want.num_rows, sum(len(h) for h in want["headers"].to_pylist()))


def test_arrays_outlive_everything_they_came_from() -> None:
    """Buffers go back to the pool when Arrow lets go, and not before."""
    log = mb.Log(ORDERS)
    kept = log.scan(columns=["value"]).to_arrow()
    before = kept.column(0).to_pylist()
    for _ in range(5):
        log.scan(columns=["value"]).to_arrow()
    assert kept.column(0).to_pylist() == before


def broken_at(directory: Path, index: int) -> tuple[bytes, mb.RecordBatch]:
    [segment] = mb.Log(directory).segments
    data = bytearray(Path(segment.path).read_bytes())
    batch = list(mb.Log(directory).batches())[index]
    data[batch.position + batch.size - 1] ^= 1
    return bytes(data), batch


def test_modes() -> None:
    data, bad = broken_at(ORDERS, 3)
    everything = [r.offset for r in mb.Log(ORDERS).records()]
    outside = [offset for offset in everything if not bad.base_offset <= offset <= bad.last_offset]
    with pytest.raises(mb.CorruptRecordError) as caught:
        mb.decode_arrow(data)
    assert (caught.value.kind, caught.value.position, caught.value.path) == ("crc", bad.position, None)

    dropped = mb.decode_arrow(data, mode="DROPMALFORMED", columns=["offset"])
    assert dropped.column(0).to_pylist() == outside

    columns = ["offset", "batchPosition", "value", "headers", "timestamp", "_corrupt_record"]
    told = mb.decode_arrow(data, mode="PERMISSIVE", columns=columns).to_pylist()
    [row] = [row for row in told if row["_corrupt_record"] is not None]
    assert row["_corrupt_record"].startswith(f"crc: {bad.size} bytes at {bad.position}: wrong checksum")
    assert row["batchPosition"] == bad.position
    assert row["offset"] is None and row["value"] is None and row["headers"] is None and row["timestamp"] is None
    assert [row["offset"] for row in told if row["_corrupt_record"] is None] == outside


def test_what_came_before_damage_is_handed_out_first() -> None:
    data, bad = broken_at(ORDERS, 3)
    seen: list[int] = []
    log = mb.Log(data)
    with pytest.raises(mb.CorruptRecordError, match="wrong checksum"):  # noqa: PT012
        for batch in log.scan(columns=["offset"], batch_rows=10):
            seen += batch.column(0).to_pylist()
    assert seen == [r.offset for r in mb.Log(ORDERS).records() if r.offset < bad.base_offset]
    with pytest.raises(pyarrow.ArrowException, match="wrong checksum"):
        pyarrow.RecordBatchReader.from_stream(log.scan()).read_all()


def test_limits_bound_what_is_believed() -> None:
    [segment] = mb.Log(ORDERS).segments
    data = Path(segment.path).read_bytes()
    with pytest.raises(mb.CorruptRecordError) as caught:
        mb.decode_arrow(data, limits=mb.Limits(batch=100))
    assert caught.value.kind == "limit"
    largest = max(len(r.value or b"") for r in mb.decode(data))
    with pytest.raises(mb.CorruptRecordError, match="limit for record"):
        list(mb.decode(data, limits=mb.Limits(record=largest)))


def test_an_empty_input_is_an_empty_table() -> None:
    assert mb.decode_arrow(b"").num_rows == 0
    assert list(mb.decode(b"")) == []


def test_what_changes_under_the_reader_is_copied() -> None:
    [segment] = mb.Log(ORDERS).segments
    data = bytearray(Path(segment.path).read_bytes())
    records = mb.decode(data)
    first = next(records)
    data[:] = bytes(len(data))
    assert len([first, *records]) == mb.Log(ORDERS).scan().count()


def test_many_threads_read_one_log_and_one_iterator() -> None:
    log = mb.Log(ORDERS)
    want = [r.offset for r in log.records()]
    shared = log.records()
    found: list[int] = []
    tables: list[int] = []

    def work() -> None:
        found.extend(r.offset for r in shared)
        tables.append(log.scan().to_arrow().num_rows)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(want)
    assert tables == [len(want)] * 8


def test_a_file_that_shrinks_while_it_is_read_ends_cleanly(tmp_path: Path) -> None:
    [segment] = mb.Log(ORDERS).segments
    data = Path(segment.path).read_bytes()
    path = tmp_path / "00000000000000000000.log"
    # Larger than a block, so that reading really goes on after the cut.
    big = bytearray()
    while len(big) < 3 << 20:
        big += data
    path.write_bytes(big)
    records = mb.Log(path).records()
    next(records)
    with path.open("r+b") as file:
        file.truncate(2 << 20)
    count = 1 + sum(1 for _ in records)
    whole = sum(1 for _ in mb.decode(bytes(big[: 2 << 20])))
    assert count == whole


def test_v2_batches_of_a_false_length_take_no_memory() -> None:
    """A header that claims 200 MB where a kilobyte is: the end of the log, at no cost."""
    header = struct.pack(">qiibIhiqqqhii", 0, 200 << 20, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)
    reader = mb.Log(header + bytes(1000)).reader()
    assert list(reader.records()) == []
    [(_, position, kind, size, _)] = reader.findings
    assert (position, kind, size) == (0, "torn_tail", len(header) + 1000)
