"""Records and headers that nobody holds become the next ones; whatever somebody holds stays what it is."""

from __future__ import annotations

import random
import sys
import threading
from typing import Any

import pytest

import magicbyte as mb

COUNT = 40
Facts = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


def pairs(number: int) -> list[tuple[str, bytes | None]]:
    return [(f"k{n % 3}", None if n % 4 == 3 else b"%d.%d" % (number, n)) for n in range(number % 5)]


def expected(number: int) -> Facts:
    key = None if number % 7 == 0 else b"key %d" % number
    return number, 1000 + number, key, None if number % 11 == 0 else b"value %d" % number, pairs(number)


def facts(record: mb.ConsumerRecord) -> Facts:
    return record.offset, record.timestamp, record.key, record.value, record.headers.to_list()


@pytest.fixture(scope="module")
def data() -> bytes:
    """Some batches of different sizes and codecs."""
    out = b""
    for first, last, codec in ((0, 1, "none"), (1, 3, "lz4"), (3, 20, "none"), (20, COUNT, "zstd")):
        records = [mb.ConsumerRecord("t", 0, *expected(n)[:2], 0, *expected(n)[2:]) for n in range(first, last)]
        out += mb.encode(records, codec=codec)
    return out


ALL = [expected(number) for number in range(COUNT)]


def test_a_loop_that_keeps_nothing(data: bytes) -> None:
    assert [facts(record) for record in mb.decode(data)] == ALL


def test_what_is_kept_stays(data: bytes) -> None:
    records = list(mb.decode(data))
    assert [facts(record) for record in records] == ALL
    assert len({id(record) for record in records}) == COUNT


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_kept_stays(data: bytes, seed: int) -> None:
    """Records, headers, single headers, iterators over them: kept at random, for as long as it pleases."""
    source = random.Random(seed)
    kept: list[tuple[Any, Any]] = []
    for number, record in enumerate(mb.decode(data)):
        match source.randrange(8):
            case 0:
                kept.append((lambda record=record: facts(record), ALL[number]))
            case 1:
                headers = record.headers
                kept.append((lambda headers=headers: headers.to_list(), pairs(number)))
            case 2:
                for header, pair in zip(record.headers, pairs(number), strict=True):
                    if source.randrange(2):
                        kept.append((lambda header=header: (header.key, header.value), pair))
            case 3:
                left = iter(record.headers)
                some = [tuple(next(left)) for _ in range(min(2, number % 5))]
                # It can be looked at once: looks again find nothing.
                kept.append((lambda left=left, some=some: some + [tuple(one) for one in left], pairs(number)))
            case 4:
                record.headers.add("added", b"%d" % number)
                assert record.headers.to_list() == [*pairs(number), ("added", b"%d" % number)]
            case 5:
                record.headers.close()
            case 6:
                copied = record.headers.copy()
                kept.append((lambda copied=copied: copied.to_list(), pairs(number)))
            case 7:
                for one in record.headers:
                    # A loop within the loop.
                    assert [other.key for other in record.headers] == [key for key, _ in pairs(number)]
                    assert one in record.headers
        assert (record.offset, record.key) == (number, ALL[number][2])
        assert not kept or source.randrange(3) or kept.pop(source.randrange(len(kept))) is not None
    for look, was in kept:
        assert look() == was


def test_changed_or_closed_headers_are_not_the_next_records(data: bytes) -> None:
    for number, record in enumerate(mb.decode(data)):
        assert record.headers.to_list() == pairs(number)
        assert not record.headers.read_only
        if number % 2:
            record.headers.add("x", None).remove("k0")
        else:
            record.headers.close()


def test_headers_outlive_their_record_and_header_outlives_both(data: bytes) -> None:
    records = mb.decode(data)
    for _ in range(8):
        record = next(records)
    headers = record.headers
    header = headers[0]
    first = next(iter(headers))
    del record
    list(records)
    assert headers.to_list() == pairs(7)
    del headers
    assert tuple(header) == tuple(first) == pairs(7)[0]


def test_one_loop_makes_few_objects(data: bytes) -> None:
    many = mb.encode([mb.ConsumerRecord("t", 0, n, 0, 0, b"k", b"v", [("a", b"1")] * 3) for n in range(1000)])
    made: set[int] = set()
    inner: set[int] = set()
    for record in mb.decode(many):
        made.add(id(record))
        for header in record.headers:
            inner.add(id(header))
    assert len(made) <= 3 and len(inner) <= 8


def test_a_record_that_is_not_looked_at_costs_one_object() -> None:
    many = mb.encode([mb.ConsumerRecord("t", 0, n, 10**9, 0, b"k" * 9, b"v" * 9, [("a", b"1")]) for n in range(1000)])
    records = mb.decode(many)
    kept = [next(records)]
    before = sys.getallocatedblocks()
    kept += [next(records) for _ in range(900)]
    assert sys.getallocatedblocks() - before < 900 + 50


def test_threads_share_an_iterator(data: bytes) -> None:
    many = data * 50
    records = mb.decode(many)
    found: list[Facts] = []

    def work() -> None:
        for record in records:
            found.append(facts(record))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=lambda one: one[0]) == sorted(ALL * 50, key=lambda one: one[0])
