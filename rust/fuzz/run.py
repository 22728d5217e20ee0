"""Builds the fuzz targets and runs them one after the other. What they used and found is added to a ledger.

    python run.py                          each target for 60 s
    python run.py --seconds 300 log        one target
    python run.py --until 16:35            around and around till then
    python run.py --pack                   minimises the grown corpus and packs it into seeds/

The corpus grows in corpus/, which git does not see. seeds/ has its core, one file a target, which is unpacked before a
run, and which the core's tests run over on stable Rust: gzip over inputs, each behind its length in two bytes.

The ledger (ledger.json) holds, for each target, CPU time (user time of the process), executions and findings, added up
over all runs; `--report` writes it as the table of docs/fuzzing.md. A finding does not end the round: its input stays in
artifacts/<target>, and the exit status is 1.

Needs cargo-fuzz, and a nightly toolchain or a stable one that RUSTC_BOOTSTRAP makes take nightly's flags.
"""

import argparse
import contextlib
import datetime
import gzip
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
LEDGER = HERE / "ledger.json"
DOCUMENT = HERE.parent.parent / "docs/fuzzing.md"
TARGETS = ["log", "formats", "decompress", "beside", "roundtrip"]
FLAGS = ["-max_len=4096", "-rss_limit_mb=2048", "-print_final_stats=1", "-use_value_profile=1"]
#: Seconds of the clock, so a machine that stops this process for a while needs more.
TIMEOUT = int(os.environ.get("FUZZ_TIMEOUT", "20"))
PACKED = 400_000  # bytes of a target's inputs that are kept in git
#: libdeflate includes its decompressor twice, each with tables of its own: no violation that matters.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_odr_violation=0"}
BEGIN, END = "<!-- ledger: written by rust/fuzz/run.py --report -->", "<!-- end of the ledger -->"


def unpack(target: str) -> None:
    corpus, packed = HERE / "corpus" / target, HERE / "seeds" / f"{target}.gz"
    corpus.mkdir(parents=True, exist_ok=True)
    data = gzip.decompress(packed.read_bytes()) if packed.is_file() else b""
    while data:
        length = int.from_bytes(data[:2], "big")
        write(corpus, data[2 : 2 + length])
        data = data[2 + length :]
    for path in (HERE / "findings" / target).glob("*"):
        write(corpus, path.read_bytes())


def write(folder: Path, data: bytes) -> None:
    (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def pack(target: str) -> None:
    """The fewest inputs that reach what the corpus reaches, small ones first, up to PACKED bytes."""
    with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as taken:
        # A copy, for a run that is going on replaces files.
        for path in (HERE / "corpus" / target).iterdir():
            with contextlib.suppress(FileNotFoundError):
                shutil.copy(path, taken)
        command = [str(binary(target)), "-merge=1", "-max_len=4096", kept, taken]
        subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True)
        inputs = sorted((path.read_bytes() for path in Path(kept).iterdir()), key=lambda data: (len(data), data))
    out, count = bytearray(), 0
    for data in inputs:
        if len(out) + len(data) > PACKED:
            break
        out += len(data).to_bytes(2, "big") + data
        count += 1
    (HERE / "seeds").mkdir(exist_ok=True)
    packed = gzip.compress(bytes(out), 9, mtime=0)
    (HERE / "seeds" / f"{target}.gz").write_bytes(packed)
    print(f"{target}: {count} of {len(inputs)} inputs, {len(out)} bytes, packed {len(packed)}", flush=True)


def build() -> None:
    cargo = ["cargo"]
    environment = dict(os.environ)
    if subprocess.run(["cargo", "+nightly", "--version"], capture_output=True).returncode == 0:
        cargo.append("+nightly")
    else:
        environment["RUSTC_BOOTSTRAP"] = "1"
    subprocess.run([*cargo, "fuzz", "build", "--fuzz-dir", "."], cwd=HERE, env=environment, check=True)


