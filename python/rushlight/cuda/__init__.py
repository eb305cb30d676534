"""CUDA: GPUs, their streams, memory and random numbers.

Nothing here starts a GPU before something needs one. Where there is none, is_available() is False,
seeds and caches are left alone, and what needs a GPU raises an error that says what is missing.
"""

from __future__ import annotations

import importlib

from rushlight import _C, _absent
from rushlight._C import OutOfMemoryError  # noqa: F401
from rushlight._set_module import set_module
from rushlight._typed_tensors import TensorMembers
from rushlight.cuda._device import (  # noqa: F401
    _CudaDeviceProperties,
    _is_in_bad_fork,
    can_device_access_peer as can_device_access_peer,
    current_device as current_device,
    device as device,
    device_count as device_count,
    device_of as device_of,
    get_arch_list as get_arch_list,
    get_device_capability as get_device_capability,
    get_device_name as get_device_name,
    get_device_properties as get_device_properties,
    get_gencode_flags as get_gencode_flags,
    get_sync_debug_mode as get_sync_debug_mode,
    init as init,
    is_available as is_available,
    is_bf16_supported as is_bf16_supported,
    is_initialized as is_initialized,
    is_tf32_supported as is_tf32_supported,
    set_device as set_device,
    set_sync_debug_mode as set_sync_debug_mode,
    synchronize as synchronize,
)  # fmt: skip
from rushlight.cuda.graphs import (  # noqa: F401
    CUDAGraph as CUDAGraph,
    graph as graph,
    graph_pool_handle as graph_pool_handle,
    is_current_stream_capturing as is_current_stream_capturing,
    make_graphed_callables as make_graphed_callables,
)  # fmt: skip
from rushlight.cuda.memory import *  # noqa: F403
from rushlight.cuda.random import *  # noqa: F403
from rushlight.cuda.random import _get_rng_state_offset, _set_rng_state_offset  # noqa: F401
from rushlight.cuda.streams import (  # noqa: F401
    Event as Event,
    ExternalStream as ExternalStream,
    Stream as Stream,
    StreamContext as StreamContext,
    current_stream as current_stream,
    default_stream as default_stream,
    set_stream as set_stream,
    stream as stream,
)  # fmt: skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from typing_extensions import Self

    from rushlight import Generator, Tensor
    from rushlight.cuda import (
        amp as amp,
        comm as comm,
        memory as memory,
        nccl as nccl,
        nvtx as nvtx,
        profiler as profiler,
        random as random,
    )
    from rushlight.types import Device

    default_generators: tuple[Generator, ...]

has_magma = False
has_half = True

globals().update(
    _absent.refusals("CUDA", ("cudart", "current_blas_handle", "utilization"), NotImplementedError)
)


class DeferredCudaCallError(Exception):
    """A call that waited for CUDA to start failed."""


class _CudaTensorType(TensorMembers):
    """The old names of tensors on a GPU: classes by dtype, whose calls make tensors there."""

    is_cuda, is_sparse = True, False
    layout = _C._types["strided"]

    @property
    def dtype(cls):
        """The dtype of its tensors."""
        return _of_the_cpu(cls).dtype

    def __instancecheck__(cls, instance):
        import rushlight

        if not isinstance(instance, rushlight.Tensor) or not instance.is_cuda:
            return False
        return instance.type() == f"torch.cuda.{cls.__name__}"

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if not is_available():
            raise TypeError(
                f"type torch.cuda.{cls.__name__} not available: {_C._cuda.why_unavailable()}"
            )
        return _of_the_cpu(cls)(*args, **kwargs).cuda()


def _of_the_cpu(cls):
    import rushlight

    return getattr(rushlight, cls.__name__)


for _name in (
    "BFloat16",
    "Bool",
    "Byte",
    "Char",
    "Double",
    "Float",
    "Half",
    "Int",
    "Long",
    "Short",
):
    _doc = f"torch.{_name}Tensor on a GPU."
    globals()[f"{_name}Tensor"] = _CudaTensorType(
        f"{_name}Tensor", (), {"__doc__": _doc, "__module__": __name__}
    )

set_module(
    __name__, StreamContext, can_device_access_peer, current_device, current_stream, default_stream,
    device, device_count, device_of, get_arch_list, get_device_capability, get_device_name,
    get_device_properties, get_gencode_flags, get_sync_debug_mode, init, is_available,
    is_bf16_supported, is_initialized, is_tf32_supported, set_device, set_stream,
    set_sync_debug_mode, stream, synchronize,
)  # fmt: skip

_SUBMODULES = ("_utils", "amp", "comm", "nccl", "nvtx", "profiler")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "_initialized":  # networks that keep the random state ask for it
        return is_initialized()
    if name == "default_generators":  # asks the driver how many there are
        globals()[name] = tuple(map(_C._default_cuda_generator, range(device_count())))
        return globals()[name]
    lesser = importlib.import_module("rushlight.cuda._lesser_names")
    if name in lesser.NAMES:
        return getattr(lesser, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES, "default_generators"})
