"""Compressed layouts, and what sparse tensors of all layouts have in common."""

import copy
import io
import pickle
import warnings

import pytest

import rushlight
from rushlight import nn

LAYOUTS = ["coo", "csr", "csc", "bsr", "bsc"]
COMPRESSED = LAYOUTS[1:]
VALUES = [
    [1.5, 0, -2, 0, 0, 4],
    [0, 0, 3, 0, 0, 0],
    [0, 0, 0, 0, 0, 0],
    [4, -5, 0, 0, 7, 8],
]


def make(library, layout, dtype="float64", values=VALUES):
    dense = library.tensor(values, dtype=library.float64).to(getattr(library, dtype))
    options = {"blocksize": (2, 3)} if layout in ("bsr", "bsc") else {}
    return dense.to_sparse(layout=getattr(library, f"sparse_{layout}"), **options)


def dense_of(result):
    return result if result.layout == rushlight.strided else result.to_dense()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_from_dense_and_back(layout):
    sparse = make(rushlight, layout)
    assert str(sparse.layout) == f"torch.sparse_{layout}" and sparse.device.type == "cpu"
    assert sparse.is_sparse == (layout == "coo") and sparse.is_sparse_csr == (layout == "csr")
    assert not sparse.is_meta and sparse.is_cpu and isinstance(sparse, rushlight.Tensor)
    assert (sparse.sparse_dim(), sparse.dense_dim(), sparse.dim()) == (2, 0, 2)
    assert sparse.to_dense().tolist() == VALUES
    assert sparse.clone().to_dense().tolist() == VALUES
    assert sparse.detach().layout is sparse.layout and sparse.data.layout is sparse.layout


@pytest.mark.parametrize("layout", COMPRESSED)
@pytest.mark.parametrize("other", COMPRESSED)
def test_from_each_layout_to_each_other(layout, other):
    source = make(rushlight, layout).requires_grad_()
    block = {"blocksize": (2, 2)} if other in ("bsr", "bsc") else {}
    result = source.to_sparse(layout=getattr(rushlight, f"sparse_{other}"), **block)
    assert result.layout is getattr(rushlight, f"sparse_{other}")
    assert result.to_dense().tolist() == VALUES
    (result.to_dense() ** 2).sum().backward()
    assert source.grad.layout is source.layout
    assert (source.grad.to_dense() == 2 * source.detach().to_dense()).all()


@pytest.mark.parametrize("layout", COMPRESSED)
def test_batches_and_dense_dims(layout):
    block = {"blocksize": (2, 3)} if layout in ("bsr", "bsc") else {}
    layout = getattr(rushlight, f"sparse_{layout}")
    matrix = rushlight.tensor(VALUES)
    batch = rushlight.stack([matrix, matrix * 2, -matrix]).reshape(3, 1, 4, 6)
    sparse = batch.to_sparse(layout=layout, **block).requires_grad_()
    assert sparse.shape == (3, 1, 4, 6) and rushlight.equal(sparse.to_dense(), batch)
    assert rushlight.equal(sparse[1].to_dense(), batch[1])
    assert rushlight.equal(sparse.transpose(2, 3).to_dense(), batch.transpose(2, 3))
    (sparse.to_dense() * batch).sum().backward()
    assert rushlight.equal(sparse.grad.to_dense(), batch)
    hybrid = rushlight.stack([matrix, matrix * 2], -1)
    sparse = hybrid.to_sparse(layout=layout, dense_dim=1, **block)
    assert sparse.dense_dim() == 1 and rushlight.equal(sparse.to_dense(), hybrid)
    uneven = rushlight.stack([matrix, rushlight.eye(4, 6)])
    with pytest.raises(RuntimeError, match="same number of specified elements per batch"):
        uneven.to_sparse(layout=layout, blocksize=(1, 1) if block else None)


