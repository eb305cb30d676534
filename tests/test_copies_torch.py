"""Copies and pickles of tensors of every kind, with hooks and attributes, beside torch."""

import collections
import copy
import io
import pickle

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def double(grad):
    return grad * 2


TENSORS = {
    "plain": lambda lib: lib.ones(2),
    "leaf": lambda lib: lib.ones(2, requires_grad=True),
    "computed": lambda lib: lib.ones(2, requires_grad=True) * 2,
    "parameter": lambda lib: lib.nn.Parameter(lib.ones(2)),
    "frozen": lambda lib: lib.nn.Parameter(lib.ones(2), requires_grad=False),
    "whole numbers": lambda lib: lib.nn.Parameter(
        lib.ones(2, dtype=lib.int64), requires_grad=False
    ),
    "buffer": lambda lib: lib.nn.Buffer(lib.ones(2)),
    "view": lambda lib: lib.arange(6.0).view(2, 3)[:, 1],
    "transposed": lambda lib: lib.nn.Parameter(lib.arange(6.0).view(2, 3).t()),
    "number": lambda lib: lib.tensor(1.0),
    "empty": lambda lib: lib.ones(0, 3),
}
CHANGES = {
    "nothing": lambda lib, t: None,
    "attribute": lambda lib, t: setattr(t, "note", [1]),
    "hook": lambda lib, t: t.register_hook(double),
    "hook after accumulation": lambda lib, t: t.register_post_accumulate_grad_hook(print),
    "gradient": lambda lib, t: setattr(t, "grad", lib.full_like(t.detach(), 3)),
    "no hooks": lambda lib, t: setattr(t, "_backward_hooks", collections.OrderedDict()),
    "hooks are None": lambda lib, t: setattr(t, "_backward_hooks", None),
    "hooks set": lambda lib, t: setattr(t, "_backward_hooks", collections.OrderedDict({0: double})),
    "frozen with a hook": lambda lib, t: (t.register_hook(double), t.requires_grad_(False)),
}


def saved(lib, tensor, **options):
    file = io.BytesIO()
    lib.save(tensor, file)
    file.seek(0)
    return lib.load(file, **options)


COPIES = {
    "copy": lambda lib, t: copy.copy(t),
    "deepcopy": lambda lib, t: copy.deepcopy(t),
    "deepcopy of two": lambda lib, t: copy.deepcopy([t, t])[1],
    "pickle": lambda lib, t: pickle.loads(pickle.dumps(t)),
    "save": lambda lib, t: saved(lib, t),
    "save, all trusted": lambda lib, t: saved(lib, t, weights_only=False),
    "clone": lambda lib, t: t.clone(),
    "detach": lambda lib, t: t.detach(),
    "Parameter": lambda lib, t: lib.nn.Parameter(t, t.is_floating_point()),
    "Buffer": lambda lib, t: lib.nn.Buffer(t),
}


def described(tensor):
    attributes = sorted((k, str(v)) for k, v in tensor.__dict__.items() if k != "_is_param" or v)
    return (
        type(tensor).__name__, tensor.tolist(), tuple(tensor.shape), tensor.stride(),
        tensor.storage_offset(), tensor.requires_grad, tensor.is_leaf,
        len(tensor._backward_hooks or ()), None if tensor.grad is None else tensor.grad.tolist(),
        attributes,
    )  # fmt: skip


def outcome(lib, make, change, copied):
    try:
        tensor = TENSORS[make](lib)
        CHANGES[change](lib, tensor)
        return described(COPIES[copied](lib, tensor))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("copied", COPIES)
def test_copies(copied):
    different = []
    for make in TENSORS:
        for change in CHANGES:
            expected = outcome(torch, make, change, copied)
            if isinstance(expected, type):
                continue
            actual = outcome(rl, make, change, copied)
            if actual != expected:
                different.append((make, change, expected, actual))
    assert not different


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("make", ["plain", "leaf", "parameter", "frozen", "transposed"])
def test_hooks_assigned_before_training_run(make, change):
    gradients = []
    for lib in (torch, rl):
        tensor = TENSORS[make](lib)
        try:
            CHANGES[change](lib, tensor)
        except RuntimeError:
            gradients.append(None)
            continue
        tensor.requires_grad_()
        (tensor * 1).sum().backward()
        gradients.append(tensor.grad.tolist())
    assert gradients[0] == gradients[1]


def test_deepcopy_of_a_frozen_model():
    for lib in (torch, rl):
        model = lib.nn.Linear(2, 2).requires_grad_(False)
        for clone in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            assert not clone.weight.requires_grad
            assert clone.weight.tolist() == model.weight.tolist()
