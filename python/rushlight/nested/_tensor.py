"""`NestedTensor`: several tensors whose sizes differ, as one batch.

It holds its tensors one by one: an operation is computed for each of them, and gradients reach
them as any others'.
"""

from __future__ import annotations

import functools
import itertools

import rushlight
from rushlight import _C, Tensor
from rushlight._own_class import OwnClass
from rushlight._set_module import set_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_numbers = itertools.count(1)


class RaggedSize(rushlight.SymInt):
    """A size that differs from tensor to tensor: equal to itself alone."""

    def __init__(self) -> None:
        self._number = next(_numbers)

    def __index__(self) -> int:
        raise TypeError(f"nested: {self} is another number for each tensor")

    def __repr__(self) -> str:
        return f"j{self._number}"

    def is_nested_int(self) -> bool:
        return True


class NestedTensor(OwnClass):
    """A batch of tensors whose sizes differ; see `nested_tensor`."""

    _parts: tuple[Tensor, ...]
    _jagged: bool
    _ragged: RaggedSize | None
    _place: int = 0  # the dim of the tensors that may differ, though none does
    _source: tuple[Tensor, Tensor, Tensor | None] | None = None  # values, offsets, lengths

    _is_of_core = True  # asked also where programs have switched __torch_function__ off

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
        rule = _rules().get(name.partition(".")[0])  # of an overload: that of the operation
        if rule is None:
            raise NotImplementedError(
                f"nested: {name or func}: no implementation for nested tensors; take the tensors "
                "by unbind(), or to_padded_tensor(value)"
            )
        return rule(func, *args, **kwargs)

    def offsets(self) -> Tensor:
        """Where in values() each tensor begins, and the end."""
        _need_jagged(self, "offsets")
        if self._source:
            return self._source[1]
        sizes = [p.shape[_ragged_dim(self)] for p in self._parts]
        place = self._parts[0].device if self._parts else None
        return rushlight.tensor([0, *itertools.accumulate(sizes)], device=place)

    def lengths(self) -> Tensor | None:
        """The lengths of tensors that leave gaps between them in values(); None where none do."""
        return self._source[2] if self._source else None

    def values(self) -> Tensor:
        """The tensors one after another: along their ragged dim, or, if strided, all elements."""
        if self._source:
            return self._source[0]
        if not self._jagged:
            return rushlight.cat([p.reshape(-1) for p in self._parts])
        return rushlight.cat(self._parts, _ragged_dim(self))

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """See `nested.to_padded_tensor`."""
        return to_padded_tensor(self, padding, output_size)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if self._jagged:
            history = "requires_grad=True, " if self.requires_grad else ""
            if self.grad_fn is not None:
                history = f"grad_fn={self.grad_fn}, "
            return (
                f"NestedTensor(size={tuple(_shape(self))}, offsets={self.offsets()}, {history}"
                f"contiguous={_is_contiguous(self)})"
            )
        needs = self.requires_grad
        with rushlight.no_grad():
            shown = [p.detach().requires_grad_(needs) for p in self._parts]
        rows = [repr(p).replace("\n", "\n  ") for p in shown]
        end = "]"
        if needs:
            node = self.grad_fn
            end += ", requires_grad=True" if node is None else f", grad_fn=<{type(node).__name__}>"
        return "nested_tensor([\n  " + ",\n  ".join(rows) + f"\n{end})"

    __str__: Callable[..., str] = __repr__

    def __len__(self) -> int:
        return len(self._parts)

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        layout = rushlight.jagged if self._jagged else rushlight.strided
        make_it = functools.partial(nested_tensor, layout=layout, requires_grad=self.requires_grad)
        return make_it, ([p.detach() for p in self._parts],)

    def __setstate__(self, state: Any) -> None:
        """Do nothing: what files of torch say besides the parts follows from them."""

    @property
    def _ragged_idx(self) -> int:
        """The dim of the batch that differs."""
        return _ragged_dim(self) + 1

    @property
    def _values(self) -> Tensor:
        return self.values()

    @property
    def _offsets(self) -> Tensor:
        return self.offsets()

    @property
    def _lengths(self) -> Tensor | None:
        return self.lengths()

    @property
    def _min_seqlen(self) -> int:
        return min((p.shape[_ragged_dim(self)] for p in self._parts), default=0)

    @property
    def _max_seqlen(self) -> int:
        return max((p.shape[_ragged_dim(self)] for p in self._parts), default=0)

    def is_same_size(self, other: Tensor) -> bool:
        """Are the sizes of all tensors those of another nested tensor?"""
        if not isinstance(other, NestedTensor):
            raise RuntimeError("nested: is_same_size: expected two nested tensors")
        return [p.shape for p in self._parts] == [p.shape for p in other._parts]

    def _nested_tensor_size(self) -> Tensor:
        """The sizes of the tensors, in rows."""
        return rushlight.tensor([tuple(p.shape) for p in self._parts], dtype=rushlight.int64)

    def _nested_tensor_strides(self) -> Tensor:
        """The strides of the tensors, in rows."""
        return rushlight.tensor([p.stride() for p in self._parts], dtype=rushlight.int64)


