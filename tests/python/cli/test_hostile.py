"""Outputs are hostile as well: whatever a log holds, and whatever its files are called, no terminal and no browser obeys it."""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import magicbyte as mb
from cli.conftest import FIRST, HOSTILE, assert_harmless
from magicbyte.cli import main

#: What a terminal, a spreadsheet or a browser would obey, and bytes that are no text.
TRICKS = st.sampled_from(
    [
        HOSTILE,
        "\x1b[2J",
        "\x9b31m",
        "\u202egpj.exe",
        "\u2066\u2069",
        "\u200f\u061c",
        "\u2028\u2029\x85",
        "\r\x08\x7f\0",
        "\ufeff\ufff9\U000e0041",
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "\"'><&",
        "${jndi:ldap://x}",
    ]
)
TEXT = TRICKS | st.text(st.characters(codec="utf-8"), max_size=8)
BYTES = TEXT.map(str.encode) | st.binary(max_size=12) | st.none()
HEADERS = st.lists(st.tuples(TEXT, BYTES), max_size=3)
#: A directory may have any name but of these bytes.
NAMES = TEXT.map(lambda text: text.replace("/", "").replace("\0", "")[:40]).filter(
    lambda name: name not in ("", ".", "..")
)
FEW = settings(deadline=None, max_examples=5, suppress_health_check=[HealthCheck.too_slow])


def run(*arguments: object) -> tuple[str, str]:
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main([str(argument) for argument in arguments])
    out.flush()
    return out.buffer.getvalue().decode(), err.getvalue()  # type: ignore[attr-defined]


@FEW
@given(st.lists(st.tuples(BYTES, BYTES, HEADERS), min_size=1, max_size=3), NAMES, st.booleans())
def test_no_terminal_obeys_a_log(
    rows: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]], name: str, damaged: bool
) -> None:
    records = [mb.Record(at, 5, key, value, headers) for at, (key, value, headers) in enumerate(rows)]
    data = bytearray(mb.encode(records) + mb.encode(records, codec="zstd", base_offset=len(records)))
    if damaged:
        data[30] ^= 1
    with tempfile.TemporaryDirectory() as place:
        partition = Path(place, f"{name}-0")
        partition.mkdir()
        segment = partition / FIRST
        segment.write_bytes(data)
        other = Path(place, "other-0")
        other.mkdir()
        (other / FIRST).write_bytes(mb.encode(records[:1]))
        ways: list[tuple[object, ...]] = [
            ("dump", segment),
            ("dump", "--mode", "PERMISSIVE", partition),
            ("dump", "--json", "--mode", "DROPMALFORMED", segment),
            ("inspect", segment),
            ("inspect", "--json", place),
            ("verify", segment),
            ("verify", "--json", partition),
            ("verify", place),
            ("diff", segment, other / FIRST),
            ("diff", "--json", segment, other / FIRST),
            ("savings", segment),
            ("convert", segment, Path(place, "v3.log"), "--to", "v3"),
            ("recover", partition, Path(place, f"{name}-out")),
            ("kafka-dump-log", "--files", segment, "--print-data-log"),
            ("dump", Path(place, f"{name}-9", "nothing.log")),
        ]
        for way in ways:
            out, err = run(*way)
            assert_harmless(out)
            assert_harmless(err)
            if "--json" in way:
                assert all(json.loads(line) is not None for line in out.splitlines())


MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


def test_no_browser_obeys_a_log(tmp_path: Path) -> None:
    """A strict policy, and nothing of the log's that a browser would take for markup."""
    pytest.importorskip("jinja2")
    partition = tmp_path / "<img src=x onerror=alert(1)>-0"
    partition.mkdir()
    records = [mb.Record(at, 5, MARKUP.encode(), HOSTILE.encode(), [(MARKUP + HOSTILE, b"\xff")]) for at in range(3)]
    (partition / FIRST).write_bytes(mb.encode(records) + b"damage")
    out, err = run("report", partition / FIRST, "-o", tmp_path / "report.html")
    assert_harmless(out)
    assert_harmless(err)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and "default-src 'none'" in html.unescape(policy[1])
    assert "<script>alert" not in text and "<img src=x" not in text
    assert not {c for c in text if not c.isprintable()} - {"\n"}


def test_no_name_becomes_a_path_unchecked(tmp_path: Path) -> None:
    """Directories are written under names that stand there and are legal for a topic, as Kafka has it; others are not read."""
    data = mb.encode([mb.Record(0, value=b"v")])
    names = ["..-0", ".-0", "a b-0", "\u202e-0", "x" * 250 + "-0", "a\\b-0", "-0", "c:d-0", "\x1b[2J-0", "orders-0"]
    for name in names:
        (tmp_path / "logs" / name).mkdir(parents=True)
        (tmp_path / "logs" / name / FIRST).write_bytes(data)
    before = set(tmp_path.rglob("*"))
    assert mb.Log(tmp_path / "logs").partitions == [("orders", 0)]
    mb.recover(tmp_path / "logs", tmp_path / "recovered")
    run("convert", tmp_path / "logs", tmp_path / "converted", "--to", "v3")
    mb.digest(mb.Log(data, topic="../../etc/x", partition=0))
    written = {path.relative_to(tmp_path).parts[:2] for path in set(tmp_path.rglob("*")) - before if path.is_file()}
    assert written == {("recovered", "orders-0"), ("converted", "orders-0")}
