"""The goals for speed with the figure beside each, from what the benches wrote: ``goals.py bench | bench-peers | readme``.

``bench`` takes ``bench.json``, ``bench-against.json`` (magicbyte and its fastest peer in one run), ``bench-python.json`` and
``bench-spark.json`` of the target directory. ``bench-peers`` takes ``bench-peers.json`` in place of the first two, puts the others'
figures into it, and the table of goals into ``bench-peers.md``. ``readme`` puts the readers' best figures from there into the README.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parents[1] / "target"))
Figures = dict[str, dict[str, dict[str, Any]]]

COLUMNS = "columns, 1/2 MiB"
SPARK_EMPTY = "{}, empty pipe"


class Missing(Exception):
    """A figure that no bench has brought: its name."""


class Board:
    """The figures of all benches, and the goals against them."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures

    def best(self, file: str, name: str) -> float:
        """The best of magicbyte's or a peer's passes."""
        for known in (f"magicbyte {name}", name):
            figure = self.figures.get(file, {}).get(known)
            if figure is not None:
                return float(figure["best"])
        raise Missing(f"{name}, {file}")

    def ratio(self, file: str, name: str, other: str, other_file: str | None = None) -> float:
        """One figure in terms of another."""
        return self.best(file, name) / self.best(other_file or file, other)

    def possible(self, file: str) -> float:
        """What decompression with its checksum and a scan of what came out add up to."""
        return 1 / (1 / self.best(file, "CRC + decompress") + 1 / self.best("A", "scan, no CRC"))

    def encoders(self) -> float:
        """The fastest peer's encoder on A."""
        peers = [
            float(figure["best"])
            for name, figure in self.figures.get("A", {}).items()
            if "encode" in name and not name.startswith(("magicbyte", "encode"))
        ]
        if not peers:
            raise Missing("encoders of peers")
        return max(peers)

    def goals(self) -> Iterator[tuple[str, str, float, Callable[[], float], str]]:
        """Work, on what, the goal, the figure, and how it is shown: as a factor, a share, or MB."""
        krabka = "krabka, borrowed"
        for file, goal in {"A": 1.8, "B": 1.8, "H": 1.8, "C": 1.3}.items():
            yield "scan, against krabka borrowed", file, goal, lambda f=file: self.ratio(f, "scan", krabka), "x"
        for file in "DEFG":
            share = lambda f=file: self.best(f, "scan") / self.possible(f)  # noqa: E731
            yield "scan, against CRC + decompression + scan", file, 0.9, share, "%"
        for file, goal in {"D": 1.5, "F": 1.5, "E": 1.2, "G": 1.1}.items():
            yield "scan, against krabka borrowed", file, goal, lambda f=file: self.ratio(f, "scan", krabka), "x"
        for file, goal in {"A": 0.75, "B": 0.75, "C": 0.7, "H": 0.6}.items():
            yield "Arrow columns, against the scan", file, goal, lambda f=file: self.ratio(f, COLUMNS, "scan"), "%"
        for file in "AB":
            yield "Arrow columns, against krabka's scan", file, 1.4, lambda f=file: self.ratio(f, COLUMNS, krabka), "x"
        yield "Arrow views, against the scan", "C", 0.9, lambda: self.ratio("C", "views", "scan"), "%"
        yield "offset + timestamp, against all", "A", 1.5, lambda: self.ratio("A", "offset + timestamp", COLUMNS), "x"
        yield "1 % of the offsets, against all", "A", 30, lambda: self.ratio("A", "1 % of offsets", COLUMNS), "x"
        arrow = "decode_arrow, pyarrow batches"
        yield "Python to pyarrow, against Rust's columns", "A", 0.6, lambda: self.ratio("A", arrow, COLUMNS), "%"
        aiokafka = "aiokafka iterating"
        yield "Python to pyarrow, against aiokafka", "A", 12, lambda: self.ratio("A", arrow, aiokafka), "x"
        yield "two threads, two logs", "A", 1.8, lambda: self.best("A", "two threads against one"), "x"
        for way in ("data source", "mapInArrow"):
            share = lambda w=way: self.ratio("A", w, SPARK_EMPTY.format(w))  # noqa: E731
            yield f"Spark {way}, against an empty pipe", "A", 0.85, share, "%"
        yield (
            "Spark data source, against its Kafka source",
            "A",
            3.5,
            lambda: self.ratio("A", "data source", "Spark's Kafka source"),
            "x",
        )
        yield "encode, against the fastest peer", "A", 1.5, lambda: self.best("A", "encode") / self.encoders(), "x"
        yield "memory of a count of 1 GB", "A", 64, lambda: self.best("A", "memory of a count of 1 GB"), "MB"

    def markdown(self) -> str:
        """The table."""
        rows = ["| work | file | goal | figure | |", "|---|---|---:|---:|---|"]
        shown: dict[str, Callable[[float], str]] = {
            "x": lambda value: f"{value:.2f} ×",
            "%": lambda value: f"{100 * value:.0f} %",
            "MB": lambda value: f"{value:.0f} MB",
        }
        for work, file, goal, figure, unit in self.goals():
            show = shown[unit]
            sign = "<" if unit == "MB" else "≥"
            try:
                value = figure()
            except Missing as name:
                rows.append(f"| {work} | {file} | {sign} {show(goal)} | – | not measured: {name} |")
                continue
            met = value < goal if unit == "MB" else value >= goal
            rows.append(f"| {work} | {file} | {sign} {show(goal)} | {show(value)} | {'met' if met else 'not met'} |")
        shared = self.figures.get("A", {}).get("two processes that share nothing")
        if shared is not None:
            rows += [
                "",
                f"Two processes that share nothing and stay in their caches reach {shared['best']:.2f} × one here.",
            ]
        return "\n".join(rows) + "\n"


