"""Handles that remove a registered hook, and the hooks on a module's backward pass."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict

import rushlight
from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.nn.modules.module import Module

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


# Two handles made at once must not get the same id.
_numbering = threading.Lock()
os.register_at_fork(after_in_child=_numbering._at_fork_reinit)


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook out again.

    Args:
        hooks_dict: the ordered dict the hook is to be stored in, under the handle's `id`.
        extra_dict: a dict, or several, that may hold further entries under the same `id`.
    """

    id: int | str

    next_id = 0

    def __init__(
        self,
        hooks_dict: OrderedDict[Any, Any],
        *,
        extra_dict: Any = None,
    ) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        with _numbering:
            self.id = RemovableHandle.next_id
            RemovableHandle.next_id += 1
        if extra_dict is None:
            extras = ()
        elif isinstance(extra_dict, list):
            extras = tuple(extra_dict)
        else:
            extras = (extra_dict,)
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extras)

    def remove(self) -> None:
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> Any:
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state: dict[str, Any]) -> None:
        hooks, self.id, extras = state if len(state) == 3 else (*state, ())
        self.hooks_dict_ref: Any = weakref.ref(OrderedDict() if hooks is None else hooks)
        self.extra_dict_ref: tuple[Any, ...] = tuple(
            weakref.ref(OrderedDict() if extra is None else extra) for extra in extras
        )
        with _numbering:
            RemovableHandle.next_id: int = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def unserializable_hook(hook: Callable[..., Any]) -> Any:
    """Mark a tensor hook as one that saving silently drops."""
    hook.__torch_unserializable__ = True
    return hook


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn about backward hooks of `tensor` that saving will drop."""
    for hook in (getattr(tensor, "_backward_hooks", None) or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            _warn_program(f"backward hook {hook!r} on a tensor is not saved with it")


_identity = None


def _identity_function():
    """An autograd function that passes tensors through: its node is where the hooks hang."""
    global _identity
    if _identity is None:

        class BackwardHookFunction(rushlight.autograd.Function):
            @staticmethod
            def forward(ctx, *tensors):
                ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
                return tensors

            @staticmethod
            def backward(ctx, *grads):
                return grads

        _identity = BackwardHookFunction
    return _identity


def _like(one, tensor):
    """A tensor that lies in parts as another does, if that does."""
    return one._like_this(tensor) if hasattr(one, "_like_this") else tensor


class BackwardHook:
    """Runs a module's full backward hooks, given one call of the module.

    The call's inputs and outputs pass through identity nodes; the hooks see, in backward, the
    gradients at those two nodes with None at the places of values that are not tensors.
    """

    n_inputs: int
    input_places: Any
    n_outputs: int
    output_places: Any

    def __init__(
        self,
        module: Module,
        user_hooks: Sequence[Callable[..., Any]],
        user_pre_hooks: Sequence[Any],
    ) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs = None
        self.n_inputs = -1
        self.input_places = None
        self.n_outputs = -1
        self.output_places = None

    def setup_input_hook(self, args: Any) -> tuple[Tensor]:
        args, node, places = self._pass_through(args)
        self.n_inputs, self.input_places = len(args), places
        if node is not None:
            node.register_hook(self._at_input)
        return args

    def setup_output_hook(self, result: Any) -> Tensor:
        single = not isinstance(result, tuple)
        result, node, places = self._pass_through((result,) if single else result)
        self.n_outputs, self.output_places = len(result), places
        if node is not None:
            node.register_hook(self._at_output)
        return result[0] if single else result

    def _pass_through(self, values):
        places = [i for i, v in enumerate(values) if isinstance(v, rushlight.Tensor)]
        needs_grad = any(values[i].requires_grad for i in places)
        if not (needs_grad and rushlight._C._records()):
            return values, None, None
        passed = _identity_function().apply(*[values[i] for i in places])
        node = next(t.grad_fn for t in passed if t.grad_fn is not None)
        values_out = list(values)
        for i, tensor in zip(places, passed):
            values_out[i] = _like(values[i], tensor)
        # A namedtuple keeps its type.
        kind = type(values)
        return (kind(*values_out) if hasattr(kind, "_fields") else kind(values_out)), node, places

    @staticmethod
    def _spread(grads, places, count):
        """The gradients at their places among `count` values."""
        spread = [None] * count
        for i, grad in zip(places, grads):
            spread[i] = grad
        return tuple(spread)

    def _at_output(self, _, grads):
        self.grad_outputs = self._spread(grads, self.output_places, self.n_outputs)
        for hook in self.user_pre_hooks:
            changed = hook(self.module, self.grad_outputs)
            if changed is not None:
                self.grad_outputs = self._as_grads(changed, self.n_outputs, "backward pre hook")
        grads = tuple(self.grad_outputs[i] for i in self.output_places)
        if self.input_places is None:  # no input needs a gradient: this is where backward ends
            self._run_hooks((None,) * max(self.n_inputs, 0))
            self.grad_outputs = None
        return grads

    def _at_input(self, grads, _):
        if self.grad_outputs is None:
            # The gradient did not come through the module's output: a second backward through
            # what a hook computed, or a module that returned no tensor. The hooks have no say.
            return None
        grad_inputs = self._spread(grads, self.input_places, self.n_inputs)
        grad_inputs = self._run_hooks(grad_inputs)
        self.grad_outputs: tuple[Any, ...] | None = None
        return tuple(grad_inputs[i] for i in self.input_places)

    def _run_hooks(self, grad_inputs):
        for hook in self.user_hooks:
            changed = hook(self.module, grad_inputs, self.grad_outputs)
            if changed is None:
                continue
            if self.input_places is None:
                if isinstance(changed, tuple) and all(g is None for g in changed):
                    continue
                raise RuntimeError(
                    "full backward hook: returned a gradient for a module where no input requires "
                    "gradient"
                )
            grad_inputs = self._as_grads(changed, self.n_inputs, "full backward hook")
        return grad_inputs

    @staticmethod
    def _as_grads(changed, count, name):
        changed = tuple(changed) if isinstance(changed, (tuple, list)) else (changed,)
        if len(changed) != count:
            raise RuntimeError(
                f"{name}: returned an invalid number of gradients: got {len(changed)}, but "
                f"expected {count}"
            )
        for grad in changed:
            if grad is not None and not isinstance(grad, rushlight.Tensor):
                raise TypeError(
                    f"{name}: returned {type(grad).__name__} in place of a gradient, which is a "
                    "tensor or None"
                )
        return changed