def make(
    parts: Sequence[Tensor], jagged: bool, ragged: RaggedSize | None = None, place: int = 0
) -> NestedTensor:
    """A nested tensor of these very tensors, which differ in the dim `place` if in any."""
    parts = tuple(parts)
    dtype = parts[0].dtype if parts else rushlight.get_default_dtype()
    device = parts[0].device if parts else None
    with _C._SubclassesOff():
        made = Tensor._make_subclass(NestedTensor, rushlight.empty(0, dtype=dtype, device=device))
    made._parts, made._jagged = parts, jagged
    made._ragged = (ragged or RaggedSize()) if jagged else None
    made._place = place
    return made


def _like(x: NestedTensor, parts: Sequence[Tensor]) -> NestedTensor:
    """A nested tensor of others, whose sizes are those of `x` where these differ."""
    return make(parts, x._jagged, x._ragged, _ragged_dim(x))


def _packed(parts, jagged):
    """A nested tensor of copies, one after another in memory: `values` shows that."""
    made = make(parts, jagged)
    if parts and all(type(p) is Tensor and not p.requires_grad for p in parts):
        dim = _ragged_dim(made) if jagged else 0
        pieces = parts if jagged else [p.reshape(-1) for p in parts]
        values, sizes = rushlight.cat(pieces, dim), [p.shape[dim] for p in pieces]
        ends = [0, *itertools.accumulate(sizes)]
        views = [values.narrow(dim, start, size) for start, size in zip(ends, sizes)]
        made._parts = tuple(v.view(p.shape) if v.shape != p.shape else v
                            for v, p in zip(views, parts))  # fmt: skip
        made._source = values, rushlight.tensor(ends, device=values.device), None
    return made


def _checked(tensors, jagged, name):
    for place, t in enumerate(tensors):
        if t.dim() != tensors[0].dim() or t.dtype != tensors[0].dtype:
            raise RuntimeError(
                f"nested.{name}: tensors need the same number of dims and dtype: that at "
                f"{place} is of shape {tuple(t.shape)} and {t.dtype}, the first of "
                f"{tuple(tensors[0].shape)} and {tensors[0].dtype}"
            )
    if jagged and tensors:
        if tensors[0].dim() == 0:
            raise RuntimeError(f"nested.{name}: a jagged tensor is made of tensors with dims")
        differ = [d for d in range(tensors[0].dim()) if len({t.shape[d] for t in tensors}) > 1]
        if len(differ) > 1:
            raise RuntimeError(
                f"nested.{name}: in a jagged tensor one dim may differ, and {differ} do; "
                "take layout=torch.strided"
            )


def _is_jagged(layout, name):
    if layout in (None, rushlight.strided):
        return False
    if layout is rushlight.jagged:
        return True
    raise RuntimeError(f"nested.{name}: expected layout strided or jagged, got {layout}")


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> NestedTensor:
    """Make a batch of copies of tensors (or numbers) whose sizes differ.

    Args:
        tensor_list: tensors with the same number of dims, or what `torch.tensor` takes.
        dtype, device: of the copies.
        layout: torch.jagged, where one dim differs, or torch.strided, the default.
        requires_grad: are the copies leaves that need gradients?
        pin_memory: not supported.

    Raises:
        RuntimeError: the tensors do not fit each other.

    Example:
        >>> import rushlight
        >>> rows = [rushlight.ones(2), rushlight.ones(3)]
        >>> rushlight.nested.nested_tensor(rows).to_padded_tensor(0.0)
        tensor([[1., 1., 0.],
                [1., 1., 1.]])
    """
    if pin_memory:
        raise NotImplementedError("nested.nested_tensor: pin_memory=True")
    jagged = _is_jagged(layout, "nested_tensor")
    parts = []
    for given in tensor_list:
        t = given.detach().clone() if isinstance(given, Tensor) else rushlight.tensor(given)
        parts.append(t.to(device=device, dtype=dtype).requires_grad_(requires_grad))
    _checked(parts, jagged, "nested_tensor")
    return _packed(parts, jagged)


