"""Which operation of `torch.ops.aten` a row of the table is: its name, and the overload."""

from __future__ import annotations

from rushlight import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.export._table import Schema

# Rows under other names, each with the overload where one is always meant.
_NAMES = {
    "cross_entropy": "cross_entropy_loss", "vector_norm": "linalg_vector_norm",
    "concat": "cat", "concatenate": "cat", "multiply": "mul", "divide": "div", "subtract": "sub",
    "true_divide": "div", "greater": "gt", "less": "lt", "greater_equal": "ge",
    "less_equal": "le", "not_equal": "ne", "negative": "neg", "absolute": "abs",
    "clip": "clamp", "nonzero_tuple": "nonzero",
    "clamp.tensor": "clamp.Tensor", "clamp_.tensor": "clamp_.Tensor", "copysign_": "copysign_",
    "max.other": "maximum", "min.other": "minimum", "split.sizes": "split_with_sizes",
    "unsafe_split": "unsafe_split.Tensor", "frexp": "frexp.Tensor", "ldexp": "ldexp.Tensor",
    "ldexp_": "ldexp_.default",
    "matrix_exp": "linalg_matrix_exp",
    "qr": "linalg_qr", "orgqr": "linalg_householder_product",
    "scatter_reduce": "scatter_reduce.two",
    "scatter_reduce_": "scatter_reduce_.two",
    "randint_like.low": "randint_like.low_dtype", "normal": "normal.Tensor_Tensor",
    "normal.size": "normal.float_float", "normal.std": "normal.Tensor_float",
    "normal.mean": "normal.float_Tensor", "normal.number": "normal.float_Tensor",
    "transpose_copy": "transpose_copy.int", "unbind_copy": "unbind_copy.int",
    "select_copy": "select_copy.int", "slice_copy": "slice_copy.Tensor",
    "split_copy": "split_copy.Tensor",
}  # fmt: skip

# Functions of torch.special that are operations by that name, not those of `torch`.
_SPECIAL = set(
    """
    airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u
    chebyshev_polynomial_v chebyshev_polynomial_w entr erfcx hermite_polynomial_h
    hermite_polynomial_he i0e i1 i1e laguerre_polynomial_l legendre_polynomial_p log_ndtr
    modified_bessel_k0 modified_bessel_k1 ndtri
    scaled_modified_bessel_k0 scaled_modified_bessel_k1 shifted_chebyshev_polynomial_t
    shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
    spherical_bessel_j0 xlog1py zeta
    """.split()
)
_TWO_ARGUMENTS = set(
    """
    xlog1py zeta chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
    chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l
    legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
    shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w
    """.split()
)

_TENSOR_OR_NUMBER = set("add sub mul div add_ sub_ mul_ div_".split())
_BY_OTHER = set(
    """
    eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor remainder fmod masked_fill masked_fill_
    fill_ bitwise_and_ bitwise_or_ bitwise_xor_ remainder_ fmod_ rsub copysign copysign_ fill
    eq_ ne_ lt_ le_ gt_ ge_ lerp lerp_
    """.split()
)
_FIXED = {
    "select": "int", "slice": "Tensor", "transpose": "int", "index": "Tensor", "unbind": "int",
    "split": "Tensor", "where": "self", "std": "correction", "var": "correction",
    "std_mean": "correction", "var_mean": "correction", "empty": "memory_format",
    "bernoulli_": "float", "cumsum": "default",
}  # fmt: skip
_BY_DIM = {"sum": "dim_IntList", "mean": "dim", "prod": "dim_int", "max": "dim", "min": "dim",
           "any": "dim", "all": "dim", "squeeze": "dim", "median": "dim", "nansum": "default",
           "count_nonzero": "dim_IntList", "squeeze_": "dim"}  # fmt: skip


def _is_tensor(args, place):
    return len(args) > place and isinstance(args[place], Tensor)


def _two(args):
    """The overload that says of both arguments what they are."""
    return "_".join("Tensor" if isinstance(a, Tensor) else "Scalar" for a in args[:2])


def _power(args, kwargs):
    if not isinstance(args[0], Tensor):
        return "Scalar"
    return "Tensor_Tensor" if isinstance(args[1], Tensor) else "Tensor_Scalar"


def _comparison(args, kwargs):
    """Of xlogy and its like: which argument is a number."""
    if not isinstance(args[0], Tensor):
        return "Scalar_Self"
    return "Tensor" if _is_tensor(args, 1) else "Scalar_Other"


