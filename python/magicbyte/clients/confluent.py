"""confluent-kafka with magicbyte's records: its own classes, methods and settings, and on top

- ``produce(record)``, beside ``produce(topic, value, ...)``; ``poll`` and ``consume`` give ``ConsumerRecord``s;
- ``key_serializer``, ``value_serializer`` (``…_deserializer``) and ``interceptors`` as keywords, everything that
  ``magicbyte.serdes`` and ``magicbyte.interceptors`` take;
- an error that a ``Message`` would carry is raised as ``KafkaException``, PARTITION_EOF too;
- ``commit`` and ``store_offsets`` take a record for ``message``.

A chain that is given belongs to who gave it: the client does not close it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from magicbyte._core import ConsumerRecord, Headers
from magicbyte._extras import extra
from magicbyte.interceptors import Chain, RecordMetadata
from magicbyte.records import ProducerRecord

from ._ways import WayIn, WayOut

with extra("confluent"):
    import confluent_kafka
    from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
    from confluent_kafka import aio as _aio

__all__ = ["AIOConsumer", "AIOProducer", "Consumer", "Producer"]

Delivered: TypeAlias = Callable[[KafkaError | None, Message], None]

# librdkafka numbers timestamp types from 1 (0: none), Kafka from 0 (−1: none).
TIMESTAMP_TYPES = 1


class Producer(confluent_kafka.Producer):
    """``confluent_kafka.Producer`` that takes ``ProducerRecord``s, and runs serializers and a chain."""

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        /,
        *,
        key_serializer: Any = None,
        value_serializer: Any = None,
        interceptors: Any = None,
        **options: Any,
    ) -> None:
        self._way = WayOut(key_serializer, value_serializer, interceptors)
        super().__init__(dict(config or {}), **options)

    def produce(
        self,
        topic: ProducerRecord | str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        callback: Delivered | None = None,
        on_delivery: Delivered | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """``produce(record, on_delivery=…)``, or the client's own arguments.

        Its headers are read-only afterwards. Where an interceptor makes several records of one, ``on_delivery`` is called
        once, for the last of them to be reported, with the first error; where it makes none, never.

        Raises:
            BufferError: the queue is full; the record is as it was, and can be sent again after ``poll``.
            SerializationError, IllegalStateError, ValueError: before anything was sent.
        """
        record = topic
        if not isinstance(record, ProducerRecord):
            record = _record(record, value, key, partition, timestamp, headers)
        _produce(super(), self._way, record, on_delivery or callback)

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Delivered | None = None,
        on_delivery: Delivered | None = None,
    ) -> int:
        """The client's, whose dicts here may have ``headers``, too. Each goes through serializers and chain, and to librdkafka
        one by one, which makes its batches by itself.

        Returns how many were taken. A dict that was not has the ``KafkaError`` in ``_error``; behind one for which the queue
        had no room none is taken, so that order stays.

        Raises:
            TypeError: no list of dicts.
            SerializationError, IllegalStateError, ValueError: as ``produce``, with a note of which; those before it were taken.
        """
        if not isinstance(messages, list):
            raise TypeError("messages must be a list")
        taken, full = 0, False
        for number, message in enumerate(messages):
            if not isinstance(message, dict):
                raise TypeError(f"message {number} must be a dict, not {type(message).__name__}")
            own = {name: message[name] for name in ("value", "key", "timestamp", "headers") if name in message}
            report = message.get("on_delivery") or message.get("callback") or on_delivery or callback
            try:
                if full:
                    raise BufferError
                self.produce(topic, partition=message.get("partition", partition), on_delivery=report, **own)
                taken += 1
            except BufferError:
                full = True
                message["_error"] = KafkaError(KafkaError._QUEUE_FULL)
            except KafkaException as error:
                message["_error"] = error.args[0]
            except Exception as error:
                error.add_note(f"message {number} of produce_batch")
                raise
        return taken

    @property
    def interceptors(self) -> Chain:
        """The chain."""
        return self._way.chain


def _record(topic: str, value: Any, key: Any, partition: int, timestamp: int, headers: Any) -> ProducerRecord:
    """Of the client's own arguments, in which −1 and 0 mean: let the client choose."""
    given = headers.items() if isinstance(headers, dict) else headers or ()
    pairs = given if isinstance(given, Headers) else [(k, v.encode() if isinstance(v, str) else v) for k, v in given]
    return ProducerRecord(topic, value, key, pairs, None if partition < 0 else partition, timestamp or None)


