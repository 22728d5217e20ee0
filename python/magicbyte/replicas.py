"""Several copies of one partition: which one to read, by the lineage of leader epochs.

Replicas of a partition are the same up to the point where one of them was cut off from the others. Each copy's
``leader-epoch-checkpoint`` says at which offset each leader's epoch began, and two copies that have an epoch in common
have everything in common up to where it ends in the first of them (KIP-101, KIP-279). What a copy holds behind that
point is a fork: records that its broker would have cut off when it came back.

The winner is the copy that a follower would have followed: the one with the highest last epoch, of those the longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import _remote
from ._layout import Segment, directory_of
from ._remote import is_address
from .errors import MagicbyteError

__all__ = ["RULES", "Replica", "resolve"]

RULES = ("lineage", "longest", "first")
CHECKPOINT = "leader-epoch-checkpoint"
MAX_CHECKPOINT = 16 << 20  # bytes; a healthy one has some kilobytes

Epochs = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Replica:
    """One of several copies of a partition.

    Attributes:
        path: its directory.
        topic, partition: what it is a copy of.
        epochs: (leader epoch, first offset) by its checkpoint; empty where there is none that can be read.
        start_offset: the name of its first segment.
        end_offset: the offset behind its last sound batch.
        chosen: whether this is the one that is read.
        diverges_at: the offset from which on it is a fork of the chosen one, or ends; ``None`` where the rule did not ask,
            or the two have no epoch in common.
        why: in words, why it is chosen or left out.
    """

    path: str
    topic: str
    partition: int
    epochs: tuple[tuple[int, int], ...]
    start_offset: int
    end_offset: int
    chosen: bool
    diverges_at: int | None
    why: str

    @property
    def forked(self) -> int:
        """How many offsets it holds of a fork, which nobody reads."""
        return 0 if self.diverges_at is None else max(self.end_offset - self.diverges_at, 0)


@dataclass(frozen=True)
class _Copy:
    directory: str
    segments: list[Segment]
    epochs: Epochs
    flaw: str
    end: int

    @property
    def start(self) -> int:
        return self.segments[0].base_offset


def resolve(
    segments: Sequence[Segment], rule: str | None, end_of: Callable[[list[Segment]], int]
) -> tuple[list[Segment], list[Replica]]:
    """The segments to read, in the order given, and what was said of partitions with several copies.

    A copy is what lies in one directory. ``rule``: ``lineage``, ``longest``, ``first``, or ``None``: lineage where every
    copy has its checkpoint. ``end_of`` finds the offset behind the last batch.

    Raises:
        ValueError: several copies, and lineage can't tell which; or a rule that there is not.
    """
    if rule is not None and rule not in RULES:
        raise ValueError(f"replicas: {rule!r} is not one of {', '.join(RULES)}")
    copies: dict[tuple[str, int], dict[str, list[Segment]]] = {}
    for segment in segments:
        directory = directory_of(segment.path)
        copies.setdefault((segment.topic, segment.partition), {}).setdefault(directory, []).append(segment)
    kept: set[str] = set()
    replicas: list[Replica] = []
    for (topic, partition), by_directory in copies.items():
        # Files of which no name tells what they are may be anything: they are read one after the other.
        nameless = partition < 0 and any(own[0].base_offset < 0 for own in by_directory.values())
        if len(by_directory) == 1 or nameless:
            kept |= {segment.path for own in by_directory.values() for segment in own}
            continue
        found = [_copy(directory, own, end_of(own)) for directory, own in by_directory.items()]
        chosen = _winner(topic, partition, found, rule)
        kept |= {segment.path for segment in chosen.segments}
        replicas += [_described(topic, partition, copy, chosen, rule) for copy in found]
    return [segment for segment in segments if segment.path in kept], replicas


def _copy(directory: str, segments: list[Segment], end: int) -> _Copy:
    epochs, flaw = checkpoint(directory)
    return _Copy(directory, segments, epochs, flaw, end)


def checkpoint(directory: str) -> tuple[Epochs, str]:
    """The leader epochs of a partition's directory, or what is wrong with them."""
    from magicbyte import _core

    path = Path(directory) / CHECKPOINT
    epochs: Epochs = []
    flaw = "it has no epoch"
    try:
        if is_address(directory):
            data = _remote.read(f"{directory}/{CHECKPOINT}", MAX_CHECKPOINT)
            if data is None:
                raise FileNotFoundError
        else:
            with path.open("rb") as file:
                data = file.read(MAX_CHECKPOINT)
        epochs = _core.leader_epochs(data)
    except FileNotFoundError:
        flaw = f"there is no {CHECKPOINT}"
    except (OSError, MagicbyteError) as error:
        flaw = str(error)
    return epochs, "" if epochs else flaw


