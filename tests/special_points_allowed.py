"""Where results may differ from torch's, and why: read by test_special_points.py."""

# ruff: noqa: E501  (the texts of cases)
# reason: (cases, dtypes, outcomes, points). Points are kinds of numbers (of which one argument is
# one), or a condition on the arguments.
ALLOWED = {
    "torch has 0.5 at NaN": [
        (["T.i0(x)"], "float32 float64", ["0 dx dx"], ["nan"]),
    ],
    "torch has NaN backward and 0 forward, where the first derivative is taken as 0": [
        (["0.0 ** x"], "float32 float64", ["0 dx dx", "0 dx dweight"], ["x >= 0"]),
        (
            ["T.pow(x, y)", "T.float_power(x, y)"],
            "float32 float64",
            ["0 dx dx", "0 dx dy", "0 dx dweight", "0 dy dx", "0 dy dy", "0 dy dweight"],
            ["zero"],
        ),
        (
            ["T.std(x, dim=1)", "T.std_mean(x, 1)"],
            "float32 float64",
            ["0 dx dx", "0 dx dweight"],
            ["x.std(1) == 0"],
        ),
    ],
    "torch has NaN where the derivative is finite: its formula overflows": [
        (["T.sinc(x)"], "float32", ["0 dx dweight"], ["zero"]),
        (["T.sinc(x)"], "float64", ["0 dx dweight"], ["tiny", "zero"]),
        (["F.mish(x)"], "float32 float64", ["0 dx dx"], ["large", "x > 700"]),
        (
            ["T.logit(x, 1e-3)"],
            "float32",
            ["0 dx dx"],
            ["inf", "nan", "zero", "(x < 1e-3) | (x > 0.999)"],
        ),
        (
            ["T.logit(x, 1e-3)"],
            "float32 float64",
            ["0 dx dweight"],
            ["zero", "(x < 1e-3) | (x > 0.999)"],
        ),
        (
            ["T.logit(x, 1e-3)"],
            "float64",
            ["0 dx dx"],
            ["inf", "nan", "tiny", "zero", "(x < 1e-3) | (x > 0.999)"],
        ),
        (
            [
                "L.vector_norm(x, 2, dim=1)",
                "F.cosine_similarity(x, x.flip(1), dim=1)",
                "L.vector_norm(x.flip(0), 2, dim=1)",
                "F.normalize(x, dim=1)",
            ],
            "float32",
            ["0 dx dx"],
            ["zero"],
        ),
        (
            [
                "L.vector_norm(x, 2, dim=1)",
                "F.cosine_similarity(x, x.flip(1), dim=1)",
                "L.vector_norm(x.flip(0), 2, dim=1)",
                "F.normalize(x, dim=1)",
                "F.cosine_embedding_loss(x, x.flip(1), T.arange(len(x)) % 2 * 2 - 1, reduction='none')",
            ],
            "float64",
            ["0 dx dx"],
            ["tiny", "zero"],
        ),
        (["L.vector_norm(x, 3, dim=1)"], "float32 float64", ["0 dx dweight"], ["tiny", "zero"]),
        (
            ["L.vector_norm(x, inf, dim=1)", "L.vector_norm(x, -inf, dim=1)"],
            "bfloat16 float16",
            ["0 dx"],
            ["nan"],
        ),
        (["L.vector_norm(x, 0.5, dim=1)"], "float32 float64", ["0 dx dx"], ["large", "zero"]),
        (["L.vector_norm(x, 0.5, dim=1)"], "float64", ["0 dx", "0 dx dweight"], ["large"]),
        (["L.vector_norm(x, -1, dim=1)"], "float32 float64", ["0 dx dx"], ["zero"]),
        (["T.asinh(x)", "T.atanh(x)", "T.erf(x)", "T.erfc(x)"], "float64", ["0 dx dx"], ["large"]),
        (["T.atanh(x)"], "complex64", ["0 dx"], ["large"]),
    ],
    "torch has large numbers at the poles, and NaN at infinity": [
        (
            ["T.digamma(x)", "T.polygamma(0, x)"],
            "float32 float64",
            ["0 dx", "0 dx dweight"],
            ["large", "x < 0"],
        ),
        (["T.digamma(x)", "T.polygamma(0, x)"], "float32 float64", ["0 dx dx"], ["inf"]),
        (["T.digamma(x)", "T.polygamma(0, x)"], "float16", ["0 dx"], ["inf"]),
        (["T.digamma(x)", "T.polygamma(0, x)"], "bfloat16", ["0 dx"], ["inf", "large", "x < 0"]),
        (["T.polygamma(1, x)"], "bfloat16 float32 float64", ["value 0"], ["large", "x < 0"]),
        (["T.polygamma(1, x)"], "float32 float64", ["0 dx", "0 dx dx", "0 dx dweight"], ["inf"]),
        (["T.polygamma(1, x)"], "bfloat16 float16", ["0 dx"], ["inf"]),
        (
            ["T.polygamma(2, x)", "T.polygamma(3, x)", "T.polygamma(4, x)"],
            "float32 float64",
            ["value 0", "0 dx", "0 dx dx", "0 dx dweight"],
            ["inf"],
        ),
        (
            ["T.polygamma(2, x)", "T.polygamma(3, x)", "T.polygamma(4, x)"],
            "bfloat16 float16",
            ["value 0", "0 dx"],
            ["inf"],
        ),
    ],
    "torch has large numbers at the poles": [
        (
            ["T.lgamma(x)", "T.mvlgamma(x, 1)"],
            "float32 float64",
            ["0 dx dx"],
            ["inf", "large", "x < 0"],
        ),
        (["T.mvlgamma(x, 1)"], "float32 float64", ["0 dx", "0 dx dweight"], ["zero"]),
        (["T.mvlgamma(x, 1)"], "bfloat16 float16", ["0 dx"], ["zero"]),
        (["T.mvlgamma(x, 3)"], "float32 float64", ["0 dx dx"], ["inf", "large", "x < 1e-8"]),
        (["T.mvlgamma(x, 3)"], "float64", ["0 dx", "0 dx dweight"], ["x < 1e-8"]),
    ],
    "torch's gradient below 1, where the value is NaN, is a number": [
        (
            ["T.acosh(x)"],
            "float32 float64",
            ["0 dx", "0 dx dx", "0 dx dweight"],
            ["inf", "large", "x < 1"],
        ),
        (["T.acosh(x)"], "bfloat16 float16", ["0 dx"], ["inf", "large", "x < 1"]),
        (["T.acosh(x)"], "complex64", ["0 dx"], ["zero"]),
    ],
    "torch's 1/6 is that of float32; its derivative by the weight is 0": [
        (["F.hardsigmoid(x)"], "float32", ["0 dx dweight"], ["tiny", "zero", "abs(x) < 3"]),
        (["F.hardsigmoid(x)"], "float64", ["0 dx", "0 dx dweight"], ["tiny", "zero", "abs(x) < 3"]),
    ],
    "the second derivative at NaN is that of the middle": [
        (["F.hardswish(x)"], "float32 float64", ["0 dx dx"], ["nan"]),
        (
            [
                "F.smooth_l1_loss(x, y, reduction='none')",
                "F.huber_loss(x, y, reduction='none')",
                "F.smooth_l1_loss(x, y, beta=0.5, reduction='none')",
                "F.huber_loss(x, y, delta=2.0, reduction='none')",
            ],
            "float32 float64",
            ["0 dx dx", "0 dx dy", "0 dy dx", "0 dy dy"],
            ["inf", "nan"],
        ),
    ],
    "torch has NaN at -inf and beside the largest numbers": [
        (["F.gelu(x)"], "bfloat16 float32", ["value 0"], ["inf", "x <= -4"]),
        (["F.gelu(x)"], "float16", ["value 0"], ["inf"]),
        (["F.gelu(x)"], "float64", ["0 dx dx"], ["large"]),
        (["F.gelu(x, approximate='tanh')"], "float32", ["0 dx dx"], ["abs(x) > 4"]),
        (["F.gelu(x, approximate='tanh')"], "bfloat16", ["0 dx"], ["large"]),
    ],
    "torch has 0.5 at NaN, and noise near 0": [
        (["S.i1(x)", "S.i1e(x)"], "float32 float64", ["0 dx", "0 dx dweight"], ["nan"]),
        (["S.i1(x)", "S.i1e(x)"], "float32 float64", ["0 dx dx"], ["nan", "abs(x) < 1e-4"]),
    ],
    "torch loses the lower tail: 1 - erf": [
        (["S.ndtr(x)"], "bfloat16 float32 float64", ["value 0"], ["x <= -5"]),
        (["S.ndtr(x)"], "float64", ["0 dx dx"], ["large"]),
    ],
    "torch's tail is one of float32's; the second derivative above 13": [
        (
            ["S.log_ndtr(x)"],
            "float32 float64",
            ["0 dx", "0 dx dweight"],
            ["inf", "large", "x <= -20"],
        ),
        (["S.log_ndtr(x)"], "float32 float64", ["0 dx dx"], ["inf", "large", "nan", "x <= -20"]),
    ],
    "the formula cancels: 2 x out - 2 / sqrt(pi)": [
        (["S.erfcx(x)"], "float32", ["0 dx dx"], ["large", "x >= 12"]),
        (["S.erfcx(x)"], "float64", ["0 dx dx"], ["large"]),
    ],
    "another of the subgradients at the kink": [
        (["F.softplus(x, 2.0, 5.0)"], "float32 float64", ["0 dx dx"], ["x == 2.5"]),
        (
            ["F.prelu(x.reshape(1, -1), y)"],
            "float32 float64",
            ["0 dx dy", "0 dx dweight", "0 dy dx"],
            ["zero"],
        ),
        (["F.softplus(x)"], "float64", ["0 dx dx"], ["x == 20"]),
    ],
    "torch is off by one rounding at log2(1)": [
        (
            ["T.logaddexp2(x, y)"],
            "bfloat16 float32 float64",
            ["value 0"],
            ["(x == -1) & (y == -1)"],
        ),
    ],
    "torch has a number where an argument is NaN": [
        (["T.igamma(x, y)"], "float16 float32", ["value 0"], ["nan"]),
        (
            ["T.igamma(x, y)", "T.igammac(x, y)"],
            "bfloat16 float64",
            ["value 0"],
            ["large", "nan", "tiny"],
        ),
        (["T.igammac(x, y)"], "float32", ["value 0"], ["nan", "tiny"]),
        (["T.igammac(x, y)"], "float16", ["value 0"], ["nan"]),
        (["S.zeta(x, y)"], "float32 float64", ["value 0"], ["inf", "nan"]),
    ],
    "torch has NaN at a target of 0, whose term is 0": [
        (["F.kl_div(x, y, reduction='none')"], "bfloat16 float32 float64", ["value 0"], ["large"]),
        (
            ["F.kl_div(x, y, reduction='none')"],
            "float32",
            ["0 dy", "0 dy dy", "0 dy dweight"],
            ["inf", "zero"],
        ),
        (["F.kl_div(x, y, reduction='none')"], "bfloat16 float16", ["0 dy"], ["inf", "zero"]),
        (
            ["F.kl_div(x, y, reduction='none')"],
            "float64",
            ["0 dy", "0 dy dweight"],
            ["inf", "zero"],
        ),
        (["F.kl_div(x, y, reduction='none')"], "float32 float64", ["0 dy dx"], ["zero"]),
        (["F.kl_div(x, y, reduction='none')"], "float64", ["0 dy dy"], ["inf", "tiny", "zero"]),
    ],
    "a sum or product on the way overflows in one order of operations and not in the other": [
        (["F.glu(T.stack([x, y], 1), 1)"], "float32", ["0 dy dy"], ["inf", "large"]),
        (["F.glu(T.stack([x, y], 1), 1)"], "float64", ["0 dy dy"], ["inf"]),
        (["T.cumprod(x, dim=1)"], "float32", ["0 dx dx"], ["zero"]),
        (["T.cumprod(x, dim=1)"], "float64", ["0 dx dx"], ["large", "tiny", "zero"]),
        (
            ["T.var_mean(x, 1)", "T.std_mean(x, 1)"],
            "bfloat16 float32 float64",
            ["value 1"],
            ["inf", "large"],
        ),
        (["T.var_mean(x, 1)", "T.std_mean(x, 1)"], "float16", ["value 1"], ["inf"]),
        (
            ["T.var_mean(x, 1)", "T.var(x, dim=1)", "T.var(x, 1, correction=0)"],
            "float64",
            ["value 0"],
            ["large"],
        ),
        (
            ["T.std_mean(x, 1)", "T.std(x, dim=1)"],
            "float64",
            ["value 0", "0 dx", "0 dx dx", "0 dx dweight"],
            ["large"],
        ),
        (["F.layer_norm(x, (3,))"], "float32 float64", ["value 0"], ["large", "tiny"]),
        (["F.layer_norm(x, (3,))"], "float64", ["0 dx", "0 dx dx", "0 dx dweight"], ["large"]),
        (["F.layer_norm(x, (3,))"], "bfloat16", ["value 0", "0 dx"], ["large"]),
        (["T.cumprod(x, dim=1)"], "bfloat16 complex64", ["0 dx"], ["large"]),
    ],
    "below the smallest normal number: 0 here": [
        (
            ["F.softmax(T.stack([x, y], 1), 1)"],
            "float32",
            ["value 0"],
            ["tiny", "zero", "abs(x - y) > 80"],
        ),
        (["F.softmax(T.stack([x, y], 1), 1)"], "bfloat16", ["value 0"], ["abs(x - y) > 80"]),
    ],
    "torch has inf - inf and 0 * inf where logits are infinite": [
        (
            [
                "F.binary_cross_entropy_with_logits(x, y, pos_weight=T.full_like(x, 2), reduction='none')"
            ],
            "float32",
            ["0 dx", "0 dx dweight"],
            ["inf"],
        ),
        (
            [
                "F.binary_cross_entropy_with_logits(x, y, pos_weight=T.full_like(x, 2), reduction='none')"
            ],
            "float16",
            ["0 dx"],
            ["inf"],
        ),
        (
            [
                "F.binary_cross_entropy_with_logits(x, y, pos_weight=T.full_like(x, 2), reduction='none')"
            ],
            "float32",
            ["0 dx dx"],
            ["inf", "large"],
        ),
        (
            [
                "F.binary_cross_entropy_with_logits(x, y, pos_weight=T.full_like(x, 2), reduction='none')"
            ],
            "float64",
            ["0 dx", "0 dx dx", "0 dx dweight"],
            ["inf", "large"],
        ),
        (
            [
                "F.binary_cross_entropy_with_logits(x, y, pos_weight=T.full_like(x, 2), reduction='none')"
            ],
            "bfloat16",
            ["0 dx"],
            ["inf", "large"],
        ),
    ],
    "torch has NaN where all are NaN and none counts": [
        (["T.nanmean(x, dim=1)"], "bfloat16 float16 float32 float64", ["0 dx"], ["nan"]),
    ],
    "torch has NaN for every element once one is infinite": [
        (["T.logcumsumexp(x, dim=1)"], "float32 float64", ["0 dx", "0 dx dx"], ["inf", "large"]),
        (["T.logcumsumexp(x, dim=1)"], "bfloat16 float16", ["0 dx"], ["inf", "large"]),
        (
            ["T.logcumsumexp(x, dim=1)"],
            "float32 float64",
            ["0 dx dweight"],
            ["inf", "large", "nan"],
        ),
    ],
    "torch sorts by <, so that its answer depends on where a NaN stands": [
        (
            ["T.mode(x, dim=1)"],
            "bfloat16 float16 float32 float64",
            ["value 0", "value 1", "0 dx"],
            ["nan"],
        ),
    ],
    "the index of any of several equal elements": [
        (
            ["T.kthvalue(x, 2, dim=1)[0]"],
            "bfloat16 float16 float32 float64",
            ["0 dx"],
            ["equal(x)"],
        ),
    ],
    "torch has NaN where a norm is 0 or infinite, or drops one": [
        (["T.renorm(x, 2, 0, 1.0)", "T.renorm(x, 1, 0, 1.0)"], "float32", ["0 dx"], ["large"]),
        (["T.renorm(x, 2, 0, 1.0)"], "float32", ["0 dx dx"], ["large", "nan", "zero"]),
        (
            ["T.renorm(x, 2, 0, 1.0)", "T.renorm(x, 1, 0, 1.0)"],
            "float32 float64",
            ["0 dx dweight"],
            ["nan"],
        ),
        (["T.renorm(x, 2, 0, 1.0)"], "float64", ["0 dx dx"], ["nan", "zero", "tiny"]),
        (["T.renorm(x, 1, 0, 1.0)"], "float32 float64", ["0 dx dx"], ["large", "nan"]),
    ],
    "torch drops the NaN of a difference, and adds the margin before it subtracts": [
        (
            ["F.multi_margin_loss(x, T.arange(len(x)) % 3, reduction='none')"],
            "float32 float64",
            ["value 0", "0 dx"],
            ["inf", "nan"],
        ),
        (
            [
                "F.multilabel_margin_loss(x, T.tensor([[2, 0, -1]]).expand(len(x), 3), reduction='none')"
            ],
            "float32 float64",
            ["value 0"],
            ["inf", "nan", "large"],
        ),
        (
            [
                "F.multilabel_margin_loss(x, T.tensor([[2, 0, -1]]).expand(len(x), 3), reduction='none')"
            ],
            "float32 float64",
            ["0 dx"],
            ["inf", "large", "nan", "tiny"],
        ),
    ],
    "torch takes the logarithm of a subnormal product or an overflowing one": [
        (["T.log1p(x)"], "complex64", ["value 0"], ["large", "tiny"]),
    ],
    "torch divides by a subnormal number": [
        (["T.sinc(x)"], "complex64", ["value 0"], ["tiny"]),
    ],
    "the derivative is infinite or undefined there": [
        (["T.pow(x, y)"], "complex64", ["0 dy"], ["zero"]),
    ],
    "the sign of a NaN that became a bfloat16": [
        (["T.signbit(x)"], "bfloat16", ["value 0"], ["nan"]),
        (["T.copysign(x, y)"], "bfloat16", ["value 0", "0 dx"], ["nan"]),
    ],
    "torch rounds exp(-710) to 0": [
        (
            ["T.sigmoid(x)", "F.silu(x)", "S.expit(x)"],
            "bfloat16 float64",
            ["value 0"],
            ["x <= -89"],
        ),
    ],
    "torch's square overflows before its reciprocal is taken": [
        (["x ** -2"], "bfloat16", ["value 0"], ["large"]),
    ],
    "torch has NaN for a tiny divisor": [
        (["T.fmod(x, y)", "T.remainder(x, y)"], "bfloat16 float64", ["value 0"], ["large", "tiny"]),
    ],
    "torch has NaN where a part overflows or is subnormal": [
        (["F.rms_norm(x, (3,))"], "float64", ["0 dx", "0 dx dx", "0 dx dweight"], ["large"]),
        (["F.rms_norm(x, (3,))"], "bfloat16", ["0 dx"], ["large"]),
        (["T.sgn(x)"], "complex64", ["0 dx"], ["tiny"]),
        (["T.div(x, y)"], "complex64", ["value 0", "0 dy"], ["tiny"]),
    ],
    "torch has a negative divisor of the smallest integer": [
        (
            ["T.gcd(x, y)"],
            "int8 int16 int32 int64",
            ["value 0"],
            ["(x == x.min()) | (y == y.min())"],
        )
    ],
}
