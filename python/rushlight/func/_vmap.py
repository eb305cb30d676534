"""vmap: a function of one example becomes one of a batch."""

import functools

import rushlight
from rushlight.utils._pytree import tree_flatten, tree_unflatten


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """A function that calls `func` for each slice of its inputs and stacks the results.

    Args:
        in_dims: the dim of each input that is sliced; None passes an input whole.
        out_dims: the dim of each output that counts the slices.
        randomness: accepted; random numbers differ from slice to slice.
        chunk_size: accepted; slices are computed one by one.
    """

    @functools.wraps(func)
    def batched(*args, **kwargs):
        flat, structure = tree_flatten(args)
        dims = _flat_dims(in_dims, args, flat)
        sizes = {t.shape[d] for t, d in zip(flat, dims) if d is not None}
        if not sizes:
            raise ValueError(
                "vmap: at least one input must be sliced, but in_dims holds None alone"
            )
        if len(sizes) > 1:
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got "
                f"sizes {sorted(sizes)}"
            )
        outputs = []
        for i in range(sizes.pop()):
            one = [t if d is None else t.select(d, i) for t, d in zip(flat, dims)]
            outputs.append(tree_flatten(func(*tree_unflatten(one, structure), **kwargs)))
        columns = zip(*(leaves for leaves, _ in outputs))
        stacked = [
            rushlight.stack(list(c), d)
            for c, d in zip(columns, _repeat(out_dims, len(outputs[0][0])))
        ]
        return tree_unflatten(stacked, outputs[0][1])

    return batched


def _flat_dims(in_dims, args, flat):
    if in_dims is None or isinstance(in_dims, int):
        return [in_dims if isinstance(leaf, rushlight.Tensor) else None for leaf in flat]
    if len(in_dims) != len(args):
        raise ValueError(f"vmap: in_dims has {len(in_dims)} entries for {len(args)} inputs")
    dims = []
    for d, argument in zip(in_dims, args):
        leaves = tree_flatten(argument)[0]
        own = tree_flatten(d)[0] if isinstance(d, (tuple, list, dict)) else [d] * len(leaves)
        dims += [o if isinstance(leaf, rushlight.Tensor) else None for o, leaf in zip(own, leaves)]
    return dims


def _repeat(out_dims, count):
    return [out_dims] * count if isinstance(out_dims, int) else list(out_dims)
