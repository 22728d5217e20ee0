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
