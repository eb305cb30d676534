"""The operations of torchvision's compiled library, which itself is linked with PyTorch's own.
`torch.ops.load_library` defines them where torchvision loads it: `nms`, `roi_align`, `roi_pool` and
`deform_conv2d`; others refuse.
"""

from __future__ import annotations

import math

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_REGIONS, _GRADS = "Tensor input, Tensor rois", "Tensor grad, Tensor rois"
_POOLED = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_WINDOW = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
    "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask"
)
_OPERANDS = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"


# ---- boxes


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The boxes to keep, the best first: none overlaps a better one by more than the threshold.

    Args:
        dets: boxes of shape (N, 4), as x1, y1, x2, y2.
        scores: of shape (N).
        iou_threshold: of the intersection over the union.
    """
    if dets.dim() != 2 or dets.size(1) != 4:
        raise RuntimeError(f"nms: expected boxes of shape (N, 4), got {tuple(dets.shape)}")
    if scores.dim() != 1 or scores.size(0) != dets.size(0):
        raise RuntimeError(
            f"nms: expected a score for each of {dets.size(0)} boxes, got {tuple(scores.shape)}"
        )
    rest = scores.detach().cpu().sort(stable=True, descending=True).indices
    boxes = dets.detach().cpu()[rest]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept = []
    while rest.numel():
        kept.append(rest[:1])
        corner = rushlight.minimum(boxes[:1, 2:], boxes[1:, 2:])
        sides = (corner - rushlight.maximum(boxes[:1, :2], boxes[1:, :2])).clamp(min=0)
        common = sides[:, 0] * sides[:, 1]
        clear = common / (areas[:1] + areas[1:] - common) <= iou_threshold
        rest, boxes, areas = rest[1:][clear], boxes[1:][clear], areas[1:][clear]
    return rushlight.cat(kept).to(dets.device) if kept else rest.to(dets.device)


# ---- regions of images


def _samples(start: float, bin_size: float, bins: int, count: int, length: int, like: Tensor):
    """The first index that `bins` read along a dim of images, and their weights of those from there
    on: each is the mean of `count` linear interpolations, or 0 where there are none.
    """
    if count <= 0:  # a box without extent
        return 0, like.new_zeros(bins, 1)
    places = rushlight.arange(bins * count, dtype=like.dtype, device=like.device)
    places = start + (places + 0.5) * (bin_size / count)
    inside = ((places >= -1) & (places <= length)).to(like.dtype)
    places = places.clamp(0, length - 1)
    low = places.floor()
    high = (low + 1).clamp(max=length - 1)
    first, last = int(low.min()), int(high.max())
    weights = like.new_zeros(bins * count, last - first + 1)
    for at, share in ((low, 1 - (places - low)), (high, places - low)):
        weights.scatter_add_(1, (at - first).long()[:, None], (share * inside)[:, None])
    return first, weights.view(bins, count, -1).mean(1)


def _regions(input: Tensor, rois: Tensor, scale, bins, sampling_ratio, aligned):
    """The number and image of each region, the slice of the image that it reads, and the weights of
    rows and columns.
    """
    shift = 0.5 if aligned else 0.0
    for i, (image, *corners) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (corner * scale - shift for corner in corners)
        found = []
        for start, end, count, length in (
            (y1, y2, bins[0], input.size(2)), (x1, x2, bins[1], input.size(3)),
        ):  # fmt: skip
            extent = end - start if aligned else max(end - start, 1.0)
            samples = sampling_ratio if sampling_ratio > 0 else math.ceil(extent / count)
            found.append(_samples(start, extent / count, count, samples, length, input))
        (top, rows), (left, columns) = found
        place = (int(image), slice(None), slice(top, top + rows.size(1)),
                 slice(left, left + columns.size(1)))  # fmt: skip
        yield i, place, rows, columns


def _check_rois(op, input, rois):
    if rois.dim() != 2 or rois.size(1) != 5:
        raise RuntimeError(f"{op}: rois must have shape as Tensor[K, 5], got {tuple(rois.shape)}")
    if input.dim() != 4:
        raise RuntimeError(f"{op}: expected images of 4 dims, got {tuple(input.shape)}")
    if input.dtype != rois.dtype:
        raise RuntimeError(
            f"{op}: Expected tensor for input to have the same type as tensor for rois; "
            f"but type {input.dtype} does not equal {rois.dtype}"
        )


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Means of interpolated points in a grid of bins of each region: its linear interpolation along
    rows and along columns are two products.

    Args:
        input: images of shape (N, C, H, W).
        rois: of shape (K, 5): an image's number, and a box.
        spatial_scale: from the boxes' units to pixels.
        pooled_height, pooled_width: the grid.
        sampling_ratio: points of a bin along each dim; 0 or less takes one for each pixel.
        aligned: pixels are points half a pixel further.
    """
    _check_rois("roi_align", input, rois)
    bins = (pooled_height, pooled_width)
    out = input.new_zeros(rois.size(0), input.size(1), *bins)
    for i, place, rows, columns in _regions(
        input, rois, spatial_scale, bins, sampling_ratio, aligned
    ):
        out[i] = rows @ input[place] @ columns.t()
    return out


