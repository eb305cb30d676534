"""make_fx: the graph of a run below autograd."""

import operator

import pytest

import rushlight
from rushlight.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_innermost_proxy_mode,
    get_isolated_graphmodule,
    make_fx,
)
from rushlight.nn.functional import cross_entropy, mse_loss

aten = rushlight.ops.aten


def targets(module):
    return [str(n.target) for n in module.graph.nodes if n.op == "call_function"]


def gradient(x):
    x = x.detach().requires_grad_()
    return rushlight.autograd.grad((x.tanh() * x.exp()).sum(), x)[0]


def through_views(x):
    x = x.detach().requires_grad_()
    y = x.t() @ x[1:].reshape(-1)[:3] + x.transpose(0, 1).sum(1) + x.diagonal()
    return rushlight.autograd.grad((y * y).sum(), x)[0]


def in_place(x):
    x = x.detach().requires_grad_()
    y = x * 2
    y.mul_(x.cos()).add_(x)
    return rushlight.autograd.grad(y.sum(), x)[0]


def backward(x):
    x = x.detach().requires_grad_()
    y = (x * 3).sin()
    (y * x).sum().backward()
    (y.detach() * x).sum().backward()
    return x.grad


def training_step(x):
    weight = rushlight.full((2, 3), 0.5, requires_grad=True)
    loss = rushlight.nn.functional.linear(x, weight).tanh().square().mean()
    (gradient,) = rushlight.autograd.grad(loss, weight)
    return weight.detach() - 0.1 * gradient


def second(x):
    x = x.detach().requires_grad_()
    (first,) = rushlight.autograd.grad(x.tanh().sum(), x, create_graph=True)
    return rushlight.autograd.grad(first.sum(), x)[0]


def of_several_results(x):
    x = x.detach().requires_grad_()
    F = rushlight.nn.functional
    y = F.layer_norm(x, [3]) + F.batch_norm(x, None, None, training=True) + x.max(0)[0]
    y = y + F.group_norm(x[None], 1)[0] + rushlight.var_mean(x)[1] + x.sort()[0]
    y = y + F.scaled_dot_product_attention(x[None], x[None], x[None])[0]
    return rushlight.autograd.grad((y * x).sum(), x)[0]


