"""The strict pass over the corpus: malformed vectors all have a defect, what real producers and brokers wrote has no error,
and each damaged file has the defect that was put into it."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Any

import pytest

import magicbyte as mb

from golden.corpus import Damaged, damaged, logs
from golden.test_vectors import MALFORMED, VECTORS, ids
from places import DATA

COMMON = {"v0", "v1", "v2", "v3"}


def strict(dialect: str, line: dict[str, Any]) -> mb.Report:
    return mb.verify(bytes.fromhex(line["hex"]), format="kafka" if dialect in COMMON else dialect)


@pytest.mark.parametrize(("dialect", "line"), [(d, v) for d, _, v in MALFORMED], ids=ids(MALFORMED))
def test_every_malformed_vector_has_a_defect(dialect: str, line: dict[str, Any]) -> None:
    report = strict(dialect, line)
    assert report.defects, line["why"]
    if line["reader"] == "refuses":
        assert report.ok is False, line["why"]


@pytest.mark.parametrize(("dialect", "line"), [(d, v) for d, _, v in VECTORS], ids=ids(VECTORS))
def test_no_sound_vector_has_an_error(dialect: str, line: dict[str, Any]) -> None:
    assert [d for d in strict(dialect, line).defects if d.severity == "error"] == []


PARTITIONS = sorted({case.path.parent for case in logs(".log")})


@pytest.mark.parametrize("path", PARTITIONS, ids=[f"{p.parents[1].name}/{p.name}" for p in PARTITIONS])
def test_what_a_broker_wrote_has_no_error(path: Path) -> None:
    """Producers of Java, librdkafka and Python, compaction, transactions, indexes: notes at most."""
    report = mb.Log(path).verify()
    assert [d for d in report.defects if d.severity == "error"] == []
    assert report.ok is True
    notes = {d.kind for d in report.defects}
    assert notes <= {"gap", "canonical", "zero_tail", "sequence"}
    assert ("zero_tail" in notes) == ("preallocated" in path.name)


# What was done to a file (the end of its name), and the defects of which at least one must be named: kind, and "~" for a
# note. The first line that fits counts. `None`: nothing that the bytes could tell (a change that makes another sound log).
EXPECTED: list[tuple[str, str | None]] = [
    ("*-zero-tail*", "zero_tail~"),
    ("*-truncated-*leaves1", "zero_tail~"),
    ("v[01]-*-truncated-leaves5", "zero_tail~"),
    ("*-truncated-*", "torn_tail~"),
    ("bomb-*", None),
    ("rec-control-sample-good", None),
    ("rec-*utf8", "canonical~"),
    ("rec-*record-attributes-255", "canonical~"),
    ("rec-*varint-5-bytes", "canonical~"),
    ("rec-*varint-long-zero", "canonical~"),
    ("rec-*varlong-10-bytes", "canonical~"),
    ("rec-*timestamp-delta-*", None),
    ("rec-*offset-delta-*", "disorder"),
    ("rec-*count-one-*", "count"),
    ("rec-*", "record"),
    ("*-attributes-unused-bits", "canonical~"),
    ("*-base-offset-backwards", "overlap"),
    ("*-base-offset-*", "disorder"),
    ("*-codec-cleared", "record"),
    ("v[01]-*-codec-4", "codec"),
    ("*-codec-[567]", "codec"),
    ("*-wrong-codec", "decompress"),
    ("v2-zstd-compressed-empty", "count"),
    ("v2-gzip-compressed-extra-9", "canonical~"),
    ("v2-lz4-compressed-extra-9", "canonical~"),
    ("*-compressed-*", "decompress"),
    ("*-control-flag-on-data", "record"),
    ("*-horizon-flag-on-data", None),
    ("*-leader-epoch-change", None),
    ("*-max-timestamp-wrong", "record"),
    ("*-count-*", "count"),
    ("*-crc-bitflip", "crc"),
    ("*-payload-bitflip", "crc"),
    ("*-garbage-head", "hole"),
    ("*-garbage-tail", "length"),
    ("*-last-offset-delta-12", "gap~"),
    ("*-last-offset-delta-2147483647", "gap~"),
    ("*-last-offset-delta-*", "record"),
    ("v2-*-length-1[34]", "hole"),
    ("*-length-minus1", "crc"),
    ("*-length-plus1", "crc"),
    ("*-length-49", "crc"),
    ("v[01]-*-key-length-*", "record canonical~"),
    ("v[01]-none-value-length-0", "canonical~"),
    ("v[01]-none-value-length--1", "canonical~"),
    ("v[01]-none-value-length-*", "record"),
    ("v[01]-*-value-length--[12]", "wrapper"),
    ("v[01]-*-value-length-0", "decompress"),
    ("v[01]-*-value-length-*", "record"),
    ("*-length-14", "hole crc"),
    ("*-length-*", "hole"),
    ("*-log-append-flag", None),
    ("*-magic-1", "crc"),
    ("*-magic-other", "record"),
    ("*-magic-*", "hole"),
    ("*-outer-offset-small", "wrapper"),
    ("*-outer-offset-change", "wrapper disorder"),
    ("*-wrapper-inner-absolute", None),
    ("v1-*-wrapper-inner-holes", "gap~"),
    ("*-wrapper-inner-other-magic", "canonical~"),
    ("*-wrapper-inner-v2", "magic"),
    ("*-wrapper-inner-crc-bad", "crc"),
    ("*-wrapper-trailing-zeros", "length"),
    ("*-wrapper-with-key", "canonical~"),
    ("*-wrapper-*", "wrapper"),
]
# One bit of a payload under a checksum that was made to fit: whatever the bit hit.
FIXED = "*-payload-bitflip-crc-fixed-*"
DAMAGED = damaged()


@pytest.mark.parametrize("case", DAMAGED, ids=[case.name for case in DAMAGED])
def test_damaged_files(case: Damaged) -> None:
    """The right defect in each, the same for a file and for its bytes; never a crash."""
    report = mb.Log(case.path).verify()
    found = {d.kind + ("~" if d.severity == "note" else "") for d in report.defects}
    name = case.path.stem
    if not fnmatch.fnmatch(name, FIXED):
        wanted = next((kinds for pattern, kinds in EXPECTED if fnmatch.fnmatch(name, pattern)), "")
        assert wanted != "", f"what was done to {name}? found: {sorted(found)}"
        assert wanted is None or found & set(wanted.split()), f"{sorted(found)}, expected {wanted}"
        if wanted is not None and all(not kind.endswith("~") for kind in wanted.split()):
            assert report.ok is False
    data = case.path.read_bytes()
    of_bytes = mb.verify(data)
    assert (of_bytes.batches, of_bytes.records) == (report.batches, report.records)
    for defect in report.defects:
        assert 0 <= defect.position <= len(data)
        assert defect.path == str(case.path)


def test_a_bomb_ends_at_the_limit() -> None:
    bombs = [case for case in DAMAGED if case.path.stem.startswith("bomb-")]
    for case in bombs:
        report = mb.verify(case.path.read_bytes(), limits=mb.Limits(decompressed=1 << 20))
        assert {d.kind for d in report.defects} == {"limit"}, case.name
        assert report.ok is False


def test_the_selection_that_ships_is_there() -> None:
    assert any(case.path.is_relative_to(DATA) for case in DAMAGED)
