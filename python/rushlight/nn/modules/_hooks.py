"""Hooks around a module's call: registering them, and running a call that has some."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rushlight import Tensor
from rushlight._ignored import warn_program
from rushlight.utils.hooks import BackwardHook, RemovableHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module

# Hooks of every module; the lists that a call consults are all here.
_global_backward_pre_hooks = OrderedDict()
_global_backward_hooks = OrderedDict()
_global_is_full_backward_hook = None
_global_forward_pre_hooks = OrderedDict()
_global_forward_hooks = OrderedDict()
_global_forward_hooks_always_called = OrderedDict()
_global_forward_hooks_with_kwargs = OrderedDict()
_global_buffer_registration_hooks = OrderedDict()
_global_module_registration_hooks = OrderedDict()
_global_parameter_registration_hooks = OrderedDict()


def _add(hooks, hook, prepend=False, marks=()):
    """Store `hook`, its id also in each dict of `marks`, and return the handle."""
    handle = RemovableHandle(hooks, extra_dict=list(marks) or None)
    hooks[handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever any module registers a buffer."""
    return _add(_global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever any module registers a submodule."""
    return _add(_global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` whenever any module registers a parameter."""
    return _add(_global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Call `hook(module, args)` before every module's forward."""
    return _add(_global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., None], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after every module's forward."""
    marks = []
    if with_kwargs:
        marks.append(_global_forward_hooks_with_kwargs)
    if always_call:
        marks.append(_global_forward_hooks_always_called)
    return _add(_global_forward_hooks, hook, marks=marks)


def _set_global_backward_kind(full):
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "register_module_backward_hook: old and full backward hooks cannot be mixed globally"
        )
    _global_is_full_backward_hook = full


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The old kind of backward hook on every module; prefer the full kind."""
    _set_global_backward_kind(False)
    return _add(_global_backward_hooks, hook)


def register_module_full_backward_pre_hook(
    hook: Callable[[Module, tuple[Tensor, ...] | Tensor], tuple[Tensor, ...] | Tensor | None],
) -> RemovableHandle:
    """Call `hook(module, grad_output)` before every module's backward."""
    return _add(_global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` after every module's backward."""
    _set_global_backward_kind(True)
    return _add(_global_backward_hooks, hook)


class _WrappedHook:
    """A hook that passes its module first without keeping the module alive."""

    def __init__(self, hook: Callable[..., Any], module: Module | None = None) -> None:
        self.hook = hook
        self.with_module = module is not None
        self.__name__ = getattr(hook, "__name__", type(hook).__name__)
        if self.with_module:
            self.module = weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError(f"hook {self.__name__}: its module no longer exists")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> Any:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["hook"], state["module"] if state["with_module"] else None)


class _Call:
    """A call that is under way: what its hooks have made of its arguments and its result."""

    __slots__ = ("args", "called", "kwargs", "result")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs, self.result = args, kwargs, None
        self.called = set()  # the hooks that have been


class _Hooks:
    """The part of Module that registers hooks and makes a call that runs them."""

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Any:
        """Call `hook(module, grad_output)` before this module's backward; it may return others."""
        return _add(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> Any:
        """The old kind: sees the gradients of the last op of forward only."""
        self._set_backward_kind(False)
        return _add(self._backward_hooks, hook)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` once the gradients of the inputs are known.

        A returned tuple replaces `grad_input`.
        """
        self._set_backward_kind(True)
        return _add(self._backward_hooks, hook, prepend)

    def _set_backward_kind(self, full):
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                f"{type(self).__name__}: register_backward_hook and register_full_backward_hook "
                "cannot be used on the same module"
            )
        self._is_full_backward_hook = full

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; what it returns replaces the arguments.

        With `with_kwargs` it is called as `hook(module, args, kwargs)` and returns both.
        """
        marks = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return _add(self._forward_pre_hooks, hook, prepend, marks)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; what it returns replaces the output.

        With `with_kwargs` it is called as `hook(module, args, kwargs, output)`; with `always_call`
        it also runs if forward or another hook raises, with the output there is by then, or None.
        """
        marks = []
        if with_kwargs:
            marks.append(self._forward_hooks_with_kwargs)
        if always_call:
            marks.append(self._forward_hooks_always_called)
        return _add(self._forward_hooks, hook, prepend, marks)

    def _get_backward_hooks(self):
        """The full and the old backward hooks, global ones first."""
        full, old = [], []
        if _global_is_full_backward_hook is True:
            full += _global_backward_hooks.values()
        if self._is_full_backward_hook is True:
            full += self._backward_hooks.values()
        if _global_is_full_backward_hook is False:
            old += _global_backward_hooks.values()
        if self._is_full_backward_hook is False:
            old += self._backward_hooks.values()
        return full, old

    def _get_backward_pre_hooks(self):
        return [*_global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _call_with_hooks(self, args, kwargs):
        call = _Call(args, kwargs)
        try:
            return self._run_hooks_and_forward(call)
        except Exception:
            self._run_always_called(call)
            raise

    def _run_hooks_and_forward(self, call):
        full, old = self._get_backward_hooks()
        pre = self._get_backward_pre_hooks()
        self._run_forward_pre_hooks(call)
        boundary = BackwardHook(self, full, pre) if full or pre else None
        if boundary is not None:
            call.args = boundary.setup_input_hook(call.args)
        call.result = self.forward(*call.args, **call.kwargs)
        for hook_id, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
            self._run_forward_hook(hook_id, hook, call)
        result = call.result
        if boundary is not None:
            if not isinstance(result, (Tensor, tuple)):
                warn_program(
                    f"{type(self).__name__}: full backward hooks need forward to return a tensor "
                    f"or a tuple of tensors, not {type(result).__name__}; they will not run",
                )
            result = boundary.setup_output_hook(result)
        if old:
            self._attach_old_backward_hooks(old, call.args, result)
        return result

    def _run_forward_pre_hooks(self, call):
        hooks = [*_global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()]
        for hook_id, hook in hooks:
            if hook_id in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, call.args, call.kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(
                        "forward pre hook: expected None or a tuple of new args and kwargs, "
                        f"but it returned {changed!r}"
                    )
                call.args, call.kwargs = changed
            else:
                changed = hook(self, call.args)
                if changed is not None:
                    call.args = changed if isinstance(changed, tuple) else (changed,)

    def _run_forward_hook(self, hook_id, hook, call):
        call.called.add(hook_id)
        if (
            hook_id in self._forward_hooks_with_kwargs
            or hook_id in _global_forward_hooks_with_kwargs
        ):
            changed = hook(self, call.args, call.kwargs, call.result)
        else:
            changed = hook(self, call.args, call.result)
        if changed is not None:
            call.result = changed

    def _run_always_called(self, call):
        """After a failure: the hooks that want to know even so, and have not run yet."""
        always = {**_global_forward_hooks_always_called, **self._forward_hooks_always_called}
        for hook_id, hook in [*_global_forward_hooks.items(), *self._forward_hooks.items()]:
            if hook_id not in always or hook_id in call.called:
                continue
            try:
                self._run_forward_hook(hook_id, hook, call)
            except Exception as error:  # the failure of forward is the one to report
                warn_program(f"forward hook with always_call raised {error!r}")

    def _attach_old_backward_hooks(self, hooks, args, result):
        tensor = result
        while not isinstance(tensor, Tensor):
            values = tensor.values() if isinstance(tensor, dict) else tensor
            tensors = [v for v in values if isinstance(v, Tensor)] if values else ()
            if not tensors:
                raise TypeError(
                    f"{type(self).__name__}: a backward hook needs forward to return a tensor, or "
                    f"some in a tuple, list or dict, not {type(tensor).__name__}"
                )
            tensor = tensors[0]
        node = tensor.grad_fn
        if node is not None:
            for hook in hooks:
                node.register_hook(_WrappedHook(hook, self))
            self._maybe_warn_non_full_backward_hook(args, result, node)

    def _maybe_warn_non_full_backward_hook(self, inputs, result, grad_fn):
        """Old hooks see one node; say so where forward is more than one."""
        outputs = result if isinstance(result, tuple) else (result,)
        reason = None
        if not all(isinstance(v, Tensor) for v in outputs):
            reason = "the module does not return a single Tensor or a tuple of Tensors"
        elif not all(isinstance(v, Tensor) for v in inputs):
            reason = "the module does not take as input a single Tensor or a tuple of Tensors"
        elif {v.grad_fn for v in outputs if v.grad_fn is not None} != {grad_fn}:
            reason = "its outputs are generated by different autograd Nodes"
        else:
            next_nodes = {node for node, _ in grad_fn.next_functions}
            if {v.grad_fn for v in inputs if v.grad_fn is not None} != next_nodes:
                reason = "the forward contains multiple autograd Nodes"
        if reason is not None:
            warn_program(
                f"{type(self).__name__}: register_backward_hook misses some gradients, as "
                f"{reason}; use register_full_backward_hook",
                FutureWarning,
            )
