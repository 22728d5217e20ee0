"""Compression: when it pays, HTTP's header, bombs of all kinds, dictionaries, and columns equal to records."""

from __future__ import annotations

import gzip
import json
import pickle
import threading
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import magicbyte as mb
from magicbyte.middleware import quarantined

from kafka_rows import records_of, rows_of

pytest.importorskip("zstandard")

import zstandard

from magicbyte.middleware import compression as module
from magicbyte.middleware.compression import HEADER, Compression, train

TEXT = b'{"name": "magicbyte", "kind": "record"}' * 20
SAMPLES = [
    json.dumps({"id": n, "user": f"user-{n % 97}", "status": "open", "tags": ["a", "b"]}).encode() for n in range(2000)
]


def received(record: Any) -> mb.ConsumerRecord:
    return mb.ConsumerRecord(record.topic, 0, 7, 1000, 0, record.key, record.value, record.headers)


def encoded(value: bytes | None, *encodings: bytes | None) -> mb.ConsumerRecord:
    return mb.ConsumerRecord("t", 0, 0, 0, 0, b"k", value, [(HEADER, one) for one in encodings])


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
def test_there_and_back(codec: Any) -> None:
    compression = Compression(codec=codec)
    sent = mb.ProducerRecord("t", TEXT, b"k", [("a", b"1"), ("content-type", b"application/json")])
    made = compression.post_serialize(sent)
    assert len(made.value) < len(TEXT) / 5 and made.headers.last[HEADER] == codec.encode()
    assert sent.value == TEXT and HEADER not in sent.headers
    assert (gzip.decompress(made.value) if codec == "gzip" else zstandard.decompress(made.value)) == TEXT
    back = compression.pre_deserialize(received(made))
    assert (back.value, back.headers) == (TEXT, sent.headers)
    assert compression.post_serialize(made) is made  # not twice
    assert dict(compression.counts) == {"compressed": 1, "decompressed": 1, "left": 1}


def test_only_where_it_pays() -> None:
    compression = Compression(smallest=64)

    def compressed(value: Any, kind: str | None = None, middleware: Compression = compression) -> bool:
        some = [] if kind is None else [("content-type", kind.encode())]
        return HEADER in middleware.post_serialize(mb.ProducerRecord("t", value, headers=some)).headers

    assert compressed(TEXT) and compressed(TEXT, "text/plain; charset=utf-8") and compressed(TEXT, "image/svg+xml")
    assert not compressed(None) and not compressed(b"") and not compressed(TEXT[:63])
    assert not compressed(bytes(range(256)) * 1)  # no gain
    for kind in ("image/png", "IMAGE/PNG", "video/mp4; codecs=x", "application/gzip", "application/x-7z-compressed"):
        assert not compressed(TEXT, kind), kind
    only = Compression(only=["application/json", "text/*"])
    assert compressed(TEXT, "text/csv", only) and not compressed(TEXT, "application/xml", only)
    assert not compressed(TEXT, None, only)


def test_what_others_wrote_is_read() -> None:
    compression = Compression()
    several = zstandard.ZstdCompressor(write_content_size=False).compress(TEXT)
    for value, encoding in (
        (gzip.compress(TEXT), b"gzip"),
        (gzip.compress(TEXT), b" X-GZIP "),
        (several, b"zstd"),
        (TEXT, b"identity"),
        (zstandard.compress(b""), b"ZSTD"),
    ):
        back = compression.pre_deserialize(encoded(value, encoding))
        assert back.value in (TEXT, b"") and not back.headers
    null = encoded(None, b"zstd")
    assert compression.pre_deserialize(null) is null


def test_outcomes() -> None:
    sound = zstandard.compress(TEXT)
    zipped = gzip.compress(TEXT)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(9_000_000))
    cases = [
        (encoded(sound, b"zstd", b"zstd"), "repeated"),
        (encoded(sound, b"br"), "unknown encoding, br"),
        (encoded(sound, None), "unknown encoding"),
        (encoded(sound, b"\xff"), "unknown encoding, \ufffd"),
        (encoded(sound[:-1], b"zstd"), "broken"),
        (encoded(sound + b"x", b"zstd"), "broken"),
        (encoded(sound + sound, b"zstd"), "broken"),
        (encoded(b"", b"zstd"), "broken"),
        (encoded(unsized[:-1], b"zstd"), "broken, zstd, cut"),
        (encoded(unsized + b"x" * 300, b"zstd"), "broken, zstd, bytes behind it"),
        (encoded(TEXT, b"gzip"), "broken, gzip"),
        (encoded(zipped[:-1], b"gzip"), "broken, gzip, cut"),
        (encoded(zipped + b"x", b"gzip"), "broken, gzip, bytes behind it"),
        (encoded(b"", b"gzip"), "broken, gzip, cut"),
    ]
    for record, reason in cases:
        for found in (
            Compression().pre_deserialize(record.copy()),
            records_of(Compression(policy="quarantine").arrow([rows_of([record])]))[0],
        ):
            assert found.value == record.value
            assert quarantined(found)[0].startswith(f"Compression: {reason}"), (quarantined(found), reason)


