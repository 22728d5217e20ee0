"""Fills corpus/ from the test data: every file that is small enough, with the control bytes that a target expects.

    python seed.py [DIRECTORY]      default: tests/data, and golden/ and vectors/ of $MAGICBYTE_SHARED where that is there

Seeds are named after their content, so nothing is written twice; `run.py --pack` throws away what brings nothing.
"""

import base64
import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
#: Longer inputs make a run slow; the front of a file is as good a seed as the whole.
MOST = 4096
#: In the order of `targets::DIALECTS` and of `Format::ALL`.
DIALECTS = ["kafka", "kip87", "kip82a", "kip82b", "v0", "v1", "v2", "v3"]
FORMATS = ["v0", "v1", "v2", "v3", "kip87", "kip82a", "kip82b"]
MAGIC = {0: "v0", 1: "v1", 2: "v2", 3: "v3"}
BESIDE = {".index": 0, ".timeindex": 1, ".txnindex": 2, "leader-epoch-checkpoint": 3, ".snapshot": 4}
MEND = 1


def put(target: str, data: bytes) -> None:
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def log(data: bytes, dialect: str, format: str | None) -> None:
    """A log, or a batch: read as it is, with its checksums mended, and as a format of its own."""
    put("log", data + bytes([DIALECTS.index(dialect), 0]))
    put("log", data + bytes([DIALECTS.index(dialect) | 0x28, MEND | 4]))
    magic = MAGIC.get(data[16]) if len(data) > 16 else None
    put("formats", data + bytes([FORMATS.index(format or magic or "v3"), 0]))
    if format in ("v2", "kip82b"):
        put("formats", data[61:] + bytes([1, FORMATS.index(format), MEND]))
    if len(data) > 61 and magic == "v2" and (codec := data[22] & 7) in range(1, 5):
        for size in (0, 60, 255):
            put("decompress", data[61:] + bytes([codec, size]))
    if magic in ("v0", "v1") and (codec := data[17] & 7) in range(1, 4):
        at = (18 if magic == "v0" else 26) + 8
        put("decompress", data[at:] + bytes([codec | (8 if magic == "v0" else 0), 200]))
    put("beside", data + data[:200] + bytes([220, 240, 7]) + bytes(8))
    put("roundtrip", data[:512])


def logs(roots: list[Path]) -> Iterator[tuple[bytes, str, str | None]]:
    for root in roots:
        for path in sorted([*root.rglob("*.log"), *root.rglob("*.bin"), *root.rglob("*.checkpoint")]):
            yield path.read_bytes()[:MOST], "kafka", None
        for path in sorted(root.rglob("*.jsonl")):
            if path.parent.name != "vectors":
                continue
            for line in path.read_text().splitlines():
                row = json.loads(line)
                dialect, data = row["dialect"], bytes.fromhex(row["hex"])
                if len(data) <= MOST:
                    yield data, dialect if dialect in DIALECTS else "kafka", dialect if dialect in FORMATS else None


def beside(roots: list[Path]) -> Iterator[tuple[bytes, int, int]]:
    for root in roots:
        for path in sorted(path for path in root.rglob("*") if path.is_file()):
            kind = BESIDE.get(path.name, BESIDE.get(path.suffix))
            if kind is not None:
                base = int(path.stem) if path.stem.isdigit() else 0
                yield path.read_bytes()[:MOST], kind, base


def main() -> None:
    roots = [Path(argument) for argument in sys.argv[1:]]
    if not roots:
        shared = Path(os.environ.get("MAGICBYTE_SHARED", REPOSITORY.parent / "shared"))
        roots = [
            REPOSITORY / "tests/data",
            *(path for name in ("golden", "vectors") if (path := shared / name).is_dir()),
        ]
    for data, dialect, format in logs(roots):
        log(data, dialect, format)
    for data, kind, base in beside(roots):
        put("beside", data + bytes([kind]) + base.to_bytes(8, "big", signed=True))
    for name in (
        "00000000000000000042.log",
        "00000000000000000042-0000000003.checkpoint",
        "00000000000000000042.log.deleted",
        "orders-0",
        "orders-0." + "0" * 32 + "-delete",
        "orders-0." + "0" * 32 + "-future",
        "../orders-0",
        "leader-epoch-checkpoint",
    ):
        put("beside", name.encode() + bytes([6]) + bytes(8))
    put(
        "beside",
        b"version: 0\ntopic_id: "
        + base64.urlsafe_b64encode(bytes(range(16))).rstrip(b"=")
        + b"\n"
        + bytes([5])
        + bytes(8),
    )
    put("beside", b"0\n2\n5 0\n7 1042\n" + bytes([3]) + bytes(8))
    put("beside", b"\0\1" + bytes(4) + b"\0\0\0\1" + bytes(range(46)) + bytes([4]) + bytes(8))
    for name in ("log", "formats", "decompress", "beside", "roundtrip"):
        files = list((HERE / "corpus" / name).iterdir())
        print(f"{name}: {len(files)} seeds, {sum(path.stat().st_size for path in files)} bytes")


if __name__ == "__main__":
    main()
