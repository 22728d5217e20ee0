"""What each middleware costs: nanoseconds and bytes a record, record by record and over Arrow; and signatures in Spark.

    python benches/python/middleware.py [--records 20000] [--rounds 3] [--spark 1000000]

Records have a key of 16 bytes, a JSON value of about 250, two headers. Bytes are those of a record in a v2 batch without codec, with
the middleware less without it. Times are the best of the rounds, in processor time; with `--spark` the signatures of so many records are
verified by `mapInArrow` in local[2]: what each of Spark's Python workers did, and when.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware.auth import Rule, TokenGate, TokenIssuer
from magicbyte.middleware.chargeback import ChargeBack
from magicbyte.middleware.claim_check import ClaimCheck
from magicbyte.middleware.cloudevents import CloudEvents
from magicbyte.middleware.compaction import Compaction
from magicbyte.middleware.compression import Compression
from magicbyte.middleware.encryption import Encryption, LocalKeyProvider
from magicbyte.middleware.keys import Ed25519Key, HmacKey, KeyRing
from magicbyte.middleware.large_messages import LargeMessages
from magicbyte.middleware.polyglot import Polyglot
from magicbyte.middleware.registries import MemoryRegistry
from magicbyte.middleware.retention import Retention
from magicbyte.middleware.router import Router
from magicbyte.middleware.schemas import SchemaHeaders
from magicbyte.middleware.signing import Signing
from magicbyte.middleware.tracing import Tracing
from magicbyte.middleware.trail import Trail
from magicbyte.serdes import JsonDeserializer, JsonSerializer

TOPIC = "orders"
BATCH = 10_000
"""Spark's rows in an Arrow batch."""

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "items", "type": {"type": "array", "items": "string"}},
        {"name": "note", "type": "string"},
    ],
}


def objects(count: int) -> list[dict[str, Any]]:
    some = random.Random(4)
    words = [f"{some.getrandbits(40):x}" for _ in range(500)]
    return [
        {
            "id": n,
            "user": some.choice(words),
            "items": some.choices(words, k=8),
            "note": " ".join(some.choices(words, k=8)),
        }
        for n in range(count)
    ]


def producer_records(values: Iterable[Any]) -> list[mb.ProducerRecord]:
    headers = [("content-type", b"application/json"), ("tenant", b"eu")]
    return [
        mb.ProducerRecord(TOPIC, value, b"%016d" % n, headers, 0, 1_700_000_000_000 + n)
        for n, value in enumerate(values)
    ]


def contenders(storage: str) -> dict[str, Any]:
    keys = KeyRing({"mac": HmacKey(bytes(range(32))), "ed": Ed25519Key(private=bytes(range(32)))})
    gate = TokenGate(keys=keys, rules=[Rule("shop", "*")])
    return {
        "signing, HMAC-SHA256": Signing(keys=keys, sign_with="mac"),
        "signing, Ed25519": Signing(keys=keys, sign_with="ed"),
        "encryption, AES-256-GCM": Encryption(provider=LocalKeyProvider({"m": bytes(32)})),
        "compression, zstd 3": Compression(),
        "auth: token, gate": (TokenIssuer(keys=keys, sign_with="ed", principal="shop"), gate),
        "CloudEvents, binary": CloudEvents(source="/shop", type="order"),
        "CloudEvents, structured": CloudEvents(source="/shop", type="order", mode="structured"),
        "polyglot, JSON": Polyglot(
            {"application/json": JsonDeserializer()},
            serializers={"application/json": JsonSerializer()},
            classes={dict: "application/json"},
        ),
        "schemas, Avro and GUID": SchemaHeaders(registry=MemoryRegistry(), schema=ORDER, reader_schema=ORDER),
        "trail, one hop": Trail("shop", cluster="eu"),
        "router, one rule": Router(("nobody", "elsewhere")),
        "tracing, without spans": Tracing(spans=False),
        "large messages, whole": LargeMessages(),
        "claim check, not needed": ClaimCheck(storage),
        "retention, time to live": Retention(set_ttl=1 << 44),
        "compaction by header": Compaction("version"),
        "charge-back": ChargeBack("tenant"),
    }


def timed(work: Callable[[], Any], count: int) -> float:
    """Processor time: what else runs on the machine counts less than it would on a clock."""
    start = time.process_time_ns()
    work()
    return (time.process_time_ns() - start) / count


def in_batches(rows: pa.Table) -> list[pa.RecordBatch]:
    return rows.combine_chunks().to_batches(max_chunksize=BATCH)


