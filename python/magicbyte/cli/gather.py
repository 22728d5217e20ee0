"""Reads a segment into a `Survey`: batch headers first, then, a bounded stretch behind, the payloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from magicbyte.cli.options import Selection
from magicbyte.cli.survey import UNKNOWN_CODEC, Finding, Span, Survey
from magicbyte.errors import CorruptRecordError, MagicbyteError

if TYPE_CHECKING:
    from magicbyte._core import Part, RecordBatch
    from magicbyte.cli.reporting.watch import Watch

STRETCH = 32 << 20  # bytes whose payloads are read in one go, while the page cache still has them
SMALL = 4 << 20  # up to so many bytes in all, records are counted one by one: sooner done than pyarrow is imported
BAD_CRC = "wrong checksum"


@dataclass
class Gather:
    """How to read segments into surveys.

    Attributes:
        deep: also the payloads: header share, header keys, ratios, the number of records in message sets.
        arrow: payloads through Arrow columns (for much data), else record by record (for little).
        advance: told the position in the segment from time to time.
        watch: shown every sound batch, and the times of the records, for a report.
    """

    selection: Selection
    deep: bool = True
    arrow: bool = True
    advance: Callable[[int], None] = field(default=lambda _position: None)
    watch: Watch | None = None

    def segment(self, part: Part, size: int) -> Survey:
        """Everything about one segment. Damage is among its findings, never raised."""
        survey = Survey(segments=1, size=size, deep=self.deep)
        told: set[tuple[int, str]] = set()
        start = part.start
        codecs: set[str] = set()
        for batch in self.batches(part, survey, told):
            # Payloads of what lies behind us, when enough of it has come together.
            if self.deep and self.arrow and batch.position - start >= STRETCH:
                self._columns(_stretch(part, start, batch.position), codecs, survey, told)
                start, codecs = batch.position, set()
            sound = self._crc_holds(batch, survey, told)
            try:
                survey.see_batch(batch, sound=sound)
                if self.deep and sound and not self.arrow:
                    _records(batch, survey, self.watch)
                if self.watch is not None and sound:
                    self.watch.batch(batch)
            except MagicbyteError as error:
                self._tell(survey, told, error)
                if self.selection.mode == "FAILFAST":
                    break
            codecs.add(batch.codec or UNKNOWN_CODEC)
            self.advance(batch.position)
        if self.deep and self.arrow:
            stopped = bool(survey.findings) and self.selection.mode == "FAILFAST"
            end = min((f.position for f in survey.findings), default=None) if stopped else part.end
            self._columns(_stretch(part, start, end), codecs, survey, told)
        return survey

    def batches(self, part: Part, survey: Survey, told: set[tuple[int, str]]) -> Iterator[RecordBatch]:
        """The batches of a part by their headers; what the reader passes over goes to the findings."""
        # A batch with a wrong checksum is shown as well, so the checksum is asked for batch by batch.
        reader = self.selection.reader([part], check_crc=False)
        try:
            yield from reader.batches()
        except MagicbyteError as error:
            self._tell(survey, told, error)
        self._pass_on(reader, survey, told)

    def listed(
        self, part: Part, survey: Survey, told: set[tuple[int, str]]
    ) -> Iterator[tuple[RecordBatch, Span, bool | None]]:
        """The batches, each with its offsets (of a wrapper they stand inside, and may not be readable), and whether its
        checksum holds (None: not asked for)."""
        checked = self.deep and self.selection.check_crc
        for batch in self.batches(part, survey, told):
            holds = self._crc_holds(batch, survey, told) if checked else None
            span: Span = (None, None)
            try:
                span = (batch.base_offset, batch.last_offset)
            except MagicbyteError as error:
                self._tell(survey, told, error)
            yield batch, span, holds

    def _crc_holds(self, batch: RecordBatch, survey: Survey, told: set[tuple[int, str]]) -> bool:
        if not (self.deep and self.selection.check_crc) or batch.crc_ok is not False:
            return True
        if (batch.position, "crc") not in told:
            told.add((batch.position, "crc"))
            survey.findings.append(Finding(batch.path or "", batch.position, "crc", BAD_CRC))
        return False

    def _columns(self, part: Part, codecs: set[str], survey: Survey, told: set[tuple[int, str]]) -> None:
        import pyarrow.compute as pc

        reader = self.selection.reader([part])
        one = next(iter(codecs)) if len(codecs) == 1 else None
        columns = ["key", "value", "headers", "timestampMs", *(() if one else ("codec",))]
        try:
            for columns_batch in reader.scan(columns):
                if self.watch is not None:
                    self.watch.timeline.column(columns_batch.column("timestampMs"))
                if one is not None:
                    _weigh(columns_batch, one, survey)
                    continue
                column = columns_batch.column("codec")
                for codec in pc.unique(column).to_pylist():
                    _weigh(columns_batch.filter(pc.equal(column, codec)), codec, survey)
        except MagicbyteError as error:
            self._tell(survey, told, error)
        self._pass_on(reader, survey, told)

    def _pass_on(self, reader: Any, survey: Survey, told: set[tuple[int, str]]) -> None:
        for path, position, kind, _size, message in reader.findings:
            if (position, kind) not in told:
                told.add((position, kind))
                survey.findings.append(Finding(path or "", position, kind, message))

    def _tell(self, survey: Survey, told: set[tuple[int, str]], error: MagicbyteError) -> None:
        position = error.position if isinstance(error, CorruptRecordError) else 0
        kind = error.kind if isinstance(error, CorruptRecordError) else "codec"
        if (position, kind) not in told:
            told.add((position, kind))
            survey.findings.append(Finding(getattr(error, "path", None) or "", position, kind, str(error)))


def _stretch(part: Part, start: int, end: int | None) -> Part:
    return type(part)(part.source, part.topic, part.partition, start, end)


def _weigh(columns: Any, codec: str, survey: Survey) -> None:
    """Adds the bytes of a batch of Arrow columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def size(array: Any) -> int:
        return pc.sum(pc.binary_length(array)).as_py() or 0

    pairs = pc.list_flatten(columns.column("headers"))
    names, values = pc.struct_field(pairs, "key"), pc.struct_field(pairs, "value")
    headers = 0
    if len(names):
        lengths = pc.add(pc.binary_length(names), pc.fill_null(pc.binary_length(values), 0))
        by_key = pa.table({"key": names, "bytes": lengths}).group_by("key")
        sums = by_key.aggregate([("bytes", "count"), ("bytes", "sum")])
        weights = list(zip(*(sums.column(c).to_pylist() for c in ("key", "bytes_count", "bytes_sum")), strict=True))
        headers = sum(weight for _, _, weight in weights)
        survey.see_headers(weights)
    survey.see_payload(codec, columns.num_rows, size(columns.column("key")), size(columns.column("value")), headers)
    times = columns.column("timestampMs")
    spread = pc.min_max(times.filter(pc.not_equal(times, -1)))
    survey.see_times(spread["min"].as_py(), spread["max"].as_py())


def _records(batch: RecordBatch, survey: Survey, watch: Watch | None) -> None:
    """Adds the bytes of a batch, record by record."""
    if batch.control:
        return
    records = keys = values = headers = 0
    weights: dict[str, tuple[int, int]] = {}
    appended = batch.max_timestamp if batch.timestamp_type == 1 else None
    for record in batch.records:
        records += 1
        keys += len(record.key or b"")
        values += len(record.value or b"")
        time = record.timestamp if appended is None else appended
        survey.see_times(time, time)
        if watch is not None:
            watch.timeline.times((time,))
        for header in record.headers:
            size = len(header.key.encode()) + len(header.value or b"")
            headers += size
            count, total = weights.get(header.key, (0, 0))
            weights[header.key] = (count + 1, total + size)
    survey.see_headers((key, count, size) for key, (count, size) in weights.items())
    survey.see_payload(batch.codec or UNKNOWN_CODEC, records, keys, values, headers)
