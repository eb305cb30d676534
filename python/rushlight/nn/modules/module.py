"""Module: the base class of all layers and models."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import rushlight
from rushlight import Tensor, _ModuleBase
from rushlight._set_module import set_module
from rushlight.nn.modules._conversion import _Conversion
from rushlight.nn.modules._hooks import (
    _global_backward_hooks,
    _global_backward_pre_hooks,
    _global_buffer_registration_hooks,
    _global_forward_hooks,
    _global_forward_hooks_always_called,
    _global_forward_hooks_with_kwargs,
    _global_forward_pre_hooks,
    _global_module_registration_hooks,
    _global_parameter_registration_hooks,
    _Hooks,
    _WrappedHook,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from rushlight.nn.modules._state import _EXTRA_STATE, _IncompatibleKeys, _State
from rushlight.nn.parameter import Buffer, Parameter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Module",
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

set_module(__name__, *(globals()[name] for name in __all__ if name != "Module"))

_EXTRA_STATE_KEY_SUFFIX = _EXTRA_STATE
_HAS_NOTES = sys.version_info >= (3, 11)


def _forward_unimplemented(self, *input):
    """Compute the output of the module; every subclass defines it."""
    raise NotImplementedError(f"Module [{type(self).__name__}] has no forward method")


def _takes_persistent(function):
    import inspect

    return "persistent" in inspect.signature(function).parameters


class _CallSignature:
    """What `inspect.signature` says of a module, whose `__call__` is compiled; of the class, what
    it would say anyway.
    """

    def __get__(self, module: Module, cls: Any) -> Any:
        if module is None:
            raise AttributeError("__signature__")
        import inspect

        return inspect.signature(lambda *args, **kwargs: None)


class Module(_Hooks, _State, _Conversion, _ModuleBase):
    """The base class of all layers and models.

    Parameters, buffers and modules assigned as attributes are registered, so that `parameters()`,
    `to()`, `state_dict()` and the like find them.

    Attributes:
        training: whether the module is in training mode; `train()` and `eval()` set it.

    Example::

        >>> class Model(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.conv1 = nn.Conv2d(1, 20, 5)
        ...         self.conv2 = nn.Conv2d(20, 20, 5)
        ...     def forward(self, x):
        ...         return F.relu(self.conv2(F.relu(self.conv1(x))))
    """

    dump_patches = False
    T_destination = TypeVar("T_destination", bound=dict[str, Any])  # for annotations of state_dict
    _version = 1
    training: bool
    # True passes the arguments of __init__ on to the next class of the inheritance order.
    call_super_init = False
    _compiled_call_impl = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            given = f"{len(args)} positional" if args else f"the keyword '{next(iter(kwargs))}'"
            raise TypeError(f"{type(self).__name__}.__init__: takes no arguments, but got {given}")
        # Straight into __dict__: the registering __setattr__ needs these to exist.
        self.__dict__.update(
            training=True,
            _parameters={},
            _buffers={},
            _non_persistent_buffers_set=set(),
            _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(),
            _is_full_backward_hook=None,
            _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(),
            _forward_hooks_always_called=OrderedDict(),
            _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(),
            _state_dict_hooks=OrderedDict(),
            _state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_post_hooks=OrderedDict(),
            _modules={},
        )
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    if TYPE_CHECKING:
        forward: Callable[..., Any]
        __call__: Callable[..., Any]
    else:
        forward = _forward_unimplemented

    # -- calling ---------------------------------------------------------------------------------

    # Written in C: forward, or _call_with_hooks where there are any; an error that comes out of it
    # passes _note_module.
    _call_impl = _wrapped_call_impl = _ModuleBase.__call__
    __signature__: Any = _CallSignature()

    # -- registering -----------------------------------------------------------------------------

    def _check_new_name(self, kind, name, registered):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f"{kind} name {name!r}: must not contain a dot")
        if name == "":
            raise KeyError(f"{kind} name: must not be empty")
        if hasattr(self, name) and name not in registered:
            raise KeyError(f"attribute '{name}' already exists")

    def _registered(self, kind):
        """The dict of the registered members of a kind, if __init__ made it yet."""
        members = self.__dict__.get(f"_{kind}s")
        if members is None:
            raise AttributeError(
                f"{type(self).__name__}: cannot assign a {kind} before Module.__init__() is called"
            )
        return members

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but not a parameter, such as a running mean.

        Args:
            persistent: whether it belongs to the state_dict.
        """
        buffers = self._registered("buffer")
        self._check_new_name("buffer", name, buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"buffer '{name}': expected a Tensor or None but got {type(tensor).__name__}"
            )
        for hook in _global_buffer_registration_hooks.values():
            changed = hook(self, name, tensor)
            if changed is not None:
                tensor = changed
        buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None reserves the name."""
        params = self._registered("parameter")
        self._check_new_name("parameter", name, params)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"parameter '{name}': expected an nn.Parameter or None but got "
                    f"{type(param).__name__}"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"parameter '{name}': must be a leaf; to make it a function of other tensors, "
                    "compute it in forward()"
                )
            for hook in _global_parameter_registration_hooks.values():
                changed = hook(self, name, param)
                if changed is not None:
                    param = changed
        params[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module; None reserves the name."""
        modules = self._registered("module")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"child '{name}': {type(module).__name__} is not a Module subclass")
        self._check_new_name("module", name, modules)
        for hook in _global_module_registration_hooks.values():
            changed = hook(self, name, module)
            if changed is not None:
                module = changed
        modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # -- attributes ------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        members = self.__dict__
        if "_parameters" in members:
            found = members["_parameters"]
            if name in found:
                return found[name]
            found = members["_buffers"]
            if name in found:
                return found[name]
            found = members["_modules"]
            if name in found:
                return found[name]
        # A property whose getter raised AttributeError also ends here: its error is the one to see.
        getter = getattr(getattr(type(self), name, None), "__get__", None)
        if getter is not None:
            return getter(self, type(self))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        members = self.__dict__
        params = members.get("_parameters")
        is_tensor = isinstance(value, Tensor)  # quick, where Parameter and Buffer ask Python code
        if is_tensor and isinstance(value, Parameter):
            self._registered("parameter")
            self._forget(name, keep=params)
            self.register_parameter(name, value)
        elif params is not None and name in params:
            if value is not None:
                raise TypeError(
                    f"parameter '{name}': cannot assign {type(value).__name__} "
                    "(expected nn.Parameter or None)"
                )
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            modules = self._registered("module")
            self._forget(name, keep=modules)
            for hook in _global_module_registration_hooks.values():
                changed = hook(self, name, value)
                if changed is not None:
                    value = changed
            modules[name] = value
        elif "_modules" in members and name in members["_modules"]:
            if value is not None:
                raise TypeError(
                    f"child module '{name}': cannot assign {type(value).__name__} "
                    "(expected nn.Module or None)"
                )
            members["_modules"][name] = None
        elif "_buffers" in members and name in members["_buffers"]:
            self._set_buffer(name, value)
        elif is_tensor and isinstance(value, Buffer):
            self._registered("buffer")
            self._set_buffer(name, value)
        else:
            object.__setattr__(self, name, value)

    def _set_buffer(self, name, value):
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(
                f"buffer '{name}': cannot assign {type(value).__name__} "
                "(expected nn.Buffer, Tensor or None)"
            )
        if isinstance(value, Buffer):
            for kind in ("_parameters", "_modules"):
                self.__dict__[kind].pop(name, None)
            register = self.register_buffer
            if type(self).register_buffer is Module.register_buffer or _takes_persistent(register):
                register(name, value, value.persistent)
            elif value.persistent:
                register(name, value)
            else:
                raise RuntimeError(
                    f"buffer '{name}': a non-persistent one needs {type(self).__name__}."
                    "register_buffer to accept a 'persistent' argument"
                )
            return
        for hook in _global_buffer_registration_hooks.values():
            changed = hook(self, name, value)
            if changed is not None:
                value = changed
        self._buffers[name] = value

    def _forget(self, name, keep):
        """Take `name` out of everything it may have been, except the dict it is about to go to."""
        members = self.__dict__
        members.pop(name, None)
        for kind in ("_parameters", "_buffers", "_modules"):
            registered = members[kind]
            if registered is not keep:
                registered.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __getstate__(self) -> Any:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Files of older versions lack the newer kinds of hooks.
        for name, default in Module().__dict__.items():
            self.__dict__.setdefault(name, default)

    def _repr_html_(self) -> str:
        """What a notebook shows: the modules in a table, as `utils.summary` has them."""
        return rushlight.utils.summary(self)._repr_html_()

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        names.update(self._parameters, self._modules, self._buffers)
        return sorted(name for name in names if not name[0].isdigit())

    # -- finding members -------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The submodule at a dotted path, such as "layer2.0.conv1"; "" is this module.

        Raises:
            AttributeError: the path does not lead to a module.
        """
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the submodule at a dotted path; without `strict` a last new name is allowed."""
        if target == "":
            raise ValueError("set_submodule: cannot replace the module itself")
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: {type(module).__name__} is not an nn.Module")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def _find_member(self, target):
        """The module that holds the member at a dotted path, and the member's name in it."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        return module, name

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        module, name = self._find_member(target)
        param = getattr(module, name)
        if not isinstance(param, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return param

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        module, name = self._find_member(target)
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return module._buffers[name]

    def _named_members(self, get_members, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, member) of each module's `get_members(module)`, each member once."""
        seen = set()
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        else:
            modules = [(prefix, self)]
        for path, module in modules:
            start = path + "." if path else ""
            for name, member in get_members(module):
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield start + name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """(dotted name, parameter) of this module and, with `recurse`, of all below."""
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """(dotted name, buffer) of this module and, with `recurse`, of all below."""
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self) -> Iterator[Module]:
        """The direct child modules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """(name, child module) of the direct children, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[Any]:
        """(dotted name, module) of this module and all below it, parents first."""
        if memo is None:
            memo = set()
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = prefix + ("." if prefix else "") + name
                yield from module.named_modules(memo, path, remove_duplicate)

    # -- training --------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Set training mode on this module and all below it."""
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode must be a bool but got {mode!r}")
        self.training = mode
        if self._modules:
            for module in self.children():
                module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode: the same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether the parameters are trained."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
                continue
            if param.grad.grad_fn is not None:
                param.grad.detach_()
            else:
                param.grad.requires_grad_(False)
            param.grad.zero_()

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """See rushlight.compile: the module stays as it is."""
        rushlight.compile(self, *args, **kwargs)

    def _replicate_for_data_parallel(self):
        """A shallow copy with its own dicts of members and without parameters."""
        replica = self.__new__(type(self))
        replica.__dict__ = self.__dict__.copy()
        replica._parameters = {}
        replica._buffers = replica._buffers.copy()
        replica._modules = replica._modules.copy()
        replica._is_replica = True
        return replica

    # -- printing --------------------------------------------------------------------------------

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [
            f"({name}): {_addindent(repr(child), 2)}" for name, child in self._modules.items()
        ]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        body = "\n  ".join(lines + children)
        return f"{self._get_name()}(\n  {body}\n)"


def _addindent(s_, numSpaces):
    """Indent all lines but the first, and blank ones."""
    first, *lines = s_.split("\n")
    return "\n".join([first, *(" " * numSpaces + n if n.strip() else "" for n in lines)])


def _note_module(error, module):
    """Note on an error raised inside a forward which module it was: `layer2.0.conv1: Conv2d(...)`.

    Every enclosing call passes here on the way out and knows a longer path to that module.
    """
    if not _HAS_NOTES:
        return
    notes = getattr(error, "__notes__", None)
    known = getattr(error, "_rushlight_module", None)
    if known is None:
        try:
            extra = "..." if module._modules else module.extra_repr()
        except Exception:  # a broken extra_repr must not hide the error being reported
            extra = "..."
        text = f"{module._get_name()}({extra})"
        # An id, not the module itself: errors are pickled between processes.
        error._rushlight_module = (id(module), len(notes or ()), text)
        error.add_note(text)
        return
    inner, place, text = known
    for path, below in module.named_modules():
        if path and id(below) == inner:
            notes[place] = f"{path}: {text}"
            return