def read(name: str) -> Figures:
    """What a bench wrote; nothing if it did not run."""
    path = TARGET / name
    found: Figures = json.loads(path.read_text()) if path.exists() else {}
    return found


README = Path(__file__).resolve().parents[1] / "README.md"
MARKS = ("<!-- from bench-peers.json, by benches/goals.py readme -->\n", "<!-- to here -->\n")
READERS = {
    "magicbyte scan": "**magicbyte**, every record borrowed",
    f"magicbyte {COLUMNS}": "**magicbyte**, Arrow columns",
    "krabka, borrowed": "krabka-protocol, borrowed (Rust)",
    "kafka-clients (Java)": "Apache Kafka's clients (Java)",
    "franz-go (Go)": "franz-go (Go)",
    "kafka-protocol": "kafka-protocol (Rust)",
    "tansu-sans-io": "tansu-sans-io (Rust)",
    "rskafka": "rskafka (Rust)",
    "aiokafka": "aiokafka (Cython)",
    "kafka-python": "kafka-python",
}


def readers(figures: Figures) -> str:
    """A table of MB/s: readers down, files across."""
    rows = [f"| MB/s | {' | '.join(figures)} |", "|---|" + "---:|" * len(figures)]
    for name, title in READERS.items():
        if any(name in cases for cases in figures.values()):
            best = [f"{cases[name]['best']:.0f}" if name in cases else "" for cases in figures.values()]
            rows.append(f"| {title} | {' | '.join(best)} |")
    return "\n".join(rows) + "\n"


def to_readme() -> None:
    """Puts the table of speeds into the README, between its marks."""
    before, first, rest = README.read_text().partition(MARKS[0])
    _, last, after = rest.partition(MARKS[1])
    if not first or not last:
        raise SystemExit("README.md has no marks for the table")
    README.write_text(before + first + readers(read("bench-peers.json")) + last + after)


def main() -> None:
    """Merges, prints, writes."""
    if sys.argv[1:] == ["readme"]:
        to_readme()
        return
    peers = sys.argv[1:] == ["bench-peers"]
    figures: Figures = {}
    # What comes later stands.
    own = ("bench-peers.json",) if peers else ("bench.json", "bench-against.json")
    for name in (*own, "bench-python.json", "bench-spark.json"):
        for file, cases in read(name).items():
            figures.setdefault(file, {}).update(cases)
    table = Board(figures).markdown()
    print(table)
    if peers:
        (TARGET / "bench-peers.json").write_text(json.dumps(figures, indent=2) + "\n")
        with (TARGET / "bench-peers.md").open("a") as out:
            out.write(f"\n{table}")
    else:
        (TARGET / "bench-goals.md").write_text(table)


if __name__ == "__main__":
    main()
