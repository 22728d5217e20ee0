"""Interceptors on a record's way, and chains of them that run the same around a client, in Spark and over a log file.

    send:     on_send → serializers → post_serialize → the wire → on_acknowledgement
    receive:  the wire → pre_deserialize → deserializers → on_record → on_consume            commit: on_commit

An interceptor is any object with some of these methods; the classes here say what each gets and gives. A plain function,
``record -> record`` or an iterable of records, is both a ``post_serialize`` and a ``pre_deserialize``: it sees bytes.
None is never an answer (a forgotten ``return`` would lose records); ``()`` drops the record where many may come out.

    chain = Chain(audit, Sampler(0.1), errors="raise")
    Producer(config, interceptors=chain)                              # around a client
    rdd.mapPartitions(spark.decode_partition).mapPartitions(chain)    # in Spark
    for record in chain(mb.Log("orders-0").records()): ...            # over a log
    mb.encode_batches(chain.sending(records))                         # while one is written
    mb.clean("orders-0", "cleaned/orders-0", chain=chain)             # at compaction time
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

from ._core import ConsumerRecord, Headers
from .errors import IllegalStateError
from .records import ProducerRecord

__all__ = [
    "Chain",
    "ConsumerInterceptor",
    "ConsumerPreDeserializationInterceptor",
    "Middleware",
    "ProducerInterceptor",
    "ProducerPostSerializationInterceptor",
    "RecordMetadata",
    "Timing",
    "as_chain",
]

logger = logging.getLogger(__name__)

AnyRecord: TypeAlias = ProducerRecord | ConsumerRecord
Middleware: TypeAlias = Callable[[Any], Any]
"""``record -> record | Iterable[record]``, for records whose key and value are bytes."""
Errors = Literal["log", "raise"]

BATCH = 500
"""Records that ``on_consume`` gets at once where no client polls: Kafka's ``max.poll.records``."""


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a sent record went. ``partition``, ``offset`` and ``timestamp`` (ms) are −1 where they are not known."""

    topic: str
    partition: int = -1
    offset: int = -1
    timestamp: int = -1


class ProducerInterceptor:
    """KIP-42's producer interceptor, with KIP-512's headers."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Sees a record before its key and value are serialized; returns it or another one."""
        return record

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None, headers: Headers | None
    ) -> None:
        """A record was stored (``error`` None) or failed. Called on the client's own thread: be quick."""


class ProducerPostSerializationInterceptor:
    """Behind the serializers: bytes in, one or many records out."""

    def post_serialize(self, record: ProducerRecord) -> ProducerRecord | Iterable[ProducerRecord]:
        """Returns the record, another one, many, or ``()``. Others than the given one need headers of their own."""
        return record


class ConsumerPreDeserializationInterceptor:
    """Before the deserializers: the mirror image. What was split is put together here: ``()`` until all has come."""

    def pre_deserialize(self, record: ConsumerRecord) -> ConsumerRecord | Iterable[ConsumerRecord]:
        """Returns the record, another one, many, or ``()``."""
        return record

    def flush(self) -> Iterable[ConsumerRecord]:
        """Called at the end of a log or a Spark partition: what is still held back. A client has no end."""
        return ()


class ConsumerInterceptor:
    """KIP-42's consumer interceptor, for a batch as Kafka has it and for one record."""

    def on_record(self, record: ConsumerRecord) -> ConsumerRecord | Iterable[ConsumerRecord]:
        """Sees each record behind the deserializers."""
        return record

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Sees the records that one poll returns, behind ``on_record``."""
        return records

    def on_commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Offsets were committed, by (topic, partition)."""


STAGES = (
    "on_send",
    "post_serialize",
    "on_acknowledgement",
    "pre_deserialize",
    "flush",
    "on_record",
    "on_consume",
    "on_commit",
)
BASES = (
    ProducerInterceptor,
    ProducerPostSerializationInterceptor,
    ConsumerPreDeserializationInterceptor,
    ConsumerInterceptor,
)
# What the classes above do by themselves is nothing: it need not be called.
IDLE = {getattr(base, stage) for base in BASES for stage in STAGES if hasattr(base, stage)}


@dataclass(slots=True)
class Timing:
    """What one interceptor did: calls, records in and out, errors, and the time within it."""

    calls: int = 0
    records_in: int = 0
    records_out: int = 0
    errors: int = 0
    nanoseconds: int = 0

    @property
    def seconds(self) -> float:
        """The time in seconds."""
        return self.nanoseconds / 1e9


