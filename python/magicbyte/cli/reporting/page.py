"""Writes a report as one HTML page that needs nothing else: no network, no file beside it.

Jinja escapes everything that it is given, unless it is `Markup`; only our own style, script and pictures are. What cannot be
printed stands as an escape besides, as on a terminal. The page's policy allows that one style and that one script, by
their hashes, and nothing from anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import click

from magicbyte._aside import written_aside
from magicbyte.cli import problems
from magicbyte.cli.output import escape


@dataclass(frozen=True)
class Cell:
    """What a cell shows, and what it sorts by (else its text)."""

    text: str
    sort: float | str | None = None


@dataclass(frozen=True)
class Head:
    """The head of a column: of numbers, of text, of text that may break lines."""

    name: str
    number: bool = False
    wrap: bool = False


@dataclass
class Sheet:
    """A table; ``more`` says what it leaves out, ``foot`` is a row that stays at the end."""

    heads: list[Head]
    cells: list[list[Cell]]
    more: str = ""
    foot: list[Cell] = field(default_factory=list)

    @property
    def rows(self) -> list[list[tuple[Cell, Head]]]:
        """The rows, each cell with its head."""
        return [list(zip(row, self.heads, strict=True)) for row in self.cells]

    @property
    def last(self) -> list[tuple[Cell, Head]]:
        """The row at the end, if there is one."""
        return list(zip(self.foot, self.heads, strict=False))


@dataclass
class Section:
    """A part of the page."""

    id: str
    title: str
    text: str = ""
    pictures: list[str] = field(default_factory=list)
    sheets: list[Sheet] = field(default_factory=list)
    all: bool = False  # over the whole width


@dataclass(frozen=True)
class Tile:
    """A figure at the head of the page; its mood is ``good``, ``bad`` or none."""

    name: str
    value: str
    mood: str = ""


def number(value: float | None, shown: str | None = None) -> Cell:
    """A number's cell; None is unknown, and sorts below all."""
    if value is None:
        return Cell("–", -1)
    return Cell(f"{value:,}" if shown is None else shown, value)


def text(value: str) -> Cell:
    """A text's cell, with escapes for what cannot be printed."""
    return Cell(escape(value))


def _own(name: str) -> str:
    return resources.files("magicbyte.cli.reporting").joinpath(name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"


def write(source: str, tiles: list[Tile], sections: list[Section], *, footer: bool = True) -> str:
    """The page; ``footer`` says where the figures of a report are from."""
    import jinja2
    from markupsafe import Markup

    from magicbyte import __version__

    css, js = _own("page.css").strip(), _own("page.js").strip()
    policy = (
        f"default-src 'none'; style-src {_hash(css)}; script-src {_hash(js)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    shown: list[dict[str, Any]] = [
        {**section.__dict__, "pictures": [Markup(p) for p in section.pictures]} for section in sections
    ]
    return environment.from_string(_own("page.html.jinja")).render(
        source=escape(source),
        version=__version__,
        made=datetime.now(UTC).strftime("%d %B %Y, %H:%M"),
        policy=policy,
        css=Markup(css),
        js=Markup(js),
        tiles=tiles,
        sections=shown,
        footer=footer,
    )


def drawable(output: str, option: str) -> bool:
    """Whether what a page needs is installed; says what is missing. Asked before hours of reading, not behind them.

    Raises:
        UsageError: the option names no file that can be written.
    """
    if output != "-" and (Path(output).is_dir() or not Path(output).absolute().parent.is_dir()):
        what = "is a directory" if Path(output).is_dir() else "its directory is not there"
        raise click.UsageError(f"{option} {output}: {what}; name a file to write")
    missing = [name for name in ("matplotlib", "jinja2") if importlib.util.find_spec(name) is None]
    if missing:
        problems.complain(f"a report needs {' and '.join(missing)}", "pip install 'magicbyte[report]'")
    return not missing


def put(html: str, output: str) -> None:
    """Writes a page to a file, or to standard output (``-``)."""
    if output == "-":
        sys.stdout.write(html)
        return
    # A page that is open in a browser never stands there half.
    with written_aside(output) as file:
        file.write(html.encode())
