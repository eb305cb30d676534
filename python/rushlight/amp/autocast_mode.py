"""Autocast: a region in which matrix products and convolutions run in 16 bits.

Some operations cast their floating-point arguments to the region's dtype, others to float32, and a
few to the widest dtype that came; all others run in the dtype of their arguments. float64 is left
alone. Which do what, the op table says (the column `autocast`), or `autocasts` of a function
written in Python; it is as on torch's CPU, and so is what recurrent layers do.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping

import rushlight
from rushlight import Tensor
from rushlight._ignored import warn_program as _warn_program
from rushlight._set_module import set_module
from rushlight.overrides import TorchFunctionMode, _get_current_function_mode_stack, _remove_mode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Self

    from rushlight.types import _dtype

_DTYPES = (rushlight.bfloat16, rushlight.float16)


class _State(threading.local):
    """The settings of a thread."""

    def __init__(self):
        self.enabled = {"cpu": False, "cuda": False}
        self.dtype = {"cpu": rushlight.bfloat16, "cuda": rushlight.float16}
        self.cache_enabled = True
        self.nesting = 0
        self.cache = {}
        self.mode = None


_state = _State()


# ---- the casts


def _is_castable(value):
    return (
        isinstance(value, Tensor)
        and value.is_floating_point()
        and value.device.type in _state.enabled
        and value.dtype is not rushlight.float64
    )


def _is_in_region(value):
    return _is_castable(value) and _state.enabled[value.device.type]


def _map(function, value):
    """`function` of a tensor, or of those in a list or tuple; other values as they are."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, (list, tuple)) and not isinstance(value, rushlight.Size):
        return [_map(function, v) for v in value]
    return value


def _to_lower(value):
    """The tensor in the region's dtype. A weight is cast once, and its gradients meet in that
    cast.
    """
    if not _is_in_region(value):
        return value
    dtype = _state.dtype[value.device.type]
    if value.dtype is dtype:
        return value
    is_weight = (
        value.dtype is rushlight.float32
        and value.requires_grad
        and value.is_leaf
        and not value._is_view()
    )
    if not (is_weight and _state.cache_enabled and _state.nesting):
        return value.to(dtype)
    key = id(value), dtype, rushlight.is_grad_enabled(), value._version
    if key not in _state.cache:
        _state.cache[key] = value, value.to(dtype)
    return _state.cache[key][1]


def _to_float32(value):
    return value.to(rushlight.float32) if _is_in_region(value) else value


def _lower(func, args, kwargs):
    return func(*_map(_to_lower, args), **{k: _map(_to_lower, v) for k, v in kwargs.items()})


def _float32(func, args, kwargs):
    return func(*_map(_to_float32, args), **{k: _map(_to_float32, v) for k, v in kwargs.items()})


def _pad(func, args, kwargs):
    """Reflection of one or two dims, and replication, are on the list of float32; other paddings
    are on none.
    """
    named = dict(zip(("input", "pad", "mode"), args), **kwargs)
    mode = named.get("mode", "constant")
    is_listed = mode == "replicate" or (mode == "reflect" and len(named.get("pad", ())) <= 4)
    return (_float32 if is_listed else _plain)(func, args, kwargs)


def _widest(func, args, kwargs):
    dtypes = []
    _map(lambda t: dtypes.append(t.dtype) if _is_in_region(t) else None, (*args, *kwargs.values()))
    if len(set(dtypes)) < 2 or "out" in kwargs:
        return func(*args, **kwargs)
    widest = functools.reduce(rushlight.promote_types, dtypes)

    def cast(value):
        return value.to(widest) if _is_in_region(value) else value

    return func(*_map(cast, args), **{k: _map(cast, v) for k, v in kwargs.items()})


def _plain(func, args, kwargs):
    return func(*args, **kwargs)


_POLICIES = {
    "lower_precision": _lower,
    "float32": _float32,
    "promote": _widest,
    "float32_unless_constant": _pad,
}


def _op(name):
    """The function that modes are given for the op of this name in the table."""
    home, *path = name.split(".")
    module = rushlight if home == "torch" else getattr(rushlight, home)
    return functools.reduce(getattr, path, module)


