"""Control records: what a broker writes between the data, decoded from their bytes.

Key: version int16, type int16. Value of a transaction marker: version int16, coordinatorEpoch int32 (KIP-98, KIP-890).
The others belong to KRaft (KIP-595, KIP-630, KIP-853); their values stay bytes.
"""

from __future__ import annotations

import struct
from typing import Any

from magicbyte.cli.output import json_bytes, show_bytes

TYPES = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
_KEY = struct.Struct(">hh")
_MARKER = struct.Struct(">hi")


def control_type(key: bytes | None) -> str:
    """The type's name; ``UNKNOWN(n)`` for a type that has none, ``UNKNOWN`` if there is no such key."""
    if key is None or len(key) < _KEY.size:
        return "UNKNOWN"
    _, number = _KEY.unpack_from(key)
    return TYPES.get(number, f"UNKNOWN({number})")


def decode_control(key: bytes | None, value: bytes | None) -> dict[str, Any]:
    """A control record's fields: ``type``, ``version``, and ``coordinatorEpoch`` of a transaction marker or ``value``."""
    fields: dict[str, Any] = {"type": control_type(key)}
    if key is not None and len(key) >= _KEY.size:
        fields["version"] = _KEY.unpack_from(key)[0]
    if fields["type"] in ("ABORT", "COMMIT") and value is not None and len(value) >= _MARKER.size:
        fields["coordinatorEpoch"] = _MARKER.unpack_from(value)[1]
    else:
        fields["value"] = value
    return fields


def control_json(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields for JSON, a value as `json_bytes` has it."""
    return {name: json_bytes(field) if name == "value" else field for name, field in fields.items()}


def control_text(fields: dict[str, Any], binary: str = "base64") -> str:
    """The fields on a line of text: ``COMMIT version=0 coordinatorEpoch=3``."""
    words = [fields["type"]]
    for name, field in fields.items():
        if name != "type":
            words.append(f"{name}={show_bytes(field, binary) if name == 'value' else field}")
    return " ".join(words)
