"""Values, gradients and second gradients at special points, beside torch: zeros of both signs,
infinities, NaN, the smallest and the largest numbers, halves, multiples of pi, powers of two.

A difference is no rounding where one side is finite and the other not, or where they are finite and
apart. What torch computes in the next wider dtype counts as right too.
"""

import numpy as np
import pytest
import special_points as points
from special_points_allowed import ALLOWED

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

UNARY = """abs acos asin asinh atan atanh ceil positive conj_physical cos cosh deg2rad exp frac
    floor i0 frexp log1p log log10 log2 logical_not neg rad2deg round sin sinc sinh sign sgn signbit tan
    tanh trunc exp2 expm1 nan_to_num reciprocal rsqrt sqrt square angle isfinite isinf isposinf isneginf
    isreal isnan sigmoid digamma erf erfc erfinv lgamma logit acosh"""
FUNCTIONAL = """relu elu celu selu silu hardsigmoid logsigmoid mish softsign tanhshrink softshrink
    hardshrink hardtanh relu6 hardswish gelu leaky_relu softplus"""
SPECIAL = "i0e i1 i1e ndtr entr ndtri log_ndtr erfcx expit"
ONE = [
    *(f"T.{name}(x)" for name in UNARY.split()),
    *(f"F.{name}(x)" for name in FUNCTIONAL.split()),
    *(f"S.{name}(x)" for name in SPECIAL.split()),
    *(f"T.polygamma({n}, x)" for n in range(5)),
    *("T.mvlgamma(x, 1)", "T.mvlgamma(x, 3)", "T.round(x, decimals=3)", "T.round(x, decimals=-3)"),
    *("F.gelu(x, approximate='tanh')", "T.logit(x, 1e-3)", "F.softplus(x, 2.0, 5.0)", "x.double()"),
    *("F.threshold(x, 0.5, 2.0)", "T.clamp(x, -1, 2)", "T.clamp(x, nan, 2)", "x.bool()", "x.long()"),
    *("T.nan_to_num(x, 1.0, 2.0, 3.0)", "F.elu(x, 0.5)", "F.celu(x, 2.0)", "F.hardtanh(x, -0.5, 2)"),
    *("x ** 0", "x ** 1", "x ** 2", "x ** 3", "x ** -1", "x ** -2", "x ** 0.5", "x ** -0.5"),
    *("x ** 1.5", "x ** nan", "x ** inf", "0.0 ** x", "1.0 ** x", "2.0 ** x", "(-2.0) ** x"),
    *("T.lerp(x, x + 1, 0.1)", "T.xlogy(x, 0.1)", "S.xlog1py(x, 0.1)", "T.xlogy(0.1, x)", "0.1 ** x"),
    *("T.float_power(x, 0.1)", "T.float_power(0.1, x)", "x.half()", "x.bfloat16()"),
]  # fmt: skip
BINARY = """add clamp_max clamp_min mul sub atan2 copysign div eq fmax fmin fmod remainder floor_divide
    ge gt le ldexp logaddexp logaddexp2 lt max maximum min minimum logical_and logical_or logical_xor
    heaviside isclose nextafter ne pow float_power hypot xlogy rsub igamma igammac"""
LOSSES = """mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits kl_div
    soft_margin_loss poisson_nll_loss hinge_embedding_loss"""