@pytest.mark.parametrize("size_is_told", [True, False])
def test_bombs(size_is_told: bool) -> None:
    """64 MiB of zeros in some kilobytes: refused at the limit, and no memory is used for what was only claimed."""
    limits = mb.Limits(decompressed=1 << 20)
    bomb = zstandard.ZstdCompressor(write_content_size=size_is_told).compress(bytes(64 << 20))
    assert len(bomb) < 10_000
    zipped = gzip.compress(bytes(64 << 20))
    tracemalloc.start()
    for record in (encoded(bomb, b"zstd"), encoded(zipped, b"gzip")):
        found = Compression(limits=limits).pre_deserialize(record)
        assert quarantined(found)[0].startswith("Compression: limit")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20
    assert Compression(limits=mb.Limits(decompressed=65 << 20)).pre_deserialize(encoded(bomb, b"zstd")).value == bytes(
        64 << 20
    )


def test_a_false_size_takes_no_memory() -> None:
    """A frame of 20 bytes that claims 200 MiB, within the limit."""
    claim = bytes.fromhex("28b52ffd") + bytes([0b1010_0000]) + (200 << 20).to_bytes(4, "little") + b"\x0b\0\0z"
    assert zstandard.get_frame_parameters(claim).content_size == 200 << 20
    tracemalloc.start()
    found = Compression().pre_deserialize(encoded(claim, b"zstd"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert quarantined(found)[0].startswith("Compression: broken") and peak < 1 << 20


def test_dictionaries() -> None:
    first, second = train(SAMPLES[:1000], 4096), train(SAMPLES[1000:], 2048)
    plain = Compression(smallest=32)
    using = Compression(dictionaries=[first, second], smallest=32)
    value = SAMPLES[17]
    made = using.post_serialize(mb.ProducerRecord("t", value))
    without = plain.post_serialize(mb.ProducerRecord("t", value))
    assert len(made.value) < len(value) / 2 < len(without.value)
    assert using.pre_deserialize(received(made)).value == value
    other = Compression(dictionaries=[second, first])
    assert other.pre_deserialize(received(made)).value == value
    assert "unknown dictionary" in quarantined(plain.pre_deserialize(received(made)))[0]
    assert pickle.loads(pickle.dumps(using)).pre_deserialize(received(made)).value == value
    with pytest.raises(ValueError, match="samples"):
        train([b"a"])
    with pytest.raises(ValueError, match="id"):
        Compression(dictionaries=[b"raw content"])


def test_threads_may_share_it() -> None:
    compression = Compression()
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(200):
            value = TEXT + b"%d %d" % (number, turn)
            if (
                compression.pre_deserialize(received(compression.post_serialize(mb.ProducerRecord("t", value)))).value
                != value
            ):
                wrong.append(turn)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and dict(compression.counts) == {"compressed": 800, "decompressed": 800}


def test_options_that_cannot_be() -> None:
    for options in ({"codec": "lz4"}, {"level": 99}, {"codec": "gzip", "level": 10}, {"header": ""}):
        with pytest.raises(ValueError, match="."):
            Compression(**options)


def test_large_output_is_handed_on_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOGETHER", 3000)
    compression = Compression()
    sent = [encoded(zstandard.compress(bytes(1000)), b"zstd").replace(offset=n) for n in range(10)]
    parts = list(compression.arrow([rows_of(sent)]))
    assert [part.num_rows for part in parts] == [4, 4, 2]
    assert [record.offset for record in records_of(parts)] == list(range(10))
    assert compression.counts["decompressed"] == 10


contents = (
    st.none()
    | st.binary(max_size=40)
    | st.just(TEXT)
    | st.just(zstandard.compress(TEXT))
    | st.just(gzip.compress(TEXT))
)
headers = st.lists(
    st.tuples(
        st.sampled_from(["a", HEADER, "content-type"]),
        st.none() | st.sampled_from([b"zstd", b"gzip", b"br", b"image/png"]),
    ),
    max_size=3,
)


@given(st.lists(st.tuples(contents, headers), max_size=8), st.sampled_from(["zstd", "gzip"]))
def test_columns_as_records(rows: list[Any], codec: Any) -> None:
    records = [mb.ConsumerRecord("t", 0, n, 5, 0, b"k", value, some) for n, (value, some) in enumerate(rows)]
    one, other = (Compression(codec=codec, smallest=10) for _ in "12")
    assert records_of(other.arrow([rows_of(records)])) == [one.pre_deserialize(record.copy()) for record in records]
    assert dict(one.counts) == dict(other.counts)
    sent = records_of(other.sending_arrow([rows_of(records)]))
    expected = [one.post_serialize(mb.ProducerRecord("t", r.value, r.key, r.headers)) for r in records]
    assert [(r.value, r.headers) for r in sent] == [(r.value, r.headers) for r in expected]
    assert dict(one.counts) == dict(other.counts)
