"""Values encrypted one by one, headers left readable for routing: AES-256-GCM under data keys that a provider wraps (extra
``crypto``).

    provider = LocalKeyProvider({"master-1": secret_32_bytes})     # or one's own, around a key management service
    encryption = Encryption(provider=provider)
    Producer(config, interceptors=[encryption])                    # encrypts
    Consumer(config, interceptors=[encryption])                    # decrypts

The value becomes the ciphertext and the 16 bytes of the tag. The header (``mb.enc``), numbers big-endian:

    version      u8     1
    cipher       u8     1 AES-256-GCM
    flags        u8     1 = the topic is bound, 2 = the key is bound; the other bits are 0
    wrapping id  u8 length, UTF-8: which key of the provider wrapped the data key
    wrapped key  u16 length, bytes, as the provider made them
    nonce        12 bytes

Associated data, which is not encrypted and cannot be changed either: ``"magicbyte.encryption.1"`` and a zero byte, the header up to
the nonce, with flag 1 the topic (int32 length, UTF-8), with flag 2 the key (int32 length, bytes; −1 for null).

Nonces are random. AES-GCM breaks where one key sees one nonce twice; with random nonces NIST (SP 800-38D, 8.3) allows 2³²
values under one key. A data key here serves at most 2²⁰ values or an hour, then a new one is made: two equal nonces under one
key then have a chance of 2⁻⁵⁷. Randomness, and no counter, so that a process that was forked, or a machine that was restored
from a snapshot, does not count on from where another one does. Data keys are never pickled.
"""

from __future__ import annotations

import os
import secrets
import struct
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from magicbyte._core import ConsumerRecord
from magicbyte._extras import extra
from magicbyte.records import ProducerRecord

from ._base import Answer, HeaderMiddleware, HeaderName, Policy, Quarantine, each, header_name, one_value

with extra("crypto"):
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.keywrap import InvalidUnwrap, aes_key_unwrap, aes_key_wrap

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["HEADER", "Encryption", "KeyProvider", "LocalKeyProvider"]

HEADER = "mb.enc"
DOMAIN = b"magicbyte.encryption.1\0"
VERSION, AES_256_GCM = 1, 1
TOPIC_BOUND, KEY_BOUND = 1, 2
NONCE, TAG, DATA_KEY = 12, 16, 32
LENGTH = struct.Struct(">i")
SHORT = struct.Struct(">H")
MOST_VALUES = 1 << 20
CACHED = 1024
"""Data keys that are remembered while reading: so many calls of the provider are saved, and no more memory is used."""


class KeyProvider(Protocol):
    """Whoever holds the master keys: a key management service, or a file. Threads may call it; it is pickled."""

    @property
    def current(self) -> str:
        """The id of the key that wraps now: 1 to 255 bytes of UTF-8."""

    def wrap(self, id: str, data_key: bytes) -> bytes:
        """The data key, wrapped; at most 65,535 bytes."""

    def unwrap(self, id: str, wrapped: bytes) -> bytes | None:
        """The data key again; None if there is no such master key, or it did not wrap this."""


class LocalKeyProvider:
    """Master keys at hand: AES key wrap (RFC 3394).

    Args:
        keys: 16, 24 or 32 bytes each, by id.
        current: which of them wraps; the last one by default. To rotate, add a key; old ones still unwrap.
    """

    def __init__(self, keys: Mapping[str, bytes], current: str | None = None) -> None:
        self.keys = dict(keys)
        if not self.keys or any(len(key) not in (16, 24, 32) for key in self.keys.values()):
            raise ValueError("master keys have 16, 24 or 32 bytes, and there is one at least")
        if any(not 1 <= len(id.encode()) <= 255 for id in self.keys):
            raise ValueError("a master key's id is 1 to 255 bytes")
        self.current = next(reversed(self.keys)) if current is None else current
        if self.current not in self.keys:
            raise ValueError(f"no master key {current!r}")

    def wrap(self, id: str, data_key: bytes) -> bytes:
        """40 bytes for a data key of 32."""
        return aes_key_wrap(self.keys[id], data_key)

    def unwrap(self, id: str, wrapped: bytes) -> bytes | None:
        """The data key, or None."""
        if id not in self.keys:
            return None
        try:
            return aes_key_unwrap(self.keys[id], wrapped)
        except (InvalidUnwrap, ValueError):
            return None

    def __repr__(self) -> str:
        return f"LocalKeyProvider({', '.join(self.keys)}; {self.current} wraps)"


class _DataKey(NamedTuple):
    cipher: AESGCM
    head: bytes
    """The header up to the nonce."""
    until: float


