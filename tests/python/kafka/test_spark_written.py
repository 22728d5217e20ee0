"""log → DataFrame → write: partition directories out of Spark, served by a real broker; also into its own directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from messages import odd, stream
from oracle import JavaConsumer, Row
from producers import Sender

import magicbyte as mb

KEEP = {"retention.ms": "-1"}
SMALL = {"segmentBytes": "20k", "batchSize": "2k", "indexInterval": "1k"}


@pytest.fixture(scope="module")
def given(broker: Broker, java_consumer: JavaConsumer, spark: Any) -> dict[str, list[Row]]:
    """Topics by name, each with the rows that a consumer should receive."""
    messages = odd() + stream(400, seed=11)
    source = broker.create_topic("spark-source", config=KEEP)
    stamped = broker.create_topic("spark-stamped", config={**KEEP, "message.timestamp.type": "LogAppendTime"})
    for codec in ("none", "lz4"):
        Sender(broker.bootstrap, compression_type=codec, linger_ms=5).send(source, messages)
        Sender(broker.bootstrap, compression_type=codec, linger_ms=5).send(stamped, messages)
    sent = java_consumer.rows(source), java_consumer.rows(stamped)
    for name in ("spark-kept", "spark-stamps", "spark-appended", "spark-replaced"):
        broker.create_topic(name, config=KEEP)
    Sender(broker.bootstrap).send("spark-appended", messages[:50])
    Sender(broker.bootstrap).send("spark-replaced", messages[:50])
    first = java_consumer.rows("spark-appended")
    broker.stop()

    def frame(topic: str) -> Any:
        read = spark.read.format("magicbyte").option("columns", "+leaderEpoch,rawHeaderKeys")
        return read.option("maxPartitionBytes", "16k").load(str(broker.partition_dir(topic)))

    def write(frame: Any, mode: str, **options: Any) -> None:
        frame.write.format("magicbyte").options(**SMALL, **options).mode(mode).save(str(broker.data_dir))

    assert frame(source).rdd.getNumPartitions() > 1
    write(frame(source), "append", topic="spark-kept", codec="zstd")
    write(frame(stamped), "append", topic="spark-stamps", codec="snappy")
    write(frame(source).drop("leaderEpoch"), "append", topic="spark-appended", offsets="assign", codec="gzip")
    write(frame(source), "overwrite", topic="spark-replaced")
    # What a dead job leaves must not keep a broker from starting.
    orphan = broker.data_dir / ".magicbyte-0.0123456789abcdef0123456789abcdef-delete" / "0-1" / "spark-kept-0"
    orphan.mkdir(parents=True)
    (orphan / f"{0:020d}.log").write_bytes(b"half a batch")
    broker.start()
    behind = [row._replace(offset=row.offset + len(first)) for row in sent[0]]
    epoch = first[-1].leader_epoch
    return {
        "spark-kept": sent[0],
        "spark-stamps": sent[1],
        "spark-appended": first + [row._replace(leader_epoch=epoch) for row in behind],
        "spark-replaced": sent[0],
    }


@pytest.mark.parametrize("name", ["spark-kept", "spark-stamps", "spark-appended", "spark-replaced"])
def test_a_broker_serves_what_spark_wrote(
    given: dict[str, list[Row]], broker: Broker, java_consumer: JavaConsumer, name: str
) -> None:
    assert java_consumer.rows(name) == given[name]
    assert len(list(broker.segments(name))) > 3
    said = broker.log_file.read_text(errors="replace").splitlines()
    assert [line for line in said if name in line and "orrupt" in line] == []


def test_the_broker_goes_on_behind_it(given: dict[str, list[Row]], broker: Broker, java_consumer: JavaConsumer) -> None:
    """Last, as it changes the topics."""
    for name, rows in given.items():
        Sender(broker.bootstrap).send(name, stream(3, seed=1))
        had = java_consumer.rows(name)
        assert had[:-3] == rows
        assert [row.offset for row in had[-3:]] == [rows[-1].offset + n for n in (1, 2, 3)]
        assert [Row.of(record) for record in mb.Log(broker.partition_dir(name)).records()] == had
    assert not list(Path(broker.data_dir).glob("*.magicbyte-commit*"))
