"""Values compressed one by one, where it pays: zstd (extra ``compression``) or gzip, dictionaries of zstd as an option.

    compression = Compression(codec="zstd", dictionaries=[train(samples)])
    Producer(config, interceptors=[compression])         # compresses
    Consumer(config, interceptors=[compression])         # decompresses

Kafka compresses whole batches, and does that better. Compressing each record pays where batches are small, where brokers must
not recompress, where large JSON or XML values share topics with images, or where a dictionary knows what values look like.

The header is HTTP's own (RFC 9110, 8.4): ``content-encoding``, UTF-8 text, ``zstd`` (RFC 8878, one frame) or ``gzip`` (RFC 1952,
one member); ``x-gzip`` and ``identity`` are read as well. Which dictionary a zstd value needs is said in its own frame header. So
whoever knows the header, knows the value, with or without this library.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from magicbyte._core import ConsumerRecord, Limits
from magicbyte._extras import extra
from magicbyte.records import ProducerRecord

from ._base import Answer, HeaderMiddleware, HeaderName, Policy, Quarantine, header_name, one_value

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COMPRESSED_ALREADY", "HEADER", "Compression", "train"]

HEADER = "content-encoding"
Codec = Literal["zstd", "gzip"]

COMPRESSED_ALREADY = (
    "image/*",
    "audio/*",
    "video/*",
    "font/woff*",
    "*zip*",
    "*zstd*",
    "*compress*",
    "application/vnd.apache.parquet",
    "application/pdf",
)
"""Content types that are not worth a try. An SVG is text, and is compressed all the same."""

TRUSTED = 1 << 20
"""A frame may say its size, and memory of that size is taken at once, up to so many bytes or ``TRUSTED_RATIO`` times the frame's own."""
TRUSTED_RATIO = 64
PIECE = 256
"""What else is said to be larger is decompressed in pieces: 4 bytes may become 128 KiB, a piece 8 MiB."""
WINDOW = 1 << 27
TOGETHER = 1 << 26
"""Decompressed bytes after which a batch of columns is handed on: 64 MiB."""


def train(samples: Sequence[bytes], size: int = 16_384) -> bytes:
    """A zstd dictionary of at most ``size`` bytes that knows what these values have in common.

    Raises:
        ValueError: too few samples, or too small ones: some hundreds are needed, together many times the size.
    """
    with extra("compression"):
        import zstandard

    try:
        return zstandard.train_dictionary(size, list(samples)).as_bytes()
    except zstandard.ZstdError as error:
        raise ValueError(f"no dictionary can be made of these samples: {error}") from None


