"""What Kafka keeps in its own topics, decoded: committed offsets, groups, transactions, share groups, cluster metadata.

    >>> import magicbyte as mb
    >>> from magicbyte import topics
    >>> log = mb.Log("tests/data/kafka-logs/__consumer_offsets-0")
    >>> commit = next(c for c in map(topics.decode, log.records()) if c.name == "OffsetCommit")
    >>> commit.key["group"], commit.value["offset"]
    ('pub-group', 1)

The messages are those of Apache Kafka 4.4 and all before it; ``messages.json`` is made from Kafka's own definitions.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magicbyte.topics.messages import Malformed, Message, Reader, find

if TYPE_CHECKING:
    from magicbyte._core import ConsumerRecord

__all__ = ["GROUPS", "Decoded", "decode", "decode_control", "group_of"]

#: Topics, and the group of messages that each holds.
GROUPS = {
    "__consumer_offsets": "offsets",
    "__transaction_state": "transactions",
    "__share_group_state": "shares",
    "__cluster_metadata": "metadata",
    "__remote_log_metadata": "remote",
}
# Values without a key of their own, framed as KIP-631 says: frame version, number, version.
_FRAMED = frozenset({"metadata", "remote"})
_FRAME_VERSIONS = (0, 1)  # 0: a preview's

_CONTROL = {
    "LEADER_CHANGE": "LeaderChangeMessage",
    "SNAPSHOT_HEADER": "SnapshotHeaderRecord",
    "SNAPSHOT_FOOTER": "SnapshotFooterRecord",
    "KRAFT_VERSION": "KRaftVersionRecord",
    "KRAFT_VOTERS": "VotersRecord",
}


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record of one of Kafka's topics.

    Attributes:
        name: of the message, without ``Key`` and ``Value``: ``OffsetCommit``, ``TransactionLog``, ``TopicRecord``; ``""`` if
            that could not be told.
        number: Kafka's number for it (its api key); −1 if that could not be told.
        key: fields of the key; None where the topic has no keys.
        version: of the value; None for a delete.
        value: its fields; None for a delete.
        error: why it could not be decoded, else None. Bytes that are no such message are no exception: a topic may hold
            messages of a newer Kafka.
    """

    name: str
    number: int
    key: dict[str, Any] | None = None
    version: int | None = None
    value: dict[str, Any] | None = None
    error: str | None = None


def group_of(topic: str) -> str | None:
    """The group of messages in a topic; None for a topic that is not Kafka's own."""
    return GROUPS.get(topic)


def decode(record: ConsumerRecord, group: str | None = None) -> Decoded:
    """A record's message. ``group`` names what its topic holds, in place of the topic's name.

    Raises:
        ValueError: there is no such group, or the topic is none of Kafka's own.
    """
    group = group_of(record.topic) if group is None else group
    if group is None or group not in GROUPS.values():
        known = " ".join(sorted(GROUPS.values()))
        raise ValueError(f"{record.topic!r} is none of Kafka's own topics; name what it holds: {known}")
    try:
        return (_framed if group in _FRAMED else _keyed)(record.key, record.value, group)
    except Malformed as error:
        return Decoded("", -1, error=str(error))


def _keyed(key: bytes | None, value: bytes | None, group: str) -> Decoded:
    if key is None:
        return Decoded("", -1, error="a record without a key")
    reader = Reader(key)
    number = reader.int16()
    kind = find(group, "key", number)
    # Version 1 of an offset commit's key is version 0 with another number; transaction ids have one kind.
    if kind is None:
        return Decoded("", number, error=f"a message of the unknown type {number}")
    name = kind.name.removesuffix("Key")
    fields = kind.read(reader, 0)
    if value is None:
        return Decoded(name, number, fields)
    body = find(group, "value", number)
    if body is None:
        return Decoded(name, number, fields, error=f"a message of the unknown type {number}")
    reader = Reader(value)
    try:
        version = reader.int16()
        found = body.read(reader, version)
    except Malformed as error:
        return Decoded(name, number, fields, error=str(error))
    if body.name == "GroupMetadataValue":
        _unfold(found)
    return Decoded(name, number, fields, version, found)


def _framed(key: bytes | None, value: bytes | None, group: str) -> Decoded:
    if value is None:
        return Decoded("", -1, error="a record without a value")
    reader = Reader(value)
    frame = reader.unsigned_varint()
    if frame not in _FRAME_VERSIONS:
        return Decoded("", -1, error=f"a frame of the unknown version {frame}")
    number, version = reader.unsigned_varint(), reader.unsigned_varint()
    kind = find(group, "value", number)
    if kind is None:
        return Decoded("", number, error=f"a message of the unknown type {number}")
    return Decoded(kind.name, number, None, version, _whole(kind, reader, version))


def _whole(kind: Message, reader: Reader, version: int) -> dict[str, Any]:
    found = kind.read(reader, version)
    if reader.left:
        raise Malformed(f"at byte {reader.at}: {reader.left} bytes behind the message")
    return found


def _unfold(group: dict[str, Any]) -> None:
    """A classic group of consumers: what its members subscribed to and were assigned, in place of their bytes."""
    if group.get("protocolType") != "consumer":
        return
    for member in group.get("members") or []:
        for name, message in (
            ("subscription", "ConsumerProtocolSubscription"),
            ("assignment", "ConsumerProtocolAssignment"),
        ):
            kind = find("embedded", "value", message)
            try:
                reader = Reader(base64.b64decode(member[name] or ""))
                member[name] = kind.read(reader, reader.int16()) if kind else member[name]
            except (Malformed, KeyError, binascii.Error):
                continue  # the bytes stay as they are, as in Kafka's tool


def decode_control(type_name: str, value: bytes | None) -> dict[str, Any] | None:
    """The fields of a control record of KRaft (KIP-595, KIP-630, KIP-853); None if it has none that are known."""
    kind = find("embedded", "value", _CONTROL.get(type_name, ""))
    if kind is None or value is None:
        return None
    reader = Reader(value)
    try:
        # Every one of them begins with its own version.
        version = Reader(value).int16()
        return kind.read(reader, version)
    except Malformed:
        return None
