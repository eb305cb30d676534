"""Sparse tensors with gradients, in the layouts COO, CSR, CSC, BSR and BSC."""

from __future__ import annotations

import rushlight
from rushlight import _absent
from rushlight._ignored import warn_program as _warn_program
from rushlight._numpy_names import takes_numpy_names as _takes_numpy_names
from rushlight._shown_name import shown_as as _shown_as
from rushlight._typed_tensors import TensorMembers as _TensorMembers
from rushlight.sparse import _arithmetic, _products, _shapes  # noqa: F401  they fill the table
from rushlight.sparse._gradcheck import as_sparse_gradcheck
from rushlight.sparse._make import (
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from rushlight.sparse._tensor import SparseTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.types import _dtype, _layout

__all__ = [
    "SparseTensor",
    "addmm",
    "as_sparse_gradcheck",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "sparse_bsc_tensor",
    "sparse_bsr_tensor",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
    "spdiags",
    "sum",
]


def _sparse(name, input):
    if not isinstance(input, SparseTensor):
        raise RuntimeError(f"sparse.{name}: expected a sparse tensor; see Tensor.to_sparse")
    return input


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor:
    """The product of two matrices of which at least one is sparse.

    Args:
        mat1: (n, m), sparse or dense.
        mat2: (m, p), sparse or dense; the product is sparse if both are.
        reduce: "sum", or what is made of each row's products instead, "mean", "amax" or "amin";
            for a CSR tensor times a dense one.

    Example:
        >>> eye = rushlight.eye(2).to_sparse()
        >>> rushlight.sparse.mm(eye, rushlight.tensor([[1.0], [2.0]]))
        tensor([[1.],
                [2.]])
    """
    if not isinstance(mat1, SparseTensor) and not isinstance(mat2, SparseTensor):
        return rushlight.mm(mat1, mat2)
    if mat1.dim() != 2 or mat2.dim() != 2:
        raise RuntimeError(f"sparse.mm: matrices expected, got {mat1.dim()}D and {mat2.dim()}D")
    if reduce is not None:
        return _reduced(mat1, mat2, reduce)
    are_sparse = isinstance(mat1, SparseTensor) and isinstance(mat2, SparseTensor)
    return (_sparse_product if are_sparse else _product)(mat1, mat2)


_reduced = _shown_as("SparseMmReduceImplBackward0", "sparse", "dense")(_products.reduced_product)
_product = _shown_as("SparseAddmmBackward0", "input", "other")(_products.matmul)
_sparse_product = _shown_as("SparseSparseMatmulBackward0", "input", "other")(_products.matmul)


@_shown_as("SparseAddmmBackward0", "mat", "mat1", "mat2")
def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """beta * mat + alpha * (mat1 @ mat2), mat1 sparse."""
    return _products.addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(
    input: Tensor, dim: int | tuple[int, ...] | None = None, dtype: _dtype | None = None
) -> Tensor:
    """The sum of all elements, or along dims: dense once no sparse dim is left."""
    of = _sum_of_all if dim is None else _sum_along
    return of(_sparse("sum", input), dim, dtype=dtype)


_sum_of_all = _shown_as("SumBackward0", "input")(_arithmetic.sum)
_sum_along = _shown_as("SparseSumBackward0", "input")(_arithmetic.sum_along)


@_takes_numpy_names
@_shown_as("SparseSoftmaxBackward0", "input")
def softmax(input: Tensor, dim: int, *, dtype: _dtype | None = None) -> SparseTensor:
    """Softmax over the elements of a COO tensor, as if all others were minus infinity."""
    return _products.softmax(_sparse("softmax", input), dim, dtype=dtype)


@_takes_numpy_names
@_shown_as("SparseLogSoftmaxBackward0", "input")
def log_softmax(input: Tensor, dim: int, *, dtype: _dtype | None = None) -> SparseTensor:
    """The logarithm of `softmax`."""
    return _products.softmax(_sparse("log_softmax", input), dim, log=True, dtype=dtype)


def spdiags(
    diagonals: Any, offsets: Any, shape: Sequence[int], layout: _layout | None = None
) -> Any:
    """A sparse matrix with the rows of `diagonals` on the diagonals that `offsets` name."""
    diagonals, offsets = rushlight.atleast_2d(diagonals), rushlight.atleast_1d(offsets)
    _check_diagonals(diagonals, offsets, shape, layout)
    row, column = rushlight.meshgrid(
        rushlight.arange(len(offsets), device=diagonals.device),
        rushlight.arange(diagonals.size(1), device=diagonals.device),
        indexing="ij",
    )
    row, column = row.reshape(-1), column.reshape(-1)
    place = column - offsets[row]
    inside = ((place >= 0) & (place < shape[0]) & (column < shape[1])).nonzero().reshape(-1)
    indices = rushlight.stack([place[inside], column[inside]])
    matrix = sparse_coo_tensor(indices, diagonals[row[inside], column[inside]], shape)
    return matrix if layout is None else matrix.to_sparse(layout=layout)


def _check_diagonals(diagonals, offsets, shape, layout):
    if layout not in (None, rushlight.sparse_coo, rushlight.sparse_csc, rushlight.sparse_csr):
        raise RuntimeError(
            "spdiags: Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got "
            f"{layout}"
        )
    if len(shape) != 2:
        raise RuntimeError(f"spdiags: Output shape must be 2d, got {tuple(shape)}")
    if diagonals.dim() > 2:
        raise RuntimeError(f"spdiags: Diagonals must be vector or matrix, got {diagonals.dim()}D")
    if offsets.dim() > 1:
        raise RuntimeError(f"spdiags: Offsets must be scalar or vector, got {offsets.dim()}D")
    if offsets.dtype is not rushlight.int64:
        raise RuntimeError(f"spdiags: Offset Tensor must have dtype Long but got {offsets.dtype}")
    if len(offsets) != len(diagonals):
        raise RuntimeError(
            f"spdiags: Number of diagonals ({len(diagonals)}) does not match the number of offsets "
            f"({len(offsets)})"
        )
    if len(offsets.unique()) != len(offsets):
        raise RuntimeError(f"spdiags: Offset tensor contains duplicate values: {offsets.tolist()}")


def sampled_addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: float = 1.0,
    alpha: float = 1.0,
    out: Tensor | None = None,
) -> SparseTensor:
    """beta * input + alpha * (mat1 @ mat2), where a CSR tensor `input` has elements.

    Example:
        >>> eye = rushlight.eye(2).to_sparse_csr()
        >>> rushlight.sparse.sampled_addmm(eye, rushlight.ones(2, 3), rushlight.ones(3, 2)).values()
        tensor([4., 4.])
    """
    result = _products.sampled_addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    return result if out is None else out.copy_(result)


