"""The pictures of a report: SVG by matplotlib, without script, in colours that follow the page's light or dark.

Each is drawn twice, for a wide page and for a phone, so that its letters have one size everywhere; the page shows one of
them. What is drawn may come from a log: matplotlib gets it as plain text (no mathematics between dollar signs), and writes
it into the SVG as escaped text.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from magicbyte.cli.output import escape, human_bytes

WIDE, NARROW = 6.6, 3.4  # inches of 100 px
MOST_ROWS = 15
MOST_LETTERS = {WIDE: 34, NARROW: 18}

# Stand-ins that the page's own colours take the place of.
INK, FAINT = "#010203", "#010204"
SERIES = ("#010301", "#010302", "#010303", "#010304")
_VARIABLES = {INK: "--ink", FAINT: "--faint", **{colour: f"--c{n}" for n, colour in enumerate(SERIES, 1)}}

_STYLE = re.compile(r' style="([^"]*)"')
_OWN_IDS = re.compile(
    r' id="(figure|axes|patch|text|line2d|matplotlib\.axis|xtick|ytick|LineCollection|PolyCollection|FillBetweenPolyCollection|legend)'
    r'[^"]*"'
)

Draw = Callable[[Any, float], None]


@cache
def _matplotlib() -> Any:
    import matplotlib

    # What a font lacks, the browser's has: it gets the text, not its outlines.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.ERROR)
    matplotlib.rcParams.update({"svg.fonttype": "none", "text.parse_math": False, "axes.unicode_minus": False})
    return matplotlib


def picture(what: str, height: float, draw: Draw) -> str:
    """Both widths of a picture; ``what`` says in words what it shows."""
    from markupsafe import escape as html

    drawn = [
        f'<div class="{name}" role="img" aria-label="{html(what)}">{_svg(what + name, width, height, draw)}</div>'
        for name, width in (("wide", WIDE), ("narrow", NARROW))
    ]
    return f"<figure>{''.join(drawn)}<figcaption>{html(what)}</figcaption></figure>"


def _svg(salt: str, width: float, height: float, draw: Draw) -> str:
    matplotlib = _matplotlib()
    import warnings

    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": salt}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
        axes = figure.add_subplot()
        axes.set_facecolor("none")
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(FAINT)
        axes.tick_params(colors=INK, labelsize=9, length=0)
        draw(axes, width)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _tidy(out.getvalue())


def _tidy(svg: str) -> str:
    """An SVG to stand in a page with a strict policy: no styles, no ids that another picture has, the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = _OWN_IDS.sub("", svg)
    svg = _STYLE.sub(_attributes, svg)
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return svg


def _attributes(match: re.Match[str]) -> str:
    said = []
    for rule in match[1].split(";"):
        name, _, value = rule.partition(":")
        name, value = name.strip(), value.strip().replace('"', "'")
        if name == "font":
            size = re.search(r"([\d.]+)px", value)
            name, value = "font-size", size[1] if size else "9"
        if name in _KEPT:
            said.append(f' {name}="{value}"')
    return "".join(said)


_KEPT = frozenset(
    {"fill", "fill-opacity", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin", "stroke-dasharray", "opacity",
     "stroke-opacity", "font-size", "text-anchor", "dominant-baseline"}
)  # fmt: skip


def shortened(text: str, width: float) -> str:
    """A label that fits; the table beside the picture has the whole."""
    text = escape(text)
    most = MOST_LETTERS[width]
    return text if len(text) <= most else text[: most - 1] + "…"


def bars(what: str, rows: Sequence[tuple[str, Sequence[float]]], series: Sequence[str], *, size: bool) -> str:
    """Horizontal bars, stacked where there are several series; ``size``: the numbers are bytes."""
    shown = list(rows[:MOST_ROWS])[::-1]

    def draw(axes: Any, width: float) -> None:
        places = range(len(shown))
        left = [0.0] * len(shown)
        for number, name in enumerate(series):
            values = [row[1][number] for row in shown]
            axes.barh(places, values, left=left, color=SERIES[number], height=0.62, label=name)
            left = [a + b for a, b in zip(left, values, strict=True)]
        axes.set_yticks(places, [shortened(row[0], width) for row in shown])
        most = max(left, default=0) or 1
        for y, total in zip(places, left, strict=True):
            text = human_bytes(total) if size else f"{total:,.0f}"
            axes.text(total + most * 0.012, y, text, va="center", fontsize=9, color=INK)
        axes.set_xlim(0, most * (1.25 if width == NARROW else 1.14))
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        if len(series) > 1:
            axes.legend(
                loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=len(series) if width == WIDE else 2, frameon=False,
                labelcolor=INK, fontsize=9, handlelength=1.1,
            )  # fmt: skip

    return picture(what, 0.5 + 0.3 * len(shown) + (0.4 if len(series) > 1 else 0), draw)


def columns(what: str, rows: Sequence[tuple[str, int]]) -> str:
    """Upright bars, one a class."""

    def draw(axes: Any, width: float) -> None:
        places = range(len(rows))
        axes.bar(places, [count for _, count in rows], color=SERIES[0], width=0.72)
        step = 1 if width == WIDE or len(rows) < 7 else 2
        axes.set_xticks(places[::step], [name for name, _ in rows][::step])
        axes.set_yticks([])
        most = max((count for _, count in rows), default=0) or 1
        if width == WIDE or len(rows) < 9:
            for x, (_, count) in zip(places, rows, strict=True):
                axes.text(x, count + most * 0.02, f"{count:,}", ha="center", fontsize=8, color=INK)
        axes.set_ylim(0, most * 1.12)

    return picture(what, 2.4, draw)


def timeline(what: str, points: Sequence[tuple[int, int]], width_ms: int) -> str:
    """Counts over time, as steps."""

    def draw(axes: Any, width: float) -> None:
        first = points[0][0]
        # Seconds since the first: matplotlib's own dates end with the year 9999, a log's need not.
        edges: list[float] = []
        values: list[int] = []
        for start, count in points:
            at = (start - first) / 1000
            if edges and at > edges[-1]:
                edges.append(at)
                values.append(0)
            edges += [at + width_ms / 1000] if edges else [at, at + width_ms / 1000]
            values.append(count)
        axes.stairs(values, edges, fill=True, color=SERIES[0])
        axes.set_xlim(edges[0], edges[-1])
        axes.set_ylim(0, max(values) * 1.08)
        count = 5 if width == WIDE else 3
        ticks = [edges[0] + (edges[-1] - edges[0]) * n / (count - 1) for n in range(count)]
        axes.set_xticks(ticks, [moment(first + tick * 1000, edges[-1] - edges[0]) for tick in ticks])
        for label, place in zip(axes.get_xticklabels(), ["left", *["center"] * (count - 2), "right"], strict=True):
            label.set_ha(place)
        axes.yaxis.set_major_locator(_matplotlib().ticker.MaxNLocator(4, integer=True))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(axis="y", color=FAINT, linewidth=0.6)
        axes.set_axisbelow(True)

    return picture(what, 2.6, draw)


def moment(milliseconds: float, span: float) -> str:
    """A time for an axis that covers ``span`` seconds, in UTC."""
    try:
        time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds:.0f} ms"
    return time.strftime(
        "%H:%M:%S\n%d %b %Y" if span < 3600 else "%H:%M\n%d %b %Y" if span < 30 * 86_400 else "%d %b\n%Y"
    )
