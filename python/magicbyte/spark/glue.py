"""Large messages in Spark: chunks of a message come together, wherever the files were cut into tasks."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f


def glue(frame: DataFrame, middleware: Any = None) -> DataFrame:
    """A DataFrame with Kafka's columns (``headers`` among them) and every large message in one row.

    Rows that are no chunks are not moved; chunks are, by their message's id, so that each message is in one task. What cannot be
    put together comes out by the middleware's policy: by default its chunks, marked.

    Args:
        frame: as ``spark.read.format("magicbyte")`` or Spark's Kafka source with ``includeHeaders`` gives it.
        middleware: a ``LargeMessages`` with other options than the usual ones.
    """
    if middleware is None:
        from magicbyte.middleware.large_messages import LargeMessages

        middleware = LargeMessages()
    # Where the 16 bytes of the message id begin, counted from 1: behind version and flags, or behind LinkedIn's type.
    places = [(middleware.header, 3)]
    if middleware.linkedin_header is not None:
        places.append((middleware.linkedin_header, 2))
    ids = [
        f.expr(f"substring(try_element_at(filter(headers, h -> h.key = '{_quoted(name)}'), -1).value, {start}, 16)")
        for name, start in places
    ]
    names = ", ".join(f"'{_quoted(name)}'" for name, _ in places)
    chunk = f.expr(f"coalesce(exists(headers, h -> h.key in ({names})), false)")
    chunks = (
        frame.where(chunk)
        .repartition(f.coalesce(*ids, f.lit(b"")))
        .sortWithinPartitions("topic", "partition", "offset")
        .mapInArrow(middleware.arrow, frame.schema)
    )
    return frame.where(~chunk).unionByName(chunks)


def _quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
