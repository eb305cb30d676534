"""Batch norm without running statistics, which vmap cannot update in place."""

from __future__ import annotations

from rushlight import nn


def batch_norm_without_running_stats(module):
    """Let a batch norm use the statistics of the batch alone; other modules stay as they are."""
    if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats:
        module.running_mean = module.running_var = module.num_batches_tracked = None
        module.track_running_stats = False


def replace_all_batch_norm_modules_(root: nn.Module) -> nn.Module:
    """Let every batch norm in `root` use the statistics of the batch alone, in place.

    Args:
        root: a module.

    Returns:
        root.

    Example:
        >>> net = rushlight.nn.Sequential(rushlight.nn.BatchNorm1d(3))
        >>> replace_all_batch_norm_modules_(net)[0].running_mean is None
        True
    """
    for module in root.modules():
        batch_norm_without_running_stats(module)
    return root
