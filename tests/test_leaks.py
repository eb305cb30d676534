"""Graphs free themselves: no reference cycles, no memory that grows from step to step."""

import copy
import gc
import weakref

import pytest
import sanitizers

import rushlight as torch
from rushlight import _C, nn


def live():
    return _C._live_tensors(), _C._live_nodes()


def leaf(*shape):
    return torch.randn(*shape, requires_grad=True)


def chain():
    x = leaf(4)
    y = x
    for _ in range(100):
        y = (y * 0.5).tanh()
    y.sum().backward()


def graph_without_backward():
    ((leaf(3, 3) @ leaf(3, 3)).exp() + leaf(3)).mean()


def double_backward():
    x = leaf(4)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    torch.autograd.grad(first.sum(), x)


def retained_graph():
    x = leaf(4)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()


def in_place_on_views():
    x = leaf(4, 4)
    y = x * 2
    y[1].mul_(3)
    first, second = y.split(2)
    first.add_(second)
    y.sum().backward()


def hooks():
    x = leaf(4)
    y = x * 2
    seen = []
    x.register_hook(lambda grad: grad * 2)
    y.register_hook(seen.append)
    y.grad_fn.register_hook(lambda grads, outputs: None)
    y.sum().backward()


def retain_grad():
    x = leaf(4)
    y = x * 2
    y.retain_grad()
    y.sum().backward()


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad):
        x, _ = ctx.saved_tensors
        return 2 * x * grad


def custom_function():
    Square.apply(leaf(4)).sum().backward()


def custom_function_without_backward():
    Square.apply(leaf(4))


def failed_backward():
    x = leaf(4)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError):
        y.sum().backward()


def training():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(2, 1, 4, 4)), torch.tensor([0, 2])).backward()
        optimizer.step()


PROGRAMS = [
    chain,
    graph_without_backward,
    double_backward,
    retained_graph,
    in_place_on_views,
    hooks,
    retain_grad,
    custom_function,
    custom_function_without_backward,
    training,
]


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_no_reference_cycles(program, no_collector):
    program()  # what is made once, on first use
    before = live()
    program()
    assert live() == before


def test_a_failed_backward_leaves_nothing():
    failed_backward()
    gc.collect()  # the traceback and its frames refer to one another
    before = live()
    failed_backward()
    gc.collect()
    assert live() == before


def test_backward_frees_buffers_as_it_consumes_them(no_collector):
    x = leaf(1000)
    y = x.exp().exp()
    before, _ = live()
    y.sum().backward()
    x.grad = None
    assert live()[0] < before  # the saved result of the first exp is gone


def test_a_cycle_through_python_is_collected():
    x = leaf(4)
    y = x * 2
    y.holder = [y]
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None


@pytest.mark.skipif(sanitizers.ADDRESS, reason="the sanitizer's build keeps no blocks")
@pytest.mark.parametrize("threads", [1, 2])
def test_training_asks_the_system_for_nothing_after_warm_up(threads):
    """Save for the scratch of a second thread in each of two products, which comes when the system
    first finds a processor for it: that may be at any step."""
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x, y = torch.randn(128, 64), torch.randint(0, 10, (128,))

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    threads_before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for _ in range(3):
            step()
        before = torch.memory_stats()["system_allocations"]
        for _ in range(200):
            step()
        asked = torch.memory_stats()["system_allocations"] - before
    finally:
        torch.set_num_threads(threads_before)
    assert asked <= 2 * (threads - 1)


def test_an_evaluated_batch_norm_keeps_its_buffers_out_of_the_graph():
    norm = nn.BatchNorm2d(3).eval()
    out = norm(torch.randn(2, 3, 4, 4))
    assert out.requires_grad and not norm.running_mean.requires_grad
    assert copy.deepcopy(norm).running_mean.equal(norm.running_mean)


def test_a_long_chain_of_gradients_of_gradients_is_freed():
    before = live()
    last = torch.ones(1)
    for _ in range(200_000):
        first = torch.ones(1)
        first.grad, last = last, first
    del first, last  # one by one, not each on the stack of the one before
    assert live() == before
