"""All middlewares in one chain: through a real broker and back, through Spark, over the segment on disk; and without any one of them."""

from __future__ import annotations

import json
import random
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from broker import Broker
from test_clients import receive_confluent, send_confluent

import magicbyte as mb
from magicbyte import serdes
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined

pytest.importorskip("cryptography")
pytest.importorskip("zstandard")
pytest.importorskip("fastavro")
pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("fsspec")
pytest.importorskip("pyarrow")

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from magicbyte.middleware.auth import Rule, TokenGate, TokenIssuer
from magicbyte.middleware.chargeback import ChargeBack
from magicbyte.middleware.claim_check import Claim, ClaimCheck
from magicbyte.middleware.cloudevents import CloudEvents, event_of
from magicbyte.middleware.compaction import Compaction
from magicbyte.middleware.compression import Compression
from magicbyte.middleware.dead_letters import DeadLetters, parse
from magicbyte.middleware.encryption import Encryption, LocalKeyProvider
from magicbyte.middleware.keys import Ed25519Key, KeyRing
from magicbyte.middleware.large_messages import LargeMessages
from magicbyte.middleware.polyglot import Polyglot
from magicbyte.middleware.predicates import equals
from magicbyte.middleware.registries import MemoryRegistry
from magicbyte.middleware.retention import Retention
from magicbyte.middleware.router import Router, To
from magicbyte.middleware.schemas import SchemaHeaders
from magicbyte.middleware.signing import Signing, signed_bytes
from magicbyte.middleware.tracing import Tracing
from magicbyte.middleware.trail import Trail

TOPIC = "all-middlewares"
KEY = Ed25519Key(private=bytes(range(32)))
KEYS = KeyRing({"2026": KEY})
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "user", "type": "string"}],
}
REGISTRY = MemoryRegistry({1: json.dumps(ORDER)})
LETTERS: list[mb.ProducerRecord] = []
DAY = 86_400_000

# In the order of sending; receiving is the other way round.
ALL = (
    "schemas polyglot cloudevents tracing trail retention compaction router chargeback compression encryption claim_check "
    "large_messages signing auth"
).split()

text = "".join(random.Random(8).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=9000))
PAYLOADS: list[tuple[bytes, Any, list[tuple[str, bytes]]]] = [
    (b"k0", {"id": 1, "user": "ada"}, [("version", b"2"), ("tenant", b"eu")]),
    (b"k1", "small and plain " * 20, [("tenant", b"us")]),
    (b"k2", text[:3000], []),  # in chunks
    (b"k3", text, []),  # in storage
    (b"k4", None, []),
    (b"k5", {"id": 2, "user": "test"}, [("test", b"1")]),  # the router drops it
    (b"k0", {"id": 0, "user": "old"}, [("version", b"1")]),  # stale
]


def letter(record: mb.ProducerRecord) -> None:
    LETTERS.append(record)


def middlewares(names: set[str], place: Path, tracer: Any = None) -> dict[str, Any]:
    dead = DeadLetters(send=letter)
    strict = {"policy": "quarantine", "quarantine": dead}
    schemas = SchemaHeaders(registry=REGISTRY, schema=ORDER, policy="pass")
    kinds = {"text/plain": serdes.StringSerializer()}
    readers: dict[str, Any] = {"text/plain": serdes.StringDeserializer()}
    if "schemas" in names:
        kinds["avro/binary"] = readers["avro/binary"] = schemas  # type: ignore[assignment]
    else:
        kinds["application/json"], readers["application/json"] = serdes.JsonSerializer(), serdes.JsonDeserializer()
    both: dict[str, Any] = {
        # Polyglot asks it for what is Avro; it stands for itself where there is none.
        "schemas": schemas if "polyglot" not in names else None,
        "polyglot": Polyglot(
            readers,
            serializers=kinds,
            classes={dict: "avro/binary" if "schemas" in names else "application/json", str: "text/plain"},
            **strict,
        ),
        "cloudevents": CloudEvents(source="/shop", type="com.example.order", **strict),
        "tracing": Tracing(tracer_provider=tracer, spans=tracer is not None),
        "trail": Trail("shop", cluster="eu", audit=True, deletes=True),
        "retention": Retention(set_ttl=DAY),
        "compaction": Compaction("version"),
        "router": Router((equals("test", b"1"), To(None))),
        "chargeback": ChargeBack("tenant"),
        "compression": Compression(**strict),
        "encryption": Encryption(provider=LocalKeyProvider({"m": bytes(32)}), **strict),
        "claim_check": ClaimCheck(f"file://{place}/payloads", threshold=5000),
        "large_messages": LargeMessages(chunk_size=1000),
        "signing": Signing(keys=KEYS, sign_with="2026", headers=("ce_id", "tenant"), bind_topic=True, **strict),
        "auth": TokenIssuer(keys=KEYS, sign_with="2026", principal="shop", topics="all-*"),
        "gate": TokenGate(keys=KEYS.public(), rules=[Rule("shop", "all-*")], principal="mb.principal", **strict),
    }
    chosen = names | ({"gate"} if "auth" in names else set())
    return {name: both[name] for name in [*ALL, "gate"] if name in chosen and both[name] is not None}