@functools.cache
def _rules():
    """Op of the table -> how to call it, as its row says."""
    from rushlight._op_rules import AUTOCAST

    return {_op(name): _POLICIES[policy] for policy, names in AUTOCAST.items() for name in names}


class _Autocast(TorchFunctionMode):
    """Sees every call while a region may be active, and casts where the lists say so."""

    def __init__(self) -> None:
        self.rules = _rules()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        kwargs = kwargs or {}
        if not (_state.enabled["cpu"] or _state.enabled["cuda"]):
            return func(*args, **kwargs)
        rule = self.rules.get(func) or _POLICIES.get(getattr(func, "_autocast", None))
        if rule is not None:
            return rule(func, args, kwargs)
        inside = getattr(func, "__wrapped__", None)
        if inside is None:
            return func(*args, **kwargs)
        with self:  # a function of others, written in Python: these may be on a list
            return inside(*args, **kwargs)


# ---- the switches


def is_autocast_available(device_type: str) -> bool:
    """Can autocast be asked for on this kind of device?"""
    kind = device_type.partition(":")[0]
    if kind not in _KINDS_OF_DEVICES:
        raise RuntimeError(f"autocast: Invalid device string: {device_type!r}; expected a kind")
    return kind == "cpu" or (kind == "cuda" and rushlight.cuda.is_available())


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Is an enabled region active for this kind of device?"""
    return _state.enabled.get(device_type, False)


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Switch autocast on or off in this thread, as entering and leaving a region does."""
    if not is_autocast_available(device_type):
        if enabled:
            raise RuntimeError(
                f"set_autocast_enabled: autocast is not available on {device_type!r}"
            )
        return
    _state.enabled[device_type] = bool(enabled)
    if enabled and _state.mode is None:
        _state.mode = _Autocast().__enter__()
    elif (
        not enabled
        and _state.mode is not None
        and _get_current_function_mode_stack()[-1:] == [_state.mode]
    ):
        _leave_mode()


def _leave_mode():
    mode, _state.mode = _state.mode, None
    _remove_mode(mode)


def get_autocast_dtype(device_type: str) -> _dtype:
    """The dtype of regions for which none is given."""
    if device_type not in _state.dtype:
        raise RuntimeError(f"get_autocast_dtype: unknown device type {device_type!r}")
    return _state.dtype[device_type]


def set_autocast_dtype(device_type: Any, dtype: _dtype | None) -> None:
    """Set the dtype of regions for which none is given."""
    get_autocast_dtype(device_type)
    _state.dtype[device_type] = dtype


