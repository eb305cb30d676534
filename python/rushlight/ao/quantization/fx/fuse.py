"""Fusion of layers in the graph of a traced model."""

from __future__ import annotations

from rushlight.ao.quantization.backend_config import BackendConfig, get_native_backend_config
from rushlight.ao.quantization.fx import _fusion
from rushlight.ao.quantization.fx.custom_config import FuseCustomConfig, _as_config
from rushlight.ao.quantization.fx.fuse_handler import FuseHandler
from rushlight.ao.quantization.fx.graph_module import FusedGraphModule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.fx.graph_module import GraphModule


def fuse(
    model: GraphModule,
    is_qat: bool,
    fuse_custom_config: FuseCustomConfig | dict[str, Any] | None = None,
    backend_config: BackendConfig | dict[str, Any] | None = None,
) -> GraphModule:
    """Return a traced model with layers fused; it is changed.

    Args:
        is_qat: keep batch norms, in modules that are trained with rounded weights.
        fuse_custom_config: names of attributes to keep.
        backend_config: which patterns are fused.
    """
    custom = _as_config(fuse_custom_config, FuseCustomConfig)
    backend = backend_config
    backend = get_native_backend_config() if backend is None else _as_config(backend, BackendConfig)
    _fusion.fuse_graph(model, is_qat, backend)
    return FusedGraphModule(model, model.graph, set(custom.preserved_attributes))


__all__ = ["FuseHandler", "fuse"]
