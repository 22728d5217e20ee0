"""Bombs: small batches that claim, or really hold, far more than anybody wants in memory. Made by hand, each in a moment."""

from __future__ import annotations

import struct
import zlib

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def batch(records: bytes, codec: int, count: int = 1) -> bytes:
    """A v2 batch of these record bytes, its checksum 0: for ``check_crc=False``."""
    head = struct.pack(">bIhiqqqhii", 2, 0, codec, count - 1, 0, 0, -1, -1, -1, count)
    return struct.pack(">qii", 0, 4 + len(head) + len(records), 0) + head + records


def wrapper(compressed: bytes, codec: int) -> bytes:
    """A v0 wrapper, which lz4's header checksum is not looked at in; its own checksum holds."""
    message = struct.pack(">bbii", 0, codec, -1, len(compressed)) + compressed
    return struct.pack(">qiI", 0, 4 + len(message), zlib.crc32(message)) + message


def gzip_member(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def zstd_of_zeros(size: int) -> bytes:
    """A frame of 128 KiB blocks of one byte, four bytes each."""
    block, blocks = 128 << 10, size // (128 << 10)
    rle = (block << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (block << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\0\x38" + rle * (blocks - 1) + last


def lz4_of_zeros(size: int) -> bytes:
    """A frame of 4 MiB blocks, each one long match of a zero. Its header checksum is wrong."""
    block = 4 << 20
    length = block - 1 - 5 - 19
    match = b"\x1f\0\x01\0" + b"\xff" * (length // 255) + bytes([length % 255])
    packed = match + b"\x50" + bytes(5)
    return b"\x04\x22\x4d\x18\x60\x70\0" + (struct.pack("<I", len(packed)) + packed) * (size // block) + bytes(4)


def snappy_of_zeros(size: int, claim: int | None = None) -> bytes:
    """One raw block: a zero, and copies of 64 bytes, three bytes each."""
    number, claimed = bytearray(), 1 + size // 64 * 64 if claim is None else claim
    while claimed >= 0x80:
        number.append(claimed & 0x7F | 0x80)
        claimed >>= 7
    return bytes([*number, claimed]) + b"\0\0" + b"\xfe\x01\0" * (size // 64)


def bombs() -> dict[str, bytes]:
    """By name: entries that hold gigabytes of zeros, or say so."""
    gzip = gzip_member(bytes(16 << 20))
    framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01"
    snappy = snappy_of_zeros(8 << 20)
    return {
        # Deflate cannot do better than 1,032 times: 10 GB take 10 MB.
        "gzip, 10 GB in 640 members": batch(gzip * 640, GZIP),
        "gzip, says 4 GB": batch(gzip[:-4] + b"\xff\xff\xff\xff", GZIP),
        "zstd, 10 GB in 320 KB": batch(zstd_of_zeros(10 << 30), ZSTD),
        "zstd, says 2^62 bytes": batch(b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 62) + bytes(20), ZSTD),
        "zstd, says a window of 2 GB": batch(b"\x28\xb5\x2f\xfd\0\xa8" + zstd_of_zeros(1 << 30)[6:], ZSTD),
        # 255 times at the best.
        "lz4, 512 MB in 2 MB": wrapper(lz4_of_zeros(512 << 20), LZ4),
        # 21 times at the best.
        "snappy, says 4 GB": batch(snappy_of_zeros(16 << 20, (1 << 32) - 1), SNAPPY),
        "snappy, 320 MB in 40 blocks": batch(framed + (struct.pack(">i", len(snappy)) + snappy) * 40, SNAPPY),
        "snappy, a block that says 2 GB": batch(framed + b"\x7f\xff\xff\xff" + snappy, SNAPPY),
    }


#: length 6, attributes, timestamp, offset, null key, null value, no headers
TINY = b"\x0c\0\0\0\x01\x01\0"


def tiny_records(count: int = 30_000_000) -> bytes:
    """Thirty million records of seven bytes in 200 KB: within what may be decompressed, but not within what may be noted."""
    member = gzip_member(TINY * 100_000)
    return batch(member * (count // 100_000), GZIP, count)


def tiny_headers(count: int = 1_000_000, records: int = 40) -> bytes:
    """Forty records of a million headers each: empty key, null value."""
    body = b"\0\0\0\x01\x01" + varint(count) + b"\0\x01" * count
    return batch(gzip_member(varint(len(body)) + body) * records, GZIP, records)


def varint(number: int) -> bytes:
    number <<= 1
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def nested(depth: int, magic: int = 0) -> bytes:
    """A wrapper around a wrapper around a wrapper …"""
    inner = b""
    for _ in range(depth):
        time = b"" if magic == 0 else bytes(8)
        value = gzip_member(inner) if inner else None
        data = b"\xff\xff\xff\xff" if value is None else struct.pack(">i", len(value)) + value
        message = struct.pack(">bb", magic, 1 if value else 0) + time + b"\xff\xff\xff\xff" + data
        inner = struct.pack(">qiI", 0, 4 + len(message), zlib.crc32(message)) + message
    return inner
