"""CUDA, answered truthfully by a build without it: there is no device.

Questions are answered, seeds and caches that do not exist are left alone, and what needs a GPU
raises an error that says so.
"""

import importlib
from collections import OrderedDict

from rushlight import _absent

has_magma = False
has_half = True
default_generators = ()

globals().update(
    _absent.answers(
        {
            "is_available": False, "is_initialized": False, "is_bf16_supported": False,
            "is_tf32_supported": False,
            "device_count": 0, "get_arch_list": list, "get_gencode_flags": "",
            "get_rng_state_all": list,
            "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0,
            "max_memory_reserved": 0,
            "memory_cached": 0, "max_memory_cached": 0, "memory_stats": OrderedDict,
            "memory_summary": "no CUDA device",
            "manual_seed": None, "manual_seed_all": None, "seed": None, "seed_all": None,
            "empty_cache": None, "ipc_collect": None, "reset_peak_memory_stats": None,
            "reset_max_memory_allocated": None,
            "reset_max_memory_cached": None, "reset_accumulated_memory_stats": None,
            "is_current_stream_capturing": False,
            "set_sync_debug_mode": None, "get_sync_debug_mode": 0,
        }
    )
)  # fmt: skip
globals().update(
    _absent.refusals(
        "CUDA",
        (
            "CUDAGraph", "Event", "ExternalStream", "Stream", "can_device_access_peer", "cudart",
            "current_blas_handle",
            "current_device", "current_stream", "default_stream", "get_device_capability",
            "get_device_name",
            "get_device_properties", "get_rng_state", "init", "initial_seed",
            "make_graphed_callables", "mem_get_info",
            "set_per_process_memory_fraction", "set_stream", "synchronize", "utilization",
        ),
    )
)  # fmt: skip


class OutOfMemoryError(RuntimeError):
    """A GPU has no memory left."""


class DeferredCudaCallError(Exception):
    """A call that waited for CUDA to start failed."""


def set_device(device):
    """Make a GPU the current one; a negative number does nothing."""
    if not isinstance(device, int) or device >= 0:
        raise AssertionError(
            f"cuda.set_device: rushlight was built without CUDA: there is no device {device!r}"
        )


class device:
    """A context with another current GPU. None or a negative number changes nothing."""

    def __init__(self, device):
        self.idx = device

    def __enter__(self):
        if self.idx is not None:
            set_device(self.idx)
        return self

    def __exit__(self, *exception):
        pass


class device_of(device):
    """A context whose current GPU is that of a tensor, if it lives on one."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else None)


class StreamContext:
    """A context with another current stream; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        return None

    def __exit__(self, *exception):
        pass


class graph:
    """Needs a device: a context that records what runs on a GPU."""

    def __init__(self, *args, **kwargs):
        raise AssertionError("cuda.graph: rushlight was built without CUDA devices")


def stream(stream):
    """A context with another current stream; None changes nothing."""
    return StreamContext(stream)


def get_rng_state_all():
    """The states of the generators of all GPUs: none."""
    return []


def set_rng_state_all(new_states):
    """Set the states of the generators of all GPUs: there are none to set."""
    if len(list(new_states)):
        raise AssertionError(
            "cuda.set_rng_state_all: rushlight was built without CUDA: there is no device"
        )


def set_rng_state(new_state, device="cuda"):
    """Set the state of the generator of a GPU."""
    raise AssertionError("cuda.set_rng_state: rushlight was built without CUDA: there is no device")


class _CudaTensorType(type):
    """The old names of tensors on a GPU: nothing is one, and none can be made."""

    def __instancecheck__(cls, instance):
        return False

    def __call__(cls, *args, **kwargs):
        raise TypeError(
            f"type torch.cuda.{cls.__name__} not available: rushlight was built without CUDA"
        )


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

_SUBMODULES = ("amp", "comm", "memory", "nccl", "nvtx", "profiler", "random")


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_SUBMODULES})
