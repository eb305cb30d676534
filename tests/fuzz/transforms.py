"""Random functions under random nests of the transforms of `func`, beside plain loops.

A function is a straight line of operations on float64 tensors, or one row of the op table; a nest
is one to three of vmap, grad, vjp, jvp, linearize, jacrev, jacfwd and hessian, each applied to what
stands inside of it.
What they should give is computed by `Plain`: for each example, for each element of a result, a
backward pass that is recorded.
"""

import itertools
import random
import re

import numpy as np
from table import PUBLIC, case, function, is_random, listed, of_library, texts_of

import rushlight as rl

SHAPES = [(3,), (2, 3), (3, 3), (2, 3, 4), (1, 2, 4, 4), (), (4, 1)]
# By vmap: what would be written into what all examples share, and what depends on values.
REFUSED = re.compile(
    "inplace arithmetic|data-dependent|other sizes|not possible|no second derivative"
)
LARGEST = 60  # elements of a step's result
MOST_PASSES = 100  # backward passes of `Plain`, about

# Of the functional namespace, by name; each takes one tensor.
_ONE = """
sin tanh exp abs sigmoid relu softplus erf square neg rsqrt_abs logsumexp softmax log_softmax
cumsum cumprod sum mean amax amin prod var std norm flip roll tril triu diagonal unsqueeze
squeeze flatten transpose clone sort_values topk_values logcumsumexp leaky_relu gelu silu elu
hardtanh max_dim min_dim median_dim kthvalue_dim repeat expand pad_one avg_pool max_pool
layer_norm normalize index_first index_list index_mask_where unfold unbind split chunk movedim
aminmax nan_to_num clamp renorm_rows diff cummax trace_of inverse_spd cholesky_spd svdvals
eigvalsh solve_self det pinv mexp logdet_spd fill_diagonal set_row add_in_place mul_in_place
exp_in_place masked_fill zero_part interpolate
""".split()

_TWO = """
add sub mul div_safe maximum minimum atan2 where matmul outer dot_flat cat stack einsum lerp addcmul
copysign hypot_safe pow_safe mse smooth_l1 cosine cdist conv1d conv2d linear bilinear_form gather
scatter_add index_add index_select take_along put_row baddbmm_self kl xlogy_safe cross_last copy_in
tensordot kron attention embedding_rows bce
""".split()


def _spd(t):
    n = t.shape[-1]
    return t.mT @ t + n * rl.eye(n, dtype=t.dtype)


