"""Tools for the parameters and modules of a model."""

import importlib

from rushlight.nn.utils import rnn

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

__all__ = [*_WHERE, "parametrizations", "parametrize", "prune", "rnn", "stateless"]


def __getattr__(name):
    if name in _WHERE:
        value = getattr(importlib.import_module(f"rushlight.nn.utils.{_WHERE[name]}"), name)
        globals()[name] = value  # the function, where a file has the same name
        return value
    if name in _FILES:
        return importlib.import_module(f"rushlight.nn.utils.{name}")
    raise AttributeError(f"module 'rushlight.nn.utils' has no attribute '{name}'")
