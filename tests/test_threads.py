"""Forks while threads compute, and models in several threads at once."""

import sys
import threading
from pathlib import Path

import pytest

import rushlight
from rushlight import nn

sys.path.insert(0, str(Path(__file__).parent))
from fork_under_load import run


@pytest.mark.keeps_tensors("threads that have just ended")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_forks_under_load():
    """`python tests/fork_under_load.py 1000` does more of them."""
    before = rushlight.get_num_threads()
    rushlight.set_num_threads(2)
    try:
        right, wrong, hung, problems = run(15)
    finally:
        rushlight.set_num_threads(before)
    assert (right, wrong, hung, problems) == (15, 0, 0, [])


def train(seed, steps=15):
    """Losses and weights of a small network; no generator is used while it trains."""
    generator = rushlight.Generator().manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(6 * 8 * 8, 16), nn.LayerNorm(16), nn.Linear(16, 5),
    )  # fmt: skip
    with rushlight.no_grad():
        for parameter in model.parameters():
            parameter.copy_(rushlight.randn(parameter.shape, generator=generator) * 0.1)
    images = rushlight.randn(8, 3, 16, 16, generator=generator)
    labels = rushlight.randint(0, 5, (8,), generator=generator)
    optimizer = rushlight.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.keeps_tensors("threads that have just ended")
@pytest.mark.parametrize("threads_per_op", [1, 2])
def test_models_in_several_threads(threads_per_op):
    before = rushlight.get_num_threads()
    rushlight.set_num_threads(threads_per_op)
    try:
        expected = [train(seed) for seed in range(4)]
        found, errors = {}, []

        def work(seed):
            try:
                found[seed] = [train(seed) for _ in range(2)]
            except BaseException as error:
                errors.append(error)
                raise

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        rushlight.set_num_threads(before)
    assert not errors
    for seed, (losses, weights) in enumerate(expected):
        for losses_here, weights_here in found[seed]:
            assert losses_here == pytest.approx(losses, rel=1e-4)
            for ours, theirs in zip(weights_here, weights, strict=True):
                assert rushlight.allclose(ours, theirs, rtol=1e-3, atol=1e-4)
