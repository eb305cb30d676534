"""Wrappers of modules whose activations are computed again, or kept on the CPU."""

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
    offload_wrapper,
)
from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy


class Block(nn.Module):
    calls = 0

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x, *, scale=None):
        self.calls += 1
        y = self.inner(x).tanh()
        return y if scale is None else y * scale


def gradients(model, x, **options):
    return rl.autograd.grad(model(x, **options).sum(), [x, *model.parameters()])


def test_chosen_parts_are_wrapped_and_keep_their_names():
    model = nn.Sequential(Block(), nn.Sequential(Block(), nn.Tanh()))
    x = rl.randn(2, 3, requires_grad=True)
    expected, state = gradients(model, x), model.state_dict()
    names = [name for name, _ in model.named_parameters()]
    apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, Block))
    assert [type(part).__name__ for part in model.modules()].count("CheckpointWrapper") == 2
    assert isinstance(model[1][0], CheckpointWrapper) and isinstance(model[1][1], nn.Tanh)
    assert [name for name, _ in model[0].named_parameters()] == ["inner.weight", "inner.bias"]
    assert list(model.state_dict()) == list(state) == names
    model.load_state_dict(state)
    for ours, other in zip(gradients(model, x), expected, strict=True):
        assert rl.equal(ours, other)
    assert model[0].calls == 3  # of the wrapped block: before, and twice inside its wrapper


@pytest.mark.parametrize("way", list(CheckpointImpl))
def test_keyword_arguments_go_through(way):
    block, scale = Block(), rl.rand(3, requires_grad=True)
    x = rl.randn(2, 3, requires_grad=True)
    (expected,) = rl.autograd.grad(block(x, scale=scale).sum(), scale)
    checkpoint_wrapper(block, way)(x, scale=scale).sum().backward()
    assert rl.equal(scale.grad, expected) and block.calls == 3


def test_other_ways_to_wrap():
    x = rl.randn(2, 3, requires_grad=True)
    block = Block()
    doubled = checkpoint_wrapper(block, checkpoint_fn=lambda f, x, factor: f(x) * factor, factor=2)
    assert rl.equal(doubled(x), block(x) * 2)
    kept = offload_wrapper(nn.Sequential(block))
    assert kept[0] is block and rl.equal(gradients(kept, x)[0], gradients(block, x)[0])
    model = nn.Sequential(block, nn.Linear(3, 3))
    apply_activation_checkpointing(
        model, offload_wrapper, auto_wrap_policy=ModuleWrapPolicy({Block})
    )
    assert [type(part).__name__ for part in model] == ["OffloadWrapper", "Linear"]
