"""The strict pass as a Spark job says what the one in this process says."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb

from golden.corpus import damaged
from places import DATA


def same(one: mb.Report, other: mb.Report) -> None:
    def key(defect: mb.Defect) -> tuple[Any, ...]:
        return (defect.path, defect.position, defect.kind, defect.severity, defect.message)

    assert sorted(map(key, one.defects)) == sorted(map(key, other.defects))
    assert (one.batches, one.records, dict(one.counts), one.ok) == (
        other.batches,
        other.records,
        dict(other.counts),
        other.ok,
    )


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Partitions whose faults only show over segments: overlaps, sequences, epochs, transactions, snapshots, a gap."""
    shutil.copytree(DATA / "kafka-logs", tmp_path / "logs", ignore=shutil.ignore_patterns("*.jsonl*"))

    def batch(base: int, count: int = 3, **fields: Any) -> bytes:
        records = [mb.ProducerRecord("", b"v", f"k{base + at}".encode()) for at in range(count)]
        return mb.encode(records, base_offset=base, **fields)

    made = {
        "overlap-0": [batch(0, 5), batch(3, 5)],
        "sequence-0": [
            batch(0, producer_id=7, producer_epoch=0, base_sequence=0),
            batch(3, producer_id=7, producer_epoch=0, base_sequence=5),
        ],
        "epochs-0": [batch(0, leader_epoch=4), batch(3, leader_epoch=2)],
        "gap-0": [batch(0) + batch(0 + 3), batch(9)],
        "twice-0": [batch(0), batch(3)[:-1] + b"\1", batch(6) + b"\xff" * 30 + batch(9), batch(12)[:-5]],
    }
    for name, segments in made.items():
        (tmp_path / "logs" / name).mkdir()
        for data in segments:
            first = int.from_bytes(data[:8])
            (tmp_path / "logs" / name / f"{first:020}.log").write_bytes(data)
    (tmp_path / "logs" / "overlap-0" / "00000000000000000003.snapshot").write_bytes(b"no snapshot")
    (tmp_path / "logs" / "epochs-0" / "leader-epoch-checkpoint").write_text("0\n2\n4 0\n9 50\n")
    return tmp_path / "logs"


def test_the_same_report(spark: Any, many: Path) -> None:
    from magicbyte import spark as on_spark

    log = mb.Log(many)
    here = log.verify()
    kinds = {kind for kind, severity in here.counts if severity == "error"}
    assert kinds >= {"overlap", "sequence", "epoch", "crc", "hole", "index", "gap"}
    same(on_spark.verify(spark, many), here)


def test_damaged_files(spark: Any, tmp_path: Path) -> None:
    """Many single files as partitions of one log."""
    from magicbyte import spark as on_spark

    cases = [case for case in damaged() if case.name.startswith("data/")][::3]
    for number, case in enumerate(cases):
        directory = tmp_path / f"damaged-{number}"
        directory.mkdir()
        shutil.copy(case.path, directory / "00000000000000000000.log")
    same(on_spark.verify(spark, tmp_path), mb.Log(tmp_path).verify())


def test_a_relative_path_is_shown_as_given(spark: Any, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from magicbyte import spark as on_spark

    monkeypatch.chdir(many.parent)
    report = on_spark.verify(spark, "logs/twice-0")
    assert {os.path.dirname(defect.path) for defect in report.defects} == {"logs/twice-0"}
    same(report, mb.Log("logs/twice-0").verify())


def test_command_line(many: Path) -> None:
    # A process of its own: the session of these tests must not end with it.
    command = [
        sys.executable,
        "-m",
        "magicbyte",
        "verify",
        "--json",
        "--spark-master",
        "local[1]",
        str(many / "twice-0"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert {defect["kind"] for defect in document["defects"]} >= {"crc", "hole", "torn_tail"}
    assert document["records"] == 9