# name -> function, and the layouts that torch has it for as well
ROW_OR_COO = ("coo", "csr")
FUNCTIONS = {
    "neg": (lambda lib, x, d: -x, LAYOUTS),
    "abs": (lambda lib, x, d: x.abs(), LAYOUTS),
    "sin": (lambda lib, x, d: lib.sin(x), LAYOUTS),
    "tanh": (lambda lib, x, d: x.tanh(), LAYOUTS),
    "relu": (lambda lib, x, d: x.relu(), LAYOUTS),
    "expm1": (lambda lib, x, d: x.expm1(), LAYOUTS),
    "isnan": (lambda lib, x, d: x.isnan(), LAYOUTS),
    "double": (lambda lib, x, d: x * 2, LAYOUTS),
    "mul by 0-d": (lambda lib, x, d: x * lib.tensor(2.0, dtype=x.dtype), LAYOUTS),
    "mul dense": (lambda lib, x, d: x * d, ROW_OR_COO),
    "mul sparse": (lambda lib, x, d: x * (x * 2), ROW_OR_COO),
    "add": (lambda lib, x, d: x + x * 3, ("coo", "csr")),
    "add to dense": (lambda lib, x, d: d + x, ("coo", "csr", "csc")),
    "t": (lambda lib, x, d: x.t(), LAYOUTS),
    "transpose": (lambda lib, x, d: x.transpose(0, 1), LAYOUTS),
    "clone": (lambda lib, x, d: x.clone(), LAYOUTS),
    "float": (lambda lib, x, d: x.float(), LAYOUTS),
    "sum": (lambda lib, x, d: x.sum(), LAYOUTS),
    "sum 0": (lambda lib, x, d: x.sum(0, keepdim=True), ("csr",)),
    "sum 1": (lambda lib, x, d: x.sum(1, keepdim=True), ("csr",)),
    "sum both": (lambda lib, x, d: x.sum((0, 1), keepdim=True), ("csr",)),
    "select": (lambda lib, x, d: x[0], ("coo", "csr", "csc")),
    "column": (lambda lib, x, d: x[:, 2], ("coo", "csr", "csc")),
    "element": (lambda lib, x, d: x[0, 2], ("coo", "csr", "csc")),
    "mm": (lambda lib, x, d: x @ d.t(), ("coo", "csr", "csc", "bsr")),
    "mm left": (lambda lib, x, d: d.t() @ x, ("coo", "csr", "csc")),
    "mv": (lambda lib, x, d: x @ d[0], ("coo", "csr", "csc")),
    "mm sparse": (lambda lib, x, d: x @ x.t(), ("coo", "csr")),
    "sparse.mm": (lambda lib, x, d: lib.sparse.mm(x, d.t()), ("coo", "csr", "csc", "bsr")),
    "addmm": (
        lambda lib, x, d: lib.addmm(d[:, :4] * 0 + 1, x, d.t(), beta=0.5, alpha=2),
        ("coo", "csr"),
    ),
    "spmm": (lambda lib, x, d: lib.spmm(x, d.t()), ("coo", "csr")),
    "smm": (lambda lib, x, d: lib.smm(x, d.t()), ("coo",)),
    "hspmm": (lambda lib, x, d: lib.hspmm(x, d.t()), ("coo",)),
    "sspaddmm": (lambda lib, x, d: lib.sspaddmm(x @ x.t(), x, d.t(), beta=2, alpha=3), ("coo",)),
    "mask of dense": (lambda lib, x, d: d.sparse_mask(x), LAYOUTS[:3]),
    "mask of sparse": (lambda lib, x, d: (x * 2).sparse_mask(x), ("coo", "csr")),
    "zeros_like": (lambda lib, x, d: lib.zeros_like(x), LAYOUTS),
    "to_sparse": (lambda lib, x, d: x.to_sparse(), LAYOUTS),
    "softmax 0": (lambda lib, x, d: lib.sparse.softmax(x, 0), ("coo",)),
    "log_softmax 1": (lambda lib, x, d: lib.sparse.log_softmax(x, 1), ("coo",)),
    "sparse.sum 0": (lambda lib, x, d: lib.sparse.sum(x, 0), ("coo",)),
    "sum keepdim": (lambda lib, x, d: x.sum(0, keepdim=True), ("coo",)),
    "index_select": (lambda lib, x, d: x.index_select(1, lib.tensor([2, 0, 2])), ("coo",)),
    "cat": (lambda lib, x, d: lib.cat([x, x * 2], 1), ("coo",)),
    "stack": (lambda lib, x, d: lib.stack([x, x * 2], 1), ("coo",)),
    "narrow_copy": (lambda lib, x, d: x.narrow_copy(1, 1, 4), ("coo",)),
    "unsqueeze": (lambda lib, x, d: x.unsqueeze(1), ("coo",)),
    "bmm": (lambda lib, x, d: lib.bmm(lib.stack([x, x]), lib.stack([d.t(), d.t()])), ("coo",)),
    "power": (lambda lib, x, d: x**2, ("coo",)),
    "div": (lambda lib, x, d: x / 2, ("coo",)),
    "sampled_addmm": (
        lambda lib, x, d: lib.sparse.sampled_addmm(x, d, d.t() @ d, beta=0.5, alpha=2),
        ("csr",),
    ),
    "mean of products": (lambda lib, x, d: lib.sparse.mm(x, d.t(), "mean"), ("csr",)),
    "largest product": (lambda lib, x, d: lib.sparse.mm(x, d.t(), "amax"), ("csr",)),
    "smallest product": (lambda lib, x, d: lib.sparse.mm(x, d.t(), "amin"), ("csr",)),
}
CASES = [(name, layout) for name, (_, layouts) in FUNCTIONS.items() for layout in layouts]
NOT_IN_TORCH = [("mm", "bsr"), ("sparse.mm", "bsr")]  # it wants contiguous dense matrices
NO_GRADIENT = ("isnan", "zeros_like", "element", "float")


def other_matrix(library, dtype="float64"):
    return (library.arange(24.0, dtype=library.float64).reshape(4, 6) / 7 - 1).to(
        getattr(library, dtype)
    )


@pytest.mark.parametrize("name, layout", CASES)
def test_gradients(name, layout):
    """Against finite differences in the values."""
    if name in NO_GRADIENT:
        pytest.skip("not differentiable, or of one precision")
    function = FUNCTIONS[name][0]
    sparse = make(rushlight, layout)
    dense = other_matrix(rushlight).requires_grad_()

    def of_values(values, dense):
        x = rushlight.sparse._tensor.with_values(sparse, values)
        return dense_of(function(rushlight, x, dense))

    values = rushlight._C._sparse_parts(sparse)[2].clone()
    values = (values + (values == 0) * 0.3).requires_grad_()  # away from the kinks
    assert rushlight.autograd.gradcheck(of_values, (values, dense))


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name, layout", [case for case in CASES if case not in NOT_IN_TORCH])
def test_same_as_torch(name, layout):
    import torch

    function = FUNCTIONS[name][0]
    ours = function(rushlight, make(rushlight, layout), other_matrix(rushlight))
    theirs = function(torch, make(torch, layout), other_matrix(torch))
    assert str(ours.layout) == str(theirs.layout) and ours.shape == theirs.shape
    if name == "mm sparse" and layout == "csr":  # torch leaves the columns in any order
        ours, theirs = ours.to_dense(), theirs.to_dense()
    assert repr(ours) == repr(theirs)
    if ours.layout is rushlight.sparse_coo:
        assert ours.is_coalesced() == theirs.is_coalesced() or not theirs.is_coalesced()


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int64", "bool", "complex64"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_text_of_every_dtype_as_torch(layout, dtype):
    import torch

    assert repr(make(rushlight, layout, dtype)) == repr(make(torch, layout, dtype))


