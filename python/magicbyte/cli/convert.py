"""`magicbyte convert`: a segment, a partition or a directory of partitions in another format."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from magicbyte._names import CODECS, TARGETS
from magicbyte.cli import problems
from magicbyte.cli.options import MODES, dialect, files, replicas, sources, tell_replicas
from magicbyte.cli.output import counted, escape, human_bytes, to_json
from magicbyte.cli.progress import Progress
from magicbyte.errors import CorruptRecordError, UnsupportedCodecError

if TYPE_CHECKING:
    from magicbyte.log import Log

BROKERS_OWN = frozenset({"v0", "v1", "v2"})

#: Files that a broker keeps in its data directory, over all partitions.
BROKER_FILES = (
    "meta.properties",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    ".kafka_cleanshutdown",
    "__cluster_metadata-0",
)

DROPPED = {
    "headers": ("header", "headers"),
    "timestamps": ("timestamp", "timestamps"),
    "producer_state": ("batch without its producer state", "batches without their producer state"),
    "transactional": ("record of a transaction that looks like any other now",
                      "records of transactions that look like any other now"),
    "control_batches": ("control batch", "control batches"),
    "empty_batches": ("empty batch", "empty batches"),
    "delete_horizons": ("delete horizon", "delete horizons"),
    "tombstone_values": ("value of a tombstone", "values of tombstones"),
    "null_values": ("live null value, a delete now", "live null values, deletes now"),
}  # fmt: skip

HELP = """Writes a log in another format, and says what that format could not carry.

SOURCE and TARGET are both a segment file, or both a partition directory (orders-0), or both a directory of those;
- is standard input, or output. Partition directories get their indexes, epochs and producer state, as a broker leaves
them. TARGET is written aside and put in its place at the end: an interrupted run leaves what was there. What is there
already stays, unless --overwrite says that it may go; SOURCE itself is never written over.

\b
Examples:
  magicbyte convert orders-0 new/orders-0 --to v3
  magicbyte convert old/ new/ --to v2 --codec zstd
  magicbyte convert old/ new/ --to v3 --spark-master 'local[*]'
  magicbyte convert 00000000000000000000.log - --to v1 | magicbyte dump -

