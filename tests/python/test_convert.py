"""Any format to any other: Kafka's own converters, v3 and back, KIP-87's migration, and what the table promises."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb

from golden.corpus import vectors
from making import BATCHES, FORMATS, HEADERS, batches, rows
from places import DATA, shared_directory

MESSAGE_SETS = ("v0", "v1", "kip87", "kip82a")


def seen(data: bytes, format: str = "kafka") -> list[tuple[Any, ...]]:
    """What a consumer sees, and the entry's format and codec."""
    found = []
    for batch in mb.decode_batches(data, format=format):
        for r in batch.records:
            parts = (r.offset, r.effective_timestamp, r.key, r.value, r.headers.to_list())
            found.append((batch.format, batch.codec, batch.timestamp_type, *parts))
    return found


# Kafka's own converters


def conversions() -> list[Path]:
    shared = shared_directory()
    return sorted((shared / "golden" / "convert").glob("*.meta.json")) if shared else []


def test_golden_conversions_agree_with_kafkas_own(shared: Path) -> None:
    exact = equal = refused = 0
    for path in conversions():
        meta = json.loads(path.read_text())
        up = "-up-" in path.name
        if up:
            source = (shared / "golden" / "encode" / f"{meta['source']}.bin").read_bytes()
            options = {"first_offset": meta["firstOffset"], "leader_epoch": 6}
        else:
            source = min((shared / "golden" / "logs" / meta["source"]).glob("*.log")).read_bytes()
            options = {"from_offset": meta["firstOffset"], "keep_older": True}
        to = f"v{meta['toMagic']}"
        if meta.get("exception"):
            with pytest.raises(mb.UnsupportedCodecError, match="zstd"):
                mb.convert(source, to, **options)
            refused += 1
            continue
        want = path.with_name(path.name.replace(".meta.json", ".bin")).read_bytes()
        have = mb.convert(source, to, **options).data
        if all(batch.codec == "none" for batch in mb.decode_batches(source)):
            assert have == want, path.name
            exact += 1
        else:
            assert seen(have) == seen(want), path.name
            equal += 1
    assert exact and equal and refused
    print(f"{exact} to the byte, {equal} decoded equal, {refused} refused as Kafka does")


def v2_batches() -> Iterator[tuple[Path, mb.RecordBatch]]:
    shared = shared_directory()
    roots = [DATA / "kafka-logs", DATA / "encode"]
    if shared:
        roots += [shared / "golden" / "logs", shared / "golden" / "encode"]
    for path in (path for root in roots for path in sorted(root.rglob("*"))):
        if path.suffix in (".log", ".bin", ".checkpoint") and "checkpoint" not in path.stem:
            for batch in mb.Log(path).batches():
                if batch.format == "v2":
                    yield path, batch


def test_v2_to_v3_and_back_is_the_same_to_the_byte() -> None:
    exact = equal = records = saved = 0
    for path, batch in v2_batches():
        v3 = mb.convert(batch.raw, "v3")
        back = mb.convert(v3.data, "v2")
        assert not v3.dropped and not back.dropped
        if batch.codec == "none":
            assert back.data == batch.raw, (path, batch.position)
            exact, records, saved = exact + 1, records + batch.count, saved + batch.size - len(v3.data)
        else:
            assert rows(back.data, "v2") == rows(batch.raw, "v2"), (path, batch.position)
            equal += 1
    assert exact > 100
    print(f"{exact} uncompressed batches of {records} records come back to the byte, {saved} bytes less in v3; "
          f"{equal} compressed ones equal")  # fmt: skip


def test_v3_to_v2_and_back() -> None:
    exact = 0
    for text in vectors("v3").read_text().splitlines():
        line = json.loads(text)
        data = bytes.fromhex(line["hex"])
        back = mb.convert(mb.convert(data, "v2", format="v3").data, "v3").data
        batch = line["batch"]
        needless = not batch["ignore_message_attributes"] and not any(r["attributes"] for r in batch["records"])
        if line["exact"] and not needless:
            assert back == data
            exact += 1
        assert rows(back, "v3") == rows(data, "v3")
    assert exact > 10


