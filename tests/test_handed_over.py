"""What who takes a function over is given: the function, and the arguments as torch gives them.

Functions that torch writes in Python give all arguments, what has a default by its name; those of
its core give what the caller gave.
"""

import inspect
import types

import pytest

import rushlight as torch
from rushlight import overrides

F = torch.nn.functional
IN_CORE = """adaptive_avg_pool1d channel_shuffle conv_tbc cosine_similarity elu_ hardtanh_
    leaky_relu_ native_channel_shuffle pairwise_distance pixel_shuffle pixel_unshuffle
    rrelu_""".split()
NOT_TAKEN_OVER = """assert_int_or_pair boolean_dispatch handle_torch_function has_torch_function
    has_torch_function_unary has_torch_function_variadic scaled_mm scaled_grouped_mm sigmoid tanh
    upsample upsample_nearest upsample_bilinear set_module""".split()


class Taking:
    seen = None

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen = func, args, kwargs or {}
        return "taken"


def _in_python():
    """The functions of nn.functional that torch writes in Python."""
    for name, function in sorted(vars(F).items()):
        if name.startswith("_") or name in IN_CORE or name in NOT_TAKEN_OVER:
            continue
        if isinstance(function, types.FunctionType) or name in overrides._IN_PYTHON:
            if getattr(function, "__module__", "").endswith("nn.functional"):
                yield name
    yield from ("norm", "split", "unique", "unique_consecutive", "tensordot", "stft", "lu")


@pytest.mark.parametrize("name", list(_in_python()))
def test_all_arguments_are_given_by_name(name):
    function = getattr(F, name, None) or getattr(torch, name)
    parameters = inspect.signature(function).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind < p.VAR_POSITIONAL]
    optional = {p.name: p.default for p in parameters if p.default is not p.empty}
    if not required:
        pytest.skip("takes any number of tensors")
    given = [Taking() for _ in required]
    assert function(*given) == "taken"
    func, args, kwargs = Taking.seen
    assert func is function
    assert list(args) == given
    assert kwargs == optional
    first = next((p.name for p in parameters if p.name in optional), None)
    if first and inspect.signature(function).parameters[first].kind is not inspect._KEYWORD_ONLY:
        value = Taking()
        assert function(*given, value) == "taken"
        assert Taking.seen[1:] == (tuple(given), {**optional, first: value})
    with pytest.raises(TypeError):
        function(*given, no_such_name=1)


def test_those_of_the_core_give_what_was_given():
    x = Taking()
    for function, args, kwargs in (
        (F.gelu, (x,), {"approximate": "tanh"}),
        (F.linear, (x, x), {}),
        (F.conv2d, (x, x, None, 2), {"groups": 2}),
        (F.cosine_similarity, (x, x), {"dim": 0}),
        (torch.fft.fft, (x,), {"n": 3}),
    ):
        assert function(*args, **kwargs) == "taken"
        assert Taking.seen == (function, args, kwargs)


@pytest.mark.parametrize(
    "name",
    """avg_pool1d bilinear celu_ conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d hardshrink pdist prelu relu_ selu_ threshold_""".split(),
)
def test_one_function_with_two_names(name):
    assert getattr(F, name) is getattr(torch, name)


@pytest.mark.parametrize("call", ["F.softmax(x, 1)", "F.log_softmax(x, dim=1)", "F.relu(x, True)"])
def test_a_table_of_functions_finds_them(call):
    x = Taking()
    assert eval(call, {"F": F, "x": x}) == "taken"
    func, args, kwargs = Taking.seen
    name = call[2:].partition("(")[0]
    assert func is getattr(F, name) and args == (x,) and ("dim" in kwargs or "inplace" in kwargs)


def test_initialisation_can_be_left_out():
    """The idiom that makes a large model without drawing its weights."""

    class Empty(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if getattr(func, "__module__", None) in ("torch.nn.init", "rushlight.nn.init"):
                skipped.append(func.__name__)
                return kwargs["tensor"]
            return func(*args, **kwargs)

    skipped = []
    state = torch.get_rng_state()
    with Empty():
        weight = torch.zeros(3, 4)
        assert torch.nn.init.kaiming_uniform_(weight, a=1) is weight
        assert torch.nn.init.normal_(weight, 1.0) is weight
        assert torch.nn.init.uniform_(tensor=weight) is weight
        assert torch.nn.init.constant_(weight, 2.0) is weight
    assert skipped == ["kaiming_uniform_", "normal_", "uniform_", "constant_"]
    assert not weight.any() and torch.get_rng_state().equal(state)
    x = Taking()
    assert torch.nn.init.normal_(x, std=2.0) == "taken"
    assert Taking.seen[1:] == ((), {"tensor": x, "mean": 0.0, "std": 2.0, "generator": None})
