"""The whole graph of each operator in torch's own test database: the names of its nodes and their
`next_functions` are torch's, but for the operators below, each by its reason (docs/differences.md).
"""

import re
from pathlib import Path

import pytest
from table import PUBLIC

import rushlight as rl

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which torch's database needs

from test_node_names_torch import OTHER_MODULES, OTHER_NODES  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

from bench.operators import Translation, Untranslatable, function_of, tensors_in  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

MOST = 4  # samples of an operator

OTHER_GRAPHS = {
    # one node here, of a kernel that does all of it
    "fused": """
        nn.functional.adaptive_avg_pool1d nn.functional.adaptive_max_pool1d
        nn.functional.avg_pool1d nn.functional.cross_entropy
        nn.functional.interpolate.area nn.functional.l1_loss nn.functional.linear
        nn.functional.linear_cross_entropy nn.functional.max_pool1d
        nn.functional.multi_head_attention_forward nn.functional.pad.circular
        nn.functional.rms_norm nn.functional.scaled_dot_product_attention special.ndtr
    """,
    # one node in torch, whose result is sparse, has residuals, or is of indices that broadcast
    "several": "__getitem__ linalg.lstsq linalg.lstsq.grad_oriented to_sparse",
    # made of other steps
    "steps": """
        __rmatmul__ __rsub__ cartesian_prod combinations corrcoef cov diff fft.hfft
        fft.hfft2 fft.hfftn fft.ifft fft.ihfft fft.ihfft2 fft.ihfftn inner istft kron
        linalg.matrix_power linalg.multi_dot linalg.norm.subgradients_at_zero
        linalg.tensorinv masked.median matmul
        nanquantile nn.functional.nll_loss nn.functional.pairwise_distance
        nn.functional.triplet_margin_loss quantile squeeze.multiple stft
        tensordot
    """,
    # arithmetic with a number inside torch's own C++ is another overload
    "numbers": """
        cumulative_trapezoid gradient nn.functional.cosine_embedding_loss
        nn.functional.hinge_embedding_loss nn.functional.margin_ranking_loss
        nn.functional.poisson_nll_loss trapezoid trapz
    """,
    # torch has edges without a node for bounds that need no gradient
    "absent": "clamp",
    # torch gives a real tensor as it is
    "more": "conj_physical",
}
OTHER_GRAPHS = {name: why for why, names in OTHER_GRAPHS.items() for name in names.split()}


def numbered(root):
    """The nodes from one on in the order of a search in depth: names, and edges by number."""
    numbers, nodes = {}, []

    def visit(node):
        if node is None or node in numbers:
            return numbers.get(node)
        numbers[node] = len(nodes)
        edges = []
        nodes.append((node.name(), edges))
        edges += [(visit(other), place) for other, place in node.next_functions]
        return numbers[node]

    visit(root)
    return nodes


def graphs(library, op, sample):
    translate = Translation(library, torch, gradients=True).value
    args = [translate(x) for x in (sample.input, *sample.args)]
    named = translate(sample.kwargs)
    library.manual_seed(0)
    result = function_of(library, op.name)(*args, **named)
    return [numbered(t.grad_fn) for t in tensors_in(listed(result), library)]


def listed(value):
    return [listed(v) for v in value] if isinstance(value, (tuple, list)) else value


def samples(op):
    takes = op.supported_backward_dtypes("cpu")
    dtype = next((d for d in (torch.float64, torch.float32, torch.complex128) if d in takes), None)
    if dtype is None:
        return []
    torch.manual_seed(0)
    found = list(op.sample_inputs("cpu", dtype, requires_grad=True))
    return found[:: max(1, len(found) // MOST)]


def is_public(op):
    private = op.name.startswith("_") and not op.name.startswith("__")
    return op.supports_autograd and not private and not op.name.startswith("torch.ops.")


def differs(op):
    """A sample's graphs here and there, if they differ; None if all samples' are equal."""
    for sample in samples(op):
        try:
            wanted = graphs(torch, op, sample)
        except (Untranslatable, AttributeError, RuntimeError, TypeError, ValueError):
            continue  # torch's database calls it in another way
        found = graphs(rl, op, sample)
        if found != wanted:
            return found, wanted
    return None


# One test, for each one ends with a search for leaks among all objects of torch's database.
def test_graphs():
    found = {op.full_name: differs(op) for op in op_db if is_public(op)}
    found = {name: graphs for name, graphs in found.items() if graphs}
    more = {name: graphs for name, graphs in found.items() if name not in OTHER_GRAPHS}
    assert not more
    assert not set(OTHER_GRAPHS) - set(found)  # the list is no longer than it must be


def test_each_is_in_the_documentation():
    """By its name there, in the section that gives the reasons."""
    text = (Path(__file__).parent.parent / "docs" / "differences.md").read_text()
    section = text.split("\n## The graph\n")[1].split("\n## ")[0]
    codes = re.findall("`([^`]*)`", section)
    said = {word for code in codes for word in re.findall(r"[\w.]+", code)}
    said |= {word.rpartition(".")[2] for word in said}
    rows = {op.python_names[0] for op in PUBLIC if op.full_name in OTHER_NODES}
    names = {name.removeprefix("nn.functional.").removesuffix(".grad_oriented")
             for name in {*OTHER_GRAPHS, *rows, *OTHER_MODULES}}  # fmt: skip
    left = {name for name in names if not said & {name, name.rpartition(".")[2].rstrip("_")}}
    assert not left