def one(name, t, k):
    """The operation of one tensor by its name; `k` is a small random number."""
    F = rl.nn.functional
    match name:
        case "rsqrt_abs":
            return (t.abs() + 1).rsqrt()
        case "logsumexp" | "softmax" | "log_softmax" | "cumsum" | "cumprod" | "logcumsumexp":
            return getattr(rl, name)(t, -1 if k % 2 else 0)
        case "sum" | "mean" | "amax" | "amin":
            return getattr(t, name)(*((), (-1,), (0,))[k % 3])
        case "prod":
            return t.prod(-1) if k % 2 else t.prod()
        case "var" | "std":
            return getattr(t, name)(-1, correction=0) + 0 if k % 2 else getattr(t, name)()
        case "norm":
            return rl.linalg.vector_norm(t, (2, 1, 3)[k % 3], dim=-1 if k % 2 else None)
        case "flip":
            return t.flip(-1)
        case "roll":
            return t.roll(1, -1)
        case "tril" | "triu":
            return getattr(t, name)(k % 2)
        case "diagonal":
            return t.diagonal(0, -2, -1)
        case "unsqueeze":
            return t.unsqueeze(k % (t.dim() + 1))
        case "squeeze":
            return t.squeeze() if k % 2 else t.squeeze(0)
        case "flatten" | "clone":
            return getattr(t, name)()
        case "transpose":
            return t.transpose(0, -1)
        case "sort_values":
            return t.sort(-1, descending=bool(k % 2)).values
        case "topk_values":
            return t.topk(2, -1).values
        case "max_dim" | "min_dim" | "median_dim":
            return getattr(t, name[:-4])(-1).values
        case "kthvalue_dim":
            return t.kthvalue(2, -1).values
        case "leaky_relu" | "gelu" | "silu" | "elu" | "hardtanh" | "softplus" | "normalize":
            return getattr(F, name)(t)
        case "repeat":
            return t.repeat(2, *[1] * (t.dim() - 1))
        case "expand":
            return t.expand(2, *t.shape)
        case "pad_one":
            return F.pad(t, (1, 0), mode=("constant", "reflect", "replicate", "circular")[k % 4])
        case "avg_pool":
            return F.avg_pool2d(t, 2)
        case "max_pool":
            return F.max_pool2d(t, 2)
        case "layer_norm":
            return F.layer_norm(t, t.shape[-1:])
        case "index_first":
            return t[0]
        case "index_list":
            return t[[0, -1]]
        case "index_mask_where":
            return rl.where(t > 0, t, 0.5 * t)
        case "unfold":
            return t.unfold(-1, 2, 1)
        case "unbind" | "split" | "chunk":
            return getattr(t, name)(*((), (1,), (2,))[("unbind", "split", "chunk").index(name)])[-1]
        case "movedim":
            return t.movedim(0, -1)
        case "aminmax":
            low, high = t.aminmax(dim=-1)
            return high - low
        case "clamp":
            return t.clamp(-0.5, 0.7)
        case "renorm_rows":
            return t.renorm(2, 0, 1.0)
        case "diff":
            return t.diff(dim=-1)
        case "cummax":
            return t.cummax(-1).values
        case "det":
            return rl.linalg.det(t)
        case "logdet_spd":
            return rl.logdet(_spd(t))
        case "trace_of":
            return t.trace()
        case "inverse_spd":
            return rl.linalg.inv(_spd(t))
        case "cholesky_spd":
            return rl.linalg.cholesky(_spd(t))
        case "svdvals":
            return rl.linalg.svdvals(t)
        case "eigvalsh":
            return rl.linalg.eigvalsh(t + t.mT)
        case "solve_self":
            return rl.linalg.solve(_spd(t), t.mT)
        case "pinv":
            return rl.linalg.pinv(t)
        case "mexp":
            return rl.matrix_exp(t)
        case "fill_diagonal":
            return t.clone().fill_diagonal_(0.5)
        case "set_row":
            made = t.clone()
            made[0] = 0.25
            return made * t
        case "add_in_place":
            return (t * 2).add_(t, alpha=3)
        case "mul_in_place":
            return t.sin().mul_(t)
        case "exp_in_place":
            return (t * 0.5).exp_()
        case "masked_fill":
            return t.masked_fill(t > 0.3, 1.5)
        case "zero_part":
            made = t * 1
            made[..., 0].zero_()
            return made
        case "interpolate":
            return F.interpolate(t, scale_factor=2, mode=("nearest", "bilinear")[k % 2])
    return getattr(rl, name)(t)


