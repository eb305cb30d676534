"""Text that the generator packs is what a decoder of the LZ4 format makes of it again."""

import pytest

from gen import cuda, lz4


def unpack(block):
    """A block in the LZ4 format, decoded as src/kernels/cuda/sources.cpp does."""
    text, at = bytearray(), 0

    def whole(count):
        nonlocal at
        more = 255 if count == 15 else 0
        while more == 255:
            more = block[at]
            at += 1
            count += more
        return count

    while True:
        token = block[at]
        at += 1
        literals = whole(token >> 4)
        text += block[at : at + literals]
        at += literals
        if at == len(block):
            return bytes(text)
        distance = int.from_bytes(block[at : at + 2], "little")
        at += 2
        for _ in range(whole(token & 15) + 4):
            text.append(text[-distance])


@pytest.mark.parametrize("data", [
    b"", b"a", b"abcdabcd", b"x" * 1000, bytes(range(256)), bytes(range(256)) * 3,
    b"far" + bytes(i * i % 251 for i in range(70000)) + b"far away",
    b"ab" * 7 + b"c" * 14 + b"ab" * 9,
])  # fmt: skip
def test_packed_bytes_come_back(data):
    assert unpack(lz4.pack(data)) == data


def test_packed_sources_are_less_than_half():
    text = "".join((cuda.ROOT / "src" / name).read_text() for name in cuda.sources()[:9]).encode()
    packed = lz4.pack(text)
    assert unpack(packed) == text
    assert len(packed) < len(text) / 2
