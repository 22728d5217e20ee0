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
