"""Operations made of others, where Python costs nothing that counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import matmul as _matmul, mul as _mul

import rushlight
from rushlight import Tensor
from rushlight._autocast import autocasts as _autocasts
from rushlight._contraction_order import contraction_order
from rushlight._ignored import warn_program as _warn_program
from rushlight._integers import integers as _integers, is_integer as _is_integer
from rushlight._out import into
from rushlight._set_module import set_module
from rushlight._shown_name import shown_as as _shown_as

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Size
    from rushlight.types import _dtype


def _tensor_args(tensors):
    """`f(a, b)` and `f([a, b])` mean the same."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return list(tensors[0])
    return list(tensors)


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of the given shapes broadcast to.

    Example::

        >>> rushlight.broadcast_shapes((2, 1), (3,))
        torch.Size([2, 3])
    """
    shapes = [s if type(s) is rushlight.Size else _integers(s) for s in shapes]
    out = [1] * max((len(s) for s in shapes), default=0)
    for shape in shapes:
        for at in range(-1, -len(shape) - 1, -1):
            if shape[at] < 0:
                raise RuntimeError(
                    f"Trying to create tensor with negative dimension ({shape[at]}): ({shape[at]})"
                )
            if shape[at] == 1 or shape[at] == out[at]:
                continue
            if out[at] != 1:
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape: "
                    + ", ".join(str(s) for s in shapes)
                )
            out[at] = shape[at]
    return rushlight.Size(out)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, Tensor]:
    """Views of the tensors, expanded to their common shape."""
    tensors = _tensor_args(tensors)
    shape = broadcast_shapes(*(t.shape for t in tensors))
    return tuple(t.expand(shape) for t in tensors)


def split(
    tensor: Tensor, split_size_or_sections: int | list[int], dim: int = 0
) -> tuple[Tensor, ...]:
    """Pieces of a dim: of one size (the last may be smaller), or of the sizes listed."""
    return tensor.split(split_size_or_sections, dim)


def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinate grids of 1-D tensors; indexing 'ij' (default) or 'xy'."""
    tensors = _tensor_args(tensors)
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        _warn_program("meshgrid: say indexing='ij' or 'xy'; it is 'ij' where nothing is said")
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    for t in tensors:
        if t.dim() > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}"
            )
        if t.dtype != tensors[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
        if t.device != tensors[0].device:
            raise RuntimeError(
                "torch.meshgrid expects all tensors to have the same device, got "
                f"{tensors[0].device} and {t.device}"
            )
    swap = indexing == "xy" and len(tensors) > 1
    if swap:
        tensors[:2] = tensors[1::-1]
    shape = [t.numel() for t in tensors]
    grids = []
    for i, t in enumerate(tensors):
        one = [1] * len(shape)
        one[i] = t.numel()
        grids.append(t.reshape(one).expand(shape))
    if swap:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All combinations of one element of each 1-D tensor, a row each."""
    tensors = _tensor_args(tensors)
    for t in tensors:
        if t.dim() != 1:
            raise RuntimeError(f"cartesian_prod: Expect a 1D vector, but got shape {list(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return rushlight.stack([g.reshape(-1) for g in meshgrid(*tensors, indexing="ij")], 1)


def _one_or_all(function):
    def wrapper(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return function(tensors[0])
        return tuple(function(t) for t in _tensor_args(tensors))

    wrapper.__name__ = wrapper.__qualname__ = function.__name__
    wrapper.__doc__ = function.__doc__
    return wrapper


@_one_or_all
def atleast_1d(tensor: Tensor) -> Any:
    """The tensor, or each, with at least one dim."""
    return tensor.reshape(1) if tensor.dim() == 0 else tensor


@_one_or_all
def atleast_2d(tensor: Tensor) -> Any:
    """The tensor, or each, with at least two dims."""
    if tensor.dim() == 0:
        return tensor.reshape(1, 1)
    return tensor.unsqueeze(0) if tensor.dim() == 1 else tensor


@_one_or_all
def atleast_3d(tensor: Tensor) -> Any:
    """The tensor, or each, with at least three dims."""
    if tensor.dim() == 0:
        return tensor.reshape(1, 1, 1)
    if tensor.dim() == 1:
        return tensor.unsqueeze(0).unsqueeze(2)
    return tensor.unsqueeze(2) if tensor.dim() == 2 else tensor


@_shown_as("BlockDiagBackward0")
def block_diag(*tensors: Any) -> Any:
    """A matrix with the given matrices along its diagonal."""
    given = _tensor_args(tensors)
    for i, t in enumerate(given):
        if t.dim() > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has "
                f"{t.dim()} dimensions"
            )
    tensors = [t if t.dim() == 2 else atleast_2d(t) for t in given]
    widths = [t.size(1) for t in tensors]
    pad, columns = rushlight.constant_pad_nd, sum(widths)
    rows, at = [], 0
    for t, width in zip(tensors, widths):
        rows.append(pad(t, (at, columns - at - width)))
        at += width
    return rushlight.cat(rows) if rows else rushlight.empty(1, 0)


def norm(
    input: Tensor,
    p: float | str | None = "fro",
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
) -> Tensor:
    """Vector or matrix norm, in the older form; see linalg.vector_norm and linalg.matrix_norm."""
    if dtype is not None:
        input = input.to(dtype)
    if isinstance(p, str):
        if p not in ("fro", "nuc"):
            raise ValueError(f"only valid string values are 'fro' and 'nuc', found {p}")
        if p == "nuc":
            dims = (-2, -1) if dim is None else dim
            result = rushlight.linalg.matrix_norm(input, "nuc", dims, keepdim)
        else:
            result = rushlight.linalg.vector_norm(input, 2, dim, keepdim)
    else:
        result = rushlight.linalg.vector_norm(input, 2 if p is None else p, dim, keepdim)
    return into(out, result)


@_autocasts("lower_precision")
def tensordot(
    a: Tensor, b: Tensor, dims: int | Sequence[Any] = 2, out: Tensor | None = None
) -> Tensor:
    """Sums products over dims: the last `dims` of a with the first of b, or the pairs listed."""
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, Sequence):
        dims_a, dims_b = (list(_integers(d)) for d in dims)
    else:
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims_a, dims_b = list(range(a.dim() - dims, a.dim())), list(range(dims))
    if len(dims_a) != len(dims_b):
        raise RuntimeError("both dimension lists should have same length")
    dims_a = [d % a.dim() for d in dims_a]
    dims_b = [d % b.dim() for d in dims_b]
    for i, j in zip(dims_a, dims_b):
        if a.shape[i] == 1:  # it broadcasts
            b = b.sum(j, keepdim=True, dtype=b.dtype)
        elif b.shape[j] == 1:
            a = a.sum(i, keepdim=True, dtype=a.dtype)
        elif a.shape[i] != b.shape[j]:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} "
                f"and second has size {b.shape[j]} in dim {j}"
            )
    free_a = [d for d in range(a.dim()) if d not in dims_a]
    free_b = [d for d in range(b.dim()) if d not in dims_b]
    shape = [a.shape[d] for d in free_a] + [b.shape[d] for d in free_b]
    inner = 1
    for d in dims_a:
        inner *= a.shape[d]
    rows = 1
    for d in free_a:
        rows *= a.shape[d]
    left = a.permute(free_a + dims_a).reshape(rows, inner)
    right = b.permute(dims_b + free_b).reshape(
        inner, -1 if inner and b.numel() else _count(b, free_b)
    )
    result = (left @ right).reshape(shape)
    return into(out, result)


def _count(tensor, dims):
    n = 1
    for d in dims:
        n *= tensor.shape[d]
    return n


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Coordinates of flat indices into a tensor of the given shape, as int64."""
    if indices.is_floating_point() or indices.is_complex() or indices.dtype == rushlight.bool:
        raise TypeError(
            f"unravel_index: expected 'indices' to be integer dtype, but got {indices.dtype}"
        )
    if isinstance(shape, rushlight.Tensor) and shape.dim():
        raise TypeError(
            f"unravel_index: expected 'shape' to be int or sequence of ints, but got {shape!r}"
        )
    shape = _integers(shape)
    if not all(_is_integer(size) for size in shape):
        raise TypeError(f"unravel_index: expected 'shape' to be of ints, but got {shape}")
    if any(size < 0 for size in shape):
        raise ValueError(f"unravel_index: 'shape' cannot have negative sizes, but got {shape}")
    steps = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    indices = indices.to(rushlight.int64)
    place = indices.unsqueeze(-1) // indices.new_tensor(steps)
    return (place % indices.new_tensor(shape)).unbind(-1)


@_autocasts("lower_precision")
def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Any:
    """Product of several matrices, in the cheapest order."""
    result = rushlight.linalg.multi_dot(_tensor_args(matrices))
    return into(out, result)


def align_tensors(*tensors: Any) -> Any:
    raise NotImplementedError("named tensors are not supported; see docs/differences.md")


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Tensor | None = None) -> Any:
    """P L U = A in the older form: (LU, pivots), or (LU, pivots, info); see linalg.lu_factor_ex."""
    found = rushlight.linalg.lu_factor_ex(A, pivot=pivot)
    found = rushlight.return_types._lu_with_info(*found) if get_infos else tuple(found)[:2]
    if out is None:
        return found
    return tuple(into(target, part) for target, part in zip(out, found, strict=True))


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Distinct elements (or slices of a dim), in order; on request where each came from and how
    often."""
    found = rushlight._unique(input, dim, return_inverse, return_counts)
    return _chosen(found, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements (or slices of a dim)."""
    found = rushlight._unique_consecutive(input, dim, return_inverse, return_counts)
    return _chosen(found, return_inverse, return_counts)


