"""Optimizer: parameter groups, state, hooks; and the step that elementwise optimizers share."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, TypeAlias, TypeVar, overload

import rushlight
from rushlight import Tensor, _spans, strided
from rushlight._ignored import warn_of, warn_program as _warn_program
from rushlight.utils._foreach_utils import (
    _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices,
    _group_tensors_by_device_and_dtype,
)
from rushlight.utils.hooks import RemovableHandle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Self

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
_params_t: TypeAlias = ParamsT  # its older name
StateDict: TypeAlias = dict[str, Any]
R = TypeVar("R")
DeviceDict: TypeAlias = dict[rushlight.device | None, Tensor]
DeviceDtypeDict: TypeAlias = dict[tuple[rushlight.device, rushlight.dtype] | None, Tensor]
Args: TypeAlias = tuple[Any, ...]
Kwargs: TypeAlias = dict[str, Any]

__all__ = [
    "Optimizer",
    "register_optimizer_step_post_hook",
    "register_optimizer_step_pre_hook",
]

_global_optimizer_pre_hooks = OrderedDict()
_global_optimizer_post_hooks = OrderedDict()


def _add(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every optimizer's step."""
    return _add(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(
    hook: Callable[[Optimizer, tuple[Any, ...], dict[str, Any]], None],
) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every optimizer's step."""
    return _add(_global_optimizer_post_hooks, hook)


class _RequiredParameter:
    def __repr__(self) -> str:
        return "<required parameter>"


# Numbers in the state, not arrays of the parameter's kind: loading leaves their dtype alone, so
# that a resumed run is the uninterrupted one bit for bit.
_NUMBERS = frozenset(["step", "eta", "mu", "mu_product"])

# The default of an option that every group must give.
required: Any = _RequiredParameter()


def _use_grad_for_differentiable(func):
    """A step method that records for backward only if the optimizer is differentiable."""

    @functools.wraps(func)
    def step(*args, **kwargs):
        optimizer = args[0]
        with rushlight.set_grad_enabled(bool(optimizer.defaults.get("differentiable", False))):
            return func(*args, **kwargs)

    return step


def _get_value(x):
    """A number, taken out of a tensor if it is in one."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x):
    """The numbers as they are: nothing is compiled."""
    return x


def _dispatch_sqrt(x):
    """The root of a number or of a tensor."""
    return x.sqrt() if isinstance(x, Tensor) else x**0.5


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """Return what it decorates as it is; nothing is compiled, so not `single_tensor_fn` either."""
    del single_tensor_fn
    return lambda function: function


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(fused, foreach) where neither is given: what torch chooses for these parameters.

    Only lists on a GPU choose one of the two there. Optimizers here take all parameters in one call
    unless told otherwise.
    """
    if differentiable:
        return False, False
    devices = _get_fused_kernels_supported_devices()
    fused = use_fused and all(
        p is None
        or (type(p) in (Tensor, rushlight.nn.Parameter) and p.device.type in devices
            and p.is_floating_point())
        for p in params
    )  # fmt: skip
    devices = _get_foreach_kernels_supported_devices()
    foreach = not fused and all(
        p is None or (type(p) in (Tensor, rushlight.nn.Parameter) and p.device.type in devices)
        for p in params
    )
    return fused, foreach


def _device_dtype_check_for_fused(p, cuda_unsupported=False):
    devices = _get_fused_kernels_supported_devices()
    if cuda_unsupported:
        devices.remove("cuda")
    if not (p.device.type in devices and p.is_floating_point()):
        raise RuntimeError(
            "`fused=True` requires all the params to be floating point Tensors of supported "
            f"devices: {devices} but {p.dtype} and {p.device.type}"
        )


def _view_as_real(params, *state_and_grads):
    """Let complex parameters in lists, and what goes with them, be views as real ones."""
    for i, param in enumerate(params):
        if param.is_complex():
            params[i] = rushlight.view_as_real(param)
            for tensors in state_and_grads:
                tensors[i] = rushlight.view_as_real(tensors[i])


def _get_scalar_dtype(is_fused=None):
    """The dtype of counts of steps."""
    wide = rushlight.get_default_dtype() == rushlight.float64
    return rushlight.float64 if wide and not is_fused else rushlight.float32


def _get_capturable_supported_devices(supports_xla=True):
    """The kinds of devices on which a step can be recorded into a graph."""
    devices = ["cuda", "xpu", "hpu", "mtia", rushlight._C._get_privateuse1_backend_name()]
    return [*devices, "xla"] if supports_xla else devices


def _to_scalar(x):
    """A number, taken out of a tensor if it is in one."""
    return x.item() if isinstance(x, Tensor) else x


def _check_range(name, value, low=0.0, high=None):
    """ValueError unless low <= value, and value < high if given."""
    if not low <= value or (high is not None and not value < high):
        raise ValueError(f"Invalid {name}: {value}")


def _check_lr(lr, foreach=None, capturable=False):
    if isinstance(lr, Tensor):
        if foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    _check_range("learning rate", lr)


# Options that must not be negative, and what errors call them.
_NOT_NEGATIVE = {"eps": "epsilon"} | {
    name: name
    for name in (
        "initial_accumulator_value",
        "lr_decay",
        "momentum",
        "momentum_decay",
        "weight_decay",
    )
}


def _arguments(arguments):
    """The options among the locals() of a constructor, where they hold its arguments alone."""
    return {
        name: value
        for name, value in arguments.items()
        if name not in ("self", "params", "__class__")
    }


def _checked(arguments):
    """The options among the locals() of a constructor, as `_arguments` finds them.

    Raises:
        ValueError: one of those that many optimizers have is out of range.
    """
    options = _arguments(arguments)
    _check_lr(options["lr"])
    for name, what in _NOT_NEGATIVE.items():
        if name in options:
            _check_range(f"{what} value", options[name])
    for i, beta in enumerate(options.get("betas", ())):
        _check_range(f"beta parameter at index {i}", beta, 0.0, 1.0)
    return options


class Optimizer:
    """The base class of all optimizers.

    Args:
        params: parameters, or (name, parameter) pairs, or dicts that hold a group of them under
            "params" together with options that are the group's own.
        defaults: the options of groups that do not give them.
    """

    OptimizerPreHook: TypeAlias = Callable[[Any, Args, Kwargs], "tuple[Args, Kwargs] | None"]
    OptimizerPostHook: TypeAlias = Callable[[Any, Args, Kwargs], None]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hooks()
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                f"{type(self).__name__}: params argument given to the optimizer should be an "
                f"iterable of Tensors or dicts, but got {rushlight.typename(params)}"
            )
        self.state: defaultdict[Any, dict[Any, Any]] = defaultdict(dict)
        self.param_groups: list[Any] = []
        groups = list(params)
        if len(groups) == 0:
            raise ValueError(
                "optimizer got an empty parameter list; of the modules and parameters in a plain "
                "list or dict none is found: see nn.ModuleList and nn.ParameterList"
            )
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self):
        for kind in ("step", "state_dict", "load_state_dict"):
            self.__dict__.setdefault(f"_optimizer_{kind}_pre_hooks", OrderedDict())
            self.__dict__.setdefault(f"_optimizer_{kind}_post_hooks", OrderedDict())

    # -- steps -----------------------------------------------------------------------------------

    @overload
    def step(self, closure: None = None) -> None: ...

    @overload
    def step(self, closure: Callable[[], float]) -> float: ...

    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update the parameters once.

        Args:
            closure: clears the gradients, computes the loss and its gradients, and returns it.

        Returns:
            What the closure returned, else None.
        """
        raise NotImplementedError(f"{type(self).__name__}: step is not implemented")

    def _step_each(self, closure):
        """The step of optimizers that have `_step_param(param, group)`, for one parameter."""
        loss = _run_closure(closure)
        with rushlight.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self._step_param(param, group)
        return loss

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
        """The lists taken apart by device and dtype: {(device, dtype): (lists, places)}."""
        return _group_tensors_by_device_and_dtype(tensorlistlist, with_indices)

    @staticmethod
    def profile_hook_step(func: Callable[..., R]) -> Callable[..., R]:
        """`func`, a step method, with the hooks called around it."""

        @functools.wraps(func)
        def step(*args, **kwargs):
            self = args[0]
            span = None
            if _spans.active():
                span = _spans.begin(f"Optimizer.step#{type(self).__name__}.step")
            try:
                if self._optimizer_step_pre_hooks or _global_optimizer_pre_hooks:
                    args, kwargs = self._run_step_pre_hooks(args, kwargs)
                result = func(*args, **kwargs)
                after = self._optimizer_step_post_hooks
                if after or _global_optimizer_post_hooks:
                    for hook in [*after.values(), *_global_optimizer_post_hooks.values()]:
                        hook(self, args, kwargs)
                return result
            finally:
                if span is not None:
                    _spans.end(span)

        step.hooked = True
        return step

    def _run_step_pre_hooks(self, args, kwargs):
        """The arguments of a step as the hooks before it leave them."""
        hooks = [*_global_optimizer_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()]
        for hook in hooks:
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    "optimizer step pre hook: expected None or a tuple of new args and "
                    f"kwargs, but it returned {changed!r}"
                )
            args, kwargs = changed
        return args, kwargs

    def _patch_step_function(self):
        # Subclasses write a plain step; its class gets the hooks when the first one is made.
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = self.profile_hook_step(cls.step)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        if not _spans.active():
            return self._zero_grad(set_to_none)
        span = _spans.begin(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad")
        try:
            return self._zero_grad(set_to_none)
        finally:
            _spans.end(span)

    def _zero_grad(self, set_to_none):
        for group in self.param_groups:
            for param in group["params"]:
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

    # -- hooks -----------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new ones."""
        return _add(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(
        self, hook: Callable[[Self, tuple[Any, ...], dict[str, Any]], None]
    ) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return _add(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` before state_dict() collects."""
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self,
        hook: Callable[[Optimizer, dict[str, Any]], dict[str, Any] | None],
        prepend: bool = False,
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after it collected; it may return another one."""
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self,
        hook: Callable[[Optimizer, dict[str, Any]], dict[str, Any] | None],
        prepend: bool = False,
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another one."""
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[[Optimizer], None], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # -- groups ----------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dict with parameters under "params", and options of its own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group: must be a dict but is a {type(param_group).__name__}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError("params: must be ordered, but a set has no order; use a list")
        param_group["params"] = params = list(params)
        if any(isinstance(param, tuple) for param in params):
            if not all(isinstance(param, tuple) for param in params):
                raise ValueError(
                    "all optimizer params should be with/without names: some names are missing"
                )
            param_group["param_names"] = [name for name, _ in params]
            param_group["params"] = params = [param for _, param in params]
        for place, param in enumerate(params):
            if not isinstance(param, Tensor):
                raise TypeError(
                    f"params: can only optimize Tensors, but one is a {type(param).__name__}"
                )
            if not self.defaults.get("differentiable", None) and not (
                param.is_leaf or param.retains_grad
            ):
                raise ValueError(
                    f"can't optimize a non-leaf Tensor: parameter {place} is a result of "
                    f"{param.grad_fn.name()}; make it an nn.Parameter, or retain_grad()"
                )
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(
                    f"parameter group didn't specify a value of required option {name}"
                )
            param_group.setdefault(name, default)
        if len(params) != len(set(params)):
            _warn_program("optimizer contains a parameter group with duplicate parameters")
        known = {param for group in self.param_groups for param in group["params"]}
        if not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and ("param_names" in param_group) != (
            "param_names" in self.param_groups[0]
        ):
            raise ValueError("all optimizer param groups must be with/without names.")
        self.param_groups.append(param_group)

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state by parameter number, and the groups with numbers in place of parameters."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers = {}
        groups = []
        for group in self.param_groups:
            for param in group["params"]:
                numbers.setdefault(id(param), len(numbers))
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [numbers[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {
            (numbers[id(key)] if isinstance(key, Tensor) else key): value
            for key, value in self.state.items()
        }
        state_dict = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        return state_dict

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state and the groups' options that `state_dict` gave.

        Raises:
            ValueError: the groups have other sizes.
        """
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        groups = self.param_groups
        saved_groups = deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved_groups)):
            raise ValueError(
                "loaded state dict contains a parameter group with another number of parameters "
                "than the optimizer's"
            )
        params = {
            number: param
            for saved, group in zip(saved_groups, groups)
            for number, param in zip(saved["params"], group["params"])
        }
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                param = params[key]
                state[param] = self._fit_state(param, value, key, state_dict["param_groups"])
            else:
                state[key] = value
        for saved, group in zip(saved_groups, groups):
            saved["params"] = group["params"]
            if "param_names" in group:
                saved["param_names"] = group["param_names"]
        self.__setstate__({"state": state, "param_groups": saved_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    @staticmethod
    def _process_value_according_to_param_policy(param, value, param_id, param_groups, key=None):
        """A tensor of the state in the dtype and on the device of its parameter."""
        if key in _NUMBERS:
            return value
        if param.is_floating_point():
            return value.to(dtype=param.dtype, device=param.device)
        return value.to(device=param.device)

    def _fit_state(self, param, value, param_id, param_groups, key=None):
        if isinstance(value, Tensor):
            return self._process_value_according_to_param_policy(
                param, value, param_id, param_groups, key
            )
        if isinstance(value, dict):
            return {
                k: self._fit_state(param, v, param_id, param_groups, k) for k, v in value.items()
            }
        if isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping)):
            return type(value)(self._fit_state(param, v, param_id, param_groups) for v in value)
        return value

    def __getstate__(self) -> Any:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make_hooks()
        self._patch_step_function()
        # Files of older versions lack the newer options.
        for group in self.param_groups:
            for name, default in self.defaults.items():
                group.setdefault(name, default)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for name in sorted(group):
                if name != "params":
                    text += f"    {name}: {group[name]}\n"
        return text + ")"


def _run_closure(closure):
    if closure is None:
        return None
    with rushlight.enable_grad():
        return closure()


def _step_count():
    """A new count of steps, a float tensor so that it is saved like the rest of the state."""
    wide = rushlight.get_default_dtype() == rushlight.float64
    return rushlight.zeros((), dtype=rushlight.float64 if wide else rushlight.float32)


def _zeros_of(param):
    """A new running average."""
    return rushlight.zeros_like(param, memory_format=rushlight.preserve_format)


def _decayed(param, grad, group):
    """The gradient with weight decay, unless that is decoupled and shrinks the parameter here."""
    weight_decay = group["weight_decay"]
    if weight_decay == 0:
        return grad
    if group.get("decoupled_weight_decay"):
        param.mul_(1 - group["lr"] * weight_decay)
        return grad
    return grad + weight_decay * param


class ElementwiseOptimizer(Optimizer):
    """An optimizer that treats every element alike, one parameter independent of the others.

    A subclass names the running averages that its state has, and gives the rule twice: `_update`
    for one parameter, in plain operations, and `_fused`, one call for all of them. The plain one
    serves `differentiable=True`, `fused=False`, complex parameters and sparse gradients.
    """

    _takes_sparse = False
    _averages = ()
    _need_device_dtype_check_for_fused = False

    def __init__(self, params: Iterable[Any], defaults: dict[Any, Any]) -> None:
        super().__init__(params, defaults)
        warn_of(type(self).__name__, "steps are not captured in CUDA graphs",
                capturable=defaults.get("capturable"))  # fmt: skip
        if defaults.get("fused"):
            if defaults.get("differentiable"):
                raise RuntimeError("`fused` does not support `differentiable`")
            if defaults.get("foreach"):
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
            self._step_supports_amp_scaling = True
            self._need_device_dtype_check_for_fused = True

    def _begin(self, param, group):
        """The state of a parameter before its first step."""
        return {"step": _step_count(), **{name: _zeros_of(param) for name in self._averages}}

    def _update(self, param, grad, state, group):
        raise NotImplementedError

    def _columns(self, group):
        """The names of what `_fused` takes of the states, in its order; None for an empty list."""
        raise NotImplementedError

    def _fused(self, lists, group):
        """The rule for all: parameters, their gradients and a list for each name of `_columns`."""
        raise NotImplementedError

    def step(self, closure: Callable[..., Any] | None = None) -> Any:
        """Update the parameters once; see `Optimizer.step`."""
        loss = _run_closure(closure)
        if self._need_device_dtype_check_for_fused:
            self._check_fused()
        recorded = rushlight.is_grad_enabled()
        rushlight._C.set_grad_enabled(self.defaults["differentiable"])  # cheaper than a `with`
        try:
            for group in self.param_groups:
                self._step_group(group)
        finally:
            rushlight._C.set_grad_enabled(recorded)
        return loss

    def _check_fused(self):
        for group in self.param_groups:
            if group.get("fused"):
                for param in _with_gradients(group)[0]:
                    _device_dtype_check_for_fused(param)
        self._need_device_dtype_check_for_fused = False

    def _step_group(self, group):
        if not group["differentiable"] and group.get("fused") is not False:
            names = self._columns(group)
            lists = rushlight._C._step_lists(group["params"], self.state, names)
            if lists:
                if len(lists) == 2:  # there are new parameters
                    states = [self._next_step(param, group) for param in lists[0]]
                    lists += rushlight._C._columns(states, names)
                self._fused(lists, group)
                return
        params, grads = _with_gradients(group)
        if not self._takes_sparse:
            self._refuse_sparse(grads)
        states = [self._next_step(param, group) for param in params]
        for param, grad, state in zip(params, grads, states):
            self._apply(param, grad, state, group)

    def _apply(self, param, grad, state, group):
        """The plain rule for one parameter, whose count of steps is up to date."""
        if group["maximize"]:
            grad = -grad
        if param.is_complex():
            param, grad = rushlight.view_as_real(param), rushlight.view_as_real(grad)
            state = {name: _as_real(value) for name, value in state.items()}
        self._update(param, grad, state, group)

    def _next_step(self, param, group):
        state = self.state[param]
        if not state:
            state.update(self._begin(param, group))
        if "step" in state:
            state["step"] += 1
        return state

    def _refuse_sparse(self, grads):
        if any(grad.layout is not strided for grad in grads):
            raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        _keep_numbers_in_tensors(self.state)


def _keep_numbers_in_tensors(state):
    """Files of older versions hold plain numbers."""
    for values in state.values():
        for name in _NUMBERS.intersection(values):
            if not isinstance(values[name], Tensor):
                values[name] = _step_count().fill_(float(values[name]))


def _step_lists(kind, params, grads, states, group, grad_scale=None, found_inf=None):
    """One step of a kind of optimizer by its plain rule, as its functional form makes it; `states`
    has a list for each name of a state, empty where the group does not ask for it.
    """
    if not all(isinstance(step, Tensor) for step in states["step"]):
        raise TypeError(f"{kind.__name__.lower()}: state_steps must be a list of tensors")
    optimizer = object.__new__(kind)
    for i, grad in enumerate(_scaled(grads, grad_scale, found_inf)):
        state = {name: values[i] for name, values in states.items() if values}
        state["step"] += 1
        optimizer._apply(params[i], grad, state, group)
        for name, values in states.items():
            if values and not params[i].is_complex():
                values[i] = state[name]


def _scaled(grads, scale, found_inf):
    """The gradients without the scale of the loss; none if infinities were found among them."""
    if found_inf is not None and found_inf.item():
        return []
    return grads if scale is None else [grad / scale for grad in grads]


def _as_real(value):
    is_complex = isinstance(value, Tensor) and value.is_complex()
    return rushlight.view_as_real(value) if is_complex else value


def _fusible(group):
    """The parameters with gradients and these, if one call for all can make this step, or None."""
    if group["differentiable"] or group.get("fused") is False:
        return None
    return rushlight._C._fusible(group["params"])


def _with_gradients(group):
    """The parameters that have gradients, and these."""
    params = [param for param in group["params"] if param.grad is not None]
    return params, [param.grad for param in params]


def _addcdiv(param, numerator, denominator, value):
    """param += value * numerator / denominator, where value may be a tensor."""
    if numerator.requires_grad:  # an average that the next step changes in place
        numerator = numerator.clone()
    if isinstance(value, Tensor):
        param.add_(value * numerator / denominator)
    else:
        param.addcdiv_(numerator, denominator, value=value)
