"""Claim check: payloads in storage and back, and headers that point elsewhere."""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fsspec", reason="fsspec is not installed")

import magicbyte as mb
from magicbyte.interceptors import Chain
from magicbyte.middleware import quarantined
from magicbyte.middleware.claim_check import Claim, ClaimCheck

VALUE = b"payload " * 10


def checked(where: str, **options: Any) -> ClaimCheck:
    return ClaimCheck(where, **{"threshold": 20, **options})


def claim(url: str, value: bytes = VALUE, size: int | None = None) -> bytes:
    return Claim(url, len(value) if size is None else size, hashlib.sha256(value).digest()).to_bytes()


def record(header: bytes | None) -> mb.ConsumerRecord:
    return mb.ConsumerRecord("t", 0, 1, 5, 0, b"k", b"", [("own", None), ("mb.claim", header)])


def test_the_bytes_of_the_header() -> None:
    digest = hashlib.sha256(b"x").digest()
    assert Claim("s3://b/k", 1, digest).to_bytes() == b"\x01" + b"\0\0\0\0\0\0\0\x01" + digest + b"s3://b/k"
    assert Claim.from_bytes(Claim("s3://b/k", 1, digest).to_bytes()) == Claim("s3://b/k", 1, digest)


def test_there_and_back_through_files(tmp_path: Path) -> None:
    where = tmp_path.as_uri()
    values = [VALUE, b"small", None, b"", VALUE]
    sent = list(
        Chain(checked(where), errors="raise").sending(
            mb.ProducerRecord("t", value, b"k", [("own", None)]) for value in values
        )
    )
    assert [one.value for one in sent] == [b"", b"small", None, b"", b""]
    assert [one.name for one in (tmp_path / "t").iterdir()] == [hashlib.sha256(VALUE).hexdigest()]
    back = pickle.loads(pickle.dumps(checked(where)))
    got = list(Chain(back, errors="raise")(mb.decode(mb.encode(sent), topic="t", partition=0)))
    assert [(one.value, one.headers.to_list()) for one in got] == [(value, [("own", None)]) for value in values]
    assert dict(back.counts) == {"fetched": 2, "whole": 3}


def test_memory_is_a_storage_too() -> None:
    there = checked("memory://claims")
    sent = there.post_serialize(mb.ProducerRecord("a/../b", VALUE))
    assert Claim.from_bytes(sent.headers.get("mb.claim")[0]).url.startswith("memory://claims/a____b/")
    [read] = mb.decode(mb.encode([sent]))
    assert there.pre_deserialize(read).value == VALUE


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "{root}/../secret",
        "{root}/allowed/../../secret",
        "{root}/allowed/./x",
        "{root}/allowed/%2e%2e/secret",
        "{root}/allowedx/secret",
        "{root}/allowed//secret",
        "{root}/allowed/x?y",
        "simplecache::{root}/allowed/x",
        "{root}/allowed/x::file:///etc/passwd",
        "/etc/passwd",
        "http://127.0.0.1/x",
        "{root}/allowed/a\nb",
        "FILE:///etc/passwd",
    ],
)
def test_nothing_is_fetched_from_elsewhere(tmp_path: Path, url: str) -> None:
    (tmp_path / "allowed").mkdir()
    for name in ("secret", "allowedx/secret"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(VALUE)
    reader = ClaimCheck(None, allowed=[f"{tmp_path.as_uri()}/allowed"])
    done = reader.pre_deserialize(record(claim(url.replace("{root}", tmp_path.as_uri()))))
    assert done.value == b"" and quarantined(done)[0].startswith("ClaimCheck: not allowed")


def test_what_is_there_must_be_what_was_claimed(tmp_path: Path) -> None:
    where = f"{tmp_path.as_uri()}/x"
    (tmp_path / "x").write_bytes(VALUE)

    def outcome(header: bytes | None, **options: Any) -> dict[str, int]:
        reader = checked(tmp_path.as_uri(), policy="reject", **options)
        done = reader.pre_deserialize(record(header))
        assert done == () or done.value == VALUE
        return dict(reader.counts)

    assert outcome(claim(where)) == {"fetched": 1}
    assert outcome(claim(where, b"other", len(VALUE))) == {"checksum": 1}
    assert outcome(claim(where, size=len(VALUE) - 1)) == {"checksum": 1}
    assert outcome(claim(where, size=1 << 60)) == {"too large": 1}
    assert outcome(claim(where), limits=mb.Limits(record=79)) == {"too large": 1}
    assert outcome(claim(where + "y")) == {"unavailable": 1}
    assert outcome(claim(where)[:40]) == {"broken": 1}
    assert outcome(None) == {"broken": 1}
    both = record(claim(where))
    both.headers.add("mb.claim", claim(where + "y"))
    assert checked(tmp_path.as_uri(), policy="reject").pre_deserialize(both) == ()


def test_a_failing_storage_sends_nothing() -> None:
    class Nowhere(ClaimCheck):
        pass

    with pytest.raises(ValueError, match="Protocol not known"):
        Nowhere("nowhere://x", threshold=1).post_serialize(mb.ProducerRecord("t", VALUE))
    with pytest.raises(ValueError, match="plain URL"):
        ClaimCheck("../x")
    with pytest.raises(TypeError, match="collection"):
        ClaimCheck(None, allowed="s3://x")


@given(st.none() | st.binary(max_size=120) | st.text(max_size=30).map(lambda text: claim("memory://claims/" + text)))
def test_no_header_breaks_it(header: bytes | None) -> None:
    reader = checked("memory://claims", policy="pass")
    one = record(header)
    assert reader.pre_deserialize(one) == one
    assert sum(reader.counts.values()) == 1


def test_arrow_does_what_records_do() -> None:
    pytest.importorskip("pyarrow")
    values = [VALUE, b"small", None, VALUE[1:]]
    data = mb.encode([mb.ProducerRecord("t", value, b"k", [("own", b"1")], timestamp=5) for value in values])
    there = checked("memory://arrow")
    sent = list(there.sending_arrow(mb.decode_arrow(data, topic="t", partition=0).to_batches()))
    assert [row["value"] for batch in sent for row in batch.to_pylist()] == [b"", b"small", None, b""]
    back = [row for batch in there.arrow(sent) for row in batch.to_pylist()]
    assert [row["value"] for row in back] == values
    assert [[h["key"] for h in row["headers"]] for row in back] == [["own"]] * 4
    assert dict(there.counts) == {"whole": 4, "put": 2, "fetched": 2}
