"""The rooms of the project, and who may call whom: an arrow may only point left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
CORE = REPO / "rust" / "core" / "src"
PACKAGE = REPO / "python" / "magicbyte"

# Each room of the core may use those before it, and the tables that hang under all: no room later than itself.
ORDER = [
    ["error", "prefetch"],
    ["bytes", "limits", "checksum"],
    ["varint", "fill", "format", "codec"],
    ["head", "header"],
    ["record", "encode_error", "new_record"],
    ["message_set", "batch"],
    ["entry", "encode"],
    ["frame", "select"],
    ["log", "places"],
    ["source"],
    ["segment", "convert", "clean", "arrow", "detect", "request", "transactions", "verify", "digest", "recover"],
]
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}


def room_of(path: Path) -> str:
    return path.relative_to(CORE).parts[0].removesuffix(".rs")


def sources() -> list[Path]:
    return [path for path in sorted(CORE.rglob("*.rs")) if room_of(path) not in ("lib",)]


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(CORE)))
def test_rooms_of_the_core_only_look_left(path: Path) -> None:
    room = room_of(path)
    assert room in LEVEL, f"{path}: which room is this? name it in ORDER, or find its place"
    text = path.read_text().split("#[cfg(test)]")[0]
    for used in set(re.findall(r"\bcrate::([a-z_0-9]+)", text)):
        if used in LEVEL and used != room:
            assert LEVEL[used] <= LEVEL[room], f"{path.name}: {room} must not look right, at {used}"


def test_the_core_knows_no_python_and_does_no_io() -> None:
    for path in sources():
        text = path.read_text().split("#[cfg(test)]")[0]
        assert "pyo3" not in text, path
        assert not re.search(r"std::(fs|net|process|thread)\b", text), path


def test_spark_stays_in_its_room() -> None:
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] != "spark":
            assert not re.search(r"^\s*(from|import) pyspark", path.read_text(), re.MULTILINE), path


def test_files_stay_of_a_size_that_can_be_read() -> None:
    for path in [*sources(), *(REPO / "rust" / "python" / "src").rglob("*.rs"), *PACKAGE.rglob("*.py")]:
        code = path.read_text().split("#[cfg(test)]")[0]
        lines = [line for line in code.splitlines() if line.strip() and not line.strip().startswith(("//", "#"))]
        assert len(lines) <= 420, f"{path}: {len(lines)} lines of code; divide it"


UNSAFE = {
    "rust/core/src/prefetch.rs",
    "rust/core/src/arrow/direct.rs",
    "rust/core/src/arrow/direct/run.rs",
    "rust/core/src/arrow/proven.rs",
    "rust/python/src/block.rs",
    "rust/python/src/held.rs",
    "rust/python/src/quick.rs",
}


def test_unsafe_code_is_where_the_design_says() -> None:
    """One file more needs a measured reason, a proof at its head, and a line in DESIGN.md."""
    files = [*sources(), *(REPO / "rust" / "python" / "src").rglob("*.rs")]
    unsafe = re.compile(r"^(?!\s*//).*\bunsafe (fn|impl|extern|trait|\{)", re.MULTILINE)
    assert {str(path.relative_to(REPO)) for path in files if unsafe.search(path.read_text())} == UNSAFE
    said = (REPO / "DESIGN.md").read_text().split("**Where `unsafe` is.**")[1].split("\n\n")[0]
    for path in UNSAFE:
        assert re.search(rf"`(\w+/)*{Path(path).name}`", said), f"{path} is not named"
