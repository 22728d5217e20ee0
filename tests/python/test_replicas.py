"""Copies of one partition: which is read, by the lineage of leader epochs, and what is said of the others."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.replicas import divergence
from magicbyte.writer import convert_partition

from lineage import TRUTH, forks, values, write

Epochs = list[tuple[int, int]]


@pytest.fixture
def copies(tmp_path: Path) -> list[Path]:
    return forks(tmp_path)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_the_lineage_decides(copies: list[Path], order: tuple[int, ...]) -> None:
    log = mb.Log([copies[at] for at in order])
    assert values(log) == TRUTH
    assert log.single and log.partitions == [("orders", 0)]
    told = {Path(one.path).parent.name: one for one in log.replicas}
    assert [name for name, one in told.items() if one.chosen] == ["b2"]
    # KIP-101's case: the longest copy is a fork, and 10 to 14 were never committed.
    assert (told["b1"].diverges_at, told["b1"].end_offset, told["b1"].forked) == (10, 15, 5)
    assert "10 to 14" in told["b1"].why
    assert (told["b3"].diverges_at, told["b3"].forked) == (13, 0)
    assert told["b2"].epochs == ((0, 0), (1, 10), (3, 13))
    assert log.scan(["offset"]).count() == 14
    assert log.verify().ok is True


def test_the_caller_may_name_the_rule(copies: list[Path]) -> None:
    assert values(mb.Log(copies, replicas="longest"))[-1] == "lost14"
    assert values(mb.Log(copies[::-1], replicas="first"))[-1] == "b12"
    with pytest.raises(ValueError, match="'best' is not one of lineage, longest, first"):
        mb.Log(copies, replicas="best")


def test_without_a_checkpoint_it_is_refused(copies: list[Path]) -> None:
    (copies[2] / "leader-epoch-checkpoint").unlink()
    for rule in (None, "lineage"):
        with pytest.raises(ValueError, match=r"orders-0 is there 3 times .*b3/orders-0: there is no leader-epoch"):
            mb.Log(copies, replicas=rule)
    assert len(values(mb.Log(copies, replicas="longest"))) == 15
    (copies[2] / "leader-epoch-checkpoint").write_bytes(b"0\n1\nx\n")
    with pytest.raises(ValueError, match="a line is not an epoch and an offset"):
        mb.Log(copies)


def test_whole_broker_directories(copies: list[Path], tmp_path: Path) -> None:
    write(tmp_path / "b1" / "orders-1", (0, 0, "x", 2))
    log = mb.Log([tmp_path / "b1", tmp_path / "b2", tmp_path / "b3"])
    assert log.partitions == [("orders", 0), ("orders", 1)]
    assert values(log) == [*TRUTH, "x0", "x1"]
    assert {one.partition for one in log.replicas} == {0}


def test_segments_of_one_directory_are_no_copies(tmp_path: Path) -> None:
    with mb.Writer(tmp_path / "orders-0", segment_bytes=100) as writer:
        for number in range(3):
            writer.append(mb.encode([mb.ProducerRecord("", b"v" * 50)], base_offset=number))
    files = sorted((tmp_path / "orders-0").glob("*.log"))
    assert len(files) == 3
    log = mb.Log([files[2], files[0], files[1], files[0]])
    assert [record.offset for record in log.records()] == [0, 1, 2]
    assert log.replicas == []


@pytest.mark.parametrize(
    ("leader", "end", "follower", "followers_end", "expected"),
    [
        # KIP-101, scenario 1: the follower has what the leader has, and less.
        ([(0, 0)], 2, [(0, 0)], 1, 1),
        # Scenario 2: both wrote an offset 1, each as leader of its own epoch.
        ([(0, 0), (2, 1)], 2, [(0, 0), (1, 1)], 2, 1),
        # KIP-279: the follower's epoch is unknown to the leader, whose next one ends earlier.
        ([(1, 0), (3, 20)], 40, [(1, 0), (2, 10)], 30, 10),
        ([(1, 0), (3, 20)], 40, [(1, 0), (2, 25)], 30, 20),
        # An epoch without a record is in the leader's checkpoint alone.
        ([(0, 0), (1, 10), (2, 10)], 20, [(0, 0), (2, 10)], 15, 15),
        # Each deleted its beginning where it stood.
        ([(4, 90), (5, 100)], 120, [(3, 50), (4, 80), (5, 100)], 130, 120),
        ([(7, 0)], 5, [(8, 0)], 5, None),
        # Checkpoints that replication could not have made.
        ([(0, 0), (1, 10), (2, 20)], 30, [(0, 0), (1, 12), (2, 20)], 30, 10),
    ],
)
def test_where_two_copies_diverge(
    leader: Epochs, end: int, follower: Epochs, followers_end: int, expected: int | None
) -> None:
    assert divergence(leader, end, follower, followers_end) == expected


def test_recover_and_diff_take_copies(copies: list[Path], tmp_path: Path) -> None:
    done = mb.recover([copies[0], copies[1]], tmp_path / "out" / "orders-0")
    assert (done.records, done.lost) == (14, [])
    assert values(mb.Log(tmp_path / "out" / "orders-0")) == TRUTH
    assert mb.diff(tmp_path / "out" / "orders-0", [copies[2], copies[1]]) == []
    with pytest.raises(ValueError, match="must not stand"):
        mb.recover(copies, copies[2] / "sub")


def test_what_damage_took_is_filled_from_another_copy(tmp_path: Path) -> None:
    batches = [(0, 3 * at, "a", 3) for at in range(10)]
    one = write(tmp_path / "b1" / "orders-0", *batches, (2, 30, "x", 5))
    two = write(tmp_path / "b2" / "orders-0", *batches, (1, 30, "fork", 9))
    three = write(tmp_path / "b3" / "orders-0", *batches[:6])
    whole = (one / "00000000000000000000.log").read_bytes()
    size = len(mb.encode([mb.ProducerRecord("", b"a0", b"k")] * 3))

    def broken(path: Path, *numbers: int) -> None:
        data = bytearray((path / "00000000000000000000.log").read_bytes())
        for number in numbers:
            data[number * size + 70] ^= 1
        (path / "00000000000000000000.log").write_bytes(data)

    broken(one, 2, 4, 5)
    broken(two, 4, 8)
    log = mb.Log([one, two, three])
    done = mb.recover(log, tmp_path / "out" / "orders-0")
    assert (tmp_path / "out" / "orders-0" / "00000000000000000000.log").read_bytes() == whole
    assert done.records == 35
    assert [(Path(f.path).parts[-3], f.first_offset, f.last_offset) for f in done.filled] == [
        ("b2", 6, 8),
        ("b3", 12, 14),
        ("b2", 15, 17),
    ]
    assert [lost.replaced for lost in done.lost] == [True, True]
    # Where no copy has it, it stays lost; and no fork ever comes in.
    broken(three, 4)
    broken(one, 10)
    done = mb.recover(mb.Log([one, two, three]), tmp_path / "again" / "orders-0")
    assert [lost.replaced for lost in done.lost] == [True, False, False]
    kept = [record.offset for record in mb.Log(tmp_path / "again" / "orders-0").records()]
    assert kept == [at for at in range(30) if at not in (12, 13, 14)]


class TestOverlappingSegments:
    """Segments of two copies, merged into one directory by somebody."""

    @pytest.fixture
    def merged(self, tmp_path: Path) -> Path:
        path = write(tmp_path / "orders-0", (0, 0, "a", 5), (0, 5, "a", 5), (1, 10, "fork", 5))
        later = write(tmp_path / "other" / "orders-0", (0, 5, "a", 5), (2, 10, "b", 3), (2, 13, "b", 4))
        for file in later.iterdir():
            (path / file.name).write_bytes(file.read_bytes())
        (path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 10\n")
        return path

    def test_they_are_named(self, merged: Path) -> None:
        assert {kind for kind, severity in mb.Log(merged).verify().counts if severity == "error"} >= {"overlap"}
        log = mb.Log(merged)
        assert [row.records for _, row in log.ledger()] == [5, 5, 5, 5, 3, 4]
        assert {Path(path).name[17:20]: span for path, span in log.bounds.items()} == {
            "000": (0, 10),
            "005": (10, None),
        }

    @pytest.mark.parametrize("rule", [None, "lineage"])
    def test_the_lineage_decides(self, merged: Path, tmp_path: Path, rule: str | None) -> None:
        truth = [*(f"a{at}" for at in range(10)), *(f"b{at}" for at in range(10, 17))]
        log = mb.Log(merged, replicas=rule)
        assert values(log) == truth
        assert log.scan().count() == 17
        assert [record.offset for record in log.records(offsets=(8, 12))] == [8, 9, 10, 11]
        done = mb.recover(log, tmp_path / "out" / "orders-0")
        assert values(mb.Log(tmp_path / "out" / "orders-0")) == truth
        assert [lost.first_offset for lost in done.lost] == [10, 5]

    def test_other_rules(self, merged: Path) -> None:
        assert values(mb.Log(merged, replicas="first"))[10:] == [*(f"fork{at}" for at in range(10, 15)), "b15", "b16"]
        assert values(mb.Log(merged, replicas="longest")) == values(mb.Log(merged, replicas="lineage"))

    def test_every_way_to_read(self, merged: Path, tmp_path: Path) -> None:
        log, plain = mb.Log(merged), tmp_path / "plain" / "orders-0"
        done = mb.recover(log, plain)
        assert done.records == 17
        assert mb.digest(log) == mb.digest(plain) and mb.digest(log)["orders", 0].records == 17
        assert mb.diff(merged, plain) == [] == mb.diff(plain, merged)
        convert_partition(log, tmp_path / "v3" / "orders-0", "v3")
        assert values(mb.Log(tmp_path / "v3" / "orders-0")) == values(log)
        assert [batch.base_offset for batch in log.batches()] == [0, 5, 10, 13]
        assert next(part.first_offset for part in log.split(100)) == 0
        with pytest.raises(
            ValueError, match=r"offset 15, where segments that overlap take turns, lies within its offsets 13"
        ):
            convert_partition(mb.Log(merged, replicas="first"), tmp_path / "first" / "orders-0", "v3")
        assert mb.digest(mb.Log(merged, replicas="first"))["orders", 0].records == 17

    def test_it_is_refused_without_a_checkpoint(self, merged: Path, tmp_path: Path) -> None:
        (merged / "leader-epoch-checkpoint").unlink()
        log = mb.Log(merged)
        assert log.verify().ok is False and len(list(log.ledger())) == 6  # these see what is there
        out = tmp_path / "out" / "orders-0"
        for read in (
            log.records,
            log.batches,
            log.scan,
            log.parts,
            lambda: log.split(100),
            lambda: log.bounds,
            lambda: log.transactions("orders", 0),
            lambda: mb.digest(log),
            lambda: mb.diff(merged, merged),
            lambda: mb.recover(log, out),
            lambda: convert_partition(log, out, "v3"),
        ):
            with pytest.raises(ValueError, match="both hold offset 5, and the lineage .* Name another rule"):
                read()
        assert not out.exists()
        # The rule, once named, is all that it takes.
        assert len(values(mb.Log(merged, replicas="longest"))) == len(values(mb.Log(merged, replicas="first"))) == 17
        # A segment that was named by its own path is read as it is.
        assert len(values(mb.Log(merged / "00000000000000000005.log"))) == 12

    def test_read_committed_follows_the_lineage(self, tmp_path: Path) -> None:
        """The fork's abort marker does not count, nor what its index says."""

        def data(offset: int, epoch: int) -> bytes:
            return mb.encode(
                [mb.ProducerRecord("t", b"%d" % offset)],
                base_offset=offset,
                producer_id=7,
                producer_epoch=0,
                base_sequence=offset,
                transactional=True,
                leader_epoch=epoch,
            )

        def marker(offset: int, epoch: int, commit: bool) -> bytes:
            return mb.encode_batch(
                mb.RecordBatch(
                    base_offset=offset,
                    partition_leader_epoch=epoch,
                    producer_id=7,
                    producer_epoch=0,
                    transactional=True,
                    control=True,
                    records=[mb.Record(offset, key=b"\0\0\0\1" if commit else b"\0\0\0\0", value=b"\0\0\0\0\0\0")],
                )
            )

        path, other = tmp_path / "t-0", tmp_path / "other" / "t-0"
        for place, batches in (
            (path, [data(0, 0), data(1, 0), marker(2, 1, False)]),
            (other, [data(1, 0), marker(2, 2, True), data(3, 2), marker(4, 2, False)]),
        ):
            with mb.Writer(place) as writer:
                for batch in batches:
                    writer.append(batch)
        for file in other.glob("*1.*"):
            (path / file.name).write_bytes(file.read_bytes())
        (path / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 2\n")
        log = mb.Log(path)
        assert [record.value for record in log.records(isolation="read_committed")] == [b"0", b"1"]
        known = log.transactions("t", 0)
        assert [known.state(7, at) for at in (0, 1, 3)] == ["committed", "committed", "aborted"]
        assert known.last_stable_offset is None and known.findings == []
        again = pickle.loads(pickle.dumps(log.transactions("t", 0)))
        assert again.state(7, 1) == "committed"

    def test_it_is_refused(self, merged: Path) -> None:
        (merged / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n7 10\n")
        with pytest.raises(ValueError, match="neither has the epochs of the checkpoint: at offset 10"):
            mb.Log(merged, replicas="lineage")
        with pytest.raises(ValueError, match="neither has the epochs of the checkpoint: at offset 10"):
            mb.Log(merged).records()
        (merged / "leader-epoch-checkpoint").unlink()
        with pytest.raises(ValueError, match="both hold offset 5, and the lineage .* there is no leader-epoch"):
            mb.Log(merged, replicas="lineage")


class TestWhatKafkaAndCopiesLeave:
    """Directories that look like an overlap, or are one by a copy that came late."""

    def test_an_older_segment_beside_the_cleaners_output(self, tmp_path: Path) -> None:
        """A copy into a directory that had an older one: 10 and 20 were merged into 0 since, and are still there."""
        path = write(tmp_path / "t-0", *((0, first, "new", 3) for first in (0, 10, 20)))
        for first in (10, 20):
            old = write(tmp_path / f"old{first}" / "t-0", (0, first, "old", 10))
            for file in old.glob("*0.*"):
                shutil.copy(file, path)
        write(tmp_path / "next" / "t-0", (0, 30, "new", 2))
        for file in (tmp_path / "next" / "t-0").glob("*.*"):
            shutil.copy(file, path)
        assert len(list(path.glob("*.log"))) == 4
        got = [record.offset for record in mb.Log(path).records()]
        assert got == [0, 1, 2, 10, 11, 12, 20, 21, 22, *range(23, 30), 30, 31]
        (path / "leader-epoch-checkpoint").unlink()
        with pytest.raises(ValueError, match="both hold offset 10"):
            mb.Log(path).records()
        assert [record.offset for record in mb.Log(path, replicas="first").records()] == got

    def test_what_is_no_overlap(self, tmp_path: Path) -> None:
        path = write(tmp_path / "t-0", (0, 0, "a", 10))
        write(tmp_path / "b" / "t-0", (0, 10, "a", 5))
        for file in (tmp_path / "b" / "t-0").glob("*10.*"):
            shutil.copy(file, path)
        (path / "leader-epoch-checkpoint").unlink()
        log = path / "00000000000000000000.log"
        for ending in ("swap", "cleaned", "deleted"):
            shutil.copy(log, path / f"00000000000000000005.log.{ending}")
        (path / "00000000000000000012.log").write_bytes(b"")  # rolled, nothing appended yet
        everything = [f"a{at}" for at in range(15)]
        assert values(mb.Log(path)) == everything and mb.Log(path).bounds == {}
        # The same without its index, and with a tail of zeros, as a segment that was preallocated has.
        (path / "00000000000000000000.index").unlink()
        assert values(mb.Log(path)) == everything
        log.write_bytes(log.read_bytes() + bytes(5000))
        assert values(mb.Log(path)) == everything
        # A false offset, which no checksum covers: damage for `verify` to tell, no copy of what others have.
        log.write_bytes(b"\0\1" + log.read_bytes()[2:])
        assert mb.Log(path).bounds == {}
        assert len(values(mb.Log(path))) == 15
        assert mb.Log(path).verify().ok is False

    def test_the_end_of_a_segment_without_an_index(self, tmp_path: Path) -> None:
        path = tmp_path / "t-0"
        with mb.Writer(path) as writer:
            for first in range(0, 40, 10):
                records = [mb.ProducerRecord("t", bytes(60_000))] * 10
                writer.append(mb.encode(records, base_offset=first))
        (path / "00000000000000000000.index").unlink()
        log = mb.Log(path)
        assert log.size > 2 << 20
        assert log.end_offset(log.segments) == 40
        data = (path / "00000000000000000000.log").read_bytes()
        (path / "00000000000000000000.log").write_bytes(data[:-1])  # torn: the one before is the last
        log = mb.Log(path)
        assert log.end_offset(log.segments) == 30

    @pytest.mark.parametrize("rule", ["first", "longest", "lineage"])
    def test_three_that_meet(self, tmp_path: Path, rule: str) -> None:
        path = write(tmp_path / "t-0", (0, 0, "a", 15))
        for first, count in ((10, 15), (12, 28)):
            made = write(tmp_path / f"from{first}" / "t-0", (0, first, "a", count))
            for file in made.glob(f"*{first}.*"):
                shutil.copy(file, path)
        offsets = [record.offset for record in mb.Log(path, replicas=rule).records()]
        assert offsets == list(range(40))


@st.composite
def merged_replicas(draw: st.DrawFn) -> tuple[list[tuple[int, int, str, int]], list[list[tuple[int, int, str, int]]]]:
    """The truth as batches (epoch, first offset, prefix, records), and segments that overlap: each a stretch of the truth,
    some with a fork behind it, of an epoch that was over by then. Epochs of the truth are even, of forks odd."""
    truth, offset, epoch = [], 0, 0
    for _ in range(draw(st.integers(2, 8))):
        count = draw(st.integers(1, 4))
        truth.append((epoch, offset, "t", count))
        offset += count
        epoch += draw(st.sampled_from([0, 0, 2]))
    starts = sorted(draw(st.sets(st.integers(1, len(truth) - 1), min_size=1, max_size=3)) | {0})
    segments = []
    for start, following in zip(starts, [*starts[1:], None], strict=True):
        end = len(truth) if following is None else draw(st.integers(following, len(truth)))
        batches, at = truth[start:end], truth[end - 1][1] + truth[end - 1][3]
        over = (truth[end] if end < len(truth) else truth[-1])[0] - 1
        for _ in range(0 if following is None or over < 0 else draw(st.integers(0, 3))):
            count = draw(st.integers(1, 5))
            batches.append((over, at, "fork", count))
            at += count
        segments.append(batches)
    return truth, segments


@settings(deadline=None, max_examples=60)
@given(merged_replicas())
def test_the_truth_comes_out_of_merged_replicas(
    made: tuple[list[tuple[int, int, str, int]], list[list[tuple[int, int, str, int]]]],
) -> None:
    truth, segments = made
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "t-0")
        path.mkdir()
        for number, batches in enumerate(segments):
            name = f"{batches[0][1]:020}"
            for file in write(Path(place, str(number), "t-0"), *batches).glob(f"{name}.*"):
                shutil.copy(file, path)
        epochs = {epoch: first for epoch, first, _, _ in reversed(truth)}
        lines = [f"{epoch} {first}\n" for epoch, first in sorted(epochs.items())]
        (path / "leader-epoch-checkpoint").write_text(f"0\n{len(lines)}\n{''.join(lines)}")
        expected = [f"t{first + at}" for _, first, _, count in truth for at in range(count)]
        assert values(mb.Log(path)) == expected
        assert mb.digest(mb.Log(path))["t", 0].records == len(expected)
        assert sum(table.num_rows for table in mb.Log(path).scan(["offset"])) == len(expected)
        for rule in ("first", "longest"):
            offsets = [record.offset for record in mb.Log(path, replicas=rule).records()]
            assert offsets == sorted(set(offsets)) and offsets[: len(expected)] == list(range(len(expected)))
