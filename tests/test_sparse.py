"""Sparse tensors in coordinate layout."""

import copy
import io
import pickle

import pytest

import rushlight
from rushlight import nn
from rushlight.autograd.gradcheck import GradcheckError
from rushlight.sparse import SparseTensor

SHAPE = (4, 5)


def random_dense(shape=SHAPE, share=0.4, dtype=rushlight.float64):
    return rushlight.randn(*shape, dtype=dtype) * (rushlight.rand(*shape) < share)


def random_sparse(shape=SHAPE, sparse_dim=None, count=9, dtype=rushlight.float64):
    """Uncoalesced, some indices twice."""
    sparse_dim = len(shape) if sparse_dim is None else sparse_dim
    indices = rushlight.stack([rushlight.randint(0, n, (count,)) for n in shape[:sparse_dim]])
    indices[:, -1] = indices[:, 0]
    values = rushlight.randn(count, *shape[sparse_dim:], dtype=dtype)
    return rushlight.sparse_coo_tensor(indices, values, shape)


def same(sparse, dense):
    if isinstance(sparse, rushlight.Tensor) and sparse.is_sparse:
        if sparse.is_coalesced():
            keys = rushlight._C._sparse_positions(sparse)
            assert bool((keys[1:] > keys[:-1]).all())
        assert sparse.shape == dense.shape
        sparse = sparse.to_dense()
    if dense.dtype == rushlight.bool:
        return rushlight.equal(sparse, dense)
    return rushlight.allclose(sparse, dense, equal_nan=True)


