"""`magicbyte verify` and `magicbyte diff`: what they print, and their exit statuses."""

from __future__ import annotations

from pathlib import Path

from cli.conftest import FIRST, HOSTILE, Run, assert_harmless
from cli.segments import batch


def test_a_sound_directory(run: Run, logs: Path) -> None:
    ran = run("verify", logs / "pay-1")
    assert (ran.status, ran.lines) == (0, ["1 batch, 1 record: 0 errors, 0 notes: sound"])
    # In the other, a leader's epoch goes back.
    ran = run("verify", logs, "--topic", "orders")
    assert ran.status == 1
    assert ran.lines[0].startswith("error epoch: ")


def test_defects(run: Run, damaged: Path) -> None:
    ran = run("verify", damaged)
    assert ran.status == 1
    assert any(line.startswith("error crc: ") and str(damaged) in line for line in ran.lines)
    assert any(line.startswith("note torn_tail: ") for line in ran.lines)
    assert "NOT SOUND" in ran.lines[-1]
    assert not any(line.startswith("note") for line in run("verify", "--no-notes", damaged).lines)


def test_json(run: Run, damaged: Path) -> None:
    ran = run("verify", "--json", damaged)
    (document,) = ran.json
    assert ran.status == 1
    assert document["ok"] is False
    assert {d["kind"] for d in document["defects"]} == {"crc", "gap", "torn_tail"}
    assert all(d["path"] == str(damaged) for d in document["defects"])


def test_nothing_to_check(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / FIRST
    empty.write_bytes(bytes(1000))
    assert run("verify", empty).status == 3
    assert run("verify", tmp_path / "absent").status == 2
    assert run("verify").status == 2


def test_the_ledger(run: Run, damaged: Path) -> None:
    ran = run("verify", "--ledger", damaged)
    assert ran.status == 1
    assert ran.lines[0].split()[:3] == ["POSITION", "SIZE", "MAGIC"]
    assert [line.split()[-2] for line in ran.lines[1:]] == ["ok", "BAD", "ok"]
    rows = run("verify", "--ledger", "--json", damaged).json
    assert [(row["firstOffset"], row["crcOk"]) for row in rows] == [(0, True), (2, False), (4, True)]


def test_diff(run: Run, tmp_path: Path) -> None:
    one, other = tmp_path / "one.log", tmp_path / "other.log"
    one.write_bytes(batch([(b"a", HOSTILE.encode())]))
    other.write_bytes(batch([(b"a", b"2", [(HOSTILE.encode(), None)])]))
    assert run("diff", one, one).status == 0
    ran = run("diff", one, other)
    assert ran.status == 1
    assert "offset 0: value, headers" in ran.lines[0]
    assert_harmless(ran.out)
    (document,) = run("diff", "--json", one, other).json
    assert document["differences"][0]["what"] == ["value", "headers"]
    assert run("diff", one, other, one).status == 2


def test_digests(run: Run, logs: Path, damaged: Path) -> None:
    ran = run("diff", logs)
    assert ran.status == 0
    assert [line.split()[1] for line in ran.lines] == ["orders-0", "pay-1"]
    assert run("diff", damaged).status == 1


def test_no_record_is_never_a_pass(run: Run, tmp_path: Path) -> None:
    """Bytes in which there is nothing to compare, or to draw: zeros, as a preallocated segment has."""
    for name in ("a-0", "b-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / FIRST).write_bytes(bytes(5000))
    one, other = tmp_path / "a-0", tmp_path / "b-0"
    for given in (("verify", one), ("diff", one), ("diff", one, other), ("diff", "--json", one, other)):
        ran = run(*given)
        assert ran.status == 3 and ("no records" in ran.err or "0 records" in ran.out), given
        assert "same" not in ran.out
    assert run("report", "-o", tmp_path / "r.html", one).status == 3
