"""What `retain` and `redact` share: the work, here or on Spark, and what is said of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from magicbyte.cli import problems
from magicbyte.cli.convert import refuse_target
from magicbyte.cli.options import sources
from magicbyte.cli.output import counted, human_bytes, to_json
from magicbyte.cli.progress import Progress

if TYPE_CHECKING:
    from magicbyte.log import Log
    from magicbyte.rewriting import Redaction, Retaining, Rewritten


overwrite = click.option("--overwrite", is_flag=True, help="Replace what stands at OUT.")


def carry_out(
    source: str,
    target: str,
    what: Retaining | Redaction,
    format: str,
    spark_master: str | None,
    as_json: bool,
    *,
    overwrite: bool,
) -> int:
    """Writes ``source`` again into ``target``, tells what was done, and returns the exit status."""
    refuse_target(source, target, overwrite)
    with sources((source,), format) as opened:
        one = opened.the_one()
        if one is None:
            return opened.nothing("no segments")
        log = one.log
        try:
            done = _here(log, target, what) if spark_master is None else _spark(log, target, what, spark_master)
        except ValueError as error:
            problems.complain(str(error))
            return problems.USAGE
    for _, _, damage in done.unreadable:
        problems.damage(str(damage.path or ""), damage, "not written; magicbyte recover makes a sound copy")
    _show(done, target, as_json)
    return problems.DEFECTS if done.unreadable else problems.FINE


def _here(log: Log, target: str, what: Retaining | Redaction) -> Rewritten:
    from magicbyte.rewriting import Redaction, redact, retain

    with Progress(log.size) as progress:
        if isinstance(what, Redaction):
            return redact(log, target, what, strict=False, progress=progress.to)
        return retain(log, target, what, strict=False, progress=progress.to)


def _spark(log: Log, target: str, what: Retaining | Redaction, master: str) -> Rewritten:
    try:
        from magicbyte.spark.jobs import session
        from magicbyte.spark.rewrite import rewrite
    except ImportError as error:
        raise click.UsageError(f"--spark-master: {error}") from None
    with session(master, "rewrite") as spark, Progress(log.size) as progress:
        return rewrite(spark, log, target, what, strict=False, progress=progress.to)


def _show(done: Rewritten, target: str, as_json: bool) -> None:
    counts = done.counts
    if as_json:
        document = {
            "target": target, "partitions": done.partitions, "bytes": done.bytes, "written": done.written,
            "counts": dict(counts), "seconds": done.seconds,
            "unreadable": [
                {"topic": topic, "partition": partition, "path": error.path, "position": error.position,
                 "kind": error.kind, "message": str(error)}
                for topic, partition, error in done.unreadable
            ],
        }  # fmt: skip
        sys.stdout.write(to_json(document) + "\n")
        return
    if counts["segments"]:
        sys.stdout.write(f"{counted(counts['segments'], 'segment')} gone as a whole\n")
    sys.stdout.write(
        f"{counted(counts['records'], 'record')} read, {counts['dropped']:,} dropped, {counts['changed']:,} changed\n"
    )
    if counts["broken"]:
        sys.stdout.write(f"  {counts['broken']:,} with a header that cannot be read: kept\n")
    if counts["held"]:
        sys.stdout.write(f"  {counts['held']:,} on hold: kept\n")
    rate = human_bytes(done.bytes / done.seconds) if done.seconds else "?"
    sys.stdout.write(f"{human_bytes(done.bytes)} -> {human_bytes(done.written)} in {done.seconds:.1f} s ({rate}/s)\n")
