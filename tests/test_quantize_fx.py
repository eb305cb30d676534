"""Quantization of traced models, as PyTorch's tutorials have it, and what is refused by name."""

import copy
import importlib

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.ao import quantization
from rushlight.ao.quantization import quantize_fx
from rushlight.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from rushlight.ao.quantization.fx.custom_config import ConvertCustomConfig, PrepareCustomConfig
from rushlight.nn import functional as F

pytestmark = pytest.mark.filterwarnings("ignore:reduce_range")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.pool, self.fc = nn.AdaptiveAvgPool2d(2), nn.Linear(16, 3)
        self.sum = nn.quantized.FloatFunctional()

    def forward(self, x):
        x = F.relu(self.bn(self.conv(x)))
        x = self.sum.add(x, x)
        return self.fc(torch.flatten(self.pool(x), 1))


def mapping(backend="x86"):
    return quantization.get_default_qconfig_mapping(backend)


def test_after_training():
    model, x = Net().eval(), torch.randn(8, 1, 9, 9)
    expected = model(x)
    prepared = quantize_fx.prepare_fx(copy.deepcopy(model), mapping(), (x,))
    assert "activation_post_process_0" in dict(prepared.named_modules())
    torch.testing.assert_close(prepared(x), expected, rtol=1e-5, atol=1e-5)
    again = copy.deepcopy(prepared)
    reference = quantize_fx.convert_to_reference_fx(again)
    converted = quantize_fx.convert_fx(prepared)
    for result in (reference(x), converted(x)):
        assert (result - expected).abs().max() < 0.1 * expected.abs().max()
    kinds = [type(layer).__name__ for layer in converted.children()]
    assert kinds[0] == "ConvReLU2d" and "Linear" in kinds and not hasattr(converted, "bn")
    assert converted.fc.weight().dtype is torch.qint8
    other = quantize_fx.prepare_fx(Net().eval(), mapping(), (x,))
    other(torch.ones_like(x))
    other = quantize_fx.convert_fx(other)
    other.load_state_dict(converted.state_dict())
    assert torch.equal(other(x), converted(x))


