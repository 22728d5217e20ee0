"""What Kafka does with a damaged file, and in which respects we may differ.

A consumer takes batches in order: `ensureValid` (size and checksum), then the records, streamed. So it is given some records, and
then there is an error, or the end. Two differences are never allowed, and no exception can excuse them: a record that Kafka
delivers is missing here, or is another.
"""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import magicbyte as mb

from golden.corpus import Damaged, Record

# How we may differ, where an exception says so.
PASSES = "passes"  # Kafka raises, we don't
RAISES = "raises"  # we raise where Kafka has delivered all that it has, and says nothing
POSITION = "position"  # both raise, for another entry
MORE = "more"  # we deliver records that Kafka does not
DEVIATIONS = {PASSES, RAISES, POSITION, MORE}


@dataclass
class Outcome:
    """The records that a consumer was given, and where the error was, if any. A `None` record is one whose content is not known."""

    records: list[Record | None] = field(default_factory=list)
    error: int | None = None
    # Of the entry at fault: how many of its records were delivered.
    of_entry: int = 0


def batch_outcome(batch: dict[str, Any], *, check_crc: bool = True) -> Outcome:
    """What a consumer is given of one batch."""
    position = batch["position"]
    if check_crc and batch["ensureValid"] != "ok":
        return Outcome(error=position)
    streaming, iterator = batch["streaming"], batch["iterator"]
    known: list[Record | None] = [Record.given(line) for line in iterator.get("records", [])]
    if "error" in iterator and "error" not in streaming and batch["magic"] < 2:
        # Kafka's old records are views: the iterator hands one out unseen, and a consumer meets the error when it asks for the
        # key or the value. So it is given those before.
        return Outcome(known, position, len(known))
    yielded = streaming["yielded"]
    records = (known + [None] * yielded)[:yielded]
    return Outcome(records, position if "error" in streaming else None, yielded)


def file_outcome(memory: dict[str, Any]) -> Outcome:
    """What a consumer is given of the whole file."""
    whole = Outcome()
    for batch in memory["batches"]:
        one = batch_outcome(batch)
        whole.records += one.records
        if one.error is not None:
            whole.error, whole.of_entry = one.error, one.of_entry
            return whole
    if memory["end"] == "exception":
        whole.error = memory["consumed"]
    return whole


def consume(records: Iterable[Any], show: Any) -> Outcome:
    """The same of our reader."""
    ours = Outcome()
    try:
        for record in records:
            ours.records.append(show(record))
    except mb.CorruptRecordError as error:
        ours.error, ours.of_entry = error.position, error.records
    except mb.UnsupportedCodecError:
        ours.error = -1
    return ours


def is_control(data: bytes, batch: dict[str, Any]) -> bool:
    """Bit 5 of a v2 batch's attributes."""
    return batch["magic"] >= 2 and bool(data[batch["position"] + 22] & 0x20)


def sound(case: Damaged) -> dict[int, list[Record | None]]:
    """By position, the batches that Kafka reads whole, without control batches: what columns must hold."""
    data = case.path.read_bytes()
    found = {}
    for batch in case.memory["batches"]:
        one = batch_outcome(batch)
        if one.error is None and one.records and not is_control(data, batch):
            found[batch["position"]] = one.records
    return found


def first_damage(case: Damaged) -> int:
    """Where Kafka first finds fault, or ends; what we read from there on is ours alone."""
    for batch in case.memory["batches"]:
        if batch_outcome(batch).error is not None:
            return int(batch["position"])
    return int(case.memory["consumed"])


def compare_columns(case: Damaged, rows: Iterable[tuple[int, Record]]) -> None:
    """Rows (batch position, record) of a reader that passes over damage: every batch that Kafka reads whole, in order and whole.

    Such a reader may find batches behind damage that Kafka never gets to.
    """
    groups: dict[int, list[Record]] = {}
    for position, record in rows:
        groups.setdefault(position, []).append(record)
    expected = sound(case)
    for position, records in expected.items():
        got = groups.pop(position, [])
        assert len(got) == len(records), f"batch at {position}: {len(records)} records expected, {len(got)} there"
        for kafkas, ours in zip(records, got, strict=True):
            assert kafkas is None or kafkas == ours, f"batch at {position}\n  Kafka: {kafkas}\n  ours:  {ours}"
    allowed = MORE in allowances(case.name)
    for position in groups:
        assert position > first_damage(case) or allowed, f"batch at {position}, which Kafka does not read"


def deviations(kafka: Outcome, ours: Outcome) -> set[str]:
    """How the two differ; fails at once where a record that Kafka delivers is lost or another."""
    for index, record in enumerate(kafka.records):
        assert index < len(ours.records), (
            f"lost: Kafka delivers {len(kafka.records)} records, we {len(ours.records)}"
            + (f", then an error at {ours.error}" if ours.error is not None else "")
        )
        got = ours.records[index]
        assert record is None or record == got, f"altered: [{index}]\n  Kafka: {record}\n  ours:  {got}"
    found = set()
    if len(ours.records) > len(kafka.records):
        found.add(MORE)
    if kafka.error is None and ours.error is not None:
        found.add(RAISES)
    elif kafka.error is not None and ours.error is None:
        found.add(PASSES)
    elif kafka.error != ours.error:
        found.add(POSITION)
    return found


@dataclass(frozen=True)
class Exempted:
    """One entry of exceptions.toml."""

    files: tuple[str, ...]
    deviations: frozenset[str]
    reason: str

    def covers(self, name: str) -> bool:
        return any(fnmatch.fnmatch(name.split("/")[-1], pattern) for pattern in self.files)


@cache
def exceptions() -> tuple[Exempted, ...]:
    """All allowed differences from Kafka."""
    text = Path(__file__).with_name("exceptions.toml").read_text()
    listed = tuple(
        Exempted(tuple(entry["files"]), frozenset(entry["deviations"]), entry["reason"])
        for entry in tomllib.loads(text).get("exception", [])
    )
    for entry in listed:
        assert entry.reason.strip()
        assert entry.deviations <= DEVIATIONS
    return listed


def allowances(name: str) -> set[str]:
    """How this file may differ."""
    return {deviation for entry in exceptions() if entry.covers(name) for deviation in entry.deviations}
