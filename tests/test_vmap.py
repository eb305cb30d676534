"""func.vmap: every row of the op table mapped, beside the same calls one by one."""

import pytest
from table import PUBLIC, case, cases, function, is_random, listed, of_library

import rushlight as rl
from rushlight import nn
from rushlight.func import functional_call, grad, jacrev, jvp, vmap
from rushlight.functorch.experimental import chunk_vmap
from rushlight.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore")

EXAMPLES = 3
DETERMINISTIC = [op for op in PUBLIC if not is_random(op) and "empty" not in op.full_name]
# Of the values of one example: the program cannot use them.
REFUSED = (
    "item nonzero masked_select unique allclose equal argwhere bincount histc where_condition"
    " nonzero_tuple as_strided_"
).split()


def example(tensor, k):
    """The k-th of several tensors of one shape, with other values in the same range."""
    if k == 0 or not tensor.dim():
        return tensor.clone() if not tensor.is_floating_point() else tensor * (1 - 0.125 * k)
    return tensor.flip(-1) if k == 1 else tensor * 1


def check_mapped(op, number, name, which):
    """The op mapped over one of its tensors, or over all where `which` is None."""
    call = case(op, number)
    arrays = call.arrays()
    mapped = range(len(arrays)) if which is None else [which]
    plain = [array.tensor(rl) for array in arrays]
    many = {k: rl.stack([example(plain[k], i) for i in range(EXAMPLES)]) for k in mapped}

    def run(*tensors):
        given = dict(zip(many, tensors))
        counter = iter(range(len(arrays)))

        def convert(array):
            k = next(counter)
            return given[k] if k in given else array.tensor(rl)

        args, named = call.arguments(convert)
        result = function(rl, name)(*of_library(rl, args), **of_library(rl, named))
        return tuple(r for r in listed(result) if isinstance(r, rl.Tensor))

    try:
        one_by_one = [run(*(t[i].clone() for t in many.values())) for i in range(EXAMPLES)]
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        pytest.skip(f"the examples are no input of it: {error}")
    if not one_by_one[0]:
        pytest.skip("it returns no tensor")
    shapes = {tuple(r.shape for r in results) for results in one_by_one}
    if len(shapes) > 1:
        pytest.skip("the results of the examples differ in shape")
    expected = [rl.stack(list(column)) for column in zip(*one_by_one)]
    if which not in (None, 0) and name.endswith("_"):
        with pytest.raises(RuntimeError, match="all share"):
            vmap(run)(*many.values())
        return
    found = vmap(run)(*many.values())
    assert len(found) == len(expected)
    for f, e in zip(found, expected):
        assert f.dtype == e.dtype
        assert f.shape == e.shape
        close = rl.testing.assert_close
        if f.dtype == rl.bool or not f.is_floating_point() and not f.is_complex():
            assert rl.equal(f, e)
        else:
            close(f, e, rtol=1e-7, atol=1e-9, equal_nan=True)


def number_of_arrays(op, number):
    return len(case(op, number).arrays())


@pytest.mark.parametrize(("op", "number"), cases(DETERMINISTIC))
def test_rows(op, number):
    arrays = number_of_arrays(op, number)
    if not arrays:
        pytest.skip("it takes no tensor")
    if op.full_name in REFUSED:
        pytest.skip("depends on values")
    for name in op.python_names:
        for which in [None, *range(arrays)] if arrays > 1 else [None]:
            check_mapped(op, number, name, which)


# ---- rules that cover what they claim


def counted_calls(monkeypatch):
    from rushlight.func._vmap import Level

    calls = []
    plain = Level.loop_fallback

    def counting(self, func, args, kwargs):
        calls.append(func.__name__)
        return plain(self, func, args, kwargs)

    monkeypatch.setattr(Level, "loop_fallback", counting)
    return calls


def test_usual_operations_are_computed_at_once(monkeypatch):
    calls = counted_calls(monkeypatch)
    model = rl.nn.Sequential(
        rl.nn.Conv2d(1, 4, 3), rl.nn.GroupNorm(2, 4), rl.nn.ReLU(), rl.nn.MaxPool2d(2),
        rl.nn.Flatten(), rl.nn.Linear(4 * 3 * 3, 10), rl.nn.LayerNorm(10),
    )  # fmt: skip
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters, x, y):
        return F.cross_entropy(functional_call(model, parameters, (x[None],)), y[None])

    x, y = rl.randn(5, 1, 8, 8), rl.randint(0, 10, (5,))
    many = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    assert not calls
    for i in range(5):
        for name, g in grad(loss)(parameters, x[i], y[i]).items():
            rl.testing.assert_close(many[name][i], g, rtol=1e-4, atol=1e-5)


