"""`magicbyte recover`: a clean copy of what is readable, and a report of what is missing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from magicbyte.cli import problems
from magicbyte.cli.options import dialect, files, replicas, sources, tell_replicas
from magicbyte.cli.output import counted, escape, human_bytes, to_json
from magicbyte.cli.progress import Progress

if TYPE_CHECKING:
    from magicbyte._report import Defect
    from magicbyte.cli.options import Source
    from magicbyte.recovery import Lost, Recovered

HELP = """Writes a clean copy of all that is readable in IN to OUT, and says what is missing from it.

IN is a segment file, a partition directory or a directory of those, and is only ever read. OUT becomes a partition
directory, or a directory of those, with fresh indexes, which a broker opens; it must not be there yet. Batches are
copied byte by byte where their checksum holds, all their records can be read, and their offsets follow the ones before.

\b
Examples:
  magicbyte recover /var/kafka/orders-0 saved/orders-0
  magicbyte recover logs/ saved/ --json | jq '.lost'
  magicbyte recover --replicas lineage broker1/orders-0 broker2/orders-0 saved/orders-0

Exit status: 0 nothing is missing but tails, 1 something is, 2 wrong usage or a file that cannot be read or written,
3 nothing to recover.
"""


@click.command("recover", help=HELP)
@click.argument("paths", metavar="IN... OUT", nargs=-1, required=True, shell_complete=files)
@dialect
@replicas
@click.option("--json", "as_json", is_flag=True, help="One JSON document about what was done.")
def command(paths: tuple[str, ...], format: str, replicas: str | None, as_json: bool) -> int:
    from magicbyte.recovery import recover

    *given, target = paths
    if not given:
        raise click.UsageError("where to? IN and OUT are needed")
    if len(given) > 1 and replicas is None:
        raise click.UsageError("several INs are taken for copies of one partition: say which is to be read, --replicas")
    with sources(given, format, replicas) as opened:
        one = opened.the_one()
        if one is None:
            return opened.nothing("no segments")
        tell_replicas(opened, lambda line: problems.complain(line, level="note"))
        with Progress(one.log.size) as progress:
            try:
                done = recover(one.log, target, progress=progress.to)
            except (ValueError, FileExistsError) as error:
                problems.complain(str(error), "name a place that is not there yet")
                return problems.USAGE
        _show(one, target, done, as_json)
        if any(not (lost.replaced or _is_tail(lost, done)) for lost in done.lost) or _missing(done):
            return problems.DEFECTS
        return problems.FINE if done.records else problems.NOTHING


def _is_tail(lost: Lost, done: Recovered) -> bool:
    return any(
        d.kind in problems.TAILS and d.severity == "note" and (d.path, d.position) == (lost.path, lost.position)
        for d in done.report.defects
    )


def _missing(done: Recovered) -> list[Defect]:
    """Offsets that are not there, and were not filled from other copies."""
    gaps = [d for d in done.report.defects if d.kind == "gap" and d.severity == "error"]
    return [] if done.filled and all(lost.replaced for lost in done.lost) else gaps


def _show(source: Source, target: str, done: Recovered, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(to_json(_document(source, target, done)) + "\n")
        return
    for lost in done.lost:
        where = problems.located(source.show(lost.path or None), lost.position, f"{lost.size:,} bytes: {lost.why}")
        offsets = "" if lost.first_offset is None else f" (offsets {lost.first_offset}..{lost.last_offset})"
        word = "tail" if _is_tail(lost, done) else "replaced" if lost.replaced else "lost"
        sys.stdout.write(f"{word}: {escape(where)}{offsets}\n")
    for one in done.filled:
        sys.stdout.write(f"filled: offsets {one.first_offset}..{one.last_offset} from {escape(one.path)}\n")
    for d in _missing(done):
        place = problems.located(source.show(d.path or None), d.position, d.message)
        sys.stdout.write(f"missing: {escape(place)}\n")
    what = f"{counted(done.batches, 'batch')}, {counted(done.records, 'record')}, {human_bytes(done.bytes)}"
    sys.stdout.write(f"{escape(target)}: {what}\n")


def _document(source: Source, target: str, done: Recovered) -> dict[str, Any]:
    return {
        "target": target,
        "batches": done.batches,
        "records": done.records,
        "bytes": done.bytes,
        "lost": [
            {"path": source.show(lost.path or None), "position": lost.position, "size": lost.size,
             "firstOffset": lost.first_offset, "lastOffset": lost.last_offset, "tail": _is_tail(lost, done),
             "why": lost.why, "replaced": lost.replaced}
            for lost in done.lost
        ],
        "filled": [
            {"path": one.path, "position": one.position, "size": one.size, "firstOffset": one.first_offset,
             "lastOffset": one.last_offset, "records": one.records}
            for one in done.filled
        ],
        "defects": [
            {"path": source.show(d.path or None), "position": d.position, "kind": d.kind, "severity": d.severity,
             "message": d.message}
            for d in done.report.defects
        ],
    }  # fmt: skip
