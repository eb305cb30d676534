"""The types that TorchScript has for tensors and devices."""

from __future__ import annotations

import rushlight
from rushlight._tensor import _LEGACY_NAMES, _dtype_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.types import Device, _dtype


class Type:
    """What TorchScript knows of a value before it is there."""

    _name = "Type"

    def kind(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def str(self) -> str:
        """The name that programs have for the type."""
        return self._name

    @property
    def annotation_str(self) -> str:
        """The type as an annotation of a program."""
        return self._name

    def containedTypes(self) -> list[Type]:
        """The types of which it is made: none."""
        return []

    def is_interface_type(self) -> bool:
        """Is it an interface, which several classes of a program have? No."""
        return False

    def isSubtypeOf(self, other: Type) -> bool:
        """Is each value of this type one of the other?"""
        return self == other

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return self._name


class TensorType(Type):
    """The type of tensors, and what is known of them: None where nothing is.

    Example:
        >>> rushlight.TensorType.create_from_tensor(rushlight.zeros(2, 3)).sizes()
        [2, 3]
    """

    _name = "Tensor"

    def __init__(self) -> None:
        raise TypeError("TensorType: No constructor defined! See TensorType.get()")

    @classmethod
    def _known(cls, **known):
        made = cls.__new__(cls)
        made._known_of = known
        return made

    @classmethod
    def get(cls) -> TensorType:
        """The type of all tensors."""
        return cls._known()

    @classmethod
    def getInferred(cls) -> TensorType:
        """The type of what has no annotation: that of all tensors."""
        return cls._known(inferred=True)

    @classmethod
    def create_from_tensor(cls, t: Tensor) -> TensorType:
        """The type of tensors with the sizes, strides, dtype and device of this one."""
        return cls._known(
            sizes=list(t.shape), strides=list(t.stride()), dtype=t.dtype, device=t.device,
            requires_grad=t.requires_grad,
        )  # fmt: skip

    def isSubtypeOf(self, other: Type) -> bool:
        """Is each tensor of this type one of the other?"""
        if not isinstance(other, TensorType):
            return False
        mine, theirs = self._known_of, other._known_of
        return all(mine.get(name) == known for name, known in theirs.items() if name != "inferred")

    def sizes(self) -> list[int] | None:
        """The sizes."""
        return self._known_of.get("sizes")

    varyingSizes = sizes
    symbolic_sizes = sizes

    def strides(self) -> list[int] | None:
        """The strides."""
        return self._known_of.get("strides")

    def dim(self) -> int | None:
        """How many dims there are."""
        sizes = self.sizes()
        return None if sizes is None else len(sizes)

    def dtype(self) -> _dtype | None:
        """The dtype."""
        return self._known_of.get("dtype")

    def scalarType(self) -> Any:
        """The older name of the dtype, as "Float"."""
        dtype = self.dtype()
        return None if dtype is None else _LEGACY_NAMES[_dtype_name(dtype)]

    def device(self) -> rushlight.device | None:
        """The device."""
        return self._known_of.get("device")

    def requires_grad(self) -> bool:
        """May they need a gradient? True where it is not known."""
        return self._known_of.get("requires_grad", True)

    def undefined(self) -> bool:
        """Are there no such tensors?"""
        return False

    def contiguous(self) -> TensorType:
        """The type of such tensors whose elements lie in order."""
        sizes = self.sizes()
        if sizes is None:
            raise RuntimeError("TensorType.contiguous: the sizes are not known")
        strides = [1] * len(sizes)
        for dim in reversed(range(len(sizes) - 1)):
            strides[dim] = strides[dim + 1] * max(1, sizes[dim + 1])
        return self._known(**{**self._known_of, "strides": strides})

    def with_sizes(self, sizes: Sequence[int]) -> TensorType:
        """The type of such tensors of these sizes; their strides are not known."""
        known = {n: v for n, v in self._known_of.items() if n not in ("strides", "inferred")}
        return self._known(**{**known, "sizes": list(sizes)})

    def with_dtype(self, dtype: _dtype) -> TensorType:
        """The type of such tensors of a dtype."""
        return self._known(**{**self._known_of, "dtype": dtype})

    def with_device(self, device: Device) -> TensorType:
        """The type of such tensors on a device."""
        return self._known(**{**self._known_of, "device": rushlight.device(device)})


class _Devices(type):
    """Devices are what programs take for instances of their type."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, rushlight.device) or type.__instancecheck__(cls, instance)


class DeviceObjType(Type, metaclass=_Devices):
    """The type of devices."""

    _name = "Device"

    def __init__(self) -> None:
        raise TypeError("DeviceObjType: No constructor defined! See DeviceObjType.get()")

    @classmethod
    def get(cls) -> Self:
        """The type."""
        return cls.__new__(cls)


def _of_tensors_alone(name):
    def refuse(self, *args):
        raise RuntimeError(f"{self.kind()}.{name}: only the type of tensors has it")

    refuse.__name__, refuse.__qualname__ = name, f"Type.{name}"
    refuse.__doc__ = "Raises RuntimeError: only the type of tensors has it."
    setattr(Type, name, refuse)


for _name in (
    "contiguous", "device", "dim", "dtype", "requires_grad", "scalarType", "sizes", "strides",
    "symbolic_sizes", "undefined", "varyingSizes", "with_device", "with_dtype", "with_sizes",
):  # fmt: skip
    _of_tensors_alone(_name)
