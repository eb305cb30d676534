"""Pooling beside windows counted out by NumPy: planes of every size, in rows and cut out of wider
ones, with NaN and infinities."""

import itertools

import numpy
import pytest

import rushlight
from rushlight.nn import functional

pytestmark = pytest.mark.kernels


def windows(image, kernel, stride, padding, dilation=1):
    """Of each output of a plane: where it lies, and the places of its window's elements."""
    height, width = image.shape[-2:]
    span = dilation * (kernel - 1) + 1
    for y, x in itertools.product(
        range((height + 2 * padding - span) // stride + 1),
        range((width + 2 * padding - span) // stride + 1),
    ):
        rows = [y * stride - padding + i * dilation for i in range(kernel)]
        columns = [x * stride - padding + i * dilation for i in range(kernel)]
        places = [
            i * width + j for i in rows for j in columns if 0 <= i < height and 0 <= j < width
        ]
        yield y, x, places


def largest(image, *geometry):
    flat = image.reshape(*image.shape[:2], -1)
    found = list(windows(image, *geometry))
    shape = (*image.shape[:2], found[-1][0] + 1, found[-1][1] + 1)
    values, at = numpy.empty(shape, image.dtype), numpy.empty(shape, numpy.int64)
    for y, x, places in found:
        chosen = flat[:, :, places]
        holes = numpy.isnan(chosen)
        best = numpy.where(
            holes.any(-1),
            len(places) - 1 - holes[..., ::-1].argmax(-1),
            numpy.where(holes, -numpy.inf, chosen).argmax(-1),
        )
        values[:, :, y, x] = numpy.take_along_axis(chosen, best[..., None], -1)[..., 0]
        at[:, :, y, x] = numpy.array(places)[best]
    return values, at


PLANES = [(3, 1), (4, 4), (7, 7), (8, 5), (16, 16), (33, 40), (70, 70)]


def planes(size):
    return (3, 23) if size[0] < 9 else (2, 9)


GEOMETRIES = [(2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 1, 0, 2)]


@pytest.mark.parametrize("special", ["numbers", "special"])
@pytest.mark.parametrize("size", PLANES, ids=str)
def test_largest_of_windows_and_their_places(size, special):
    image = numpy.random.randn(*planes(size), *size).astype(numpy.float32)
    if special == "special":
        image[numpy.random.rand(*image.shape) < 0.05] = numpy.nan
        image[numpy.random.rand(*image.shape) < 0.3] = -numpy.inf
    for kernel, stride, padding, *rest in GEOMETRIES:
        if min(size) + 2 * padding < (kernel - 1) * (rest or [1])[0] + 1:
            continue
        expected, at = largest(image, kernel, stride, padding, *rest)
        for x in (rushlight.tensor(image), cut_out(image)):
            arguments = (kernel, stride, padding, *rest)
            alone = functional.max_pool2d(x, *arguments)
            values, places = functional.max_pool2d(x, *arguments, return_indices=True)
            assert (places.numpy() == at).all()
            numpy.testing.assert_array_equal(values.numpy(), expected)
            numpy.testing.assert_array_equal(alone.numpy(), expected)


def cut_out(image):
    """The same numbers in the midst of wider planes."""
    wide = rushlight.randn(*image.shape[:2], image.shape[2] + 2, image.shape[3] + 3)
    part = wide[:, :, 1:-1, 2:-1]
    part.copy_(rushlight.tensor(image))
    return part


@pytest.mark.parametrize("special", ["numbers", "special"])
@pytest.mark.parametrize("length", [5, 31, 64, 70, 257])
def test_largest_of_windows_of_lines(length, special):
    lines = numpy.random.randn(2, 17, 1, length).astype(numpy.float32)
    if special == "special":
        lines[:, ::2, :, length // 2] = numpy.nan
        lines[:, :, :, :3] = -numpy.inf
    for kernel, stride, padding, dilation in [
        (2, 2, 0, 1),
        (3, 1, 1, 1),
        (3, 2, 1, 1),
        (3, 1, 1, 2),
        (5, 3, 2, 1),
        (4, 2, 2, 3),
    ]:
        padded = numpy.pad(lines, [(0, 0)] * 3 + [(padding, padding)], constant_values=-numpy.inf)
        count = (padded.shape[-1] - dilation * (kernel - 1) - 1) // stride + 1
        if count < 1:
            continue
        taps = [
            padded[:, :, 0, k * dilation :][..., : (count - 1) * stride + 1 : stride]
            for k in range(kernel)
        ]
        with numpy.errstate(invalid="ignore"):
            expected = numpy.maximum.reduce(taps)
        x = rushlight.tensor(lines[:, :, 0])
        for given in (x, x[:, :, None].expand(-1, -1, 2, -1)[:, :, 0], cut_out(lines)[:, :, 0]):
            result = functional.max_pool1d(given, kernel, stride, padding, dilation)
            numpy.testing.assert_array_equal(result.numpy(), expected)
            recorded = given.detach().requires_grad_()
            same = functional.max_pool1d(recorded, kernel, stride, padding, dilation)
            numpy.testing.assert_array_equal(same.detach().numpy(), expected)


@pytest.mark.parametrize("size", PLANES, ids=str)
def test_means_of_windows_and_their_gradients(size):
    image = numpy.random.randn(*planes(size), *size).astype(numpy.float32)
    flat = image.astype(numpy.float64).reshape(*planes(size), -1)
    for kernel, stride, padding in [(2, 2, 0), (3, 2, 1), (3, 1, 1), (size[0], 1, 0)]:
        if min(size) + 2 * padding < kernel:
            continue
        for with_padding in (True, False):
            x = cut_out(image).requires_grad_()
            for given in (x, x.contiguous()):
                means = functional.avg_pool2d(
                    given, kernel, stride, padding, count_include_pad=with_padding
                )
                spread = numpy.zeros_like(flat)
                for y, column, places in windows(image, kernel, stride, padding):
                    count = kernel * kernel if with_padding else len(places)
                    expected = flat[:, :, places].sum(-1) / count
                    found = means.detach()[:, :, y, column].numpy()
                    numpy.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
                    spread[:, :, places] += 1 / count
                (grad,) = rushlight.autograd.grad(means.sum(), x)
                numpy.testing.assert_allclose(
                    grad.numpy(), spread.reshape(image.shape), rtol=1e-5, atol=1e-5
                )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_floats_are_pooled_as_float32_is(dtype):
    image = rushlight.randn(4, 9, 10, 10, dtype=getattr(rushlight, dtype)).requires_grad_()
    wide = image.detach().float().requires_grad_()
    for pool in (
        lambda x: functional.max_pool2d(x, 3, 2, 1),
        lambda x: functional.max_pool2d(x, 3, 2, 1, return_indices=True)[1],
        lambda x: functional.avg_pool2d(x, 10),
        lambda x: functional.adaptive_avg_pool2d(x, 1),
        lambda x: functional.adaptive_max_pool2d(x, 3),
    ):
        ours, theirs = pool(image), pool(wide)
        assert rushlight.allclose(ours.float(), theirs.float(), rtol=1e-2, atol=1e-3)
        if ours.is_floating_point():
            (grad,) = rushlight.autograd.grad(ours.sum(), image)
            (expected,) = rushlight.autograd.grad(theirs.sum(), wide)
            assert rushlight.allclose(grad.float(), expected, rtol=1e-2, atol=1e-2)


def test_gradients_of_small_planes_leave_places_outside_alone():
    grad = rushlight.ones(20, 3, 2, 2)
    x = rushlight.randn(20, 3, 4, 4, requires_grad=True)
    values, places = functional.max_pool2d(x, 2, return_indices=True)
    (found,) = rushlight.autograd.grad(values, x, grad)
    expected = rushlight.zeros(20, 3, 16).scatter(2, places.flatten(2), 1.0)
    assert (found.flatten(2) == expected).all()
