"""rushlight: an imperative deep-learning library with PyTorch's model and API, small and quick to start.

    import rushlight as torch

What a program needs at once (tensors and their operations) is here; subpackages load when they are first named.
"""

import importlib
import os
from math import e, inf, nan, pi

# Read by libgomp as it loads, with _C. Its threads spin while they wait for work, 300,000 turns by
# default: on a busy machine they keep the processor from those they wait for. A thousand turns are
# enough on an idle one; with them the quickstart under load takes 8 s instead of 39 s.
_wait_policy_is_ours = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ)
if _wait_policy_is_ours:
    os.environ["GOMP_SPINCOUNT"] = "1000"
from rushlight import _C

if _wait_policy_is_ours:
    del os.environ["GOMP_SPINCOUNT"]  # not for processes that this one starts

from rushlight._version import __version__

globals().update(_C._functions[""])
globals().update(_C._types)  # Tensor, Generator, Size, dtype, device, layout, memory_format, float32, strided, ...

from rushlight import _tensor  # noqa: E402  (the methods of Tensor that are written in Python)

_tensor.install()

newaxis = None

_SUBPACKAGES = (
    "accelerator", "amp", "autograd", "backends", "cpu", "cuda", "fft", "func", "functional", "futures", "hub", "jit", "linalg",
    "multiprocessing", "nn", "optim", "random", "return_types", "serialization", "sparse", "special", "storage", "testing", "types", "utils",
    "version",
)  # fmt: skip

# Names that live in a module which is loaded when the first of them is used.
_ELSEWHERE = {
    "autograd.grad_mode": ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"),
    "_printing": ("set_printoptions", "get_printoptions", "printoptions"),
    "_type_info": ("finfo", "iinfo"),
    "_device": ("set_default_device", "get_default_device"),
    "random": ("manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state"),
    "functional": (
        "align_tensors", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
        "cartesian_prod", "cdist", "chain_matmul", "einsum", "meshgrid", "nonzero", "norm", "split", "tensordot", "unique",
        "unique_consecutive", "unravel_index",
    ),
    "serialization": ("save", "load"),
    "sparse": ("sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor", "sparse_bsc_tensor",
               "sparse_compressed_tensor"),
    "amp": ("autocast", "GradScaler"),
    "func": ("vmap",),
    "_settings": (
        "are_deterministic_algorithms_enabled", "can_cast", "get_deterministic_debug_mode", "get_float32_matmul_precision",
        "get_num_interop_threads", "is_autocast_enabled", "is_deterministic_algorithms_warn_only_enabled",
        "is_warn_always_enabled", "promote_types", "result_type", "set_default_tensor_type", "set_deterministic_debug_mode",
        "set_float32_matmul_precision", "set_num_interop_threads", "set_warn_always", "use_deterministic_algorithms",
    ),
    "_typed_tensors": (
        "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor",
        "LongTensor", "ShortTensor",
    ),
    "_checks": ("is_tensor", "is_storage", "is_floating_point", "is_complex", "is_nonzero", "numel", "typename",
                "is_grad_enabled", "is_inference_mode_enabled", "compile", "_assert"),
}  # fmt: skip
_HOME = {name: module for module, names in _ELSEWHERE.items() for name in names}


def __getattr__(name):
    if name in _SUBPACKAGES:
        return importlib.import_module(f"rushlight.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(f"rushlight.{_HOME[name]}"), name)
        globals()[name] = value  # the next access is a plain one
        return value
    raise AttributeError(f"module 'rushlight' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_SUBPACKAGES, *_HOME})
