"""The functions that take sparse tensors; all others say that they do not."""

import math

import rushlight
from rushlight import _C, Tensor
from rushlight.sparse import _coo
from rushlight.sparse._coo import (
    SparseTensor,
    coalesced,
    construct,
    find,
    keys_of,
    take,
    values_of,
)

# What is known without the elements: the core answers for the meta tensor.
_OF_THE_SHAPE = {
    "size", "dim", "ndimension", "numel", "nelement", "element_size", "is_floating_point",
    "is_complex", "is_signed", "is_inference", "requires_grad_", "retain_grad", "register_hook",
    "register_post_accumulate_grad_hook", "backward", "is_same_size", "detach_", "__len__",
    "_is_view", "is_pinned", "is_conj", "is_neg", "get_device",
}  # fmt: skip
_ATTRIBUTES = {
    "shape", "dtype", "ndim", "itemsize", "requires_grad", "grad", "_grad", "grad_fn", "is_leaf",
    "retains_grad", "output_nr", "_version", "_backward_hooks", "_post_accumulate_grad_hooks",
    "is_cuda", "is_mps", "is_xpu", "is_mkldnn", "is_nested", "is_quantized", "is_sparse_csr",
    "name", "_cdata",
}  # fmt: skip
_FUNCTIONS = {}


def call(func, args, kwargs):
    """Carry out a function or method of tensors, some of which are sparse."""
    name = getattr(func, "__name__", str(func))
    owner = getattr(func, "__self__", None)
    if name in ("__get__", "__set__") and owner is not None:
        name = owner.__name__
        if name in _ATTRIBUTES:
            with _C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](*args, **kwargs)
    if name in _OF_THE_SHAPE:
        with _C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    raise NotImplementedError(
        f"{name}: not implemented for sparse COO tensors; x.to_dense() gives an ordinary tensor"
    )


def function(*names):
    """Make the decorated function the one that these names call."""

    def register(f):
        for name in names or [f.__name__]:
            _FUNCTIONS[name] = f
        return f

    return register


# ---- of one tensor, value by value -----------------------------------------------------------


def _linear(sparse, f):
    values = f(values_of(sparse))
    return construct(sparse._indices(), values, sparse.shape, sparse.is_coalesced())


def _each(sparse, f):
    return _linear(coalesced(sparse), f)


def _add_unary(name):
    plain = getattr(rushlight, name)
    _FUNCTIONS[name] = lambda input: _each(input, plain)


for _name in (
    "abs", "sin", "tan", "sinh", "tanh", "asin", "atan", "asinh", "atanh", "sqrt", "square",
    "sign", "sgn", "floor", "ceil", "round", "trunc", "expm1", "log1p", "relu", "erf", "erfinv",
    "deg2rad", "rad2deg", "nan_to_num", "isnan", "isinf", "frac", "positive",
):  # fmt: skip
    if hasattr(rushlight, _name):
        _add_unary(_name)
_FUNCTIONS["absolute"] = _FUNCTIONS["__abs__"] = _FUNCTIONS["abs"]


@function("neg", "negative", "__neg__")
def neg(input):
    return _linear(input, rushlight.neg)


@function("pow", "__pow__")
def power(input, exponent):
    if not isinstance(exponent, (int, float)) or isinstance(input, (int, float)) or exponent <= 0:
        raise RuntimeError("pow: a sparse tensor takes a positive number as its exponent")
    return _each(input, lambda values: values**exponent)


@function()
def clone(input, *, memory_format=None):
    values = values_of(input).clone()
    return construct(input._indices().clone(), values, input.shape, input.is_coalesced())


@function()
def detach(input):
    return _coo.wrap(input._indices(), input._values(), input.shape, input.is_coalesced())


@function()
def to(input, *args, dtype=None, device=None, copy=False, **options):
    for arg in args:
        if isinstance(arg, Tensor):
            dtype = arg.dtype
        elif isinstance(arg, rushlight.dtype):
            dtype = arg
        elif isinstance(arg, (str, rushlight.device)):
            device = arg
    if device is not None and rushlight.device(device).type != "cpu":
        raise NotImplementedError(f"to: sparse tensors are on the CPU, not on {device}")
    if dtype is None or dtype == input.dtype:
        return clone(input) if copy else input
    return _linear(input, lambda values: values.to(dtype))


def _add_conversion(name, dtype):
    _FUNCTIONS[name] = lambda input, **options: to(input, dtype)


