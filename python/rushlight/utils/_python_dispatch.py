"""`TorchDispatchMode` and what goes with it: refused, and why.

In torch, a dispatch mode sees each operation below autograd, those of backward too. Operations
here are not called through Python there. `overrides.TorchFunctionMode` sees every function that a
program calls.
"""

import contextlib

_REFUSED = (
    "operations below autograd are not called through Python in rushlight; "
    "torch.overrides.TorchFunctionMode sees the functions that a program calls"
)


class TorchDispatchMode:
    """A class to derive from; to enter it raises NotImplementedError."""

    def __init__(self, _dispatch_key=None):
        self._dispatch_key = _dispatch_key

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__} has no __torch_dispatch__")

    def __enter__(self):
        raise NotImplementedError(f"{type(self).__name__}: {_REFUSED}")

    def __exit__(self, exc_type, exc_value, traceback):
        """Nothing was entered."""

    @classmethod
    def push(cls, *args, **kwargs):
        """The older way to write `cls(...)`."""
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """The mode that changes nothing; as `TorchDispatchMode`."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode():
    """The innermost mode: None, as none can be entered."""
    return None


def _get_current_dispatch_mode_stack():
    """The modes that are active: none."""
    return []


def is_in_torch_dispatch_mode(include_infra_modes=True):
    """Is a mode active? Never."""
    del include_infra_modes
    return False


@contextlib.contextmanager
def _disable_current_modes():
    """A context without modes: as outside of it."""
    yield []


def is_traceable_wrapper_subclass(t):
    """Is it a tensor made of other tensors, that says so by its methods?"""
    from rushlight import Tensor

    names = ("__tensor_flatten__", "__tensor_unflatten__")
    return isinstance(t, Tensor) and type(t) is not Tensor and all(hasattr(t, n) for n in names)


def is_traceable_wrapper_subclass_type(t):
    """Is it a class of such tensors?"""
    from rushlight import Tensor

    names = ("__tensor_flatten__", "__tensor_unflatten__")
    return issubclass(t, Tensor) and t is not Tensor and all(hasattr(t, n) for n in names)


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """A tensor made of others, with `callback(name, tensor)` in the place of each of them."""
    names, context = t.__tensor_flatten__()
    parts = {name: callback(name, getattr(t, name)) for name in names}
    size = t.size() if outer_size is None else outer_size
    stride = t.stride() if outer_stride is None else outer_stride
    return type(t).__tensor_unflatten__(parts, context, size, stride)


def return_and_correct_aliasing(func, args, kwargs, out):
    """Refused: it belongs to `__torch_dispatch__`."""
    raise NotImplementedError(f"return_and_correct_aliasing({func}): {_REFUSED}")
