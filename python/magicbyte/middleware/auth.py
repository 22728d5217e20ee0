"""Who may write what: a token in a header, set where records are sent, checked at ingest (extra ``crypto``).

    tokens = TokenIssuer(keys=keys, sign_with="billing-1", principal="billing", topics="invoices*")
    Producer(config, interceptors=[tokens])

    gate = TokenGate(keys=keys.public(), rules=[Rule("billing", "invoices*", ("write",))], policy="quarantine", quarantine=dead)
    for record in Chain(gate).sending(incoming): ...          # in front of a cluster; or over a log, or in Spark

The header (``mb.auth``), numbers big-endian:

    version    u8     1
    algorithm  u8     1 HMAC-SHA256, 2 Ed25519
    flags      u8     0
    key id     u8 length, UTF-8
    principal  u8 length, UTF-8
    topics     u8 length, UTF-8: a topic, or the beginning of topics and a ``*``
    issued     int64  milliseconds since the epoch
    expires    int64  milliseconds since the epoch
    signature  32 or 64 bytes, to the end

Signed is ``"magicbyte.token.1"``, a zero byte, and the header up to the signature. A token says who sends, and nothing of what is
sent: whoever sees one can use it until it expires. So it lives minutes, a gate takes it off, and where records must not be
changed on their way they are signed as well (``middleware.signing``).
"""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from magicbyte._core import ConsumerRecord
from magicbyte.records import ProducerRecord

from ._base import Answer, AnyRecord, HeaderMiddleware, HeaderName, Policy, Quarantine, each, header_name, one_value
from .keys import Key, KeyRing, keyring

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["HEADER", "Rule", "TokenGate", "TokenIssuer"]

HEADER = "mb.auth"
DOMAIN = b"magicbyte.token.1\0"
VERSION = 1
SIZES = {1: 32, 2: 64}
TIMES = struct.Struct(">qq")
CACHED = 4096
"""Tokens that a gate remembers; each costs one verification."""