for _name, _dtype in {
    "float": rushlight.float32, "double": rushlight.float64, "half": rushlight.float16,
    "bfloat16": rushlight.bfloat16, "int": rushlight.int32, "long": rushlight.int64,
    "short": rushlight.int16, "char": rushlight.int8, "byte": rushlight.uint8,
    "bool": rushlight.bool,
}.items():  # fmt: skip
    _add_conversion(_name, _dtype)


@function("cpu", "contiguous")
def same(input, **options):
    return input


@function()
def type_as(input, other):
    return to(input, other.dtype)


@function()
def is_contiguous(input, **options):
    return False


@function("is_nonzero", "__bool__")
def is_nonzero(input):
    if input.numel() != 1:
        raise RuntimeError(
            "Boolean value of Tensor with more than one value is ambiguous"
            if input.numel()
            else "Boolean value of Tensor with no values is ambiguous"
        )
    return bool(input.to_dense())


@function("item", "__float__", "__int__")
def item(input):
    if input.numel() != 1:
        raise RuntimeError(f"a Tensor with {input.numel()} elements cannot be converted to Scalar")
    return input.to_dense().item()


@function("data_ptr", "untyped_storage", "storage", "stride", "storage_offset", "tolist")
def data_ptr(input, *args):
    raise RuntimeError(
        "a sparse tensor has no storage of its elements; x.indices() and x.values() have"
    )


# ---- shapes ----------------------------------------------------------------------------------


@function("transpose", "swapaxes", "swapdims")
def transpose(input, dim0, dim1):
    dim0, dim1 = _wrap_dim(dim0, input), _wrap_dim(dim1, input)
    order = list(range(input.dim()))
    order[dim0], order[dim1] = dim1, dim0
    return permute(input, order)


@function()
def t(input):
    if input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return transpose(input, 0, 1) if input.dim() == 2 else input


@function()
def permute(input, *dims):
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else dims
    dims = [_wrap_dim(dim, input) for dim in dims]
    sparse_dim = input.sparse_dim()
    if sorted(dims) != list(range(input.dim())):
        raise RuntimeError(f"permute: {dims} are not the dims of a tensor of {input.dim()} dims")
    if sorted(dims[:sparse_dim]) != list(range(sparse_dim)):
        raise RuntimeError("permute: sparse and dense dims of a sparse tensor stay apart")
    if dims == list(range(input.dim())):
        return input
    values = values_of(input).permute(0, *(dim - sparse_dim + 1 for dim in dims[sparse_dim:]))
    indices = input._indices()[dims[:sparse_dim]]
    return construct(indices, values, [input.shape[dim] for dim in dims], input._nnz() < 2)


@function()
def unsqueeze(input, dim):
    dim = dim + input.dim() + 1 if dim < 0 else dim
    if not 0 <= dim <= input.sparse_dim():
        raise NotImplementedError("unsqueeze: among the dense dims of a sparse tensor")
    indices = input._indices()
    zero = rushlight.zeros(1, indices.size(1), dtype=rushlight.int64)
    indices = rushlight.cat([indices[:dim], zero, indices[dim:]])
    size = [*input.shape[:dim], 1, *input.shape[dim:]]
    return construct(indices, values_of(input), size, input.is_coalesced())


@function()
def select(input, dim, index):
    dim = _wrap_dim(dim, input)
    length = input.shape[dim]
    if not -length <= index < length:
        raise IndexError(f"select: index {index} out of range for dim {dim} of size {length}")
    index %= length
    size = [s for d, s in enumerate(input.shape) if d != dim]
    sparse_dim = input.sparse_dim()
    source = coalesced(input)
    if dim >= sparse_dim:
        values = values_of(source).select(dim - sparse_dim + 1, index)
        return construct(source._indices(), values, size, True)
    indices = source._indices()
    kept = (indices[dim] == index).nonzero().reshape(-1)
    values = values_of(source)[kept]
    if sparse_dim == 1:
        return values.sum(0)
    rest = rushlight.cat([indices[:dim], indices[dim + 1 :]])[:, kept]
    return construct(rest, values, size, True)


@function("__getitem__")
def get_item(input, index):
    index = index if isinstance(index, tuple) else (index,)
    dim = 0
    for part in index:
        if isinstance(part, int) and not isinstance(part, bool):
            input = input.select(dim, part)
        elif isinstance(part, slice) and part == slice(None):
            dim += 1
        else:
            raise NotImplementedError(
                f"indexing a sparse tensor takes ints and :, not {part!r}; see index_select"
            )
    return input


@function("__iter__", "unbind")
def unbind(input, dim=0):
    return iter([input.select(dim, index) for index in range(input.shape[dim])])


