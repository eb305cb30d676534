"""The name of a part of `rushlight._core_names` in torch."""

from rushlight._core_names import _distributed_rpc

PyRRef = _distributed_rpc.PyRRef

__all__ = ["PyRRef"]
