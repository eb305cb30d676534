"""rushlight: an imperative deep-learning library with PyTorch's model and API, small and quick to
start.

    import rushlight as torch

What a program needs at once (tensors and their operations) is here; subpackages load when they are
first named.
"""

import importlib
import os
from math import e, inf, nan, pi

# Read by the libraries that load with _C, and not for processes that this one starts. OpenBLAS
# starts its threads at once, and we call it from our own.
_load_settings = {} if "OPENBLAS_NUM_THREADS" in os.environ else {"OPENBLAS_NUM_THREADS": "1"}
os.environ.update(_load_settings)
from rushlight import _C

for _name in _load_settings:
    del os.environ[_name]

from rushlight._version import __version__

globals().update(_C._functions[""])
globals().update(
    _C._types
)  # Tensor, Generator, Size, dtype, device, layout, memory_format, float32, strided, ...

from rushlight import _storage_methods, _tensor  # noqa: E402  (the methods written in Python)

_tensor.install()
_storage_methods.install()
# Libraries call these: nothing is ever traced, and nobody counts who uses what.
_C._get_tracing_state = lambda: None
_C._log_api_usage_once = lambda event: None
_C._are_functorch_transforms_active = lambda: False  # until func is imported
_C.__getattr__ = lambda name: _python_part_of_core(name)
_C._TensorMeta, _C.TensorBase = type(Tensor), Tensor  # noqa: F821  (of _C._types)

newaxis = None


def _python_part_of_core(name):
    """What torch has in torch._C and rushlight has in Python."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "_nn":
        return importlib.import_module("rushlight.nn.modules._conversion")  # its _parse_to
    keys = importlib.import_module("rushlight.library._dispatch_keys")
    if name not in keys.__all__:
        raise AttributeError(
            f"module 'torch._C' has no attribute {name!r}: rushlight's core is its own"
        )
    value = getattr(keys, name)
    setattr(_C, name, value)
    return value


def as_torch():
    """Make `import torch` give rushlight in this process, and return rushlight.

    `import torch`, `import torch.nn.functional as F` and `from torch.utils.data import DataLoader`
    then give rushlight's own modules, in processes that multiprocessing starts too. For notebooks
    and conftest files; a whole program runs by `python -m rushlight program.py`. An installed torch
    stays as it is, but cannot be imported beside it.

    Raises:
        RuntimeError: another torch is imported already.
    """
    from rushlight._alias import activate

    return activate()


_SUBPACKAGES = (
    "__config__", "__future__", "_custom_ops", "_dynamo", "_higher_order_ops", "_ops",
    "_subclasses", "_tensor_str", "accelerator", "amp", "ao", "autograd", "backends", "compiler",
    "cpu", "cuda", "distributed", "distributions", "fft", "func", "functional", "futures", "fx",
    "hub", "jit", "library", "linalg", "masked", "mps", "mtia", "multiprocessing", "nested", "nn",
    "onnx", "ops", "optim", "overrides", "profiler", "quasirandom", "random", "return_types",
    "serialization", "signal", "sparse", "special", "storage", "testing", "torch_version", "types",
    "utils", "version", "xpu",
)  # fmt: skip

# Names that live in a module which is loaded when the first of them is used.
_ELSEWHERE = {
    "autograd.grad_mode": ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"),
    "_printing": ("set_printoptions", "get_printoptions", "printoptions"),
    "_type_info": ("finfo", "iinfo"),
    "_device": ("set_default_device", "get_default_device"),
    "random": ("manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state"),
    "functional": (
        "align_tensors", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
        "broadcast_tensors", "cartesian_prod", "chain_matmul", "detach_", "einsum", "lu",
        "meshgrid", "nonzero", "norm", "split", "tensordot", "unique", "unique_consecutive",
        "unravel_index",
    ),
    "_short_time_fourier": ("stft", "istft"),
    "_gradient": ("gradient",),
    "_low_rank": ("svd_lowrank", "pca_lowrank"),
    "_histogramdd": ("histogramdd",),
    "_storage_methods": ("from_file",),
    "_creation": ("range", "scalar_tensor"),
    "_segments": ("segment_reduce",),
    "_grid_sampler": ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
    "_histogram": ("histogram",),
    "_windows": ("bartlett_window", "blackman_window", "hamming_window", "hann_window",
                 "kaiser_window"),
    "nn.functional": (
        "adaptive_avg_pool1d", "alpha_dropout", "channel_shuffle", "conv_tbc", "cosine_similarity",
        "feature_alpha_dropout", "pairwise_distance", "pixel_shuffle", "pixel_unshuffle",
        "rrelu", "rrelu_",
    ),
    "cuda": ("Event", "Stream"),
    "distributions._implicit": ("_sample_dirichlet",),
    "futures": ("Future",),
    "jit": ("ScriptModule", "fork", "wait"),
    "library._schema": ("Tag",),
    "overrides": ("DisableTorchFunction", "DisableTorchFunctionSubclass"),
    "serialization": ("PyTorchFileReader", "save", "load"),
    "sparse": ("sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor",
               "sparse_bsc_tensor", "sparse_compressed_tensor"),
    "amp": ("autocast", "GradScaler"),
    "amp.autocast_mode": (
        "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
        "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
        "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
        "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
        "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
    ),
    "func": ("vmap",),
    "_settings": (
        "are_deterministic_algorithms_enabled", "can_cast", "get_deterministic_debug_mode",
        "get_float32_matmul_precision", "get_num_interop_threads",
        "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled", "promote_types",
        "result_type", "set_default_tensor_type", "set_deterministic_debug_mode",
        "set_float32_matmul_precision", "set_num_interop_threads", "set_warn_always",
        "use_deterministic_algorithms",
    ),
    "_typed_tensors": (
        "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
        "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
    ),
    "_checks": ("is_tensor", "is_storage", "is_floating_point", "is_complex", "is_nonzero", "numel",
                "typename", "is_grad_enabled", "is_inference_mode_enabled", "compile", "_assert",
                "_assert_async",
                "get_device_module", "SymBool", "SymFloat", "SymInt", "cond", "get_device",
                "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_conj", "is_distributed",
                "is_inference", "is_neg", "is_signed", "set_anomaly_enabled", "set_flush_denormal"),
    "_absent_dtypes": (
        "chalf", "complex32", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
        "float8_e8m0fnu", "jagged", "qint32", "qint8", "quint8", "sparse_bsc", "sparse_bsr",
        "sparse_csc", "sparse_csr", "uint16", "uint32", "uint64",
    ),
    "storage": ("TypedStorage",),
}  # fmt: skip
_HOME = {name: module for module, names in _ELSEWHERE.items() for name in names}


def __getattr__(name):
    if name in _SUBPACKAGES:
        return importlib.import_module(f"rushlight.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(f"rushlight.{_HOME[name]}"), name)
        globals()[name] = value  # the next access is a plain one
        return value
    if name.startswith("_foreach_"):
        return getattr(importlib.import_module("rushlight._foreach"), name)
    raise AttributeError(f"module 'rushlight' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_SUBPACKAGES, *_HOME})
