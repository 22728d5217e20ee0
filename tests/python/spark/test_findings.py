"""Nothing is passed over in silence: damage and the last stable offset, in the data source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from cli import segments
from cli.segments import batch
from magicbyte.spark import findings

from lineage import TRUTH, forks, write

FIRST = "00000000000000000000.log"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A sound batch, one with a wrong checksum, stray bytes, a sound batch, a torn tail."""
    path = tmp_path / "orders-3"
    path.mkdir()
    bad = bytearray(batch([(b"c", b"3")], base=2))
    bad[-2] ^= 1
    sound = batch([(b"a", b"1"), (b"b", b"2")])
    (path / FIRST).write_bytes(sound + bad + b"\xff" * 21 + batch([(b"d", b"4")], base=3) + sound[:30])
    return path


@pytest.fixture
def open_transaction(tmp_path: Path) -> Path:
    """A committed transaction, then one without an end, then records outside of any."""
    path = tmp_path / "pay-1"
    path.mkdir()
    (path / FIRST).write_bytes(segments.open_transaction())
    return path


def read(spark: Any, path: Path, **options: Any) -> Any:
    return spark.read.format("magicbyte").options(**options).load(str(path))


def test_failfast_names_path_and_position(spark: Any, damaged: Path) -> None:
    with pytest.raises(Exception, match=rf"(?s){damaged / FIRST}: at byte \d+: .*checksum"):
        read(spark, damaged).collect()


def test_permissive_has_a_row_for_each_damage(spark: Any, damaged: Path) -> None:
    rows = read(spark, damaged, mode="PERMISSIVE").collect()
    assert [row.key for row in rows if row._corrupt_record is None] == [b"a", b"b", b"d"]
    told = [row._corrupt_record for row in rows if row._corrupt_record is not None]
    assert told[0].startswith("crc: 91 bytes at 79: wrong checksum")


def test_findings_as_rows(spark: Any, damaged: Path, open_transaction: Path) -> None:
    kinds = [(row.topic, row.partition, row.kind) for row in read(spark, damaged, findings="true").collect()]
    assert kinds[0] == ("orders", 3, "crc")
    assert kinds[-1] == ("orders", 3, "torn_tail")
    committed = read(spark, open_transaction, isolation="read_committed")
    assert [row.key for row in committed.collect()] == [b"a"]
    [row] = read(spark, open_transaction, isolation="read_committed", findings="true").collect()
    assert (row.kind, row.path) == ("unknown_transaction", str(open_transaction / FIRST))
    assert "5 records are left behind" in row.message
    assert row.size == len((open_transaction / FIRST).read_bytes()) - row.position
    past = read(spark, open_transaction, isolation="read_committed", pastLso="true")
    assert [row.key for row in past.collect()] == [b"a", b"c", b"c", b"c"]


def test_the_tasks_log_has_them(damaged: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = mb.Log(damaged, mode="DROPMALFORMED")
    reader = log.reader()
    list(reader.records())
    [stretch] = log.stretches()
    findings.tell([stretch], reader.findings)
    said = [record.getMessage() for record in caplog.records]
    assert all("orders-3" in line and "at byte" in line for line in said)
    assert any("crc" in line for line in said) and not any("torn_tail" in line for line in said)
    caplog.clear()
    findings.tell([stretch], [("x", at, "crc", 1, "") for at in range(50)])
    assert len(caplog.records) == findings.MOST + 1


def test_copies(spark: Any, tmp_path: Path) -> None:
    copies = forks(tmp_path)
    paths = [str(path) for path in copies]
    rows = spark.read.format("magicbyte").load(paths).orderBy("offset").collect()
    assert [row.value.decode() for row in rows] == TRUTH
    longest = spark.read.format("magicbyte").option("replicas", "longest").load(paths)
    assert longest.count() == 15
    (copies[0] / "leader-epoch-checkpoint").unlink()
    with pytest.raises(Exception, match="orders-0 is there 3 times"):
        spark.read.format("magicbyte").load(paths).collect()


def test_segments_that_overlap(spark: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "orders-0", (0, 0, "a", 10), (1, 10, "fork", 5))
    later = write(tmp_path / "other" / "orders-0", (0, 5, "a", 5), (2, 10, "b", 7))
    for file in later.glob("*5.*"):
        (path / file.name).write_bytes(file.read_bytes())
    (path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 10\n")
    truth = [*(f"a{at}" for at in range(10)), *(f"b{at}" for at in range(10, 17))]
    for given in (str(path), f"{path}/*.log"):  # as a directory, and file by file
        rows = spark.read.format("magicbyte").load(given).orderBy("offset").collect()
        assert [row.value.decode() for row in rows] == truth
    (path / "leader-epoch-checkpoint").unlink()
    for given in (str(path), f"{path}/*.log"):
        with pytest.raises(Exception, match="both hold offset 5"):
            spark.read.format("magicbyte").load(given).collect()
        first = spark.read.format("magicbyte").option("replicas", "first").load(given)
        assert [row.value.decode()[:4] for row in first.orderBy("offset").collect()][10:] == ["fork"] * 5 + [
            "b15",
            "b16",
        ]
