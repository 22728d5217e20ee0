"""Records and headers that nobody holds become the next ones; whatever somebody holds stays what it is."""

from __future__ import annotations

import asyncio
import collections
import copy
import functools
import gc
import heapq
import itertools
import operator
import pickle
import queue
import random
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import magicbyte as mb

COUNT = 40
Pairs = list[tuple[str, bytes | None]]
Facts = tuple[int, int, bytes | None, bytes | None, Pairs]
Look = tuple[Callable[[], Any], Any]
"""A look at something that is kept, and what must be seen whenever it is taken."""


def pairs(number: int) -> Pairs:
    return [(f"k{n % 3}", None if n % 4 == 3 else b"%d.%d" % (number, n)) for n in range(number % 5)]


def expected(number: int) -> Facts:
    key = None if number % 7 == 0 else b"key %d" % number
    return number, 1000 + number, key, None if number % 11 == 0 else b"value %d" % number, pairs(number)


def facts(record: mb.ConsumerRecord) -> Facts:
    return record.offset, record.timestamp, record.key, record.value, record.headers.to_list()


def encoded(cuts: list[int], codecs: list[str], format: str = "v2") -> bytes:
    """`COUNT` records in batches that end at `cuts`."""
    out = b""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < COUNT}), COUNT]
    for turn, (first, last) in enumerate(itertools.pairwise(edges)):
        records = [mb.ConsumerRecord("t", 0, *expected(n)[:2], 0, *expected(n)[2:]) for n in range(first, last)]
        out += mb.encode(records, codec=codecs[turn % len(codecs)], format=format)
    return out


@pytest.fixture(scope="module")
def data() -> bytes:
    """Some batches of different sizes and codecs."""
    return encoded([1, 3, 20], ["none", "lz4", "none", "zstd"])


ALL = [expected(number) for number in range(COUNT)]


def test_a_loop_that_keeps_nothing(data: bytes) -> None:
    assert [facts(record) for record in mb.decode(data)] == ALL


# Every way in which a loop's records can be kept that we could think of: each gives all of them, in order.


def teed(records: Any) -> Any:
    one, other = itertools.tee(records)
    first = list(one)
    assert [facts(record) for record in other] == [facts(record) for record in first]
    return first


def of_pairs(records: Any) -> Any:
    found = list(itertools.pairwise(records))
    assert all(one[1] is other[0] for one, other in itertools.pairwise(found))
    return [found[0][0], *(later for _, later in found)]


def zipped_with_itself(records: Any) -> Any:
    return [record for some in zip(records, records, strict=True) for record in some]


def zipped_beside(records: Any) -> Any:
    return [record for record, _ in list(zip(records, itertools.count()))]


def suspended(records: Any) -> Any:
    def holds(record: Any) -> Iterator[Any]:
        yield
        yield record

    generators = [holds(record) for record in records]
    for generator in generators:
        next(generator)
    return [next(generator) for generator in generators]


def raised(records: Any) -> Any:
    """Only the frames of tracebacks hold them."""

    def fail(record: Any) -> None:
        raise ValueError(len(record.headers))

    caught = []
    for record in records:
        try:
            fail(record)
        except ValueError as error:
            caught.append(error.__traceback__)
        del record
    return [traceback.tb_next.tb_frame.f_locals["record"] for traceback in caught if traceback and traceback.tb_next]


def in_locals(records: Any) -> Any:
    def names(record: Any) -> dict[str, Any]:
        return locals()

    return [names(record)["record"] for record in records]


def awaited(records: Any) -> Any:
    async def stream() -> Any:
        for record in records:
            await asyncio.sleep(0)
            yield record

    async def late(record: Any) -> Any:
        await asyncio.sleep(0)
        return record

    async def run() -> Any:
        tasks = [asyncio.create_task(late(record)) async for record in stream()]
        return await asyncio.gather(*tasks)

    return asyncio.run(run())


def through_a_queue(records: Any) -> Any:
    waiting: queue.Queue[Any] = queue.Queue()
    found: list[Any] = []
    taker = threading.Thread(target=lambda: found.extend(iter(waiting.get, None)))
    taker.start()
    for record in records:
        waiting.put(record)
        del record
    waiting.put(None)
    taker.join()
    return found


def in_a_pool(records: Any) -> Any:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda record: record, records))


