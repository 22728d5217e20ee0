"""Writes THIRD-PARTY.md: what is linked into the extension module, and under which licences.

    python scripts/licences.py            write it
    python scripts/licences.py --check    fail if it is not what would be written

By `cargo metadata`, so the sources must have been fetched. Libraries in C that a crate brings along count as part of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[1]
TARGET = REPOSITORY / "THIRD-PARTY.md"
ROOT = "magicbyte-python"
NAMES = ("LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT", "UNLICENSE")
# Parts of an archive that are not linked.
SKIPPED = {"tests", "test", "examples", "benches", "programs", "contrib", "scripts", "fuzz"}


def metadata() -> dict[str, Any]:
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", "rust/python/Cargo.toml"]
    said = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(said)
    return found


def linked(said: dict[str, Any]) -> list[dict[str, Any]]:
    """The packages that end up in the module: normal dependencies, of ours and of theirs, that are no macros."""
    packages = {package["id"]: package for package in said["packages"]}
    nodes = {node["id"]: node for node in said["resolve"]["nodes"]}
    [root] = [package["id"] for package in said["packages"] if package["name"] == ROOT]
    seen = {root}
    left = [root]
    while left:
        for edge in nodes[left.pop()]["deps"]:
            normal = any(kind["kind"] is None for kind in edge["dep_kinds"])
            macro = any("proc-macro" in target["kind"] for target in packages[edge["pkg"]]["targets"])
            if normal and not macro and edge["pkg"] not in seen:
                seen.add(edge["pkg"])
                left.append(edge["pkg"])
    found = [packages[one] for one in seen if packages[one]["source"] is not None]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, Any]) -> list[tuple[str, str]]:
    """The licence files of a package, by their place in it."""
    directory = Path(package["manifest_path"]).parent
    found = []
    for path in sorted(directory.rglob("*")):
        place = path.relative_to(directory)
        wanted = path.name.upper().startswith(NAMES) and path.suffix.lower() in ("", ".txt", ".md", ".apache", ".mit")
        if path.is_file() and wanted and len(place.parts) <= 4 and not SKIPPED & set(place.parts[:-1]):
            found.append((str(place), path.read_text(encoding="utf-8", errors="replace").strip()))
    return found


def page() -> str:
    packages = linked(metadata())
    lines = [
        "# What is linked into magicbyte",
        "",
        "The extension module contains these libraries, statically linked, each under the licence that stands beside it. Their texts",
        "follow. Made by `scripts/licences.py`.",
        "",
        "| crate | version | licence |",
        "|---|---|---|",
        *(f"| {p['name']} | {p['version']} | {p['license'] or 'see its text'} |" for p in packages),
    ]
    by_text: dict[str, tuple[str, list[str]]] = {}
    for package in packages:
        for place, text in texts(package):
            # One text, however it is laid out.
            _, owners = by_text.setdefault(" ".join(text.split()), (text, []))
            owners.append(f"{package['name']} {package['version']} ({place})")
    for text, owners in by_text.values():
        lines += ["", f"## {', '.join(owners)}", "", "```text", text.replace("```", "'''"), "```"]
    return "\n".join(lines) + "\n"


def main() -> int:
    written = page()
    if "--check" in sys.argv:
        same = TARGET.read_text(encoding="utf-8") == written
        print("THIRD-PARTY.md is as it should be" if same else "THIRD-PARTY.md is old: python scripts/licences.py")
        return 0 if same else 1
    TARGET.write_text(written, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
