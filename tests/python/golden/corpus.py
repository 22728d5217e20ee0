"""The golden files, wherever they are: what real Kafka wrote, and what Kafka's Java library reads from it.

Two roots hold them in two shapes: the selection that ships in `tests/data`, and the whole corpus. A `Case` hides the difference.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from places import DATA, shared_directory

# Above this, the corpus keeps a value's digest and length instead of the value.
LARGEST_WRITTEN_OUT = 4096


def shorten(value: bytes | None) -> bytes | tuple[str, int] | None:
    """The form in which a key or a value is compared: itself, or digest and length where the corpus keeps no more."""
    if value is None or len(value) <= LARGEST_WRITTEN_OUT:
        return value
    return hashlib.sha256(value).hexdigest(), len(value)


def _given(value: Any) -> bytes | tuple[str, int] | None:
    if isinstance(value, dict):
        return value["sha256"], value["len"]
    return None if value is None else base64.b64decode(value)


TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


@dataclass(frozen=True)
class Record:
    """One record as a consumer sees it: the fields that the corpus fixes and every one of our readers shows."""

    offset: int
    timestamp: int
    timestamp_type: int
    sequence: int
    key: bytes | tuple[str, int] | None
    value: bytes | tuple[str, int] | None
    headers: tuple[tuple[str, bytes | tuple[str, int] | None], ...]

    @classmethod
    def given(cls, line: dict[str, Any]) -> Record:
        return cls(
            line["offset"],
            line["timestamp"],
            TIMESTAMP_TYPES[line["timestampType"]],
            line["sequence"],
            _given(line["key"]),
            _given(line["value"]),
            tuple((key, _given(value)) for key, value in line["headers"]),
        )


@dataclass(frozen=True)
class Batch:
    """One batch of an expectation: its header as Kafka gives it, and its records."""

    head: dict[str, Any]
    records: tuple[Record, ...]
    # Beside each record: the parsed control record, or None.
    controls: tuple[dict[str, Any] | None, ...] = ()


@dataclass(frozen=True)
class Case:
    """A file and its expectation."""

    name: str
    path: Path
    expectation: Path = field(repr=False)

    @cached_property
    def _lines(self) -> list[dict[str, Any]]:
        if self.expectation.suffix == ".gz":
            text = gzip.decompress(self.expectation.read_bytes()).decode()
        else:
            text = self.expectation.read_text()
        return [json.loads(line) for line in text.splitlines()]

    @cached_property
    def batches(self) -> list[Batch]:
        """What stands in the file, batch by batch."""
        heads: list[tuple[dict[str, Any], list[Record], list[dict[str, Any] | None]]] = []
        for line in self._lines:
            if line["t"] == "batch":
                heads.append((line, [], []))
            elif line["t"] == "record":
                _, records, controls = heads[line["b"]]
                records.append(Record.given(line))
                controls.append(line.get("control"))
        return [Batch(head, tuple(records), tuple(controls)) for head, records, controls in heads]

    @property
    def end(self) -> dict[str, Any]:
        """The closing line: how many batches and records, and where the last sound byte is."""
        return next(line for line in self._lines if line["t"] == "end")

    @property
    def records(self) -> list[Record]:
        """All records of the file, control records too."""
        return [record for batch in self.batches for record in batch.records]

    @property
    def delivered(self) -> list[Record]:
        """The records that a consumer is given: without control records."""
        return [record for batch in self.batches if not batch.head["isControlBatch"] for record in batch.records]

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The lines as they are, for the files beside a segment."""
        return self._lines


@dataclass(frozen=True)
class Damaged:
    """A damaged file, and what Kafka's `MemoryRecords` does with it (the oracle)."""

    name: str
    path: Path
    expectation: Path = field(repr=False)

    @cached_property
    def memory(self) -> dict[str, Any]:
        memory: dict[str, Any] = json.loads(self.expectation.read_text())["memory"]
        return memory


def roots() -> Iterator[tuple[str, Path]]:
    """The places that hold golden files: always the selection, and the whole corpus where it is."""
    yield "data", DATA
    shared = shared_directory()
    if shared is not None:
        yield "golden", shared / "golden"


def logs(*suffixes: str) -> list[Case]:
    """The files of real log directories that end in one of `suffixes` (".log", ".index" …)."""
    cases = []
    for root, path in roots():
        directory = path / ("kafka-logs" if root == "data" else "logs")
        for file in sorted(directory.glob("*/*")):
            if file.suffix not in suffixes:
                continue
            beside = file.with_name(file.name + ".jsonl")
            if root == "data":
                beside = path / "expected" / file.parent.name / (file.name + ".jsonl.gz")
            cases.append(Case(f"{root}/{file.parent.name}/{file.name}", file, beside))
    return cases


def batches(room: str) -> list[Case]:
    """The files of single batches: `encode` or `convert`."""
    return [
        Case(f"{root}/{room}/{file.stem}", file, file.with_suffix(".jsonl"))
        for root, path in roots()
        for file in sorted((path / room).glob("*.bin"))
    ]


def damaged() -> list[Damaged]:
    """All damaged files."""
    return [
        Damaged(f"{root}/damaged/{file.stem}", file, file.with_suffix(".json"))
        for root, path in roots()
        for file in sorted((path / "damaged").glob("*.bin"))
    ]


def whole() -> list[Case]:
    """Every undamaged file of records."""
    return [*logs(".log", ".checkpoint"), *batches("encode"), *batches("convert")]


def vectors(dialect: str) -> Path:
    """The vectors of a dialect, or `malformed`; they ship."""
    return DATA / "vectors" / f"{dialect}.jsonl"
