"""Dead letters: records that nobody could read or was willing to take, with the place they came from and the reason.

The headers are Spring's, Kafka Connect's, or both, byte for byte; every encoding of them that was seen is read back.

    dead = DeadLetters("{topic}-dlt", send=producer.produce, group="billing")
    Chain(Signing(..., policy="quarantine", quarantine=dead), ...)     # what another middleware refuses
    Chain(dead.guard(work))                                            # what a function of one's own fails on
    replay(mb.Log("orders-dlt-0").records(), topics={"orders"})        # back to where they came from
"""

from __future__ import annotations

import struct
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from magicbyte._core import ConsumerRecord, Headers
from magicbyte.records import ProducerRecord
from magicbyte.vocabulary import decode

from ._base import AnyRecord, HeaderMiddleware, HeaderName, Policy, Quarantine, header_name

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DeadLetter", "DeadLetters", "Origin", "Replay", "parse", "replay"]

Style = Literal["spring", "connect"]
SPRING, SPRING_ERROR, CONNECT = "kafka_dlt-original-", "kafka_dlt-exception-", "__connect.errors."
FAMILIES = ("kafka_dlt-", "__connect.errors.")
TIME_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
LATEST = 1 << 47
"""Milliseconds: the year 6429."""
STACK = 16_384
"""Bytes of a stack trace that are kept: a broker takes records of 1 MiB, headers included."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record was when it failed. What its headers do not say is None; ``timestamp`` in milliseconds."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    timestamp_type: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What the headers of a dead letter say.

    Attributes:
        style: whose headers they are.
        origins: oldest first: a record that failed again after a retry has several.
        exception, message, stacktrace, cause: of the latest failure.
        connector, task, stage: Connect's alone.
        problems: headers that could not be read, as ``name: what is wrong``.
    """

    style: Style
    origins: tuple[Origin, ...]
    exception: str | None = None
    message: str | None = None
    stacktrace: str | None = None
    cause: str | None = None
    connector: str | None = None
    task: int | None = None
    stage: str | None = None
    problems: tuple[str, ...] = ()


_ORIGIN = {
    "spring": {
        "topic": "topic",
        "partition": "partition",
        "offset": "offset",
        "timestamp": "timestamp",
        "timestamp_type": "timestamp-type",
        "group": "consumer-group",
    },
    "connect": {"topic": "topic", "partition": "partition", "offset": "offset"},
}
_BEGIN = {"spring": SPRING, "connect": CONNECT}
_SAID = {
    "spring": {
        "exception": SPRING_ERROR + "fqcn",
        "message": SPRING_ERROR + "message",
        "stacktrace": SPRING_ERROR + "stacktrace",
        "cause": SPRING_ERROR + "cause-fqcn",
    },
    "connect": {
        "exception": CONNECT + "exception.class.name",
        "message": CONNECT + "exception.message",
        "stacktrace": CONNECT + "exception.stacktrace",
        "connector": CONNECT + "connector.name",
        "task": CONNECT + "task.id",
        "stage": CONNECT + "stage",
    },
}


def parse(headers: Headers, style: Style | None = None) -> DeadLetter | None:
    """What dead-letter headers say; None where there are none. Never raises on bytes.

    ``style`` chooses where both kinds are there; by default Spring's, which say more of the origin.
    """
    for kind in (style,) if style else ("spring", "connect"):
        begin, fields = _BEGIN[kind], _ORIGIN[kind]
        if begin + "topic" not in headers and not any(begin + name in headers for name in fields.values()):
            continue
        problems: list[str] = []

        def read(name: str, value: bytes | None, problems: list[str] = problems) -> Any:
            said = decode(name, value)
            if said.error is not None:
                problems.append(f"{name}: {said.error}")
                return None
            return said.value

        values = {
            field: [read(begin + name, value) for value in headers.get(begin + name)] for field, name in fields.items()
        }
        # Each failure adds one of each; where one was left out, nobody can tell which: the newest belong together.
        count = max(map(len, values.values()))
        filled = {field: [None] * (count - len(all)) + all for field, all in values.items()}
        origins = tuple(Origin(**{field: all[at] for field, all in filled.items()}) for at in range(count))
        said = {field: read(name, headers.get(name)[-1]) for field, name in _SAID[kind].items() if name in headers}
        return DeadLetter(kind, origins, **said, problems=tuple(problems))
    return None


def told(timestamp: int | None) -> bool:
    """Whether that can be a record's time: not none, and in a year that calendars have."""
    return timestamp is not None and 0 <= timestamp < LATEST


def without_dead_letter_headers(headers: Headers) -> Headers:
    """A copy without Spring's and Connect's headers of failure."""
    kept = headers.copy()
    for name in headers.keys():  # noqa: SIM118
        if name.startswith(FAMILIES):
            kept.remove(name)
    return kept


