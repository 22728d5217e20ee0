"""`magicbyte retain`: custom retention, by time, size and headers, into another directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from magicbyte.cli.options import Moment, as_bytes, dialect, files
from magicbyte.cli.rewritten import carry_out, overwrite

if TYPE_CHECKING:
    from magicbyte.middleware.predicates import Predicate
    from magicbyte.middleware.retention import Retention

HELP = """Writes what retention keeps of IN to OUT: whole segments as a broker's does, and records by their own headers.

IN is a partition directory (orders-0) or a directory of those, and is only ever read. OUT becomes the same, with fresh
indexes, and is put in its place when it is all there; what stands there already stays, unless --overwrite says so.
Offsets stay as they are. A record with a header that cannot be read
stays: a bad header loses no data. Times are milliseconds.

\b
Examples:
  magicbyte retain logs/ kept/ --retention-ms 604800000
  magicbyte retain logs/ kept/ --ttl-header ttl --hold legal-hold
  magicbyte retain logs/orders-0 kept/orders-0 --drop env=test --max-age-ms 86400000

Exit status: 0 done, 1 a partition is damaged, 2 wrong usage or a file that cannot be read or written, 3 nothing there.
"""


@click.command("retain", help=HELP)
@click.argument("source", metavar="IN", shell_complete=files)
@click.argument("target", metavar="OUT", shell_complete=files)
@dialect
@click.option("--retention-ms", type=click.IntRange(min=0), help="Oldest segments go by their latest record's time.")
@click.option("--retention-bytes", type=click.IntRange(min=0), help="Oldest segments go while the rest is no less.")
@click.option("--ttl-header", help="Header with the milliseconds that a record lives from its own timestamp on.")
@click.option("--expires-header", help="Header with the time at which a record ends, in milliseconds since 1970.")
@click.option("--max-age-ms", type=click.IntRange(min=0), help="Age at which records go that say nothing themselves.")
@click.option("--hold", metavar="NAME[=VALUE]", help="Records with this header are never dropped by themselves.")
@click.option("--drop", metavar="NAME[=VALUE]", help="Records with this header go.")
@click.option("--now", type=Moment(), help="The time that all is measured by; without it, the clock's.")
@overwrite
@click.option("--spark-master", metavar="URL", help="Work on Spark (local[4], spark://host:7077), a task a partition.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document about what was done.")
def command(
    source: str,
    target: str,
    format: str,
    overwrite: bool,
    retention_ms: int | None,
    retention_bytes: int | None,
    ttl_header: str | None,
    expires_header: str | None,
    max_age_ms: int | None,
    hold: str | None,
    drop: str | None,
    now: int | None,
    spark_master: str | None,
    as_json: bool,
) -> int:
    from magicbyte.rewriting import Retaining

    own: Retention | None = None
    if any(one is not None for one in (ttl_header, expires_header, max_age_ms, drop)):
        from magicbyte.middleware.retention import Retention

        own = Retention(
            ttl_header=ttl_header,
            expires_header=expires_header,
            max_age=max_age_ms,
            hold=None if hold is None else _predicate(hold),
            drop=None if drop is None else _predicate(drop),
        )
    if own is None and retention_ms is None and retention_bytes is None:
        raise click.UsageError("nothing says what is to go: --retention-ms, --ttl-header, --drop or another one")
    if hold is not None and (retention_ms is not None or retention_bytes is not None):
        raise click.UsageError(
            "--hold is asked record by record, and --retention-ms and --retention-bytes take whole segments without asking; "
            "--max-age-ms goes by records"
        )
    retaining = Retaining(own, retention_ms, retention_bytes, now)
    return carry_out(source, target, retaining, format, spark_master, as_json, overwrite=overwrite)


def _predicate(text: str) -> Predicate:
    from magicbyte.middleware.predicates import equals, has

    name, found, value = text.partition("=")
    return equals(name, as_bytes(value)) if found else has(name)
