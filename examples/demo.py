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
    logging.getLogger("py4j").setLevel(logging.ERROR)
    session = (
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
    return session


def readable_rows(rows: DataFrame) -> DataFrame:
    """Some records with headers, from each topic that has them, with bytes as text."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    text = "transform(headers, h -> concat(h.key, '=', coalesce(substr(try_validate_utf8(h.value), 1, 24), '<bytes>')))"
    first = f.row_number().over(Window.partitionBy("topic").orderBy("partition", "offset"))
    return (
        rows.where("headers is not null and size(headers) between 1 and 4 and topic not like '\\\\_\\\\_%'")
        .withColumn("nth", first)
        .where("nth <= 3")
        .orderBy("topic", "partition", "offset")
        .select(
            "topic",
            "partition",
            "offset",
            "timestamp",
            f.expr("coalesce(substr(try_validate_utf8(key), 1, 12), hex(substr(key, 1, 6)))").alias("key"),
            f.expr("coalesce(substr(try_validate_utf8(value), 1, 24), hex(substr(value, 1, 12)))").alias("value"),
            f.expr(text).alias("headers"),
        )
    )


def summary(rows: DataFrame) -> DataFrame:
    """One line a topic."""
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
            *map(
                _expr,
                (
                    "count(distinct partition) as partitions",
                    "count(*) as records",
                    "min(offset) as first_offset",
                    "max(offset) as last_offset",
                    "date_format(max(timestamp), 'yyyy-MM-dd HH:mm') as newest",
                    "sum(payload) as key_value_bytes",
                    "sum(headers) as headers",
                    "sum(tombstone) as null_values",
                ),
            )
        )
        .orderBy("topic")
    )


def _expr(text: str) -> object:
    from pyspark.sql import functions as f

    return f.expr(text)


def main() -> int:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else SHIPPED
    if not directory.is_dir():
        print(f"{directory} is not a directory", file=sys.stderr)
        return 2
    print(f"Kafka log directory: {os.path.relpath(directory)}\n", flush=True)
    spark = start_spark()
    begun = time.perf_counter()
    rows = spark.read.format("magicbyte").load(str(directory))
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
