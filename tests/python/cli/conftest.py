"""A small log directory of known content, and the command line run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli.segments import batch, marker, message

FIRST = "00000000000000000000.log"

#: What a log may hold to play a trick on whoever looks at it: colours, a cleared screen, a title, bells, line breaks,
#: NUL, DEL, C1 controls, bidirectional overrides, invisible characters, line separators.
HOSTILE = "\x1b[31mred\x1b[2J\x1b]0;title\x07\r\nfake: line\0\x7f\x9b31m\u202eevil\u2066\u200b\u2028end\ufeff"


@dataclass
class Ran:
    """How a run of the command line ended."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `magicbyte` with these arguments, as the console script does."""
    from magicbyte.cli import main

    def run(*args: object) -> Ran:
        status = main([str(arg) for arg in args])
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A log directory: two partitions, three segments, v1 and v2, headers, a transaction, a zero tail, a leftover."""
    orders, pay = tmp_path / "logs" / "orders-0", tmp_path / "logs" / "pay-1"
    orders.mkdir(parents=True)
    pay.mkdir()
    (orders / FIRST).write_bytes(
        batch(
            [
                (b"k1", b"v1", [(b"trace-id", b"abc"), (b"n", None), (b"e", b""), (b"trace-id", b"def")]),
                (None, "wörld".encode(), [(b"bin", b"\xff\0")]),
                (b"\xff\xfe", None),
                (b"", b""),
            ],
            epoch=2,
        )
        + batch([(b"t", b"x")], base=4, attributes=0x10, producer=(7, 0, 0))
        + marker(1, base=5)
    )
    second = "00000000000000000006.log"
    later = batch([(b"k", b"v")] * 10, base=7, time=1_769_947_200_000)
    (orders / second).write_bytes(message(6, b"old", b"one") + later + bytes(100))
    (orders / (second + ".deleted")).write_bytes(b"")
    (pay / FIRST).write_bytes(batch([(b"p", b"q", [(b"trace-id", b"abc")])], attributes=0x08))
    return tmp_path / "logs"


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A segment of three batches, the second with a wrong checksum, and a torn one at its end."""
    partition = tmp_path / "damaged-3"
    partition.mkdir()
    one = batch([(b"a", b"1"), (b"b", b"2")])
    bad = bytearray(batch([(b"c", b"3"), (b"d", b"4")], base=2))
    bad[-2] ^= 1
    (partition / FIRST).write_bytes(one + bad + batch([(b"e", b"5"), (b"f", b"6")], base=4) + one[:40])
    return partition / FIRST


def assert_harmless(text: str) -> None:
    """Nothing in the text but printable characters and line feeds."""
    assert {c for c in text if not c.isprintable()} <= {"\n"}