# functions of one leaf, of which torch too has the gradient in the leaf's layout
GRADIENTS = {
    "to_dense": (lambda lib, x, d: (x.to_dense() * d).sum(), ("coo", "csr")),
    "mm": (lambda lib, x, d: ((x @ d.t()) ** 2).sum(), ("coo", "csr")),
    "sum": (lambda lib, x, d: x.sum() * 3, ("coo",)),
}


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_as_torch(name, layout):
    import torch

    function, layouts = GRADIENTS[name]
    if layout not in layouts:
        pytest.skip("torch has no gradient")
    found = []
    for library in (rushlight, torch):
        x = make(library, layout).requires_grad_()
        d = other_matrix(library).requires_grad_()
        function(library, x, d).backward()
        found.append((x.grad, d.grad))
    (ours, ours_dense), (theirs, theirs_dense) = found
    at = [(r, c) for r in range(4) for c in range(6) if VALUES[r][c]]
    for r, c in at:
        assert float(ours.to_dense()[r, c]) == pytest.approx(float(theirs.to_dense()[r, c]))
    if ours_dense is not None:
        assert ours_dense.tolist() == [pytest.approx(row) for row in theirs_dense.tolist()]


# ---- making ----------------------------------------------------------------------------------


def made(library):
    """Of indices and values, by each of the functions."""
    i32 = library.int32
    yield library.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0])
    yield library.sparse_csr_tensor([0, 1, 2], [0, 1], [1.0, 2.0], (2, 3), dtype=library.float64)
    yield library.sparse_csr_tensor(
        library.tensor([0, 2, 2], dtype=i32), library.tensor([0, 2], dtype=i32), [1, 2], (2, 3)
    )
    yield library.sparse_csc_tensor([0, 1, 2], [0, 1], [1.0, 2.0], requires_grad=True)
    yield library.sparse_bsr_tensor([0, 1, 2], [0, 1], library.ones(2, 2, 3))
    yield library.sparse_bsc_tensor([0, 1, 2], [0, 1], library.ones(2, 2, 3), (4, 6))
    yield library.sparse_compressed_tensor(
        [0, 1, 2], [0, 1], [[1.0], [2.0]], layout=library.sparse_csr
    )
    yield library.sparse_csr_tensor([[0, 1], [0, 1]], [[0], [1]], [[1.0], [2.0]], (2, 1, 2))
    yield library.sparse_csr_tensor([0, 0], [], [], (1, 4))
    diagonals = library.arange(6.0).reshape(2, 3)
    for layout in (None, library.sparse_csr, library.sparse_csc):
        yield library.sparse.spdiags(diagonals, library.tensor([0, 1]), (3, 3), layout=layout)


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse")
def test_made_as_torch():
    import torch

    for ours, theirs in zip(made(rushlight), made(torch), strict=True):
        assert repr(ours) == repr(theirs)


def test_values_keep_their_history():
    values = rushlight.tensor([1.0, 2.0], requires_grad=True)
    sparse = rushlight.sparse_csr_tensor([0, 1, 2], [1, 0], values)
    (sparse @ rushlight.tensor([3.0, 4.0])).sum().backward()
    assert values.grad.tolist() == [4, 3]


BAD = [
    (([0, 1, 2], [0, 5], [1.0, 2.0], (2, 2)), "at least 0 and less than 2"),
    (([0, 1, 2], [0, -1], [1.0, 2.0], (2, 2)), "at least 0"),
    (([0, 1, 3], [0, 1], [1.0, 2.0], (2, 2)), "must end with"),
    (([1, 1, 2], [0, 1], [1.0, 2.0], (2, 2)), "must begin with 0"),
    (([0, 2, 2], [1, 0], [1.0, 2.0], (2, 2)), "sorted and different"),
    (([0, 2, 2], [1, 1], [1.0, 2.0], (2, 2)), "sorted and different"),
    (([0, 3, 2], [0, 1], [1.0, 2.0], (2, 2)), "steps"),
    (([0, 1, 2], [0, 1], [1.0, 2.0, 3.0], (2, 2)), "values"),
    (([0, 1, 1, 2], [0, 1], [1.0, 2.0], (2, 2)), "3 elements"),
    (([0, 1, 2], [0.0, 1.0], [1.0, 2.0], (2, 2)), "same dtype"),
    (([0.0, 1, 2], [0.0, 1.0], [1.0, 2.0], (2, 2)), "int32 or int64"),
    (([0, 1, 2], [[0, 1]], [1.0, 2.0], (2, 2)), "number of dims"),
    (([0, 1, 2], [0, 1], 1.0, (2, 2)), "dims"),
    (([0, 1, 2], [0, 1], [1.0, 2.0], (2,)), "size must have 2"),
    (([0, 1, 2], [0, 1], [1.0, 2.0], (-2, 2)), "negative"),
    (([0, 1, 2], [0, 1], [[1.0], [2.0]], (2, 2, 2)), "dense dims"),
    ((rushlight.zeros(0).long(), rushlight.zeros(0).long(), [], (0, 2)), "at least one"),
]


@pytest.mark.parametrize("arguments, text", BAD)
@pytest.mark.parametrize("by_column", [False, True])
def test_bad_indices_are_refused(arguments, text, by_column):
    function = rushlight.sparse_csc_tensor if by_column else rushlight.sparse_csr_tensor
    with pytest.raises(RuntimeError, match=text):
        function(*arguments)


