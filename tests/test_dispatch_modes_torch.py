"""The operations that a dispatch mode sees, beside those that torch's sees."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from dispatch_sequences import SEQUENCES, seen  # noqa: E402

import rushlight  # noqa: E402

pytestmark = pytest.mark.torch

# torch detaches what it saves and what it accumulates; the library has no need to.
_BOOKKEEPING = {"aten.detach.default", "aten.lift_fresh.default"}

PROGRAMS = {
    "indexing": lambda t, x: (x[0], x[:, 1:], x[x > 0], x.chunk(2, 1), x.split(1)),
    "products": lambda t, x: (x @ x.T, t.ones(2, 3, 4) @ t.ones(4, 5), x[0] @ x[1], x @ x[0]),
    "reductions": lambda t, x: (x.mean(), x.mean(1), x.std(), x.max(1), x.sum(1, keepdim=True),
                                x.var(0), x.norm(), x.argmax(1), x.any(), x.all()),
    "shapes": lambda t, x: (x.reshape(8), x.T.reshape(8), x.view(-1), x.permute(1, 0), x.flatten(),
                            x.expand(2, 2, 4), x.squeeze(), x.unsqueeze(0), x.t(), x.repeat(2, 1)),
    "numbers": lambda t, x: (x**2, 2**x, 1 - x, x / 2, x.eq(0), x.clamp(0, 1), x.to(t.float64),
                             x.masked_fill(x > 0, 0.0), (x > 0) & (x < 1), ~(x > 0)),
    "in place": lambda t, x: (x.clone().add_(1), x.clone().zero_(), x.clone().fill_(1)),
    "factories": lambda t, x: (t.zeros(2), t.arange(3), t.full((2,), 1.0), t.zeros_like(x)),
    "networks": lambda t, x: (
        t.nn.functional.linear(t.ones(2, 3, 4), t.ones(5, 4), t.ones(5)),
        t.nn.functional.conv2d(t.ones(1, 1, 4, 4), t.ones(2, 1, 3, 3)),
        t.nn.functional.max_pool2d(t.ones(1, 1, 4, 4), 2), t.nn.functional.gelu(x),
        t.nn.functional.mse_loss(x, x), x.softmax(1), t.nn.functional.layer_norm(x, (4,)),
        t.nn.functional.embedding(t.tensor([0]), x), t.nn.functional.dropout(x)),
    "numbers of elements": lambda t, x: (x.sum().item(), float(x.sum()), bool(x.sum() > 0)),
}  # fmt: skip


def training(t, x):
    F = t.nn.functional
    w, b = (t.ones(s, requires_grad=True) for s in ((3, 4), (3,)))
    y = F.linear(x, w, b).relu()
    loss = F.cross_entropy(y, t.tensor([0, 1])) + (w * w).mean() + w.tanh().sum(1).exp().sum()
    loss.backward()


def operations(t, dispatch_mode, program):
    seen = []

    class Log(dispatch_mode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = t.arange(8.0).reshape(2, 4)
    with Log():
        program(t, x)
    return [name for name in seen if name not in _BOOKKEEPING]


def both(program):
    from torch.utils._python_dispatch import TorchDispatchMode as theirs

    from rushlight.utils._python_dispatch import TorchDispatchMode as ours

    return operations(rushlight, ours, program), operations(torch, theirs, program)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_mode_sees_what_that_of_torch_sees(name):
    found, expected = both(PROGRAMS[name])
    assert found == expected


def test_backward_too():
    found, expected = both(training)
    found, expected = Counter(found), Counter(expected)
    assert found - expected == Counter()
    # What comes from several uses is added up by operations that are seen.
    assert set(expected - found) == {"aten.t.default"}


@pytest.mark.parametrize("call", SEQUENCES)
def test_the_table_of_sequences_is_that_of_torch(call):
    import torch.masked  # noqa: F401
    from torch.utils._python_dispatch import TorchDispatchMode

    assert seen(torch, TorchDispatchMode, call) == SEQUENCES[call]
