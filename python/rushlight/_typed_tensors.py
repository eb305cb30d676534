"""FloatTensor, LongTensor and the like: the older names of tensors of one dtype."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.types import Device


class TensorMembers(type):
    """The class of such types. They have what `Tensor` has: `FloatTensor.abs` is `Tensor.abs`."""

    def __getattr__(cls, name: str) -> Any:
        # What Python asks of a class about itself is no method of tensors.
        if name == "__annotations__" or not hasattr(rushlight.Tensor, name):
            raise AttributeError(f"type object 'torch.{cls.__name__}' has no attribute '{name}'")
        return getattr(rushlight.Tensor, name)

    def __dir__(cls) -> list[str]:
        return sorted({*super().__dir__(), *dir(rushlight.Tensor)})


class _TensorType(TensorMembers):
    """Calls make tensors of the dtype, and tensors of the dtype are instances."""

    is_cuda = is_sparse = False
    layout = rushlight.strided

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, rushlight.Tensor) and instance.dtype is cls.dtype

    def __new__(mcs, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> Any:
        if bases:
            raise TypeError(f"type 'torch.{bases[0].__name__}' is not an acceptable base type")
        return super().__new__(mcs, name, bases, members)

    def __call__(cls, *args: Any, device: Device = None, size: Any = None) -> Tensor:
        if device is not None and rushlight.device(device).type != "cpu":
            raise RuntimeError(
                f"legacy constructor expects device type: cpu but device type: {device} was passed"
            )
        return construct(cls.dtype, rushlight.device("cpu"), args, size)


def _is_size(value: Any) -> bool:
    kind = type(value)  # arrays have both
    return hasattr(kind, "__index__") and not hasattr(kind, "__len__")


def construct(dtype: Any, device: Device, args: tuple[Any, ...], size: Any = None) -> Tensor:
    """A tensor as the older constructors make it: of sizes or data, or over a tensor or storage."""
    if size is not None:
        if args:
            raise TypeError("expected a size or data, got both")
        return rushlight.empty(size, dtype=dtype, device=device)
    if len(args) != 1 or _is_size(args[0]):
        return rushlight.empty(args or (0,), dtype=dtype, device=device)
    (data,) = args
    if isinstance(data, rushlight.Size):
        return rushlight.empty(data, dtype=dtype, device=device)
    if isinstance(data, rushlight.Tensor):
        if data.dtype is not dtype:
            raise TypeError(f"expected a tensor of {dtype}, got {data.dtype}")
        return data.as_subclass(rushlight.Tensor)
    if isinstance(data, (rushlight.UntypedStorage, rushlight.storage.TypedStorage)):
        return rushlight.storage._elements_of(data, dtype)
    return rushlight.tensor(data, dtype=dtype, device=device)


def _named(name: str, dtype: rushlight.dtype) -> type[Tensor]:
    doc = (
        f"Tensors of {dtype}: from a sequence of numbers, or of the given sizes with elements that "
        "are not set."
    )
    return _TensorType(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "rushlight"})


FloatTensor: type[Tensor] = _named("FloatTensor", rushlight.float32)
DoubleTensor: type[Tensor] = _named("DoubleTensor", rushlight.float64)
HalfTensor: type[Tensor] = _named("HalfTensor", rushlight.float16)
BFloat16Tensor: type[Tensor] = _named("BFloat16Tensor", rushlight.bfloat16)
ByteTensor: type[Tensor] = _named("ByteTensor", rushlight.uint8)
CharTensor: type[Tensor] = _named("CharTensor", rushlight.int8)
ShortTensor: type[Tensor] = _named("ShortTensor", rushlight.int16)
IntTensor: type[Tensor] = _named("IntTensor", rushlight.int32)
LongTensor: type[Tensor] = _named("LongTensor", rushlight.int64)
BoolTensor: type[Tensor] = _named("BoolTensor", rushlight.bool)
