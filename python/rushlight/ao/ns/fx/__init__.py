"""Comparison of traced models."""

from rushlight.ao.ns.fx import qconfig_multi_mapping

__all__ = ["qconfig_multi_mapping"]
