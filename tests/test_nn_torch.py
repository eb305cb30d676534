"""nn beside torch.nn: signatures, printed forms, state, initial values, results and gradients."""

import copy
import inspect
import pickle
import re

import pytest

torch = pytest.importorskip("torch")

import modules  # noqa: E402

import rushlight  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

NAMES = sorted(name for name in dir(torch.nn) if isinstance(getattr(torch.nn, name), type))
CASES = [pytest.param(*case, id=case[0]) for case in modules.CASES]


def test_every_module_has_a_case():
    covered = set().union(*(modules.names(text) for text, _ in modules.CASES))
    assert not set(NAMES) - covered - modules.NOT_CASES


def plain(value):
    """A printed form in which the library's name does not show."""
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return re.sub(r"\b(rushlight|torch)\b", "library", text.replace("built-in function", "function"))


def parameters_of(function):
    """(name, kind, default) of each parameter, but for annotations."""
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind.name, plain(p.default)) for p in parameters]


def public_methods(cls):
    """The functions that a class itself or its bases of the library define."""
    for name, member in inspect.getmembers(cls, callable):
        if name in ("__init__", "forward") or not name.startswith("_"):
            if inspect.isfunction(member) or inspect.ismethod(member):
                yield name, member


def difference(ours, theirs):
    """Both signatures, if they differ; a function written in C equals its Python like."""
    mine, other = parameters_of(ours), parameters_of(theirs)
    return None if mine == other else (inspect.signature(ours), inspect.signature(theirs))


# What stays different, and why.
OTHER_METHODS = {
    "DataParallel": {"gather", "parallel_apply", "replicate", "scatter"},  # for several devices
    "RNNBase": {"forward"},  # abstract there
}
MODULES = [name for name in NAMES if issubclass(getattr(torch.nn, name), torch.nn.Module)]


@pytest.mark.parametrize("name", MODULES)
def test_signatures(name):
    ours, theirs = getattr(rushlight.nn, name), getattr(torch.nn, name)
    expected = dict(public_methods(theirs))
    for method in OTHER_METHODS.get(name, ()):
        del expected[method]
    assert not [method for method in expected if not hasattr(ours, method)]
    differences = {m: difference(getattr(ours, m), f) for m, f in expected.items()}
    assert not {m: d for m, d in differences.items() if d}


# Dispatched by return_indices, these take anything and name nothing.
DISPATCHED = re.compile(r"(adaptive|fractional)?_?max_pool\dd(_with_indices)?")
FUNCTIONS = [name for name, member in vars(torch.nn.functional).items()
             if inspect.isfunction(member) and member.__module__ == "torch.nn.functional"
             and not name.startswith("_") and not DISPATCHED.fullmatch(name)]
# Products in the 8-bit formats of GPUs, and a check that is torch's own.
for _name in ("scaled_mm", "scaled_grouped_mm", "grouped_mm", "assert_int_or_pair"):
    FUNCTIONS.remove(_name)
FUNCTIONS.remove("sigmoid")  # takes `out` too


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_signatures(name):
    assert difference(getattr(rushlight.nn.functional, name),
                      getattr(torch.nn.functional, name)) is None


def flat(value):
    """The tensors in nested results, in order."""
    if isinstance(value, (rushlight.Tensor, torch.Tensor)):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in flat(part)]
    return []


# For torch's fused inference, which needs them, and nested tensors.
INTERNAL = {"activation_relu_or_gelu", "use_nested_tensor"}


def attributes(module):
    """What a user reads off a module that is no tensor and no module."""
    return {key: plain(value) for key, value in vars(module).items()
            if not key.startswith("_") and key not in INTERNAL}


def check_equal_bits(ours, theirs):
    assert list(ours) == list(theirs)
    for key in ours:
        assert plain(ours[key].dtype) == plain(theirs[key].dtype)
        assert ours[key].numpy().tobytes() == theirs[key].numpy().tobytes(), key


def run(library, module, values):
    """Outputs, and the gradients of the inputs and parameters, from equal random numbers."""
    values = [v.clone().requires_grad_() if v.is_floating_point() else v for v in values]
    library.manual_seed(3)
    # Each in-place layer works on a copy: leaves that need gradients refuse it.
    outputs = flat(module(*[v * 1 if v.is_floating_point() else v for v in values]))
    floating = [out for out in outputs if out.is_floating_point() and out.requires_grad]
    wanted = [v for v in (*values, *module.parameters()) if v.requires_grad]
    grads = ()
    if floating:
        loss = sum((out * library.linspace(0, 1, out.numel(), dtype=out.dtype).view_as(out)).sum()
                   for out in floating)
        grads = library.autograd.grad(loss, wanted, allow_unused=True)
    return outputs, grads


def check_close(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert (mine is None) == (other is None)
        if mine is not None:
            other = rushlight.from_numpy(other.detach().numpy())
            rushlight.testing.assert_close(mine.detach(), other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("text", "inputs"), CASES)
def test_module(text, inputs):
    ours, theirs = (modules.make(library, text) for library in (rushlight, torch))
    assert plain(ours) == plain(theirs)
    assert attributes(ours) == attributes(theirs)
    for train in (True, False):
        ours.train(train), theirs.train(train)
        if inputs:
            results = [run(library, module, modules.inputs(library, inputs))
                       for library, module in ((rushlight, ours), (torch, theirs))]
            check_close(results[0][0], results[1][0])
            if "CrossMapLRN2d" not in text:  # see the next test
                check_close(results[0][1], results[1][1])
        assert plain(ours) == plain(theirs)  # a lazy module has become another
        assert attributes(ours) == attributes(theirs)
    assert list(ours.state_dict()._metadata.items()) == list(theirs.state_dict()._metadata.items())


def test_gradient_of_crossmap_normalisation_that_torch_has_wrong():
    for library, right in ((rushlight, True), (torch, False)):
        x = library.randn(1, 4, 2, 2, dtype=library.float64, requires_grad=True)
        layer = library.nn.CrossMapLRN2d(3, alpha=0.5)
        assert library.autograd.gradcheck(layer, x, raise_exception=False) is right


@pytest.mark.parametrize(("text", "inputs"), CASES)
def test_initial_values(text, inputs):
    ours, theirs = (modules.make(library, text) for library in (rushlight, torch))
    if "Lazy" in text:  # in evaluation: running averages are rounded sums
        ours.eval()(*modules.inputs(rushlight, inputs))
        theirs.eval()(*modules.inputs(torch, inputs))
    check_equal_bits(ours.state_dict(), theirs.state_dict())
    for name in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [k for k, _ in getattr(ours, name)()] == [k for k, _ in getattr(theirs, name)()]
    assert rushlight.get_rng_state().tolist() == torch.get_rng_state().tolist()


@pytest.mark.parametrize(("text", "inputs"), CASES)
def test_copies(text, inputs):
    module = modules.make(rushlight, text)
    if "Lazy" in text:
        module(*modules.inputs(rushlight, inputs))
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert type(copied) is type(module) and repr(copied) == repr(module)
        state = copied.state_dict()
        assert all(v.equal(state[k]) for k, v in module.state_dict().items())
