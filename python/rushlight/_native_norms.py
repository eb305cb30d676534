"""The normalisations of `torch` that also give what their gradients need, and copies of views.

Of the statistics, those of groups have gradients, as torch's.
"""

from __future__ import annotations

import functools
import inspect

import rushlight
from rushlight._numpy_names import take_numpy_names
from rushlight._out import into, into_each
from rushlight._shown_name import shown_as
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight import Tensor


def _statistics(input, dims, eps, keepdim):
    wide = input.float() if input.dtype in (rushlight.float16, rushlight.bfloat16) else input
    variance, mean = rushlight.var_mean(wide, dims, correction=0, keepdim=keepdim)
    return mean, (variance + eps).rsqrt()


def native_layer_norm(
    input: Tensor, normalized_shape: list[int], weight: Tensor | None, bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return (layer_norm, mean, 1 / standard deviation); see `nn.functional.layer_norm`."""
    output = F.layer_norm(input, normalized_shape, weight, bias, eps)
    dims = list(range(-len(normalized_shape), 0))
    mean, rstd = _statistics(input.detach(), dims, eps, True)
    return output, mean.to(input.dtype), rstd.to(input.dtype)


@shown_as("NativeGroupNormBackward0", "input", "weight", "bias")
def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int,
    group: int, eps: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Return (group_norm, mean, 1 / standard deviation); see `nn.functional.group_norm`.

    Args:
        N, C, HxW: how many samples, channels and places `input` has.
        group: the number of groups.
    """
    if input.numel() != N * C * HxW:
        raise RuntimeError(
            f"native_group_norm: {N} * {C} * {HxW} elements are said, and input has {input.numel()}"
        )
    output = F.group_norm(input.reshape(N, C, HxW), group, weight, bias, eps)
    mean, rstd = _statistics(input.reshape(N, group, C // group * HxW), [2], eps, False)
    return output.reshape(input.shape), mean.to(input.dtype), rstd.to(input.dtype)


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, *,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return (batch_norm, mean, 1 / standard deviation), the latter empty in evaluation.

    See `nn.functional.batch_norm`. In evaluation only the first tensor of `out` is written.
    """
    return _batch_norm_into(
        "native_batch_norm", "NativeBatchNormBackward0", out,
        input, weight, bias, running_mean, running_var, training, momentum, eps,
    )  # fmt: skip


def _native_batch_norm_legit(
    *arguments: Any, out: Sequence[Tensor] | None = None, **named: Any
) -> tuple[Tensor, ...]:
    """Return what `native_batch_norm` does, of the same arguments, with or without the running
    statistics.
    """
    without = len(arguments) + len(named) == 6
    signature = _WITHOUT_STATISTICS if without else _WITH_STATISTICS
    try:
        given = signature.bind(*arguments, **named).arguments
    except TypeError as error:
        raise TypeError(f"_native_batch_norm_legit{signature}: {error}") from None
    given = {"running_mean": None, "running_var": None, **given}
    node = f"NativeBatchNormLegitBackward{int(without)}"
    return _batch_norm_into("_native_batch_norm_legit", node, out, **given)


def _native_batch_norm_legit_no_training(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor,
    running_var: Tensor, momentum: float, eps: float, *, out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return what `native_batch_norm` does in evaluation."""
    return _batch_norm_into(
        "_native_batch_norm_legit_no_training", "NativeBatchNormLegitNoTrainingBackward0", out,
        input, weight, bias, running_mean, running_var, False, momentum, eps,
    )  # fmt: skip


_WITH_STATISTICS = inspect.Signature(
    inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    for name in "input weight bias running_mean running_var training momentum eps".split()
)
_WITHOUT_STATISTICS = _WITH_STATISTICS.replace(
    parameters=[p for n, p in _WITH_STATISTICS.parameters.items() if not n.startswith("running")]
)


def _batch_norm_into(
    name, node, out, input, weight, bias, running_mean, running_var, training, momentum, eps
):
    given = (t for t in (weight, bias, running_mean, running_var) if t is not None)
    dtype = next(given, input).dtype
    options = running_mean, running_var, training, momentum, eps, dtype
    if out is None:
        return _batch_norm_of(node)(input, weight, bias, *options)
    if isinstance(out, rushlight.Tensor) or len(out) != 3:
        got = "a Tensor" if isinstance(out, rushlight.Tensor) else len(out)
        raise TypeError(f"{name}(): argument 'out': expected a tuple of 3 Tensors but got {got}")
    written = 3 if training else 1
    into_each(
        name, out[:written], input, lambda: _batch_norm(input, weight, bias, *options)[:written]
    )
    return tuple(out)


def _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, dtype):
    output = F._batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return output, input.new_empty(0), input.new_empty(0)
    dims = [0, *range(2, input.dim())]
    return output, *(s.to(dtype) for s in _statistics(input.detach(), dims, eps, False))


@functools.cache
def _batch_norm_of(node):
    return shown_as(node, "input", "weight", "bias")(_batch_norm)


def split_with_sizes_copy(
    input: Tensor, split_sizes: list[int], dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...] | None:
    """Return copies of the parts that `split_with_sizes` shows; None if they are written to
    `out`.
    """
    return _copies(
        "split_with_sizes_copy", "SplitWithSizesBackward0_copy", input, out,
        lambda input: input.split_with_sizes(split_sizes, dim),
    )  # fmt: skip


def split_copy(
    input: Tensor, split_size: int, dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...] | None:
    """Return copies of the parts that `split` shows; None if they are written to `out`."""
    return _copies(
        "split_copy", "SplitBackward0_copy", input, out, lambda input: input.split(split_size, dim)
    )


def unbind_copy(
    input: Tensor, dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...] | None:
    """Return copies of what `unbind` shows; None if they are written to `out`."""
    return _copies(
        "unbind_copy", "UnbindBackward0_copy", input, out, lambda input: input.unbind(dim)
    )


def _copies(name, node, input, out, parts):
    if out is not None:
        return into_each(name, out, input, lambda: parts(input))
    return _copies_of(node)(input, parts)


@functools.cache
def _copies_of(node):
    return shown_as(node, "input")(lambda input, parts: tuple(p.clone() for p in parts(input)))


def _chunk_cat(
    tensors: Sequence[Tensor], dim: int, num_chunks: int, *, out: Tensor | None = None
) -> Tensor:
    """Return chunk i of all tensors side by side, for each i: what a collective sends to rank i.

    Args:
        tensors: of one dtype, and of the same sizes in the dims before `dim`.
        dim: which is cut; zeros are added after its last elements where it has no multiple of
            `num_chunks`.
        num_chunks: the size of `dim` of the result; the next dim has the chunks, flattened.
        out: the result's place.
    """
    if num_chunks < 1:
        raise RuntimeError(f"_chunk_cat: expected a positive num_chunks but got {num_chunks}")
    if not tensors:
        raise RuntimeError("_chunk_cat: expected at least one tensor but got none")
    first = tensors[0]
    if not -first.dim() <= dim < first.dim():
        raise IndexError(f"_chunk_cat: dim {dim} is out of range for shape {tuple(first.shape)}")
    dim %= first.dim()
    chunks = []
    for tensor in tensors:
        if tensor.dtype != first.dtype or tensor.device != first.device:
            raise RuntimeError(
                f"_chunk_cat: expected tensors of {first.dtype} on {first.device} but got one of "
                f"{tensor.dtype} on {tensor.device}"
            )
        if not tensor.numel() or tensor.dim() <= dim or tensor.shape[:dim] != first.shape[:dim]:
            raise RuntimeError(
                f"_chunk_cat: expected elements, and the sizes {tuple(first.shape[:dim])} before "
                f"dim {dim}, but got shape {tuple(tensor.shape)}"
            )
        missing = -tensor.shape[dim] % num_chunks
        padded = F.pad(tensor, [0, 0] * (tensor.dim() - dim - 1) + [0, missing])
        chunks.append(padded.reshape(*first.shape[:dim], num_chunks, -1))
    return into(out, rushlight.cat(chunks, dim + 1))


def _convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: list[int], padding: list[int],
    dilation: list[int], transposed: bool, output_padding: list[int], groups: int,
    benchmark: bool = False, deterministic: bool = False, cudnn_enabled: bool = False,
    allow_tf32: bool = True,
) -> Tensor:  # fmt: skip
    """Return `convolution`; the last four arguments choose among algorithms that are not here."""
    del benchmark, deterministic, cudnn_enabled, allow_tf32
    return rushlight.convolution(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )


take_numpy_names(globals(), "_chunk_cat _convolution _native_batch_norm_legit_no_training")
rushlight.overrides._make_overridable(
    globals(), "rushlight",
    only="""_chunk_cat _native_batch_norm_legit native_batch_norm native_group_norm
    native_layer_norm split_copy split_with_sizes_copy unbind_copy""".split(),
)  # fmt: skip
