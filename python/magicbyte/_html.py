"""How a log shows in a notebook: a table of its partitions, by their names and sizes alone; nothing is read for it."""

from __future__ import annotations

from html import escape
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .log import Log

MOST_ROWS = 50


def log_table(log: Log) -> str:
    """The table as HTML; every name is escaped."""
    rows = []
    for (topic, partition), group in groupby(log.segments, lambda segment: (segment.topic, segment.partition)):
        segments = list(group)
        first = segments[0].base_offset
        rows.append((topic or "?", partition if partition >= 0 else "?", len(segments), sum(s.size for s in segments),
                     first if first >= 0 else "?"))  # fmt: skip
    cells = "".join(
        f"<tr><td>{_shown(topic)}</td><td>{partition}</td><td>{count:,}</td><td>{size:,}</td><td>{first}</td></tr>"
        for topic, partition, count, size, first in rows[:MOST_ROWS]
    )
    more = f"<p>… and {len(rows) - MOST_ROWS:,} more partitions</p>" if len(rows) > MOST_ROWS else ""
    left = f"; {len(log.left_out):,} files left out" if log.left_out else ""
    head = "".join(f"<th>{name}</th>" for name in ("topic", "partition", "segments", "bytes", "first offset"))
    title = f"{_shown(log.source or 'bytes')}: {len(rows):,} partitions, {len(log.segments):,} segments, {log.size:,} bytes{left}"
    return f"<table><caption>{title}</caption><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>{more}"


def _shown(text: str) -> str:
    return escape("".join(c if c.isprintable() else "\ufffd" for c in text))
