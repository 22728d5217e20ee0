"""All undamaged files, one behind the other, as one log: formats and codecs mixed, larger than any window that a reader reads through.

Then the same with damage between them, which a reader that passes over damage must find, name and leave, without losing a record.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

import magicbyte as mb
from magicbyte import _core

from golden import compare
from golden.corpus import Case, Record, whole

pytestmark = pytest.mark.slow


@dataclass
class Mixed:
    """A file made of sound stretches and damage between them."""

    path: Path
    records: list[Record]
    # Position and size of each batch.
    batches: list[tuple[int, int]]
    # Position and size of each stretch of damage.
    damage: list[tuple[int, int]]


def made(path: Path, cases: list[Case], *, damaged: bool) -> Mixed:
    """The sound bytes of all cases; with damage, something that is no entry behind each."""
    chance = random.Random(7)
    mixed = Mixed(path, [], [], [])
    with path.open("wb") as out:
        for case in cases:
            start = out.tell()
            out.write(case.path.read_bytes()[: case.end["validBytes"]])
            mixed.batches += [(start + b.head["position"], b.head["sizeInBytes"]) for b in case.batches]
            mixed.records += case.delivered
            # Behind a file without a batch, two stretches of damage would be one.
            if damaged and case.batches:
                kind = chance.randrange(3)
                size = chance.choice((1, 13, 61, 700, 5000))
                at = out.tell()
                if kind == 0:
                    # As a disk shows a page that was never written.
                    out.write(bytes(size))
                elif kind == 1:
                    out.write(chance.randbytes(size))
                else:
                    # A sound batch with one bit turned.
                    entry = bytearray(chance.choice(ENTRIES))
                    entry[chance.randrange(22, len(entry))] ^= 1 << chance.randrange(8)
                    out.write(entry)
                mixed.damage.append((at, out.tell() - at))
    return mixed


CASES = [case for case in whole() if case.name.startswith("golden/")] or whole()
# Entries whose every bit from the 22nd byte on is under the checksum (v2: from the attributes on).
ENTRIES = [
    case.path.read_bytes()[(at := batch.head["position"]) : at + batch.head["sizeInBytes"]]
    for case in CASES[:40]
    for batch in case.batches[:3]
    if batch.records and batch.head["sizeInBytes"] > 30
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    return made(tmp_path_factory.mktemp("mixed") / f"{0:020}.log", CASES, damaged=False)


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    return made(tmp_path_factory.mktemp("holed") / f"{0:020}.log", CASES, damaged=True)


@pytest.mark.parametrize("mmap", [False, True])
def test_all_in_one_log(sound: Mixed, mmap: bool) -> None:
    log = mb.Log(sound.path, mmap=mmap)
    assert [(batch.position, batch.size) for batch in log.batches()] == sound.batches
    compare.same(sound.records, [compare.consumed(record) for record in log.records()])
    compare.same(sound.records, compare.rows(log.scan(columns=compare.ARROW_COLUMNS).to_arrow()))
    compare.same(sound.records, compare.rows(log.scan(columns=compare.ARROW_COLUMNS, views=True).to_arrow()))
    assert log.scan().count() == len(sound.records)


def test_read_in_parts(sound: Mixed) -> None:
    """Parts that meet at batch boundaries give the same, together."""
    chance = random.Random(11)
    edges = sorted(chance.sample([position for position, _ in sound.batches[1:]], 20))
    edges = [0, *edges, sound.path.stat().st_size]
    parts = [_core.Part(str(sound.path), "t", 0, first, end) for first, end in pairwise(edges)]
    reader = _core.Reader(parts)
    compare.same(sound.records, [compare.consumed(record) for record in reader.records()])
    table = _core.Reader(parts).scan(compare.ARROW_COLUMNS).to_arrow()
    compare.same(sound.records, compare.rows(table))
    assert not reader.findings


@pytest.mark.parametrize("mode", ["DROPMALFORMED", "PERMISSIVE"])
@pytest.mark.parametrize("mmap", [False, True])
def test_holes_are_found_and_left(holed: Mixed, mode: str, mmap: bool) -> None:
    reader = _core.Reader([_core.Part(str(holed.path))], mode=mode, mmap=mmap)
    compare.same(holed.records, [compare.consumed(record) for record in reader.records()])
    # Each is named once, in order, from its first byte to its last.
    found = [(position, size) for _, position, _, size, _ in reader.findings]
    compare.same(holed.damage, found)


def test_holes_stop_a_careful_reader(holed: Mixed) -> None:
    with pytest.raises(mb.CorruptRecordError) as caught:
        list(mb.Log(holed.path).records())
    assert (caught.value.path, caught.value.position) == (str(holed.path), holed.damage[0][0])


def test_columns_of_a_log_with_holes(holed: Mixed) -> None:
    log = mb.Log(holed.path, mode="DROPMALFORMED")
    compare.same(holed.records, compare.rows(log.scan(columns=compare.ARROW_COLUMNS).to_arrow()))