def _special(name, args):
    """The overload of a function of torch.special with two arguments."""
    first, second = ("x", "n") if "polynomial" in name else ("self", "other")
    if not isinstance(args[0], Tensor):
        return f"{first}_scalar"
    return "default" if _is_tensor(args, 1) else f"{second}_scalar"


def _bound(args, kwargs):
    return "Tensor" if _is_tensor(args, 1) else "default"


def _by_elements(args, kwargs):
    return "Tensor" if _is_tensor(args, 0) else "Scalar"


def _index_fill(args, kwargs):
    return "int_Tensor" if _is_tensor(args, 3) else "int_Scalar"


def _spaced(args, kwargs):
    if any(isinstance(a, Tensor) for a in args[:2]):
        return _two(args)
    return "default"


def _stable(args, kwargs):
    return "stable" if kwargs.get("stable") is not None else "default"


def _shift(args, kwargs):
    return ("Tensor" if isinstance(args[0], Tensor) else "Scalar_Tensor") if _is_tensor(
        args, 1
    ) else "Tensor_Scalar"  # fmt: skip


def _eye(args, kwargs):
    return "m" if len(args) > 1 or "m" in kwargs else "default"


def _searched(args, kwargs):
    return "Tensor" if _is_tensor(args, 1) else "Scalar"


def _arange(args, kwargs):
    return ("default", "default", "start", "start_step")[min(len(args) + ("step" in kwargs), 3)]


def _scatter(args, kwargs):
    kind = "value" if len(args) > 3 and not isinstance(args[3], Tensor) or "value" in kwargs else ""
    reduces = "reduce" in kwargs or len(args) > 4
    return "_".join([kind] * bool(kind) + ["reduce"] * reduces) or "src"


_BY_ARGUMENTS: dict[str, Callable[..., Any]] = {
    "pow": _power, "pow_": lambda args, kwargs: "Tensor" if _is_tensor(args, 1) else "Scalar",
    "clamp_max": _bound, "clamp_min": _bound, "clamp_max_": _bound, "clamp_min_": _bound,
    "bucketize": _by_elements, "searchsorted": _searched,
    "isin": lambda args, kwargs: _two(args), "sort": _stable,
    "argsort": _stable, "index_fill": _index_fill, "index_fill_": _index_fill,
    "linspace": _spaced, "logspace": _spaced, "eye": _eye, "xlogy": _comparison,
    "xlogy_": lambda args, kwargs: "Tensor" if _is_tensor(args, 1) else "Scalar_Other",
    "arange": _arange, "scatter": _scatter, "scatter_": _scatter,
    "bitwise_left_shift": _shift, "bitwise_right_shift": _shift,
}  # fmt: skip


def aten_name(target: str, name: str, row: Schema, args: Any, kwargs: Any) -> tuple[str, str]:
    """(name, overload) of the operation that a call of a row is.

    Args:
        target: the function of Python, as the table has it: "torch.add".
        name: of the row, without overload.
        args, kwargs: what it is called with, in the order of the row.
    """
    bare = target.rpartition(".")[2]
    bare = bare.replace("modified_bessel_i1", "i1")  # the same function under two names
    if target.startswith("special.") and bare in _SPECIAL:
        return f"special_{bare}", _special(bare, args) if bare in _TWO_ARGUMENTS else "default"
    suffix = row.key.partition(".")[2]
    full = _NAMES.get(f"{name}.{suffix}") if suffix else None
    if full is not None and "." not in full:
        return full, "default"
    full = full or _NAMES.get(name, name)
    name, dot, overload = full.partition(".")
    return name, overload if dot else _overload(name, suffix, args, kwargs)


def _overload(name, suffix, args, kwargs):
    if name in ("div", "div_") and kwargs.get("rounding_mode") is not None:
        return "Tensor_mode"
    if name in _TENSOR_OR_NUMBER:
        return "Tensor"
    if name in _BY_ARGUMENTS:
        return _BY_ARGUMENTS[name](args, kwargs)
    if name in _BY_OTHER:
        last = args[-1] if len(args) > 1 else next(iter(kwargs.values()), None)
        return "Tensor" if isinstance(last, Tensor) else "Scalar"
    if name in _FIXED:
        return _FIXED[name]
    if name in _BY_DIM:
        second = args[1] if len(args) > 1 else kwargs.get("dim")
        if isinstance(second, Tensor):
            return "other"
        if name in ("squeeze", "any", "all") and isinstance(second, list):
            return "dims"
        return "default" if second is None else _BY_DIM[name]
    return suffix or "default"
