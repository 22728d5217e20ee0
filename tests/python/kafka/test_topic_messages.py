"""The table of Kafka's own messages, and the vectors for it, are what a broker's jars say."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import jars
import pytest

from places import DATA, REPOSITORY

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def lib() -> Path:
    try:
        jars.java()
        return jars.lib()
    except jars.Unavailable as error:
        pytest.skip(str(error))


def test_the_table_is_what_the_jars_describe(lib: Path, tmp_path: Path) -> None:
    made = tmp_path / "messages.json"
    script = REPOSITORY / "tests" / "kafka" / "messages.py"
    subprocess.run([sys.executable, str(script), str(lib), str(made)], check=True)
    assert made.read_text() == (REPOSITORY / "python" / "magicbyte" / "topics" / "messages.json").read_text()


def test_the_vectors_are_what_the_jars_write(lib: Path) -> None:
    source = REPOSITORY / "tests" / "kafka" / "java" / "TopicMessages.java"
    ran = subprocess.run([jars.java(), "-cp", f"{lib}/*", str(source)], check=True, capture_output=True, text=True)
    assert ran.stdout == gzip.decompress((DATA / "topics" / "messages.jsonl.gz").read_bytes()).decode()
