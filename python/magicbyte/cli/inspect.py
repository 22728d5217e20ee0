"""`magicbyte inspect`: what is in a log, as a table or as JSON."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from magicbyte.cli import problems, tables
from magicbyte.cli.gather import SMALL, Gather
from magicbyte.cli.options import Selection, Source, Sources, part_size, partitions, reading, sources
from magicbyte.cli.output import to_json
from magicbyte.cli.progress import Progress
from magicbyte.cli.survey import Finding, Survey

if TYPE_CHECKING:
    from magicbyte._core import Part

HELP = """What is in a log: segments, batches, records, codecs, magic versions, offsets, times, headers.

One line a segment, one a partition where it has several, then the whole: header keys by weight, producers,
transactions, files that were left out, and damage. Payload is the bytes of keys, values and headers, without framing.
HEADERS is the headers' share of it; RATIO is payload for one byte stored.

Payloads are decompressed for that. --quick reads only the batches' own headers: no checksums, no header share.

\b
Examples:
  magicbyte inspect orders-0/00000000000000000000.log
  magicbyte inspect logs/ --json | jq '.totals.headerShare'
  magicbyte inspect orders-0 --batches
  magicbyte inspect --quick 'backup/2026-*/orders-*'

Exit status: 0 fine, 1 damage was found, 2 wrong usage or a file that cannot be read, 3 nothing to read.
"""


@click.command("inspect", help=HELP)
@reading(mode="DROPMALFORMED")
@partitions
@click.option("--quick", is_flag=True, help="Batch headers only: nothing is decompressed or checked.")
@click.option("--batches", "by_batch", is_flag=True, help="One line a batch instead.")
@click.option(
    "--keys",
    "most_keys",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="How many header keys to list.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document; with --batches, JSON lines.")  # fmt: skip
def command(paths: tuple[str, ...], quick: bool, by_batch: bool, most_keys: int, as_json: bool, **selected: Any) -> int:
    selection = Selection(**selected)
    with sources(paths, selection.format, as_stored=True) as opened:
        parts = [(source, part) for source in opened.logs for part in selection.parts(source)]
        if by_batch:
            status = _list_batches(parts, Gather(selection, deep=not quick), as_json)
        else:
            surveys = _surveys(parts, selection, quick)
            # Where there is no log at all, `nothing` says why.
            status = _summary(opened, surveys, most_keys, as_json) if opened.logs or as_json else problems.NOTHING
        return opened.nothing("no batches" if parts else "no segments") if status == problems.NOTHING else status


def _surveys(parts: list[tuple[Source, Part]], selection: Selection, quick: bool) -> list[tables.Segment]:
    sizes = [part_size(part) for _, part in parts]
    arrow = sum(sizes) > SMALL and importlib.util.find_spec("pyarrow") is not None
    found = []
    done = 0
    with Progress(sum(sizes)) as progress:
        for (source, part), size in zip(parts, sizes, strict=True):
            gather = Gather(selection, deep=not quick, arrow=arrow, advance=_behind(progress, done - part.start))
            survey = gather.segment(part, size)
            found.append(tables.Segment(_name(source, part), part.topic, part.partition, survey))
            done += size
            progress.to(done)
    return found


def _behind(progress: Progress, before: int) -> Any:
    return lambda position: progress.to(before + position)


def _name(source: Source, part: Part) -> str:
    return source.name if isinstance(part.source, bytes) else source.show(str(part.source))


def _summary(opened: Sources, segments: list[tables.Segment], most_keys: int, as_json: bool) -> int:
    total = Survey(deep=any(segment.survey.deep for segment in segments))
    for segment in segments:
        total.merge(segment.survey)
    if as_json:
        sys.stdout.write(to_json(tables.document(segments, total, opened.left_out)) + "\n")
    else:
        for line in tables.report(segments, total, opened.left_out, most_keys):
            sys.stdout.write(line + "\n")
    return _status((finding for segment in segments for finding in segment.survey.findings), total.batches)


def _status(findings: Iterable[Finding], batches: int) -> int:
    if any(finding.kind not in problems.TAILS for finding in findings):
        return problems.DEFECTS
    return problems.FINE if batches else problems.NOTHING


def _list_batches(parts: list[tuple[Source, Part]], gather: Gather, as_json: bool) -> int:
    seen = 0
    survey = Survey()
    if not as_json:
        sys.stdout.write(tables.BATCH_HEADER + "\n")
    show = tables.batch_json if as_json else tables.batch_line
    for source, part in parts:
        found = Survey()
        name = _name(source, part)
        for batch, span, crc_holds in gather.listed(part, found, set()):
            seen += 1
            sys.stdout.write(show(name, part, batch, span, crc_holds) + "\n")
        for finding in found.findings:
            level = "note" if finding.kind in problems.TAILS else "error"
            problems.complain(problems.located(name, finding.position, finding.message), level=level)
        survey.findings += found.findings
    return _status(survey.findings, seen)
