"""The main job, on your machine: a Kafka log directory in, Spark rows out, headers and all; and no broker anywhere.

make demo                                  # builds everything, reads the log directory that ships in tests/data
.venv/bin/python examples/demo.py DIR      # or one of your own, such as a copy of a broker's log.dirs
"""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHIPPED = Path(__file__).parents[1] / "tests" / "data" / "kafka-logs"


def start_spark() -> SparkSession:
    """A local Spark on two cores. Nothing is registered: the format `magicbyte` is found by itself."""
    from pyspark.sql import SparkSession

    # Workers must be the interpreter that has magicbyte.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging.getLogger("py4j").setLevel(logging.ERROR)
    return (
        SparkSession.builder.master("local[2]")
        .appName("magicbyte demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


def shown(column: str, most: int) -> str:
    """SQL for bytes as people read them: text where it is text, else the first bytes in hex; null apart from empty."""
    return (
        f"case when {column} is null then 'null'"
        f" when try_validate_utf8({column}) rlike '^[^\\\\p{{Cntrl}}]*$' then left(string({column}), {most})"
        f" else concat('0x', lower(hex(substr({column}, 1, 8)))) end"
    )


def readable_rows(rows: DataFrame) -> DataFrame:
    """Some records with headers, from each topic that has them."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    first = f.row_number().over(Window.partitionBy("topic").orderBy("partition", "offset"))
    return (
        rows.where("size(headers) between 1 and 4 and not startswith(topic, '__')")
        .withColumn("nth", first)
        .where("nth <= 3")
        .orderBy("topic", "partition", "offset")
        .selectExpr(
            "topic",
            "partition",
            "offset",
            "date_format(timestamp, 'yyyy-MM-dd HH:mm:ss') as timestamp",
            f"{shown('key', 12)} as key",
            f"{shown('value', 24)} as value",
            f"transform(headers, h -> concat(h.key, '=', {shown('h.value', 16)})) as headers",
        )
    )


def summary(rows: DataFrame) -> DataFrame:
    """One line a topic."""
    from pyspark.sql import functions as f

    return (
        rows.selectExpr(
            "topic",
            "partition",
            "offset",
            "timestamp",
            "coalesce(length(key), 0) + coalesce(length(value), 0) as payload",
            "coalesce(size(headers), 0) as headers",
            "case when value is null then 1 else 0 end as tombstone",
        )
        .groupBy("topic")
        .agg(
            f.expr("count(distinct partition)").alias("partitions"),
            f.expr("count(*)").alias("records"),
            f.expr("min(offset)").alias("first_offset"),
            f.expr("max(offset)").alias("last_offset"),
            f.expr("date_format(max(timestamp), 'yyyy-MM-dd HH:mm')").alias("newest"),
            f.expr("sum(payload)").alias("key_value_bytes"),
            f.expr("sum(headers)").alias("headers"),
            f.expr("sum(tombstone)").alias("null_values"),
        )
        .orderBy("topic")
    )


def main() -> int:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED
    if not directory.is_dir():
        print(f"{directory} is not a directory", file=sys.stderr)
        return 2
    print(f"Kafka log directory: {os.path.relpath(directory)}\n", flush=True)
    spark = start_spark()
    begun = time.perf_counter()
    # Three questions follow; the files are read for the first.
    rows = spark.read.format("magicbyte").load(str(directory)).cache()
    rows.printSchema()
    print("Records with headers, a few of each topic:")
    readable_rows(rows).show(30, truncate=46)
    print("By topic:")
    summary(rows).show(100, truncate=False)
    print(f"{rows.count()} records, {time.perf_counter() - begun:.1f} s in Spark, no broker.")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
