"""The functions of torch that stand below those of torch.nn.functional, beside torch's own."""

import pytest

torch = pytest.importorskip("torch")

import rushlight  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]


def randn(library, *shape):
    return library.randn(*shape)


def network(library, kind, packed):
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    weights = []
    for _ in range(2):  # of one layer in both directions
        weights += [randn(library, 4 * gates, 3), randn(library, 4 * gates, 4)]
        weights += [randn(library, 4 * gates), randn(library, 4 * gates)]
    hidden = randn(library, 2, 2, 4)
    states = [hidden, randn(library, 2, 2, 4)] if kind == "lstm" else hidden
    run = getattr(library, kind)
    if packed:
        sizes = library.tensor([2, 2, 1])
        return run(randn(library, 5, 3), sizes, states, weights, True, 1, 0.0, False, True)
    return run(randn(library, 2, 5, 3), states, weights, True, 1, 0.0, False, True, True)


def cell(library, kind):
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    hidden = randn(library, 2, 4)
    states = [hidden, randn(library, 2, 4)] if kind == "lstm" else hidden
    weights = randn(library, 4 * gates, 3), randn(library, 4 * gates, 4)
    return getattr(library, f"{kind}_cell")(randn(library, 2, 3), states, *weights)


def bags(library, mode, *options):
    indices, offsets = library.tensor([1, 2, 4, 5, 4, 3]), library.tensor([0, 2, 2])
    return library.embedding_bag(randn(library, 6, 3), indices, offsets, False, mode, *options)


def probabilities(library):
    return randn(library, 10, 2, 5).log_softmax(2)


def masked_places(library):
    mask = library.tensor([True, False, True])
    return mask, [library.tensor([0, 5, -9]), library.tensor([0, -7, 1])]


def with_gradients(library, function, *shapes):
    """The results, and the gradients of what they are made of."""
    leaves = [randn(library, *shape).requires_grad_() for shape in shapes]
    results = function(*leaves)
    total = sum((r * r).sum() for r in flat(results))
    return [*flat(results), *library.autograd.grad(total, leaves)]


def batch_norm_into(library, name, statistics, training):
    out = tuple(library.full((n,), 7.0) for n in (0, 3, 3))
    results = getattr(library, name)(
        randn(library, 4, 3, 2), library.ones(3), None, *statistics, training, 0.1, 1e-5, out=out
    )
    assert all(a is b for a, b in zip(results, out))
    return [*out, *statistics]


def copies_into(library, name, *arguments):
    out = [library.empty(0) for _ in range(2)]
    assert getattr(library, name)(randn(library, 4, 2), *arguments, out=out) is None
    return out


