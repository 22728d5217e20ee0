"""The files beside a segment: index, time index, transaction index."""

from __future__ import annotations

import pytest

from magicbyte import _core

from golden.corpus import Case, logs


def ids(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


def base_offset(case: Case) -> int:
    return int(case.path.stem)


INDEXES, TIME_INDEXES, TXN_INDEXES = logs(".index"), logs(".timeindex"), logs(".txnindex")


@pytest.mark.parametrize("case", INDEXES, ids=ids(INDEXES))
def test_offset_index(case: Case) -> None:
    index = _core.OffsetIndex(case.path.read_bytes(), base_offset(case))
    expected = [(line["offset"], line["position"]) for line in case.entries]
    assert index.entries() == expected
    assert len(index) == len(expected)
    for offset, position in expected:
        assert index.lookup(offset) == (offset, position)
        assert index.lookup(offset + 1)[0] >= offset
    # Before the first entry, the segment's begin.
    assert index.lookup(base_offset(case)) in [(base_offset(case), 0), *expected[:1]]


@pytest.mark.parametrize("case", TIME_INDEXES, ids=ids(TIME_INDEXES))
def test_time_index(case: Case) -> None:
    index = _core.TimeIndex(case.path.read_bytes(), base_offset(case))
    expected = [(line["timestamp"], line["offset"]) for line in case.entries]
    assert index.entries() == expected
    for timestamp, offset in expected:
        assert index.lookup(timestamp) == (timestamp, offset)


@pytest.mark.parametrize("case", TXN_INDEXES, ids=ids(TXN_INDEXES))
def test_transaction_index(case: Case) -> None:
    got = _core.aborted_transactions(case.path.read_bytes())
    names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    assert got == [tuple(line[name] for name in names) for line in case.entries]
