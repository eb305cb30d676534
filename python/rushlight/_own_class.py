"""Tensors whose Python class says what their memory is: another class would read it otherwise."""

from __future__ import annotations

from typing import TypeVar

from rushlight import Tensor

T = TypeVar("T", bound=Tensor)


class OwnClass(Tensor):
    """A tensor that refuses to be of a class that is not derived from its own."""

    _has_own_class = True  # asked by `_make_subclass`

    def as_subclass(self, cls: type[T]) -> T:
        """The same elements as an instance of `cls`: of Tensor, this one.

        Raises:
            NotImplementedError: `cls` is not derived from this tensor's class.
        """
        if cls is Tensor:
            return self
        if not issubclass(cls, type(self)):
            kind = f"{self.layout} tensor of {self.dtype}"
            raise NotImplementedError(
                f"as_subclass: a {kind} is told by its class here, {type(self).__name__}: "
                f"{cls.__name__} cannot take its place; convert it to another dtype or layout first"
            )
        return Tensor.as_subclass(self, cls)