FUNCTIONS = {
    "chain": lambda x: x.sin().cos() + 1,
    "several": lambda x: (x.max(0)[0], rushlight.split(x, 1)[2], None, 3),
    "in place": lambda x: x.clone().add_(1).mul_(x),
    "view in place": lambda x: (y := x.clone(), y[0].zero_(), y.relu())[2],
    "index": lambda x: x[0, 1:] + x[rushlight.tensor([0])].sum(),
    "gradient": gradient,
    "through views": through_views,
    "of several results": of_several_results,
    "backward": backward,
    "training step": training_step,
    "second": second,
    "func.grad": rushlight.func.grad(lambda x: x.sin().sum()),
    "vmap": rushlight.func.vmap(rushlight.func.grad(lambda x: x.sin().sum())),
    "loss": lambda x: cross_entropy(x, rushlight.tensor([0, 1, 2])),
    "factories": lambda x: rushlight.zeros(3) + rushlight.arange(3) + x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_graph_does_what_the_function_does(name):
    function = FUNCTIONS[name]
    module = make_fx(function)(rushlight.randn(3, 3))
    other = rushlight.randn(3, 3)  # not what it was traced with
    rushlight.testing.assert_close(module(other), function(other))
    assert all(target.startswith(("aten.", "<built-in function getitem>"))
               for target in targets(module))  # fmt: skip


def test_code():
    module = make_fx(lambda x, y: x.sin() @ y)(rushlight.ones(2, 2), rushlight.ones(2, 2))
    assert module.code.strip() == (
        "def forward(self, x_1, y_1):\n"
        "    sin = torch.ops.aten.sin.default(x_1);  x_1 = None\n"
        "    mm = torch.ops.aten.mm.default(sin, y_1);  sin = y_1 = None\n"
        "    return mm"
    )


def test_backward_reads_what_forward_computed():
    module = make_fx(gradient)(rushlight.randn(4))
    (node,) = [n for n in module.graph.nodes if n.target == aten.tanh_backward.default]
    assert node.args[1].target == aten.tanh.default
    assert not list(module.buffers())


def test_parameters_and_constants_become_attributes():
    layer, weight = rushlight.nn.Linear(3, 2), rushlight.randn(2)
    module = make_fx(lambda x: layer(x) * weight + layer.weight.sum())(rushlight.randn(4, 3))
    assert [name for name, _ in module.named_parameters()] == ["_param_constant0",
                                                               "_param_constant1"]  # fmt: skip
    assert module._param_constant0 is layer.weight
    assert [name for name, _ in module.named_buffers()] == ["_tensor_constant0"]


def test_a_module_and_what_nodes_know():
    module = make_fx(rushlight.nn.Linear(3, 2))(rushlight.randn(4, 3))
    assert targets(module) == ["aten.t.default", "aten.addmm.default"]
    first, *_, last, _ = module.graph.nodes
    assert first.name == "arg0_1"
    assert last.meta["val"].shape == (4, 2) and last.meta["val"].is_meta
    assert last.meta["tensor_meta"].stride == (2, 1)


def test_containers():
    xs = [rushlight.randn(2), rushlight.randn(2)]
    module = make_fx(lambda xs, d: {"sum": xs[0] + d["k"], "xs": [xs[1]]})(xs, {"k": xs[1] + 0})
    assert [n.name for n in module.graph.nodes if n.op == "placeholder"] == ["xs_1", "xs_2", "d_1"]
    a, b, c = rushlight.randn(3, 2)
    found = module([a, b], {"k": c})
    assert found["sum"].equal(a + c) and found["xs"][0] is b


def test_decomposition_table():
    table = {aten.sigmoid.default: lambda x: 1 / (1 + rushlight.exp(-x))}
    module = make_fx(lambda x: x.sigmoid(), decomposition_table=table)(rushlight.randn(3))
    assert "aten.exp.default" in targets(module) and "aten.sigmoid.default" not in targets(module)
    x = rushlight.randn(3)
    rushlight.testing.assert_close(module(x), x.sigmoid())
    kept = make_fx(lambda x: x.sigmoid(), {aten.sigmoid.default: lambda x: NotImplemented})(x)
    assert targets(kept) == ["aten.sigmoid.default"]


def test_elements_of_traced_tensors_are_refused():
    x = rushlight.ones(3)
    for program in (lambda x: x * x.sum().item(), lambda x: x if x.sum() > 0 else -x):
        with pytest.raises(RuntimeError, match="_local_scalar_dense"):
            make_fx(program)(x)
    module = make_fx(lambda x: x * x.sum().item(), _error_on_data_dependent_ops=False)(x)
    assert module(x).equal(x * 3)
    constant = rushlight.tensor(2.0)
    assert make_fx(lambda x: x * constant.item())(x)(x).equal(x * 2)


def test_gradients_that_cannot_be_traced_are_refused():
    x = rushlight.ones(3, requires_grad=True)
    early = x * x
    for program in (in_place, lambda y: rushlight.autograd.grad((early * y).sum(), x)[0]):
        with pytest.raises(NotImplementedError, match="make_fx: a gradient of shape"):
            make_fx(program)(rushlight.ones(3))


def test_modes():
    seen = []

    def program(x):
        seen.append(get_innermost_proxy_mode() is not None)
        with disable_proxy_modes_tracing():
            seen.append(get_innermost_proxy_mode() is None)
            x.cos()
        return x.sin()

    assert targets(make_fx(program)(rushlight.ones(2))) == ["aten.sin.default"]
    assert seen == [True, True] and get_innermost_proxy_mode() is None
    inner = get_isolated_graphmodule(lambda x, *, by: x / by, (rushlight.ones(2),), {"by": 2})
    assert targets(inner) == ["aten.div.Tensor"]


def test_what_is_refused():
    for mode in ("fake", "symbolic"):
        with pytest.raises(NotImplementedError, match=f"tracing_mode='{mode}'"):
            make_fx(abs, tracing_mode=mode)
    with pytest.raises(AssertionError, match="real/fake/symbolic"):
        make_fx(abs, tracing_mode="no")
    with pytest.raises(NotImplementedError, match="pre_dispatch=True"):
        make_fx(abs, pre_dispatch=True)


PROGRAMS = {
    "sincos": lambda torch: lambda x: x.sin().cos(),
    "linear": lambda torch: torch.nn.Linear(3, 2),
    "mse": lambda torch: lambda x: (torch.nn.functional.mse_loss(x, x + 1), {"a": x}),
    "in place": lambda torch: lambda x: x.clone().add_(1).mul_(x),
    "containers": lambda torch: lambda x: [x.max(0)[0], torch.split(x, 1)[1]],
    "constant": lambda torch: lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
    "cross entropy": lambda torch: (
        lambda x: torch.nn.functional.cross_entropy(x, torch.tensor([0, 1, 2]))
    ),
    "convolution": lambda torch: torch.nn.Conv2d(3, 2, 1),
    "layer norm": lambda torch: torch.nn.LayerNorm(3),
    "operators": lambda torch: lambda x: (1 - x) * 2 / x**2 - operator.neg(x),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_code_is_that_of_torch(name):
    torch = pytest.importorskip("torch")
    from torch.fx.experimental.proxy_tensor import make_fx as reference

    shape = (1, 3, 2, 2) if name == "convolution" else (3, 3)
    theirs = reference(PROGRAMS[name](torch))(torch.ones(shape)).code
    ours = make_fx(PROGRAMS[name](rushlight))(rushlight.ones(shape)).code
    assert ours == theirs


def test_mse_over_a_dict():
    one, zero = rushlight.ones(2), rushlight.zeros(2)
    module = make_fx(lambda d: mse_loss(**d))({"input": one, "target": zero})
    assert module({"input": one, "target": one}).item() == 0
