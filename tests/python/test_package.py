"""The package's own names: each is there, from where it is said to be, and none is loaded before it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import magicbyte as mb


def test_every_name_is_there_and_has_one_home() -> None:
    assert len(set(mb.__all__)) == len(mb.__all__)
    assert set(mb._HOME) == set(mb.__all__)
    for name in mb.__all__:
        assert getattr(mb, name) is not None
    assert set(mb.__all__) <= set(dir(mb))


def test_rooms_are_found_and_others_are_not() -> None:
    assert mb.topics.GROUPS["__consumer_offsets"] == "offsets"
    with pytest.raises(AttributeError, match="no attribute 'nothing_like_it'"):
        _ = mb.nothing_like_it  # type: ignore[attr-defined]


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import magicbyte; print(*sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # Not even the extension module: that comes with the first name.
    assert not any(name.startswith("magicbyte.") or name in ("dataclasses", "json") for name in ran.stdout.split())


def test_names_known_before_the_core_is_loaded_are_the_cores_own() -> None:
    from magicbyte import _core, _names

    assert (_names.FORMATS, _names.TARGETS, _names.CODECS) == (_core.FORMATS, _core.TARGETS, _core.CODECS)


EXTRAS = {
    "import magicbyte.spark": ("pyspark", "spark"),
    "import magicbyte.clients.confluent": ("confluent_kafka", "confluent"),
    "import magicbyte.clients.aiokafka": ("aiokafka", "aiokafka"),
    "import magicbyte.serdes.avro": ("fastavro", "avro"),
    "import magicbyte.middleware.schemas": ("fastavro", "avro"),
    "from magicbyte.middleware.registries import *; ConfluentRegistry({'url': 'http://localhost'})":
        ("confluent_kafka", "schema-registry"),
    "from magicbyte.middleware.compression import *; Compression()": ("zstandard", "compression"),
    "import magicbyte.middleware.signing": ("cryptography", "crypto"),
    "import magicbyte.middleware.encryption": ("cryptography", "crypto"),
    "import magicbyte.middleware.tracing": ("opentelemetry", "otel"),
    "import magicbyte.middleware.claim_check": ("fsspec", "storage"),
    "import magicbyte as mb; mb.decode_arrow(b'')": ("pyarrow", "arrow"),
    "import magicbyte as mb; next(iter(mb.Log(mb.encode([mb.ProducerRecord('t', b'v')])).scan(['offset'])))":
        ("pyarrow", "arrow"),
    "import magicbyte as mb; mb.Log(b'').scan(['offset']).schema": ("pyarrow", "arrow"),
    "import magicbyte as mb; list(mb.encode_arrow(None))": ("pyarrow", "arrow"),
}  # fmt: skip
TELLER = """
import sys
for code, module in {cases!r}:
    sys.modules[module] = None          # as if it were not installed
    try:
        exec(code, {{}})
        print("no error")
    except ModuleNotFoundError as error:
        print(error)
    for name in [name for name in sys.modules if name.startswith("magicbyte.") and name != "magicbyte._core"]:
        del sys.modules[name]
    del sys.modules[module]
"""


def test_whoever_lacks_an_extra_is_told_which() -> None:
    code = TELLER.format(cases=[(code, module) for code, (module, _) in EXTRAS.items()])
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    missing = [f"pip install 'magicbyte[{extra}]'" for _, extra in EXTRAS.values()]
    assert [line.rpartition("; ")[2] for line in told] == missing


def test_every_extra_that_is_named_is_there() -> None:
    import re
    import tomllib
    from pathlib import Path

    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for file in [*root.glob("python/**/*.py"), root / "README.md", *root.glob("docs/**/*.md")]:
        named = re.findall(r'magicbyte\[([\w,-]+)\]|with extra\("([\w-]+)"\)', file.read_text())
        for names in named:
            assert set("".join(names).split(",")) <= set(extras), file
