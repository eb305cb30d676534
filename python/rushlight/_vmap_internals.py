"""`vmap` under the path where it was before `torch.func`."""

import functools

import rushlight
from rushlight.func import vmap

__all__ = ["vmap"]


def _vmap(func, in_dims=0, out_dims=0, allow_none_pass_through=False):
    """`vmap`; in a tuple of results None may stand for a tensor, if that is allowed."""
    if not allow_none_pass_through:
        return vmap(func, in_dims, out_dims)

    @functools.wraps(func)
    def mapped(*args):
        absent = []

        def without_none(*inputs):
            results = func(*inputs)
            if not isinstance(results, tuple):
                return results
            absent.extend(result is None for result in results)
            return tuple(rushlight.zeros(()) if r is None else r for r in results)

        results = vmap(without_none, in_dims, out_dims)(*args)
        if not absent:
            return results
        return tuple(None if none else result for none, result in zip(absent, results))

    return mapped
