"""The strict pass, and the comparison of logs: each defect made on purpose, in segments written by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import magicbyte as mb
from cli.segments import batch, marker, message

from places import DATA

FIRST = "00000000000000000000.log"
Kinds = set[tuple[str, str]]


def kinds(report: mb.Report) -> Kinds:
    return {(defect.kind, defect.severity) for defect in report.defects}


def three(base: int, key: bytes = b"k", **fields: object) -> bytes:
    return batch([(key, b"v")] * 3, base=base, **fields)  # type: ignore[arg-type]


def partition(directory: Path, *segments: tuple[int, bytes]) -> Path:
    path = directory / "orders-0"
    path.mkdir()
    for base, data in segments:
        (path / f"{base:020}.log").write_bytes(data)
    return path


def test_a_sound_log() -> None:
    report = mb.verify(three(0) + three(3))
    assert (report.ok, report.batches, report.records, report.defects) == (True, 2, 6, [])


def test_nothing_to_check_is_no_pass(tmp_path: Path) -> None:
    assert mb.verify(b"").ok is None
    assert mb.verify(three(0)[:50]).ok is None
    assert mb.Log(partition(tmp_path, (0, bytes(4096)))).verify().ok is None


def test_three_ends_are_three_findings() -> None:
    good = three(0)
    assert kinds(mb.verify(good + three(3)[:-1])) == {("torn_tail", "note")}
    assert kinds(mb.verify(good + bytes(100))) == {("zero_tail", "note")}
    hole = mb.verify(good + b"\xff" * 30 + three(3))
    assert kinds(hole) == {("length", "error"), ("hole", "error")}
    assert hole.ok is False
    assert hole.records == 6


def test_a_false_length_is_no_torn_tail() -> None:
    bad = bytearray(three(3))
    bad[8:12] = struct.pack(">i", 100_000)
    report = mb.verify(three(0) + bytes(bad) + three(6))
    assert ("hole", "error") in kinds(report)
    assert not any(kind == "torn_tail" for kind, _ in kinds(report))
    assert report.records == 6
    assert {d.position for d in report.defects if d.kind == "hole"} == {len(three(0))}


def test_a_tail_of_an_earlier_segment_is_an_error(tmp_path: Path) -> None:
    log = mb.Log(partition(tmp_path, (0, three(0) + bytes(50)), (3, three(3) + bytes(50))))
    found = [(Path(d.path).name, d.kind, d.severity) for d in log.verify().defects]
    assert found == [(FIRST, "zero_tail", "error"), (f"{3:020}.log", "zero_tail", "note")]


def test_a_wrong_checksum_and_what_is_missing_with_it() -> None:
    bad = bytearray(three(3))
    bad[-2] ^= 1
    report = mb.verify(three(0) + bytes(bad) + three(6))
    assert kinds(report) == {("crc", "error"), ("gap", "error")}
    assert [d.position for d in report.defects] == [len(bad), 2 * len(bad)]


def test_gaps_of_compaction_are_told_from_lost_batches(tmp_path: Path) -> None:
    # Before the gap stands one key twice: no cleaner was there.
    lost = mb.Log(partition(tmp_path, (0, three(0) + three(6)))).verify()
    assert kinds(lost) == {("gap", "error")}
    # Every key once: it may well be compacted.
    (tmp_path / "b").mkdir()
    kept = batch([(b"a", b"1")]) + batch([(b"b", b"2")], base=7)
    assert kinds(mb.Log(partition(tmp_path / "b", (0, kept))).verify()) == {("gap", "note")}
    # Offsets missing inside a batch: it was rewritten.
    rewritten = bytearray(batch([(b"k", b"1"), (b"k", b"2")]))
    (tmp_path / "c").mkdir()
    empty = batch([], base=20)
    cleaned = mb.Log(partition(tmp_path / "c", (0, bytes(rewritten) + empty + three(30)))).verify()
    assert ("gap", "error") in kinds(cleaned) or ("gap", "note") in kinds(cleaned)


def test_a_segment_that_is_missing(tmp_path: Path) -> None:
    report = mb.Log(partition(tmp_path, (0, three(0)), (6, three(6)))).verify()
    (gap,) = report.defects
    assert (gap.kind, gap.severity) == ("gap", "error")
    assert "offsets 3 to 5 are missing" in gap.message
    assert gap.path.endswith(f"{6:020}.log")


def test_overlaps_and_disorder() -> None:
    assert kinds(mb.verify(three(0) + three(2))) == {("overlap", "error")}
    assert kinds(mb.verify(three(0) + three(0))) == {("overlap", "error")}
    assert kinds(mb.verify(three(10) + three(0))) == {("disorder", "error")}


def test_a_batch_in_the_wrong_segment(tmp_path: Path) -> None:
    assert kinds(mb.Log(partition(tmp_path, (5, three(0)))).verify()) == {("disorder", "error")}


def test_epochs_that_go_back() -> None:
    assert kinds(mb.verify(three(0, epoch=3) + three(3, epoch=2))) == {("epoch", "error")}
    back = three(0, producer=(9, 4, 0)) + three(3, producer=(9, 3, 3))
    assert ("epoch", "error") in kinds(mb.verify(back))


def test_sequences_of_a_producer() -> None:
    follows = three(0, producer=(9, 0, 5)) + three(3, producer=(9, 0, 8)) + three(6, producer=(9, 1, 0))
    assert mb.verify(follows).defects == []
    wraps = three(0, producer=(9, 0, 2**31 - 2)) + three(3, producer=(9, 0, 1))
    assert mb.verify(wraps).defects == []
    assert kinds(mb.verify(three(0, producer=(9, 0, 0)) + three(3, producer=(9, 0, 4)))) == {("sequence", "error")}
    assert kinds(mb.verify(three(0, producer=(9, 0, 0)) + three(3, producer=(9, 0, 0)))) == {("sequence", "error")}
    # Where offsets are missing, so may its batches be.
    both = mb.verify(three(0, producer=(9, 0, 0)) + three(6, producer=(9, 0, 6)))
    assert kinds(both) == {("gap", "note"), ("sequence", "note")}


def test_an_index_that_points_wrong(tmp_path: Path) -> None:
    data = three(0) + three(3)
    path = partition(tmp_path, (0, data))
    index = path / f"{0:020}.index"
    index.write_bytes(struct.pack(">ii", 5, len(three(0))))
    assert mb.Log(path).verify().defects == []
    for offset, position in ((5, 7), (1, len(three(0))), (5, 10_000), (99, len(three(0)))):
        index.write_bytes(struct.pack(">ii", offset, position))
        (defect,) = mb.Log(path).verify().defects
        assert (defect.kind, defect.severity, defect.path) == ("index", "error", str(index)), (offset, position)
    index.write_bytes(bytes(3))
    assert kinds(mb.Log(path).verify()) == {("index", "error")}


def test_a_time_index_that_points_wrong(tmp_path: Path) -> None:
    path = partition(tmp_path, (0, three(0, time=1000) + three(3, time=2000)))
    times = path / f"{0:020}.timeindex"
    times.write_bytes(struct.pack(">qiqi", 1002, 2, 2002, 5))
    assert mb.Log(path).verify().defects == []
    for wrong in ((999, 5), (5000, 5), (2002, 77)):
        times.write_bytes(struct.pack(">qi", *wrong))
        assert kinds(mb.Log(path).verify()) == {("index", "error")}, wrong


def test_a_transaction_index_at_odds_with_the_markers(tmp_path: Path) -> None:
    data = three(0, producer=(7, 0, 0), attributes=0x10) + marker(0, base=3)
    path = partition(tmp_path, (0, data))
    index = path / f"{0:020}.txnindex"
    index.write_bytes(struct.pack(">hqqqq", 0, 7, 0, 3, 4))
    assert mb.Log(path).verify().defects == []
    wrong = (b"", struct.pack(">hqqqq", 0, 8, 0, 3, 4), struct.pack(">hqqqq", 0, 7, 2, 3, 4))
    for content in wrong:
        index.write_bytes(content)
        assert kinds(mb.Log(path).verify()) == {("txnindex", "error")}, content
    index.write_bytes(struct.pack(">hqqqq", 0, 7, 0, 3, 4) + struct.pack(">hqqqq", 0, 7, 4, 9, 10))
    assert kinds(mb.Log(path).verify()) == {("txnindex", "error")}


def test_a_transaction_index_goes_on_to_name_what_a_cleaner_removed(tmp_path: Path) -> None:
    rest = three(6, producer=(7, 0, 6), attributes=0x10) + marker(0, base=9)
    path = partition(tmp_path, (0, three(0) + rest))
    index = path / f"{0:020}.txnindex"

    def first(offset: int) -> Kinds:
        index.write_bytes(struct.pack(">hqqqq", 0, 7, offset, 9, 10))
        return {(kind, severity) for kind, severity in kinds(mb.Log(path).verify()) if kind == "txnindex"}

    # Offsets 3 to 5 are missing. Those before are another producer's, those behind are there.
    assert [first(offset) for offset in (2, 3, 5, 6, 7)] == [
        {("txnindex", "error")}, {("txnindex", "note")}, {("txnindex", "note")}, set(), {("txnindex", "error")},
    ]  # fmt: skip
    # What lies before the log's start may have been deleted.
    (path / FIRST).write_bytes(rest)
    assert first(1) == {("txnindex", "note")}


def test_a_brokers_own_cleaned_log_is_sound() -> None:
    # Its .txnindex names 1113, and what is left of the transaction begins at 1163.
    report = mb.Log(DATA / "cleaned" / "updates-0").verify()
    assert report.ok
    assert [defect.message for defect in report.defects if defect.kind == "txnindex"] != []


def test_reserved_bits_and_bytes_behind_a_message_are_notes() -> None:
    report = mb.verify(three(0, attributes=0x100))
    assert (report.ok, kinds(report)) == (True, {("canonical", "note")})


def test_the_ledger_has_a_row_for_a_broken_batch_too() -> None:
    bad = bytearray(three(3))
    bad[-2] ^= 1
    rows = [row for _, row in mb.Log(three(0) + bytes(bad) + message(6, b"k", b"v")).ledger()]
    assert [(r.magic, r.first_offset, r.last_offset, r.records, r.crc_ok) for r in rows] == [
        (2, 0, 2, 3, True),
        (2, 3, 5, 0, False),
        (1, 6, 6, 1, True),
    ]
    assert [row.position for row in rows] == [0, len(bad), 2 * len(bad)]
    assert rows[0].codec == "none"


def test_many_notes_are_counted_and_some_kept() -> None:
    report = mb.verify(b"".join(three(3 * i, attributes=0x100) for i in range(1200)))
    assert report.ok
    assert report.counts == {("canonical", "note"): 1200}
    assert len(report.defects) == 1000


def test_the_digest_is_what_its_definition_says() -> None:
    import hashlib

    data = batch([(b"k", None, [(b"h", b"x"), (b"n", None)])], base=5, time=1000)
    expected = struct.pack(">qq", 5, 1000) + struct.pack(">i", 1) + b"k" + struct.pack(">i", -1)
    expected += struct.pack(">i", 2) + struct.pack(">i", 1) + b"h" + struct.pack(">i", 1) + b"x"
    expected += struct.pack(">i", 1) + b"n" + struct.pack(">i", -1)
    (found,) = mb.digest(data).values()
    assert found == mb.Digest(hashlib.sha256(expected).hexdigest(), 1, 5, 5)


def test_the_digest_does_not_see_batches_and_markers() -> None:
    records = [(b"k%d" % i, b"v") for i in range(4)]
    one = batch(records, time=1000)
    two = batch(records[:2], time=1000) + batch(records[2:], base=2, time=1002, epoch=9) + marker(1, base=4)
    assert mb.diff(one, two) == []
    assert mb.digest(one) == mb.digest(two)
    # v1 has the same records.
    v1 = b"".join(message(i, key, value, 1000 + i) for i, (key, value) in enumerate(records))
    assert mb.diff(one, v1) == []


def test_the_first_difference() -> None:
    one = batch([(b"a", b"1"), (b"b", b"2", [(b"h", None)]), (b"c", b"3")])
    other = batch([(b"a", b"1"), (b"b", b"2", [(b"h", b"")]), (b"c", b"4")])
    (found,) = mb.diff(one, other)
    assert (found.offset, found.what) == (1, ("headers",))
    assert found.first is not None
    assert found.second is not None
    assert (next(iter(found.first.headers)).value, next(iter(found.second.headers)).value) == (None, b"")
    (found,) = mb.diff(one, batch([(b"a", b"1")]))
    assert (found.offset, found.what, found.second) == (1, ("offset",), None)


def test_a_partition_that_only_one_has(tmp_path: Path) -> None:
    for name, parts in (("a", ("t-0", "t-1")), ("b", ("t-0",))):
        for part in parts:
            (tmp_path / name / part).mkdir(parents=True)
            (tmp_path / name / part / FIRST).write_bytes(three(0))
    (found,) = mb.diff(tmp_path / "a", tmp_path / "b")
    assert (found.topic, found.partition, found.what) == ("t", 1, ("partition",))


def test_a_damaged_log_has_no_digest() -> None:
    bad = bytearray(three(0))
    bad[-1] ^= 1
    with pytest.raises(mb.CorruptRecordError):
        mb.digest(bytes(bad))


class TestFilesOfTheWholeLog:
    """Producer snapshots and the leader-epoch checkpoint, held against the log."""

    @pytest.fixture
    def partition(self, tmp_path: Path) -> Path:
        path = tmp_path / "orders-0"
        with mb.Writer(path, segment_bytes=200) as writer:
            for number in range(6):
                fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 2 * number}
                records = [mb.ProducerRecord("", b"v" * 40, b"k")] * 2
                writer.append(mb.encode(records, base_offset=2 * number, leader_epoch=number // 2, **fields))
        return path

    def errors(self, path: Path) -> list[tuple[str, str, str]]:
        report = mb.Log(path).verify()
        return [(Path(d.path).name, d.kind, d.message) for d in report.defects if d.severity == "error"]

    def test_what_the_writer_wrote_is_sound(self, partition: Path) -> None:
        assert len(list(partition.glob("*.snapshot"))) >= 1
        assert mb.Log(partition).verify().ok is True

    def test_a_snapshot_with_a_wrong_checksum(self, partition: Path) -> None:
        [*_, last] = sorted(partition.glob("*.snapshot"))
        data = bytearray(last.read_bytes())
        data[-1] ^= 1
        last.write_bytes(data)
        assert [(name, kind) for name, kind, _ in self.errors(partition)] == [(last.name, "crc")]

    def test_a_snapshot_of_another_log(self, partition: Path, tmp_path: Path) -> None:
        with mb.Writer(tmp_path / "other-0") as writer:
            for number in range(6):
                fields = {"producer_id": 9, "producer_epoch": 0, "base_sequence": 100 + 2 * number}
                records = [mb.ProducerRecord("", b"v", b"k")] * 2
                writer.append(mb.encode(records, base_offset=2 * number, **fields))
        [other] = (tmp_path / "other-0").glob("*12.snapshot")
        (partition / other.name).write_bytes(other.read_bytes())
        [(name, kind, message)] = self.errors(partition)
        assert (name, kind) == (other.name, "sequence")
        assert message == "producer 9, before offset 12: sequence 111 at offset 11, the log has 11"

    def test_a_log_whose_end_is_missing(self, partition: Path) -> None:
        """Sound to the last byte, and yet not whole: the files beside it know of more."""
        *_, last = sorted(partition.glob("*.log"))
        for path in partition.glob(last.stem + ".*"):
            if path.suffix != ".snapshot":
                path.unlink()
        kinds = {(name, kind) for name, kind, _ in self.errors(partition)}
        assert ("00000000000000000012.snapshot", "gap") in kinds
        assert {kind for _, kind in kinds} == {"gap"}

    def test_the_checkpoint(self, partition: Path) -> None:
        path = partition / "leader-epoch-checkpoint"
        assert path.read_text() == "0\n3\n0 0\n1 4\n2 8\n"
        path.write_text("0\n3\n0 0\n1 5\n2 8\n")
        assert self.errors(partition) == [(path.name, "epoch", "offset 4 is of epoch 1 in the log, of 0 by this file")]
        path.write_text("0\n4\n0 0\n1 4\n2 8\n7 40\n")
        [(name, kind, message)] = self.errors(partition)
        assert (name, kind) == (path.name, "gap")
        assert "epoch 7 begins at offset 40, the log ends at 12" in message
        path.write_text("0\n9\n0 0\n")
        assert [kind for _, kind, _ in self.errors(partition)] == ["index"]
        path.write_text("0\n1\n0 0\n")
        assert mb.Log(partition).verify().counts == {("epoch", "note"): 2}

    def test_one_segment_alone_is_not_judged_by_them(self, partition: Path) -> None:
        first, *_ = sorted(partition.glob("*.log"))
        assert mb.Log(first).verify().ok is True


def test_whoever_waits_for_a_digest_is_told_how_far_it_is(tmp_path: Path) -> None:
    log = mb.Log(partition(tmp_path, (0, three(0) + three(3)), (6, three(6) + bytes(40))))
    told: list[int] = []
    assert mb.digest(log, advance=told.append) == mb.digest(log)
    assert sum(told) in (log.size, log.size - 40) and all(more >= 0 for more in told)
