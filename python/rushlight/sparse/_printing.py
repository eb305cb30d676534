"""Text of sparse tensors, in torch's layout."""

from rushlight import _printing


def sparse_repr(sparse):
    """Indices and values, each as a tensor, then size, nnz and layout."""
    contents = []
    for name, part in (("indices", sparse._indices()), ("values", sparse._values())):
        text = _printing.tensor_repr(part)
        if part.numel() == 0:
            text = f"tensor([], size={tuple(part.shape)})"
        elif name == "values" and ", dtype=" in text:  # said once, for the whole
            text = text[: text.rindex(", dtype=")].rstrip() + ")"
        prefix = f"{name}=tensor("
        lines = text.removeprefix("tensor(").splitlines()
        indent = " " * len(f"tensor({name}=")
        shown = [lines[0]] + [indent + line for line in lines[1:]]
        contents.append(prefix + "\n".join(shown))
    facts = [f"size={tuple(sparse.shape)}", f"nnz={sparse._nnz()}"]
    if not _printing._dtype_is_evident(sparse._values(), "values"):
        facts.append(f"dtype={sparse.dtype}")
    facts.append("layout=torch.sparse_coo")
    if sparse.grad_fn is not None:
        facts.append(f"grad_fn=<{sparse.grad_fn.name().rsplit('::', 1)[-1]}>")
    elif sparse.requires_grad:
        facts.append("requires_grad=True")
    indent = " " * len("tensor(")
    return "tensor(" + f",\n{indent}".join([*contents, ", ".join(facts)]) + ")"
