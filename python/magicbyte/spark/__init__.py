"""magicbyte in Spark: ``spark.read.format("magicbyte")``, and raw batches that are in Spark already.

The only place that imports PySpark.
"""

from magicbyte._extras import extra

# PySpark, and what it needs for Arrow.
with extra("spark"):
    from .columns import SCHEMA
    from .commit import sweep
    from .decode import decode_arrow, decode_partition
    from .glue import glue
    from .headers import DECODED_HEADERS, decode_headers
    from .sink import in_order
    from .source import DataSource
    from .verify import verify

__all__ = [
    "DECODED_HEADERS",
    "SCHEMA",
    "DataSource",
    "decode_arrow",
    "decode_headers",
    "decode_partition",
    "glue",
    "in_order",
    "sweep",
    "verify",
]
