"""Trees of containers: take their leaves out, change them, and put them back.

Lists, tuples, named tuples, dicts, ordered and default dicts, deques and registered types are
nodes; everything else is a leaf, None too. Dicts keep their order.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

from rushlight import Size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from typing_extensions import Self


NodeDef = namedtuple("NodeDef", ["type", "flatten_fn", "unflatten_fn", "flatten_with_keys_fn"])

SUPPORTED_NODES = {}


class SequenceKey(namedtuple("SequenceKey", ["idx"])):
    """A step of a path into a sequence."""

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Sequence[Any]) -> Any:
        return sequence[self.idx]


class MappingKey(namedtuple("MappingKey", ["key"])):
    """A step of a path into a mapping."""

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Mapping[Any, Any]) -> Any:
        return mapping[self.key]


class GetAttrKey(namedtuple("GetAttrKey", ["name"])):
    """A step of a path to an attribute."""

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, instance: Any) -> int:
        return getattr(instance, self.name)


def register_pytree_node(
    cls: type[Any],
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make instances of `cls` nodes.

    Args:
        cls: the type; subclasses stay leaves.
        flatten_fn: instance -> (list of children, context).
        unflatten_fn: (children, context) -> instance.
        serialized_type_name: the type's name in the text of `treespec_dumps`.
        to_dumpable_context: context -> what that text has for it, by default its JSON.
        from_dumpable_context: the way back.
        flatten_with_keys_fn: instance -> (list of (key, child), context), for paths.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    if serialized_type_name is not None or to_dumpable_context is not None:
        from rushlight.utils import _treespec_json as text

        names = text.Names(serialized_type_name, to_dumpable_context, from_dumpable_context)
        text.register(cls, names)


def _register_namedtuple(cls: type[Any], *, serialized_type_name: str) -> None:
    """Let `treespec_dumps` write named tuples of this class under a name."""
    from rushlight.utils import _treespec_json as text

    text.register(cls, text.Names(serialized_type_name))


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return the shape of a tree as text, in torch's JSON.

    Args:
        protocol: of the text: 1, or None.
    """
    from rushlight.utils._treespec_json import dumps

    return dumps(treespec, protocol)


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the shape of a tree that `treespec_dumps` has written."""
    from rushlight.utils._treespec_json import loads

    return loads(serialized)


def _sequence_keys(tree, flatten):
    children, context = flatten(tree)
    return [(SequenceKey(i), child) for i, child in enumerate(children)], context


def _register_sequence(cls, flatten, unflatten):
    register_pytree_node(
        cls,
        flatten,
        unflatten,
        flatten_with_keys_fn=lambda tree: _sequence_keys(tree, flatten),
    )


def _register_mapping(cls, context_of, rebuild):
    def flatten(tree):
        return list(tree.values()), context_of(tree)

    def flatten_with_keys(tree):
        return [(MappingKey(key), child) for key, child in tree.items()], context_of(tree)

    register_pytree_node(cls, flatten, rebuild, flatten_with_keys_fn=flatten_with_keys)


_register_sequence(list, lambda tree: (tree, None), lambda children, _: list(children))
_register_sequence(tuple, lambda tree: (list(tree), None), lambda children, _: tuple(children))
_register_sequence(
    deque,
    lambda tree: (list(tree), tree.maxlen),
    lambda children, maxlen: deque(children, maxlen=maxlen),
)
_register_sequence(
    namedtuple,
    lambda tree: (list(tree), type(tree)),
    lambda children, kind: kind(*children) if hasattr(kind, "_fields") else kind(children),
)
_register_sequence(Size, lambda tree: (list(tree), None), lambda children, _: tuple(children))
_register_mapping(dict, list, lambda children, keys: dict(zip(keys, children, strict=True)))
_register_mapping(
    OrderedDict, list, lambda children, keys: OrderedDict(zip(keys, children, strict=True))
)
_register_mapping(
    defaultdict,
    lambda tree: [tree.default_factory, list(tree)],
    lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
)


def _node_type(tree):
    """Return the type under which `tree` is registered, or None for a leaf."""
    kind = type(tree)
    if kind in SUPPORTED_NODES:
        return kind
    return namedtuple if issubclass(kind, tuple) and _is_named(kind) else None


def _is_named(kind):
    """Is it of named tuples, or the C kind of those that functions with several results return?"""
    return hasattr(kind, "_fields") or hasattr(kind, "n_sequence_fields")


def _get_node_type(tree):
    return _node_type(tree) or type(tree)


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Say whether `tree` is a leaf, by its type or because `is_leaf` says so."""
    return (is_leaf is not None and is_leaf(tree)) or _node_type(tree) is None


_is_leaf = tree_is_leaf
PyTree = Context = Any


