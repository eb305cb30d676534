"""How many floating-point operations a program's matrix products and convolutions take."""

from __future__ import annotations

import math
import types

import rushlight
from rushlight import Tensor
from rushlight._ignored import warn_of
from rushlight.library._operator import OpOverloadPacket
from rushlight.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from rushlight.overrides import TorchFunctionMode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight.nn.modules.module import Module

# ---- operations of one call, a multiplication and an addition counting 2


def _product(result, a, b, *rest, **options):
    return 2 * result.numel() * a.shape[-1]


def _product_of_second(result, bias, a, b, *rest, **options):
    return 2 * result.numel() * a.shape[-1]


def _convolution(result, x, weight, *rest, **options):
    return 2 * result.numel() * math.prod(weight.shape[1:])


def _transposed_convolution(result, x, weight, *rest, **options):
    return 2 * x.numel() * math.prod(weight.shape[1:])


def _attention(result, query, key, value, *rest, **options):
    scores = math.prod(query.shape[:-1]) * key.shape[-2]
    return 2 * scores * (query.shape[-1] + value.shape[-1])


def _einsum(result, equation, *operands, **options):
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = operands[0]
    if not isinstance(equation, str) or len(operands) != 2:
        return 0
    sizes = {}
    for labels, operand in zip(equation.replace(" ", "").partition("->")[0].split(","), operands):
        sizes.update(_sizes_of_labels(labels, operand.shape))
    return 2 * math.prod(sizes.values())


def _sizes_of_labels(labels, shape):
    before, dots, after = labels.partition("...")
    missing = len(shape) - len(before) - len(after) if dots else 0
    names = [*before, *(f"...{i - missing}" for i in range(missing)), *after]
    return dict(zip(names, shape))


# name -> (how to count, the places of the arguments whose gradients cost as much)
_FORMULAS = {
    "mm": (_product, (0, 1)), "bmm": (_product, (0, 1)), "matmul": (_product, (0, 1)),
    "__matmul__": (_product, (0, 1)), "linear": (_product, (0, 1)), "mv": (_product, (0, 1)),
    "addmm": (_product_of_second, (1, 2)), "baddbmm": (_product_of_second, (1, 2)),
    "conv1d": (_convolution, (0, 1)), "conv2d": (_convolution, (0, 1)),
    "conv3d": (_convolution, (0, 1)),
    "conv_transpose1d": (_transposed_convolution, (0, 1)),
    "conv_transpose2d": (_transposed_convolution, (0, 1)),
    "conv_transpose3d": (_transposed_convolution, (0, 1)),
    "scaled_dot_product_attention": (_attention, (0, 1)),
    "einsum": (_einsum, (1, 2)),
}  # fmt: skip


def _operation(name, args, gradient=False):
    """The operation of `torch.ops.aten` under which a call, or its gradient, is counted."""
    aten = rushlight.ops.aten
    if name.startswith("conv"):
        return aten.convolution_backward if gradient else aten.convolution
    if name == "scaled_dot_product_attention":
        return aten._scaled_dot_product_flash_attention_for_cpu
    if name == "einsum" or name in ("bmm", "baddbmm"):
        return aten.bmm if gradient or name != "baddbmm" else aten.baddbmm
    if name in ("addmm", "linear"):
        has_bias = name == "addmm" or (len(args) > 2 and args[2] is not None)
        return aten.addmm if has_bias and not gradient else aten.mm
    if name in ("matmul", "__matmul__", "mm", "mv"):
        batched = all(isinstance(a, Tensor) and a.dim() > 2 for a in args[:2])
        return aten.bmm if batched else aten.mm
    return name