def test_with_training():
    model, x = Net().train(), torch.randn(8, 1, 9, 9)
    prepared = quantize_fx.prepare_qat_fx(
        model, quantization.get_default_qat_qconfig_mapping("x86"), (x,)
    )
    assert type(prepared.conv).__name__ == "ConvBnReLU2d"
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.01)
    for _ in range(3):
        loss = prepared(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    prepared.eval()
    expected = prepared(x)
    converted = quantize_fx.convert_fx(prepared)
    assert type(converted.conv).__name__ == "ConvReLU2d"
    assert (converted(x) - expected).abs().max() < 0.1


def test_fusion_alone():
    fused = quantize_fx.fuse_fx(Net().eval())
    assert type(fused.conv).__name__ == "ConvReLU2d"
    x = torch.randn(2, 1, 9, 9)
    assert fused(x).shape == (2, 3)


def test_inputs_as_they_come_and_parts_that_stay():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.fc, self.last = nn.LSTM(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, x):
            x, _ = self.rnn(self.fc(x))
            return self.last(F.relu(x))

    qconfigs = quantization.QConfigMapping().set_global(quantization.default_dynamic_qconfig)
    qconfigs.set_module_name("last", None)
    model, x = Model().eval(), torch.randn(3, 2, 4)
    expected = model(x)
    converted = quantize_fx.convert_fx(quantize_fx.prepare_fx(model, qconfigs, (x,)))
    kinds = {name: type(layer) for name, layer in converted.named_children()}
    assert kinds["last"] is nn.Linear and "dynamic" in kinds["fc"].__module__
    assert "dynamic" in kinds["rnn"].__module__
    assert (converted(x) - expected).abs().max() < 0.1


def test_modules_that_stand_for_others():
    class Observed(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x)

        @classmethod
        def from_float(cls, module):
            return cls(module.layer)

    class Plain(Observed):
        pass

    class Quantized(Observed):
        def forward(self, x):
            return torch.quantize_per_tensor(self.layer(x.dequantize()), 0.1, 64, torch.quint8)

        @classmethod
        def from_observed(cls, module):
            return cls(module.layer)

    model = nn.Sequential(Plain(nn.Linear(4, 4)), nn.Linear(4, 2)).eval()
    x = torch.randn(5, 4)
    expected = model(x)
    prepared = quantize_fx.prepare_fx(
        model, mapping(), (x,), PrepareCustomConfig().set_float_to_observed_mapping(Plain, Observed)
    )
    assert type(prepared.get_submodule("0")) is Observed
    prepared(x)
    converted = quantize_fx.convert_fx(
        prepared, ConvertCustomConfig().set_observed_to_quantized_mapping(Observed, Quantized)
    )
    assert type(converted.get_submodule("0")) is Quantized
    assert (converted(x) - expected).abs().max() < 0.3


def test_parts_that_are_not_traced_and_attributes_that_are_kept():
    class Loop(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    model = nn.Sequential(nn.Linear(4, 4), Loop()).eval()
    model.name = "mine"
    custom = PrepareCustomConfig().set_non_traceable_module_names(["1"])
    custom.set_preserved_attributes(["name"])
    prepared = quantize_fx.prepare_fx(model, mapping(), (torch.ones(1, 4),), custom)
    assert prepared.name == "mine"
    prepared(torch.ones(1, 4))
    convert = ConvertCustomConfig().set_preserved_attributes(["name"])
    assert quantize_fx.convert_fx(prepared, convert).name == "mine"


def test_configs_have_an_older_form():
    config = get_native_backend_config()
    again = BackendConfig.from_dict(config.to_dict())
    assert [c.pattern for c in again.configs] == [c.pattern for c in config.configs]
    assert [c.dtype_configs for c in again.configs] == [c.dtype_configs for c in config.configs]
    rules = mapping().set_module_name("a", None).set_module_name_regex("b.*", None)
    rules.set_module_name_object_type_order("c", torch.add, 1, None)
    assert quantization.QConfigMapping.from_dict(rules.to_dict()).to_dict() == rules.to_dict()
    custom = PrepareCustomConfig().set_input_quantized_indexes([0])
    custom.set_float_to_observed_mapping(nn.Linear, nn.Conv1d)
    assert PrepareCustomConfig.from_dict(custom.to_dict()).to_dict() == custom.to_dict()


def test_what_is_refused():
    model, x = nn.Sequential(nn.LSTM(4, 4)).eval(), torch.ones(2, 3, 4)
    with pytest.raises(NotImplementedError, match="quantized by themselves"):
        custom = PrepareCustomConfig().set_standalone_module_name("0", None, (x,), None, None)
        quantize_fx.prepare_fx(model, mapping(), (x,), custom)
    with pytest.raises(NotImplementedError, match="LSTM with observers inside"):
        custom = PrepareCustomConfig().set_float_to_observed_mapping(nn.LSTM, nn.quantizable.LSTM)
        quantize_fx.prepare_fx(model, mapping(), (x,), custom)
    with pytest.raises(ValueError, match="what prepare_fx returned"):
        quantize_fx.convert_fx(model)
    for name in ("tensorrt", "executorch"):
        backend = importlib.import_module(f"rushlight.ao.quantization.backend_config.{name}")
        with pytest.raises(NotImplementedError, match="own kernels"):
            getattr(backend, f"get_{name}_backend_config")()
    with pytest.raises(NotImplementedError, match="graphs of scripts"):
        quantization.quantize_dynamic_jit(model, {})
    with pytest.raises(NotImplementedError, match="zero in blocks"):
        torch.ao.nn.sparse.quantized.Linear(4, 4, 1, 4)
    prepare = importlib.import_module("rushlight.ao.quantization.fx.prepare")
    with pytest.raises(NotImplementedError, match="a step of torch's own pass"):
        prepare.insert_observers_for_model(model)


PATHS = """
quantization quantization.observer quantization.fuse_modules quantization.quantize_fx
quantization.fx.prepare nn.quantized.modules.conv nn.quantized.dynamic.modules.rnn
nn.intrinsic.modules.fused nn.intrinsic.qat.modules.conv_fused
nn.intrinsic.quantized.dynamic.modules.linear_relu nn.qat.dynamic.modules.linear
nn.quantizable.modules.rnn ao.nn.quantized.modules.utils ao.nn.quantized.reference.modules.rnn
ao.nn.sparse.quantized.dynamic.linear ao.pruning.scheduler.cubic_scheduler
ao.pruning.sparsifier.utils ao.quantization.backend_config.x86
""".split()


@pytest.mark.parametrize("path", PATHS)
def test_modules_at_the_paths_that_torch_has(path):
    module = importlib.import_module(f"rushlight.{path}")
    assert all(hasattr(module, name) for name in getattr(module, "__all__", ()))
    home, _, name = path.rpartition(".")
    if name != "fuse_modules":
        assert getattr(importlib.import_module(f"rushlight.{home}".rstrip(".")), name) is module


def test_example_inputs_have_the_defaults_of_those_that_were_not_given():
    class Inner(nn.Module):
        def forward(self, x, scale=2, *, shift=0):
            return x * scale + shift

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Inner(), Inner()

        def forward(self, x):
            return self.second(self.first(x), shift=x)

    x = torch.ones(2, 3)
    found = quantization.utils.get_fqn_to_example_inputs(Outer(), (x,))
    assert [len(inputs) for inputs in found.values()] == [1, 3, 3]
    assert found["first"][1:] == (2, 0) and found["second"][2] is x