CASES = {
    **{
        f"_chunk_cat {dim}": lambda t, dim=dim: t._chunk_cat(
            [randn(t, 2, 3), randn(t, 2, 5)], dim, 2, out=t.empty(0)
        )
        for dim in (1, -1)
    },
    "_chunk_cat of other numbers of dims": lambda t: t._chunk_cat(
        [randn(t, 5), randn(t, 2, 4)], 0, 3
    ),
    "_unsafe_masked_index": lambda t: with_gradients(
        t, lambda x: t._unsafe_masked_index(x, *masked_places(t), 9.0), (3, 2)
    ),
    "_unsafe_masked_index of one dim": lambda t: t.ops.aten._unsafe_masked_index(
        randn(t, 3, 2), masked_places(t)[0], [None, t.tensor([0, 5, 1])], 9.0
    ),
    "_unsafe_masked_index of nothing": lambda t: t._unsafe_masked_index(
        randn(t, 0, 2), *masked_places(t), 9.0
    ),
    "_unsafe_masked_index_put_accumulate": lambda t: with_gradients(
        t, lambda x, v: t._unsafe_masked_index_put_accumulate(x, *masked_places(t), v), (3, 2), (3,)
    ),
    **{
        f"{name} {training}": lambda t, name=name, training=training: batch_norm_into(
            t, name, [t.zeros(3), t.ones(3)], training
        )
        for name in ("native_batch_norm", "_native_batch_norm_legit")
        for training in (False, True)
    },
    **{
        f"native_batch_norm of bfloat16 with parameters of {dtype}": lambda t, dtype=dtype: (
            t.native_batch_norm(
                randn(t, 4, 3).bfloat16(),
                t.ones(3, dtype=getattr(t, dtype)),
                None,
                t.zeros(3, dtype=getattr(t, dtype)),
                t.ones(3, dtype=getattr(t, dtype)),
                True,
                0.1,
                1e-5,
            )[1:]
        )
        for dtype in ("bfloat16", "float32")
    },
    "_native_batch_norm_legit without statistics": lambda t: batch_norm_into(
        t, "_native_batch_norm_legit", [], True
    ),
    "_native_batch_norm_legit's gradients": lambda t: with_gradients(
        t, lambda x, w: t._native_batch_norm_legit(x, w, None, True, 0.1, 1e-5)[0], (4, 3), (3,)
    ),
    "_native_batch_norm_legit_no_training": lambda t: t._native_batch_norm_legit_no_training(
        randn(t, 4, 3), None, None, t.zeros(3), t.ones(3), 0.1, 1e-5
    ),
    "unbind_copy": lambda t: copies_into(t, "unbind_copy", 1),
    "split_copy": lambda t: [*randn(t, 5, 2).split(2), *t.split_copy(randn(t, 5, 2), 2)],
    "split_with_sizes_copy": lambda t: copies_into(t, "split_with_sizes_copy", [1, 3]),
    "adaptive_max_pool1d": lambda t: t.adaptive_max_pool1d(randn(t, 2, 3, 8), 4),
    "affine_grid_generator": lambda t: t.affine_grid_generator(
        randn(t, 2, 2, 3), [2, 3, 4, 5], False
    ),
    "feature_dropout": lambda t: t.feature_dropout(randn(t, 2, 8, 4), 0.5, True),
    "feature_dropout_": lambda t: t.feature_dropout_(randn(t, 2, 8, 4), 0.5, True),
    "feature_alpha_dropout_": lambda t: t.feature_alpha_dropout_(randn(t, 2, 8, 4), 0.5, True),
    "alpha_dropout_": lambda t: t.alpha_dropout_(randn(t, 2, 8), 0.5, True),
    "batch_norm": lambda t: t.batch_norm(
        randn(t, 4, 3), None, None, t.zeros(3), t.ones(3), True, 0.1, 1e-5, True
    ),
    "instance_norm": lambda t: t.instance_norm(
        randn(t, 4, 3, 5), None, None, None, None, True, 0.1, 1e-5, True
    ),
    "binary_cross_entropy_with_logits": lambda t: t.binary_cross_entropy_with_logits(
        randn(t, 4), t.rand(4)
    ),
    "cosine_embedding_loss": lambda t: t.cosine_embedding_loss(
        randn(t, 4, 3), randn(t, 4, 3), t.tensor([1, -1, 1, -1]), 0.1, 1
    ),
    "ctc_loss": lambda t: t.ctc_loss(
        probabilities(t), t.randint(1, 5, (2, 3)), t.tensor([10, 10]), t.tensor([3, 2])
    ),
    "ctc_loss of lists": lambda t: t.ctc_loss(
        probabilities(t), t.randint(1, 5, (2, 3)), [10, 10], [3, 2], 0, 2
    ),
    "kl_div": lambda t: t.kl_div(randn(t, 4), t.rand(4)),
    "kl_div of logarithms": lambda t: t.kl_div(randn(t, 4), randn(t, 4), 1, log_target=True),
    "poisson_nll_loss": lambda t: t.poisson_nll_loss(randn(t, 4), t.rand(4), True, True, 1e-8, 1),
    "triplet_margin_loss": lambda t: t.triplet_margin_loss(
        randn(t, 4, 3), randn(t, 4, 3), randn(t, 4, 3)
    ),
    "margin_ranking_loss": lambda t: t.margin_ranking_loss(randn(t, 4), randn(t, 4), t.ones(4)),
    "hinge_embedding_loss": lambda t: t.hinge_embedding_loss(randn(t, 4), t.ones(4), 1.0, 2),
    **{f"embedding_bag {mode}": lambda t, mode=mode: bags(t, mode) for mode in (0, 1, 2)},
    "embedding_bag, padded": lambda t: bags(t, 1, False, None, False, 4),
    "frobenius_norm": lambda t: t.frobenius_norm(randn(t, 4, 3), [0, 1]),
    "nuclear_norm": lambda t: t.nuclear_norm(randn(t, 4, 3)),
    "nuclear_norm of two dims": lambda t: t.nuclear_norm(randn(t, 2, 4, 3), (1, 2), True),
    **{
        f"norm_except_dim {dim}": lambda t, dim=dim: t.norm_except_dim(randn(t, 4, 3), 2, dim)
        for dim in (0, 1, -1)
    },
    "_weight_norm": lambda t: t._weight_norm(randn(t, 4, 3), t.rand(4, 1)),
    **{
        f"{kind} {packed}": lambda t, kind=kind, packed=packed: network(t, kind, packed)
        for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")
        for packed in (False, True)
    },
    **{
        f"{kind}_cell": lambda t, kind=kind: cell(t, kind)
        for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    },
    **{
        f"nonzero_static {size}": lambda t, size=size: t.nonzero_static(
            t.tensor([[0, 1], [2, 3]]), size=size, fill_value=-2
        )
        for size in (0, 2, 7)
    },
    "slice_inverse": lambda t: (lambda a: t.slice_inverse(a[1:3], a, 0, 1, 3, 1))(
        t.arange(12.0).reshape(3, 4)
    ),
    "_convert_indices_from_coo_to_csr": lambda t: t._convert_indices_from_coo_to_csr(
        t.tensor([0, 0, 2]), 4
    ),
    "_convert_indices_from_csr_to_coo": lambda t: t._convert_indices_from_csr_to_coo(
        t.tensor([0, 2, 2, 3]), t.tensor([0, 2, 1]), out_int32=True
    ),
    "_softmax_backward_data": lambda t: t._softmax_backward_data(
        randn(t, 2, 3), randn(t, 2, 3).softmax(1), 1, t.float32
    ),
    "_log_softmax_backward_data": lambda t: t._log_softmax_backward_data(
        randn(t, 2, 3), randn(t, 2, 3).log_softmax(1), 1, t.float32
    ),
    "while_loop": lambda t: t.while_loop(
        lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (t.tensor(0), t.tensor(1.0))
    ),
    "dsmm": lambda t: t.dsmm(randn(t, 2, 3), randn(t, 3, 2)),
    "_segment_reduce": lambda t: t._segment_reduce(randn(t, 5), "sum", offsets=t.tensor([0, 2, 5])),
    "map2_": lambda t: t.ones(2, 2).map2_(t.arange(2.0), t.ones(2, 1), lambda a, b, c: a + b + c),
    "resize": lambda t: t.arange(6.0).resize(2, 3),
    "resize_as": lambda t: t.arange(6.0).resize_as(t.ones(3, 2)),
    "dequantize": lambda t: t.dequantize(t.ones(2, dtype=t.float16)),
    "rand(2, True)": lambda t: t.rand(2, True),
    "view(2, True, 2)": lambda t: t.ones(4).view(2, True, 2),
    "half == number": lambda t: t.tensor([0.123, 0.5], dtype=t.float16) == 0.123,
    "bfloat16 < number": lambda t: t.tensor([0.123, 0.5], dtype=t.bfloat16) < 0.123,
}


