"""`magicbyte dump`: every field of every record, the filters, the exit statuses."""

from __future__ import annotations

import base64
import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import magicbyte as mb
from cli.conftest import FIRST, HOSTILE, Run, assert_harmless
from cli.segments import batch, open_transaction


def test_text_shows_every_field(run: Run, logs: Path) -> None:
    ran = run("dump", logs / "orders-0" / FIRST)
    assert ran.status == 0
    assert ran.lines == [
        (
            'orders-0@0 2026-01-31T12:00:00.000Z CreateTime epoch=2 key="k1" value="v1" '
            'headers=[trace-id="abc" n=null e="" trace-id="def"]'
        ),
        'orders-0@1 2026-01-31T12:00:00.001Z CreateTime epoch=2 key=null value="wörld" headers=[bin=base64:/wA=]',
        "orders-0@2 2026-01-31T12:00:00.002Z CreateTime epoch=2 key=base64://4= value=null",
        'orders-0@3 2026-01-31T12:00:00.003Z CreateTime epoch=2 key="" value=""',
        'orders-0@4 2026-01-31T12:00:00.000Z CreateTime epoch=0 key="t" value="x"',
    ]


def test_json_loses_nothing(run: Run, logs: Path) -> None:
    first, second, third, fourth, _ = run("dump", logs / "orders-0" / FIRST, "--json").json
    assert first == {
        "topic": "orders",
        "partition": 0,
        "offset": 0,
        "timestamp": "2026-01-31T12:00:00.000Z",
        "timestampMs": 1_769_860_800_000,
        "timestampType": "CreateTime",
        "leaderEpoch": 2,
        "key": "k1",
        "value": "v1",
        "headers": [
            {"key": "trace-id", "value": "abc"},
            {"key": "n", "value": None},
            {"key": "e", "value": ""},
            {"key": "trace-id", "value": "def"},
        ],
    }
    assert (second["key"], second["value"]) == (None, "wörld")
    assert second["headers"] == [{"key": "bin", "value": {"base64": base64.b64encode(b"\xff\0").decode()}}]
    assert (third["key"], third["value"]) == ({"base64": "//4="}, None)
    assert (fourth["key"], fourth["value"]) == ("", "")


def test_partitions_come_in_order_and_append_time_is_named(run: Run, logs: Path) -> None:
    records = run("dump", logs, "--json").json
    assert [(r["topic"], r["partition"], r["offset"]) for r in records] == [
        *(("orders", 0, offset) for offset in (0, 1, 2, 3, 4, *range(6, 17))),
        ("pay", 1, 0),
    ]
    assert records[-1]["timestampType"] == "LogAppendTime"


def test_v1_has_no_leader_epoch(run: Run, logs: Path) -> None:
    (line,) = run("dump", logs, "--key", "old").lines
    assert line == 'orders-0@6 2026-01-31T12:00:00.000Z CreateTime key="old" value="one"'
    (record,) = run("dump", logs, "--key", "old", "--json").json
    assert record["leaderEpoch"] is None


def test_control_records_come_decoded_and_only_if_asked_for(run: Run, logs: Path) -> None:
    assert [r for r in run("dump", logs, "--json").json if r["offset"] == 5] == []
    records = run("dump", logs / "orders-0" / FIRST, "--json", "--control").json
    assert [r["control"] for r in records[:-1]] == [None] * 5
    assert records[-1]["control"] == {"type": "COMMIT", "version": 0, "coordinatorEpoch": 3}
    assert run("dump", logs / "orders-0" / FIRST, "--control").lines[-1] == (
        "orders-0@5 2026-01-31T12:00:00.000Z CreateTime epoch=0 COMMIT version=0 coordinatorEpoch=3"
    )


