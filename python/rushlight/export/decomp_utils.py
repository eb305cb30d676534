"""The table of what `run_decompositions` does, of which entries can be taken out."""

from __future__ import annotations

from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CustomDecompTable"]


class CustomDecompTable(dict[Any, Any]):
    """{operation: function}, at first all that rushlight knows; what is deleted stays as it is.

    Example:
        >>> table = torch.export.default_decompositions()
        >>> _ = table.pop(torch.ops.aten.softmax.default)
        >>> torch.ops.aten.softmax.default in table
        False
    """

    def __init__(self) -> None:
        from rushlight.export import decompositions

        super().__init__(decompositions.default_table())

    def copy(self) -> CustomDecompTable:
        """Another table with the same entries."""
        made = CustomDecompTable()
        made.clear()
        made.update(self)
        return made

    def materialize(self) -> dict[Any, Callable[..., Any]]:
        """The entries as a dict."""
        return dict(self)
