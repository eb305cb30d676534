"""Quantization of traced models beside torch's: the same graphs, observers and results."""

import copy
import operator
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.keeps_tensors("torch's observers are made of partial functions in cycles"),
]
LIBRARIES = (torch, rushlight)


def import_of(library, name):
    return __import__(f"{library.__name__}.{name}", fromlist=["x"])


def modules_of(library):
    quantization = import_of(library, "ao.quantization")
    return (
        library.nn,
        library.nn.functional,
        quantization,
        import_of(library, "ao.quantization.quantize_fx"),
    )


def residual(library):
    nn, F = library.nn, library.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
            self.conv2, self.bn2 = nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4)
            self.pool, self.fc, self.fc2 = nn.AdaptiveAvgPool2d(1), nn.Linear(4, 5), nn.Linear(5, 5)

        def forward(self, x):
            x = self.relu(self.bn(self.conv(x)))
            y = self.bn2(self.conv2(x))
            x = F.relu(x + y)
            x = library.cat([x, y], 1)[:, :4]
            x = library.flatten(self.pool(x), 1)
            x = library.sigmoid(self.fc2(F.relu(self.fc(x))))
            return x.view(x.size(0), -1) * 2.0 + 1

    return Net(), (2, 3, 8, 8)


def functions(library):
    nn, F = library.nn, library.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.b = nn.Parameter(library.ones(6, 4)), nn.Parameter(library.zeros(6))
            self.v = nn.Parameter(library.ones(4, 3, 3, 3))
            self.norm = nn.LayerNorm(6)
            self.act = nn.Hardswish()

        def forward(self, x):
            x = F.relu(F.conv2d(x, self.v, None, (1, 1), (1, 1), (1, 1), 1))
            x = F.max_pool2d(x, 2).mean([2, 3])
            x = self.act(F.linear(x, self.w, self.b))
            x = self.norm(x)
            return library.mul(F.elu(x), x) - 1.0

    return Net(), (2, 3, 8, 8)


def branches(library):
    nn = library.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4))
            self.b = nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU())
            self.up = nn.Conv1d(4, 2, 3)
            self.norm = nn.InstanceNorm1d(2)
            self.soft = nn.Softmax(1)

        def forward(self, x):
            x = library.add(self.a(x), self.b(x))
            x = self.norm(self.up(x)).permute(0, 2, 1).reshape(2, -1)
            return self.soft(x), x.tanh()

    return Net(), (2, 3, 8)


def dynamic(library):
    nn, F = library.nn, library.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.l = nn.Linear(4, 4), nn.LSTM(4, 4)

        def forward(self, x):
            y, _ = self.l(self.a(F.relu(x)))
            return y + 1

    return Net(), (3, 2, 4)