def in_windows(records: Any) -> Any:
    window: collections.deque[Any] = collections.deque(maxlen=3)
    found = []
    for record in records:
        window.append(record)
        assert [one.offset for one in window] == list(range(record.offset - len(window) + 1, record.offset + 1))
        if len(window) == 3:
            found.append(window[0])
    return [*found, *list(window)[1:]]


def by_heap(records: Any) -> Any:
    heap: list[Any] = []
    for record in records:
        heapq.heappush(heap, (-record.offset, record))
    return [heapq.heappop(heap)[1] for _ in range(len(heap))][::-1]


def by_unpacking(records: Any) -> Any:
    first, second, *rest = records
    return [first, second, *rest]


def by_partial(records: Any) -> Any:
    return [call() for call in [functools.partial(operator.pos, 0) and functools.partial(keep, r) for r in records]]


def keep(record: Any) -> Any:
    return record


def by_reduce(records: Any) -> Any:
    return functools.reduce(lambda kept, record: [*kept, record], records, [])


def by_attribute(records: Any) -> Any:
    class Holder:
        def __init__(self, record: Any) -> None:
            self.record = record
            self.cycle = self

    return [holder.record for holder in [Holder(record) for record in records]]


def by_bound_methods(records: Any) -> Any:
    return [method.__self__ for method in [record.copy for record in records]]


