"""Custom retention and redaction: what goes, what stays, and that every offset stays what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb
from magicbyte.middleware.predicates import equals
from magicbyte.middleware.retention import Retention

from partitions import T, batch, kept, partition
from places import DATA

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_records_end_by_their_own_headers(tmp_path: Path) -> None:
    data = batch(
        0,
        (b"a", b"old", [("ttl", b"1000")]),
        (b"b", b"held", [("ttl", b"1000"), ("hold", b"case 7")]),
        (b"c", b"young", [("ttl", b"100000")]),
        (b"d", b"odd", [("ttl", b"soon")]),
        (b"e", b"silent"),
    )
    source = partition(tmp_path / "in", data)
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    retaining = mb.Retaining(Retention(ttl_header="ttl", hold="hold"), now=T + 5000)
    done = mb.retain(tmp_path / "in", tmp_path / "out", retaining)
    assert [offset for offset, _, _ in kept(tmp_path / "out" / "t-0")] == [1, 2, 3, 4]
    assert (done.counts["dropped"], done.counts["held"], done.counts["broken"]) == (1, 1, 1)
    assert {path.name: path.read_bytes() for path in source.iterdir()} == before
    assert not mb.Log(tmp_path / "out").verify().errors


def test_whole_segments_go_by_time_and_size(tmp_path: Path) -> None:
    segments = [batch(n, (b"k", b"v" * 100), at=T + 1000 * n) for n in range(4)]
    source = partition(tmp_path, *segments)
    done = mb.retain(source, tmp_path / "time-0", mb.Retaining(retention_ms=1500, now=T + 2600))
    assert ([offset for offset, _, _ in kept(tmp_path / "time-0")], done.counts["segments"]) == ([2, 3], 2)
    mb.retain(source, tmp_path / "size-0", mb.Retaining(retention_bytes=len(segments[0])))
    assert [offset for offset, _, _ in kept(tmp_path / "size-0")] == [3]
    with pytest.raises(ValueError, match="on hold"):
        mb.Retaining(Retention(hold="hold"), retention_ms=1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("format", ["v2", "v3"])
def test_values_of_chosen_keys_are_blotted_out(tmp_path: Path, format: str, codec: str) -> None:
    some = [(b"user-%d" % (n % 3), b"secret %d" % n, [("name", b"Anna")]) for n in range(9)]
    untouched = batch(9, (b"other", b"public"), format=format, codec=codec)
    data = batch(0, *some, format=format, codec=codec, producer_id=7, producer_epoch=1, base_sequence=4) + untouched
    source = partition(tmp_path, data)
    given = list(mb.Log(source).batches())
    done = mb.redact(source, tmp_path / "out-0", mb.Redaction(frozenset({b"user-1"})))
    records = list(mb.Log(tmp_path / "out-0").records())
    assert [r.offset for r in records] == list(range(10))
    assert all((r.value is None and len(r.headers) == 0) == (r.key == b"user-1") for r in records)
    assert all(r.timestamp == T for r in records)
    first, second = mb.Log(tmp_path / "out-0").batches()
    same = ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence", "max_timestamp", "codec")
    assert all(getattr(first, name) == getattr(given[0], name) for name in same)
    assert second.raw == given[1].raw
    assert (done.counts["changed"], done.counts["dropped"], done.counts["rebuilt"]) == (3, 0, 1)


def test_what_is_blotted_out_is_nowhere_in_the_files(tmp_path: Path) -> None:
    data = batch(0, (b"u", b"secret value", [("mail", b"a@b.example")]), (b"o", b"public"), transactional=True,
                 producer_id=1, producer_epoch=0, base_sequence=0)  # fmt: skip
    source = partition(tmp_path, data)
    mb.redact(source, tmp_path / "out-0", mb.Redaction(frozenset({b"u"}), value=b"gone"))
    everything = b"".join(path.read_bytes() for path in (tmp_path / "out-0").iterdir())
    assert b"secret" not in everything
    assert b"a@b.example" not in everything
    assert kept(tmp_path / "out-0")[0] == (0, b"u", b"gone")


def test_dropped_records_leave_the_log_its_end_and_the_producer_its_sequences(tmp_path: Path) -> None:
    data = batch(0, (b"u", b"1"), producer_id=7, producer_epoch=0, base_sequence=0) + batch(1, (b"u", b"2"))
    data += batch(2, (b"o", b"3")) + batch(3, (b"u", b"4"))
    source = partition(tmp_path, data)
    done = mb.redact(source, tmp_path / "out-0", mb.Redaction(frozenset({b"u"}), drop=True))
    assert kept(tmp_path / "out-0") == [(2, b"o", b"3")]
    assert [(b.base_offset, b.count, b.producer_id) for b in mb.Log(tmp_path / "out-0").batches()] == [
        (0, 0, 7), (2, 1, -1), (3, 0, -1),
    ]  # fmt: skip
    assert (done.counts["dropped"], done.counts["emptied"]) == (3, 2)


@pytest.mark.parametrize("name", sorted(path.name for path in (DATA / "kafka-logs").iterdir() if path.is_dir()))
def test_golden_logs_lose_what_is_chosen_and_nothing_else(name: str, tmp_path: Path) -> None:
    log = mb.Log(DATA / "kafka-logs" / name)

    def rows(source: Any) -> list[tuple[Any, ...]]:
        return [(r.offset, r.timestamp, r.key, r.value, tuple((h.key, h.value) for h in r.headers)) for r in source]

    given = rows(log.records())
    keys = frozenset(key for _, _, key, _, _ in given[::3] if key is not None)
    done = mb.redact(log, tmp_path / name, mb.Redaction(keys, drop=True))
    assert rows(mb.Log(tmp_path / name).records()) == [row for row in given if row[2] not in keys]
    assert done.counts["records"] == len(given)
    # Nothing chosen: the same bytes.
    mb.redact(log, tmp_path / "none-0", mb.Redaction(frozenset({b"no such key"})))
    for segment in log.segments:
        written = (tmp_path / "none-0" / Path(segment.path).name).read_bytes()
        assert Path(segment.path).read_bytes().startswith(written)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from magicbyte.cli import main

    partition(tmp_path / "in", batch(0, (b"u", b"1", [("env", b"test")]), (b"o", b"2"), (b"u", b"3")))
    given, out = str(tmp_path / "in"), tmp_path / "out"
    assert main(["redact", given, str(out), "--key", "u", "--value", "hex:00", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["changed"] == 2
    assert kept(out / "t-0") == [(0, b"u", b"\0"), (1, b"o", b"2"), (2, b"u", b"\0")]
    # What stands there stays, unless one says otherwise.
    assert main(["retain", given, str(out), "--drop", "env=test"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert [offset for offset, _, _ in kept(out / "t-0")] == [0, 1, 2]
    assert main(["retain", given, str(out), "--drop", "env=test", "--overwrite"]) == 0
    assert "3 records read, 1 dropped" in capsys.readouterr().out
    assert [offset for offset, _, _ in kept(out / "t-0")] == [1, 2]
    assert main(["retain", given, str(out)]) == 2
    assert main(["retain", given, str(out), "--retention-ms", "5", "--hold", "env"]) == 2
    assert main(["redact", given, str(out)]) == 2


def test_a_predicate_takes_what_it_holds_for(tmp_path: Path) -> None:
    source = partition(tmp_path, batch(0, *((b"k", b"%d" % n, [("env", b"test")] * (n % 2)) for n in range(6))))
    mb.retain(source, tmp_path / "out-0", mb.Retaining(Retention(drop=equals("env", b"test"))))
    assert [offset for offset, _, _ in kept(tmp_path / "out-0")] == [0, 2, 4]
