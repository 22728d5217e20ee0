"""Large messages: cut into chunks that brokers take, and put together again where they are read.

    LargeMessages(chunk_size=900_000)          # one object for both sides

Chunks of several producers may be interleaved, repeated, out of order or lost; what cannot be put together is told with its
offsets. LinkedIn's large messages (``_lm``) are read as well. The other way, a payload in object storage, is ``ClaimCheck``.
"""

from __future__ import annotations

import threading
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from uuid import UUID

from magicbyte._core import ConsumerRecord, Limits
from magicbyte.records import ProducerRecord

from ._base import HeaderMiddleware, HeaderName, Policy, Quarantine, header_name
from ._chunks import Answer, Buffer, Chunk, Loss, Part, linkedin_part

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Chunk", "LargeMessages", "Loss"]


class LargeMessages(HeaderMiddleware):
    """Slicer and glue.

    Args:
        chunk_size: bytes of a value above which it is cut, and of each chunk.
        header: the descriptor's name. LinkedIn's is ``linkedin_header``; None does not read it.
        limits: ``record`` is the most that a message may have when it is put together.
        buffer: bytes of chunks that wait for others, over all messages. Beyond it the oldest message is given up.
        messages: messages that may wait at the same time.
        expire: offsets of a partition after which a waiting message is given up; None waits until the end.
        new_id: gives message ids.
        policy: for chunks whose message is lost, and for broken descriptors. By default they go on, marked: a chunk is no
            value that anybody could read.

    The first chunk keeps the headers; a message comes out with them, with the time of the first chunk and the offset of the
    one that came last. Outcomes: ``whole``, ``sliced``, ``chunk``, ``glued``, ``repeated`` (dropped), ``lost``, ``checksum``,
    ``contradicting``, ``too large``, ``broken``.
    """

    def __init__(
        self,
        *,
        chunk_size: int = 900_000,
        header: HeaderName = "mb.chunk",
        linkedin_header: HeaderName | None = "_lm",
        limits: Limits | None = None,
        buffer: int = 64 << 20,
        messages: int = 1000,
        expire: int | None = None,
        new_id: Callable[[], UUID] = uuid.uuid4,
        policy: Policy = "quarantine",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        if chunk_size < 1 or buffer < 1 or messages < 1:
            raise ValueError("chunk_size, buffer and messages are above 0")
        self.chunk_size, self.new_id = chunk_size, new_id
        self.header = header_name(header)
        self.linkedin_header = None if linkedin_header is None else header_name(linkedin_header)
        self.most, self.buffer, self.messages, self.expire = (limits or Limits()).record, buffer, messages, expire
        self._ready()

    def _ready(self) -> None:
        self._lock = threading.Lock()
        self._buffer = Buffer(
            most_bytes=self.buffer, most_messages=self.messages, most_size=self.most, expire=self.expire
        )

    # Sending

    def post_serialize(self, record: ProducerRecord) -> Any:
        """A small record as it is, a large one as its chunks.

        A record with neither key nor partition gets the message id as its key, so that all chunks come to one partition;
        reading takes it off again. In a compacted topic the chunks of a key would replace each other: keep them out of it.
        """
        value = record.value
        if self.header in record.headers:
            self.counts.add("chunk")  # somebody forwards chunks as they are
            return record
        if value is None or len(value) <= self.chunk_size:
            self.counts.add("whole")
            return record
        id, size, checksum = self.new_id(), len(value), zlib.crc32(value)
        count = -(-size // self.chunk_size)
        keyless = record.key is None and record.partition is None
        view = memoryview(value)
        chunks = []
        for index in range(count):
            one = ProducerRecord(
                record.topic,
                bytes(view[index * self.chunk_size : (index + 1) * self.chunk_size]),
                id.bytes if keyless else record.key,
                record.headers if index == 0 else (),
                record.partition,
                record.timestamp,
            )
            one.headers.add(self.header, Chunk(id, index, count, size, checksum, keyless).to_bytes())
            chunks.append(one)
        self.counts.add("sliced")
        return chunks

    # Receiving

    def part(self, record: ConsumerRecord) -> Part | None:
        """What chunk a record is; None for a whole one.

        Raises:
            ValueError: a descriptor that cannot be one.
        """
        if values := record.headers.get(self.header):
            if len(set(values)) > 1:
                raise ValueError(f"{len(values)} descriptors")
            chunk = Chunk.from_bytes(values[0])
            key = None if chunk.keyless and record.key == chunk.message_id.bytes else record.key
            payload = record.value or b""
            return Part(chunk.message_id, chunk.index, chunk.count, chunk.size, chunk.checksum, payload, key)
        if self.linkedin_header is not None and (values := record.headers.get(self.linkedin_header)):
            return linkedin_part(record, values[-1])
        return None

    def pre_deserialize(self, record: ConsumerRecord) -> Any:
        """A whole record as it is; a chunk is held back until its message is complete."""
        try:
            part = self.part(record)
        except ValueError as error:
            return self.bad(record, "broken", str(error))
        # Old messages expire by any record of their partition.
        if part is None and (self.expire is None or not self._buffer.open):
            self.counts.add("whole")
            return record
        with self._lock:
            answers = self._buffer.expired(record)
            if part is not None:
                answers += self._buffer.take(record, part)
        if part is None:
            self.counts.add("whole")
        out = self._answered(answers)
        return out if part is not None else [*out, record]

    def flush(self) -> list[ConsumerRecord]:
        """At the end: chunks of messages that are not complete, by the policy; ``losses`` tells of them."""
        with self._lock:
            answers = self._buffer.end()
        return self._answered(answers)

    def _answered(self, answers: list[Answer]) -> list[Any]:
        out: list[Any] = []
        for outcome, record, detail in answers:
            if outcome == "glued":
                self.counts.add(outcome)
                for name in (self.header, self.linkedin_header):
                    if name is not None:
                        record.headers.remove(name)
                out.append(record)
            elif outcome == "repeated":
                self.counts.add(outcome)
            else:
                done = self.bad(record, outcome, detail)
                out += [done] if isinstance(done, ProducerRecord | ConsumerRecord) else done
        return out

    @property
    def losses(self) -> list[Loss]:
        """Messages that were given up, oldest first, the last thousand of them."""
        with self._lock:
            return list(self._buffer.losses)

    def safe_offset(self, topic: str, partition: int) -> int | None:
        """The lowest offset that a consumer still needs: that of the first chunk of a message that is not complete. None
        where nothing waits. Who commits beyond it loses the message on a restart."""
        with self._lock:
            return self._buffer.first_open(topic, partition)

    # Arrow

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The receiving side over Kafka's columns; whole rows pass untouched. All chunks of a message must come in the same
        call (``magicbyte.spark.glue`` sees to it). What is left at the end comes in a batch of its own."""
        from ._arrow import HeaderColumn, record_of, replaced

        last = None
        for batch in batches:
            last = batch if batch.num_rows else last
            headers = HeaderColumn.of(batch)
            rows: set[int] = set()
            for name in (self.header, self.linkedin_header):
                if name is not None:
                    rows.update(headers.parents[headers.named(name)].tolist())
            if self.expire is not None:
                rows = set(range(batch.num_rows))
            self.counts.add("whole", batch.num_rows - len(rows))
            yield (
                replaced(batch, {row: self._records(record_of(batch, row)) for row in sorted(rows)}) if rows else batch
            )
        if (left := self.flush()) and last is not None:
            yield replaced(last.slice(0, 1), {0: left})

    def _records(self, record: ConsumerRecord) -> list[Any]:
        done = self.pre_deserialize(record)
        return [done] if isinstance(done, ProducerRecord | ConsumerRecord) else list(done)

    def sending_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The sending side over Kafka's columns: rows with large values become several."""
        import numpy as np
        import pyarrow.compute as pc

        from ._arrow import HeaderColumn, column, record_of, replaced

        for batch in batches:
            length = pc.fill_null(pc.binary_length(column(batch, "value")), 0).to_numpy(zero_copy_only=False)
            headers = HeaderColumn.of(batch)
            chunks = np.zeros(batch.num_rows, dtype=bool)
            chunks[headers.parents[headers.named(self.header)]] = True
            self.counts.add("chunk", int(chunks.sum()))
            large = np.flatnonzero((length > self.chunk_size) & ~chunks).tolist()
            self.counts.add("whole", batch.num_rows - len(large) - int(chunks.sum()))
            done = {row: self.post_serialize(record_of(batch, row).to_producer_record()) for row in large}
            yield replaced(batch, done) if large else batch
