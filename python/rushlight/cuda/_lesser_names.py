"""What few programs ask of CUDA: storages by type, power and temperature, other allocators."""

from __future__ import annotations

import enum
import subprocess

import rushlight
from rushlight import _absent
from rushlight._utils import _get_device_index  # noqa: F401 - a name of torch.cuda
from rushlight.storage import TypedStorage, _StorageKind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.types import Device

_STORAGES = """
    BFloat16 Bool Byte Char ComplexDouble ComplexFloat Double Float Half Int Long Short
""".split()


class _StorageOnGpu(_StorageKind):
    """Typed storages of a dtype that are on a GPU are its instances."""

    def __instancecheck__(cls, instance: object) -> bool:
        of_dtype = isinstance(instance, getattr(rushlight, cls.__name__))
        return of_dtype and instance.device.type == "cuda"

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return getattr(rushlight, cls.__name__)(*args, **{"device": "cuda", **kwargs})


def _storage(name):
    text = f"Makes a `{name}Storage` on the GPU."
    members = {
        "__doc__": text, "__module__": "rushlight.cuda",
        "dtype": getattr(rushlight, f"{name}Storage").dtype,
    }  # fmt: skip
    return _StorageOnGpu(f"{name}Storage", (TypedStorage,), members)


globals().update({f"{name}Storage": _storage(name) for name in _STORAGES})


def _is_compiled():
    """Can CUDA be used here: it needs none when the library is built."""
    return rushlight.backends.cuda.is_built()


class cudaStatus(enum.IntEnum):
    """The numbers of errors that programs compare with."""

    SUCCESS = 0
    ERROR_NOT_READY = 600


class CudaError(RuntimeError):
    """A call of CUDA's run-time library failed.

    Args:
        code: its number.
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error {int(code)}")
        self.code = int(code)


def check_error(res: int) -> None:
    """Raise CudaError unless the number that a call returned says success."""
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def get_allocator_backend() -> str:
    """The name of the allocator: the library's own, which torch calls native."""
    return "native"


def host_memory_stats() -> dict[str, Any]:
    """Numbers of pinned memory: none are counted."""
    return {}


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """Numbers of pinned memory: none are counted."""
    return {}


def reset_accumulated_host_memory_stats() -> None:
    """Begin the numbers of pinned memory anew: none are counted."""


def reset_peak_host_memory_stats() -> None:
    """Begin the peaks of pinned memory anew: none are counted."""


def _ask(function, field, device):
    index = rushlight.cuda.current_device() if device is None else rushlight.device(device).index
    command = ["nvidia-smi", f"--id={index or 0}", f"--query-gpu={field}",
               "--format=csv,noheader,nounits"]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
        return float(done.stdout.split()[0])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError) as error:
        raise RuntimeError(f"cuda.{function}: nvidia-smi does not say it: {error}") from error


def temperature(device: Device = None) -> int:
    """Degrees Celsius of the GPU, as the driver says."""
    return int(_ask("temperature", "temperature.gpu", device))


def power_draw(device: Device = None) -> int:
    """Milliwatts that the GPU takes, as the driver says."""
    return int(_ask("power_draw", "power.draw", device) * 1000)


def clock_rate(device: Device = None) -> int:
    """Megahertz of the GPU's multiprocessors, as the driver says."""
    return int(_ask("clock_rate", "clocks.sm", device))


def memory_usage(device: Device = None) -> int:
    """Percent of the time in which the GPU's memory was read or written, as the driver says."""
    return int(_ask("memory_usage", "utilization.memory", device))


def device_memory_used(device: Device = None) -> int:
    """Bytes of the GPU's memory that are in use, by all processes."""
    free, total = rushlight.cuda.mem_get_info(device)
    return total - free


def list_gpu_processes(device: Device = None) -> str:
    """The processes that compute on the GPU, one in a line, as the driver says."""
    index = rushlight.cuda.current_device() if device is None else rushlight.device(device).index
    command = ["nvidia-smi", f"--id={index or 0}", "--query-compute-apps=pid,used_memory",
               "--format=csv,noheader"]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        raise RuntimeError(f"cuda.list_gpu_processes: nvidia-smi fails: {error}") from error
    lines = [f"process {line}" for line in done.stdout.splitlines()] or ["no processes are running"]
    return "\n".join([f"GPU:{index or 0}", *lines])


_ALLOCATOR = "the allocator of GPU memory is the library's own"
globals().update(
    _absent.refused(
        {
            "CUDAPluggableAllocator": _ALLOCATOR,
            "MemPool": _ALLOCATOR,
            "use_mem_pool": _ALLOCATOR,
            "change_current_allocator": _ALLOCATOR,
            "caching_allocator_alloc": _ALLOCATOR,
            "caching_allocator_delete": _ALLOCATOR,
            "caching_allocator_disabled": _ALLOCATOR,
            "caching_allocator_enable": _ALLOCATOR,
            "GreenContext": "the multiprocessors of a GPU are not divided",
            "current_solver_handle": "cuSOLVER is not used",
            "get_stream_from_external": "write cuda.ExternalStream(pointer)",
            "jiterator": "own operations are kernels of `library.custom_op`",
            "sparse": "sparse tensors are made by torch.sparse_coo_tensor",
            "tunable": "products are not tuned",
        }
    )
)


def _lazy_init() -> None:
    """Start CUDA: see `init`."""
    rushlight.cuda.init()


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Call a function that uses the GPU, if there is one: at once, as CUDA starts by itself.

    Args:
        callable: the function.
        kwargs: `seed` and `seed_all`, which say in torch how to wait for the start.
    """
    if unknown := kwargs.keys() - {"seed", "seed_all"}:
        raise TypeError(f"_lazy_call: unexpected arguments {sorted(unknown)}")
    if rushlight.cuda.is_available():
        callable()


NAMES = (
    *(f"{name}Storage" for name in _STORAGES), "_get_device_index",
    "_is_compiled", "_lazy_call", "_lazy_init",
    "CUDAPluggableAllocator", "CudaError",
    "GreenContext", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
    "caching_allocator_disabled", "caching_allocator_enable", "change_current_allocator",
    "check_error", "clock_rate", "cudaStatus", "current_solver_handle", "device_memory_used",
    "get_allocator_backend", "get_stream_from_external", "host_memory_stats",
    "host_memory_stats_as_nested_dict", "jiterator", "list_gpu_processes", "memory_usage",
    "power_draw", "reset_accumulated_host_memory_stats", "reset_peak_host_memory_stats", "sparse",
    "temperature", "tunable", "use_mem_pool",
)  # fmt: skip
