"""Sparse tensors in coordinate (COO) layout, with gradients.

Other layouts (CSR, CSC, BSR, BSC) do not exist here: what would make one raises
NotImplementedError.
"""

import rushlight
from rushlight.sparse import _arithmetic, _products, _shapes  # noqa: F401  they fill the table
from rushlight.sparse._coo import SparseTensor, sparse_coo_tensor

__all__ = [
    "SparseTensor",
    "addmm",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "sparse_coo_tensor",
    "spdiags",
    "sum",
]


def _sparse(name, input):
    if not isinstance(input, SparseTensor):
        raise RuntimeError(f"sparse.{name}: expected a sparse COO tensor; see Tensor.to_sparse")
    return input


def mm(mat1, mat2, reduce=None):
    """The product of two matrices of which at least one is sparse.

    Args:
        mat1: (n, m), sparse or dense.
        mat2: (m, p), sparse or dense; the product is sparse if both are.
        reduce: not supported: sums.

    Example:
        >>> eye = rushlight.eye(2).to_sparse()
        >>> rushlight.sparse.mm(eye, rushlight.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    if reduce not in (None, "sum"):
        raise NotImplementedError(f"sparse.mm: reduce={reduce!r}; products are summed")
    if not (mat1.is_sparse or mat2.is_sparse):
        return rushlight.mm(mat1, mat2)
    if mat1.dim() != 2 or mat2.dim() != 2:
        raise RuntimeError(f"sparse.mm: matrices expected, got {mat1.dim()}D and {mat2.dim()}D")
    return _products.matmul(mat1, mat2)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * mat + alpha * (mat1 @ mat2), mat1 sparse."""
    return _products.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input, dim=None, dtype=None):
    """The sum of all elements, or along dims: dense once no sparse dim is left."""
    return _arithmetic.sum(_sparse("sum", input), dim, dtype=dtype)


def softmax(input, dim, *, dtype=None):
    """Softmax over the elements that are there, as if all others were minus infinity."""
    return _products.softmax(_sparse("softmax", input), dim, dtype=dtype)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of `softmax`."""
    return _products.softmax(_sparse("log_softmax", input), dim, log=True, dtype=dtype)


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix with the rows of `diagonals` on the diagonals that `offsets` name."""
    diagonals, offsets = rushlight.atleast_2d(diagonals), rushlight.atleast_1d(offsets)
    row, column = rushlight.meshgrid(
        rushlight.arange(len(offsets)), rushlight.arange(diagonals.size(1)), indexing="ij"
    )
    row, column = row.reshape(-1), column.reshape(-1)
    place = column - offsets[row]
    inside = ((place >= 0) & (place < shape[0]) & (column < shape[1])).nonzero().reshape(-1)
    indices = rushlight.stack([place[inside], column[inside]])
    return sparse_coo_tensor(indices, diagonals[row[inside], column[inside]], shape, layout=layout)


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """Not supported: torch has it for the CSR layout."""
    raise NotImplementedError("sparse.sampled_addmm: the CSR layout is not supported")


class check_sparse_tensor_invariants:  # noqa: N801  (torch's name)
    """Accepted: indices are always checked."""

    def __init__(self, enable=True):
        self._enable = enable

    @staticmethod
    def is_enabled():
        return True

    @staticmethod
    def enable():
        """Do nothing."""

    @staticmethod
    def disable():
        """Do nothing: an index out of range would crash the process."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def __call__(self, function):
        return function


def _missing(name):
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}: sparse tensors are in COO layout here, no other")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


sparse_csr_tensor = _missing("sparse_csr_tensor")
sparse_csc_tensor = _missing("sparse_csc_tensor")
sparse_bsr_tensor = _missing("sparse_bsr_tensor")
sparse_bsc_tensor = _missing("sparse_bsc_tensor")
sparse_compressed_tensor = _missing("sparse_compressed_tensor")
to_sparse_semi_structured = _missing("to_sparse_semi_structured")


def _typed(name, dtype):
    def function(indices, values, size=None):
        return sparse_coo_tensor(indices, values, size, dtype=dtype)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The older name of sparse_coo_tensor, for {dtype}."
    return function


FloatTensor = _typed("FloatTensor", rushlight.float32)
DoubleTensor = _typed("DoubleTensor", rushlight.float64)
HalfTensor = _typed("HalfTensor", rushlight.float16)
LongTensor = _typed("LongTensor", rushlight.int64)