def _produce(client: Any, way: WayOut, record: ProducerRecord, on_delivery: Delivered | None) -> None:
    with way.sending(record) as parts:
        report = _report(way, on_delivery, len(parts))
        for number, part in enumerate(parts):
            arguments: dict[str, Any] = {"value": part.value, "key": part.key}
            if len(part.headers):
                arguments["headers"] = part.headers.to_list()
            if part.partition is not None:
                arguments["partition"] = part.partition
            if part.timestamp is not None:
                arguments["timestamp"] = part.timestamp
            if report is not None:
                arguments["on_delivery"] = report(part)
            while True:
                try:
                    client.produce(part.topic, **arguments)
                    break
                except BufferError:
                    # Nothing was sent yet: the caller may try again. Otherwise its first parts would be sent twice.
                    if number == 0:
                        raise
                    client.poll(0.1)


def _report(way: WayOut, on_delivery: Delivered | None, count: int) -> Callable[[ProducerRecord], Delivered] | None:
    """Makes the delivery callback of each part."""
    acknowledge = way.chain.has("on_acknowledgement")
    if not acknowledge:
        if on_delivery is None:
            return None
        if count == 1:
            return lambda part: on_delivery
    left = count
    first_error: KafkaError | None = None

    def of(part: ProducerRecord) -> Delivered:
        def delivered(error: KafkaError | None, message: Message) -> None:
            nonlocal left, first_error
            left -= 1
            first_error = error if first_error is None else first_error
            if acknowledge:
                failure = None if error is None else KafkaException(error)
                way.chain.on_acknowledgement(_metadata(message), failure, part.headers)
            if left == 0 and on_delivery is not None:
                on_delivery(first_error, message)

        return delivered

    return of


def _metadata(message: Message) -> RecordMetadata:
    numbers = (message.partition(), message.offset(), message.timestamp()[1])
    return RecordMetadata(message.topic() or "", *(-1 if number is None else number for number in numbers))


def _consumed(message: Message) -> ConsumerRecord | Exception:
    error = message.error()
    if error is not None:
        return KafkaException(error)
    kind, timestamp = message.timestamp()
    epoch = message.leader_epoch()
    return ConsumerRecord(
        message.topic() or "",
        -1 if (partition := message.partition()) is None else partition,
        -1 if (offset := message.offset()) is None else offset,
        timestamp if kind else -1,
        kind - TIMESTAMP_TYPES,
        message.key(),
        message.value(),
        message.headers(),  # type: ignore[arg-type]  # bytes or None, in a consumed message
        None if epoch is None or epoch < 0 else epoch,
    )


def _behind(record: ConsumerRecord) -> TopicPartition:
    """What to commit once a record is done with: the offset of the next."""
    place = (record.topic, record.partition, record.offset + 1)
    if record.leader_epoch is None:
        return TopicPartition(*place)
    return TopicPartition(*place, leader_epoch=record.leader_epoch)


def _positions(message: Any, offsets: Any) -> dict[str, Any]:
    """The arguments of ``commit`` and ``store_offsets``, a record for a message."""
    if isinstance(message, ConsumerRecord):
        return {"offsets": [_behind(message)]}
    given = {"message": message, "offsets": offsets}
    return {name: value for name, value in given.items() if value is not None}