def as_nested_tensor(
    ts: Sequence[Tensor] | Tensor, dtype: Any = None, device: Any = None, layout: Any = None
) -> NestedTensor:
    """Make a batch of tensors, or of the rows of one; gradients reach them."""
    if isinstance(ts, NestedTensor):
        if layout is not None and _is_jagged(layout, "as_nested_tensor") != ts._jagged:
            raise RuntimeError(
                "nested.as_nested_tensor: Converting between nested tensor layouts is not supported"
            )
        return ts.to(device=device, dtype=dtype)
    jagged = _is_jagged(layout, "as_nested_tensor")
    if isinstance(ts, Tensor) and ts.dim() < 1 + jagged:
        raise RuntimeError(
            f"nested.as_nested_tensor: Expected tensor argument to have dim() > {int(jagged)}, "
            f"got shape {tuple(ts.shape)}"
        )
    parts = [t.to(device=device, dtype=dtype) for t in ts]
    _checked(parts, jagged, "as_nested_tensor")
    if not isinstance(ts, Tensor) and not any(t.requires_grad for t in parts):
        return _packed(parts, jagged)
    name = "NestedViewFromJagged" if jagged else "NestedTensorFromTensorList"
    if isinstance(ts, Tensor) and not jagged:
        name = "NestedViewFromBuffer"
    return make([_shown_as_part(t, f"{name}Backward0") for t in parts], jagged)


def _shown_as_part(tensor, name):
    """The tensor with a node of that name: what is made of tensors is no leaf."""
    if not tensor.requires_grad or not _C._records():
        return tensor
    since = _C._last_node()
    part = tensor.view_as(tensor)
    _C._join_nodes(part, since, name, [tensor], [])
    return part


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> NestedTensor:
    """Make a batch of the parts of one tensor.

    Args:
        values: the tensors, one after another.
        offsets: where each begins, and the end; without them, all lengths follow each other.
        lengths: of each, where they leave gaps.
        jagged_dim: the dim of the batch that differs; 1 by default.
        min_seqlen, max_seqlen: bounds of the lengths, which are checked.

    Raises:
        RuntimeError: neither offsets nor lengths are given, or they do not fit.
    """
    if offsets is None and lengths is None:
        raise RuntimeError("nested_tensor_from_jagged: give offsets, or lengths, or both")
    if offsets is None:
        sizes = lengths.tolist()
        starts = [0, *itertools.accumulate(sizes)][:-1]
    else:
        ends = offsets.tolist()
        starts = ends[:-1]
        sizes = lengths.tolist() if lengths is not None else [b - a for a, b in zip(ends, ends[1:])]
    dim = 0 if jagged_dim is None else jagged_dim - 1
    fits = all(s >= 0 and n >= 0 and s + n <= values.shape[dim] for s, n in zip(starts, sizes))
    if not fits or len(starts) != len(sizes):
        raise RuntimeError(
            f"nested_tensor_from_jagged: offsets {starts} and lengths {sizes} do not fit values of "
            f"shape {tuple(values.shape)}"
        )
    low, high = (min_seqlen or 0), max(sizes, default=0) if max_seqlen is None else max_seqlen
    if any(not low <= n <= high for n in sizes):
        raise RuntimeError(f"nested_tensor_from_jagged: lengths {sizes} are not in {low} to {high}")
    parts = [values.narrow(dim, s, n) for s, n in zip(starts, sizes)]
    made = make(parts, True, place=dim)
    if offsets is not None:
        made._source = values, offsets, lengths
    return made


