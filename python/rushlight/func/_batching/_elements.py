"""Element by element, and along dims."""

import rushlight
from rushlight import Tensor
from rushlight.func._batching._rules import RULES, of_first, padded, register, shifted, wrap
from rushlight.utils._pytree import tree_flatten, tree_unflatten

# ---- element by element


def pointwise(level, func, args, kwargs):
    leaves, structure = tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    rank = max(t.dim() for t in tensors)
    in_place = level.changes_its_first(func, args) or kwargs.get("inplace")
    mixed = len({t.dtype for t in tensors}) > 1
    common = rushlight.result_type(*tensors[:2]) if mixed and len(tensors) == 2 else None
    changed = []
    for leaf in leaves:
        found = level.examples(leaf)
        if found is None:
            changed.append(leaf)
            continue
        if common is not None and rank and not leaf.dim() and found is not level.examples(args[0]):
            found = found.to(common)  # a number by its rank does not decide the dtype
        changed.append(padded(found, rank))
    args_, kwargs_ = tree_unflatten(changed, structure)
    result = func(*args_, **kwargs_)
    return args[0] if in_place else wrap(level, result)


register(
    """
    abs absolute acos acosh addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2
    arctanh asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min clip conj conj_physical
    copysign cos cosh deg2rad digamma div divide elu eq erf erfc erfinv exp exp2 expit expm1
    float_power floor floor_divide fmax fmin fmod frac gammainc gammaincc gammaln gcd ge gelu
    greater greater_equal gt
    hardshrink hardsigmoid hardswish hardtanh heaviside hypot i0 i0e i1 i1e igamma igammac isclose
    isfinite isinf isnan isneginf isposinf isreal lcm ldexp le leaky_relu lerp less less_equal
    lgamma log log10 log1p log2 log_ndtr logaddexp logaddexp2 logical_and logical_not logical_or
    logical_xor logit logsigmoid lt masked_fill maximum minimum mish mul multiply mvlgamma
    nan_to_num ndtr ndtri ne neg negative nextafter not_equal polygamma positive pow psi rad2deg
    real reciprocal relu relu6 remainder round rsqrt rsub selu sgn sigmoid sign signbit silu sin
    sinc sinh softplus softshrink softsign sqrt square sub subtract tan tanh tanhshrink threshold
    true_divide trunc fix where xlog1py xlogy zeta entr erfcx
    airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1
    modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
    spherical_bessel_j0 chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
    chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l
    legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
    shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w log_expit polar complex
    multigammaln
    """,
    pointwise,
)
for _name in list(RULES):
    RULES[_name + "_"] = pointwise
register("copy_", pointwise)


def _fill(level, func, args, kwargs):
    value = args[1] if len(args) > 1 else kwargs["value"]
    return NotImplemented if isinstance(value, Tensor) else pointwise(level, func, args, kwargs)


register("fill", _fill)
register(
    " ".join(
        f"__{side}{name}__"
        for name in "add sub mul truediv div floordiv mod pow and or xor lshift rshift".split()
        for side in ("", "r", "i")
    )
    + " __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __neg__ __pos__ __abs__ __invert__ add add_",
    pointwise,
)


# ---- one tensor, whatever its dims


@of_first(
    """
    clone contiguous detach to float double half bfloat16 int long short char byte bool cfloat
    cdouble type zeros_like ones_like full_like empty_like cpu tril triu
    matrix_exp inv inverse det slogdet logdet cholesky cholesky_ex qr svd svdvals eigh eigvalsh eig
    eigvals pinv pinverse matrix_power inv_ex lu lu_factor adjoint
    view_as_real view_as_complex resolve_conj resolve_neg alias_copy layer_norm rms_norm
    """
)
def _as_it_is(func, x, rank, *args, **kwargs):
    return func(x, *args, **kwargs)


def _keeping_itself(level, func, args, kwargs):
    examples = level.examples(args[0])
    if examples is None or len(tree_flatten((args, kwargs))[0]) > 2:
        return NotImplemented
    func(examples, *args[1:], **kwargs)
    if func.__name__ == "requires_grad_":
        func(args[0], *args[1:], **kwargs)
    return args[0]


register("zero_ fill_ requires_grad_", _keeping_itself)


def _shape_in_place(level, func, args, kwargs):
    rule = RULES[func.__name__.removesuffix("_")]
    held = rule(level, func, args, kwargs)
    if held is NotImplemented:
        raise RuntimeError(f"vmap: {func.__name__}() of these arguments is not supported")
    func(*args, **kwargs)
    args[0].__dict__["_examples"] = held.__dict__["_examples"]
    return args[0]


register("squeeze_ unsqueeze_ transpose_ swapaxes_ swapdims_ t_", _shape_in_place)


# ---- along a dim


def _along(names, place, whole=None, keywords=("dim", "axis")):
    """Operations with the dim as the argument number `place`, the tensor being number 0.

    `whole`: what computes the result over all dims, for calls without a dim.
    """

    @of_first(names)
    def rule(func, x, rank, *args, **kwargs):
        args = list(args)
        if not rank:
            return NotImplemented
        key = next((k for k in keywords if k in kwargs), None)
        given = kwargs.get(key) if key else (args[place - 1] if len(args) >= place else None)
        if given is None:
            if whole is None:
                return NotImplemented
            return whole(func, x, *args, **{k: v for k, v in kwargs.items() if k != key})
        if not isinstance(given, (int, tuple, list)) or isinstance(given, bool):
            return NotImplemented
        if isinstance(given, (tuple, list)) and not given:
            return NotImplemented
        if key:
            kwargs[key] = shifted(given, rank)
        else:
            args[place - 1] = shifted(given, rank)
        return func(x, *args, **kwargs)


def _over_all(func, x, *args, **kwargs):
    return NotImplemented if args else func(x.flatten(1), dim=1, **kwargs)


def _largest(func, x, *args, **kwargs):
    if args or kwargs:
        return NotImplemented
    return x.flatten(1).amax(1) if func.__name__ == "max" else x.flatten(1).amin(1)


def _at_the_end(func, x, *args, **kwargs):
    return func(x, *args, **kwargs)


_along(
    "sum mean prod all any nansum nanmean argmax argmin count_nonzero var std var_mean std_mean",
    1,
    _over_all,
)
_along("amax amin logsumexp softmax log_softmax softmin cumsum cumprod cummax cummin", 1)
_along("logcumsumexp unbind unflatten select narrow glu", 1)
_along("max min", 1, _largest)
_along("median nanmedian mode sort argsort", 1)
_along("topk kthvalue", 2, _at_the_end)
_along("vector_norm normalize", 2)
_along("flip", 1, None, ("dims", "dim"))
_along("roll", 2, None, ("dims", "dim"))
_along("chunk split tensor_split split_with_sizes", 2, lambda f, x, n, **k: f(x, n, 1, **k))


@of_first("_c2c _r2c _c2r")
def _fourier(func, x, rank, dims, *args):
    return func(x, shifted(dims, rank), *args)


@of_first("norm")
def _norm(func, x, rank, p="fro", dim=None, keepdim=False, dtype=None):
    if not rank or keepdim and dim is None or isinstance(p, str) and rank != 2 and dim is not None:
        return NotImplemented
    if dim is None:
        order = 2.0 if p in ("fro", None) else p
        if not isinstance(order, (int, float)):
            return NotImplemented
        return rushlight.linalg.vector_norm(x.flatten(1), order, 1, dtype=dtype)
    return func(x, p, shifted(dim, rank), keepdim, dtype=dtype)
