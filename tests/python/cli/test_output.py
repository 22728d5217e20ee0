"""How single things are shown, and the progress line."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.conftest import assert_harmless
from magicbyte.cli import output, progress
from magicbyte.cli.control import control_json, control_text, decode_control
from magicbyte.cli.options import as_bytes


@given(st.binary())
def test_bytes_come_back_from_json(data: bytes) -> None:
    text = output.to_json(output.json_bytes(data))
    assert_harmless(text)
    back = json.loads(text)
    assert (as_bytes(f"base64:{back['base64']}") if isinstance(back, dict) else back.encode()) == data


@given(st.text(st.characters(codec=None)))
def test_nothing_reaches_a_terminal_raw(text: str) -> None:
    for shown in (output.escape(text), output.quote(text), output.show_name(text), output.to_json(text)):
        assert_harmless(shown)
        assert "\n" not in shown


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_quotes_are_a_literal(text: str) -> None:
    import ast

    assert ast.literal_eval(output.quote(text)) == text


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_timestamp_can_be_shown(milliseconds: int) -> None:
    assert_harmless(output.show_time(milliseconds))


def test_times() -> None:
    assert output.iso(0) == "1970-01-01T00:00:00.000Z"
    assert output.iso(-2) == "1969-12-31T23:59:59.998Z"
    assert output.iso(-1) is None
    assert output.iso(-62_135_596_800_000) == "0001-01-01T00:00:00.000Z"


@pytest.mark.parametrize("size, shown", [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KB"), (3 << 40, "3.0 TB")])
def test_sizes(size: int, shown: str) -> None:
    assert output.human_bytes(size) == shown


@pytest.mark.parametrize(
    "key, value, fields, text",
    [
        (
            b"\0\0\0\0",
            b"\0\0\0\0\0\x05",
            {"type": "ABORT", "version": 0, "coordinatorEpoch": 5},
            "ABORT version=0 coordinatorEpoch=5",
        ),
        (
            b"\0\0\0\2",
            b"\xff",
            {"type": "LEADER_CHANGE", "version": 0, "value": {"base64": "/w=="}},
            "LEADER_CHANGE version=0 value=base64:/w==",
        ),
        (b"\0\1\0\x63", None, {"type": "UNKNOWN(99)", "version": 1, "value": None}, "UNKNOWN(99) version=1 value=null"),
        (b"\0\0\0\1", b"\0", {"type": "COMMIT", "version": 0, "value": "\0"}, r'COMMIT version=0 value="\x00"'),
        (None, None, {"type": "UNKNOWN", "value": None}, "UNKNOWN value=null"),
        (b"\0", b"", {"type": "UNKNOWN", "value": ""}, 'UNKNOWN value=""'),
    ],
)
def test_control(key: bytes | None, value: bytes | None, fields: dict[str, object], text: str) -> None:
    decoded = decode_control(key, value)
    assert control_json(decoded) == fields
    assert control_text(decoded) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_after_a_second_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, now = Terminal(), [100.0]
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with progress.Progress(4 << 20) as line:
        now[0] += 0.9
        line.to(1 << 20)
        assert terminal.getvalue() == ""
        now[0] += 0.1
        line.to(2 << 20)
        assert "50% [############------------] 2.0 MB of 4.0 MB, 2.0 MB/s, 0:01 left" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_no_progress_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = io.StringIO()
    monkeypatch.setattr("sys.stderr", plain)
    with progress.Progress(10) as line:
        line.next = 0
        line.to(5)
    assert plain.getvalue() == ""
