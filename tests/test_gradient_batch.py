"""grad(..., is_grads_batched=True): many gradients in one backward pass, beside a pass for each."""

import pytest
from table import cases
from test_ops_gradients import DIFFERENTIABLE, OF_LOGITS, problem, takes_complex

import rushlight as rl
from rushlight import _C

pytestmark = pytest.mark.filterwarnings("ignore")

BATCH = 5


def weights_of(outputs):
    generator = rl.Generator().manual_seed(0)
    return [rl.randn(BATCH, *out.shape, dtype=out.dtype, generator=generator) for out in outputs]


def gradients(outputs, inputs, weights, create_graph, batched):
    return rl.autograd.grad(
        outputs, inputs, weights, retain_graph=True, create_graph=create_graph,
        allow_unused=True, is_grads_batched=batched,
    )  # fmt: skip


def check(outputs, inputs, create_graph=False):
    weights = weights_of(outputs)
    found = gradients(outputs, inputs, weights, create_graph, True)
    rows = [
        gradients(outputs, inputs, [w[i] for w in weights], create_graph, False)
        for i in range(BATCH)
    ]
    for whole, column, source in zip(found, zip(*rows), inputs, strict=True):
        if whole is None:
            assert all(one is None for one in column)
            continue
        expected = rl.stack([rl.zeros_like(source) if one is None else one for one in column])
        assert whole.dtype == source.dtype
        rl.testing.assert_close(whole, expected, rtol=1e-7, atol=1e-9, equal_nan=True)
        if create_graph and expected.requires_grad and whole.requires_grad:
            check([whole], inputs)
            compare_second(whole, expected, inputs)


def compare_second(whole, expected, inputs):
    (weight,) = weights_of([whole])
    for a, b in zip(
        gradients([whole], inputs, [weight[0]], False, False),
        gradients([expected], inputs, [weight[0]], False, False),
        strict=True,
    ):
        a, b = (rl.zeros(()) if t is None else t for t in (a, b))
        rl.testing.assert_close(
            a.expand_as(b) if not a.dim() else a, b.expand_as(a) if not b.dim() else b,
            rtol=1e-7, atol=1e-9, equal_nan=True, check_dtype=False,
        )  # fmt: skip


def sample(op, number):
    """The outputs of a sample and its inputs, or no outputs where nothing has a gradient."""
    found = problem(op, number, "float64")
    if found is None:
        return (), ()
    run, inputs = found
    return run(*inputs), inputs


@pytest.mark.parametrize("create_graph", [False, True], ids=["", "recorded"])
@pytest.mark.parametrize(("op", "number"), cases(DIFFERENTIABLE))
def test_rows(op, number, create_graph):
    outputs, inputs = sample(op, number)
    if create_graph and op.full_name in OF_LOGITS:
        with pytest.raises(RuntimeError, match="has no second derivative"):
            check(outputs, inputs, create_graph)
    elif outputs:
        check(outputs, inputs, create_graph)


@pytest.mark.parametrize(("op", "number"), cases(op for op in DIFFERENTIABLE if takes_complex(op)))
def test_rows_of_complex_numbers(op, number):
    try:
        run, inputs = problem(op, number, "complex128")
        outputs = run(*inputs)
    except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
        pytest.skip(f"takes no complex numbers: {error}")
    if outputs:
        check(outputs, inputs)


# Rows with a node that is applied to one gradient after the other.
ONE_BY_ONE = set(
    """
    convolution conv_transpose1d conv_transpose2d conv_transpose3d copy_ embedding_bag_kernel
    embedding_bag_weights_gradient index_put ctc_loss_kernel masked_select masked_scatter
    channel_shuffle fill_diagonal_ take put as_strided_scatter
    embedding_gradient nll_loss_gradient_kernel
    """.split()
)


def one_by_one(run):
    """How many nodes were applied so, and the op of the last of them."""
    before, _ = _C._nodes_applied_one_by_one()
    run()
    after, op = _C._nodes_applied_one_by_one()
    return (after - before, op) if after > before else None


@pytest.mark.parametrize(
    ("op", "number"), cases(op for op in DIFFERENTIABLE if op.full_name not in ONE_BY_ONE)
)
def test_one_pass_computes_all(op, number):
    outputs, inputs = sample(op, number)
    if outputs:
        weights = weights_of(outputs)
        assert one_by_one(lambda: gradients(outputs, inputs, weights, False, True)) is None


def test_what_has_no_rule_is_one_by_one():
    x = rl.randn(7, dtype=rl.float64, requires_grad=True)
    y = x.take(rl.tensor([1, 1, 5])).exp()
    assert one_by_one(lambda: check([y], [x])) == (1, "take")


class Doubled(rl.autograd.Function):
    """Its backward is the program's, and sees one gradient at a time."""

    seen = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        Doubled.seen.append((tuple(grad.shape), grad.device.type))
        return grad * 2


