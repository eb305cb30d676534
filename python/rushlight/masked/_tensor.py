"""`MaskedTensor`: a tensor with a mask of the same shape, whose False elements are as if they were
not there.
"""

from __future__ import annotations

import functools

import rushlight
from rushlight import _C, Tensor
from rushlight._integers import integers
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

__all__ = ["MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"]


class MaskedTensor(Tensor):
    """Elements, and a bool tensor that says which of them count.

    Elementwise operations, views, casts, softmax and reductions have rules; any other raises
    TypeError by name. Two masked operands must have equal masks; a plain one has no mask.

    Args:
        data: the elements; they are copied.
        mask: a bool tensor of the same shape; True where an element counts.
        requires_grad: is it a leaf that needs a gradient? Its gradient is masked as it is.

    Raises:
        TypeError: `data` or `mask` is no tensor, or the mask is not bool.
        ValueError: their shapes differ.

    Example:
        >>> import rushlight
        >>> from rushlight.masked import masked_tensor
        >>> mask = rushlight.tensor([True, False, True])
        >>> masked_tensor(rushlight.tensor([1.0, 2.0, 4.0]), mask).mean()
        MaskedTensor(  2.5000, True)
    """

    _mask: Tensor

    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> Self:
        _check(data, mask)
        with _C.DisableTorchFunctionSubclass():
            elements = _plain(data).detach().clone()
            made = Tensor._make_subclass(cls, elements, requires_grad)
        made._mask = mask.detach()
        return made

    def get_data(self) -> Tensor:
        """The elements, those that do not count too, as a plain tensor."""
        return _plain(self)

    def get_mask(self) -> Tensor:
        """Which elements count."""
        return self._mask

    def to_tensor(self, value: float) -> Tensor:
        """A plain tensor, with `value` where the mask is False."""
        return _plain(self).masked_fill(~self._mask, value)

    @property
    def _masked_data(self) -> Tensor:  # as torch's attributes, which programs read
        return self.get_data()

    @property
    def _masked_mask(self) -> Tensor:
        return self._mask

    @classmethod
    def unary(cls, fn: Callable[[Tensor], Tensor], data: Tensor, mask: Tensor) -> MaskedTensor:
        """Return what a function makes of the elements, with a mask."""
        return MaskedTensor(fn(data), mask)

    def is_sparse_coo(self) -> bool:
        """Are the elements in the sparse layout COO?"""
        return self.layout == rushlight.sparse_coo

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"MaskedTensor({_text(_plain(self).detach(), self._mask)})"

    __str__: Callable[..., str] = __repr__

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        return masked_tensor, (_plain(self).detach(), self._mask, self.requires_grad)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__", "__delete__") and hasattr(func, "__self__"):
            return _attribute(func, name, args)
        rule = _rules().get(name)
        with _C.DisableTorchFunctionSubclass():
            if name in _QUESTIONS:
                return func(*args, **kwargs)
            if rule is None:
                raise TypeError(
                    f"MaskedTensor: {name or func}: no implementation for masked tensors; take the "
                    "elements by get_data(), or fill the others by to_tensor(value)"
                )
            return rule(func, *args, **kwargs)