class FlopCounterMode:
    """A context that counts the operations of products, convolutions and attention within it, of
    their gradients too.

    Args:
        mods: accepted for compatibility: all modules are seen.
        depth: how many levels of modules `get_table` shows.
        display: print the table at the end.

    Example:
        >>> with FlopCounterMode(display=False) as counter:
        ...     y = rushlight.ones(2, 3) @ rushlight.ones(3, 4)
        >>> counter.get_total_flops()
        48
    """

    depth: int
    display: bool
    flop_counts: dict[str, dict[Any, Any]]

    def __init__(
        self,
        mods: Module | list[Module] | None = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        warn_of("FlopCounterMode", "all modules are seen", mods=mods)
        self.depth, self.display = depth, display
        self._formulas = dict(_FORMULAS)
        for op, formula in (custom_mapping or {}).items():
            self._formulas[op.__name__.partition(".")[0]] = (_of_formula(formula), ())
        self.flop_counts = {"Global": {}}
        super().__init__()

    def get_total_flops(self) -> int:
        """The sum of all."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """{name of a module, or "Global": {operation: count}}"""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: Any = None) -> str:
        """The counts as text."""
        depth = self.depth if depth is None else depth
        lines = [f"{'Module':<40} {'FLOP':>16} {'% Total':>8}"]
        total = self.get_total_flops() or 1
        for name, counts in self.flop_counts.items():
            if name.count(".") <= depth:
                count = sum(counts.values())
                lines.append(f"{name:<40} {count:>16,} {100 * count / total:>7.2f}%")
        return "\n".join(lines)

    def __enter__(self) -> Self:
        self._stack, self.flop_counts = [], {"Global": {}}
        self._mode = _Counting(self)
        self._hooks = [
            register_module_forward_pre_hook(self._begin),
            register_module_forward_hook(self._end, always_call=True),
        ]
        self._mode.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._mode.__exit__(*exception)
        for hook in self._hooks:
            hook.remove()
        if self.display:
            print(self.get_table())

    def _begin(self, module, args):
        names = {id(m): n for n, m in self._stack[0][0].named_modules()} if self._stack else {}
        path = names.get(id(module), "") if self._stack else ""
        root = type(self._stack[0][0] if self._stack else module).__name__
        self._stack.append((module, f"{root}.{path}" if path else root))

    def _end(self, module, args, output):
        if self._stack:
            self._stack.pop()

    def _count(self, name, func, args, kwargs, result):
        if not isinstance(result, Tensor):
            return
        formula, places = self._formulas[name]
        count = formula(result, *args, **kwargs)
        homes = ["Global", *dict.fromkeys(path for _, path in self._stack)]
        if places:
            op = _operation(name, args)
        elif hasattr(func, "_overloadname"):
            op = func.overloadpacket
        else:
            op = getattr(rushlight.ops.aten, name, name)
        self._add(homes, op, count)
        needed = sum(
            isinstance(args[i], Tensor) and args[i].requires_grad for i in places if i < len(args)
        )
        if result.requires_grad and needed:
            again = _operation(name, args, gradient=True)
            result.register_hook(lambda grad: self._add(homes, again, needed * count))

    def _add(self, homes, op, count):
        for home in homes:
            counts = self.flop_counts.setdefault(home, {})
            counts[op] = counts.get(op, 0) + count


class _Counting(TorchFunctionMode):
    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self._counter = counter

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").partition(".")[0]
        name = _NAMES.get(name, name)
        if name in self._counter._formulas:
            result = func(*args, **kwargs)
            self._counter._count(name, func, args, kwargs, result)
            return result
        inner = _written_in_python(func, name)
        if inner is None:
            return func(*args, **kwargs)
        with self:  # what it calls counts
            return inner(*args, **kwargs)


_NAMES = {
    f"__{prefix}{name}__": name
    for name in ("add", "sub", "mul", "pow")
    for prefix in ("", "r", "i")
}


def _written_in_python(func, name):
    if name == "backward":
        return rushlight.autograd.backward
    if name == "grad" and func is rushlight.autograd.grad:
        return rushlight.autograd._grad
    inner = getattr(func, "__wrapped__", None)
    return inner if isinstance(inner, types.FunctionType) else None


def _of_formula(formula):
    """A formula of shapes, or if it says so (`_get_raw`) of tensors, as one of those above."""
    if getattr(formula, "_get_raw", False):
        return lambda result, *args, **kwargs: formula(*args, **kwargs, out_val=result)

    def count(result, *args, **kwargs):
        shapes = [a.shape if isinstance(a, Tensor) else a for a in args]
        return formula(*shapes, out_shape=result.shape, **kwargs)

    return count


def register_flop_formula(targets: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates a function of the shapes of an operation's arguments that counts its operations."""

    def register(formula):
        count = _of_formula(formula)
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    "register_flop_formula: expected each target to be OpOverloadPacket, got "
                    f"{target}"
                )
            _FORMULAS[target.__name__.partition(".")[0]] = (count, ())
        return formula

    return register


__all__ = ["FlopCounterMode", "register_flop_formula"]
