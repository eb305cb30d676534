"""Modes of modules, for a while."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rushlight.nn.modules.module import Module


@contextlib.contextmanager
def modes_kept(model: Module) -> Iterator[None]:
    """A context at whose end all modules in the model have the modes of its beginning."""
    before = {module: module.training for module in model.modules()}
    try:
        yield
    finally:
        for module, was_training in before.items():
            module.training = was_training