class Compression(HeaderMiddleware):
    """Compresses values where records are sent, if that makes them smaller, and decompresses them where they come in.

    Args:
        codec: ``zstd`` or ``gzip``; both are read, whichever is written (zstd only where ``zstandard`` is installed).
        level: of the codec; None is zstd's 3, gzip's 6.
        smallest: shorter values are left alone (bytes).
        gain: the value and its header must become at most this share of what the value was.
        skip: patterns of content types that are left alone; the type is what stands before a ``;``, in small letters.
        only: patterns of content types that are compressed, and no others; values without a content type are not, then.
        dictionaries: of zstd, with an id each; the first one compresses, all of them decompress.
        limits: ``decompressed`` is the most that a value may become.
        header, content_type: the headers' names.
        policy, quarantine: for bad records: ``repeated``, ``unknown encoding``, ``unknown dictionary``, ``broken`` (cut, or no
            such data, or bytes behind it), ``limit``. By default they go on, still compressed, marked.

    A value that has a content encoding already is left alone. Counts also ``compressed``, ``left``, ``decompressed``, ``plain``.
    """

    def __init__(
        self,
        *,
        codec: Codec = "zstd",
        level: int | None = None,
        smallest: int = 128,
        gain: float = 0.9,
        skip: Iterable[str] = COMPRESSED_ALREADY,
        only: Iterable[str] | None = None,
        dictionaries: Iterable[bytes] = (),
        limits: Limits | None = None,
        header: HeaderName = HEADER,
        content_type: HeaderName = "content-type",
        policy: Policy = "quarantine",
        quarantine: Quarantine | None = None,
    ) -> None:
        super().__init__(policy=policy, quarantine=quarantine)
        if codec not in ("zstd", "gzip"):
            raise ValueError(f"codec is zstd or gzip, not {codec!r}")
        self.codec: Codec = codec
        self.level = (3 if codec == "zstd" else 6) if level is None else level
        if not (-7 <= self.level <= 22 if codec == "zstd" else 0 <= self.level <= 9):
            raise ValueError(f"{codec} has no level {level}")
        self.smallest, self.gain = smallest, gain
        self.skip = tuple(skip)
        self.only = None if only is None else tuple(only)
        self.dictionaries = tuple(dictionaries)
        self.limit = (limits or Limits()).decompressed
        self.header, self.content_type = header_name(header), header_name(content_type)
        self._ready()

    def _ready(self) -> None:
        # A context of zstd is used by one thread at a time, and is worth keeping.
        self._threads = threading.local()
        self._suits: dict[bytes | None, bool] = {}
        self._cost = len(self.header.encode()) + len(self.codec) + 2
        self._zstd: Any = None
        self._known: dict[int, Any] = {0: None}
        try:
            with extra("compression"):
                import zstandard
        except ImportError:
            if self.codec == "zstd" or self.dictionaries:
                raise
            return
        self._zstd = zstandard
        for content in self.dictionaries:
            made = zstandard.ZstdCompressionDict(content)
            if not made.dict_id():
                raise ValueError("a dictionary needs an id, by which it is found: one that was trained has one")
            self._known[made.dict_id()] = made

    # One value

    def _worth(self, kind: bytes | None) -> bool:
        """Whether values of a content type are to be compressed."""
        found = self._suits.get(kind)
        if found is None:
            name = (kind or b"").decode("utf-8", "replace").partition(";")[0].strip().lower()
            wanted = self.only is None or any(fnmatchcase(name, pattern) for pattern in self.only)
            found = wanted and (name.endswith("+xml") or not any(fnmatchcase(name, one) for one in self.skip))
            if len(self._suits) < 1024:
                self._suits[kind] = found
        return found

    def _smaller(self, value: bytes) -> bytes | None:
        if len(value) < self.smallest:
            return None
        if self.codec == "gzip":
            packer = zlib.compressobj(self.level, wbits=31)
            made = packer.compress(value) + packer.flush()
        else:
            compressor = getattr(self._threads, "compressor", None)
            if compressor is None:
                first = next((one for one in self._known.values() if one is not None), None)
                compressor = self._zstd.ZstdCompressor(level=self.level, dict_data=first)
                self._threads.compressor = compressor
            made = compressor.compress(value)
        return made if len(made) + self._cost <= len(value) * self.gain else None

    def _opened(self, value: bytes, encoding: bytes | None) -> bytes | tuple[str, str]:
        """The value decompressed, or what is wrong with it."""
        name = (encoding or b"").strip().lower()
        if name == b"zstd" and self._zstd is not None:
            return self._unzstd(value)
        if name in (b"gzip", b"x-gzip"):
            return self._gunzip(value)
        if name == b"identity":
            return value
        return "unknown encoding", name[:40].decode("utf-8", "replace")

    def _gunzip(self, value: bytes) -> bytes | tuple[str, str]:
        opener = zlib.decompressobj(wbits=31)
        try:
            made = opener.decompress(value, self.limit + 1)
        except zlib.error:
            return "broken", "gzip"
        if len(made) > self.limit:
            return "limit", f"more than {self.limit} bytes"
        if not opener.eof or opener.unused_data:
            return "broken", "gzip, bytes behind it" if opener.eof else "gzip, cut"
        return made

    def _unzstd(self, value: bytes) -> bytes | tuple[str, str]:
        zstd = self._zstd
        try:
            head = zstd.get_frame_parameters(value)
            if head.dict_id not in self._known:
                return "unknown dictionary", str(head.dict_id)
            openers = self._threads.__dict__.setdefault("openers", {})
            opener = openers.get(head.dict_id)
            if opener is None:
                opener = zstd.ZstdDecompressor(dict_data=self._known[head.dict_id], max_window_size=WINDOW)
                openers[head.dict_id] = opener
            size = head.content_size
            if size != zstd.CONTENTSIZE_UNKNOWN and size > self.limit:
                return "limit", f"{size} bytes, more than {self.limit}"
            if size <= max(TRUSTED, TRUSTED_RATIO * len(value)):
                whole: bytes = opener.decompress(value, allow_extra_data=False)
                return whole
            return self._in_pieces(opener.decompressobj(), value)
        except zstd.ZstdError as error:
            return "broken", f"zstd, {error}"[:80]

    def _in_pieces(self, opener: Any, value: bytes) -> bytes | tuple[str, str]:
        made, size = [], 0
        for at in range(0, len(value), PIECE):
            made.append(opener.decompress(value[at : at + PIECE]))
            size += len(made[-1])
            if size > self.limit:
                return "limit", f"more than {self.limit} bytes"
            if opener.eof:
                behind = opener.unused_data or at + PIECE < len(value)
                return ("broken", "zstd, bytes behind it") if behind else b"".join(made)
        return "broken", "zstd, cut"

    # One record

    def post_serialize(self, record: ProducerRecord) -> ProducerRecord:
        """Compresses the value, if it pays."""
        value, headers = record.value, record.headers
        if value is not None and self.header not in headers and self._worth(one_value(headers, self.content_type)[0]):
            made = self._smaller(value)
            if made is not None:
                record = record.replace(value=made)
                record.headers.add(self.header, self.codec.encode())
                self.counts.add("compressed")
                return record
        self.counts.add("left")
        return record

    def pre_deserialize(self, record: ConsumerRecord) -> Answer:
        """Decompresses the value and takes the header off."""
        encoding, count = one_value(record.headers, self.header)
        if not count or record.value is None:
            self.counts.add("plain")
            return record
        if count > 1:
            return self.bad(record, "repeated")
        made = self._opened(record.value, encoding)
        if isinstance(made, tuple):
            return self.bad(record, *made)
        done = record.replace(value=made)
        done.headers.remove(self.header)
        self.counts.add("decompressed")
        return done

    # Columns

    def arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(compression.arrow, df.schema)``: decompresses rows of Kafka's columns, one call of the library each.

        A batch that becomes larger than 64 MiB is handed on in several.
        """
        for batch in batches:
            yield from self._open_rows(batch) if batch.num_rows else (batch,)

    def sending_arrow(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """``df.mapInArrow(compression.sending_arrow, df.schema)``: compresses rows."""
        from ._base import each

        return each(batches, self._pack_rows)

    def _pack_rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        from ._arrow import HeaderColumn, binary, column, with_columns

        headers = HeaderColumn.of(batch)
        kinds = headers.last(self.content_type)[0].to_pylist()
        values: list[bytes | None] = binary(column(batch, "value")).to_pylist()
        encoded = headers.last(self.header)[1] > 0
        done = np.zeros(len(values), dtype=bool)
        for row, (value, kind, already) in enumerate(zip(values, kinds, encoded.tolist(), strict=True)):
            if value is not None and not already and self._worth(kind):
                made = self._smaller(value)
                if made is not None:
                    values[row], done[row] = made, True
        self.counts.add("compressed", int(done.sum()))
        self.counts.add("left", int((~done).sum()))
        name = pa.array([self.codec.encode()] * len(values), pa.binary())
        added = headers.with_header(self.header, name, done).array()
        return with_columns(batch, {"value": pa.array(values, pa.binary()), "headers": added})

    def _open_rows(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        from ._arrow import HeaderColumn, binary, column

        encodings, counts = HeaderColumn.of(batch).last(self.header)
        made: list[bytes | None] = []
        bad: dict[int, tuple[str, str]] = {}
        opened: list[bool] = []
        begin = size = 0
        values: list[bytes | None] = binary(column(batch, "value")).to_pylist()
        rows = zip(values, encodings.to_pylist(), counts.tolist(), strict=True)
        for number, (value, encoding, count) in enumerate(rows, 1):
            found = self._opened(value, encoding) if value is not None and count == 1 else value
            if isinstance(found, tuple) or (value is not None and count > 1):
                bad[len(made)] = found if isinstance(found, tuple) else ("repeated", "")
                found = value
            opened.append(value is not None and count == 1 and len(made) not in bad)
            made.append(found)
            size += len(found or b"")
            if size > TOGETHER or number == batch.num_rows:
                yield self._handed_on(batch.slice(begin, number - begin), made, opened, bad)
                begin, size, made, opened, bad = number, 0, [], [], {}

    def _handed_on(
        self,
        batch: pa.RecordBatch,
        values: list[bytes | None],
        opened: list[bool],
        bad: dict[int, tuple[str, str]],
    ) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        from ._arrow import HeaderColumn, with_columns

        self.counts.add("decompressed", sum(opened))
        self.counts.add("plain", len(opened) - sum(opened) - len(bad))
        left = HeaderColumn.of(batch).without(self.header, np.array(opened, dtype=bool)).array()
        return self.bad_rows(with_columns(batch, {"value": pa.array(values, pa.binary()), "headers": left}), bad)