@pytest.mark.parametrize(
    "args, offsets",
    [
        (["--from-offset", 8, "--to-offset", 11], [8, 9, 10]),
        (["--from-offset", 14], [14, 15, 16]),
        (["--to-offset", 2], [0, 1]),
        (["--from-time", "2026-02-01", "--to-time", "2026-02-01T12:00:00.002Z"], [7, 8]),
        (["--from-time", "1769860800002", "--to-time", "2026-02-01"], [2, 3]),
        (["--from-time", "2026-02-01T13:00:00.008+01:00"], [15, 16]),
        (["--key", "k1", "--key", "t"], [0, 4]),
        (["--key", "base64://4="], [2]),
        (["--key", "hex:fffe"], [2]),
        (["--key", "text:t"], [4]),
        (["--key", ""], [3]),
        (["--header", "trace-id=def"], [0]),
        (["--header", "trace-id=abc", "--header", "trace-id=def"], [0]),
        (["--header", "trace-id=no"], []),
        (["--header", "n"], [0]),
        (["--header", "n="], []),
        (["--header", "e="], [0]),
        (["--header", "bin=hex:ff00"], [1]),
        (["--header", "trace-id", "--header", "!bin"], [0]),
        (["--header", "trace-id!=abc", "--header", "bin"], [1]),
        (["--header", "trace-id", "--key", "k1"], [0]),
        (["-n", 3], [0, 1, 2]),
        (["--max", 0], []),
        (["--key", "k", "-n", 1], [7]),
    ],
)
def test_filters(run: Run, logs: Path, args: list[object], offsets: list[int]) -> None:
    ran = run("dump", logs / "orders-0", "--json", *args)
    assert ran.status == 0
    assert [record["offset"] for record in ran.json] == offsets
    count = run("dump", logs / "orders-0", "--count", *args)
    assert (count.status, count.out) == (0, f"{len(offsets)}\n")


def test_topic_and_partition_choose(run: Run, logs: Path) -> None:
    assert [r["topic"] for r in run("dump", logs, "--topic", "pay", "--json").json] == ["pay"]
    assert [r["topic"] for r in run("dump", logs, "--partition", 1, "--json").json] == ["pay"]
    assert run("dump", logs, "--partition", 9).status == 0
    assert run("dump", logs, "--count").out == "17\n"
    assert run("dump", logs, "--count", "--json").json == [{"records": 17}]


def test_globs_are_ours_too(run: Run, logs: Path) -> None:
    assert run("dump", logs / "ord*", "--count").out == "16\n"
    assert run("dump", logs / "*" / "*.log", "--count").out == "17\n"


def test_damage_after_what_could_be_read(run: Run, damaged: Path) -> None:
    ran = run("dump", damaged, "--json")
    assert ran.status == 1
    assert [record["key"] for record in ran.json] == ["a", "b"]
    assert ran.err.startswith(f"magicbyte: error: {damaged}: at byte 79: wrong checksum")
    assert ran.err.count("at byte") == 1
    assert "--mode DROPMALFORMED" in ran.err
    assert "Traceback" not in ran.err
    count = run("dump", damaged, "--count")
    assert (count.status, count.out) == (1, "2\n")
    assert "at byte 79" in count.err


def test_behind_the_damage(run: Run, damaged: Path) -> None:
    ran = run("dump", damaged, "--json", "--mode", "DROPMALFORMED")
    assert ran.status == 1
    assert [record["key"] for record in ran.json] == ["a", "b", "e", "f"]
    warning, note = ran.err.splitlines()
    assert warning.startswith(f"magicbyte: warning: {damaged}: at byte 79: ")
    assert note.startswith(f"magicbyte: note: {damaged}: at byte 237: ")
    count = run("dump", damaged, "--count", "--mode", "dropmalformed")
    assert (count.status, count.out) == (1, "4\n")


def test_unchecked(run: Run, damaged: Path) -> None:
    ran = run("dump", damaged, "--json", "--no-check-crc")
    assert ran.status == 0
    assert [record["value"] for record in ran.json] == ["1", "2", "3", "5", "5", "6"]


