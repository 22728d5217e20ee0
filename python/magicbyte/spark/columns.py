"""Columns as Spark sees them: the schema of its own Kafka source, and the choice of others."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

if TYPE_CHECKING:
    from .options import Options

SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
        StructField(
            "headers",
            ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        ),
    ]
)
"""The columns of Spark's Kafka source with ``includeHeaders``, to the name and type: what ``mapInArrow`` is given."""


def chosen(options: Options) -> list[str]:
    """The columns that the options ask for: a list chooses, ``+`` before its first name adds to the usual ones."""
    from magicbyte import _core

    usual = list(_core.DEFAULT_COLUMNS)
    if options.columns is None:
        # Without this column, the rows that tell of damage could not be told from records of nulls.
        return [*usual, "_corrupt_record"] if options.mode == "PERMISSIVE" else usual
    adds = options.columns[0].startswith("+")
    asked = [name.removeprefix("+") for name in options.columns]
    names = [*usual, *(name for name in asked if name not in usual)] if adds else asked
    _known(names, "option columns")
    return names


def schema_of(columns: Sequence[str]) -> StructType:
    """The Spark types of columns, out of the one table that all readers share."""
    from magicbyte import _core

    schema: StructType = from_arrow_schema(_core.Reader([]).scan(list(columns), spark=True).schema)
    return schema


def check(schema: StructType) -> None:
    """Refuses a user's schema that names other columns, or types, than there are."""
    _known(schema.fieldNames(), "schema")
    for asked, real in zip(schema, schema_of(schema.fieldNames()), strict=True):
        # Inside of a column, nullability counts too: Arrow has it in the type.
        if asked.dataType != real.dataType:
            raise ValueError(
                f"schema: column {asked.name} is {real.dataType.simpleString()}, not {asked.dataType.simpleString()}; "
                "read it so and cast it afterwards"
            )


def _known(names: Sequence[str], where: str) -> None:
    from magicbyte import _core

    for name in names:
        if name not in _core.COLUMNS:
            lower = {column.lower(): column for column in _core.COLUMNS}
            near = get_close_matches(name.lower(), list(lower), n=1, cutoff=0.5)
            known = f"did you mean {lower[near[0]]}?" if near else "there are " + ", ".join(_core.COLUMNS)
            raise ValueError(f"{where}: no column {name}; {known}")
    for name in names:
        if list(names).count(name) > 1:
            raise ValueError(f"{where}: column {name} twice")
