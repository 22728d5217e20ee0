"""What headers say, as a column function: the vocabulary of ``magicbyte.vocabulary`` over Arrow."""

from __future__ import annotations

from functools import cache
from typing import Any

from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

DECODED_HEADERS = ArrayType(
    StructType([StructField(name, StringType()) for name in ("key", "convention", "value", "encoding", "error")])
)
"""The type of ``decode_headers``: text all through; ``value`` is JSON where it is not text itself."""


def decode_headers(headers: Any) -> Any:
    """The column ``headers`` (as Spark's Kafka source and magicbyte have it) as decoded headers, in order.

    ``df.select(decode_headers("headers"))`` gives ``array<struct<key, convention, value, encoding, error>>``: numbers can
    be cast, what has several parts is JSON (``get_json_object``). NULL headers stay NULL, bytes never fail the query.
    """
    return _function()(headers)


@cache
def _function() -> Any:
    # Made when first called: making it asks a running Spark for nothing, but costs imports.
    def decode_headers(column: Any) -> Any:
        from magicbyte.vocabulary import decode_arrow

        return decode_arrow(column)

    # PySpark looks at the hints to find out which kind of function it is.
    import pyarrow as pa

    decode_headers.__annotations__ = {"column": pa.Array, "return": pa.Array}
    made: Any = arrow_udf
    return made(decode_headers, DECODED_HEADERS)