X, SQUARES = rl.randn(4, 3, 3, dtype=rl.float64), rl.randn(4, 3, 3, dtype=rl.float64)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a.norm() + rl.linalg.norm(a[0], 3),
        lambda a, b: rl.linalg.vector_norm(a[0], keepdim=False),
        lambda a, b: a.amax() - a.amin() + a[0, 0].sum(),
        lambda a, b: (a > 0).any() | (a[0, 0] > 0).all(),
        lambda a, b: a.roll(2) + a.roll(1, 0),
        lambda a, b: rl.cross(a[0], b[0], dim=0) + rl.linalg.cross(a, b)[0],
        lambda a, b: rl.linalg.cross(a, X[0]),
        lambda a, b: rl.linalg.solve(a, b[0]) + rl.linalg.solve(a, b)[0],
        lambda a, b: rl.linalg.solve(X[1], b[0]) + rl.linalg.solve(a, X[0, 0]),
        lambda a, b: rl.linalg.solve_triangular(a, X[0], upper=True),
        lambda a, b: rl.cholesky_solve(b, a),
        lambda a, b: rl.searchsorted(a[0].sort()[0], b) + rl.searchsorted(X[0, 0].sort()[0], b),
        lambda a, b: rl.bucketize(a, rl.tensor([-1.0, 0.0, 1.0])),
        lambda a, b: rl.isin(a.round(), rl.tensor([0.0, 1.0])),
        lambda a, b: F.one_hot(a[0].argmax(), 3),
        lambda a, b: rl.kron(a, b[0]) + rl.kron(X[0], b[0]),
        lambda a, b: rl.diag(a).sum() + rl.diag(a[0], 1),
        lambda a, b: rl.fliplr(a) + rl.flipud(b),
        lambda a, b: rl.addr(a, a[0], b[0], beta=2, alpha=3),
        lambda a, b: F.prelu(a, b[0]) + F.prelu(a, b[0, :1]) + F.prelu(a[0], b[1, :1]),
        lambda a, b: F.bilinear(a, b, X).sum() + F.bilinear(a, b, a.expand(3, 3, 3), b[0]),
        lambda a, b: rl.linalg.multi_dot([a, X[0], b]),
        lambda a, b: rl.take(a, rl.tensor([3, -1])),
        lambda a, b: rl.dist(a, b),
        lambda a, b: a.index_add(0, rl.tensor([2, 0]), b[:2], alpha=2),
        lambda a, b: a.index_copy(1, rl.tensor([2, 0]), X[0, :, :2]),
        lambda a, b: a.clone().index_fill_(0, rl.tensor([1]), 5),
        lambda a, b: F.conv_transpose1d(a, X[:3]) + F.conv_transpose1d(a[None], X[:3])[0],
        lambda a, b: F.kl_div(a, b.exp(), log_target=False) + F.kl_div(a, b, log_target=True),
        lambda a, b: F.cosine_similarity(a, b, dim=0),
        lambda a, b: rl.linalg.lstsq(a, b).solution + rl.linalg.lstsq(a, b, driver="gels")[0],
        lambda a, b: rl.func.jacfwd(rl.tanh)(a[0]) + rl.func.jvp(rl.sin, (a,), (b,))[1],
        lambda a, b: (
            F.batch_norm(a, b[0], b[1].exp(), b[2], a[0])
            + F.batch_norm(X, None, None, b[0], b[1], training=True)[0]
            + F.batch_norm(a[None], None, None, training=True)[0]
        ),
        lambda a, b: F.batch_norm(a, X[0, 0], X[0, 1].exp(), eps=0.1),
        lambda a, b: a[[0, 2]].sum(0) + b[:, [-1, 0, 1]][range(2)].sum(0),
        lambda a, b: rl.distributions.Normal(a, b.exp()).log_prob(b),
        lambda a, b: F.layer_norm(a, (3,), b[0], b[1]) + F.layer_norm(X[0], (3, 3), None, b),
        lambda a, b: F.rms_norm(a, (3,), b[0]) + F.rms_norm(X[0], (3,), b[0], 1e-3),
        lambda a, b: F.group_norm(a[None], 3, b[0], b[1]) + F.group_norm(X, 1, None, b[0]),
    ],
)
def test_operations_of_fixed_dims_are_computed_at_once(monkeypatch, function):
    calls = counted_calls(monkeypatch)
    found = vmap(function)(X, SQUARES)
    assert not calls
    expected = rl.stack([function(a, b) for a, b in zip(X, SQUARES)])
    assert found.dtype is expected.dtype
    rl.testing.assert_close(found, expected)


def test_attention_mask_by_nested_maps():
    seen = rl.rand(2, 5) > 0.3

    def allowed(batch, query, key):
        return (query >= key) & seen[batch, key]

    over_keys = vmap(allowed, in_dims=(None, None, 0))
    over_queries = vmap(over_keys, in_dims=(None, 0, None))
    mask = vmap(over_queries, in_dims=(0, None, None))(rl.arange(2), rl.arange(5), rl.arange(5))
    assert rl.equal(mask, rl.ones(5, 5, dtype=rl.bool).tril() & seen[:, None, :])


# ---- the ways to call it


def test_dims_of_methods_one_by_one():
    x = rl.randn(3, 2, 4)
    assert rl.equal(vmap(lambda t: t.flip(0, 1))(x), x.flip(1, 2))
    assert rl.equal(vmap(lambda t: t.permute(1, 0))(x), x.permute(0, 2, 1))
    assert rl.equal(vmap(lambda t: t.flip(1))(x), x.flip(2))


def test_dims_in_and_out():
    x, y = rl.randn(4, 3, 2), rl.randn(2, 5)
    found = vmap(lambda a, b: (a.sum(0), a @ a.t(), b), in_dims=(2, 0), out_dims=(0, 2, -1))(x, y)
    rl.testing.assert_close(found[0], x.sum(0).t())
    rl.testing.assert_close(found[1], rl.einsum("ikb,jkb->ijb", x, x))
    assert rl.equal(found[2], y.t())


def test_nested_inputs():
    tree = {"a": rl.randn(3, 2), "b": [rl.randn(2, 3), 5]}
    found = vmap(
        lambda t, scale: t["a"].sum() * t["b"][1] + t["b"][0].sum() * scale,
        in_dims=({"a": 0, "b": [1, None]}, 0),
    )(tree, rl.arange(3.0))
    rl.testing.assert_close(found, tree["a"].sum(1) * 5 + tree["b"][0].sum(0) * rl.arange(3.0))


def test_chunks_give_the_same():
    x = rl.randn(7, 3)
    assert rl.equal(vmap(rl.sin, chunk_size=3)(x), rl.sin(x))


def test_shared_results_are_repeated():
    found = vmap(lambda x: (x, rl.ones(2)))(rl.zeros(3))
    assert rl.equal(found[1], rl.ones(3, 2))


def test_gradients_flow_through():
    x = rl.randn(4, 3, dtype=rl.float64, requires_grad=True)
    w = rl.randn(3, dtype=rl.float64, requires_grad=True)

    def mapped(x, w):
        return vmap(lambda row: (row * w).sin().sum())(x)

    assert rl.autograd.gradcheck(mapped, (x, w))
    assert rl.autograd.gradgradcheck(mapped, (x, w))


def test_jacobians_of_examples():
    def f(x):
        return x.sin() * x.sum()

    x = rl.randn(4, 3, dtype=rl.float64)
    found = vmap(jacrev(f))(x)
    for i in range(4):
        rl.testing.assert_close(found[i], jacrev(f)(x[i]))


def test_in_place_on_examples():
    x = rl.ones(3, 2)

    def change(row):
        row[0] = row[1] * 5
        row.add_(1)
        return row

    assert rl.equal(vmap(change)(x), rl.tensor([[6.0, 2.0]] * 3))
    assert rl.equal(x, rl.tensor([[6.0, 2.0]] * 3))


def test_custom_function():
    class Triple(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * 3

    x = rl.randn(4, requires_grad=True)
    y = vmap(Triple.apply)(x)
    y.sum().backward()
    assert rl.equal(y, x * 3)
    assert rl.equal(x.grad, rl.full((4,), 3.0))


# ---- random numbers


def test_randomness():
    x = rl.zeros(4, 100)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda r: r + rl.randn(100))(x)
    same = vmap(lambda r: r + rl.randn(100), randomness="same")(x)
    assert all(rl.equal(same[0], row) for row in same)
    different = vmap(lambda r: r + rl.randn(100), randomness="different")(x)
    assert not rl.equal(different[0], different[1])
    dropped = vmap(lambda r: F.dropout(r + 1), randomness="same")(x)
    assert all(rl.equal(dropped[0], row) for row in dropped)
    assert rl.equal(vmap(lambda r: F.dropout(r + 1, training=False))(x), x + 1)


