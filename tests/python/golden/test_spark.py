"""The whole corpus through Spark: one read of all undamaged files, one of the damaged ones, compared file by file."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb

from golden import compare, damage
from golden.corpus import Damaged, Record, damaged, whole

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
MORE_COLUMNS = [*COLUMNS, "timestampMs", "sequence", "batchPosition"]
#: What a row of damage says: kind, bytes, position, words.
TOLD = re.compile(r"(\w+): (\d+) bytes at (\d+): (.+)", re.DOTALL)


def directory(tmp_path: Path, cases: list[Any]) -> dict[tuple[str, int], list[Any]]:
    """A log directory of links, one partition a source directory: so that segments that belong together stay together."""
    partitions: dict[Any, tuple[str, int]] = {}
    files: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for case in cases:
        segment = case.path.suffix == ".log"
        source = case.path.parent if segment else case.path
        partition = partitions.setdefault(source, (f"t{len(partitions):04}", len(partitions) % 7))
        target = tmp_path / f"{partition[0]}-{partition[1]}"
        target.mkdir(exist_ok=True)
        name = case.path.name if segment else f"{0:020}.log"
        (target / name).symlink_to(case.path.resolve())
        files[partition].append(case)
    return files


def fewest(cases: list[Any]) -> list[Any]:
    """Spark needs a task a file, so the selection that ships is read only where the corpus, which holds it too, is absent."""
    return [case for case in cases if case.name.startswith("golden/")] or cases


@pytest.fixture(scope="module")
def source(spark: Any) -> Any:
    from magicbyte.spark import DataSource

    spark.dataSource.register(DataSource)
    return spark


def by_partition(table: Any) -> dict[tuple[str, int], Any]:
    """The rows of each partition, in the order in which they came."""
    import pyarrow.compute as pc

    table = table.combine_chunks()
    keys = zip(table.column("topic").to_pylist(), table.column("partition").to_pylist(), strict=True)
    places: dict[tuple[str, int], list[int]] = defaultdict(list)
    for index, key in enumerate(keys):
        places[key].append(index)
    return {key: pc.take(table, indices) for key, indices in places.items()}


def test_every_undamaged_file(source: Any, tmp_path: Path, count: Any) -> None:
    files = directory(tmp_path, fewest(whole()))
    frame = source.read.format("magicbyte").option("columns", ",".join(MORE_COLUMNS)).load(str(tmp_path))
    assert frame.columns == MORE_COLUMNS
    got = by_partition(frame.toArrow())
    wrong = {}
    for partition, cases in files.items():
        expected = [record for case in cases for record in case.delivered]
        table = got.pop(partition, None)
        rows = [] if table is None else compare.rows(table)
        difference = compare.first_difference(expected, rows)
        if difference is None and table is not None:
            difference = unlike_kafka_source(expected, table)
        if difference is not None:
            wrong[cases[0].name] = difference
        else:
            for case in cases:
                count("spark", case.name)
    assert not got, "partitions that are not there"
    assert not wrong, "\n".join(f"{name}: {difference}" for name, difference in wrong.items())


def unlike_kafka_source(expected: list[Record], table: Any) -> str | None:
    """Spark's own Kafka source has warts, and they are kept: no headers are NULL, no timestamp is one millisecond before 1970."""
    timestamps = table.column("timestamp").cast("int64").to_pylist()
    headers = [None if listed is None else len(listed) for listed in table.column("headers").to_pylist()]
    return compare.first_difference(
        [(wrapped(record.timestamp * 1000), len(record.headers) or None) for record in expected],
        zip(timestamps, headers, strict=True),
    )


def wrapped(value: int) -> int:
    """Into 64 bits, as Java multiplies."""
    return (value + 2**63) % 2**64 - 2**63


def compare_told(case: Damaged, rows: list[dict[str, Any]]) -> None:
    """The rows of damage: text, place and size are right, `verify` names the same, and the first is where Kafka's reading ends."""
    data = case.path.read_bytes()
    named = {(defect.position, defect.kind) for defect in mb.Log(case.path).verify().defects}
    sound, begins = damage.sound(case), []
    for row in rows:
        told = TOLD.fullmatch(row["_corrupt_record"])
        assert told, row["_corrupt_record"]
        kind, size, position = told[1], int(told[2]), int(told[3])
        assert row["batchPosition"] == position
        assert 0 < size <= len(data) - position, told[0]
        assert (position, kind) in named, f"{told[0]}; verify: {sorted(named)}"
        assert not any(position <= at < position + size for at in sound), f"{told[0]}, but Kafka reads a batch there"
        others = set(row) - {"topic", "partition", "batchPosition", "_corrupt_record"}
        assert all(row[column] is None for column in others), row
        begins.append(position)
    assert begins == sorted(set(begins))
    kafka = damage.file_outcome(case.memory).error
    if not begins:
        assert kafka is None or damage.PASSES in damage.allowances(case.name), f"Kafka: an error at {kafka}"
    elif kafka is None:  # a false length, at which Kafka waits for more bytes
        assert begins[0] == case.memory["consumed"]
    else:
        assert begins[0] == kafka


def test_every_damaged_file(source: Any, tmp_path: Path, count: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """In PERMISSIVE mode: the records outside the damage, and a row for each damage."""
    files = directory(tmp_path, fewest(damaged()))
    frame = (
        source.read.format("magicbyte")
        .option("columns", ",".join([*MORE_COLUMNS, "_corrupt_record"]))
        .option("mode", "PERMISSIVE")
        .load(str(tmp_path))
    )
    got = by_partition(frame.toArrow())
    wrong, records, told = {}, 0, 0
    for partition, [case] in files.items():
        assert isinstance(case, Damaged)
        table = got.pop(partition, None)
        rows, broken = [], []
        if table is not None:
            is_record = table.column("_corrupt_record").is_null()
            kept = table.filter(is_record).drop_columns(["_corrupt_record"])
            rows = list(zip(kept.column("batchPosition").to_pylist(), compare.rows(kept), strict=True))
            broken = table.filter(table.column("_corrupt_record").is_valid()).to_pylist()
        records, told = records + len(rows), told + len(broken)
        try:
            damage.compare_columns(case, rows)
            compare_told(case, broken)
        except AssertionError as error:
            wrong[case.name] = str(error)
        else:
            count("spark", case.name)
    assert not got
    assert not wrong, "\n".join(f"{name}: {difference}" for name, difference in wrong.items())
    assert told > len(files) // 2
    with capsys.disabled():
        print(f"\ngolden/damaged in Spark: {len(files)} files, {records} records, {told} rows of damage")
