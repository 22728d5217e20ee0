"""`magicbyte report`: a log on one page, for a browser."""

from __future__ import annotations

import sys
from typing import Any

import click

from magicbyte.cli import problems
from magicbyte.cli.options import Selection, part_size, partitions, reading, sources
from magicbyte.cli.output import escape, human_bytes, to_json
from magicbyte.cli.progress import Progress

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
    from magicbyte.cli.reporting import page

    if not page.drawable(output, "--output"):
        return problems.USAGE
    from magicbyte.cli.reporting import facts, sections

    selection = Selection(**selected)
    with sources(paths, selection.format, as_stored=True) as opened:
        parts = [part for source in opened.logs for part in selection.parts(source)]
        if not parts:
            return opened.nothing("no segments")
        passes = 4 if savings else 2
        with Progress(sum(map(part_size, parts)) * passes) as progress:
            found = facts.gather(opened, selection, with_savings=savings, advance=progress.to)
        if not found.total.batches and not found.counts:
            return opened.nothing("no batches")
        html = page.write(found.source, sections.tiles(found), sections.sections(found))
    page.put(html, output)
    if output != "-":
        said = {"output": output, "bytes": len(html.encode()), "errors": found.errors, "records": found.total.records}
        line = f"{escape(output)}: {human_bytes(len(html.encode()))}, {found.total.records:,} records, {found.errors:,} errors"
        sys.stdout.write((to_json(said) if as_json else line) + "\n")
    if found.errors:
        return problems.DEFECTS
    return problems.FINE if found.total.records else problems.NOTHING