class Encryption(HeaderMiddleware):
    """Encrypts values where records are sent, decrypts them where they come in.

    Args:
        provider: who wraps data keys. One that only unwraps may raise in ``wrap``.
        bind_topic: the value opens in this topic only; False where mirrors rename topics.
        bind_key: the value opens under this key only.
        values_per_key: after so many values a new data key is made; at most 2²⁰.
        seconds_per_key: or after so many seconds.
        header: the header's name.
        policy, quarantine: for bad records: ``repeated``, ``malformed``, ``unknown key`` (the provider does not unwrap),
            ``unbound`` (topic or key is not bound that should be), ``forged`` (the tag does not fit). By default they go on,
            still encrypted, marked.

    A null value stays null, and is not protected: a tombstone must stay one for the log cleaner. A record without the
    header comes through as ``plain``. What is encrypted already is not encrypted again. Counts also ``encrypted``,
    ``decrypted``, ``null``, ``already``.
    """

    def __init__(
        self,
        *,
        provider: KeyProvider,
        bind_topic: bool = True,
        bind_key: bool = True,
        values_per_key: int = MOST_VALUES,
        seconds_per_key: float = 3600,
        header: HeaderName = HEADER,
        policy: Policy = "quarantine",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        if not 1 <= values_per_key <= MOST_VALUES:
            raise ValueError(f"a data key serves 1 to {MOST_VALUES} values, not {values_per_key}")
        self.provider = provider
        self.bind_topic, self.bind_key = bind_topic, bind_key
        self.values_per_key, self.seconds_per_key = values_per_key, seconds_per_key
        self.header = header_name(header)
        self._ready()

    def _ready(self) -> None:
        self._lock = threading.Lock()
        self._data_key: _DataKey | None = None
        self._left = 0
        self._opened: OrderedDict[bytes, AESGCM | str] = OrderedDict()

    # Keys

    def _closing(self, values: int = 1) -> tuple[AESGCM, bytes]:
        """The cipher for so many values, and the header up to the nonce."""
        with self._lock:
            now = time.monotonic()
            if self._data_key is None or self._left < values or now >= self._data_key.until:
                self._data_key = self._made(now + self.seconds_per_key)
                self._left = self.values_per_key
            self._left -= values
            return self._data_key.cipher, self._data_key.head

    def _made(self, until: float) -> _DataKey:
        data_key, current = secrets.token_bytes(DATA_KEY), self.provider.current
        wrapped, id = self.provider.wrap(current, data_key), current.encode()
        flags = TOPIC_BOUND * self.bind_topic | KEY_BOUND * self.bind_key
        head = bytes([VERSION, AES_256_GCM, flags, len(id)]) + id + SHORT.pack(len(wrapped)) + wrapped
        return _DataKey(AESGCM(data_key), head, until)

    def _opening(self, head: bytes) -> AESGCM | str:
        """The cipher of a header up to the nonce, or why there is none; both are remembered."""
        with self._lock:
            if (known := self._opened.get(head)) is not None:
                self._opened.move_to_end(head)
                return known
        found = self._read(head)
        with self._lock:
            self._opened[head] = found
            if len(self._opened) > CACHED:
                self._opened.popitem(last=False)
        return found

    def _read(self, head: bytes) -> AESGCM | str:
        if len(head) < 4 or head[:2] != bytes([VERSION, AES_256_GCM]) or head[2] & ~(TOPIC_BOUND | KEY_BOUND):
            return "malformed"
        at = 4 + head[3]
        if not head[3] or len(head) < at + 2 or len(head) != at + 2 + SHORT.unpack_from(head, at)[0]:
            return "malformed"
        if (self.bind_topic and not head[2] & TOPIC_BOUND) or (self.bind_key and not head[2] & KEY_BOUND):
            return "unbound"
        try:
            data_key = self.provider.unwrap(head[4:at].decode(), head[at + 2 :])
        except UnicodeDecodeError:
            return "malformed"
        return AESGCM(data_key) if data_key is not None and len(data_key) == DATA_KEY else "unknown key"

    # One record

    def post_serialize(self, record: ProducerRecord) -> ProducerRecord:
        """Encrypts the value."""
        if record.value is None or self.header in record.headers:
            self.counts.add("null" if record.value is None else "already")
            return record
        cipher, head = self._closing()
        nonce = os.urandom(NONCE)
        value = cipher.encrypt(nonce, record.value, _associated(head, record.topic, record.key))
        made = record.replace(value=value)
        made.headers.add(self.header, head + nonce)
        self.counts.add("encrypted")
        return made

    def pre_deserialize(self, record: ConsumerRecord) -> Answer:
        """Decrypts the value and takes the header off."""
        data, count = one_value(record.headers, self.header)
        if not count:
            self.counts.add("plain")
            return record
        if count > 1 or data is None or len(data) <= NONCE or record.value is None or len(record.value) < TAG:
            return self.bad(record, "repeated" if count > 1 else "malformed")
        head = data[:-NONCE]
        cipher = self._opening(head)
        if isinstance(cipher, str):
            return self.bad(record, cipher)
        try:
            value = cipher.decrypt(data[-NONCE:], record.value, _associated(head, record.topic, record.key))
        except InvalidTag:
            return self.bad(record, "forged")
        made = record.replace(value=value)
        made.headers.remove(self.header)
        self.counts.add("decrypted")
        return made

    # Columns

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(encryption.arrow, df.schema)``: decrypts rows of Kafka's columns, one call of the library each."""
        return each(batches, self._decrypt_rows)

    def sending_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(encryption.sending_arrow, df.schema)``: encrypts rows."""
        return each(batches, self._encrypt_rows)

    def _encrypt_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        from ._arrow import HeaderColumn, binary, column, with_columns

        headers = HeaderColumn.of(batch)
        values = binary(column(batch, "value"))
        null = values.is_null().to_numpy(zero_copy_only=False)
        already = (headers.last(self.header)[1] > 0) & ~null
        self.counts.add("null", int(null.sum()))
        self.counts.add("already", int(already.sum()))
        chosen = ~null & ~already
        made: list[bytes | None] = values.to_pylist()
        heads: list[bytes | None] = [None] * len(made)
        rows = np.flatnonzero(chosen).tolist()
        for begin in range(0, len(rows), self.values_per_key):
            some = rows[begin : begin + self.values_per_key]
            cipher, head = self._closing(len(some))
            where = pa.array(some, pa.int64())
            bound = _associated_rows(batch if len(some) == len(made) else batch.take(where), head)
            random = os.urandom(NONCE * len(some))
            for number, (row, associated) in enumerate(zip(some, bound, strict=True)):
                nonce = random[number * NONCE : (number + 1) * NONCE]
                made[row] = cipher.encrypt(nonce, made[row] or b"", associated)
                heads[row] = head + nonce
        self.counts.add("encrypted", len(rows))
        added = headers.with_header(self.header, pa.array(heads, pa.binary()), chosen)
        return with_columns(batch, {"value": pa.array(made, pa.binary()), "headers": added.array()})

    def _decrypt_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from ._arrow import HeaderColumn, binary, column, groups, with_columns

        headers = HeaderColumn.of(batch)
        data, counts = headers.last(self.header)
        values = binary(column(batch, "value"))
        self.counts.add("plain", int((counts == 0).sum()))
        bad: dict[int, tuple[str, str]] = {int(row): ("repeated", "") for row in np.flatnonzero(counts > 1)}
        long = pc.and_(pc.greater(pc.binary_length(data), NONCE), pc.greater_equal(pc.binary_length(values), TAG))
        sound = (counts == 1) & pc.fill_null(long, False).to_numpy(zero_copy_only=False)
        bad |= {int(row): ("malformed", "") for row in np.flatnonzero((counts == 1) & ~sound)}
        rows = np.flatnonzero(sound)
        made: list[bytes | None] = values.to_pylist()
        opened = np.zeros(batch.num_rows, dtype=bool)
        chosen = data.take(pa.array(rows))
        nonces = pc.binary_slice(chosen, -NONCE).to_pylist()
        for head, where in groups(pc.binary_slice(chosen, 0, -NONCE).dictionary_encode()):
            cipher = self._opening(head)
            some = [int(rows[at]) for at in where]
            if isinstance(cipher, str):
                bad |= dict.fromkeys(some, (cipher, ""))
                continue
            bound = _associated_rows(batch if len(some) == len(made) else batch.take(pa.array(some, pa.int64())), head)
            for at, row, associated in zip(where, some, bound, strict=True):
                try:
                    made[row] = cipher.decrypt(nonces[at], made[row] or b"", associated)
                    opened[row] = True
                except InvalidTag:
                    bad[row] = ("forged", "")
        self.counts.add("decrypted", int(opened.sum()))
        left = headers.without(self.header, opened)
        done = with_columns(batch, {"value": pa.array(made, pa.binary()), "headers": left.array()})
        return self.bad_rows(done, bad)


def _sized(data: bytes | None) -> bytes:
    return LENGTH.pack(-1) if data is None else LENGTH.pack(len(data)) + data


def _associated(head: bytes, topic: str, key: bytes | None) -> bytes:
    flags = head[2]
    bound = DOMAIN + head
    if flags & TOPIC_BOUND:
        bound += _sized(topic.encode())
    return bound + _sized(key) if flags & KEY_BOUND else bound


def _associated_rows(batch: pa.RecordBatch, head: bytes) -> list[bytes]:
    from ._arrow import binary, column, joined, lengths_as_bytes

    parts: list[Any] = [DOMAIN + head]
    if head[2] & TOPIC_BOUND:
        topics = binary(column(batch, "topic")).fill_null(b"")
        parts += (lengths_as_bytes(topics), topics)
    if head[2] & KEY_BOUND:
        keys = binary(column(batch, "key"))
        parts += (lengths_as_bytes(keys), keys)
    made: list[bytes] = joined(batch.num_rows, *parts).to_pylist()
    return made