def sending(found: dict[str, Any]) -> Chain:
    return Chain(*(one for name, one in found.items() if name not in ("gate", "compaction")), errors="raise")


def receiving(found: dict[str, Any]) -> Chain:
    back = [one for name, one in found.items() if name not in ("auth", "router")]
    return Chain(*back[::-1], errors="raise")


def given(names: set[str], timestamp: int = 1_900_000_000_000) -> list[mb.ProducerRecord]:
    """The records as a user sends them: objects where somebody serializes, else bytes."""
    records = []
    for number, (key, value, headers) in enumerate(PAYLOADS):
        if isinstance(value, str) and "polyglot" not in names:
            value = value.encode()
        if isinstance(value, dict) and not names & {"polyglot", "schemas"}:
            value = json.dumps(value).encode()
        records.append(mb.ProducerRecord(TOPIC, value, key, headers, 0, timestamp + number))
    return records


def expected(names: set[str]) -> list[tuple[bytes, Any]]:
    rows = [(record.key, record.value) for record in given(names)]
    return [
        row
        for number, row in enumerate(rows)
        if not (number == 5 and "router" in names) and not (number == 6 and "compaction" in names)
    ]


def payloads(records: Any) -> list[tuple[bytes, Any]]:
    """Out of chunks and storage a message comes where its last part was."""
    return [(record.key, record.value) for record in records]


