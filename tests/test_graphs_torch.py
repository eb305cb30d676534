"""The whole graph of each operator in torch's own test database: the names of its nodes and their
`next_functions` are torch's, but for the operators below, each by its reason (docs/differences.md).
"""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which torch's database needs

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

from bench.operators import Translation, Untranslatable, function_of, tensors_in  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

MOST = 4  # samples of an operator

OTHER_GRAPHS = {
    # one node here, of a kernel that does all of it
    "fused": """
        native_group_norm nn.functional.adaptive_avg_pool1d nn.functional.adaptive_max_pool1d
        nn.functional.avg_pool1d nn.functional.cross_entropy nn.functional.interpolate.area
        nn.functional.l1_loss nn.functional.linear nn.functional.linear_cross_entropy
        nn.functional.max_pool1d nn.functional.multi_head_attention_forward
        nn.functional.pad.circular nn.functional.rms_norm
        nn.functional.scaled_dot_product_attention special.ndtr
    """,
    # one node in torch, several here whose gradients need no formula of their own
    "composed": """
        __getitem__ as_strided_scatter block_diag cholesky_inverse cholesky_solve
        linalg.householder_product linalg.lstsq linalg.lstsq.grad_oriented linalg.lu
        linalg.lu_solve linalg.solve linalg.solve_ex linalg.tensorsolve logit lu_solve lu_unpack
        masked_select matrix_exp nn.functional.bilinear nn.functional.binary_cross_entropy
        nn.functional.binary_cross_entropy_with_logits nn.functional.channel_shuffle
        nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
        nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss
        nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.rrelu
        nn.functional.soft_margin_loss ormqr renorm split_with_sizes_copy to_sparse
        triangular_solve unbind_copy
    """,
    # made of other steps
    "steps": """
        __rmatmul__ __rsub__ cartesian_prod combinations corrcoef cov diff fft.fft fft.hfft
        fft.hfft2 fft.hfftn fft.ifft fft.ihfft fft.ihfft2 fft.ihfftn fft.irfft2 fft.irfftn
        fft.rfft2 fft.rfftn inner istft kron linalg.matrix_power linalg.multi_dot
        linalg.norm.subgradients_at_zero linalg.tensorinv masked.logsumexp masked.mean
        masked.median masked.sum matmul nanquantile nn.functional.max_unpool1d
        nn.functional.max_unpool1d.grad nn.functional.nll_loss nn.functional.pairwise_distance
        nn.functional.triplet_margin_loss quantile squeeze.multiple stft sum_to_size tensordot
    """,
    # arithmetic with a number inside torch's own C++ is another overload
    "numbers": """
        cumulative_trapezoid gradient nn.functional.cosine_embedding_loss
        nn.functional.hinge_embedding_loss nn.functional.margin_ranking_loss
        nn.functional.poisson_nll_loss trapezoid trapz
    """,
    # torch has edges without a node for the bounds that are not given
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
