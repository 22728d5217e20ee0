"""Ranges of offsets and times over real partitions: what a range gives is what filtering all records gives.

Indexes and batch headers only save work; they never decide which records there are.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import magicbyte as mb

from golden import compare
from golden.corpus import Case, Record, logs


def partitions() -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in logs(".log"):
        found.setdefault(case.name.rpartition("/")[0], []).append(case)
    return found


PARTITIONS = partitions()


@pytest.fixture(params=PARTITIONS, ids=list(PARTITIONS))
def partition(request: pytest.FixtureRequest) -> tuple[mb.Log, list[Record]]:
    """A partition directory, and its records in offset order."""
    cases = PARTITIONS[request.param]
    directory: Path = cases[0].path.parent
    # The corpus names directories by case, so topic and partition are said.
    return mb.Log(directory, topic="t", partition=0), [record for case in cases for record in case.delivered]


def ranges(values: list[int], seed: str) -> list[tuple[int | None, int | None]]:
    """Ranges that begin and end at, before and behind values that occur, and open ones."""
    chance = random.Random(seed)
    picked = [chance.choice(values) + chance.choice((-1, 0, 1)) for _ in range(8)] if values else [0, 1]
    pairs = [(min(pair), max(pair)) for pair in zip(picked[::2], picked[1::2], strict=True)]
    return [*pairs, (picked[0], None), (None, picked[1]), (picked[2], picked[2]), (picked[3], picked[3] + 1)]


def inside(value: int, first: int | None, end: int | None) -> bool:
    return (first is None or value >= first) and (end is None or value < end)


def test_whole_partition(partition: tuple[mb.Log, list[Record]]) -> None:
    log, records = partition
    compare.same(records, [compare.consumed(record) for record in log.records()])
    compare.same(records, compare.rows(log.scan(columns=compare.ARROW_COLUMNS).to_arrow()))


def test_offsets(partition: tuple[mb.Log, list[Record]], request: pytest.FixtureRequest) -> None:
    log, records = partition
    for first, end in ranges([record.offset for record in records], request.node.name):
        expected = [record for record in records if inside(record.offset, first, end)]
        scan = log.scan(columns=compare.ARROW_COLUMNS, offsets=(first, end))
        difference = compare.first_difference(expected, compare.rows(scan.to_arrow()))
        assert difference is None, f"offsets {first} to {end}: {difference}"
        assert scan.count() == len(expected)


def test_timestamps(partition: tuple[mb.Log, list[Record]], request: pytest.FixtureRequest) -> None:
    log, records = partition
    for first, end in ranges([record.timestamp for record in records], request.node.name):
        expected = [record for record in records if inside(record.timestamp, first, end)]
        scan = log.scan(columns=compare.ARROW_COLUMNS, timestamps=(first, end))
        difference = compare.first_difference(expected, compare.rows(scan.to_arrow()))
        assert difference is None, f"timestamps {first} to {end}: {difference}"