def test_record_attributes_are_not_lost_to_v3() -> None:
    data = mb.encode_batch(mb.RecordBatch(records=[mb.Record(0, value=b"v", attributes=5)]))
    v3 = mb.convert(data, "v3").data
    (batch,) = mb.decode_batches(v3)
    assert not batch.ignore_message_attributes and batch.records[0].attributes == 5
    assert mb.convert(v3, "v2").data == data


# KIP-87, step by step: https://cwiki.apache.org/confluence/display/KAFKA/KIP-87+-+Add+Compaction+Tombstone+Flag


@pytest.fixture(scope="module")
def topic() -> bytes:
    """A topic in the new format: a live record, a tombstone that says who deleted, a bare tombstone."""
    return mb.encode(
        [
            mb.ProducerRecord("t", b"v", b"a", timestamp=1),
            mb.ProducerRecord("t", b"who", b"b", timestamp=2, tombstone=True),
            mb.ProducerRecord("t", None, b"c", timestamp=3),
        ],
        format="kip87",
    )


def flags(data: bytes, format: str = "kip87") -> list[tuple[bool, bytes | None]]:
    return [(record.tombstone, record.value) for record in mb.decode(data, format=format)]


class TestKip87:
    def test_the_flag_tells_a_tombstone_and_its_value_stays(self, topic: bytes) -> None:
        assert flags(topic) == [(False, b"v"), (True, b"who"), (True, None)]

    def test_its_default_is_a_null_value(self) -> None:
        assert [mb.ProducerRecord("t", value).tombstone for value in (None, b"", b"v")] == [True, False, False]
        assert mb.ProducerRecord("t", b"v", tombstone=True).tombstone
        consumed = mb.ConsumerRecord("t", 0, 0, 0, 0, None, b"v", tombstone=True)
        assert flags(mb.encode([consumed], format="kip87")) == [(True, b"v")]

    @pytest.mark.parametrize("format", FORMATS)
    def test_a_live_record_with_a_null_value_is_refused(self, format: str) -> None:
        with pytest.raises(ValueError, match="record 0"):
            mb.encode([mb.ProducerRecord("t", None, tombstone=False)], format=format)

    def test_a_new_consumer_is_served_what_the_log_holds(self, topic: bytes) -> None:
        assert mb.convert(topic, ("fetch", 3, "kip87"), format="kip87").data == topic

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_for_an_older_consumer_a_tombstones_value_becomes_null(self, topic: bytes, version: int) -> None:
        served = mb.convert(topic, ("fetch", version, "kip87"), format="kip87")
        assert flags(served.data, "kafka") == [(False, b"v"), (True, None), (True, None)]
        assert served.dropped["tombstone_values"] == 1

    @pytest.mark.parametrize("version", [0, 1, 2])
    def test_an_older_producers_null_becomes_a_tombstone(self, version: int) -> None:
        old = mb.request_format("produce", version, protocol="kip87")
        sent = mb.encode([mb.ProducerRecord("t", None), mb.ProducerRecord("t", b"")], format=old)
        stored = mb.convert(sent, "kip87")
        assert flags(stored.data) == [(True, None), (False, b"")]
        assert not stored.dropped

    def test_a_log_may_mix_old_and_new(self, topic: bytes) -> None:
        old = mb.encode([mb.ProducerRecord("t", None)], format="v1", base_offset=3)
        assert flags(topic + old)[-1] == (True, None)
        assert mb.detect(topic + old) == {"v1", "kip87", "kip82a"}

    @pytest.mark.parametrize("format", [format for format in FORMATS if format != "kip87"])
    def test_to_every_other_format_a_tombstones_value_becomes_null(self, topic: bytes, format: str) -> None:
        done = mb.convert(topic, format, format="kip87")
        assert [record.value for record in mb.decode(done.data, format=format)] == [b"v", None, None]
        assert done.dropped["tombstone_values"] == 1

    def test_a_live_null_is_no_delete_unless_the_caller_says_so(self) -> None:
        """No writer makes one: the flag of a tombstone is taken away, and the checksum made anew."""
        import zlib

        data = bytearray(mb.encode([mb.ProducerRecord("t", None, b"k")], format="kip87", base_offset=5))
        data[17] &= ~0x20
        data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
        live = bytes(data)
        assert flags(live) == [(False, None)]
        for format in FORMATS:
            if format == "kip87":
                assert mb.convert(live, format, format="kip87").data == live
                continue
            with pytest.raises(ValueError, match="entry at byte 0: record 0: .* null value"):
                mb.convert(live, format, format="kip87")
            allowed = mb.convert(live, format, format="kip87", null_is_tombstone=True)
            assert allowed.dropped["null_values"] == 1

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4"])
    def test_inner_messages_have_their_own_flags(self, topic: bytes, codec: str) -> None:
        packed = mb.convert(topic, "kip87", format="kip87", codec=codec, first_offset=0).data
        assert flags(packed) == flags(topic)


