"""Sends messages through the producers that Python people use: each frames, batches and compresses in its own way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import confluent_kafka
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from messages import Message

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Sender:
    """A confluent-kafka producer that fails when a delivery fails. `settings` in librdkafka's words."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        # librdkafka tells of a broker that a test stops; it connects again by itself.
        quiet = {"log_level": 2, "log.connection.close": False}
        self.producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 16 << 20, **quiet, **named})
        self.failures: list[str] = []

    def send(self, topic: str, messages: Iterable[Message], partition: int = 0) -> None:
        """Sends, and returns when all are stored."""
        for message in messages:
            self.producer.produce(
                topic,
                value=message.value,
                key=message.key,
                partition=partition,
                timestamp=message.timestamp,
                headers=list(message.headers),
                on_delivery=self._delivered,
            )
            self.producer.poll(0)
        left = self.producer.flush(60)
        if left or self.failures:
            raise AssertionError(f"{topic}: {left} not sent, failed: {self.failures[:3]}")

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.failures.append(str(error))


class Transactor(Sender):
    """A transactional confluent-kafka producer."""

    def __init__(self, bootstrap: str, transactional_id: str, **settings: Any) -> None:
        # A transaction that a test leaves open must stay open.
        super().__init__(bootstrap, transactional_id=transactional_id, transaction_timeout_ms=900_000, **settings)
        self.producer.init_transactions(60)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def commit(self) -> None:
        self.producer.commit_transaction(60)

    def abort(self) -> None:
        self.producer.abort_transaction(60)


def send_kafka_python(bootstrap: str, topic: str, messages: Iterable[Message], codec: str, **settings: Any) -> None:
    """Through kafka-python (pure Python; snappy framed as xerial's, lz4 with content size).

    It refuses null header values (sent as empty ones) and records without key and value (left out)."""
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        max_request_size=16 << 20,
        **settings,
    )
    try:
        futures = [
            producer.send(
                topic,
                value=message.value,
                key=message.key,
                headers=[(name, value or b"") for name, value in message.headers],
                partition=0,
                timestamp_ms=message.timestamp,
            )
            for message in messages
            if (message.key, message.value) != (None, None)
        ]
        producer.flush(60)
        for future in futures:
            future.get(timeout=60)
    finally:
        producer.close(timeout=60)


def send_aiokafka(
    bootstrap: str, topic: str, messages: Iterable[Message], codec: str, *, transactional_id: str | None = None
) -> None:
    """Through aiokafka (Cython; lz4 with block checksums). With a transactional id: messages are sent in transactions of
    ten, and every third one is aborted.

    It refuses records without key and value: they are left out."""
    allowed = [message for message in messages if (message.key, message.value) != (None, None)]
    asyncio.run(_send_aiokafka(bootstrap, topic, allowed, codec, transactional_id))


async def _send_aiokafka(
    bootstrap: str, topic: str, messages: list[Message], codec: str, transactional_id: str | None
) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        linger_ms=20,
        max_request_size=16 << 20,
        transactional_id=transactional_id,
    )

    async def send(some: list[Message]) -> None:
        futures = [
            await producer.send(
                topic,
                value=message.value,
                key=message.key,
                partition=0,
                timestamp_ms=message.timestamp,
                headers=list(message.headers),
            )
            for message in some
        ]
        await asyncio.gather(*futures)

    await producer.start()
    try:
        if transactional_id is None:
            await send(messages)
            return
        for number, start in enumerate(range(0, len(messages), 10)):
            await producer.begin_transaction()
            await send(messages[start : start + 10])
            await (producer.abort_transaction() if number % 3 == 2 else producer.commit_transaction())
    finally:
        await producer.stop()
