"""From stretches of files to tasks: small ones together, since a Spark task costs more than a small file.

A task in Python costs about 0.08 s of its core, whatever it reads; a file that is opened costs what ``OPEN_COST`` bytes would.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import datasource

from magicbyte.log import Stretch

OPEN_COST = 1 << 20
"""Bytes that are read in the time in which one more file is opened."""


@dataclass
class Piece:
    """A stretch of one file: plain values only, which pickle without the extension."""

    stretch: Stretch
    size: int
    transactions: bytes | None = None
    """What is known of the partition's transactions: found out once, by whoever plans, not in every task."""


@dataclass
class Pack(datasource.InputPartition):
    """What one task reads, in the order of topic, partition and offset."""

    pieces: list[Piece]

    @property
    def stretches(self) -> list[Stretch]:
        """Those of its pieces."""
        return [piece.stretch for piece in self.pieces]


def packed(pieces: Iterable[Piece], target: int) -> list[Pack]:
    """Neighbours together, as long as they are no more than ``target`` bytes, the opening of files among them."""
    packs: list[Pack] = []
    room = 0
    for piece in pieces:
        cost = piece.size + OPEN_COST
        if packs and cost <= room:
            packs[-1].pieces.append(piece)
        else:
            packs.append(Pack([piece]))
            room = target
        room -= cost
    return packs
