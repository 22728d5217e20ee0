"""`magicbyte verify`: the strict pass, as text or as JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from magicbyte.cli import problems
from magicbyte.cli.options import (
    Source,
    Sources,
    dialect,
    files,
    partitions,
    replicas,
    sources,
    tell_replicas,
)
from magicbyte.cli.output import counted, escape, iso, painted, place, show_time, table, to_json
from magicbyte.cli.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from magicbyte._core import LedgerRow, Part
    from magicbyte._report import Report
    from magicbyte.log import Segment

    Pairs = list[tuple[Segment, Part]]

HELP = """Checks a log strictly: every checksum, every record, offsets, epochs, sequences, indexes.

Each defect is a line: severity, kind, file and byte position, and what is wrong. An error means that something is lost,
contradicts itself, or is refused or read differently by other readers. A note means that every reader gets the same
records: unusual forms, gaps as compaction leaves them, the tail of the last segment. Torn tail, zero tail and a hole
with good entries behind it are three different findings.

--ledger lists the batches instead, those with a wrong checksum too.

\b
Examples:
  magicbyte verify logs/
  magicbyte verify orders-0 --json | jq '.defects[] | select(.severity == "error")'
  magicbyte verify --spark-master 'local[*]' logs/
  magicbyte verify --ledger orders-0/00000000000000000000.log

