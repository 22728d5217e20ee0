"""The options of the data source: Spark's Kafka source's words where it has one, read once, into plain values."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from magicbyte._conditions import Condition, parsed
from magicbyte._names import FORMATS
from magicbyte.replicas import RULES

Offsets = dict[tuple[str, int], int]
"""By (topic, partition)."""

EARLIEST, LATEST = -2, -1
"""What the Kafka source calls these offsets in its JSON."""


@dataclass(frozen=True)
class Bound:
    """Where the reading of partitions begins or ends: by offset, or by timestamp in ms; one for all, or one each."""

    name: str
    by_time: bool
    all: int | None = None
    each: Offsets | None = None


@dataclass(frozen=True)
class Options:
    """The options, each under its documented name in Python's manner."""

    paths: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    topic: str | None = None
    partition: int | None = None
    topics: tuple[str, ...] | None = None
    topic_pattern: str | None = None
    assigned: frozenset[tuple[str, int]] | None = None
    starting: Bound = field(default_factory=lambda: Bound("startingOffsets", False, EARLIEST))
    ending: Bound = field(default_factory=lambda: Bound("endingOffsets", False, LATEST))
    start_at_latest_without_match: bool = False
    format: str = "kafka"
    isolation: str = "read_uncommitted"
    past_lso: bool = False
    mode: str = "FAILFAST"
    check_crc: bool = True
    control: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)
    max_partition_bytes: int = 128 << 20
    pushdown: bool = False
    max_offsets: int | None = None
    fail_on_data_loss: bool = True
    replicas: str | None = None
    findings: bool = False
    headers: tuple[Condition, ...] = ()
    min_partitions: int | None = None
    storage: Mapping[str, Any] | None = None

    def reading(self) -> dict[str, Any]:
        """The arguments that every reader takes."""
        from magicbyte import _core

        limits = _core.Limits(**self.limits) if self.limits else None
        return {"format": self.format, "check_crc": self.check_crc, "mode": self.mode, "limits": limits}


def parse(options: Mapping[str, str]) -> Options:
    """Reads the options; ``ValueError`` names an option that is not known, or whose value is not right."""
    given: dict[str, str] = {}
    for key, value in options.items():
        name = READ_NAMES.get(key.lower())
        if name is not None:
            given[name] = value
        elif not key.lower().startswith(OF_SPARK):
            raise ValueError(_unknown(key))
    read: dict[str, Any] = {}
    for name, (attribute, convert) in _PLAIN.items():
        if name in given:
            read[attribute] = converted(name, given[name], convert)
    limits = {name: converted(f"limits.{name}", given[key], size) for key, name in _LIMITS.items() if key in given}
    starting = _bound(given, "starting")
    ending = _bound(given, "ending")
    if starting is not None:
        read["starting"] = starting
    if ending is not None:
        read["ending"] = ending
    if "includeHeaders" in given and not converted("includeHeaders", given["includeHeaders"], boolean):
        read.setdefault("columns", ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType"))
    ways = [name for name in ("assign", "subscribe", "subscribePattern") if name in given]
    if len(ways) > 1:
        raise ValueError(f"only one of the options assign, subscribe and subscribePattern can be given, not {ways}")
    paths = given.get("paths")
    named = tuple(converted("paths", paths, _json_list)) if paths is not None else ()
    if "path" in given:
        named += (given["path"],)
    return Options(paths=named, limits=limits, **read)


def boolean(text: str) -> bool:
    """``true`` or ``false``."""
    return {"true": True, "false": False}[str(text).strip().lower()]


def size(text: str) -> int:
    """Bytes: ``134217728``, ``128m``, ``128mb``, ``1g``."""
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)(?:i?b)?\s*", str(text).lower())
    if found is None:
        raise ValueError("a number of bytes, such as 128m")
    return int(found[1]) << {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}[found[2]]


