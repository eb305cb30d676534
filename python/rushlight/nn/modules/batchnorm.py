"""Batch normalization over the batch and all spatial dims."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F, init
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter
from rushlight.types import Device, _dtype

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "SyncBatchNorm",
]


class _NormBase(Module):
    """What batch and instance normalization share: scale, shift and running statistics."""

    _version = 2  # version 2 counts the batches
    _input_dims = ()  # how many dims an input may have
    __constants__: list[str] = ["track_running_stats", "momentum", "eps", "num_features", "affine"]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        weight = Parameter(rushlight.empty(num_features, **factory)) if affine else None
        bias = Parameter(rushlight.empty(num_features, **factory)) if affine and bias else None
        self.register_parameter("weight", weight)
        self.register_parameter("bias", bias)
        mean = var = count = None
        if track_running_stats:
            mean = rushlight.zeros(num_features, **factory)
            var = rushlight.ones(num_features, **factory)
            count = rushlight.tensor(0, dtype=rushlight.long, device=device)
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def _check_input_dim(self, input):
        if not self._input_dims:
            raise NotImplementedError(f"{type(self).__name__}: _check_input_dim is not implemented")
        if input.dim() not in self._input_dims:
            expected = " or ".join(f"{n}D" for n in self._input_dims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
    ):
        version = local_metadata.get("version", None)
        key = prefix + "num_batches_tracked"
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            count = self.num_batches_tracked
            if count is None or count.is_meta:
                count = rushlight.tensor(0, dtype=rushlight.long)
            state_dict[key] = count
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        update = self.training and self.track_running_stats
        if update and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # a plain average over all batches
                factor = 1.0 / float(self.num_batches_tracked)
        keep_stats = not self.training or self.track_running_stats
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        return F.batch_norm(
            input,
            self.running_mean if keep_stats else None,
            self.running_var if keep_stats else None,
            self.weight,
            self.bias,
            use_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """(x - mean) / sqrt(var + eps) * weight + bias, per channel over the batch.

    Args:
        num_features: number of channels C.
        eps: added to the variance.
        momentum: share of the new batch in the running statistics; None for a plain average.
        affine: whether weight and bias are learned.
        track_running_stats: whether evaluation uses running statistics.

    Shape:
        (N, C) or (N, C, L). The batch's variance divides by n, the running one by n - 1.

    Ioffe and Szegedy, "Batch Normalization", 2015.
    """

    _input_dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of (N, C, H, W). See `BatchNorm1d`."""

    _input_dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of (N, C, D, H, W). See `BatchNorm1d`."""

    _input_dims = (5,)


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """Makes a normalization take `num_features` from its first input."""

    weight: UninitializedParameter
    bias: UninitializedParameter

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: _dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        factory = {"device": device, "dtype": dtype}
        # Neither parameters nor statistics for now: their size is not known.
        super().__init__(0, eps, momentum, False, False, **factory, bias=bias)
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**factory)
            if bias:
                self.bias = UninitializedParameter(**factory)
        if track_running_stats:
            self.running_mean: UninitializedBuffer = UninitializedBuffer(**factory)
            self.running_var: UninitializedBuffer = UninitializedBuffer(**factory)
            self.num_batches_tracked: Tensor = rushlight.tensor(
                0, dtype=rushlight.long, device=device
            )

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if not self.has_uninitialized_params():
            return
        self.num_features: int = input.shape[1]
        for name in ("weight", "bias", "running_mean", "running_var"):
            value = getattr(self, name)
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """A BatchNorm1d that takes `num_features` from its first input."""

    cls_to_become = BatchNorm1d
    _input_dims = (2, 3)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """A BatchNorm2d that takes `num_features` from its first input."""

    cls_to_become = BatchNorm2d
    _input_dims = (4,)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """A BatchNorm3d that takes `num_features` from its first input."""

    cls_to_become = BatchNorm3d
    _input_dims = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over the batches of all processes.

    Args:
        process_group: the processes; all by default. With one, or without
            `distributed.init_process_group`, it is a plain batch normalization.
        others: as for BatchNorm2d.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Device = None,
        dtype: _dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if input.size(1) == 0:
            raise ValueError(f"SyncBatchNorm: input has no channels, shape {tuple(input.shape)}")
        uses_batch = self.training or self.running_mean is None
        if not uses_batch or not rushlight.distributed.is_initialized():
            return super().forward(input)
        if rushlight.distributed.get_world_size(self.process_group) == 1:
            return super().forward(input)
        return self._over_all_processes(input)

    def _over_all_processes(self, input):
        x = input if input.dtype in (rushlight.float32, rushlight.float64) else input.float()
        dims = [dim for dim in range(x.dim()) if dim != 1]
        count = x.numel() // x.size(1)
        # Of each process: mean, sum of squared deviations, how many (Chan, Golub, LeVeque, 1983).
        mean = x.sum(dims) / max(count, 1)
        shape = [1, -1] + [1] * (x.dim() - 2)
        squares = (x - mean.view(shape)).square().sum(dims)
        own = rushlight.cat([mean, squares, mean.new_tensor([count])])
        parts = rushlight.stack(
            rushlight.distributed.nn.functional.all_gather(own, group=self.process_group)
        )
        channels = x.size(1)
        means, all_squares = parts[:, :channels], parts[:, channels : 2 * channels]
        counts = parts[:, -1:].detach()
        total = counts.sum()
        if total <= 1:
            raise ValueError(
                "SyncBatchNorm: expected more than 1 value per channel when training, got "
                f"{int(total)} in all processes"
            )
        mean = (means * counts).sum(0) / total
        variance = (all_squares + counts * (means - mean).square()).sum(0) / total
        if self.training and self.track_running_stats:
            self._update_statistics(mean.detach(), variance.detach() * (total / (total - 1)))
        result = (x - mean.view(shape)) * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            result = result * self.weight.view(shape)
        if self.bias is not None:
            result = result + self.bias.view(shape)
        return result.to(input.dtype)

    def _update_statistics(self, mean, variance):
        factor = self.momentum
        if self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if factor is None:  # a plain average over all batches
                factor = 1.0 / self.num_batches_tracked.item()
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
        self.running_var.lerp_(variance.to(self.running_var.dtype), factor)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Any:
        """`module` with every BatchNorm in it replaced by a SyncBatchNorm of the same state."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            if module.affine:
                converted.weight = module.weight
                converted.bias = module.bias
            converted.running_mean = module.running_mean
            converted.running_var = module.running_var
            converted.num_batches_tracked = module.num_batches_tracked
            converted.training = module.training
            if hasattr(module, "qconfig"):
                converted.qconfig = module.qconfig
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
