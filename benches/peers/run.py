"""Builds the peers and runs them side by side: ``run.py [FILES [encode | goals]]``, files being letters of A to H.

``encode`` runs the encoders alone, ``goals`` what `make bench` compares itself with: krabka's scan and the Rust encoders.
What is missing on a machine (Java's jars, Go, a Python client) is left out with a word. Pinned to one core.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target"))


def command(words: list[str | Path]) -> str:
    """Words as the Rust side takes them."""
    return "\n".join(map(str, words))


def java() -> str | None:
    """The command of Kafka's own code, compiled; None where there is no JDK or no jar."""
    sys.path.insert(0, str(REPO / "tests" / "python" / "kafka"))
    jars = importlib.import_module("jars")
    try:
        lib = jars.lib()
        runtime = jars.java()
    except jars.Unavailable as reason:
        print(f"left out: kafka-clients ({reason})", file=sys.stderr)
        return None
    classes = TARGET / "peers-java"
    path = f"{classes}{os.pathsep}{lib}{os.sep}*"
    compiler = Path(runtime).with_name("javac")
    subprocess.run([compiler, "-cp", path, "-d", classes, *(HERE / "java").glob("*.java")], check=True)
    return command([runtime, "-Xms1g", "-cp", path, "PeerBench"])


def python(peer: str, module: str) -> str | None:
    """The command of a Python client's code; None where it is not installed."""
    if importlib.util.find_spec(module) is None:
        print(f"left out: {peer} (pip install {peer})", file=sys.stderr)
        return None
    return command([sys.executable, HERE / "python" / "peer_bench.py", peer])


def go() -> str | None:
    """The command of franz-go's code, compiled; None where there is no Go, or its modules cannot be had."""
    if shutil.which("go") is None:
        print("left out: franz-go (Go is not installed)", file=sys.stderr)
        return None
    program = TARGET / "peers-go"
    built = subprocess.run(["go", "build", "-o", program, "."], cwd=HERE / "go", check=False)
    if built.returncode:
        print("left out: franz-go (it did not build)", file=sys.stderr)
        return None
    return command([program])


def main() -> None:
    """Builds, then runs."""
    brief = sys.argv[2:] == ["goals"]
    # krabka-protocol declares a newer Rust than it needs.
    build: list[str | Path] = [
        "cargo",
        "build",
        "--release",
        "--ignore-rust-version",
        "--manifest-path",
        HERE / "Cargo.toml",
    ]
    subprocess.run(build, env={**os.environ, "CARGO_TARGET_DIR": str(TARGET / "peers")}, check=True)
    children: dict[str, str | None] = {}
    if not brief:
        children = {
            "JAVA": java(),
            "GO": go(),
            "AIOKAFKA": python("aiokafka", "aiokafka"),
            "KAFKA_PYTHON": python("kafka-python", "kafka"),
        }
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    environment |= {f"MAGICBYTE_PEER_{name}": line for name, line in children.items() if line is not None}
    last_core = str((os.cpu_count() or 1) - 1)
    pin = ["taskset", "-c", last_core] if shutil.which("taskset") else []
    run: list[str | Path] = [*pin, TARGET / "peers" / "release" / "magicbyte-peers", *sys.argv[1:]]
    code = subprocess.run(run, env=environment, check=False).returncode
    if code or len(sys.argv) > 1:
        raise SystemExit(code)
    # The ways through Python and Spark, which need both cores; then the goals.
    for script in ("python/arrow.py", "python/spark.py"):
        subprocess.run([sys.executable, REPO / "benches" / script], env=environment, check=False)
    subprocess.run([sys.executable, REPO / "benches" / "goals.py", "bench-peers"], env=environment, check=True)


if __name__ == "__main__":
    main()
