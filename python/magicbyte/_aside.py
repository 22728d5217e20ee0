"""Files and directories that are there as a whole or not at all: written aside, flushed to disk, then renamed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["flush_directory", "replace_directory", "written_aside"]


@contextlib.contextmanager
def written_aside(target: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file beside ``target`` that takes its place when the block ends well, and is gone when it does not."""
    target = Path(target)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory")
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


def replace_directory(made: Path, target: Path) -> None:
    """Puts the directory ``made`` in the place of ``target``, which may be there; both have the same parent.

    POSIX has no call that swaps two directories: for a moment neither stands at ``target``, and a run that is killed
    just then leaves the old one beside it, as ``.<name>.old``.
    """
    flush_directory(made)
    old = target.with_name(f".{target.name}.old")
    if target.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(target, old)
    os.rename(made, target)
    flush_directory(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def flush_directory(directory: Path) -> None:
    """Brings a directory's entries to disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
