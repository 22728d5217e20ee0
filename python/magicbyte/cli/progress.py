"""A progress line on standard error: only on a terminal, only for work of more than a second."""

from __future__ import annotations

import shutil
import sys
import time
from types import TracebackType

from magicbyte.cli.output import human_bytes

PATIENCE = 1.0  # seconds before the line shows at all
PACE = 0.2  # seconds between two drawings
BAR = 24  # cells

_shown: Progress | None = None  # the line that now stands on the terminal, if any


class Progress:
    """Counts bytes up to ``total``; draws share, rate and time left. A context manager: the line goes when it ends.

    ``quiet`` keeps it from drawing at all, as when the records themselves go to the terminal.
    """

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        self.total = total
        self.done = 0
        self.on = not quiet and sys.stderr.isatty()
        self.began = time.monotonic()
        self.next = self.began + PATIENCE

    def to(self, done: int) -> None:
        """``done`` bytes of the total are behind us."""
        self.done = done
        if self.on:
            now = time.monotonic()
            if now >= self.next:
                self.next = now + PACE
                self.draw(now)

    def by(self, more: int) -> None:
        """So many more bytes are behind us."""
        self.to(self.done + more)

    def draw(self, now: float) -> None:
        """Draws the line, over the one that stands there."""
        global _shown
        share = min(self.done / self.total, 1.0) if self.total else 1.0
        rate = self.done / max(now - self.began, 1e-9)
        left = clock((self.total - self.done) / rate) if rate else "?"
        cells = int(share * BAR)
        line = (
            f"{share:4.0%} [{'#' * cells}{'-' * (BAR - cells)}] {human_bytes(self.done)} of {human_bytes(self.total)}, "
            f"{human_bytes(rate)}/s, {left} left"
        )
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[K{line[:width]}")
        sys.stderr.flush()
        _shown = self

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None:
        clear()


def clear() -> None:
    """Takes the line off the terminal, so that something else can be written there."""
    global _shown
    if _shown is not None:
        _shown = None
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


def clock(seconds: float) -> str:
    """``75`` → ``1:15``; hours where needed."""
    minutes, second = divmod(max(int(seconds + 0.5), 0), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