# name -> the function, for sparse and for dense tensors
FUNCTIONS = {
    "neg": lambda x: -x,
    "abs": lambda x: x.abs(),
    "tanh": rushlight.tanh,
    "relu": lambda x: x.relu(),
    "square": lambda x: x**2,
    "scale": lambda x: 2 * x / 3,
    "by a tensor without dims": lambda x: x * rushlight.tensor(2.0, dtype=rushlight.float64),
    "transpose": lambda x: x.transpose(0, 1),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "permute": lambda x: x.permute(1, 0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "select": lambda x: x[2],
    "element": lambda x: x[1, 2],
    "column": lambda x: x[:, 3],
    "index_select": lambda x: x.index_select(0, rushlight.tensor([3, 0, 3])),
    "cat": lambda x: rushlight.cat([x, x * 2], 1),
    "stack": lambda x: rushlight.stack([x, x]),
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(0),
    "sum of columns": lambda x: x.sum(-1),
    "norm": lambda x: x.norm(),
    "clone": lambda x: x.clone(),
    "double": lambda x: x.to(rushlight.float64),
    "add": lambda x: x + x * 3,
    "sub": lambda x: x - 0.5 * x,
    "mul": lambda x: x * x.tanh(),
    "mul by dense": lambda x: x * rushlight.arange(20.0, dtype=rushlight.float64).view(4, 5),
    "mul by row": lambda x: rushlight.arange(5.0, dtype=rushlight.float64) * x,
    "add to dense": lambda x: rushlight.ones(4, 5, dtype=rushlight.float64) + x,
    "dense minus": lambda x: rushlight.ones(4, 5, dtype=rushlight.float64) - x,
    "matmul": lambda x: x @ rushlight.arange(10.0, dtype=rushlight.float64).view(5, 2),
    "matmul from left": lambda x: rushlight.arange(8.0, dtype=rushlight.float64).view(2, 4) @ x,
    "matrix and vector": lambda x: x @ rushlight.arange(5.0, dtype=rushlight.float64),
    "vector and matrix": lambda x: rushlight.arange(4.0, dtype=rushlight.float64) @ x,
    "square matrix": lambda x: x @ x.t(),
    "addmm": lambda x: rushlight.addmm(
        rushlight.ones(4, 3, dtype=rushlight.float64),
        x,
        rushlight.ones(5, 3, dtype=rushlight.float64),
        beta=0.5,
        alpha=2,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("is_coalesced", [True, False])
def test_functions_and_gradients(name, is_coalesced):
    function = FUNCTIONS[name]
    sparse = random_sparse()
    sparse = (sparse.coalesce() if is_coalesced else sparse).requires_grad_()
    dense = sparse.detach().to_dense().requires_grad_()
    ours, wanted = function(sparse), function(dense)
    assert same(ours, wanted)
    weight = rushlight.randn(wanted.shape, dtype=rushlight.float64)
    ours = ours.to_dense() if ours.is_sparse else ours
    (ours * weight).sum().backward()
    (wanted * weight).sum().backward()
    assert sparse.grad.is_sparse and sparse.grad.shape == SHAPE
    # where nothing is stored, a sparse gradient says nothing
    at = tuple(sparse.coalesce().indices())
    assert rushlight.allclose(sparse.grad.to_dense()[at], dense.grad[at])


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int64"]
)
def test_products_in_every_dtype(dtype):
    sparse = random_sparse().mul(4).to(getattr(rushlight, dtype))
    dense = rushlight.arange(15).reshape(5, 3).to(sparse.dtype)
    for factor in (dense, dense.t().contiguous().t(), dense[:, 0]):
        product = sparse @ factor
        assert product.dtype == sparse.dtype
        assert rushlight.allclose(product, sparse.to_dense() @ factor, 1e-2)


@pytest.mark.parametrize("rows, middle, columns", [(3, 4, 2), (0, 4, 2), (3, 0, 2), (3, 4, 0)])
def test_products_of_nothing(rows, middle, columns):
    sparse = rushlight.zeros(rows, middle).to_sparse().requires_grad_()
    dense = rushlight.ones(middle, columns, requires_grad=True)
    product = sparse @ dense
    assert product.shape == (rows, columns) and not product.any()
    product.sum().backward()
    assert dense.grad.shape == dense.shape and not dense.grad.any()


def test_values_have_gradients():
    indices = rushlight.tensor([[0, 1, 1, 0], [2, 0, 2, 2]])
    values = rushlight.randn(4, dtype=rushlight.float64, requires_grad=True)

    def function(values):
        sparse = rushlight.sparse_coo_tensor(indices, values, (2, 3))
        product = rushlight.sparse.mm(sparse, rushlight.ones(3, 2, dtype=rushlight.float64))
        return (product**2).sum() + rushlight.sparse.softmax(sparse, 1).values().pow(3).sum()

    assert rushlight.autograd.gradcheck(function, (values,))
    assert rushlight.autograd.gradgradcheck(function, (values,))


def test_dense_dims():
    sparse = random_sparse((4, 5, 2), 2)
    assert (sparse.sparse_dim(), sparse.dense_dim(), sparse._nnz()) == (2, 1, 9)
    dense = sparse.to_dense()
    assert same(sparse.coalesce(), dense) and same(sparse.transpose(0, 1), dense.transpose(0, 1))
    assert same(sparse.sum(2), dense.sum(2)) and same(sparse.sum((0, 2)), dense.sum((0, 2)))
    assert same(sparse[1], dense[1]) and same(sparse + sparse, 2 * dense)
    assert same(sparse[:, :, 1], dense[:, :, 1])
    assert same(dense.to_sparse(2), dense) and dense.to_sparse(1).values().shape[1:] == (5, 2)


def test_construction_and_queries():
    sparse = rushlight.sparse_coo_tensor([[0, 1, 0], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    assert type(sparse) is SparseTensor and isinstance(sparse, rushlight.Tensor)
    assert sparse.is_sparse and sparse.layout is rushlight.sparse_coo and not sparse.is_meta
    assert sparse.device == rushlight.device("cpu") and sparse.dtype == rushlight.float32
    assert sparse.shape == (2, 3) and sparse.size(1) == 3 and len(sparse) == 2
    assert not sparse.is_coalesced() and sparse._nnz() == 3
    with pytest.raises(RuntimeError, match="uncoalesced"):
        sparse.values()
    whole = sparse.coalesce()
    assert whole.indices().tolist() == [[0, 1], [2, 0]] and whole.values().tolist() == [8, 4]
    assert whole.coalesce() is whole and whole.to_sparse() is whole
    assert rushlight.sparse_coo_tensor([[0, 4]], [1, 2]).shape == (5,)
    assert rushlight.sparse_coo_tensor(size=(2, 3))._nnz() == 0
    dense = rushlight.ones(2, 3)
    assert not dense.is_sparse and dense.to_dense() is dense and dense.layout is rushlight.strided
    for name in ("coalesce", "indices", "values", "is_coalesced"):
        with pytest.raises(RuntimeError, match="Strided"):
            getattr(dense, name)()


@pytest.mark.parametrize("arguments, text", [
    (([[0, 5]], [1.0, 2.0], (3,)), "found index 5"),
    (([[0, -1]], [1.0, 2.0], (3,)), "found negative index -1 for dim 0"),
    (([[0, 1]], [1.0, 2.0, 3.0], (3,)), "same nnz"),
    (([[0, 1]], [1.0, 2.0], (3, 4)), "not satisfied"),
    (([0, 1], [1.0, 2.0], (3,)), "sparse_dim, nnz"),
    (([[0, 1]], [[1.0], [2.0]], (3, 4)), "values have shape"),
    (([[0, 1]], [1.0, 2.0], (-3,)), "size"),
])  # fmt: skip
def test_bad_indices_are_refused(arguments, text):
    with pytest.raises(RuntimeError, match=text):
        rushlight.sparse_coo_tensor(*arguments)


def test_false_promises_are_refused():
    with pytest.raises(RuntimeError, match="is_coalesced=True"):
        rushlight.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (3,), is_coalesced=True)


REFUSED = [
    lambda x: x.exp(), lambda x: x.view(5, 4), lambda x: x.reshape(20), lambda x: x.numpy(),
    lambda x: x.tolist(), lambda x: x.item(), lambda x: x.data_ptr(), lambda x: x.untyped_storage(),
    lambda x: x[0:2], lambda x: x + 1, lambda x: x + rushlight.ones(4, 5), lambda x: x.max(),
    lambda x: x == x, lambda x: rushlight.equal(x, x), lambda x: rushlight.allclose(x, x),
    lambda x: bool(x), lambda x: x.fill_(1), lambda x: rushlight.ones(4, 5).copy_(x),
    lambda x: memoryview(x),
    lambda x: rushlight.where(x > 0, x, x), lambda x: x.expand(2, 4, 5), lambda x: x.mean(),
    lambda x: rushlight.ones(4, 5).div_(x), lambda x: x.__setitem__(0, 1.0),
    lambda x: rushlight.conv1d(x.unsqueeze(0), x.unsqueeze(0)), lambda x: x.sort(),
    lambda x: rushlight.utils.data.default_collate([x, rushlight.ones(4, 5)]),
    lambda x: rushlight.from_dlpack(x),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_not_supported_says_so(number):
    sparse = random_sparse(dtype=rushlight.float32)
    with pytest.raises((NotImplementedError, RuntimeError, TypeError, BufferError, ValueError)):
        REFUSED[number](sparse)


@pytest.mark.filterwarnings("ignore:To copy construct")
def test_no_function_reads_memory_that_is_not_there():
    """Every function of the library, given sparse tensors: an error, or the dense one's result."""
    checked = 0
    for name, function in rushlight._C._functions[""].items():
        for count in (1, 2):
            sparse = random_sparse(dtype=rushlight.float32).coalesce()
            args, dense = [sparse] * count, [sparse.to_dense()] * count
            try:
                result = function(*args)
            except (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError):
                continue
            results = result if isinstance(result, (tuple, list)) else [result]
            if not any(isinstance(r, rushlight.Tensor) for r in results):
                continue
            wanted = function(*dense)
            wanted = wanted if isinstance(wanted, (tuple, list)) else [wanted]
            for ours, theirs in zip(results, wanted, strict=True):
                assert not ours.is_meta, name
                if name != "empty_like":
                    assert same(ours, theirs), name
            checked += 1
    assert checked > 15


def test_gradients_of_both_kinds_add_up():
    weight = nn.Parameter(rushlight.randn(5, 2, dtype=rushlight.float64))
    looked_up = rushlight.tensor([1, 3, 1])

    def lookup():
        return nn.functional.embedding(looked_up, weight, sparse=True)

    lookup().sum().backward()
    assert weight.grad.is_sparse and weight.grad._nnz() == 3
    lookup().pow(2).sum().backward()
    assert weight.grad.is_sparse
    (lookup().sum() + lookup().sum()).backward()  # added up within a pass
    assert weight.grad.is_sparse
    dense = nn.Parameter(weight.detach().clone())
    for loss in (lambda w: w.sum(), lambda w: w.pow(2).sum(), lambda w: 2 * w.sum()):
        loss(dense[looked_up]).backward()
    assert same(weight.grad, dense.grad)
    for tied in (weight.sum() + lookup().sum(), lookup().sum() + weight.sum(), lookup().sum()):
        tied.backward()
    (3 * dense[looked_up].sum() + 2 * dense.sum()).backward()
    assert not weight.grad.is_sparse and same(weight.grad, dense.grad)
    weight.grad = rushlight.sparse_coo_tensor([[0]], weight.grad[:1], (5, 2))
    assert weight.grad.is_sparse
    with pytest.raises(RuntimeError, match="size"):
        weight.grad = rushlight.sparse_coo_tensor(size=(5, 3), dtype=rushlight.float64)


def test_padding_and_frequency():
    table = nn.Embedding(5, 2, padding_idx=1, sparse=True)
    table(rushlight.tensor([[1, 3], [1, 2]])).sum().backward()
    assert table.weight.grad._indices().tolist() == [[3, 2]]
    table = nn.Embedding(5, 2, scale_grad_by_freq=True, sparse=True)
    with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
        table(rushlight.tensor([1])).sum().backward()


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 1])
def test_bags(mode, padding):
    input, offsets = rushlight.tensor([1, 3, 1, 2, 0, 1]), rushlight.tensor([0, 2, 2, 5])
    bags = [
        nn.EmbeddingBag(5, 2, mode=mode, padding_idx=padding, sparse=sparse).double()
        for sparse in (True, False)
    ]
    bags[1].load_state_dict(bags[0].state_dict())
    ours, wanted = (bag(input, offsets) for bag in bags)
    assert rushlight.allclose(ours, wanted)
    for result in (ours, wanted):
        result.pow(2).sum().backward()
    assert bags[0].weight.grad.is_sparse
    assert same(bags[0].weight.grad, bags[1].weight.grad)


OPTIMIZERS = {
    "SGD": lambda p: rushlight.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: rushlight.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adagrad": lambda p: rushlight.optim.Adagrad(p, lr=0.1),
    "SparseAdam": lambda p: rushlight.optim.SparseAdam(p, lr=0.1),
}


def train(table, optimizer, steps=6):
    for step in range(steps):
        optimizer.zero_grad()
        rows = table(rushlight.tensor([step % 3, 4, 4, 2]))
        (rows**2).sum().backward()
        assert table.weight.grad.is_sparse == table.sparse
        optimizer.step()
    return table.weight.detach()


@pytest.mark.parametrize("name", ["SGD", "SGD with momentum", "Adagrad"])
def test_optimizers_do_the_same_with_sparse_gradients(name):
    tables = [nn.Embedding(5, 3, sparse=sparse) for sparse in (True, False)]
    tables[1].load_state_dict(tables[0].state_dict())
    ours, dense = (train(table, OPTIMIZERS[name](table.parameters())) for table in tables)
    assert rushlight.allclose(ours, dense, atol=1e-6)


def test_optimizers_refuse_sparse_gradients_they_cannot_take():
    table = nn.Embedding(5, 3, sparse=True)
    with pytest.raises(RuntimeError, match="does not support sparse gradients"):
        train(table, rushlight.optim.Adam(table.parameters()))
    optimizer = rushlight.optim.SGD(table.parameters(), lr=0.1)
    train(table, optimizer, 1)
    optimizer.zero_grad(set_to_none=False)
    assert not table.weight.grad.to_dense().any()


def test_copies_pickles_and_files(tmp_path):
    leaf = random_sparse().requires_grad_()
    for copied in (copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf)), copy.copy(leaf)):
        assert type(copied) is SparseTensor and copied.requires_grad and copied is not leaf
        assert copied._indices().tolist() == leaf._indices().tolist()
        assert same(copied.detach(), leaf.detach().to_dense())
    file = io.BytesIO()
    rushlight.save({"sparse": leaf.detach(), "whole": leaf.detach().coalesce()}, file)
    file.seek(0)
    loaded = rushlight.load(file)
    assert not loaded["sparse"].is_coalesced() and loaded["whole"].is_coalesced()
    assert same(loaded["sparse"], leaf.detach().to_dense())
    shared = random_sparse().share_memory_()
    assert shared.is_shared() and shared._indices().is_shared()