FORGED = mb.ProducerRecord(
    TOPIC, b"\0\0\0\0\1forged", b"forged", [("ce_id", b"1"), ("ce_specversion", b"1.0")], 0, 1_900_000_000_100
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("claims")


@pytest.fixture(scope="module")
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture(scope="module")
def segment(broker: Broker, place: Path, spans: InMemorySpanExporter) -> Path:
    """The partition directory at the broker, after a real producer wrote through the chain, and a forger without it."""
    broker.create_topic(TOPIC, config={"retention.ms": "-1"})
    tracer = TracerProvider()
    tracer.add_span_processor(SimpleSpanProcessor(spans))
    send_confluent(broker, given(set(ALL)), interceptors=sending(middlewares(set(ALL), place, tracer)))
    send_confluent(broker, [FORGED])
    return broker.segments(TOPIC)[0].parent


def check_received(records: list[mb.ConsumerRecord]) -> None:
    assert payloads(records) == expected(set(ALL))
    for record in records:
        assert record.headers.last["mb.principal"] == b"shop" and "mb.auth" not in record.headers
        assert not quarantined(record) and record.headers.last["mb.ttl"] == b"%d" % DAY


def test_through_a_real_broker_and_back(
    broker: Broker, segment: Path, place: Path, spans: InMemorySpanExporter
) -> None:
    LETTERS.clear()
    tracer = TracerProvider()
    tracer.add_span_processor(SimpleSpanProcessor(spans))
    found = middlewares(set(ALL), place, tracer)
    count = len(expected(set(ALL)))
    records = receive_confluent(broker, TOPIC, count, interceptors=receiving(found))
    check_received(records)
    # One trace a record, over both processes' spans.
    sent = {span.context.trace_id for span in spans.get_finished_spans() if span.name.startswith("create")}
    read = {span.context.trace_id for span in spans.get_finished_spans() if span.name.startswith("receive")}
    assert len(read) >= count and read <= sent
    assert found["chargeback"].table()[0]["records"] > 0
    assert found["signing"].counts["valid"] == found["gate"].counts["allowed"] > count


def test_over_the_log_file(segment: Path, place: Path) -> None:
    LETTERS.clear()
    found = middlewares(set(ALL), place)
    check_received(list(receiving(found)(mb.Log(segment).records())))
    [forged] = LETTERS
    assert forged.topic == TOPIC + "-dlt" and forged.value == FORGED.value
    said = parse(forged.headers)
    assert said is not None and "TokenGate: missing" in str(said.message)
    assert found["gate"].counts["missing"] == 1 and found["compaction"].counts["stale"] == 1


def test_the_headers_in_the_segment(segment: Path, place: Path) -> None:
    """Byte by byte, as the pages say, without the middlewares' own readers where that is possible."""
    stored = [record for record in mb.Log(segment).records() if record.key != b"forged"]
    by_key: dict[Any, list[mb.ConsumerRecord]] = {}
    for record in stored:
        by_key.setdefault(record.key, []).append(record)
    counted = {key: len(some) for key, some in by_key.items()}
    assert counted.pop(b"k2") > 1 and counted == {b"k0": 2, b"k1": 1, b"k3": 1, b"k4": 1}
    for record in stored:  # auth and signing: all, chunks too
        token = record.headers.last["mb.auth"] or b""
        assert token[:3] == b"\1\2\0" and token[3:].startswith(b"\0042026\4shop\5all-*")
        issued, expires = struct.unpack(">qq", token[-80:-64])
        assert expires - issued == 600_000
        assert KEY.verify(b"magicbyte.token.1\0" + token[:-64], token[-64:])
        signature = record.headers.last["mb.sig"] or b""
        assert signature[:3] == b"\1\2\1" and signature[3:-64] == b"\0042026\2\5ce_id\6tenant"
        names = ("ce_id", "tenant")
        message = signed_bytes(signature[:-64], TOPIC, record.key, record.value, record.headers, names, True)
        assert KEY.verify(message, signature[-64:])
    first = {key: some[0].headers.last for key, some in by_key.items()}
    for key, headers in first.items():  # what the first chunk keeps
        assert event_of(by_key[key][0]).source == "/shop", key
        assert re.fullmatch(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]", headers["traceparent"] or b"")
        trail = headers["mb.trail"] or b""
        assert trail[:2] == b"\1\0" and trail.endswith(b"\4shop\0\0\2eu" + bytes([len(TOPIC)]) + TOPIC.encode())
        assert len(headers["mb.audit"] or b"") > 17 and headers["mb.ttl"] == b"%d" % DAY
        encrypted = headers.get("mb.enc")
        assert (encrypted is None) == (key == b"k4")
        assert encrypted is None or (encrypted[:5] == b"\1\1\3\1m" and len(encrypted) == 5 + 2 + 40 + 12)
    assert first[b"k0"]["__value_schema_id"][0] == 1 and len(first[b"k0"]["__value_schema_id"]) == 17  # type: ignore[index, arg-type]
    assert {key: headers.get("content-type") for key, headers in first.items()} == {
        b"k0": b"avro/binary",
        b"k1": b"text/plain",
        b"k2": b"text/plain",
        b"k3": b"text/plain",
        b"k4": None,
    }
    assert first[b"k1"]["content-encoding"] == b"zstd" and "content-encoding" not in first[b"k0"]
    assert all("mb.chunk" in record.headers for record in by_key[b"k2"])
    claim = Claim.from_bytes(first[b"k3"]["mb.claim"])
    assert claim.url.startswith(f"file://{place}/payloads") and by_key[b"k3"][0].value == b""
    assert by_key[b"k4"][0].tombstone and (first[b"k4"]["mb.deleted"] or b"").endswith(b"\4shop")
    assert all(b"small and plain" not in (record.value or b"") for record in stored)


def rows(partition: Any, chain: Chain) -> Any:
    for record in chain(partition):
        yield record.key, record.value, record.headers.last["mb.principal"]


class InArrow:
    """The receiving side over columns: those of the chain that work on bytes, one behind the other."""

    def __init__(self, found: dict[str, Any]) -> None:
        names = (
            "gate signing large_messages claim_check encryption compression compaction retention cloudevents".split()
        )
        self.some = [found[name] for name in names]

    def __call__(self, batches: Any) -> Any:
        for one in self.some:
            batches = one.arrow(batches)
        return batches


def test_through_spark(spark: Any, segment: Path, place: Path) -> None:
    """As records and as columns."""
    import functools

    pytest.importorskip("pyspark.cloudpickle").register_pickle_by_value(__import__(__name__))
    from magicbyte.spark import decode_partition

    files = spark.sparkContext.binaryFiles(str(segment / "*.log"), 1).mapPartitions(decode_partition)
    chain = receiving(middlewares(set(ALL), place))
    found = files.mapPartitions(functools.partial(rows, chain=chain)).collect()
    assert [row[:2] for row in found] == expected(set(ALL)) and {row[2] for row in found} == {b"shop"}
    frame = spark.read.format("magicbyte").load(str(segment))
    columns = frame.mapInArrow(InArrow(middlewares(set(ALL), place)), frame.schema).collect()
    plain = [(key, value.encode() if isinstance(value, str) else value) for key, value in expected(set(ALL))]
    schema = SchemaHeaders(registry=REGISTRY, schema=ORDER)
    plain = [
        (key, schema.serialize("t", mb.Headers(), value) if isinstance(value, dict) else value) for key, value in plain
    ]
    assert [(bytes(row.key), None if row.value is None else bytes(row.value)) for row in columns] == plain


@pytest.mark.parametrize("gone", [None, *ALL])
def test_without_any_one_of_them(gone: str | None, tmp_path: Path) -> None:
    """Over a log in memory: the rest still works, and the payload is what was sent."""
    LETTERS.clear()
    names = set(ALL) - {gone or ""}
    data = b"".join(mb.encode_batches(sending(middlewares(names, tmp_path)).sending(given(names))))
    data += mb.encode([FORGED], base_offset=100)
    found = list(receiving(middlewares(names, tmp_path))(mb.decode(data, topic=TOPIC, partition=0)))
    assert payloads(found) == expected(names)
    [forged] = LETTERS  # by the gate, or by the signature where there is no gate
    assert "missing" in str(forged.headers.last["kafka_dlt-exception-message"])
