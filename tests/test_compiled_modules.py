"""torch.compile of modules: names of the state, attributes, copies and files as torch has them."""

import copy
import io
import pickle

import pytest

import rushlight as torch
from rushlight import nn
from rushlight._dynamo import OptimizedModule


class Scaled(nn.Module):
    kind = "scaled"

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x, by=1):
        return self.layer(x) * by

    def twice(self, x):
        return self(x, by=2)


def pair():
    module = Scaled()
    return module, torch.compile(module)


def test_names_of_the_state():
    module, compiled = pair()
    names = ["_orig_mod.seen", "_orig_mod.layer.weight", "_orig_mod.layer.bias"]
    assert list(compiled.state_dict()) == names
    assert [name for name, _ in compiled.named_parameters()] == names[1:]
    assert list(compiled.load_state_dict(compiled.state_dict()).missing_keys) == []
    with pytest.raises(RuntimeError, match="_orig_mod.layer.weight"):
        compiled.load_state_dict(module.state_dict())
    outer = nn.Sequential(compiled)
    assert list(outer.state_dict())[0] == "0._orig_mod.seen"
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Scaled(")


def test_it_calls_the_module_with_hooks_of_both():
    module, compiled = pair()
    x, called = torch.ones(1, 2), []
    for one in (module, compiled):
        one.register_forward_hook(lambda owner, *_: called.append(type(owner).__name__))
    assert compiled(x, by=3).equal(module.layer(x) * 3)
    assert called == ["Scaled", "OptimizedModule"]
    assert compiled.twice(x).equal(module.layer(x) * 2)
    assert compiled.forward(x).equal(module.layer(x))


def test_attributes_are_those_of_the_module():
    module, compiled = pair()
    assert compiled._orig_mod is module and not hasattr(module, "_orig_mod")
    assert compiled.kind == "scaled" and compiled.layer is module.layer
    compiled.note = 1
    compiled.more = nn.ReLU()
    assert module.note == 1 and list(module._modules) == ["layer", "more"]
    del compiled.note
    assert not hasattr(module, "note") and list(compiled._modules) == ["_orig_mod"]
    with pytest.raises(AttributeError, match="'Scaled' object has no attribute 'nothing'"):
        _ = compiled.nothing
    assert not compiled.eval().training and not module.training and not module.layer.training
    module.train()
    assert compiled.training
    compiled.training = False
    assert not module.training
    assert compiled.double() is compiled and module.layer.weight.dtype == torch.float64
    compiled.register_full_backward_hook(lambda *_: None)
    assert compiled._is_full_backward_hook and module._is_full_backward_hook is None


def test_another_module_in_its_place():
    _, compiled = pair()
    other = Scaled()
    compiled._orig_mod = other
    assert compiled._orig_mod is other and list(compiled._modules) == ["_orig_mod"]
    assert compiled.layer is other.layer and not hasattr(other, "_orig_mod")


def test_copies_and_files():
    module, compiled = pair()
    file = io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled)), loaded):
        assert isinstance(other, OptimizedModule) and other._orig_mod is not module
        assert other.layer.weight.equal(module.layer.weight)
        assert other(torch.ones(1, 2)).equal(compiled(torch.ones(1, 2)))
        other.eval()
        assert compiled.training


def test_lengths_and_truth():
    compiled = torch.compile(nn.Sequential(nn.ReLU(), nn.ReLU()))
    assert len(compiled) == 2 and compiled
    assert torch.compile(nn.ReLU())
    with pytest.raises(TypeError, match="ReLU"):
        len(torch.compile(nn.ReLU()))


def test_what_stays_as_it_is():
    module = nn.ReLU()
    assert torch.compile(module, disable=True) is module
    assert torch.compile(len) is len
    compiled = torch.compile()(module)
    assert compiled._orig_mod is module and torch.compile(compiled) is compiled
    assert isinstance(torch._dynamo.optimize()(module), torch._dynamo.eval_frame.OptimizedModule)
    module.compile()
    assert list(nn.Linear(1, 1).state_dict()) == ["weight", "bias"]


def test_gradients_and_a_step():
    module, compiled = pair()
    optimizer = torch.optim.SGD(compiled.parameters(), lr=1.0)
    before = module.layer.bias.detach().clone()
    compiled(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert module.layer.bias.equal(before - 1)