def embedding(library):
    nn = library.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.e, self.fc = nn.Embedding(10, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.fc(self.e(x.long()))

    return Net(), (3, 2)


def shared_unsupported(library):
    nn = library.nn
    return nn.Sequential(nn.Sigmoid(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), (3, 4)


def text_of(argument):
    if isinstance(argument, dict):
        return ""  # defaults are not recorded
    if isinstance(argument, (tuple, list)):
        return [text_of(part) for part in argument]
    return str(argument)


def graph_of(model):
    """What the nodes call, with the names of functions that differ made alike."""
    lines = []
    for node in model.graph.nodes:
        target = node.target if isinstance(node.target, str) else node.target.__name__
        lines.append((node.op, target, text_of(node.args)))
    return lines


def pair(make, train=False):
    torch.manual_seed(3)
    source, shape = make(torch)
    for parameter in source.parameters():
        with torch.no_grad():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
    for name, buffer in source.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    other, _ = make(rushlight)
    state = {
        n: rushlight.from_numpy(t.detach().numpy().copy()) for n, t in source.state_dict().items()
    }
    other.load_state_dict(state)
    return (source.train(train), other.train(train)), shape


def inputs(shape, count=3):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype("float32") * (1 + i) for i in range(count)]


def observers_of(model):
    return {
        name: value.detach().double().tolist()
        for name, value in model.state_dict().items()
        if "activation_post_process" in name and name.endswith(("min_val", "max_val", ".scale"))
    }


def compare(make, mapping, train=False, reference=True, custom=None, x=None):
    (source, other), shape = pair(make, train)
    xs = inputs(shape) if x is None else x
    prepared = []
    for library, model in zip(LIBRARIES, (source, other)):
        *_, quantization, fx = modules_of(library)
        prepare = fx.prepare_qat_fx if train else fx.prepare_fx
        example = (library.from_numpy(xs[0]),)
        config = custom(library) if custom else None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = prepare(
                model, mapping(library, quantization), example, prepare_custom_config=config
            )
        for x in xs:
            model(library.from_numpy(x))
        prepared.append(model.eval())
    assert graph_of(prepared[0]) == graph_of(prepared[1])
    seen = [observers_of(model) for model in prepared]
    assert list(seen[0]) == list(seen[1])
    for name in seen[0]:
        np.testing.assert_allclose(seen[1][name], seen[0][name], rtol=2e-5, atol=2e-6, err_msg=name)
    results = []
    for library, model in zip(LIBRARIES, prepared):
        fx = modules_of(library)[3]
        x = library.from_numpy(xs[-1])
        outputs = [fx.convert_to_reference_fx(copy.deepcopy(model))(x)] if reference else []
        converted = fx.convert_fx(model)
        outputs.append(converted(x))
        results.append((outputs, converted))
    for expected, actual in zip(results[0][0], results[1][0]):
        expected = expected if isinstance(expected, tuple) else (expected,)
        actual = actual if isinstance(actual, tuple) else (actual,)
        for a, b in zip(expected, actual, strict=True):
            a = (a.dequantize() if a.is_quantized else a).detach().numpy()
            b = (b.dequantize() if b.is_quantized else b).detach().numpy()
            step = np.ptp(a) / 50  # integer convolutions round by themselves
            np.testing.assert_allclose(b, a, rtol=0, atol=step)
    kinds = [
        {name: type(module).__name__ for name, module in converted.named_modules() if name}
        for _, converted in results
    ]
    assert kinds[0] == kinds[1]
    calls = [
        [(op, target) for op, target, _ in graph_of(converted) if op != "get_attr"]
        for _, converted in results
    ]
    assert calls[0] == calls[1]
    return results


def default(library, quantization):
    return quantization.get_default_qconfig_mapping("fbgemm")


@pytest.mark.parametrize("make", [residual, functions, branches, shared_unsupported])
def test_after_training(make):
    compare(make, default)


@pytest.mark.parametrize("make", [residual, branches])
def test_with_training(make):
    compare(
        make, lambda _, quantization: quantization.get_default_qat_qconfig_mapping("fbgemm"),
        train=True,
    )  # fmt: skip


def test_inputs_as_they_come():
    def mapping(_, quantization):
        return quantization.QConfigMapping().set_global(quantization.default_dynamic_qconfig)

    compare(dynamic, mapping, reference=False)


def test_float16_weights():
    def mapping(library, quantization):
        return quantization.QConfigMapping().set_object_type(
            library.nn.Linear, quantization.float16_dynamic_qconfig
        )

    compare(dynamic, mapping, reference=False)


def test_embeddings():
    def mapping(library, quantization):
        return quantization.QConfigMapping().set_object_type(
            library.nn.Embedding, quantization.float_qparams_weight_only_qconfig
        )

    x = [np.arange(6, dtype="float32").reshape(3, 2)]
    compare(embedding, mapping, x=x)


def test_rules_of_the_mapping():
    def mapping(library, quantization):
        qconfig = quantization.get_default_qconfig("fbgemm")
        return (
            quantization.QConfigMapping()
            .set_global(qconfig)
            .set_object_type(library.cat, None)
            .set_object_type(library.nn.AdaptiveAvgPool2d, None)
            .set_module_name_regex("conv2", quantization.default_per_channel_qconfig)
            .set_module_name("fc2", None)
            .set_module_name_object_type_order("", operator.mul, 0, None)
        )

    compare(residual, mapping)


def test_a_global_qconfig_alone():
    def mapping(_, quantization):
        return quantization.QConfigMapping().set_global(quantization.get_default_qconfig("fbgemm"))

    for make in (residual, functions, shared_unsupported):
        compare(make, mapping)


def test_the_older_form_of_the_mapping():
    def mapping(library, quantization):
        qconfig = quantization.get_default_qconfig("fbgemm")
        return {
            "": qconfig,
            "object_type": [(library.nn.Linear, None)],
            "module_name": [("conv", None)],
        }

    compare(residual, mapping)


def test_inputs_and_results_that_are_quantized():
    def custom(library):
        config = import_of(library, "ao.quantization.fx.custom_config")
        return config.PrepareCustomConfig().set_output_quantized_indexes([0])

    compare(residual, default, custom=custom)


def test_default_mappings_are_torchs():
    def text(mapping):
        entries = mapping.to_dict()
        return {
            "": _without_addresses(entries[""]),
            "object_type": [
                (getattr(k, "__name__", k), _without_addresses(q))
                for k, q in entries["object_type"]
            ],
        }

    for name in ("get_default_qconfig_mapping", "get_default_qat_qconfig_mapping"):
        for backend in ("fbgemm", "x86", "qnnpack", "onednn"):  # each has its ranges
            found = [text(getattr(library.ao.quantization, name)(backend)) for library in LIBRARIES]
            assert sorted(found[0]["object_type"]) == sorted(found[1]["object_type"])
            assert found[0][""] == found[1][""]


def _without_addresses(qconfig):
    return repr(qconfig).replace("rushlight", "torch").replace(", reduce_range=False", "")


@pytest.mark.parametrize("name", ["native", "fbgemm", "x86", "qnnpack"])
def test_backend_configs_are_torchs(name):
    def name_of(pattern):
        if isinstance(pattern, tuple):
            return tuple(map(name_of, pattern))
        return getattr(pattern, "__name__", str(pattern)) if callable(pattern) else pattern

    def dtypes_of(config):
        parts = [
            getattr(config, f"{k}_dtype_with_constraints") for k in ("input", "output", "weight")
        ]
        return [
            *map(lambda p: list(map(str, vars(p).values())), parts),
            str(config.bias_dtype),
            config.is_dynamic,
        ]

    def described(library):
        import_of(library, "ao.quantization.quantize_fx")
        backend = import_of(library, f"ao.quantization.backend_config.{name}")
        config = getattr(backend, f"get_{name}_backend_config")()
        found = {}
        for entry in config.configs:
            key = name_of(entry.pattern)
            found[key] = (
                str(entry.observation_type), [dtypes_of(config) for config in entry.dtype_configs],
                *(getattr(getattr(entry, k), "__name__", None) for k in
                  ("root_module", "qat_module", "reference_quantized_module", "fused_module")),
                {k: str(v) for k, v in entry._num_tensor_args_to_observation_type.items()},
                entry._input_type_to_index,
            )  # fmt: skip
        return found

    theirs, ours = map(described, LIBRARIES)
    differing = {key for key in theirs if theirs[key] != ours.get(key)}
    assert differing <= {"hardtanh_"} and len(theirs) == len(ours), (
        differing,
        set(theirs) ^ set(ours),
    )