class DeadLetters:
    """Makes dead letters: a quarantine for other middlewares, and a guard around functions of one's own.

    Args:
        topic: where they go; ``{topic}`` stands for the topic they come from.
        styles: whose headers to write.
        send: takes each dead letter (a ``ProducerRecord``), which then leaves the chain; ``Producer.produce`` for one.
            Without it, the dead letter itself goes on through the chain, addressed to its topic.
        group: the consumer group, for Spring's header.
        connector, task, stage: for Connect's headers.
        same_partition: as Spring does: the dead letter goes to the partition number it came from. False lets the producer
            choose.
        stack: bytes of a stack trace that are kept.
    """

    def __init__(
        self,
        topic: str = "{topic}-dlt",
        *,
        styles: Sequence[Style] = ("spring",),
        send: Callable[[ProducerRecord], Any] | None = None,
        group: str | None = None,
        connector: str = "magicbyte",
        task: int = 0,
        stage: str = "TASK_PUT",
        same_partition: bool = True,
        stack: int = STACK,
    ) -> None:
        if isinstance(styles, str) or not styles or set(styles) - {"spring", "connect"}:
            raise ValueError(f'styles are "spring", "connect" or both, not {styles!r}')
        self.topic, self.styles, self.send, self.group = topic, tuple(styles), send, group
        self.connector, self.task, self.stage = connector, task, stage
        self.same_partition, self.stack = same_partition, stack

    def __call__(self, record: AnyRecord, reason: str | BaseException) -> Any:
        """The dead letter of a record: what a middleware's ``quarantine=`` calls. ``()`` where ``send`` took it."""
        letter = self.letter(record, reason)
        if self.send is None:
            if isinstance(record, ConsumerRecord):
                return record.replace(topic=letter.topic, headers=letter.headers)
            return letter
        self.send(letter)
        return ()

    def letter(self, record: AnyRecord, reason: str | BaseException) -> ProducerRecord:
        """The dead letter as it would be sent; the record stays as it is."""
        consumed = isinstance(record, ConsumerRecord)
        partition = record.partition if record.partition is not None and record.partition >= 0 else None
        headers = record.headers.copy()
        error = reason if isinstance(reason, BaseException) else None
        for style in self.styles:
            write = self._spring if style == "spring" else self._connect
            write(headers, record, consumed, partition, str(reason), error)
        return ProducerRecord(
            self.topic.replace("{topic}", record.topic),
            record.value,
            record.key,
            headers,
            partition if self.same_partition else None,
            record.timestamp if record.timestamp is not None and record.timestamp >= 0 else None,
            record.tombstone,
        )

    def _spring(
        self, headers: Headers, record: Any, consumed: bool, partition: int | None, reason: str, error: Any
    ) -> None:
        # Of failures before this one Spring keeps the places, and not the reasons.
        for name in headers.keys():  # noqa: SIM118
            if name.startswith(SPRING_ERROR):
                headers.remove(name)
        headers.add(SPRING + "topic", record.topic.encode())
        if partition is not None:
            headers.add(SPRING + "partition", struct.pack(">i", partition))
        if consumed:
            headers.add(SPRING + "offset", struct.pack(">q", record.offset))
            headers.add(SPRING + "timestamp", struct.pack(">q", record.timestamp))
            headers.add(SPRING + "timestamp-type", TIME_TYPES.get(record.timestamp_type, "NoTimestampType").encode())
        if self.group is not None:
            headers.add(SPRING + "consumer-group", self.group.encode())
        headers.add(SPRING_ERROR + "fqcn", _class_name(error))
        if error is not None and (error.__cause__ or error.__context__) is not None:
            headers.add(SPRING_ERROR + "cause-fqcn", _class_name(error.__cause__ or error.__context__))
        headers.add(SPRING_ERROR + "message", _text(reason, self.stack))
        if error is not None:
            headers.add(SPRING_ERROR + "stacktrace", self._trace(error))

    def _connect(
        self, headers: Headers, record: Any, consumed: bool, partition: int | None, reason: str, error: Any
    ) -> None:
        headers.add(CONNECT + "topic", record.topic.encode())
        if partition is not None:
            headers.add(CONNECT + "partition", b"%d" % partition)
        if consumed:
            headers.add(CONNECT + "offset", b"%d" % record.offset)
        headers.add(CONNECT + "connector.name", self.connector.encode())
        headers.add(CONNECT + "task.id", b"%d" % self.task)
        headers.add(CONNECT + "stage", self.stage.encode())
        headers.add(CONNECT + "class.name", b"magicbyte.middleware.dead_letters.DeadLetters")
        headers.add(CONNECT + "exception.class.name", _class_name(error))
        headers.add(CONNECT + "exception.message", _text(reason, self.stack))
        if error is not None:
            headers.add(CONNECT + "exception.stacktrace", self._trace(error))

    def _trace(self, error: BaseException) -> bytes:
        return _text("".join(traceback.format_exception(error)), self.stack)

    def guard(self, work: Callable[[Any], Any]) -> Guard:
        """``work`` (``record -> record | Iterable[record]``) as an interceptor whose failures become dead letters."""
        return Guard(work, self)


