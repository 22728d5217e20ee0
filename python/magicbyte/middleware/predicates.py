"""Predicates on headers: for routing, retention, compaction; over one record's headers, or over a column of them.

    urgent = equals("priority", b"high") | has("x-escalated")
    urgent(record.headers)                   # True or False
    urgent & ~matches("tenant", "test-.*")   # another one

A predicate holds if any header of the name does what is asked. They never
raise on bytes, are pickled as they are, and cost a few vector operations a batch over Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magicbyte._core import Headers

from ._base import HeaderName, header_name

if TYPE_CHECKING:
    from ._arrow import HeaderColumn

__all__ = ["Predicate", "as_predicate", "at_least", "custom", "equals", "has", "matches", "one_of", "starts_with"]


class Predicate:
    """What is asked of headers; ``&``, ``|`` and ``~`` make others of it."""

    def __call__(self, headers: Headers) -> bool:
        """Whether it holds for one record's headers."""
        raise NotImplementedError

    def mask(self, column: HeaderColumn) -> Any:
        """Whether it holds, row by row: a NumPy array of bool."""
        raise NotImplementedError

    def __and__(self, other: Predicate) -> Predicate:
        return _Both(self, other)

    def __or__(self, other: Predicate) -> Predicate:
        return _Either(self, other)

    def __invert__(self) -> Predicate:
        return _Not(self)


@dataclass(frozen=True)
class _Both(Predicate):
    one: Predicate
    other: Predicate

    def __call__(self, headers: Headers) -> bool:
        return self.one(headers) and self.other(headers)

    def mask(self, column: HeaderColumn) -> Any:
        return self.one.mask(column) & self.other.mask(column)


@dataclass(frozen=True)
class _Either(Predicate):
    one: Predicate
    other: Predicate

    def __call__(self, headers: Headers) -> bool:
        return self.one(headers) or self.other(headers)

    def mask(self, column: HeaderColumn) -> Any:
        return self.one.mask(column) | self.other.mask(column)


@dataclass(frozen=True)
class _Not(Predicate):
    one: Predicate

    def __call__(self, headers: Headers) -> bool:
        return not self.one(headers)

    def mask(self, column: HeaderColumn) -> Any:
        return ~self.one.mask(column)


@dataclass(frozen=True)
class _Value(Predicate):
    """Asks the values of one header, given by its name or as (registry, id)."""

    name: HeaderName

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", header_name(self.name))

    def holds(self, value: bytes | None) -> bool:
        raise NotImplementedError

    def hold(self, values: Any) -> Any:
        """``holds`` for a binary array, as a boolean array; null may stand for False."""
        raise NotImplementedError

    def __call__(self, headers: Headers) -> bool:
        return any(self.holds(value) for value in headers.get(header_name(self.name)))

    def mask(self, column: HeaderColumn) -> Any:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from ._arrow import binary

        found = column.named(header_name(self.name))
        held = pc.fill_null(self.hold(binary(column.values).take(pa.array(found))), False)
        rows = np.zeros(column.rows, dtype=bool)
        rows[column.parents[found[held.to_numpy(zero_copy_only=False)]]] = True
        return rows


@dataclass(frozen=True)
class has(_Value):
    """The header is there, whatever its value; null, too."""

    def holds(self, value: bytes | None) -> bool:
        return True

    def hold(self, values: Any) -> Any:
        import pyarrow as pa

        return pa.array([True] * len(values), pa.bool_())


@dataclass(frozen=True)
class equals(_Value):
    """The header has this value; None asks for null."""

    value: bytes | None

    def holds(self, value: bytes | None) -> bool:
        return value == self.value

    def hold(self, values: Any) -> Any:
        import pyarrow.compute as pc

        return pc.is_null(values) if self.value is None else pc.equal(values, self.value)


@dataclass(frozen=True)
class one_of(_Value):
    """The header has one of these values."""

    values: frozenset[bytes]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "values", frozenset(self.values))

    def holds(self, value: bytes | None) -> bool:
        return value in self.values

    def hold(self, values: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.is_in(values, pa.array(sorted(self.values), pa.binary()))


@dataclass(frozen=True)
class starts_with(_Value):
    """The header's value begins with these bytes."""

    prefix: bytes

    def holds(self, value: bytes | None) -> bool:
        return value is not None and value.startswith(self.prefix)

    def hold(self, values: Any) -> Any:
        import pyarrow.compute as pc

        return pc.starts_with(values, self.prefix)


@dataclass(frozen=True)
class matches(_Value):
    """The header's whole value, as UTF-8, matches a regular expression. Other bytes do not match.

    Each different value is asked once a batch: expressions are Python's in every way.
    """

    pattern: str

    def __post_init__(self) -> None:
        super().__post_init__()
        re.compile(self.pattern)

    def holds(self, value: bytes | None) -> bool:
        try:
            return value is not None and re.fullmatch(self.pattern, value.decode()) is not None
        except UnicodeDecodeError:
            return False

    def hold(self, values: Any) -> Any:
        return _by_value(values, self.holds)


@dataclass(frozen=True)
class at_least(_Value):
    """The header is a number and not below ``number``: digits, or, if ``binary``, also int32 and int64 as ``vocabulary``
    reads them. (Any four bytes are an int32: so it must be said.)"""

    number: int
    binary: bool = False

    def holds(self, value: bytes | None) -> bool:
        from magicbyte.vocabulary.values import integer

        found = None if value is None else integer(8)(value)
        return (
            found is not None
            and found.value is not None
            and (self.binary or found.encoding == "digits")
            and found.value >= self.number
        )

    def hold(self, values: Any) -> Any:
        return _by_value(values, self.holds)


@dataclass(frozen=True)
class custom(Predicate):
    """A function of one's own, ``Headers -> bool``. Over Arrow, headers are made for each row."""

    function: Callable[[Headers], Any]

    def __call__(self, headers: Headers) -> bool:
        return bool(self.function(headers))

    def mask(self, column: HeaderColumn) -> Any:
        import numpy as np

        rows: list[list[tuple[str, bytes | None]]] = [[] for _ in range(column.rows)]
        for row, key, value in zip(
            column.parents.tolist(), column.keys.to_pylist(), column.values.to_pylist(), strict=True
        ):
            rows[row].append((key, value))
        return np.array([self(Headers(row)) for row in rows], dtype=bool)


def as_predicate(given: Predicate | str | Callable[[Headers], Any]) -> Predicate:
    """A predicate as it is; a name as ``has``; a function as ``custom``."""
    if isinstance(given, Predicate):
        return given
    if isinstance(given, str):
        return has(given)
    if callable(given):
        return custom(given)
    raise TypeError(f"a predicate, a header's name or a function of headers, not {given!r}")


def _by_value(values: Any, holds: Callable[[bytes | None], bool]) -> Any:
    import pyarrow as pa

    coded = values.dictionary_encode()
    return pa.array([holds(value) for value in coded.dictionary.to_pylist()], pa.bool_()).take(coded.indices)