def test_bad_blocks_and_layouts_are_refused():
    blocks = rushlight.ones(2, 2, 3)
    for size in ((4, 5), (3, 6), (4, 6, 1)):
        with pytest.raises(RuntimeError):
            rushlight.sparse_bsr_tensor([0, 1, 2], [0, 1], blocks, size)
    with pytest.raises(RuntimeError, match="no elements"):
        rushlight.sparse_bsr_tensor([0, 1, 2], [0, 1], rushlight.ones(2, 0, 3), (0, 6))
    with pytest.raises(RuntimeError, match="layout must be"):
        rushlight.sparse_compressed_tensor([0, 1], [0], [1.0])
    with pytest.raises(RuntimeError, match="torch.sparse_csr, not torch.sparse_csc"):
        rushlight.sparse_csr_tensor([0, 1], [0], [1.0], layout=rushlight.sparse_csc)
    dense = rushlight.eye(4)
    for call in (
        lambda: dense.to_sparse(layout=rushlight.sparse_bsr),
        lambda: dense.to_sparse(layout=rushlight.sparse_csr, blocksize=(2, 2)),
        lambda: dense.to_sparse_bsr((3, 2)),
        lambda: dense.to_sparse_bsr((0, 2)),
        lambda: dense[0].to_sparse_csr(),
        lambda: dense.to_sparse(1, layout=rushlight.sparse_csr),
    ):
        with pytest.raises(RuntimeError):
            call()


# ---- the seam --------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_errors_name_operation_and_layout(layout):
    sparse = make(rushlight, layout)
    for name, call in {
        "exp": lambda: sparse.exp(),
        "cumsum": lambda: rushlight.cumsum(sparse, 0),
        "view": lambda: sparse.view(24),
        "__eq__": lambda: sparse == sparse,
        "conv1d": lambda: rushlight.conv1d(sparse, rushlight.ones(1, 4, 1)),
    }.items():
        with pytest.raises(NotImplementedError, match=f"{name}: .*sparse_{layout}"):
            call()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", [(4, 6), (0, 6)])
def test_the_core_refuses_what_has_no_rule(layout, size):
    """Behind the back of the rules in Python: no elements, no views, whatever the size."""
    block = {"blocksize": (1, 2)} if layout in ("bsr", "bsc") else {}
    sparse = rushlight.ones(size).to_sparse(layout=getattr(rushlight, f"sparse_{layout}"), **block)
    with rushlight._C._SubclassesOff():
        for call in (
            lambda: rushlight.exp(sparse),
            lambda: rushlight.add(sparse, sparse),
            lambda: rushlight.cumsum(sparse, 0),
            lambda: rushlight.sum(sparse, 0),
            lambda: rushlight.transpose(sparse, 0, 1),
            lambda: rushlight.ones(size).copy_(sparse),
        ):
            with pytest.raises(NotImplementedError, match="layout sparse_"):
                call()


def test_buffers_and_arrays_are_refused():
    sparse = make(rushlight, "csr")
    with pytest.raises(BufferError):
        memoryview(sparse)
    with pytest.raises(TypeError):
        sparse.numpy()
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        sparse.data = rushlight.ones(4, 6)


