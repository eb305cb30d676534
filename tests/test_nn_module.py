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


def fused_calls(monkeypatch):
    """The activations that were run together with a linear layer, as they come."""
    from rushlight._table import nn_functional as table

    calls, original = [], table._linear_activation

    def counted(*args):
        calls.append(args[-1])
        return original(*args)

    monkeypatch.setattr(table, "_linear_activation", counted)
    return calls


ACTIVATIONS = [nn.ReLU(), nn.ReLU(inplace=True), nn.GELU(), nn.GELU("tanh")]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=repr)
def test_pairs_are_one_operation(activation, bias, monkeypatch):
    rushlight.manual_seed(0)
    calls = fused_calls(monkeypatch)
    linear = nn.Linear(5, 7, bias=bias)
    model = nn.Sequential(nn.Identity(), linear, activation, nn.Linear(7, 2))
    x = rushlight.randn(3, 4, 5, requires_grad=True)
    grad = rushlight.randn(3, 4, 2)
    expected = model[3](activation(linear(x)))
    wanted = [x, *model.parameters()]
    gradients = rushlight.autograd.grad(expected, wanted, grad)
    found = model(x)
    assert len(calls) == 1 and found.equal(expected)
    assert type(found.grad_fn.next_functions) is tuple
    for ours, theirs in zip(rushlight.autograd.grad(found, wanted, grad), gradients):
        assert ours.equal(theirs)
    with rushlight.no_grad():
        assert model(x).equal(expected) and len(calls) == 2
    kind = "relu" if isinstance(activation, nn.ReLU) else "gelu"
    assert calls[0].startswith(kind)
    hidden = model[1:3](x).grad_fn
    assert hidden.name() == f"{kind.capitalize()}Backward0"
    assert hidden.next_functions[0][0].name() == "LinearBackward0"
    rushlight.autograd.gradcheck(model[:3].double(), x[0].detach().double().requires_grad_())
    rushlight.autograd.gradgradcheck(model[:3], x[0].detach().double().requires_grad_())


class Sub(nn.Linear):
    pass


class Weights(rushlight.Tensor):
    pass


def patched(name, replacement):
    def change(model, patch):
        patch.setattr(name, replacement)

    return change


def of_a_subclass(model, patch):
    model[0].__class__ = Sub


def with_a_subclass_of_tensor(model, patch):
    model[0]._parameters["weight"] = model[0].weight.detach().as_subclass(Weights)


def with_a_parametrization(model, patch):
    nn.utils.parametrizations.weight_norm(model[0])


def with_forward_of_its_own(model, patch):
    model[1].forward = lambda x: x.relu()


def global_hook(model, patch):
    patch.setitem(nn.modules._hooks._global_forward_hooks, 0, lambda *_: None)


@pytest.mark.parametrize(
    "change",
    [
        lambda model, patch: model[0].register_forward_hook(lambda *_: None),
        lambda model, patch: model[1].register_forward_pre_hook(lambda *_: None),
        lambda model, patch: model[1].register_full_backward_hook(lambda *_: None),
        lambda model, patch: model.insert(1, nn.Identity()),
        lambda model, patch: model.insert(1, nn.Tanh()),
        patched("rushlight.nn.Linear.forward", lambda self, x: self.weight[0] * x),
        patched("rushlight.nn.ReLU.forward", lambda self, x: x),
        patched("rushlight.nn.functional.linear", rushlight.nn.functional.bilinear),
        of_a_subclass,
        with_a_subclass_of_tensor,
        with_a_parametrization,
        with_forward_of_its_own,
        global_hook,
    ],
)
def test_pairs_are_two_where_somebody_could_tell(change, monkeypatch):
    calls = fused_calls(monkeypatch)
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), rushlight.ones(2, 3)
    model(x)
    assert calls == ["relu"]
    with monkeypatch.context() as patch:
        change(model, patch)
        try:
            expected = x
            for module in model:
                expected = module(expected)
        except (TypeError, RuntimeError) as error:
            with pytest.raises(type(error)):
                model(x)
        else:
            assert model(x).equal(expected)
    assert calls == ["relu"]


