"""Settings of the whole process, and questions about dtypes."""

from __future__ import annotations

import rushlight
from rushlight import _C
from rushlight._ignored import warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.types import _dtype

_settings = {
    "deterministic": False,
    "deterministic_warn_only": False,
    "fill_uninitialized_memory": True,
    "gpu_by_tensor_type": False,  # did set_default_tensor_type make the GPU the default device?
    "matmul_precision": "highest",
    "warn_always": False,
}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for results that do not change from run to run; the CPU kernels always give such.

    What `empty` and its like return is filled then, with NaN or the largest integer, unless
    `utils.deterministic.fill_uninitialized_memory` is False.
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"use_deterministic_algorithms(): {name} must be bool, not {type(value).__name__}"
            )
    _settings["deterministic"], _settings["deterministic_warn_only"] = mode, warn_only
    _C._set_fills_uninitialized(mode and _settings["fill_uninitialized_memory"])


def are_deterministic_algorithms_enabled() -> bool:
    """What use_deterministic_algorithms was told."""
    return _settings["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What use_deterministic_algorithms was told about warnings."""
    return _settings["deterministic_warn_only"]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """use_deterministic_algorithms by number or name: 0 'default', 1 'warn', 2 'error'."""
    modes = {0: 0, 1: 1, 2: 2, "default": 0, "warn": 1, "error": 2}
    if debug_mode not in modes:
        raise RuntimeError(
            "invalid value of debug_mode, expected 'default', 'warn' or 'error', got "
            f"{debug_mode!r}"
        )
    use_deterministic_algorithms(modes[debug_mode] > 0, warn_only=modes[debug_mode] == 1)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2, as set_deterministic_debug_mode takes it."""
    if not _settings["deterministic"]:
        return 0
    return 1 if _settings["deterministic_warn_only"] else 2


def set_float32_matmul_precision(precision: str) -> None:
    """How exact products of float32 matrices must be.

    'highest' and 'high' are as exact as float32 is. Where the processor multiplies matrices of
    bfloat16 (AMX), 'medium' rounds the factors to it; elsewhere it changes nothing. On a GPU
    cuBLASLt rounds numbers to TF32 unless it is 'highest'. Convolutions do not depend on it.
    """
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"Float32 matmul precision must be 'highest', 'high' or 'medium', got {precision!r}"
        )
    _settings["matmul_precision"] = precision
    _C._set_round_float_factors(precision == "medium")
    rushlight.backends.cuda.matmul.allow_tf32 = precision != "highest"


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision was told."""
    return _settings["matmul_precision"]


def set_warn_always(b: bool) -> None:
    """Ask for warnings each time and not once."""
    _settings["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """What set_warn_always was told."""
    return _settings["warn_always"]


def get_num_interop_threads() -> int:
    """How many operations run side by side: one, in the thread that calls."""
    return 1


def set_num_interop_threads(n: int) -> None:
    """Accepted: operations run in the thread that calls."""
    if n <= 0:
        raise RuntimeError("set_num_interop_threads: expects a positive integer")


def set_default_tensor_type(t: type[Tensor] | str) -> None:
    """Make the dtype of a tensor type, such as rushlight.DoubleTensor or its name, the default,
    and the GPU the default device for one of `cuda`.
    """
    warn_program(
        "set_default_tensor_type is deprecated: call set_default_dtype and set_default_device"
    )
    name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
    home, _, kind = name.rpartition(".")
    on_gpu = home.endswith("cuda")
    if on_gpu and not rushlight.cuda.is_available():
        raise TypeError(f"type {name} not available: {rushlight._C._cuda.why_unavailable()}")
    rushlight.set_default_dtype(getattr(rushlight, kind).dtype)
    if on_gpu or _settings["gpu_by_tensor_type"]:
        rushlight.set_default_device("cuda" if on_gpu else None)
    _settings["gpu_by_tensor_type"] = on_gpu


def promote_types(type1: Any, type2: Any) -> _dtype:
    """The dtype that operations on both give."""
    return (rushlight.empty(0, dtype=type1) + rushlight.empty(0, dtype=type2)).dtype


def result_type(tensor1: Any, tensor2: Any) -> _dtype:
    """The dtype of the sum of two tensors or numbers."""

    def sample(value):
        return (
            value.new_empty([0] if value.dim() else [])
            if isinstance(value, rushlight.Tensor)
            else value
        )

    tensors = [sample(v) for v in (tensor1, tensor2)]
    if not any(isinstance(t, rushlight.Tensor) for t in tensors):
        return rushlight.tensor(tensor1 + tensor2).dtype
    return (tensors[0] + tensors[1]).dtype


def can_cast(from_: Any, to: Any) -> bool:
    """May a result of the first dtype be written into a tensor of the second?"""
    if from_.is_complex and not to.is_complex:
        return False
    if from_.is_floating_point and not (to.is_floating_point or to.is_complex):
        return False
    return to is not rushlight.bool or from_ is rushlight.bool


def set_vital(*facts: str) -> None:
    """Nothing, as in torch 2.13, where it is deprecated."""
    warn_program(f"'set_vital' is deprecated, please do not call: {facts} are not kept")
