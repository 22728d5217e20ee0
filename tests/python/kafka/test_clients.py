"""Both client wrappers against a real broker: odd records, mirrors, chains, transactions, groups; Java's consumer as oracle."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import confluent_kafka
import pytest
from broker import Broker
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from messages import T, odd, stream
from oracle import JavaConsumer, Row

import magicbyte as mb
from magicbyte import serdes
from magicbyte.clients import aiokafka as ours_aio
from magicbyte.clients import confluent as ours
from magicbyte.interceptors import Chain, ProducerInterceptor, RecordMetadata

NAMES = itertools.count()

Records = list[mb.ProducerRecord]


PATIENCE = 120  # seconds: what counts as a hang, on the slowest machine


def odd_records(topic: str, empty: bool = False) -> Records:
    """Every odd record; `empty`: those without key and value too, which aiokafka does not take."""
    return [
        mb.ProducerRecord(topic, message.value, message.key, message.headers, 0, message.timestamp)
        for message in odd()
        if empty or (message.key, message.value) != (None, None)
    ]


@pytest.fixture
def topic(broker: Broker) -> str:
    return broker.create_topic(f"clients-{next(NAMES)}")


# The four ways of a client, behind the same two functions.


def send_confluent(broker: Broker, records: Iterable[mb.ProducerRecord], settings: Any = None, **options: Any) -> None:
    failures: list[Any] = []
    config = {"bootstrap.servers": broker.bootstrap, "message.max.bytes": 16 << 20, "linger.ms": 20, **(settings or {})}
    producer = ours.Producer(config, **options)
    for record in records:
        producer.produce(record, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert not [error for error in failures if error is not None]


def send_confluent_aio(broker: Broker, records: Iterable[mb.ProducerRecord], **options: Any) -> None:
    async def run() -> None:
        config = {"bootstrap.servers": broker.bootstrap, "message.max.bytes": 16 << 20, "linger.ms": 20}
        async with ours.AIOProducer(config, **options) as producer:
            futures = [await producer.produce(record) for record in records]
            for message in await asyncio.wait_for(asyncio.gather(*futures), PATIENCE):
                assert message is None or message.error() is None

    asyncio.run(run())


def send_aiokafka(broker: Broker, records: Iterable[mb.ProducerRecord], **options: Any) -> None:
    async def run() -> None:
        producer = ours_aio.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap, linger_ms=20, max_request_size=16 << 20, **options
        )
        async with producer:
            futures = [await producer.send(record) for record in records]
            await asyncio.wait_for(asyncio.gather(*futures), PATIENCE)

    asyncio.run(run())


def receive_confluent(
    broker: Broker, topic: str, count: int, settings: Any = None, **options: Any
) -> list[mb.ConsumerRecord]:
    config = {"bootstrap.servers": broker.bootstrap, "group.id": f"group-{next(NAMES)}", "enable.auto.commit": False}
    config |= {"auto.offset.reset": "earliest", "fetch.message.max.bytes": 16 << 20, **(settings or {})}
    consumer = ours.Consumer(config, **options)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[mb.ConsumerRecord] = []
    end = time.monotonic() + PATIENCE
    while len(found) < count and time.monotonic() < end:
        # Both calls take their turns.
        if len(found) % 2:
            found += consumer.consume(100, 0.5)
        elif (record := consumer.poll(0.5)) is not None:
            found.append(record)
    consumer.close()
    return found


def receive_confluent_aio(broker: Broker, topic: str, count: int, **options: Any) -> list[mb.ConsumerRecord]:
    async def run() -> list[mb.ConsumerRecord]:
        config = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"group-{next(NAMES)}",
            "enable.auto.commit": False,
        }
        consumer = ours.AIOConsumer(config, **options)
        await consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[mb.ConsumerRecord] = []
        end = time.monotonic() + PATIENCE
        while len(found) < count and time.monotonic() < end:
            found += await consumer.consume(100, 0.5)
            if (record := await consumer.poll(0.1)) is not None:
                found.append(record)
        await consumer.close()
        return found

    return asyncio.run(run())


def receive_aiokafka(
    broker: Broker, topic: str, count: int, settings: Any = None, **options: Any
) -> list[mb.ConsumerRecord]:
    async def run() -> list[mb.ConsumerRecord]:
        consumer = ours_aio.AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, max_partition_fetch_bytes=16 << 20, **(settings or {}), **options
        )
        found: list[mb.ConsumerRecord] = []
        async with consumer:
            where = ours_aio.TopicPartition(topic, 0)
            consumer.assign([where])
            await consumer.seek_to_beginning(where)
            end = time.monotonic() + PATIENCE
            while len(found) < count and time.monotonic() < end:
                for some in (await consumer.getmany(timeout_ms=500, max_records=20)).values():
                    found += some
                if len(found) < count:
                    found.append(await asyncio.wait_for(consumer.getone(), PATIENCE))
        return found

    return asyncio.run(run())


SENDERS: dict[str, Callable[..., None]] = {
    "confluent": send_confluent,
    "confluent-aio": send_confluent_aio,
    "aiokafka": send_aiokafka,
}
RECEIVERS: dict[str, Callable[..., list[mb.ConsumerRecord]]] = {
    "confluent": receive_confluent,
    "confluent-aio": receive_confluent_aio,
    "aiokafka": receive_aiokafka,
}
EACH_SENDER = pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS)
EACH_RECEIVER = pytest.mark.parametrize("receive", RECEIVERS.values(), ids=RECEIVERS)


def rows(records: Iterable[Any]) -> list[Row]:
    return [Row.of(record)._replace(leader_epoch=None) for record in records]


def java(java_consumer: JavaConsumer, topic: str, isolation: Any = "read_uncommitted") -> list[Row]:
    return [row._replace(leader_epoch=None) for row in java_consumer.rows(topic, 0, isolation)]


def content(records: Iterable[Any]) -> list[Any]:
    return [(record.key, record.value, record.headers.to_list()) for record in records]


@EACH_SENDER
def test_odd_records_come_back_equal(broker: Broker, java_consumer: JavaConsumer, topic: str, send: Any) -> None:
    records = odd_records(topic, empty=send is not send_aiokafka)
    send(broker, records)
    assert all(record.headers.read_only for record in records)
    expected = java(java_consumer, topic)
    assert [(row.key, row.value, list(row.headers)) for row in expected] == content(records)
    assert [row.timestamp for row in expected] == [record.timestamp for record in records]
    for name, receive in RECEIVERS.items():
        found = receive(broker, topic, len(records))
        assert rows(found) == expected, name
        assert {(record.topic, record.partition) for record in found} == {(topic, 0)}
        assert not any(record.headers.read_only for record in found)
    assert rows(mb.Log(broker.partition_dir(topic)).records()) == expected


def test_leader_epochs_are_those_of_the_segment(broker: Broker, topic: str) -> None:
    send_confluent(broker, [mb.ProducerRecord(topic, b"v")])
    (record,) = receive_confluent(broker, topic, 1)
    assert record.leader_epoch == next(iter(mb.Log(broker.partition_dir(topic)).records())).leader_epoch


@EACH_SENDER
@EACH_RECEIVER
def test_a_mirror_keeps_everything(
    broker: Broker, java_consumer: JavaConsumer, topic: str, send: Any, receive: Any
) -> None:
    send_confluent(broker, odd_records(topic) + odd_records(topic)[::-1])
    copy = broker.create_topic(f"{topic}-mirror")
    found = receive(broker, topic, len(java(java_consumer, topic)))
    send(broker, [record.to_producer_record(copy) for record in found])
    assert java(java_consumer, copy) == java(java_consumer, topic)
    # What was received stays open, whatever its copies went through.
    assert not any(record.headers.read_only for record in found)


class TestChains:
    @staticmethod
    def hop(record: Any) -> Any:
        """Adds, changes and drops."""
        record.headers.add("hop", b"%d" % len(record.headers.get("hop")))
        record.headers.remove("null")
        if (header := record.headers.last_header("one")) is not None:
            record.headers.remove(header).add("one", b"changed")
        return record

    @staticmethod
    def expected(pairs: Any) -> Any:
        kept = [pair for pair in pairs if pair[0] not in ("null", "one")]
        return [*kept, ("hop", b"0"), *([("one", b"changed")] if ("one", b"1") in pairs else [])]

    @EACH_SENDER
    def test_on_the_way_out(self, broker: Broker, java_consumer: JavaConsumer, topic: str, send: Any) -> None:
        chain = Chain(self.hop, errors="raise")
        send(broker, odd_records(topic), interceptors=chain)
        assert [list(row.headers) for row in java(java_consumer, topic)] == [
            self.expected(record.headers.to_list()) for record in odd_records(topic)
        ]
        assert chain.timings["hop"].calls == len(odd_records(topic))

    @EACH_RECEIVER
    def test_on_the_way_in(self, broker: Broker, topic: str, receive: Any) -> None:
        send_confluent(broker, odd_records(topic))
        plain = odd_records(topic)
        found = receive(broker, topic, len(plain), interceptors=Chain(self.hop, errors="raise"))
        assert [record.headers.to_list() for record in found] == [
            self.expected(record.headers.to_list()) for record in plain
        ]

    @EACH_SENDER
    @EACH_RECEIVER
    def test_one_record_travels_as_many(self, broker: Broker, topic: str, send: Any, receive: Any) -> None:
        class Split:
            """Values in pieces, put together again."""

            def __init__(self) -> None:
                self.pieces: list[bytes] = []

            def post_serialize(self, record: Any) -> Any:
                for start in range(0, len(record.value), 3):
                    piece = record.replace(value=record.value[start : start + 3])
                    piece.headers.add("more", b"1" if start + 3 < len(record.value) else b"0")
                    yield piece

            def pre_deserialize(self, record: Any) -> Any:
                self.pieces.append(record.value)
                if record.headers.last_header("more").value == b"1":
                    return ()
                whole = record.replace(value=b"".join(self.pieces))
                whole.headers.remove("more")
                self.pieces.clear()
                return whole

        records = [mb.ProducerRecord(topic, b"x" * size, b"k", [("n", b"%d" % size)], 0) for size in (1, 3, 4, 10, 7)]
        send(broker, records, interceptors=Chain(Split(), errors="raise"))
        assert broker.end_offset(topic) == 1 + 1 + 2 + 4 + 3
        found = receive(broker, topic, len(records), interceptors=Chain(Split(), errors="raise"))
        assert content(found) == content(records)

    @EACH_SENDER
    def test_a_record_that_the_chain_drops(self, broker: Broker, topic: str, send: Any) -> None:
        records = [mb.ProducerRecord(topic, b"%d" % number, None, (), 0) for number in range(4)]
        send(broker, records, interceptors=Chain(lambda record: record if record.value != b"2" else ()))
        assert [record.value for record in receive_confluent(broker, topic, 3)] == [b"0", b"1", b"3"]

    def test_acknowledgements_and_delivery_callbacks(self, broker: Broker, topic: str) -> None:
        seen: list[Any] = []
        delivered: list[Any] = []

        class Audit(ProducerInterceptor):
            def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
                seen.append((metadata, error, headers.to_list()))

        def twice(record: Any) -> Any:
            return (record, record.copy()) if record.value == b"twice" else () if record.value == b"never" else record

        config = {"bootstrap.servers": broker.bootstrap, "message.max.bytes": 1000}
        producer = ours.Producer(config, interceptors=Chain(twice, Audit(), errors="raise"))

        def report(error: Any, message: Any) -> None:
            delivered.append((error, message.offset()))

        for value in (b"twice", b"never", b"once"):
            producer.produce(mb.ProducerRecord(topic, value, None, [("v", value)], 0, T), on_delivery=report)
            producer.flush(PATIENCE)
        assert delivered == [(None, 1), (None, 2)]
        assert [(one[0], one[2]) for one in seen] == [
            (RecordMetadata(topic, 0, 0, T), [("v", b"twice")]),
            (RecordMetadata(topic, 0, 1, T), [("v", b"twice")]),
            (RecordMetadata(topic, 0, 2, T), [("v", b"once")]),
        ]
        with pytest.raises(KafkaException):
            producer.produce(mb.ProducerRecord(topic, b"x" * 5000))
        producer.produce("no such topic?", b"v", on_delivery=report)
        producer.flush(PATIENCE)
        assert delivered[-1][0].code() in (KafkaError._UNKNOWN_TOPIC, KafkaError.TOPIC_EXCEPTION)
        assert isinstance(seen[-1][1], KafkaException)

    def test_aiokafkas_acknowledgements(self, broker: Broker, topic: str) -> None:
        seen: list[Any] = []

        class Audit(ProducerInterceptor):
            def on_acknowledgement(self, metadata: Any, error: Any, headers: Any) -> None:
                seen.append((metadata, error))

        send_aiokafka(broker, [mb.ProducerRecord(topic, b"v", None, (), 0, T)], interceptors=Audit())
        assert seen == [(RecordMetadata(topic, 0, 0, T), None)]

    def test_commits(self, broker: Broker, topic: str) -> None:
        send_confluent(broker, [mb.ProducerRecord(topic, b"%d" % number, None, (), 0) for number in range(5)])
        seen: list[Any] = []

        class Audit:
            def on_commit(self, offsets: Any) -> None:
                seen.append(dict(offsets))

        group = f"group-{next(NAMES)}"
        users: list[Any] = []
        consumer = ours.Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "on_commit": lambda error, parts: users.append((error, [part.offset for part in parts])),
            },
            interceptors=Audit(),
        )
        consumer.subscribe([topic])
        records = []
        while len(records) < 3:
            records += [record for record in [consumer.poll(PATIENCE)] if record is not None]
        consumer.commit(records[0], asynchronous=False)
        assert seen.pop() == {(topic, 0): 1}
        consumer.commit(records[1])
        end = time.monotonic() + PATIENCE
        while not seen and time.monotonic() < end:
            consumer.poll(0.2)
        assert seen == [{(topic, 0): 2}]
        assert users == [(None, [2])]
        consumer.close()

        async def with_aiokafka() -> None:
            consumer = ours_aio.AIOKafkaConsumer(
                topic,
                bootstrap_servers=broker.bootstrap,
                group_id=group,
                enable_auto_commit=False,
                interceptors=Audit(),
            )
            async with consumer:
                # Where the other client's commit left off.
                assert (await asyncio.wait_for(consumer.getone(), PATIENCE)).value == b"2"
                await consumer.commit()
                await consumer.commit({ours_aio.TopicPartition(topic, 0): 4})

        asyncio.run(with_aiokafka())
        assert seen[1:] == [{(topic, 0): 3}, {(topic, 0): 4}]


class TestSerdes:
    RECORD: ClassVar[Any] = {"an": ["object", None]}

    @EACH_SENDER
    @EACH_RECEIVER
    def test_objects_there_and_back(self, broker: Broker, topic: str, send: Any, receive: Any) -> None:
        class Stamped(serdes.JsonSerializer):
            def serialize(self, topic: str, headers: mb.Headers, data: Any) -> bytes | None:
                headers.add("content-type", b"application/json")
                return super().serialize(topic, headers, data)

        record = mb.ProducerRecord(topic, self.RECORD, 7, [("a", None)], 0)
        send(broker, [record], key_serializer=serdes.LongSerializer(), value_serializer=Stamped())
        # As Java has it: the record shows what its serializers added.
        assert record.headers.to_list() == [("a", None), ("content-type", b"application/json")]
        assert record.value == self.RECORD
        (found,) = receive(
            broker,
            topic,
            1,
            key_deserializer=lambda data: int.from_bytes(data, "big"),
            value_deserializer=serdes.JsonDeserializer(),
        )
        assert (found.key, found.value, found.headers) == (7, self.RECORD, record.headers)

    @EACH_RECEIVER
    def test_what_cannot_be_read_is_raised_in_its_turn(self, broker: Broker, topic: str, receive: Any) -> None:
        values = [b"1", b"2", b"no json", b"3", b"{", b"[]"]
        send_confluent(broker, [mb.ProducerRecord(topic, value, None, [("v", value)], 0) for value in values])
        with pytest.raises(serdes.SerializationError) as caught:
            receive(broker, topic, 6, value_deserializer=serdes.JsonDeserializer())
        assert (caught.value.topic, caught.value.field) == (topic, "value")
        assert caught.value.record.headers.get("v") == [b"no json"]

    def test_it_goes_on_behind_it(self, broker: Broker, topic: str) -> None:
        values = [b"1", b"2", b"no json", b"3", b"{", b"[]"]
        send_confluent(broker, [mb.ProducerRecord(topic, value, None, (), 0) for value in values])
        config = {"bootstrap.servers": broker.bootstrap, "group.id": "x", "enable.auto.commit": False}
        consumer = ours.Consumer(config, value_deserializer=serdes.JsonDeserializer())
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[Any] = []
        while len(found) < len(values):
            try:
                found += [record.value for record in consumer.consume(10, 5)]
            except serdes.SerializationError as error:
                found.append(error.record.value)
        assert found == [1, 2, b"no json", 3, b"{", []]
        consumer.close()

    @EACH_SENDER
    def test_what_cannot_be_written_is_not_sent_and_stays_open(self, broker: Broker, topic: str, send: Any) -> None:
        record = mb.ProducerRecord(topic, "no number", b"k", [("a", b"1")], 0)
        chain = Chain(TestChains.hop)
        for options in ({"value_serializer": serdes.LongSerializer()}, {"key_serializer": str.encode}):
            with pytest.raises((serdes.SerializationError, TypeError)):
                send(broker, [record], interceptors=chain, **options)
            assert not record.headers.read_only
            assert record.headers.to_list() == [("a", b"1")]
        assert broker.end_offset(topic) == 0
        with pytest.raises(serdes.SerializationError, match="needs a serializer"):
            send(broker, [mb.ProducerRecord(topic, {"an": "object"})])

    @EACH_SENDER
    def test_a_tombstone_with_a_value_is_refused(self, broker: Broker, topic: str, send: Any) -> None:
        for record in (
            mb.ProducerRecord(topic, b"why", b"k", tombstone=True),
            mb.ProducerRecord(topic, None, b"k", tombstone=False),
        ):
            with pytest.raises(ValueError, match="KIP-87"):
                send(broker, [record])


class TestResending:
    @EACH_SENDER
    def test_a_closed_record_goes_again_as_it_is(self, broker: Broker, topic: str, send: Any) -> None:
        record = mb.ProducerRecord(topic, b"v", b"k", [("a", b"1")], 0)
        send(broker, [record])
        send(broker, [record], interceptors=Chain(lambda it: it), value_serializer=serdes.BytesSerializer())
        assert broker.end_offset(topic) == 2
        with pytest.raises(mb.IllegalStateError, match=r"record\.copy\(\)"):
            send(broker, [record], interceptors=Chain(TestChains.hop))
        assert broker.end_offset(topic) == 2
        send(broker, [record.copy()], interceptors=Chain(TestChains.hop))
        found = receive_confluent(broker, topic, 3)
        assert [len(one.headers) for one in found] == [1, 1, 2]

    def test_a_full_queue_leaves_the_record_as_it_was(self, broker: Broker, topic: str) -> None:
        config = {"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 2, "linger.ms": 120_000}
        producer = ours.Producer(config, interceptors=Chain(TestChains.hop, errors="raise"))
        records = [mb.ProducerRecord(topic, b"%d" % number, None, [("a", b"1")], 0) for number in range(5)]
        full = 0
        for record in records:
            while True:
                try:
                    producer.produce(record)
                    break
                except BufferError:
                    full += 1
                    assert record.headers.to_list() == [("a", b"1")] and not record.headers.read_only
                    producer.flush(60)  # which does not linger
        producer.flush(60)
        assert full == 2
        assert [found.headers.keys() for found in receive_confluent(broker, topic, 5)] == [["a", "hop"]] * 5


class TestPassedThrough:
    """What the clients do besides is theirs."""

    def test_the_clients_own_arguments(self, broker: Broker, topic: str) -> None:
        producer = ours.Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(topic, "text", "key", 0, timestamp=T, headers={"a": "1", "b": None})
        producer.produce(topic, value=b"v", headers=[("a", b"1"), ("a", "2")])
        producer.flush(PATIENCE)

        async def with_aiokafka() -> None:
            async with ours_aio.AIOKafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
                await producer.send_and_wait(topic, b"v", key=b"k", partition=0, timestamp_ms=T, headers=[("a", b"1")])

        asyncio.run(with_aiokafka())
        assert content(receive_confluent(broker, topic, 3)) == [
            (b"key", b"text", [("a", b"1"), ("b", None)]),
            (None, b"v", [("a", b"1"), ("a", b"2")]),
            (b"k", b"v", [("a", b"1")]),
        ]
        assert isinstance(producer, confluent_kafka.Producer)

    def test_a_batch_goes_through_serializers_and_chain(self, broker: Broker, topic: str) -> None:
        config = {"bootstrap.servers": broker.bootstrap, "message.max.bytes": 1000}
        chain = Chain(TestChains.hop, errors="raise")
        producer = ours.Producer(config, value_serializer=serdes.JsonSerializer(), interceptors=chain)
        one: list[Any] = []
        rest: list[Any] = []
        messages: list[dict[str, Any]] = [
            {
                "value": 1,
                "key": "k",
                "headers": [("one", b"1")],
                "timestamp": T,
                "on_delivery": lambda *it: one.append(it[0]),
            },
            {"value": "x" * 5000},
            {"value": [2], "partition": 0},
        ]
        assert producer.produce_batch(topic, messages, 0, on_delivery=lambda *it: rest.append(it[0])) == 2
        assert producer.flush(30) == 0
        assert (one, rest) == ([None], [None])
        assert ["_error" in message for message in messages] == [False, True, False]
        assert messages[1]["_error"].code() == KafkaError.MSG_SIZE_TOO_LARGE
        found = receive_confluent(broker, topic, 2)
        assert content(found) == [(b"k", b"1", [("hop", b"0"), ("one", b"changed")]), (None, b"[2]", [("hop", b"0")])]
        for wrong in ((), [b"v"]):
            with pytest.raises(TypeError):
                producer.produce_batch(topic, wrong)  # type: ignore[arg-type]
        with pytest.raises(serdes.SerializationError) as caught:
            producer.produce_batch(topic, [{"value": 1}, {"value": b"no JSON"}])
        assert caught.value.__notes__ == ["message 1 of produce_batch"]
        producer.purge()
        small = ours.Producer({"bootstrap.servers": "127.0.0.1:1", "queue.buffering.max.messages": 2, "log_level": 0})
        full: list[dict[str, Any]] = [{"value": b"%d" % number} for number in range(4)]
        assert small.produce_batch(topic, full) == 2
        assert [message["_error"].code() for message in full[2:]] == [KafkaError._QUEUE_FULL] * 2
        small.purge()

    @pytest.mark.parametrize("client", ["confluent", "confluent-aio", "aiokafka"])
    def test_an_aborted_transaction_leaves_nothing_for_a_read_committed_reader(
        self, broker: Broker, java_consumer: JavaConsumer, topic: str, client: str
    ) -> None:
        chain = Chain(TestChains.hop, errors="raise")
        batches = [
            [mb.ProducerRecord(topic, b"%d-%d" % (turn, number), None, [("t", b"%d" % turn)], 0) for number in range(3)]
            for turn in range(3)
        ]

        def with_confluent() -> None:
            config = {"bootstrap.servers": broker.bootstrap, "transactional.id": topic}
            producer = ours.Producer(config, interceptors=chain)
            producer.init_transactions(PATIENCE)
            for turn, batch in enumerate(batches):
                producer.begin_transaction()
                for record in batch:
                    producer.produce(record)
                producer.flush(PATIENCE)
                (producer.abort_transaction if turn == 1 else producer.commit_transaction)(PATIENCE)

        async def with_confluent_aio() -> None:
            config = {"bootstrap.servers": broker.bootstrap, "transactional.id": topic}
            async with ours.AIOProducer(config, interceptors=chain) as producer:
                await producer.init_transactions(PATIENCE)
                for turn, batch in enumerate(batches):
                    await producer.begin_transaction()
                    futures = [await producer.produce(record) for record in batch]
                    await asyncio.gather(*futures)
                    await (producer.abort_transaction(PATIENCE) if turn == 1 else producer.commit_transaction(PATIENCE))

        async def with_aiokafka() -> None:
            options = {"bootstrap_servers": broker.bootstrap, "transactional_id": topic, "interceptors": chain}
            async with ours_aio.AIOKafkaProducer(**options) as producer:
                for turn, batch in enumerate(batches):
                    await producer.begin_transaction()
                    await asyncio.gather(*[await producer.send(record) for record in batch])
                    await (producer.abort_transaction() if turn == 1 else producer.commit_transaction())

        if client == "confluent":
            with_confluent()
        else:
            asyncio.run(with_aiokafka() if client == "aiokafka" else with_confluent_aio())
        everything = java(java_consumer, topic)
        committed = java(java_consumer, topic, "read_committed")
        assert len(everything) == 9
        assert [row.value for row in committed] == [record.value for turn in (0, 2) for record in batches[turn]]
        assert all(("hop", b"0") in row.headers for row in everything)
        found = receive_confluent(broker, topic, 6, {"isolation.level": "read_committed"})
        assert rows(found) == committed
        found = receive_aiokafka(broker, topic, 6, {"isolation_level": "read_committed"})
        assert rows(found) == committed
        assert rows(receive_confluent(broker, topic, 9, {"isolation.level": "read_uncommitted"})) == everything

    def test_errors_of_the_client_are_raised(self, broker: Broker, topic: str) -> None:
        send_confluent(broker, [mb.ProducerRecord(topic, b"v", None, (), 0)])
        config = {"bootstrap.servers": broker.bootstrap, "group.id": "eof", "enable.partition.eof": True}
        consumer = ours.Consumer(config)
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert consumer.poll(PATIENCE) is not None
        with pytest.raises(KafkaException) as caught:
            consumer.poll(PATIENCE)
        assert caught.value.args[0].code() == KafkaError._PARTITION_EOF
        consumer.seek(TopicPartition(topic, 0, 0))
        assert consumer.poll(PATIENCE) is not None
        consumer.close()
        started = time.monotonic()
        empty = ours.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none"})
        assert empty.poll(0.2) is None and empty.consume(5, 0.2) == []
        assert time.monotonic() - started < 60  # no hang
        empty.close()

    def test_a_group_shares_partitions(self, broker: Broker) -> None:
        topic = broker.create_topic(f"group-{next(NAMES)}", 2)
        send_confluent(broker, [mb.ProducerRecord(topic, b"%d" % number, None, (), number % 2) for number in range(20)])
        assigned: list[Any] = []
        config = {"bootstrap.servers": broker.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
        consumer = ours.Consumer(config)
        consumer.subscribe([topic], on_assign=lambda consumer, parts: assigned.append((type(consumer), len(parts))))
        found: list[Any] = []
        end = time.monotonic() + PATIENCE
        while len(found) < 20 and time.monotonic() < end:
            found += consumer.consume(20, 0.5)
        assert sorted(int(record.value) for record in found) == list(range(20))
        assert assigned == [(ours.Consumer, 2)]
        consumer.close()


def test_many_records(broker: Broker, java_consumer: JavaConsumer, topic: str) -> None:
    messages = stream(3000, seed=77)
    records = [mb.ProducerRecord(topic, m.value, m.key, m.headers, 0, m.timestamp) for m in messages]
    send_confluent(broker, records, {"compression.type": "zstd"})
    expected = java(java_consumer, topic)
    assert rows(receive_confluent(broker, topic, 3000)) == expected
    assert rows(receive_aiokafka(broker, topic, 3000)) == expected
    assert rows(mb.Log(broker.partition_dir(topic)).records()) == expected