class TreeSpec:
    """The shape of a tree without its leaves.

    A leaf has type None. `children()` are the specs below, `context` is what else the node's type
    needs to be rebuilt.
    """

    def __init__(self, type: type[Any] | None, context: Any, children: Sequence[TreeSpec]) -> None:
        self.type = type
        self.context = context
        self._children = list(children)
        leaves = 1 if type is None else sum(child.num_leaves for child in self._children)
        self.num_leaves: int = leaves

    @property
    def num_children(self) -> int:
        return len(self._children)

    @property
    def num_nodes(self) -> int:
        return 1 + sum(child.num_nodes for child in self._children)

    def is_leaf(self) -> bool:
        return self.type is None

    def children(self) -> list[Self]:
        return list(self._children)

    def child(self, index: int) -> Self:
        return self._children[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type, self.context, self._children) == (
            other.type,
            other.context,
            other._children,
        )

    def __hash__(self) -> int:
        return hash((self.type, str(self.context), tuple(self._children)))

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        children = ",\n".join(map(repr, self._children)).replace("\n", "\n  ")
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree of this shape with the given leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): got {len(leaves)} leaves for a tree of "
                f"{self.num_leaves} ({self})."
            )
        return leaves[0] if self.type is None else self._build(iter(leaves))

    def _build(self, leaves):
        children = [next(leaves) if c.type is None else c._build(leaves) for c in self._children]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the subtrees of `tree` that stand where this spec has leaves."""
        subtrees = []
        self._collect(tree, subtrees)
        return subtrees

    def _collect(self, tree, subtrees):
        if self.is_leaf():
            subtrees.append(tree)
            return
        kind = _node_type(tree)
        mapping_types = (dict, OrderedDict, defaultdict)
        if kind is not self.type and not (kind in mapping_types and self.type in mapping_types):
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        if self.type in mapping_types:
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(keys) != set(tree):
                raise ValueError(f"Node keys mismatch; expected {keys}, but got {list(tree)}.")
            children = [tree[key] for key in keys]
        else:
            children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
            if len(children) != self.num_children:
                raise ValueError(
                    f"Node arity mismatch; expected {self.num_children}, but got {len(children)}."
                )
            if self.type is not deque and context != self.context:
                raise ValueError(
                    f"Node context mismatch for custom node type {self.type!r}: expected"
                    f" {self.context!r}, but got {context!r}."
                )
        for child, subtree in zip(self._children, children, strict=True):
            child._collect(subtree, subtrees)


_LEAF = TreeSpec(None, None, [])


def LeafSpec() -> Any:
    """Return the spec of a leaf."""
    return _LEAF


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """Return (list of leaves, `TreeSpec`)."""
    leaves = []
    return leaves, _flatten_into(tree, leaves, is_leaf)


def _flatten_into(tree, leaves, is_leaf):
    kind = type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None and isinstance(tree, tuple) and _is_named(kind):
        kind, node = namedtuple, SUPPORTED_NODES[namedtuple]
    if node is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return _LEAF
    before = len(leaves)
    children, context = node.flatten_fn(tree)
    spec = object.__new__(TreeSpec)
    spec.type, spec.context = kind, context
    spec._children = [_flatten_into(child, leaves, is_leaf) for child in children]
    spec.num_leaves = len(leaves) - before
    return spec


def _add_leaves(tree, leaves, is_leaf):
    node = SUPPORTED_NODES.get(type(tree))
    if node is None and isinstance(tree, tuple) and _is_named(type(tree)):
        node = SUPPORTED_NODES[namedtuple]
    if node is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
    else:
        for child in node.flatten_fn(tree)[0]:
            _add_leaves(child, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Return the tree of the given shape and leaves: the inverse of `tree_flatten`."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: expected a TreeSpec, got {type(treespec).__name__}")
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterable[Any]:
    """Iterate over the leaves."""
    yield from tree_leaves(tree, is_leaf)


def tree_leaves(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[Any]:
    """Return the list of leaves."""
    leaves = []
    _add_leaves(tree, leaves, is_leaf)
    return leaves


def tree_structure(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> TreeSpec:
    """Return the `TreeSpec`."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """Return a tree of `func(leaf, ...)`; the `rests` have at least the shape of `tree`."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def tree_map_(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Call `func` on each leaf and return `tree` itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for arguments in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests], strict=True):
        func(*arguments)
    return tree


def _predicate(types_or_predicate):
    if isinstance(types_or_predicate, (type, tuple)):
        return lambda leaf: isinstance(leaf, types_or_predicate)
    if callable(types_or_predicate):
        return types_or_predicate
    return lambda leaf: isinstance(leaf, types_or_predicate)