def test_functions_of_programs_see_single_gradients():
    x = rl.randn(3, dtype=rl.float64, requires_grad=True)
    y = Doubled.apply(x.sin()).cos()
    Doubled.seen.clear()
    gradients([y], [x], weights_of([y]), False, True)
    assert Doubled.seen == [((3,), "cpu")] * BATCH
    check([y], [x])


def test_hooks_see_single_gradients():
    x = rl.randn(3, dtype=rl.float64, requires_grad=True)
    middle = x.sin()
    shapes = []
    middle.register_hook(lambda g: shapes.append(tuple(g.shape)) or g * 2)
    y = middle.exp()
    check([y], [x])
    assert shapes == [(3,)] * (2 * BATCH)


def test_a_chain_whose_parts_share_an_input():
    x = rl.randn(4, 3, dtype=rl.float64, requires_grad=True)
    w = rl.randn(3, 3, dtype=rl.float64, requires_grad=True)
    h = rl.tanh(x @ w)
    y = rl.nn.functional.log_softmax(h @ w.t() + h[:, :1], 1)
    assert one_by_one(lambda: check([y, h], [x, w])) is None
    check([y, h], [x, w], create_graph=True)


def test_a_small_network():
    model = rl.nn.Sequential(
        rl.nn.Conv2d(2, 4, 3, padding=1, groups=2), rl.nn.BatchNorm2d(4), rl.nn.ReLU(),
        rl.nn.MaxPool2d(2), rl.nn.Flatten(), rl.nn.Linear(16, 5), rl.nn.LayerNorm(5),
    ).double()  # fmt: skip
    x = rl.randn(3, 2, 4, 4, dtype=rl.float64, requires_grad=True)

    def run(given):
        check([rl.nn.functional.gelu(model(given))], [x, *model.parameters()])

    assert one_by_one(lambda: run(x)) is None
    assert one_by_one(lambda: run(x.to(memory_format=rl.channels_last))) is None


def test_the_graph_is_freed_or_kept():
    x = rl.randn(3, requires_grad=True)
    y = x.exp() * x
    (weights,) = weights_of([y])
    rl.autograd.grad(y, x, weights, retain_graph=True, is_grads_batched=True)
    (found,) = rl.autograd.grad(y, x, weights, is_grads_batched=True)
    assert not found.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        rl.autograd.grad(y, x, weights, is_grads_batched=True)


def test_no_weights_and_unused_inputs():
    x, unused = (rl.randn(3, dtype=rl.float64, requires_grad=True) for _ in range(2))
    total, y = x.prod(), x.sin()
    (weights,) = weights_of([y])
    found = rl.autograd.grad(
        [total, y], [x, unused], [None, weights], allow_unused=True, is_grads_batched=True,
        retain_graph=True,
    )  # fmt: skip
    assert found[1] is None
    filled = rl.autograd.grad(y, unused, weights, materialize_grads=True, is_grads_batched=True)
    assert rl.equal(filled[0], rl.zeros(BATCH, 3, dtype=rl.float64))
    expected = weights * x.cos() + x.prod() / x
    rl.testing.assert_close(found[0], expected.detach())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "complex64"])
def test_other_dtypes(dtype):
    dtype = getattr(rl, dtype)
    x = rl.randn(4, 3, dtype=dtype, requires_grad=True)
    y = (x.sin() * x.float().mean() if not x.is_complex() else x.sin() * x.mean()).to(dtype)
    weights = weights_of([y])
    (found,) = gradients([y], [x], weights, False, True)
    rows = [gradients([y], [x], [w], False, False)[0] for w in weights[0]]
    assert found.dtype == dtype
    rl.testing.assert_close(found, rl.stack(rows))


def test_while_nan_is_looked_for():
    x = rl.randn(3, requires_grad=True)
    with rl.autograd.detect_anomaly():
        y = x.sqrt() * 0
        with pytest.raises(RuntimeError, match="nan"):
            rl.autograd.grad(y.sum() + (x * rl.inf * 0).sum(), x, rl.ones(5), is_grads_batched=True)


def test_profiles_list_the_operations():
    x = rl.randn(3, requires_grad=True)
    y = x.exp()
    with rl.profiler.profile() as profile:
        rl.autograd.grad(y, x, rl.eye(3).repeat(2, 1), is_grads_batched=True)
    counts = {e.key: e.count for e in profile.key_averages()}
    assert counts["ExpBackward0"] == 6


def test_leaves_on_meta():
    x = rl.randn(3, device="meta", requires_grad=True)
    (found,) = rl.autograd.grad(x.exp(), x, rl.ones(5, 3, device="meta"), is_grads_batched=True)
    assert found.shape == (5, 3) and found.is_meta


