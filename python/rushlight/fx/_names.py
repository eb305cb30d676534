"""How functions are called in graphs and generated code, and how values get their names there."""

from __future__ import annotations

import builtins
import keyword
import math
import operator
import re
from types import ModuleType

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Tensor

_ARITHMETIC = {
    "add": "+", "sub": "-", "mul": "*", "matmul": "@", "floordiv": "//", "truediv": "/", "mod": "%",
    "pow": "**", "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^",
}  # fmt: skip
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "gt": ">", "le": "<=", "ge": ">="}

# Functions of `operator` that are written as the operators that they are.
OPERATORS = {
    **{name: f"{{}} {symbol} {{}}" for name, symbol in (_COMPARISONS | _ARITHMETIC).items()},
    **{"pos": "+{}", "neg": "-{}", "invert": "~{}", "getitem": "{}[{}]"},
}
IN_PLACE_OPERATORS = {
    f"i{name.rstrip('_')}": f"{{}} {symbol}= {{}}" for name, symbol in _ARITHMETIC.items()
}
REFLECTED_OPERATORS = tuple(_ARITHMETIC)

# Names that generated code uses without asking.
GLOBALS = {
    "inf": math.inf,
    "nan": math.nan,
    "NoneType": type(None),
    "torch": rushlight,
    "device": rushlight.device,
}


def is_operation(value):
    """Is it one of torch.ops, which has a name of three parts there?"""
    return str(getattr(value, "__module__", "")).startswith("torch.ops.")


def is_of_rushlight(value):
    if is_operation(value):
        return True
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if not isinstance(module, str):
        return False
    # As `torch`, rushlight is so named itself; its parts keep their names.
    return module.partition(".")[0] in ("rushlight", rushlight.__name__)


def function_modules() -> Any:
    """The modules whose functions programs name, the more special ones last."""
    names = rushlight
    return (names, names.nn.functional, names.linalg, names.fft, names.special)


def qualified_name(function: Callable[..., Any]) -> str:
    """Where a function is found, as "torch.nn.functional.relu" or "math.sqrt"."""
    name = function.__name__
    if is_operation(function):
        return f"{function.__module__}.{name}"
    if getattr(builtins, name, None) is function:
        return name
    module = getattr(function, "__module__", None)
    if module is None and getattr(rushlight.Tensor, name, None) is function:
        return f"torch.Tensor.{name}"
    if is_of_rushlight(function):
        # The public home of what is defined in a private module.
        for public in function_modules():
            if getattr(public, name, None) is function:
                module = public.__name__
        _, dot, inside = module.partition(".")
        return f"torch{dot}{inside}.{name}"
    return f"{module}.{name}"


def printed_name(target: Tensor) -> str:
    """The name of a node's target in a printed graph."""
    if isinstance(target, str):
        return target
    name = qualified_name(target)
    if getattr(builtins, target.__name__, None) is target:
        return f"builtins.{name}"
    return name.replace("_operator.", "operator.", 1)


def name_of_target(target: Tensor) -> str:
    """A name for the result of calling `target`: "max_pool2d", "layer1.0.conv", "add"."""
    name = target if isinstance(target, str) else target.__name__
    if is_operation(target):
        name = name.removesuffix(".default")
    if name.startswith("__") and name.endswith("__") and len(name) > 4:
        name = name[2:-2]
    return re.sub(r"(?<=[a-z])([A-Z]+)", r"_\1", name).lower()


class Namespace:
    """The names that one graph or one function has given, each once."""

    def __init__(self) -> None:
        self._used = set()
        self._counts = {}
        self._of = {}

    def create_name(self, candidate: str, owner: Any = None) -> str:
        """Return a name that is new and legal, like `candidate`; an owner keeps the one it has."""
        if owner is not None and id(owner) in self._of:
            return self._of[id(owner)][0]
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        stem = re.fullmatch(r"(.*)_(\d+)", candidate)
        base, count = (stem[1], int(stem[2])) if stem else (candidate, 0)
        candidate = f"{base}_{count}" if stem else base
        count = count or self._counts.get(base, 0)
        while candidate in self._used or self._is_illegal(candidate, owner):
            count += 1
            candidate = f"{base}_{count}"
        self._used.add(candidate)
        self._counts[base] = count
        if owner is not None:
            self._of[id(owner)] = candidate, owner  # the owner lives, and its id is not reused
        return candidate

    def associate(self, name: str, owner: Any) -> None:
        """Give an owner a name that is already used up."""
        self._of[id(owner)] = name, owner
        self._used.add(name)

    def forget(self, owner: Any) -> None:
        """Free nothing but the owner: its name stays used."""
        self._of.pop(id(owner), None)

    @staticmethod
    def _is_illegal(name, owner):
        if keyword.iskeyword(name):
            return True
        if name in builtins.__dict__:
            return builtins.__dict__[name] is not owner
        return name in GLOBALS and GLOBALS[name] is not owner


def is_operator(function: Callable[..., Any], table: dict[str, str] = OPERATORS) -> bool:
    name = getattr(function, "__name__", None)
    return name in table and getattr(operator, name) is function