def two(name, a, b, k):
    """The operation of two tensors by its name."""
    F = rl.nn.functional
    match name:
        case "div_safe":
            return a / (b.abs() + 1)
        case "where":
            return rl.where(a > b, a, b * 2)
        case "outer":
            return rl.outer(a.flatten(), b.flatten())
        case "dot_flat":
            return rl.dot(a.flatten(), b.flatten())
        case "cat" | "stack":
            return getattr(rl, name)([a, b], k % 2 and -1)
        case "einsum":
            return rl.einsum(
                ("...i,...i->...", "...ij,...jk->...ik", "...i,...j->...ij")[k % 3], a, b
            )
        case "lerp":
            return rl.lerp(a, b, 0.3 if k % 2 else b)
        case "addcmul":
            return rl.addcmul(a, b, b, value=0.5)
        case "hypot_safe":
            return rl.hypot(a, b.abs() + 1)
        case "pow_safe":
            return (a.abs() + 0.5).pow(b)
        case "mse":
            return F.mse_loss(a, b, reduction=("mean", "sum", "none")[k % 3])
        case "smooth_l1":
            return F.smooth_l1_loss(a, b, reduction=("mean", "sum", "none")[k % 3])
        case "bce":
            return F.binary_cross_entropy_with_logits(a, b.sigmoid())
        case "kl":
            return F.kl_div(a.log_softmax(-1), b.softmax(-1), reduction="batchmean")
        case "cosine":
            return F.cosine_similarity(a, b, dim=-1)
        case "cdist":
            return rl.cdist(a, b)
        case "conv1d":
            return F.conv1d(a, b[:, : a.shape[-2], :2])
        case "conv2d":
            return F.conv2d(a, b[..., :2, :2], padding=k % 2)
        case "linear":
            return F.linear(a, b)
        case "bilinear_form":
            return (a @ b * a).sum(-1)
        case "gather":
            return rl.gather(a, -1, (b.abs() * 10).long() % a.shape[-1])
        case "scatter_add":
            return rl.zeros_like(a).scatter_add(-1, (b.abs() * 10).long() % a.shape[-1], b)
        case "index_add":
            return a.index_add(0, rl.tensor([0]), b[:1], alpha=2)
        case "index_select":
            return rl.index_select(a, -1, rl.tensor([0, 0])) * b.sum()
        case "take_along":
            return rl.take_along_dim(a, b.argsort(-1) % a.shape[-1], -1)
        case "put_row":
            made = a.clone()
            made[0] = b[0]
            return made
        case "copy_in":
            made = rl.empty_like(a)
            made.copy_(b)
            return made * a
        case "baddbmm_self":
            return rl.baddbmm(a @ b, a, b, beta=0.5)
        case "xlogy_safe":
            return rl.xlogy(a, b.abs() + 0.1)
        case "cross_last":
            return rl.linalg.cross(a, b)
        case "tensordot":
            return rl.tensordot(a, b, dims=1)
        case "attention":
            return F.scaled_dot_product_attention(a, b, b, is_causal=bool(k % 2))
        case "embedding_rows":
            return F.embedding((a.abs() * 10).long() % b.shape[0], b)
    return getattr(rl, name)(a, b)


class Line:
    """A random straight line of operations, chosen so that it can be computed."""

    def __init__(self, rng):
        self.rng = rng
        self.shapes = [rng.choice(SHAPES) for _ in range(rng.choice([1, 2, 2, 3]))]
        self.steps = []
        self.values = arrays(rng, self.shapes)
        values = [rl.from_numpy(a) for a in self.values]
        for _ in range(60):
            if len(self.steps) >= rng.choice([3, 5, 8]):
                break
            self.extend(values)

    def extend(self, values):
        """Append one step to the line if it can be computed."""
        rng = self.rng
        places = range(len(values))
        name, k = rng.choice(_ONE if rng.random() < 0.5 else _TWO), rng.randrange(12)
        a, b = (
            rng.choice([p for p in places if p >= len(values) - 2 or rng.random() < 0.5] or [0])
            for _ in range(2)
        )
        step = (name, a, b if name in _TWO else None, k)
        try:
            made = compute(step, values)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return
        if 0 < made.numel() < LARGEST and bool(made.isfinite().all()) and made.abs().max() < 1e4:
            values.append(made)
            self.steps.append(step)

    def __call__(self, *args):
        values = list(args)
        for step in self.steps:
            values.append(compute(step, values))
        return values[-1]

    def __str__(self):
        text = [
            f"v{len(self.shapes) + i} = {name}(v{a}{'' if b is None else f', v{b}'}; {k})"
            for i, (name, a, b, k) in enumerate(self.steps)
        ]
        return f"of {self.shapes}: " + ", ".join(text)

    def vary(self, a, i):
        return np.roll(a, i) * (1 - 0.05 * i)


def compute(step, values):
    name, a, b, k = step
    if b is None:
        return one(name, values[a], k)
    return two(name, values[a], values[b], k)


def arrays(rng, shapes):
    values = np.random.default_rng(rng.randrange(2**32))
    return [values.normal(size=shape) for shape in shapes]


# What hangs on memory, which is another in a map, or has signs that no one has chosen.
OTHERS = re.compile("empty|_fused_|grad_scal|as_strided|view_as_complex|resize|svd")
ROWS = [op for op in PUBLIC if not is_random(op) and not OTHERS.search(op.full_name)]


