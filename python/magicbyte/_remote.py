"""Logs behind addresses: ``s3://``, ``gs://``, ``abfss://``, ``hdfs://`` and whatever else fsspec reaches; ``file://`` is a path.

fsspec, because it has all of these under one interface, hdfs among them, and because who works with such storage has it set
up: credentials and endpoints come from where the storage's own package (s3fs, gcsfs, adlfs, pyarrow for hdfs) finds them, or as
``storage``. That package repeats what fails on the way; what it lets through of lost connections is tried again here.

Objects are read in ranges, larger ones the longer the reading goes straight on, and one range ahead. An object is as it
was when it was opened: who replaces one that is being read may see both.
"""

from __future__ import annotations

import errno
import os
import random
import re
import time
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

from ._extras import extra

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

T = TypeVar("T")

FIRST, MOST = 256 << 10, 8 << 20
"""Bytes of the first range, and of the largest."""
TRIES = 4
"""Of a request whose connection is lost, with pauses of 0.2 s and twice as much each time."""
AT_ONCE = 16
"""Directories that are listed at the same time."""

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_FINAL = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)

_storage: dict[str, dict[str, Any]] = {}
"""Options by the begin of an address, as they were given last."""
_threads: tuple[int, ThreadPoolExecutor] | None = None


def is_address(path: str) -> bool:
    """Whether a path is an address and no file of this machine."""
    return _ADDRESS.match(path) is not None


def located(path: str) -> str:
    """A path or an address; ``file://`` becomes the path that it means."""
    # Hadoop writes one slash where the host is empty.
    if re.match(r"(file|local):/", path, re.IGNORECASE) is None:
        return path
    return unquote(urlsplit(path).path)


def use(address: str, storage: Mapping[str, Any]) -> None:
    """The options of the file system, for this address and what lies below, from here on in this process."""
    _storage[address.rstrip("/")] = dict(storage)


def system(address: str) -> tuple[Any, str]:
    """fsspec's file system of an address, and its own name of the path."""
    with extra("s3" if address.lower().startswith(("s3:", "s3a:")) else "storage"):
        import fsspec
    options: dict[str, Any] = {}
    for begin in sorted(_storage, key=len):
        if address == begin or address.startswith(begin + "/"):
            options = _storage[begin]
    try:
        found, path = fsspec.core.url_to_fs(address, **options)
    except ImportError as error:
        hint = "; pip install 'magicbyte[s3]'" if address.lower().startswith(("s3:", "s3a:")) else ""
        raise ModuleNotFoundError(f"{address}: {error}{hint}") from None
    except ValueError as error:
        raise ValueError(f"{address}: {error}") from None
    return found, str(path)


def again(what: Callable[[], T], address: str) -> T:
    """Tries what may fail for reasons that pass; the last error is raised as it came, with the address."""
    for tried in range(1, TRIES + 1):
        try:
            return what()
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), address) from None
        except PermissionError as error:
            raise PermissionError(errno.EACCES, str(error) or os.strerror(errno.EACCES), address) from None
        except _FINAL:
            raise
        except Exception as error:
            # What the storage's own package raises (botocore's errors are no OSError) counts as lost, too; Python's own do not.
            ours = type(error).__module__ == "builtins" and not isinstance(error, (OSError, EOFError))
            if ours:
                raise
            if tried == TRIES:
                raise OSError(f"{address}: {str(error) or type(error).__name__} (tried {tried} times)") from error
        time.sleep(0.2 * 2 ** (tried - 1) * random.uniform(0.5, 1.5))
    raise AssertionError


def threads() -> ThreadPoolExecutor:
    """Threads for requests; a forked process makes its own."""
    global _threads
    if _threads is None or _threads[0] != os.getpid():
        from concurrent.futures import ThreadPoolExecutor

        # Two threads that come at once make two, of which one stays.
        _threads = os.getpid(), ThreadPoolExecutor(AT_ONCE, "magicbyte-storage")
    return _threads[1]


class Object:
    """One object, read by position. Not for several threads at once."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._system, self._path = system(address)
        self._system.invalidate_cache(self._path)
        found = again(lambda: self._system.info(self._path), address)
        if found["type"] != "file":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), address)
        self.size = int(found["size"])
        self._block = memoryview(b"")
        self._begins = 0
        self._range = FIRST
        self._ahead: tuple[int, Future[bytes]] | None = None

    def read_at(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``position`` on; none only at the end."""
        end = min(position + length, self.size)
        if position >= end:
            return b""
        block_end = self._begins + len(self._block)
        if not self._begins <= position < block_end:
            self._next(position, end, straight=position == block_end)
        at = position - self._begins
        return bytes(self._block[at : at + end - position])

    def _next(self, position: int, end: int, straight: bool) -> None:
        self._range = min(self._range * 2, MOST) if straight and position else FIRST
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] == position:
            block = ahead[1].result()
        else:
            block = self._get(position, max(end, position + self._range))
        self._block, self._begins = memoryview(block), position
        after = position + len(block)
        if straight and position and after < self.size:
            self._ahead = after, threads().submit(self._get, after, after + self._range)

    def _get(self, start: int, end: int) -> bytes:
        end = min(end, self.size)

        def request() -> bytes:
            data = bytes(self._system.cat_file(self._path, start=start, end=end))
            if len(data) != end - start:
                raise OSError(
                    f"{len(data)} bytes at byte {start}, where {end - start} were asked for; was it replaced?"
                )
            return data

        return again(request, self._address)


def read(address: str, limit: int) -> bytes | None:
    """A small object; ``None`` where there is none."""
    try:
        found = Object(address)
    except (FileNotFoundError, IsADirectoryError):
        return None
    return found.read_at(0, limit)


def listed(address: str) -> list[tuple[str, bool, int]]:
    """What stands directly below an address: name, whether it is a directory, size. Sorted by name."""
    found, path = system(address)
    found.invalidate_cache(path)
    names: dict[str, tuple[str, bool, int]] = {}
    for entry in again(lambda: found.ls(path, detail=True), address):
        name = str(entry["name"]).rstrip("/").rsplit("/", 1)[-1]
        # An object that stands for the directory itself.
        if name and str(entry["name"]).rstrip("/") != path.rstrip("/"):
            names[name] = (name, entry["type"] == "directory", int(entry.get("size") or 0))
    return [names[name] for name in sorted(names)]


def kind(address: str) -> tuple[bool, int]:
    """Whether an address is a directory, and its size; ``FileNotFoundError`` where nothing is."""
    found, path = system(address)
    found.invalidate_cache(path)
    entry = again(lambda: found.info(path), address)
    return entry["type"] == "directory", int(entry.get("size") or 0)


def matching(pattern: str) -> list[str]:
    """Addresses that a glob (``*``, ``?``, ``[…]``) leads to, sorted."""
    found, path = system(pattern)
    found.invalidate_cache()
    # What the file system calls a path has lost the scheme, a host or an account: they come from the pattern.
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(pattern[::-1], path[::-1], strict=False)))
    before, cut = pattern[: len(pattern) - same], len(path) - same
    return sorted(before + str(match)[cut:] for match in again(lambda: found.glob(path), pattern))
