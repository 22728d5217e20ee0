"""Every damaged file, in a process of its own: it ends, in bounded memory, and every record outside the damage comes out.

Which records those are is found without our reader: the files of a family (`v2-none-…`) were made from one sound file, so
an entry that stands byte for byte in a damaged file as it stands in others of its family, where Kafka reads it whole,
lies outside of the damage; and so does an entry that Kafka reads whole in the damaged file itself. The kind of defect
that `verify` names for each file is held in `test_verify.py`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

import magicbyte as mb

from golden import damage
from golden.corpus import Damaged, damaged

MEMORY = 256 << 20  # bytes, at the peak, for any file
SECONDS = 60  # for any file, on a busy machine: no hang; all of them together take two
CASES = damaged()
FAMILY = re.compile(r"(v[0-9]-[a-z0-9]+)-")

READ = """
import json, re, sys, time
import magicbyte as mb

for path in sys.stdin.read().splitlines():
    begun = time.monotonic()
    found = {}
    for record in mb.Log(path, mode="DROPMALFORMED").records(control=True):
        found[record.offset] = found.get(record.offset, 0) + 1
        del record
    rows = sum(1 for _ in mb.Log(path, mode="PERMISSIVE").reader().batches())
    report = mb.Log(path).verify()
    # A child's ru_maxrss begins with its parent's, so Linux is asked for the peak of this very program.
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
    print(json.dumps([path, list(found.items()), rows, report.ok, time.monotonic() - begun, peak]), flush=True)
"""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, list[Any]]:
    """What our reader makes of every file, in one other process: the peak of memory is that of the worst file so far."""
    paths = "\n".join(str(case.path) for case in CASES)
    done = subprocess.run([sys.executable, "-c", READ], input=paths, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return {line[0]: line[1:] for line in map(json.loads, done.stdout.splitlines())}


def entries(case: Damaged) -> list[tuple[bytes, list[int]]]:
    """The entries that Kafka reads whole: their bytes and the offsets of their records."""
    data = case.path.read_bytes()
    found = []
    for one in case.memory["batches"]:
        outcome = damage.batch_outcome(one)
        if outcome.error is None:
            first = one["baseOffset"]
            offsets = [first + at if record is None else record.offset for at, record in enumerate(outcome.records)]
            found.append((data[one["position"] : one["position"] + one["sizeInBytes"]], offsets))
    return found


def originals() -> dict[str, dict[bytes, list[int]]]:
    """By family, the entries of the sound file that it was made from: those that stand so in most of its files."""
    seen: dict[str, Counter[bytes]] = {}
    offsets: dict[bytes, list[int]] = {}
    for case in CASES:
        if family := FAMILY.match(case.path.stem):
            for data, of in entries(case):
                seen.setdefault(f"{case.name.split('/')[0]} {family[1]}", Counter())[data] += 1
                offsets[data] = of
    return {
        family: {data: offsets[data] for data, times in counts.items() if times > 2} for family, counts in seen.items()
    }


def outside(case: Damaged, made_from: dict[str, dict[bytes, list[int]]]) -> Counter[int]:
    """The offsets of the records that lie outside of the damage."""
    data = case.path.read_bytes()
    expected: dict[bytes, list[int]] = dict(entries(case))
    if family := FAMILY.match(case.path.stem):
        known = made_from.get(f"{case.name.split('/')[0]} {family[1]}", {})
        expected |= {entry: of for entry, of in known.items() if entry in data}
    return Counter(offset for of in expected.values() for offset in of)


def test_all_that_is_outside_the_damage_comes_out(
    outcomes: dict[str, list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    made_from = originals()
    missing, want, got, behind = [], 0, 0, 0
    for case in CASES:
        expected = outside(case, made_from)
        read = Counter(dict(map(tuple, outcomes[str(case.path)][0])))
        want += expected.total()
        got += (expected & read).total()
        behind += sum(expected.values()) - sum(len(of) for _, of in entries(case))
        if expected - read:
            missing.append((case.name, sorted((expected - read).elements())[:10]))
    assert not missing, missing
    with capsys.disabled():
        print(
            f"\ngolden/damaged: {len(CASES)} files, {want} records outside the damage, {got} read by DROPMALFORMED "
            f"({behind} of them behind damage that ends Kafka's own reading)"
        )
    assert got == want > 100


def test_no_file_takes_long_or_much(outcomes: dict[str, list[Any]]) -> None:
    assert len(outcomes) == len(CASES)
    for path, (_, _, _, seconds, peak) in outcomes.items():
        assert seconds < SECONDS, path
        assert peak < MEMORY, f"{path}: {peak >> 20} MB"


def test_three_ends_are_three_findings() -> None:
    """One log, three times: cut short, filled with zeros, and with bytes lost inside."""
    one, two = (mb.encode([mb.ProducerRecord("", b"value")] * 3, base_offset=base) for base in (0, 3))
    for data, expected in (
        ((one + two)[:-3], {("torn_tail", "note")}),
        (one + two + bytes(500), {("zero_tail", "note")}),
        (one + b"\xff" * 40 + two, {("hole", "error"), ("magic", "error")}),
    ):
        found = {(defect.kind, defect.severity) for defect in mb.verify(data).defects}
        assert found & expected, found
        assert {kind for kind, _ in found} & {"torn_tail", "zero_tail", "hole"} == {kind for kind, _ in expected} & {
            "torn_tail",
            "zero_tail",
            "hole",
        }
