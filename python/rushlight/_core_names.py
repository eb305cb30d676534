"""Names of torch._C that libraries reach for: questions about modes and devices, and switches of a
compiler that is not here.
"""

import sys
import types

import rushlight
from rushlight import _C, _device
from rushlight._functorch import core as _functorch  # (found by its name)
from rushlight.library._schema import Tag, parse_schema  # noqa: F401

_debug_only_are_vmap_fallback_warnings_enabled = _functorch._vmap_loops_are_warned_of
_debug_only_display_vmap_fallback_warnings = _functorch._warn_of_vmap_loops
_has_magma = _has_mps = _has_xpu = False
has_lapack = True


class _cpu:
    """What is asked of the processor: nothing is told of its instructions."""


class _distributed_rpc:
    """Calls of other processes' functions: there are none."""

    class PyRRef:
        """The class of what another process owns: nothing is one."""


def _is_tracing():
    """Is a program being traced by the TorchScript compiler? Never: there is none."""
    return False


def _is_torch_function_mode_enabled():
    """Is there a mode that sees functions?"""
    return _C._len_torch_function_stack() > 0


def _is_torch_function_enabled():
    """Do subclasses and modes see functions?"""
    return True


def _is_alias_of(a, b):
    """Do two tensors look at one storage?"""
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() != 0


def _DisableTorchDispatch():  # noqa: N802  (torch's name)
    """A context in which neither modes nor classes of tensors see operations."""
    return rushlight.utils._mode_utils.no_dispatch()


class _DisableFuncTorch:
    """A context without transforms of functions: refused inside of one, else nothing changes."""

    def __enter__(self):
        vmap = sys.modules.get("rushlight.func._vmap")
        if _C._current_level() or getattr(getattr(vmap, "_active", None), "levels", ()):
            raise NotImplementedError("_DisableFuncTorch: inside of a transform of functions")

    def __exit__(self, *error):
        return None


def _get_accelerator():
    """The device of the accelerator, or the CPU."""
    return rushlight.accelerator.current_accelerator() or rushlight.device("cpu")


def _get_privateuse1_backend_name():
    """The name of a device of one's own."""
    return _device.privateuse1_name


def _get_default_device():
    """The name of the device of new tensors."""
    return str(rushlight.get_default_device())


def _get_deterministic_algorithms():
    """See `are_deterministic_algorithms_enabled`."""
    return rushlight.are_deterministic_algorithms_enabled()


def _set_math_sdp_allow_fp16_bf16_reduction(enabled):
    """Refused unless it is False: sums in attention are in float32."""
    if enabled:
        raise RuntimeError("attention adds in float32: there is no reduction in half precision")


def _get_math_sdp_allow_fp16_bf16_reduction():
    """Are sums in attention in half precision? Never."""
    return False


def _cuda_isCurrentStreamCapturing():
    """Is a graph of CUDA being recorded?"""
    return rushlight.cuda.is_current_stream_capturing()


def _current_graph_task_id():
    """A number for the backward pass of this thread, or -1."""
    return _C.current_graph_task_id()


def _get_cudnn_enabled():
    """May cuDNN be used? See `backends.cudnn.enabled`."""
    return rushlight.backends.cudnn.enabled


def _parallel_info():
    """See `__config__.parallel_info`."""
    return rushlight.__config__.parallel_info()


def _show_config():
    """See `__config__.show`."""
    return rushlight.__config__.show()


_LinAlgError = rushlight.linalg.LinAlgError


class ScriptObject:
    """An object of a class that TorchScript compiled: there is none."""


_REFUSED = "there is no TorchScript compiler in rushlight, so nothing fuses"


def _can_fuse(name):
    def question():
        return False

    question.__name__ = question.__qualname__ = name
    question.__doc__ = "Does TorchScript fuse operations? Never: it is not there."
    return question


def _switch(name, value):
    def switch(enabled):
        from rushlight._ignored import warn_once

        if enabled:
            warn_once(f"_C.{name}: {_REFUSED}")
        return value

    switch.__name__ = switch.__qualname__ = name
    switch.__doc__ = "Returns what was set, and warns once if asked for: there is no TorchScript."
    return switch


for _name in (
    "_jit_can_fuse_on_cpu", "_jit_can_fuse_on_gpu", "_jit_can_fuse_on_cpu_legacy",
    "_jit_texpr_fuser_enabled", "_jit_nvfuser_enabled", "_jit_llga_enabled",
    "_jit_autocast_mode",
):  # fmt: skip
    globals()[_name] = _can_fuse(_name)
for _name in (
    "_jit_override_can_fuse_on_cpu", "_jit_override_can_fuse_on_gpu",
    "_jit_set_texpr_fuser_enabled", "_jit_set_nvfuser_enabled", "_jit_set_nvfuser_guard_mode",
    "_jit_set_profiling_mode", "_jit_set_profiling_executor", "_jit_set_autocast_mode",
    "_jit_set_llga_enabled", "_jit_set_te_must_use_llvm_cpu", "_get_graph_executor_optimize",
    "_set_graph_executor_optimize", "_jit_set_num_profiled_runs", "_jit_set_fusion_strategy",
    "_jit_set_bailout_depth",
):  # fmt: skip
    globals()[_name] = _switch(_name, False)


def _jit_set_emit_hooks(module_hook, function_hook) -> None:
    """Take no hooks, and warn of those that are given: no graph of TorchScript is made."""
    from rushlight._ignored import warn_once

    if module_hook or function_hook:
        warn_once(f"_C._jit_set_emit_hooks: {_REFUSED}")


del _name


def _mps_is_available() -> bool:
    """No build has Metal."""
    return False


class _ExperimentalConfig:
    """Options of torch's recorder. Of these profiles have one, `verbose`: the stacks in traces."""

    def __init__(self, *metrics, verbose=False, **options):
        self.verbose = verbose
        self.others = {name: value for name, value in options.items() if value}
        if metrics:
            self.others["profiler_metrics"] = metrics


_profiler = types.SimpleNamespace(_ExperimentalConfig=_ExperimentalConfig)
