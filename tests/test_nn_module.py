"""nn.Module's native base: calls and attributes are those of a class written in Python."""

import abc
import copy
import pickle
import sys
import typing

import pytest

import rushlight
from rushlight import nn


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(rushlight.ones(2))
        self.register_buffer("seen", rushlight.zeros(1))
        self.child = nn.ReLU()

    def forward(self, *args, **kwargs):
        return 2 * args, kwargs

    @property
    def broken(self):
        return self.no_such_thing


@pytest.mark.parametrize("count", [0, 1, 3, 7, 8, 20])
def test_arguments_arrive(count):
    args = tuple(range(count))
    assert Twice()(*args) == (args + args, {})
    assert Twice()(*args, key=1) == (args + args, {"key": 1})


def test_forward_of_the_instance_and_of_the_class():
    module = Twice()
    module.forward = lambda x: x + 1
    assert module(1) == 2
    del module.forward
    assert module(1) == ((1, 1), {})

    class Static(nn.Module):
        forward = staticmethod(lambda x: -x)

    class Fetched(Twice):
        def __getattribute__(self, name):
            if name == "forward":
                return lambda x: x * 10
            return super().__getattribute__(name)

    assert Static()(3) == -3 and Fetched()(3) == 30
    with pytest.raises(NotImplementedError, match="no forward"):
        nn.Module()(1)


def test_a_replaced_call_is_used(monkeypatch):
    module = Twice()
    plain = nn.Module.__call__
    monkeypatch.setattr(nn.Module, "__call__", lambda self, *args: ["wrapped", plain(self, *args)])
    assert module(1) == ["wrapped", ((1, 1), {})]
    monkeypatch.undo()
    assert module(1) == ((1, 1), {}) == module._call_impl(1)


def test_members_are_found():
    module = Twice()
    assert module.weight is module._parameters["weight"] and module.seen is module._buffers["seen"]
    assert module.child is module._modules["child"]
    with pytest.raises(AttributeError, match="'Twice' object has no attribute 'missing'"):
        _ = module.missing
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = module.broken
    module.__dict__["weight"] = "of the instance"
    assert module.weight == "of the instance"


def test_a_getattr_of_ones_own_is_asked():
    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def __getattr__(self, name):
            if name == "weight":
                return "computed"
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.module, name)

    module = Wrapper(Twice())
    assert module.weight == "computed" and module.seen.shape == (1,)
    assert isinstance(module.module, Twice)

    class Later(Twice):
        pass

    module = Later()
    assert module.weight.shape == (2,)
    Later.__getattr__ = lambda self, name: "later"
    assert module.weight == "later"
    del Later.__getattr__
    assert module.weight.shape == (2,)


def test_members_may_be_other_mappings():
    class Spy(dict):
        def __getitem__(self, name):
            return "spied"

    module = Twice()
    module._parameters = Spy(weight=1)
    assert module.weight == "spied"


def test_it_mixes_with_other_classes():
    T = typing.TypeVar("T")

    class Named:
        def __init_subclass__(cls, title=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.title = title

    class Generic(Twice, typing.Generic[T]):
        pass

    class Titled(Twice, Named, title="it"):
        pass

    class Abstract(Twice, abc.ABC):
        @abc.abstractmethod
        def needed(self):
            """Missing here."""

    class Mapping(nn.Module, dict):
        forward = dict.get

    assert Generic[int]()(1) == ((1, 1), {}) and Titled.title == "it"
    with pytest.raises(TypeError, match="abstract"):
        Abstract()
    module = Mapping()
    module["a"] = 5
    module.layer = nn.ReLU()
    assert (module("a") if module else None) == 5 and isinstance(module.layer, nn.ReLU)
    assert isinstance(object.__new__(Twice), Twice)
    with pytest.raises(TypeError):
        type("Bad", (nn.Module,), {}, unknown=1)


def test_before_init():
    class Early(nn.Module):
        def __init__(self):
            pass

        def forward(self, x):
            return x

    with pytest.raises(AttributeError, match=r"Early: called before Module.__init__\(\)"):
        Early()(1)
    with pytest.raises(AttributeError, match="has no attribute 'x'"):
        _ = Early().x


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions take no notes")
def test_errors_name_the_path():
    block = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU(), nn.Linear(5, 2)))
    for hooked in (False, True):
        if hooked:
            block[1].register_forward_hook(lambda *_: None)
        with pytest.raises(RuntimeError) as caught:
            block(rushlight.ones(1, 3))
        text = "1.1: Linear(in_features=5, out_features=2, bias=True)"
        assert caught.value.__notes__ == [text]


def test_copies_and_pickles():
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    copies = [pickle.loads(pickle.dumps(module, protocol)) for protocol in range(6)]
    for copied in [*copies, copy.deepcopy(module), copy.copy(module)]:
        assert repr(copied) == repr(module) and copied[0].weight.equal(module[0].weight)


def test_deep_recursion_is_an_error():
    class Endless(nn.Module):
        def forward(self, x):
            return self(x)

    with pytest.raises(RecursionError):
        Endless()(1)
