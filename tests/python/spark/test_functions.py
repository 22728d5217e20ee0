"""Header functions in the JVM say what ``Headers`` says."""

from __future__ import annotations

from typing import Any

import pytest

import magicbyte as mb

pytest.importorskip("pyspark")

from magicbyte.spark import functions as M

LISTS: list[list[tuple[str, bytes | None]] | None] = [
    None,
    [],
    [("k", b"v")],
    [("k", b"1"), ("x", b""), ("k", b"2")],
    [("k", b"1"), ("k", None)],
    [("", b"empty key"), ("x", None), ("ключ", "значение".encode())],
    [("k", b"\xff\xfe"), ("K", b"another key")],
]
KEYS = ["k", "x", "", "ключ", "none"]


@pytest.fixture(scope="module")
def frame(spark: Any) -> Any:
    schema = "n int, headers array<struct<key:string,value:binary>>"
    return spark.createDataFrame(list(enumerate(LISTS)), schema).coalesce(1).cache()


def text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def test_they_say_what_headers_says(frame: Any) -> None:
    columns = []
    for at, key in enumerate(KEYS):
        columns += [
            M.header("headers", key).alias(f"header{at}"),
            M.headers_all("headers", key).alias(f"all{at}"),
            M.header_text(frame.headers, key).alias(f"text{at}"),
            M.has_header("headers", key).alias(f"has{at}"),
            M.add_header("headers", key, b"new").alias(f"add{at}"),
            M.remove_header("headers", key).alias(f"remove{at}"),
        ]
    rows = frame.select("n", M.header_map("headers").alias("map"), *columns).orderBy("n").collect()

    def pairs(headers: Any) -> list[tuple[str, bytes | None]]:
        return [(header[0], None if header[1] is None else bytes(header[1])) for header in headers]

    for row, given in zip(rows, LISTS, strict=True):
        own = mb.Headers(given or [])
        assert row["map"] == dict(own.last)
        for at, key in enumerate(KEYS):
            last = own.last_header(key)
            assert row[f"header{at}"] == (None if last is None else last.value)
            assert row[f"text{at}"] == text(None if last is None else last.value)
            assert row[f"all{at}"] == list(own.get(key))
            assert row[f"has{at}"] == (key in own)
            assert pairs(row[f"add{at}"]) == [(h.key, h.value) for h in mb.Headers(given or []).add(key, b"new")]
            assert pairs(row[f"remove{at}"]) == [(h.key, h.value) for h in mb.Headers(given or []).remove(key)]


def test_keys_and_values_may_be_columns_and_nothing_runs_in_python(frame: Any) -> None:
    from pyspark.sql import functions as F

    key = F.when(F.col("n") < 5, "k").otherwise("x")
    made = M.add_header(M.remove_header("headers", key), key, F.concat(F.lit("n"), F.col("n")))
    found = frame.select("n", M.header_text(made, key).alias("text"), M.header(M.add_header("headers", "a", None), "a"))
    assert [tuple(row) for row in found.orderBy("n").collect()] == [(n, f"n{n}", None) for n in range(len(LISTS))]
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan
    # The type is the reader's, so the sink and a join take it.
    assert frame.select(made.alias("headers")).schema["headers"].dataType == frame.schema["headers"].dataType