def drained(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def measure(name: str, middleware: Any, count: int, rounds: int) -> list[str]:
    sender, receiver = middleware if isinstance(middleware, tuple) else (middleware, middleware)
    works_on_objects = isinstance(sender, Polyglot | SchemaHeaders)
    given = objects(count)
    values = given if works_on_objects else [json.dumps(one).encode() for one in given]
    send, receive, sent_arrow, received_arrow = [], [], [], []
    has = [hasattr(sender, "sending_arrow"), hasattr(receiver, "arrow") and not isinstance(receiver, Polyglot)]
    sending, receiving = Chain(sender, errors="raise"), Chain(receiver, errors="raise")
    plain = None
    if not works_on_objects:
        plain = mb.decode_arrow(b"".join(mb.encode_batches(producer_records(values))), topic=TOPIC, partition=0)
    for _ in range(rounds):
        records = producer_records(values)
        out: list[Any] = []
        send.append(timed(lambda records=records, out=out: out.extend(sending.sending(records)), count))
        stored = list(mb.decode(b"".join(mb.encode_batches(out)), topic=TOPIC, partition=0))
        receive.append(timed(lambda stored=stored: sum(1 for _ in receiving(stored)), len(stored)))
        table = mb.decode_arrow(b"".join(mb.encode_batches(out)), topic=TOPIC, partition=0)
        if isinstance(receiver, SchemaHeaders):
            received_arrow.append(timed(lambda table=table: drained(receiver.typed([])(in_batches(table))), count))
        elif has[1]:
            received_arrow.append(timed(lambda table=table: drained(receiver.arrow(in_batches(table))), count))
        if has[0] and plain is not None:
            sent_arrow.append(timed(lambda: drained(sender.sending_arrow(in_batches(plain))), count))
    codec = "none"
    before_values = [json.dumps(one, separators=(",", ":")).encode() for one in given] if works_on_objects else values
    before = sum(map(len, mb.encode_batches(producer_records(before_values), codec=codec)))
    after = sum(map(len, mb.encode_batches(out, codec=codec)))
    shown = [f"{min(some):,.0f}" if some else "" for some in (send, receive, sent_arrow, received_arrow)]
    return [name, *shown, f"{(after - before) / count:+.0f}"]


def spark_signatures(count: int) -> list[list[str]]:
    """Verification of `count` signed records in Spark, on two cores."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    keys = KeyRing({"mac": HmacKey(bytes(range(32))), "ed": Ed25519Key(private=bytes(range(32)))})
    found = []
    with tempfile.TemporaryDirectory() as place:
        directories = {}
        for name in ("mac", "ed"):
            signing = Signing(keys=keys, sign_with=name)
            directories[name] = Path(place) / name
            values = [json.dumps(one).encode() for one in objects(10_000)]
            signed = b"".join(mb.encode_batches(Chain(signing).sending(producer_records(values))))
            for partition in range(4):
                where = directories[name] / f"{TOPIC}-{partition}"
                where.mkdir(parents=True)
                rest, at = count // 4, 0
                with (where / f"{0:020}.log").open("wb") as out:
                    while rest > 0:
                        part = (
                            signed
                            if rest >= 10_000
                            else b"".join(mb.encode_batches(mb.decode(signed, topic=TOPIC, partition=0)))
                        )
                        out.write(mb.convert(part, "v2", first_offset=at).data)
                        rest, at = rest - 10_000, at + 10_000
        spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        for name, label in (("mac", "HMAC-SHA256"), ("ed", "Ed25519")):
            frame = spark.read.format("magicbyte").load(str(directories[name]))
            work = functools.partial(told, signing=Signing(keys=keys))
            began = time.time()
            tasks = frame.mapInArrow(
                work, "worker long, records long, valid long, cpu double, start double, end double"
            ).collect()
            spent = time.time() - began
            for worker in sorted({task.worker for task in tasks}):
                own = [task for task in tasks if task.worker == worker]
                records, cpu = sum(task.records for task in own), sum(task.cpu for task in own)
                assert records == sum(task.valid for task in own)
                times = f"{min(t.start for t in own) - began:.1f} to {max(t.end for t in own) - began:.1f}"
                found.append(
                    [label, f"{records:,}", f"{cpu:.1f}", f"{cpu / records * 1e9:,.0f}", times, f"{spent:.1f}"]
                )
        spark.stop()
    return found


def told(batches: Iterator[pa.RecordBatch], signing: Signing) -> Iterator[pa.RecordBatch]:
    """Verifies a partition, and says who did it, in which time."""
    start, cpu, records = time.time(), time.process_time(), 0
    for batch in signing.arrow(batches):
        records += batch.num_rows
    row = {
        "worker": os.getpid(),
        "records": records,
        "valid": signing.counts["valid"],
        "cpu": time.process_time() - cpu,
        "start": start,
        "end": time.time(),
    }
    yield pa.RecordBatch.from_pylist([row])


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|---" + "|--:" * (len(head) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spark", type=int, default=0, metavar="RECORDS")
    options = parser.parse_args()
    if options.records:
        with tempfile.TemporaryDirectory() as storage:
            rows = [
                measure(name, one, options.records, options.rounds)
                for name, one in contenders(f"file://{storage}").items()
            ]
        table(["", "sending, ns", "receiving, ns", "sending over Arrow, ns", "receiving over Arrow, ns", "bytes"], rows)
    if options.spark:
        head = [
            "a worker in Spark",
            "records",
            "seconds of its processor",
            "ns a record",
            "from, to (s)",
            "whole job, s",
        ]
        table(head, spark_signatures(options.spark))


if __name__ == "__main__":
    main()