def test_modes_see_both_of_a_pair(monkeypatch):
    from rushlight.overrides import TorchFunctionMode

    calls, seen = fused_calls(monkeypatch), []
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), rushlight.ones(2, 3)

    class Log(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Log():
        model(x)
    assert nn.functional.linear in seen and nn.functional.relu in seen
    with rushlight.autocast("cpu", dtype=rushlight.bfloat16):
        assert model(x).dtype == rushlight.bfloat16
    with rushlight.autograd.set_detect_anomaly(True):
        model(x)
    traced = rushlight.fx.symbolic_trace(model)
    assert [node.op for node in traced.graph.nodes].count("call_module") == 2
    rushlight.func.vmap(model)(x)
    model(x.as_subclass(Weights))
    assert not calls
    model(x)  # a trace leaves modules as they were
    assert calls == ["relu"]
    two = [rushlight.func.jvp(f, (x,), (x,)) for f in (model, lambda x: model[1](model[0](x)))]
    assert all(a.equal(b) for a, b in zip(*two))


def test_a_profile_shows_the_pair_that_runs_without_it(monkeypatch):
    from rushlight.overrides import BaseTorchFunctionMode

    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), rushlight.ones(2, 3)
    with rushlight.profiler.profile() as profile:
        model(x)
    found = {e.key: e.count for e in profile.key_averages()}
    assert found["aten::_linear_activation"] == 1
    calls = fused_calls(monkeypatch)
    with rushlight.profiler.profile() as profile, BaseTorchFunctionMode():
        model(x)
    found = {e.key for e in profile.key_averages()}
    assert not calls and {"aten::linear", "aten::relu"} <= found
    assert "aten::_linear_activation" not in found


def test_pairs_read_weights_as_attributes(monkeypatch):
    """And not where a module happens to keep its parameters."""
    calls = fused_calls(monkeypatch)
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), rushlight.ones(2, 3)
    weight, bias = model[0].weight, model[0].bias
    del model[0].weight, model[0].bias
    with pytest.raises(AttributeError):
        model(x)
    model[0].__dict__.update(weight=weight.detach(), bias=bias.detach())
    assert model(x).equal(model[1](model[0](x))) and calls == ["relu"]


def test_a_sequence_runs_what_it_is_given():
    doubled = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with pytest.raises(TypeError, match="not callable"):
        doubled._modules["1"] = None
        doubled(rushlight.ones(2))
    with pytest.raises(TypeError):
        rushlight._call_in_turn({}, 3, 4)
    with pytest.raises(RuntimeError, match="expected 3 arguments"):
        rushlight._call_in_turn({})
    assert nn.Sequential()(7) == 7
    assert rushlight._call_in_turn({}, (abs, str, len), -10) == 2
    grows = nn.Sequential(nn.Identity())
    grows[0].register_forward_hook(lambda *_: grows.append(nn.Identity()))
    with pytest.raises(RuntimeError, match="changed size"):
        grows(1)


@pytest.mark.parametrize("activation", ["relu", "gelu", nn.GELU(), rushlight.relu, rushlight.tanh])
def test_feed_forward_in_one_pass(activation, monkeypatch):
    rushlight.manual_seed(0)
    calls = fused_calls(monkeypatch)
    layer = nn.TransformerEncoderLayer(8, 2, 16, activation=activation).eval()
    x = rushlight.randn(5, 3, 8)
    found = layer._feed_forward(x)
    assert len(calls) == (activation is not rushlight.tanh)
    assert found.equal(layer.linear2(layer.activation(layer.linear1(x))))


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


@pytest.fixture
def conversions():
    yield rushlight.__future__
    rushlight.__future__.set_overwrite_module_params_on_conversion(False)
    rushlight.__future__.set_swap_module_params_on_conversion(False)


