"""Every row of the op table on meta: the shapes, dtypes and strides that the CPU gives."""

import pytest
from layouts import LAYOUTS, laid_out
from table import PUBLIC, Array, case, cases, listed

import rushlight as rl

pytestmark = [pytest.mark.kernels, pytest.mark.filterwarnings("ignore")]

# Rows whose results, or their shapes, depend on elements, and how the refusal names them.
READS_ELEMENTS = {
    **{
        name: name
        for name in (
            "allclose", "bincount", "equal", "masked_select", "nonzero", "one_hot",
            "unique", "unique_consecutive",
        )
    },
    **{name: "nonzero" for name in ("argwhere", "nonzero_tuple", "where_condition")},
    "cpu": "copy out of meta",
    "narrow_tensor": "narrow: its result depends on elements",
    "repeat_interleave_counts": "repeat_interleave",
    "repeat_interleave_tensor": "repeat_interleave",
    "tensor_split_tensor": "tensor_split",
}  # fmt: skip
# Rows whose gradient picks elements by a mask.
GRADIENT_READS_ELEMENTS = {"masked_scatter": "masked_select"}


def tensors(result):
    return [r for r in listed(result) if isinstance(r, rl.Tensor)]


def described(results):
    return [(tuple(r.shape), r.dtype, r.stride()) for r in results]


def on_meta(array):
    return array.tensor(rl, "meta")


def assert_alike(meta, real):
    assert all(m.is_meta for m in meta)
    assert described(meta) == described(real)


WITH_TENSORS = [
    pytest.param(*p.values, id=p.id)
    for p in cases(PUBLIC)
    if case(*p.values).arrays() and p.values[0].full_name not in READS_ELEMENTS
]


@pytest.mark.parametrize(("op", "number"), WITH_TENSORS)
def test_results(op, number):
    call = case(op, number)
    real = tensors(call.run(rl))
    meta = tensors(call.run(rl, on_meta))
    assert_alike(meta, real)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("op", "number"), WITH_TENSORS)
def test_results_of_other_layouts(op, number, layout):
    call = case(op, number)

    def lay_out(array, device="cpu"):
        t = array.tensor(rl, device)
        return laid_out(t, layout) if LAYOUTS[layout][1](t) else t

    def lay_out_on_meta(array):
        return lay_out(array, "meta")

    if all(lay_out(array).is_contiguous() for array in call.arrays()):
        return
    try:
        real = tensors(call.run(rl, lay_out))
    except rl.linalg.LinAlgError:  # its rows are equal
        return
    except RuntimeError as refused:  # views and changes that memory of this kind does not allow
        with pytest.raises(type(refused)):
            call.run(rl, lay_out_on_meta)
        return
    assert_alike(tensors(call.run(rl, lay_out_on_meta)), real)


@pytest.mark.parametrize(
    "op", [op for op in PUBLIC if op.full_name in READS_ELEMENTS], ids=lambda op: op.full_name
)
def test_what_reads_elements_is_refused(op):
    with pytest.raises(NotImplementedError, match=READS_ELEMENTS[op.full_name]):
        case(op, 0).run(rl, on_meta)


def test_rows_that_read_elements_are_in_the_table():
    assert set(READS_ELEMENTS) <= {op.full_name for op in PUBLIC}


def test_one_hot_of_known_width():
    places = rl.empty(2, 3, dtype=rl.int64, device="meta")
    hot = rl.nn.functional.one_hot(places, 5)
    assert hot.is_meta and hot.shape == (2, 3, 5) and hot.dtype == rl.int64


CREATION = [
    p
    for p in cases(PUBLIC)
    if any(q.name == "device" for q in p.values[0].signature.parameters)
    and not case(*p.values).arrays()
]


@pytest.mark.parametrize(("op", "number"), CREATION)
def test_creation(op, number):
    call = case(op, number)
    real = tensors(call.run(rl))
    call.named["device"] = "meta"
    assert_alike(tensors(call.run(rl)), real)


WITH_GRADIENTS = [
    p for p in WITH_TENSORS if p.values[0].gradients and case(*p.values).differentiable()
]


@pytest.mark.parametrize(("op", "number"), WITH_GRADIENTS)
def test_gradients(op, number):
    call = case(op, number)
    wanted = {id(array) for array in call.differentiable()}

    def gradients(device):
        leaves = []

        def leaf(array: Array):
            made = array.tensor(rl, device)
            if id(array) in wanted:
                leaves.append(made.requires_grad_())
            return made

        results = [r for r in tensors(call.run(rl, leaf)) if r.requires_grad]
        if not results:
            return []
        grads = [rl.ones_like(r) for r in results]
        return rl.autograd.grad(results, leaves, grads, allow_unused=True)

    real = gradients("cpu")
    if op.full_name in GRADIENT_READS_ELEMENTS:
        with pytest.raises(NotImplementedError, match=GRADIENT_READS_ELEMENTS[op.full_name]):
            gradients("meta")
        return
    meta = gradients("meta")
    assert [g is None for g in meta] == [g is None for g in real]
    assert_alike([g for g in meta if g is not None], [g for g in real if g is not None])