class check_sparse_tensor_invariants:  # noqa: N801  (torch's name)
    """Accepted: indices are always checked."""

    def __init__(self, enable: bool = True) -> None:
        self._enable = enable

    @staticmethod
    def is_enabled() -> bool:
        return True

    @staticmethod
    def enable() -> None:
        """Do nothing."""

    @staticmethod
    def disable() -> None:
        """Do nothing: an index out of range would crash the process."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Any:
        return function


def to_sparse_semi_structured(original_tensor: Tensor, transposed: bool = False) -> Any:
    """Not supported: a layout of CUDA devices."""
    raise NotImplementedError(
        "to_sparse_semi_structured: a layout of CUDA devices, asked for with"
        f" transposed={transposed} for a tensor on {original_tensor.device}"
    )


class _SparseType(_TensorMembers):
    """Calls make sparse tensors of the dtype, and COO tensors of the dtype are instances."""

    is_cuda, is_sparse = False, True
    layout = rushlight.sparse_coo

    def __instancecheck__(cls, instance: Any) -> bool:
        is_sparse = isinstance(instance, SparseTensor) and instance.layout is cls.layout
        return is_sparse and instance.dtype is cls.dtype

    def __call__(cls, *args: Any) -> Tensor:
        name = f"sparse.{cls.__name__}"
        _warn_program(f"{name}: the older name of sparse_coo_tensor, which takes dtype")
        if not args or isinstance(args[0], int):  # sizes alone
            return sparse_coo_tensor(args or (0,), dtype=cls.dtype)
        if len(args) == 1:  # torch.Size
            return sparse_coo_tensor(args[0], dtype=cls.dtype)
        return sparse_coo_tensor(*args, dtype=cls.dtype)


def _typed(name, dtype):
    doc = f"The older name of sparse_coo_tensor, for {dtype}."
    return _SparseType(name, (), {"dtype": dtype, "__doc__": doc, "__module__": __name__})


BFloat16Tensor: Any = _typed("BFloat16Tensor", rushlight.bfloat16)
ByteTensor: Any = _typed("ByteTensor", rushlight.uint8)
CharTensor: Any = _typed("CharTensor", rushlight.int8)
DoubleTensor: Any = _typed("DoubleTensor", rushlight.float64)
FloatTensor: Any = _typed("FloatTensor", rushlight.float32)
HalfTensor: Any = _typed("HalfTensor", rushlight.float16)
IntTensor: Any = _typed("IntTensor", rushlight.int32)
LongTensor: Any = _typed("LongTensor", rushlight.int64)
ShortTensor: Any = _typed("ShortTensor", rushlight.int16)


_SEMI_STRUCTURED = "two of four numbers are left out by NVIDIA's GPUs alone; see sparse_coo_tensor"
globals().update(
    _absent.refused(
        {
            "SparseSemiStructuredTensor": _SEMI_STRUCTURED,
            "SparseSemiStructuredTensorCUSPARSELT": _SEMI_STRUCTURED,
            "SparseSemiStructuredTensorCUTLASS": _SEMI_STRUCTURED,
            "solve": "write linalg.solve(a.to_dense(), b)",
        }
    )
)