def is_autocast_cache_enabled() -> bool:
    """Are the casts of weights kept within a region?"""
    return _state.cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether the casts of weights are kept within a region."""
    _state.cache_enabled = bool(enabled)


def clear_autocast_cache() -> None:
    """Drop the casts of weights."""
    _state.cache.clear()


def autocast_increment_nesting() -> int:
    """Begin a region, which keeps casts of weights until it ends. Returns the depth."""
    _state.nesting += 1
    return _state.nesting


def autocast_decrement_nesting() -> int:
    """End a region. Returns the depth."""
    _state.nesting -= 1
    return _state.nesting


def is_autocast_cpu_enabled() -> bool:
    """The older name of is_autocast_enabled("cpu")."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """The older name of set_autocast_enabled("cpu", enabled)."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Any:
    """The older name of get_autocast_dtype("cpu")."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: _dtype | None) -> None:
    """The older name of set_autocast_dtype("cpu", dtype)."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Any:
    """The older name of get_autocast_dtype("cuda")."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: _dtype | None) -> None:
    """The older name of set_autocast_dtype("cuda", dtype)."""
    set_autocast_dtype("cuda", dtype)


# Of torch; most are not available here.
_KINDS_OF_DEVICES = set(
    """
    cpu cuda ipu xpu mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps meta hpu mtia
    privateuseone
    """.split()
)


class autocast:
    """A region in which matrix products and convolutions run in 16 bits, and what needs it in
    float32.

    Works as a decorator too. Regions nest; a disabled one inside leaves dtypes alone.

    Args:
        device_type: "cpu"; other kinds of device are warned of, the region then being disabled.
        dtype: bfloat16 (default) or float16.
        enabled: whether the region is one.
        cache_enabled: cast a weight once, however often it is used before the outermost region
        ends.

    Example:
        >>> x = rushlight.ones(2, 2)
        >>> with rushlight.amp.autocast("cpu"):
        ...     y = x @ x
        ...     z = y.float().softmax(0)
        >>> y.dtype, z.dtype
        (torch.bfloat16, torch.float32)
    """

    def __init__(
        self,
        device_type: str,
        dtype: _dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        self.fast_dtype: _dtype | None = _state.dtype.get(device_type) if dtype is None else dtype
        if enabled and not is_autocast_available(device_type):
            _warn_program(
                "CUDA is not available or torch_xla is imported. Disabling autocast."
                if device_type == "cuda"
                else f"User provided device_type of {device_type!r}, but it is not available. "
                "Disabling"
            )
            enabled = False
        if enabled and self.fast_dtype not in _DTYPES:
            _warn_program(
                f"In {device_type.upper()} autocast, but the target dtype is not supported. "
                f"Disabling autocast.\n{self.fast_dtype} is none of torch.bfloat16, torch.float16."
            )
            enabled = False
        self._enabled = bool(enabled)
        self._cache_enabled = _state.cache_enabled if cache_enabled is None else bool(cache_enabled)
        self._before = []

    def __enter__(self) -> Self:
        state = _state
        before = dict(state.enabled), dict(state.dtype), state.cache_enabled, state.mode
        self._before.append(before)
        autocast_increment_nesting()
        if self.device in state.enabled:
            if self._enabled:
                set_autocast_enabled(self.device, True)
                state.dtype[self.device] = self.fast_dtype
            else:
                state.enabled[self.device] = False
        state.cache_enabled = self._cache_enabled
        return self

    def __exit__(self, *exception: object) -> None:
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        _state.enabled, _state.dtype, _state.cache_enabled, mode = self._before.pop()
        if mode is None and _state.mode is not None:
            _leave_mode()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def decorated(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return decorated


# ---- for autograd.Function


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str = "cpu",
    cast_inputs: _dtype | None = None,
) -> Callable[..., Any]:
    """Decorates the forward of an autograd.Function; see custom_bwd.

    Args:
        device_type: the kind of device.
        cast_inputs: inside autocast, floating-point inputs become this dtype and the forward runs
            without autocast. By default it runs with what is around it.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx, *args, **kwargs):
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = is_autocast_enabled(device_type)
        if cast_inputs is None or not ctx._fwd_used_autocast:
            return fwd(ctx, *args, **kwargs)
        ctx._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return decorated


def custom_bwd(
    bwd: Callable[..., Any] | None = None, *, device_type: str = "cpu"
) -> Callable[..., Any]:
    """Decorates the backward of an autograd.Function, which then runs with autocast as its forward
    did.
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx, *args, **kwargs):
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return decorated


def _cast(value, dtype):
    """The floating-point tensors in nested containers as `dtype`; float64 stays."""
    if isinstance(value, Tensor):
        return value.to(dtype) if _is_castable(value) else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, dtype): _cast(v, dtype) for k, v in value.items()}
    if isinstance(value, Iterable):
        items = [_cast(v, dtype) for v in value]
        return (
            type(value)(items)
            if isinstance(value, (list, tuple)) and not hasattr(value, "_fields")
            else items
        )
    return value


# Torch's own functions for these are of its core.
set_module(
    "rushlight", autocast_decrement_nesting, autocast_increment_nesting, clear_autocast_cache,
    get_autocast_cpu_dtype, get_autocast_dtype, get_autocast_gpu_dtype, is_autocast_cache_enabled,
    is_autocast_cpu_enabled, is_autocast_enabled, set_autocast_cache_enabled,
    set_autocast_cpu_dtype, set_autocast_cpu_enabled, set_autocast_dtype, set_autocast_enabled,
    set_autocast_gpu_dtype,
)  # fmt: skip


def _enter_autocast(*values: Any) -> autocast:
    """Enter `autocast(*values)` in a graph, which has no `with`; `_exit_autocast` leaves it."""
    mode = autocast(*values)
    mode.__enter__()
    return mode


def _exit_autocast(mode: autocast) -> None:
    mode.__exit__(None, None, None)
