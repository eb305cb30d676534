"""Which operations compute with parts, and with which: by the kinds that `vmap` has for the rows of
the op table (`_op_rules.BATCH`), since what keeps examples apart keeps parts apart.

A rule gets a `Call` and the arguments, and returns the result; or NotImplemented where the
arguments are beyond it.
"""

from __future__ import annotations

import functools
import inspect
import string

import rushlight
from rushlight import Tensor
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor._options import (
    Call,
    Option,
    is_whole,
    kept_dims,
    labelled,
    moved_to,
    placements_of,
    run_in_parts,
)
from rushlight.distributed.tensor.placement_types import Partial, Replicate, Shard
from rushlight.func._batching._rules import is_loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

# Of sums that lie in parts they give sums that lie in parts.
_LINEAR = frozenset(
    "neg negative positive detach clone contiguous zeros_like empty_like float double cpu zero "
    "__neg__".split()
)
_SUMS = frozenset("add sub __add__ __radd__ __sub__ __rsub__".split())
_PRODUCTS = frozenset("mul multiply __mul__ __rmul__".split())
_QUOTIENTS = frozenset("div divide true_divide __truediv__".split())

_rules: dict[str, Callable[..., Any]] = {}


def rule(names: str) -> Callable[..., Any]:
    """Registers the rule of kinds of operations, or by "op name" of one."""

    def decorate(function):
        parameters = inspect.signature(function)

        def checked(call):
            try:
                parameters.bind(call, *call.args, **call.kwargs)
            except TypeError:  # another overload, or an error that the operation reports
                return NotImplemented
            return function(call, *call.args, **call.kwargs)

        for name in names.split(","):
            _rules[name.strip()] = checked
        return function

    return decorate


@functools.cache
def _kinds():
    from rushlight._op_rules import BATCH

    return {name: kinds.split() for kinds, names in BATCH.items() for name in names}


def rules_of(name: str, func: Callable[..., Any] | None = None) -> Sequence[Callable[..., Any]]:
    """The rules to be tried for an operation, in this order."""
    if func is not None and is_loop(name, func):  # of another module, with the name of one
        return ()
    kinds = [f"op {name}", *_kinds().get(name, ())]
    return [_rules[kind] for kind in kinds if kind in _rules]


def kinds_of(name: str) -> Sequence[str]:
    """The kinds of an operation's overloads."""
    return _kinds().get(name, ())


# ---- element by element


def _letters(ndim):
    return string.ascii_letters[:ndim]


@rule("elementwise, where, extremum, fill")
def _elementwise(call: Call, *args: Any, **kwargs: Any) -> Any:
    """Operands are broadcast against each other."""
    at_least = {"max": 2, "min": 2, "where": 2}.get(call.name, 1)  # fewer: another operation
    if kwargs.get("out") is not None or len(call.operands) < at_least:
        return NotImplemented
    if max(operand.dim() for operand in call.operands) > len(string.ascii_letters):
        return NotImplemented
    return run_in_parts(call, lambda i: of_elements(call, i))


def of_elements(call: Call, i: int) -> Sequence[Option]:
    """Options of an operation on the elements of operands that are broadcast."""
    ndim = max(operand.dim() for operand in call.operands)
    out = _letters(ndim)
    divided = labelled(call, [(one, out[ndim - one.dim() :]) for one in call.operands], out)
    return (*_partial_option(call, i), *divided(i))


def _partial_option(call, i):
    """The sum of tensors that are Partial is Partial, and so is one times what is not."""
    partial = [placements_of(one, call.mesh)[i].is_partial("sum") for one in call.operands]
    if not any(partial) or "rounding_mode" in call.kwargs:
        return ()
    name = call.name  # in place or not
    name = f"__{name[3:]}" if name.startswith("__i") else name
    name = name.removesuffix("_") if not name.startswith("__") else name
    if name in _SUMS:
        known = all(partial) and len(partial) == 2
    elif name in _PRODUCTS:
        known = partial.count(True) == 1
    elif name in _QUOTIENTS:
        known = partial[0] and not any(partial[1:]) and isinstance(call.args[0], Tensor)
    else:
        known = name in _LINEAR
    if not known:
        return ()
    return (Option([Partial() if one else Replicate() for one in partial], Partial()),)