def test_request_versions() -> None:
    def formats(request: str, protocol: str) -> list[str]:
        return [mb.request_format(request, version, protocol=protocol) for version in range(6)]

    assert formats("produce", "kafka") == ["v0", "v0", "v1", "v2", "v2", "v2"]
    assert formats("fetch", "kafka") == ["v0", "v0", "v1", "v1", "v2", "v2"]
    assert formats("produce", "kip87") == formats("fetch", "kip87") == ["v0", "v0", "v1", "kip87", "kip87", "kip87"]
    for bad in (("offsets", 1), ("fetch", -1), ("fetch", 3, "kip82")):
        with pytest.raises(ValueError):
            mb.convert(b"", bad)


# What is dropped, and what is not


def test_what_a_message_set_cannot_carry_is_counted() -> None:
    producer = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 0, "transactional": True}
    records = [
        mb.Record(7, 1, b"k", b"v", [("h", b"v"), ("h", None)]),
        mb.Record(9, 2, b"k", None),
    ]
    data = mb.encode(records, **producer)
    data += mb.encode([], base_offset=10, **producer)
    data += mb.encode([mb.Record(14, 3, b"\0\0\0\1", b"\0\0\0\0\0\0")], control=True, **producer)
    done = mb.convert(data, "v0")
    assert done.dropped == {
        "headers": 2,
        "timestamps": 2,
        "producer_state": 1,
        "transactional": 2,
        "control_batches": 1,
        "empty_batches": 1,
    }
    assert [record.offset for record in mb.decode(done.data)] == [7, 9]
    assert mb.convert(data, "v3").dropped == {} and mb.convert(data, "v2").data == data


def test_zstd_towards_a_message_set_needs_another_codec() -> None:
    data = mb.encode([mb.ProducerRecord("t", b"v")], codec="zstd")
    for to in MESSAGE_SETS:
        with pytest.raises(mb.UnsupportedCodecError, match="entry at byte 0: .*zstd"):
            mb.convert(data, to)
        done = mb.convert(data, to, codec="lz4").data
        assert [(b.codec, len(b.records)) for b in mb.decode_batches(done, format=to)] == [("lz4", 1)]


def test_a_null_header_value_is_refused_by_draft_b() -> None:
    data = mb.encode([mb.ProducerRecord("t", b"v"), mb.ProducerRecord("t", b"v", headers=[("h", None)])])
    with pytest.raises(ValueError, match="entry at byte 0: record 1: header 0"):
        mb.convert(data, "kip82b")
    (record,) = list(mb.decode(mb.convert(data, "kip82a").data, format="kip82a"))[1:]
    assert record.headers.to_list() == [("h", None)]


def test_numbering_anew() -> None:
    v1 = mb.encode([mb.Record(3 * n, n, b"k", b"v") for n in range(5)], format="v1")
    assert [len(b.records) for b in mb.decode_batches(mb.convert(v1, "v2").data)] == [1] * 5
    anew = mb.convert(v1, "v2", first_offset=100, leader_epoch=8).data
    (batch,) = mb.decode_batches(anew)
    assert [r.offset for r in batch.records] == [100, 101, 102, 103, 104]
    assert batch.partition_leader_epoch == 8


