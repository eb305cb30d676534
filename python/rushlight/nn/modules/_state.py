"""A module's state_dict: collecting it and loading it."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any

import rushlight
from rushlight.__future__ import _flags as _conversions
from rushlight._ignored import warn_program
from rushlight.nn.modules._hooks import _add, _WrappedHook
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.overrides import is_tensor_like

TYPE_CHECKING = False

_EXTRA_STATE = "_extra_state"


if TYPE_CHECKING:
    from typing import NamedTuple

    class _Keys(NamedTuple):
        missing_keys: list[str]
        unexpected_keys: list[str]
else:
    _Keys = namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])


class _IncompatibleKeys(_Keys):
    """What `load_state_dict` could not match, by name."""

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class _State:
    """The part of Module that gives and takes state_dicts."""

    def get_extra_state(self) -> Any:
        """State beyond parameters and buffers; override together with `set_extra_state`."""
        raise RuntimeError(f"{type(self).__name__}: get_extra_state is not implemented")

    def set_extra_state(self, state: Any) -> Any:
        """Take what `get_extra_state` gave."""
        raise RuntimeError(f"{type(self).__name__}: set_extra_state is not implemented")

    def _register_state_dict_hook(self, hook):
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "_register_state_dict_hook: this hook was previously registered via "
                "register_state_dict_post_hook; use a different function"
            )
        return _add(self._state_dict_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(module, state_dict, prefix, local_metadata)` after state_dict() collected."""
        hook._from_public_api = True
        return _add(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(module, prefix, keep_vars)` before state_dict() collects."""
        return _add(self._state_dict_pre_hooks, hook)

    def _persistent_buffers(self):
        skipped = self._non_persistent_buffers_set
        return {k: v for k, v in self._buffers.items() if k not in skipped}

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        """Put this module's own state, without its children's, into `destination`."""
        for members in (self._parameters, self._persistent_buffers()):
            for name, value in members.items():
                if value is not None:
                    destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not _State.get_extra_state:
            destination[prefix + _EXTRA_STATE] = self.get_extra_state()

    def state_dict(
        self,
        *args: Any,
        destination: OrderedDict[Any, Any] | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> dict[str, Any]:
        """All parameters and persistent buffers by name, of this module and its children.

        Args:
            destination: a dict to fill instead of a new one.
            prefix: put before every name.
            keep_vars: give the tensors themselves, not detached ones that share their data.

        Returns:
            An OrderedDict whose `_metadata` holds each module's version.
        """
        if args:
            warn_program(
                "state_dict: positional arguments are deprecated; name them",
                FutureWarning,
            )
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            changed = hook(self, destination, prefix, local_metadata)
            if changed is None:
                continue
            if getattr(hook, "_from_public_api", False):
                raise RuntimeError("state_dict: a state_dict post-hook must return None")
            destination = changed
        return destination

    def _register_load_state_dict_pre_hook(self, hook, with_module=False):
        hook = _WrappedHook(hook, self if with_module else None)
        return _add(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook` before this module loads, with the arguments of `_load_from_state_dict`
        after the module."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(module, incompatible_keys)` after loading; it may edit the lists of keys."""
        return _add(self._load_state_dict_post_hooks, hook)

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        """Load this module's own state, without its children's, from `state_dict`.

        What does not fit goes into the three lists. Override it to read older formats.
        """
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        own = {**self._parameters, **self._persistent_buffers()}
        own = {name: value for name, value in own.items() if value is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, target in own.items():
            key = prefix + name
            if key in state_dict:
                error = self._load_tensor(name, key, target, state_dict[key], assign)
                if error is not None:
                    error_msgs.append(error)
            elif strict:
                missing_keys.append(key)

        extra_key = prefix + _EXTRA_STATE
        if type(self).set_extra_state is not _State.set_extra_state:
            if extra_key in state_dict:
                self.set_extra_state(state_dict[extra_key])
            elif strict:
                missing_keys.append(extra_key)
        elif strict and extra_key in state_dict:
            unexpected_keys.append(extra_key)

        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra_key:
                    name, *below = key[len(prefix) :].split(".", 1)
                    if name not in (self._modules if below else own):
                        unexpected_keys.append(key)

    def _load_tensor(self, name, key, target, source, assign):
        """Copy, assign or swap in one tensor; the description of what is wrong, or None."""
        if not is_tensor_like(source):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(source)}"
            )
        lazy = is_lazy(target)
        if not lazy:
            if target.dim() == 0 and source.dim() == 1:
                source = source[0]  # scalars were saved with one dim before version 0.4
            if source.shape != target.shape:
                return (
                    f"size mismatch for {key}: copying a param with shape {source.shape} from "
                    f"checkpoint, the shape in current model is {target.shape}."
                )
            if target.is_meta and not source.is_meta and not assign:
                warn_program(
                    f"load_state_dict: for {key}: copying from a non-meta parameter in the "
                    "checkpoint to a meta parameter in the current model, which is a no-op; "
                    "use assign=True",
                )
        swap = _conversions["swap_module_params_on_conversion"]
        try:
            with rushlight.no_grad():
                if swap:
                    loaded = target.module_load(source, assign=assign)
                    if loaded is target or loaded is source:
                        raise RuntimeError(
                            f"load_state_dict: {key}: module_load returned one of self or other;"
                            " detach() it there"
                        )
                    rushlight.utils.swap_tensors(target, _as_kind_of(target, loaded))
                elif assign:
                    setattr(self, name, _as_kind_of(target, source))
                else:
                    target.copy_(source)
        except Exception as error:  # every key is tried, then all errors are raised as one
            return (
                f'While {"swapping" if swap else "copying"} the parameter named "{key}", whose '
                f"dimensions in the model are {'unknown' if lazy else target.size()} and whose "
                f"dimensions in the checkpoint are {source.size()}, an exception occurred : "
                f"{error.args}."
            )
        return None

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Copy parameters and buffers from `state_dict` into this module and its children.

        Args:
            strict: raise unless the names match exactly.
            assign: take the tensors themselves instead of copying their values.

        Returns:
            A named tuple `(missing_keys, unexpected_keys)`.

        Raises:
            RuntimeError: names or shapes do not match; all of them are listed.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"load_state_dict: Expected state_dict to be dict-like, got {type(state_dict)}."
            )
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        keys = _IncompatibleKeys([], [])
        error_msgs = []

        _load_tree(self, state_dict, "", assign, metadata, keys, error_msgs)
        if strict:
            wrong = (("Unexpected", keys.unexpected_keys), ("Missing", keys.missing_keys))
            for what, names in wrong:
                if names:
                    listed = ", ".join(f'"{name}"' for name in names)
                    error_msgs.insert(0, f"{what} key(s) in state_dict: {listed}.")
        if error_msgs:
            errors = "\n\t".join(error_msgs)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{errors}"
            )
        return keys


def _load_tree(module, local_state, prefix, assign, metadata, keys, error_msgs):
    """Load `module` and its children; what does not fit goes into `keys` and `error_msgs`."""
    local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local_metadata["assign_to_params_buffers"] = assign
    module._load_from_state_dict(
        local_state,
        prefix,
        local_metadata,
        True,
        keys.missing_keys,
        keys.unexpected_keys,
        error_msgs,
    )
    for name, child in module._modules.items():
        if child is not None:
            inner = f"{prefix}{name}."
            below = {k: v for k, v in local_state.items() if k.startswith(inner)}
            _load_tree(child, below, inner, assign, metadata, keys, error_msgs)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, keys) is not None:
            raise AssertionError("load_state_dict post hook: must return None")


def _as_kind_of(target, source):
    """`source`, as a Parameter that requires grad as `target` does if that is a Parameter."""
    if not isinstance(target, Parameter):
        return source
    if isinstance(source, Parameter):
        return source.requires_grad_(target.requires_grad)
    return Parameter(source, requires_grad=target.requires_grad)
