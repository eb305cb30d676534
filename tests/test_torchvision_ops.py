"""The operations of torchvision's compiled library, beside loops over elements."""

import math

import numpy as np
import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def ops():
    rl.ops.load_library("/somewhere/torchvision/_C.so")
    return rl.ops.torchvision


def test_other_libraries_are_refused():
    with pytest.raises(OSError, match="linked with PyTorch"):
        rl.ops.load_library("/somewhere/other/_C.so")


def overlap(a, b):
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    common = np.prod(np.maximum(sides, 0))
    return common / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - common)


@pytest.mark.parametrize("count", [0, 1, 40])
def test_nms(ops, count):
    rng = np.random.default_rng(count)
    corners = rng.random((count, 2)) * 10
    boxes = np.concatenate([corners, corners + rng.random((count, 2)) * 6 + 0.1], 1)
    scores = np.round(rng.random(count), 1)  # with equal ones
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        if all(overlap(boxes[i], boxes[j]) <= 0.3 for j in kept):
            kept.append(i)
    got = ops.nms(rl.tensor(boxes).view(-1, 4), rl.tensor(scores), 0.3)
    assert got.dtype == rl.int64 and got.tolist() == kept
    with pytest.raises(RuntimeError, match="shape"):
        ops.nms(rl.ones(2, 5), rl.ones(2), 0.5)


def interpolated(plane, y, x):
    height, width = plane.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = math.floor(y), math.floor(x)
    down, right = min(top + 1, height - 1), min(left + 1, width - 1)
    v, u = y - top, x - left
    return (
        plane[top, left] * (1 - v) * (1 - u) + plane[top, right] * (1 - v) * u
        + plane[down, left] * v * (1 - u) + plane[down, right] * v * u
    )  # fmt: skip


def aligned_regions(images, rois, scale, bins, ratio, aligned):
    out = np.zeros((len(rois), images.shape[1], *bins))
    for k, (image, *corners) in enumerate(rois):
        x1, y1, x2, y2 = (c * scale - 0.5 * aligned for c in corners)
        sides = [y2 - y1, x2 - x1] if aligned else [max(y2 - y1, 1), max(x2 - x1, 1)]
        counts = [ratio if ratio > 0 else math.ceil(s / b) for s, b in zip(sides, bins)]
        for c, p, q in np.ndindex(*out.shape[1:]):
            points = [
                interpolated(
                    images[int(image), c],
                    y1 + (p + (i + 0.5) / counts[0]) * sides[0] / bins[0],
                    x1 + (q + (j + 0.5) / counts[1]) * sides[1] / bins[1],
                )
                for i, j in np.ndindex(*counts)
            ]
            out[k, c, p, q] = np.mean(points)
    return out


ROIS = np.array([[0, 1.2, 0.7, 9.1, 8.3], [1, 0, 0, 3, 11], [1, 5.5, 4.5, 5.9, 4.8],
                 [0, -3, -2, 6, 20]])  # fmt: skip


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [0, 2])
def test_roi_align(ops, ratio, aligned):
    images = np.random.default_rng(0).random((2, 3, 7, 9))
    expected = aligned_regions(images, ROIS, 0.7, (2, 3), ratio, aligned)
    x, rois = rl.tensor(images, requires_grad=True), rl.tensor(ROIS)
    got = ops.roi_align(x, rois, 0.7, 2, 3, ratio, aligned)
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    assert rl.autograd.gradcheck(lambda x: ops.roi_align(x, rois, 0.7, 2, 3, ratio, aligned), x)
    with pytest.raises(RuntimeError, match="same type"):
        ops.roi_align(x.float(), rois, 0.7, 2, 3, ratio, aligned)


def test_roi_align_of_boxes_without_extent(ops):
    x = rl.rand(1, 1, 5, 5, dtype=rl.float64, requires_grad=True)
    rois = rl.tensor([[0, 3, 4, 5, 4], [0, 4, 3, 4, 5], [0, 5, 5, 3, 3.0]], dtype=rl.float64)
    out = ops.roi_align(x, rois, 1.0, 7, 7, 0, True)
    out.sum().backward()
    assert not out.any() and not x.grad.any()
    assert ops.roi_align(x, rois, 1.0, 7, 7, 0, False).any()  # of one pixel at least