def test_standard_input(run: Run, logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (logs / "orders-0" / FIRST).read_bytes()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    ran = run("dump", "-", "--json")
    assert ran.status == 0
    assert [record["offset"] for record in ran.json] == [0, 1, 2, 3, 4]


def test_much_standard_input_goes_to_a_file_and_is_still_called_dash(
    run: Run, damaged: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from magicbyte.cli import options

    monkeypatch.setattr(options, "SPOOL", 16)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(damaged.read_bytes())))
    ran = run("dump", "-", "--json")
    assert len(ran.json) == 2
    assert ran.err.startswith("magicbyte: error: -: at byte 79: wrong checksum")


def test_nothing_to_read(run: Run, tmp_path: Path) -> None:
    assert run("dump", tmp_path).status == 3
    empty = tmp_path / FIRST
    empty.touch()
    ran = run("dump", empty)
    assert ran.status == 3
    assert ran.err.startswith(f"magicbyte: error: {empty}: no records to read")
    index = tmp_path / "00000000000000000000.index"
    index.touch()
    assert run("dump", index).status == 3


def test_not_a_log(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("These are notes, and no Kafka records at all. " * 5)
    ran = run("dump", file)
    assert ran.status == 1
    assert ran.out == ""
    assert ran.err.startswith(f"magicbyte: error: {file}: at byte 0: ")
    assert "Kafka log" in ran.err


@pytest.mark.parametrize(
    "args",
    [
        ["nowhere"],
        [],
        ["--format", "v9", "."],
        ["--from-time", "soon", "."],
        ["--key", "hex:zz", "."],
        ["--frobnicate", "."],
        ["-n", "-1", "."],
    ],
)
def test_wrong_usage(run: Run, args: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("dump", *args)
    assert ran.status == 2
    assert ran.err.startswith("magicbyte: error: ")
    assert "Traceback" not in ran.err


def test_hostile_bytes_stay_text(run: Run, tmp_path: Path) -> None:
    trick = HOSTILE.encode()
    segment = tmp_path / FIRST
    segment.write_bytes(batch([(trick, trick, [(trick, trick), (b"plain", b"\xff" + trick)])]))
    text = run("dump", segment)
    assert_harmless(text.out)
    assert len(text.lines) == 1
    assert r'key="\x1b[31mred\x1b[2J\x1b]0;title\x07\r\nfake: line\x00\x7f\x9b31m\u202eevil' in text.out
    ran = run("dump", segment, "--json")
    assert_harmless(ran.out)
    assert ran.out.isascii()
    (record,) = ran.json
    assert (record["key"], record["value"]) == (HOSTILE, HOSTILE)
    assert record["headers"][0] == {"key": HOSTILE, "value": HOSTILE}
    assert base64.b64decode(record["headers"][1]["value"]["base64"]) == b"\xff" + trick


def test_hostile_file_names_stay_text(run: Run, tmp_path: Path) -> None:
    partition = tmp_path / "\x1b[31m\u202etopic-0"
    partition.mkdir()
    (partition / FIRST).write_bytes(b"\0" * 16 + b"\x63" + b"x" * 100)
    for command in ("dump", "inspect"):
        ran = run(command, partition)
        assert ran.status == 1
        assert_harmless(ran.out + ran.err)
        assert r"\x1b[31m\u202etopic-0" in ran.out + ran.err


def test_text_cannot_pass_for_a_marker(run: Run, tmp_path: Path) -> None:
    segment = tmp_path / FIRST
    segment.write_bytes(batch([(b"null", b"base64:AAAA"), (b'a" value="b', b"\\x00")]))
    assert [line.split("epoch=0 ")[1] for line in run("dump", segment).lines] == [
        'key="null" value="base64:AAAA"',
        r'key="a\" value=\"b" value="\\x00"',
    ]


def test_times_beyond_the_calendar(run: Run, tmp_path: Path) -> None:
    segment = tmp_path / FIRST
    segment.write_bytes(batch([(b"k", b"v")], time=2**62) + batch([(b"k", b"v")], time=-1, base=1))
    assert [line.split()[1] for line in run("dump", segment).lines] == [f"{2**62}ms", "-"]
    beyond, none = run("dump", segment, "--json").json
    assert (beyond["timestamp"], beyond["timestampMs"]) == (None, 2**62)
    assert (none["timestamp"], none["timestampMs"]) == (None, -1)


def test_headers_of_known_conventions_are_decoded(run: Run, tmp_path: Path) -> None:
    headers = [
        ("kafka_dlt-original-offset", b"\0\0\0\0\0\0\0\5"),
        ("traceparent", b"\x1b[31m"),
        ("__connect.errors.topic", b"orders"),
        ("mine", b"\xff"),
        ("b3", None),
    ]
    (tmp_path / FIRST).write_bytes(mb.encode([mb.ProducerRecord("t", b"v", b"k", headers, timestamp=0)]))
    ran = run("dump", tmp_path / FIRST, "--decode-headers")
    assert ran.lines[0].endswith(
        'headers=[kafka_dlt-original-offset=5(int64) traceparent="\\x1b[31m"!("no version-trace-parent-flags") '
        '__connect.errors.topic="orders" mine=base64:/w== b3=null]'
    )
    [record] = run("dump", tmp_path / FIRST, "--decode-headers", "--json").json
    assert record["headers"][0] == {
        "key": "kafka_dlt-original-offset",
        "value": "\0\0\0\0\0\0\0\5",
        "decoded": {"convention": "spring dead letter", "value": 5, "encoding": "int64", "error": None},
    }
    assert record["headers"][3] == {"key": "mine", "value": {"base64": "/w=="}}


def test_past_lso(run: Run, tmp_path: Path) -> None:
    """`read_committed` ends at the first transaction without an end, and says so; `--past-lso` goes on."""
    path = tmp_path / "pay-1"
    path.mkdir()
    (path / FIRST).write_bytes(open_transaction())
    ran = run("dump", "--isolation", "read_committed", path)
    assert (ran.status, len(ran.lines)) == (0, 1)
    assert "5 records are left behind" in ran.err
    ran = run("dump", "--isolation", "read_committed", "--past-lso", "--json", path)
    assert (ran.status, [line["offset"] for line in ran.json]) == (0, [0, 4, 5, 6])
    ran = run("dump", "--isolation", "read_committed", "--past-lso", "--count", path)
    assert ran.out == "4\n"


def test_the_last_of_each_partition(run: Run, logs: Path) -> None:
    def shown(*arguments: object) -> list[tuple[str, int]]:
        ran = run("dump", logs, "--json", *arguments)
        assert ran.status == 0, ran.err
        return [(record["topic"], record["offset"]) for record in ran.json]

    everything = shown()
    orders = [record for record in everything if record[0] == "orders"]
    pay = [record for record in everything if record[0] == "pay"]
    assert shown("--last", 3) == orders[-3:] + pay
    assert shown("--last", 13) == orders[-13:] + pay  # over a segment's bounds
    assert shown("--last", 100) == everything
    assert shown("--last", 2, "-n", 1) == orders[-2:-1]
    assert shown("--last", 0) == []
    assert shown("--last", 2, "--header", "trace-id") == [("orders", 0), ("pay", 0)]
    assert shown("--last", 1, "--to-offset", 9) == [("orders", 8), *pay]
    assert run("dump", logs, "--last", 1, "--count").status == 2


def test_the_last_at_damage(run: Run, damaged: Path) -> None:
    ran = run("dump", damaged, "--last", 1, "--json")
    assert (ran.status, [record["key"] for record in ran.json]) == (1, ["b"]) and "DROPMALFORMED" in ran.err
    ran = run("dump", damaged, "--last", 1, "--json", "--mode", "DROPMALFORMED")
    assert (ran.status, [record["key"] for record in ran.json]) == (1, ["f"])
