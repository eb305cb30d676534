"""Recurrent layers of bfloat16 are at least as exact as torch's."""

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.kernels]


def error(a, b):
    return np.sqrt(np.square(a - b).mean() / np.square(b).mean())


def results(library, layer, x, weights):
    """The outputs and all gradients, as float64."""
    x = library.tensor(x).to(next(layer.parameters()).dtype).requires_grad_()
    output = layer(x)[0]
    (output * library.tensor(weights).to(output.dtype)).sum().backward()
    made = [output.detach(), x.grad, *(p.grad for p in layer.parameters())]
    return [t.double().numpy() for t in made]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(("steps", "batch", "size"), [(16, 32, 64), (20, 8, 100)])
def test_errors(kind, steps, batch, size):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(size, size, 2).bfloat16()
    wide = getattr(torch.nn, kind)(size, size, 2).double()
    wide.load_state_dict(theirs.state_dict())
    ours = getattr(rushlight.nn, kind)(size, size, 2)
    ours.load_state_dict(
        {k: rushlight.tensor(v.float().numpy()) for k, v in theirs.state_dict().items()}
    )
    ours = ours.bfloat16()
    x, weights = (torch.randn(steps, batch, size).bfloat16().double().numpy() for _ in range(2))
    expected = results(torch, wide, x, weights)
    found = [
        [error(a, b) for a, b in zip(results(library, layer, x, weights), expected)]
        for library, layer in ((rushlight, ours), (torch, theirs))
    ]
    for own, other in zip(*found):
        assert own < 1.05 * other
