"""`ExportableModule`: a module that says itself how it is exported."""

from __future__ import annotations

import abc

from rushlight.nn import Module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.onnx._program import ONNXProgram


class ExportableModule(Module, abc.ABC):
    """A module with the arguments that `onnx.export` needs beside it: subclasses write
    `example_arguments`, and the others where they want them.

    Example:
        >>> import rushlight
        >>> class Twice(rushlight.onnx.ExportableModule):
        ...     def forward(self, x):
        ...         return 2 * x
        ...     def example_arguments(self):
        ...         return (rushlight.ones(3),), None
        >>> Twice().input_names() is None
        True
    """

    @abc.abstractmethod
    def example_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any] | None]:
        """Return positional and named arguments of forward; None where there are none by name."""
        raise NotImplementedError("ExportableModule.example_arguments: a subclass has it")

    def dynamic_shapes(self) -> Any:
        """Return which sizes of the inputs may change, as `export` takes it: None by default."""
        return None

    def input_names(self) -> Sequence[str] | None:
        """Return the names of the inputs; None for the program's, as by default."""
        return None

    def output_names(self) -> Sequence[str] | None:
        """Return the names of the outputs; None for the program's, as by default."""
        return None

    def to_onnx(self, **kwargs: Any) -> ONNXProgram:
        """Export the module: see `onnx.export`, which takes the arguments that are given here."""
        from rushlight.onnx import export

        return export(self, **kwargs)
