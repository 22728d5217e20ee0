"""Work cut into tasks, each with the bytes that it reads: done here, or by whoever is given in place of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")
Run = Callable[[Sequence[tuple[int, T]], Callable[[T], R]], list[R]]
"""Does the work on each task (its bytes stand before it), wherever, and gives the results back in order."""


def one_by_one(
    tasks: Sequence[tuple[int, T]], work: Callable[[T], R], progress: Callable[[int], object] | None
) -> list[R]:
    """The results in the order of the tasks. ``progress`` is told the bytes of those that are done, added up."""
    results, behind = [], 0
    for size, task in tasks:
        results.append(work(task))
        behind += size
        if progress is not None:
            progress(behind)
    return results