def names(text: str) -> tuple[str, ...]:
    """A list with commas."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise ValueError("at least one name")
    return found


def positive_size(text: str) -> int:
    """Bytes, at least one."""
    found = size(text)
    if found < 1:
        raise ValueError("more than 0 bytes")
    return found


def _above_zero(text: str) -> int:
    found = int(text)
    if found < 1:
        raise ValueError("a whole number above 0")
    return found


def one_of(*words: str) -> Callable[[str], str]:
    """One of these words, in whatever case."""

    def convert(text: str) -> str:
        for word in words:
            if word.lower() == text.strip().lower():
                return word
        raise ValueError("one of " + ", ".join(words))

    return convert


def _pattern(text: str) -> str:
    re.compile(text)
    return text


def _json_object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("a JSON object")
    return found


def _json_list(text: str) -> list[str]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise ValueError("a JSON list of paths")
    return found


def _assigned(text: str) -> frozenset[tuple[str, int]]:
    found = json.loads(text)
    return frozenset((str(topic), int(partition)) for topic, numbers in found.items() for partition in numbers)


def _each(text: str) -> Offsets:
    found = json.loads(text)
    return {
        (str(topic), int(partition)): int(value)
        for topic, numbers in found.items()
        for partition, value in numbers.items()
    }


def _bound(given: Mapping[str, str], end: str) -> Bound | None:
    """The start or the end, by the first that is given, as in the Kafka source: one timestamp, timestamps, offsets."""
    name = f"{end}Timestamp"
    if name in given:
        return Bound(name, True, all=converted(name, given[name], int))
    name = f"{end}OffsetsByTimestamp"
    if name in given:
        return Bound(name, True, each=converted(name, given[name], _each))
    name = f"{end}Offsets"
    if name not in given:
        return None
    word = given[name].strip().lower()
    refused = {"starting": "latest", "ending": "earliest"}[end]
    if word == refused:
        raise ValueError(f"option {name}: {refused} would leave nothing to read")
    if word in ("earliest", "latest"):
        return Bound(name, False, all={"earliest": EARLIEST, "latest": LATEST}[word])
    each = converted(name, given[name], _each)
    for (topic, partition), offset in each.items():
        if offset == {"latest": LATEST, "earliest": EARLIEST}[refused]:
            raise ValueError(f"option {name}: {refused} ({offset}) for {topic}-{partition} would leave nothing to read")
        if offset < EARLIEST:
            raise ValueError(f"option {name}: offset {offset} of {topic}-{partition}")
    return Bound(name, False, each=each)


def converted(name: str, text: str, convert: Callable[[str], Any]) -> Any:
    """The value of an option; ``ValueError`` names the option and says what was expected."""
    try:
        return convert(text)
    except (ValueError, KeyError, TypeError, AttributeError, re.error) as error:
        expected = _EXPECTED.get(convert, str(error) or type(error).__name__)
        raise ValueError(f"option {name}: {text!r} is not right; expected {expected}") from None


def _unknown(key: str) -> str:
    if key.lower().startswith("kafka."):
        return f"option {key}: this source reads files, not a broker; give the path of a log directory"
    near = get_close_matches(key.lower(), list(READ_NAMES), n=1, cutoff=0.5)
    known = (
        f"; did you mean {READ_NAMES[near[0]]}?" if near else f"; known are {', '.join(sorted(READ_NAMES.values()))}"
    )
    return f"option {key} is not known{known}"


_EXPECTED: dict[Callable[[str], Any], str] = {
    boolean: "true or false",
    int: "a whole number",
    _json_object: 'a JSON object such as {"endpoint_url":"http://127.0.0.1:9000"}',
    _each: 'JSON such as {"orders":{"0":23,"1":-2}}',
    _assigned: 'JSON such as {"orders":[0,1]}',
}

_PLAIN: dict[str, tuple[str, Callable[[str], Any]]] = {
    "columns": ("columns", names),
    "topic": ("topic", str),
    "partition": ("partition", int),
    "subscribe": ("topics", names),
    "subscribePattern": ("topic_pattern", _pattern),
    "assign": ("assigned", _assigned),
    "startingOffsetsByTimestampStrategy": (
        "start_at_latest_without_match",
        lambda text: one_of("error", "latest")(text) == "latest",
    ),
    "format": ("format", one_of(*FORMATS)),
    "isolation": ("isolation", one_of("read_uncommitted", "read_committed")),
    "pastLso": ("past_lso", boolean),
    "mode": ("mode", one_of("FAILFAST", "DROPMALFORMED", "PERMISSIVE")),
    "checkCrc": ("check_crc", boolean),
    "control": ("control", boolean),
    "maxPartitionBytes": ("max_partition_bytes", positive_size),
    "minPartitions": ("min_partitions", _above_zero),
    "pushdown": ("pushdown", boolean),
    "findings": ("findings", boolean),
    "maxOffsetsPerTrigger": ("max_offsets", _above_zero),
    "failOnDataLoss": ("fail_on_data_loss", boolean),
    "replicas": ("replicas", one_of(*RULES)),
    "storage": ("storage", _json_object),
    "header.filter": ("headers", lambda text: tuple(parsed(text))),
}
"""Documented name → attribute of ``Options``, and how its text is read."""

_LIMITS = {f"limits.{name}": name for name in ("record", "batch", "decompressed", "headers")}

READ_NAMES = {
    name.lower(): name
    for name in (
        *_PLAIN,
        *_LIMITS,
        *("path", "paths", "includeHeaders"),
        *(f"{end}{what}" for end in ("starting", "ending") for what in ("Offsets", "OffsetsByTimestamp", "Timestamp")),
    )
}
"""Spark gives keys in lower case."""

OF_SPARK = ("spark.", "serialization.format", "checkpointlocation", "queryname")
"""Options that Spark adds by itself."""