Exit status: 0 converted, 1 the log has defects, 2 wrong usage, a file that cannot be read or written, or a target that is
there already, 3 nothing to convert.
"""


@click.command("convert", help=HELP)
@click.argument("source", shell_complete=files)
@click.argument("target", shell_complete=files)
@click.option("--to", required=True, type=click.Choice(TARGETS), help="The format to write.")
@dialect
@click.option(
    "--mode",
    type=click.Choice(MODES, case_sensitive=False),
    metavar="|".join(MODES),
    default="FAILFAST",
    show_default=True,
    help="At damage: stop with an error, or leave it out and tell.",
)
@click.option("--check-crc/--no-check-crc", default=True, show_default=True, help="Check every checksum.")
@replicas
@click.option("--codec", type=click.Choice(CODECS), help="Codec to write with; without it, each batch keeps its own.")
@click.option("--level", type=int, help="Level of the codec.")
@click.option("--first-offset", type=int, help="Number the records anew from here, without holes.")
@click.option("--leader-epoch", type=int, help="Leader epoch to write into every batch.")
@click.option("--null-is-tombstone", is_flag=True, help="kip87: let live records with a null value turn into deletes.")
@click.option(
    "--segment-bytes",
    type=click.IntRange(min=1),
    default=1 << 30,
    show_default=True,
    help="Size of a segment in a partition directory.",
)
@click.option(
    "--into-broker",
    is_flag=True,
    help="Write v3 or a draft even where a broker's own files stand; no broker can read it.",
)
@click.option("--overwrite", is_flag=True, help="Replace what stands at TARGET.")
@click.option("--spark-master", metavar="URL", help="Convert on Spark (local[4], spark://host:7077), a task a segment.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document about what was done.")  # fmt: skip
def command(
    source: str,
    target: str,
    to: str,
    format: str,
    replicas: str | None,
    segment_bytes: int,
    into_broker: bool,
    overwrite: bool,
    spark_master: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    if spark_master is not None and (source == "-" or target == "-" or Path(source).is_file()):
        raise click.UsageError("--spark-master converts partition directories: SOURCE and TARGET are directories")
    if spark_master is not None and options["first_offset"] is not None:
        raise click.UsageError("--first-offset numbers one record after the other: leave --spark-master out")
    if to not in BROKERS_OWN and target != "-" and not into_broker and (sign := broker_sign(Path(target))):
        problems.complain(
            f"{target}: a broker's directory, by {sign}; no broker can read {to}",
            "write it somewhere else, or say --into-broker",
        )
        return problems.USAGE
    refuse_target(source, target, overwrite, stream=True)
    with sources((source,), format, replicas) as opened:
        tell_replicas(opened, lambda line: problems.complain(line, level="note"))
        one = opened.the_one()
        if one is None:
            return opened.nothing("no segments")
        log = one.log
        with Progress(log.size) as progress:
            done = Done(to, target)
            try:
                if spark_master is not None:
                    _on_spark(log, target, done, progress, spark_master, segment_bytes=segment_bytes, **options)
                else:
                    _convert(log, source, target, done, progress, replicas, segment_bytes=segment_bytes, **options)
            except CorruptRecordError as error:
                problems.damage(error.path or source, error, "--mode DROPMALFORMED leaves it out")
                return problems.DEFECTS
            except UnsupportedCodecError as error:
                problems.complain(f"{source}: {error}", f"--codec names one that {to} has")
                return problems.USAGE
            except ValueError as error:
                problems.complain(f"{source}: {error}")
                return problems.USAGE
        done.tell(as_json, opened.left_out)
        return problems.DEFECTS if done.damaged else problems.FINE


class Done:
    """What was converted, and what was lost."""

    def __init__(self, to: str, target: str) -> None:
        self.to = to
        self.target = target
        self.rows: list[dict[str, Any]] = []
        self.damaged = False

    def add(self, name: str, before: int, after: int, dropped: Counter[str], findings: list[Any]) -> None:
        """One partition, or one file, is done."""
        self.damaged |= any(kind not in problems.TAILS for _, _, kind, _, _ in findings)
        for path, position, kind, _, message in findings:
            level = "note" if kind in problems.TAILS else "error"
            problems.complain(problems.located(path or name, position, message), level=level)
        told = [{"path": f[0], "position": f[1], "kind": f[2], "size": f[3], "message": f[4]} for f in findings]
        row = {"name": name, "bytes": before, "written": after, "dropped": dict(dropped), "findings": told}
        self.rows.append(row)

    def tell(self, as_json: bool, left_out: list[tuple[str, str]]) -> None:
        """Writes what was done: to standard error where the log itself goes to standard output."""
        out = sys.stderr if self.target == "-" else sys.stdout
        if as_json:
            document = {"to": self.to, "target": self.target, "converted": self.rows,
                        "leftOut": [{"path": str(path), "reason": reason} for path, reason in left_out]}  # fmt: skip
            out.write(to_json(document) + "\n")
            return
        for row in self.rows:
            change = (row["written"] - row["bytes"]) / row["bytes"] if row["bytes"] else 0.0
            sizes = f"{human_bytes(row['bytes'])} -> {human_bytes(row['written'])} ({change:+.1%})"
            out.write(f"{escape(row['name'])}: {sizes} in {self.to}\n")
            for name, number in row["dropped"].items():
                out.write(f"  lost: {number:,} {DROPPED[name][number != 1]}\n")
        if left_out:
            out.write(f"{counted(len(left_out), 'file')} beside the segments left out\n")


def refuse_target(source: str, target: str, overwrite: bool, *, stream: bool = False) -> None:
    """Keeps what stands at the target, and the source by all means; ``stream``: - is standard output."""
    if target == "-":
        if stream:
            return
        raise click.UsageError("a directory is written, and standard output is none: name one instead of -")
    if source != "-":
        one, other = Path(source).resolve(), Path(target).resolve()
        if other == one or other in one.parents or one in other.parents:
            raise click.UsageError(
                f"{target}: the copy must not stand where {source} stands; name a place outside of it"
            )
        if one.is_dir() and other.suffix == ".log":
            raise click.UsageError(
                f"{target}: {source} is a directory, and becomes one; this is the name of a segment file"
            )
    path = Path(target)
    if stream and path.exists() and not path.is_file() and not path.is_dir():
        return  # a device or a pipe takes what comes
    if overwrite or not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    raise click.UsageError(f"{target}: something stands there already; name another place, or say --overwrite")


def broker_sign(target: Path) -> str | None:
    """The file by which ``target`` is, or is in, a broker's data directory."""
    target = target.absolute()
    for directory in (target, *list(target.parents)[:2]):
        for name in BROKER_FILES:
            if (directory / name).exists():
                return str(directory / name)
    return None


