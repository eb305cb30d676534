"""Networks of one layer of each kind, in all of their steps; quick enough for an emulator."""

import copy

import pytest
from optimizers import OPTIONS, combinations

import rushlight as rl
from rushlight import nn

pytestmark = pytest.mark.kernels


def convolutional(dtype=None):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.GELU(), nn.Conv2d(8, 16, 1), nn.AvgPool2d(2),
        nn.Flatten(), nn.Linear(64, 10),
    ).to(dtype or rl.float32)  # fmt: skip


def attentive(dtype=None):
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.Sequential(layer, nn.Flatten(), nn.Linear(80, 10)).to(dtype or rl.float32)


NETWORKS = {convolutional: (4, 3, 8, 8), attentive: (4, 5, 16)}


def example(network, dtype=rl.float32):
    x, y = rl.randn(NETWORKS[network], dtype=dtype), rl.randint(10, (4,))
    return lambda model: nn.functional.cross_entropy(model(x), y)


@pytest.mark.parametrize("network", NETWORKS)
def test_gradient_along_a_direction(network):
    """Beside the difference of two losses, in doubles."""
    loss_of, model = example(network, rl.float64), network(rl.float64)
    loss_of(model).backward()
    direction = [rl.randn_like(p) for p in model.parameters()]
    pairs = list(zip(model.parameters(), direction, strict=True))
    slope = sum((p.grad * d).sum().item() for p, d in pairs)
    step, losses = 1e-6, []
    with rl.no_grad():
        for change in (step, -2 * step):
            for p, d in pairs:
                p += change * d
            losses.append(loss_of(model).item())
    assert slope == pytest.approx((losses[0] - losses[1]) / (2 * step), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("network", NETWORKS)
def test_floats_follow_doubles(network):
    model, wide = network(), network(rl.float64)
    wide.load_state_dict(model.state_dict())
    x, y = rl.randn(NETWORKS[network]), rl.randint(10, (4,))
    for m, data in ((model, x), (wide, x.double())):
        nn.functional.cross_entropy(m(data), y).backward()
    for (name, p), q in zip(model.named_parameters(), wide.parameters(), strict=True):
        rl.testing.assert_close(p.grad.double(), q.grad, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("network", NETWORKS)
def test_it_learns(network):
    loss_of, model = example(network), network()
    optimizer = rl.optim.AdamW(model.parameters(), lr=1e-2)
    first = loss_of(model).item()
    for _ in range(15):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    assert loss_of(model).item() < 0.5 * first


@pytest.mark.parametrize("name", [name for name in OPTIONS if name not in ("LBFGS", "SparseAdam")])
def test_steps_of_floats_follow_those_of_doubles(name):
    start, target = rl.randn(9, 7), rl.randn(9, 7)
    allowed = [c for c in combinations(name) if name != "SGD" or not c["nesterov"]]
    for options in allowed[:4]:
        ends = []
        for dtype in (rl.float32, rl.float64):
            p = start.to(dtype, copy=True).requires_grad_()
            optimizer = getattr(rl.optim, name)([p], **options)
            for _ in range(5):
                optimizer.zero_grad()
                ((p - target.to(dtype)) ** 2).mean().backward()
                optimizer.step()
            ends.append(p.detach().double())
        assert not rl.equal(ends[1], start.double())
        rl.testing.assert_close(*ends, rtol=1e-4, atol=1e-4)


def test_a_copied_lbfgs_steps_the_copied_parameters():
    model = rl.nn.Linear(2, 1)
    model_copy, optimizer = copy.deepcopy((model, rl.optim.LBFGS(model.parameters())))
    before = model.weight.clone()

    def closure():
        optimizer.zero_grad()
        loss = model_copy(rl.ones(3, 2)).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert model.weight.equal(before) and not model_copy.weight.equal(before)