def test_from_several_threads():
    import threading

    wrong = []

    def work(seed):
        x = rl.full((6,), float(seed), dtype=rl.float64, requires_grad=True)
        for _ in range(50):
            y = x.square().cumsum(0)
            (found,) = rl.autograd.grad(y, x, rl.eye(6, dtype=rl.float64), is_grads_batched=True)
            if not rl.equal(found, 2.0 * seed * rl.ones(6, 6, dtype=rl.float64).tril()):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_derivatives_inside_of_each_other():
    a = rl.randn(6, 6, dtype=rl.float64)
    a = a + a.t()
    x = rl.randn(6, dtype=rl.float64)

    def form(x):
        return x @ a @ x / 2 + (x**3).sum()

    expected = a + rl.diag(6 * x)
    func = rl.func
    for second in (
        func.hessian(form), func.jacrev(func.jacrev(form)), func.jacrev(func.jacfwd(form)),
        func.jacfwd(func.jacfwd(form)), func.jacrev(func.grad(form)),
    ):  # fmt: skip
        rl.testing.assert_close(second(x), expected)
    assert one_by_one(lambda: func.hessian(form)(x)) is None
    many = rl.stack([x, 2 * x, -x])
    found = func.vmap(func.hessian(form))(many)
    rl.testing.assert_close(found, rl.stack([a + rl.diag(6 * one) for one in many]))


F = rl.nn.functional
OF_IMAGES = {
    "reflected 1d": (lambda x: F.pad(x, (1, 2), mode="reflect"), (3, 5)),
    "reflected 2d": (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), (3, 5, 4)),
    "replicated 2d": (lambda x: F.pad(x, (1, 0, 2, 1), mode="replicate"), (3, 5, 4)),
    "replicated 3d": (lambda x: F.pad(x, (1, 2, 2, 1, 0, 1), mode="replicate"), (3, 3, 5, 4)),
    "circular 2d": (lambda x: F.pad(x, (1, 2, 2, 1), mode="circular"), (3, 5, 4)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2, 1), (3, 9)),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), (3, 4, 4, 4)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, (2, 3), 2, 1, True, False), (3, 5, 6)),
    "avg_pool3d": (lambda x: F.avg_pool3d(x, 2, divisor_override=3), (3, 4, 4, 4)),
    "adaptive_avg_pool3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 3, 1)), (3, 4, 5, 4)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (2, 3)), (3, 4, 5)),
    "unfold": (lambda x: F.unfold(x, 2, 1, 1, 2), (3, 5, 4)),
    "fold": (lambda x: F.fold(x, (4, 4), 3), (9, 4)),
    "conv1d": (lambda x: F.conv1d(x, W[1], None, 2, 1, 2, 2), (4, 9)),
    "conv2d": (lambda x: F.conv2d(x, W[2], B, (2, 1), (1, 0), 1, 2), (4, 5, 6)),
    "conv3d": (lambda x: F.conv3d(x, W[3], B, 1, 1, 1, 2), (4, 3, 4, 3)),
    "conv_transpose2d": (lambda x: F.conv_transpose2d(x, W[2], None, 2, 1, 1, 2), (4, 3, 4)),
    "linear upsampling": (lambda x: F.interpolate(x, scale_factor=1.5, mode="linear"), (3, 6)),
    "bicubic upsampling": (lambda x: F.interpolate(x, (7, 3), mode="bicubic"), (3, 4, 5)),
    "nearest 3d": (lambda x: F.interpolate(x, (3, 5, 2)), (3, 4, 4, 4)),
}
B = rl.randn(4, dtype=rl.float64, requires_grad=True)
W = {d: rl.randn(4, 2, *[2] * d, dtype=rl.float64, requires_grad=True) for d in (1, 2, 3)}
WITH_IMAGES = {"linear upsampling", "bicubic upsampling", "nearest 3d"}


@pytest.mark.parametrize("images", [None, 1, 2])
@pytest.mark.parametrize("name", OF_IMAGES)
def test_images(name, images):
    call, shape = OF_IMAGES[name]
    if images is None and (name in WITH_IMAGES or name == "circular 2d"):
        pytest.skip("takes batches alone")
    shape = shape if images is None else (images, *shape)
    x = rl.randn(shape, dtype=rl.float64, requires_grad=True)
    check([call(x)], [x, *([*W.values(), B] if "conv" in name else [])])


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_sampled_images(dims, mode):
    x = rl.randn(2, 3, *[4] * dims, dtype=rl.float64, requires_grad=True)
    grid = rl.rand(2, *[3] * dims, dims, dtype=rl.float64).requires_grad_()
    check([F.grid_sample(x, grid, mode=mode, align_corners=False)], [x, grid])


@pytest.mark.parametrize("left", [True, False])
def test_systems_of_batches(left):
    a = (rl.randn(2, 1, 3, 3, dtype=rl.float64) + 4 * rl.eye(3)).requires_grad_()
    b = rl.randn(4, 3, 3, dtype=rl.float64, requires_grad=True)
    solve, triangular = rl.linalg.solve, rl.linalg.solve_triangular
    check([solve(a, b, left=left), triangular(a, b, upper=True, left=left)], [a, b])
    check([rl.linalg.inv(a), rl.linalg.det(a), rl.linalg.cholesky(a @ a.mT)], [a])
