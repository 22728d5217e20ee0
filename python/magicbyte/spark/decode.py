"""Raw batches that are in Spark already: from ``binaryFiles``, or in a binary column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from magicbyte._layout import COMPANIONS, file_kind, topic_partition
from magicbyte.errors import CorruptRecordError

Raw: TypeAlias = bytes | bytearray | memoryview

if TYPE_CHECKING:
    import pyarrow as pa

    from magicbyte._core import ConsumerRecord


def decode_partition(
    rows: Iterable[Any], *, column: str | None = None, topic: str = "", partition: int = -1, **options: Any
) -> Iterator[ConsumerRecord]:
    """``rdd.mapPartitions(decode_partition)``: raw batches in, records out.

    Args:
        rows: rows or dicts with a binary column (nulls are passed over), (path, bytes) pairs as of ``binaryFiles``
            (topic and partition are those of the path's directory; index files and the like are passed over), or bytes.
        column: the binary column; needed where a row has several, unless one is called ``value`` or ``content``.
        topic, partition: of the records, where no path tells.
        options: what every reader takes: ``format``, ``isolation``, ``past_lso``, ``control``, ``check_crc``,
            ``mode``, ``limits``.

    Raises:
        CorruptRecordError: with the position in the bytes of that row, and the row's path where it has one.
    """
    from magicbyte import _core

    for number, row in enumerate(rows):
        path, data = _raw(row, column)
        if data is None:
            continue
        named = None
        if path is not None:
            directory, _, name = path.rstrip("/").rpartition("/")
            kind = file_kind(name)[0]
            if kind in COMPANIONS or kind in ("left_out", "checkpoint"):
                continue
            named = topic_partition(directory.rpartition("/")[2])
        part = _core.Part(bytes(data), *(named or (topic, partition)))
        try:
            yield from _core.Reader([part], **options).records()
        except CorruptRecordError as error:
            raise _placed(error, path or f"row {number} of the partition", path) from error


def decode_arrow(
    column: str = "value",
    *,
    columns: Sequence[str] | None = None,
    topic: str = "",
    partition: int = -1,
    **options: Any,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for ``df.mapInArrow(decode_arrow("value"), SCHEMA)``: a binary column of raw batches in, rows out.

    Null rows are passed over. ``columns`` chooses others than those of ``SCHEMA``. The rest is as for
    ``decode_partition``.
    """

    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from magicbyte import _core

        for batch in batches:
            where = batch.schema.get_field_index(column)
            if where < 0:
                raise ValueError(f"no column {column}; there are {', '.join(batch.schema.names)}")
            rows = [(row, data) for row, data in enumerate(batch.column(where).to_pylist()) if data is not None]
            parts = [_core.Part(data, topic, partition) for _, data in rows]
            try:
                yield from _core.Reader(parts, **options).scan(columns, spark=True)
            except CorruptRecordError as error:
                # One reader went over all rows; now each by itself, to say which it was.
                for (row, _), part in zip(rows, parts, strict=True):
                    try:
                        _core.Reader([part], **options).scan(columns, spark=True).count()
                    except CorruptRecordError as own:
                        raise _placed(own, f"row {row} of the Arrow batch, column {column}", None) from error
                raise

    return decode


def _raw(row: Any, column: str | None) -> tuple[str | None, Raw | None]:
    """The path, if there is one, and the bytes of what ``mapPartitions`` hands over."""
    if row is None or isinstance(row, Raw):
        return None, row
    fields = row if isinstance(row, Mapping) else row.asDict() if hasattr(row, "asDict") else None
    if fields is None:
        if isinstance(row, tuple) and len(row) == 2 and isinstance(row[0], str):
            return row
        raise TypeError(f"a Row, a dict, a (path, bytes) pair or bytes expected, not {type(row).__name__}")
    path = fields.get("path") if column in (None, "content") else None
    name = _column(fields) if column is None else column
    if name not in fields:
        raise ValueError(f"no column {name}; there are {', '.join(map(str, fields))}")
    data = fields[name]
    if data is not None and not isinstance(data, Raw):
        raise TypeError(f"column {name} holds {type(data).__name__}, not binary")
    return (path if isinstance(path, str) else None), data


def _column(fields: Mapping[str, Any]) -> str:
    if len(fields) == 1:
        return str(next(iter(fields)))
    # A row of the binaryFile source, then a row of the Kafka source.
    for name in ("content", "value"):
        if name in fields:
            return name
    binary = [name for name, value in fields.items() if isinstance(value, Raw)]
    if len(binary) == 1:
        return str(binary[0])
    raise ValueError(f"which column holds the batches? Say column=…; there are {', '.join(map(str, fields))}")


def _placed(error: CorruptRecordError, where: str, path: str | None) -> CorruptRecordError:
    return CorruptRecordError(f"{where}: {error}", path, error.position, error.kind, error.records)
