"""Headers: the cases of Kafka's public RecordHeaders tests by name, the interface's own words, and a list as the model."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import magicbyte as mb

Pair = tuple[str, bytes | None]


def stored(pairs: list[Pair]) -> mb.Headers:
    """The same headers as a reader hands them out: not looked at yet, in a batch's bytes."""
    record = mb.ConsumerRecord("t", 0, 0, 0, 0, None, None, pairs)
    return next(mb.decode(mb.encode([record]))).headers


BOTH = pytest.mark.parametrize("make", [mb.Headers, stored], ids=["made", "stored"])


class TestKafkasRecordHeadersCases:
    """What Kafka's `org.apache.kafka.common.header.internals.RecordHeadersTest` asks for, in our words; each names its case there."""

    def test_add(self) -> None:
        """`testAdd`."""
        headers = mb.Headers()
        headers.add(mb.Header("key", b"value"))
        assert next(iter(headers)) == mb.Header("key", b"value")
        headers.add(mb.Header("key2", b"value2"))
        assert headers.last_header("key2") == mb.Header("key2", b"value2")
        assert len(headers) == 2

    @BOTH
    def test_remove(self, make: Any) -> None:
        """`testRemove`."""
        headers = make([("key", b"value")])
        headers.remove("key")
        assert list(headers) == []
        assert len(headers) == 0

    @BOTH
    def test_add_and_remove_interleaved(self, make: Any) -> None:
        """`testAddRemoveInterleaved`."""
        headers = make([("key", b"value"), ("key2", b"value2")])
        headers.remove("key")
        headers.add("key3", b"value3")
        assert headers.last_header("key") is None
        assert headers.to_list() == [("key2", b"value2"), ("key3", b"value3")]
        headers.remove("key2").add("key3", b"value4").add("key", b"new")
        assert headers.last_header("key3") == mb.Header("key3", b"value4")
        assert headers.to_list() == [("key3", b"value3"), ("key3", b"value4"), ("key", b"new")]
        headers.remove("key3").remove("key")
        assert not list(headers)

    @BOTH
    def test_last_header(self, make: Any) -> None:
        """`testLastHeader`."""
        headers = make([("key", b"value"), ("key", b"value2"), ("key", b"value3")])
        assert headers.last_header("key") == mb.Header("key", b"value3")
        assert len(headers) == 3

    @BOTH
    def test_read_only(self, make: Any) -> None:
        """`testReadOnly`, and the iterators of before and after `close`."""
        headers = make([("key", b"value")])
        assert not headers.read_only
        before = iter(headers)
        headers.close()
        assert headers.read_only
        for change in (
            lambda: headers.add("key", b"value"),
            lambda: headers.add(mb.Header("key", b"value")),
            lambda: headers.remove("key"),
            lambda: headers.remove("no such key"),
            lambda: headers.remove(mb.Header("key", b"value")),
        ):
            with pytest.raises(mb.IllegalStateError, match=r"record\.copy\(\)"):
                change()
        # Reading goes on.
        assert [header.key for header in before] == ["key"]
        assert headers.to_list() == [("key", b"value")]
        headers.close()

    @BOTH
    def test_headers_of_a_key(self, make: Any) -> None:
        """`testHeaders`."""
        headers = make([("key", b"value"), ("key1", b"key1value"), ("key", b"value2"), ("key2", b"key2value")])
        assert headers.headers("key") == [mb.Header("key", b"value"), mb.Header("key", b"value2")]
        assert headers.headers("key1") == [mb.Header("key1", b"key1value")]
        assert headers.headers("key2") == [mb.Header("key2", b"key2value")]
        assert headers.headers("key3") == []

    @BOTH
    def test_a_copy_is_open_and_independent(self, make: Any) -> None:
        """`testNew`."""
        headers = make([("key", b"value")])
        headers.close()
        for another in (mb.Headers(headers), headers.copy(), copy.copy(headers), copy.deepcopy(headers)):
            assert not another.read_only
            another.add("key", b"value2")
            assert another.last_header("key") == mb.Header("key", b"value2")
        assert headers.to_list() == [("key", b"value")]

    def test_no_null_header(self) -> None:
        """`shouldThrowNpeWhenAddingNullHeader`, `shouldThrowNpeWhenAddingCollectionWithNullHeader`."""
        headers = mb.Headers()
        with pytest.raises(TypeError):
            headers.add(None)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            mb.Headers([None])  # type: ignore[list-item]
        assert len(headers) == 0

    def test_no_null_key(self) -> None:
        with pytest.raises(TypeError, match="a header key is a str"):
            mb.Header(None, b"value")  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            mb.Headers([(None, b"value")])  # type: ignore[list-item]

    def test_a_null_value_is_not_an_empty_one(self) -> None:
        assert mb.Header("key", None).value is None
        assert mb.Header("key") == mb.Header("key", None) != mb.Header("key", b"")
        assert stored([("a", None), ("b", b"")]).to_list() == [("a", None), ("b", b"")]

    @BOTH
    def test_read_by_many_threads(self, make: Any) -> None:
        headers = make([(f"key{number}", b"value") for number in range(50)])
        seen: list[bool] = []

        def read() -> None:
            seen.append([header.key for header in headers] == [f"key{number}" for number in range(50)])

        threads = [threading.Thread(target=read) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == [True] * 8


class TestPythonsManners:
    def test_built_from_what_the_clients_use(self) -> None:
        pairs: list[Pair] = [("a", b"1"), ("b", None), ("a", b"")]
        expected = [mb.Header("a", b"1"), mb.Header("b", None), mb.Header("a", b"")]
        for given_ in (pairs, tuple(pairs), iter(pairs), [list(pair) for pair in pairs], expected, mb.Headers(pairs)):
            assert list(mb.Headers(given_)) == expected
        assert mb.Headers({"a": b"1", "b": None}).to_list() == [("a", b"1"), ("b", None)]
        assert mb.Headers(None) == mb.Headers() == mb.Headers([])
        assert mb.Headers([("a", bytearray(b"x")), ("b", memoryview(b"y"))]).to_list() == [("a", b"x"), ("b", b"y")]
        assert mb.Headers(pairs).to_list() == pairs

    @pytest.mark.parametrize(
        "wrong", [["a"], [("a",)], [("a", b"", b"")], [("a", "text")], [(b"a", b"")], 5, [("a", 5)]]
    )
    def test_refuses_what_is_no_header(self, wrong: Any) -> None:
        with pytest.raises(TypeError):
            mb.Headers(wrong)

    def test_lone_surrogates_are_no_text(self) -> None:
        with pytest.raises(UnicodeEncodeError):
            mb.Header("\ud800", b"")

    @BOTH
    def test_the_drafts_get_and_keys(self, make: Any) -> None:
        headers = make([("k", b"1"), ("other", None), ("k", None), ("k", b"1")])
        assert headers.get("k") == [b"1", None, b"1"]
        assert headers.get("nothing") == []
        assert headers.keys() == ["k", "other"]

    @BOTH
    def test_views(self, make: Any) -> None:
        headers = make([("k", b"1"), ("other", None), ("k", None), ("k", b"2")])
        assert headers.first == {"k": b"1", "other": None}
        assert headers.last == {"k": b"2", "other": None}
        assert headers.all == {"k": [b"1", None, b"2"], "other": [None]}
        assert list(headers.all) == list(headers.last) == ["k", "other"]

    @BOTH
    def test_remove_takes_all_equal_headers(self, make: Any) -> None:
        headers = make([("k", b"1"), ("k", None), ("k", b"1"), ("k", b""), ("j", b"1")])
        headers.remove(mb.Header("k", b"1"))
        assert headers.to_list() == [("k", None), ("k", b""), ("j", b"1")]
        headers.remove(mb.Header("k", None))
        assert headers.to_list() == [("k", b""), ("j", b"1")]

    @BOTH
    def test_membership_length_and_index(self, make: Any) -> None:
        headers = make([("k", b"1"), ("j", None)])
        assert "k" in headers and "x" not in headers and 5 not in headers
        assert mb.Header("k", b"1") in headers and mb.Header("k", b"2") not in headers
        assert headers[0] == mb.Header("k", b"1") and headers[-1] == mb.Header("j", None)
        with pytest.raises(IndexError):
            headers[2]
        assert len(headers) == 2

    @BOTH
    def test_unpacking_and_hashing(self, make: Any) -> None:
        assert [(key, value) for key, value in make([("a", b"1"), ("b", None)])] == [("a", b"1"), ("b", None)]
        assert {mb.Header("a", b"1"), mb.Header("a", b"1"), mb.Header("a", None)} == set(
            make([("a", b"1"), ("a", None)])
        )
        with pytest.raises(TypeError, match="unhashable"):
            hash(make([]))

    def test_order_and_repetition_decide_equality(self) -> None:
        one = mb.Headers([("a", b"1"), ("b", b"2")])
        assert one != mb.Headers([("b", b"2"), ("a", b"1")])
        assert one != mb.Headers([("a", b"1"), ("b", b"2"), ("b", b"2")])
        assert one == stored([("a", b"1"), ("b", b"2")])
        assert one != [("a", b"1"), ("b", b"2")]

    def test_a_change_while_iterating_does_not_reach_the_iterator(self) -> None:
        headers = mb.Headers([("a", b"1"), ("b", b"2")])
        for header in headers:
            headers.add(header.key + "'", header.value)
            headers.remove(header)
        assert headers.keys() == ["a'", "b'"]

    @BOTH
    def test_pickled(self, make: Any) -> None:
        headers = make([("a", b"1"), ("b", None)])
        assert pickle.loads(pickle.dumps(headers)) == headers
        assert not pickle.loads(pickle.dumps(headers)).read_only
        headers.close()
        assert pickle.loads(pickle.dumps(headers)).read_only

    def test_a_key_that_is_not_utf8_keeps_its_bytes(self) -> None:
        header = mb.Header.from_raw(b"k\xff", b"v")
        assert (header.key, header.raw_key) == ("k\ufffd", b"k\xff")
        assert header != mb.Header("k\ufffd", b"v")
        assert pickle.loads(pickle.dumps(header)).raw_key == b"k\xff"

    def test_repr_can_be_evaluated(self) -> None:
        headers = mb.Headers([("a", b"1"), ("b", None)])
        names = {"Headers": mb.Headers, "Header": mb.Header}
        assert eval(repr(headers), names) == headers
        assert eval(repr(headers[0]), names) == headers[0]


KEYS = st.sampled_from(["a", "b", "", "ключ", "\U0001f511", "\x00"])
VALUES = st.one_of(st.none(), st.binary(max_size=3))
PAIRS = st.lists(st.tuples(KEYS, VALUES), max_size=8)


class HeadersLikeAList(RuleBasedStateMachine):
    """Any calls in any order: a list of pairs says what must come out."""

    @initialize(pairs=PAIRS, from_bytes=st.booleans())
    def begin(self, pairs: list[Pair], from_bytes: bool) -> None:
        self.model = list(pairs)
        self.headers = stored(pairs) if from_bytes else mb.Headers(pairs)
        self.closed = False

    def change(self, work: Any, after: list[Pair]) -> None:
        if self.closed:
            with pytest.raises(mb.IllegalStateError):
                work()
        else:
            assert work() is self.headers
            self.model = after

    @rule(key=KEYS, value=VALUES, form=st.integers(0, 2))
    def add(self, key: str, value: bytes | None, form: int) -> None:
        arguments: tuple[Any, ...] = ((key, value), (mb.Header(key, value),), ((key, value),))[form]
        self.change(lambda: self.headers.add(*arguments), [*self.model, (key, value)])

    @rule(key=KEYS)
    def remove_key(self, key: str) -> None:
        self.change(lambda: self.headers.remove(key), [pair for pair in self.model if pair[0] != key])

    @rule(key=KEYS, value=VALUES)
    def remove_header(self, key: str, value: bytes | None) -> None:
        kept = [pair for pair in self.model if pair != (key, value)]
        self.change(lambda: self.headers.remove(mb.Header(key, value)), kept)

    @rule()
    def close(self) -> None:
        self.headers.close()
        self.closed = True

    @rule(
        how=st.sampled_from([mb.Headers, copy.copy, copy.deepcopy, mb.Headers.copy, lambda h: mb.Headers(h.to_list())])
    )
    def go_on_with_a_copy(self, how: Any) -> None:
        self.headers = how(self.headers)
        self.closed = False

    @rule()
    def through_pickle(self) -> None:
        self.headers = pickle.loads(pickle.dumps(self.headers))

    @rule()
    def through_bytes(self) -> None:
        self.headers = stored(self.headers.to_list())
        self.closed = False

    @rule(key=KEYS, value=VALUES)
    def look(self, key: str, value: bytes | None) -> None:
        of_key = [pair for pair in self.model if pair[0] == key]
        assert self.headers.get(key) == [content for _, content in of_key]
        assert [tuple(header) for header in self.headers.headers(key)] == of_key
        last = self.headers.last_header(key)
        assert (None if last is None else tuple(last)) == (of_key[-1] if of_key else None)
        assert (key in self.headers) == bool(of_key)
        assert (mb.Header(key, value) in self.headers) == ((key, value) in self.model)

    @invariant()
    def same_list(self) -> None:
        assert self.headers.to_list() == self.model
        assert [tuple(header) for header in self.headers] == self.model
        assert len(self.headers) == len(self.model)
        assert self.headers.keys() == list(dict(self.model))
        assert self.headers.last == dict(self.model)
        assert self.headers.first == dict(reversed(self.model))
        assert self.headers == mb.Headers(self.model)
        assert self.headers.read_only == self.closed


HeadersLikeAList.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
TestHeadersLikeAList = HeadersLikeAList.TestCase


@given(PAIRS, PAIRS)
def test_equality_is_that_of_lists(one: list[Pair], other: list[Pair]) -> None:
    assert (mb.Headers(one) == stored(other)) == (one == other)


@pytest.mark.slow
def test_headers_over_a_million_records_leak_nothing() -> None:
    record = mb.ConsumerRecord("t", 0, 0, 0, 0, b"key", b"value", [("a", b"1"), ("b", None), ("a", b"x" * 20)])
    data = mb.encode([record.replace(offset=number) for number in range(1000)])

    def thousand() -> int:
        size = 0
        for found in mb.decode(data):
            headers = found.headers
            headers.add("added", b"value").remove("b")
            size += sum(len(header.key) + len(header.value or b"") for header in headers.copy())
        return size

    for _ in range(10):
        expected = thousand()
    gc.collect()
    blocks, rest = sys.getallocatedblocks(), resident()
    for _ in range(1000):
        assert thousand() == expected
    gc.collect()
    assert sys.getallocatedblocks() - blocks < 1000
    # A leak of one byte a header would be 4 MB.
    assert resident() - rest < 3 << 20


def resident() -> int:
    """Bytes that this process holds in memory; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except OSError:
        return 0