def _winner(topic: str, partition: int, copies: list[_Copy], rule: str | None) -> _Copy:
    if rule == "first":
        return copies[0]
    if rule == "longest":
        return max(copies, key=lambda copy: copy.end)
    for copy in copies:
        if copy.flaw:
            places = ", ".join(one.directory for one in copies)
            raise ValueError(
                f"{topic}-{partition} is there {len(copies)} times ({places}), and the lineage of leader epochs can't tell "
                f"which to read: {copy.directory}: {copy.flaw}. Name one path, or the rule: replicas='longest' (the one "
                "with the greatest offset) or 'first' (the one that is named first)"
            )
    return max(copies, key=lambda copy: (copy.epochs[-1][0], copy.end))


def _described(topic: str, partition: int, copy: _Copy, chosen: _Copy, rule: str | None) -> Replica:
    at: int | None = None
    if copy is chosen:
        why = {
            "first": "named first",
            "longest": f"the greatest end offset, {copy.end}",
        }.get(
            rule or "",
            f"the highest leader epoch, {copy.epochs[-1][0] if copy.epochs else -1}, up to offset {copy.end}",
        )
    elif rule in ("first", "longest"):
        why = f"left out by the rule {rule}; it ends at offset {copy.end}"
    else:
        at = divergence(chosen.epochs, chosen.end, copy.epochs, copy.end)
        if at is None:
            why = "no leader epoch in common with the chosen copy"
        elif at < copy.end:
            last = copy.epochs[-1][0]
            why = f"a fork from offset {at} on: offsets {at} to {copy.end - 1}, up to epoch {last}, were cut off"
        else:
            why = f"the same up to offset {copy.end}, where it ends"
            if copy.start < chosen.start:
                why += f"; it begins at {copy.start}, the chosen one at {chosen.start}"
    return Replica(copy.directory, topic, partition, tuple(copy.epochs), copy.start, copy.end, copy is chosen, at, why)


def divergence(leader: Epochs, leader_end: int, follower: Epochs, follower_end: int) -> int | None:
    """The offset up to which a follower has what the leader has; ``None`` where they have no epoch in common.

    That is where the greatest epoch that both have ends first (KIP-279's last step; over the wire it is asked epoch by
    epoch). Should the checkpoints be at odds below it, which replication does not allow, it is where they first are.
    """
    theirs = {epoch for epoch, _ in leader}
    shared = max((epoch for epoch, _ in follower if epoch in theirs), default=None)
    if shared is None:
        return None
    at = min(_end_of(shared, leader, leader_end), _end_of(shared, follower, follower_end))
    # A copy whose beginning was deleted has its first epoch begin where it begins itself.
    begins = max(leader[0][1], follower[0][1])
    mine, yours = (
        {(epoch, start) for epoch, start in _filled(epochs, end) if begins < start < at}
        for epochs, end in ((leader, leader_end), (follower, follower_end))
    )
    return min([at, *(start for _, start in mine ^ yours)])


def _filled(epochs: Epochs, end: int) -> Epochs:
    """The epochs that have records: a leader notes its epoch before it has written any, a follower does not."""
    return [(epoch, start) for epoch, start in epochs if _end_of(epoch, epochs, end) > start]


def _end_of(epoch: int, epochs: Iterable[tuple[int, int]], end: int) -> int:
    """Where an epoch ends: where the next one begins."""
    return min((start for other, start in epochs if other > epoch), default=end)
