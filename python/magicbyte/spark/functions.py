"""Headers in columns, as plain Spark expressions: they run in the JVM, with no hop to Python.

A column of headers is an array of (key, value), as the reader and Spark's own Kafka source give it; NULL stands for no
headers. Order and repeated keys are kept, as KIP-82 asks for; values are bytes, and may be null.

    from magicbyte.spark.functions import header, header_text
    df.where(header_text("headers", "tenant") == "acme").select(header("headers", "trace-id"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

    Headers: TypeAlias = "Column | str"

__all__ = ["add_header", "has_header", "header", "header_map", "header_text", "headers_all", "remove_header"]

_TYPE = "array<struct<key:string,value:binary>>"


def header(headers: Headers, key: str | Column) -> Column:
    """The value of the last header of that key, as ``Headers.last_header(key).value``; NULL without one, or where it is
    null (``has_header`` tells these apart)."""
    last = F.try_element_at(_of(headers, key), F.lit(-1))
    return last.getField("value")


def headers_all(headers: Headers, key: str | Column) -> Column:
    """All values of that key in order, as ``Headers.get(key)``: an array of binary, empty without one."""
    return F.transform(_of(headers, key), lambda it: it.getField("value"))


def header_map(headers: Headers) -> Column:
    """A map from each key to its last value, as ``Headers.last``; empty without headers."""
    every = _there(headers)
    keys = F.array_distinct(F.transform(every, lambda it: it.getField("key")))
    return F.map_from_arrays(keys, F.transform(keys, lambda key: _last(every, key)))


def header_text(headers: Headers, key: str | Column) -> Column:
    """``header`` as text; NULL where its bytes are not UTF-8."""
    return F.try_validate_utf8(header(headers, key).cast("string"))


def has_header(headers: Headers, key: str | Column) -> Column:
    """Whether there is a header of that key, whatever its value; never NULL."""
    return F.exists(_there(headers), lambda it: it.getField("key") == _key(key))


def add_header(headers: Headers, key: str | Column, value: str | bytes | Column | None) -> Column:
    """The headers with one more at the end, as ``Headers.add``; text is written as UTF-8."""
    given = F.lit(value) if value is None or isinstance(value, str | bytes) else value
    more = F.array(F.struct(_key(key).alias("key"), given.cast("binary").alias("value"))).cast(_TYPE)
    return F.concat(_there(headers), more)


def remove_header(headers: Headers, key: str | Column) -> Column:
    """The headers without those of that key, as ``Headers.remove(key)``."""
    return F.filter(_there(headers), lambda it: it.getField("key") != _key(key))


def _key(key: str | Column) -> Column:
    return F.lit(key) if isinstance(key, str) else key


def _there(headers: Headers) -> Column:
    """Never NULL."""
    column = F.col(headers) if isinstance(headers, str) else headers
    return F.coalesce(column, F.array().cast(_TYPE))


def _of(headers: Headers, key: str | Column) -> Column:
    return F.filter(_there(headers), lambda it: it.getField("key") == _key(key))


def _last(every: Column, key: Column) -> Column:
    return F.try_element_at(F.filter(every, lambda it: it.getField("key") == key), F.lit(-1)).getField("value")
