"""How tensors travel between processes: the receiver maps the memory of the sender. That of GPUs is
in gpu_memory.py.

A storage is sent as the descriptor of an anonymous file, to which its bytes are moved first.
Nothing is left behind by a process that is killed, for the file has no name: the system frees it
with its last user. Importing this module makes Python's own queues and pipes send tensors so.
"""

from __future__ import annotations

import threading
from multiprocessing.reduction import ForkingPickler

import rushlight
from rushlight import Tensor, UntypedStorage
from rushlight._carried._tensor import CarriedTensor
from rushlight._core_members import as_tensor_of_bytes as _as_tensor_of_bytes
from rushlight.multiprocessing.descriptors import carrier
from rushlight.nn.parameter import Parameter
from rushlight.utils.hooks import warn_if_has_hooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.multiprocessing.descriptors import Offer
    from rushlight.types import _dtype

__all__ = ["init_reductions", "reduce_storage", "reduce_tensor"]


def _move(storage):
    """Move a storage to shared memory in place, where all its tensors can follow."""
    # Queues pickle in a thread of theirs, while another may be reading the old memory.
    return storage._try_share(threading.current_thread() is not threading.main_thread())


def _copy(storage):
    copy = UntypedStorage._new_shared(storage.nbytes())
    _as_tensor_of_bytes(copy).copy_(_as_tensor_of_bytes(storage))
    return copy


def reduce_storage(storage: Any) -> tuple[Any, ...]:
    """The recipe by which another process maps the memory of `storage`."""
    if storage.device.type == "meta":
        return storage.__reduce__()
    if storage.device.type == "cuda":
        from rushlight.multiprocessing import gpu_memory

        return gpu_memory.reduce_storage(storage)
    if not _move(storage) or storage._shared_descriptor() < 0:
        storage = _copy(storage)
    return rebuild_storage, (carrier(storage._shared_descriptor()), storage.nbytes())


def rebuild_storage(descriptor: Offer, nbytes: int) -> Any:
    return UntypedStorage._from_descriptor(descriptor.detach(), nbytes, True)


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """The recipe by which another process makes a tensor on the same memory.

    A tensor that other tensors look at in a way that is not known here (its own base is) cannot be
    moved to shared memory; if it is not there yet, a copy of its elements is sent.

    Raises: RuntimeError for a tensor that was computed with a gradient to follow: history does not
        cross processes.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a tensor with history (requires_grad, not a leaf) cannot be sent to another process,"
            " for autograd does not cross processes; send tensor.detach() if its values are meant"
        )
    warn_if_has_hooks(tensor)
    if tensor.device.type == "meta":
        args = (tensor.dtype, tuple(tensor.size()), tensor.stride(), tensor.requires_grad)
        return rebuild_meta, (type(tensor), *args)
    requires_grad = tensor.requires_grad
    kind = type(tensor)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.detach().clone()
    storage = tensor.untyped_storage()
    if tensor.is_cuda:
        window = (tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
        return rebuild_tensor, (kind, storage, tensor.dtype, *window, requires_grad)
    if not _move(storage) or storage._shared_descriptor() < 0:
        tensor = tensor.detach().clone()
        storage = tensor.untyped_storage()
        _move(storage)
    window = (tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
    return rebuild_tensor, (kind, storage, tensor.dtype, *window, requires_grad)


def rebuild_tensor(
    kind: str,
    storage: Any,
    dtype: _dtype | None,
    offset: int,
    size: Sequence[int],
    stride: Sequence[int],
    requires_grad: bool,
) -> Tensor:
    tensor = rushlight.storage.tensor_on(storage, dtype, size, stride, offset)
    return _as_kind(kind, tensor, requires_grad)


def rebuild_meta(
    kind: str, dtype: _dtype | None, size: Sequence[int], stride: Sequence[int], requires_grad: bool
) -> Tensor:
    tensor = rushlight.empty_strided(size, stride, dtype=dtype, device="meta")
    return _as_kind(kind, tensor, requires_grad)


def _as_kind(kind, tensor, requires_grad):
    if kind is Parameter:
        return Parameter(tensor, requires_grad)
    return tensor.requires_grad_(requires_grad)


def init_reductions() -> None:
    """Teach Python's multiprocessing to share the memory of tensors, parameters and storages."""
    for kind in (Tensor, Parameter, CarriedTensor):
        ForkingPickler.register(kind, reduce_tensor)
    ForkingPickler.register(UntypedStorage, reduce_storage)


init_reductions()