def map_only(
    type_or_types_or_pred: type[Any], /
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator: the function then leaves everything but the given types as it is."""
    applies = _predicate(type_or_types_or_pred)

    def decorate(func):
        return lambda leaf: func(leaf) if applies(leaf) else leaf

    return decorate


def tree_map_only(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Like `tree_map`, for leaves of the given types, or that a predicate accepts."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Like `tree_map_`, for leaves of the given types, or that a predicate accepts."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(
    pred: Callable[[Any], bool],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Say whether `pred` holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(
    pred: Callable[[Any], bool],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Say whether `pred` holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[tuple[Any, ...], Any]]:
    """Return a list of (path, leaf); a path is a tuple of keys."""
    return list(_walk((), tree, is_leaf))


def _walk(path, tree, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    kind = _node_type(tree)
    if kind is namedtuple and hasattr(tree, "_fields"):
        keyed = [(GetAttrKey(name), child) for name, child in zip(tree._fields, tree, strict=True)]
    elif SUPPORTED_NODES[kind].flatten_with_keys_fn is None:
        raise ValueError(f"{kind} was registered without flatten_with_keys_fn, so it has no paths")
    else:
        keyed, _ = SUPPORTED_NODES[kind].flatten_with_keys_fn(tree)
    for key, child in keyed:
        yield from _walk((*path, key), child, is_leaf)


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """Return (list of (path, leaf), `TreeSpec`)."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Like `tree_map`, with the path as the first argument of `func`."""
    keyed, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(
        func(path, leaf, *others) for (path, leaf), *others in zip(keyed, *columns, strict=True)
    )


def keystr(kp: tuple[Any, ...]) -> str:
    """Return a path as text, such as `['weights'][0]`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """Return what the path leads to in `obj`."""
    for key in kp:
        obj = key.get(obj)
    return obj


# ---- what programs ask besides


def tree_all_only(
    type_or_types: type[Any] | tuple[type[Any], ...],
    /,
    pred: Callable[[Any], bool],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Say whether `pred` holds for all leaves of the given types."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(
    type_or_types: type[Any] | tuple[type[Any], ...],
    /,
    pred: Callable[[Any], bool],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Say whether `pred` holds for some leaf of the given types."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """Return the leaves of the arguments."""
    return tree_leaves((args, kwargs))


def is_namedtuple_class(cls: type[Any]) -> bool:
    """Is it a class of named tuples?"""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def is_namedtuple_instance(obj: Any) -> bool:
    """Is it a named tuple?"""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object | type[Any]) -> bool:
    """Is it a named tuple, or a class of them?"""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> Any:
    """Say whether a class is one of the C kind of named tuple."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields")


def is_structseq_instance(obj: Any) -> Any:
    """Say whether an object is of such a class."""
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> Any:
    """Say whether it is such a class, or an object of one."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def treespec_leaf() -> Any:
    """Return the spec of a leaf."""
    return _LEAF


def treespec_tuple(iterable: Iterable[TreeSpec] = ()) -> TreeSpec:
    """Return the spec of a tuple whose parts have the given specs."""
    return TreeSpec(tuple, None, iterable)


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (), /, **kwargs: TreeSpec
) -> TreeSpec:
    """Return the spec of a dict whose values have the given specs."""
    specs = dict(mapping, **kwargs)
    return TreeSpec(dict, list(specs), specs.values())


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return the spec as text: the tree with `*` for leaves."""

    class Leaf:
        def __repr__(self):
            return "*"

    return repr(treespec.unflatten(Leaf() for _ in range(treespec.num_leaves)))


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Make instances of a dataclass nodes; the fields in `drop_field_names` are lost.

    Args:
        cls: the class, of dataclasses or with a constructor that takes `field_names` by keyword.
        field_names: the fields that are children; by default all.
        drop_field_names: fields that have defaults and are left out.
        serialized_type_name: the class's name in the text of `treespec_dumps`.
    """
    if field_names is None:
        import dataclasses

        if not dataclasses.is_dataclass(cls):
            raise ValueError(f"field_names must list all fields: {cls} is not a dataclass")
        field_names = [field.name for field in dataclasses.fields(cls) if field.init]
    names = [name for name in field_names if name not in (drop_field_names or ())]

    def flatten(obj):
        return [getattr(obj, name) for name in names], None

    register_pytree_node(
        cls,
        flatten,
        lambda children, _: cls(**dict(zip(names, children, strict=True))),
        flatten_with_keys_fn=lambda obj: ([(GetAttrKey(n), getattr(obj, n)) for n in names], None),
        serialized_type_name=serialized_type_name,
    )


def register_constant(cls: type[Any]) -> None:
    """Make instances of `cls` nodes without children: parts of the shape, compared with ==."""
    register_pytree_node(
        cls, lambda obj: ([], obj), lambda _, obj: obj, flatten_with_keys_fn=lambda obj: ([], obj)
    )


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """Return a leaf of `tree` for each leaf of the spec, or None if they do not fit.

    A leaf where the spec has a node stands for all leaves of that node.
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _node_type(tree) is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    pairs = zip(children, treespec.children())
    parts = [_broadcast_to_and_flatten(child, spec, is_leaf) for child, spec in pairs]
    return None if None in parts else [leaf for part in parts for leaf in part]


_register_pytree_node = _private_register_pytree_node = register_pytree_node
_is_leaf = tree_is_leaf

# The functions of the built-in nodes, by the names under which libraries reuse them.
for _name, _kind in {
    "list": list, "tuple": tuple, "dict": dict, "namedtuple": namedtuple,
    "ordereddict": OrderedDict, "defaultdict": defaultdict, "deque": deque,
}.items():  # fmt: skip
    globals()[f"_{_name}_flatten"] = SUPPORTED_NODES[_kind].flatten_fn
    globals()[f"_{_name}_flatten_with_keys"] = SUPPORTED_NODES[_kind].flatten_with_keys_fn
    globals()[f"_{_name}_unflatten"] = SUPPORTED_NODES[_kind].unflatten_fn
