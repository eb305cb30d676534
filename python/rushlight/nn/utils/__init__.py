"""Tools for the parameters and modules of a model."""

from __future__ import annotations

import importlib
from typing import Any

from rushlight.nn.utils import (
    rnn as rnn,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.nn.utils import (
        clip_grad as clip_grad,
        convert_parameters as convert_parameters,
        fusion as fusion,
        parametrizations as parametrizations,
        parametrize as parametrize,
        prune as prune,
        stateless as stateless,
    )
    from rushlight.nn.utils.clip_grad import (
        clip_grad_norm as clip_grad_norm,
        clip_grad_norm_ as clip_grad_norm_,
        clip_grad_value_ as clip_grad_value_,
        clip_grads_with_norm_ as clip_grads_with_norm_,
        get_total_norm as get_total_norm,
    )
    from rushlight.nn.utils.convert_parameters import (
        parameters_to_vector as parameters_to_vector,
        vector_to_parameters as vector_to_parameters,
    )
    from rushlight.nn.utils.fusion import (
        fuse_conv_bn_eval as fuse_conv_bn_eval,
        fuse_conv_bn_weights as fuse_conv_bn_weights,
        fuse_linear_bn_eval as fuse_linear_bn_eval,
        fuse_linear_bn_weights as fuse_linear_bn_weights,
    )
    from rushlight.nn.utils.init import (
        skip_init as skip_init,
    )
    from rushlight.nn.utils.memory_format import (
        convert_conv2d_weight_memory_format as convert_conv2d_weight_memory_format,
        convert_conv3d_weight_memory_format as convert_conv3d_weight_memory_format,
    )
    from rushlight.nn.utils.spectral_norm import (
        remove_spectral_norm as remove_spectral_norm,
        spectral_norm as spectral_norm,
    )
    from rushlight.nn.utils.weight_norm import (
        remove_weight_norm as remove_weight_norm,
        weight_norm as weight_norm,
    )

# name -> the file it is in; loaded when asked for.
_WHERE = {
    **dict.fromkeys(
        (
            "clip_grad_norm",
            "clip_grad_norm_",
            "clip_grad_value_",
            "clip_grads_with_norm_",
            "get_total_norm",
        ),
        "clip_grad",
    ),
    **dict.fromkeys(("parameters_to_vector", "vector_to_parameters"), "convert_parameters"),
    **dict.fromkeys(
        (
            "fuse_conv_bn_eval",
            "fuse_conv_bn_weights",
            "fuse_linear_bn_eval",
            "fuse_linear_bn_weights",
        ),
        "fusion",
    ),
    "skip_init": "init",
    **dict.fromkeys(
        ("convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"),
        "memory_format",
    ),
    **dict.fromkeys(("remove_spectral_norm", "spectral_norm"), "spectral_norm"),
    **dict.fromkeys(("remove_weight_norm", "weight_norm"), "weight_norm"),
}
_FILES = ("clip_grad", "convert_parameters", "fusion", "parametrizations", "parametrize", "prune")
_FILES += ("stateless",)

if not TYPE_CHECKING:  # who reads types reads the imports
    __all__ = [*_WHERE, "parametrizations", "parametrize", "prune", "rnn", "stateless"]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _WHERE:
            value = getattr(importlib.import_module(f"rushlight.nn.utils.{_WHERE[name]}"), name)
            globals()[name] = value  # the function, where a file has the same name
            return value
        if name in _FILES:
            return importlib.import_module(f"rushlight.nn.utils.{name}")
        raise AttributeError(f"module 'rushlight.nn.utils' has no attribute '{name}'")