@function()
def index_select(input, dim, index):
    dim = _wrap_dim(dim, input)
    source = coalesced(input)
    sparse_dim = source.sparse_dim()
    size = list(input.shape)
    size[dim] = len(index)
    if dim >= sparse_dim:
        values = values_of(source).index_select(dim - sparse_dim + 1, index)
        return construct(source._indices(), values, size, True)
    if len(index) and not (0 <= int(index.min()) and int(index.max()) < input.shape[dim]):
        raise IndexError(f"index_select: index out of range for dim {dim} of {tuple(input.shape)}")
    row = source._indices()[dim]
    new, old = (index.reshape(-1, 1) == row.reshape(1, -1)).nonzero().t()
    indices = source._indices()[:, old]
    indices[dim] = new
    return construct(indices, values_of(source)[old], size, False)


@function("cat", "concat", "concatenate")
def cat(tensors, dim=0):
    _need_sparse("cat", *tensors)
    dim = _wrap_dim(dim, tensors[0])
    sparse_dim = tensors[0].sparse_dim()
    if dim >= sparse_dim:
        raise NotImplementedError("cat: along a dense dim of sparse tensors")
    rest = [[s for d, s in enumerate(t.shape) if d != dim] for t in tensors]
    if any(t.sparse_dim() != sparse_dim for t in tensors) or any(r != rest[0] for r in rest):
        shapes = [tuple(t.shape) for t in tensors]
        raise RuntimeError(f"cat: shapes {shapes} differ beside dim {dim}")
    indices, start = [], 0
    for tensor in tensors:
        moved = tensor._indices().clone()
        moved[dim] += start
        indices.append(moved)
        start += tensor.shape[dim]
    values = rushlight.cat([values_of(tensor) for tensor in tensors])
    size = list(tensors[0].shape)
    size[dim] = start
    return construct(rushlight.cat(indices, 1), values, size, False)


@function()
def stack(tensors, dim=0):
    _need_sparse("stack", *tensors)
    dim = dim + tensors[0].dim() + 1 if dim < 0 else dim
    return cat([tensor.unsqueeze(dim) for tensor in tensors], dim)


@function()
def zeros_like(input, *, dtype=None, **options):
    indices = rushlight.zeros(input.sparse_dim(), 0, dtype=rushlight.int64)
    values = rushlight.zeros(0, *input._values().shape[1:], dtype=dtype or input.dtype)
    return _coo.wrap(indices, values, input.shape, True)


@function()
def empty_like(input, *, dtype=None, **options):
    return zeros_like(input, dtype=dtype)


# ---- arithmetic ------------------------------------------------------------------------------


@function("add", "__add__", "__radd__")
def add(input, other, *, alpha=1):
    if not isinstance(other, SparseTensor) or not isinstance(input, SparseTensor):
        if isinstance(other, SparseTensor) and isinstance(input, Tensor):
            return add_to_dense(input, other, alpha)
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    _check_same_form("add", input, other)
    both = input.is_coalesced() and other.is_coalesced()
    scaled = values_of(other) if alpha == 1 else values_of(other) * alpha
    if rushlight.equal(input._indices(), other._indices()):
        return construct(input._indices(), values_of(input) + scaled, input.shape, both)
    indices = rushlight.cat([input._indices(), other._indices()], 1)
    values = rushlight.cat([values_of(input), scaled])
    total = construct(indices, values, input.shape, False)
    return coalesced(total) if both else total


@function("sub", "subtract", "__sub__")
def sub(input, other, *, alpha=1):
    return add(input, other, alpha=-alpha)


@function("__rsub__", "rsub")
def rsub(input, other, *, alpha=1):
    return add(other, input, alpha=-alpha)


def add_to_dense(a, b, alpha=1):
    """Dense plus sparse, in any order."""
    dense, sparse = (b, a) if a.is_sparse else (a, b)
    return rushlight.add(dense, sparse.to_dense(), alpha=alpha)


def add_sparse_(dense, sparse, alpha=1):
    """dense += alpha * sparse, touching only the elements that are there."""
    if dense.shape != sparse.shape:
        raise RuntimeError(
            f"add_: the shapes {tuple(dense.shape)} and {tuple(sparse.shape)} differ"
        )
    values = values_of(coalesced(sparse)) if sparse.requires_grad else None
    source = coalesced(sparse)
    values = source._values() if values is None else values
    scaled = values if alpha == 1 else values * alpha
    return dense.index_put_(tuple(source._indices()), scaled.to(dense.dtype), accumulate=True)


@function("add_", "__iadd__")
def add_(input, other, *, alpha=1):
    if not isinstance(input, SparseTensor):
        return add_sparse_(input, other, alpha)
    return _replace(input, add(input, other, alpha=alpha))