class Guard:
    """A function in a chain; a record that it raises on becomes a dead letter, whatever the chain does with errors."""

    def __init__(self, work: Callable[[Any], Any], dead: DeadLetters) -> None:
        self.work, self.dead = work, dead
        self.name = str(getattr(work, "__name__", type(work).__name__))

    def __call__(self, record: Any) -> Any:
        """Runs the function over a copy, so that a half-done record is not what is kept."""
        try:
            done = self.work(record.copy())
            # A generator fails while it is walked.
            return done if isinstance(done, ProducerRecord | ConsumerRecord) else list(done)
        except Exception as error:
            return self.dead(record, error)


def _class_name(error: BaseException | None) -> bytes:
    if error is None:
        return b"magicbyte.middleware.BadHeaderError"
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}".encode()


def _text(words: str, most: int) -> bytes:
    """UTF-8 of at most so many bytes, no character cut in two."""
    return words.encode("utf-8", "replace")[:most].decode("utf-8", "ignore").encode()


class Replay(HeaderMiddleware):
    """The way back: a dead letter becomes the record that it was, addressed to its original topic and partition.

    Args:
        topics: names that records may go back to; None allows all. Headers can be forged: name them where it matters.
        which: ``first`` origin (where the record was before any retry) or the ``last``.
        most: how often a record may be replayed; counted in ``count_header``. None does not count.
        count_header: digits.
        partition: False leaves the partition to the producer, as after the topic got more of them.
        policy: for what is no dead letter, has an unreadable origin, is not allowed or came back too often.

    Spring's and Connect's headers are taken off; all others stay. Outcomes: ``replayed``, ``no origin``, ``not allowed``,
    ``too often``.
    """

    def __init__(
        self,
        *,
        topics: Collection[str] | None = None,
        which: Literal["first", "last"] = "first",
        most: int | None = 3,
        count_header: HeaderName = "mb.replays",
        partition: bool = True,
        style: Style | None = None,
        policy: Policy = "reject",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        if which not in ("first", "last"):
            raise ValueError(f'which is "first" or "last", not {which!r}')
        if isinstance(topics, str):
            raise TypeError("topics is a collection of names")
        self.topics = None if topics is None else frozenset(topics)
        self.which, self.most, self.partition, self.style = which, most, partition, style
        self.count_header = header_name(count_header)

    def look(self, headers: Headers) -> tuple[Origin, int, str, str]:
        """The origin, how often the record was replayed before, and the outcome with its detail."""
        said = parse(headers, self.style)
        origin = said.origins[0 if self.which == "first" else -1] if said and said.origins else Origin()
        if not origin.topic:
            return origin, 0, "no origin", "; ".join(said.problems) if said else "no dead-letter headers"
        if self.topics is not None and origin.topic not in self.topics:
            return origin, 0, "not allowed", f"topic {origin.topic!r}"
        before = 0
        if self.most is not None and self.count_header in headers:
            word = headers.get(self.count_header)[-1]
            # What cannot be read counts as too often: a forged header must not open a loop.
            before = int(word) if word is not None and word.isdigit() and len(word) < 10 else self.most
        if self.most is not None and before >= self.most:
            return origin, before, "too often", f"{self.most} times are allowed"
        return origin, before, "replayed", ""

    def pre_deserialize(self, record: ConsumerRecord) -> Any:
        """A ``ProducerRecord`` for the original topic; bad ones by the policy."""
        origin, before, outcome, detail = self.look(record.headers)
        if outcome != "replayed":
            return self.bad(record, outcome, detail)
        self.counts.add(outcome)
        headers = without_dead_letter_headers(record.headers)
        if self.most is not None:
            headers.remove(self.count_header).add(self.count_header, b"%d" % (before + 1))
        time = origin.timestamp if told(origin.timestamp) else record.timestamp
        return ProducerRecord(
            str(origin.topic),
            record.value,
            record.key,
            headers,
            origin.partition if self.partition else None,
            time if time is not None and time >= 0 else None,
            record.tombstone,
        )

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same over Kafka's columns: ``topic``, ``partition``, ``timestamp`` and ``headers`` are replaced, ``offset``
        stays the dead letter's. Where the producer is to choose the partition, it is null."""
        from ._dead_letters_arrow import replayed

        for batch in batches:
            yield replayed(self, batch) if batch.num_rows else batch


def replay(records: Iterable[ConsumerRecord], **options: Any) -> Iterator[ProducerRecord]:
    """Dead letters of a log, or of a consumer, as records for their original topics; options are those of ``Replay``.

        for record in replay(mb.Log("orders-dlt-0").records(), topics={"orders"}): producer.produce(record)

    Records that ``policy="pass"`` lets through as they are, and those that a quarantine gives back, are left out.
    """
    back = Replay(**options)
    for record in records:
        done = back.pre_deserialize(record)
        for one in [done] if isinstance(done, ProducerRecord | ConsumerRecord) else done:
            if isinstance(one, ProducerRecord):
                yield one