def _chosen(found, return_inverse, return_counts):
    values, inverse, counts = found
    wanted = [values] + [inverse] * bool(return_inverse) + [counts] * bool(return_counts)
    return wanted[0] if len(wanted) == 1 else tuple(wanted)


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """The places of elements that are not zero: a row each, or with as_tuple a tensor for each
    dim."""
    if as_tuple:
        if out is not None:
            raise RuntimeError("nonzero: does not support out= where as_tuple is True")
        return rushlight._nonzero_tuple(input)
    return rushlight._nonzero(input) if out is None else rushlight._nonzero(input, out=out)


# ---- einsum


def einsum(equation: str, *operands: Any) -> Tensor:
    """Sums of products by Einstein's notation: einsum('ij,jk->ik', a, b).

    Also takes operands and lists of dim numbers in turn. Letters that stand in one operand alone
    and not in the result are summed at once; the operands are then multiplied two at a time, each
    step a batched matrix product, in the order that takes the fewest multiplications. More than
    five are ordered greedily. `backends.opt_einsum` says otherwise.
    """
    if isinstance(equation, str) and len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])  # who takes over gets them one by one
    relevant = operands if isinstance(equation, str) else (equation, *operands)
    if rushlight.overrides.has_torch_function(relevant):
        return rushlight.overrides.handle_torch_function(einsum, relevant, equation, *operands)
    return _einsum(equation, *operands)


