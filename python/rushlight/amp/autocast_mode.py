"""Autocast: a region in which some operations may run in a lower precision."""

import functools
import warnings

import rushlight

_active = []


def is_autocast_available(device_type):
    """Can autocast be asked for on this kind of device?"""
    return device_type == "cpu"


def is_autocast_enabled(device_type="cpu"):
    """Is an enabled autocast region active?"""
    return bool(_active and _active[-1].enabled)


class autocast:
    """A region in which operations may run in `dtype`. The CPU kernels compute in float32 there: results are at least as exact.

    Args:
        device_type: "cpu"; other devices are accepted and warned of, the region then being disabled.
        dtype: bfloat16 (default) or float16.
        enabled: whether the region is one.
        cache_enabled: accepted; there are no casts to cache.
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if enabled and not is_autocast_available(device_type):
            warnings.warn(f"User provided device_type of {device_type!r}, but it is not available. Disabling", stacklevel=2)
            enabled = False
        self.device = device_type
        self.fast_dtype = rushlight.bfloat16 if dtype is None else dtype
        self.enabled = enabled

    def __enter__(self):
        _active.append(self)
        return self

    def __exit__(self, *exception):
        _active.pop()

    def __call__(self, function):
        @functools.wraps(function)
        def decorated(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return decorated


def custom_fwd(fwd=None, *, device_type="cpu", cast_inputs=None):
    """Decorates the forward of an autograd.Function; inside autocast its float inputs become `cast_inputs`."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx, *args, **kwargs):
        if cast_inputs is None or not is_autocast_enabled():
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *(_cast(a, cast_inputs) for a in args), **{k: _cast(v, cast_inputs) for k, v in kwargs.items()})

    return decorated


def custom_bwd(bwd=None, *, device_type="cpu"):
    """Decorates the backward of an autograd.Function whose forward has custom_fwd."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


def _cast(value, dtype):
    is_float = isinstance(value, rushlight.Tensor) and value.is_floating_point() and value.dtype is not rushlight.float64
    return value.to(dtype) if is_float else value
