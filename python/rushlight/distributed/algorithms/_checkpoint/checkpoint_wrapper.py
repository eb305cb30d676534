"""Wrappers of modules, whose activations are computed again in backward or kept on the CPU.

Names of parameters, in `named_parameters` and in state dicts, are those of the wrapped module.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import partial

from rushlight.autograd.graph import save_on_cpu
from rushlight.distributed.fsdp.wrap import lambda_auto_wrap_policy, wrap_children
from rushlight.nn import Module
from rushlight.utils.checkpoint import checkpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rushlight.nn import Parameter

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """Which of the two ways of `utils.checkpoint.checkpoint` is taken."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


def _rename(state, old, new):
    """Give the entries whose names begin with `old` names that begin with `new`, in their order."""
    entries = list(state.items())
    for name, _ in entries:
        del state[name]
    for name, value in entries:
        state[new + name[len(old) :] if name.startswith(old) else name] = value


def _without_prefix(module, state, prefix, local_metadata):
    _rename(state, prefix + _CHECKPOINT_PREFIX, prefix)
    return state


def _with_prefix(module, state, prefix, *rest):
    _rename(state, prefix, prefix + _CHECKPOINT_PREFIX)


class ActivationWrapper(Module):
    """A module that stands for another, which subclasses call in `forward`.

    Args:
        mod: the module that is wrapped.
    """

    def __init__(self, mod: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(_without_prefix)
        self.register_load_state_dict_pre_hook(_with_prefix)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What subclasses define."""
        raise NotImplementedError(f"{type(self).__name__}: subclasses define forward")

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == _CHECKPOINT_WRAPPED_MODULE:
                raise
            return getattr(self._checkpoint_wrapped_module, name)

    def __getitem__(self, key: Any) -> Any:
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Parameter]]:
        """The parameters under the names that they have without the wrapper."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), parameter


class OffloadWrapper(ActivationWrapper):
    """Keeps what backward needs on the CPU."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the wrapped module computes."""
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Computes what backward needs once more; `checkpoint_wrapper` has the arguments."""

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        self._packs = checkpoint_fn is None and checkpoint_impl is CheckpointImpl.REENTRANT
        if checkpoint_fn is None:
            checkpoint_fn = checkpoint
            checkpoint_fn_kwargs["use_reentrant"] = self._packs
        self.checkpoint_fn: Callable[..., Any] = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the wrapped module computes."""
        module = self._checkpoint_wrapped_module
        if not (self._packs and kwargs):
            return self.checkpoint_fn(module, *args, **kwargs)
        names, count = tuple(kwargs), len(args)  # which takes positional arguments alone

        def unpacked(*values):
            return module(*values[:count], **dict(zip(names, values[count:])))

        return self.checkpoint_fn(unpacked, *args, *kwargs.values())


def offload_wrapper(module: Module) -> Module:
    """Return the module, wrapped so that what its backward needs is kept on the CPU."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """Return the module, wrapped so that its activations are computed again in backward.

    Args:
        module: what is wrapped.
        checkpoint_impl: how `utils.checkpoint.checkpoint` does it.
        checkpoint_fn: called as checkpoint_fn(module, *inputs) in its place.
        checkpoint_fn_kwargs: further arguments of either.
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[..., Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Any = None,
) -> None:
    """Wrap submodules of a model, in place, from the innermost on.

    Args:
        model: not wrapped itself.
        checkpoint_wrapper_fn: wraps one.
        check_fn: says of a submodule whether it is wrapped.
        auto_wrap_policy: one of `distributed.fsdp.wrap`, in place of check_fn.
    """
    policy = auto_wrap_policy or partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    wrap_children(model, policy, lambda part, options: checkpoint_wrapper_fn(part, **options), ())