def narrow(
    tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor, layout: Any = None
) -> NestedTensor:
    """From each row of a tensor a part of its own.

    Args:
        tensor: of shape (batch, n, ...).
        dim: 1.
        start, length: of the part, for all rows or each.
        layout: torch.jagged.
    """
    if dim != 1 or not _is_jagged(layout, "narrow"):
        raise RuntimeError(f"nested.narrow: expected dim=1 and layout=torch.jagged, got dim={dim}")

    def each(v):
        return v.tolist() if isinstance(v, Tensor) and v.dim() else [int(v)] * len(tensor)

    starts, lengths = each(start), each(length)
    pairs = zip(tensor, starts, lengths, strict=True)
    made = make([row.narrow(0, s, n) for row, s, n in pairs], True)
    if tensor.is_contiguous() and starts:
        places = [tensor.shape[1] * i + s for i, s in enumerate(starts)]
        offsets = rushlight.tensor([*places, places[-1] + lengths[-1]], device=tensor.device)
        sizes = rushlight.tensor(lengths, device=tensor.device)
        made._source = tensor.flatten(0, 1), offsets, sizes
    return made


def masked_select(tensor: Tensor, mask: Tensor) -> NestedTensor:
    """From each row of a tensor, along its last dim, the elements where the mask is True."""
    if tensor.dim() == 0 or mask.dtype != rushlight.bool:
        raise RuntimeError(
            f"nested.masked_select: expected a tensor with dims and a bool mask, got "
            f"{tuple(tensor.shape)} and {mask.dtype}"
        )
    both = tensor, mask.broadcast_to(tensor.shape)
    rows, kept = (t.reshape(-1, tensor.shape[-1]) for t in both)
    return make([row[chosen] for row, chosen in zip(rows, kept)], True)


def to_padded_tensor(
    input: NestedTensor, padding: float, output_size: Sequence[int] | None = None
) -> Tensor:
    """One tensor of all, each filled up to the largest sizes, or `output_size`, by `padding`."""
    if not isinstance(input, NestedTensor):
        raise NotImplementedError(f"to_padded_tensor: expected a nested tensor (padding={padding})")
    parts = input._parts
    if not parts:
        raise RuntimeError("to_padded_tensor: the nested tensor holds nothing")
    sizes = [max(p.shape[d] for p in parts) for d in range(parts[0].dim())]
    if output_size is not None:
        if len(output_size) != len(sizes) + 1 or any(
            want < have for want, have in zip(output_size[1:], sizes)
        ):
            raise RuntimeError(
                f"to_padded_tensor: output_size {tuple(output_size)} is smaller than the tensors, "
                f"which need {(len(parts), *sizes)}"
            )
        sizes = list(output_size[1:])
    rows = []
    for part in parts:
        gaps = [n for size, have in zip(sizes[::-1], part.shape[::-1]) for n in (0, size - have)]
        rows.append(rushlight.constant_pad_nd(part, gaps, padding))
    return rushlight.stack(rows)


# ---- attributes and sizes


def _need_jagged(x, name):
    if not x._jagged:
        raise AttributeError(f"nested: a strided nested tensor has no {name}()")


def _dims(x):
    return x._parts[0].dim() + 1 if x._parts else 1


def _ragged_dim(x):
    """The dim of the tensors that differs, or may."""
    parts = x._parts
    for d in range(_dims(x) - 1):
        if len({p.shape[d] for p in parts}) > 1:
            return d
    return x._place


def _shape(x):
    if not x._jagged:
        raise RuntimeError("nested: a strided nested tensor has no shape: ask size(dim), or unbind")
    sizes = [len(x._parts), *x._parts[0].shape]
    sizes[1 + _ragged_dim(x)] = x._ragged
    return rushlight.Size() + tuple(sizes)  # whose constructor wants numbers


def _is_contiguous(x, **options):
    return x.lengths() is None and all(p.is_contiguous(**options) for p in x._parts)


def _size(func, x, dim=None):
    if dim is None:
        return _shape(x)
    dim = dim % _dims(x)
    if x._jagged:
        return _shape(x)[dim]
    sizes = {p.shape[dim - 1] for p in x._parts} if dim else {len(x._parts)}
    if len(sizes) > 1:
        raise RuntimeError(
            f"nested: size: dim {dim} differs from tensor to tensor: {sorted(sizes)}"
        )
    return sizes.pop()


def _attribute(func, access, args):
    name, x = func.__self__.__name__, args[0]
    if access == "__get__":
        parts = x._parts
        if name == "shape":
            return _shape(x)
        if name == "layout":
            return rushlight.jagged if x._jagged else rushlight.strided
        if name in ("requires_grad", "is_leaf", "device", "dtype") and parts:
            found = [getattr(p, name) for p in parts]
            return all(found) if name == "is_leaf" else max(found) if name == "requires_grad" \
                else found[0]  # fmt: skip
        if name == "grad":
            return _whole([p.grad for p in parts], x)
        if name in ("is_nested", "ndim"):
            return True if name == "is_nested" else _dims(x)
        if name == "grad_fn":
            return next((p.grad_fn for p in parts if p.grad_fn is not None), None)
    elif name in ("grad", "requires_grad"):
        for p in x._parts:
            setattr(p, name, args[1] if access == "__set__" else None)
        return None
    with _C._SubclassesOff():
        return func(*args)