def test_nothing_keeps_itself_alive():
    import gc

    sparse = random_sparse().requires_grad_()
    (sparse @ rushlight.ones(5, 2, dtype=rushlight.float64)).sum().backward()
    gc.disable()
    try:
        before = rushlight._C._live_tensors()
        for _ in range(3):
            rushlight.sparse.softmax(random_sparse().requires_grad_(), 1).sum().backward()
        assert rushlight._C._live_tensors() == before
    finally:
        gc.enable()


# ---- against torch ---------------------------------------------------------------------------


def examples(library, indices, values, shape):
    make = library.sparse_coo_tensor
    plain = make(indices, values, shape)
    yield from (plain, plain.coalesce(), plain * 2, plain.t())
    yield from (plain.half(), plain.to(library.int64))
    yield from (make(indices, values, shape, requires_grad=True), make(size=(2, 3)))
    yield make([[0, 1]], [[1, 2], [3, 4]], (3, 2))
    yield make([[0, 1]], [[0.5, 2e6], [3, 4]], (3, 2), dtype=library.float64)
    yield make(library.arange(60).view(2, 30), library.arange(30.0), (60, 90))
    yield library.sparse.sum(plain, 0)
    yield from (library.sparse.softmax(plain, d) for d in (0, 1))
    yield from (library.sparse.log_softmax(plain, d) for d in (0, 1))
    yield from (plain.transpose(0, 1) @ plain, plain - plain * 3, library.cat([plain, plain], 1))


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_same_as_torch():
    import torch

    generator = rushlight.Generator().manual_seed(0)
    indices = rushlight.stack(
        [rushlight.randint(0, n, (7,), generator=generator) for n in SHAPE]
    ).tolist()
    values = rushlight.randn(7, generator=generator).tolist()
    with torch.sparse.check_sparse_tensor_invariants():
        theirs = list(examples(torch, indices, values, SHAPE))
    ours = list(examples(rushlight, indices, values, SHAPE))
    for mine, wanted in zip(ours, theirs, strict=True):
        assert repr(mine) == repr(wanted)


