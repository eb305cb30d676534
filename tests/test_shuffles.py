"""Channels that become pixels, pixels that become channels, and groups of channels."""

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels

F = rl.nn.functional


def pixel_shuffle(x, r):
    *images, c, h, w = x.shape
    n = len(images)
    blocks = x.reshape(*images, c // r**2, r, r, h, w)
    moved = np.moveaxis(blocks, (n + 3, n + 4), (n + 1, n + 3))
    return moved.reshape(*images, c // r**2, h * r, w * r)


def pixel_unshuffle(x, r):
    *images, c, h, w = x.shape
    n = len(images)
    blocks = x.reshape(*images, c, h // r, r, w // r, r)
    moved = np.moveaxis(blocks, (n + 1, n + 3), (n + 3, n + 4))
    return moved.reshape(*images, c * r**2, h // r, w // r)


def channel_shuffle(x, groups):
    n, c, *image = x.shape
    return x.reshape(n, groups, c // groups, *image).swapaxes(1, 2).reshape(x.shape)


SHAPES = [(4, 2, 2), (2, 8, 2, 4), (1, 12, 6, 2), (2, 2, 4, 2, 2), (2, 4, 2, 0)]
FORMATS = {
    "plain": lambda x: x,
    "channels_last": lambda x: x.contiguous(
        memory_format=rl.channels_last if x.dim() == 4 else rl.channels_last_3d),
    "transposed": lambda x: x.mT.contiguous().mT,
    "gaps": lambda x: rl.cat([x, x], -1)[..., : x.size(-1)],
}  # fmt: skip


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reference", [pixel_shuffle, pixel_unshuffle, channel_shuffle])
def test_places(reference, shape, layout):
    if layout == "channels_last" and len(shape) < 4:
        pytest.skip("channels_last has four or five dims")
    function = getattr(F, reference.__name__)
    plain = rl.arange(np.prod(shape), dtype=rl.float32).reshape(shape)
    x = FORMATS[layout](plain)
    out = function(x, 2)
    assert not out._is_view() and np.array_equal(out.numpy(), reference(plain.numpy(), 2))
    if layout == "channels_last" and x.numel() and not x.is_contiguous():
        assert out.movedim(1, -1).is_contiguous()


@pytest.mark.parametrize("function", [F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle])
def test_no_channels(function):
    x = rl.ones(2, 0, 4, 4, requires_grad=True)
    function(x, 2).sum().backward()
    assert x.grad.shape == x.shape


def test_channels_go_back():
    x = rl.randn(2, 12, 3, requires_grad=True)
    out = F.channel_shuffle(x, 3)
    assert F.channel_shuffle(out, 4).equal(x) and out.grad_fn(out).equal(x)


def test_a_factor_of_one_copies():
    x = rl.ones(1, 4, 2, 2)
    for function in (F.pixel_shuffle, F.pixel_unshuffle, F.channel_shuffle):
        function(x, 1).zero_()
    assert x.all()


def test_refusals():
    x = rl.ones(1, 6, 3, 4)
    for call, message in (
        (lambda: F.pixel_shuffle(x[0, 0], 2), "at least 3 dims"),
        (lambda: F.pixel_shuffle(x, 0), "upscale_factor must be positive but is 0"),
        (lambda: F.pixel_shuffle(x, 2), "6 channels are not divisible by 2\\^2"),
        (lambda: F.pixel_shuffle(x, 2**32), "not divisible"),
        (lambda: F.pixel_unshuffle(x, -1), "downscale_factor must be positive but is -1"),
        (lambda: F.pixel_unshuffle(x, 2), "3 by 4 is not divisible by 2"),
        (lambda: F.channel_shuffle(x, 4), "6 channels are not divisible by groups=4"),
        (lambda: F.channel_shuffle(x, 0), "groups=0"),
        (lambda: F.pixel_shuffle(rl.ones([1] * 61 + [4, 1, 1]), 2), "at most 64 dims"),
    ):
        with pytest.raises(RuntimeError, match=message):
            call()


def test_no_elements_and_large_factors():
    """Nothing is laid out by strides that no number holds."""
    empty = rl.ones(2, 0, 4, 4)
    assert F.pixel_shuffle(empty, 2**40).shape == (2, 0, 2**42, 2**42)
    assert F.channel_shuffle(empty, 2**62).shape == empty.shape
    with pytest.raises(RuntimeError, match="elements"):
        F.pixel_unshuffle(rl.ones(2, 3, 0, 0), 2**40)
