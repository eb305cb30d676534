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

from rushlight import _core_members, _older_methods, _tensor  # noqa: E402  (methods in Python)

_tensor.install()
_older_methods.install()
_core_members.install()
# Libraries call these: nobody counts who uses what.
_C._get_tracing_state = lambda: None  # until jit traces
_C._log_api_usage_once = lambda event: None
_C._are_functorch_transforms_active = lambda: False  # until func is imported
_C.__getattr__ = lambda name: _python_part_of_core(name)
_C._TensorMeta, _C.TensorBase = type(Tensor), Tensor  # noqa: F821  (of _C._types)

newaxis = None
torch = importlib.import_module(__name__)  # itself, for `from torch import torch`
legacy_contiguous_format = contiguous_format  # noqa: F821  (of _C._types)
from_dlpack.__module__ = "rushlight.utils.dlpack"  # noqa: F821  (of _C._functions)


def _python_part_of_core(name):
    """What torch has in torch._C and rushlight has in Python."""
    if name.startswith("__"):
        raise AttributeError(name)
    # Pickles of torch find functions there, and so do programs that call a function of the core.
    if name in ("_VariableFunctionsClass", "_VariableFunctions"):
        return torch
    if name == "_nn":
        return importlib.import_module("rushlight._nn_names")
    if name in ("Graph", "Node", "Value"):  # of traces, in annotations above all
        traces = importlib.import_module("rushlight.jit._trace_graph")
        return traces.TraceGraph if name == "Graph" else getattr(traces, name)
    for home in ("library._dispatch_keys", "_core_names"):
        value = vars(importlib.import_module(f"rushlight.{home}")).get(name)
        if getattr(value, "__module__", "rushlight").partition(".")[0] in ("rushlight", "torch"):
            if value is not None:
                setattr(_C, name, value)
                return value
    raise AttributeError(
        f"module 'torch._C' has no attribute {name!r}: rushlight's core is its own"
    )


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
    "_VF", "__config__", "__future__", "_custom_ops", "_dynamo", "_functorch", "_higher_order_ops",
    "_inductor", "_jit_internal", "_library", "_logging", "_ops", "_prims_common", "_subclasses",
    "_tensor_str", "_utils", "_weights_only_unpickler", "accelerator", "amp", "ao", "autograd",
    "backends", "compiler", "cpu", "cuda", "debug", "distributed", "distributions", "export", "fft",
    "func",
    "functional", "functorch", "futures", "fx", "hub", "jit", "library", "linalg", "masked",
    "monitor", "mps", "mtia", "multiprocessing", "nested", "nn", "onnx", "ops", "optim",
    "overrides", "profiler", "quantization", "quasirandom", "random", "return_types",
    "serialization", "signal", "sparse", "special", "storage", "testing", "torch_version",
    "types", "utils", "version", "xpu",
)  # fmt: skip

