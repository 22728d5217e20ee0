"""`magicbyte clean`: the log cleaner, into another directory."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import click

from magicbyte.cli import problems
from magicbyte.cli.convert import refuse_target
from magicbyte.cli.options import Moment, dialect, files, sources
from magicbyte.cli.output import counted, escape, human_bytes, place, to_json
from magicbyte.cli.progress import Progress
from magicbyte.cli.rewritten import overwrite as overwrite_option

if TYPE_CHECKING:
    from magicbyte.cleaning import Cleaned, Cleaning
    from magicbyte.interceptors import Chain
    from magicbyte.log import Log

HELP = """Cleans a log as a broker's log cleaner does: of each key the latest record stays, offsets as they are.

IN is a partition directory (orders-0) or a directory of those, and is only ever read. OUT becomes the same, with fresh
indexes, and is put in its place when it is all there; what stands there already stays, unless --overwrite says so. As on a
broker, the last segment of a partition is not cleaned, nor what lies behind an open transaction. Tombstones go
delete.retention.ms after the cleaning that could first have dropped them; records of aborted transactions at once; batches
that remember a producer's sequence stay, empty. Records without a key go: a compacted topic has none.

Options have the names and the defaults of Kafka's settings; times are milliseconds, sizes bytes. A damaged partition is
not cleaned, and the others are.

\b
Examples:
  magicbyte clean logs/orders-0 cleaned/orders-0
  magicbyte clean logs/ cleaned/ --strategy header --header version
  magicbyte clean logs/ cleaned/ --retention-ms 604800000 --spark-master 'local[*]'
  magicbyte clean logs/ cleaned/ --chain house.chains:at_compaction