def test_roi_pool(ops):
    images = np.random.default_rng(1).random((2, 3, 7, 9))
    x, rois = rl.tensor(images, requires_grad=True), rl.tensor(ROIS)
    out, places = ops.roi_pool(x, rois, 0.7, 2, 3)
    for k, (image, *corners) in enumerate(ROIS):
        x1, y1, x2, y2 = (math.floor(c * 0.7 + 0.5) for c in corners)
        sides = [max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)]
        for c, p, q in np.ndindex(3, 2, 3):
            rows, columns = (
                slice(*(min(max(b, 0), n) for b in (
                    start + math.floor(i * side / bins), start + math.ceil((i + 1) * side / bins)
                )))
                for start, i, side, bins, n in ((y1, p, sides[0], 2, 7), (x1, q, sides[1], 3, 9))
            )  # fmt: skip
            part, at = images[int(image), c][rows, columns], int(places[k, c, p, q])
            assert out[k, c, p, q].item() == (part.max() if part.size else 0)
            assert (images[int(image), c].flat[at] == part.max()) if part.size else at == -1
    assert rl.autograd.gradcheck(lambda x: ops.roi_pool(x, rois, 0.7, 2, 3)[0], x)


def deformed(ops, x, w, b, offset, mask, *, stride=1, padding=0, dilation=1, groups=1, shared=1):
    return ops.deform_conv2d(
        x, w, offset, mask, b, stride, stride, padding, padding, dilation, dilation, groups,
        shared, mask.numel() > 0,
    )  # fmt: skip


@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"dilation": 2, "groups": 2}])
def test_deform_conv2d_that_moves_nothing(ops, options):
    rl.manual_seed(0)
    x, b = rl.randn(2, 4, 7, 8, dtype=rl.float64), rl.randn(6, dtype=rl.float64)
    w = rl.randn(6, 4 // options.get("groups", 1), 3, 3, dtype=rl.float64)
    expected = rl.nn.functional.conv2d(x, w, b, **options)
    offset = rl.zeros(2, 18, *expected.shape[2:], dtype=rl.float64)
    none = rl.zeros(2, 0, dtype=rl.float64)
    got = deformed(ops, x, w, b, offset, none, **options)
    assert rl.allclose(got, expected)
    whole = offset.view(2, 9, 2, *expected.shape[2:]).clone()
    whole[:, :, 0] += 1  # one row further
    lower = rl.nn.functional.pad(x, (0, 0, 0, 1))[:, :, 1:]
    padding = options.get("padding", 0)
    inner = slice(padding, expected.shape[2] - padding)
    got = deformed(ops, x, w, b, whole.flatten(1, 2), none, **options)
    expected = rl.nn.functional.conv2d(lower, w, b, **options)
    assert rl.allclose(got[:, :, inner], expected[:, :, inner])


def test_deform_conv2d_between_pixels(ops):
    rl.manual_seed(1)
    kinds = {"dtype": rl.float64, "requires_grad": True}
    x, w, b = rl.randn(1, 4, 5, 6, **kinds), rl.randn(2, 4, 2, 2, **kinds), rl.randn(2, **kinds)
    offset, mask = rl.randn(1, 16, 4, 5, **kinds), rl.rand(1, 8, 4, 5, **kinds)
    operands = x, w, b, offset, mask
    got = deformed(ops, *operands, shared=2)
    planes, moved = x[0].detach().numpy(), offset.detach().numpy().reshape(2, 4, 2, 4, 5)
    factors = mask.detach().numpy().reshape(2, 4, 4, 5)
    for o, i, j in np.ndindex(2, 4, 5):
        total = float(b[o])
        for c, r, s in np.ndindex(4, 2, 2):
            group, tap = c // 2, r * 2 + s
            y, z = moved[group, tap, :, i, j] + (i + r, j + s)
            top, left = math.floor(y), math.floor(z)
            value = sum(
                planes[c, p, q] * (1 - abs(y - p)) * (1 - abs(z - q))
                for p in (top, top + 1) for q in (left, left + 1) if 0 <= p < 5 and 0 <= q < 6
            )  # fmt: skip
            total += float(w[o, c, r, s]) * factors[group, tap, i, j] * value
        assert got[0, o, i, j].item() == pytest.approx(total, abs=1e-12)
    assert rl.autograd.gradcheck(lambda *given: deformed(ops, *given, shared=2), operands)
    with pytest.raises(RuntimeError, match="expected an offset of shape"):
        deformed(ops, x, w, b, offset[:, :8], mask, shared=2)


def test_what_is_not_there_refuses(ops):
    with pytest.raises(NotImplementedError, match="torchvision::ps_roi_align"):
        ops.ps_roi_align(rl.ones(1, 4, 5, 5), rl.ones(1, 5), 1.0, 2, 2, 1)