def flat(value):
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in flat(part)]
    return [value]


@pytest.mark.parametrize("name", CASES)
def test_as_in_torch(name):
    results = []
    for library in (rushlight, torch):
        library.manual_seed(0)
        results.append(flat(CASES[name](library)))
    ours, theirs = results
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert str(a.dtype) == str(b.dtype)
        if b.dtype == torch.bfloat16:  # NumPy has none
            a, b = a.float(), b.float()
        torch.testing.assert_close(torch.from_numpy(a.detach().numpy()), b.detach())


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4, 5), (1, 3, 4, 5), ()])
@pytest.mark.parametrize("check", [False, True])
def test_order_of_dims(shape, check):
    def order(library, strides):
        try:
            return library.empty(shape).permute(strides).dim_order(ambiguity_check=check)
        except RuntimeError:
            return "ambiguous"

    for strides in {tuple(range(len(shape))), tuple(reversed(range(len(shape))))}:
        assert order(rushlight, strides) == order(torch, strides)


@pytest.mark.parametrize("name", ["eig", "solve", "symeig", "lstsq", "reinforce"])
def test_what_torch_removed(name):
    for library in (rushlight, torch):
        with pytest.raises(RuntimeError, match="removed"):
            getattr(library.ones(2, 2), name)(library.ones(2, 2))


@pytest.mark.parametrize("by", ["input", "weight"])
def test_gradients_of_convolutions_have_gradients(by):
    found = []
    for library in (rushlight, torch):
        library.manual_seed(0)
        input = library.randn(1, 2, 5, requires_grad=True)
        weight = library.randn(3, 2, 2, requires_grad=True)
        grad = library.randn(1, 3, 4, requires_grad=True)
        function = getattr(library.nn.grad, f"conv1d_{by}")
        if by == "input":
            result, other = function(input.shape, weight, grad), weight
        else:
            result, other = function(input, weight.shape, grad), input
        (result**2).sum().backward()
        found.append([result.detach().numpy(), other.grad.numpy(), grad.grad.numpy()])
    for ours, theirs in zip(*found):
        assert abs(ours - theirs).max() < 1e-4
    with rushlight.no_grad():
        assert not rushlight.nn.grad.conv1d_input(
            (1, 1, 3), rushlight.ones(1, 1, 2, requires_grad=True), rushlight.ones(1, 1, 2)
        ).requires_grad


def test_nodes_of_functions_that_give_statistics():
    names = []
    for library in (rushlight, torch):
        x, w = library.randn(4, 3, requires_grad=True), library.ones(3)
        batch = w * 0, w.clone(), True, 0.1, 1e-5
        results = [
            library.native_batch_norm(x, w, None, *batch),
            library._native_batch_norm_legit(x, w, None, *batch),
            library._native_batch_norm_legit(x, w, None, *batch[2:]),
            library._native_batch_norm_legit_no_training(x, w, None, *batch[:2], *batch[3:]),
            library.split_copy(x, 2),
        ]
        names.append([result[0].grad_fn.name() for result in results])
    assert names[0] == names[1]
