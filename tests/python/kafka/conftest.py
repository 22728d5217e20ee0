"""Fixtures of the tests that need a real Kafka broker (one a session) and Kafka's own Java consumer.

This directory must never become a package: a package `kafka` on the path would hide kafka-python's.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

# The helpers beside the tests are imported by their bare names, whichever import mode pytest runs in.
sys.path.insert(0, str(Path(__file__).parent))

from broker import Broker, Unavailable
from cases import CASES
from oracle import JavaConsumer, Row


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running broker. A test that stops it starts it again.

    Where Java, mvn or Maven Central is missing the test is skipped with a word; with MAGICBYTE_REQUIRE_BROKER=1 it fails.
    """
    node = Broker(tmp_path_factory.mktemp("broker"))
    try:
        node.start()
    except Unavailable as why:
        if os.environ.get("MAGICBYTE_REQUIRE_BROKER") == "1":
            raise
        pytest.skip(f"no real broker here: {why}")
    yield node
    node.stop()


@pytest.fixture(scope="session")
def java_consumer(broker: Broker) -> Iterator[JavaConsumer]:
    """Kafka's Java consumer at `broker`, in one process for the whole session."""
    with JavaConsumer(broker.bootstrap) as consumer:
        yield consumer


Written = Callable[[str], list[list[Row]]]
"""A topic of `cases.CASES` by name → what the Java consumer receives of it, a list a partition."""


@pytest.fixture(scope="session")
def written(broker: Broker, java_consumer: JavaConsumer) -> Written:
    """Writes a topic when it is first asked for (the broker must be running then); nothing is added to it later."""

    @functools.cache
    def rows(name: str) -> list[list[Row]]:
        case = CASES[name]
        case.write(broker, name)
        return [java_consumer.rows(name, partition) for partition in range(case.partitions)]

    return rows
