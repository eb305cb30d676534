"""Text of sparse tensors, as torch lays it out."""

from __future__ import annotations

from rushlight import _C, _printing
from rushlight.sparse._tensor import BSC, COO, CSC


def _named_parts(sparse):
    indices, plain, values = _C._sparse_parts(sparse)
    if sparse.layout is COO:
        return [("indices", indices), ("values", values)]
    by_column = sparse.layout in (CSC, BSC)
    names = ("ccol_indices", "row_indices") if by_column else ("crow_indices", "col_indices")
    return [(names[0], indices), (names[1], plain), ("values", values)]


def _facts(sparse, values):
    yield f"size={tuple(sparse.shape)}"
    yield f"nnz={sparse._nnz()}"
    if not _printing._dtype_is_evident(values, "" if values.numel() else "[]"):
        yield f"dtype={sparse.dtype}"
    yield f"layout={sparse.layout}"
    if sparse.grad_fn is not None:
        yield f"grad_fn=<{sparse.grad_fn.name().rsplit('::', 1)[-1]}>"
    elif sparse.requires_grad:
        yield "requires_grad=True"


def sparse_repr(sparse: bool) -> str:
    """Indices and values, each as a tensor, then size, nnz and layout."""
    indent = " " * len("tensor(")
    contents = []
    for name, part in _named_parts(sparse):
        prefix = f"{name}=tensor("
        shown = _printing._contents(part, len(indent) + len(prefix)) if part.numel() else "[]"
        size = "" if part.numel() else f", size={tuple(part.shape)}"
        contents.append(f"{prefix}{shown}{size})")
    text = "tensor(" + f",\n{indent}".join(contents)
    column = len(text) - text.rfind("\n") + 1
    if sparse.layout is COO:  # what follows begins a line of its own
        column = _printing._options["linewidth"]
    for fact in _facts(sparse, part):
        if column + len(fact) + 2 > _printing._options["linewidth"]:
            text += f",\n{indent}{fact}"
            column = len(indent) + len(fact)
        else:
            text += f", {fact}"
            column += len(fact) + 2
    return text + ")"