def _whole(gradients, x):
    """The gradient of a nested tensor: 0 for those of its tensors that none reached."""
    if all(g is None for g in gradients):
        return None
    filled = [
        rushlight.zeros_like(p) if g is None else g
        for g, p in zip(gradients, x._parts, strict=True)
    ]
    return _like(x, filled)


def _gradients(func, outputs, inputs, grad_outputs=None, allow_unused=None, **options):
    """`autograd.grad`: the gradients of nested tensors are those of their tensors."""
    roots, targets = list(outputs), list(inputs.values() if isinstance(inputs, dict) else inputs)
    weights = [None] * len(roots)
    if grad_outputs is not None:
        given = isinstance(grad_outputs, (tuple, list))
        weights = list(grad_outputs) if given else [grad_outputs]

    def flat(tensors):
        return [p for t in tensors for p in (t._parts if isinstance(t, NestedTensor) else [t])]

    parts_of_weights = [
        part
        for root, weight in zip(roots, weights, strict=True)
        for part in ([None] * len(flat([root])) if weight is None else flat([weight]))
    ]
    # Of a nested tensor, some may be unused.
    found = iter(func(flat(roots), flat(targets), parts_of_weights, allow_unused=True, **options))
    results = []
    for target in targets:
        if not isinstance(target, NestedTensor):
            results.append(next(found))
            continue
        results.append(_whole([next(found) for _ in target._parts], target))
    may_be_unused = options.get("materialize_grads") if allow_unused is None else allow_unused
    if not may_be_unused and any(r is None for r in results):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this is the desired behavior."
        )
    if isinstance(inputs, dict):
        return dict(zip(inputs, results, strict=True))
    return tuple(results)


# ---- rules

_ELEMENTWISE = """
    abs neg exp log sqrt sin cos tan tanh sigmoid relu gelu silu elu leaky_relu softplus square sgn
    reciprocal logical_not isnan isinf isposinf isneginf isfinite nan_to_num clamp clone detach to
    float double half bfloat16 long int bool dropout round floor ceil erf rsqrt log1p expm1 sign
    zeros_like ones_like empty_like randn_like rand_like full_like add sub mul div pow eq ne lt le
    gt ge maximum minimum remainder floor_divide logical_and logical_or logical_xor where
    masked_fill cpu cuda type bitwise_and bitwise_or bitwise_not alpha_dropout hardtanh
    threshold mish relu6 celu selu subtract multiply divide true_divide
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __pow__ __rpow__
    __neg__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __and__ __or__ __invert__
""".split()
_IN_PLACE = """
    abs_ neg_ exp_ log_ sqrt_ sin_ cos_ tanh_ sigmoid_ relu_ elu_ leaky_relu_ square_ reciprocal_
    clamp_ dropout_ round_ floor_ ceil_ rsqrt_ add_ sub_ mul_ div_ pow_ remainder_ masked_fill_
    copy_ fill_ zero_ normal_ uniform_ random_ __iadd__ __isub__ __imul__ __itruediv__
""".split()
_PRODUCTS = "matmul __matmul__ bmm".split()
# Their other tensors are no elements.
_OF_ROWS = "linear prelu scaled_dot_product_attention layer_norm rms_norm normalize embedding"
_ALONG = "softmax log_softmax unsqueeze squeeze flip cumsum unflatten".split()


