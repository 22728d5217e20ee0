"""Copies of one partition: which is read, by the lineage of leader epochs, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

import magicbyte as mb
from magicbyte.replicas import divergence

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
        assert len(values(mb.Log(merged))) == 15 + 12

    def test_the_lineage_decides(self, merged: Path, tmp_path: Path) -> None:
        truth = [*(f"a{at}" for at in range(10)), *(f"b{at}" for at in range(10, 17))]
        log = mb.Log(merged, replicas="lineage")
        assert values(log) == truth
        assert log.scan().count() == 17
        assert [record.offset for record in log.records(offsets=(8, 12))] == [8, 9, 10, 11]
        done = mb.recover(log, tmp_path / "out" / "orders-0")
        assert values(mb.Log(tmp_path / "out" / "orders-0")) == truth
        assert [lost.first_offset for lost in done.lost] == [10, 5]

    def test_other_rules(self, merged: Path) -> None:
        assert values(mb.Log(merged, replicas="first"))[10:] == [*(f"fork{at}" for at in range(10, 15)), "b15", "b16"]
        assert values(mb.Log(merged, replicas="longest")) == values(mb.Log(merged, replicas="lineage"))

    def test_it_is_refused(self, merged: Path) -> None:
        (merged / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n7 10\n")
        with pytest.raises(ValueError, match="neither has the epochs of the checkpoint: at offset 10"):
            mb.Log(merged, replicas="lineage")
        (merged / "leader-epoch-checkpoint").unlink()
        with pytest.raises(ValueError, match="both hold offset 5, and the lineage .* there is no leader-epoch"):
            mb.Log(merged, replicas="lineage")
