"""Charge-back over stored logs: records and bytes a producer, a tenant or a route, by headers and topic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from magicbyte._extras import extra
from magicbyte._layout import absolute
from magicbyte._tasks import Run, one_by_one
from magicbyte.log import Log, Stretch

if TYPE_CHECKING:
    from magicbyte.log import Source
    from magicbyte.middleware.chargeback import ChargeBack

__all__ = ["chargeback"]

TASK_BYTES = 256 << 20
Rows = list[dict[str, Any]]
R = TypeVar("R")
COLUMNS = ("key", "value", "topic", "headers")


def chargeback(
    source: Log | Source,
    *by: str,
    groups: int = 10_000,
    format: str = "kafka",
    progress: Callable[[int], object] | None = None,
    run: Run[Stretch, Rows] | None = None,
) -> ChargeBack:
    """Who uses how much of a log, by headers of these names and ``topic``; ``.table()`` of the result has the rows.

    What counts is what is stored: records of aborted transactions, too. ``groups`` bounds how many rows there may be in each
    task and in all; what comes later is counted as ``(others)``. ``progress`` is told the bytes read. ``run`` does the work
    elsewhere: ``magicbyte.spark.usage``.

    Raises:
        CorruptRecordError: damage.
        ImportError: no pyarrow; ``pip install 'magicbyte[arrow]'``.
    """
    with extra("arrow"):
        import pyarrow  # noqa: F401

    from magicbyte.middleware.chargeback import ChargeBack

    log = source if isinstance(source, Log) else Log(source, format=format)
    meter = ChargeBack(*by, groups=groups)
    for rows in by_stretch(log, _Work(by, groups, log.format), progress, run):
        meter.merge(rows)
    return meter


def by_stretch(
    log: Log, work: Callable[[Stretch], R], progress: Callable[[int], object] | None, run: Run[Stretch, R] | None
) -> list[R]:
    """``work`` on each stretch of a log, cut between batches; the results in the order of the log."""
    sizes = {segment.path: segment.size for segment in log.segments}
    tasks = []
    for stretch in log.stretches(target_bytes=TASK_BYTES):
        end = sizes[stretch.path] if stretch.end is None else stretch.end
        tasks.append((max(end - stretch.start, 0), stretch._replace(path=absolute(stretch.path))))
    return run(tasks, work) if run is not None else one_by_one(tasks, work, progress)


@dataclass(frozen=True)
class _Work:
    """Sums up one stretch. Travels to workers."""

    by: tuple[str, ...]
    groups: int
    format: str

    def __call__(self, stretch: Stretch) -> Rows:
        from magicbyte import _core
        from magicbyte.middleware.chargeback import ChargeBack

        meter = ChargeBack(*self.by, groups=self.groups)
        reader = _core.Reader([_core.Part(*stretch)], format=self.format)
        for _ in meter.arrow(reader.scan(COLUMNS)):
            pass
        return meter.table()
