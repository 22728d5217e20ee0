"""`magicbyte dump --follow` and `--decode`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import FIRST, Run
from cli.segments import batch

from places import DATA


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What happens between two looks, step by step; then nothing for a while, so that a lost record fails fast."""
    from magicbyte.cli import follow

    def set_script(*steps: Callable[[], object]) -> None:
        left = list(steps)

        def sleep(_seconds: float) -> None:
            if not left:
                raise KeyboardInterrupt
            left.pop(0)()

        monkeypatch.setattr(follow.time, "sleep", sleep)

    return set_script


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_what_is_appended_is_shown_and_whole_batches_only(
    tmp_path: Path, run: Run, script: Callable[..., None]
) -> None:
    partition = tmp_path / "orders-0"
    partition.mkdir()
    log = partition / FIRST
    log.write_bytes(batch([(b"a", b"1")]))
    second = batch([(b"b", b"2"), (b"c", b"3")], base=1)
    rolled = partition / "00000000000000000003.log"
    script(
        lambda: append(log, second[:30]),  # half a batch: nothing yet
        lambda: append(log, second[30:]),
        lambda: rolled.write_bytes(batch([(b"d", b"4")], base=3)),
        lambda: (tmp_path / "pay-1").mkdir(),
        lambda: (tmp_path / "pay-1" / FIRST).write_bytes(batch([(b"p", b"5")])),
        log.unlink,  # retention
        lambda: append(rolled, batch([(b"e", b"6")], base=4)),
    )
    ran = run("dump", "-f", "--json", tmp_path)
    assert [(line["topic"], line["offset"], line["key"]) for line in ran.json] == [
        ("orders", 0, "a"), ("orders", 1, "b"), ("orders", 2, "c"), ("orders", 3, "d"), ("pay", 0, "p"), ("orders", 4, "e"),
    ]  # fmt: skip
    assert ran.err.strip() == ""
    assert ran.status == 130  # as a shell says of what was interrupted


def test_filters_and_a_number_end_it(tmp_path: Path, run: Run, script: Callable[..., None]) -> None:
    log = tmp_path / FIRST
    log.write_bytes(batch([(b"a", b"1", [(b"h", b"x")]), (b"b", b"2")]))
    script(lambda: append(log, batch([(b"c", b"3", [(b"h", b"x")]), (b"d", b"4", [(b"h", b"x")])], base=2)))
    ran = run("dump", "-f", "--header", "h=x", "-n", "2", "--from-offset", "0", log, "--json")
    assert [line["key"] for line in ran.json] == ["a", "c"]
    assert ran.status == 0


def test_a_log_that_is_cut_is_told_and_goes_on(tmp_path: Path, run: Run, script: Callable[..., None]) -> None:
    log = tmp_path / FIRST
    first = batch([(b"a", b"1")])
    log.write_bytes(first + batch([(b"b", b"2")], base=1))
    script(lambda: log.write_bytes(first), lambda: append(log, batch([(b"B", b"3")], base=1)))
    ran = run("dump", "-f", log, "--json")
    assert [line["key"] for line in ran.json] == ["a", "b", "B"]
    assert "cut from" in ran.err


def test_damage_is_believed_at_the_second_look(tmp_path: Path, run: Run, script: Callable[..., None]) -> None:
    log = tmp_path / FIRST
    good = batch([(b"b", b"2")], base=1)
    bad = bytearray(good)
    bad[-2] ^= 1
    log.write_bytes(batch([(b"a", b"1")]) + bad)
    # Half written at the first look, whole at the second.
    script(lambda: log.write_bytes(batch([(b"a", b"1")]) + good))
    assert [line["key"] for line in run("dump", "-f", log, "--json").json] == ["a", "b"]
    log.write_bytes(batch([(b"a", b"1")]) + bad)
    script(lambda: None, lambda: None)
    ran = run("dump", "-f", log, "--json")
    assert ran.status == 1 and "checksum" in ran.err and [line["key"] for line in ran.json] == ["a"]


@pytest.mark.parametrize("more", [["-"], ["--count", "x"], ["--isolation", "read_committed", "x"]])
def test_what_cannot_be_followed(more: list[str], run: Run) -> None:
    ran = run("dump", "-f", *more)
    assert ran.status == 2 and "--follow" in ran.err


def test_decoded(run: Run) -> None:
    ran = run(
        "dump", "--decode", "--json", DATA / "topics" / "logs", DATA / "kafka-logs" / "orders-0", "--to-offset", "40"
    )
    names = {line["topic"]: line["decoded"] and line["decoded"]["name"] for line in ran.json}
    assert names["__transaction_state"] == "TransactionLog" and names["orders"] is None
    lone = DATA / "kafka-logs" / "__consumer_offsets-0" / FIRST
    text = run("dump", "--decode-as", "offsets", "-n", "3", lone).out
    assert 'OffsetCommit {"group":"pub-group","topic":"pub.v2-basic-none","partition":0} {"offset":1,' in text
    wrong = run("dump", "--decode-as", "transactions", "-n", "1", lone).out
    assert "undecoded=a message of the unknown type 2" in wrong


def test_the_last_first_and_then_what_comes(tmp_path: Path, run: Run, script: Callable[..., None]) -> None:
    for topic in ("a", "b"):
        (tmp_path / f"{topic}-0").mkdir()
        (tmp_path / f"{topic}-0" / FIRST).write_bytes(batch([(b"%d" % at, b"v") for at in range(5)]))
    script(lambda: append(tmp_path / "a-0" / FIRST, batch([(b"5", b"v"), (b"6", b"v"), (b"7", b"v")], base=5)))
    ran = run("dump", "-f", "--last", 2, "--json", tmp_path)
    assert [(line["topic"], line["offset"]) for line in ran.json] == [
        ("a", 3), ("a", 4), ("b", 3), ("b", 4), ("a", 5), ("a", 6), ("a", 7),
    ]  # fmt: skip
