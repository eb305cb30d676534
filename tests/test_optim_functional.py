"""The functional forms of optimizers make the steps of the optimizers."""

import inspect

import pytest

import rushlight as torch
from rushlight.optim import _functional

pytestmark = pytest.mark.kernels

# Of each: the optimizer, its options, and the options that the function calls otherwise.
CASES = [
    ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-6, "weight_decay": 0.1, "maximize": False}, {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "eps": 1e-8, "weight_decay": 0.1, "maximize": True},
     {}),
    ("Adam", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1, "amsgrad": True,
              "maximize": False}, {"betas": ("beta1", "beta2")}),
    ("AdamW", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1, "amsgrad": False,
               "maximize": True}, {"betas": ("beta1", "beta2")}),
    ("Adamax", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1, "maximize": True},
     {"betas": ("beta1", "beta2")}),
    ("ASGD", {"lr": 0.1, "lambd": 0.01, "alpha": 0.7, "t0": 1.0, "weight_decay": 0.1}, {}),
    ("NAdam", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1,
               "momentum_decay": 0.01, "decoupled_weight_decay": True},
     {"betas": ("beta1", "beta2")}),
    ("RAdam", {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-6, "weight_decay": 0.1},
     {"betas": ("beta1", "beta2")}),
    ("RMSprop", {"lr": 0.1, "alpha": 0.8, "eps": 1e-6, "weight_decay": 0.1, "momentum": 0.5,
                 "centered": True}, {}),
    ("RMSprop", {"lr": 0.1, "alpha": 0.8, "eps": 1e-6, "weight_decay": 0, "momentum": 0,
                 "centered": False}, {}),
    ("Rprop", {"lr": 0.1, "etas": (0.4, 1.5), "step_sizes": (1e-4, 10)},
     {"etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")}),
]  # fmt: skip

# What the function calls a list of these states.
LISTS = {
    "step": "state_steps", "square_avg": "square_avgs", "acc_delta": "acc_deltas",
    "sum": "state_sums", "exp_avg": "exp_avgs", "exp_avg_sq": "exp_avg_sqs", "exp_inf": "exp_infs",
    "max_exp_avg_sq": "max_exp_avg_sqs", "ax": "axs", "mu": "mus", "eta": "etas", "prev": "prevs",
    "mu_product": "mu_products", "grad_avg": "grad_avgs", "step_size": "step_sizes",
    "momentum_buffer": "momentum_buffer_list",
}  # fmt: skip


def arguments(function, options, renamed):
    """The options as the function takes them."""
    found = {}
    for name, value in options.items():
        for inner, part in zip(renamed.get(name, (name,)), value if name in renamed else (value,)):
            found[inner] = part
    return {k: v for k, v in found.items() if k in inspect.signature(function).parameters}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize(("name", "options", "renamed"), CASES, ids=[case[0] for case in CASES])
def test_same_steps(name, options, renamed, dtype):
    function = getattr(_functional, name.lower())
    assert getattr(torch.optim, name).__module__ == f"rushlight.optim.{name.lower()}"
    start = [torch.randn(3, 4, dtype=dtype), torch.randn(5, dtype=dtype)]
    params = [p.clone().requires_grad_() for p in start]
    optimizer = getattr(torch.optim, name)(params, **options)
    for param in params:
        param.grad = torch.zeros_like(param)
    states = [optimizer._begin(param, optimizer.param_groups[0]) for param in params]
    columns = {LISTS[key]: [state[key] for state in states] for key in states[0]}
    wanted = inspect.signature(function).parameters
    columns.update({key: [] for key in LISTS.values() if key in wanted and key not in columns})
    copies = [p.clone() for p in start]
    for _ in range(4):
        grads = [torch.randn_like(p) for p in copies]
        for param, grad in zip(params, grads):
            param.grad = grad.clone()
        optimizer.step()
        function(copies, grads, **columns, **arguments(function, options, renamed))
    for param, copy in zip(params, copies):
        assert torch.allclose(param, copy, rtol=1e-12, atol=1e-12)
    for key, values in columns.items():
        name_of = next(n for n, listed in LISTS.items() if listed == key)
        for param, value in zip(params, values):
            assert torch.allclose(optimizer.state[param][name_of], value, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd(nesterov):
    options = {"lr": 0.1, "momentum": 0.9, "dampening": 0.0, "weight_decay": 0.1,
               "nesterov": nesterov, "maximize": True}  # fmt: skip
    param = torch.randn(5, dtype=torch.float64)
    copy, buffers = param.clone(), [None]
    optimizer = torch.optim.SGD([param], **options)
    for _ in range(3):
        param.grad = torch.randn_like(param)
        optimizer.step()
        _functional.sgd([copy], [param.grad], buffers, **options)
    assert torch.allclose(param, copy) and torch.allclose(
        buffers[0], optimizer.state[param]["momentum_buffer"]
    )


def test_scaled_gradients_and_infinities():
    options = {"amsgrad": False, "beta1": 0.9, "beta2": 0.99, "lr": 0.1, "weight_decay": 0.0,
               "eps": 1e-8, "maximize": False}  # fmt: skip

    def step(grad, **more):
        lists = [torch.ones(3)], [grad], [torch.zeros(3)], [torch.zeros(3)], [], [torch.tensor(0.0)]
        torch.optim._functional.adam(*lists, **options, **more)
        return lists[0][0], lists[-1][0].item()

    assert torch.equal(
        step(torch.ones(3))[0], step(torch.ones(3) * 8, grad_scale=torch.tensor(8.0))[0]
    )
    kept, count = step(torch.ones(3), found_inf=torch.tensor(1.0))
    assert kept.tolist() == [1.0] * 3 and count == 0
    with pytest.raises(TypeError, match="adam: state_steps must be a list of tensors"):
        _functional.adam([kept], [kept], [kept], [kept], [], [1], **options)


def test_gradients_run_through_a_differentiable_step():
    param = torch.ones(3, dtype=torch.float64)
    lr = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    grad = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    moved = param * 1
    _functional.sgd([moved], [grad], [None], weight_decay=0, momentum=0, lr=lr, dampening=0,
                    nesterov=False, maximize=False)  # fmt: skip
    moved.sum().backward()
    assert lr.grad.item() == -6.0 and torch.allclose(grad.grad, torch.tensor(-0.1).double())


def test_sparse_adam():
    weight = torch.ones(4, 2)
    optimizer = torch.optim.SparseAdam([weight], lr=0.1)
    copy, averages = weight.clone(), [[torch.zeros(4, 2)], [torch.zeros(4, 2)]]
    for step in (1, 2):
        grad = torch.sparse_coo_tensor([[0, 2]], torch.randn(2, 2), (4, 2))
        weight.grad = grad
        optimizer.step()
        _functional.sparse_adam([copy], [grad], *averages, [step], eps=1e-8, beta1=0.9, beta2=0.999,
                                lr=0.1, maximize=False)  # fmt: skip
    assert torch.allclose(weight, copy) and not torch.equal(copy, torch.ones(4, 2))
