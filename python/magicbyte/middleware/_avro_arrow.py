"""Avro's types as Arrow's, and rows of Avro as columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from magicbyte._core import ConsumerRecord

from ._arrow import HeaderColumn, binary, column, record_of
from ._base import BadHeaderError

if TYPE_CHECKING:
    from .schemas import SchemaHeaders

__all__ = ["rows_to_columns", "schema_of", "type_of"]

PRIMITIVE = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("us"),
    "local-timestamp-micros": pa.timestamp("us"),
}
KEPT = {
    "key": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
}
ERROR = "schema_error"


def type_of(schema: Any, named: dict[str, Any] | None = None) -> pa.DataType:
    """The Arrow type of an Avro one; unions are of null and one other type.

    Raises:
        ValueError: a union of several types, a recursive type, or a logical type that Spark does not have (times, durations).
    """
    named = {} if named is None else named
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        if len(others) != 1:
            raise ValueError(f"a union of {len(others)} types is no column")
        return type_of(others[0], named)
    if isinstance(schema, str):
        if schema in named:
            if named[schema] is None:
                raise ValueError(f"{schema} contains itself, which no column can")
            return named[schema]
        if schema not in PRIMITIVE:
            raise ValueError(f"no Avro type {schema}")
        return PRIMITIVE[schema]
    kind, logical = schema["type"], schema.get("logicalType")
    if logical in LOGICAL:
        return LOGICAL[logical]
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical not in (None, "uuid"):
        raise ValueError(f"no column of {logical}")
    if kind == "array":
        return pa.list_(type_of(schema["items"], named))
    if kind == "map":
        return pa.map_(pa.string(), type_of(schema["values"], named))
    if kind not in ("record", "enum", "fixed"):
        return type_of(kind, named)
    name = schema["name"]
    named[name] = None
    made = PRIMITIVE.get(kind) or pa.struct(
        [(field["name"], type_of(field["type"], named)) for field in schema["fields"]]
    )
    named[name] = made
    if "namespace" in schema and "." not in name:
        named[f"{schema['namespace']}.{name}"] = made
    return made


def schema_of(reader_schema: str | None, keep: Sequence[str]) -> pa.Schema:
    """The schema of typed rows."""
    parsed = None if reader_schema is None else json.loads(reader_schema)
    if not isinstance(parsed, dict) or parsed.get("type") != "record":
        raise ValueError("typed columns need a reader_schema that is a record: its fields are the columns")
    unknown = [name for name in keep if name not in KEPT]
    if unknown:
        raise ValueError(f"no column {unknown[0]} to keep; there are {', '.join(KEPT)}")
    fields = [pa.field(name, KEPT[name]) for name in keep]
    struct = type_of(parsed)
    for number in range(struct.num_fields):
        if struct[number].name in (*keep, ERROR):
            raise ValueError(f"column {struct[number].name} is there twice: leave it out of keep")
        fields.append(struct[number])
    return pa.schema([*fields, pa.field(ERROR, pa.string())])


def rows_to_columns(schemas: SchemaHeaders, batch: pa.RecordBatch, keep: Sequence[str]) -> pa.RecordBatch:
    """Rows of Kafka's columns as typed ones."""
    schema = schema_of(schemas.reader_schema, keep)
    struct = pa.struct([field for field in schema if field.name not in (*keep, ERROR)])
    headers = HeaderColumn.of(batch)
    columns = {}
    for name in schemas._names.values():
        values, counts = headers.last(name)
        if counts.any():
            columns[name] = (values.to_pylist(), counts.tolist())
    objects: list[Any] = []
    errors: list[str | None] = []
    kept: list[int] = []
    for row, data in enumerate(binary(column(batch, schemas.field)).to_pylist()):
        last = {name: values[row] for name, (values, counts) in columns.items() if counts[row]}
        done: tuple[Any, ...] = (None,) if data is None else schemas._read(last, data)
        if len(done) == 1:
            schemas.counts.add("null" if data is None else "read")
        elif _dropped(schemas, batch, row, done):
            continue
        objects.append(done[0] if len(done) == 1 else None)
        errors.append(None if len(done) == 1 else schemas.reason(*done))
        kept.append(row)
    rows = batch if len(kept) == batch.num_rows else batch.take(pa.array(kept, pa.int64()))
    arrays = [column(rows, name).cast(KEPT[name]) for name in keep]
    typed = pa.array(objects, struct)
    return pa.RecordBatch.from_arrays([*arrays, *typed.flatten(), pa.array(errors, pa.string())], schema=schema)


def _dropped(schemas: SchemaHeaders, batch: pa.RecordBatch, row: int, bad: tuple[str, str]) -> bool:
    """Counts a bad row and does as the policy says; whether it is left out."""
    from ._base import mark

    if schemas.policy == "raise":
        raise BadHeaderError(schemas.reason(*bad), record_of(batch, row))
    schemas.counts.add(bad[0])
    if schemas.policy == "quarantine" and schemas.quarantine is not mark:
        record: ConsumerRecord = record_of(batch, row)
        schemas.quarantine(record, schemas.reason(*bad))
    return schemas.policy == "reject"
