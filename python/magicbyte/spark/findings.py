"""What a read passed over, or where it ended: said in the task's log, and as rows for who asks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa

    from magicbyte.log import Stretch

    Finding = tuple[str | None, int, str, int, str]

SCHEMA = StructType(
    [
        StructField("path", StringType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("position", LongType()),
        StructField("kind", StringType()),
        StructField("size", LongType()),
        StructField("message", StringType()),
    ]
)
"""The columns under the option ``findings``: where, what kind (as ``Reader.findings`` has it), how many bytes, in words."""

TAILS = frozenset({"torn_tail", "zero_tail"})  # of any segment that a broker still writes
MOST = 20  # lines of one task's log

log = logging.getLogger("magicbyte.spark")


def tell(stretches: Sequence[Stretch], findings: Sequence[Finding]) -> None:
    """Warnings in the task's log, which Spark keeps in the executor's standard error."""
    said = [finding for finding in findings if finding[2] not in TAILS]
    for path, position, kind, size, message in said[:MOST]:
        stretch = _of(path, stretches)
        place = f"{path or stretch.path} ({stretch.topic}-{stretch.partition})"
        log.warning("magicbyte: %s: at byte %d, %d bytes: %s: %s", place, position, size, kind, message)
    if len(said) > MOST:
        log.warning("magicbyte: %s: %d findings more", stretches[0].path, len(said) - MOST)


def batch(stretches: Sequence[Stretch], findings: Iterable[Finding]) -> pa.RecordBatch:
    """The same as rows of ``SCHEMA``."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    rows = []
    for path, position, kind, size, message in findings:
        of = _of(path, stretches)
        rows.append(
            {"path": path or of.path, "topic": of.topic, "partition": of.partition, "position": position,
             "kind": kind, "size": size, "message": message}
        )  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=to_arrow_schema(SCHEMA))


def _of(path: str | None, stretches: Sequence[Stretch]) -> Stretch:
    """The stretch of a task that a finding is of."""
    return next((stretch for stretch in stretches if stretch.path == path), stretches[0])