def test_moving_to_meta_is_recorded():
    x = rl.ones(3, requires_grad=True)
    moved = x.to("meta")
    assert moved.requires_grad and moved.grad_fn is not None and not moved.is_leaf
    with pytest.raises(NotImplementedError, match="copy out of meta"):
        moved.sum().backward()
    assert rl.ones(3).to("meta").grad_fn is None


def test_masks_and_indices_of_the_cpu_on_meta():
    x, mask = rl.empty(3, 4, device="meta"), rl.empty(3, 4, dtype=rl.bool, device="meta")
    x[mask] = 1
    x[mask] = rl.empty(5, device="meta")
    assert x.shape == (3, 4)
    assert x[rl.tensor([0, 2, 2])].shape == (3, 4)
    with pytest.raises(NotImplementedError, match="depends on elements"):
        x[mask]


@pytest.mark.parametrize(
    "run",
    [
        lambda real, meta: rl.nn.functional.scaled_dot_product_attention(real, meta, real),
        lambda real, meta: rl.nn.functional.cross_entropy(real[0, 0], meta[0, 0, :, 0].long()),
        lambda real, meta: rl.nn.functional.batch_norm(
            real, None, None, meta[0, :, 0, 0], training=True
        ),
        lambda real, meta: rl._fused_adadelta_(
            [real], [meta], [real * 0], [real * 0], lr=1, rho=1, eps=1, weight_decay=0,
            maximize=False,
        ),
        lambda real, meta: real[rl.tensor([0]), meta[0, 0, 0].long()],
    ],
)  # fmt: skip
def test_structures_of_views_are_of_one_device(run):
    """A kernel that takes them would read a null pointer."""
    with pytest.raises(RuntimeError, match="device"):
        run(rl.rand(1, 2, 3, 4), rl.empty(1, 2, 3, 4, device="meta"))


@pytest.mark.parametrize(
    "run",
    [
        lambda real, meta: real + meta,
        lambda real, meta: meta == real,
        lambda real, meta: rl.where(real > 0, meta, meta),
        lambda real, meta: meta.masked_fill(real > 0, 1),
        lambda real, meta: rl.nn.functional.mse_loss(real, meta),
        lambda real, meta: rl.clamp(meta, real),
        lambda real, meta: real + meta[0, 0],
        lambda real, meta: real.mul_(meta),
        lambda real, meta: rl._foreach_add([real], [meta]),
        lambda real, meta: rl.outer(real[0], meta[0]),
    ],
)
def test_operands_are_of_one_device(run):
    with pytest.raises(RuntimeError, match="same device"):
        run(rl.ones(2, 3), rl.ones(2, 3, device="meta"))


def test_what_goes_with_meta():
    meta = rl.ones(2, 3, device="meta")
    assert (meta + rl.tensor(2.0)).is_meta and (rl.tensor(2.0) * meta).is_meta
    assert meta.mul_(rl.ones(2, 3)).is_meta and meta.copy_(rl.ones(3)).is_meta


def test_functions_that_read_elements_where_there_are_some():
    nn = rl.nn.functional
    places = rl.empty(1, 1, 2, dtype=rl.int64, device="meta")
    assert nn.max_unpool1d(rl.empty(1, 1, 2, device="meta"), places, 2).shape == (1, 1, 4)
    scores, labels = rl.empty(3, 5, device="meta"), rl.empty(3, 5, dtype=rl.int64, device="meta")
    assert nn.multilabel_margin_loss(scores, labels).shape == ()
    assert nn.rrelu(scores, training=True).shape == (3, 5)
    assert rl.pow(scores, rl.empty((), device="meta")).shape == (3, 5)
    assert rl.linalg.matrix_rank(rl.empty(2, 0, 0, device="meta")).is_meta
    counts = rl.empty(3, dtype=rl.int64, device="meta")
    assert rl.repeat_interleave(scores, counts, 0, output_size=7).shape == (7, 5)


def test_results_whose_size_is_an_argument():
    data, lengths = rl.rand(2, 5, 3), rl.tensor([[2, 3], [1, 4]])
    whole = rl.segment_reduce(data, "sum", lengths=lengths, axis=1)
    for given in (lengths, lengths.to("meta")):
        on_meta = rl.segment_reduce(data.to("meta"), "sum", lengths=given, axis=1)
        assert on_meta.is_meta and on_meta.shape == whole.shape
    places = rl.nonzero_static(data.to("meta"), size=4)
    assert places.is_meta and places.shape == (4, 3) and places.dtype is rl.int64
