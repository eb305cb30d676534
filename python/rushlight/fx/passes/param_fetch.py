"""Attributes of layers, at the nodes that call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import nn
from rushlight.fx.graph_module import GraphModule

__all__ = ["default_matching", "extract_attrs_for_lowering", "lift_lowering_attrs_to_nodes"]


def default_matching(name: str, target_version: int) -> str:
    """The name of an attribute in a version of a layer: the same in all."""
    del target_version
    return name


# {layer: (the newest version that is known, names of attributes, their names in versions)}
module_fetch_book: dict[type, tuple[int, list[str], Callable[[str, int], str]]] = {
    kind: (version, names.split(), default_matching)
    for kind, version, names in (
        (nn.Linear, 1, "weight bias"),
        (
            nn.Conv2d,
            1,
            "weight bias kernel_size stride padding dilation groups padding_mode",
        ),
        (nn.BatchNorm2d, 2, "weight bias running_mean running_var eps"),
        (nn.AdaptiveAvgPool2d, 1, ""),
        (nn.MaxPool2d, 1, "kernel_size stride padding dilation return_indices ceil_mode"),
        (nn.ReLU, 1, "inplace"),
    )
}


def extract_attrs_for_lowering(mod: nn.Module) -> dict[str, Any]:
    """The attributes of a layer that `module_fetch_book` names, and its type as "name".

    Raises: RuntimeError for a layer that it does not have, or not in this version.
    """
    name = rushlight.typename(mod)
    if type(mod) not in module_fetch_book:
        raise RuntimeError(f"extract_attrs_for_lowering: module_fetch_book does not have {name}")
    version, attributes, matching = module_fetch_book[type(mod)]
    if version < mod._version:
        raise RuntimeError(
            f"extract_attrs_for_lowering: module_fetch_book has version {version} of {name}, the "
            f"module is of version {mod._version}"
        )
    found = {a: getattr(mod, matching(a, mod._version)) for a in attributes}
    return {"name": name, **found}


def lift_lowering_attrs_to_nodes(fx_module: GraphModule) -> None:
    """Give nodes that call layers `attrs_for_lowering`, in graph modules that are called too."""
    for node in fx_module.graph.nodes:
        if node.op == "call_module":
            called = fx_module.get_submodule(node.target)
            if isinstance(called, GraphModule):
                lift_lowering_attrs_to_nodes(called)
            else:
                node.attrs_for_lowering = extract_attrs_for_lowering(called)
