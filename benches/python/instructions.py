"""Instructions a record of the decode loops, by callgrind, held against the committed figures: a guard without noise.

    python benches/python/instructions.py [--update]

Fails where a loop takes over 5 % more than ``benches/instructions.json`` says. Checksums are left out, whose instructions
depend on the processor. Another compiler makes other code: under another minor version of rustc than the figures were
taken with, and off x86-64 with AVX2, it only tells. ``--update`` writes new figures.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
FIGURES = REPO / "benches" / "instructions.json"
CASES = ("scan A", "scan H", "columns A", "columns H", "views A", "offset + timestamp A")
ALLOWED = 1.05


def build() -> Path:
    """The bench, in the profile that ships."""
    command = ["cargo", "bench", "-q", "-p", "magicbyte", "--features", "arrow", "--bench", "guard"]
    made = subprocess.run(
        [*command, "--no-run", "--message-format=json"], cwd=REPO, check=True, stdout=subprocess.PIPE, text=True
    )
    messages = [json.loads(line) for line in made.stdout.splitlines() if line.startswith("{")]
    found = [message["executable"] for message in messages if message.get("target", {}).get("name") == "guard"]
    return Path(found[-1])


def rustc() -> str:
    """Its version without the patch level."""
    text = subprocess.run(["rustc", "--version"], check=True, capture_output=True, text=True, cwd=REPO).stdout
    match = re.search(r"\d+\.\d+", text)
    return match.group() if match else text.strip()


def count(guard: Path, case: str) -> float:
    """Instructions a record."""
    environment = os.environ | {"MAGICBYTE_BENCH_MB": "1"}
    # The file is made by the first run, outside valgrind.
    plain = subprocess.run([guard, case], check=True, env=environment, capture_output=True, text=True, cwd=REPO)
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "out"
        callgrind = [
            "valgrind",
            "--tool=callgrind",
            "--toggle-collect=magicbyte_counted",
            f"--callgrind-out-file={out}",
        ]
        subprocess.run([*callgrind, guard, case], check=True, env=environment, capture_output=True, cwd=REPO)
        total = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
    if total is None:
        raise SystemExit("callgrind counted nothing")
    return int(total.group(1)) / int(plain.stdout)


def comparable(figures: dict[str, object], compiler: str) -> str | None:
    """Why this machine's counts say nothing about the figures; None where they do."""
    if platform.machine() != "x86_64" or "avx2" not in Path("/proc/cpuinfo").read_text():
        return "the figures are of x86-64 with AVX2"
    if figures.get("rustc") != compiler:
        return f"the figures are of rustc {figures.get('rustc')}, this is {compiler}"
    return None


def main() -> None:
    """Counts, compares, or writes."""
    if shutil.which("valgrind") is None:
        print("instructions: skipped, valgrind is not installed")
        return
    guard, compiler = build(), rustc()
    counts = {case: round(count(guard, case), 1) for case in CASES}
    if "--update" in sys.argv[1:]:
        FIGURES.write_text(json.dumps({"rustc": compiler, "instructions a record": counts}, indent=2) + "\n")
        return
    figures = json.loads(FIGURES.read_text())
    known, reason = figures["instructions a record"], comparable(figures, compiler)
    grown = []
    for case, now in counts.items():
        before = known[case]
        print(f"instructions: {case:22} {now:7.1f} a record, committed {before:7.1f} ({now / before - 1:+.1%})")
        if now > before * ALLOWED:
            grown.append(case)
    if reason:
        print(f"instructions: not compared, {reason}")
    elif grown:
        raise SystemExit(f"instructions: over 5 % more in {', '.join(grown)}; find out why, or --update with a reason")


if __name__ == "__main__":
    main()
