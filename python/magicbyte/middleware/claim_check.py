"""Claim check: a large payload lies in object storage, and the record says where.

    ClaimCheck("s3://payloads/kafka")                                   # both sides; reads below its own prefix alone
    ClaimCheck(None, allowed=["s3://payloads/kafka/"])                  # a reader

The header is somebody else's word: nothing is fetched but below prefixes that are allowed, no more bytes than ``limits`` allow,
and the payload must have the size and the SHA-256 that the header names. Storage is whatever fsspec reaches.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from magicbyte._core import ConsumerRecord, Limits
from magicbyte._extras import extra
from magicbyte.records import ProducerRecord

from ._base import HeaderMiddleware, HeaderName, Policy, Quarantine, header_name
from ._claims import Claim, plain_url

with extra("storage"):
    import fsspec

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Claim", "ClaimCheck"]


class ClaimCheck(HeaderMiddleware):
    """Puts payloads into object storage and gets them from there.

    Args:
        prefix: where payloads are put: ``{prefix}/{topic}/{SHA-256 in hex}``, so that what is sent again lies there once. None:
            nothing is put there.
        threshold: bytes of a value above which it is put there.
        allowed: prefixes below which payloads are fetched; by default ``prefix`` alone. A prefix ends at a slash.
        storage: options of the file system, as fsspec takes them.
        limits: ``record`` is the most that a payload may have.
        header: the claim's name.
        policy: for a claim that is ``broken``, ``not allowed``, ``too large``, ``unavailable`` or of another ``checksum``; the record still
            has its claim. By default it goes on, marked: an empty value is nothing that anybody should read.

    Outcomes besides: ``whole``, ``put``, ``fetched``. A record on the wire has an empty value, not null: it is no tombstone.
    Payloads are not deleted: give the bucket a lifetime that is longer than the topic's.
    """

    def __init__(
        self,
        prefix: str | None,
        *,
        threshold: int = 900_000,
        allowed: Collection[str] | None = None,
        storage: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
        header: HeaderName = "mb.claim",
        policy: Policy = "quarantine",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        if isinstance(allowed, str):
            raise TypeError("allowed is a collection of prefixes")
        given = [prefix] if allowed is None and prefix is not None else list(allowed or ())
        for one in [*given, *([prefix] if prefix is not None else [])]:
            if not plain_url(one.rstrip("/")):
                raise ValueError(f"a prefix is a plain URL, scheme://…, and not {one!r}")
        self.prefix = None if prefix is None else prefix.rstrip("/")
        self.allowed = tuple(one.rstrip("/") + "/" for one in given)
        self.threshold, self.storage, self.most = threshold, dict(storage or {}), (limits or Limits()).record
        self.header = header_name(header)

    def post_serialize(self, record: ProducerRecord) -> ProducerRecord:
        """Puts a large value into the storage, and a claim on it into the headers.

        Raises what the storage raises: a record without its payload must not be sent.
        """
        value = record.value
        if self.prefix is None or value is None or len(value) <= self.threshold:
            self.counts.add("whole")
            return record
        digest = hashlib.sha256(value)
        # Topic names have no other characters; what has is not for a path.
        topic = re.sub(r"[^A-Za-z0-9._-]", "_", record.topic).replace("..", "__")
        url = f"{self.prefix}/{topic}/{digest.hexdigest()}"
        system, path = fsspec.core.url_to_fs(url, **self.storage)
        if not system.exists(path) or system.size(path) != len(value):
            system.makedirs(path.rpartition("/")[0], exist_ok=True)
            with system.open(path, "wb") as out:
                out.write(value)
        self.counts.add("put")
        sent = record.replace(value=b"")
        sent.headers.remove(self.header).add(self.header, Claim(url, len(value), digest.digest()).to_bytes())
        return sent

    def pre_deserialize(self, record: ConsumerRecord) -> Any:
        """A record with its payload again; without a claim as it is."""
        values = record.headers.get(self.header)
        if not values:
            self.counts.add("whole")
            return record
        if len(set(values)) > 1:
            return self.bad(record, "broken", f"{len(values)} claims")
        try:
            claim = Claim.from_bytes(values[0])
        except ValueError as error:
            return self.bad(record, "broken", str(error))
        if not plain_url(claim.url) or not claim.url.startswith(self.allowed):
            return self.bad(record, "not allowed", repr(claim.url[:200]))
        if claim.size > self.most:
            return self.bad(record, "too large", f"{claim.size} bytes")
        try:
            system, path = fsspec.core.url_to_fs(claim.url, **self.storage)
            with system.open(path, "rb") as found:
                value = found.read(claim.size + 1)
        except Exception as error:
            return self.bad(record, "unavailable", f"{claim.url}: {type(error).__name__}")
        if len(value) != claim.size or hashlib.sha256(value).digest() != claim.digest:
            return self.bad(record, "checksum", claim.url)
        self.counts.add("fetched")
        whole = record.replace(value=value)
        whole.headers.remove(self.header)
        return whole

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The receiving side over Kafka's columns; rows without a claim pass untouched."""
        from ._arrow import HeaderColumn, record_of, replaced

        for batch in batches:
            headers = HeaderColumn.of(batch)
            rows = sorted(set(headers.parents[headers.named(self.header)].tolist()))
            self.counts.add("whole", batch.num_rows - len(rows))
            done = {row: self.pre_deserialize(record_of(batch, row)) for row in rows}
            yield replaced(batch, {row: _listed(one) for row, one in done.items()}) if rows else batch

    def sending_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sending side over Kafka's columns; rows with small values pass untouched."""
        import numpy as np
        import pyarrow.compute as pc

        from ._arrow import column, record_of, replaced

        for batch in batches:
            length = pc.fill_null(pc.binary_length(column(batch, "value")), 0).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(length > self.threshold).tolist() if self.prefix is not None else []
            self.counts.add("whole", batch.num_rows - len(rows))
            done = {row: [self.post_serialize(record_of(batch, row).to_producer_record())] for row in rows}
            yield replaced(batch, done) if rows else batch


def _listed(done: Any) -> list[Any]:
    return [done] if isinstance(done, ProducerRecord | ConsumerRecord) else list(done)
