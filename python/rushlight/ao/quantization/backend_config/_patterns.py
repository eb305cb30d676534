"""The patterns that this library quantizes, as torch's backends name them."""

from __future__ import annotations

import operator

import rushlight
from rushlight import nn
from rushlight._absent_dtypes import qint8, quint4x2, quint8
from rushlight.ao.nn import intrinsic as _intrinsic, qat as _qat
from rushlight.ao.nn.intrinsic import qat as _fused_qat
from rushlight.ao.nn.quantized import reference as _reference
from rushlight.ao.quantization.backend_config.backend_config import (
    BackendPatternConfig,
    DTypeConfig,
    DTypeWithConstraints,
    ObservationType,
)
from rushlight.ao.quantization.fuser_method_mappings import (
    _as_one,
    fuse_conv_bn,
    fuse_conv_bn_relu,
    fuse_convtranspose_bn,
    fuse_linear_bn,
)
from rushlight.nn import functional as F

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

_OWN = ObservationType.OUTPUT_USE_DIFFERENT_OBSERVER_AS_INPUT
_SHARED = ObservationType.OUTPUT_SHARE_OBSERVER_WITH_INPUT
_NOT_OBSERVED = ObservationType.INPUT_OUTPUT_NOT_OBSERVED

WEIGHTED = DTypeConfig(quint8, quint8, qint8, rushlight.float32)
DYNAMIC_INT8 = DTypeConfig(quint8, rushlight.float32, qint8, rushlight.float32, True)
DYNAMIC_FLOAT16 = DTypeConfig(
    rushlight.float16, rushlight.float32, rushlight.float16, rushlight.float32, True
)
FLOAT16 = DTypeConfig(rushlight.float16, rushlight.float16, rushlight.float16, rushlight.float16)
UNWEIGHTED = DTypeConfig(quint8, quint8)
NORM = DTypeConfig(quint8, quint8, rushlight.float32, rushlight.float32)
EMBEDDING = DTypeConfig(rushlight.float32, rushlight.float32, quint8)
EMBEDDING_4BIT = DTypeConfig(rushlight.float32, rushlight.float32, quint4x2)

# The least scale with which products of int8 do not overflow in XNNPACK.
_LEAST_SCALE = 2**-12
_SYMMETRIC = DTypeWithConstraints(qint8, scale_min_lower_bound=_LEAST_SCALE)
_SYMMETRIC_WEIGHT = DTypeWithConstraints(qint8, -127, 127, scale_min_lower_bound=_LEAST_SCALE)
SYMMETRIC_WEIGHTED = DTypeConfig(_SYMMETRIC, _SYMMETRIC, _SYMMETRIC_WEIGHT, rushlight.float32)
SYMMETRIC_UNWEIGHTED = DTypeConfig(_SYMMETRIC, _SYMMETRIC)

_RELUS = (nn.ReLU, F.relu)
_KNOWN_RANGES = {
    (1 / 256, 0): (
        nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid,
        rushlight.sigmoid, "sigmoid", "sigmoid_", nn.Softmax,
    ),
    (2 / 256, 128): (nn.Tanh, rushlight.tanh, "tanh", "tanh_"),
}  # fmt: skip
_SHARING = (
    nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d, nn.AvgPool1d, nn.AvgPool2d,
    nn.AvgPool3d, nn.Hardtanh, nn.Identity, nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d,
    nn.PixelShuffle, nn.PixelUnshuffle, nn.ReLU, nn.ReLU6, rushlight.adaptive_avg_pool1d,
    F.adaptive_avg_pool2d, F.adaptive_avg_pool3d, F.hardtanh, F.hardtanh_, F.interpolate,
    F.max_pool1d, F.max_pool2d, F.max_pool3d, rushlight.pixel_shuffle, rushlight.pixel_unshuffle,
    F.relu, F.relu6, rushlight.avg_pool1d, F.avg_pool2d, F.avg_pool3d, rushlight.clamp,
    rushlight.flatten, rushlight.mean, rushlight.narrow, rushlight.repeat_interleave,
    rushlight.transpose, rushlight.squeeze, rushlight.stack, rushlight.unsqueeze,
    operator.floordiv, "contiguous", "clamp", "detach", "detach_", "mean", "permute", "repeat",
    "repeat_interleave", "reshape", "resize_", "relu", "relu_", "squeeze", "squeeze_", "transpose",
    "unsqueeze", "unsqueeze_", "view",
)  # fmt: skip
_OWN_STEPS = (
    nn.ELU, nn.LeakyReLU, nn.Hardswish, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d,
    nn.Dropout, nn.PReLU, F.elu, F.hardswish, F.leaky_relu, F.dropout,
)  # fmt: skip


