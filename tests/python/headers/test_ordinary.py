"""Slots without PyO3's trampoline (`quick.rs`) take nothing away: these classes are what any class in C is."""

from __future__ import annotations

import copy
import gc
import inspect
import itertools
import operator
import pickle
import pydoc
import sys
import types
import weakref
from typing import Any

import pytest

import magicbyte as mb

MADE = mb.ConsumerRecord("t", 0, 7, 10**12, 0, b"key", b"value", [("a", b"1"), ("b", None)])
READ = next(mb.decode(mb.encode([MADE]), topic="t", partition=0))
OBJECTS = {
    "made": MADE,
    "read": READ,
    "made header": mb.Header("a", b"1"),
    "read header": next(iter(READ.headers)),
    "made headers": MADE.headers,
    "read headers": READ.headers,
    "records": mb.decode(mb.encode([MADE])),
    "headers' iterator": iter(READ.headers),
    "pair": iter(next(iter(READ.headers))),
}
each = pytest.mark.parametrize("it", OBJECTS.values(), ids=OBJECTS)
some = pytest.mark.parametrize("it", [*OBJECTS.values()][:6], ids=[*OBJECTS][:6])


@each
def test_no_subclasses(it: object) -> None:
    """A slot gets no other object than its own class's."""
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Mine", (type(it),), {})
    for other in (*OBJECTS.values(), mb.Limits(), types.SimpleNamespace(), mb.decode_batches(b"")):
        if type(other) is not type(it):
            with pytest.raises(TypeError):
                it.__class__ = type(other)
            with pytest.raises(TypeError):
                other.__class__ = type(it)


@each
def test_no_weak_references(it: object) -> None:
    """What is used again can be seen by nobody who does not count."""
    with pytest.raises(TypeError, match="weak reference"):
        weakref.ref(it)
    assert not hasattr(it, "__dict__")


def test_what_the_garbage_collector_hands_out_is_counted() -> None:
    """It knows these objects, those that a loop keeps for itself, too; whoever has them from it keeps what they were."""
    many = mb.encode([MADE.replace(offset=n, key=b"%d" % n) for n in range(50)])
    seen: list[tuple[mb.ConsumerRecord, int, list[tuple[mb.Header, str]]]] = []
    for record in mb.decode(many):
        inner = [(header, header.key) for header in record.headers]
        if record.offset % 10 == 5:
            del record
            found = [it for it in gc.get_objects() if type(it) is mb.ConsumerRecord]
            seen += [(it, it.offset, inner) for it in found]
            del found
    assert len(seen) > 5
    for it, offset, inner in seen:
        assert it.offset == offset and all(header.key == key for header, key in inner)


@each
def test_nothing_is_set(it: object) -> None:
    for name in ("key", "offset", "new"):
        with pytest.raises(AttributeError):
            setattr(it, name, 1)
        with pytest.raises(AttributeError):
            delattr(it, name)


@each
def test_slots_belong_to_their_class(it: object) -> None:
    for name in ("__getattribute__", "__iter__", "__next__"):
        slot = type(it).__dict__.get(name)
        if slot is not None:
            for wrong in (5, object(), None, mb.Limits()):
                with pytest.raises(TypeError):
                    slot(wrong, *(["key"] if name == "__getattribute__" else []))


@some
def test_names(it: Any) -> None:
    names = [name for name in dir(it) if not name.startswith("_")]
    assert names and "__reduce__" in dir(it)
    for name, value in inspect.getmembers(it):
        found = getattr(it, name)
        assert type(found) is type(value)
        if not callable(value):
            assert found == value == operator.attrgetter(name)(it)
    for name in ("", "\ud800", "ofset", "key\0", "k" * 10_000, "Key"):
        assert not hasattr(it, name) and getattr(it, name, 5) == 5
    with pytest.raises(AttributeError) as caught:
        operator.attrgetter("hedaers")(it)
    assert caught.value.name == "hedaers" and caught.value.obj is it
    with pytest.raises(TypeError):
        object.__getattribute__(it, b"key")  # type: ignore[arg-type]

    class Name(str):
        """A name that is no interned one, and equals and hashes as it likes."""

        __slots__ = ()

    assert all(getattr(it, Name(name)) == getattr(it, name) for name in names if not callable(getattr(it, name)))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="3.11 says so only in a traceback")
