"""Images of bytes resized: sums are integers, as Pillow's, along the width, then the height."""

import numpy
import pytest

import rushlight
from rushlight.nn import functional as F

pytestmark = pytest.mark.kernels


def cubic(x, a):
    x = abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def weights(before, after, mode, antialias):
    """A matrix (after, before) of the weights of a line, and the bits behind its point."""
    matrix, step = numpy.zeros((after, before)), before / after
    wide = max(step, 1.0) if antialias else 1.0
    support = (2 if mode == "bicubic" else 1) * wide
    for o in range(after):
        centre = step * (o + 0.5)
        if antialias:
            first, end = (int(max(min(centre + s + 0.5, before), 0)) for s in (-support, support))
            taps = [(i, (i - centre + 0.5) / wide) for i in range(first, end)]
        elif mode == "bicubic":
            first = int(numpy.floor(centre - 0.5)) - 1
            taps = [(i, i + 0.5 - centre) for i in range(first, first + 4)]
        else:
            at = max(centre - 0.5, 0.0)
            taps = [(int(at) + k, int(at) + k - at) for k in (0, 1)]
        sharpness = -0.5 if antialias else -0.75
        for i, x in taps:
            w = cubic(x, sharpness) if mode == "bicubic" else max(1 - abs(x), 0.0)
            matrix[o, min(max(i, 0), before - 1)] += w
        if antialias:
            matrix[o] /= matrix[o].sum()
    bits = 0
    while bits < 22 and numpy.floor(matrix.max() * 2 ** (bits + 1) + 0.5) < 2**15:
        bits += 1
    scaled = matrix * 2**bits
    return numpy.trunc(scaled + numpy.copysign(0.5, scaled)).astype(numpy.int64), bits


def resized(images, size, mode, antialias):
    for axis, after in ((3, size[1]), (2, size[0])):
        if images.shape[axis] == after:
            continue
        matrix, bits = weights(images.shape[axis], after, mode, antialias)
        sums = numpy.tensordot(images.astype(numpy.int64), matrix, ([axis], [1]))
        half = 1 << (bits - 1) if bits else 0
        images = numpy.moveaxis(((sums + half) >> bits).clip(0, 255), -1, axis)
    return images.astype(numpy.uint8)


@pytest.mark.parametrize("last", [False, True], ids=["plain", "channels_last"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_sums_of_bytes_are_exact(mode, antialias, last):
    random = numpy.random.RandomState(0)
    sizes = [(5, 70), (33, 17), (1, 1), (64, 40), (9, 129)]
    for channels in (1, 2, 3, 4, 5, 16):
        for before in sizes:
            images = random.choice([0, 255, 17, 200], (2, channels, *before)).astype(numpy.uint8)
            x = rushlight.from_numpy(images)
            if last:
                x = x.contiguous(memory_format=rushlight.channels_last)
            for after in sizes:
                got = F.interpolate(x, after, mode=mode, antialias=antialias)
                wanted = resized(images, after, mode, antialias)
                numpy.testing.assert_array_equal(got.numpy(), wanted)


def test_images_without_either_order():
    images = numpy.arange(2 * 3 * 12 * 20, dtype=numpy.uint8).reshape(2, 3, 12, 20)
    x = rushlight.from_numpy(images)[:, :, ::2, 1:-1]
    got = F.interpolate(x, (9, 25), mode="bilinear")
    wanted = resized(images[:, :, ::2, 1:-1], (9, 25), "bilinear", False)
    numpy.testing.assert_array_equal(got.numpy(), wanted)