def _config(pattern, dtypes, observation=_OWN, **settings):
    config = BackendPatternConfig(pattern).set_observation_type(observation)
    config.set_dtype_configs(dtypes)
    for name, value in settings.items():
        setattr(config, name, value)
    return config


def _inputs(weight, bias):
    return {"_input_type_to_index": {"weight": weight, "bias": bias}}


def convolutions(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Return the patterns of convolutions, with norms and ReLUs."""
    configs = []
    for dim in ("1d", "2d", "3d"):
        conv, norm = getattr(nn, f"Conv{dim}"), getattr(nn, f"BatchNorm{dim}")
        function, transposed = getattr(F, f"conv{dim}"), getattr(nn, f"ConvTranspose{dim}")
        rooted = {
            "root_module": conv,
            "reference_quantized_module": getattr(_reference, conv.__name__),
        }
        fused, trained = (
            {k: getattr(home, f"Conv{k}{dim}") for k in ("ReLU", "Bn", "BnReLU")}
            for home in (_intrinsic, _fused_qat)
        )
        qat_conv = getattr(_qat, conv.__name__)
        configs += [
            _config(conv, dtypes, **rooted, qat_module=qat_conv),
            _config(qat_conv, dtypes, **rooted),
            _config(function, dtypes, **_inputs(1, 2)),
            _config((conv, norm), dtypes, fuser_method=fuse_conv_bn, fused_module=fused["Bn"]),
            *(_config(fused[k], dtypes, qat_module=trained[k]) for k in fused),
            *(_config(trained[k], dtypes, **rooted) for k in trained),
        ]
        for relu in _RELUS:
            configs += [
                _config((conv, relu), dtypes, fuser_method=_as_one(fused["ReLU"]),
                        fused_module=fused["ReLU"]),
                _config((function, relu), dtypes),
                _config((conv, norm, relu), dtypes, fuser_method=fuse_conv_bn_relu,
                        root_module=conv if relu is F.relu else None, fused_module=fused["BnReLU"]),
            ]  # fmt: skip
        rooted = {
            "root_module": transposed,
            "reference_quantized_module": getattr(_reference, transposed.__name__),
        }
        configs += [
            _config(transposed, dtypes, **rooted),
            _config((transposed, norm), dtypes, fuser_method=fuse_convtranspose_bn, **rooted),
            _config(getattr(F, f"conv_transpose{dim}"), dtypes, **_inputs(1, 2)),
        ]
    return configs


def linears(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Return the patterns of linear layers, with norms and ReLUs."""
    rooted = {"root_module": nn.Linear, "reference_quantized_module": _reference.Linear}
    fused, trained = _intrinsic.LinearReLU, _fused_qat.LinearReLU
    configs = [
        _config(nn.Linear, dtypes, **rooted, qat_module=_qat.Linear),
        _config(_qat.Linear, dtypes, **rooted),
        _config(F.linear, dtypes, **_inputs(1, 2)),
        _config(fused, dtypes, **rooted, qat_module=trained),
        _config(trained, dtypes, **rooted),
        _config((nn.Linear, nn.BatchNorm1d), dtypes, fuser_method=fuse_linear_bn,
                fused_module=_intrinsic.LinearBn1d),
        _config(_intrinsic.LinearBn1d, dtypes, **rooted, qat_module=_fused_qat.LinearBn1d),
        _config(_fused_qat.LinearBn1d, dtypes, **rooted),
    ]  # fmt: skip
    for relu in _RELUS:
        configs += [
            _config((nn.Linear, relu), dtypes, fuser_method=_as_one(fused), fused_module=fused),
            _config((F.linear, relu), dtypes),
        ]
    return configs


def fused_linears(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Return the patterns of linear layers with a leaky ReLU or tanh, which OneDNN has."""
    rooted = {"root_module": nn.Linear, "reference_quantized_module": _reference.Linear}
    configs = []
    for activation, fused in (
        (nn.LeakyReLU, _intrinsic.LinearLeakyReLU), (nn.Tanh, _intrinsic.LinearTanh)
    ):  # fmt: skip
        configs += [
            _config((nn.Linear, activation), dtypes, fuser_method=_as_one(fused),
                    fused_module=fused),
            _config(fused, dtypes, **rooted),
        ]  # fmt: skip
    return configs


def arithmetic(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Return the patterns of sums and products, which keep the steps where one is a number."""
    by_count = {0: _OWN, 1: _SHARED, 2: _OWN}
    configs = []
    for function in (operator.add, rushlight.add, operator.mul, rushlight.mul):
        patterns = [(function, relu) for relu in (*_RELUS, rushlight.relu)]
        configs += [
            _config(pattern, dtypes, _num_tensor_args_to_observation_type=by_count)
            for pattern in (*patterns, function)
        ]
    return [*configs, _config(rushlight.matmul, dtypes)]


def unweighted(dtypes: list[DTypeConfig], sizes: bool) -> list[BackendPatternConfig]:
    """Return the patterns of what has no weight to quantize, those of sizes included or not."""
    configs = [_config(rushlight.cat, dtypes, _SHARED)]
    configs += [_config(pattern, dtypes) for pattern in _OWN_STEPS]
    configs += [
        _config(F.group_norm, dtypes, **_inputs(2, 3)),
        _config(F.instance_norm, dtypes, **_inputs(3, 4)),
    ]
    configs += [_config(pattern, dtypes, _SHARED) for pattern in _SHARING]
    if sizes:
        configs += [_config(name, dtypes, _NOT_OBSERVED) for name in ("shape", "size")]
    return configs


def known_ranges(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Return the patterns of what has results from 0 to 1, or from -1 to 1."""
    configs = []
    for (scale, zero), patterns in _KNOWN_RANGES.items():
        exact = [
            _exactly(config, scale, zero) if config.input_dtype is quint8 else config
            for config in dtypes
        ]
        configs += [_config(pattern, exact) for pattern in patterns]
    return configs


def _exactly(config, scale, zero):
    exact = DTypeWithConstraints(quint8, 0, 255, None, None, scale, zero)
    weight = config.weight_dtype
    return DTypeConfig(exact, exact, weight, config.bias_dtype, config.is_dynamic)


def batch_norms(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Return the patterns of batch norms, with ReLUs."""
    configs = []
    for dim in ("2d", "3d"):
        norm, fused = getattr(nn, f"BatchNorm{dim}"), getattr(_intrinsic, f"BNReLU{dim}")
        configs += [
            _config((norm, relu), dtypes, fuser_method=_as_one(fused), fused_module=fused)
            for relu in _RELUS
        ]
        configs += [_config(norm, dtypes), _config(fused, dtypes)]
    return configs


def layer_norms(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Return the patterns of layer norms."""
    return [_config(nn.LayerNorm, dtypes), _config(F.layer_norm, dtypes, **_inputs(2, 3))]


def recurrent(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Return the patterns of recurrent layers and cells."""
    return [
        _config(
            getattr(nn, name), dtypes, root_module=getattr(nn, name),
            reference_quantized_module=getattr(_reference, name),
        )
        for name in ("GRUCell", "LSTMCell", "RNNCell", "LSTM", "GRU")
    ]  # fmt: skip


def embeddings(dtypes: list[DTypeConfig]) -> list[BackendPatternConfig]:
    """Return the patterns of embeddings."""
    configs = []
    for name in ("Embedding", "EmbeddingBag"):
        kind, trained = getattr(nn, name), getattr(_qat, name)
        rooted = {"root_module": kind, "reference_quantized_module": getattr(_reference, name)}
        configs += [
            _config(kind, dtypes, **rooted, qat_module=trained), _config(trained, dtypes, **rooted)
        ]  # fmt: skip
    return configs
