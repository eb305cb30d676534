"""Small questions about tensors and modes, as functions."""

import rushlight
from rushlight import _C

is_grad_enabled = _C.is_grad_enabled
is_inference_mode_enabled = _C.is_inference_mode_enabled


def is_tensor(obj):
    """Is it a tensor?"""
    return isinstance(obj, rushlight.Tensor)


def is_storage(obj):
    """Is it a storage?"""
    return isinstance(obj, rushlight.UntypedStorage)


def is_floating_point(input):
    """Is the dtype one of float16, bfloat16, float32, float64?"""
    return input.is_floating_point()


def is_complex(input):
    """Is the dtype one of complex64, complex128?"""
    return input.is_complex()


def is_nonzero(input):
    """Is the only element nonzero?"""
    return bool(input)


def numel(input):
    """How many elements there are."""
    return input.numel()


def typename(obj):
    """The name of a tensor's legacy type, or of any object's class with its module."""
    if isinstance(obj, rushlight.Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return f"{kind.__module__}.{kind.__qualname__}"


def _assert(condition, message):
    """An assert that takes a tensor as its condition."""
    assert condition, message


def compile(model=None, **options):
    """Returns the model: there is nothing to compile. Takes torch.compile's options and works as a decorator."""
    return model if model is not None else lambda m: m


def get_device_module(device=None):
    """The module of a kind of device: rushlight.cpu, rushlight.cuda, ...

    Args:
        device: a device or its name; by default the accelerator, or the CPU without one.
    """
    kind = rushlight.device(device).type if device is not None else "cpu"
    module = getattr(rushlight, kind, None)
    if module is None:
        raise RuntimeError(f"Invalid device_module of type {kind!r}: there is no module of that name")
    return module