class _Link:
    """One interceptor of a chain, and its stages."""

    def __init__(self, interceptor: Any, name: str) -> None:
        self.interceptor, self.name, self.timing = interceptor, name, Timing()
        self.lock = threading.Lock()
        self.stages: dict[str, Callable[..., Any]] = {}
        if isinstance(interceptor, type):
            raise TypeError(f"{interceptor.__name__} is a class and no interceptor: give an object of it")
        for stage in STAGES:
            method = getattr(interceptor, stage, None)
            if callable(method) and getattr(method, "__func__", None) not in IDLE:
                self.stages[stage] = method
        if not self.stages and not isinstance(interceptor, BASES):
            if not callable(interceptor):
                raise TypeError(
                    f"{interceptor!r} is no interceptor: it has no {' or '.join(STAGES)}, and is no function"
                )
            self.stages = {"post_serialize": interceptor, "pre_deserialize": interceptor}

    def count(self, start: int, taken: int, given: int, failed: int) -> None:
        spent = time.perf_counter_ns() - start
        with self.lock:
            timing = self.timing
            timing.calls += 1
            timing.records_in += taken
            timing.records_out += given
            timing.errors += failed
            timing.nanoseconds += spent


class Chain:
    """Interceptors in order.

    Args:
        interceptors: objects with methods of the stages, functions, or other chains (whose links are taken).
        errors: ``"log"`` as Kafka has it: an error in an interceptor is logged, and the chain goes on with the last good
            record. ``"raise"``: it comes out, with a note that names the interceptor. A change to closed headers
            (``IllegalStateError``) is the mistake of who sends a record again, and comes out either way.

    Interceptors run in the order given on either way, as Kafka's do; what the receiving side has to undo from the outside
    in takes ``chain.reversed()``. Pickled with its interceptors, its timings not. Threads may share it where the
    interceptors may be shared.
    """

    def __init__(self, *interceptors: Any, errors: Errors = "log") -> None:
        if errors not in ("log", "raise"):
            raise ValueError(f'errors is "log" or "raise", not {errors!r}')
        self.errors: Errors = errors
        self.interceptors: tuple[Any, ...] = tuple(_flat(interceptors))
        self._build()

    def _build(self) -> None:
        self._links: list[_Link] = []
        names: dict[str, int] = {}
        for interceptor in self.interceptors:
            name = str(
                getattr(interceptor, "name", None) or getattr(interceptor, "__name__", type(interceptor).__name__)
            )
            names[name] = number = names.get(name, 0) + 1
            self._links.append(_Link(interceptor, name if number == 1 else f"{name}#{number}"))
        self._at = {
            stage: [(link, link.stages[stage]) for link in self._links if stage in link.stages] for stage in STAGES
        }

    # One record

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Runs the ``on_send`` of all."""
        for link, work in self._at["on_send"]:
            record = self._one(link, work, record, ProducerRecord)
        return record

    def post_serialize(self, record: ProducerRecord) -> list[ProducerRecord]:
        """Runs the ``post_serialize`` of all: what one returns, the next one gets record by record."""
        return self._many("post_serialize", [record])

    def pre_deserialize(self, record: ConsumerRecord) -> list[ConsumerRecord]:
        """Runs the ``pre_deserialize`` of all."""
        return self._many("pre_deserialize", [record])

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Runs the ``on_record`` and then the ``on_consume`` of all over what one poll returned."""
        records = self._many("on_record", records)
        if not records:
            return records
        for link, work in self._at["on_consume"]:
            records = self._batch(link, work, records)
        return records

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None = None, headers: Headers | None = None
    ) -> None:
        """Tells all that a record was stored, or failed. Errors are logged only: nobody waits for them."""
        self._tell("on_acknowledgement", metadata, error, headers)

    def on_commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Tells all that offsets were committed. Errors are logged only."""
        self._tell("on_commit", offsets)

    def flush(self) -> list[ConsumerRecord]:
        """What interceptors still hold back before deserializers, through those behind them."""
        held: list[Any] = []
        for position, link in enumerate(self._links):
            if "pre_deserialize" in link.stages and held:
                held = self._many("pre_deserialize", held, only=link)
            if "flush" in link.stages:
                held += self._held(self._links[position])
        return held

    # Many records

    def __call__(self, records: Iterable[ConsumerRecord]) -> Iterator[ConsumerRecord]:
        """Runs the receiving side over records as they are stored: a log, or a partition in ``rdd.mapPartitions(chain)``.

        Where nobody has an ``on_consume``, one record comes out before the next is read. What interceptors hold back
        comes at the end.
        """
        source = iter(records)
        size = BATCH if self._at["on_consume"] else 1
        while batch := list(islice(source, size)):
            yield from self.on_consume(self._many("pre_deserialize", batch))
        yield from self.on_consume(self.flush())

    def sending(self, records: Iterable[ProducerRecord]) -> Iterator[ProducerRecord]:
        """Runs the sending side over records whose key and value are bytes, as a broker would at ingest."""
        for record in records:
            yield from self.post_serialize(self.on_send(record))

    # The chain itself

    def reversed(self) -> Chain:
        """The same interceptors from the last to the first."""
        return Chain(*self.interceptors[::-1], errors=self.errors)

    @property
    def timings(self) -> dict[str, Timing]:
        """What each interceptor did so far, by its name (its ``name``, ``__name__`` or class; ``#2`` for the second)."""
        return {link.name: link.timing for link in self._links}

    def has(self, *stages: str) -> bool:
        """Whether somebody has one of these stages."""
        return any(self._at[stage] for stage in stages)

    def close(self) -> None:
        """Closes all that can be closed. Errors are logged."""
        for link in self._links:
            close = getattr(link.interceptor, "close", None)
            if callable(close):
                try:
                    close()
                except Exception:
                    logger.exception("interceptor %s: close failed", link.name)

    def __len__(self) -> int:
        return len(self.interceptors)

    def __repr__(self) -> str:
        return f"Chain({', '.join(link.name for link in self._links)}, errors={self.errors!r})"

    def __getstate__(self) -> dict[str, Any]:
        return {"interceptors": self.interceptors, "errors": self.errors}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._build()

    # Inside

    def _one(self, link: _Link, work: Callable[[Any], Any], record: Any, kind: type) -> Any:
        start = time.perf_counter_ns()
        try:
            done = work(record)
            if not isinstance(done, kind):
                raise TypeError(f"a {kind.__name__} must be returned, not {type(done).__name__}")
        except Exception as error:
            link.count(start, 1, 1, 1)
            self._failed(link, error)
            return record
        link.count(start, 1, 1, 0)
        return done

    def _many(self, stage: str, records: list[Any], only: _Link | None = None) -> list[Any]:
        for link, work in self._at[stage]:
            if only is not None and link is not only:
                continue
            found: list[Any] = []
            for record in records:
                start = time.perf_counter_ns()
                try:
                    done = work(record)
                    some = [done] if isinstance(done, ProducerRecord | ConsumerRecord) else _records(done)
                except Exception as error:
                    some = [record]
                    link.count(start, 1, 1, 1)
                    self._failed(link, error)
                else:
                    link.count(start, 1, len(some), 0)
                found += some
            records = found
        return records

    def _batch(self, link: _Link, work: Callable[[Any], Any], records: list[Any]) -> list[Any]:
        start = time.perf_counter_ns()
        try:
            done = _records(work(records))
        except Exception as error:
            link.count(start, len(records), len(records), 1)
            self._failed(link, error)
            return records
        link.count(start, len(records), len(done), 0)
        return done

    def _held(self, link: _Link) -> list[Any]:
        start = time.perf_counter_ns()
        try:
            done = _records(link.stages["flush"]())
        except Exception as error:
            link.count(start, 0, 0, 1)
            self._failed(link, error)
            return []
        link.count(start, 0, len(done), 0)
        return done

    def _tell(self, stage: str, *arguments: Any) -> None:
        for link, work in self._at[stage]:
            start = time.perf_counter_ns()
            failed = 0
            try:
                work(*arguments)
            except Exception:
                failed = 1
                logger.exception("interceptor %s: %s failed", link.name, stage)
            link.count(start, 0, 0, failed)

    def _failed(self, link: _Link, error: Exception) -> None:
        if self.errors == "raise" or isinstance(error, IllegalStateError):
            error.add_note(f"in interceptor {link.name}")
            raise error
        logger.warning("interceptor %s failed; going on with the last good record", link.name, exc_info=error)


def as_chain(given: Any) -> Chain:
    """A chain as it is; None, one interceptor or several as a chain that logs errors."""
    if isinstance(given, Chain):
        return given
    if given is None:
        return Chain()
    return Chain(*given) if isinstance(given, Iterable) else Chain(given)


def _flat(interceptors: Iterable[Any]) -> Iterator[Any]:
    for interceptor in interceptors:
        if isinstance(interceptor, Chain):
            yield from interceptor.interceptors
        else:
            yield interceptor


def _records(done: Any) -> list[Any]:
    if not isinstance(done, Iterable):
        raise TypeError(f"a record or records must be returned, not {type(done).__name__}")
    some = list(done)
    for one in some:
        if not isinstance(one, ProducerRecord | ConsumerRecord):
            raise TypeError(f"records must be returned, not {type(one).__name__}")
    return some