# Names that live in a module which is loaded when the first of them is used.
_ELSEWHERE = {
    "autograd.grad_mode": ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"),
    "_printing": ("set_printoptions", "get_printoptions", "printoptions"),
    "_type_info": ("finfo", "iinfo"),
    "_device": ("set_default_device", "get_default_device"),
    "random": ("manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state",
               "thread_safe_generator"),
    "functional": (
        "align_tensors", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes",
        "broadcast_tensors", "cartesian_prod", "chain_matmul", "detach_", "einsum", "lu",
        "meshgrid", "nonzero", "norm", "split", "tensordot", "unique", "unique_consecutive",
        "unravel_index",
    ),
    "_short_time_fourier": ("stft", "istft"),
    "_gradient": ("gradient",),
    "_lobpcg": ("lobpcg",),
    "_low_rank": ("svd_lowrank", "pca_lowrank"),
    "_histogramdd": ("histogramdd",),
    "_core_members": ("from_file",),
    "_creation": ("range", "scalar_tensor"),
    "_segments": ("_segment_reduce", "segment_reduce"),
    "_grid_sampler": ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
    "_histogram": ("histogram",),
    "_lower_functions": (
        "_convert_indices_from_coo_to_csr", "_convert_indices_from_csr_to_coo",
        "_assert_tensor_metadata", "_log_softmax_backward_data", "_shape_as_tensor",
        "_softmax_backward_data", "_weight_norm",
        "adaptive_max_pool1d", "affine_grid_generator", "alpha_dropout", "alpha_dropout_",
        "batch_norm", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "ctc_loss",
        "dsmm", "embedding_bag", "feature_alpha_dropout", "feature_alpha_dropout_",
        "feature_dropout", "feature_dropout_", "frobenius_norm", "group_norm", "gru", "gru_cell",
        "hinge_embedding_loss", "hsmm", "init_num_threads", "instance_norm", "is_vulkan_available",
        "kl_div", "layer_norm", "lstm", "lstm_cell", "margin_ranking_loss", "nonzero_static",
        "norm_except_dim", "nuclear_norm", "poisson_nll_loss", "resize_as_sparse_", "rnn_relu",
        "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell", "rrelu", "saddmm", "slice_inverse",
        "triplet_margin_loss", "unsafe_split_with_sizes", "while_loop",
    ),
    "_native_norms": (
        "_chunk_cat", "_convolution", "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training", "native_batch_norm", "native_group_norm",
        "native_layer_norm", "split_copy", "split_with_sizes_copy", "unbind_copy",
    ),
    "_batch_norm_parts": (
        "batch_norm_backward_elemt", "batch_norm_backward_reduce", "batch_norm_elemt",
        "batch_norm_gather_stats", "batch_norm_gather_stats_with_counts", "batch_norm_stats",
        "batch_norm_update_stats",
    ),
    "_inner_functions": (
        "_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_",
        "_convert_weight_to_int4pack_for_cpu", "_dirichlet_grad", "_embedding_bag", "_fft_c2c",
        "_fft_c2r", "_fft_r2c", "_is_all_true", "_is_any_true", "_linalg_det", "_linalg_eigh",
        "_linalg_slogdet", "_linalg_svd", "_pack_padded_sequence", "_pad_packed_sequence",
        "_prelu_kernel", "_scaled_dot_product_attention_math", "_standard_gamma_grad", "_unique2",
        "_weight_int4pack_mm_for_cpu", "_weight_int8pack_mm", "ccol_indices_copy",
        "col_indices_copy", "crow_indices_copy", "cudnn_is_acceptable", "detach_copy",
        "indices_copy", "native_dropout", "row_indices_copy", "slice_copy", "to_dlpack",
        "values_copy", "view_as_complex_copy", "view_as_real_copy",
    ),
    "nested._buffer": (
        "_nested_compute_contiguous_strides_offsets", "_nested_view_from_buffer",
    ),
    "_shallow_copy": ("_has_compatible_shallow_copy_type",),
    "_unsafe_indices": ("_unsafe_masked_index", "_unsafe_masked_index_put_accumulate"),
    "_symbolic_numbers": (
        "_assert_scalar", "_check", "_check_index", "_check_is_size", "_check_not_implemented",
        "_check_tensor_all", "_check_tensor_all_with", "_check_type", "_check_value", "_check_with",
        "_sym_acos", "_sym_asin", "_sym_atan", "_sym_cos", "_sym_cosh", "_sym_log2", "_sym_sin",
        "_sym_sinh", "_sym_sqrt", "_sym_tan", "_sym_tanh", "sym_constrain_range",
        "sym_constrain_range_for_size", "sym_float", "sym_fresh_size", "sym_int", "sym_ite",
        "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
    ),
    "_older_methods": (
        "AcceleratorError", "FatalError", "_grouped_mm", "choose_qparams_optimized", "eig",
        "empty_quantized", "has_cuda", "has_lapack", "has_mkl", "has_mps", "has_openmp",
        "has_spectral", "hash_tensor", "import_ir_module", "import_ir_module_from_buffer",
        "lstsq", "merge_type_from_type_comment", "parse_ir", "parse_schema",
        "parse_type_comment", "solve", "symeig", "unify_type_list",
    ),
    "_carried._products": ("_scaled_mm",),
    "_classes": ("classes",),
    "_jit_types": ("DeviceObjType", "TensorType", "Type"),
    "_quantized._tensor": (
        "_choose_qparams_per_tensor", "_empty_affine_quantized",
        "_make_per_channel_quantized_tensor", "_make_per_tensor_quantized_tensor", "dequantize",
        "int_repr", "per_channel_affine", "per_channel_affine_float_qparams",
        "per_channel_symmetric", "per_tensor_affine", "per_tensor_symmetric", "q_per_channel_axis",
        "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme",
        "quantize_per_channel", "quantize_per_tensor", "quantize_per_tensor_dynamic",
    ),
    "_quantized._layers": (
        "quantized_batch_norm", "quantized_max_pool1d", "quantized_max_pool2d",
    ),
    "_quantized._fake": (
        "_fake_quantize_learnable_per_channel_affine",
        "_fake_quantize_learnable_per_tensor_affine", "fake_quantize_per_channel_affine",
        "fake_quantize_per_tensor_affine", "fused_moving_avg_obs_fake_quant",
    ),
    "utils.backend_registration": ("_register_device_module",),
    "_windows": ("bartlett_window", "blackman_window", "hamming_window", "hann_window",
                 "kaiser_window"),
    "nn._native_layers": (
        "_native_multi_head_attention", "_transform_bias_rescale_qkv",
        "_transformer_encoder_layer_fwd",
    ),
    "nn.functional": (
        "adaptive_avg_pool1d", "conv_tbc", "cosine_similarity", "pairwise_distance", "rrelu_",
    ),
    "_streams": ("Event", "Stream"),
    "distributions._implicit": ("_sample_dirichlet",),
    "futures": ("Future",),
    "jit": ("ScriptClassFunction", "ScriptFunction", "fork", "wait"),
    "jit._script_members": ("ScriptModule",),
    "_core_names": ("ScriptObject",),
    "library._dispatch_keys": ("DispatchKey", "DispatchKeySet"),
    "library._schema": ("Tag",),
    "overrides": ("DisableTorchFunction", "DisableTorchFunctionSubclass"),
    "serialization": ("PyTorchFileReader", "save", "load"),
    "sparse": ("sparse_coo_tensor", "sparse_csr_tensor", "sparse_csc_tensor", "sparse_bsr_tensor",
               "sparse_bsc_tensor", "sparse_compressed_tensor"),
    "sparse._arithmetic": ("_sparse_broadcast_to",),
    "sparse._make": (
        "_validate_compressed_sparse_indices", "_validate_sparse_compressed_tensor_args",
        "_validate_sparse_coo_tensor_args",
    ),
    "sparse._products": ("hspmm", "smm", "spmm", "sspaddmm"),
    "amp": ("autocast", "GradScaler"),
    "amp.autocast_mode": (
        "autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache",
        "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype",
        "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
        "set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled",
        "set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype",
    ),
    "func": ("vmap",),
    "_higher_order_ops.control_flow": ("cond",),
    "_settings": (
        "are_deterministic_algorithms_enabled", "can_cast", "get_deterministic_debug_mode",
        "get_float32_matmul_precision", "get_num_interop_threads",
        "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled", "promote_types",
        "result_type", "set_default_tensor_type", "set_deterministic_debug_mode",
        "set_float32_matmul_precision", "set_num_interop_threads", "set_vital", "set_warn_always",
        "use_deterministic_algorithms",
    ),
    "_typed_tensors": (
        "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
        "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
    ),
    "_checks": ("is_tensor", "is_storage", "is_floating_point", "is_complex", "is_nonzero", "numel",
                "typename", "is_grad_enabled", "is_inference_mode_enabled", "compile", "_assert",
                "_assert_async", "_cast_Byte", "_cast_Char", "_cast_Double", "_cast_Float",
                "_cast_Half", "_cast_Int", "_cast_Long", "_cast_Short", "_disable_dynamo",
                "get_device_module", "SymBool", "SymFloat", "SymInt", "get_device",
                "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_conj", "is_distributed",
                "is_inference", "is_neg", "is_signed", "set_anomaly_enabled"),
    "_absent_dtypes": (
        "bit", "bits16", "bits1x8", "bits2x4", "bits4x2", "bits8", "chalf", "complex32",
        "float4_e2m1fn_x2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
        "float8_e8m0fnu", "int1", "int2", "int3", "int4", "int5",
        "int6", "int7", "jagged", "qint32", "qint8", "quint2x4", "quint4x2", "quint8", "uint1",
        "uint2", "uint3", "uint4", "uint5", "uint6", "uint7", "uint16", "uint32", "uint64",
    ),
    "storage": (
        "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage",
        "ComplexFloatStorage", "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage",
        "LongStorage", "ShortStorage", "Storage", "StorageBase", "TypedStorage",
    ),
}  # fmt: skip
_HOME = {name: module for module, names in _ELSEWHERE.items() for name in names}


def __getattr__(name):
    if name in _SUBPACKAGES:
        return importlib.import_module(f"rushlight.{name}")
    if name in _HOME:
        value = getattr(importlib.import_module(f"rushlight.{_HOME[name]}"), name)
        if callable(value) and _HOME[name].startswith("_"):
            from rushlight._set_module import set_module

            set_module(__name__, value)  # not a private one, as in torch
        globals()[name] = value  # the next access is a plain one
        return value
    if name.startswith("_foreach_"):
        return getattr(importlib.import_module("rushlight._foreach"), name)
    raise AttributeError(f"module 'rushlight' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_SUBPACKAGES, *_HOME})