def _roi_align_backward(
    grad, rois, spatial_scale, pooled_height, pooled_width,
    batch_size, channels, height, width, sampling_ratio, aligned,
):  # fmt: skip
    result = grad.new_zeros(batch_size, channels, height, width)
    for i, place, rows, columns in _regions(
        result, rois, spatial_scale, (pooled_height, pooled_width), sampling_ratio, aligned
    ):
        result[place] += rows.t() @ grad[i] @ columns
    return result


def _bounds(start: int, extent: int, bins: int, length: int) -> list[slice]:
    """What each bin of a region covers along a dim."""
    size = extent / bins
    found = []
    for k in range(bins):
        begin, end = math.floor(k * size) + start, math.ceil((k + 1) * size) + start
        found.append(slice(min(max(begin, 0), length), min(max(end, 0), length)))
    return found


def _rounded(x: float) -> int:
    return math.floor(abs(x) + 0.5) * (1 if x >= 0 else -1)  # halves away from 0


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """The largest elements in a grid of bins of each region, and where in their plane they are.

    Args:
        input: images of shape (N, C, H, W).
        rois: of shape (K, 5): an image's number, and a box.
        spatial_scale: from the boxes' units to pixels.
        pooled_height, pooled_width: the grid.
    """
    _check_rois("roi_pool", input, rois)
    channels, height, width = input.shape[1:]
    out = input.new_zeros(rois.size(0), channels, pooled_height, pooled_width)
    places = rushlight.full_like(out, -1, dtype=rushlight.int32)
    for i, (image, *corners) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (_rounded(corner * spatial_scale) for corner in corners)
        columns = _bounds(x1, max(x2 - x1 + 1, 1), pooled_width, width)
        for p, rows in enumerate(_bounds(y1, max(y2 - y1 + 1, 1), pooled_height, height)):
            for q, across in enumerate(columns):
                bin_of = input[int(image), :, rows, across]
                if not bin_of.numel():
                    continue
                out[i, :, p, q], at = bin_of.flatten(1).max(1)
                step = bin_of.size(2)
                places[i, :, p, q] = (at // step + rows.start) * width + at % step + across.start
    return out, places


def _roi_pool_backward(
    grad, rois, argmax, spatial_scale, pooled_height, pooled_width,
    batch_size, channels, height, width,
):  # fmt: skip
    result = grad.new_zeros(batch_size, channels, height * width)
    at = argmax.long().flatten(2)
    shares = grad.flatten(2) * (at >= 0)
    for i, image in enumerate(rois[:, 0].tolist()):
        result[int(image)].scatter_add_(1, at[i].clamp(min=0), shares[i])
    return result.view(batch_size, channels, height, width)


# ---- deformable convolution


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor,
    stride_h: int, stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int,
    groups: int, offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """A convolution whose windows read their elements from places that `offset` moves.

    Args:
        input: images of shape (N, C, H, W).
        weight: of shape (O, C / groups, R, S).
        offset: rows and columns to move by, of shape (N, 2 * offset_groups * R * S, out_H, out_W).
        mask: factors of shape (N, offset_groups * R * S, out_H, out_W), where `use_mask`.
        bias: of shape (O).
        stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups: as in `conv2d`.
        offset_groups: groups of channels that move together.
        use_mask: whether `mask` counts.
    """
    count, channels, height, width = input.shape
    outputs, _, r, s = weight.shape
    down, across = offset.shape[2:]
    expected = (
        (height + 2 * pad_h - dilation_h * (r - 1) - 1) // stride_h + 1,
        (width + 2 * pad_w - dilation_w * (s - 1) - 1) // stride_w + 1,
    )
    if (down, across) != expected or offset.size(1) != 2 * offset_groups * r * s:
        raise RuntimeError(
            f"deform_conv2d: expected an offset of shape ({count}, {2 * offset_groups * r * s}, "
            f"{expected[0]}, {expected[1]}), got {tuple(offset.shape)}"
        )
    moved = offset.view(count, offset_groups, r * s, 2, down, across)

    numbers = {"dtype": input.dtype, "device": input.device}
    rows = rushlight.arange(down, **numbers) * stride_h - pad_h
    columns = rushlight.arange(across, **numbers) * stride_w - pad_w
    tap_rows = (rushlight.arange(r, **numbers) * dilation_h).repeat_interleave(s)
    tap_columns = (rushlight.arange(s, **numbers) * dilation_w).repeat(r)
    y = moved[:, :, :, 0] + tap_rows[:, None, None] + rows[:, None]
    x = moved[:, :, :, 1] + tap_columns[:, None, None] + columns
    # grid_sample's units, where -1 and 1 are the middles of the outermost pixels
    grid = rushlight.stack(
        (2 * x / max(width - 1, 1) - 1, 2 * y / max(height - 1, 1) - 1), -1
    ).flatten(0, 1)
    images = input.reshape(count * offset_groups, channels // offset_groups, height, width)
    taken = rushlight.nn.functional.grid_sample(
        images, grid.flatten(1, 2), padding_mode="zeros", align_corners=True
    ).view(count, offset_groups, channels // offset_groups, r * s, down, across)
    if use_mask:
        taken = taken * mask.view(count, offset_groups, 1, r * s, down, across)
    taken = taken.reshape(count, groups, channels // groups * r * s, down * across)
    matrix = weight.reshape(groups, outputs // groups, -1)
    return (matrix @ taken).view(count, outputs, down, across) + bias[:, None, None]


def _deform_conv2d_backward(grad, input, weight, offset, mask, bias, *window):
    operands = [x.detach().requires_grad_() for x in (input, weight, offset, mask, bias)]
    with rushlight.enable_grad():
        out = deform_conv2d(*operands, *window)
    found = rushlight.autograd.grad(out, operands, grad, allow_unused=True)
    return tuple(rushlight.zeros_like(x) if g is None else g for x, g in zip(operands, found))


def _keep(tensors, tensors_of):
    """What the formulas read: tensors, the images' sizes, and the inputs that are no tensors."""

    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*tensors_of(inputs, output))
        ctx.sizes, ctx.options = inputs[0].shape, inputs[tensors:]

    return setup_context


def _align_gradient(ctx, grad):
    (rois,) = ctx.saved_tensors
    *pooled, sampling_ratio, aligned = ctx.options
    result = _roi_align_backward(grad, rois, *pooled, *ctx.sizes, sampling_ratio, aligned)
    return result, *[None] * 6


def _pool_gradient(ctx, grad, _):
    return _roi_pool_backward(grad, *ctx.saved_tensors, *ctx.options, *ctx.sizes), *[None] * 4


def _convolution_gradient(ctx, grad):
    return *_deform_conv2d_backward(grad, *ctx.saved_tensors, *ctx.options), *[None] * 9


OPERATIONS: dict[str, dict[str, Any]] = {
    "torchvision": {
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": nms,
        f"roi_align({_REGIONS}, {_POOLED}, int sampling_ratio, bool aligned) -> Tensor":
            roi_align,
        f"_roi_align_backward({_GRADS}, {_POOLED}, {_SIZES}, int sampling_ratio, "
        "bool aligned) -> Tensor": _roi_align_backward,
        f"roi_pool({_REGIONS}, {_POOLED}) -> (Tensor, Tensor)": roi_pool,
        f"_roi_pool_backward({_GRADS}, Tensor argmax, {_POOLED}, {_SIZES}) -> Tensor":
            _roi_pool_backward,
        f"deform_conv2d({_OPERANDS}, {_WINDOW}) -> Tensor": deform_conv2d,
        f"_deform_conv2d_backward(Tensor grad, {_OPERANDS}, {_WINDOW}) -> "
        "(Tensor, Tensor, Tensor, Tensor, Tensor)": _deform_conv2d_backward,
        "_cuda_version() -> int": lambda: -1,
        f"ps_roi_align({_REGIONS}, {_POOLED}, int sampling_ratio) -> (Tensor, Tensor)": None,
        f"_ps_roi_align_backward({_GRADS}, Tensor channel_mapping, {_POOLED}, "
        f"int sampling_ratio, {_SIZES}) -> Tensor": None,
        f"ps_roi_pool({_REGIONS}, {_POOLED}) -> (Tensor, Tensor)": None,
        f"_ps_roi_pool_backward({_GRADS}, Tensor channel_mapping, {_POOLED}, {_SIZES})"
        " -> Tensor": None,
        "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor": None,
        "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor": None,
        f"qroi_align({_REGIONS}, {_POOLED}, int sampling_ratio, bool aligned) -> Tensor": None,
    }
}  # fmt: skip
GRADIENTS = {
    "torchvision::roi_align":
        (_align_gradient, _keep(2, lambda inputs, output: inputs[1:2])),
    "torchvision::roi_pool":
        (_pool_gradient, _keep(2, lambda inputs, output: (inputs[1], output[1]))),
    "torchvision::deform_conv2d":
        (_convolution_gradient, _keep(5, lambda inputs, output: inputs[:5])),
}  # fmt: skip
