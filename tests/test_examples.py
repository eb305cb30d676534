"""The example programs run, in small, and learn something."""

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rushlight

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def example(monkeypatch):
    """Imports an example by name."""
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module


def test_quickstart(tmp_path):
    path = str(Path(rushlight.__file__).parent.parent)
    environment = dict(os.environ, PYTHONPATH=path, MPLBACKEND="Agg")
    result = subprocess.run(
        [sys.executable, EXAMPLES / "quickstart.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert float(re.search(r"test accuracy ([\d.]+)%", result.stdout)[1]) >= 98
    written = {p.name for p in (tmp_path / "runs" / "quickstart").iterdir()}
    assert written == {
        "curves.png",
        "confusion.png",
        "misread.png",
        "graph.svg",
        "model.safetensors",
    }


def test_every_example_is_listed_and_short():
    listing = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"[{path.name}]" in listing
        assert len(path.read_text().splitlines()) < 120, path.name


def test_mobilenet_learns_digits(example):
    losses = example("images").main("mobilenet", steps=20, batch_size=32, side=32)
    assert sum(losses[-4:]) < 0.7 * sum(losses[:4])


@pytest.mark.parametrize(("network", "side"), [("alexnet", 64), ("vgg19", 32), ("resnet50", 32)])
def test_large_image_networks_train(example, network, side):
    images = example("images")
    model = images.NETWORKS[network](classes=10)
    optimizer = rushlight.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    training, _ = images.load_data(side)
    pictures, labels = training[:4]
    assert images.train_step(model, optimizer, pictures, labels) < 10
    unmoved = [name for name, p in model.named_parameters() if not p.grad.any()]
    assert not unmoved
    with rushlight.no_grad():
        assert model(pictures).shape == (4, 10)


def test_translate(example):
    losses, right = example("translate").main(steps=30, batch_size=16, width=32)
    assert losses[-1] < 0.7 * losses[0]
    assert 0 <= right <= 1


def test_recommend_finds_more_than_chance(example):
    assert example("recommend").main(epochs=1, files=120) > 0.13  # chance is 0.1


def test_gan(example):
    assert example("gan").main(epochs=6) < 2.6  # an untrained one is more than 3 away


def test_vae(example):
    assert example("vae").main(epochs=5) < 28  # 44 before training


def test_gpt(example):
    assert example("gpt").main(steps=60, batch_size=8) < 3.2  # 4.6 before training


def test_cart_pole(example):
    assert example("cart_pole").main(episodes=100) > 40  # 20 before training


def test_neural_ode_learns(example):
    assert example("neural_ode").main(steps=20) < 0.1  # 0.4 before training


def test_neural_ode_gradients_are_those_through_the_solver(example):
    neural_ode = example("neural_ode")
    law = neural_ode.Law(8).double()
    start = rushlight.tensor([[1.5, -0.5]], dtype=rushlight.float64, requires_grad=True)
    inputs = [start, *law.parameters()]
    adjoint = neural_ode.solve(law, start, [0.0, 0.5, 1.0], steps=20)[-1]
    (through,) = neural_ode.runge_kutta(lambda t, y: (law(t, *y),), (start,), 0.0, 1.0, 40)
    assert rushlight.allclose(adjoint, through, rtol=1e-12)
    ours = rushlight.autograd.grad(adjoint.square().sum(), inputs)
    theirs = rushlight.autograd.grad(through.square().sum(), inputs)
    for a, b in zip(ours, theirs, strict=True):
        rushlight.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


def test_maml_adapts(example):
    maml = example("maml")
    assert maml.main(iterations=100, tasks=4) < 6
    model = rushlight.nn.Sequential(
        rushlight.nn.Linear(1, 3), rushlight.nn.Tanh(), rushlight.nn.Linear(3, 1)
    ).double()
    (x, y), _ = maml.sample_task(5)
    data = x.double(), y.double()
    weights = dict(model.named_parameters())

    def loss_after_a_step(*values):
        start = dict(zip(weights, values))
        return maml.loss_of(model, maml.adapt(model, start, data, 1, 0.01), data)

    assert rushlight.autograd.gradcheck(loss_after_a_step, tuple(weights.values()))


def test_hogwild(tmp_path):
    path = str(Path(rushlight.__file__).parent.parent)
    result = subprocess.run(
        [sys.executable, EXAMPLES / "hogwild.py", "--epochs", "4"],
        cwd=tmp_path, env=dict(os.environ, PYTHONPATH=path), capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "360 + 360 steps of 2 processes" in result.stdout
    assert float(re.search(r"test accuracy ([\d.]+)%", result.stdout)[1]) >= 90