Exit status: 0 cleaned, 1 a partition is damaged, 2 wrong usage or a file that cannot be read or written, 3 nothing to
clean.
"""

GONE = {
    "outranked": "outranked by a later one of their key",
    "tombstones": "tombstones whose time was over",
    "aborted": "of aborted transactions",
    "without_key": "without a key",
}
DAY = 86_400_000
SIZE = click.IntRange(min=1)
TIME = click.IntRange(min=0)


@click.command("clean", help=HELP)
@click.argument("source", metavar="IN", shell_complete=files)
@click.argument("target", metavar="OUT", shell_complete=files)
@dialect
@click.option("--strategy", type=click.Choice(("offset", "timestamp", "header")), default="offset", show_default=True,
              help="Which record of a key wins (KIP-280).")  # fmt: skip
@click.option("--header", default="version", show_default=True, help="The header that holds the version.")
@click.option("--delete-retention-ms", type=TIME, default=DAY, show_default=True, help="How long tombstones stay.")
@click.option("--min-compaction-lag-ms", type=TIME, default=0, show_default=True, help="Younger segments stay as is.")
@click.option("--retention-ms", type=TIME, help="compact,delete: oldest segments go by time.")
@click.option("--retention-bytes", type=TIME, help="compact,delete: oldest segments go by size.")
@click.option("--segment-bytes", type=SIZE, default=1 << 30, show_default=True, help="Join segments up to this size.")
@click.option("--producer-id-expiration-ms", type=TIME, default=DAY, show_default=True,
              help="Producers that were silent so long are forgotten.")  # fmt: skip
@click.option("--dedupe-buffer-size", type=SIZE, default=128 << 20, show_default=True,
              help="Memory for keys; with more of them there are more passes.")  # fmt: skip
@click.option("--clean-active", is_flag=True, help="Clean the last segment too, which a broker never does.")
@click.option("--chain", metavar="MODULE:NAME",
              help="What is kept goes through these interceptors, which may change value and headers or drop it.")  # fmt: skip
@overwrite_option
@click.option("--now", type=Moment(), help="The time of the cleaning; without it, the clock's.")
@click.option("--spark-master", metavar="URL", help="Clean on Spark (local[4], spark://host:7077), a task a partition.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document about what was done.")
def command(
    source: str,
    target: str,
    format: str,
    chain: str | None,
    overwrite: bool,
    spark_master: str | None,
    as_json: bool,
    **settings: Any,
) -> int:
    from magicbyte.cleaning import Cleaning

    refuse_target(source, target, overwrite)

    cleaning = Cleaning(**settings)
    links = None if chain is None else _chain(chain)
    with sources((source,), format) as opened:
        one = opened.the_one()
        if one is None:
            return opened.nothing("no segments")
        log = one.log
        try:
            if spark_master is None:
                done = _here(log, target, cleaning, links)
            else:
                done = _spark(log, target, cleaning, links, spark_master)
        except ValueError as error:
            problems.complain(str(error))
            return problems.USAGE
    _show(done, as_json)
    return problems.DEFECTS if done.uncleanable else problems.FINE


def _chain(name: str) -> Chain:
    """What stands under that name in a module, found as by ``python -m``: the current directory first."""
    from magicbyte.interceptors import as_chain

    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module)
        for part in (attribute or "chain").split("."):
            found = getattr(found, part)
        return as_chain(found)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise click.BadParameter(f"{name}: {error}", param_hint="--chain") from None


def _here(log: Log, target: str, cleaning: Cleaning, chain: Chain | None) -> Cleaned:
    from magicbyte.cleaning import clean

    # Read once for keys, once to be written; more often where the keys do not fit.
    with Progress(2 * log.size) as progress:
        return clean(log, target, cleaning, strict=False, chain=chain, progress=progress.to)


def _spark(log: Log, target: str, cleaning: Cleaning, chain: Chain | None, master: str) -> Cleaned:
    try:
        from magicbyte.spark.clean import clean
        from magicbyte.spark.jobs import session
    except ImportError as error:
        raise click.UsageError(f"--spark-master: {error}") from None
    with session(master, "clean") as spark, Progress(log.size) as progress:
        return clean(spark, log, target, cleaning, strict=False, chain=chain, progress=progress.to)


def _show(done: Cleaned, as_json: bool) -> None:
    for _, _, error in done.uncleanable:
        problems.damage(str(error.path or ""), error, "not cleaned; magicbyte recover makes a sound copy")
    if as_json:
        sys.stdout.write(to_json(_document(done)) + "\n")
        return
    for one in done.partitions:
        change = (one.written - one.bytes) / one.bytes if one.bytes else 0.0
        sizes = f"{human_bytes(one.bytes)} -> {human_bytes(one.written)} ({change:+.1%})"
        segments = f"{one.segments:,} -> {counted(one.segments_written, 'segment')}"
        sys.stdout.write(f"{escape(place(one.topic, one.partition))}: {sizes}, {segments}, up to offset {one.bound}\n")
    counts = done.counts
    sys.stdout.write(f"{counted(counts['records'], 'record')} read, {counts['kept']:,} kept\n")
    if done.partitions and not counts["records"]:
        sys.stdout.write(
            "  the last segment of a partition is not cleaned, as on a broker: --clean-active cleans it too\n"
        )
    for name, words in GONE.items():
        if counts[name]:
            sys.stdout.write(f"  {counts[name]:,} {words}\n")
    if counts["chain_records"]:
        text = f"{counts['chain_changed']:,} changed, {counts['chain_dropped']:,} dropped"
        sys.stdout.write(f"{counted(counts['chain_records'], 'record')} through the chain: {text}\n")
    if counts["markers"]:
        sys.stdout.write(f"  and {counted(counts['markers'], 'transaction marker')}\n")
    rate = human_bytes(done.bytes / done.seconds) if done.seconds else "?"
    sys.stdout.write(f"{human_bytes(done.bytes)} -> {human_bytes(done.written)} in {done.seconds:.1f} s ({rate}/s)\n")


def _document(done: Cleaned) -> dict[str, Any]:
    return {
        "partitions": [
            {"topic": one.topic, "partition": one.partition, "directory": one.directory, "bound": one.bound,
             "bytes": one.bytes, "written": one.written, "segments": one.segments,
             "segmentsWritten": one.segments_written, "deleted": one.deleted, "counts": dict(one.counts)}
            for one in done.partitions
        ],
        "uncleanable": [
            {"topic": topic, "partition": partition, "path": error.path, "position": error.position,
             "kind": error.kind, "message": str(error)}
            for topic, partition, error in done.uncleanable
        ],
        "bytes": done.bytes,
        "written": done.written,
        "seconds": done.seconds,
    }  # fmt: skip
