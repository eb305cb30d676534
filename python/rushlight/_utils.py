"""What libraries take from `torch._utils`: functions that files name, flat buffers of several
tensors, exceptions from other threads, numbers of devices.
"""

import sys
import traceback

import rushlight
from rushlight import Tensor
from rushlight._tensor import _rebuild_wrapper_subclass, _state_of, _with_bits
from rushlight.nn.parameter import _rebuild_parameter


def _rebuild_tensor(storage, storage_offset, size, stride):
    """The tensor that looks at a storage with these sizes and strides."""
    from rushlight.storage import TypedStorage, tensor_on

    if not isinstance(storage, TypedStorage):
        raise TypeError(f"expected a TypedStorage but got {type(storage).__name__}")
    return tensor_on(storage.untyped(), storage.dtype, size, stride, storage_offset)


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad, storage_offset=0):
    """The tensor on meta of these sizes and strides."""
    last = 0 if 0 in size else sum((n - 1) * step for n, step in zip(size, stride))
    whole = rushlight.empty(storage_offset + last + 1, dtype=dtype, device="meta")
    return whole.as_strided(size, stride, storage_offset).requires_grad_(requires_grad)


def _rebuild_sparse_tensor(layout, data):
    """The sparse tensor of indices, of both kinds if it is compressed, values and a size."""
    from rushlight._checkpoint_reader import _rebuild_sparse

    return _rebuild_sparse(layout, data)


def _rebuild_nested_tensor(buffer, sizes, strides, storage_offsets):
    """The nested tensor of the parts of a buffer."""
    from rushlight._checkpoint_reader import _rebuild_nested

    return _rebuild_nested(buffer, sizes, strides, storage_offsets)


def _rebuild_tensor_v2(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None
):
    """The same, with what else a file holds of a tensor."""
    tensor = _rebuild_tensor(storage, storage_offset, size, stride)
    if metadata:
        unknown = set(metadata) - {"conj", "neg"}
        if unknown:
            raise NotImplementedError(f"_rebuild_tensor_v2: metadata {sorted(unknown)}")
        tensor = _with_bits(tensor, metadata)
    if requires_grad:
        tensor.requires_grad_()
    if backward_hooks:
        tensor._backward_hooks = backward_hooks
    return tensor


def _rebuild_tensor_v3(
    storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None
):
    """As `_rebuild_tensor_v2`, of a dtype that storages of old cannot have."""
    from rushlight.storage import TypedStorage

    untyped = storage.untyped() if isinstance(storage, TypedStorage) else storage
    return _rebuild_tensor_v2(
        TypedStorage(wrap_storage=untyped, dtype=dtype), storage_offset, size, stride,
        requires_grad, backward_hooks, metadata,
    )  # fmt: skip


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    """A parameter with attributes of its own."""
    return _rebuild_parameter(data, requires_grad, backward_hooks, state)


def _get_obj_state(obj):
    """What copying and pickling keep of a tensor's attributes: a dict, or (dict, of slots)."""
    return _state_of(obj)


def _set_obj_state(obj, state):
    """Give an object the attributes that `_get_obj_state` found."""
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in (part or {}).items():
            setattr(obj, name, value)
    return obj


def _flatten_dense_tensors(tensors):
    """One vector with the elements of all tensors, one after the other."""
    return rushlight.cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """Views of the vector `flat` with the shapes of `tensors`."""
    parts, start = [], 0
    for tensor in tensors:
        parts.append(flat.narrow(0, start, tensor.numel()).view(tensor.shape))
        start += tensor.numel()
    return tuple(parts)


def _reorder_tensors_as(tensors, ordered_tensors):
    """`tensors` in the order of types in `ordered_tensors`."""
    by_type = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    queues = {kind: iter(members) for kind, members in by_type.items()}
    return tuple(next(queues[tensor.type()]) for tensor in ordered_tensors)


def _take_tensors(tensors, size_limit):
    """Lists of tensors of one type that take at most `size_limit` bytes together, in turn."""
    pending = {}
    for tensor in tensors:
        kind = tensor.type()
        members, size = pending.get(kind, ([], 0))
        nbytes = tensor.numel() * tensor.element_size()
        if members and size + nbytes > size_limit:
            yield members
            members, size = [], 0
        pending[kind] = ([*members, tensor], size + nbytes)
    for members, _ in pending.values():
        if members:
            yield members


def _import_dotted_name(name):
    """The object of a dotted name, of which the first part is imported."""
    first, *rest = name.split(".")
    found = __import__(first)
    for part in rest:
        found = getattr(found, part)
    return found


def _accumulate(iterable, fn=lambda a, b: a + b):
    """Running totals."""
    import itertools

    return itertools.accumulate(iterable, fn)


