"""What every middleware shares: header names, what is done with bad input, counting, pickling.

A middleware is an object with some of the stages of ``magicbyte.interceptors``: ``post_serialize`` where records are sent,
``pre_deserialize`` where they come in, ``flush`` for what it held back. It composes in a ``Chain``, threads may share it, and
Spark may ship it: options are pickled, what was counted and cached is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from magicbyte._core import ConsumerRecord, Headers
from magicbyte.errors import MagicbyteError
from magicbyte.ids import HeaderIds
from magicbyte.records import ProducerRecord

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "QUARANTINE_HEADER",
    "AnyRecord",
    "BadHeaderError",
    "Counts",
    "HeaderMiddleware",
    "HeaderName",
    "Policy",
    "Quarantine",
    "header_name",
    "mark",
    "one_value",
    "quarantined",
]

AnyRecord: TypeAlias = ProducerRecord | ConsumerRecord
Record = TypeVar("Record", ProducerRecord, ConsumerRecord)
Answer: TypeAlias = Any
"""What a stage returns: a record, an iterable of records, or ``()``."""

HeaderName: TypeAlias = str | tuple[HeaderIds, int]
"""A header's name as it is, or a registry of integer ids and an id in it."""

Policy = Literal["pass", "quarantine", "reject", "raise"]
"""What happens to a record with bad input: it goes on untouched; it goes to the ``quarantine`` callable, and on as that
answers; it is dropped; or ``BadHeaderError`` comes out. It is counted in any case."""

Quarantine: TypeAlias = Callable[[Any, str], Any]
"""``(record, reason) -> record | Iterable[record]``; ``()`` where the record went elsewhere, to a dead-letter topic, say."""

POLICIES = ("pass", "quarantine", "reject", "raise")

QUARANTINE_HEADER = "magicbyte.quarantine"
"""The header that ``mark`` adds, once for each reason: UTF-8 text, ``middleware: reason``."""


class BadHeaderError(MagicbyteError):
    """A header that does not say what it should, where ``policy="raise"``. ``record`` is the record as it came, if known."""

    def __init__(self, message: str, record: Any = None) -> None:
        super().__init__(message)
        self.record = record

    def __reduce__(self) -> tuple[object, ...]:
        return (type(self), (*self.args[:1], self.record))


def header_name(given: HeaderName) -> str:
    """The name that a header has on records.

    Raises:
        TypeError: neither a name nor (registry, id).
        ValueError: an empty name, or no unsigned 32-bit id.
    """
    if isinstance(given, str):
        if not given:
            raise ValueError("a header has a name")
        return given
    match given:
        case (HeaderIds() as ids, int() as id):
            return ids.name_of(id)
    raise TypeError(f"a header is given by its name, or as (HeaderIds, id), not as {given!r}")


def one_value(headers: Headers, name: str) -> tuple[bytes | None, int]:
    """The last value of a header, and how often the header is there: 0 when it is absent, 2 or more when it is repeated."""
    values = headers.get(name)
    return (values[-1] if values else None), len(values)


def mark(record: Record, reason: str) -> Record:
    """The quarantine by default: the record goes on as it is, with the reason in a ``magicbyte.quarantine`` header.

    Whoever is behind tells it by ``quarantined(record)``. A sender may set that header too, and gains nothing by it.
    """
    if record.headers.read_only:
        record = record.copy()
    record.headers.add(QUARANTINE_HEADER, reason.encode("utf-8", "replace"))
    return record


def quarantined(record: AnyRecord) -> list[str]:
    """Why a record was marked, in order; empty for a good one. Bytes that are no UTF-8 show as replacement characters."""
    return [(value or b"").decode("utf-8", "replace") for value in record.headers.get(QUARANTINE_HEADER)]


class Counts(Mapping[str, int]):
    """How many records had which outcome. Threads may share it; it is pickled empty, so that tasks count what is theirs."""

    def __init__(self, given: Mapping[str, int] | None = None) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = dict(given or {})

    def add(self, outcome: str, count: int = 1) -> None:
        """Counts ``count`` more of an outcome."""
        if count:
            with self._lock:
                self._counts[outcome] = self._counts.get(outcome, 0) + count

    def merge(self, other: Mapping[str, int]) -> Counts:
        """Adds what another one counted, and returns itself."""
        for outcome, count in dict(other).items():
            self.add(outcome, count)
        return self

    def clear(self) -> dict[str, int]:
        """Starts anew, and returns what was counted until now."""
        with self._lock:
            counted, self._counts = self._counts, {}
        return counted

    def __getitem__(self, outcome: str) -> int:
        with self._lock:
            return self._counts.get(outcome, 0)

    def __contains__(self, outcome: object) -> bool:
        with self._lock:
            return outcome in self._counts

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._counts))

    def __len__(self) -> int:
        with self._lock:
            return len(self._counts)

    def __repr__(self) -> str:
        return f"Counts({dict(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return (Counts, ())


