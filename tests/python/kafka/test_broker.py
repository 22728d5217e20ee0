"""The harness: a broker survives what tests do to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from broker import Broker, BrokerError
from messages import odd, stream
from oracle import JavaConsumer
from producers import Sender


def test_data_survive_a_restart(broker: Broker, java_consumer: JavaConsumer) -> None:
    broker.create_topic("survives")
    Sender(broker.bootstrap).send("survives", odd())
    before = java_consumer.rows("survives")
    at, where = broker.bootstrap, broker.data_dir
    broker.restart()
    assert java_consumer.rows("survives") == before
    assert (broker.bootstrap, broker.data_dir) == (at, where)
    assert broker.end_offset("survives") == len(before)


def test_topics_and_segments(broker: Broker) -> None:
    broker.create_topic("harness", 3, {"internal.segment.bytes": "16384"})
    sender = Sender(broker.bootstrap, batch_size=6000)
    sender.send("harness", stream(500, seed=1), 2)
    assert len(broker.segments("harness", 0)) == 1
    names = [int(path.stem) for path in broker.segments("harness", 2)]
    assert len(names) > 1
    assert names == sorted(names)
    assert broker.partition_dir("harness", 2).name == "harness-2"
    assert (broker.end_offset("harness", 0), broker.end_offset("harness", 2) > names[-1]) == (0, True)


@pytest.mark.parametrize("suffixes", [{".log"}, {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ""}])
def test_files_put_under_a_topic_are_served(
    broker: Broker, java_consumer: JavaConsumer, written, suffixes: set[str]
) -> None:
    """How later tests prove what magicbyte writes: segments alone are enough."""
    names = ["transactions", "compacted-transactions", "leader-epochs", "segments", "librdkafka-zstd"]
    expected = {name: written(name)[0] for name in names}
    committed = {name: java_consumer.rows(name, 0, "read_committed") for name in names}
    copies = {name: broker.create_topic(f"copy-{len(suffixes)}-{name}") for name in names}
    broker.stop()
    for name, copy in copies.items():
        broker.put(copy, 0, [path for path in broker.partition_dir(name).iterdir() if path.suffix in suffixes])
    broker.start()
    for name, copy in copies.items():
        assert java_consumer.rows(copy) == expected[name]
        assert java_consumer.rows(copy, 0, "read_committed") == committed[name]
        # It is a log like any other: it takes more.
        Sender(broker.bootstrap).send(copy, odd()[:3])
        assert len(java_consumer.rows(copy)) == len(expected[name]) + 3


def test_a_broker_that_cannot_start_says_why(tmp_path: Path, broker: Broker) -> None:
    with pytest.raises(BrokerError, match="NoSuchValue"):
        Broker(tmp_path / "broken", settings={"log.message.timestamp.type": "NoSuchValue"}).start()
