"""Instance normalization: each sample and channel over its spatial dims."""

from __future__ import annotations

from rushlight import Tensor
from rushlight._ignored import warn_program as _warn_program
from rushlight.nn import functional as F
from rushlight.nn.modules.batchnorm import _LazyNormBase, _NormBase
from rushlight.types import Device, _dtype

__all__ = [
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
]


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device = None,
        dtype: _dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self):
        return self._input_dims[0]

    def _apply_instance_norm(self, input):
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        version = local_metadata.get("version", None)
        # Running statistics were once saved even where they were not tracked.
        if version is None and not self.track_running_stats:
            stale = [
                name for name in ("running_mean", "running_var") if prefix + name in state_dict
            ]
            if stale:
                error_msgs.append(
                    f"{prefix}{', '.join(stale)}: this {type(self).__name__} does not track "
                    "running statistics; drop them from the state_dict or set "
                    "track_running_stats=True"
                )
                for name in stale:
                    state_dict.pop(prefix + name)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        no_batch = self._get_no_batch_dim()
        feature_dim = input.dim() - no_batch
        if input.size(feature_dim) != self.num_features:
            differs = (
                f"expected input's size at dim={feature_dim} to match num_features "
                f"({self.num_features}), but got {input.size(feature_dim)}"
            )
            if self.affine:
                raise ValueError(differs)
            _warn_program(f"{differs}; without affine=True it is not used")
        if input.dim() == no_batch:
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)


class InstanceNorm1d(_InstanceNorm):
    """(x - mean) / sqrt(var + eps) * weight + bias, per sample and channel.

    Args: as `BatchNorm1d`, but nothing is learned or tracked unless asked for.

    Shape:
        (N, C, L) or (C, L).

    Ulyanov et al., "Instance Normalization", 2016.
    """

    _input_dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of (N, C, H, W) or (C, H, W). See `InstanceNorm1d`."""

    _input_dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (N, C, D, H, W) or (C, D, H, W). See `InstanceNorm1d`."""

    _input_dims = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """An InstanceNorm1d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """An InstanceNorm2d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """An InstanceNorm3d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm3d
