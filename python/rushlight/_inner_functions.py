"""Functions that torch's own modules are made of and some programs call: steps of packing, of
gradient scaling, of dropout and sampling, and copies of what views show.
"""

from __future__ import annotations

import rushlight
from rushlight._out import into
from rushlight.library._forward import FUNCTIONS as _OPERATIONS
from rushlight.utils.dlpack import to_dlpack as to_dlpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor

# What torch.ops.aten has under the same name.
_embedding_bag = _OPERATIONS["_embedding_bag"]
_fft_c2c, _fft_c2r, _fft_r2c = (_OPERATIONS[f"_fft_{kind}"] for kind in ("c2c", "c2r", "r2c"))
_linalg_det, _linalg_slogdet = _OPERATIONS["_linalg_det"], _OPERATIONS["_linalg_slogdet"]
_linalg_eigh, _linalg_svd = _OPERATIONS["_linalg_eigh"], _OPERATIONS["_linalg_svd"]
_prelu_kernel, _unique2 = _OPERATIONS["_prelu_kernel"], _OPERATIONS["_unique2"]


# ---- copies of views


def slice_copy(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1,
    *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return a copy of the elements start, start + step, ... before end along a dim.

    Example:
        >>> rushlight.slice_copy(rushlight.arange(6), 0, 1, 6, 2)
        tensor([1, 3, 5])
    """
    if step < 1:
        raise RuntimeError(f"slice step must be positive, got {step}")
    index = [slice(None)] * input.dim()
    index[dim] = slice(start, end, step)
    return into(out, input[tuple(index)].clone())


def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy without history.

    Example:
        >>> rushlight.detach_copy(rushlight.ones(1, requires_grad=True))
        tensor([1.])
    """
    return into(out, input.detach().clone())


def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of what `view_as_real` shows.

    Example:
        >>> rushlight.view_as_real_copy(rushlight.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """
    return into(out, rushlight.view_as_real(input).clone())


def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of what `view_as_complex` shows.

    Example:
        >>> rushlight.view_as_complex_copy(rushlight.tensor([[1.0, 2.0]]))
        tensor([1.+2.j])
    """
    return into(out, rushlight.view_as_complex(input).clone())


def indices_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of a sparse tensor's `indices()`."""
    return into(out, input.indices().clone())


def values_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of a sparse tensor's `values()`."""
    return into(out, input.values().clone())


def crow_indices_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of a sparse tensor's `crow_indices()`."""
    return into(out, input.crow_indices().clone())


def col_indices_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of a sparse tensor's `col_indices()`."""
    return into(out, input.col_indices().clone())


def ccol_indices_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of a sparse tensor's `ccol_indices()`."""
    return into(out, input.ccol_indices().clone())


def row_indices_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return a copy of a sparse tensor's `row_indices()`."""
    return into(out, input.row_indices().clone())


# ---- tests of all elements


def _is_all_true(input: Tensor) -> Tensor:
    """Return whether all elements of a tensor of bools are true, 0-d."""
    return _checked_bools("_is_all_true", input).all()


def _is_any_true(input: Tensor) -> Tensor:
    """Return whether an element of a tensor of bools is true, 0-d."""
    return _checked_bools("_is_any_true", input).any()


def _checked_bools(name, input):
    if input.dtype is not rushlight.bool:
        raise RuntimeError(f"{name}: expected a tensor of bools, got {input.dtype}")
    return input


def cudnn_is_acceptable(tensor: Tensor) -> bool:
    """Return whether cuDNN could be used for a tensor.

    Example:
        >>> rushlight.cudnn_is_acceptable(rushlight.ones(2))
        False
    """
    return tensor.numel() > 0 and rushlight.backends.cudnn.is_acceptable(tensor)


# ---- dropout, packed sequences


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return (`dropout(input, p, train)`, the mask of what was kept).

    Example:
        >>> rushlight.native_dropout(rushlight.ones(2), 0.5, False)
        (tensor([1., 1.]), tensor([True, True]))
    """
    if train is False or p == 0:
        return input.clone(), rushlight.ones_like(input, dtype=rushlight.bool)
    if p == 1:
        return input * 0, rushlight.zeros_like(input, dtype=rushlight.bool)
    mask = rushlight.empty_like(input, dtype=rushlight.bool).bernoulli_(1 - p)
    return input * mask * (1 / (1 - p)), mask


def _pack_padded_sequence(
    input: Tensor, lengths: Tensor, batch_first: bool
) -> tuple[Tensor, Tensor]:
    """Return (data, batch sizes) of a `PackedSequence` of sequences sorted by falling length."""
    packed = rushlight.nn.utils.rnn.pack_padded_sequence(input, lengths, batch_first)
    return packed.data, packed.batch_sizes


def _pad_packed_sequence(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[Tensor, Tensor]:
    """Return (padded sequences, their lengths); a `total_length` of 0 or less is the longest."""
    packed = rushlight.nn.utils.rnn.PackedSequence(data, batch_sizes)
    return rushlight.nn.utils.rnn.pad_packed_sequence(
        packed, batch_first, padding_value, total_length if total_length > 0 else None
    )


# ---- scaled gradients


def _amp_foreach_non_finite_check_and_unscale_(
    self: Sequence[Tensor], found_inf: Tensor, inv_scale: Tensor
) -> None:
    """Multiply tensors by `inv_scale`, in place; `found_inf` becomes 1 if one was not finite.

    Args:
        self: gradients of floating point.
        found_inf: float32 of one element: 0, or 1 from an earlier call, which stays.
        inv_scale: float32 of one element.
    """
    for name, value in (("found_inf", found_inf), ("inv_scale", inv_scale)):
        if value.numel() != 1 or value.dtype is not rushlight.float32:
            raise RuntimeError(
                f"_amp_foreach_non_finite_check_and_unscale_: {name} must be float32 of one"
                f" element, got {value.dtype} of shape {tuple(value.shape)}"
            )
    with rushlight.no_grad():
        for grad in self:
            values = grad._values() if grad.is_sparse else grad
            wrong = (~rushlight.isfinite(values)).any().to(found_inf.device)
            found_inf.masked_fill_(wrong.view(()), 1.0)
            values.mul_(inv_scale.view(()).to(values.device))


def _amp_update_scale_(
    self: Tensor, growth_tracker: Tensor, found_inf: Tensor, scale_growth_factor: float,
    scale_backoff_factor: float, growth_interval: int,
) -> Tensor:  # fmt: skip
    """Update the scale of gradients, `self`, after a step, in place.

    Args:
        self: float32 of one element.
        growth_tracker: int32 of one element: steps in a row without overflow; changed in place.
        found_inf: float32 of one element; not 0 if gradients overflowed in this step.
        scale_growth_factor: the factor after `growth_interval` steps without overflow, unless
            the scale would become infinite.
        scale_backoff_factor: the factor after an overflow.
    """
    with rushlight.no_grad():
        overflowed = found_inf.view(()).to(self.device) != 0
        steps = rushlight.where(overflowed, 0, growth_tracker + 1)
        grown = (steps == growth_interval).view(())
        larger = self * scale_growth_factor
        larger = rushlight.where(grown & rushlight.isfinite(larger), larger, self)
        self.copy_(rushlight.where(overflowed, self * scale_backoff_factor, larger))
        growth_tracker.copy_(rushlight.where(grown, 0, steps))
    return self


# ---- gradients of random numbers, quantized products, attention


def _standard_gamma_grad(self: Tensor, output: Tensor) -> Tensor:
    """Return the derivatives of gamma numbers `output` by their concentrations `self`."""
    from rushlight.distributions._implicit import _gamma_cdf_and_shift

    return _gamma_cdf_and_shift(self.detach(), output.detach())[1].to(self.dtype)


def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """Return dx/dalpha / (1 - x) of Dirichlet numbers x, where alphas add up to `total`."""
    from rushlight.distributions._implicit import _dirichlet_shift

    return _dirichlet_shift(x.detach(), alpha.detach(), total.detach()).to(x.dtype)


def _weight_int8pack_mm(self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """Return self @ (mat2.T * scales): a product by a weight of bytes.

    Args:
        self: (M, K), of floating point.
        mat2: (N, K), int8.
        scales: (N,), what the rows of `mat2` are multiplied by.
    """
    if mat2.dtype is not rushlight.int8 or mat2.dim() != 2 or self.dim() != 2:
        raise RuntimeError(
            "_weight_int8pack_mm: expected self (M, K) and mat2 (N, K) of int8, got"
            f" {tuple(self.shape)} and {tuple(mat2.shape)} of {mat2.dtype}"
        )
    return (self @ mat2.to(self.dtype).t()) * scales.to(self.dtype)


def _convert_weight_to_int4pack_for_cpu(self: Tensor, innerKTiles: int) -> Tensor:
    """Return a weight of 4 bits in half as many bytes, for `_weight_int4pack_mm_for_cpu`.

    Args:
        self: (N, K), int32 from 0 to 15; N is a multiple of 16, and K of 2.
        innerKTiles: of other devices' layouts; here there is one.
    """
    is_matrix = self.dtype is rushlight.int32 and self.dim() == 2
    if not is_matrix or self.size(0) % 16 or self.size(1) % 2:
        raise RuntimeError(
            "_convert_weight_to_int4pack_for_cpu: expected int32 of shape (16 n, 2 k), got"
            f" {tuple(self.shape)} of {self.dtype}"
        )
    return (self[:, ::2] + 16 * self[:, 1::2]).to(rushlight.uint8)


def _weight_int4pack_mm_for_cpu(
    self: Tensor, mat2: Tensor, qGroupSize: int, qScaleAndZeros: Tensor
) -> Tensor:
    """Return self @ weight.T, where the weight is (4 bits - 8) * scale + zero.

    Args:
        self: (M, K), of floating point.
        mat2: what `_convert_weight_to_int4pack_for_cpu` made of (N, K).
        qGroupSize: how many elements of a row have a scale and a zero: 32, 64, 128 or 256.
        qScaleAndZeros: (K / qGroupSize, N, 2), of the dtype of `self`.
    """
    rows, groups = mat2.size(0), self.size(-1) // qGroupSize
    if qGroupSize not in (32, 64, 128, 256):
        raise RuntimeError(
            f"_weight_int4pack_mm_for_cpu: qGroupSize is 32, 64, 128 or 256, got {qGroupSize}"
        )
    if (
        mat2.dtype is not rushlight.uint8
        or self.shape[1:] != (2 * mat2.size(1),)
        or qScaleAndZeros.shape != (groups, rows, 2)
        or qScaleAndZeros.dtype != self.dtype
    ):
        raise RuntimeError(
            "_weight_int4pack_mm_for_cpu: shapes or dtypes that do not go together:"
            f" {tuple(self.shape)} of {self.dtype}, {tuple(mat2.shape)} of {mat2.dtype}, groups of"
            f" {qGroupSize}, {tuple(qScaleAndZeros.shape)} of {qScaleAndZeros.dtype}"
        )
    scale, zero = qScaleAndZeros.float().permute(2, 1, 0).unsqueeze(-1)
    four_bits = rushlight.stack([mat2 & 15, mat2 >> 4], -1).reshape(rows, groups, qGroupSize)
    weight = (four_bits.float() - 8) * scale + zero
    return self @ weight.reshape(rows, -1).to(self.dtype).t()


def _scaled_dot_product_attention_math(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None,
    dropout_p: float = 0.0, is_causal: bool = False, dropout_mask: Tensor | None = None, *,
    scale: float | None = None, enable_gqa: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return (attention, the weights that were used), by plain operations.

    Args:
        dropout_mask: bools, which weights are kept; drawn if it is None and dropout_p is not 0.
        others: see `nn.functional.scaled_dot_product_attention`.
    """
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError(
                "_scaled_dot_product_attention_math: attn_mask beside is_causal=True"
            )
        attn_mask = query.new_ones(query.size(-2), key.size(-2), dtype=rushlight.bool).tril()
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    factor = query.size(-1) ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if attn_mask is not None:
        if attn_mask.dtype is rushlight.bool:
            scores = scores.masked_fill(~attn_mask, -float("inf"))
        else:
            scores = scores + attn_mask
    weights = _OPERATIONS["_safe_softmax"](scores, -1)
    if dropout_p > 0:
        if dropout_mask is None:
            weights = rushlight.nn.functional.dropout(weights, dropout_p)
        else:
            weights = weights.masked_fill(~dropout_mask, 0.0) / (1 - dropout_p)
    return weights @ value, weights

rushlight.overrides._make_overridable(
    globals(), "rushlight", only=("_is_all_true", "_is_any_true")
)


rushlight.overrides._make_overridable(
    globals(), "rushlight", classes_alone=True,
    only="""ccol_indices_copy col_indices_copy crow_indices_copy detach_copy indices_copy
    native_dropout row_indices_copy slice_copy values_copy view_as_complex_copy
    view_as_real_copy""".split(),
)  # fmt: skip