def _einsum(equation: Any, *operands: Any) -> Tensor:
    """`einsum` of operands one by one."""
    if not isinstance(equation, str):
        equation, operands = _from_sublists((equation, *operands))
    if not all(type(t) is Tensor or type(t) is rushlight.nn.Parameter for t in operands):
        return _summed_products(equation, operands)
    choice = rushlight.backends.opt_einsum
    key = (equation, choice.enabled, choice.strategy, *(t.shape for t in operands))
    steps = _einsum_steps.get(key)
    if steps is None:
        steps = []
        _summed_products(equation, [_Recorded(t.shape, i, steps) for i, t in enumerate(operands)])
        if len(_einsum_steps) >= 1000:
            _einsum_steps.clear()
        _einsum_steps[key] = steps
    made = dict(enumerate(operands))
    for place, operation, of, other, arguments in steps:
        rest = arguments if other is None else (made[other],)
        result = made[place] = operation(made[of], *rest)
    return result


# The steps of an einsum of operands of such shapes: to find them takes longer than to make them
# with small ones.
_einsum_steps = {}


class _Recorded:
    """Stands for an operand, or for what a step made, while the steps of an einsum are found."""

    def __init__(self, shape, place, steps):
        self.shape, self.place, self.steps = tuple(shape), place, steps

    def _step(self, shape, operation, *arguments, other=None):
        place = -1 - len(self.steps)
        self.steps.append((place, operation, self.place, other, arguments))
        return _Recorded(shape, place, self.steps)

    def dim(self):
        return len(self.shape)

    def diagonal(self, offset, i, j):
        rest = [n for d, n in enumerate(self.shape) if d not in (i, j)]
        return self._step([*rest, self.shape[i]], Tensor.diagonal, offset, i, j)

    def movedim(self, source, target):
        shape = list(self.shape)
        shape.insert(target, shape.pop(source))
        return self._step(shape, Tensor.movedim, source, target)

    def sum(self, dims):
        kept = [n for d, n in enumerate(self.shape) if d not in dims]
        return self._step(kept, Tensor.sum, dims)

    def permute(self, order):
        return self._step([self.shape[d] for d in order], Tensor.permute, order)

    def reshape(self, shape):
        return self._step(shape, Tensor.reshape, shape)

    def expand(self, shape):
        return self._step(shape, Tensor.expand, shape)

    def __mul__(self, other):
        return self._step(_wider(self.shape, other.shape), _mul, other=other.place)

    def __matmul__(self, other):
        shape = [*self.shape[:-1], other.shape[-1]]
        return self._step(shape, _matmul, other=other.place)