@functools.cache
def _rules():
    rules = dict.fromkeys(_ELEMENTWISE, _each_element)
    rules |= dict.fromkeys(_IN_PLACE, _in_place)
    rules |= dict.fromkeys(_PRODUCTS, _product)
    rules |= dict.fromkeys(_OF_ROWS.split(), _each)
    rules |= dict.fromkeys(_ALONG, _along)
    rules |= dict.fromkeys("sum mean amax amin prod any all".split(), _reduction)
    rules |= dict.fromkeys("max min argmax argmin".split(), _extreme)
    rules |= dict.fromkeys(("dim", "ndimension"), lambda func, x: _dims(x))
    rules |= {
        "size": _size, "transpose": _transpose, "chunk": _divided, "split": _divided,
        "split_with_sizes": _divided,
        "cat": lambda func, ts, dim=0: _cat(ts, dim),
        "numel": lambda func, x: sum(p.numel() for p in x._parts),
        "unbind": lambda func, x, dim=0: _unbind(x, dim),
        "__getitem__": lambda func, x, index: _item(x, index),
        "__iter__": lambda func, x: iter(x._parts),
        "__len__": lambda func, x: len(x._parts),
        "__hash__": lambda func, x: id(x),
        "is_contiguous": lambda func, x, **options: _is_contiguous(x, **options),
        "is_floating_point": lambda func, x: x.dtype.is_floating_point,
        "is_complex": lambda func, x: x.dtype.is_complex,
        "reshape": _reshape, "view": _reshape, "flatten": _flatten, "permute": _permute,
        "expand": _expand,
        "view_as": lambda func, x, other: _reshape(rushlight.Tensor.view, x, other.shape),
        "reshape_as": lambda func, x, other: _reshape(rushlight.reshape, x, other.shape),
        "expand_as": lambda func, x, other: _expand(rushlight.Tensor.expand, x, other.shape),
        "requires_grad_": _requires_grad, "backward": _backward, "grad": _gradients,
        "values": lambda func, x: NestedTensor.values(x),
        "contiguous": lambda func, x, **options: (
            x if _is_contiguous(x, **options)
            else _like(x, [func(p, **options) for p in x._parts])
        ),
        "select": lambda func, x, dim, index: _select(x, dim, index),
        "narrow": lambda func, x, dim, start, length: _narrow(x, dim, start, length),
        "_is_view": lambda func, x: bool(x._parts) and all(map(func, x._parts)),
    }  # fmt: skip
    return rules


def _first(values):
    for value in values:
        if isinstance(value, NestedTensor):
            return value
    raise TypeError("nested: no nested tensor among the arguments")


def _each(func, *args, **kwargs):
    """The operation on each tensor; nested arguments have the same number of them."""
    nested = [a for a in (*args, *kwargs.values()) if isinstance(a, NestedTensor)]
    x = nested[0]
    for other in nested[1:]:
        if len(other._parts) != len(x._parts):
            raise RuntimeError(
                f"nested: {func.__name__}: operands of {len(x._parts)} and of {len(other._parts)} "
                "tensors"
            )

    def part(value, i):
        return value._parts[i] if isinstance(value, NestedTensor) else value

    results = [
        func(*(part(a, i) for a in args), **{k: part(v, i) for k, v in kwargs.items()})
        for i in range(len(x._parts))
    ]
    if results and all(r is p for r, p in zip(results, x._parts, strict=True)):
        return x  # changed in place, or nothing to do
    return _like(x, results)


def _each_element(func, *args, **kwargs):
    """The operation on each tensor, and what a dense operand has for it."""
    x = _first((*args, *kwargs.values()))
    for other in (*args, *kwargs.values()):
        if isinstance(other, NestedTensor) and other is not x:
            if [p.shape[:1] for p in other._parts] != [p.shape[:1] for p in x._parts]:
                raise RuntimeError(
                    f"nested: {func.__name__}: the tensors of both operands differ in size"
                )
    args = [_rows(func, x, a) for a in args]
    return _each(func, *args, **{k: _rows(func, x, v) for k, v in kwargs.items()})


def _rows(func, x, value):
    """A dense operand that has the batch's dim too, as a nested tensor of its rows."""
    if not isinstance(value, Tensor) or isinstance(value, NestedTensor) or value.dim() < _dims(x):
        return value
    count = len(x._parts)
    if value.dim() > _dims(x) or value.shape[0] not in (1, count):
        raise RuntimeError(
            f"nested: {func.__name__}: a tensor of shape {tuple(value.shape)} does not fit a nested"
            f" one of {_dims(x)} dims and {count} tensors"
        )
    return make(value.expand(count, *value.shape[1:]).unbind() if count else (), x._jagged)


def _in_place(func, x, *args, **kwargs):
    if not isinstance(x, NestedTensor):
        raise RuntimeError(f"nested: {func.__name__}: a tensor does not become a nested one")
    _each_element(func, x, *args, **kwargs)
    return x