def test_a_wrong_name_is_put_right() -> None:
    import traceback

    for it, wrong, right in ((READ, "ofset", "offset"), (OBJECTS["read header"], "valeu", "value")):
        with pytest.raises(AttributeError) as caught:
            getattr(it, wrong)
        assert f"Did you mean: '{right}'?" in "".join(traceback.format_exception(caught.value))


@some
def test_copies(it: Any) -> None:
    for other in (copy.copy(it), copy.deepcopy(it), pickle.loads(pickle.dumps(it))):
        assert other == it and type(other) is type(it) and repr(other) == repr(it)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps([it, it], protocol)) == [it, it]


@pytest.mark.parametrize("it", [*OBJECTS.values()][6:], ids=[*OBJECTS][6:])
def test_an_iterator_is_no_value(it: Any) -> None:
    assert iter(it) is it
    for wrong in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="pickle"):
            wrong(it)
    with pytest.raises(TypeError):
        type(it)()


@pytest.mark.parametrize("record", [MADE, READ], ids=["made", "read"])
def test_pattern_matching(record: object) -> None:
    match record:
        case mb.ConsumerRecord(offset=0):
            raise AssertionError("another offset")
        case mb.ConsumerRecord(offset=7, value=bytes(value), headers=headers, timestamp=int(when)):
            assert (value, when) == (b"value", 10**12)
        case _:
            raise AssertionError("no record")
    match list(headers):
        case [mb.Header(key="a", value=b"1"), mb.Header(key=key, value=None)]:
            assert key == "b"
        case _:
            raise AssertionError("other headers")


@some
def test_what_help_shows(it: Any) -> None:
    kind = type(it)
    text = pydoc.plain(pydoc.render_doc(kind))
    assert kind.__doc__ and kind.__module__ == "magicbyte" and inspect.isclass(kind)
    assert kind.__doc__.splitlines()[0] in text and inspect.signature(kind).parameters
    for name, member in vars(kind).items():
        if name.startswith("_"):
            continue
        assert name in text and inspect.getdoc(member)
        assert inspect.isgetsetdescriptor(member) or inspect.signature(member)
    for name, said in (("__getattribute__", "Return getattr(self, name)."), ("__iter__", "Implement iter(self).")):
        slot = vars(kind).get(name)
        assert slot is None or (inspect.getdoc(slot) == said and type(slot) is types.WrapperDescriptorType)
    assert ("__getattribute__" in vars(kind)) == (kind is not mb.Headers) and "__getattr__" not in vars(kind)


def test_slots_of_iterators() -> None:
    for it in [*OBJECTS.values()][6:]:
        assert vars(type(it))["__next__"].__doc__ == "Implement next(self)."
    records = mb.decode(mb.encode([MADE]), topic="t", partition=0)
    assert records.__next__() == MADE
    for _ in range(2):
        with pytest.raises(StopIteration):
            type(records).__next__(records)
    pair = iter(READ.headers[0])
    assert [next(pair), next(pair), next(pair, None), next(pair, None)] == ["a", b"1", None, None]


@some
def test_lookups_of_the_class(it: object) -> None:
    kind = type(it)
    assert isinstance(it, kind) and not isinstance(it, type)
    assert isinstance(it, kind | None) and kind.mro() == [kind, object]
    assert kind.__qualname__ == kind.__name__ and getattr(mb, kind.__name__) is kind


def test_unpacked_as_others() -> None:
    for headers in (MADE.headers, READ.headers):
        (first, *rest) = headers
        assert first == headers[0] and rest == [headers[1]] and headers[-1] == rest[0]
        assert [*itertools.chain.from_iterable(headers)] == ["a", b"1", "b", None]
        assert dict(tuple(one) for one in headers) == {key: value for key, value in headers} == headers.last  # noqa: C416
        assert sorted(headers, key=operator.attrgetter("key"), reverse=True)[0].key == "b"
        assert [*zip(*headers, strict=True)] == [("a", "b"), (b"1", None)]