def _wider(a, b):
    """The sizes to which those broadcast."""
    return [max(n, m) if 0 not in (n, m) else 0 for n, m in zip(a, b)]


def _summed_products(equation, operands):
    inputs, output, operands, sizes = _parse_einsum(equation, list(operands))
    given = tuple(operands)
    for i, j in _order(inputs, output, sizes):
        keep = set(output).union(*(labels for k, labels in enumerate(inputs) if k not in (i, j)))
        left, left_labels = _reduce_labels(operands[i], inputs[i], keep | set(inputs[j]))
        right, right_labels = _reduce_labels(operands[j], inputs[j], keep | set(inputs[i]))
        operands[i], inputs[i] = _contract(left, left_labels, right, right_labels, keep)
        del operands[j], inputs[j]
    result, labels = _reduce_labels(operands[0], inputs[0], set(output))
    if list(labels) == list(output) and all(result is not operand for operand in given):
        return result  # made here, so no view
    return result.permute([labels.index(c) for c in output])


# Who takes it over may take over its operations instead.
einsum.__wrapped__ = _einsum


def _order(inputs, output, sizes):
    """Which two operands each step multiplies."""
    choice = rushlight.backends.opt_einsum
    if len(inputs) < 3 or not choice.enabled:
        return [(0, 1)] * (len(inputs) - 1)
    return contraction_order(
        tuple(map(frozenset, inputs)), frozenset(output), tuple(sizes.items()), choice.strategy
    )


def _from_sublists(arguments):
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

    def text(numbers):
        for n in numbers:
            if n is not Ellipsis and not 0 <= n < len(letters):
                raise ValueError(
                    f"einsum(): subscript in subscript list is not within the valid range [0, 52), "
                    f"got {n}"
                )
        return "".join("..." if n is Ellipsis else letters[n] for n in numbers)

    operands, terms, rest = [], [], list(arguments)
    while len(rest) >= 2:
        operands.append(rest.pop(0))
        terms.append(text(rest.pop(0)))
    equation = ",".join(terms)
    return (f"{equation}->{text(rest[0])}" if rest else equation), operands


def _parse_einsum(equation, operands):
    """Letters of each operand and of the result; '...' becomes numbered labels, repeated letters
    become diagonals."""
    if not operands:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    left, arrow, right = equation.partition("->")
    terms, at = [], 0
    for n, term in enumerate(left.split(",")):
        if n == len(operands):
            raise RuntimeError(
                "einsum(): fewer operands were provided than specified in the equation"
            )
        terms.append(_scan(term, at, f"operand {n}"))
        at += len(term) + 1
    if len(terms) < len(operands):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    for n, (term, t) in enumerate(zip(terms, operands)):
        named = len(term) - (Ellipsis in term)
        if named != t.dim() and (named > t.dim() or Ellipsis not in term):
            wrong = "is more than" if Ellipsis in term else "does not match"
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) {wrong} the number "
                f"of dimensions ({t.dim()}) for operand {n}"
                + (" and no ellipsis was given" if Ellipsis not in term else "")
            )
    covered = [t.dim() - len(term) + 1 for term, t in zip(terms, operands) if Ellipsis in term]
    widest = max(covered, default=0)
    inputs = []
    for n, (term, t) in enumerate(zip(terms, operands)):
        labels = _labels(term, t.dim() - len(term) + 1, widest)
        operands[n], labels = _diagonals(t, labels, n)
        inputs.append(labels)
    sizes = _common_sizes(inputs, operands)
    if arrow:
        output = _labels(_scan(right, len(left) + 2, "output"), widest, widest)
        for c in output:
            if output.count(c) > 1:
                raise RuntimeError(
                    f"einsum(): output subscript {c} appears more than once in the output"
                )
            if not any(c in labels for labels in inputs):
                raise RuntimeError(
                    f"einsum(): output subscript {c} does not appear in the equation for any input "
                    "operand"
                )
    else:
        count = {c: left.count(c) for c in left if c.isalpha()}
        output = list(range(widest)) + sorted(c for c, n in count.items() if n == 1)
    return inputs, output, operands, sizes


def _scan(term, start, whose):
    """The letters of a term, and Ellipsis for '...'; `start` is its place in the equation."""
    labels, i = [], 0
    while i < len(term):
        c = term[i]
        if c == "." and Ellipsis in labels:
            raise RuntimeError(
                f"einsum(): found '.' for {whose} "
                + ("but an ellipsis (...)" if whose == "output" else "for which an ellipsis")
                + " was already found"
            )
        if c == "." and term[i : i + 3] != "...":
            raise RuntimeError(
                f"einsum(): found '.' for {whose} that is not part of any ellipsis"
                + " (...)" * (whose == "output")
            )
        if c == ".":
            labels.append(Ellipsis)
            i += 2
        elif c.isascii() and c.isalpha():
            labels.append(c)
        elif c != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + i} in the equation string: "
                f"{c!r}, subscripts must be in [a-zA-Z]"
            )
        i += 1
    return labels