TWO = [
    *(f"T.{name}(x, y)" for name in BINARY.split()),
    *(f"F.{name}(x, y, reduction='none')" for name in LOSSES.split()),
    *("S.xlog1py(x, y)", "S.zeta(x, y)", "T.div(x, y, rounding_mode='trunc')"),
    *("T.div(x, y, rounding_mode='floor')", "T.clamp(x, y)", "x.clamp(max=y)", "T.lerp(x, y, 0.3)"),
    *("T.where(x > y, x, y)", "T.where(x == y, x * 2, y)", "T.lerp(x, y, 0.7)"),
    *("F.smooth_l1_loss(x, y, beta=0.0, reduction='none')", "T.add(x, y, alpha=2)"),
    *("F.smooth_l1_loss(x, y, beta=0.5, reduction='none')", "F.prelu(x.reshape(1, -1), y)"),
    *("F.huber_loss(x, y, delta=2.0, reduction='none')", "F.glu(T.stack([x, y], 1), 1)"),
    *("F.kl_div(x, y, log_target=True, reduction='none')", "F.softmax(T.stack([x, y], 1), 1)"),
    "F.binary_cross_entropy_with_logits(x, y, pos_weight=T.full_like(x, 2), reduction='none')",
    *("F.poisson_nll_loss(x, y, log_input=False, reduction='none')",),
    *("F.log_softmax(T.stack([x, y], 1), 1)", "T.logsumexp(T.stack([x, y], 1), 1)"),
    *("F.binary_cross_entropy(T.sigmoid(x), T.sigmoid(y), reduction='none')",),
]  # fmt: skip
THREE = [
    *("T.addcmul(x, y, z)", "T.addcmul(x, y, z, value=0.5)", "T.addcdiv(x, y, z)", "T.lerp(x, y, z)"),
    *("T.clamp(x, y, z)", "T.where(x > 0, y, z)"),
    *("F.gaussian_nll_loss(x, y, z.abs(), reduction='none')",),
    *("F.margin_ranking_loss(x, y, z, reduction='none')",),
]  # fmt: skip
REDUCTIONS = """all any amax amin argmax argmin count_nonzero mean nanmean std var prod sum nansum max
    min median nanmedian cumsum cumprod cummax cummin logcumsumexp softmax log_softmax aminmax logsumexp
    sort diff gradient trapezoid cumulative_trapezoid mode"""
ROWS = [
    *(f"T.{name}(x, dim=1)" for name in REDUCTIONS.split()),
    *(f"L.vector_norm(x, {p}, dim=1)" for p in ("0", "1", "2", "3", "inf", "-inf", "0.5", "-1")),
    *("T.kthvalue(x, 2, dim=1)[0]", "T.topk(x, 2, dim=1)[0]", "T.quantile(x, 0.4, dim=1)"),
    *("T.var_mean(x, 1)", "T.std_mean(x, 1)", "T.renorm(x, 2, 0, 1.0)", "T.renorm(x, 1, 0, 1.0)"),
    *("F.layer_norm(x, (3,))", "F.rms_norm(x, (3,))", "F.pairwise_distance(x, x.flip(1))"),
    *("F.cosine_similarity(x, x.flip(1), dim=1)", "L.vector_norm(x.flip(0), 2, dim=1)"),
    *(f"F.{name}(x, T.arange(len(x)) % 3, reduction='none')"
      for name in ("cross_entropy", "nll_loss", "multi_margin_loss")),
    "F.cross_entropy(x, T.arange(len(x)) % 3, label_smoothing=0.1, reduction='none')",
    "F.cross_entropy(x, F.one_hot(T.arange(len(x)) % 3, 3).to(x.dtype), reduction='none')",
    "F.cosine_embedding_loss(x, x.flip(1), T.arange(len(x)) % 2 * 2 - 1, reduction='none')",
    "F.triplet_margin_loss(x, x.flip(1), x + 1, reduction='none')",
    "F.multilabel_margin_loss(x, T.tensor([[2, 0, -1]]).expand(len(x), 3), reduction='none')",
    "F.multilabel_soft_margin_loss(x, F.one_hot(T.arange(len(x)) % 3, 3), reduction='none')",
    *("T.nanquantile(x, 0.4, dim=1)", "T.var(x, 1, correction=0)", "F.normalize(x, dim=1)"),
    *("F.max_pool1d(x[:, None], 2, 1)", "F.avg_pool1d(x[:, None], 2, 1)", "F.softmin(x, 1)"),
]  # fmt: skip
CASES = {
    **{text: lambda dtype: points.arguments(dtype, 1) for text in ONE},
    **{text: lambda dtype: points.arguments(dtype, 2) for text in TWO},
    **{text: lambda dtype: points.arguments(dtype, 3) for text in THREE},
    **{text: points.rows for text in ROWS},
}


