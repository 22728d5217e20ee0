"""Where Spark looks for data sources by itself: modules named ``pyspark_*`` with a ``DefaultSource``."""

from magicbyte.spark.source import DataSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """``spark.read.format("magicbyte")``, with no call to register."""
