"""Logs land in Parquet, each record once, however often it runs and wherever it was killed."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from magicbyte import landing as module

from partitions import T, batch
from places import DATA

dataset = pytest.importorskip("pyarrow.dataset", reason="pyarrow is not installed")
DAY = 86_400_000
Row = tuple[Any, ...]


def landed(target: Path) -> list[Row]:
    """What any reader of a Hive-style directory finds."""
    found = dataset.dataset(target, format="parquet", partitioning="hive", exclude_invalid_files=False)
    rows = found.to_table().to_pylist()
    headers = [None if r["headers"] is None else [(h["key"], h["value"]) for h in r["headers"]] for r in rows]
    return sorted(
        (str(r["topic"]), r["partition"], r["offset"], r["key"], r["value"], str(r["timestamp"]), h)
        for r, h in zip(rows, headers, strict=True)
    )


def stored(log: mb.Log, isolation: str = "read_uncommitted") -> list[Row]:
    import pyarrow as pa

    rows = pa.RecordBatchReader.from_stream(log.scan(isolation=isolation)).read_all().to_pylist()
    headers = [None if r["headers"] is None else [(h["key"], h["value"]) for h in r["headers"]] for r in rows]
    return sorted(
        (r["topic"], r["partition"], r["offset"], r["key"], r["value"], str(r["timestamp"]), h)
        for r, h in zip(rows, headers, strict=True)
    )


def directory(root: Path, *segments: bytes, name: str = "t-0") -> Path:
    made = root / name
    made.mkdir(parents=True, exist_ok=True)
    for data in segments:
        base = next(iter(mb.Log(data).batches())).base_offset
        (made / f"{base:020d}.log").write_bytes(data)
    return made


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_log_directory_lands_whole(tmp_path: Path, isolation: Any) -> None:
    log = mb.Log(DATA / "kafka-logs")
    done = mb.land(log, tmp_path, mb.Landing(isolation=isolation, target_bytes=20_000))
    assert landed(tmp_path) == stored(log, isolation)
    assert done.records == len(stored(log, isolation))
    assert sorted(done.files) == sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    again = mb.land(log, tmp_path, mb.Landing(isolation=isolation))
    assert (again.records, again.files, again.offsets) == (0, [], done.offsets)


def test_days_have_directories_of_their_own(tmp_path: Path) -> None:
    data = b"".join(batch(n, (b"k", b"%d" % n), at=T + DAY * (n % 40)) for n in range(120))
    mb.land(directory(tmp_path / "in", data), tmp_path / "out")
    days = {path.name for path in (tmp_path / "out" / "topic=t").iterdir()}
    assert days == {f"date={datetime.fromtimestamp((T + DAY * n) / 1000, UTC).date()}" for n in range(40)}
    assert landed(tmp_path / "out") == stored(mb.Log(tmp_path / "in"))
    for path in (tmp_path / "out").rglob("*.parquet"):
        times = {
            str(value)[:10] for value in dataset.dataset(path).to_table(columns=["timestamp"])["timestamp"].to_pylist()
        }
        assert times == {path.parent.name.removeprefix("date=")}


def test_a_log_that_grows_lands_what_is_new(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    first, second, third = (batch(3 * n, *((b"k", b"%d" % (3 * n + m)) for m in range(3))) for n in range(3))
    segment = directory(source, first) / f"{0:020d}.log"
    assert mb.land(source, out).records == 3
    # Half a batch is none yet.
    segment.write_bytes(first + second[:-5])
    assert mb.land(source, out).records == 0
    segment.write_bytes(first + second)
    directory(source, third)
    done = mb.land(source, out)
    assert (done.records, done.offsets) == (6, {("t", 0): 9})
    assert [row[2] for row in landed(out)] == list(range(9))


def test_what_was_deleted_before_it_landed_is_told(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    made = directory(source, batch(0, (b"k", b"0")), batch(1, (b"k", b"1")), batch(2, (b"k", b"2")))
    for name in (1, 2):
        shutil.move(made / f"{name:020d}.log", tmp_path)
    mb.land(source, out)
    (made / f"{0:020d}.log").unlink()
    shutil.move(tmp_path / f"{2:020d}.log", made)
    with pytest.raises(ValueError, match="landed up to offset 1, and the log begins at 2"):
        mb.land(source, out)
    assert mb.land(source, out, mb.Landing(fail_on_data_loss=False)).records == 1


@pytest.mark.parametrize("renames", [0, 1, 2, 5])
def test_a_run_that_is_killed_in_its_commit_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    data = b"".join(batch(n, (b"k", b"%d" % n), at=T + DAY * n) for n in range(5))
    source, out = directory(tmp_path / "in", data), tmp_path / "out"
    real, left = module.os.rename, renames

    def rename(one: Any, other: Any) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        real(one, other)

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "rename", rename)
        patch.setattr(module.shutil, "rmtree", lambda *_args, **_options: None)
        if renames < 5:
            with pytest.raises(KeyboardInterrupt):
                mb.land(source, out)
        else:
            mb.land(source, out)
    # The dead process cleaned nothing up; the next one lands nothing twice.
    assert mb.land(source, out).records == 0
    assert [row[2] for row in landed(out)] == list(range(5))
    assert not list((out / "_magicbyte" / "tmp").glob("*/*")) or not (out / "_magicbyte" / "tmp").exists()


def test_a_run_that_fails_lands_nothing(tmp_path: Path) -> None:
    bad = bytearray(batch(0, (b"k", b"1")) + batch(1, (b"k", b"2" * 300)) + batch(2, (b"k", b"3")))
    bad[200] ^= 1
    source = directory(tmp_path / "in", batch(0, (b"k", b"1")))
    (source / f"{0:020d}.log").write_bytes(bad)
    with pytest.raises(mb.CorruptRecordError):
        mb.land(source, tmp_path / "out")
    assert not list((tmp_path / "out").rglob("*.parquet"))
    assert not (tmp_path / "out" / "_magicbyte" / "offsets.json").exists()


def test_two_runs_at_once(tmp_path: Path) -> None:
    source = directory(tmp_path / "in", batch(0, (b"k", b"1")))

    def run(tasks: Sequence[Any], work: Any) -> list[Any]:
        # What travels to a worker, and back.
        tasks, work = pickle.loads(pickle.dumps((list(tasks), work)))
        with pytest.raises(BlockingIOError, match="another run"):
            mb.land(source, tmp_path / "out")
        # An attempt that is lost, and the one that counts.
        work(tasks[0][1])
        return [work(task) for _, task in tasks]

    assert mb.land(source, tmp_path / "out", run=run).records == 1
    assert len(landed(tmp_path / "out")) == 1
    assert json.loads((tmp_path / "out" / "_magicbyte" / "offsets.json").read_text())["offsets"] == [["t", 0, 1]]


def delta_rows(target: Path) -> list[Row]:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    rows = deltalake.DeltaTable(target).to_pyarrow_table().to_pylist()
    return sorted((row["topic"], row["partition"], row["offset"], row["key"], row["value"]) for row in rows)


def test_a_delta_table(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    first, second = (batch(3 * n, *((b"k", b"%d" % n) for _ in range(3)), at=T + DAY * n) for n in range(2))
    source, out = directory(tmp_path / "in", first), tmp_path / "out"
    landing = mb.Landing(table="delta")
    assert mb.land(source, out, landing).offsets == {("t", 0): 3}
    assert mb.land(source, out, landing).records == 0
    directory(tmp_path / "in", second)
    # The commit is what counts: files that were written before it, and lost it, are of no version.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deltalake.DeltaTable, "create_write_transaction", lambda *_args, **_options: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            mb.land(source, out, landing)
    assert [row[2] for row in delta_rows(out)] == [0, 1, 2]
    done = mb.land(source, out, landing)
    assert (done.records, done.offsets) == (3, {("t", 0): 6})
    assert delta_rows(out) == [("t", 0, n, b"k", b"%d" % (n // 3)) for n in range(6)]
    assert deltalake.DeltaTable(out).metadata().partition_columns == ["topic", "date"]
    with pytest.raises(ValueError, match="is a Delta table"):
        mb.land(source, out)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from magicbyte.cli import main

    directory(tmp_path / "in", batch(0, (b"k", b"1"), (b"k", b"2")))
    given, out = str(tmp_path / "in"), str(tmp_path / "out")
    assert main(["land", given, out, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["records"], told["offsets"]) == (2, [{"topic": "t", "partition": 0, "offset": 2}])
    assert main(["land", given, out]) == 0
    assert "0 records in 0 files" in capsys.readouterr().out