def test_detect() -> None:
    def of(format: str) -> bytes:
        return mb.encode([mb.ProducerRecord("t", b"v", b"a key of some length")], format=format)

    assert [mb.detect(of(format)) for format in ("v0", "v1", "v3")] == [{"v0"}, {"v1"}, {"v3"}]
    assert mb.detect(of("v2")) == mb.detect(of("kip82b")) == {"v2", "kip82b"}
    assert mb.detect(of("kip87")) == {"kip87", "kip82a"}
    assert mb.detect(b"") == mb.detect(bytes(100)) == mb.detect(bytearray(b"no log at all")) == set()


def test_damage_and_tails() -> None:
    one = mb.encode([mb.ProducerRecord("t", b"v")])
    bad = bytearray(one)
    bad[-3] ^= 1
    with pytest.raises(mb.CorruptRecordError) as caught:
        mb.convert(one + bytes(bad) + one, "v3")
    assert (caught.value.position, caught.value.kind) == (len(one), "crc")
    done = mb.convert(one + bytes(bad) + one, "v3", mode="DROPMALFORMED")
    assert len(list(mb.decode_batches(done.data))) == 2
    assert [(position, kind) for _, position, kind, _, _ in done.findings] == [(len(one), "crc")]
    assert [finding[2] for finding in mb.convert(one + one[:30], "v3").findings] == ["torn_tail"]


@given(st.data(), st.sampled_from(FORMATS), st.sampled_from(FORMATS))
def test_what_the_table_does_not_name_stays(data: st.DataObject, source: str, to: str) -> None:
    batch = data.draw(batches(source))
    written = mb.encode_batch(batch, format=source)
    codec = "gzip" if batch.codec == "zstd" else None
    try:
        done = mb.convert(written, to, format=source, codec=codec)
    except ValueError as error:
        if to != "kip82b" or "null value" not in str(error):
            raise
        assert any(value is None for r in batch.records for _, value in r.headers)
        return
    before, after = seen(written, source), seen(done.data, to)
    assert len(before) == len(after)
    for b, a in zip(before, after, strict=True):
        timed = to != "v0"
        tombstone = source == "kip87" and to != "kip87" and batch.records[before.index(b)].tombstone
        assert a[0] == to and a[1] == (codec or b[1]) and a[3] == b[3]
        assert a[4] == (b[4] if timed else -1)
        assert (a[5], a[6]) == (b[5], None if tombstone else b[6])
        assert a[7] == (b[7] if to in HEADERS else [])
    if source in ("v2", "v3") and to in ("v2", "v3"):
        assert not done.dropped
    if source in ("v2", "v3") and to in ("v2", "v3") and codec is None:
        (read,) = mb.decode_batches(done.data)
        assert read == batch or not read.ignore_message_attributes
    if to in BATCHES and source != "kip87":
        assert not done.dropped


# Files


def test_a_file_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    one = mb.encode([mb.ProducerRecord("t", b"v")])
    source, target = tmp_path / "00000000000000000000.log", tmp_path / "new.log"
    source.write_bytes(one * 3)
    told: list[int] = []
    done = mb.convert_file(source, target, "v3", progress=told.append)
    assert (done.data, told[-1]) == (b"", 3 * len(one))
    assert target.read_bytes() == mb.convert(one * 3, "v3").data
    before = target.read_bytes()
    bad = tmp_path / "bad.log"
    bad.write_bytes(one + b"\0" * 17 + one)
    with pytest.raises(mb.CorruptRecordError):
        mb.convert_file(bad, target, "v1")
    assert target.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["00000000000000000000.log", "bad.log", "new.log"]
    if os.name == "posix":
        assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(source.stat().st_mode)
    with pytest.raises(FileNotFoundError):
        mb.convert_file(tmp_path / "none.log", target, "v1")


def test_a_file_may_be_converted_onto_itself(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    data = b"".join(mb.encode_batches([mb.ProducerRecord("t", b"v" * 100)] * 20_000))
    path.write_bytes(data)
    mb.convert_file(path, path, "v3")
    assert path.read_bytes() == mb.convert(data, "v3").data
    mb.convert_file(path, path, "v2")
    assert path.read_bytes() == data
