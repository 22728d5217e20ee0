"""Integer header ids of "A case for Kafka headers": names ↔ ids in owned ranges, a mapping over headers, a compact wire form.

Ids are unsigned 32-bit numbers. Who may give out which of them is said by ranges: public ones with an owner, and private
ones, whose headers never leave the house. On today's records an id is carried as an ordinary header under its registered
name; an id that nobody registered is named ``#`` and 8 hex digits, and such a name reads back as that id.

Wire form (the document leaves it open): ``count int32, (id int32, length int32, bytes)*``, big-endian, in order, the id's 32
bits as they are; length −1 is null.

    ids = HeaderIds()
    ids.reserve(0x0100_0000, 0x01FF_FFFF, owner="example.org")
    ids.register(0x0100_0001, "example.trace", owner="example.org")
    view = ids.of(record.headers)
    view[0x0100_0001]                                    # the last value of that header
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import ItemsView, Iterator, Mapping
from dataclasses import dataclass

from ._core import Headers
from .errors import CorruptRecordError, MagicbyteError

__all__ = ["HeaderIds", "IdConflictError", "IdHeaders", "IdRange"]

MOST = 0xFFFF_FFFF
PRIVATE = "private"
"""The owner of private ranges."""

COUNT = struct.Struct(">i")
ENTRY = struct.Struct(">Ii")
UNREGISTERED = re.compile(r"#[0-9a-f]{8}")


class IdConflictError(MagicbyteError, ValueError):
    """An id, a name or a range that is another's."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """The ids from ``first`` to ``last``, both included, and who gives them out. Private ones never leave the house."""

    first: int
    last: int
    owner: str
    private: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last <= MOST:
            raise ValueError(f"no range of unsigned 32-bit ids: {self.first} to {self.last}")

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int) and self.first <= id <= self.last

    def __str__(self) -> str:
        return f"{self.first:#010x}–{self.last:#010x} of {self.owner}"


class HeaderIds:
    """A registry: ranges, and the ids registered in them. What is registered once stays, and says the same on asking again."""

    def __init__(self) -> None:
        self._ranges: list[IdRange] = []
        self._names: dict[int, str] = {}
        self._ids: dict[str, int] = {}

    # Ranges

    def reserve(self, first: int, last: int, *, owner: str) -> IdRange:
        """Gives a public range to an owner.

        Raises:
            IdConflictError: it overlaps another one (of the same owner too, unless it is the very same).
            ValueError: it is no range of unsigned 32-bit numbers, or nobody owns it.
        """
        if not owner or owner == PRIVATE:
            raise ValueError(f"a public range has an owner, and {PRIVATE!r} is none")
        return self._reserve(IdRange(first, last, owner))

    def reserve_private(self, first: int, last: int) -> IdRange:
        """Sets a range aside for the house: its headers are left out by ``public``.

        Raises:
            IdConflictError, ValueError: as ``reserve``.
        """
        return self._reserve(IdRange(first, last, PRIVATE, private=True))

    def _reserve(self, new: IdRange) -> IdRange:
        for old in self._ranges:
            if old == new:
                return old
            if old.first <= new.last and new.first <= old.last:
                raise IdConflictError(f"{new} overlaps {old}")
        self._ranges.append(new)
        self._ranges.sort(key=lambda one: one.first)
        return new

    def range_of(self, id: int) -> IdRange | None:
        """The range that an id lies in."""
        at = bisect_right(self._ranges, id, key=lambda one: one.first) - 1
        return self._ranges[at] if at >= 0 and id in self._ranges[at] else None

    @property
    def ranges(self) -> tuple[IdRange, ...]:
        """All ranges, in order."""
        return tuple(self._ranges)

    # Ids

    def register(self, id: int, name: str, *, owner: str = PRIVATE) -> None:
        """Gives an id to a header name; ``owner`` is who asks, and the range must be theirs.

        Raises:
            IdConflictError: the id or the name is taken, or the range is another's or nobody's.
            ValueError: the name is one that stands for unregistered ids.
        """
        if UNREGISTERED.fullmatch(name):
            raise ValueError(f"{name!r} stands for an id that is not registered")
        where = self.range_of(id)
        if where is None:
            raise IdConflictError(f"id {id:#010x} lies in no range")
        if where.owner != owner:
            raise IdConflictError(f"id {id:#010x} lies in {where}, not of {owner}")
        if self._names.get(id, name) != name:
            raise IdConflictError(f"id {id:#010x} is {self._names[id]!r} already")
        if self._ids.get(name, id) != id:
            raise IdConflictError(f"{name!r} has the id {self._ids[name]:#010x} already")
        self._names[id] = name
        self._ids[name] = id

    def merge(self, other: HeaderIds) -> None:
        """Takes over another registry's ranges and ids, all or none.

        Raises:
            IdConflictError: they contradict each other.
        """
        made = self.copy()
        for one in other._ranges:
            made._reserve(one)
        for id, name in other._names.items():
            where = made.range_of(id)
            made.register(id, name, owner=where.owner if where else PRIVATE)
        self._ranges, self._names, self._ids = made._ranges, made._names, made._ids

    def copy(self) -> HeaderIds:
        """Another registry with the same content."""
        made = HeaderIds()
        made._ranges, made._names, made._ids = list(self._ranges), dict(self._names), dict(self._ids)
        return made

    def name_of(self, id: int) -> str:
        """The header name that carries an id, registered or not.

        Raises:
            ValueError: no unsigned 32-bit number.
        """
        if not 0 <= id <= MOST:
            raise ValueError(f"no unsigned 32-bit id: {id}")
        return self._names.get(id) or f"#{id:08x}"

    def id_of(self, name: str) -> int | None:
        """The id that a header name stands for; None where it stands for none."""
        if (found := self._ids.get(name)) is not None:
            return found
        # Also of an id that was registered since: what was written before still says what it said.
        return int(name[1:], 16) if UNREGISTERED.fullmatch(name) else None

    @property
    def names(self) -> Mapping[int, str]:
        """All registered ids with their names."""
        return dict(self._names)

    # Headers

    def of(self, headers: Headers) -> IdHeaders:
        """The view of headers by id."""
        return IdHeaders(headers, self)

    def public(self, headers: Headers) -> Headers:
        """A copy without what is private: what may leave the house. Headers without an id stay."""
        kept = headers.copy()
        for name in headers.first:
            id = self.id_of(name)
            where = None if id is None else self.range_of(id)
            if where is not None and where.private:
                kept.remove(name)
        return kept

    def to_bytes(self, headers: Headers, *, private: bool = False) -> bytes:
        """The wire form of those headers that have an id, in order; private ones only where asked for."""
        entries = list((self.of(headers) if private else self.of(self.public(headers))).items())
        out = [COUNT.pack(len(entries))]
        for id, value in entries:
            out.append(ENTRY.pack(id, -1 if value is None else len(value)))
            out.append(value or b"")
        return b"".join(out)

    def from_bytes(self, data: bytes) -> Headers:
        """Headers of their wire form.

        Raises:
            CorruptRecordError: it is cut, goes on behind its end, or has a length below −1. ``position`` says where.
        """
        headers = Headers()
        for id, value in _entries(data):
            headers.add(self.name_of(id), value)
        return headers


