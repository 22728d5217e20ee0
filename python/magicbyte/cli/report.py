"""`magicbyte report`: a log on one page, for a browser."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import click

from magicbyte.cli import problems
from magicbyte.cli.options import Selection, part_size, partitions, reading, sources
from magicbyte.cli.output import escape, human_bytes, to_json
from magicbyte.cli.progress import Progress

NEEDED = ("matplotlib", "jinja2")

HELP = """Draws a log on one page for a browser: topics by size, where the bytes go, header keys by weight, codecs, batch
sizes, records over time, time lag, producers, what v3 would save, and the defects found.

The page is one file that needs no network and loads nothing; everything that comes from the log stands in it as text.
The log is read as a stream, three times over (five with what v3 would save, which --no-savings leaves out).

\b
Examples:
  magicbyte report /kafka-logs -o report.html
  magicbyte report 'backup/2026-*/orders-*' -o orders.html --no-savings
  magicbyte report orders-0 -o - | ssh host 'cat > report.html'

Exit status: 0 written, and the log is sound; 1 written, and it has defects; 2 wrong usage or a file that cannot be read
or written; 3 nothing to read.
"""


@click.command("report", help=HELP)
@reading(mode="DROPMALFORMED")
@partitions
@click.option(
    "-o", "--output", default="report.html", show_default=True, help="The page to write; - is standard output."
)
@click.option("--savings/--no-savings", default=True, show_default=True, help="Measure what v3 would save.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line about what was written.")  # fmt: skip
def command(paths: tuple[str, ...], output: str, savings: bool, as_json: bool, **selected: Any) -> int:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        problems.complain(f"a report needs {' and '.join(missing)}", "pip install 'magicbyte[report]'")
        return problems.USAGE
    from magicbyte.cli.reporting import facts, page, sections

    # Before hours of reading, not behind them.
    if output != "-" and (Path(output).is_dir() or not Path(output).absolute().parent.is_dir()):
        what = "is a directory" if Path(output).is_dir() else "its directory is not there"
        raise click.UsageError(f"--output {output}: {what}; name a file to write")
    selection = Selection(**selected)
    with sources(paths, selection.format) as opened:
        parts = [part for source in opened.logs for part in selection.parts(source)]
        if not parts:
            return opened.nothing("no segments")
        passes = 4 if savings else 2
        with Progress(sum(map(part_size, parts)) * passes) as progress:
            found = facts.gather(opened, selection, with_savings=savings, advance=progress.to)
        if not found.total.batches and not found.counts:
            return opened.nothing("no batches")
        html = page.write(found.source, sections.tiles(found), sections.sections(found))
    _put(html, output)
    if output != "-":
        said = {"output": output, "bytes": len(html.encode()), "errors": found.errors, "records": found.total.records}
        line = f"{escape(output)}: {human_bytes(len(html.encode()))}, {found.total.records:,} records, {found.errors:,} errors"
        sys.stdout.write((to_json(said) if as_json else line) + "\n")
    return problems.DEFECTS if found.errors else problems.FINE


def _put(html: str, output: str) -> None:
    if output == "-":
        sys.stdout.write(html)
        return
    # Aside and renamed: a page that is open in a browser never stands there half.
    target = Path(output)
    aside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        aside.write_text(html, encoding="utf-8")
        aside.replace(target)
    finally:
        aside.unlink(missing_ok=True)
