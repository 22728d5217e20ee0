"""Landing into a Delta table: files, and the offsets behind them, count by one commit of the table's own log.

How far each partition has landed stands in the table as an application's transaction (``txn`` of the Delta protocol), so a
commit either has both or none. The library is `deltalake` (delta-rs): no Spark, no JVM.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from magicbyte._extras import extra

if TYPE_CHECKING:
    import pyarrow as pa

PARTITIONS = ["topic", "date"]
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def _application(topic: str, partition: int) -> str:
    return f"magicbyte:{topic}-{partition}"


def offsets(root: Path, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
    """Up to where these partitions have landed, by the table."""
    with extra("delta"):
        from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(root)):
        return {}
    table = DeltaTable(str(root))
    found = {name: table.transaction_version(_application(*name)) for name in names}
    return {name: offset for name, offset in found.items() if offset is not None}


def schema(columns: pa.Schema) -> Any:
    """Of the table: the files' columns, and those of the directories' names."""
    import pyarrow as pa
    from deltalake import Schema

    fields = [*columns, pa.field("topic", pa.string()), pa.field("date", pa.date32())]
    return Schema.from_arrow(pa.schema(fields))


def commit(
    root: Path,
    aside: Path,
    places: Mapping[str, str],
    columns: pa.Schema,
    before: Mapping[tuple[str, int], int],
    after: Mapping[tuple[str, int], int],
) -> None:
    """Gives the files their names, then adds them to the table, with the offsets behind them.

    A process that dies in between leaves files that belong to no version of the table: Delta's ``VACUUM`` removes them.
    """
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake.transaction import create_table_with_add_actions

    known = DeltaTable.is_deltatable(str(root))
    moved = {name: offset for name, offset in after.items() if before.get(name) != offset}
    if not places and not moved:
        return
    actions = [_added(root, aside / place, name) for name, place in sorted(places.items())]
    properties = CommitProperties(
        # Of two runs on the same offsets the table refuses one.
        app_transactions=[Transaction(_application(*name), offset) for name, offset in sorted(moved.items())]
    )
    if known:
        table = DeltaTable(str(root))
        table.create_write_transaction(
            actions, "append", schema(columns), partition_by=PARTITIONS, commit_properties=properties
        )
    else:
        create_table_with_add_actions(
            str(root), schema(columns), actions, partition_by=PARTITIONS, commit_properties=properties
        )


def _added(root: Path, place: Path, name: str) -> Any:
    import pyarrow.parquet as pq
    from deltalake.transaction import AddAction

    # A name of its own: the same offsets may have been written before, by a run that did not get to its commit.
    own = str(Path(name).with_stem(f"{Path(name).stem}-{place.parents[2].name}"))
    final = root / own
    final.parent.mkdir(parents=True, exist_ok=True)
    os.rename(place, final)
    status = final.stat()
    values = dict(part.split("=", 1) for part in Path(name).parts[:2])
    return AddAction(
        own,
        status.st_size,
        {key: None if value == NO_VALUE else unquote(value) for key, value in values.items()},
        status.st_mtime_ns // 1_000_000,
        True,
        json.dumps({"numRecords": pq.read_metadata(final).num_rows}),
    )