def binary(target: str) -> Path:
    root = Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target"))
    about = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = re.search(r"^host: (.*)$", about, re.MULTILINE)
    return root / (host[1] if host else "") / "release" / target


def fuzz(target: str, seconds: int) -> bool:
    """One run of one target; whether it ended without a finding."""
    corpus, artifacts = HERE / "corpus" / target, HERE / "artifacts" / target
    unpack(target)
    artifacts.mkdir(parents=True, exist_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    dictionary = HERE / "dictionary"
    command = [str(binary(target)), *FLAGS, f"-max_total_time={seconds}", f"-artifact_prefix={artifacts}/"]
    command += [f"-timeout={TIMEOUT}", f"-dict={dictionary}", str(corpus)]
    done = subprocess.run(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    user = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", done.stdout)
    coverage = re.findall(r"cov: (\d+)", done.stdout)
    count = int(executions[1]) if executions else 0
    if done.returncode != 0:
        (artifacts / f"{time.strftime('%H%M%S')}.txt").write_text(done.stdout[-20_000:])
    record(target, user, count, int(coverage[-1]) if coverage else 0, found=done.returncode != 0)
    word = "ok" if done.returncode == 0 else f"FOUND SOMETHING (see {artifacts})"
    print(
        f"{target}: {user:.0f} s CPU, {count} executions, {coverage[-1] if coverage else 0} edges: {word}", flush=True
    )
    return done.returncode == 0


def record(target: str, user: float, executions: int, edges: int, *, found: bool) -> None:
    ledger = json.loads(LEDGER.read_text()) if LEDGER.is_file() else {}
    row = ledger.setdefault(target, {"cpu_seconds": 0.0, "executions": 0, "edges": 0, "stops": 0})
    row["cpu_seconds"] = round(row["cpu_seconds"] + user, 1)
    row["executions"] += executions
    row["edges"] = max(row["edges"], edges)
    row["stops"] += found
    LEDGER.write_text(json.dumps(ledger, indent=2) + "\n")


def report() -> None:
    ledger = json.loads(LEDGER.read_text())
    lines = [
        "| target | CPU minutes | executions | edges covered | runs that stopped at a finding |",
        "|---|--:|--:|--:|--:|",
    ]
    for target in TARGETS:
        row = ledger.get(target)
        if row:
            minutes = row["cpu_seconds"] / 60
            lines.append(f"| `{target}` | {minutes:.1f} | {row['executions']:,} | {row['edges']:,} | {row['stops']} |")
    text = DOCUMENT.read_text()
    head, tail = text.split(BEGIN)[0], text.split(END)[1]
    DOCUMENT.write_text(f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{tail}")


def main() -> int:
    parser = argparse.ArgumentParser(description="runs the fuzz targets")
    parser.add_argument("targets", nargs="*", help="default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target and round")
    parser.add_argument("--until", type=datetime.time.fromisoformat, help="go around until this time of day (UTC)")
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--report", action="store_true", help="only write the ledger into docs/fuzzing.md")
    parser.add_argument("--pack", action="store_true", help="only minimise the corpus and pack it")
    arguments = parser.parse_args()
    if arguments.report:
        report()
        return 0
    if arguments.pack:
        for target in arguments.targets or TARGETS:
            pack(target)
        return 0
    if not arguments.no_build:
        if shutil.which("cargo-fuzz") is None:
            print("cargo-fuzz is missing: cargo install cargo-fuzz", file=sys.stderr)
            return 2
        build()
    sound = True
    while True:
        for target in arguments.targets or TARGETS:
            now = datetime.datetime.now(datetime.UTC)
            seconds = arguments.seconds
            if arguments.until:
                end = now.replace(hour=arguments.until.hour, minute=arguments.until.minute, second=0)
                seconds = min(seconds, int((end - now).total_seconds()))
            if seconds <= 0:
                return 0 if sound else 1
            sound &= fuzz(target, seconds)
        if not arguments.until:
            return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