def _convert(
    log: Log,
    source: str,
    target: str,
    done: Done,
    progress: Progress,
    rule: str | None,
    *,
    segment_bytes: int,
    **options: Any,
) -> None:
    from magicbyte.log import Log as OpenLog
    from magicbyte.writer import convert_partition

    if target == "-" or source == "-" or Path(source).is_file():
        if log.single:
            _to_file(log, source, target, done, progress, **options)
            return
        raise click.UsageError(f"{source} is a directory of partitions: its target is a directory, not -")
    if Path(target).is_file():
        raise click.UsageError(f"{target} is a file; {source} is a directory, and becomes one")
    behind = 0
    for topic, partition in log.partitions:
        one = log
        if not log.single:
            one = OpenLog(source, format=log.format, topic=topic, partition=partition, replicas=rule)
        directory = Path(target) if log.single else Path(target) / Path(one.segments[0].path).parent.name
        converted = convert_partition(
            one, directory, done.to, segment_bytes=segment_bytes, progress=_behind(progress, behind), **options
        )
        behind += one.size
        after = sum(path.stat().st_size for path in directory.glob("*.log"))
        done.add(f"{topic}-{partition}", one.size, after, converted.dropped, converted.findings)


def _on_spark(log: Log, target: str, done: Done, progress: Progress, master: str, **options: Any) -> None:
    try:
        from magicbyte.spark.convert import convert
        from magicbyte.spark.jobs import session
    except ImportError as error:
        raise click.UsageError(f"--spark-master: {error}") from None
    with session(master, "convert") as spark:
        for one in convert(spark, log, target, done.to, progress=progress.to, **options):
            name = f"{one.topic}-{one.partition}"
            done.add(name, one.bytes, one.written, one.converted.dropped, one.converted.findings)


def _behind(progress: Progress, before: int) -> Callable[[int], None]:
    return lambda position: progress.to(before + position)


def _to_file(log: Log, source: str, target: str, done: Done, progress: Progress, **options: Any) -> None:
    from magicbyte._aside import written_aside
    from magicbyte._core import ConvertIterator

    iterator = ConvertIterator(log.parts(), done.to, format=log.format, **options)
    after = 0

    def write(file: Any) -> None:
        nonlocal after
        for piece in iterator:
            file.write(piece)
            after += len(piece)
            progress.to(iterator.position)

    if target == "-":
        if sys.stdout.isatty():
            raise click.UsageError("standard output is a terminal: it would get bytes")
        write(sys.stdout.buffer)
        sys.stdout.buffer.flush()
    elif Path(target).is_dir():
        raise click.UsageError(f"{target} is a directory; {source} is one file, and becomes one")
    else:
        with written_aside(target) as file:
            write(file)
    done.add(source, log.size, after, Counter(iterator.dropped), iterator.findings)
