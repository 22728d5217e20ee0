"""The table of faults names tests that are there."""

from __future__ import annotations

import ast
import re

from places import REPOSITORY

PAGE = REPOSITORY / "docs" / "faults.md"
TESTS = REPOSITORY / "tests" / "python"
NAMED = re.compile(r"`([\w/]+\.py)((?:::\w+)+)`")
#: Further tests of the same file, of which only the end is said.
ENDS = re.compile(r"`…(\w+)`")


def defined(path: str) -> set[str]:
    tree = ast.parse((TESTS / path).read_text())
    found = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def test_every_test_in_the_table_exists() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| fault")]
    assert len(rows) > 40
    for row in rows:
        named = NAMED.findall(row)
        assert named, f"no test: {row}"
        for path, names in named:
            assert (TESTS / path).is_file(), row
            assert names.removeprefix("::") in defined(path), row
        last = defined(named[-1][0])
        for end in ENDS.findall(row):
            assert any(name.endswith(end) for name in last), f"{end}: {row}"
        # Nothing else in a row looks like a test and is not looked for.
        assert len(named) + len(ENDS.findall(row)) == len(re.findall(r"`[^`]*(?:::|…)[^`]*`", row.split("|")[-2])), row
