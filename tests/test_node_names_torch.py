"""Nodes of the graph have torch's names: those of rows, and of modules."""

import re
from collections import OrderedDict

import modules
import pytest
from table import case, listed, texts_of
from test_ops_torch import SHARED, has_gradient_in_both

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

# Rows whose nodes have other names, by the reason; docs/differences.md has these.
OTHER_NODES = {
    # one node here, of a kernel that does all of it
    "fused": """
        avg_pool1d cross_entropy linear max_pool1d max_pool1d_with_indices ndtr pad
    """,
    # made of other steps
    "steps": """
        combinations cov fold functional_unfold kron linalg_multi_dot matmul nanquantile
        nanquantile_number quantile quantile_number scaled_dot_product_attention vander
    """,
    # arithmetic with a number inside torch's own C++ is another overload
    "numbers": "cumulative_trapezoid cumulative_trapezoid_points trapezoid trapezoid_points",
    # torch has no gradient there, or no node
    "more": """
        addmm_activation bernoulli_p binomial conj_physical linalg_ldl_solve remainder
        remainder_number view_dtype
    """,
}
OTHER_NODES = {name: reason for reason, names in OTHER_NODES.items() for name in names.split()}


def nodes(library, call):
    """The name of each result's node."""
    leaves = {id(a): a.tensor(library).requires_grad_() for a in call.differentiable()}
    result = call.run(library, lambda a: leaves[id(a)] if id(a) in leaves else a.tensor(library))
    found = [getattr(out, "grad_fn", None) for out in listed(result)]
    return [node and node.name() for node in found]


@pytest.mark.parametrize(
    "op", [op for op in SHARED if has_gradient_in_both(op)], ids=lambda op: op.full_name
)
def test_names(op):
    differ = []
    for number in range(len(texts_of(op))):
        call = case(op, number)
        try:
            expected = nodes(torch, call)
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue  # what torch refuses to record
        try:
            found = nodes(rl, call)
        except RuntimeError as error:
            found = str(error)
        if found != expected:
            differ.append((texts_of(op)[number], found, expected))
    # The list is no longer than it must be.
    assert bool(differ) == (op.full_name in OTHER_NODES), differ


def test_no_name_of_a_kernel_is_shown():
    x = rl.randn(1, 2, 8, 8, requires_grad=True)
    F = rl.nn.functional  # noqa: N806
    results = {
        "UpsampleBilinear2DBackward0": F.interpolate(x, scale_factor=2, mode="bilinear"),
        "UpsampleBilinear2DAaBackward0": F.interpolate(
            x, scale_factor=2, mode="bilinear", antialias=True
        ),
        "UpsampleNearestExact2DBackward0": F.interpolate(x, scale_factor=2, mode="nearest-exact"),
        "UpsampleLinear1DBackward0": F.interpolate(x[0], scale_factor=2, mode="linear"),
        "ReflectionPad2DBackward0": F.pad(x, (1, 1, 1, 1), mode="reflect"),
        "ReplicationPad1DBackward0": F.pad(x[0], (1, 1), mode="replicate"),
        "MaxPool2DWithIndicesBackward0": F.max_pool2d(x, 2),
        "AvgPool3DBackward0": F.avg_pool3d(x[None], 2),
        "AdaptiveMaxPool2DBackward0": F.adaptive_max_pool2d(x, 2),
        "GridSampler2DBackward0": F.grid_sample(x, rl.zeros(1, 3, 3, 2), align_corners=False),
        "PowBackward0": x**2.5,
        "PowBackward1": x**x,
        "PowBackward2": rl.pow(2.0, x),
        "RsubBackward1": rl.rsub(x, 2),
        "RemainderBackward0": x.remainder(2),
    }
    assert {name: out.grad_fn.name() for name, out in results.items()} == {n: n for n in results}


# Modules whose results have other nodes: see docs/differences.md.
OTHER_MODULES = set(
    """
    AdaptiveAvgPool1d AdaptiveMaxPool1d AvgPool1d CircularPad1d CircularPad2d CircularPad3d
    CrossEntropyLoss CrossMapLRN2d GRU LSTMCell LeakyReLU MaxPool1d PairwiseDistance
    RNN
    """.split()
)
HOLDERS = {"ModuleDict", "ModuleList", "ParameterDict", "ParameterList"}  # they are not called
MODULES = {}
for _text, _inputs in modules.CASES:
    MODULES.setdefault(re.match(r"nn\.(\w+)", _text)[1], []).append((_text, _inputs))


def tensors(library, value):
    if isinstance(value, (tuple, list)):
        return [t for part in value for t in tensors(library, part)]
    return [value] if isinstance(value, library.Tensor) else []


def nodes_of_module(library, text, inputs):
    library.manual_seed(0)
    module = eval(text, {"T": library, "nn": library.nn, "OrderedDict": OrderedDict})
    given = modules.inputs(library, inputs)
    for t in tensors(library, list(given)):
        if t.is_floating_point():
            t.requires_grad_()
    given = [t * 1 if t in set(tensors(library, list(given))) else t for t in given]
    return [t.grad_fn and t.grad_fn.name() for t in tensors(library, module(*given))]


@pytest.mark.parametrize("name", sorted(MODULES.keys() - HOLDERS))
def test_modules(name):
    differ = []
    for text, inputs in MODULES[name]:
        found, expected = (nodes_of_module(library, text, inputs) for library in (rl, torch))
        if found != expected:
            differ.append((text, found, expected))
    assert bool(differ) == (name in OTHER_MODULES), differ
