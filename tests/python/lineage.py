"""Copies of one partition that went different ways, written with a history of leader epochs."""

from __future__ import annotations

from pathlib import Path

import magicbyte as mb


def write(path: Path, *batches: tuple[int, int, str, int]) -> Path:
    """A partition directory of batches (leader epoch, first offset, values' prefix, records), with its checkpoint."""
    with mb.Writer(path) as writer:
        for epoch, first, prefix, count in batches:
            records = [mb.ProducerRecord("orders", f"{prefix}{first + at}".encode(), b"k") for at in range(count)]
            writer.append(mb.encode(records, base_offset=first, leader_epoch=epoch))
    return path


def forks(tmp_path: Path) -> list[Path]:
    """Broker 1 led in epoch 0 and wrote 10 to 14 that nobody copied; broker 2 took over in epoch 1; broker 3 follows it."""
    return [
        write(tmp_path / "b1" / "orders-0", (0, 0, "a", 10), (0, 10, "lost", 5)),
        write(tmp_path / "b2" / "orders-0", (0, 0, "a", 10), (1, 10, "b", 3), (3, 13, "c", 1)),
        write(tmp_path / "b3" / "orders-0", (0, 0, "a", 10), (1, 10, "b", 3)),
    ]


TRUTH = [*(f"a{at}" for at in range(10)), "b10", "b11", "b12", "c13"]


def values(log: mb.Log) -> list[str]:
    return [(record.value or b"").decode() for record in log.records()]
