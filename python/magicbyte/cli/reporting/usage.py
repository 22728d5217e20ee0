"""Pages of their own: who uses how much of a log, and which ways its records went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from magicbyte.cli.output import human_bytes
from magicbyte.cli.reporting import charts, page, routes
from magicbyte.cli.reporting.page import Head, Section, Sheet, Tile, number, text

if TYPE_CHECKING:
    from magicbyte.routes import Routes

PARTS = ("key_bytes", "value_bytes", "header_bytes")
MOST_ROWS = 1000  # of a table


def chargeback(source: str, by: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """The page of ``magicbyte chargeback``: a bar and a row for each group."""
    whole = sum(row[part] for row in rows for part in PARTS)
    bars = [
        (" / ".join("-" if row[name] is None else row[name] for name in by), tuple(float(row[p]) for p in PARTS))
        for row in rows
    ]
    bars.sort(key=lambda bar: -sum(bar[1]))
    heads = [*(Head(name, wrap=True) for name in by),
             *(Head(name, number=True) for name in ("Records", "Keys", "Values", "Headers", "Bytes", "Share"))]  # fmt: skip
    cells = []
    for row in rows[:MOST_ROWS]:
        size = sum(row[part] for part in PARTS)
        cells.append([
            *(text("-" if row[name] is None else row[name]) for name in by), number(row["records"]),
            *(number(row[part], human_bytes(row[part])) for part in PARTS), number(size, human_bytes(size)),
            number(size / whole if whole else None, f"{size / whole:.1%}" if whole else None),
        ])  # fmt: skip
    drawn = charts.bars("Bytes by " + ", ".join(by), bars, ("keys", "values", "headers"), size=True)
    note = "Bytes of keys, values and headers as producers gave them, without batches and compression."
    tiles = [Tile("of payload", human_bytes(whole)), Tile("records", f"{sum(row['records'] for row in rows):,}"),
             Tile("groups", f"{len(rows):,}")]  # fmt: skip
    sheet = Sheet(heads, cells, _cut(len(rows)))
    return page.write(
        source, tiles, [Section("usage", "Who uses how much", note, [drawn], [sheet], all=True)], footer=False
    )


def trail(source: str, found: Routes) -> str:
    """The page of ``magicbyte trail``: the graph, and a row for each hop."""
    rows = found.table()
    hops = []
    for row in rows:
        mean = "" if row["mean_ms"] is None else f", {row['mean_ms']:,.0f} ms"
        hops.append((row["from"], row["to"], f"{row['records']:,}{mean}"))
    heads = [Head("From", wrap=True), Head("To", wrap=True), Head("Records", number=True),
             *(Head(name, number=True) for name in ("Least", "Mean", "Most"))]  # fmt: skip
    cells = [
        [text(row["from"]), text(row["to"]), number(row["records"])]
        + [number(row[m], None if row[m] is None else f"{row[m]:,.0f} ms") for m in ("min_ms", "mean_ms", "max_ms")]
        for row in rows[:MOST_ROWS]
    ]
    tiles = [
        Tile("records", f"{found.records:,}"), Tile("with a trail", f"{found.trails:,}"),
        Tile("in a loop", f"{found.loops:,}", "bad" if found.loops else ""),
        Tile("with a hop that cannot be read", f"{found.broken:,}", "bad" if found.broken else ""),
    ]  # fmt: skip
    drawn = [routes.graph("Ways of records, by place: records, mean latency", hops)] if hops else []
    sheet = Sheet(heads, cells, _cut(len(rows)))
    return page.write(source, tiles, [Section("routes", "Ways of records", "", drawn, [sheet], all=True)], footer=False)


def _cut(rows: int) -> str:
    return f"… and {rows - MOST_ROWS:,} more" if rows > MOST_ROWS else ""
