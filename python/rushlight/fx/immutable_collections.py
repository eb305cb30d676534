"""The lists and dicts of a node's arguments: changes go through the node, which counts uses."""

from __future__ import annotations

from typing import Any

from rushlight.utils import _pytree

__all__ = ["immutable_list", "immutable_dict"]


def _refusing(name):
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(
            f"'{type(self).__name__}' does not support {name}: assign to node.args or node.kwargs, "
            "or call node.update_arg"
        )

    refuse.__name__ = name
    return refuse


class immutable_list(list[Any]):
    """A list that cannot be changed."""

    for _name in (
        "__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend", "insert",
        "pop", "remove", "reverse", "sort",
    ):  # fmt: skip
        locals()[_name] = _refusing(_name)
    del _name

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that cannot be changed."""

    for _name in (
        "__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update",
    ):  # fmt: skip
        locals()[_name] = _refusing(_name)
    del _name

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return immutable_dict, (dict(self),)


_pytree.register_pytree_node(
    immutable_list,
    lambda values: (list(values), None),
    lambda values, _: immutable_list(values),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=lambda values: (
        [(_pytree.SequenceKey(i), value) for i, value in enumerate(values)],
        None,
    ),
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda values: (list(values.values()), list(values)),
    lambda values, keys: immutable_dict(zip(keys, values)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=lambda values: (
        [(_pytree.MappingKey(key), value) for key, value in values.items()],
        list(values),
    ),
)
