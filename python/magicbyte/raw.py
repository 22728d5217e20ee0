"""Raw bytes, without a path: the records of a fetch response, or a column of a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ._core import Part, Reader
from ._layout import UNKNOWN, Segment
from ._report import Report, run

if TYPE_CHECKING:
    import pyarrow

    from ._core import ConsumerRecord, Limits, RecordBatch

__all__ = ["decode", "decode_arrow", "decode_batches", "verify"]

Data = bytes | bytearray | memoryview


def decode(
    data: Data,
    *,
    topic: str = "",
    partition: int = -1,
    format: str = "kafka",
    isolation: str = "read_uncommitted",
    past_lso: bool = False,
    control: bool = False,
    check_crc: bool = True,
    mode: str = "FAILFAST",
    limits: Limits | None = None,
) -> Iterator[ConsumerRecord]:
    """Iterates the records in ``data``, which holds entries of any mix of formats as a log does.

    An incomplete entry at the end ends it without an error, as a fetch response may be cut anywhere.

    ``isolation="read_committed"`` knows only the markers in ``data``: it ends at the first transaction without one, and
    ``past_lso=True`` leaves such transactions out and goes on. ``Log`` looks further.

    Raises:
        CorruptRecordError: when the iteration comes to bytes that are not sound; records before them came already.
    """
    reader = Reader(
        [Part(data, topic, partition)],
        format=format,
        isolation=isolation,
        past_lso=past_lso,
        control=control,
        check_crc=check_crc,
        mode=mode,
        limits=limits,
    )
    return reader.records()


def decode_batches(
    data: Data,
    *,
    format: str = "kafka",
    check_crc: bool = True,
    mode: str = "FAILFAST",
    limits: Limits | None = None,
) -> Iterator[RecordBatch]:
    """Iterates the batches in ``data``: header fields at once, records when asked for. Errors as in ``decode``."""
    return Reader([Part(data)], format=format, check_crc=check_crc, mode=mode, limits=limits).batches()


def decode_arrow(
    data: Data,
    *,
    columns: Sequence[str] | None = None,
    topic: str = "",
    partition: int = -1,
    format: str = "kafka",
    isolation: str = "read_uncommitted",
    past_lso: bool = False,
    control: bool = False,
    check_crc: bool = True,
    mode: str = "FAILFAST",
    limits: Limits | None = None,
    offsets: tuple[int | None, int | None] | None = None,
    timestamps: tuple[int | None, int | None] | None = None,
    views: bool = False,
) -> pyarrow.Table:
    """One Arrow table of the records in ``data``, by the same columns as ``Log.scan``.

    Args:
        columns: names of ``magicbyte.COLUMNS``; None takes those of Spark's Kafka source.
        offsets, timestamps: half-open ranges, timestamps in milliseconds; None is open.
        views: BinaryView columns that point into ``data`` instead of copies.

    Raises:
        CorruptRecordError: bytes that are not sound, in mode ``FAILFAST``.
    """
    first, end = offsets or (None, None)
    options: dict[str, Any] = {
        "isolation": isolation,
        "past_lso": past_lso,
        "control": control,
        "timestamps": timestamps,
    }
    reader = Reader(
        [Part(data, topic, partition, first_offset=first, end_offset=end)],
        format=format,
        check_crc=check_crc,
        mode=mode,
        limits=limits,
        **options,
    )
    return reader.scan(columns, views=views).to_arrow()


def verify(data: Data, *, format: str = "kafka", limits: Limits | None = None) -> Report:
    """The strict pass over bytes in hand, as ``Log.verify`` does it over files: every defect, and whether they are sound."""
    segment = Segment("", "", UNKNOWN, UNKNOWN, len(data))
    return run([(segment, Part(data))], format=format, limits=limits)
