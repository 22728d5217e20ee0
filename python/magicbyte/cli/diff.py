"""`magicbyte diff`: whether two logs hold the same records; `--digest`: what one comes to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from magicbyte.cli import problems
from magicbyte.cli.options import Source, Sources, dialect, files, replicas, sources, tell_replicas
from magicbyte.cli.output import (
    colourful,
    counted,
    escape,
    json_bytes,
    place,
    show_bytes,
    show_name,
    show_time,
    to_json,
)
from magicbyte.cli.progress import Progress, clear
from magicbyte.errors import MagicbyteError

if TYPE_CHECKING:
    from magicbyte._compare import Difference
    from magicbyte._core import ConsumerRecord
    from magicbyte.log import Log

HELP = """Whether two logs hold the same records: offsets, timestamps, keys, values, headers, in order.

Batches, codecs, formats, leader epochs and producers do not count: so a backup, a recompressed or a converted copy
can be proved equal to its source. Each partition gets a digest (SHA-256 of its records); where two differ, the first
offset at which they do is shown, and what differs there. Control records are left out.

With one PATH, the digests are printed. With --replicas, A and B may be globs, each over copies of the same partitions.

\b
Examples:
  magicbyte diff /var/kafka/orders-0 backup/orders-0
  magicbyte diff logs/ backup/ --json
  magicbyte diff logs/ backup/ --spark-master 'local[*]'
  magicbyte diff logs/

Exit status: 0 the same, 1 not the same or damaged, 2 wrong usage or a file that cannot be read, 3 no record.
"""


@click.command("diff", help=HELP)
@click.argument("paths", metavar="A [B]", nargs=-1, required=True, shell_complete=files)
@dialect
@replicas
@click.option("--spark-master", metavar="URL", help="Compare on Spark (local[4], spark://host:7077), a task a segment.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(paths: tuple[str, ...], format: str, replicas: str | None, spark_master: str | None, as_json: bool) -> int:
    if len(paths) > 2:
        raise click.UsageError("one path, for its digests, or two, to compare them")
    with sources(paths, format, replicas, each=True) as opened:
        tell_replicas(opened, lambda line: problems.complain(line, level="note"))
        if len(opened.logs) > len(paths):
            raise click.UsageError(
                "a glob leads to several logs, and two are compared: name directories, or say --replicas"
            )
        if len(opened.logs) != len(paths):
            return opened.nothing("no segments")
        if not any(source.log.size for source in opened.logs):
            return opened.nothing("no records")
        at = opened.logs[0]
        try:
            with Progress(sum(source.log.size for source in opened.logs)) as progress:
                if len(paths) == 1:
                    return _digests(at, spark_master, as_json, progress)
                return _compare(opened, spark_master, as_json, progress)
        except MagicbyteError as error:
            path = getattr(error, "path", None)
            problems.damage(
                path or at.name, error, "damaged logs are not compared; magicbyte verify says what is damaged"
            )
            return problems.DEFECTS


def _on_spark(master: str, name: str, progress: Progress, *logs: Log) -> Any:
    """What a job of this name says of the logs."""
    try:
        from magicbyte.spark import compare
        from magicbyte.spark.jobs import session
    except ImportError as error:
        raise click.UsageError(f"--spark-master: {error}") from None
    with session(master, name) as spark:
        return getattr(compare, name)(spark, *logs, progress=progress.to)


def _digests(source: Source, master: str | None, as_json: bool, progress: Progress) -> int:
    from magicbyte._compare import digest

    if master is None:
        found = digest(source.log, advance=progress.by)
    else:
        found = _on_spark(master, "digest", progress, source.log)
    clear()
    if as_json:
        rows = [
            {"topic": topic, "partition": partition, "sha256": d.sha256, "records": d.records,
             "firstOffset": d.first_offset, "lastOffset": d.last_offset}
            for (topic, partition), d in found.items()
        ]  # fmt: skip
        sys.stdout.write(to_json({"digests": rows}) + "\n")
    else:
        for (topic, partition), d in found.items():
            span = "" if d.first_offset is None else f", offsets {d.first_offset}..{d.last_offset}"
            sys.stdout.write(f"{d.sha256}  {escape(place(topic, partition))}  {counted(d.records, 'record')}{span}\n")
    return problems.FINE if any(d.records for d in found.values()) else problems.NOTHING


def _compare(opened: Sources, master: str | None, as_json: bool, progress: Progress) -> int:
    from magicbyte._compare import differences

    one, other = opened.logs
    if master is None:
        found = list(differences(one.log, other.log, progress.by))
    else:
        found = _on_spark(master, "diff", progress, one.log, other.log)
    clear()
    # Nothing is equal to nothing; that proves nothing.
    if not found and next(one.log.records(), None) is None:
        return opened.nothing("no records")
    if as_json:
        sys.stdout.write(to_json({"same": not found, "differences": [_json(d) for d in found]}) + "\n")
    else:
        for d in found:
            for line in _lines(d, one.name, other.name):
                sys.stdout.write(line + "\n")
        if not found:
            sys.stdout.write(f"the same records: {counted(len(one.log.partitions), 'partition')}\n")
    return problems.DEFECTS if found else problems.FINE


def _lines(d: Difference, one: str, other: str) -> list[str]:
    where = escape(place(d.topic, d.partition))
    if d.what == ("partition",):
        return [f"{where}: only in {escape(one if d.only_in == 'first' else other)}"]
    if d.what == ("offset",):
        has, lacks = (one, other) if d.second is None else (other, one)
        return [f"{where}: offset {d.offset} is in {escape(has)}, not in {escape(lacks)}"]
    lines = [f"{where}: the first difference is at offset {d.offset}: {', '.join(d.what)}"]
    for name, record in ((one, d.first), (other, d.second)):
        lines += [f"  {escape(name)}: {field} {_text(record, field)}" for field in d.what]
    return lines


def _text(record: ConsumerRecord | None, field: str) -> str:
    if record is None:
        return "-"
    if field == "timestamp":
        return f"{show_time(record.timestamp)} ({record.timestamp})"
    if field == "headers":
        pairs = ", ".join(f"{show_name(h.key)}={_short(h.value)}" for h in record.headers)
        return f"[{pairs}]"
    return _short(getattr(record, field))


def _short(data: bytes | None) -> str:
    # On a terminal a value of megabytes helps nobody.
    most = 200
    if data is None or len(data) <= most or not colourful(sys.stdout):
        return show_bytes(data)
    return f"{show_bytes(data[:most])} ... {len(data):,} bytes"


def _json(d: Difference) -> dict[str, Any]:
    return {
        "topic": d.topic,
        "partition": d.partition,
        "offset": d.offset,
        "what": list(d.what),
        "onlyIn": d.only_in,
        "first": _record(d.first),
        "second": _record(d.second),
    }


def _record(record: ConsumerRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {
        "timestampMs": record.timestamp,
        "key": json_bytes(record.key),
        "value": json_bytes(record.value),
        "headers": [{"key": h.key, "value": json_bytes(h.value)} for h in record.headers],
    }