def _product(func, a, b):
    """The products of the tensors; a dense operand of three dims has one for each."""
    x = _first((a, b))
    if func.__name__ == "bmm":
        func = rushlight.mm
    a, b = (_rows(func, x, v) if isinstance(v, Tensor) and v.dim() > 2 else v for v in (a, b))
    return _each(func, a, b)


def _inner(x, dim, name):
    dim = dim + _dims(x) if dim < 0 else dim
    if dim <= 0:
        raise RuntimeError(f"nested: {name}: dim 0 is that of the batch")
    return dim - 1


def _along(func, x, dim=None, *args, **kwargs):
    if dim is None and func.__name__ == "squeeze":
        raise RuntimeError(
            "nested: squeeze: For nested tensors, squeeze without the dim argument is not defined"
        )
    dim = -1 if dim is None else dim
    dims = _dims(x) + (func.__name__ == "unsqueeze")
    dim = dim + dims if dim < 0 else dim
    if dim == 0:
        raise RuntimeError(f"nested: {func.__name__}: dim 0 is that of the batch")
    parts = [func(p, dim - 1, *args, **kwargs) for p in x._parts]
    place = _ragged_dim(x)
    if parts and dim - 1 < place + (func.__name__ == "unsqueeze"):
        place += parts[0].dim() - (_dims(x) - 1)
    return make(parts, x._jagged, x._ragged, place)


def _reduction(func, x, dim=None, keepdim=False, **kwargs):
    if dim is None:
        return func(rushlight.cat([p.reshape(-1) for p in x._parts]), **kwargs)
    given = [dim] if isinstance(dim, int) else list(dim)
    ragged = _ragged_dim(x) + 1
    if x._jagged and {0, ragged} <= {d % _dims(x) for d in given}:
        values = rushlight.cat(x._parts, ragged - 1).unsqueeze(0)  # as one tensor of a batch
        return func(values, given, keepdim, **kwargs)
    inner = [_inner(x, d, func.__name__) for d in given]
    whole = inner[0] if isinstance(dim, int) else inner
    results = [func(p, whole, keepdim, **kwargs) for p in x._parts]
    if x._jagged and _ragged_dim(x) in inner:
        return rushlight.stack(results)
    place = _ragged_dim(x) - (0 if keepdim else _before(x, inner))
    return make(results, x._jagged, x._ragged, place)


def _before(x, dims):
    """How many of the dims of its tensors are before that which differs."""
    return len([d for d in dims if d < _ragged_dim(x)])


def _extreme(func, x, dim=None, keepdim=False):
    """Values, places, or both: of all elements, or along a dim of each tensor."""
    if isinstance(dim, Tensor):
        raise NotImplementedError(f"nested: {func.__name__} of two tensors: see maximum")
    if dim is None:
        return func(rushlight.cat([p.reshape(-1) for p in x._parts]))
    inner = _inner(x, dim, func.__name__)
    results = [func(p, inner, keepdim) for p in x._parts]

    def joined(parts):
        if x._jagged and inner == _ragged_dim(x):
            return rushlight.stack(parts)
        place = _ragged_dim(x) - (0 if keepdim else _before(x, [inner]))
        return make(parts, x._jagged, x._ragged, place)

    if isinstance(results[0], Tensor):
        return joined(results)
    return type(results[0])([joined(list(parts)) for parts in zip(*results, strict=True)])


def _given(dims):
    """The numbers of a call, which are given one by one or as a list."""
    return tuple(dims[0]) if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims


def _flatten(func, x, start_dim=0, end_dim=-1):
    start, end = (_inner(x, d, "flatten") for d in (start_dim, end_dim))
    if x._jagged and start <= _ragged_dim(x) <= end:
        raise RuntimeError("nested: flatten: the dim that differs cannot be joined with others")
    place = _ragged_dim(x) - (end - start if end < _ragged_dim(x) else 0)
    return make([p.flatten(start, end) for p in x._parts], x._jagged, x._ragged, place)


def _permute(func, x, *dims):
    first, *rest = (d % _dims(x) for d in _given(dims))
    if first:
        raise ValueError("nested: permute: dim 0, that of the batch, stays the first")
    inner = [d - 1 for d in rest]
    parts = [p.permute(inner) for p in x._parts]
    return make(parts, x._jagged, x._ragged, inner.index(_ragged_dim(x)))


def _expand(func, x, *sizes):
    first, *inner = _given(sizes)
    if first not in (-1, len(x._parts)):
        raise RuntimeError(
            f"nested: expand: the first of {(first, *inner)} must be that of the batch, "
            f"{len(x._parts)}"
        )
    inner = [-1 if isinstance(n, RaggedSize) else n for n in inner]
    return _like(x, [p.expand(inner) for p in x._parts])


