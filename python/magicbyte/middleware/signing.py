"""Signatures over key, value and chosen headers, checked before anything is deserialized (extra ``crypto``).

    keys = KeyRing({"2026-a": Ed25519Key.generate()})
    signing = Signing(keys=keys, sign_with="2026-a", headers=("ce_type",), bind_topic=True)
    Producer(config, interceptors=[signing])         # signs
    Consumer(config, interceptors=[signing])         # verifies: here KeyRing.public() is enough

The header (``mb.sig``), numbers big-endian:

    version    u8     1
    algorithm  u8     1 HMAC-SHA256, 2 Ed25519
    flags      u8     1 = the topic is signed too; the other bits are 0
    key id     u8 length, UTF-8
    headers    u8 count, then for each name u8 length, UTF-8
    signature  32 or 64 bytes, to the end

What is signed, one behind the other:

    "magicbyte.signature.1" and a zero byte
    the header up to the signature
    the topic                   int32 length, UTF-8; only with flag 1
    the key, then the value     int32 length, bytes; length −1 and no bytes for null
    for each name, in order     int32 how many headers of that name there are; each as int32 length, bytes; −1 for null

So a header that was named and absent cannot be added later, and one that was there cannot be removed, changed or doubled.
Not signed: partition, offset, timestamp, the headers that were not named, and the order of headers of different names.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from magicbyte._core import ConsumerRecord, Headers
from magicbyte.records import ProducerRecord

from ._base import Answer, HeaderMiddleware, HeaderName, Policy, Quarantine, each, header_name, one_value
from .keys import Key, KeyRing, keyring, verify_all

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from ._arrow import HeaderColumn

__all__ = ["HEADER", "Signing", "signed_bytes"]

HEADER = "mb.sig"
DOMAIN = b"magicbyte.signature.1\0"
VERSION = 1
TOPIC_SIGNED = 1
LENGTH = struct.Struct(">i")
NULL = LENGTH.pack(-1)
SIZES = {1: 32, 2: 64}


class Head(NamedTuple):
    """What a header says before its signature."""

    algorithm: int
    topic_signed: bool
    key_id: bytes
    names: tuple[str, ...]


def _sized(data: bytes | None) -> bytes:
    return NULL if data is None else LENGTH.pack(len(data)) + data


def signed_bytes(
    head: bytes,
    topic: str,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    names: Iterable[str],
    bind_topic: bool,
) -> bytes:
    """What is signed, byte by byte as the head of this module says; ``head`` is the header up to the signature."""
    parts = [DOMAIN, head]
    if bind_topic:
        parts.append(_sized(topic.encode()))
    parts += (_sized(key), _sized(value))
    for name in names:
        values = headers.get(name)
        parts.append(LENGTH.pack(len(values)))
        parts += map(_sized, values)
    return b"".join(parts)


@lru_cache(1024)  # a few senders' heads come again and again
def _head(data: bytes) -> Head | None:
    """A header without its signature; None if it is cut, too long, or of another version."""
    if len(data) < 5 or data[0] != VERSION or data[1] not in SIZES or data[2] & ~TOPIC_SIGNED:
        return None
    texts, at, count = [], 3, 1
    while count:
        if at >= len(data) or (end := at + 1 + data[at]) > len(data):
            return None
        texts.append(data[at + 1 : end])
        at, count = end, count - 1
        if len(texts) == 1:  # behind the key's id, the count of names
            if at >= len(data):
                return None
            count, at = data[at], at + 1
    if at != len(data) or not texts[0]:
        return None
    try:
        names = tuple(text.decode() for text in texts[1:])
    except UnicodeDecodeError:
        return None
    return Head(data[1], bool(data[2] & TOPIC_SIGNED), texts[0], names)


class Signing(HeaderMiddleware):
    """Signs where records are sent, verifies where they come in.

    Args:
        keys: by id: those that sign, and all that may have signed what comes in.
        sign_with: the id of the key that signs; None only verifies, and leaves what is sent alone.
        headers: names of headers that are signed too; where records come in, these at least must have been.
        bind_topic: the topic is signed too, and must have been: a record copied into another topic is then a forgery.
            A mirror that renames topics must then sign anew.
        required: a record without the header is bad; False lets it pass, counted as ``unsigned``.
        header: the header's name.
        policy, quarantine: for bad records: ``missing``, ``repeated``, ``malformed``, ``unknown key``, ``unbound`` (topic
            or a header is not signed that should be), ``forged``. They are dropped by default.

    Counts also ``signed``, ``valid``, ``unsigned``. Several signatures of one record need a ``Signing`` each, with headers
    of different names.
    """

    def __init__(
        self,
        *,
        keys: KeyRing | Mapping[str, Key],
        sign_with: str | None = None,
        headers: Iterable[str] = (),
        bind_topic: bool = False,
        required: bool = True,
        header: HeaderName = HEADER,
        policy: Policy = "reject",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        self.keys = keyring(keys)
        self.header = header_name(header)
        self.sign_with = sign_with
        self.headers = tuple(headers)
        self.bind_topic = bind_topic
        self.required = required
        if sign_with is not None and sign_with not in self.keys:
            raise ValueError(f"no key {sign_with!r} to sign with; there are {', '.join(self.keys) or 'none'}")
        if self.header in self.headers or len(set(self.headers)) != len(self.headers):
            raise ValueError("a signature does not sign itself, and no header twice")
        if len(self.headers) > 255 or any(not 1 <= len(name.encode()) <= 255 for name in self.headers):
            raise ValueError("at most 255 headers are signed, of names of 1 to 255 bytes")
        self._ready()

    def _ready(self) -> None:
        self._needed = set(self.headers)
        if self.sign_with is None:
            return
        id, names = self.sign_with.encode(), [name.encode() for name in self.headers]
        self._key = self.keys[self.sign_with]
        self._own = b"".join(
            (
                bytes([VERSION, self._key.algorithm, TOPIC_SIGNED if self.bind_topic else 0, len(id)]),
                id,
                bytes([len(names)]),
                *(bytes([len(name)]) + name for name in names),
            )
        )

    # One record

    def post_serialize(self, record: ProducerRecord) -> ProducerRecord:
        """Adds the signature; one that is there already is replaced."""
        if self.sign_with is None:
            return record
        if record.headers.read_only:
            record = record.copy()
        headers = record.headers
        if self.header in headers:
            headers.remove(self.header)
        message = signed_bytes(
            self._own, record.topic, record.key, record.value, headers, self.headers, self.bind_topic
        )
        headers.add(self.header, self._own + self._key.sign(message))
        self.counts.add("signed")
        return record

    def pre_deserialize(self, record: ConsumerRecord) -> Answer:
        """Verifies; the header stays."""
        data, count = one_value(record.headers, self.header)
        if count == 0 and not self.required:
            self.counts.add("unsigned")
            return record
        if count != 1:
            return self.bad(record, "repeated" if count else "missing")
        found = self._found(data)
        if isinstance(found, str):
            return self.bad(record, found)
        head, size, key = found
        assert data is not None
        message = signed_bytes(
            data[:-size], record.topic, record.key, record.value, record.headers, head.names, head.topic_signed
        )
        if not key.verify(message, data[-size:]):
            return self.bad(record, "forged")
        self.counts.add("valid")
        return record

    def _found(self, data: bytes | None) -> tuple[Head, int, Key] | str:
        """What a header says, the size of its signature and its key, or why not."""
        size = SIZES.get(data[1], 0) if data is not None and len(data) > 2 else 0
        head = _head(data[:-size]) if data is not None and 0 < size < len(data) else None
        if head is None:
            return "malformed"
        key = self.keys.find(head.key_id, head.algorithm)
        if key is None:
            return "unknown key"
        if (self.bind_topic and not head.topic_signed) or not self._needed.issubset(head.names):
            return "unbound"
        return head, size, key

    # Columns

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(signing.arrow, df.schema)``: verifies rows of Kafka's columns, as ``pre_deserialize`` does records.

        What was signed is put together for all rows at once; per row there is one call of the library.
        """
        return each(batches, self._verify_rows)

    def sending_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(signing.sending_arrow, df.schema)``: signs rows."""
        return each(batches, self._sign_rows)

    def _sign_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        from ._arrow import HeaderColumn, with_columns

        if self.sign_with is None:
            return batch
        headers = HeaderColumn.of(batch).without(self.header)
        messages = _messages(batch, headers, self._own, self.headers, self.bind_topic)
        values = pa.array([self._own + made for made in map(self._key.sign, messages)], pa.binary())
        self.counts.add("signed", batch.num_rows)
        return with_columns(batch, {"headers": headers.with_header(self.header, values).array()})

    def _verify_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from ._arrow import HeaderColumn, groups

        headers = HeaderColumn.of(batch)
        values, counts = headers.last(self.header)
        bad: dict[int, tuple[str, str]] = {}
        if self.required:
            bad |= {int(row): ("missing", "") for row in np.flatnonzero(counts == 0)}
        else:
            self.counts.add("unsigned", int((counts == 0).sum()))
        bad |= {int(row): ("repeated", "") for row in np.flatnonzero(counts > 1)}
        valid = 0
        left = np.flatnonzero(counts == 1)
        algorithms = pc.binary_slice(values, 1, 2)
        for algorithm, size in {**SIZES, 0: 1}.items():
            # Null, cut, or of an unknown algorithm: the value is its own head, and it will not do.
            mine = pc.fill_null(pc.equal(algorithms, bytes([algorithm])), False).to_numpy(zero_copy_only=False)
            rows = left[mine[left]] if algorithm else left
            left = np.setdiff1d(left, rows, assume_unique=True)
            if not len(rows):
                continue
            chosen = values.take(pa.array(rows))
            heads = pc.binary_slice(chosen, 0, -size).dictionary_encode(null_encoding="encode")
            for _, where in groups(heads):
                some = rows[where]
                data = chosen[where[0]].as_py()
                found = self._found(data)
                if isinstance(found, str):
                    bad |= {int(row): (found, "") for row in some}
                    continue
                head, _, key = found
                part = batch if len(some) == batch.num_rows else batch.take(pa.array(some))
                own = headers if part is batch else HeaderColumn.of(part)
                messages = _messages(part, own, data[:-size], head.names, head.topic_signed)
                signatures = pc.binary_slice(chosen.take(pa.array(where)), -size).to_pylist()
                good = verify_all(key, messages, signatures)
                valid += sum(good)
                bad |= {int(row): ("forged", "") for row, fine in zip(some, good, strict=True) if not fine}
        self.counts.add("valid", valid)
        return self.bad_rows(batch, bad)


def _messages(
    batch: pa.RecordBatch, headers: HeaderColumn, head: bytes, names: Iterable[str], bind_topic: bool
) -> list[bytes]:
    """``signed_bytes`` of all rows."""
    import numpy as np
    import pyarrow as pa

    from ._arrow import binary, column, joined, lengths_as_bytes, record_of

    parts: list[Any] = [DOMAIN + head]
    for name in ("topic", "key", "value") if bind_topic else ("key", "value"):
        array = binary(column(batch, name))
        if name == "topic":
            array = array.fill_null(b"")
        parts += (lengths_as_bytes(array), array)
    several: np.ndarray[Any, Any] = np.zeros(batch.num_rows, dtype=bool)
    names = list(names)
    for name in names:
        values, counts = headers.last(name)
        several |= counts > 1
        number = np.minimum(counts, 1).astype(">i4").tobytes()
        parts.append(pa.FixedSizeBinaryArray.from_buffers(pa.binary(4), len(counts), [None, pa.py_buffer(number)]))
        lengths = lengths_as_bytes(values).to_pylist()
        parts.append(pa.array(lengths, pa.binary(), mask=counts == 0))
        parts.append(values)
    made: list[bytes] = joined(batch.num_rows, *parts).to_pylist()
    for row in np.flatnonzero(several):
        one = record_of(batch, int(row))
        made[row] = signed_bytes(head, one.topic, one.key, one.value, one.headers, names, bind_topic)
    return made