class Row:
    """A row of the op table as a function of the float64 tensors among its sample's arguments."""

    def __init__(self, rng):
        self.op = rng.choice(ROWS)
        self.number = rng.randrange(max(1, len(texts_of(self.op))))
        self.call = case(self.op, self.number)
        tensors = [array.tensor(rl) for array in self.call.arrays()]
        self.given = [k for k, t in enumerate(tensors) if t.dtype == rl.float64]
        self.values = [tensors[k].numpy() for k in self.given]

    def __call__(self, *args):
        given, counter = dict(zip(self.given, args)), itertools.count()

        def convert(array):
            k = next(counter)
            return given[k] if k in given else array.tensor(rl)

        arguments, named = self.call.arguments(convert)
        if self.op.full_name.endswith("_"):
            arguments = (arguments[0].clone(), *arguments[1:])
        found = function(rl, self.op.python_names[0])(
            *of_library(rl, arguments), **of_library(rl, named)
        )
        floats = [t for t in listed(found) if isinstance(t, rl.Tensor)]
        floats = [rl.view_as_real(t) if t.is_complex() else t for t in floats]
        return rl.cat([t.reshape(-1) for t in floats if t.dtype == rl.float64])

    def __str__(self):
        return f"{self.op.full_name}, sample {self.number}"

    def vary(self, a, i):
        """Other values that the row takes too."""
        return a * (1 - 0.05 * i)


def number(t):
    """A number of a tensor to which each element contributes differently."""
    return (t * t.detach().new_ones(t.shape).cumsum(-1)).sum() if t.dim() else t * 1


class Transforms:
    """Those of rushlight."""

    vmap = staticmethod(rl.func.vmap)

    def jacobian(self, name, f, at, args):
        return getattr(rl.func, name)(f, argnums=at)(*args)

    grad = hessian = jacobian

    def vjp(self, f, args):
        out, pull = rl.func.vjp(f, *args)
        return pull(out.sin())

    def jvp(self, f, args, tangents):
        return rl.func.jvp(f, args, tangents)

    def linearize(self, f, args, tangents):
        out, push = rl.func.linearize(f, *args)
        return out, push(*tangents)

    def batch(self, f, args, weights):
        leaves = [a.clone().requires_grad_() for a in args]
        out = f(*leaves)
        weights = weights(out)
        return rl.autograd.grad(out, leaves, weights, is_grads_batched=True, allow_unused=True)


class Plain:
    """What they should give."""

    def vmap(self, f, dims, out):
        def mapped(*args):
            size = next(a.shape[d] for a, d in zip(args, dims) if d is not None)
            results = [
                f(*(a if d is None else a.select(d, i) for a, d in zip(args, dims)))
                for i in range(size)
            ]
            return rl.stack(results, out)

        return mapped

    def fresh(self, args):
        with rl.enable_grad():
            return [a.view_as(a) if a.requires_grad else a.detach().requires_grad_() for a in args]

    def gradients(self, out, given, weight):
        if not out.requires_grad:
            return [rl.zeros_like(x) for x in given]
        found = rl.autograd.grad(out, given, weight, create_graph=True, allow_unused=True)
        return [rl.zeros_like(x) if g is None else g for g, x in zip(found, given)]

    def jacobian(self, name, f, at, args):
        args = list(args)
        (args[at],) = given = self.fresh([args[at]])
        out = f(*args)
        rows = [self.gradients(o, given, None)[0] for o in out.reshape(-1)]
        return rl.stack(rows).reshape(*out.shape, *given[0].shape)

    grad = jacobian

    def hessian(self, name, f, at, args):
        return self.jacobian(name, lambda *a: self.jacobian(name, f, at, a), at, args)

    def vjp(self, f, args):
        given = self.fresh(args)
        out = f(*given)
        return self.gradients(out, given, out.sin())

    def jvp(self, f, args, tangents):
        tangent = 0
        for at, t in enumerate(tangents):
            rows = self.jacobian("", f, at, args)
            rows = rows.reshape(*rows.shape[: rows.dim() - t.dim()], -1)
            tangent = tangent + (rows * t.reshape(-1)).sum(-1)
        return f(*args), tangent

    linearize = jvp

    def batch(self, f, args, weights):
        given = self.fresh(args)
        out = f(*given)
        each = [self.gradients(out, given, w) for w in weights(out)]
        return [rl.stack(column) for column in zip(*each)]


def mapped(rng, inner, values, vary):
    size = rng.choice([1, 2, 3])
    dims = [rng.choice([None, *range(a.ndim + 1)]) for a in values]
    if all(d is None for d in dims):
        dims[0] = 0
    outer = [
        a if d is None else np.stack([vary(a, i) for i in range(size)], d)
        for a, d in zip(values, dims)
    ]
    out = rng.choice([0, 0, -1])

    def call(by, *args):
        return by.vmap(lambda *a: inner(by, *a), tuple(dims), out)(*args)

    return f"vmap{tuple(dims)}->{out}", call, outer