WAYS: list[Callable[[Any], Any]] = [
    list, tuple, collections.deque, lambda records: [*records], lambda records: sorted(records, key=lambda r: r.offset),
    lambda records: list({record.offset: record for record in records}.values()),
    lambda records: list({id(record): record for record in records}.values()),
    lambda records: [kept() for kept in [lambda record=record: record for record in records]],
    lambda records: list(map(keep, records)), lambda records: list(filter(lambda record: record.offset >= 0, records)),
    lambda records: list(itertools.chain(itertools.islice(records, 7), records)),
    lambda records: [record for _, some in itertools.groupby(records, lambda r: r.offset // 4) for record in list(some)],
    lambda records: [copy.copy(record) for record in records], lambda records: [copy.deepcopy(r) for r in records],
    lambda records: [pickle.loads(some) for some in [pickle.dumps(record) for record in records]],
    teed, of_pairs, zipped_with_itself, zipped_beside, suspended, raised, in_locals, awaited, through_a_queue, in_a_pool,
    in_windows, by_heap, by_unpacking, by_partial, by_reduce, by_attribute, by_bound_methods,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=[f"{at}-{way.__name__}" for at, way in enumerate(WAYS)])
def test_whatever_keeps_records_keeps_what_they_were(data: bytes, way: Callable[[Any], Any]) -> None:
    found = list(way(mb.decode(data)))
    assert [facts(record) for record in found] == ALL
    assert len({id(record) for record in found}) == COUNT
    # The same for what hangs on a record, while the record itself is let go.
    headers = [record.headers for record in way(mb.decode(data))]
    assert [some.to_list() for some in headers] == [pairs(number) for number in range(COUNT)]
    inner = [list(iter(record.headers)) for record in way(mb.decode(data))]
    assert [[(header.key, header.value) for header in some] for some in inner] == [
        pairs(number) for number in range(COUNT)
    ]


def test_the_same_ways_for_headers() -> None:
    many: Pairs = [(f"k{n % 5}", None if n % 4 == 3 else b"%d" % n) for n in range(30)]
    data = mb.encode([mb.ConsumerRecord("t", 0, 0, 0, 0, None, None, many)])
    for way in (list, tuple, zipped_with_itself, zipped_beside, suspended, through_a_queue, in_a_pool, by_unpacking):
        found = list(way(iter(next(mb.decode(data)).headers)))
        assert [tuple(header) for header in found] == [(header.key, header.value) for header in found] == many
    assert dict.fromkeys(next(mb.decode(data)).headers).keys() == {mb.Header(*pair) for pair in many}


def test_nothing_looks_at_an_object_without_a_reference_of_its_own() -> None:
    """What the reuse rests on: weak references there are none, and the garbage collector hands out counted ones."""
    records = mb.decode(mb.encode([mb.ConsumerRecord("t", 0, n, 0, 0, b"k", b"v", [("a", b"1")]) for n in range(9)]))
    record = next(records)
    looping = iter(record.headers)
    header = next(looping)
    for it in (record, record.headers, looping, header, iter(header)):
        with pytest.raises(TypeError, match="weak"):
            weakref.ref(it)
    with pytest.raises(TypeError, match="acceptable base type"):
        type("Mine", (mb.ConsumerRecord,), {})
    del record, looping, header
    seen: list[tuple[int, Any]] = []
    for _record in records:
        seen += [(it.offset, it) for it in gc.get_objects() if isinstance(it, mb.ConsumerRecord)]
    assert all(it.offset == was for was, it in seen)
    assert {was for was, _ in seen} >= set(range(1, 9))


@pytest.mark.parametrize("threshold", [1, 2, 3])
def test_python_code_that_runs_while_an_object_is_made(data: bytes, threshold: int) -> None:
    """A collection of garbage may run finalizers at any allocation: here they take from the same loops."""
    records = mb.decode(data)
    found: list[Any] = []
    busy = False

    class Takes:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            nonlocal busy
            if not busy:
                busy = True
                found.extend(itertools.islice(records, 1))
                busy = False

    before = gc.get_threshold()
    gc.set_threshold(threshold, 1, 1)
    try:
        for record in records:
            found.append(record)
            Takes()
            inner = iter(record.headers)
            assert len([*inner, *inner]) == len(record.headers)
    finally:
        gc.set_threshold(*before)
    assert sorted(map(facts, found)) == ALL


def explore(choose: Callable[[int], int], number: int, record: mb.ConsumerRecord, kept: list[Look]) -> None:
    """Does something with a record of a loop, and keeps something of it or not."""
    headers = record.headers
    own = pairs(number)
    match choose(13):
        case 0:
            kept.append((lambda: facts(record), ALL[number]))
        case 1:
            kept.append((headers.to_list, own))
        case 2:
            for header, pair in zip(record.headers, own, strict=True):
                if choose(2):
                    kept.append((lambda header=header: (header.key, header.value), pair))
        case 3:
            left = iter(headers)
            some = [tuple(header) for header in itertools.islice(left, choose(3))]
            seen: Pairs = []
            # It can be looked at once: looks again find nothing.
            kept.append((lambda: some + (seen.extend(tuple(one) for one in left) or seen), own))
        case 4:
            record.headers.add("added", b"%d" % number)
            assert record.headers.to_list() == [*own, ("added", b"%d" % number)]
        case 5:
            record.headers.close()
            assert record.headers.read_only
        case 6:
            kept.append((headers.copy().to_list, own))
        case 7:
            for header in record.headers:
                # A loop within the loop.
                assert [(other.key, other.value) for other in record.headers] == own
                assert header in record.headers
        case 8:
            # The two halves of a pair, apart in time.
            for header, (key, value) in zip(headers, own, strict=True):
                halves = iter(header)
                assert next(halves) == key
                if choose(2):
                    rest: list[bytes | None] = []
                    kept.append((lambda halves=halves, rest=rest: rest.extend(halves) or rest, [value]))
                else:
                    assert list(halves) == [value] and list(halves) == []
                again, it = header
                assert (again, it) == (key, value)
        case 9:
            copied = record.copy()
            kept.append((lambda: facts(copied), ALL[number]))
        case 10:
            headers.remove("k0").add("k9", None)
            kept.append((headers.to_list, [*(pair for pair in own if pair[0] != "k0"), ("k9", None)]))
        case 11:
            kept.append((lambda bound=record.headers.last_header: bound("k1") and tuple(bound("k1")),
                         next((pair for pair in reversed(own) if pair[0] == "k1"), None)))  # fmt: skip
        case 12:
            assert facts(record) == ALL[number] and [tuple(header) for header in headers] == own
    if kept and choose(3) == 0:
        look, was = kept.pop(choose(len(kept)))
        assert look() == was


def settle(kept: list[Look]) -> None:
    for look, was in kept:
        assert look() == was


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(0, COUNT), max_size=6),
    st.lists(st.sampled_from(["none", "lz4", "gzip", "snappy"]), min_size=1, max_size=3),
    st.sampled_from(["v2", "v3", "kip82a"]),
    st.randoms(use_true_random=False),
)
def test_whatever_is_kept_stays(cuts: list[int], codecs: list[str], format: str, source: random.Random) -> None:
    """Records, headers, single headers, loops over them: kept at random, for as long as it pleases, by several loops."""
    data = encoded(cuts, codecs, format)
    loops = [mb.decode(data, format="kafka" if format[0] == "v" and format != "v3" else format) for _ in range(3)]
    at, kept = [0, 0, 0], list[Look]()
    while loops:
        which = source.randrange(len(loops))
        record = next(loops[which], None)
        if record is None:
            assert at.pop(which) == COUNT
            del loops[which]
            continue
        assert (record.offset, record.key, record.headers.read_only) == (at[which], ALL[at[which]][2], False)
        explore(source.randrange, at[which], record, kept)
        at[which] += 1
        if source.randrange(4):
            del record
    settle(kept)


