"""`clean` keeps what a real broker's own cleaner keeps of the same input, batch by batch.

One topic, written while nothing cleans it: updates, tombstones and headers of a plain producer, transactions of Java's
producers (markers with a bumped epoch) and librdkafka's (the same epoch), committed, aborted, over many segments, one left
open. Its directory is copied; then the broker is let loose on it, and `clean` on the copy. Three times over, with more
records in between: tombstones and markers need that many until they are gone.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from broker import Broker
from cases import SMALL_BATCHES, SMALL_SEGMENTS
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from messages import updates
from producers import Sender
from test_read_committed import JavaTransactor, write

import magicbyte as mb

SEGMENT_BYTES = int(SMALL_SEGMENTS["internal.segment.bytes"])


class Pass(NamedTuple):
    """One cleaning: what it was given, what the broker made of it, and what we did."""

    given: Path
    brokers: Path
    ours: Path
    done: mb.CleanedPartition


def policy(broker: Broker, topic: str, value: str, retention: int = 0) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    for name, setting in (("cleanup.policy", value), ("delete.retention.ms", str(retention))):
        resource.add_incremental_config(ConfigEntry(name, setting, incremental_operation=AlterConfigOpType.SET))
    admin = broker.admin()
    admin.incremental_alter_configs([resource])[resource].result(120)


def checkpoint(broker: Broker, topic: str) -> int:
    return broker.checkpoint("cleaner-offset-checkpoint").get((topic, 0), -1)


def cleaned(broker: Broker, topic: str, root: Path, number: int, retention: int = 0) -> Pass:
    """Copies the directory, lets the broker clean it, copies what that left, and cleans the first copy."""
    directory = broker.partition_dir(topic)
    given, brokers, ours = (root / f"{name}-{number}" / f"{topic}-0" for name in ("given", "brokers", "ours"))
    ignore = shutil.ignore_patterns("*.deleted", "*.cleaned", "*.swap")
    shutil.copytree(directory, given, ignore=ignore)
    before = checkpoint(broker, topic)
    policy(broker, topic, "compact", retention)
    deadline = time.monotonic() + 240
    while checkpoint(broker, topic) <= before:
        assert time.monotonic() < deadline, "the broker did not clean"
        time.sleep(0.1)
    policy(broker, topic, "delete", retention)
    shutil.copytree(directory, brokers, ignore=ignore)
    cleaning = mb.Cleaning(delete_retention_ms=retention, segment_bytes=SEGMENT_BYTES)
    done = mb.clean(given, ours, cleaning)
    return Pass(given, brokers, ours, done.partitions[0])


@pytest.fixture(scope="module")
def passes(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Pass]]:
    topic, root = "cleaned", tmp_path_factory.mktemp("clean")
    java = JavaTransactor(broker.bootstrap)
    plain = Sender(broker.bootstrap, **SMALL_BATCHES)
    write(broker, topic, java, compact=False)
    # The open transaction, and not the active segment, is what the first cleaning ends at.
    plain.send(topic, updates(400, keys=9, seed=0, prefix="plain"))
    found = [cleaned(broker, topic, root, 0)]
    java.ask("commit", f"{topic}-second")
    for number in (1, 2):
        plain.send(topic, updates(400, keys=9, seed=number, prefix="plain"))
        found.append(cleaned(broker, topic, root, number))
    yield found
    java.close()


def records(directory: Path) -> list[tuple[Any, ...]]:
    return [
        (r.offset, r.timestamp, r.key, r.value, tuple((h.key, h.value) for h in r.headers))
        for r in mb.Log(directory).records()
    ]


def batches(directory: Path) -> list[tuple[Any, ...]]:
    """All that a batch says, but for the time at which a delete horizon was stamped, and how well codecs compress."""
    return [
        (
            b.base_offset, b.last_offset, b.count, b.codec, b.producer_id, b.producer_epoch, b.base_sequence,
            b.control, b.transactional, b.max_timestamp, b.delete_horizon, b.partition_leader_epoch,
            b.raw if b.codec == "none" and not b.delete_horizon else None,
        )
        for b in mb.Log(directory).batches()
    ]  # fmt: skip


@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_stays_is_what_a_broker_keeps(passes: list[Pass], number: int) -> None:
    one = passes[number]
    assert records(one.ours) == records(one.brokers)
    assert batches(one.ours) == batches(one.brokers)
    names = [{path.name for path in it.iterdir() if path.suffix != ".snapshot"} for it in (one.ours, one.brokers)]
    assert names[0] == names[1]
    counts = one.done.counts
    assert counts["records"] == counts["kept"] + sum(
        counts[name] for name in ("outranked", "tombstones", "aborted", "without_key")
    )


def test_every_kind_of_loss_was_there(passes: list[Pass]) -> None:
    assert passes[0].done.counts["aborted"] > 0
    assert passes[0].done.counts["outranked"] > 0
    assert passes[0].done.counts["stamped"] > 0
    assert sum(one.done.counts["tombstones"] for one in passes[1:]) > 0
    assert sum(one.done.counts["markers"] for one in passes) > 0
    assert sum(one.done.counts["emptied"] for one in passes) > 0
    assert passes[0].done.bound < int(max(path.stem for path in passes[0].given.glob("*.log")))  # the open transaction


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_outcome_does_not_depend_on_the_memory(passes: list[Pass], number: int, tmp_path: Path) -> None:
    cleaning = mb.Cleaning(delete_retention_ms=0, segment_bytes=SEGMENT_BYTES, dedupe_buffer_size=24 * 12)
    done = mb.clean(passes[number].given, tmp_path / "cleaned-0", cleaning).partitions[0]
    assert done.counts["rounds"] > 2
    assert records(tmp_path / "cleaned-0") == records(passes[number].brokers)
    assert batches(tmp_path / "cleaned-0") == batches(passes[number].brokers)


def test_what_is_written_is_as_sound_as_what_a_broker_writes(passes: list[Pass]) -> None:
    for one in passes:
        ours, brokers = (mb.Log(it).verify() for it in (one.ours, one.brokers))
        assert ours.ok and brokers.ok
        assert [(d.kind, d.severity, d.message) for d in ours.defects] == [
            (d.kind, d.severity, d.message) for d in brokers.defects
        ]


def horizons(directory: Path) -> list[int]:
    """When the tombstones of each stamped batch may go."""
    return [batch.base_timestamp for batch in mb.Log(directory).batches() if batch.delete_horizon]


def tombstones(directory: Path) -> list[int]:
    """Offsets of those below the active segment."""
    log = mb.Log(directory)
    return [r.offset for r in log.records(offsets=(0, log.segments[-1].base_offset)) if r.value is None]


@pytest.mark.parametrize("retention", [3_600_000, 1_000], ids=["an hour", "a second"])
def test_tombstones_go_when_their_horizon_is_over(broker: Broker, tmp_path: Path, retention: int) -> None:
    topic = f"horizons-{retention}"
    broker.create_topic(topic, config=SMALL_SEGMENTS)
    sender = Sender(broker.bootstrap, **SMALL_BATCHES)
    sender.send(topic, updates(800, keys=90, seed=1))
    begun = time.time_ns() // 1_000_000
    first = cleaned(broker, topic, tmp_path, 0, retention)
    ended = time.time_ns() // 1_000_000
    assert records(first.ours) == records(first.brokers)
    assert batches(first.ours) == batches(first.brokers)
    stayed = tombstones(first.brokers)
    assert stayed
    for directory in (first.ours, first.brokers):
        assert horizons(directory)
        # Each of the two by its own clock's look at the time.
        assert all(begun <= horizon - retention <= ended for horizon in horizons(directory))

    # The time that the broker stamped, not one that anybody guesses: it is over, or it is not.
    over = retention < 60_000
    while over and time.time_ns() // 1_000_000 <= max(horizons(first.brokers)):
        time.sleep(0.05)
    sender.send(topic, updates(400, keys=9, seed=2, prefix="other"))
    second = cleaned(broker, topic, tmp_path, 1, retention)
    assert records(second.ours) == records(second.brokers)
    assert batches(second.ours) == batches(second.brokers)
    left = set(stayed) & set(tombstones(second.brokers))
    assert (second.done.counts["tombstones"] > 0) == over
    assert bool(left) != over
    # A batch that was stamped keeps its time.
    kept = [set(horizons(first.brokers)) & set(horizons(it)) for it in (second.brokers, second.ours)]
    assert kept[0] == kept[1]
    assert kept[0]
