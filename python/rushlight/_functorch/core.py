"""What torch.func's C++ side shows: levels of vmap, and tensors inside of it."""

from __future__ import annotations

from rushlight import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TransformType = None


def is_batchedtensor(tensor: Any) -> bool:
    """Is it one example of several, inside vmap?"""
    from rushlight.func import _vmap

    return isinstance(tensor, Tensor) and _vmap.is_batched(tensor)


def is_gradtrackingtensor(tensor: Any) -> bool:
    """Is it inside of `func.grad`, as a wrapper? Never: tensors there are plain ones."""
    return not isinstance(tensor, Tensor)


def is_functorch_wrapped_tensor(tensor: Any) -> bool:
    """Is it a wrapper of a transform?"""
    return is_batchedtensor(tensor)


def is_functionaltensor(tensor: Any) -> bool:
    """Is it a wrapper of functionalisation? Never."""
    return not isinstance(tensor, Tensor)


def _add_batch_dim(tensor: Tensor, in_dim: int, level: int) -> Tensor:
    """Return what stands for one of the examples that a dim counts, in a level of vmap."""
    from rushlight.func import _vmap

    return _vmap.level_of(level).batched_tensor(tensor.movedim(in_dim, 0) if in_dim else tensor)


def _remove_batch_dim(tensor: Tensor, level: int, batch_size: int, out_dim: int) -> Tensor:
    """Return all examples for which a tensor stands, counted by a dim."""
    from rushlight.func import _vmap

    examples = _vmap.level_of(level).all_examples(tensor)
    if examples.shape[0] != batch_size:
        raise RuntimeError(
            f"_remove_batch_dim: {batch_size} examples in a level of {examples.shape[0]}"
        )
    return examples.movedim(0, out_dim) if out_dim else examples


def get_unwrapped(tensor: Tensor) -> Tensor:
    """Return the tensor of all examples for which one stands in the innermost level."""
    from rushlight.func import _vmap

    return _vmap.unwrapped(tensor)


def _is_vmap_fallback_enabled() -> bool:
    """May vmap compute operations without a rule example by example?"""
    from rushlight.func import _vmap

    return _vmap.loops.allowed


def _set_vmap_fallback_enabled(enabled: bool) -> None:
    """Let vmap do so, as it does by default, or have it raise RuntimeError."""
    from rushlight.func import _vmap

    _vmap.loops.allowed = bool(enabled)


def _vmap_loops_are_warned_of() -> bool:
    from rushlight.func import _vmap

    return _vmap.loops.warned_of


def _warn_of_vmap_loops(display: bool) -> None:
    """Warn of each operation that vmap computes so, or, as by default, of none."""
    from rushlight.func import _vmap

    _vmap.loops.warned_of = bool(display)
