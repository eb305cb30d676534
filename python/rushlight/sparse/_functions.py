"""The functions that take sparse tensors, and those of one tensor, value by value.

All others say that they do not. `_shapes`, `_arithmetic` and `_products` add theirs to the table.
"""

import rushlight
from rushlight import _C, Tensor
from rushlight.sparse import _coo
from rushlight.sparse._coo import SparseTensor, coalesced, construct, values_of

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


def map_values(sparse, f):
    values = f(values_of(sparse))
    return construct(sparse._indices(), values, sparse.shape, sparse.is_coalesced())


def _each(sparse, f):
    return map_values(coalesced(sparse), f)


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
    return map_values(input, rushlight.neg)


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
    return map_values(input, lambda values: values.to(dtype))


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


def wrap_dim(dim, tensor):
    if not -tensor.dim() <= dim < tensor.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-tensor.dim()},"
            f" {tensor.dim() - 1}], but got {dim})"
        )
    return dim % tensor.dim()


def need_sparse(name, *tensors):
    if not all(isinstance(tensor, SparseTensor) for tensor in tensors):
        raise RuntimeError(f"{name}: sparse and dense tensors together; see to_dense")


def check_same_form(name, a, b):
    if a.shape != b.shape:
        raise RuntimeError(
            f"{name}: sparse tensors of shapes {tuple(a.shape)} and {tuple(b.shape)}; they do not"
            " broadcast"
        )
    if a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(
            f"{name}: sparse tensors with {a.sparse_dim()} and {b.sparse_dim()} sparse dims"
        )
