"""Writes python/magicbyte/topics/messages.json from the message definitions in a broker's jars.

    python tests/kafka/messages.py DIRECTORY_OF_JARS [FILE]

Apache Kafka describes the records of its own topics in JSON files, which its jars carry. What a reader needs of them
(names, types, versions, tags, defaults) is kept here in a compact form; a new Kafka is one run of this script.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "python" / "magicbyte" / "topics" / "messages.json"
# Who describes what: the jar, the folder in it, the name of the group here.
ROOMS = (
    ("kafka-group-coordinator", "common/message/", "offsets"),
    ("kafka-transaction-coordinator", "common/message/", "transactions"),
    ("kafka-share-coordinator", "common/message/", "shares"),
    ("kafka-metadata", "common/metadata/", "metadata"),
    ("kafka-storage", "message/Remote", "remote"),
    ("kafka-clients", "common/message/", "embedded"),
    ("kafka-storage", "message/ProducerSnapshot", "embedded"),
)
EMBEDDED = {
    "ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "LeaderChangeMessage", "SnapshotHeaderRecord",
    "SnapshotFooterRecord", "KRaftVersionRecord", "VotersRecord", "ProducerSnapshot",
}  # fmt: skip


def definition(text: str) -> dict[str, Any]:
    """A definition without its comments."""
    found: dict[str, Any] = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE))
    return found


def field(given: dict[str, Any], structs: dict[str, Any]) -> list[Any]:
    """``[name, type, versions, more]``; more has what is not said by default."""
    name = given["name"][0].lower() + given["name"][1:]
    more: dict[str, Any] = {}
    for key, short in (("nullableVersions", "null"), ("tag", "tag"), ("taggedVersions", "tagged"),
                       ("flexibleVersions", "flexible")):  # fmt: skip
        if key in given:
            more[short] = given[key]
    if "default" in given:
        default = given["default"]
        is_json = isinstance(default, str) and re.fullmatch(r"-?\d+|true|false|null", default)
        more["default"] = json.loads(default) if is_json else default
    inner = given.get("fields") or structs.get(given["type"].removeprefix("[]"))
    if inner:
        more["fields"] = [field(one, structs) for one in inner]
    return [name, given["type"], given.get("versions", given.get("taggedVersions")), *([more] if more else [])]


def main(jars: Path, target: Path = TARGET) -> None:
    groups: dict[str, dict[str, Any]] = {}
    for jar, folder, group in ROOMS:
        [path] = jars.glob(f"{jar}-[0-9]*.jar")
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if not name.startswith(folder) or not name.endswith(".json"):
                    continue
                said = definition(archive.read(name).decode())
                if group == "embedded" and said["name"] not in EMBEDDED:
                    continue
                structs = {one["name"]: one["fields"] for one in said.get("commonStructs", [])}
                role = said["type"].rpartition("-")[2] if said["type"].startswith("coordinator-") else "value"
                key = said["name"] if group == "embedded" else str(said["apiKey"])
                groups.setdefault(group, {}).setdefault(role, {})[key] = {
                    "name": said["name"], "versions": said["validVersions"], "flexible": said["flexibleVersions"],
                    "fields": [field(one, structs) for one in said["fields"]],
                }  # fmt: skip
    lines = []
    for group, roles in groups.items():
        parts = []
        for role, found in roles.items():
            rows = ",\n".join(f'   "{key}": {json.dumps(found[key])}' for key in sorted(found, key=_order))
            parts.append(f'  "{role}": {{\n{rows}\n  }}')
        lines.append(f' "{group}": {{\n' + ",\n".join(parts) + "\n }")
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _order(key: str) -> tuple[int, str]:
    return (int(key), "") if key.isdigit() else (0, key)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
