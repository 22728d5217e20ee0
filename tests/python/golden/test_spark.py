"""The whole corpus through Spark: one read of all undamaged files, one of the damaged ones, compared file by file."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from golden import compare, damage
from golden.corpus import Damaged, Record, damaged, whole

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
MORE_COLUMNS = [*COLUMNS, "timestampMs", "sequence", "batchPosition"]


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


def test_every_damaged_file(source: Any, tmp_path: Path, count: Any) -> None:
    files = directory(tmp_path, fewest(damaged()))
    frame = (
        source.read.format("magicbyte")
        .option("columns", ",".join(MORE_COLUMNS))
        .option("mode", "DROPMALFORMED")
        .load(str(tmp_path))
    )
    got = by_partition(frame.toArrow())
    wrong = {}
    for partition, [case] in files.items():
        assert isinstance(case, Damaged)
        table = got.pop(partition, None)
        rows = [] if table is None else zip(table.column("batchPosition").to_pylist(), compare.rows(table), strict=True)
        try:
            damage.compare_columns(case, rows)
        except AssertionError as error:
            wrong[case.name] = str(error)
        else:
            count("spark", case.name)
    assert not got
    assert not wrong, "\n".join(f"{name}: {difference}" for name, difference in wrong.items())