def _labels(term, width, widest):
    """Letters, and the numbers of the last `width` of the dims that ellipses cover."""
    numbered = [[*range(widest - width, widest)] if c is Ellipsis else [c] for c in term]
    return [c for part in numbered for c in part]


def _diagonals(t, labels, operand):
    """Takes diagonals until no label is repeated."""
    labels = list(labels)
    for c in dict.fromkeys(labels):
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            if t.shape[i] != t.shape[j]:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for operand {operand} but the sizes "
                    "don't match, "
                    f"{t.shape[j]} != {t.shape[i]}"
                )
            t = t.diagonal(0, i, j).movedim(-1, i)
            del labels[j]
    return t, labels


def _common_sizes(inputs, operands):
    sizes = {}
    for which, (labels, t) in enumerate(zip(inputs, operands)):
        for c, n in zip(labels, t.shape):
            known = sizes.setdefault(c, n)
            if n != known and n != 1 and known != 1:
                named = isinstance(c, str)
                dim = f"subscript {c}" if named else f"dimension {labels.index(c)} of the ellipsis"
                raise RuntimeError(
                    f"einsum(): {dim} has size {n} for operand {which} which does not broadcast "
                    f"with previously seen size {known}"
                )
            sizes[c] = max(known, n) if 0 not in (known, n) else 0
    return sizes


def _reduce_labels(t, labels, keep):
    gone = [i for i, c in enumerate(labels) if c not in keep]
    return (t.sum(gone) if gone else t), [c for c in labels if c in keep]


def _contract(a, labels_a, b, labels_b, keep):
    """Multiplies and sums over labels of both that nothing later needs: one batched matrix
    product."""

    def wide(labels, t, c):
        return t.shape[labels.index(c)] != 1

    shared = [c for c in labels_a if c in labels_b]
    summed = [c for c in shared if c not in keep and wide(labels_a, a, c) and wide(labels_b, b, c)]
    thin = [c for c in shared if c not in keep and c not in summed]
    if thin:  # of size 1 on one side: broadcast there, so sum the other side alone
        a, labels_a = _reduce_labels(a, labels_a, set(labels_a) - set(thin))
        b, labels_b = _reduce_labels(b, labels_b, set(labels_b) - set(thin))
    batch = [c for c in shared if c in keep]
    only_a = [c for c in labels_a if c not in labels_b]
    only_b = [c for c in labels_b if c not in labels_a]
    if not summed:
        labels = batch + only_a + only_b
        left = a.permute([labels_a.index(c) for c in batch + only_a])
        left = left.reshape([*left.shape, *[1] * len(only_b)])
        right = b.permute([labels_b.index(c) for c in batch + only_b])
        k = len(batch)
        right = right.reshape([*right.shape[:k], *[1] * len(only_a), *right.shape[k:]])
        return left * right, labels
    left = a.permute([labels_a.index(c) for c in batch + only_a + summed])
    right = b.permute([labels_b.index(c) for c in batch + summed + only_b])
    k = len(batch)
    sizes = _wider(left.shape[:k], right.shape[:k])
    left, right = left.expand([*sizes, *left.shape[k:]]), right.expand([*sizes, *right.shape[k:]])
    rows, columns = list(left.shape[k : k + len(only_a)]), list(right.shape[k + len(summed) :])
    inner = _count(left, range(k + len(only_a), left.dim()))
    left = left.reshape([*sizes, _product(rows), inner])
    right = right.reshape([*sizes, inner, _product(columns)])
    return (left @ right).reshape([*sizes, *rows, *columns]), batch + only_a + only_b


def _product(sizes):
    n = 1
    for s in sizes:
        n *= s
    return n


def detach_(input: Tensor) -> Any:
    """Take a tensor out of the graph, in place."""
    return input.detach_()


rushlight.overrides._make_overridable(
    globals(), __name__, but=("einsum",), core=("detach_", "nonzero")
)

set_module("rushlight", detach_, nonzero)


def __getattr__(name: str) -> Any:
    if name in ("istft", "pca_lowrank", "svd_lowrank"):
        return getattr(rushlight, name)
    if name == "F":  # programs import it from here
        return rushlight.nn.functional
    raise AttributeError(f"module 'rushlight.functional' has no attribute {name!r}")