def _check(data, mask):
    if not isinstance(data, Tensor):
        raise TypeError(f"MaskedTensor: data must be a Tensor, got {type(data).__name__}")
    if not isinstance(mask, Tensor):
        raise TypeError(f"MaskedTensor: mask must be a Tensor, got {type(mask).__name__}")
    if is_masked_tensor(mask):
        raise TypeError("MaskedTensor: mask must not be a MaskedTensor")
    if mask.dtype != rushlight.bool:
        raise TypeError(f"MaskedTensor: mask must have dtype bool. It has {mask.dtype}")
    if data.layout != rushlight.strided:
        raise NotImplementedError(f"MaskedTensor: data of layout {data.layout}")
    if data.shape != mask.shape:
        raise ValueError(
            f"MaskedTensor: data.size() must equal mask.size(), got {tuple(data.shape)} and "
            f"{tuple(mask.shape)}"
        )


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor of copied elements: a leaf, as `MaskedTensor`."""
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """A masked tensor of these elements: `data` gets the gradient (0 where the mask is False)."""
    _check(data, mask)
    return _wrap(rushlight.where(mask, data, data.detach()), mask)


def is_masked_tensor(obj: object, /) -> bool:
    """Is it a `MaskedTensor`?"""
    return isinstance(obj, MaskedTensor)


def _plain(x):
    if not isinstance(x, MaskedTensor):
        return x
    with _C.DisableTorchFunctionSubclass():
        return x.as_subclass(Tensor)


def _wrap(data, mask):
    with _C.DisableTorchFunctionSubclass():
        made = data.as_subclass(MaskedTensor)
    made._mask = mask
    return made


# ---- printing


def _text(data, mask):
    floating = data.is_floating_point()
    formatter = "{:8.4f}" if floating else "{}"
    if data.dim() == 0:
        return f"{formatter.format(data.item())}, True" if mask.item() else "--, False"
    return "\n" + _rows(data, mask, formatter, 2) + "\n"


def _rows(data, mask, formatter, indent):
    if data.dim() == 1:
        pairs = zip(data.tolist(), mask.tolist())
        inside = ", ".join(
            formatter.format(value) if counts else "--".rjust(8) for value, counts in pairs
        )
        return f"{' ' * indent}[{inside}]"
    rows = [_rows(d, m, formatter, indent + 2) for d, m in zip(data, mask)]
    return f"{' ' * indent}[\n" + ",\n".join(rows) + f"\n{' ' * indent}]"


# ---- attributes

_QUESTIONS = set(
    """
    dim ndimension is_floating_point is_complex is_contiguous stride storage_offset element_size
    is_conj is_neg is_inference get_device is_signed size numel nelement __len__ __hash__ dim_order
    requires_grad_ retain_grad register_hook as_subclass backward data_ptr untyped_storage
    has_names is_same_size __format__ __dir__
    """.split()
)


def _attribute(func, access, args):
    name, x = func.__self__.__name__, args[0]
    if name == "grad" and access == "__get__":
        with _C.DisableTorchFunctionSubclass():
            grad = func(x)
        return None if grad is None else _wrap(_plain(grad), x._mask)
    if name in ("T", "mT") and access == "__get__":
        return _wrap(getattr(_plain(x), name), getattr(x._mask, name))
    if name in ("data", "real", "imag") and access == "__get__":
        return _wrap(getattr(_plain(x), name), x._mask)
    with _C.DisableTorchFunctionSubclass():
        return func(*args)


# ---- rules

_UNARY = """
    abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh
    bitwise_not ceil clamp clip conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2
    expm1 fix floor frac lgamma log log10 log1p log2 logit i0 isnan isfinite isinf nan_to_num neg
    negative positive rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc sinh sqrt
    square tan tanh trunc relu gelu silu to float double half bfloat16 long int short bool type
    detach contiguous clone type_as cpu logical_not ones_like zeros_like full_like empty_like
    rand_like randn_like dropout __neg__ __pos__ __invert__ __abs__ resolve_conj resolve_neg
    __deepcopy__ to_dense
""".split()
_BINARY = """
    add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div
    divide floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract
    true_divide eq ne le ge greater greater_equal gt less_equal lt less maximum minimum fmax fmin
    not_equal pow float_power logical_and logical_or logical_xor hypot copysign xlogy
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __floordiv__
    __rfloordiv__ __mod__ __rmod__ __pow__ __rpow__ __and__ __or__ __xor__ __eq__ __ne__ __lt__
    __le__ __gt__ __ge__ __rand__ __ror__ __rxor__
""".split()
_IN_PLACE = """
    __iadd__ __isub__ __imul__ __itruediv__ __ifloordiv__ __imod__ __ipow__ __iand__ __ior__
    __ixor__
""".split()
_VIEWS = """
    view reshape expand t transpose permute unsqueeze squeeze flatten unflatten select narrow split
    chunk unbind __getitem__ movedim swapaxes view_as expand_as index_select ravel diagonal flip
    roll repeat swapdims tensor_split split_with_sizes reshape_as
