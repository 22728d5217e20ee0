"""``ChargeBack`` over Arrow: bytes are summed in columns, groups are named once for each different value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ._arrow import HeaderColumn, binary, column
from .chargeback import SUMS, shown

if TYPE_CHECKING:
    from .chargeback import ChargeBack


def measured(meter: ChargeBack, batch: pa.RecordBatch) -> None:
    """Adds the rows of a batch."""
    headers = HeaderColumn.of(batch)
    names = []
    for name in meter.by:
        if name == "topic":
            names.append(column(batch, "topic").cast(pa.string()))
            continue
        coded = headers.last(name)[0].dictionary_encode()
        said = [shown(name, value) for value in coded.dictionary.to_pylist()]
        names.append(pa.array(said, pa.string()).take(coded.indices))
    lengths = pc.add(
        pc.fill_null(pc.binary_length(binary(headers.keys)), 0),
        pc.fill_null(pc.binary_length(binary(headers.values)), 0),
    )
    in_headers = np.bincount(
        headers.parents, weights=lengths.to_numpy(zero_copy_only=False), minlength=headers.rows
    ).astype(np.int64)
    sums = [
        pa.array(np.ones(headers.rows, dtype=np.int64)),
        *(pc.fill_null(pc.binary_length(column(batch, one)), 0).cast(pa.int64()) for one in ("key", "value")),
        pa.array(in_headers),
    ]
    own = [f"by{number}" for number in range(len(names))]
    table = pa.Table.from_arrays([*names, *sums], names=[*own, *SUMS])
    # In order of first appearance, as records would make the groups.
    grouped = table.group_by(own, use_threads=False).aggregate([(name, "sum") for name in SUMS])
    for row in grouped.to_pylist():
        meter.add(tuple(row[name] for name in own), [row[f"{name}_sum"] for name in SUMS])
