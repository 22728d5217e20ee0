"""What a broken log is worth: a real broker opens the recovered copy and serves it, and copies of a partition are told apart.

One restart of the broker is in all of this file.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from broker import Broker
from messages import stream
from oracle import JavaConsumer, Row
from producers import Sender

import magicbyte as mb

TOPICS = ["segments", "transactions", "leader-epochs", "compacted-transactions"]


@dataclass
class Saved:
    """A topic whose copy was damaged and recovered, and put under a broker."""

    original: list[Row]
    copy: str
    directory: Path
    recovered: mb.Recovered


@dataclass
class Trial:
    """What was made before, during and after the restart."""

    saved: dict[str, Saved]
    started: str
    old: Path
    lineage: str


def damage(directory: Path) -> None:
    """A flipped bit in the first segment, bytes that are lost in the midst of the largest, and a torn end."""
    segments = sorted(directory.glob("*.log"))
    first, largest, last = segments[0], max(segments, key=lambda path: path.stat().st_size), segments[-1]
    data = bytearray(first.read_bytes())
    data[90] ^= 4
    first.write_bytes(data)
    data = bytearray(largest.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 40] = b"\xa5" * 40
    largest.write_bytes(data)
    last.write_bytes(last.read_bytes() + data[: 61 - 8])


@pytest.fixture(scope="module")
def trial(
    broker: Broker,
    java_consumer: JavaConsumer,
    written: Callable[[str], list[list[Row]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Trial:
    root = tmp_path_factory.mktemp("saved")
    saved = {}
    for name in TOPICS:
        rows = written(name)[0]
        broken = root / "broken" / f"{name}-0"
        broker.copy(name, 0, broken)
        damage(broken)
        out = root / "out" / f"{name}-0"
        done = mb.recover(broken, out)
        saved[name] = Saved(rows, broker.create_topic(f"saved-{name}", config={"retention.ms": "-1"}), out, done)
    lineage = broker.create_topic("trust-lineage")
    sender = Sender(broker.bootstrap)
    sender.send(lineage, stream(20, seed=1))
    broker.stop()
    for one in saved.values():
        broker.put(one.copy, 0, sorted(one.directory.iterdir()))
    old = root / "old" / f"{lineage}-0"
    shutil.copytree(broker.partition_dir(lineage), old)
    broker.start()
    started = broker.log_file.read_text(errors="replace")
    Sender(broker.bootstrap).send(lineage, stream(10, seed=2))
    return Trial(saved, started, old, lineage)


@pytest.mark.parametrize("name", TOPICS)
def test_a_recovered_copy_is_served(trial: Trial, java_consumer: JavaConsumer, name: str) -> None:
    saved = trial.saved[name]
    served = java_consumer.rows(saved.copy)
    kept = {record.offset for record in mb.Log(saved.directory).records()}
    assert served == [row for row in saved.original if row.offset in kept]
    assert 0 < len(served) < len(saved.original)
    assert len(saved.recovered.lost) >= 2
    assert {d.kind for d in mb.Log(saved.directory).verify().defects if d.severity == "error"} <= {"gap", "sequence"}


def test_the_broker_found_nothing_to_mend(trial: Trial) -> None:
    for one in trial.saved.values():
        bad = re.compile(
            rf"(?i)\b{re.escape(one.copy)}-0\b.*(corrupt|invalid|recover(ing|ed) unflushed|rebuil[dt].* index)"
        )
        assert [line for line in trial.started.splitlines() if bad.search(line)] == []


def test_it_takes_more(trial: Trial, broker: Broker, java_consumer: JavaConsumer) -> None:
    saved = trial.saved["transactions"]
    before = java_consumer.rows(saved.copy)
    Sender(broker.bootstrap).send(saved.copy, stream(3, seed=9))
    assert java_consumer.rows(saved.copy)[: len(before)] == before
    assert len(java_consumer.rows(saved.copy)) == len(before) + 3


def test_copies_of_a_real_partition(trial: Trial, broker: Broker, java_consumer: JavaConsumer) -> None:
    """The restart raised the leader epoch: what an old copy holds of the old epoch behind that point is a fork."""
    rows = java_consumer.rows(trial.lineage)
    [segment] = trial.old.glob("*.log")
    epochs = [record.leader_epoch for record in mb.Log(segment).records()]
    lost = [mb.ProducerRecord("", b"never replicated")] * 25
    fork = mb.encode(lost, base_offset=20, leader_epoch=epochs[-1])
    segment.write_bytes(segment.read_bytes() + fork)
    new = broker.partition_dir(trial.lineage)
    log = mb.Log([trial.old, new])
    assert [Row.of(record) for record in log.records()] == rows
    assert len(rows) == 30
    told = {one.path: one for one in log.replicas}
    assert told[str(new)].chosen
    assert (told[str(trial.old)].diverges_at, told[str(trial.old)].end_offset) == (20, 45)
    assert len(list(mb.Log([trial.old, new], replicas="longest").records())) == 45
