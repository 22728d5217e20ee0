"""The vocabulary as a column function of Spark."""

from __future__ import annotations

import struct
from typing import Any

from magicbyte.spark import DECODED_HEADERS, SCHEMA, decode_headers


def test_headers_of_a_data_frame(spark: Any) -> None:
    headers = [
        ("kafka_dlt-original-offset", struct.pack(">q", 5)),
        ("kafka_dlt-original-offset", b"6"),
        ("traceparent", b"\xff"),
        ("mine", None),
    ]
    rows = [(None, b"v", "t", 0, n, None, 0, headers if n else None) for n in range(4)]
    frame = spark.createDataFrame(rows, SCHEMA).select("offset", decode_headers("headers").alias("said"))
    assert frame.schema["said"].dataType == DECODED_HEADERS
    first, second, *_ = [row.said for row in frame.orderBy("offset").collect()]
    assert first is None
    assert [tuple(one) for one in second] == [
        ("kafka_dlt-original-offset", "spring dead letter", "5", "int64", None),
        ("kafka_dlt-original-offset", "spring dead letter", "6", "digits", None),
        ("traceparent", "w3c", None, "bytes", "not UTF-8 at byte 0"),
        ("mine", None, None, "null", None),
    ]
    numbers = frame.selectExpr("sum(cast(said[0].value as bigint)) as total").first()
    assert numbers is not None and numbers.total == 15
