"""Packing of text that becomes part of the module."""

from collections import defaultdict

_LEAST, _FARTHEST, _TRIES = 4, 65535, 64
_LAST = 5  # bytes of a block that the format wants as literals


def pack(data):
    """`data` as a block in the LZ4 format: literals, then a distance back to bytes that repeat."""
    packed = bytearray()
    places = defaultdict(list)  # of each four bytes
    start = at = 0
    while at < len(data) - _LAST:
        length, distance = _longest(data, at, places[data[at : at + _LEAST]])
        end = at + max(length, 1)
        if length:
            _put(packed, data[start:at], length, distance)
            start = end
        for i in range(at, end):
            places[data[i : i + _LEAST]].append(i)
        at = end
    _put(packed, data[start:])
    return bytes(packed)


def _longest(data, at, candidates):
    """(length, distance) of the longest match among the latest candidates, else (0, 0)."""
    longest, distance = 0, 0
    limit = len(data) - _LAST
    for candidate in reversed(candidates[-_TRIES:]):
        if at - candidate > _FARTHEST:
            break
        if data[candidate : candidate + longest + 1] != data[at : at + longest + 1]:
            continue
        n = longest + 1
        while at + n < limit and data[candidate + n] == data[at + n]:
            n += 1
        if n >= _LEAST:
            longest, distance = n, at - candidate
    return longest, distance


def _put(packed, literals, length=_LEAST, distance=0):
    counts = len(literals), length - _LEAST
    packed.append(min(counts[0], 15) << 4 | min(counts[1], 15))
    packed += _beyond(counts[0]) + literals
    if distance:
        packed += distance.to_bytes(2, "little") + _beyond(counts[1])


def _beyond(count):
    """What of a count its four bits do not hold."""
    if count < 15:
        return b""
    return b"\xff" * ((count - 15) // 255) + bytes([(count - 15) % 255])