@pytest.mark.parametrize("seed", range(6))
def test_threads_share_an_iterator(data: bytes, seed: int) -> None:
    """They take records from it, do all of the above with them, and hand them to each other."""
    records = mb.decode(data * 40)
    taken: list[list[int]] = [[] for _ in range(6)]
    failures: list[BaseException] = []
    passed: collections.deque[Any] = collections.deque(maxlen=20)
    switch = sys.getswitchinterval()

    def work(thread: int) -> None:
        source, kept = random.Random(seed * 100 + thread), list[Look]()
        try:
            for record in records:
                number = record.offset
                taken[thread].append(number)
                explore(source.randrange, number, record, kept)
                if source.randrange(3) == 0:
                    passed.append((record.headers, iter(record.headers), record, number))
                elif passed and source.randrange(2):
                    try:
                        _, _, other, number = passed.popleft()
                    except IndexError:
                        continue
                    assert facts(other)[:4] == ALL[number][:4]
                if len(kept) > 30:
                    settle(kept)
                    kept.clear()
            settle(kept)
        except BaseException as error:
            failures.append(error)

    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(len(taken))]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(switch)
    assert not failures
    assert sorted(itertools.chain(*taken)) == sorted(list(range(COUNT)) * 40)


def test_threads_share_a_loop_over_headers() -> None:
    many: Pairs = [(f"k{n % 5}", b"%d" % n) for n in range(2000)]
    record = next(mb.decode(mb.encode([mb.ConsumerRecord("t", 0, 0, 0, 0, None, None, many)])))
    shared, found = iter(record.headers), list[tuple[str, bytes | None]]()

    def work() -> None:
        kept = list(shared)
        found.extend((header.key, header.value) for header in kept)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Without a GIL a header may come twice, as from a list's iterator.
    assert set(found) == set(many)
    assert len(found) == len(many) or not getattr(sys, "_is_gil_enabled", lambda: True)()


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


def test_a_loop_that_breaks_off_and_goes_on(data: bytes) -> None:
    records = mb.decode(data)
    for record in records:
        if record.offset == 11:
            break
    assert facts(record) == ALL[11]
    assert [one.offset for one in records] == list(range(12, COUNT))
    assert facts(record) == ALL[11] and next(records, None) is None


def test_an_error_in_the_middle_leaves_what_was_kept(data: bytes) -> None:
    broken = bytearray(data)
    broken[-1] ^= 1
    records, kept = mb.decode(bytes(broken)), list[Any]()
    with pytest.raises(mb.CorruptRecordError):
        kept.extend(map(keep, records))
    assert [facts(record) for record in kept] == ALL[: len(kept)] and len(kept) == 20


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="nothing is used again without a GIL")
def test_one_loop_makes_few_objects() -> None:
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


def test_names_take_the_ordinary_way_where_they_are_no_loops(data: bytes) -> None:
    """`offset`, `value` and others have a short way of their own; nobody can tell."""
    record = next(itertools.islice(mb.decode(data), 8, None))
    header = record.headers[0]
    for it, names in (
        (record, ("offset", "timestamp", "key", "value", "headers", "topic")),
        (header, ("key", "value")),
    ):
        for name in names:
            assert getattr(it, "".join(list(name))) == getattr(it, name) == object.__getattribute__(it, name)
            assert type(it).__dict__[name].__get__(it) == getattr(it, name)
        assert hasattr(it, "__reduce__") and not hasattr(it, "items")
        with pytest.raises(
            AttributeError, match=rf"'(magicbyte\.)?{type(it).__name__}' object has no attribute 'ofset'"
        ) as caught:
            it.ofset  # type: ignore[union-attr]  # noqa: B018
        assert (caught.value.name, caught.value.obj) == ("ofset", it)
        with pytest.raises(TypeError, match="must be str"):
            it.__getattribute__(5)  # type: ignore[arg-type]
        with pytest.raises(AttributeError):
            it.key = b""  # type: ignore[misc]


@pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="nothing is used again without a GIL")
def test_a_record_that_is_not_touched_costs_no_object() -> None:
    many = mb.encode([mb.ConsumerRecord("t", 0, n, 10**9, 0, b"k" * 9, b"v" * 9, [("a", b"1")]) for n in range(1000)])

    def cost() -> int:
        records = mb.decode(many)
        next(records), next(records), next(records)
        before = sys.getallocatedblocks()
        for _ in zip(range(900), records):  # noqa: B905
            pass
        return sys.getallocatedblocks() - before

    # Of several, for threads that earlier tests left may make objects meanwhile.
    assert min(cost() for _ in range(5)) < 20


def test_loops_keep_no_reference() -> None:
    """Each slot hands over what the interpreter lets go: counts and blocks stay, whatever is asked for, and how."""
    headers = [("key", b"1"), ("key", None), ("other", b"")]
    some = [
        mb.ConsumerRecord("t", 0, n, 10**12 + n, 0, None if n % 3 else b"k", b"v" * 20, headers[n % 4 :])
        for n in range(500)
    ]
    data, own = mb.encode(some), mb.ConsumerRecord("t", 0, 10**12, 10**12, 0, b"key", b"value", [mb.Header("k", b"v")])

    def loop() -> int:
        total = 0
        for record in itertools.chain(mb.decode(data), itertools.repeat(own, 50)):
            total += record.offset + record.timestamp + len(record.key or b"") + len(record.value or b"")
            for header in record.headers:
                total += len(header.key) + len(header.value or b"")
            for key, value in record.headers:
                total += len(key) + len(value or b"")
            assert not hasattr(record, "nothing") and not hasattr(record.headers, "nothing")
        return total

    watched = (None, own, own.key, own.value, own.headers, own.headers[0], own.headers[0].key, own.headers[0].value)

    def left() -> list[int]:
        counts, blocks = [sys.getrefcount(it) for it in watched], sys.getallocatedblocks()
        for _ in range(20):
            loop()
        changes = (abs(sys.getrefcount(it) - was) for it, was in zip(watched, counts, strict=True))
        return [sys.getallocatedblocks() - blocks, *changes]

    assert loop() == loop()
    # Of several, for threads that earlier tests left may make objects meanwhile.
    found = [left() for _ in range(5)]
    assert [few for few in map(min, zip(*found, strict=True)) if few >= 100] == []


def test_no_headers_to_iterate() -> None:
    """They share an iterator at its end, which nobody can move from there."""
    for record in mb.decode(mb.encode([mb.ConsumerRecord("t", 0, n, 0, 0, None, b"v", []) for n in range(5)])):
        it = iter(record.headers)
        assert iter(it) is it and list(it) == [] and next(it, None) is None
        if hasattr(it, "__setstate__"):
            it.__setstate__(-1)
        assert list(record.headers) == list(it) == list(copy.copy(it)) == []
        record.headers.add("a", b"1")
        assert [tuple(header) for header in record.headers] == [("a", b"1")] and list(it) == []


def test_more_keys_than_are_remembered() -> None:
    """Keys that fall on the same place, or are too long, or no UTF-8, are made anew each time."""
    keys = [f"{'long ' * (n % 17)}key {n}" for n in range(400)]
    records = [mb.ConsumerRecord("t", 0, n, 0, 0, None, None, [(key, key.encode())]) for n, key in enumerate(keys)]
    bad = mb.ConsumerRecord("t", 0, 400, 0, 0, None, None, [mb.Header.from_raw(b"\xff", b"x")])
    data = mb.encode([*records, bad])
    for _ in range(2):
        found = [(key, value) for record in mb.decode(data) for key, value in record.headers]
        assert found == [*((key, key.encode()) for key in keys), ("\ufffd", b"x")]
        assert [header.key for record in mb.decode(data) for header in record.headers] == [*keys, "\ufffd"]
