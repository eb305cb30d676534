"""Generated functions whose arguments, and whose result, are containers."""

from __future__ import annotations

from typing import Any, NamedTuple

import rushlight
from rushlight.fx import _pytree
from rushlight.fx.graph import CodeGen
from rushlight.utils._pytree import TreeSpec, tree_leaves, tree_unflatten


class PytreeInfo(NamedTuple):
    """What the function's signature is: names, the structure of what comes in and what goes out."""

    orig_args: list[str]
    in_spec: TreeSpec
    out_spec: TreeSpec | None


class PytreeCodeGen(CodeGen):
    """Takes containers apart for the placeholders, and puts the result together."""

    def __init__(self, pytree_info: PytreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Any:
        return tree_leaves(args)

    def process_outputs(self, outputs: Any) -> Any:
        spec = self.pytree_info.out_spec
        if spec is None:
            return outputs
        return tree_unflatten(outputs if isinstance(outputs, (list, tuple)) else [outputs], spec)

    def additional_globals(self) -> list[tuple[str, Any]]:
        return [("pytree", rushlight.utils._pytree), ("fx_pytree", _pytree)]

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        names = self.pytree_info.orig_args
        header = super().gen_fn_def(names, maybe_return_annotation)
        if not free_vars:
            return header
        leaves = ", ".join(leaf.split(" ")[0].lstrip("*") for leaf in free_vars)
        given = ", ".join(name.lstrip("*") for name in names)
        return f"{header}\n    {leaves}, = fx_pytree.tree_flatten_spec([{given}], self._in_spec)"

    def generate_output(self, output_args: Any) -> str:
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args)
        return f"return pytree.tree_unflatten({output_args}, self._out_spec)"
