"""`magicbyte chargeback`: who uses how much of a log, by headers and topic."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from magicbyte.cli import problems
from magicbyte.cli.options import dialect, files, one_log
from magicbyte.cli.output import escape, human_bytes, table, to_json
from magicbyte.cli.progress import Progress

if TYPE_CHECKING:
    from magicbyte.log import Log

HELP = """Sums up records and bytes by headers and by topic: what a tenant, a producer or a route takes.

Bytes are those of keys, of values, and of headers' keys and values: what producers gave, not what batches and codecs
make of it. The last header of a name counts; a record without it stands under -. Records of aborted transactions count,
too: they are stored.

\b
Examples:
  magicbyte chargeback logs/ --by tenant --by topic
  magicbyte chargeback logs/ --by tenant --plot usage.html
  magicbyte chargeback logs/ --by client.id --json --spark-master 'local[*]'

Exit status: 0 fine, 1 the log is damaged, 2 wrong usage or a file that cannot be read, 3 no record.
"""


@click.command("chargeback", help=HELP)
@click.argument("source", metavar="PATH", shell_complete=files)
@click.option("--by", "by", multiple=True, required=True, metavar="NAME", help="A header's name, or topic.")
@click.option("--groups", type=click.IntRange(min=1), default=10_000, show_default=True,
              help="Most rows; what comes later is counted as (others).")  # fmt: skip
@dialect
@click.option("--spark-master", metavar="URL", help="Work on Spark (local[4], spark://host:7077).")
@click.option(
    "--plot", metavar="FILE", help="A page for a browser, too, with a picture and the table (- for standard output)."
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines.")
def command(
    source: str,
    by: tuple[str, ...],
    groups: int,
    format: str,
    spark_master: str | None,
    plot: str | None,
    as_json: bool,
) -> int:
    if plot is not None:
        from magicbyte.cli.reporting import page

        if not page.drawable(plot, "--plot"):
            return problems.USAGE
    try:
        with one_log(source, format) as log:
            rows = _rows(log, by, groups, spark_master)
    except ValueError as error:
        problems.complain(str(error))
        return problems.USAGE
    if plot is not None and rows:
        from magicbyte.cli.reporting import page, usage

        page.put(usage.chargeback(source, by, rows), plot)
    if plot == "-":
        pass
    elif as_json:
        for row in rows:
            sys.stdout.write(to_json(row) + "\n")
    elif rows:
        sys.stdout.write("\n".join(_table(by, rows)) + "\n")
    return problems.FINE if rows else problems.NOTHING


def _rows(log: Log, by: tuple[str, ...], groups: int, master: str | None) -> list[dict[str, Any]]:
    if master is None:
        from magicbyte.usage import chargeback

        with Progress(log.size) as progress:
            return chargeback(log, *by, groups=groups, progress=progress.to).table()
    try:
        from magicbyte.spark import usage
        from magicbyte.spark.jobs import session
    except ImportError as error:
        raise click.UsageError(f"--spark-master: {error}") from None
    with session(master, "chargeback") as spark, Progress(log.size) as progress:
        return usage.chargeback(spark, log, *by, groups=groups, progress=progress.to).table()


def _table(by: tuple[str, ...], rows: list[dict[str, Any]]) -> list[str]:
    numbers = ("RECORDS", "KEYS", "VALUES", "HEADERS", "BYTES", "SHARE")
    whole = sum(_bytes(row) for row in rows)
    cells = []
    for row in rows:
        sizes = [human_bytes(row[name]) for name in ("key_bytes", "value_bytes", "header_bytes")]
        share = f"{_bytes(row) / whole:.1%}" if whole else "-"
        names = ["-" if row[name] is None else escape(row[name]) for name in by]
        cells.append([*names, f"{row['records']:,}", *sizes, human_bytes(_bytes(row)), share])
    return table((*(escape(name) for name in by), *numbers), cells, frozenset(numbers))


def _bytes(row: dict[str, Any]) -> int:
    return int(row["key_bytes"] + row["value_bytes"] + row["header_bytes"])
