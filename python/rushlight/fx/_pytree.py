"""Trees of containers, flattened by the shape of another."""

from rushlight.utils._pytree import PyTree, TreeSpec


def _by_place(pytree, spec):
    return [pytree[place] for place in range(spec.num_children)]


# A tuple of arguments is given as a list: only the length counts.
_specs = {
    tuple: _by_place,
    list: _by_place,
    dict: lambda pytree, spec: [pytree[key] for key in spec.context],
}
_exact = {
    kind: lambda pytree, spec: list(pytree) if len(pytree) == spec.num_children else []
    for kind in (tuple, list)
}
_exact[dict] = lambda pytree, spec: (
    _specs[dict](pytree, spec) if len(pytree) == spec.num_children else []
)


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
