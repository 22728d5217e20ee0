"""aiokafka with magicbyte's records: its own classes, methods and settings, and on top

- ``send(record)`` and ``send_and_wait(record)``, beside ``send(topic, value, ...)``; ``getone``, ``getmany`` and iteration give
  ``ConsumerRecord``s;
- ``key_serializer``, ``value_serializer`` (``…_deserializer``) and ``interceptors``, everything that ``magicbyte.serdes`` and
  ``magicbyte.interceptors`` take; they run on the event loop;
- ``on_commit`` of the chain is called for ``commit()``; what the client commits by itself it does not tell.

A chain that is given belongs to who gave it: the client does not close it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from magicbyte._core import ConsumerRecord
from magicbyte._extras import extra
from magicbyte.interceptors import Chain, RecordMetadata
from magicbyte.records import ProducerRecord

from ._ways import WayIn, WayOut

with extra("aiokafka"):
    import aiokafka
    from aiokafka import TopicPartition

__all__ = ["AIOKafkaConsumer", "AIOKafkaProducer"]

if TYPE_CHECKING:
    # The library has no types.
    class _Producer:
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        async def send(self, *args: Any, **kwargs: Any) -> asyncio.Future[Any]: ...

    class _Consumer:
        def __init__(self, *args: Any, **kwargs: Any) -> None: ...
        async def getone(self, *partitions: TopicPartition) -> Any: ...
        async def getmany(self, *partitions: TopicPartition, **kwargs: Any) -> dict[TopicPartition, list[Any]]: ...
        async def commit(self, offsets: Any = None) -> None: ...
        def seek(self, partition: TopicPartition, offset: int) -> None: ...
        async def seek_to_beginning(self, *partitions: TopicPartition) -> Any: ...
        async def seek_to_end(self, *partitions: TopicPartition) -> Any: ...
        async def seek_to_committed(self, *partitions: TopicPartition) -> Any: ...
        def assignment(self) -> frozenset[TopicPartition]: ...
        async def position(self, partition: TopicPartition) -> int: ...
else:
    _Producer, _Consumer = aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer


class AIOKafkaProducer(_Producer):
    """``aiokafka.AIOKafkaProducer`` that takes ``ProducerRecord``s, and runs serializers and a chain."""

    def __init__(
        self,
        *args: Any,
        key_serializer: Any = None,
        value_serializer: Any = None,
        interceptors: Any = None,
        **kwargs: Any,
    ) -> None:
        self._way = WayOut(key_serializer, value_serializer, interceptors)
        super().__init__(*args, **kwargs)

    async def send(
        self,
        topic: ProducerRecord | str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Any = None,
    ) -> asyncio.Future[Any]:
        """``send(record)``, or the client's own arguments.

        The future gives the client's ``RecordMetadata``; of several records that an interceptor made of one, the last; of
        none, None. The headers are read-only afterwards. A record without key and value the client refuses.

        Raises:
            SerializationError, IllegalStateError, ValueError, KafkaError: it was not sent, and is as it was.
        """
        record = topic
        if not isinstance(record, ProducerRecord):
            record = ProducerRecord(record, value, key, headers, partition, timestamp_ms)
        with self._way.sending(record) as parts:
            futures = [await self._send(part) for part in parts]
        if len(futures) == 1:
            return futures[0]
        return asyncio.ensure_future(_last(futures))

    async def _send(self, part: ProducerRecord) -> asyncio.Future[Any]:
        future = await super().send(
            part.topic,
            value=part.value,
            key=part.key,
            partition=part.partition,
            timestamp_ms=part.timestamp,
            headers=part.headers.to_list(),
        )
        if self._way.chain.has("on_acknowledgement"):

            def acknowledge(done: asyncio.Future[Any]) -> None:
                error = asyncio.CancelledError() if done.cancelled() else done.exception()
                if error is None:
                    self._way.chain.on_acknowledgement(_metadata(done.result()), None, part.headers)
                else:
                    self._way.failed(part, error)

            future.add_done_callback(acknowledge)
        return future

    async def send_and_wait(self, topic: ProducerRecord | str, *args: Any, **kwargs: Any) -> Any:
        """``send``, and waits until it is stored."""
        return await (await self.send(topic, *args, **kwargs))

    @property
    def interceptors(self) -> Chain:
        """The chain."""
        return self._way.chain


async def _last(futures: list[asyncio.Future[Any]]) -> Any:
    done = await asyncio.gather(*futures)
    return done[-1] if done else None


def _metadata(stored: Any) -> RecordMetadata:
    return RecordMetadata(
        stored.topic, stored.partition, stored.offset, -1 if stored.timestamp is None else stored.timestamp
    )


def _consumed(message: Any) -> ConsumerRecord:
    return ConsumerRecord(
        message.topic,
        message.partition,
        message.offset,
        message.timestamp,
        message.timestamp_type,
        message.key,
        message.value,
        message.headers,
    )


class AIOKafkaConsumer(_Consumer):
    """``aiokafka.AIOKafkaConsumer`` that gives ``ConsumerRecord``s, and runs a chain and deserializers.

    The client does not tell leader epochs: ``leader_epoch`` is None.
    """

    def __init__(
        self,
        *args: Any,
        key_deserializer: Any = None,
        value_deserializer: Any = None,
        interceptors: Any = None,
        **kwargs: Any,
    ) -> None:
        self._way = WayIn(key_deserializer, value_deserializer, interceptors)
        super().__init__(*args, **kwargs)

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """The next record.

        Raises:
            SerializationError: a record that cannot be deserialized, in its ``record``; the next call goes on behind it.
        """
        while True:
            if found := self._way.take(1):
                return found[0]
            self._way.feed([_consumed(await super().getone(*partitions))])

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records by partition; those that came before an error first, the error with the next call.

        Raises:
            SerializationError: as ``getone``.
        """
        found = self._way.take(max_records or MOST)
        if not found:
            fetched = await super().getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
            self._way.feed(_consumed(message) for some in fetched.values() for message in some)
            found = self._way.take(max_records or MOST)
        by_partition: dict[TopicPartition, list[ConsumerRecord]] = {}
        for record in found:
            by_partition.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return by_partition

    async def commit(self, offsets: Any = None) -> None:
        """The client's; the chain is told afterwards."""
        if offsets is None and self._way.chain.has("on_commit"):
            offsets = {one: await self.position(one) for one in self.assignment()}
        await super().commit(offsets)
        if offsets:
            named = {(one.topic, one.partition): _number(position) for one, position in offsets.items()}
            self._way.chain.on_commit(named)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The client's. What was received and not delivered yet is dropped."""
        super().seek(partition, offset)
        self._way.forget()

    async def seek_to_beginning(self, *partitions: TopicPartition) -> Any:
        """The client's. What was received and not delivered yet is dropped."""
        self._way.forget()
        return await super().seek_to_beginning(*partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> Any:
        """The client's. What was received and not delivered yet is dropped."""
        self._way.forget()
        return await super().seek_to_end(*partitions)

    async def seek_to_committed(self, *partitions: TopicPartition) -> Any:
        """The client's. What was received and not delivered yet is dropped."""
        self._way.forget()
        return await super().seek_to_committed(*partitions)

    @property
    def interceptors(self) -> Chain:
        """The chain."""
        return self._way.chain


MOST = 1 << 30


def _number(position: Any) -> int:
    """An offset, alone or with its metadata."""
    return int(position[0] if isinstance(position, tuple) else position)
