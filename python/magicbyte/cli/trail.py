"""`magicbyte trail`: the routes of records across clusters, from the routing-trail header."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from magicbyte.cli import problems
from magicbyte.cli.options import dialect, files, one_log
from magicbyte.cli.output import counted, escape, table, to_json
from magicbyte.cli.progress import Progress

if TYPE_CHECKING:
    from magicbyte.log import Log
    from magicbyte.routes import Routes

HELP = """Rebuilds the routes of records across clusters: each hop, how many took it, how long it took, and loops.

What counts is the header that the Trail middleware writes. A hop's latency is the time from one arrival to the next; that of
the first hop counts from the record's own timestamp.

\b
Examples:
  magicbyte trail logs/
  magicbyte trail logs/ --plot routes.html
  magicbyte trail logs/ --dot | dot -Tsvg > routes.svg
  magicbyte trail logs/ --json --spark-master 'local[*]'

Exit status: 0 fine, 1 the log is damaged, 2 wrong usage or a file that cannot be read, 3 no record has a trail.
"""


@click.command("trail", help=HELP)
@click.argument("source", metavar="PATH", shell_complete=files)
@click.option("--header", default="mb.trail", show_default=True, help="The header's name.")
@click.option("--groups", type=click.IntRange(min=1), default=10_000, show_default=True,
              help="Most hops to tell apart; what comes later is only counted.")  # fmt: skip
@dialect
@click.option("--spark-master", metavar="URL", help="Work on Spark (local[4], spark://host:7077).")
@click.option("--dot", "as_dot", is_flag=True, help="The graph, in Graphviz's language.")
@click.option(
    "--plot", metavar="FILE", help="A page for a browser, too, with the graph and the table (- for standard output)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    source: str,
    header: str,
    groups: int,
    format: str,
    spark_master: str | None,
    as_dot: bool,
    plot: str | None,
    as_json: bool,
) -> int:
    if as_dot and as_json:
        raise click.UsageError("--dot or --json, not both")
    if plot is not None:
        from magicbyte.cli.reporting import page

        if not page.drawable(plot, "--plot"):
            return problems.USAGE
    with one_log(source, format) as log:
        found = _found(log, header, groups, spark_master)
    if plot is not None and found.trails:
        from magicbyte.cli.reporting import page, usage

        page.put(usage.trail(source, found), plot)
    if plot == "-":
        pass
    elif as_dot:
        sys.stdout.write(found.dot())
    elif as_json:
        document = {"records": found.records, "trails": found.trails, "broken": found.broken, "loops": found.loops,
                    "leftOut": found.left_out, "hops": found.table()}  # fmt: skip
        sys.stdout.write(to_json(document) + "\n")
    else:
        _show(found)
    return problems.FINE if found.trails else problems.NOTHING


def _found(log: Log, header: str, groups: int, master: str | None) -> Routes:
    if master is None:
        from magicbyte.routes import routes

        with Progress(log.size) as progress:
            return routes(log, header=header, groups=groups, progress=progress.to)
    try:
        from magicbyte.spark import usage
        from magicbyte.spark.jobs import session
    except ImportError as error:
        raise click.UsageError(f"--spark-master: {error}") from None
    with session(master, "trail") as spark, Progress(log.size) as progress:
        return usage.routes(spark, log, header=header, groups=groups, progress=progress.to)


def _show(found: Routes) -> None:
    numbers = ("RECORDS", "LEAST", "MEAN", "MOST")
    rows = [
        [escape(row["from"]), escape(row["to"]), f"{row['records']:,}"]
        + ["-" if row[name] is None else f"{row[name]:,.0f} ms" for name in ("min_ms", "mean_ms", "max_ms")]
        for row in found.table()
    ]
    if rows:
        sys.stdout.write("\n".join(table(("FROM", "TO", *numbers), rows, frozenset(numbers))) + "\n")
    said = f"{counted(found.records, 'record')}, {found.trails:,} with a trail"
    if found.loops:
        said += f", {found.loops:,} of them in a loop"
    if found.broken:
        said += f", {found.broken:,} with a hop that cannot be read"
    if found.left_out:
        said += f"; {counted(found.left_out, 'hop')} more of other routes"
    sys.stdout.write(said + "\n")
