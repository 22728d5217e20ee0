"""`magicbyte redact`: a log without the values of chosen keys, into another directory."""

from __future__ import annotations

from typing import TextIO

import click

from magicbyte.cli.options import as_bytes, dialect, files
from magicbyte.cli.rewritten import carry_out, overwrite

HELP = """Writes IN to OUT with all records of chosen keys blotted out, those of aborted transactions too.

IN is a partition directory (orders-0) or a directory of those, and is only ever read. OUT becomes the same, with fresh
indexes, and is put in its place when it is all there; what stands there already stays, unless --overwrite says so.
Offsets stay as they are. Value and headers of the records go;
key, timestamp and offset stay, unless --drop takes all of it. Batches without such a record are copied byte for byte.

\b
Examples:
  magicbyte redact logs/ clean/ --key user-17 --key user-23
  magicbyte redact logs/ clean/ --keys-from erased.txt --drop
  magicbyte redact logs/orders-0 out/orders-0 --key hex:00ff --value '{"erased":true}' --keep-headers

Exit status: 0 done, 1 a partition is damaged, 2 wrong usage or a file that cannot be read or written, 3 nothing there.
"""


@click.command("redact", help=HELP)
@click.argument("source", metavar="IN", shell_complete=files)
@click.argument("target", metavar="OUT", shell_complete=files)
@click.option("--key", "keys", multiple=True, help="A key: text, hex:… or base64:….")
@click.option("--keys-from", type=click.File("r", encoding="utf-8", errors="surrogateescape"),
              help="A file with a key a line, in the same forms; - is standard input.")  # fmt: skip
@click.option("--drop", is_flag=True, help="The records go as a whole.")
@click.option("--value", help="The new value (text, hex:…, base64:…); without it, null.")
@click.option("--keep-headers", is_flag=True, help="Their headers stay.")
@dialect
@overwrite
@click.option("--spark-master", metavar="URL", help="Work on Spark (local[4], spark://host:7077), a task a partition.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document about what was done.")
def command(
    source: str,
    target: str,
    keys: tuple[str, ...],
    keys_from: TextIO | None,
    drop: bool,
    value: str | None,
    keep_headers: bool,
    format: str,
    overwrite: bool,
    spark_master: str | None,
    as_json: bool,
) -> int:
    from magicbyte.rewriting import Redaction

    wanted = {as_bytes(key) for key in keys}
    if keys_from is not None:
        wanted |= {as_bytes(line.rstrip("\r\n")) for line in keys_from if line.strip()}
    if not wanted:
        raise click.UsageError("which keys? --key or --keys-from")
    if drop and (value is not None or keep_headers):
        raise click.UsageError("--drop leaves nothing that --value or --keep-headers could be of")
    given = None if value is None else as_bytes(value)
    redaction = Redaction(frozenset(wanted), drop=drop, value=given, without_headers=not keep_headers)
    return carry_out(source, target, redaction, format, spark_master, as_json, overwrite=overwrite)
