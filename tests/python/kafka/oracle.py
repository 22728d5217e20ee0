"""What a Kafka consumer receives: the truth that files are compared with. Two consumers, so that one checks the other."""

from __future__ import annotations

import base64
import json
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from jars import answering

Isolation = Literal["read_uncommitted", "read_committed"]

# librdkafka numbers the timestamp types from 1 (0: none), Kafka from 0 (−1: none).
_LIBRDKAFKA_TYPES = 1


class Row(NamedTuple):
    """One record as a consumer sees it: `timestamp` in ms, `timestamp_type` 0 create, 1 append, −1 none."""

    offset: int
    timestamp: int
    timestamp_type: int
    leader_epoch: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @classmethod
    def of(cls, record: Any) -> Row:
        """From a magicbyte ConsumerRecord."""
        headers = tuple((header.key, header.value) for header in record.headers)
        return cls(
            record.offset,
            record.timestamp,
            record.timestamp_type,
            record.leader_epoch,
            record.key,
            record.value,
            headers,
        )


class JavaConsumer:
    """Kafka's Java consumer in a process of its own (tests/kafka/java/ConsumerDump.java)."""

    def __init__(self, bootstrap: str) -> None:
        self._process = answering("ConsumerDump.java", bootstrap)

    def rows(self, topic: str, partition: int = 0, isolation: Isolation = "read_uncommitted") -> list[Row]:
        """All records from the log's start to its end, or to its last stable offset under `read_committed`.

        Raises:
            RuntimeError: the consumer failed; its own words.
        """
        return self.read(topic, partition, isolation)[0]

    def read(self, topic: str, partition: int = 0, isolation: Isolation = "read_uncommitted") -> tuple[list[Row], int]:
        """As `rows`, and the offset where the consumer stopped."""
        ask, answer = self._process.stdin, self._process.stdout
        assert ask is not None
        assert answer is not None
        ask.write(f"{topic} {partition} {isolation}\n")
        ask.flush()
        rows = []
        for line in answer:
            said = json.loads(line)
            if "error" in said:
                raise RuntimeError(f"the Java consumer of {topic}-{partition}: {said['error']}")
            if "end" in said:
                return rows, int(said["end"])
            rows.append(_java_row(said))
        raise RuntimeError(f"the Java consumer ended with {self._process.wait(10)}")

    def close(self) -> None:
        """Ends the process: it leaves when its requests end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(120)
        finally:
            self._process.kill()

    def __enter__(self) -> JavaConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _java_row(said: dict[str, Any]) -> Row:
    headers = tuple((key, _bytes(value)) for key, value in said["headers"])
    return Row(
        said["offset"],
        said["timestamp"],
        said["timestampType"],
        said["leaderEpoch"],
        _bytes(said["key"]),
        _bytes(said["value"]),
        headers,
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text, validate=True)


def confluent_rows(
    bootstrap: str, topic: str, partition: int = 0, isolation: Isolation = "read_uncommitted", *, timeout: float = 120
) -> list[Row]:
    """The same through confluent-kafka (librdkafka).

    Raises:
        KafkaException: what the consumer reports, or nothing new for `timeout` seconds.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "magicbyte-oracle",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 16 << 20,
            "fetch.wait.max.ms": 20,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        rows: list[Row] = []
        give_up = time.monotonic() + timeout
        while True:
            # Waits out its timeout unless the list gets full: hence the short one.
            messages = consumer.consume(1000, 0.1)
            if messages:
                give_up = time.monotonic() + timeout
            elif time.monotonic() > give_up:
                raise KafkaException(
                    KafkaError(KafkaError._TIMED_OUT, f"{topic}-{partition} after {len(rows)} records")
                )
            for message in messages:
                error = message.error()
                if error is None:
                    rows.append(_confluent_row(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return rows
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def _confluent_row(message: Any) -> Row:
    kind, timestamp = message.timestamp()
    return Row(
        message.offset(),
        timestamp,
        kind - _LIBRDKAFKA_TYPES,
        message.leader_epoch(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


class BatchFacts(NamedTuple):
    """The header of one v2 batch, read with nothing but `struct`."""

    base_offset: int
    position: int
    size: int
    leader_epoch: int
    attributes: int
    producer_id: int
    producer_epoch: int
    count: int

    @property
    def codec(self) -> str:
        return ("none", "gzip", "snappy", "lz4", "zstd")[self.attributes & 0x07]

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & 0x10)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 0x20)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & 0x40)


def batch_facts(segments: Iterable[Path]) -> list[BatchFacts]:
    """The batches of healthy v2 segments: shows that a test's input really holds what the test is about."""
    facts = []
    for segment in segments:
        data = segment.read_bytes()
        at = 0
        while at + 61 <= len(data):
            base, length, epoch, magic, _crc, attributes = struct.unpack_from(">qiibIh", data, at)
            producer, producer_epoch, _sequence, count = struct.unpack_from(">qhii", data, at + 43)
            assert magic == 2, f"{segment} at {at}: magic {magic}"
            facts.append(BatchFacts(base, at, length + 12, epoch, attributes, producer, producer_epoch, count))
            at += length + 12
        assert at == len(data), f"{segment} ends inside a batch at {at}"
    return facts