Exit status: 0 no error, 1 errors, 2 wrong usage or a file that cannot be read, 3 no record to check.
"""

LEDGER = ("POSITION", "SIZE", "MAGIC", "CODEC", "OFFSETS", "RECORDS", "EPOCH", "PRODUCER", "TO", "CRC")
LEDGER_RIGHT = frozenset({"POSITION", "SIZE", "RECORDS", "EPOCH"})
WINDOW = 1000  # rows whose columns are aligned together


@click.command("verify", help=HELP)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, shell_complete=files)
@dialect
@partitions
@replicas
@click.option("--notes/--no-notes", default=True, show_default=True, help="List notes too, not only errors.")
@click.option("--ledger", "as_ledger", is_flag=True, help="One line a batch instead.")
@click.option("--spark-master", metavar="URL", help="Check on Spark (local[4], spark://host:7077), a task a segment.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document; with --ledger, JSON lines.")
def command(
    paths: tuple[str, ...],
    format: str,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    replicas: str | None,
    notes: bool,
    as_ledger: bool,
    spark_master: str | None,
    as_json: bool,
) -> int:
    if as_ledger and spark_master is not None:
        raise click.UsageError("--ledger lists batches here, not on Spark: leave --spark-master out")
    with sources(paths, format, replicas, as_stored=True) as opened:
        wanted = [(source, _pairs(source, topics, partitions)) for source in opened.logs]
        if as_ledger:
            return _ledger(opened, wanted, format, as_json)
        found = _reports(wanted, format) if spark_master is None else _on_spark(wanted, format, spark_master)
        if as_json:
            sys.stdout.write(to_json(document(found, opened)) + "\n")
        elif opened.logs:  # else _status says why there is none
            _show(found, opened, notes)
        return _status(found, opened)


def _pairs(source: Source, topics: tuple[str, ...], partitions: tuple[int, ...]) -> Pairs:
    return [
        (segment, part)
        for segment, part in source.log.pairs()
        if (not topics or segment.topic in topics) and (not partitions or segment.partition in partitions)
    ]


def _reports(wanted: list[tuple[Source, Pairs]], format: str) -> list[tuple[Source, Report]]:
    from magicbyte._report import run

    found = []
    done = 0
    with Progress(sum(segment.size for _, pairs in wanted for segment, _ in pairs)) as progress:
        for source, pairs in wanted:
            before: dict[str, int] = {}

            def advance(segment: Segment, position: int, reached: dict[str, int] = before, base: int = done) -> None:
                reached[segment.path] = position
                progress.to(base + sum(reached.values()))

            found.append((source, run(pairs, format=format, advance=advance)))
            done += sum(segment.size for segment, _ in pairs)
    return found


def _on_spark(wanted: list[tuple[Source, Pairs]], format: str, master: str) -> list[tuple[Source, Report]]:
    try:
        from magicbyte.spark.jobs import session
        from magicbyte.spark.verify import verify_segments
    except ImportError as error:
        raise click.UsageError(f"--spark-master: {error}") from None
    found, behind = [], 0
    with (
        session(master, "verify") as spark,
        Progress(sum(it.size for _, pairs in wanted for it, _ in pairs)) as progress,
    ):
        for source, pairs in wanted:
            segments = [segment for segment, _ in pairs]
            found.append((source, verify_segments(spark, segments, format=format, progress=_from(progress, behind))))
            behind += sum(segment.size for segment in segments)
    return found


def _from(progress: Progress, before: int) -> Callable[[int], None]:
    return lambda done: progress.to(before + done)


def _status(found: list[tuple[Source, Report]], opened: Sources) -> int:
    # Of several logs, one with nothing in it does not make the others unchecked; none of them checked is no pass.
    if any(report.ok is False for _, report in found):
        return problems.DEFECTS
    return problems.FINE if any(report.ok for _, report in found) else opened.nothing("no records")


def _show(found: list[tuple[Source, Report]], opened: Sources, notes: bool) -> None:
    errors = noted = batches = records = 0
    for source, report in found:
        for defect in report.defects:
            if notes or defect.severity == "error":
                where = problems.located(source.show(defect.path or None), defect.position, defect.message)
                severity = painted(defect.severity, "red" if defect.severity == "error" else "cyan", sys.stdout)
                sys.stdout.write(f"{severity} {defect.kind}: {escape(where)}\n")
        for (kind, severity), count in sorted(report.counts.items()):
            kept = sum(d.kind == kind and d.severity == severity for d in report.defects)
            if count > kept and (notes or severity == "error"):
                sys.stdout.write(f"{severity} {kind}: {count - kept:,} more\n")
        errors += report.errors
        noted += report.notes
        batches += report.batches
        records += report.records
    tell_replicas(opened, lambda line: sys.stdout.write(escape(line) + "\n"))
    for path, reason in opened.left_out:
        sys.stdout.write(f"left out: {escape(path)}: {escape(reason)}\n")
    what = f"{counted(batches, 'batch')}, {counted(records, 'record')}"
    verdict = "NOT SOUND" if errors else "sound" if records else "nothing checked"
    sys.stdout.write(f"{what}: {counted(errors, 'error')}, {counted(noted, 'note')}: {verdict}\n")


def document(found: list[tuple[Source, Report]], opened: Sources) -> dict[str, Any]:
    """The reports of all paths as one JSON document."""
    reports = [report for _, report in found]
    checked = [report.ok for report in reports]
    counts: dict[tuple[str, str], int] = {}
    for report in reports:
        for key, count in report.counts.items():
            counts[key] = counts.get(key, 0) + count
    return {
        "ok": False if False in checked else True if True in checked else None,
        "batches": sum(report.batches for report in reports),
        "records": sum(report.records for report in reports),
        "errors": sum(report.errors for report in reports),
        "notes": sum(report.notes for report in reports),
        "counts": [{"kind": k, "severity": s, "count": n} for (k, s), n in sorted(counts.items())],
        "defects": [
            {"path": source.show(d.path or None), "position": d.position, "kind": d.kind, "severity": d.severity,
             "message": d.message}
            for source, report in found for d in report.defects
        ],
        "leftOut": [{"path": path, "reason": reason} for path, reason in opened.left_out],
        "replicas": [
            {"path": copy.path, "partition": place(copy.topic, copy.partition), "chosen": copy.chosen, "why": copy.why,
             "startOffset": copy.start_offset, "endOffset": copy.end_offset, "divergesAt": copy.diverges_at,
             "epochs": [list(epoch) for epoch in copy.epochs]}
            for source in opened.logs for copy in source.log.replicas
        ],
    }  # fmt: skip


def _ledger(opened: Sources, wanted: list[tuple[Source, Pairs]], format: str, as_json: bool) -> int:
    from magicbyte._report import ledger

    records = broken = 0
    header: tuple[str, ...] = (*LEDGER, "FILE")
    window: list[list[str]] = []
    for source, pairs in wanted:
        for segment, row in ledger(pairs, format=format):
            records += row.records
            broken += not row.crc_ok
            name = source.show(segment.path or None)
            if as_json:
                sys.stdout.write(to_json(_json(name, segment, row)) + "\n")
                continue
            window.append([*_cells(row), escape(name)])
            if len(window) == WINDOW:
                _flush(header, window)
    _flush(header, window)
    if broken:
        return problems.DEFECTS
    return problems.FINE if records else opened.nothing("no records")


def _flush(header: tuple[str, ...], window: list[list[str]]) -> None:
    if window:
        sys.stdout.write("\n".join(table(header, window, LEDGER_RIGHT)) + "\n")
        window.clear()


def _cells(row: LedgerRow) -> list[str]:
    producer = "-" if row.producer_id < 0 else f"{row.producer_id}/{row.producer_epoch}/{row.base_sequence}"
    epoch = "-" if row.partition_leader_epoch < 0 else str(row.partition_leader_epoch)
    return [
        str(row.position), str(row.size), f"v{row.magic}", row.codec or "?", f"{row.first_offset}..{row.last_offset}",
        str(row.records), epoch, producer, show_time(row.max_timestamp), f"{row.crc:08x} {'ok' if row.crc_ok else 'BAD'}",
    ]  # fmt: skip


def _json(name: str, segment: Segment, row: LedgerRow) -> dict[str, Any]:
    return {
        "path": name, "partition": place(segment.topic, segment.partition), "position": row.position, "size": row.size,
        "magic": row.magic, "codec": row.codec, "firstOffset": row.first_offset, "lastOffset": row.last_offset,
        "records": row.records, "maxTimestampMs": row.max_timestamp, "maxTimestamp": iso(row.max_timestamp),
        "leaderEpoch": row.partition_leader_epoch, "producerId": row.producer_id, "producerEpoch": row.producer_epoch,
        "baseSequence": row.base_sequence, "isTransactional": row.transactional, "isControl": row.control,
        "crc": row.crc, "crcOk": row.crc_ok,
    }  # fmt: skip
