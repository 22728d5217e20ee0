"""The table: which header names belong to which convention, and what reads each of them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from . import kinds, own
from .values import Decoder, boolean, choice, integer, json_value, text, time

__all__ = ["CONVENTIONS", "Convention", "convention_of", "register"]

_int32, _int64 = integer(4, bits=32), integer(8)
_partition, _offset = integer(4, least=0, bits=32), integer(8, least=0)
_stored_time = integer(8, least=-1)


@dataclass(frozen=True, slots=True)
class Convention:
    """A family of headers.

    Attributes:
        name: what it is called in ``DecodedHeader`` and by ``dump --decode-headers``.
        headers: names and their decoders.
        prefixes: what other names of the family begin with, and their decoder.
        any_case: names are compared without regard to case.
    """

    name: str
    headers: dict[str, Decoder] = field(default_factory=dict)
    prefixes: dict[str, Decoder] = field(default_factory=dict)
    any_case: bool = False


def _named(prefix: str, decoders: dict[str, Decoder]) -> dict[str, Decoder]:
    return {prefix + name: decoder for name, decoder in decoders.items()}


W3C = Convention(
    "w3c",
    {"traceparent": kinds.traceparent, "tracestate": kinds.tracestate, "baggage": kinds.baggage},
    any_case=True,
)
ELASTIC = Convention(
    "elastic", {"elasticapmtraceparent": kinds.elastic, "elastic-apm-traceparent": kinds.traceparent}, any_case=True
)
B3 = Convention(
    "b3",
    {
        "b3": kinds.b3,
        "x-b3-traceid": text,
        "x-b3-spanid": text,
        "x-b3-parentspanid": text,
        "x-b3-sampled": boolean,
        "x-b3-flags": integer(1, least=0),
    },
    any_case=True,
)
JAEGER = Convention("jaeger", {"uber-trace-id": kinds.jaeger}, {"uberctx-": text}, any_case=True)
DATADOG = Convention(
    "datadog",
    {
        "x-datadog-trace-id": integer(8, bits=65),  # unsigned, in digits
        "x-datadog-parent-id": integer(8, bits=65),
        "x-datadog-sampling-priority": integer(4, bits=32),
        "x-datadog-origin": text,
        "x-datadog-tags": text,
    },
    any_case=True,
)
CONTENT_TYPE = Convention(
    "content-type", {"content-type": text, "contenttype": text, "content-encoding": text}, any_case=True
)
CLOUDEVENTS = Convention(
    "cloudevents",
    {"ce_specversion": choice("1.0", "0.3"), "ce_time": time, "ce_id": text, "ce_source": text, "ce_type": text},
    {"ce_": text},
)
CONFLUENT = Convention("confluent", {"__key_schema_id": kinds.schema_guid, "__value_schema_id": kinds.schema_guid})
APICURIO = Convention(
    "apicurio",
    {
        f"apicurio.{side}.{name}": decoder
        for side in ("key", "value")
        for name, decoder in {
            "globalId": integer(8, least=0),
            "contentId": integer(8, least=0),
            "contentHash": text,
            "groupId": text,
            "artifactId": text,
            "version": text,
            "encoding": text,
        }.items()
    },
    {"apicurio.": text},
)
CONNECT = Convention(
    "connect dead letter",
    _named(
        "__connect.errors.",
        {
            "topic": text,
            "partition": _partition,
            "offset": _offset,
            "connector.name": text,
            "task.id": integer(4, least=0, bits=32),
            "stage": text,
            "class.name": text,
            "exception.class.name": text,
            "exception.message": text,
            "exception.stacktrace": text,
        },
    ),
    {"__connect.errors.": text},
)
SPRING = Convention(
    "spring dead letter",
    _named(
        "kafka_dlt-original-",
        {
            "topic": text,
            "partition": _partition,
            "offset": _offset,
            "timestamp": _stored_time,
            "timestamp-type": choice("CreateTime", "LogAppendTime", "NoTimestampType"),
            "consumer-group": text,
        },
    ),
    {"kafka_dlt-exception-": text, "kafka_dlt-key-exception-": text, "kafka_dlt-": text},
)
SPRING_OTHER = Convention(
    "spring",
    {
        "spring_json_header_types": json_value,
        "kafka_deliveryAttempt": _int32,
        "retry_topic-attempts": integer(4, any_length=True),
        # BigInteger.toByteArray
        "retry_topic-original-timestamp": integer(8, any_length=True, least=-1),
        "retry_topic-backoff-timestamp": integer(8, any_length=True, least=-1),
        "__TypeId__": text,
        "__ContentTypeId__": text,
        "__KeyTypeId__": text,
    },
)
LINKEDIN = Convention("linkedin", {"_lm": kinds.large_message})
DEBEZIUM = Convention(
    "debezium",
    {
        "__op": choice("c", "u", "d", "r", "t", "m"),
        "__deleted": boolean,
        "__source_ts_ms": integer(8),
        "__source_ts_us": integer(8),
        "__source_ts_ns": integer(8),
        "__source_pos": integer(8),
        "__source_row": integer(8),
    },
    {"__debezium.context.": text, "__debezium.": text, "__source_": text},
)
KAFKA_BACKUP = Convention(
    "kafka-backup",
    {
        "x-original-offset": integer(8, order="little", least=0),
        "x-original-timestamp": integer(8, order="little", least=-1),
        "x-source-cluster": text,
        "x-original-partition": integer(4, order="little", least=0, bits=32),
        "x-original-topic": text,
    },
)

MAGICBYTE = Convention(
    "magicbyte",
    {
        "mb.trail": own.of("_trail_bytes", "Hop"),
        "mb.audit": own.of("_trail_bytes", "Audit"),
        "mb.deleted": own.of("_trail_bytes", "Deletion"),
        "mb.chunk": own.of("_chunks", "Chunk"),
        "mb.claim": own.claim,
        "mb.sig": own.signature,
        "mb.enc": own.encryption,
        "mb.auth": own.token,
        "mb.ttl": integer(8, least=0),
        "mb.expires": integer(8, least=0),
        "mb.replays": integer(4, least=0),
        "mb.cluster": text,
        "mb.principal": text,
        "magicbyte.quarantine": text,
    },
)

CONVENTIONS: tuple[Convention, ...] = (
    MAGICBYTE,
    W3C,
    ELASTIC,
    B3,
    JAEGER,
    DATADOG,
    CONTENT_TYPE,
    CLOUDEVENTS,
    CONFLUENT,
    APICURIO,
    CONNECT,
    SPRING,
    SPRING_OTHER,
    LINKEDIN,
    DEBEZIUM,
    KAFKA_BACKUP,
)
"""All conventions that come with magicbyte; ``register`` adds a house's own. (AWS Glue's id stands in the value:
``schema_in_value``.)"""

_lock = threading.Lock()
_exact: dict[str, tuple[Convention, Decoder]] = {}
_lower: dict[str, tuple[Convention, Decoder]] = {}
_prefixes: list[tuple[str, bool, tuple[Convention, Decoder]]] = []


def register(convention: Convention) -> None:
    """Adds a convention, or other decoders for names that there are; for this process. What is registered later wins."""
    global _prefixes
    with _lock:
        for name, decoder in convention.headers.items():
            (_lower if convention.any_case else _exact)[name.lower() if convention.any_case else name] = (
                convention,
                decoder,
            )
        some = [(p, convention.any_case, (convention, d)) for p, d in convention.prefixes.items()]
        # The longest prefix is the one that knows most.
        _prefixes = sorted([*some, *_prefixes], key=lambda one: -len(one[0]))


def convention_of(name: str) -> tuple[Convention, Decoder] | None:
    """The convention of a header name, and what reads its bytes; None for a name that no convention has."""
    if (found := _exact.get(name)) is not None:
        return found
    lower = name.lower()
    if (found := _lower.get(lower)) is not None:
        return found
    for prefix, any_case, what in _prefixes:
        if (lower if any_case else name).startswith(prefix):
            return what
    return None


for _convention in CONVENTIONS:
    register(_convention)
