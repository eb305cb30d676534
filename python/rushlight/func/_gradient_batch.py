"""Many gradients in one backward pass: what ops of a node's formula make of the stand-ins that it
is given (src/bind/gradient_batch.cpp)."""

from __future__ import annotations

import ast
import functools

import rushlight
from rushlight import Tensor
from rushlight._set_module import function_of_core
from rushlight.func import _batching  # noqa: F401  registers the rules
from rushlight.func._batching._rules import RULES
from rushlight.func._vmap import Level

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class GradientLevel(Level):
    """The gradients of one backward pass: the examples for which stand-ins stand."""

    def __init__(self, size: int) -> None:
        super().__init__(size, "error")
        self._device: Any = None  # of the gradients

    def mark(self, stand_in: Tensor, examples: Tensor) -> None:
        self._device = examples.device
        stand_in.__dict__["_examples"] = {self: examples}

    def batched_tensor(self, examples: Tensor) -> Tensor:
        one = rushlight.empty(examples.shape[1:], dtype=examples.dtype, device="meta")
        self.mark(one, examples)
        return one

    def compute(self, key: str, args: list[Any]) -> tuple[Tensor | None, ...] | None:
        """The results of an operation for all gradients, or None where it has no rule."""
        found = _calls().get(key)
        if found is None:
            return None
        kind, name, keywords = found
        func = function_of_core(name)
        kwargs = {k: args.pop() for k in reversed(keywords)}
        kwargs = {k: v for k, v in kwargs.items() if v != keywords[k]}  # unknown to rules
        if kind == "factory":
            kwargs["device"] = self._device
            if not isinstance(args[0], rushlight.Size):  # the same for all
                return (func(*args, **kwargs),)
            size, *rest = args
            return (self.batched_tensor(func((self.size, *size), *rest, **kwargs)),)
        result = RULES[kind](self, func, args, kwargs)
        if result is NotImplemented:
            return None
        return (result,) if isinstance(result, Tensor) else tuple(result)


@functools.cache
def _calls():
    """Key -> rule, name in Python, arguments that are keywords there with their defaults."""
    from rushlight._op_rules import CALLS

    found = {}
    for kind, texts in CALLS.items():
        for text in texts:
            key, _, target = text.partition("=")
            name, *keywords = target.split("/")
            defaults = dict(keyword.split(":") for keyword in keywords)
            defaults = {k: ast.literal_eval(v) for k, v in defaults.items()}
            plain = f"Tensor.{key}" if key.endswith("_") else f"torch.{key}"
            found[key] = kind, name or plain, defaults
    return found