""".split()
_NUMBERS = "item is_nonzero __bool__ __int__ __float__ __complex__ __index__".split()
_REDUCTIONS = "sum mean amin amax argmin argmax prod var std norm logsumexp median".split()


@functools.cache
def _rules():
    rules = dict.fromkeys(_UNARY, _unary)
    rules |= dict.fromkeys(_BINARY, _binary)
    rules |= dict.fromkeys([f"{name}_" for name in (*_UNARY, *_BINARY)], _in_place)
    rules |= dict.fromkeys(_IN_PLACE, _in_place)
    rules |= dict.fromkeys(_VIEWS, _view)
    rules |= dict.fromkeys(_REDUCTIONS, _reduction)
    rules |= dict.fromkeys(("all", "any"), _truth)
    rules |= dict.fromkeys(("softmax", "log_softmax"), _softmax)
    rules |= dict.fromkeys(("cat", "stack", "concat"), _joined)
    rules |= dict.fromkeys(_NUMBERS, _number)
    return rules | {"where": _where, "allclose": _refused_comparison, "__setitem__": _assigned,
                    "__iter__": lambda func, x: iter([x[i] for i in range(len(x))])}  # fmt: skip


def _unary(func, x, *args, **kwargs):
    args = [_plain(a) for a in args]
    result = func(_plain(x), *args, **kwargs)
    return _wrap(result, x._mask)


def _common_mask(values):
    masks = [v._mask for v in values if isinstance(v, MaskedTensor)]
    for mask in masks[1:]:
        if mask.shape != masks[0].shape or not rushlight.equal(mask, masks[0]):
            raise ValueError("MaskedTensor: input masks must match, as those of operands do not")
    return masks[0]


def _binary(func, *args, **kwargs):
    mask = _common_mask((*args, *kwargs.values()))
    result = func(*map(_plain, args), **{k: _plain(v) for k, v in kwargs.items()})
    if result is NotImplemented:
        return result
    return _wrap(result, mask if mask.shape == result.shape else mask.expand(result.shape))


def _in_place(func, x, *args, **kwargs):
    if not isinstance(x, MaskedTensor):
        raise ValueError("MaskedTensor: a plain tensor cannot be changed in place by a masked one")
    _common_mask((x, *args))
    func(x, *map(_plain, args), **kwargs)
    return x


def _assigned(func, x, key, value):
    """A masked tensor keeps its mask; a plain one takes all elements, as in torch."""
    key = _plain(key)
    if isinstance(x, MaskedTensor) and isinstance(value, MaskedTensor):
        _common_mask((_wrap(_plain(x)[key], x._mask[key]), value))
    func(x, key, _plain(value))


def _view(func, x, *args, **kwargs):
    args = [_plain(a) for a in args]
    result, mask = func(_plain(x), *args, **kwargs), func(x._mask, *args, **kwargs)
    if isinstance(result, Tensor):
        return _wrap(result, mask)
    return tuple(map(_wrap, result, mask))


def _counted(mask, dim, keepdim):
    """Where a result of a reduction has an element to be made of."""
    if dim is None or dim == ():
        return mask.any()
    for d in sorted((d % max(mask.dim(), 1) for d in _listed(dim)), reverse=True):
        mask = mask.any(d, keepdim=keepdim)
    return mask


def _listed(dim):
    return integers(dim)


def _reduction(func, x, *args, **kwargs):
    reduce = getattr(rushlight.masked, func.__name__)
    if func.__name__ == "norm":
        order = kwargs.pop("p", args[0] if args else 2.0)
        args = (2.0 if order == "fro" else order, *args[1:])
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    else:
        dim = kwargs.get("dim", args[0] if args else None)
    if isinstance(dim, bool):
        raise TypeError(f"MaskedTensor: {func.__name__}: give dim, and correction= for unbiased")
    keepdim = bool(kwargs.get("keepdim", False))
    if len(args) > 1 + (func.__name__ == "norm") and isinstance(args[-1], bool):
        *args, keepdim = args
        kwargs["keepdim"] = keepdim
    if dim is None and func.__name__ == "median":
        return _wrap(reduce(_plain(x).flatten(), 0, mask=x._mask.flatten()), x._mask.any())
    if "unbiased" in kwargs:
        kwargs["correction"] = int(kwargs.pop("unbiased"))
    result = reduce(_plain(x), *args, **kwargs, mask=x._mask)
    return _wrap(result, _counted(x._mask, dim, keepdim))


def _truth(func, x, dim=None, keepdim=False):
    filled = _plain(x).to(rushlight.bool).masked_fill(~x._mask, func.__name__ == "all")
    result = func(filled) if dim is None else func(filled, dim, keepdim)
    return _wrap(result, _counted(x._mask, dim, keepdim))


def _softmax(func, x, dim=None, _stacklevel=3, dtype=None):
    name = func.__name__
    if dim is None:
        raise ValueError(f"MaskedTensor: {name}: give dim")
    return _wrap(getattr(rushlight.masked, name)(_plain(x), dim, dtype=dtype, mask=x._mask),
                 x._mask)  # fmt: skip


def _joined(func, tensors, *args, **kwargs):
    masks = [
        t._mask if isinstance(t, MaskedTensor) else rushlight.ones_like(t, dtype=rushlight.bool)
        for t in tensors
    ]
    return _wrap(func([_plain(t) for t in tensors], *args, **kwargs), func(masks, *args, **kwargs))


def _where(func, condition, x, y):
    if isinstance(condition, MaskedTensor):
        raise TypeError("MaskedTensor: where: the condition must be a plain tensor")
    mask = [
        v._mask if isinstance(v, MaskedTensor) else rushlight.ones((), dtype=rushlight.bool)
        for v in (x, y)
    ]
    kept = [rushlight.where(v._mask, _plain(v), _plain(v).detach())
            if isinstance(v, MaskedTensor) else v for v in (x, y)]  # fmt: skip
    return _wrap(func(condition, *kept), func(condition, *mask))


def _number(func, x):
    if x.numel() == 1 and not x._mask.item():
        raise ValueError(f"MaskedTensor: {func.__name__}: the element is masked out")
    return func(_plain(x))


def _refused_comparison(func, *args, **kwargs):
    raise TypeError(
        f"MaskedTensor: {func.__name__}: compare what get_data() gives, where get_mask() is True"
    )


set_module("rushlight.masked.maskedtensor.core", MaskedTensor, is_masked_tensor)
set_module("rushlight.masked.maskedtensor.creation", as_masked_tensor, masked_tensor)
