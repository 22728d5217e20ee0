"""Counts the golden files compared, by the way that they were read, and prints the counts at the end."""

from __future__ import annotations

from collections import defaultdict

import pytest

from places import shared_directory

WAYS = {"records": "records()", "arrow": "Arrow", "spark": "Spark"}
compared: dict[str, set[str]] = defaultdict(set)


@pytest.fixture
def count() -> object:
    """`count(way, name)`: that file was compared, and was as it should be."""

    def note(way: str, name: str) -> None:
        compared[WAYS[way]].add(name)

    return note


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Three counts: how many files of the whole corpus, and of the selection that ships, came out as Kafka reads them."""
    if not compared:
        return
    terminalreporter.section("golden files compared", "-")
    if shared_directory() is None:
        terminalreporter.write_line("golden: the corpus is not here (MAGICBYTE_SHARED); only tests/data was compared")
    for way in WAYS.values():
        names = compared.get(way, set())
        corpus = sum(name.startswith("golden/") for name in names)
        terminalreporter.write_line(
            f"golden: {way:<10} {corpus:>5} of the corpus, {len(names) - corpus:>4} of tests/data"
        )