class HeaderMiddleware:
    """The base of the middlewares.

    A subclass keeps its options in public attributes, and makes everything else in ``_ready``, in attributes that begin with
    an underscore: those are left behind when it is pickled, and ``_ready`` makes them anew.

    Args:
        policy: for bad input; the class says its default.
        quarantine: for ``policy="quarantine"``; by default ``mark``.

    Attributes:
        counts: records by outcome, good and bad.
    """

    name: str = ""
    """Named in a chain's timings and in reasons; the class's own name if empty."""

    def __init__(self, *, policy: Policy = "pass", quarantine: Quarantine | None = None) -> None:
        if policy not in POLICIES:
            raise ValueError(f"policy is {' or '.join(POLICIES)}, not {policy!r}")
        if quarantine is not None and not callable(quarantine):
            raise TypeError(f"quarantine is a callable (record, reason) -> records, not {quarantine!r}")
        self.policy: Policy = policy
        self.quarantine: Quarantine = mark if quarantine is None else quarantine
        self.name = self.name or type(self).__name__
        self.counts = Counts()

    def _ready(self) -> None:
        """Makes what is not pickled. A subclass calls it at the end of its ``__init__``; unpickling calls it too."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._ready()

    def bad(self, record: Any, outcome: str, detail: str = "") -> Answer:
        """Counts a bad record under ``outcome`` and answers for it by the policy.

        Args:
            record: as it came; nothing of it was changed yet.
            outcome: one or two words, of a small set: it is counted.
            detail: what else the reason should say. Never anything secret.
        """
        self.counts.add(outcome)
        if self.policy == "pass":
            return record
        if self.policy == "reject":
            return ()
        reason = self.reason(outcome, detail)
        if self.policy == "raise":
            raise BadHeaderError(reason, record)
        return self.quarantine(record, reason)

    def reason(self, outcome: str, detail: str = "") -> str:
        """How an outcome is told: ``name: outcome, detail``."""
        return f"{self.name}: {outcome}, {detail}" if detail else f"{self.name}: {outcome}"

    def bad_rows(self, batch: pa.RecordBatch, bad: Mapping[int, tuple[str, str]]) -> pa.RecordBatch:
        """The same for rows of a batch that has Kafka's columns: ``{row: (outcome, detail)}``; good rows stay as they are.

        The order of rows is kept. Only where the quarantine is a callable of one's own are records made, and of the bad
        rows alone.
        """
        for outcome, _ in bad.values():
            self.counts.add(outcome)
        if not bad or self.policy == "pass":
            return batch
        from . import _arrow

        reasons = {row: self.reason(*said) for row, said in bad.items()}
        if self.policy == "raise":
            row = min(reasons)
            raise BadHeaderError(reasons[row], _arrow.record_of(batch, row))
        if self.policy == "reject":
            return _arrow.without_rows(batch, reasons)
        if self.quarantine is mark:
            return _arrow.marked(batch, QUARANTINE_HEADER, reasons)
        return _arrow.replaced(batch, {row: self._asked(batch, row, said) for row, said in reasons.items()})

    def _asked(self, batch: pa.RecordBatch, row: int, reason: str) -> list[AnyRecord]:
        from . import _arrow

        answer = self.quarantine(_arrow.record_of(batch, row), reason)
        return [answer] if isinstance(answer, ProducerRecord | ConsumerRecord) else list(answer)

    def __repr__(self) -> str:
        return f"<{self.name}: policy {self.policy}, {dict(self.counts)}>"


def each(
    batches: Iterable[pa.RecordBatch], work: Callable[[pa.RecordBatch], pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """``work`` over batches; empty ones go through as they are, so that their schema stays."""
    for batch in batches:
        yield work(batch) if batch.num_rows else batch