def _get_async_or_non_blocking(function_name, non_blocking, kwargs):
    """`non_blocking`, or the older name for it in `kwargs`."""
    if not kwargs:
        return non_blocking
    if len(kwargs) != 1 or "async" not in kwargs:
        unknown = next(name for name in kwargs if name != "async")
        raise TypeError(f"{function_name}() got an unexpected keyword argument {unknown!r}")
    return kwargs["async"]


def _type(self, dtype=None, non_blocking=False, **kwargs):
    """The type of a tensor or storage, or a copy of another type."""
    return self.type(dtype, _get_async_or_non_blocking("type", non_blocking, kwargs))


def _to(self, device, non_blocking=False):
    """A copy of a storage on a device."""
    return self.to(device=device, non_blocking=non_blocking)


class ExceptionWrapper:
    """An exception with its traceback as text, to be raised again in another thread or process.

    Args:
        exc_info: what sys.exc_info() returns; by default of the exception that is handled now.
        where: said in the message.
    """

    def __init__(self, exc_info=None, where="in background"):
        exc_info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type = exc_info[0]
        self.exc_msg = "".join(traceback.format_exception(*exc_info))
        self.where = where

    def reraise(self):
        """Raise an exception of the same class, with the traceback in its message."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = _AsItIs(message)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            exception = self.exc_type(message)
        except Exception:  # it takes other arguments than a message
            raise RuntimeError(message) from None
        raise exception


class _AsItIs(str):
    """A message whose repr, which KeyError shows, has lines."""

    def __repr__(self):
        return str(self)


def _get_available_device_type():
    """ "cuda", "xpu" ... if there is one, else None."""
    if rushlight.accelerator.is_available():
        return rushlight.accelerator.current_accelerator().type
    return None


def _get_device_module(device_type):
    """`rushlight.cuda` of "cuda", and so on."""
    module = getattr(rushlight, device_type, None)
    if module is None:
        raise RuntimeError(f"device_type {device_type!r} has no module rushlight.{device_type}")
    return module


def _get_device_attr(get_member):
    """get_member of the module of the accelerator that there is; None without one."""
    kind = _get_available_device_type()
    return get_member(getattr(rushlight, kind)) if kind is not None else None


def _get_current_device_index():
    """The number of the current device; 0 without one."""
    found = _get_device_attr(lambda module: module.current_device())
    return 0 if found is None else found


def _get_all_device_indices():
    """The numbers of all devices; None without one."""
    return _get_device_attr(lambda module: list(range(module.device_count())))


def _get_devices_properties(device_ids):
    """The properties of devices."""
    return [_get_device_attr(lambda m, i=i: m.get_device_properties(i)) for i in device_ids]


def get_current_device_index():
    """The number of the current CUDA device; -1 without one."""
    return rushlight.cuda.current_device() if rushlight.cuda.device_count() > 0 else -1


def _get_device_index(device, optional=False, allow_cpu=False):
    """The number of a device, given by a number, name or object.

    Args:
        optional: None stands for the current device.
        allow_cpu: the CPU has the number -1; else it is refused.
    """
    if isinstance(device, str):
        device = rushlight.device(device)
    if isinstance(device, int) and not isinstance(device, bool):
        return device
    if isinstance(device, rushlight.device):
        if device.type == "cpu" and not allow_cpu:
            raise ValueError(f"Expected a non cpu device, but got: {device}")
        if device.type == "cpu":
            return -1
        if device.index is not None:
            return device.index
    if (device is None or isinstance(device, rushlight.device)) and optional:
        return _get_current_device_index()
    raise ValueError(
        f"Expected a torch.device with a specified index or an integer, but got:{device}"
    )


def _handle_complex(tensor):
    """A complex tensor as a real one with one more dim; others as they are."""
    is_plain = isinstance(tensor, Tensor) and not rushlight.nn.parameter.is_lazy(tensor)
    return rushlight.view_as_real(tensor) if is_plain and tensor.is_complex() else tensor


def _element_size(dtype):
    """How many bytes an element has."""
    if not isinstance(dtype, rushlight.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return dtype.itemsize


class _ClassPropertyDescriptor:
    """A property of a class."""

    def __init__(self, fget):
        self.fget = fget

    def __get__(self, instance, owner=None):
        return self.fget.__get__(instance, owner or type(instance))()


def classproperty(func):
    """Let a method without arguments be a property of its class."""
    return _ClassPropertyDescriptor(
        func if isinstance(func, (classmethod, staticmethod)) else classmethod(func)
    )


def is_compiling():
    """Return False: nothing is compiled."""
    return False


__all__ = [
    "ExceptionWrapper", "_element_size", "_flatten_dense_tensors", "_get_all_device_indices",
    "_get_available_device_type", "_get_device_index", "_get_device_module",
    "_rebuild_meta_tensor_no_storage", "_rebuild_nested_tensor", "_rebuild_parameter",
    "_rebuild_sparse_tensor", "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_wrapper_subclass",
    "_take_tensors", "_unflatten_dense_tensors",
]  # fmt: skip
