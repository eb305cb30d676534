"""What the backward pass asks of sparse tensors; src/bind/sparse.cpp calls it."""

from rushlight.sparse import _arithmetic, _coo, _functions


def add(a, b):
    """The sum of two gradients, sparse if both are."""
    return _arithmetic.add(a, b) if a.is_sparse and b.is_sparse else _arithmetic.add_to_dense(a, b)


def add_in_place(to, gradient):
    """Add to a gradient that the caller owns."""
    if not to.is_sparse:
        _arithmetic.add_sparse_(to, gradient)
        return
    total = _arithmetic.add(to.detach(), gradient.detach())
    to.__dict__.update(
        coo_indices=total._indices(),
        coo_values=total._values(),
        coo_coalesced=total.is_coalesced(),
    )


def clone(gradient):
    return _functions.clone(gradient)


def cast(gradient, dtype):
    return _functions.to(gradient, dtype)


def make(indices, values, size):
    return _coo.construct(indices, values, size, False)