@function("sub_", "__isub__")
def sub_(input, other, *, alpha=1):
    return add_(input, other, alpha=-alpha)


@function("mul", "multiply", "__mul__", "__rmul__")
def mul(input, other):
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if isinstance(other, SparseTensor):
        return _mul_sparse(input, other)
    if not isinstance(other, Tensor) or other.dim() == 0:
        return _linear(input, lambda values: values * other)
    if rushlight.broadcast_shapes(input.shape, other.shape) != input.shape:
        raise RuntimeError(
            f"mul: a dense tensor of shape {tuple(other.shape)} would make the sparse one of shape"
            f" {tuple(input.shape)} larger"
        )
    source = coalesced(input)
    indices = source._indices()
    factors = take(other.expand(input.shape), indices, None)
    return construct(indices, values_of(source) * factors, input.shape, True)


def _mul_sparse(a, b):
    _check_same_form("mul", a, b)
    a, b = coalesced(a), coalesced(b)
    shape = a.shape[: a.sparse_dim()]
    keys = keys_of(a._indices(), shape)
    places, known = find(keys, keys_of(b._indices(), shape))
    mine = known.nonzero().reshape(-1)
    values = values_of(a)[mine] * values_of(b)[places[mine]]
    return construct(a._indices()[:, mine], values, a.shape, True)


@function("div", "divide", "true_divide", "__truediv__")
def div(input, other, *, rounding_mode=None):
    if isinstance(other, Tensor) and (other.is_sparse or other.dim()):
        raise RuntimeError("div: a sparse tensor is divided by a number or a tensor without dims")
    return _linear(input, lambda values: values.div(other, rounding_mode=rounding_mode))


@function("mul_", "__imul__", "multiply_")
def mul_(input, other):
    if isinstance(input, SparseTensor):
        return _replace(input, mul(input, other))
    raise NotImplementedError("mul_: a dense tensor does not become a sparse one in place")


@function("div_", "__itruediv__")
def div_(input, other):
    return _replace(input, div(input, other))


@function()
def neg_(input):
    return _replace(input, neg(input))


@function()
def zero_(input):
    return _replace(input, zeros_like(input))


@function()
def copy_(input, src, non_blocking=False):
    if not isinstance(input, SparseTensor) or not isinstance(src, SparseTensor):
        raise NotImplementedError("copy_: between a dense and a sparse tensor; see to_dense")
    _check_same_form("copy_", input, src)
    return _replace(input, to(clone(src), input.dtype))


def _replace(input, result):
    if input.requires_grad or result.requires_grad:
        raise RuntimeError("a sparse tensor that requires a gradient cannot be changed in place")
    if result.dtype != input.dtype:
        raise RuntimeError(f"result type {result.dtype} can't be cast to {input.dtype} in place")
    input.__dict__.update(
        coo_indices=result._indices(),
        coo_values=result._values(),
        coo_coalesced=result.is_coalesced(),
    )
    return input


@function()
def sum(input, dim=None, keepdim=False, *, dtype=None):
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return values_of(coalesced(input)).sum(dtype=dtype)
    dims = sorted({_wrap_dim(d, input) for d in ([dim] if isinstance(dim, int) else dim)})
    if keepdim:
        raise NotImplementedError("sum: keepdim for sparse tensors")
    source = coalesced(input)
    sparse_dim = source.sparse_dim()
    values = values_of(source)
    values = values if dtype is None else values.to(dtype)
    inner = [d - sparse_dim + 1 for d in dims if d >= sparse_dim]
    values = values.sum(inner) if inner else values
    kept = [d for d in range(sparse_dim) if d not in dims]
    if not kept:
        return values.sum(0)
    size = [s for d, s in enumerate(input.shape) if d not in dims]
    if len(kept) == sparse_dim:
        return construct(source._indices(), values, size, True)
    return coalesced(construct(source._indices()[kept], values, size, False))


# ---- products --------------------------------------------------------------------------------