Operation = Literal["write", "delete"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a principal may do. Names are as they are, or a beginning and a ``*``. ``delete`` is to write a null value."""

    principal: str
    topics: str
    operations: tuple[Operation, ...] = ("write", "delete")


def _fits(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


class _Token(NamedTuple):
    principal: str
    topics: str
    issued: int
    expires: int


class TokenIssuer(HeaderMiddleware):
    """Sets the token on what is sent; one that is there already is replaced.

    Args:
        keys, sign_with: the key that vouches for the principal.
        principal: who sends; 1 to 255 bytes of UTF-8.
        topics: where the token holds: a topic, or a beginning and ``*``. None: a token for each topic, as records come.
        lifetime: seconds until it expires; a new one is made after half of that.
        header: the header's name.
    """

    def __init__(
        self,
        *,
        keys: KeyRing | Mapping[str, Key],
        sign_with: str,
        principal: str,
        topics: str | None = None,
        lifetime: float = 600,
        header: HeaderName = HEADER,
    ) -> None:
        super().__init__()
        self.keys = keyring(keys)
        self.sign_with, self.principal, self.topics, self.lifetime = sign_with, principal, topics, lifetime
        self.header = header_name(header)
        if sign_with not in self.keys:
            raise ValueError(f"no key {sign_with!r} to sign with; there are {', '.join(self.keys) or 'none'}")
        if not 1 <= len(principal.encode()) <= 255 or len((topics or "").encode()) > 255:
            raise ValueError("a principal has 1 to 255 bytes, topics at most 255")
        if lifetime <= 0:
            raise ValueError("a token lives some seconds")
        self._ready()

    def _ready(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, tuple[float, bytes]] = {}

    def token(self, topic: str) -> bytes:
        """The header's value for records of this topic."""
        rule = topic if self.topics is None else self.topics
        with self._lock:
            until, made = self._tokens.get(rule, (0.0, b""))
            now = time.time()
            if now >= until:
                if len(self._tokens) >= CACHED:
                    self._tokens.clear()
                made = self._made(rule, int(now * 1000))
                self._tokens[rule] = (now + self.lifetime / 2, made)
            return made

    def _made(self, rule: str, now: int) -> bytes:
        key = self.keys[self.sign_with]
        texts = [text.encode() for text in (self.sign_with, self.principal, rule)]
        head = bytes([VERSION, key.algorithm, 0]) + b"".join(bytes([len(text)]) + text for text in texts)
        head += TIMES.pack(now, now + int(self.lifetime * 1000))
        return head + key.sign(DOMAIN + head)

    def post_serialize(self, record: ProducerRecord) -> ProducerRecord:
        """Adds the token."""
        if record.headers.read_only:
            record = record.copy()
        if self.header in record.headers:
            record.headers.remove(self.header)
        record.headers.add(self.header, self.token(record.topic))
        self.counts.add("issued")
        return record

    def sending_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(tokens.sending_arrow, df.schema)``: the same for rows of Kafka's columns."""
        return each(batches, self._issue_rows)

    def _issue_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        from ._arrow import HeaderColumn, column, with_columns

        topics = column(batch, "topic").fill_null("").dictionary_encode()
        values = pa.array([self.token(topic) for topic in topics.dictionary.to_pylist()], pa.binary())
        headers = HeaderColumn.of(batch).without(self.header).with_header(self.header, values.take(topics.indices))
        self.counts.add("issued", batch.num_rows)
        return with_columns(batch, {"headers": headers.array()})


class TokenGate(HeaderMiddleware):
    """Lets through what a token and the rules allow, on the sending side (ingest) and on the receiving one.

    Args:
        keys: those that may vouch, by id; public halves are enough.
        rules: what principals may do; without a rule nothing is allowed. None: the token's own topics decide alone.
        vouches: which principals a key may vouch for, by the key's id: a name, or a beginning and ``*``. Keys that are not
            named vouch for all.
        required: a record without a token is bad; False lets it pass as ``anonymous``.
        at: when a token must be valid: ``now``, at ingest; ``timestamp``, for logs read later: at the record's own time, which
            says something only where the broker set it (``LogAppendTime``).
        leeway: seconds that clocks may differ.
        strip: takes the token off.
        principal: a header that is given the principal, and taken off whatever comes without one.
        header: the header's name.
        policy, quarantine: for bad records: ``missing``, ``repeated``, ``malformed``, ``unknown key``, ``forged``, ``not yet``,
            ``expired``, ``other topic`` (not the token's), ``not allowed`` (by the rules, or the key does not vouch for this
            principal). They are dropped by default; a dead-letter callable as ``quarantine`` keeps them, with the reason.

    Counts also ``allowed`` and ``anonymous``.
    """

    def __init__(
        self,
        *,
        keys: KeyRing | Mapping[str, Key],
        rules: Iterable[Rule] | None,
        vouches: Mapping[str, str] | None = None,
        required: bool = True,
        at: Literal["now", "timestamp"] = "now",
        leeway: float = 30,
        strip: bool = True,
        principal: HeaderName | None = None,
        header: HeaderName = HEADER,
        policy: Policy = "reject",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        if at not in ("now", "timestamp"):
            raise ValueError(f"at is now or timestamp, not {at!r}")
        self.keys = keyring(keys)
        self.rules = None if rules is None else tuple(rules)
        self.vouches = dict(vouches or {})
        self.required, self.at, self.leeway, self.strip = required, at, leeway, strip
        self.header = header_name(header)
        self.principal = None if principal is None else header_name(principal)
        self._ready()

    def _ready(self) -> None:
        # What a token says of a topic does not change; whether it is still valid is asked each time.
        self._read = lru_cache(CACHED)(self._verified)
        self._decided = lru_cache(CACHED)(self._decide)

    # One token

    def _verified(self, data: bytes) -> _Token | str:
        """What a token says, or why it is none."""
        size = SIZES.get(data[1], 0) if len(data) > 2 else 0
        head = data[:-size] if size else b""
        if len(head) < 3 or head[0] != VERSION or head[2]:
            return "malformed"
        texts, at = [], 3
        for _ in range(3):
            if at >= len(head) or (end := at + 1 + head[at]) > len(head):
                return "malformed"
            texts.append(head[at + 1 : end])
            at = end
        if len(head) != at + TIMES.size or not texts[1]:
            return "malformed"
        key = self.keys.find(texts[0], data[1])
        if key is None:
            return "unknown key"
        if not key.verify(DOMAIN + head, data[-size:]):
            return "forged"
        try:
            id, principal, topics = (text.decode() for text in texts)
        except UnicodeDecodeError:
            return "malformed"
        if not _fits(self.vouches.get(id, "*"), principal):
            return "not allowed"
        return _Token(principal, topics, *TIMES.unpack_from(head, at))

    def _decide(self, data: bytes, topic: str, operation: Operation) -> _Token | tuple[str, str]:
        """The token, if it allows this at some time, or the outcome and what else is to be said."""
        token = self._read(data)
        if isinstance(token, str):
            return token, ""
        if not _fits(token.topics, topic):
            return "other topic", f"{token.principal} for {token.topics}"
        for rule in self.rules or ():
            if _fits(rule.principal, token.principal) and _fits(rule.topics, topic) and operation in rule.operations:
                return token
        return token if self.rules is None else ("not allowed", f"{token.principal} may not {operation} {topic}")

    def _untimely(self, token: _Token, time_ms: int) -> str | None:
        leeway = int(self.leeway * 1000)
        if time_ms < token.issued - leeway:
            return "not yet"
        return "expired" if time_ms >= token.expires + leeway else None

    # One record

    def post_serialize(self, record: ProducerRecord) -> Answer:
        """Checks at ingest."""
        return self._check(record)

    def pre_deserialize(self, record: ConsumerRecord) -> Answer:
        """Checks what comes in."""
        return self._check(record)

    def _check(self, record: AnyRecord) -> Answer:
        data, count = one_value(record.headers, self.header)
        if count == 0 and not self.required:
            self.counts.add("anonymous")
            return self._let_in(record, None)
        if count != 1:
            return self.bad(record, "repeated" if count else "missing")
        found = self._decided(data or b"", record.topic, "delete" if record.value is None else "write")
        if not isinstance(found, _Token):
            return self.bad(record, *found)
        untimely = self._untimely(found, self._when(record.timestamp))
        if untimely is not None:
            return self.bad(record, untimely, found.principal)
        self.counts.add("allowed")
        return self._let_in(record, found.principal)

    def _when(self, timestamp: int | None) -> int:
        return int(time.time() * 1000) if self.at == "now" or timestamp is None else timestamp

    def _let_in(self, record: AnyRecord, principal: str | None) -> AnyRecord:
        if not self.strip and self.principal is None:
            return record
        if record.headers.read_only:
            record = record.copy()
        headers = record.headers
        if self.strip and self.header in headers:
            headers.remove(self.header)
        if self.principal is not None:
            if self.principal in headers:
                headers.remove(self.principal)
            if principal is not None:
                headers.add(self.principal, principal.encode())
        return record

    # Columns

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(gate.arrow, df.schema)``: checks rows of Kafka's columns. Each token is looked at once a batch."""
        return each(batches, self._check_rows)

    sending_arrow = arrow

    def _check_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        from ._arrow import HeaderColumn, alike_rows, column, with_columns

        headers = HeaderColumn.of(batch)
        values, counts = headers.last(self.header)
        bad: dict[int, tuple[str, str]] = {int(row): ("repeated", "") for row in np.flatnonzero(counts > 1)}
        let_in = np.zeros(batch.num_rows, dtype=bool)
        principals: list[bytes | None] = [None] * batch.num_rows
        if self.required:
            bad |= {int(row): ("missing", "") for row in np.flatnonzero(counts == 0)}
        else:
            let_in |= counts == 0
            self.counts.add("anonymous", int((counts == 0).sum()))
        rows = np.flatnonzero(counts == 1)
        topics, values_given = column(batch, "topic").fill_null(""), column(batch, "value").is_valid()
        coded = topics.dictionary_encode()
        tokens = values.fill_null(b"").dictionary_encode().indices.to_numpy().astype(np.int64)
        codes = (tokens * len(coded.dictionary) + coded.indices.to_numpy()) * 2 + values_given.to_numpy(
            zero_copy_only=False
        )
        times = self._times(batch)
        for alike in alike_rows(codes[rows]):
            some = rows[alike]
            first = int(some[0])
            operation: Operation = "write" if values_given[first].as_py() else "delete"
            found = self._decided(values[first].as_py() or b"", topics[first].as_py(), operation)
            if not isinstance(found, _Token):
                bad |= {int(row): found for row in some}
                continue
            for row in some.tolist():
                untimely = self._untimely(found, int(times[row]))
                if untimely is not None:
                    bad[row] = (untimely, found.principal)
                else:
                    let_in[row], principals[row] = True, found.principal.encode()
        self.counts.add("allowed", int((let_in & (counts == 1)).sum()))
        left = headers.without(self.header, let_in) if self.strip else headers
        if self.principal is not None:
            named = np.array([name is not None for name in principals], dtype=bool)
            left = left.without(self.principal, let_in).with_header(
                self.principal, pa.array(principals, pa.binary()), named
            )
        done = with_columns(batch, {"headers": left.array()})
        return self.bad_rows(done, bad)

    def _times(self, batch: pa.RecordBatch) -> Any:
        """The time to judge each row by, in milliseconds."""
        import numpy as np
        import pyarrow as pa

        from ._arrow import column

        if self.at == "now":
            return np.full(batch.num_rows, int(time.time() * 1000), dtype=np.int64)
        stamps = column(batch, "timestamp")
        if pa.types.is_timestamp(stamps.type):
            stamps = stamps.cast(pa.timestamp("us", stamps.type.tz)).cast(pa.int64())
            return np.floor_divide(stamps.fill_null(-1000).to_numpy(zero_copy_only=False), 1000)
        return stamps.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
