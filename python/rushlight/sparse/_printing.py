"""Text of sparse tensors, in torch's layout."""

from rushlight import _printing


def sparse_repr(sparse):
    """Indices and values, each as a tensor, then size, nnz and layout."""
    contents = []
    for name, part in (("indices", sparse._indices()), ("values", sparse._values())):
        prefix = f"{name}=tensor("
        shown = _printing._contents(part, len("tensor(") + len(prefix)) if part.numel() else "[]"
        size = "" if part.numel() else f", size={tuple(part.shape)}"
        contents.append(f"{prefix}{shown}{size})")
    facts = [f"size={tuple(sparse.shape)}", f"nnz={sparse._nnz()}"]
    evident = "" if sparse._nnz() else "[]"
    if not _printing._dtype_is_evident(sparse._values(), evident):
        facts.append(f"dtype={sparse.dtype}")
    facts.append("layout=torch.sparse_coo")
    if sparse.grad_fn is not None:
        facts.append(f"grad_fn=<{sparse.grad_fn.name().rsplit('::', 1)[-1]}>")
    elif sparse.requires_grad:
        facts.append("requires_grad=True")
    indent = " " * len("tensor(")
    return "tensor(" + f",\n{indent}".join([*contents, ", ".join(facts)]) + ")"
