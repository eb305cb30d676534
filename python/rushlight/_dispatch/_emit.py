"""One operation of `torch.ops.aten` by its name: what composite functions are written with."""

from __future__ import annotations

import rushlight
from rushlight import _C
from rushlight._dispatch import call
from rushlight.library._operator import OpOverload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor


def emit(name: str, *args: Any, **kwargs: Any) -> Any:
    """Dispatch `torch.ops.aten.NAME(...)`, whose name ends with that of an overload."""
    bare, _, overload = name.partition(".")
    return call(overload_of(bare, overload or "default"), args, kwargs)


def overload_of(name: str, overload: str) -> OpOverload:
    """torch.ops.aten.NAME.OVERLOAD"""
    return getattr(getattr(rushlight.ops.aten, name), overload)


def opaque(name: str) -> Callable[..., Any]:
    """A function that is one operation with the same arguments."""
    return lambda *args, **kwargs: emit(name, *args, **kwargs)


def by_other(name: str) -> Callable[..., Any]:
    """A function of (input, other, ...), which is one operation of tensors, another of numbers."""

    def choose(input, other, *args, **kwargs):
        kind = "Tensor" if isinstance(other, rushlight.Tensor) else "Scalar"
        return emit(f"{name}.{kind}", input, other, *args, **kwargs)

    return choose


def native(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run a function without showing anybody what it does."""
    with _C.DisableTorchFunction():
        return func(*args, **kwargs)


def sizes_of(x: Tensor, shape: Sequence[int]) -> list[int]:
    """The shape with its -1 replaced."""
    known = 1
    for n in shape:
        known *= n
    known = -known
    return [x.numel() // known if n == -1 and known else n for n in shape]


def _can_view(x, shape):
    if x.is_contiguous():
        return True
    probe = rushlight.empty_strided(x.shape, x.stride(), device="meta")
    try:
        probe.view(shape)
    except RuntimeError:
        return False
    return True


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """x.reshape(shape)"""
    shape = sizes_of(x, shape)
    if native(_can_view, (x, shape), {}):
        return emit("view", x, shape)
    copy = emit("clone", x, memory_format=rushlight.contiguous_format)
    return emit("_unsafe_view", copy, shape)


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """x.flatten(start_dim, end_dim)"""
    if x.dim() == 0:
        return reshape(x, (1,))
    start, end = start_dim % x.dim(), end_dim % x.dim()
    if start == end:
        return x
    count = 1
    for n in x.shape[start : end + 1]:
        count *= n
    return reshape(x, (*x.shape[:start], count, *x.shape[end + 1 :]))


def to(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """x.to(...): nothing, or one copy."""
    options = dict(kwargs)
    for value in args:
        if isinstance(value, rushlight.dtype):
            options["dtype"] = value
        elif isinstance(value, rushlight.Tensor):
            options["other"] = value
        elif isinstance(value, (str, rushlight.device, int)) and not isinstance(value, bool):
            options["device"] = rushlight.device(value)
    other = options.pop("other", None)
    if other is not None:
        options["dtype"], options["device"] = other.dtype, other.device
    copy = options.pop("copy", False)
    options = {k: v for k, v in options.items() if v is not None and v is not False}
    if "device" in options and rushlight.device(options["device"]) == x.device:
        del options["device"]
    if options.get("dtype") is x.dtype:
        del options["dtype"]
    format = options.get("memory_format")
    if (
        options.keys() == {"memory_format"}
        and not copy
        and (format is rushlight.preserve_format or x.is_contiguous(memory_format=format))
    ):
        return x
    if not options and not copy:
        return x
    return emit("_to_copy", x, **options)


def narrow(x: Tensor, dim: int, start: int, end: int) -> Tensor:
    """x from start to end along one dim."""
    return emit("slice.Tensor", x, dim, start, end)


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """a @ b"""
    if a.dim() == 1 and b.dim() == 1:
        return emit("dot", a, b)
    if a.dim() == 2 and b.dim() == 2:
        return emit("mm", a, b)
    if a.dim() == 2 and b.dim() == 1:
        return emit("mv", a, b)
    if a.dim() == 1 and b.dim() == 2:
        return emit("squeeze_.dim", emit("mm", emit("unsqueeze", a, 0), b), 0)
    larger = a if a.dim() >= b.dim() else emit("transpose.int", b, -2, -1)
    if not _folds(a, larger, b if larger is a else a):
        return _batched_matmul(a, b)
    if larger is a:
        return _folded(a, b)
    return emit("transpose.int", _folded(larger, emit("t", a) if a.dim() == 2 else a), -2, -1)


def _folds(a, larger, other):
    """Whether the dims of the larger are put together, for one product of two matrices."""
    if larger.dim() < 3 or other.dim() > 2:
        return False
    if other.requires_grad:
        return True
    if a.dim() == 2:
        return False
    shape, strides = larger.shape, larger.stride()
    pairs = range(larger.dim() - 2)
    return not larger.numel() or all(strides[d] == strides[d + 1] * shape[d + 1] for d in pairs)


def _folded(a, b):
    rows = 1
    for n in a.shape[:-1]:
        rows *= n
    product = emit("mm" if b.dim() == 2 else "mv", reshape(a, (rows, a.shape[-1])), b)
    return emit("_unsafe_view", product, [*a.shape[:-1], *b.shape[1:]])


def _batched_matmul(a, b):
    vector = b.dim() == 1
    if vector:
        b = emit("unsqueeze", b, 1)
    batch = list(rushlight.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    count = 1
    for n in batch:
        count *= n
    rows = list(a.shape[-2:-1])
    a3, b3 = (
        reshape(emit("expand", x, [*batch, *sizes]), (count, *sizes))
        for x, sizes in ((a, (*(rows or (1,)), a.shape[-1])), (b, b.shape[-2:]))
    )
    shape = [*batch, *rows, *([] if vector else b.shape[-1:])]
    return emit("_unsafe_view", emit("bmm", a3, b3), shape)
