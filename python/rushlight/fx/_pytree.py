"""Trees of containers, flattened by the shape of another."""

from rushlight.utils._pytree import PyTree, TreeSpec

_specs, _exact = {}, {}


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """Say how objects of a class are taken apart by a spec: flatten_fn_spec(object, spec)."""
    _specs[cls], _exact[cls] = flatten_fn_spec, flatten_fn_exact_match_spec


def tree_flatten_spec(pytree, spec, exact_structural_match=False):
    """Return the leaves of a tree that has the shape of `spec`."""
    if spec.is_leaf():
        return [pytree]
    if spec.type in _specs:
        chosen = _exact[spec.type] if exact_structural_match and _exact[spec.type] else (
            _specs[spec.type]
        )  # fmt: skip
        children = chosen(pytree, spec)
    else:
        return spec.flatten_up_to(pytree)
    parts = zip(children, spec.children(), strict=True)
    return [
        leaf for child, below in parts
        for leaf in tree_flatten_spec(child, below, exact_structural_match)
    ]  # fmt: skip


__all__ = ["PyTree", "TreeSpec", "register_pytree_flatten_spec", "tree_flatten_spec"]
