"""What a serializer is, and how everything that is nearly one becomes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from magicbyte._core import Headers
from magicbyte.errors import MagicbyteError

__all__ = ["Deserializer", "SerializationError", "Serializer", "as_deserializer", "as_serializer"]

T_in = TypeVar("T_in", contravariant=True)
T_out = TypeVar("T_out", covariant=True)

Field: TypeAlias = Literal["key", "value"]


class SerializationError(MagicbyteError):
    """An object that cannot be written, or bytes that cannot be read.

    Attributes:
        topic: of the record.
        field: ``key``, ``value``, or None where it is not known.
        record: the record as it came, bytes and all, where a client or a chain knows it; it was not consumed twice, and
            the next call goes on behind it.
    """

    def __init__(self, message: str, topic: str | None = None, field: Field | None = None, record: Any = None) -> None:
        super().__init__(message)
        self.topic = topic
        self.field = field
        self.record = record

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (*self.args[:1], self.topic, self.field, self.record))


@runtime_checkable
class Serializer(Protocol[T_in]):
    """Kafka's ``Serializer<T>`` with KIP-82's headers. ``close()`` is called by whoever called it last, if it has one."""

    def serialize(self, topic: str, headers: Headers, data: T_in | None) -> bytes | None:
        """Bytes of ``data``; may add headers."""


@runtime_checkable
class Deserializer(Protocol[T_out]):
    """Kafka's ``Deserializer<T>`` with KIP-82's headers."""

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T_out | None:
        """The object that ``data`` stands for; may change headers."""


class _Wrapped:
    """An older or plainer form behind the three arguments."""

    def __init__(self, call: Callable[..., Any], count: int, owner: Any) -> None:
        self._call, self._count, self._owner = call, count, owner

    def _run(self, topic: str, headers: Headers, data: Any) -> Any:
        return self._call(data) if self._count == 1 else self._call(topic, data)

    def close(self) -> None:
        close = getattr(self._owner, "close", None)
        if callable(close):
            close()


class _WrappedSerializer(_Wrapped):
    def serialize(self, topic: str, headers: Headers, data: Any) -> bytes | None:
        done: bytes | None = self._run(topic, headers, data)
        return done


class _WrappedDeserializer(_Wrapped):
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> Any:
        return self._run(topic, headers, data)


def as_serializer(given: Any, field: Field = "value") -> Serializer[Any]:
    """Whatever serializes, as a ``Serializer``.

    Args:
        given: a ``Serializer`` of three arguments (taken as it is); one whose ``serialize`` has two, (topic, data), as
            before KIP-82; a function of (topic, data) or of (data), as aiokafka and kafka-python have them; or a
            serializer of confluent-kafka. A plain function gets None too.
        field: whether it is for keys or values, which confluent-kafka's want to know.

    Raises:
        TypeError: it is none of these.
    """
    made: Serializer[Any] = _adapt(given, field, "serialize", _WrappedSerializer)
    return made


def as_deserializer(given: Any, field: Field = "value") -> Deserializer[Any]:
    """Whatever deserializes, as a ``Deserializer``; the forms are those of ``as_serializer``.

    Raises:
        TypeError: it is none of these.
    """
    made: Deserializer[Any] = _adapt(given, field, "deserialize", _WrappedDeserializer)
    return made


def _adapt(given: Any, field: Field, name: str, wrapped: type[_Wrapped]) -> Any:
    from .confluent import confluent_form

    if (form := confluent_form(given, field, name)) is not None:
        return form
    method = getattr(given, name, None)
    call = method if callable(method) else given
    if not callable(call):
        raise TypeError(f"{given!r} does not {name}: neither a method {name}() nor a function")
    if isinstance(given, type) and issubclass(given, Serializer | Deserializer):
        raise TypeError(f"{given.__name__} is a class: give an object of it, {given.__name__}()")
    count = _arguments(call)
    if call is method and count == 3:
        return given
    if count in (1, 2):
        return wrapped(call, count, given)
    raise TypeError(f"{given!r}: {name} takes (topic, headers, data), (topic, data) or (data), not {count} arguments")


def _arguments(call: Callable[..., Any]) -> int:
    """How many positional arguments a callable wants; builtins that do not tell want one."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return 3
    needed = [one for one in positional if one.default is one.empty]
    return len(needed) or min(len(positional), 1)
