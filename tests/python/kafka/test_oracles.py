"""The measures themselves: both consumers agree on every topic, and each topic's files hold what its name says."""

from __future__ import annotations

import pytest
from broker import Broker
from cases import CASES
from oracle import JavaConsumer, batch_facts, confluent_rows


@pytest.mark.parametrize("name", CASES)
def test_both_consumers_receive_the_same(broker: Broker, written, name: str) -> None:
    for partition, rows in enumerate(written(name)):
        assert rows == confluent_rows(broker.bootstrap, name, partition)


@pytest.mark.parametrize("name", CASES)
def test_the_files_hold_what_the_topic_is_about(broker: Broker, written, name: str) -> None:
    for partition, rows in enumerate(written(name)):
        batches = batch_facts(broker.segments(name, partition))
        assert CASES[name].shows(batches, rows), [tuple(batch) for batch in batches]


@pytest.mark.parametrize(
    "name", ["transactions", "aiokafka-transactions", "open-transaction", "compacted-transactions"]
)
def test_both_consumers_receive_the_same_committed_records(
    broker: Broker, java_consumer: JavaConsumer, written, name: str
) -> None:
    for partition, rows in enumerate(written(name)):
        committed = java_consumer.rows(name, partition, "read_committed")
        assert committed == confluent_rows(broker.bootstrap, name, partition, "read_committed")
        assert set(committed) <= set(rows)
        # The cleaner has taken out what was aborted.
        assert (len(committed) == len(rows)) == (name == "compacted-transactions")


def test_a_read_committed_consumer_stops_at_an_open_transaction(java_consumer: JavaConsumer, written) -> None:
    everything = written("open-transaction")[0]
    committed, end = java_consumer.read("open-transaction", 0, "read_committed")
    assert committed == everything[:10]
    assert end == everything[10].offset
