"""The vectors: each line's bytes read as its `batch` says; malformed ones as an ordinary reader must treat them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

import magicbyte as mb
from magicbyte import _core

from golden.corpus import vectors

DIALECTS = ("v0", "v1", "v2", "v3", "kip87", "kip82a", "kip82b")
MESSAGE_SETS = {"v0", "v1", "kip87", "kip82a"}


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in vectors(name).read_text().splitlines()]


VECTORS = [(dialect, number, line) for dialect in DIALECTS for number, line in enumerate(lines(dialect))]
MALFORMED = [(line["dialect"], number, line) for number, line in enumerate(lines("malformed"))]


def ids(listed: list[tuple[str, int, dict[str, Any]]]) -> list[str]:
    return [f"{dialect}-{number}" for dialect, number, _ in listed]


def unpacked(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


# What each dialect keeps; the rest of a line holds defaults.
RECORD = (
    "offset",
    "timestamp",
    "effective_timestamp",
    "sequence",
    "attributes",
    "key",
    "value",
    "headers",
    "tombstone",
)
HAS = {
    "v0": {"offset", "key", "value"},
    "v1": {"offset", "timestamp", "effective_timestamp", "key", "value"},
    "kip87": {"offset", "timestamp", "effective_timestamp", "key", "value", "tombstone"},
    "kip82a": {"offset", "timestamp", "effective_timestamp", "key", "value", "headers"},
}
# The record's own attributes byte is given for v2 and v3 alone.
HAS["kip82b"] = {"offset", "timestamp", "effective_timestamp", "sequence", "key", "value", "headers"}
FROM_V2 = {"offset", "timestamp", "effective_timestamp", "sequence", "attributes", "key", "value", "headers"}


def given_record(dialect: str, record: dict[str, Any]) -> dict[str, Any]:
    record = record | {
        "key": unpacked(record["key"]),
        "value": unpacked(record["value"]),
        "headers": [(header["key"], unpacked(header["value"])) for header in record["headers"]],
    }
    return {name: record[name] for name in RECORD if name in HAS.get(dialect, FROM_V2)}


def read_record(dialect: str, record: Any) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in RECORD if name in HAS.get(dialect, FROM_V2)}
    if "headers" in fields:
        fields["headers"] = [(header.key, header.value) for header in record.headers]
    return fields


BATCH = (
    "base_offset",
    "last_offset_delta",
    "codec",
    "timestamp_type",
    "base_timestamp",
    "max_timestamp",
    "partition_leader_epoch",
    "transactional",
    "control",
    "delete_horizon",
    "producer_id",
    "producer_epoch",
    "base_sequence",
)
# A wrapper has these; v0 has no timestamps.
WRAPPER = ("base_offset", "last_offset_delta", "codec", "timestamp_type", "max_timestamp")


@pytest.mark.parametrize("dialect, number, line", VECTORS, ids=ids(VECTORS))
def test_vector(dialect: str, number: int, line: dict[str, Any]) -> None:
    batch = line["batch"]
    got = list(mb.decode_batches(bytes.fromhex(line["hex"]), format=dialect))
    records = [read_record(dialect, record) for one in got for record in one.records]
    assert records == [given_record(dialect, record) for record in batch["records"]]
    if dialect in MESSAGE_SETS and batch["codec"] == "none":
        if dialect != "v0":
            assert {one.timestamp_type for one in got} == {batch["timestamp_type"]}
        return
    [one] = got
    names = list(BATCH)
    if dialect in MESSAGE_SETS:
        names = [name for name in WRAPPER if dialect != "v0" or not name.endswith(("_type", "_timestamp"))]
    elif dialect == "v3":
        names.append("ignore_message_attributes")
    assert {name: getattr(one, name) for name in names} == {name: batch[name] for name in names}


@pytest.mark.parametrize("dialect, number, line", VECTORS, ids=ids(VECTORS))
def test_vector_as_columns(dialect: str, number: int, line: dict[str, Any]) -> None:
    """Columns agree with the records, control batches aside."""
    batch = line["batch"]
    table = mb.decode_arrow(bytes.fromhex(line["hex"]), format=dialect, columns=("offset", "key", "value", "headers"))
    expected = [
        (
            record["offset"],
            unpacked(record["key"]),
            unpacked(record["value"]),
            [(header["key"], unpacked(header["value"])) for header in record["headers"]],
        )
        for record in ([] if batch["control"] else batch["records"])
    ]
    got = [
        (row["offset"], row["key"], row["value"], [(header["key"], header["value"]) for header in row["headers"]])
        for row in table.to_pylist()
    ]
    assert got == expected


@pytest.mark.parametrize("dialect, number, line", MALFORMED, ids=ids(MALFORMED))
def test_malformed(dialect: str, number: int, line: dict[str, Any]) -> None:
    data = bytes.fromhex(line["hex"])
    reader = _core.Reader([_core.Part(data)], format=dialect, control=True)
    if line["reader"] == "refuses":
        with pytest.raises((mb.CorruptRecordError, mb.UnsupportedCodecError)):
            list(reader.records())
        with pytest.raises((mb.CorruptRecordError, mb.UnsupportedCodecError)):
            mb.decode_arrow(data, format=dialect)
        return
    assert line["reader"] in ("stops", "reads")
    records = list(reader.records())
    table = mb.decode_arrow(data, format=dialect, columns=("offset", "isControl"))
    assert table.column("offset").to_pylist() == [record.offset for record in records if not record.control]
    if line["reader"] == "stops":
        [(_, position, kind, size, _)] = reader.findings
        # Stray bytes that are all zero are a zero tail.
        assert kind == ("torn_tail" if any(data[position:]) else "zero_tail")
        assert position + size == len(data)
    else:
        assert records
        assert not reader.findings
