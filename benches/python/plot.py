"""Draws ``target/bench-growth.json`` as lines: ``plot.py [OUT.svg]``, by default ``docs/growth.svg``. No plotting library."""

from __future__ import annotations

import json
import math
import os
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))
WIDTH, HEIGHT, EDGE = 340, 200, 46
COLOURS = {"scan": "#1f6feb", "columns": "#d1652a"}


def panel(name: str, points: list[dict[str, Any]], left: float, top: float) -> list[str]:
    """One quantity that grows: a logarithmic x axis, and nanoseconds from zero on."""
    xs = [math.log(point["x"]) for point in points]
    most = 1.25 * max(max(point[line] for line in COLOURS) for point in points)
    wide, high = WIDTH - EDGE - 20, HEIGHT - 2 * EDGE
    x = [left + EDGE + wide * (value - xs[0]) / (xs[-1] - xs[0]) for value in xs]
    base = top + HEIGHT - EDGE

    def y(value: float) -> float:
        return base - high * value / most

    out = [f'<text x="{left + EDGE}" y="{top + 22}" class="name">{name}</text>']
    for part in (0, 0.5, 1):
        level = y(most * part)
        out.append(f'<path d="M{left + EDGE} {level:.1f}h{wide}" class="grid"/>')
        out.append(f'<text x="{left + EDGE - 6}" y="{level + 4:.1f}" text-anchor="end">{most * part:.0f}</text>')
    for place, point in zip(x, points, strict=True):
        out.append(f'<text x="{place:.1f}" y="{base + 16}" text-anchor="middle">{point["x"]:,}</text>')
    for line, colour in COLOURS.items():
        corners = [(place, y(point[line])) for place, point in zip(x, points, strict=True)]
        path = "L".join(f"{a:.1f} {b:.1f}" for a, b in corners)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in corners]
    return out


def main() -> None:
    """Reads, draws, writes."""
    points = json.loads((TARGET / "bench-growth.json").read_text())
    lines = [(name, list(group)) for name, group in groupby(points, key=lambda point: point["line"])]
    rows = (len(lines) + 1) // 2
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{2 * WIDTH}" height="{rows * HEIGHT + 30}" font-family="sans-serif">',
        "<style>text{font-size:11px;fill:#444}.name{font-size:12px;fill:#111}.grid{stroke:#ddd}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for at, (name, group) in enumerate(lines):
        out += panel(name, group, at % 2 * WIDTH, at // 2 * HEIGHT)
    legend = rows * HEIGHT + 14
    for at, (line, colour) in enumerate(COLOURS.items()):
        out.append(f'<rect x="{EDGE + at * 90}" y="{legend - 9}" width="10" height="10" fill="{colour}"/>')
        out.append(f'<text x="{EDGE + at * 90 + 15}" y="{legend}">{line}</text>')
    out.append(
        f'<text x="{EDGE + 200}" y="{legend}">nanoseconds a record (a header, where headers grow); best of many passes</text>'
    )
    out.append("</svg>")
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else REPO / "docs" / "growth.svg"
    path.write_text("\n".join(out) + "\n")
    print(f"drawn: {path}")


if __name__ == "__main__":
    main()