@rule(
    "op clone, op detach, op contiguous, op to, op float, op double, op half, op bfloat16, op int, "
    "op long, op short, op bool, op byte, op char, op cfloat, op cdouble, op cpu, op type, "
    "op softplus, op dropout, op zeros_like, op ones_like, op full_like, op empty_like"
)
def _same_shape(call: Call, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    if len(call.operands) != 1 or kwargs.get("out") is not None:
        return NotImplemented
    return run_in_parts(call, kept_dims(call, lambda d: d, linear=call.name in _LINEAR))


@rule("op type_as")
def _type_as(call: Call, input: Tensor, other: Tensor) -> Any:
    return input.to(other.dtype)


# ---- along dims

# What they work along stays a dim of the result.
_KEEP_RANK = frozenset(
    "softmax log_softmax _softmax _log_softmax argsort chunk cummax cummin cumprod cumsum diff "
    "flip glu logcumsumexp narrow roll sort split split_with_sizes tensor_split topk unsafe_chunk "
    "unsafe_split rot90 repeat_interleave cumprod_ cumsum_".split()
)
_SUMMED = frozenset(("sum", "nansum", "mean", "count_nonzero"))


def _dims(call):
    """The dims that an operation works along, from its arguments; None: all."""
    from rushlight._op_rules import DIMS

    place, key, default, spread, _ = DIMS[call.name]
    args = call.args[1:]
    if key in call.kwargs:
        dims = call.kwargs[key]
    elif len(call.args) > place:
        dims = call.args[place]
        if spread and isinstance(dims, int) and len(call.args) > place + 1:
            dims = args[place - 1 :]
    else:
        dims = default
    if isinstance(dims, bool):  # std(unbiased)
        return None
    return dims


@rule("dim, op max, op min, op median, op nanmedian")
def _along_dims(call: Call, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """What works along dims keeps others apart."""
    ndim, dims = input.dim(), _dims(call)
    if len(call.operands) != 1 or isinstance(dims, str) or call.name == "unfold" and not ndim:
        return NotImplemented
    everything = dims is None or isinstance(dims, (tuple, list)) and not dims
    if everything:
        along = set(range(ndim))
    else:
        listed = dims if isinstance(dims, (tuple, list)) else (dims,)
        along = {d % ndim for d in listed if -ndim <= d < ndim} if ndim else set()

    def kept(d):
        if d in along:
            return None
        if call.name in _KEEP_RANK or call.name == "unfold" or _keeps_dims(call):
            return d
        if call.name == "unflatten":
            return d if d < min(along) else d + len(_argument(call, 2, "sizes")) - 1
        return d - sum(one < d for one in along)

    if call.name in _SUMMED:
        return _summed(call, along, kept)
    linear = call.name in ("select", "narrow", "unbind", "split", "chunk", "unflatten", "cumsum")
    return run_in_parts(call, kept_dims(call, kept, linear))


def _argument(call, place, key):
    return call.kwargs[key] if key in call.kwargs else call.args[place]


# Where `keepdim` stands among the arguments.
_KEEPDIM_AT = {
    "var": 3, "std": 3, "var_mean": 3, "std_mean": 3, "vector_norm": 3, "kthvalue": 3,
    "quantile": 3, "nanquantile": 3,
}  # fmt: skip


def _keeps_dims(call):
    place = _KEEPDIM_AT.get(call.name, 2)
    if call.name in ("select", "unbind"):
        return False
    return bool(call.kwargs.get("keepdim", call.args[place] if len(call.args) > place else False))


def _summed(call, along, kept):
    """Sums of parts are summed; a mean is a sum of parts by the whole's number of elements."""
    input = call.first

    def options(i):
        placement = placements_of(input, call.mesh)[i]
        if placement._divides() and placement.dim in along:
            return (Option([placement], Partial()),)
        return kept_dims(call, kept, linear=call.name in ("sum", "mean"))(i)

    def local(chosen, args, kwargs):
        if call.name != "mean" or all(not option.out.is_partial() for option in chosen):
            return call.func(*args, **kwargs)
        count = 1
        for d in along:
            count *= input.shape[d] / max(args[0].shape[d], 1)
        if args[0].numel():
            return call.func(*args, **kwargs) / count
        return args[0].sum(*args[1:], **kwargs)  # zeros, where a mean of nothing is not

    return run_in_parts(call, options, local)


@rule("leading")
def _leading(call: Call, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Matrices in the last two dims, or images in the last three, any number of them."""
    if len(call.operands) != 1 or kwargs.get("out") is not None:
        return NotImplemented
    own = 3 if call.name.startswith("pixel_") else 2
    return run_in_parts(call, kept_dims(call, lambda d: d if d < input.dim() - own else None))


@rule("at_dim")
def _at_dim(call: Call, input: Tensor, dim: int, index: Tensor, *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("out") is not None or not input.dim():
        return NotImplemented
    letters = [*_letters(input.dim())]
    letters[dim] = "."
    others = [one for one in call.operands if one is not input]
    for d in range(input.dim()):
        if any(one.dim() != input.dim() or one.shape[d] != input.shape[d] for one in others):
            letters[d] = "."
    word = "".join(letters)
    return run_in_parts(call, labelled(call, [(one, word) for one in call.operands], word))


@rule("index_select")
def _index_select(call: Call, input: Tensor, dim: int, index: Tensor) -> Any:
    if not input.dim():
        return NotImplemented
    letters = [*_letters(input.dim())]
    letters[dim] = "."
    word = "".join(letters)
    return run_in_parts(call, labelled(call, [(input, word), (index, ".")], word))


# ---- other views of the same elements


@rule(
    "reshape, flatten, squeeze, unsqueeze, t, transpose, permute, movedim, expand, op unflatten, "
    "op ravel, op T, op mT, op H, op mH"
)
def _viewed(call: Call, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """A division of the whole's elements stays one where the view keeps blocks of them together."""
    if any(isinstance(one, rushlight.dtype) for one in args) or len(call.operands) != 1:
        return NotImplemented
    whole = rushlight.empty(tuple(input.shape), device="meta")
    with rushlight.no_grad():
        seen = call.func(whole, *args, **kwargs)

    def options(i):
        placement = placements_of(input, call.mesh)[i]
        if placement.is_partial("sum"):
            return (Option([placement], placement),)
        if not placement._divides():
            return ()
        place = _same_blocks(whole, placement.dim, seen, call.mesh.size(i))
        if place is None:
            return ()
        return (Option([placement], moved_to(placement, place), seen.shape[place]),)

    def local(chosen, args, kwargs):
        if all(not option.out._divides() for option in chosen):
            return call.func(*args, **kwargs)
        if call.name not in _IN_ORDER:
            return call.func(*args, **kwargs)
        sizes = list(seen.shape)
        for i, option in enumerate(chosen):
            if option.out._divides():
                d, group = option.out.dim, call.mesh.get_group(i)
                sizes[d], _ = Shard.local_shard_size_and_offset(
                    sizes[d], group.size(), group.rank()
                )
        if call.name in ("expand", "broadcast_to"):
            return args[0].expand(sizes)
        return args[0].reshape(sizes)

    return run_in_parts(call, options, local)


# Views whose elements follow each other as before, so that sizes say all.
_IN_ORDER = frozenset("reshape view flatten squeeze unsqueeze unflatten ravel expand".split())


@rule("op view_as, op expand_as, op reshape_as")
def _viewed_as(call: Call, input: Tensor, other: Tensor) -> Any:
    """Of the other tensor the sizes alone are read."""
    if not isinstance(input, DTensor):
        return NotImplemented
    sizes = tuple(other.shape)
    return input.expand(sizes) if call.name == "expand_as" else input.reshape(sizes)


def _same_blocks(whole, dim, seen, count):
    """The dim of a view whose `count` parts have the elements of the parts of `dim`, or None."""
    length, stride = whole.shape[dim], whole.stride(dim)
    if length < 2:
        return None
    for place, (size, step) in enumerate(zip(seen.shape, seen.stride())):
        if (size, step) == (length, stride):
            return place
        if size * step == length * stride and size % count == length % count == 0:
            return place
    return None


@rule("op __getitem__, op select_by_index")
def _getitem(call: Call, input: Tensor, index: Any) -> Any:
    if not isinstance(input, DTensor) or len(call.operands) != 1:
        return NotImplemented
    entries = index if isinstance(index, tuple) else (index,)
    if not all(one is None or one is Ellipsis or type(one) in (int, slice) for one in entries):
        return NotImplemented
    places = _places_after(entries, input)

    def kept(d):
        return places.get(d)

    return run_in_parts(call, kept_dims(call, kept, linear=True))


def _places_after(entries, input):
    """The dims of which an index takes all, with their places in the result."""
    taken = sum(one is not None and one is not Ellipsis for one in entries)
    entries = list(entries)
    if Ellipsis not in [one for one in entries if one is Ellipsis]:
        entries.append(Ellipsis)
    at = next(i for i, one in enumerate(entries) if one is Ellipsis)
    entries[at : at + 1] = [slice(None)] * (input.dim() - taken)
    places, d, place = {}, 0, 0
    for one in entries:
        if one is None:
            place += 1
            continue
        if isinstance(one, slice):
            if one.indices(input.shape[d]) == (0, input.shape[d], 1):
                places[d] = place
            place += 1
        d += 1
    return places


# ---- several tensors in one


@rule("cat")
def _cat(call: Call, tensors: Sequence[Tensor], dim: int = 0) -> Any:
    ndim = tensors[0].dim()
    if any(one.dim() != ndim for one in tensors) or not -ndim <= dim < ndim:
        return NotImplemented
    letters = [*_letters(ndim)]
    letters[dim] = "."
    return _side_by_side(call, tensors, "".join(letters), "".join(letters))


@rule("stack")
def _stack(call: Call, tensors: Sequence[Tensor], dim: int = 0) -> Any:
    ndim = tensors[0].dim()
    if any(one.shape != tensors[0].shape for one in tensors) or not -ndim - 1 <= dim <= ndim:
        return NotImplemented
    word = _letters(ndim)
    dim %= ndim + 1
    return _side_by_side(call, tensors, word, word[:dim] + "." + word[dim:])


def _side_by_side(call, tensors, word, out):
    divided = labelled(call, [(one, word) for one in tensors], out)

    def options(i):
        if all(placements_of(one, call.mesh)[i].is_partial("sum") for one in tensors):
            return (Option([Partial()] * len(tensors), Partial()),)
        return divided(i)

    return run_in_parts(call, options)


# ---- products


@rule("matmul")
def _matmul(call: Call, input: Tensor, other: Tensor) -> Any:
    if call.name == "__rmatmul__":
        return rushlight.matmul(other, input)
    if not input.dim() or not other.dim():
        return NotImplemented
    batch = _letters(max(input.dim(), other.dim(), 2) - 2).upper()
    left = (batch[max(len(batch) - input.dim() + 2, 0) :] + "m" if input.dim() > 1 else "") + "k"
    right = batch[max(len(batch) - other.dim() + 2, 0) :] if other.dim() > 1 else ""
    right += "kn" if other.dim() > 1 else "k"
    out = batch + ("m" if input.dim() > 1 else "") + ("n" if other.dim() > 1 else "")
    return run_in_parts(call, labelled(call, [(input, left), (other, right)], out, "k"))


@rule("outer")
def _outer(call: Call, input: Tensor, vec2: Tensor) -> Any:
    return run_in_parts(call, labelled(call, [(input, "m"), (vec2, "n")], "mn"))


@rule("linear")
def _linear(call: Call, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if weight.dim() != 2 or not input.dim():
        return NotImplemented
    batch = _letters(input.dim() - 1).upper()
    entries = [(input, batch + "k"), (weight, "nk"), *([] if bias is None else [(bias, "n")])]
    return run_in_parts(call, labelled(call, entries, batch + "n", "k", bias))


def _bound(names, args, kwargs):
    return [args[i] if i < len(args) else kwargs[name] for i, name in enumerate(names)]


@rule("op addmm, op addmv, op baddbmm")
def _add_product(
    call: Call, input: Any, first: Any, second: Any, *, beta: Any = 1, alpha: Any = 1
) -> Any:
    product = rushlight.matmul(first, second)
    product = product if alpha == 1 else product * alpha
    return product if not beta else product + (input if beta == 1 else input * beta)


@rule("attention")
def _attention(
    call: Call, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Examples and heads are apart, and queries where no mask depends on their places."""
    ndim = query.dim()
    if ndim < 2 or key.dim() != ndim or value.dim() != ndim:
        return NotImplemented
    batch = _letters(ndim - 2).upper()
    if enable_gqa and len(batch) and not _equal_groups(call, query, key):
        batch = batch[:-1] + "."
    place = "." if is_causal else "q"
    words = [(query, batch + place + "."), (key, batch + ".."), (value, batch + "..")]
    if attn_mask is not None:
        mask = batch + place + "."
        words.append((attn_mask, mask[ndim - attn_mask.dim() :]))
    options = labelled(call, words, batch + place + ".")
    if enable_gqa and len(batch) and query.shape[-3] != key.shape[-3]:
        options = _of_grouped_heads(call, words, batch, place)
    return run_in_parts(call, options)


def _equal_groups(call, query, key):
    return all(query.shape[-3] % size == key.shape[-3] % size == 0 for size in call.mesh.mesh.shape)


def _of_grouped_heads(call, words, batch, place):
    """Options where several heads of queries share one of keys: the same parts of both."""
    if batch[-1] == ".":
        return labelled(call, words, batch + place + ".")
    heads = len(batch) - 1
    rest = [(tensor, word.replace(batch[-1], ".")) for tensor, word in words]
    others = labelled(call, rest, batch[:-1] + "." + place + ".")
    length = words[0][0].shape[heads]

    def options(i):
        found = list(others(i))
        for tensor, word in words:
            placement = placements_of(tensor, call.mesh)[i]
            if placement._divides() and word[placement.dim] == batch[-1]:
                ins = [
                    moved_to(placement, w.index(batch[-1]))
                    if batch[-1] in w and t.shape[w.index(batch[-1])] != 1
                    else Replicate()
                    for t, w in words
                ]
                ins = call.by_identity([(t, one) for (t, _), one in zip(words, ins)])
                found.append(Option(ins, moved_to(placement, heads), length))
        return found

    return options


# ---- layers


@rule("embedding")
def _embedding(
    call: Call, input: Tensor, weight: Tensor, padding_idx: int | None = None,
    max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    if input.is_floating_point():  # torch.embedding, whose weight comes first
        return NotImplemented
    if max_norm is not None or sparse or scale_grad_by_freq or weight.dim() != 2:
        raise NotImplementedError(
            "DTensor: embedding with max_norm, scale_grad_by_freq or sparse is not supported; use "
            "to_local() or full_tensor()"
        )
    batch = _letters(input.dim()).upper()
    entries = [(input, batch), (weight, "ve")]
    run = _Embedding(call, weight, padding_idx)
    return run_in_parts(call, labelled(call, entries, batch + "e", "v"), run.local)


class _Embedding:
    """An embedding of whose rows each process may have some."""

    def __init__(self, call: Call, weight: Tensor, padding_idx: int | None) -> None:
        self._call, self._weight, self._padding = call, weight, padding_idx

    def local(self, chosen: Any, args: Any, kwargs: Any) -> Tensor:
        """Rows of other processes are zeros here, so that the sum over processes is the result."""
        divided = [i for i, option in enumerate(chosen) if option.out.is_partial()]
        if not divided:
            return self._call.func(*args, **kwargs)
        index, local = _bound(("input", "weight"), args, kwargs)
        rows = self._weight.shape[0]
        if index.numel() and not 0 <= index.min() <= index.max() < rows:
            raise IndexError(f"embedding: an index is not in [0, {rows})")
        begin, count = 0, rows
        for i in divided:
            group = self._call.mesh.get_group(i)
            count, first = Shard.local_shard_size_and_offset(count, group.size(), group.rank())
            begin += first
        if count == 0:
            shape = (*index.shape, local.shape[1])
            return local.new_zeros(shape) + local.sum() * 0
        inside = (index >= begin) & (index < begin + count)
        padding = self._padding
        if padding is not None:
            padding = padding % rows - begin
            padding = padding if 0 <= padding < count else None
        out = self._call.func(
            (index - begin).where(inside, rushlight.zeros_like(index)), local, padding
        )
        return out * inside.unsqueeze(-1)


@rule("op layer_norm")
def _layer_norm(
    call: Call, input: Tensor, normalized_shape: Any, weight: Any = None, bias: Any = None,
    eps: float = 1e-5, *rest: Any,
) -> Any:  # fmt: skip
    return _norm_of_last_dims(call, input, normalized_shape, weight, bias)


@rule("op rms_norm")
def _rms_norm(
    call: Call, input: Tensor, normalized_shape: Any, weight: Any = None, eps: Any = None
) -> Any:
    return _norm_of_last_dims(call, input, normalized_shape, weight, None)


def _norm_of_last_dims(call, input, normalized_shape, weight, bias):
    last = 1 if isinstance(normalized_shape, int) else len(normalized_shape)
    word = _letters(input.dim() - last).upper() + "." * last
    extra = [(one, "." * last) for one in (weight, bias) if one is not None]
    return run_in_parts(call, labelled(call, [(input, word), *extra], word))


@rule("group_norm, op instance_norm_without_statistics")
def _group_norm(
    call: Call, input: Tensor, num_groups: int, weight: Any = None, bias: Any = None,
    eps: float = 1e-5,
) -> Any:  # fmt: skip
    word = "n" + "." * (input.dim() - 1)
    extra = [(one, ".") for one in (weight, bias) if one is not None]
    return run_in_parts(call, labelled(call, [(input, word), *extra], word))


@rule("convolution_1d, convolution_2d, convolution_3d")
def _convolution(
    call: Call, input: Tensor, weight: Tensor, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    spatial = weight.dim() - 2
    if input.dim() != weight.dim():
        return NotImplemented
    of, to = ("i", "o") if groups == 1 else (".", ".")
    summed = of if bias is None else "."
    entries = [(input, "n" + summed + "." * spatial), (weight, to + summed + "." * spatial)]
    if bias is not None:
        entries.append((bias, to))
    return run_in_parts(call, labelled(call, entries, "n" + to + "." * spatial, "i"))


@rule("spatial_1d")
def _pooling(call: Call, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    return _of_last_dims(call, 1)


@rule("spatial_2d")
def _pooling_2d(call: Call, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    return _of_last_dims(call, 2)


@rule("spatial_3d")
def _pooling_3d(call: Call, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    return _of_last_dims(call, 3)


@rule("to_size")
def _to_size(call: Call, input: Tensor, size: Sequence[int], *args: Any, **kwargs: Any) -> Any:
    return _of_last_dims(call, len(size))


def _of_last_dims(call, count):
    """Examples and channels are apart, if there are any."""
    others = call.first.dim() - count
    return run_in_parts(call, kept_dims(call, lambda d: d if d < others else None))


@rule("pad")
def _pad(call: Call, input: Tensor, pad: Any, *args: Any, **kwargs: Any) -> Any:
    untouched = input.dim() - len(pad) // 2
    return run_in_parts(call, kept_dims(call, lambda d: d if d < untouched else None))


@rule("element_loss")
def _element_loss(call: Call, input: Tensor, target: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Elements first, and then their mean or sum, of which each process has a part."""
    if args or kwargs.get("size_average") is not None or kwargs.get("reduce") is not None:
        return NotImplemented
    kwargs = dict(kwargs)
    reduction = kwargs.pop("reduction", "mean")
    each = Call(call.func, call.name, (input, target), {**kwargs, "reduction": "none"})
    losses = _elementwise(each, *each.args, **each.kwargs)
    if reduction == "none" or losses is NotImplemented:
        return losses
    if reduction == "batchmean":
        return losses.sum() / input.shape[0]
    return losses.mean() if reduction == "mean" else losses.sum()


@rule("class_loss")
def _class_loss(
    call: Call, input: Tensor, target: Tensor, weight: Any = None, size_average: Any = None,
    ignore_index: int = -100, reduce: Any = None, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:  # fmt: skip
    """Examples are apart; their mean is that over the targets which are not ignored."""
    classes = target.dim() == input.dim()
    if size_average is not None or reduce is not None or input.dim() < 2 or classes:
        return NotImplemented
    if weight is not None and reduction == "mean":
        return NotImplemented
    if all(is_whole(one.placements) for one in call.dtensors):
        return NotImplemented
    rest = _letters(input.dim() - 2).upper()
    entries = [(input, "n." + rest), (target, "n" + rest)]
    if weight is not None:
        entries.append((weight, "."))
    options = {"ignore_index": ignore_index}
    if call.name == "cross_entropy":
        options["label_smoothing"] = label_smoothing
    if reduction == "none":
        return run_in_parts(call, labelled(call, entries, "n" + rest))
    if reduction not in ("mean", "sum"):
        return NotImplemented
    extra = () if weight is None else (weight,)
    total = Call(call.func, call.name, (input, target, *extra), {**options, "reduction": "sum"})
    summed = run_in_parts(total, labelled(total, entries, "", "n" + rest))
    if reduction == "sum":
        return summed
    count = (target != ignore_index).sum()
    if isinstance(count, DTensor):
        count = count.redistribute(placements=[Replicate()] * count.device_mesh.ndim)
    return summed / count