@function("mm", "matmul", "__matmul__", "__rmatmul__", "mv", "spmm")
def matmul(input, other):
    if not isinstance(input, Tensor) or not isinstance(other, Tensor):
        raise TypeError("matmul: both operands must be tensors")
    if input.dim() > 2 or other.dim() > 2 or 0 in (input.dim(), other.dim()):
        raise NotImplementedError(
            f"matmul: sparse operands have 1 or 2 dims, not {input.dim()} and {other.dim()}"
        )
    if input.shape[-1] != other.shape[0]:
        raise RuntimeError(
            f"matmul: shapes {tuple(input.shape)} and {tuple(other.shape)} cannot be multiplied"
        )
    for operand in (input, other):
        if operand.is_sparse and operand.dense_dim():
            raise NotImplementedError("matmul: a sparse operand with dense dims")
    if input.dtype != other.dtype:
        raise RuntimeError(f"matmul: dtypes {input.dtype} and {other.dtype} differ")
    if input.dim() == 1:
        product = matmul(other.t(), input.unsqueeze(1) if not input.is_sparse else input.to_dense())
        return product.squeeze(-1) if product.dim() == 2 else product
    if input.is_sparse and other.is_sparse:
        return _sparse_times_sparse(input, other)
    if other.is_sparse:
        return _sparse_times_dense(other.t(), input.t()).t()
    return _sparse_times_dense(input, other)


def _sparse_times_dense(sparse, dense):
    source = coalesced(sparse)
    rows, columns = source._indices()
    values = values_of(source)
    products = dense[columns] * (values if dense.dim() == 1 else values.unsqueeze(1))
    total = rushlight.zeros([sparse.shape[0], *dense.shape[1:]], dtype=products.dtype)
    return total.index_add(0, rows, products)


def _sparse_times_sparse(a, b):
    if b.dim() == 1:
        return _sparse_times_dense(a, b.to_dense())
    a, b = coalesced(a), coalesced(b)
    rows, middle = a._indices()
    b_rows, b_columns = b._indices()
    # The elements of each row of b lie together: for each of a, all those of its row.
    starts = rushlight.searchsorted(b_rows, middle)
    counts = rushlight.searchsorted(b_rows, middle, right=True) - starts
    which = rushlight.arange(len(middle)).repeat_interleave(counts)
    within = rushlight.arange(len(which)) - (counts.cumsum(0) - counts)[which]
    partner = starts[which] + within
    values = values_of(a)[which] * values_of(b)[partner]
    indices = rushlight.stack([rows[which], b_columns[partner]])
    return coalesced(construct(indices, values, [a.shape[0], b.shape[1]], False))


@function()
def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    product = matmul(mat1, mat2)
    if product.is_sparse and not input.is_sparse:
        product = product.to_dense()
    if input.is_sparse and not product.is_sparse:
        raise RuntimeError("addmm: a dense product cannot be added to a sparse tensor")
    return input * beta + product * alpha


@function("norm", "linalg_vector_norm", "vector_norm")
def norm(input, ord=2, dim=None, keepdim=False, *, dtype=None):
    return SparseTensor.norm(input, ord, dim, keepdim, dtype)


def softmax(input, dim, *, log=False, dtype=None):
    """Softmax over the elements that are there, as if all others were minus infinity."""
    dim = _wrap_dim(dim, input)
    source = coalesced(input)
    values = values_of(source)
    values = values if dtype is None else values.to(dtype)
    sparse_dim = source.sparse_dim()
    if dim >= sparse_dim:
        f = rushlight.log_softmax if log else rushlight.softmax
        result = f(values, dim - sparse_dim + 1)
        return construct(source._indices(), result, input.shape, True)
    kept = [d for d in range(sparse_dim) if d != dim]
    shape = [input.shape[d] for d in kept]
    groups, group = keys_of(source._indices()[kept], shape).unique(return_inverse=True)
    size = [len(groups), *values.shape[1:]]
    spread = group.reshape(-1, *[1] * (values.dim() - 1)).expand(values.shape)
    top = rushlight.full(size, -math.inf, dtype=values.dtype)
    top = top.scatter_reduce(0, spread, values.detach(), "amax")
    shifted = values - top[group]
    total = rushlight.zeros(size, dtype=values.dtype).index_add(0, group, shifted.exp())[group]
    result = shifted - total.log() if log else shifted.exp() / total
    return construct(source._indices(), result, input.shape, True)


# ---- checks ----------------------------------------------------------------------------------


def _wrap_dim(dim, tensor):
    if not -tensor.dim() <= dim < tensor.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-tensor.dim()},"
            f" {tensor.dim() - 1}], but got {dim})"
        )
    return dim % tensor.dim()


def _need_sparse(name, *tensors):
    if not all(isinstance(tensor, SparseTensor) for tensor in tensors):
        raise RuntimeError(f"{name}: sparse and dense tensors together; see to_dense")


def _check_same_form(name, a, b):
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}: sparse tensors of shapes {tuple(a.shape)} and {tuple(b.shape)}; they do not"
            " broadcast"
        )
    if a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(
            f"{name}: sparse tensors with {a.sparse_dim()} and {b.sparse_dim()} sparse dims"
        )
