"""`magicbyte kafka-dump-log`: the options and the lines of Apache Kafka's own tool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from magicbyte.cli import problems
from magicbyte.cli.dumplog import beside, lines
from magicbyte.cli.options import expanded, files
from magicbyte.cli.output import escape
from magicbyte.errors import MagicbyteError

if TYPE_CHECKING:
    from collections.abc import Callable

HELP = """Kafka's own kafka-dump-log, without Kafka: its options, its lines, from the same files.

Understands .log, .checkpoint, .index, .timeindex, .txnindex and .snapshot. The lines are those of Kafka 4, with these
differences: control characters of keys and values stand as escapes; damage ends a file with its position and status 1,
where Kafka ends with a stack trace; the codec and the check of a message inside an old compressed one are computed.
For more than Kafka shows (header values, filters, JSON), see: magicbyte dump --help

\b
Examples:
  magicbyte kafka-dump-log --files orders-0/00000000000000000000.log --print-data-log
  magicbyte kafka-dump-log --offsets-decoder --files __consumer_offsets-12/00000000000000000000.log
  magicbyte kafka-dump-log --cluster-metadata-decoder --skip-record-metadata --files __cluster_metadata-0/*.log
  magicbyte kafka-dump-log --verify-index-only --files orders-0/00000000000000000000.index

Exit status: 0 fine, 1 damage or an index at odds with its log, 2 wrong usage or a file that cannot be read, 3 no file
of a known kind.
"""

PACKAGES = ("org.apache.kafka.tools.api.", "kafka.serializer.")


def _files(_ctx: click.Context, _param: click.Parameter, given: tuple[str, ...]) -> list[str]:
    return [path for names in given for name in names.split(",") if name for path in expanded(name)]


def _decoder(_ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    if not name:
        return None if name is None else "StringDecoder"
    for package in PACKAGES:
        if name.startswith(package) and name.removeprefix(package) in lines.DECODERS:
            return name.removeprefix(package)
    known = ", ".join(PACKAGES[0] + short for short in lines.DECODERS)
    raise click.BadParameter(
        f"{name} is a Java class, and no Java runs here. Known without it: {known}. "
        "magicbyte dump --json gives the bytes to a program of yours"
    )


@click.command("kafka-dump-log", help=HELP)
@click.option(
    "--files",
    multiple=True,
    required=True,
    callback=_files,
    shell_complete=files,
    help="Files, separated by commas; may be repeated.",
)
@click.argument("more", nargs=-1, metavar="")
@click.option("--print-data-log", is_flag=True, help="Keys and values too.")
@click.option("--deep-iteration", is_flag=True, help="Each record, not only each batch.")
@click.option("--skip-record-metadata", is_flag=True, help="Of each record only its key and value.")
@click.option("--offsets-decoder", "group", flag_value="offsets", help="The records are those of __consumer_offsets.")
@click.option("--transaction-log-decoder", "group", flag_value="transactions", help="… of __transaction_state.")
@click.option("--cluster-metadata-decoder", "group", flag_value="metadata", help="… of __cluster_metadata.")
@click.option("--share-group-state-decoder", "group", flag_value="shares", help="… of __share_group_state.")
@click.option(
    "--remote-log-metadata-decoder", "group", flag_value="remote", help="… of __remote_log_metadata (as JSON)."
)
@click.option(
    "--key-decoder-class", callback=_decoder, is_flag=False, flag_value="", help="One of Kafka's own decoders."
)
@click.option(
    "--value-decoder-class", callback=_decoder, is_flag=False, flag_value="", help="One of Kafka's own decoders."
)
@click.option("--index-sanity-check", is_flag=True, help="Of an index only whether a broker would keep it.")
@click.option("--verify-index-only", is_flag=True, help="Of an index only what is at odds with the log.")
@click.option("--max-message-size", type=int, default=5 * 1024 * 1024, help="Taken, and not needed: any size is read.")
@click.option("--max-bytes", type=click.IntRange(min=0), default=2**31 - 1, help="Read so many bytes of a log.")
def command(
    files: list[str],
    more: tuple[str, ...],
    print_data_log: bool,
    deep_iteration: bool,
    skip_record_metadata: bool,
    group: str | None,
    key_decoder_class: str | None,
    value_decoder_class: str | None,
    index_sanity_check: bool,
    verify_index_only: bool,
    max_message_size: int,
    max_bytes: int,
) -> int:
    contents = bool(print_data_log or group or key_decoder_class or value_decoder_class)
    show = lines.Lines(
        contents=contents,
        deep=deep_iteration or contents,
        metadata=not skip_record_metadata,
        payload=lines.payload(group, key_decoder_class or "StringDecoder", value_decoder_class or "StringDecoder"),
        max_bytes=max_bytes,
    )
    kinds: dict[str, Callable[[Path], bool]] = {
        ".log": show.log,
        ".checkpoint": show.log,
        ".index": lambda path: beside.offset_index(path, index_sanity_check, verify_index_only),
        ".timeindex": lambda path: beside.time_index(path, index_sanity_check, verify_index_only),
        ".txnindex": beside.txn_index,
        ".snapshot": beside.snapshot,
    }
    known = 0
    sound = True
    # A shell's glob behind --files comes as further words.
    for name in [*files, *more]:
        path = Path(name)
        kind = kinds.get(path.suffix)
        if kind is None:
            problems.complain(f"{name}: not a file of a log that is known by its name; left out", level="warning")
            continue
        known += 1
        sys.stdout.write(f"Dumping {escape(name)}\n")
        try:
            sound &= kind(path)
        except (MagicbyteError, ValueError) as error:
            sound = False
            problems.damage(name, error)
    if not known:
        return problems.NOTHING
    return problems.FINE if sound else problems.DEFECTS
