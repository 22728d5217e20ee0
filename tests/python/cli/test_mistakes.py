"""What a tired user types, and what he is told."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from cli.conftest import FIRST, Run


@pytest.mark.parametrize(
    ("typed", "meant"), [("inspct", "inspect"), ("recovr", "recover"), ("verfy", "verify"), ("kafka-dumplog", "kafka-dump-log")]
)  # fmt: skip
def test_a_command_that_is_nearly_one(typed: str, meant: str, run: Run) -> None:
    ran = run(typed, "logs")
    assert ran.status == 2 and f"did you mean {meant}" in ran.err


def test_no_command_at_all_like_it(run: Run) -> None:
    ran = run("xyzzy")
    assert ran.status == 2 and "'xyzzy'" in ran.err and "did you mean" not in ran.err


def test_choices_stand_on_one_line(run: Run, logs: Path, tmp_path: Path) -> None:
    ran = run("convert", logs, tmp_path / "x")
    assert ran.status == 2 and ran.err.splitlines()[0].endswith("Choose from: v0, v1, v2, v3, kip87, kip82a, kip82b")


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_nothing_there_is_said_once(command: str, run: Run, tmp_path: Path) -> None:
    ran = run(command, tmp_path)
    assert (ran.status, ran.out) == (3, "") and ran.err.count("no log segment") == 1


def test_the_file_beside_the_log(run: Run, data: Path) -> None:
    ran = run("dump", data / "kafka-logs" / "orders-0" / "00000000000000000000.index")
    assert ran.status == 3 and "not a log but its index file" in ran.err


def test_times_that_lie_back(run: Run, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = 1_769_860_800.0  # of the log's records
    monkeypatch.setattr(time, "time", lambda: first + 7200)
    for back, count in (("-2h", 17), ("-119m", 10), ("-7000s", 10), ("-1d", 17)):
        ran = run("dump", logs, "--count", "--from-time", back)
        assert (ran.status, ran.out) == (0, f"{count}\n"), (back, ran.err)
    ran = run("dump", logs, "--from-time", "yesterday")
    assert ran.status == 2 and "-2h" in ran.err


def test_a_page_that_cannot_be_written_is_told_before_the_log_is_read(run: Run, logs: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for place in (tmp_path / "none" / "r.html", tmp_path):
        ran = run("report", logs, "-o", place)
        assert ran.status == 2 and str(place) in ran.err and "a glob" not in ran.err


def test_diff_says_in_which_of_the_two(run: Run, logs: Path, tmp_path: Path) -> None:
    assert run("convert", logs / "pay-1", tmp_path / "other" / "pay-1", "--to", "v2").status == 0
    for first, second, side in ((logs, tmp_path / "other", "first"), (tmp_path / "other", logs, "second")):
        assert f"orders-0: only in {logs}" in run("diff", first, second).lines
        (told,) = run("diff", first, second, "--json").json
        assert [(one["what"], one["onlyIn"]) for one in told["differences"]] == [(["partition"], side)]
    assert (logs / "orders-0" / FIRST).exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--topic", "order"), "no topic order; there: orders, pay"),
        (("--topic", "orders", "--partition", "7"), "no such partition; there: orders-0, pay-1"),
        (("--from-offset", "9999"), "no record is like that"),
        (("--key", "nobody"), "no record is like that"),
        (("--header", "nothing"), "no record is like that"),
    ],
)
def test_an_empty_answer_says_that_it_is_one(arguments: tuple[str, ...], told: str, run: Run, logs: Path) -> None:
    ran = run("dump", logs, *arguments)
    assert (ran.status, ran.out) == (0, "") and told in ran.err and "note:" in ran.err
    # Where none were asked for, none are missed.
    assert run("dump", logs, "-n", "0", *arguments).err == ""


def test_what_an_extra_would_bring_is_told_and_no_traceback(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fsspec", None)
    for address, extra in (("s3://bucket/logs", "s3"), ("gs://bucket/logs", "storage")):
        for command in ("inspect", "dump", "verify"):
            ran = run(command, address)
            assert ran.status == 2 and f"pip install 'magicbyte[{extra}]'" in ran.err, ran.err


WRITERS = [
    ("convert", "--to", "v2"), ("clean",), ("retain", "--retention-ms", "1"), ("redact", "--key", "k1"), ("land",), ("recover",),
]  # fmt: skip


@pytest.mark.parametrize("command", WRITERS, ids=lambda command: command[0])
def test_the_first_of_several_never_passes_for_all(
    command: tuple[str, ...], run: Run, logs: Path, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    name, *options = command
    ran = run(name, logs / "*-[01]", tmp_path / "out", *options)
    assert ran.status == 2 and "orders-0" in ran.err and "pay-1" in ran.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", WRITERS, ids=lambda command: command[0])
def test_nothing_is_written_into_what_is_read(command: tuple[str, ...], run: Run, logs: Path) -> None:
    pytest.importorskip("pyarrow")
    name, *options = command
    before = {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()}
    for target in (logs, logs / "lake"):
        assert run(name, logs, target, *options).status == 2
    assert {path: path.read_bytes() for path in logs.rglob("*") if path.is_file()} == before


def test_one_log_at_a_time(run: Run, logs: Path) -> None:
    pytest.importorskip("pyarrow")
    for arguments in (("trail",), ("chargeback", "--by", "topic"), ("diff",)):
        ran = run(*arguments, logs / "*-[01]")
        assert ran.status == 2 and ran.out == "", ran.err


def test_a_cleaning_that_could_not_clean_says_why(run: Run, logs: Path, tmp_path: Path) -> None:
    assert "--clean-active" in run("clean", logs / "pay-1", tmp_path / "one").out
    assert "--clean-active" not in run("clean", logs / "pay-1", tmp_path / "two", "--clean-active").out
