"""Levels of the loggers of this library. What torch's compiler writes while it works (its
artifacts) never comes, as nothing is compiled.
"""

from __future__ import annotations

import logging

from rushlight import _ignored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["getArtifactLogger", "set_logs"]

# Loggers by the names of their components.
_COMPONENTS = {
    "all": "", "dynamo": "_dynamo", "aot": "_functorch", "autograd": "autograd",
    "inductor": "_inductor", "dynamic": "fx.experimental", "distributed": "distributed",
    "c10d": "distributed.distributed_c10d", "ddp": "nn.parallel.distributed",
    "fsdp": "distributed.fsdp", "dtensor": "distributed.tensor", "onnx": "onnx",
    "export": "export",
}  # fmt: skip
_ARTIFACTS = frozenset(
    """aot_graphs aot_joint_graph autotuning benchmarking bytecode caching compiled_autograd
    compiled_autograd_verbose compute_dependencies cudagraph_static_inputs cudagraphs ddp_graphs
    fusion graph graph_breaks graph_code graph_code_verbose graph_region_expansion graph_sizes
    guards hierarchical_compile incremental inductor_metrics ir_post_fusion ir_pre_fusion
    kernel_code onnx_diagnostics output_code overlap perf_hints post_grad_graphs pre_grad_graphs
    recompiles recompiles_verbose schedule side_effects sym_node trace_bytecode trace_call
    trace_source""".split()
)


def _set_level(logger: str, level: int | None) -> None:
    if level not in (None, *logging._levelToName):
        raise ValueError(f"set_logs: {level!r} is no level of logging, which {logger!r} needs")
    logging.getLogger(logger).setLevel(logging.NOTSET if level is None else level)


def set_logs(*, modules: dict[str, int] | None = None, **settings: Any) -> None:
    """Set the levels of loggers, and those that are not named back to that of their parents.

    Args:
        modules: further loggers, by the paths of modules, with their levels.
        settings: levels by component (`dynamo=logging.DEBUG`), or True for an artifact of torch's
            compiler, such as `recompiles`: it warns that there is none.
    """
    for name, value in settings.items():
        if name in _ARTIFACTS:
            if not isinstance(value, (bool, type(None))):
                raise ValueError(f"Expected bool to enable artifact {name}, received {value}")
            _ignored.warn_of("_logging.set_logs", "nothing is compiled", **{name: value})
        elif name not in _COMPONENTS:
            raise TypeError(f"set_logs() got an unexpected keyword argument {name!r}")
    for name, path in _COMPONENTS.items():
        for package in ("torch", "rushlight"):
            _set_level(f"{package}.{path}".rstrip("."), settings.get(name))
    for path, level in (modules or {}).items():
        _set_level(path, level)


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """Return a module's logger for an artifact: one of those that `set_logs` names."""
    if artifact_name not in _ARTIFACTS:
        raise RuntimeError(f"getArtifactLogger: there is no artifact {artifact_name!r}")
    return logging.getLogger(f"{module_qname}.__{artifact_name}")
