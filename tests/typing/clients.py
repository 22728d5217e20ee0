"""What mypy --strict and pyright must make of the clients. Read by type checkers, never run."""

from __future__ import annotations

from typing import assert_type

import magicbyte as mb
from magicbyte import serdes
from magicbyte.clients.aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from magicbyte.clients.confluent import AIOConsumer, AIOProducer, Consumer, Producer
from magicbyte.interceptors import Chain

producer = Producer(
    {"bootstrap.servers": "localhost"},
    key_serializer=serdes.LongSerializer(),
    value_serializer=str.encode,
    interceptors=Chain(),
)
producer.produce(mb.ProducerRecord("t", "text", 5), on_delivery=lambda error, message: None)
producer.produce("t", "text", 5, headers=[("k", b"v")])
# The client's own methods are still there.
assert_type(producer.flush(5), int)
producer.begin_transaction()
assert_type(producer.interceptors, Chain)

consumer = Consumer({"group.id": "g"}, value_deserializer=serdes.JsonDeserializer())
consumer.subscribe(["t"])
assert_type(consumer.poll(1.0), mb.ConsumerRecord | None)
assert_type(consumer.consume(10, 1.0), list[mb.ConsumerRecord])
if (record := consumer.poll()) is not None:
    consumer.commit(record)


async def asyncio_forms() -> None:
    one = AIOProducer({}, interceptors=[Chain()])
    await (await one.produce(mb.ProducerRecord("t")))
    two = AIOConsumer({})
    assert_type(await two.poll(1), mb.ConsumerRecord | None)
    assert_type(await two.consume(5, 1), list[mb.ConsumerRecord])
    three = AIOKafkaProducer(bootstrap_servers="localhost", value_serializer=serdes.JsonSerializer())
    await three.send_and_wait(mb.ProducerRecord("t", {}))
    four = AIOKafkaConsumer("t", value_deserializer=serdes.JsonDeserializer())
    assert_type(await four.getone(), mb.ConsumerRecord)
