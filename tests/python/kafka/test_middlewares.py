"""All middlewares around the other client (``test_all_middlewares.py`` has confluent-kafka's); dead letters, there and back."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

pytest.importorskip("cryptography")
pytest.importorskip("zstandard")
pytest.importorskip("opentelemetry")
pytest.importorskip("fsspec")

from broker import Broker
from test_clients import receive_aiokafka, receive_confluent, send_aiokafka, send_confluent

import magicbyte as mb
from magicbyte.clients.confluent import Producer
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined
from magicbyte.middleware.claim_check import Claim
from magicbyte.middleware.dead_letters import DeadLetters, replay
from magicbyte.middleware.large_messages import Chunk, LargeMessages
from magicbyte.middleware.predicates import equals
from magicbyte.middleware.router import Router, To
from magicbyte.middleware.trail import Trail
from magicbyte.vocabulary import decode_headers

from together import chains, facts, pairs, records


def now() -> int:
    return int(time.time() * 1000)


def stored(broker: Broker, topic: str) -> list[mb.ConsumerRecord]:
    return list(mb.Log(broker.partition_dir(topic)).records())


def test_all_around_aiokafka(broker: Broker, tmp_path: Path) -> None:
    topic = broker.create_topic("together-aiokafka")
    every = pairs((tmp_path / "claims").as_uri(), topic)
    out, back = chains(every)
    before = records(topic, now())
    send_aiokafka(broker, [record.copy() for record in before], interceptors=out)
    got = receive_aiokafka(broker, topic, len(before), interceptors=back)
    assert facts(got) == facts(before)
    assert not [reason for record in got for reason in quarantined(record)]

    on_disk = stored(broker, topic)
    assert len(on_disk) > len(before)
    for record in on_disk:
        names = record.headers.keys()
        assert {"mb.auth", "mb.trail"} <= set(names)
        [hop] = Trail("x").path(record.headers).hops
        assert (hop.who, hop.cluster, hop.topic) == ("shop", "eu", topic)
        chunk = Chunk.from_bytes(record.headers.get("mb.chunk")[0]) if "mb.chunk" in names else None
        if chunk is None or chunk.index == 0:
            assert {"mb.sig", "mb.ttl", "mb.cluster", "mb.audit", "ce_id", "traceparent", "own"} <= set(names)
            assert ("mb.enc" in names) == (record.value is not None)
            said = {one.key: one for one in decode_headers(record.headers) if one.convention is not None}
            assert said["ce_type"].value == "order" and said["traceparent"].error is None
        else:
            assert set(names) == {"mb.chunk", "mb.auth", "mb.trail", "mb.audit"}
        if "mb.claim" in names:
            claim = Claim.from_bytes(record.headers.last["mb.claim"])
            assert (tmp_path / "claims" / topic / claim.digest.hex()).stat().st_size == claim.size
    # The same from the file.
    out, back = chains(pairs((tmp_path / "claims").as_uri(), topic))
    assert facts(back(on_disk)) == facts(before)


def test_dead_letters_and_back(broker: Broker) -> None:
    topic, dlt = broker.create_topic("letters"), broker.create_topic("letters-dlt")
    dead = DeadLetters(group="g", styles=("spring", "connect"))
    before = records(topic, now())
    send_confluent(broker, [record.copy() for record in before])
    letters = [dead.letter(record, ValueError("why")) for record in receive_confluent(broker, topic, len(before))]
    assert {letter.topic for letter in letters} == {dlt}
    send_confluent(broker, letters)
    again = list(replay(receive_confluent(broker, dlt, len(before)), topics={topic}))
    assert facts(again) == facts(before)
    assert [(one.topic, one.partition, one.timestamp) for one in again] == [(topic, 0, one.timestamp) for one in before]
    send_confluent(broker, again)
    assert facts(stored(broker, topic)) == facts(before) * 2


def test_routed_inline_to_other_topics_and_clusters(broker: Broker) -> None:
    topic, elsewhere, far = (broker.create_topic(f"routed-{name}") for name in ("here", "there", "far"))
    second = Producer({"bootstrap.servers": broker.bootstrap})
    router = Router(
        (equals("to", b"there"), elsewhere),
        (equals("to", b"far"), To(far, cluster="far")),
        (equals("to", b"both"), To(elsewhere, also=True)),
        clusters={"far": second.produce},
    )
    sent = [
        mb.ProducerRecord(topic, b"%d" % n, headers=[("to", to)])
        for n, to in enumerate([b"x", b"there", b"far", b"both"])
    ]
    send_confluent(broker, sent, interceptors=router)
    assert second.flush(30) == 0
    values = {name: [record.value for record in stored(broker, name)] for name in (topic, elsewhere, far)}
    assert values == {topic: [b"0", b"3"], elsewhere: [b"1", b"3"], far: [b"2"]}


def test_chunks_without_a_key_come_to_one_partition(broker: Broker) -> None:
    topic = broker.create_topic("keyless-chunks", partitions=5)
    large = LargeMessages(chunk_size=1000)
    values = [bytes([number]) * 4500 for number in range(12)]
    send_confluent(broker, [mb.ProducerRecord(topic, value) for value in values], interceptors=large)
    found = []
    for partition in range(5):
        glue = LargeMessages()
        found += [
            (record.key, record.value)
            for record in Chain(glue)(mb.Log(broker.partition_dir(topic, partition)).records())
        ]
        assert glue.losses == []
    assert sorted(value for _, value in found) == values
    assert {key for key, _ in found} == {None}
