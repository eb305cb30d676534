"""LazyModuleMixin: modules that learn the sizes of their parameters from the first input."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.nn.parameter import is_lazy

__all__ = ["LazyModuleMixin"]


class LazyModuleMixin:
    """Gives a module uninitialized parameters that its first call, or a loaded state, sizes.

    The class that mixes it in defines `initialize_parameters(*args, **kwargs)`; after the first
    call the module becomes a `cls_to_become`.
    """

    cls_to_become = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._load_hook = self._register_load_state_dict_pre_hook(self._lazy_load_hook)
        self._initialize_hook = self.register_forward_pre_hook(
            self._infer_parameters, with_kwargs=True
        )

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        # Uninitialized tensors cannot be detached; they are stored as they are.
        for members in (self._parameters, self._persistent_buffers()):
            for name, value in members.items():
                if value is not None:
                    keep = keep_vars or is_lazy(value)
                    destination[prefix + name] = value if keep else value.detach()

    def _lazy_load_hook(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Give the uninitialized tensors the shapes they have in `state_dict`."""
        for name, value in {**self._parameters, **self._buffers}.items():
            source = state_dict.get(prefix + name)
            if source is None or value is None or not is_lazy(value) or is_lazy(source):
                continue
            with rushlight.no_grad():
                value.materialize(source.shape)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """Size the parameters for these inputs."""
        raise NotImplementedError(
            f"{type(self).__name__}: initialize_parameters is not implemented"
        )

    def has_uninitialized_params(self) -> Any:
        """Whether a parameter or buffer has no shape yet."""
        members = (*self._parameters.values(), *self._buffers.values())
        return any(is_lazy(value) for value in members)

    def _infer_parameters(self, module, args, kwargs=None):
        """The pre hook of the first call."""
        kwargs = kwargs or {}
        module.initialize_parameters(*args, **kwargs)
        if module.has_uninitialized_params():
            raise RuntimeError(
                f"{self._get_name()}: initialize_parameters left parameters uninitialized"
            )
        module._initialize_hook.remove()
        module._load_hook.remove()
        delattr(module, "_initialize_hook")
        delattr(module, "_load_hook")
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self):
        raise RuntimeError(f"{self._get_name()}: run forward once before replicating a lazy module")
