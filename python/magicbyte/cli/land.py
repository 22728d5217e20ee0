"""`magicbyte land`: logs into Parquet files or a Delta table, what is new each time."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from magicbyte.cli import problems
from magicbyte.cli.convert import refuse_target
from magicbyte.cli.options import ISOLATIONS, dialect, files, sources
from magicbyte.cli.output import counted, human_bytes, to_json
from magicbyte.cli.progress import Progress
from magicbyte.errors import CorruptRecordError

if TYPE_CHECKING:
    from magicbyte.landing import Landed, Landing
    from magicbyte.log import Log

HELP = """Lands a log in Parquet files, a directory a topic and day: OUT/topic=orders/date=2026-11-21/….parquet

IN is a segment file, a partition directory or a directory of those. Columns are those of Spark's Kafka source; the day is
that of the record's timestamp, in UTC. Run again, it takes only what is new: OUT/_magicbyte tells up to where each
partition has landed. A run that ends early, whyever it does, leaves nothing that the next one doubles.

\b
Examples:
  magicbyte land logs/ lake/
  magicbyte land logs/ lake/ --isolation read_committed --spark-master 'local[*]'
  magicbyte land logs/ table/ --table delta

Exit status: 0 landed, perhaps nothing new, 1 the log is damaged and nothing landed, 2 wrong usage, records that are gone
before they landed, or a file that cannot be read or written, 3 no segment there.
"""


@click.command("land", help=HELP)
@click.argument("source", metavar="IN", shell_complete=files)
@click.argument("target", metavar="OUT", shell_complete=files)
@dialect
@click.option("--isolation", type=click.Choice(ISOLATIONS), default="read_uncommitted", show_default=True,
              help="read_committed leaves out what was aborted, and what is not decided until the next run.")  # fmt: skip
@click.option("--table", type=click.Choice(("parquet", "delta")), default="parquet", show_default=True,
              help="Plain files, or a Delta table.")  # fmt: skip
@click.option("--compression", type=click.Choice(("zstd", "snappy", "lz4", "gzip", "none")), default="zstd",
              show_default=True, help="Of the Parquet files.")  # fmt: skip
@click.option("--target-bytes", type=click.IntRange(min=1), default=256 << 20, show_default=True,
              help="Bytes of the log that go to one task.")  # fmt: skip
@click.option("--fail-on-data-loss/--no-fail-on-data-loss", default=True, show_default=True,
              help="At records that are gone before they landed: an error.")  # fmt: skip
@click.option("--spark-master", metavar="URL", help="Work on Spark (local[4], spark://host:7077).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document about what was done.")
def command(source: str, target: str, format: str, spark_master: str | None, as_json: bool, **options: Any) -> int:
    # What is there is gone on with; only never beside what is read.
    refuse_target(source, target, overwrite=True)
    try:
        from magicbyte.landing import Landing

        landing = Landing(format=format, **options)
        with sources((source,), format) as opened:
            one = opened.the_one()
            if one is None:
                return opened.nothing("no segments")
            log = one.log
            done = _here(log, target, landing) if spark_master is None else _spark(log, target, landing, spark_master)
    except ImportError as error:
        raise click.UsageError(str(error)) from None
    except CorruptRecordError as error:
        problems.damage(error.path or source, error, "nothing landed; magicbyte recover makes a sound copy")
        return problems.DEFECTS
    except ValueError as error:
        problems.complain(str(error))
        return problems.USAGE
    if as_json:
        offsets = [{"topic": topic, "partition": number, "offset": at} for (topic, number), at in done.offsets.items()]
        document = {"records": done.records, "bytes": done.bytes, "files": done.files, "offsets": offsets,
                    "seconds": done.seconds}  # fmt: skip
        sys.stdout.write(to_json(document) + "\n")
    else:
        rate = human_bytes(done.bytes / done.seconds) if done.seconds else "?"
        what = f"{counted(done.records, 'record')} in {counted(len(done.files), 'file')}"
        sys.stdout.write(f"{what}: {human_bytes(done.bytes)} read in {done.seconds:.1f} s ({rate}/s)\n")
    return problems.FINE


def _here(log: Log, target: str, landing: Landing) -> Landed:
    from magicbyte.landing import land

    with Progress(log.size) as progress:
        return land(log, target, landing, progress=progress.to)


def _spark(log: Log, target: str, landing: Landing, master: str) -> Landed:
    try:
        from magicbyte.spark.jobs import session
        from magicbyte.spark.land import land
    except ImportError as error:
        raise click.UsageError(f"--spark-master: {error}") from None
    with session(master, "land") as spark, Progress(log.size) as progress:
        return land(spark, log, target, landing, progress=progress.to)
