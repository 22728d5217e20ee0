"""Files and directories that are there as a whole or not at all: written aside, flushed to disk, then renamed."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["aside_name", "exchange", "flush_directory", "replace_directory", "written_aside"]


@contextlib.contextmanager
def written_aside(target: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file beside ``target`` that takes its place when the block ends well, and is gone when it does not.

    A symbolic link stays, and what it leads to is replaced. A device or a pipe is written to as it is: nothing may take
    the place of ``/dev/null``.
    """
    target = Path(target)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory")
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(target))
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            # mkstemp lets nobody else read; a file that is opened the usual way obeys the umask.
            os.chmod(name, _mode(target))
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
    flush_directory(target.parent)


def _mode(target: Path) -> int:
    """The mode of the file that is replaced, else the usual one."""
    with contextlib.suppress(FileNotFoundError):
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def aside_name(target: Path) -> Path:
    """A new name beside a directory, in the form of one that a broker marked for deletion: should it be left there by a
    process that was killed, a broker removes it when it starts (any other name would keep it from starting), and
    ``Log`` leaves it out."""
    return target.with_name(f"{target.name}.{uuid.uuid4().hex}-delete")


def replace_directory(made: Path, target: Path) -> None:
    """Puts the directory ``made`` in the place of ``target``, which may be there; both have the same parent.

    Where the system can swap two directories (Linux), there is no moment at which neither stands at ``target``.
    """
    flush_directory(made)
    if not target.exists():
        os.rename(made, target)
    else:
        exchange(made, target)
        shutil.rmtree(made, ignore_errors=True)
    flush_directory(target.parent)


def exchange(one: Path, other: Path) -> None:
    """Lets two directories change places: in one step where the system can, else in three."""
    if not _swapped(one, other):
        middle = aside_name(other)
        os.rename(other, middle)
        os.rename(one, other)
        os.rename(middle, one)


def _swapped(one: Path, other: Path) -> bool:
    """Swaps two paths in one step; False where the system or the file system cannot."""
    at_cwd, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0


def flush_directory(directory: Path) -> None:
    """Brings a directory's entries to disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
