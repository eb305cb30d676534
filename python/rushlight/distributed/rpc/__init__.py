"""Remote procedure calls, which are refused: anyone who reaches the port runs code.

Programs for one process import the module and never call it.
"""

from __future__ import annotations

from rushlight import _absent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    def __getattr__(name: str) -> Any: ...  # what the lists below make


def is_available() -> bool:
    """Are there remote calls? No."""
    return False


def init_rpc(name: str, *args: Any, **kwargs: Any) -> Any:
    """Raises NotImplementedError: there are no remote calls."""
    raise NotImplementedError(f"init_rpc: {name}: rushlight has no remote procedure calls")


_WHY = "rushlight has no remote procedure calls: anyone who reaches the port would run code"
_NAMES = (
    "AllGatherStates", "BackendType", "BackendValue", "PyRRef", "RRef", "RpcAgent",
    "RpcBackendOptions", "TensorPipeAgent", "TensorPipeRpcBackendOptions", "WorkerInfo",
    "async_execution", "backend_registered", "construct_rpc_backend_options", "get_worker_info",
    "init_backend", "method_factory", "new_method", "register_backend", "remote", "rpc_async",
    "rpc_sync", "shutdown",
)  # fmt: skip

globals().update(_absent.refused(dict.fromkeys(_NAMES, _WHY)))

__all__ = ["init_rpc", "is_available", *_NAMES]
