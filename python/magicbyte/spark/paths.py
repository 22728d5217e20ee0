"""From the paths that a user gave, globs among them, to opened logs."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator
from glob import has_magic, iglob
from pathlib import Path
from urllib.parse import unquote, urlsplit

from magicbyte import _together
from magicbyte._layout import COMPANIONS, UNFINISHED, file_kind
from magicbyte._remote import is_address, located, matching, use
from magicbyte.log import Log

from .findings import log as said
from .options import Options


def logs(options: Options) -> list[Log]:
    """The logs that the options name, each once, in the order given.

    ``topic`` and ``partition`` name what has no name of its own, and choose among what has one.
    """
    if not options.paths:
        raise ValueError(
            "no path: give the path of a log directory, of a partition directory or of a segment to load()"
        )
    found: list[Log] = []
    seen: set[str] = set()
    reach(options)
    for given in options.paths:
        for path in _split(given):
            for log in _open(located(path), options):
                place = log.source if is_address(log.source) else str(Path(log.source).resolve())
                if place not in seen:
                    seen.add(place)
                    _tell(log)
                    found.append(log)
    _together.chosen(found, options.replicas)
    found = [log for log in found if log.segments]
    _together.once(found, options.replicas)
    for line in _together.said(found):
        said.warning("magicbyte: %s", line)
    return found


def _tell(log: Log) -> None:
    for path, reason in log.left_out:
        if reason.startswith(UNFINISHED):
            said.warning("magicbyte: %s: %s", path, reason)


def reach(options: Options) -> None:
    """Makes the option ``storage`` known in this process, for the addresses that are read."""
    for given in options.paths if options.storage is not None else ():
        for path in _split(given):
            plain = re.split(r"[*?\[{]", path)[0]
            use(path if plain == path else plain.rpartition("/")[0], options.storage or {})


def _open(path: str, options: Options) -> Iterator[Log]:
    if is_address(path):
        yield from _behind(path, options)
        return
    if (not has_magic(path) and "{" not in path) or Path(path).exists():
        yield _named(path, options)
        return
    matches = sorted({match for one in _braces(path) for match in iglob(one)})
    directories = any(Path(match).is_dir() for match in matches)
    opened = 0
    problem: OSError | None = None
    for match in matches:
        if not Path(match).is_dir():
            kind = file_kind(Path(match).name)[0]
            # What stands beside segments, or beside partition directories, is matched by the way.
            if kind in COMPANIONS or kind == "left_out" or (directories and kind != "log"):
                continue
        try:
            log = _named(match, options)
        except FileNotFoundError as error:
            problem = error
            continue
        opened += 1
        yield log
    if not opened:
        raise problem or FileNotFoundError(errno.ENOENT, "nothing matches", path)


def _behind(address: str, options: Options) -> Iterator[Log]:
    """The logs behind an address, or of a glob over addresses."""
    if not has_magic(address) and "{" not in address:
        yield _named(address, options)
        return
    matches = sorted({match for one in _braces(address) for match in matching(one)})
    logs = [match for match in matches if file_kind(match.rpartition("/")[2])[0] == "log"]
    for match in logs or matches:
        kind = file_kind(match.rpartition("/")[2])[0]
        if kind not in COMPANIONS and kind != "left_out":
            yield _named(match, options)
    if not matches:
        raise FileNotFoundError(errno.ENOENT, "nothing matches", address)


def _named(path: str, options: Options) -> Log:
    reading = options.reading()
    log = Log(path, **reading)
    unnamed = log.single and any(not segment.topic and segment.partition < 0 for segment in log.segments)
    if unnamed and (options.topic is not None or options.partition is not None):
        return Log(path, topic=options.topic, partition=options.partition, **reading)
    return log


def _split(given: str) -> list[str]:
    """One path, or a JSON list, or a list with commas; a file of that very name comes first."""
    if not is_address(given) and Path(given).exists():
        return [given]
    if given.lstrip().startswith("["):
        try:
            found = json.loads(given)
        except ValueError:
            return [given]
        return [str(path) for path in found] if isinstance(found, list) else [given]
    # Commas within {a,b} belong to the glob.
    return [path.strip() for path in re.split(r",(?![^{]*\})", given) if path.strip()]


def local(path: str) -> str:
    """A ``file:`` address as a path; other schemes are not written: renames are no commit there."""
    found = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", path)
    if found is None:
        return path
    if found[1].lower() != "file":
        raise ValueError(
            f"path {path}: only local files can be written, not {found[1]}: (write to a directory, then copy it)"
        )
    return unquote(urlsplit(path).path)


def _braces(pattern: str) -> list[str]:
    """``a{b,c}`` as Hadoop's globs have it: ``ab`` and ``ac``."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [one for choice in found[1].split(",") for one in _braces(before + choice + after)]
