"""Shapes of trees as JSON, in the format of torch's `treespec_dumps`."""

from __future__ import annotations

import enum
import importlib
import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.utils import _pytree

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.utils._pytree import TreeSpec

PROTOCOL = 1


class Names(NamedTuple):
    """How a type of nodes is written: under which name, and what becomes of the context."""

    name: str | None
    dump: Callable[[Any], Any] | None = None
    load: Callable[[Any], Any] | None = None


_NAMES: dict[Any, Names] = {}


class _Encoder(json.JSONEncoder):
    """JSON of members of enums too."""

    def default(self, obj: Any) -> Any:
        if isinstance(obj, enum.Enum):
            kind = type(obj)
            place = f"{kind.__module__}:{kind.__qualname__}"
            return {"__enum__": True, "fqn": place, "name": obj.name}
        return super().default(obj)


def _with_members(found):
    if "__enum__" not in found:
        return found
    module, _, path = found["fqn"].partition(":")
    return _at(importlib.import_module(module), path)[found["name"]]


def _at(place, path):
    for name in path.split("."):
        place = getattr(place, name)
    return place


def register(kind: type, names: Names) -> None:
    """Let nodes of a type be written."""
    _NAMES[kind] = names


def _dump_named_tuple(kind):
    found = _NAMES.get(kind)
    if found is None:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {kind}: it is not registered by "
            "_register_namedtuple(kind, serialized_type_name=...)"
        )
    return found.name


def _kind_of(name):
    for kind, names in _NAMES.items():
        if names.name == name:
            return kind
    raise NotImplementedError(f"Deserializing {name} in pytree is not registered.")


def _dump_default_dict(context):
    factory, keys = context
    return {
        "default_factory_module": getattr(factory, "__module__", None),
        "default_factory_name": getattr(factory, "__qualname__", None),
        "dict_context": keys,
    }


def _load_default_dict(context):
    module = importlib.import_module(context["default_factory_module"])
    return [_at(module, context["default_factory_name"]), context["dict_context"]]


for _kind, _names in {
    tuple: Names("builtins.tuple"),
    list: Names("builtins.list"),
    dict: Names("builtins.dict"),
    namedtuple: Names("collections.namedtuple", _dump_named_tuple, _kind_of),
    OrderedDict: Names("collections.OrderedDict"),
    defaultdict: Names("collections.defaultdict", _dump_default_dict, _load_default_dict),
    deque: Names("collections.deque"),
}.items():
    register(_kind, _names)


def _to_json(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    names = _NAMES.get(spec.type)
    if names is None and spec.type not in _pytree.SUPPORTED_NODES:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if names is None or names.name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found: give "
            "register_pytree_node a `serialized_type_name`"
        )
    if names.dump is not None:
        context = names.dump(spec.context)
    else:
        try:
            context = json.dumps(spec.context, cls=_Encoder)
        except TypeError as error:
            raise TypeError(
                f"Unable to serialize context of {spec.type}: give register_pytree_node a "
                "`to_dumpable_context`"
            ) from error
    children = [_to_json(child) for child in spec.children()]
    return {"type": names.name, "context": context, "children_spec": children}


def _from_json(found):
    if found["type"] is None:
        return _pytree.treespec_leaf()
    kind = _kind_of(found["type"])
    load = _NAMES[kind].load
    if load is not None:
        context = load(found["context"])
    else:
        context = json.loads(found["context"], object_hook=_with_members)
    return _pytree.TreeSpec(kind, context, [_from_json(c) for c in found["children_spec"]])


def _check_protocol(protocol):
    if protocol != PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{PROTOCOL}]")


def dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The shape as text; see `treespec_dumps`."""
    protocol = PROTOCOL if protocol is None else protocol
    _check_protocol(protocol)
    return json.dumps((protocol, _to_json(treespec)), cls=_Encoder)


def loads(serialized: str) -> TreeSpec:
    """The shape that a text says; see `treespec_loads`."""
    protocol, found = json.loads(serialized)
    _check_protocol(protocol)
    return _from_json(found)