def _committed(partitions: Iterable[TopicPartition]) -> dict[tuple[str, int], int]:
    return {(one.topic, one.partition): one.offset for one in partitions if one.error is None and one.offset >= 0}


class Consumer(confluent_kafka.Consumer):
    """``confluent_kafka.Consumer`` that gives ``ConsumerRecord``s, and runs a chain and deserializers."""

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        /,
        *,
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        interceptors: Any = None,
        **options: Any,
    ) -> None:
        self._way = WayIn(key_deserializer, value_deserializer, interceptors)
        config = {**(config or {}), **options}
        if (chain := self._way.chain).has("on_commit"):
            users = config.get("on_commit")

            def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
                if error is None:
                    chain.on_commit(_committed(partitions))
                if users is not None:
                    users(error, partitions)

            config["on_commit"] = on_commit
        super().__init__(config)

    def poll(self, timeout: float = -1) -> ConsumerRecord | None:  # type: ignore[override]
        """The next record, or None after ``timeout`` seconds (below 0: no end).

        Raises:
            KafkaException: what the client reports.
            SerializationError: a record that cannot be deserialized, in its ``record``; the next call goes on behind it.
        """
        deadline = None if timeout < 0 else time.monotonic() + timeout
        left = -1.0
        while True:
            if found := self._way.take(1):
                return found[0]
            if deadline is not None:
                left = max(deadline - time.monotonic(), 0)
            message = super().poll(left)
            if message is None:
                return None
            self._way.feed([_consumed(message)])

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[ConsumerRecord]:  # type: ignore[override]
        """Up to ``num_messages`` records; those that came before an error first, the error with the next call.

        Raises:
            KafkaException, SerializationError: as ``poll``.
        """
        if found := self._way.take(num_messages):
            return found
        self._way.feed(map(_consumed, super().consume(num_messages, timeout)))
        return self._way.take(num_messages)

    def commit(self, message: Any = None, offsets: Any = None, asynchronous: bool = True) -> Any:
        """The client's, where ``message`` may be a ``ConsumerRecord``."""
        call: Any = super().commit
        done = call(**_positions(message, offsets), asynchronous=asynchronous)
        # Of these the client's callback is not told.
        if not asynchronous:
            self._way.chain.on_commit(_committed(done))
        return done

    def store_offsets(self, message: Any = None, offsets: Any = None) -> None:
        """The client's, where ``message`` may be a ``ConsumerRecord``."""
        super().store_offsets(**_positions(message, offsets))

    def seek(self, partition: TopicPartition) -> None:
        """The client's. What was received and not delivered yet is dropped."""
        super().seek(partition)
        self._way.forget()

    @property
    def interceptors(self) -> Chain:
        """The chain."""
        return self._way.chain