def by_one(kind, of_number):
    """Derivatives by one argument of a function, or of a number of its result."""

    def transformed(rng, inner, values, vary):
        at = rng.randrange(len(values))

        def call(by, *args):
            def f(*a):
                return number(inner(by, *a)) if of_number else inner(by, *a)

            return getattr(by, kind if of_number else "jacobian")(kind, f, at, args)

        return f"{kind} {at}", call, values

    return transformed


def pulled(rng, inner, values, vary):
    def call(by, *args):
        pull = by.vjp(lambda *a: inner(by, *a), args)
        return sum(g.sum() * (i + 1) for i, g in enumerate(pull))

    return "vjp", call, values


def pushed(kind):
    def transformed(rng, inner, values, vary):
        def call(by, *args):
            tangents = tuple(a.cos() for a in args)
            out, tangent = getattr(by, kind)(lambda *a: inner(by, *a), args, tangents)
            return out + 2 * tangent

        return kind, call, values

    return transformed


def in_a_batch(rng, inner, values, vary):
    """Gradients of a recorded function for many gradients of its result."""
    size = rng.choice([1, 3])

    def weights(out):
        return out.new_ones(size, *out.shape).reshape(-1).cumsum(0).reshape(size, *out.shape).sin()

    def call(by, *args):
        def f(*a):
            return inner(by, *a) + 0 * sum(leaf.sum() for leaf in a)

        return sum(g.sin().sum() for g in by.batch(f, args, weights))

    return f"is_grads_batched {size}", call, values


INSIDE = [
    mapped, mapped, mapped, by_one("grad", True), by_one("hessian", True), by_one("jacrev", False),
    by_one("jacfwd", False), pulled, pushed("jvp"), pushed("linearize"),
]  # fmt: skip


def nest(rng, source):
    """(names, function of either class and tensors, values of these)."""
    names, function, values = [], lambda by, *args: source(*args), source.values
    transforms = [rng.choice(INSIDE) for _ in range(rng.choice([1, 2, 2, 3]))]
    if rng.random() < 0.2:
        transforms.append(in_a_batch)
    for transform in transforms:
        name, function, values = transform(rng, function, values, source.vary)
        names.append(name)
    return names, function, values


def outcome(by, function, values):
    """The result as an array, or the error."""
    try:
        return function(by, *[rl.from_numpy(a.copy()) for a in values]).detach().numpy()
    except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
        return error


def cost(names):
    """About how many backward passes `Plain` takes."""
    passes = 1
    for name in names:
        if name.split()[0] in ("jacrev", "jacfwd", "jvp", "linearize", "hessian"):
            passes *= 24
    return passes


def run(seed, report):
    rng = random.Random(seed)
    source = rng.choice([Line, Row])(rng)
    if not source.values:
        return
    for _ in range(4):
        names, function, values = nest(rng, source)
        text = f"{' of '.join(reversed(names))} {source}"
        if cost(names) > MOST_PASSES:
            continue
        report.step(lambda: text)  # noqa: B023
        expected = outcome(Plain(), function, values)
        if isinstance(expected, Exception) or not np.isfinite(expected).all():
            continue
        ours = outcome(Transforms(), function, values)
        if isinstance(ours, Exception):
            if not REFUSED.search(str(ours)):
                report.finding("refused", f"{text}: {type(ours).__name__}: {str(ours)[:300]}")
        elif ours.shape != expected.shape or ours.dtype != expected.dtype:
            report.finding("differs", f"{text}: {ours.shape} {ours.dtype}, {expected.shape}")
        elif not close(ours, expected):
            again = outcome(Plain(), function, [a * (1 + 1e-10) for a in values])
            if isinstance(again, np.ndarray) and close(again, expected):  # so exactly it is known
                worst = np.nanmax(np.abs(ours - expected))
                report.finding("differs", f"{text}: by {worst} of {np.abs(expected).max()}")


def close(a, b):
    return np.allclose(a, b, 1e-6, 1e-6 * (1 + np.abs(b).max(initial=0)))
