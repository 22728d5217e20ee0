"""How things are shown: bytes as safe text, JSON without loss, tables, sizes, times, colours.

Everything that comes from a log (keys, values, header names, topics, file names) was chosen by somebody else. It reaches
a terminal only through `escape`, `quote` or `to_json`, so that control characters, terminal escapes, line breaks and
bidirectional overrides stand there as text and do nothing.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import IO, Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN_NAME = re.compile(r"[\w.\-/:]+", re.ASCII)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_COLOURS = {"red": 31, "green": 32, "yellow": 33, "cyan": 36, "bold": 1, "dim": 2}

#: Kafka's names for what `timestamp_type` holds.
TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}


def _escaped(character: str) -> str:
    if character.isprintable() and character not in '\\"':
        return character
    code = ord(character)
    wide = f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return _SHORT.get(character, wide)


class _Escapes(dict[int, str]):
    """What each character stands as, for `str.translate`: found when first met, kept where it is likely to come again."""

    def __missing__(self, code: int) -> str:
        shown = _escaped(chr(code))
        if code < 0x3000:
            self[code] = shown
        return shown


_QUOTED = _Escapes()
_BARE = _Escapes({ord(c): c for c in '\\"'})


def escape(text: str) -> str:
    """Text for a line of its own: what cannot be printed stands as an escape; quotes and backslashes stay."""
    if text.isprintable():
        return text
    return text.translate(_BARE)


def quote(text: str) -> str:
    """Text in double quotes, as an unmistakable literal: backslash escapes for all that cannot be printed."""
    if text.isprintable() and "\\" not in text and '"' not in text:
        return f'"{text}"'
    return f'"{text.translate(_QUOTED)}"'


def show_bytes(data: bytes | None, binary: str = "base64") -> str:
    """``null``, ``"text"`` where the bytes are UTF-8, else ``base64:…`` or ``hex:…`` (never in quotes)."""
    if data is None:
        return "null"
    try:
        return quote(data.decode())
    except UnicodeDecodeError:
        return f"hex:{data.hex()}" if binary == "hex" else f"base64:{base64.b64encode(data).decode()}"


def show_name(text: str) -> str:
    """A header key: as it is if it is plain, else quoted."""
    return text if _PLAIN_NAME.fullmatch(text) else quote(text)


def json_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """Bytes for JSON without loss: ``null``, the text if they are UTF-8, else ``{"base64": "…"}``."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


_encode = json.JSONEncoder(ensure_ascii=True, separators=(", ", ": ")).encode


def to_json(value: Any) -> str:
    """JSON on one line, of printable ASCII only (DEL is what Python's own encoder leaves)."""
    return _encode(value).replace("\x7f", "\\u007f")


def place(topic: str, partition: int) -> str:
    """``orders-0``; ``?`` where the bytes do not say whose they are."""
    return f"{topic}-{partition}" if topic and partition >= 0 else topic or "?"


def iso(milliseconds: int) -> str | None:
    """Milliseconds since 1970 as ISO 8601 in UTC; None for −1 (none) and for what no calendar has."""
    if milliseconds == -1:
        return None
    try:
        time = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def show_time(milliseconds: int | None) -> str:
    """A time for people: ISO, or the number itself if no calendar has it, or ``-`` for none."""
    if milliseconds is None or milliseconds == -1:
        return "-"
    return iso(milliseconds) or f"{milliseconds}ms"


def counted(number: int, what: str) -> str:
    """``1 batch``, ``2,000 batches``."""
    ending = "" if number == 1 else "es" if what.endswith("ch") else "s"
    return f"{number:,} {what}{ending}"


def human_bytes(size: float) -> str:
    """``1536`` → ``1.5 KB``; steps of 1024, as `ls -h` has them."""
    if size < 1024:
        return f"{int(size)} B"
    for unit in ("KB", "MB", "GB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TB"


def colourful(stream: IO[str]) -> bool:
    """Whether colours are wanted there: a terminal, and neither NO_COLOR (no-color.org) nor a dumb one."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, colour: str, stream: IO[str]) -> str:
    """The text in a colour, where the stream takes colours."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if colourful(stream) else text


def table(header: Sequence[str], rows: Iterable[Sequence[str] | str], right: frozenset[str] = frozenset()) -> list[str]:
    """Lines of a table with aligned columns; a row that is a string stands as a line of its own between them.

    ``right`` names the columns that are aligned to the right. Cells must be escaped already.
    """
    kept = list(rows)
    cells = [header, *(row for row in kept if not isinstance(row, str))]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        aligned = (c.rjust(w) if name in right else c.ljust(w) for c, w, name in zip(row, widths, header, strict=True))
        return "  ".join(aligned).rstrip()

    return [line(header), *(row if isinstance(row, str) else line(row) for row in kept)]