class AIOProducer(_aio.AIOProducer):
    """``confluent_kafka.aio.AIOProducer`` that takes ``ProducerRecord``s.

    The library's own ``produce`` batches, and its batches carry no headers; here each record goes to librdkafka at once,
    which batches itself.
    """

    def __init__(
        self,
        producer_conf: dict[str, Any],
        *args: Any,
        key_serializer: Any = None,
        value_serializer: Any = None,
        interceptors: Any = None,
        **kwargs: Any,
    ) -> None:
        self._way = WayOut(key_serializer, value_serializer, interceptors)
        self._waiting = 0
        self._poller: asyncio.Task[None] | None = None
        super().__init__(dict(producer_conf), *args, **{"buffer_timeout": 0, **kwargs})

    async def produce(
        self,
        topic: ProducerRecord | str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: Any = None,
    ) -> asyncio.Future[Any]:
        """Sends; waits while the queue is full. The future gives the delivered ``Message``, or raises ``KafkaException``;
        of several records that an interceptor made of one, the last; of none, None.

        Raises:
            SerializationError, IllegalStateError, ValueError: before anything was sent.
        """
        record = topic
        if not isinstance(record, ProducerRecord):
            record = _record(record, value, key, partition, timestamp, headers)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def done(error: KafkaError | None, message: Message) -> None:
            self._waiting -= 1
            if future.done():
                return
            if error is None:
                future.set_result(message)
            else:
                future.set_exception(KafkaException(error))

        # Reports come in the executor's threads.
        def delivered(error: KafkaError | None, message: Message) -> None:
            loop.call_soon_threadsafe(done, error, message)

        sent = False

        def produced(*args: Any, **kwargs: Any) -> None:
            nonlocal sent
            self._producer.produce(*args, **kwargs)
            sent = True

        while True:
            try:
                _produce(_Client(produced, self._producer.poll), self._way, record, delivered)
                break
            except BufferError:
                await self.poll(0.1)
        if not sent:
            future.set_result(None)
            return future
        self._waiting += 1
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._serve())
        return future

    async def _serve(self) -> None:
        """Polls for delivery reports while some are awaited."""
        while self._waiting and not self._is_closed:
            await self.poll(0.05)

    async def close(self) -> None:
        """The client's: waits until all is sent."""
        await super().close()
        if self._poller is not None:
            await asyncio.gather(self._poller, return_exceptions=True)

    @property
    def interceptors(self) -> Chain:
        """The chain."""
        return self._way.chain


class _Client:
    """The two calls of a producer that sending needs."""

    def __init__(self, produce: Callable[..., None], poll: Callable[..., Any]) -> None:
        self.produce, self.poll = produce, poll


class AIOConsumer(_aio.AIOConsumer):
    """``confluent_kafka.aio.AIOConsumer`` that gives ``ConsumerRecord``s, and runs a chain and deserializers."""

    def __init__(
        self,
        consumer_conf: dict[str, Any],
        *args: Any,
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        interceptors: Any = None,
        **kwargs: Any,
    ) -> None:
        self._way = WayIn(key_deserializer, value_deserializer, interceptors)
        config = dict(consumer_conf)
        if (chain := self._way.chain).has("on_commit"):
            users = config.get("on_commit")

            async def on_commit(error: KafkaError | None, partitions: list[TopicPartition]) -> None:
                if error is None:
                    chain.on_commit(_committed(partitions))
                if users is not None:
                    await users(error, partitions)

            config["on_commit"] = on_commit
        super().__init__(config, *args, **kwargs)

    async def poll(self, timeout: float = -1) -> ConsumerRecord | None:
        """As ``Consumer.poll``."""
        deadline = None if timeout < 0 else time.monotonic() + timeout
        left = -1.0
        while True:
            if found := self._way.take(1):
                return found[0]
            if deadline is not None:
                left = max(deadline - time.monotonic(), 0)
            message = await super().poll(left)
            if message is None:
                return None
            self._way.feed([_consumed(message)])

    async def consume(self, num_messages: int = 1, timeout: float = -1) -> list[ConsumerRecord]:
        """As ``Consumer.consume``."""
        if found := self._way.take(num_messages):
            return found
        self._way.feed(map(_consumed, await super().consume(num_messages, timeout)))
        return self._way.take(num_messages)

    async def commit(self, message: Any = None, offsets: Any = None, asynchronous: bool = True) -> Any:
        """The client's, where ``message`` may be a ``ConsumerRecord``."""
        done = await super().commit(**_positions(message, offsets), asynchronous=asynchronous)
        if not asynchronous:
            self._way.chain.on_commit(_committed(done))
        return done

    async def store_offsets(self, message: Any = None, offsets: Any = None) -> None:
        """The client's, where ``message`` may be a ``ConsumerRecord``."""
        await super().store_offsets(**_positions(message, offsets))

    async def seek(self, partition: TopicPartition) -> None:
        """The client's. What was received and not delivered yet is dropped."""
        await super().seek(partition)
        self._way.forget()

    @property
    def interceptors(self) -> Chain:
        """The chain."""
        return self._way.chain
