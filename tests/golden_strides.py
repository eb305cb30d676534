"""golden/strides.txt: calls, and the strides that torch 2.13 gives the first result of each."""

import pathlib

GOLDEN = pathlib.Path(__file__).parent / "golden" / "strides.txt"


def operands(library):
    """What the names in the calls stand for, in any library of torch's API."""
    T = library
    T.manual_seed(0)
    values = T.rand(4, 4)
    return {
        "T": T,
        "F": T.nn.functional,
        # channels side by side
        "image": T.rand(2, 4, 6, 6).contiguous(memory_format=T.channels_last),
        "volume": T.rand(2, 4, 6, 6, 6).contiguous(memory_format=T.channels_last_3d),
        "line": T.rand(2, 6, 4).transpose(1, 2),
        "one_image": T.rand(6, 6, 4).permute(2, 0, 1),
        "one_volume": T.rand(6, 6, 6, 4).permute(3, 0, 1, 2),
        "kernel": T.rand(4, 4, 3, 3),
        "permuted": T.rand(2, 3, 4).permute(2, 1, 0),
        "matrix": T.rand(4, 5),
        "square": values @ values.mT + T.eye(4),
        "signal": T.rand(4, 5, 6),
        "row": T.rand(1, 3),
        "nothing": T.rand(2, 0),
        "heads": T.rand(2, 5, 3, 8).transpose(1, 2),  # (batch, heads, positions, width)
    }


def calls():
    for line in GOLDEN.read_text().splitlines():
        call, _, strides = line.partition("  ->  ")
        yield call, strides


def strides_of(call, names):
    result = eval(call, names)  # our own table
    return str(tuple((result[0] if isinstance(result, (tuple, list)) else result).stride()))