def _reshape(func, x, *shape):
    shape = _given(shape)
    if not shape or shape[0] not in (len(x._parts), -1):
        raise RuntimeError(
            f"nested: {func.__name__}: the first of {shape} must be that of the batch, "
            f"{len(x._parts)}"
        )
    inner = [-1 if isinstance(n, RaggedSize) else n for n in shape[1:]]
    place = next((d for d, n in enumerate(shape[1:]) if isinstance(n, RaggedSize)), 0)
    return make([func(p, inner) for p in x._parts], x._jagged, x._ragged, place)


def _transpose(func, x, dim0, dim1):
    a, b = (_inner(x, d, "transpose") for d in (dim0, dim1))
    place = {a: b, b: a}.get(_ragged_dim(x), _ragged_dim(x))
    return make([p.transpose(a, b) for p in x._parts], x._jagged, x._ragged, place)


def _divided(func, x, size, dim=0):
    if dim % _dims(x) == 0:
        raise RuntimeError(f"nested: {func.__name__}: dim 0 is that of the batch")
    pieces = [func(p, size, _inner(x, dim, func.__name__)) for p in x._parts]
    if len(set(map(len, pieces))) > 1:
        raise RuntimeError(
            f"nested: {func.__name__}: dim {dim} differs, and so the number of pieces: "
            f"{[len(p) for p in pieces]}"
        )
    return tuple(_like(x, piece) for piece in zip(*pieces, strict=True))


def _cat(tensors, dim):
    x = _first(tensors)
    if not all(isinstance(t, NestedTensor) for t in tensors):
        raise RuntimeError("nested: cat: expected nested tensors alone, and not others beside them")
    if dim == 0:
        return make([p for t in tensors for p in t._parts], x._jagged)
    dim = _inner(x, dim, "cat")
    rows = zip(*(t._parts for t in tensors), strict=True)
    return _like(x, [rushlight.cat(row, dim) for row in rows])


def _unbind(x, dim):
    if dim % _dims(x):
        raise RuntimeError(f"nested: unbind: expected dim 0, that of the batch, got {dim}")
    return x._parts


def _item(x, index):
    if isinstance(index, int):
        return x._parts[index]
    first, *rest = index if isinstance(index, tuple) else (index,)
    if isinstance(first, int):
        return x._parts[first][tuple(rest)]
    if first is Ellipsis or first == slice(None):
        index = (Ellipsis, *rest) if first is Ellipsis else tuple(rest)
        return make([p[index] for p in x._parts], x._jagged, x._ragged)
    raise NotImplementedError(f"nested: indexing by {index!r}: the first must be an int, or :")


def _select(x, dim, index):
    if dim % _dims(x) == 0:
        return x._parts[index]
    inner = _inner(x, dim, "select")
    place = _ragged_dim(x) - _before(x, [inner])
    return make([p.select(inner, index) for p in x._parts], x._jagged, x._ragged, place)


def _narrow(x, dim, start, length):
    if dim % _dims(x) == 0:
        if start < 0 or length < 0 or start + length > len(x._parts):
            raise RuntimeError(
                f"nested: narrow: start {start} and length {length} of {len(x._parts)} tensors"
            )
        return _like(x, x._parts[start : start + length])
    inner = _inner(x, dim, "narrow")
    if x._jagged and inner == _ragged_dim(x):
        raise RuntimeError("nested: narrow: the dim that differs has another length in each tensor")
    return _like(x, [p.narrow(inner, start, length) for p in x._parts])


def _backward(func, x, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    if not isinstance(gradient, NestedTensor) or len(gradient._parts) != len(x._parts):
        raise RuntimeError(
            f"nested: backward: a nested gradient of {len(x._parts)} tensors is needed"
        )
    rushlight.autograd.backward(
        x._parts, gradient._parts, retain_graph=retain_graph, create_graph=create_graph,
        inputs=inputs,
    )  # fmt: skip


def _requires_grad(func, x, requires_grad=True):
    for p in x._parts:
        p.requires_grad_(requires_grad)
    return x


set_module(
    "rushlight.nested", NestedTensor, as_nested_tensor, masked_select, narrow, nested_tensor,
    nested_tensor_from_jagged, to_padded_tensor,
)  # fmt: skip