@pytest.mark.parametrize("dtype", [rushlight.float64, rushlight.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("how", ["in place", "overwrite", "swap"])
def test_how_conversions_treat_parameters(conversions, how, dtype):
    conversions.set_overwrite_module_params_on_conversion(how == "overwrite")
    conversions.set_swap_module_params_on_conversion(how == "swap")
    layer = nn.Linear(2, 2)
    layer(rushlight.ones(1, 2)).sum().backward()
    weight, data = layer.weight, layer.weight.data
    expected = weight.detach().to(dtype).float()
    layer.to(dtype)
    assert (layer.weight is weight) == (how != "overwrite")
    assert layer.weight.dtype == layer.weight.grad.dtype == dtype
    assert isinstance(layer.weight, nn.Parameter) and layer.weight.requires_grad
    assert layer.weight.detach().float().equal(expected)
    assert layer.weight.grad.float().equal(rushlight.ones(2, 2))
    assert data.dtype == rushlight.float32  # in every way: it is a tensor of its own
    layer.to(rushlight.float32)
    assert layer.weight.equal(expected) and layer.weight.grad.equal(rushlight.ones(2, 2))


def test_a_module_on_the_meta_device_can_be_swapped_in(conversions):
    conversions.set_swap_module_params_on_conversion(True)
    layer = nn.Linear(2, 2)
    weight = layer.weight
    layer.to("meta")
    assert layer.weight is weight and weight.is_meta and isinstance(weight, nn.Parameter)


class Labelled(rushlight.Tensor):
    """Whose `module_load` is its own."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is rushlight.Tensor.module_load:
            return args[1].detach() + 1
        return super().__torch_function__(func, types, args, kwargs or {})


def test_what_is_loaded_can_be_swapped_in(conversions):
    conversions.set_swap_module_params_on_conversion(True)
    for assign in (False, True):
        layer = nn.Linear(2, 2, bias=False)
        weight, data = layer.weight, layer.weight.data
        source = nn.Parameter(rushlight.ones(2, 2), requires_grad=False)
        layer.load_state_dict({"weight": source}, assign=assign)
        assert layer.weight is weight and weight.requires_grad and weight.equal(source)
        assert (weight.data_ptr() == source.data_ptr()) == assign
        assert data.equal(source) != assign
    layer.load_state_dict({"weight": rushlight.ones(2, 2).as_subclass(Labelled)})
    assert layer.weight.detach().as_subclass(rushlight.Tensor).equal(2 * rushlight.ones(2, 2))


def test_loading_leaves_no_cycle():
    import gc

    layer = nn.Linear(2, 2)
    state = layer.state_dict()
    gc.collect()
    layer.load_state_dict(state)
    assert gc.collect() == 0


def test_what_does_not_fit_is_told_for_each_key():
    layer = nn.Linear(2, 2)
    with pytest.raises(RuntimeError) as caught:
        layer.load_state_dict({"weight": rushlight.ones(3, 2), "bias": [1, 2], "other": 3})
    message = str(caught.value)
    assert message.startswith("Error(s) in loading state_dict for Linear:\n")
    for part in ("size mismatch for weight", "bias", 'Unexpected key(s) in state_dict: "other"'):
        assert part in message


def test_a_buffer_does_not_replace_a_plain_attribute():
    layer = nn.Module()
    layer.size = 5
    with pytest.raises(KeyError, match="already exists"):
        layer.size = nn.Buffer(rushlight.ones(1))


def test_register_buffer_may_be_overridden_without_persistent():
    class Noting(nn.Module):
        def register_buffer(self, name, tensor):
            super().register_buffer(name, tensor)

    layer = Noting()
    layer.kept = nn.Buffer(rushlight.ones(1))
    assert "kept" in layer.state_dict()
    with pytest.raises(RuntimeError, match="persistent"):
        layer.passing = nn.Buffer(rushlight.ones(1), persistent=False)


def test_spectral_norm_reads_files_without_its_second_vector():
    layer = nn.utils.spectral_norm(nn.Linear(3, 5))
    for _ in range(20):
        layer(rushlight.ones(2, 3))
    layer.eval()
    expected = layer(rushlight.ones(2, 3))
    state = layer.state_dict()
    vector = state.pop("weight_v")
    state["weight"] = layer.weight.detach().clone()
    del state._metadata[""]["spectral_norm"]
    again = nn.utils.spectral_norm(nn.Linear(3, 5)).eval()
    again.load_state_dict(state)
    assert rushlight.allclose(again.weight_v, vector, atol=1e-3)
    assert rushlight.allclose(again(rushlight.ones(2, 3)), expected, atol=1e-5)
