"""A graph of places and the hops between them, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from magicbyte.cli.reporting.charts import INK, NARROW, SERIES, picture, shortened

MOST = 12
"""Hops that are drawn; the table has them all."""

Hop = tuple[str, str, str]
"""From, to, what stands on the arrow."""


def levels(hops: Sequence[Hop]) -> list[list[str]]:
    """Places by how many hops they are from where records begin; in a loop, from its first place that is met."""
    follows: dict[str, list[str]] = {}
    into = {to for _, to, _ in hops}
    for origin, to, _ in hops:
        follows.setdefault(origin, []).append(to)
        follows.setdefault(to, [])
    level: dict[str, int] = {}
    begun = [name for name in follows if name not in into]
    while len(level) < len(follows):
        here = begun or [next(name for name in follows if name not in level)]
        depth = 0
        while here:
            level.update((name, depth) for name in here if name not in level)
            here = list(dict.fromkeys(to for name in here for to in follows[name] if to not in level))
            depth += 1
        begun = []
    found: list[list[str]] = [[] for _ in range(max(level.values(), default=-1) + 1)]
    for name in follows:
        found[level[name]].append(name)
    return found


def graph(what: str, hops: Sequence[Hop]) -> str:
    """The first hops given, as arrows from place to place; records go downwards, and back only in loops."""
    shown = list(hops[:MOST])
    rows = levels(shown)
    places = {
        name: ((at + 1) / (len(row) + 1), float(-depth))
        for depth, row in enumerate(rows)
        for at, name in enumerate(row)
    }

    def draw(axes: Any, width: float) -> None:
        size = 7 if width == NARROW else 8.5
        both = {(origin, to) for origin, to, _ in shown}
        for origin, to, said in shown:
            (x0, y0), (x1, y1) = places[origin], places[to]
            bend = 0.25 if (to, origin) in both or y1 >= y0 else 0.0
            if origin == to:
                axes.text(x0, y0 - 0.3, f"↺ {said}", ha="center", va="center", fontsize=size - 1, color=SERIES[1])
                continue
            axes.annotate(
                "", (x1, y1 + (0.16 if y1 < y0 else -0.16)), (x0, y0 + (-0.16 if y1 < y0 else 0.16)),
                arrowprops={
                    "arrowstyle": "-|>", "color": SERIES[0] if y1 < y0 else SERIES[1], "linewidth": 1.2,
                    "connectionstyle": f"arc3,rad={bend}",
                },
            )  # fmt: skip
            # Not in the middle: where arrows cross, what stands beside them does not.
            x, y = x0 + (x1 - x0) * 0.4, y0 + (y1 - y0) * 0.4
            axes.text(x + bend * 0.2 + 0.012, y, said, ha="left", va="center", fontsize=size - 1, color=INK)
        for name, (x, y) in places.items():
            axes.text(x, y, shortened(name, width), ha="center", va="center", fontsize=size, color=INK, weight="bold")
        axes.set_xlim(0, 1)
        axes.set_ylim(0.4 - len(rows), 0.4)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines["bottom"].set_visible(False)

    return picture(what, 0.6 + 0.9 * len(rows), draw)
