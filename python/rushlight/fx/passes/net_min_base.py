"""Looking for the part of a graph that a backend computes wrongly: the errors of it."""

from __future__ import annotations

from typing import Any

__all__ = [
    "FxNetMinimizerBadModuleError",
    "FxNetMinimizerResultMismatchError",
    "FxNetMinimizerRunFuncError",
]


class FxNetMinimizerBadModuleError(Exception):
    """A part of the graph cannot be made."""


class FxNetMinimizerRunFuncError(Exception):
    """A part of the graph does not run."""


class FxNetMinimizerResultMismatchError(Exception):
    """A part of the graph has other results than it should have."""


class _MinimizerBase:
    """Refused: there is no backend that graphs are lowered to. Compare with one part by part, by
    `split_module` and `generate_inputs_for_submodules`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "_MinimizerBase: there is no backend that graphs are lowered to; compare with one part "
            "by part, by split_module and generate_inputs_for_submodules"
        )