@pytest.mark.torch
def test_sparse_adam_as_torch():
    import torch

    found = []
    for library in (rushlight, torch):
        library.manual_seed(0)
        table = library.nn.Embedding(5, 3, sparse=True)
        optimizer = library.optim.SparseAdam(table.parameters(), lr=0.1)
        for step in range(8):
            optimizer.zero_grad()
            (table(library.tensor([step % 3, 4, 4, 2])) ** 2).sum().backward()
            optimizer.step()
        found.append(rushlight.tensor(table.weight.detach().tolist()))
    assert rushlight.allclose(*found, atol=1e-6)


@pytest.mark.torch
def test_files_from_and_for_torch(tmp_path):
    import torch

    for writer, reader in ((rushlight, torch), (torch, rushlight)):
        sparse = writer.sparse_coo_tensor([[0, 1, 0], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
        writer.save({"a": sparse, "b": sparse.coalesce()}, tmp_path / "file.pt")
        loaded = reader.load(tmp_path / "file.pt")
        assert repr(loaded["a"]) == repr(sparse) and not loaded["a"].is_coalesced()
        assert loaded["b"].is_coalesced()


def test_nodes_of_the_graph_have_torchs_names():
    a = rushlight.tensor([[1.0, 0, 2], [0, 3, 0]]).to_sparse().requires_grad_()
    b, c = rushlight.ones(3, 2, requires_grad=True), rushlight.ones(2, 2, requires_grad=True)
    sparse = rushlight.sparse
    results = {
        "SparseAddmmBackward0": (sparse.mm(a, b), sparse.addmm(c, a, b)),
        "SparseSparseMatmulBackward0": (sparse.mm(a, a.detach().t()), a @ a.detach().t()),
        "SparseMmReduceImplBackward0": (sparse.mm(a.detach().to_sparse_csr(), b, "mean"),),
        "MmBackward0": (a @ b, rushlight.mm(c, a), a.detach().to_sparse_csr() @ b),
        "MvBackward0": (a @ b[:, 0],),
        "AddmmBackward0": (rushlight.addmm(c, a, b),),
        "BmmBackward0": (rushlight.ones(1, 2, 3).to_sparse() @ b[None],),
        "SparseSumBackward0": (sparse.sum(a, 1),),
        "SumBackward0": (sparse.sum(a), a.sum()),
        "SparseSoftmaxBackward0": (sparse.softmax(a, 1),),
        "SparseLogSoftmaxBackward0": (sparse.log_softmax(a, 1),),
        "MulBackward0": (a * 2,),
        "AddBackward0": (a + a,),
        "ToDenseBackward0": (a.to_dense(),),
    }
    for name, tensors in results.items():
        assert [t.grad_fn.name() for t in tensors] == [name] * len(tensors), name
    product = sparse.mm(a, b)
    assert [node and node.name() for node, _ in product.grad_fn.next_functions] == [
        "torch::autograd::AccumulateGrad"
    ] * 2
    product.sum().backward()
    assert a.grad.to_dense().tolist() == [[2, 0, 2], [0, 2, 0]]
    assert b.grad.tolist() == [[1, 1], [3, 3], [2, 2]]


LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("masked", [False, True])
def test_gradcheck_of_sparse_tensors(layout, masked):
    check = rushlight.sparse.as_sparse_gradcheck(rushlight.autograd.gradcheck)
    x = rushlight.tensor([[0, 1], [2, 3]], dtype=rushlight.float64)
    blocks = (1, 1) if layout.startswith("sparse_bs") else None
    sparse = x.to_sparse(layout=getattr(rushlight, layout), blocksize=blocks).requires_grad_()
    counts = []

    def double(t):
        counts.append(t._values().numel() if layout == "sparse_coo" else t.values().numel())
        return t.to_dense() * 2, t

    assert check(double, sparse, masked=masked)
    assert set(counts) == {3 if masked else 4}
    dense = rushlight.ones(2, 1, dtype=rushlight.float64, requires_grad=True)
    assert check(lambda a, b: a.to_dense() @ b, [sparse, dense], masked=masked)

    class Wrong(rushlight.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            return t * 3

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(GradcheckError):
        check(lambda t: Wrong.apply(t.to_dense()), sparse, masked=masked)


def _coo():
    return rushlight.tensor([[0.0, -3, 2], [4, 0, 0]]).to_sparse()


def test_coo_tensors_are_transposed_in_place():
    x = _coo()
    assert x.t_() is x and x.shape == (3, 2)
    assert x.to_dense().tolist() == [[0, 4], [-3, 0], [2, 0]]
    assert x.transpose_(0, 1).to_dense().equal(_coo().to_dense())
    with pytest.raises(RuntimeError, match="in place in layout torch.sparse_csr"):
        _coo().to_sparse_csr().t_()


def test_sparse_tensors_are_resized():
    x = _coo()
    assert x.sparse_resize_((3, 4), 2, 0) is x and x.shape == (3, 4) and x._nnz() == 3
    assert x.to_dense()[:2, :3].equal(_coo().to_dense())
    with pytest.raises(RuntimeError, match="shrinking"):
        x.sparse_resize_((2, 3), 2, 0)
    with pytest.raises(RuntimeError, match="changing the number of sparse"):
        x.sparse_resize_((3, 4), 1, 1)
    assert x.sparse_resize_and_clear_((2, 2, 2), 1, 2)._nnz() == 0 and x.dense_dim() == 2
    assert x.resize_as_(_coo()).shape == (2, 3) and x.sparse_dim() == 2
    assert x.resize_as_sparse_(_coo())._nnz() == 0
    rows = _coo().to_sparse_csr()
    assert rows.resize_(4, 5) is rows and rows.shape == (4, 5)
    assert rows.to_dense()[:2, :3].equal(_coo().to_dense())
    assert rows.resize_(2, 5).crow_indices().tolist() == [0, 2, 3]
    for size, text in (((1, 5), "behind row 1"), ((2, 2), "smaller"), ((2, 5, 1), "2 sizes")):
        with pytest.raises(RuntimeError, match=text):
            rows.resize_(*size)
    with pytest.raises(NotImplementedError, match="sparse_resize_"):
        rushlight.ones(2).sparse_resize_((2,), 1, 0)


def test_a_dense_factor_of_more_dims_repeats_a_sparse_one():
    x, factor = _coo(), rushlight.arange(12.0).reshape(2, 2, 3)
    product = x * factor
    assert product.layout is rushlight.sparse_coo
    assert product.to_dense().equal(x.to_dense() * factor)
    with pytest.raises(RuntimeError, match="broadcast shape"):
        x.mul_(factor)
    assert rushlight.norm(x, 1).item() == 9


def test_conjugate_transposes_of_sparse_matrices():
    x = _coo()
    for sparse in (x, x.to_sparse_csr(), x.to(rushlight.complex64) * 1j):
        expected = sparse.to_dense().mH
        for turned in (sparse.H, sparse.mH, sparse.adjoint()):
            assert turned.to_dense().equal(expected)
    rushlight.manual_seed(0)
    tall = rushlight.randn(20, 4)
    for matrix in (tall, tall.t()):
        u, s, v = rushlight.svd_lowrank(matrix.to_sparse(), q=4)
        assert (u @ s.diag() @ v.mT - matrix).abs().max() < 1e-4


def _sparse_matrix(rows, columns, count, seed=0, dtype=rushlight.float64):
    generator = rushlight.Generator().manual_seed(seed)
    indices = rushlight.stack(
        [rushlight.randint(0, n, (count,), generator=generator) for n in (rows, columns)]
    )
    values = rushlight.randn(count, generator=generator, dtype=dtype)
    return rushlight.sparse_coo_tensor(indices, values, (rows, columns))


def test_chosen_rows_and_columns_of_a_large_matrix():
    # Each index beside each element would be 10^11 comparisons.
    x = _sparse_matrix(300_000, 300_000, 400_000).coalesce()
    index = rushlight.randint(0, 300_000, (250_000,))
    index[1] = index[0]  # twice
    for dim in (0, 1):
        found = x.index_select(dim, index)
        place = int(x.indices()[dim, 7])
        twice = x.index_select(dim, rushlight.tensor([place, place - 300_000]))
        assert twice.shape[dim] == 2 and twice._nnz() == 2 * (x.indices()[dim] == place).sum()
        counts = rushlight.bincount(x.indices()[dim], minlength=300_000)
        assert found._nnz() == counts[index].sum()
        sums = rushlight.zeros(300_000, dtype=x.dtype)
        sums = sums.index_add(0, x.indices()[dim], x.values())
        rushlight.testing.assert_close(found._values().sum(), sums[index].sum())
    small = _sparse_matrix(30, 20, 90)
    index = rushlight.tensor([3, -1, 3, 0, 19], dtype=rushlight.int32)
    for dim in (0, 1):
        expected = small.to_dense().index_select(dim, index.long().remainder(small.shape[dim]))
        assert small.index_select(dim, index).to_dense().equal(expected)
    with pytest.raises(IndexError, match="must have 1 dim"):
        small.index_select(0, index.reshape(1, 5))
    with pytest.raises(IndexError, match="out of range"):
        small.index_select(1, rushlight.tensor([20]))


@pytest.mark.parametrize("width", [1, 70, 5000])  # of which rows meet all, many, or few columns
def test_products_of_sparse_matrices_of_any_width(width):
    a, b = _sparse_matrix(40, 60, 200), _sparse_matrix(60, width, 300, seed=1)
    expected = a.to_dense() @ b.to_dense()
    product = a @ b
    assert product.is_coalesced() and product.indices().diff(dim=1)[0].min() >= 0
    rushlight.testing.assert_close(product.to_dense(), expected)
    rows = a.to_sparse_csr() @ b.to_sparse_csr()
    rushlight.testing.assert_close(rows.to_dense(), expected)
    assert rows.col_indices().equal(product.indices()[1])
    empty = rushlight.sparse_coo_tensor(size=(60, width), dtype=a.dtype)
    assert (a @ empty)._nnz() == 0
    # Columns of a row in any order, and twice, as nobody has checked.
    loose = rushlight.ones(3, 3, dtype=a.dtype).tril().to_sparse_csr()
    loose.col_indices().copy_(rushlight.tensor([2, 1, 0, 2, 0, 0]))
    dense = rushlight.tensor([[0.0, 0, 1], [1, 1, 0], [2, 0, 1]], dtype=a.dtype)
    rushlight.testing.assert_close((loose @ loose).to_dense(), dense @ dense)


@pytest.mark.parametrize("layout", [rushlight.sparse_coo, rushlight.sparse_csr])
def test_products_of_many_matrices_with_a_sparse_one(layout):
    x = rushlight.arange(12.0).view(2, 2, 3).requires_grad_()
    weight = rushlight.tensor([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    expected = rushlight.nn.functional.linear(x, weight)
    (grad,) = rushlight.autograd.grad(expected.sum(), x)
    product = rushlight.nn.functional.linear(x, weight.to_sparse(layout=layout))
    assert product.equal(expected)
    assert rushlight.autograd.grad(product.sum(), x)[0].equal(grad)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        x @ weight.to_sparse(layout=layout)


def test_products_whose_indices_were_spoilt_are_refused():
    a = _sparse_matrix(4, 4, 8).coalesce().to_sparse_csr()
    spoilt = a.clone()
    spoilt.col_indices()[0] = 7
    for product in (lambda: spoilt @ a, lambda: a @ spoilt, lambda: spoilt @ rushlight.ones(4, 2)):
        with pytest.raises(RuntimeError):
            product()
    spoilt = a.clone()
    spoilt.crow_indices()[1] = 100
    for product in (lambda: spoilt @ a, lambda: spoilt @ rushlight.ones(4, dtype=a.dtype)):
        with pytest.raises(RuntimeError):
            product()


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "bsc"])
@pytest.mark.parametrize("width", [None, 1, 3, 40])
def test_gradients_of_products_with_dense_matrices(layout, width):
    pattern = _sparse_matrix(6, 8, 20).coalesce().to_dense()
    matrix = (
        rushlight.randn(8, dtype=pattern.dtype)
        if width is None
        else rushlight.randn(8, width, dtype=pattern.dtype)
    )

    def product(x, y):
        options = {"blocksize": (2, 4)} if layout in ("bsr", "bsc") else {}
        sparse = x.to_sparse(layout=getattr(rushlight, f"sparse_{layout}"), **options)
        return sparse @ y

    rushlight.testing.assert_close(product(pattern, matrix), pattern @ matrix)
    inputs = pattern.clone().requires_grad_(), matrix.clone().requires_grad_()
    weights = rushlight.randn(6, *matrix.shape[1:], dtype=pattern.dtype)
    found = rushlight.autograd.grad((product(*inputs) * weights).sum(), inputs)
    expected = rushlight.autograd.grad(((inputs[0] @ inputs[1]) * weights).sum(), inputs)
    stored = pattern != 0
    if layout in ("bsr", "bsc"):
        blocks = stored.reshape(3, 2, 2, 4).transpose(1, 2).any(-1).any(-1)
        stored = blocks.repeat_interleave(2, 0).repeat_interleave(4, 1)
    rushlight.testing.assert_close(found[0], expected[0] * stored)
    rushlight.testing.assert_close(found[1], expected[1])


def test_gradients_of_sampled_products():
    pattern = _sparse_matrix(5, 7, 12).coalesce().to_sparse_csr()
    a = rushlight.randn(5, 3, dtype=rushlight.float64, requires_grad=True)
    b = rushlight.randn(3, 7, dtype=rushlight.float64, requires_grad=True)

    def sampled(a, b):
        return rushlight.sparse.sampled_addmm(pattern, a, b, beta=0.5, alpha=2).values()

    rows, columns = pattern.to_sparse_coo().indices()
    rushlight.testing.assert_close(
        sampled(a, b), 0.5 * pattern.values() + 2 * (a @ b)[rows, columns]
    )
    assert rushlight.autograd.gradcheck(sampled, (a, b))
    assert rushlight.autograd.gradgradcheck(sampled, (a, b))


@pytest.mark.parametrize("dtype", ["int64", "float16", "float64", "complex64", "complex128"])
def test_sampled_products_of_every_kind_of_number(dtype):
    dtype = getattr(rushlight, dtype)
    pattern = rushlight.eye(3).to(dtype).to_sparse_csr()
    a = rushlight.arange(6).reshape(3, 2).to(dtype)
    b = rushlight.arange(6).reshape(2, 3).to(dtype)
    if dtype.is_complex:
        a, b = a * (1 - 2j), b * 1j
    found = rushlight.sparse.sampled_addmm(pattern, a, b)
    assert found.values().equal(1 + (a @ b).diagonal())


@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.float64])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_times_a_vector(layout, dtype):
    dense = random_dense((70, 90), 0.3, dtype)
    dense[3] = 0
    dense[5] = rushlight.rand(90) + 1
    matrix = getattr(dense, "to_sparse" if layout == "coo" else f"to_sparse_{layout}")()
    vector = rushlight.randn(180, dtype=dtype)[::2]
    assert rushlight.allclose(matrix @ vector, dense @ vector, atol=1e-4)
    recorded = vector.clone().requires_grad_()
    (matrix @ recorded).sum().backward()
    assert rushlight.allclose(recorded.grad, dense.sum(0), atol=1e-4)


def test_a_vector_is_not_read_beyond_its_end():
    starts, columns = rushlight.tensor([0, 1, 2]), rushlight.tensor([0, 1])
    matrix = rushlight.sparse_csr_tensor(starts, columns, rushlight.ones(2), (2, 2))
    matrix.col_indices()[1] = 1000
    with pytest.raises(RuntimeError, match="index 1000 is out of bounds"):
        matrix @ rushlight.ones(2)
    matrix.col_indices()[1] = 1
    matrix.crow_indices()[1] = 5000
    with pytest.raises(RuntimeError, match="has the elements"):
        matrix @ rushlight.ones(2)


def test_rows_begin_where_they_do_in_compressed_layouts():
    rows = rushlight.tensor([1, 1, 1, 4, 4, 6])
    x = rushlight.sparse_coo_tensor(
        rushlight.stack([rows, rushlight.tensor([0, 1, 2, 0, 1, 0])]), rushlight.ones(6), (8, 3)
    ).coalesce()
    assert x.to_sparse_csr().crow_indices().tolist() == [0, 0, 3, 3, 3, 5, 5, 6, 6]
    empty = rushlight.sparse_coo_tensor(size=(3, 2)).coalesce()
    assert empty.to_sparse_csr().crow_indices().tolist() == [0, 0, 0, 0]


def test_subclasses_and_modes_are_asked_for_attributes():
    asked = []

    class Asked(SparseTensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(getattr(func, "__self__", func).__name__)
            return super().__torch_function__(func, types, args, kwargs)

    x = random_sparse().as_subclass(Asked)
    assert x.shape == SHAPE and "shape" in asked
