"""Products of matrices, and attention."""

import operator

import rushlight
from rushlight import Tensor
from rushlight.func._batching._rules import FUNCTIONS, inside, padded, register
from rushlight.utils._pytree import tree_flatten, tree_unflatten


def _as_matrices(level, a, b):
    """All examples of both, vectors as matrices and dims in line; and the dims to take away."""
    vector_a, vector_b = a.dim() == 1, b.dim() == 1
    rank = max(a.dim(), b.dim(), 2)

    def prepared(t, vector, at):
        found = level.examples(t)
        if found is None:
            return t.unsqueeze(at) if vector else t
        return padded(found.unsqueeze(at) if vector else found, rank)

    return prepared(a, vector_a, -2), prepared(b, vector_b, -1), vector_a, vector_b


def _product(level, a, b):
    """a @ b of stand-ins and plain tensors, for all examples."""
    if a.dim() == 2 and b.dim() == 1 and level.examples(a) is None:
        return rushlight.matmul(level.examples(b), a.mT)  # all vectors at once
    a, b, vector_a, vector_b = _as_matrices(level, a, b)
    result = rushlight.matmul(a, b)
    if vector_a:
        result = result.squeeze(-2)
    return result.squeeze(-1) if vector_b else result


def _matmul(level, func, args, kwargs):
    if len(args) != 2 or kwargs:
        return NotImplemented
    a, b = args if func.__name__ != "__rmatmul__" else args[::-1]
    return level.batched_tensor(_product(level, a, b))


register("matmul", _matmul)


def _inner(level, func, args, kwargs):
    a, b = args
    return _matmul(level, func, (a, b), kwargs) if a.dim() == b.dim() == 1 else NotImplemented


register("inner", _inner)


@inside("linear")
def _linear_parts(input, weight, bias=None):
    product = input @ (weight.t() if weight.dim() == 2 else weight)
    return product if bias is None else product + bias


def _outer(level, func, args, kwargs):
    if len(args) != 2 or kwargs:
        return NotImplemented
    a, b = (t if (f := level.examples(t)) is None else f for t in args)
    return level.batched_tensor(a.unsqueeze(-1) * b.unsqueeze(-2))


register("outer", _outer)


def _scaled_sum(product, args, beta, alpha):
    input, first, second = (a for a in args if isinstance(a, rushlight.Tensor))
    numbers = [a for a in args if not isinstance(a, rushlight.Tensor)]  # in the order of 2017
    beta, alpha = (*numbers, *(beta, alpha)[len(numbers) :])
    found = product(first, second)
    found = found if alpha == 1 else alpha * found
    return beta * input + found if beta else found  # not the NaNs of the input


@inside("add_product")
def _add_product(*args, beta=1, alpha=1):
    return _scaled_sum(operator.matmul, args, beta, alpha)


@inside("add_outer_product")
def _add_outer_product(*args, beta=1, alpha=1):
    if any(isinstance(a, Tensor) and a.dtype is rushlight.bool for a in args):
        return NotImplemented
    return _scaled_sum(rushlight.outer, args, beta, alpha)


def _einsum(level, func, args, kwargs):
    equation, *operands = args
    if not isinstance(equation, str) or "." in equation or kwargs:
        return NotImplemented
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = operands[0]
    letters = equation.replace(" ", "")
    inputs, arrow, output = letters.partition("->")
    if not arrow:
        output = "".join(sorted(c for c in set(inputs) if inputs.count(c) == 1 and c != ","))
    free = next((c for c in "ZYXWVUTSRQ" if c not in letters), None)
    terms = inputs.split(",")
    if free is None or len(terms) != len(operands):
        return NotImplemented
    found = [level.examples(t) for t in operands]
    terms = [t if f is None else free + t for t, f in zip(terms, found)]
    operands = [t if f is None else f for t, f in zip(operands, found)]
    return level.batched_tensor(func(f"{','.join(terms)}->{free}{output}", *operands))


register("einsum", _einsum, FUNCTIONS)


def _attention(level, func, args, kwargs):
    leaves, structure = tree_flatten((args, kwargs))
    rank = max(t.dim() for t in leaves if isinstance(t, Tensor))
    found = [level.examples(leaf) for leaf in leaves]
    leaves = [leaf if f is None else padded(f, rank) for leaf, f in zip(leaves, found)]
    args, kwargs = tree_unflatten(leaves, structure)
    query, key, value = args[:3]
    if query.dim() != key.dim() or query.dim() != value.dim():
        return NotImplemented
    return level.batched_tensor(func(*args, **kwargs))


register("attention", _attention)


def _distances(level, func, args, kwargs):
    x1, x2, *rest = args
    if x1.dim() < 2 or x2.dim() < 2:
        return NotImplemented
    rank = max(x1.dim(), x2.dim())
    found = [level.examples(x) for x in (x1, x2)]
    x1, x2 = (x if f is None else padded(f, rank) for x, f in zip((x1, x2), found))
    return level.batched_tensor(func(x1, x2, *rest, **kwargs))


register("distances", _distances)