BY_ROW, BY_COLUMN, COO = ("csr", "bsr"), ("csc", "bsc"), ("coo",)
PARTS = {
    "crow_indices": BY_ROW, "col_indices": BY_ROW, "ccol_indices": BY_COLUMN,
    "row_indices": BY_COLUMN, "indices": COO, "coalesce": COO, "is_coalesced": COO,
    "_indices": COO, "_values": COO,
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_other_layouts_are_refused(name):
    right = PARTS[name]
    for layout in LAYOUTS:
        sparse = make(rushlight, layout)
        if layout in right:
            getattr(sparse, name)()
        else:
            with pytest.raises(RuntimeError, match=f"{name} expected sparse"):
                getattr(sparse, name)()
    with pytest.raises(RuntimeError, match="Strided"):
        getattr(rushlight.ones(2, 2), name)()


# ---- life in a program -----------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_pickles_and_files(layout):
    leaf = make(rushlight, layout).requires_grad_()
    for copied in (copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf)), copy.copy(leaf)):
        assert copied is not leaf and copied.requires_grad and copied.layout is leaf.layout
        assert repr(copied) == repr(leaf)
    file = io.BytesIO()
    rushlight.save(leaf.detach(), file)
    file.seek(0)
    assert repr(rushlight.load(file)) == repr(leaf.detach())


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_from_and_for_torch(layout, tmp_path):
    import torch

    for writer, reader in ((rushlight, torch), (torch, rushlight)):
        writer.save(make(writer, layout), tmp_path / "file.pt")
        assert repr(reader.load(tmp_path / "file.pt")) == repr(make(reader, layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_assert_close(layout):
    sparse = make(rushlight, layout)
    close, far = sparse * (1 + 1e-9), sparse * 1.1
    rushlight.testing.assert_close(close, sparse)
    with pytest.raises(AssertionError, match="not close"):
        rushlight.testing.assert_close(far, sparse)
    with pytest.raises(AssertionError, match="layout"):
        rushlight.testing.assert_close(sparse, sparse.to_dense(), allow_subclasses=True)
    rushlight.testing.assert_close(
        sparse, sparse.to_dense(), check_layout=False, allow_subclasses=True
    )
    with pytest.raises(AssertionError, match="number of specified values"):
        rushlight.testing.assert_close(rushlight.zeros_like(sparse), sparse)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_place(layout):
    sparse = make(rushlight, layout)
    same = sparse.mul_(2).neg_()
    assert same is sparse
    assert rushlight.equal(sparse.to_dense(), rushlight.tensor(VALUES, dtype=sparse.dtype) * -2)
    sparse.copy_(make(rushlight, layout))
    assert sparse.to_dense().tolist() == VALUES
    assert not sparse.zero_().to_dense().any() and sparse._nnz() == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_one_leaf_add_up(layout):
    leaf = make(rushlight, layout).requires_grad_()
    for _ in range(2):
        (leaf.to_dense().sum() + (2 * leaf).to_dense().sum() + (leaf * 3).sum()).backward()
    assert leaf.grad.layout is leaf.layout
    expected = (leaf.detach().to_dense() != 0) * 12.0
    at = expected != 0
    assert rushlight.equal(leaf.grad.to_dense()[at], expected[at].to(leaf.dtype))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sparse_parameters_train(layout):
    weight = nn.Parameter(make(rushlight, layout))
    assert isinstance(weight, nn.Parameter) and weight.layout is make(rushlight, layout).layout
    optimizer = rushlight.optim.SGD([weight], lr=0.25)
    with pytest.raises(RuntimeError, match="in place"):
        weight.mul_(2)
    (weight.to_dense() ** 2).sum().backward()
    optimizer.step()
    assert rushlight.equal(weight.detach().to_dense(), make(rushlight, layout).to_dense() / 2)


def test_a_graph_convolution_trains():
    rushlight.manual_seed(0)
    adjacency = (rushlight.rand(8, 8) < 0.4).float().to_sparse_csr()
    features, targets = rushlight.randn(8, 5), rushlight.randint(0, 3, (8,))
    layers = [nn.Linear(5, 16), nn.Linear(16, 3)]
    parameters = [p for layer in layers for p in layer.parameters()]
    optimizer = rushlight.optim.Adam(parameters, lr=0.05)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        hidden = (adjacency @ layers[0](features)).relu()
        loss = nn.functional.cross_entropy(adjacency @ layers[1](hidden), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_lines_beyond_the_size_may_be_there_if_nothing_is_in_them():
    blocks = rushlight.ones(2, 2, 2)
    x = rushlight.sparse_bsr_tensor([0, 1, 2, 2, 2], [0, 1], blocks, (4, 4))
    assert x.crow_indices().tolist() == [0, 1, 2]
    assert x.to_dense().sum().item() == 8
    with pytest.raises(RuntimeError, match="crow_indices must have 3 elements"):
        rushlight.sparse_bsr_tensor([0, 1, 1, 2], [0, 1], blocks, (4, 4))


def test_dense_products_go_into_out():
    eye, out = rushlight.eye(3).to_sparse_csr(), rushlight.zeros(3)
    assert rushlight.matmul(eye, rushlight.arange(3.0), out=out) is out
    assert out.tolist() == [0, 1, 2]
    with pytest.raises(NotImplementedError, match="mm: out= with a sparse result"):
        rushlight.mm(eye, eye, out=rushlight.zeros(3, 3))


@pytest.mark.parametrize("layout", LAYOUTS)
class TestProductsAndFills:
    def test_products_that_add(self, layout):
        sparse, dense = make(rushlight, layout), rushlight.tensor(VALUES, dtype=rushlight.float64)
        vector, other = rushlight.arange(6.0).double(), rushlight.ones(4).double()
        expected = 2 * other + 3 * (dense @ vector)
        result = rushlight.addmv(other, sparse, vector, beta=2, alpha=3)
        assert rushlight.allclose(result, expected)
        out = rushlight.empty(4).double()
        assert rushlight.addmv(other, sparse, vector, out=out) is out
        assert rushlight.allclose(out, other + dense @ vector)
        changed = rushlight.ones(4, 2).double()
        right = rushlight.ones(6, 2).double()
        assert changed.addmm_(sparse, right, beta=2) is changed
        assert rushlight.allclose(changed, 2 + dense @ right)

    def test_a_linear_layer_with_sparse_weights(self, layout):
        sparse, dense = make(rushlight, layout), rushlight.tensor(VALUES, dtype=rushlight.float64)
        bias = rushlight.arange(4.0).double()
        for shape in ((6,), (2, 6), (3, 2, 6)):
            x = rushlight.randn(shape).double()
            expected = nn.functional.linear(x, dense, bias)
            assert rushlight.allclose(nn.functional.linear(x, sparse, bias), expected)
        x = rushlight.randn(5, 6).double()
        expected = nn.functional.linear(dense, x)
        assert rushlight.allclose(nn.functional.linear(sparse, x), expected)

    def test_rows_columns_and_elements(self, layout):
        for dtype in ("float64", "int8", "bool"):
            sparse = make(rushlight, layout, dtype)
            dense = sparse.to_dense()
            for dim in range(2):
                for index in range(dense.shape[dim]):
                    part = sparse.select(dim, index)
                    assert part.dtype is dense.dtype
                    assert rushlight.equal(part.to_dense(), dense.select(dim, index))
            assert rushlight.equal(sparse[3, 4], dense[3, 4]) and sparse[3, 4].dtype is dense.dtype
            rows = rushlight.stack([row.to_dense() for row in sparse])
            assert rushlight.equal(rows, dense)
            assert [type(part) for part in (sparse.unbind(), sparse.unbind(1))] == [tuple, tuple]
        with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"):
            sparse[0, 0] = 1

    def test_results_go_into_a_sparse_tensor(self, layout):
        sparse = make(rushlight, layout)
        out = rushlight.zeros_like(sparse)
        assert rushlight.sin(sparse, out=out) is out
        assert rushlight.equal(out.to_dense(), sparse.to_dense().sin())
        assert rushlight.equal(nn.functional.relu(sparse, inplace=True).to_dense(),
                               rushlight.tensor(VALUES).double().relu())  # fmt: skip
        if layout == "coo":
            assert rushlight.sin(sparse.t(), out=out) is out and out.shape == (6, 4)
            assert rushlight.equal(out.to_dense(), sparse.to_dense().sin().t())
            return
        with pytest.raises(RuntimeError, match="shape"):
            rushlight.sin(make(rushlight, layout, values=VALUES[:2]), out=out)

    def test_types_of_results(self, layout):
        sparse = make(rushlight, layout, "int32")
        assert rushlight.result_type(sparse, 1.5) is rushlight.float32
        with pytest.warns(UserWarning, match="copy construct"):
            assert rushlight.tensor(sparse).layout is sparse.layout
        assert sparse.new_tensor([1]).tolist() == [1]
        with pytest.raises(RuntimeError, match="a number is not added"):
            1 - sparse


@pytest.mark.parametrize("layout", COMPRESSED)
def test_new_elements_at_the_same_places(layout):
    sparse = make(rushlight, layout)
    places = sparse.to_dense() != 0
    assert rushlight.equal(rushlight.full_like(sparse, 3).values().unique(),
                           rushlight.tensor([3.0]).double())  # fmt: skip
    ones = rushlight.ones_like(sparse, dtype=rushlight.float32, requires_grad=True)
    assert ones.dtype is rushlight.float32 and ones.requires_grad and ones.layout is sparse.layout
    assert bool((ones.to_dense()[places] == 1).all())
    assert rushlight.randn_like(sparse).values().shape == sparse.values().shape
    assert bool((sparse.clone().fill_(2).to_dense()[places] == 2).all())


@pytest.mark.parametrize("target", COMPRESSED)
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_conversions_keep_the_dtype_of_indices(layout, target):
    sparse = make(rushlight, layout)
    compressed, plain, _ = rushlight._C._sparse_parts(sparse)
    small = rushlight.sparse_compressed_tensor(
        compressed.int(), plain.int(), sparse.values(), sparse.shape, layout=sparse.layout
    )
    blocks = {"blocksize": (2, 3)} if target in ("bsr", "bsc") else {}
    made = small.to_sparse(layout=getattr(rushlight, f"sparse_{target}"), **blocks)
    assert {part.dtype for part in rushlight._C._sparse_parts(made)[:2]} == {rushlight.int32}
    total = small + make(rushlight, layout, values=[row[::-1] for row in VALUES])
    assert rushlight._C._sparse_parts(total)[0].dtype is rushlight.int32


def test_sampled_products_of_batches():
    patterns = rushlight.tensor([[[1.0, 0], [0, 2]], [[0, 3], [4, 0]]]).to_sparse_csr()
    a, b = rushlight.randn(2, 2, 3), rushlight.randn(2, 3, 2)
    result = rushlight.sparse.sampled_addmm(patterns, a, b, beta=2, alpha=3).to_dense()
    dense = patterns.to_dense()
    assert rushlight.allclose(result, (2 * dense + 3 * (a @ b)) * (dense != 0))
    matrix = patterns[0]
    result = rushlight.sparse.sampled_addmm(matrix, a, b, beta=2, alpha=3)
    dense = matrix.to_dense()
    assert rushlight.allclose(result.to_dense(), (2 * dense + 3 * (a @ b)) * (dense != 0))
    out = rushlight.ones_like(result)
    assert rushlight.sparse.sampled_addmm(matrix, a, b, beta=2, alpha=3, out=out) is out
    assert rushlight.equal(out.values(), result.values())
    with pytest.raises(RuntimeError, match="batches differ"):
        rushlight.sparse.sampled_addmm(patterns, a[:1], b)


@pytest.mark.parametrize("shapes", [
    ((2, 3, 4), (3, 4)), ((2, 1, 4), (1, 3, 4)), ((3, 4), (2, 3, 4)), ((3, 4), ()), ((), (3, 4)),
    ((2, 3), (2, 1)),
])  # fmt: skip
def test_products_of_coo_tensors_broadcast(shapes):
    def integers(shape):
        return rushlight.randint(-2, 3, shape).double()

    a, b = map(integers, shapes)
    product = a.to_sparse() * b.to_sparse()
    assert product.layout is rushlight.sparse_coo and rushlight.equal(product.to_dense(), a * b)
    if a.dim() == 3 and b.dim() == 3:  # the last dim is dense
        product = a.to_sparse(2) * b.to_sparse(2)
        assert rushlight.equal(product.to_dense(), a * b)


def test_a_new_dim_among_dense_ones():
    dense = rushlight.arange(24.0).view(2, 3, 4)
    for sparse in (dense.to_sparse(1), dense.to_sparse(2), dense.to_sparse()):
        for dim in range(-4, 4):
            assert rushlight.equal(sparse.unsqueeze(dim).to_dense(), dense.unsqueeze(dim))
    with pytest.raises(IndexError, match="unsqueeze"):
        sparse.unsqueeze(4)


def test_a_number_is_the_value_of_the_one_element():
    empty = rushlight.zeros(0, 1, dtype=rushlight.int64)
    assert rushlight.sparse_coo_tensor(empty, 1.5, ()).to_dense().item() == 1.5
    assert rushlight.sparse_coo_tensor([[1]], 2.0, (3,)).to_dense().tolist() == [0, 2, 0]


def test_a_dim_that_is_named_twice():
    with pytest.raises(RuntimeError, match="appears multiple times"):
        rushlight.eye(2).to_sparse().sum([0, 0])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_strided_layout_may_be_asked_for(layout):
    sparse = make(rushlight, layout)
    assert rushlight.equal(sparse.to_sparse(layout=rushlight.strided), sparse.to_dense())
    dense = sparse.to_dense()
    assert dense.to_sparse(layout=rushlight.strided) is dense
    with pytest.raises(RuntimeError, match="but the layout is torch.strided"):
        dense.to_sparse(layout=rushlight.strided, blocksize=(2, 2))


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_new_tensors_of_a_sparse_layout(layout):
    kind = getattr(rushlight, f"sparse_{layout}")
    dense = rushlight.ones(2, 3, dtype=rushlight.float64)
    made = [
        rushlight.zeros(2, 3, layout=kind, dtype=rushlight.float64),
        rushlight.empty(size=(2, 3), layout=kind, dtype=rushlight.float64),
        rushlight.zeros_like(dense, layout=kind), dense.new_zeros((2, 3), layout=kind),
        dense.new_empty(2, 3, layout=kind),
    ]  # fmt: skip
    for tensor in made:
        assert (tensor.layout, tensor.dtype, tensor._nnz()) == (kind, rushlight.float64, 0)
        assert rushlight.equal(tensor.to_dense(), rushlight.zeros_like(dense))
    assert rushlight.zeros((4, 2, 3), layout=kind, requires_grad=True).requires_grad
    assert rushlight.zeros(2, layout=rushlight.strided).layout is rushlight.strided
    for call in (
        lambda: rushlight.rand(2, 3, layout=kind), lambda: rushlight.ones_like(dense, layout=kind),
        lambda: rushlight.zeros(2, 2, layout=rushlight.sparse_bsr),
        lambda: rushlight.arange(3, layout=kind),
    ):  # fmt: skip
        with pytest.raises(NotImplementedError, match="only the layout torch.strided"):
            call()
    if layout != "coo":
        assert rushlight.full((2, 3), 1.5, layout=kind)._nnz() == 0
        with pytest.raises(RuntimeError, match="at least 2 dims"):
            rushlight.zeros(3, layout=kind)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", [*LAYOUTS, "strided"])
def test_zeros_like_in_another_layout(layout, target):
    sparse = make(rushlight, layout)
    kind = rushlight.strided if target == "strided" else getattr(rushlight, f"sparse_{target}")
    if target in ("bsr", "bsc") and layout not in ("bsr", "bsc"):
        with pytest.raises(RuntimeError, match="has blocks"):
            rushlight.zeros_like(sparse, layout=kind)
        return
    zeros = rushlight.zeros_like(sparse, layout=kind, requires_grad=True)
    assert (zeros.layout, zeros.dtype, zeros.requires_grad) == (kind, sparse.dtype, True)
    assert rushlight.equal(zeros.to_dense(), rushlight.zeros(4, 6, dtype=rushlight.float64))


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_layouts_without_blocks_take_no_blocksize(layout):
    sparse = make(rushlight, layout)
    with pytest.raises(RuntimeError, match="has no blocks"):
        sparse.to_sparse(layout=sparse.layout, blocksize=(1, 1))


def test_data_is_not_asked_once_something_was_volatile():
    """Then every call is looked at; what it is given as data is data all the same."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = rushlight.autograd.Variable(rushlight.ones(2), volatile=True)
        sparse = rushlight.eye(2).to_sparse()
        assert rushlight.tensor(sparse).layout is rushlight.as_tensor(sparse).layout
    assert kept.volatile


def test_sums_of_small_integers_do_not_wrap():
    """Along dims they were of the input's dtype; values at equal indices were added in it."""
    values = rushlight.tensor([200, 100, 50], dtype=rushlight.uint8)
    twice = rushlight.sparse_coo_tensor([[0, 0, 1], [1, 1, 0]], values, (2, 3))
    assert twice.sum().item() == 350 and rushlight.sparse.sum(twice, (0, 1)).item() == 350
    for dim, expected in ((0, [50, 300, 0]), (1, [300, 50])):
        for keepdim in (False, True):
            total = twice.sum(dim, keepdim)
            assert total.dtype is rushlight.int64 and total.layout is rushlight.sparse_coo
            assert total.to_dense().flatten().tolist() == expected
    assert twice.sum((0, 1), True).to_dense().tolist() == [[350]]
    assert twice.sum(0, dtype=rushlight.float32).to_dense().tolist() == [50.0, 300.0, 0.0]
    assert rushlight.sparse.sum(twice, 0).dtype is rushlight.uint8  # as in torch
    csr = rushlight.tensor([[200, 100], [0, 7]], dtype=rushlight.uint8).to_sparse_csr()
    assert csr.sum(1, True).to_dense().tolist() == [[300], [7]]
    hybrid = rushlight.full((2, 2), 200, dtype=rushlight.uint8).to_sparse(1)
    assert hybrid.sum((0, 1)).item() == 800 and hybrid.sum(1).to_dense().tolist() == [400, 400]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_methods_called_as_functions_of_tensor(layout):
    """`Tensor.to_dense(sparse)` was the sparse tensor itself, `Tensor.dense_dim(sparse)` 2."""
    sparse, of = make(rushlight, layout), rushlight.Tensor
    assert of.to_dense(sparse).layout is rushlight.strided
    assert of.to_dense(sparse).tolist() == VALUES
    assert of.to_dense(sparse, masked_grad=False).tolist() == VALUES
    assert of.dense_dim(sparse) == 0 and of.type(sparse) == "torch.sparse.DoubleTensor"
    assert of.to_sparse(sparse).layout is rushlight.sparse_coo
    assert of.to_sparse_coo(sparse).to_dense().tolist() == VALUES
    assert of._nnz(sparse) == sparse._nnz() and not of.is_shared(sparse)
    assert of.__repr__(sparse) == repr(sparse)
    with pytest.raises(TypeError, match="to_dense"):
        of.numpy(sparse)
    if layout == "coo":
        assert of.sparse_dim(sparse) == 2 and of.new(sparse, 3).layout is rushlight.sparse_coo
        assert of.narrow_copy(sparse, 0, 1, 2).to_dense().tolist() == VALUES[1:3]
        assert of.sparse_resize_and_clear_(sparse.clone(), (5, 6), 2, 0).shape == (5, 6)
    else:
        with pytest.raises(RuntimeError, match="coordinate"):
            of.narrow_copy(sparse, 0, 1, 2)
    assert of.share_memory_(sparse).is_shared()
    dense = rushlight.ones(2)
    assert of.to_dense(dense) is dense and of.dense_dim(dense) == 1


def test_the_checks_of_indices_by_themselves():
    indices, values = rushlight.tensor([[0, 1]]), rushlight.tensor([1.0, 2.0])
    check = rushlight._validate_sparse_coo_tensor_args
    assert check(indices, values, (3,)) is None and check(indices, values, (3,), True) is None
    with pytest.raises(RuntimeError, match="size is 1 but found index 1"):
        check(indices, values, (1,))
    with pytest.raises(RuntimeError, match="not sorted"):
        check(indices.flip(1), values, (3,), True)
    check = rushlight._validate_sparse_compressed_tensor_args
    for layout in COMPRESSED:
        sparse = make(rushlight, layout)
        by_row = layout in ("csr", "bsr")
        parts = (
            (sparse.crow_indices(), sparse.col_indices())
            if by_row
            else (sparse.ccol_indices(), sparse.row_indices())
        )
        assert check(*parts, sparse.values(), sparse.shape, sparse.layout) is None
        with pytest.raises(RuntimeError, match="less than"):
            check(parts[0], parts[1] + 9, sparse.values(), sparse.shape, sparse.layout)
    rows = make(rushlight, "csr")
    check_indices = rushlight._validate_compressed_sparse_indices
    for is_crow in (True, False):
        check_indices(is_crow, rows.crow_indices(), rows.col_indices(), 4, 6, rows._nnz())
        with pytest.raises(RuntimeError, match="less than 5"):
            check_indices(is_crow, rows.crow_indices(), rows.col_indices(), 4, 5, rows._nnz())
    with pytest.raises(RuntimeError, match="3 elements"):
        check_indices(True, rows.crow_indices(), rows.col_indices(), 4, 6, 3)
    with pytest.raises(RuntimeError, match="layout must be one of"):
        check(*parts, sparse.values(), sparse.shape, rushlight.strided)


@pytest.mark.parametrize("layout", COMPRESSED)
def test_a_dense_dim_is_selected(layout):
    dense = rushlight.randn(2, 4, 6, 3)
    options = {"blocksize": (2, 3)} if layout in ("bsr", "bsc") else {}
    for x in (dense, dense[0]):
        sparse = x.to_sparse(layout=getattr(rushlight, f"sparse_{layout}"), dense_dim=1, **options)
        found = sparse.select(-1, 1)
        assert found.layout is sparse.layout and found.to_dense().equal(x.select(-1, 1))


def test_more_of_coordinate_tensors():
    twice = rushlight.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 3))
    number = rushlight.tensor(2.0).to_sparse()
    for product in (twice * number, number * twice):
        assert not product.is_coalesced() and product.to_dense().tolist() == [[0, 6, 0], [0, 0, 0]]
    pair = rushlight.sparse_coo_tensor(rushlight.zeros(0, 2), [1.0, 2.0], ())
    assert (pair * pair).to_dense().item() == 9
    out = twice.clone()
    assert rushlight.zeros((2, 3), out=out) is out and out._nnz() == 0
    assert rushlight.empty((2, 3), layout=rushlight.sparse_coo, out=twice.clone())._nnz() == 0
    for name, expected in (("floor_divide_", 1), ("divide_", 1.5), ("subtract_", None)):
        changed = twice.clone().coalesce()
        if expected is None:
            assert getattr(changed, name)(twice.coalesce()).to_dense().count_nonzero() == 0
        else:
            assert getattr(changed, name)(2).to_dense()[0, 1].item() == expected
    changed = twice.coalesce()
    changed //= 2
    assert changed.to_dense()[0, 1].item() == 1
    assert twice.coalesce().div_(2, rounding_mode="floor").to_dense()[0, 1].item() == 1
    repeated = rushlight._sparse_broadcast_to(twice, (4, 2, 3))
    assert repeated.to_dense().equal(twice.to_dense().expand(4, 2, 3))
    for shape in ((2, 4), (3,)):
        with pytest.raises(RuntimeError, match="broadcast"):
            rushlight._sparse_broadcast_to(twice, shape)
    for dim in (2, -3):
        with pytest.raises(RuntimeError, match="narrow_copy"):
            twice.narrow_copy(dim, 0, 1)
    with pytest.raises(RuntimeError, match="same shape"):
        rushlight.cat([twice, rushlight.ones(2, 2).to_sparse()])
    with pytest.raises(RuntimeError, match="same sparse_dim and dense_dim"):
        rushlight.cat([twice, rushlight.ones(2, 3).to_sparse(1)])


@pytest.mark.parametrize(
    ("diagonals", "offsets", "shape", "layout", "message"),
    [
        ([[1.0]], [0], (2,), None, "must be 2d"),
        ([[[1.0]]], [0], (2, 2), None, "vector or matrix"),
        ([[1.0]], [[0]], (2, 2), None, "scalar or vector"),
        ([[1.0]], [0.0], (2, 2), None, "dtype Long"),
        ([[1.0], [2.0]], [0], (2, 2), None, "does not match"),
        ([[1.0], [2.0]], [0, 0], (2, 2), None, "duplicate"),
        ([[1.0]], [0], (2, 2), rushlight.sparse_bsr, "layouts"),
    ],
)
def test_what_spdiags_refuses(diagonals, offsets, shape, layout, message):
    with pytest.raises(RuntimeError, match=message):
        rushlight.sparse.spdiags(
            rushlight.tensor(diagonals), rushlight.tensor(offsets), shape, layout
        )