def _entries(data: bytes) -> Iterator[tuple[int, bytes | None]]:
    if len(data) < COUNT.size:
        raise CorruptRecordError("header ids: no count", None, 0, "length")
    (count,) = COUNT.unpack_from(data)
    if count < 0:
        raise CorruptRecordError(f"header ids: {count} of them", None, 0, "count")
    at = COUNT.size
    for number in range(count):
        if len(data) - at < ENTRY.size:
            raise CorruptRecordError(f"header ids: cut in entry {number} of {count}", None, at, "length", number)
        id, length = ENTRY.unpack_from(data, at)
        begin = at + ENTRY.size
        if length < -1 or length > len(data) - begin:
            raise CorruptRecordError(f"header ids: entry {number} has length {length}", None, at, "length", number)
        at = begin + max(length, 0)
        yield id, (None if length < 0 else bytes(data[begin:at]))
    if at != len(data):
        raise CorruptRecordError(f"header ids: {len(data) - at} bytes behind the last entry", None, at, "length", count)


class IdHeaders(Mapping[int, bytes | None]):
    """Headers by id: a repeated id shows its last value, ``items()`` all of them in order. It follows its headers."""

    def __init__(self, headers: Headers, ids: HeaderIds) -> None:
        self.headers, self.ids = headers, ids

    def __getitem__(self, id: int) -> bytes | None:
        if not (values := self.all(id)):
            raise KeyError(id)
        return values[-1]

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys(id for id, _ in self.items()))

    def __len__(self) -> int:
        return len({id for id, _ in self.items()})

    def __contains__(self, id: object) -> bool:
        return any(one == id for one, _ in self.items())

    def items(self) -> ItemsView[int, bytes | None]:
        """All (id, value) pairs, repeated ids too, in order."""
        return _AllItems(self)

    def all(self, id: int) -> list[bytes | None]:
        """All values of an id, in order."""
        return [value for one, value in self.items() if one == id]

    def add(self, id: int, value: bytes | None) -> None:
        """Adds a header under the id's name.

        Raises:
            IllegalStateError: the headers are closed.
        """
        self.headers.add(self.ids.name_of(id), value)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, IdHeaders):
            return list(self.items()) == list(other.items())
        return dict(self) == dict(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IdHeaders({list(self.items())!r})"


class _AllItems(ItemsView[int, "bytes | None"]):
    _mapping: IdHeaders

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        for header in self._mapping.headers:
            if (id := self._mapping.ids.id_of(header.key)) is not None:
                yield id, header.value

    def __len__(self) -> int:
        return sum(1 for _ in self)
