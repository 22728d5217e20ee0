"""How `dump` shows a record: a line of text, or of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from magicbyte.cli.control import control_json, control_text, decode_control
from magicbyte.cli.conventions import decoded_json, decoded_text
from magicbyte.cli.output import (
    TIMESTAMP_TYPES,
    colourful,
    escape,
    iso,
    json_bytes,
    place,
    show_bytes,
    show_name,
    show_time,
    to_json,
)

if TYPE_CHECKING:
    from magicbyte._core import ConsumerRecord
    from magicbyte.topics import Decoded

Decoder = Callable[["ConsumerRecord"], "Decoded | None"]


def messages(group: str | None) -> Decoder:
    """What decodes the messages of Kafka's own topics: those of one group, or by the record's topic."""
    from magicbyte.topics import decode, group_of

    def decoded(record: ConsumerRecord) -> Decoded | None:
        held = group or group_of(record.topic)
        return None if held is None or record.control else decode(record, held)

    return decoded


def _has_epoch(record: ConsumerRecord) -> bool:
    # Stored as -1 where no leader set it, and in message sets not at all.
    return record.leader_epoch is not None and record.leader_epoch >= 0


def json_line(decoder: Decoder | None = None, decoding: bool = False) -> Callable[[ConsumerRecord, bool], str]:
    """What shows a record as one line of JSON; the names are those of the columns of `scan`.

    ``decoder`` is for messages of Kafka's own topics, ``decoding`` is whether to read headers of known conventions.
    """
    show_header = decoded_json if decoding else _header_json

    def line(record: ConsumerRecord, control: bool) -> str:
        fields: dict[str, Any] = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": iso(record.timestamp),
            "timestampMs": record.timestamp,
            "timestampType": TIMESTAMP_TYPES.get(record.timestamp_type),
            "leaderEpoch": record.leader_epoch if _has_epoch(record) else None,
            "key": json_bytes(record.key),
            "value": json_bytes(record.value),
            "headers": [show_header(header.key, header.value) for header in record.headers],
        }
        if control:
            fields["control"] = control_json(decode_control(record.key, record.value)) if record.control else None
        if decoder is not None:
            found = decoder(record)
            fields["decoded"] = None if found is None else _decoded_json(found)
        return to_json(fields)

    return line


def _header_json(key: str, value: bytes | None) -> dict[str, Any]:
    return {"key": key, "value": json_bytes(value)}


def _header_text(key: str, value: bytes | None, binary: str) -> str:
    return show_bytes(value, binary)


def _decoded_json(found: Decoded) -> dict[str, Any]:
    fields = {"name": found.name, "key": found.key, "version": found.version, "value": found.value}
    return fields if found.error is None else fields | {"error": found.error}


def _decoded_text(found: Decoded) -> list[str]:
    if found.error is not None:
        return [f"{found.name}({escape(found.error)})"]
    words = [found.name]
    if found.key is not None:
        words.append(_compact(found.key))
    words.append("delete" if found.value is None else _compact(found.value))
    return words


def _compact(value: Any) -> str:
    return escape(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def text_line(
    binary: str, stream: Any, decoder: Decoder | None = None, decoding: bool = False
) -> Callable[[ConsumerRecord, bool], str]:
    """What shows a record as one line of text for that stream, in colours if it takes them."""
    label = (lambda name: f"\x1b[36m{name}\x1b[0m") if colourful(stream) else str
    show_header = decoded_text if decoding else _header_text
    key_label, value_label, headers_label = label("key"), label("value"), label("headers")

    def line(record: ConsumerRecord, control: bool) -> str:
        words = [f"{escape(place(record.topic, record.partition))}@{record.offset}", show_time(record.timestamp)]
        if record.timestamp_type >= 0:
            words.append(TIMESTAMP_TYPES.get(record.timestamp_type, "?"))
        if _has_epoch(record):
            words.append(f"epoch={record.leader_epoch}")
        decoded = None if decoder is None else decoder(record)
        if control and record.control:
            words.append(control_text(decode_control(record.key, record.value), binary))
        elif decoded is not None and (decoded.name or decoded.error is None):
            words += _decoded_text(decoded)
        else:
            words.append(f"{key_label}={show_bytes(record.key, binary)}")
            words.append(f"{value_label}={show_bytes(record.value, binary)}")
            # What is no message of that topic stands as its bytes, with the reason.
            words += [] if decoded is None else [f"undecoded={escape(str(decoded.error))}"]
        shown = " ".join(
            f"{show_name(header.key)}={show_header(header.key, header.value, binary)}" for header in record.headers
        )
        if shown:
            words.append(f"{headers_label}=[{shown}]")
        return " ".join(words)

    return line
