"""The public namespaces, and which test goes through the arguments of what is in each: a new one is
in this list, or its functions have no optional arguments.
"""

import importlib
import pkgutil

import pytest
import test_arguments_in_python
import test_arguments_of_distributions
import test_arguments_of_kinds_of_tensors
import test_arguments_of_layers
import test_arguments_of_programs
import test_arguments_of_services
import test_arguments_of_settings
import test_arguments_of_transforms
from options import found, in_python

import rushlight as rl

FILES = (
    test_arguments_of_kinds_of_tensors, test_arguments_of_layers, test_arguments_of_programs,
    test_arguments_of_settings, test_arguments_of_transforms,
)  # fmt: skip

RANKS = "tests/ranks/arguments.py has collectives; what else several processes do, by its own tests"
GPU = "of GPUs: tests/test_cuda.py, in the simulator"
ROWS = "of the table: tests/test_arguments_of_functions.py"
QUANTIZED = "tests/test_quantization.py and tests/test_quantized_layers.py"
INSIDE = "made by the library itself, of what it knows"
PROCESSES = "tests/test_multiprocessing.py"
OUTSIDE = "needs a compiler or ONNX: tests/test_cpp_extension.py, tests/test_onnx.py"
SCHEDULERS = "tests/test_arguments_of_schedulers.py, and optimizers tests/test_arguments.py"
PASSES = "tests/test_fx_passes.py"
PROTOCOL = "signatures that the caller prescribes"

# Namespaces with all in them: the longest that fits counts.
ELSEWHERE = {
    "distributed": RANKS, "cuda": GPU, "accelerator": GPU, "nn.functional": ROWS, "ao": QUANTIZED,
    "quantization": QUANTIZED,
    "nn.quantized": QUANTIZED, "multiprocessing": PROCESSES, "utils.cpp_extension": OUTSIDE,
    "onnx": OUTSIDE, "optim": SCHEDULERS, "utils.data.collate": PROTOCOL,
    "fx.experimental": PASSES, "fx.operator_schemas": PASSES, "fx.traceback": PASSES,
    "fx.proxy": PASSES,
    "nn.attention.varlen": "tests/test_varlen_attention.py",
    "nn.parallel.comm": GPU, "numa": "of launchers, which refuse it",
    "backends.mps": "of macOS", "nn.utils.spectral_norm": INSIDE,
    **dict.fromkeys((
        "autograd.profiler", "autograd.profiler_util", "export", "fx.graph",
        "fx.immutable_collections", "fx.passes", "profiler", "serialization", "utils.data",
    ), INSIDE),
}  # fmt: skip
# At the root, of other files: tests/test_idioms.py, tests/test_cuda.py, tests/test_vmap.py.
AT_THE_ROOT = {
    "compile", "enable_grad", "fused_moving_avg_obs_fake_quant", "inference_mode", "no_grad",
    "Event", "Future", "ScriptFunction", "Size", "Storage", "Stream", "TypedStorage", "cdist",
    "slice_inverse", "vmap",
}  # fmt: skip


def namespaces():
    yield ""
    for module in pkgutil.walk_packages(rl.__path__, "rushlight.", onerror=lambda name: None):
        parts = module.name.split(".")[1:]
        if not any(part.startswith("_") for part in parts) and "tensorboard" not in parts:
            yield ".".join(parts)


def covered():
    """What the other files call."""
    names = [name for file in FILES for name in (*file.CASES, *file.ELSEWHERE)]
    names += [
        f"distributions.{name}"
        for name in (
            *test_arguments_of_distributions.CASES,
            *test_arguments_of_distributions.ELSEWHERE,
        )
    ]
    values = [found(name) for name in names]
    values += map(test_arguments_of_services.found, test_arguments_of_services.CASES)
    return {id(value) for value in [*values, *test_arguments_in_python.FUNCTIONS.values()]}


def reason_for(space):
    parts = space.split(".")
    prefixes = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in ELSEWHERE), None)


@pytest.mark.keeps_tensors("modules are imported that keep tensors")
def test_each_function_with_optional_arguments_is_tested():
    known, left, used = covered(), {}, set()
    known |= {id(getattr(rl, name)) for name in AT_THE_ROOT}
    known.add(id(importlib.import_module("rushlight.func._vmap").chunk_vmap))  # in test_vmap.py
    for space in namespaces():
        try:
            importlib.import_module(f"rushlight.{space}".rstrip("."))
            functions = in_python(space)
        except ModuleNotFoundError:
            continue  # of a library that is not installed
        for name, value in functions.items():
            if id(value) in known:
                continue
            used.add(reason_for(space))
            if reason_for(space) is None:
                left[name] = value
    assert not left, sorted(left)
    assert set(ELSEWHERE) <= used, set(ELSEWHERE) - used  # no longer than it must be