# ---- what is refused


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x.sum().item(), "item"),
        (lambda x: x if x.sum() > 0 else -x, "bool"),
        (lambda x: float(x[0]), "float"),
        (lambda x: x.nonzero(), "nonzero"),
        (lambda x: x[x > 0], "other sizes|stack"),
        (lambda x: rl.zeros(3).add_(x), "all share"),
        (lambda x: rl.add(x, x, out=rl.empty(3)), "out="),
    ],
)
def test_what_depends_on_values(function, message):
    with pytest.raises(RuntimeError, match=message):
        vmap(function)(rl.tensor([[1.0, -1.0, 2.0], [-3.0, 1.0, -2.0]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vmap(rl.sin, in_dims=None)(rl.ones(2)), "at least one Tensor"),
        (lambda: vmap(rl.add)(rl.ones(2), rl.ones(3)), "same size"),
        (lambda: vmap(rl.add, in_dims=(0,))(rl.ones(2), rl.ones(2)), "in_dims"),
        (lambda: vmap(rl.sin, in_dims=3)(rl.ones(2)), "in_dim"),
        (lambda: vmap(lambda x: 1)(rl.ones(2)), "must only return Tensors"),
        (lambda: vmap(rl.sum, in_dims=(0, 0))(rl.ones(2, 2), 0), "Only tensors"),
        (lambda: vmap(rl.sin, chunk_size=0)(rl.ones(2)), "chunk_size"),
    ],
)
def test_bad_calls(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_dims_of_an_example_have_its_range():
    with pytest.raises(IndexError, match=r"range of \[-1, 0\]"):
        vmap(lambda x: x.sum(1))(rl.ones(3, 4))
    with pytest.raises(IndexError, match=r"range of \[-1, 0\]"):
        vmap(lambda x: x.sum(-2))(rl.ones(3, 4))


def test_levels_end_when_the_function_fails():
    with pytest.raises(ZeroDivisionError):
        vmap(lambda x: 1 / 0)(rl.ones(2))
    assert rl.ones(2).sum().item() == 2


def test_it_shows_the_examples():
    shown = []
    vmap(lambda x: (shown.append(repr(x)), x)[1])(rl.ones(2, 3))
    assert "one of 2 examples" in shown[0]


def test_keyword_arguments_are_passed_whole():
    weights = rl.arange(2.0)
    for chunk_size in (None, 2):
        mapped = vmap(lambda x, *, w: x * w["w"], chunk_size=chunk_size)
        rl.testing.assert_close(mapped(rl.ones(3, 2), w={"w": weights}), weights.expand(3, 2))
    with pytest.raises(ValueError, match="at least one Tensor"):
        vmap(lambda *, x: x)(x=rl.ones(3))


def test_of_the_function_that_vjp_returned():
    def products(x):
        _, pull = rl.func.vjp(lambda q: q.sin() * x.sum(), x)
        return vmap(pull)(rl.eye(3))[0]

    points = rl.arange(6.0).view(2, 3)
    expected = rl.stack([rl.diag(p.cos() * p.sum()) for p in points])
    rl.testing.assert_close(vmap(products)(points), expected)


def test_cotangents_are_nested_as_the_outputs():
    _, pull = rl.func.vjp(lambda x: (x.sin(), x), rl.ones(3))
    with pytest.raises(RuntimeError, match="structure of cotangents"):
        pull(rl.ones(3))


def test_nesting_takes_time_in_proportion_to_its_depth(monkeypatch):
    from rushlight.func import _batching

    calls, compute = [], _batching.compute
    monkeypatch.setattr(_batching, "compute", lambda *a: (calls.append(1), compute(*a))[1])

    def count(depth, function, *shapes):
        for _ in range(depth):
            function = vmap(function)
        calls.clear()
        function(*(rl.ones(*(1,) * depth, *shape) for shape in shapes))
        return len(calls)

    for mapped, shapes in (
        (rl.sin, [(2,)]),
        (lambda x, y: x * y + y.sum(), [(2, 3), (3,)]),
        (lambda x, y: x @ y, [(2, 3), (3,)]),
        (lambda x: x.t().reshape(-1)[1:], [(2, 3)]),
    ):
        assert count(16, mapped, *shapes) < 5 * count(8, mapped, *shapes)


class Pair:
    """Two tensors that vmap divides among examples by these methods, as tensordict's classes do."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def dim(self):
        return 1

    @property
    def shape(self):
        return self.first.shape[:1]

    def _add_batch_dim(self, *, in_dim, vmap_level):
        from rushlight._functorch.core import _add_batch_dim

        return Pair(*(_add_batch_dim(t, in_dim, vmap_level) for t in (self.first, self.second)))

    def _maybe_remove_batch_dim(self, name, vmap_level, batch_size, out_dim):
        from rushlight._functorch.vmap import _maybe_remove_batch_dim as together

        parts = (self.first, self.second)
        return Pair(*(together(name, t, vmap_level, batch_size, out_dim) for t in parts))


def test_collections_that_divide_their_tensors():
    core = rl._C._functorch

    def function(pair, y):
        assert core.is_batchedtensor(pair.first) and pair.first.shape == (3,)
        assert core.get_unwrapped(pair.first).shape == (2, 3)
        return Pair(pair.first * y, pair.second.sum()), pair.second

    pair, y = Pair(rl.rand(2, 3), rl.rand(2, 4)), rl.rand(3)
    result, second = rl.vmap(function, in_dims=(0, None))(pair, y)
    assert isinstance(result, Pair) and rl.equal(result.first, pair.first * y)
    assert rl.equal(result.second, pair.second.sum(1))
    assert rl.equal(second, pair.second)
    with pytest.raises(RuntimeError, match="stands for no others"):
        core.get_unwrapped(y)
    nested = rl.vmap(lambda a: rl.vmap(function, (0, None))(Pair(a, a), y)[0].second)
    x = rl.rand(5, 2, 3)
    assert rl.allclose(nested(x), x.sum(2))


class Sorted(rl.autograd.Function):
    """The values and their places, computed elsewhere: with a rule for many."""

    @staticmethod
    def forward(x, dim):
        places = rl.from_numpy(x.detach().numpy().argsort(dim))
        return x.gather(dim, places), places

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.dim = inputs
        ctx.places = output[1]
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        return rl.zeros_like(grad).scatter(ctx.dim, ctx.places, grad), None

    @staticmethod
    def vmap(info, in_dims, x, dim):
        assert info.randomness == "error" and in_dims[1] is None
        x = x.movedim(in_dims[0], 0)
        assert x.shape[0] == info.batch_size
        return Sorted.apply(x, dim if dim < 0 else dim + 1), (0, 0)


@pytest.mark.parametrize("in_dim", [0, 1])
def test_functions_with_a_rule_of_their_own(in_dim):
    x = rl.randn(4, 5, requires_grad=True)
    y, places = vmap(lambda row: Sorted.apply(row, 0), in_dim)(x)
    assert y.grad_fn.name() == "SortedBackward", "it was applied once"
    rows = x if in_dim == 0 else x.t()
    wanted = rows.sort(1)
    assert y.equal(wanted[0]) and places.equal(wanted[1])
    weights = rl.randn_like(y)
    (found,) = rl.autograd.grad((y * weights).sum(), x)
    assert found.equal(rl.autograd.grad((wanted[0] * weights).sum(), x)[0])
    inside = vmap(grad(lambda row: (Sorted.apply(row, 0)[0] ** 2).sum()), in_dim)(x)
    rl.testing.assert_close(inside, 2 * rows)
    nested = vmap(vmap(lambda row: Sorted.apply(row, -1)[0]))(x.expand(2, 4, 5))
    assert nested.equal(x.sort(1)[0].expand(2, 4, 5))


class Shared(rl.autograd.Function):
    """A rule that gives back one value for all examples, or says it wrongly."""

    dims, both = None, False

    @staticmethod
    def forward(x):
        return x.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x):
        return x.sum() if Shared.dims is None else (x.sum(), Shared.dims)


def test_rules_of_functions_say_their_dims(monkeypatch):
    x = rl.arange(3.0)
    with pytest.raises(RuntimeError, match="Shared.vmap: expected .* to have two returns"):
        vmap(Shared.apply)(x)
    monkeypatch.setattr(Shared, "dims", (None, None))
    with pytest.raises(ValueError, match="out_dims is not compatible"):
        vmap(Shared.apply)(x)
    monkeypatch.setattr(Shared, "dims", (None,))
    assert vmap(Shared.apply)(x).tolist() == [3, 3, 3]
    monkeypatch.setattr(Shared, "generate_vmap_rule", True)
    with pytest.raises(RuntimeError, match="generate_vmap_rule=True and"):
        vmap(Shared.apply)(x)


DRAWN = {  # of one example, and of all: their shapes differ by the first dim alone
    "randn": (lambda x: rl.randn(5, 7), lambda x: rl.randn(6, 5, 7)),
    "randn of a size": (lambda x: rl.randn((5,)), lambda x: rl.randn(6, 5)),
    "randint": (
        lambda x: rl.randint(0, 9, (5, 7)),
        lambda x: rl.randint(0, 9, (6, 5, 7)),
    ),
    "normal of a size": (
        lambda x: rl.normal(0.0, 1.0, size=(5, 7)),
        lambda x: rl.normal(0.0, 1.0, (6, 5, 7)),
    ),
    "normal": (lambda x: rl.normal(x, x.abs()),) * 2,
    "normal, broadcast": (
        lambda x: rl.normal(x, rl.ones(7)),
        lambda x: rl.normal(x, rl.ones(7).expand(6, 5, 7)),
    ),
    "randn_like": (rl.randn_like,) * 2,
    "normal_": (lambda x: x.clone().normal_(),) * 2,
    "bernoulli": (lambda x: rl.bernoulli(x, 0.3),) * 2,
    "dropout": (F.dropout,) * 2,
    "alpha_dropout": (lambda x: F.alpha_dropout(x, training=True),) * 2,
}


@pytest.mark.parametrize("name", DRAWN)
def test_random_numbers_that_differ_are_drawn_for_all_examples_at_once(name):
    of_one, of_all = DRAWN[name]
    x = rl.arange(210.0).sin().reshape(6, 5, 7)
    rl.manual_seed(3)
    expected = of_all(x)
    rl.manual_seed(3)
    got = vmap(of_one, randomness="different")(x)
    assert rl.equal(got, expected)


def test_random_numbers_of_a_generator_are_the_same_for_all_examples():
    x, generator = rl.zeros(3, 4), rl.Generator()
    drawn = vmap(lambda x: x.normal_(generator=generator), randomness="same")(x)
    assert rl.equal(drawn[0], drawn[1]) and rl.equal(drawn[0], drawn[2])


def test_random_numbers_that_differ_need_room():
    x = rl.zeros(4)
    with pytest.raises(RuntimeError, match="inplace randomness on an unbatched tensor: normal_"):
        vmap(lambda _: x.normal_(), randomness="different")(rl.zeros(3))
    with pytest.raises(RuntimeError, match="called random operation while in.*error mode: rand"):
        vmap(lambda x: x + rl.rand(1))(x)
    one = rl.arange(24.0).reshape(1, 2, 3, 4)
    dropped = vmap(lambda _: F.dropout2d(one), randomness="different")(rl.zeros(50))
    assert len({tuple(d.flatten().tolist()) for d in dropped}) > 1


def test_a_number_of_each_example_does_not_decide_the_dtype_wherever_it_stands():
    numbers, rows = rl.ones(3, dtype=rl.float64), rl.ones(3, 2)
    for multiply in (rl.mul, rl.sub, rl.maximum, lambda a, b: a * b):
        assert vmap(multiply)(numbers, rows).dtype is rl.float32
        assert vmap(multiply)(rows, numbers).dtype is rl.float32
        assert vmap(multiply)(rl.ones(3), numbers).dtype is rl.float64
    assert vmap(lambda a, b: a.clone().mul_(b.sum()))(numbers, rows).dtype is rl.float64


def test_examples_have_the_dims_that_the_operation_wants():
    a, b, c = rl.ones(3), rl.ones(3, 3), rl.ones(3, 3, 3)
    calls = [
        (rl.mm, b, b), (rl.mm, c, b), (rl.bmm, c, c), (rl.mv, b, b), (rl.dot, c, c), (rl.dot, a, a),
        (rl.vdot, c, c), (rl.outer, c, b), (rl.addmm, b, c, b), (rl.matmul, a, b),
        (rl.t, rl.ones(2, 2, 2, 2)),
        (rl.trace, b), (rl.linalg.qr, b), (rl.linalg.svdvals, b), (rl.matrix_exp, b),
        (rl.linalg.eigvals, b),
        (lambda x: rl.linalg.matrix_power(x, 2), b), (rl.tril, b), (rl.linalg.lu_factor, b),
    ]  # fmt: skip
    for call, *given in calls:
        with pytest.raises((RuntimeError, IndexError)):
            call(*(x[0] for x in given))
        with pytest.raises(RuntimeError, match="of one example must have"):
            vmap(call)(*given)
    assert vmap(rl.mm)(c, c).shape == (3, 3, 3) and vmap(rl.dot)(b, b).shape == (3,)


def test_views_of_examples_are_views():
    x = rl.arange(24.0).reshape(3, 2, 4)
    assert vmap(lambda x: x.view(8))(x).data_ptr() == x.data_ptr()
    assert vmap(lambda x: x.view(rl.int32))(x).data_ptr() == x.data_ptr()
    for bad in (lambda x: x.t().view(8), lambda x: x.t().view_as(rl.ones(8))):
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            vmap(bad)(x)
    assert vmap(lambda x: x.t().reshape(8))(x).shape == (3, 8)


def test_strides_of_examples():
    x = rl.arange(24.0).reshape(3, 2, 4)
    assert vmap(lambda x: x.new_empty_strided((2, 3), (1, 2)))(x).stride() == (6, 1, 2)
    turned = vmap(lambda x: x.as_strided((4, 2), (1, 4)))(x)
    assert turned.data_ptr() == x.data_ptr() and rl.equal(turned, x.mT)

    def overwritten(x):
        x = x.clone()
        x.as_strided((2,), (4,)).zero_()
        return x

    assert rl.equal(vmap(overwritten)(x)[..., 0], rl.zeros(3, 2))
    for size, stride, offset in (((5,), (2,), 0), ((2,), (1,), 7)):
        with pytest.raises(RuntimeError, match="outside of `tensor`"):
            vmap(lambda x: x.as_strided(size, stride, offset))(x)  # noqa: B023


def test_same_numbers_in_every_piece():
    def noisy(x):
        return x + rl.rand(2)

    for map_in_pieces in (
        lambda: vmap(noisy, randomness="same", chunk_size=2)(rl.zeros(5, 2)),
        lambda: chunk_vmap(noisy, randomness="same", chunks=3)(rl.zeros(5, 2)),
    ):
        found = map_in_pieces()
        assert (found == found[0]).all() and found[0].unique().numel() == 2
    sizes = []
    chunk_vmap(lambda x: sizes.append(1) or x, chunks=4)(rl.zeros(8))
    assert len(sizes) == 4


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x: rl.cov(x), (3, 4)),
        (lambda x: rl.corrcoef(x), (3, 4)),
        (lambda x: rl.trapezoid(x, rl.arange(4.0)), (3, 4)),
        (lambda x: rl.quantile(x, 0.3, dim=0), (3, 4)),
        (lambda x: rl.renorm(x, 2, 0, 1.0), (3, 4)),
        (lambda x: rl.addbmm(x, rl.ones(2, 3, 5), rl.ones(2, 5, 4)), (3, 4)),
        (lambda x: F.unfold(x, 2), (2, 3, 4, 4)),
        (lambda x: F.fold(x, (3, 3), 2), (4, 4)),
        (lambda x: F.grid_sample(x, x[:, 0, :, None, :2], align_corners=False), (2, 3, 4, 4)),
        (lambda x: rl.slice_scatter(x, x[:2] * 2, 0, 1, 3), (3, 4)),
        (lambda x: x.index_reduce(0, rl.tensor([0, 0]), x[1:], "amax"), (3, 4)),
        (lambda x: rl.kron(x, x).repeat_interleave(2, 0), (2, 3)),
    ],
)  # fmt: skip
def test_what_is_made_of_others_is_computed_at_once(call, shape, monkeypatch):
    x = rl.randn(5, *shape)
    expected = rl.stack([call(one) for one in x])
    twice = rl.stack([x, -x])
    both = vmap(vmap(call))(twice)  # where levels lie inside of each other, one after the other
    rl.testing.assert_close(both[0], expected)

    def one_by_one(self, tree):
        raise AssertionError("computed example by example")

    monkeypatch.setattr("rushlight.func._vmap.Level.slices", one_by_one)
    rl.testing.assert_close(vmap(call)(x), expected)
    w = x.clone().requires_grad_()
    (found,) = rl.autograd.grad(vmap(call)(w).square().sum(), w)
    monkeypatch.undo()
    (wanted,) = rl.autograd.grad(rl.stack([call(one) for one in w]).square().sum(), w)
    rl.testing.assert_close(found, wanted)


def test_places_of_each_example_are_checked():
    x, index = rl.randn(3, 4, 2), rl.tensor([[0, 3], [1, 1], [2, 0]])
    found = vmap(lambda a, i: a.index_select(0, i))(x, index)
    assert rl.equal(found, rl.stack([a[i] for a, i in zip(x, index)]))
    added = vmap(lambda a, i: a.clone().index_add_(0, i, a[:2], alpha=2))(x, index)
    expected = [a.clone().index_add_(0, i, a[:2], alpha=2) for a, i in zip(x, index)]
    assert rl.equal(added, rl.stack(expected))
    for wrong in (4, -1):
        index[0, 1] = wrong  # which is a place of the next example, or of the one before
        with pytest.raises((IndexError, RuntimeError)):
            vmap(lambda a, i: a.index_select(0, i))(x, index)
        with pytest.raises((IndexError, RuntimeError)):
            vmap(lambda a, i: a.index_add(0, i, a[:2]))(x, index)


def test_a_number_of_each_example_fills_it():
    x, numbers, places = rl.randn(2, 3), rl.tensor([1.0, 2.0]), rl.tensor([0, 2])
    expected = numbers.unsqueeze(1).expand(2, 3)
    assert rl.equal(vmap(rl.Tensor.fill_)(x.clone(), numbers), expected)
    assert rl.equal(vmap(lambda v: rl.fill(x[0], v))(numbers), expected)
    with pytest.raises(RuntimeError, match="all share"):
        vmap(lambda v: x[0].fill_(v))(numbers)
    for call in (rl.Tensor.index_fill, lambda t, *rest: t.clone().index_fill_(*rest)):
        found = vmap(lambda a, v: call(a, 0, places, v))(x, numbers)  # noqa: B023
        assert rl.equal(found, rl.stack([call(a, 0, places, v) for a, v in zip(x, numbers)]))


def test_squeezed_examples_are_views():
    for shape, dim in (((2, 1, 3, 1), None), ((4,), 0), ((4, 1), -1)):
        x = rl.randn(*shape)
        found = vmap(lambda a: a.squeeze() if dim is None else a.squeeze(dim))(x)  # noqa: B023
        assert found._base is x and found.data_ptr() == x.data_ptr()


def test_loops_can_be_forbidden_and_warned_of():
    from rushlight._C import _functorch

    x = rl.randn(2, 3, 4)
    try:
        _functorch._set_vmap_fallback_enabled(False)
        assert not _functorch._is_vmap_fallback_enabled()
        with pytest.raises(RuntimeError, match="pdist.* has no rule"):
            vmap(F.pdist)(x)
        vmap(rl.cov)(x)
    finally:
        _functorch._set_vmap_fallback_enabled(True)
    rl._C._debug_only_display_vmap_fallback_warnings(True)
    try:
        with pytest.warns(UserWarning, match="performance drop because pdist"):
            vmap(F.pdist)(x)
    finally:
        rl._C._debug_only_display_vmap_fallback_warnings(False)
    assert not rl._C._debug_only_are_vmap_fallback_warnings_enabled()


def test_what_is_no_tensor_passes_without_a_dim():
    found = vmap(lambda x: (x * 2, "name", None), out_dims=(0, None, None))(rl.ones(2))
    assert found[1:] == ("name", None) and rl.equal(found[0], rl.full((2,), 2.0))
    with pytest.raises(ValueError, match="must only return Tensors"):
        vmap(lambda x: (x, "name"))(rl.ones(2))
    with pytest.raises(ValueError, match="got no inputs"):
        vmap(lambda: rl.ones(2))()


def test_changes_in_place_by_composed_rules():
    x, a, b = rl.randn(3, 2, 2), rl.randn(3, 2, 4), rl.randn(3, 4, 2)
    expected = rl.baddbmm(x, a, b, beta=0.5)
    changed = x.clone()
    found = vmap(lambda t, *given: t.addmm_(*given, beta=0.5))(changed, a, b)
    rl.testing.assert_close(found, expected)
    rl.testing.assert_close(changed, expected)
    with pytest.raises(RuntimeError, match="all share"):
        vmap(lambda p, q: x[0].addmm_(p, q))(a, b)


def test_masks_and_values_of_one_element_each():
    x, mask, value = rl.randn(3, 4), rl.tensor([True, False, True]), rl.tensor([1.0, 2.0, 3.0])
    expected = rl.stack([t.masked_fill(m, 7.0) for t, m in zip(x, mask)])
    assert rl.equal(vmap(lambda t, m: t.masked_fill(m, 7.0))(x, mask), expected)
    which = x > 0
    expected = rl.stack([t.masked_fill(w, v) for t, w, v in zip(x, which, value)])
    assert rl.equal(vmap(rl.masked_fill)(x, which, value), expected)
    changed = x.clone()
    vmap(rl.Tensor.masked_fill_)(changed, which, value)
    assert rl.equal(changed, expected)


def test_functions_that_check_values_are_computed_one_by_one():
    values, places = F.max_pool1d(rl.randn(3, 2, 4), 2, return_indices=True)
    expected = rl.stack([F.max_unpool1d(v, p, 2) for v, p in zip(values, places)])
    assert rl.equal(vmap(lambda v, p: F.max_unpool1d(v, p, 2))(values, places), expected)
    scores, classes = rl.randn(3, 2, 4), rl.tensor([[[0, -1, 1, 1], [3, 1, -1, 0]]] * 3)
    found = vmap(F.multilabel_margin_loss)(scores, classes)
    expected = [F.multilabel_margin_loss(s, c) for s, c in zip(scores, classes)]
    rl.testing.assert_close(found, rl.stack(expected))


def test_an_order_of_images_is_no_order_of_all_examples():
    x = rl.randn(2, 1, 3, 4, 4)
    for call in (
        lambda t: t.contiguous(memory_format=rl.channels_last),
        lambda t: t.clone(memory_format=rl.channels_last),
        lambda t: t.to(memory_format=rl.channels_last),
    ):
        assert rl.equal(vmap(call)(x), x)


def test_what_outlives_the_call_shows_no_elements():
    kept = []

    def call(x):
        kept.append((x, x * 2))
        return x + 1

    for context in (rl.no_grad(), rl.enable_grad(), rl.inference_mode()):
        with context:
            x = rl.randn(3, 4, requires_grad=True)
            assert rl.equal(vmap(call)(x), x + 1)
            vmap(vmap(call))(x)
    for one in (t for pair in kept for t in pair):
        assert one.is_meta and one.shape in ((4,), ())
        with pytest.raises((RuntimeError, NotImplementedError)):
            one.sum().item()


@pytest.mark.parametrize(
    "derivative",
    [
        lambda f: grad(lambda v: f(v).sum()),
        lambda f: lambda v: rl.func.vjp(f, v)[1](v.sin())[0],
        lambda f: lambda v: rl.func.jvp(f, (v,), (v.cos(),))[1],
        lambda f: jacrev(lambda v: f(v)[0]),
        lambda f: rl.func.jacfwd(lambda v: f(v)[0]),
    ],
    ids=["grad", "vjp", "jvp", "jacrev", "jacfwd"],
)
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_derivatives_in_nested_maps(derivative, levels):
    """Each element of what all levels map has a derivative of its own."""
    mapped = one = derivative(lambda v: v.sin() * v)
    x = rl.randn(*(2, 3, 2)[:levels], 4, dtype=rl.float64)
    for _ in range(levels):
        mapped = vmap(mapped)
    expected = rl.stack([one(row) for row in x.reshape(-1, 4)])
    rl.testing.assert_close(mapped(x), expected.reshape(*x.shape[:-1], *expected.shape[1:]))


def test_derivatives_by_what_an_outer_map_alone_maps():
    x, y = rl.randn(2, dtype=rl.float64), rl.randn(3, dtype=rl.float64)
    inner = vmap(grad(lambda a, b: a * a * b.sin()), (None, 0))
    rl.testing.assert_close(vmap(inner, (0, None))(x, y), 2 * x[:, None] * y.sin())


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t.movedim(0, -1),
        lambda t: t.clone().transpose_(0, 0),
        lambda t: F.mse_loss(t, 2 * t),
        lambda t: F.mse_loss(t, 2 * t, reduction="sum"),
        lambda t: rl.hash_tensor(t),
    ],
)
def test_examples_without_dims(function):
    x = rl.randn(3)
    assert vmap(function)(x).equal(rl.stack([function(one) for one in x]))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 3, 4)])
def test_a_dim_that_is_chosen_by_the_rank_of_an_example(name, shape):
    call, x = getattr(F, name), rl.randn(2, *shape)
    rl.testing.assert_close(vmap(call)(x), rl.stack([call(one) for one in x]))


def test_an_example_is_resized_to_the_same_elements():
    x = rl.randn(3, 4)
    assert vmap(lambda t: t.clone().resize_(2, 2))(x).equal(x.view(3, 2, 2))
    for call in (lambda t: t.clone().resize_(2), lambda t: t.clone().resize_as_(rl.ones(5))):
        with pytest.raises(RuntimeError, match=r"resize_.*\(\) to .* gives .* other elements"):
            vmap(call)(x)


@pytest.mark.parametrize(
    "draw",
    [
        rl.bernoulli,
        rl.poisson,
        lambda x: rl.multinomial(x, 2),
        lambda x: rl.normal(x, 1.0),
        lambda x: rl.normal(0.0, x),
        lambda x: rl.binomial(rl.ones(4), x),
        lambda x: rl.empty(4).bernoulli_(x),
    ],
)
def test_the_same_numbers_are_not_drawn_for_other_arguments(draw):
    x = rl.rand(3, 4)
    with pytest.raises(RuntimeError, match="does not currently support same randomness"):
        vmap(draw, randomness="same")(x)
    drawn = vmap(lambda _: draw(x[0]), randomness="same")(x)
    assert (drawn == drawn[0]).all()


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_draws_for_all_examples_in_one_call(replacement):
    x = rl.rand(2, 3, 40)
    expected = rl.multinomial(
        x.view(6, 40), 10, replacement, generator=rl.Generator().manual_seed(0)
    )
    generator = rl.Generator().manual_seed(0)

    def draw(weights):
        return rl.multinomial(weights, 10, replacement, generator=generator)

    assert vmap(draw, randomness="different")(x).equal(expected.view(2, 3, 10))
    generator.manual_seed(0)
    assert vmap(draw, randomness="different")(x.view(6, 40)).equal(expected)


def test_initializers_draw_as_their_operations_do():
    with pytest.raises(RuntimeError, match="inplace randomness on an unbatched tensor: normal_"):
        vmap(lambda x: nn.init.normal_(rl.empty(3)) + x, randomness="different")(rl.zeros(2))
    with pytest.raises(RuntimeError, match="randomness error mode: uniform_"):
        vmap(nn.init.uniform_)(rl.zeros(2, 3))
    drawn = vmap(nn.init.uniform_, randomness="different")(rl.zeros(2, 3))
    assert drawn[0].ne(drawn[1]).all()


@pytest.fixture
def no_loops():
    _functorch = rl._C._functorch
    _functorch._set_vmap_fallback_enabled(False)
    yield
    _functorch._set_vmap_fallback_enabled(True)


OF_NUMBERS = {
    "sum": lambda x: x.sum(0),
    "sum keepdim": lambda x: x.sum(-1, keepdim=True),
    "softmax": lambda x: x.softmax(-1),
    "cumsum": lambda x: x.cumsum(0),
    "max": lambda x: x.max(0),
    "sort": lambda x: x.sort(0),
    "topk": lambda x: x.topk(1),
    "std": lambda x: x.std(0, correction=0),
    "var_mean": lambda x: rl.var_mean(x, 0, correction=0),
    "any": lambda x: x.any(0),
    "transpose": lambda x: x.transpose(0, -1),
    "index_add": lambda x: x.index_add(0, rl.tensor([0]), rl.tensor(2.0)),
    "index_copy": lambda x: x.index_copy(0, rl.tensor([0]), rl.tensor(2.0)),
    "index_fill": lambda x: x.index_fill(0, rl.tensor([0]), 2.0),
    "index_fill by a tensor": lambda x: x.index_fill(0, rl.tensor([0]), rl.tensor(2.0)),
    "index_add_": lambda x: x.clone().index_add_(0, rl.tensor([0]), rl.tensor(2.0)),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_examples_without_dims_are_computed_at_once(name, no_loops):
    function, x = OF_NUMBERS[name], rl.randn(5)
    found, expected = vmap(function)(x), [function(one) for one in x]
    if not isinstance(found, tuple):
        found, expected = (found,), [(one,) for one in expected]
    for got, of_each in zip(found, zip(*expected)):
        assert got.equal(rl.stack(of_each))


@pytest.mark.parametrize(
    "function", [lambda x: x.sum(1), lambda x: x.split(1), lambda x: x.unbind()]
)
def test_examples_without_dims_are_refused_as_one_is(function):
    with pytest.raises((IndexError, RuntimeError)) as of_one:
        function(rl.randn(()))
    with pytest.raises(of_one.type):
        vmap(function)(rl.randn(5))


@pytest.mark.parametrize("sizes", [(2, 3), (3, 1), (2, 1), (1, 3), (1, 1)])
@pytest.mark.parametrize("mapped", [True, False])
def test_gradients_in_two_levels(sizes, mapped):
    x, y = rl.randn(sizes), rl.randn(sizes)

    def f(x, y):
        return grad(lambda x: grad(lambda x: x * x * x)(x) * y)(x)

    if mapped:
        assert vmap(vmap(f))(x, y).allclose(6 * x * y)
    else:
        found = vmap(vmap(f, (None, 0)), (0, 0))(x[:, 0], y)
        assert found.allclose(6 * x[:, :1] * y)


@pytest.mark.parametrize("beta", [0, 0.0])
@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "baddbmm", "addbmm"])
def test_what_counts_zero_times_is_not_read(name, beta):
    ranks = {"addmv": (2, 1), "addr": (1, 1), "addmm": (2, 2)}.get(name, (3, 3))
    first, second = (rl.rand(4, *(2,) * rank) for rank in ranks)
    function = getattr(rl, name)
    shape = function(rl.zeros(()), first[0], second[0]).shape
    unread = rl.full((4, *shape), float("nan"))

    def of_one(*args):
        return function(*args, beta=beta, alpha=2)

    expected = rl.stack([of_one(*args) for args in zip(unread, first, second)])
    assert not expected.isnan().any()
    assert vmap(of_one)(unread, first, second).allclose(expected)
    assert vmap(of_one, (None, 0, 0))(unread[0], first, second).allclose(expected)


# ---- Functions whose rule follows from their methods


class Cubed(rl.autograd.Function):
    """x^3 * y, and x^2; what is called is noted."""

    generate_vmap_rule = True
    called = []

    @staticmethod
    def forward(x, y, options):
        Cubed.called.append("forward")
        return x**3 * y, x**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*inputs[:2], output[1])
        ctx.save_for_forward(*inputs[:2], output[1])

    @staticmethod
    def backward(ctx, grad, _):
        Cubed.called.append("backward")
        x, y, squared = ctx.saved_tensors
        return grad * 3 * x**2 * y if ctx.needs_input_grad[0] else None, grad * x**3, None

    @staticmethod
    def jvp(ctx, x_tangent, y_tangent, _):
        Cubed.called.append("jvp")
        x, y, squared = ctx.saved_tensors
        return x_tangent * 3 * squared * y + y_tangent * x**3, None


def cubed(x, y):
    return Cubed.apply(x, y, ["of", "any", "kind"])[0]


OF_FUNCTIONS = {
    "value": (lambda x, y: vmap(cubed)(x, y), lambda x, y: x**3 * y, ["forward"]),
    "shared": (lambda x, y: vmap(cubed, (0, None))(x, y[0]), lambda x, y: x**3 * y[0], ["forward"]),
    "gradients": (lambda x, y: vmap(grad(lambda x: cubed(x, y[0]).sum()))(x),
                  lambda x, y: 3 * x**2 * y[0], ["forward", "backward"]),
    "second gradients": (
        lambda x, y: vmap(grad(lambda x: grad(lambda x: cubed(x, y[0]).sum())(x).sum()))(x),
        lambda x, y: 6 * x * y[0], ["forward", "backward"]),
    "gradients of the mapped": (lambda x, y: grad(lambda x: vmap(cubed)(x, y).sum())(x),
                                lambda x, y: 3 * x**2 * y, ["forward", "backward"]),
    "gradients of the shared": (
        lambda x, y: grad(lambda y: vmap(cubed, (0, None))(x, y).sum())(y[0]),
        lambda x, y: (x**3).sum(0), ["forward", "backward"]),
    "tangents": (lambda x, y: jvp(lambda x: vmap(cubed)(x, y), (x,), (x,))[1],
                 lambda x, y: 3 * x**3 * y, ["forward", "jvp"]),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_FUNCTIONS)
def test_a_rule_follows_from_the_methods_of_a_function(name, no_loops):
    function, expected, called = OF_FUNCTIONS[name]
    x, y = rl.randn(4, 3, dtype=rl.float64), rl.randn(4, 3, dtype=rl.float64)
    Cubed.called.clear()
    assert function(x, y).allclose(expected(x, y))
    assert Cubed.called == called


def test_a_graph_leads_through_a_mapped_function():
    x = rl.randn(4, 3, dtype=rl.float64, requires_grad=True)
    y = rl.randn(4, 3, dtype=rl.float64, requires_grad=True)
    rl.autograd.gradcheck(vmap(cubed), (x, y))
    rl.autograd.gradgradcheck(vmap(cubed, (1, None), 1), (x, y[:, 0].detach().requires_grad_()))
    assert vmap(vmap(cubed))(x, y).allclose(x**3 * y)


def test_gradients_of_broadcast_arguments_are_summed():
    x, y = rl.randn(4, 2, 3, dtype=rl.float64), rl.randn(4, dtype=rl.float64)

    def gradient(x, y):
        return grad(lambda y: cubed(x, y).sum())(y)

    assert vmap(gradient)(x, y).allclose((x**3).sum((1, 2)))
    rows = vmap(gradient)(x, y.view(4, 1, 1).expand(4, 1, 3))
    assert rows.allclose((x**3).sum(1, keepdim=True))
    assert vmap(gradient, (0, None))(x, y[0]).allclose((x**3).sum((1, 2)))


def test_no_rule_follows_for_what_changes_its_arguments():
    class Doubled(rl.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x.mul_(2)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.mark_dirty(*inputs)

    with pytest.raises(NotImplementedError, match="Doubled changes arguments in place"):
        vmap(Doubled.apply)(rl.ones(2, 3))


def test_checks_of_values_in_two_levels():
    x = rl.randn(2, 3, 1, 8)
    parts = F.max_pool1d(x.flatten(0, 1), 2, return_indices=True)
    pooled, places = (part.unflatten(0, (2, 3)) for part in parts)

    def unpooled(pooled, places):
        return F.max_unpool1d(pooled, places, 2)

    expected = unpooled(pooled.flatten(0, 1), places.flatten(0, 1)).view(x.shape)
    assert vmap(vmap(unpooled))(pooled, places).equal(expected)
    only_outside = vmap(vmap(lambda _, p, i: unpooled(p, i), (0, None, None)), (0, 0, 0))
    found = only_outside(rl.ones(2, 1), pooled[:, 0], places[:, 0])
    assert found[:, 0].equal(expected[:, 0])
    with pytest.raises(RuntimeError, match="indices must be below"):
        only_outside(rl.ones(2, 1), pooled[:, 0], places[:, 0] + 8)


def test_a_cross_product_wants_as_many_dims_of_an_example():
    with pytest.raises(RuntimeError):
        rl.linalg.cross(rl.ones(3), rl.ones(5, 3))
    with pytest.raises(RuntimeError):
        vmap(rl.linalg.cross)(rl.ones(2, 3), rl.ones(2, 5, 3))
    with pytest.raises(RuntimeError):
        vmap(rl.linalg.cross, (0, None))(rl.ones(2, 3), rl.ones(5, 3))


@pytest.mark.parametrize(
    ("function", "mapped"),
    [
        (lambda a, b: rl.select_scatter(a, b[0], 0, 1), (2, 3)),
        (lambda a, b: rl.slice_scatter(a, b, 0, 1, 3), (4, 3)),
        (lambda a, b: rl.addbmm(a, b[:, :, None], b[:, None]), (3, 3)),
        (lambda a, b: a.index_reduce(0, rl.tensor([1, 0]), b, "mean"), (2, 3)),
        (lambda a, b: a.index_fill(0, rl.tensor([1, 1]), b[0, 0]), (2, 3)),
    ],
    ids=["select_scatter", "slice_scatter", "addbmm", "index_reduce", "index_fill"],
)
def test_gradients_by_what_all_examples_share(function, mapped):
    """Of operations that are computed as those that they are made of."""
    a = rl.randn(4, *mapped, dtype=rl.float64, requires_grad=True)
    b = rl.randn(2, 3, dtype=rl.float64, requires_grad=True)
    found = vmap(function, (0, None))(a, b)
    expected = rl.stack([function(one, b) for one in a])
    for f, e in zip(*(rl.autograd.grad(t.sin().sum(), (a, b)) for t in (found, expected))):
        rl.testing.assert_close(f, e)


def test_gradients_by_factors_that_were_made_before():
    a = rl.randn(3, 4, 4, dtype=rl.float64) + 4 * rl.eye(4, dtype=rl.float64)
    factors, pivots = rl.linalg.lu_factor(a[0])
    b = rl.randn(3, 4, 2, dtype=rl.float64)

    def slope(lu, b):
        return grad(lambda lu: rl.linalg.lu_solve(lu, pivots, b).sin().sum())(lu)

    lu = rl.stack([factors * k for k in (1, 2, 3)])
    expected = rl.stack([slope(*pair) for pair in zip(lu, b)])
    rl.testing.assert_close(vmap(slope)(lu, b), expected)
    assert expected.abs().min() > 0


def test_statistics_that_are_given_have_no_gradients():
    x, mean, var = rl.randn(2, 5, 3), rl.randn(2, 3), rl.rand(2, 3) + 1

    def loss(x, mean, var):
        return F.batch_norm(x, mean, var).sum()

    found = vmap(grad(loss, argnums=(0, 1, 2)))(x, mean, var)
    for f, e in zip(found, zip(*(grad(loss, (0, 1, 2))(*one) for one in zip(x, mean, var)))):
        rl.testing.assert_close(f, rl.stack(list(e)))