def mask_of(point, dtype, arrays):
    """Which sets of arguments are of a kind, or fulfil a condition."""
    rows = [np.asarray(a).reshape(len(a), -1) for a in arrays]
    with np.errstate(all="ignore"):
        if point in points.KINDS:
            return np.any([points.is_kind(point, dtype, a).any(1) for a in rows], 0)
        names = {**dict(zip("xyz", rows)), "abs": np.abs, "equal": points.has_equals}
        return np.asarray(eval(point, names)).reshape(len(rows[0]), -1).any(1)


def not_allowed(text, dtype, arrays, what, places):
    """Those of `places` at which no entry of ALLOWED expects a difference."""
    if places is None:
        return None
    left = places.copy()
    for entries in ALLOWED.values():
        for cases, dtypes, outcomes, kinds in entries:
            if text in cases and dtype in dtypes.split() and what in outcomes:
                for point in kinds:
                    # One place for each set of arguments, or a row of them.
                    mask = mask_of(point, dtype, arrays)
                    (left if len(left) == len(mask) else left.reshape(-1))[mask] = False
    return left


def check(text, dtype, arrays, orders=2):
    with np.errstate(all="ignore"):
        found = [
            "\n".join(points.show(text, dtype, arrays, what, left, ours, theirs))
            for what, places, ours, theirs in points.differences(
                rl, torch, text, dtype, arrays, orders
            )
            for left in [not_allowed(text, dtype, arrays, what, places)]
            if left is None or left.any()
        ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("text", CASES)
def test_special_points(text):
    for dtype in ("float32", "float64"):
        check(text, dtype, CASES[text](dtype))


@pytest.mark.parametrize("text", CASES)
def test_special_points_of_halves(text):
    for dtype in points.HALVES:
        check(text, dtype, CASES[text](dtype), orders=1)


COMPLEX = """abs acos acosh angle asin asinh atan atanh conj_physical cos cosh exp exp2 expm1 isfinite
    isinf isnan isreal log log10 log1p log2 logical_not neg positive reciprocal rsqrt sgn sigmoid sin sinc
    sinh sqrt square tan tanh"""
COMPLEX_TWO = "add sub mul div eq ne pow logical_and logical_or logical_xor"
COMPLEX_ROWS = "sum mean prod cumsum cumprod all any count_nonzero"


def test_special_points_of_complex_numbers():
    for name in COMPLEX.split():
        check(f"T.{name}(x)", "complex64", points.arguments("complex64", 1), orders=1)
    for name in COMPLEX_TWO.split():
        check(f"T.{name}(x, y)", "complex64", points.arguments("complex64", 2), orders=1)
    for name in COMPLEX_ROWS.split():
        pairs = points.arguments("complex64", 2, step=11)
        check(f"T.{name}(x, dim=1)", "complex64", [np.stack(pairs, 1)], orders=1)


INTEGER = ["abs", "neg", "sgn", "sign", "square", "positive", "logical_not", "bitwise_not", "sqrt"]
INTEGER_TWO = """add sub mul eq ne lt gt maximum minimum bitwise_and bitwise_or bitwise_xor gcd
    logical_and bitwise_left_shift bitwise_right_shift heaviside clamp_min clamp_max"""


@pytest.mark.parametrize("dtype", points.INTEGERS)
def test_integers_limits(dtype):
    for name in INTEGER:
        if (name, dtype) != ("neg", "bool"):
            check(f"T.{name}(x)", dtype, points.arguments(dtype, 1))
    for name in INTEGER_TWO.split():
        check(f"T.{name}(x, y)", dtype, points.arguments(dtype, 2))
    for name in (
        "sum",
        "prod",
        "amax",
        "amin",
        "argmax",
        "cumsum",
        "cumprod",
        "sort",
        "any",
        "all",
    ):
        check(f"T.{name}(x, dim=1)", dtype, points.rows(dtype))
