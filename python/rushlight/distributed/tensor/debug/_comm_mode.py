"""Counts collectives."""

from __future__ import annotations

import collections
import json

from rushlight.distributed import _process_group
from rushlight.distributed._functional_ops import operation
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.nn.modules import module as modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

# A collective -> the operation by which it is counted.
_COUNTED_AS = {
    "all_reduce": "all_reduce",
    "all_reduce_coalesced": "all_reduce_coalesced",
    "all_gather": "all_gather_into_tensor",
    "all_gather_into_tensor": "all_gather_into_tensor",
    "reduce_scatter": "reduce_scatter_tensor",
    "reduce_scatter_tensor": "reduce_scatter_tensor",
    "all_to_all": "all_to_all_single",
    "all_to_all_single": "all_to_all_single",
    "broadcast": "broadcast",
}
_TOP = "Global"


class CommDebugMode:
    """A context that counts collectives, by `torch.ops.c10d_functional.NAME` and by module: those
    of DTensors and those that the program calls.

    Example:
        >>> import rushlight
        >>> import rushlight.distributed as dist
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> with CommDebugMode() as mode:
        ...     dist.all_reduce(rushlight.ones(2))
        >>> mode.get_comm_counts()[rushlight.ops.c10d_functional.all_reduce]
        1
        >>> dist.destroy_process_group()
    """

    def __init__(self) -> None:
        self.comm_counts: dict[Any, int] = collections.defaultdict(int)
        self.comm_registry: set[Any] = {operation(name) for name in _COUNTED_AS.values()}
        self._by_module: dict[str, dict[str, Any]] = {}
        self._path: list[str] = []
        self._handles: list[Any] = []

    def __enter__(self) -> Self:
        self.comm_counts.clear()
        self._by_module.clear()
        self._names: dict[int, str] = {}
        self._parameters: dict[str, dict[str, Any]] = {}
        self._path, self._inner = [_TOP], []
        self._phase = "forward"
        self._entered(_TOP)
        self._handles = [
            modules.register_module_forward_pre_hook(self._before),
            modules.register_module_full_backward_pre_hook(self._backward),
        ]
        _process_group.observers.append(self._count)
        return self

    def __exit__(self, *error: Any) -> None:
        _process_group.observers.remove(self._count)
        for handle in self._handles:
            handle.remove()
        self._handles = []

    # ------------------------------------------------------------- watching

    def _entered(self, name):
        return self._by_module.setdefault(
            name, {"forward": collections.Counter(), "backward": collections.Counter()}
        )

    def _name_of(self, module):
        if id(module) not in self._names:
            outer = self._path[-1]
            found = type(module).__name__ if outer == _TOP else outer
            if outer != _TOP:
                parts = [n for n, one in self._modules.get(outer, ()) if one is module]
                found = f"{outer}.{parts[0] if parts else type(module).__name__}"
            self._names[id(module)] = found
        return self._names[id(module)]

    _modules: dict[str, Any] = {}

    def _before(self, module, inputs):
        self._phase = "forward"
        name = self._name_of(module)
        self._modules = {**self._modules, name: list(module.named_children())}
        self._entered(name)
        self._parameters[name] = {key: p.data for key, p in module.named_parameters(recurse=False)}
        self._path.append(name)
        # Behind the module's own hooks, which may be what sends.
        self._inner.append(module.register_forward_hook(self._after, always_call=True))

    def _after(self, module, inputs, output):
        self._inner.pop().remove()
        self._path.pop()

    def _backward(self, module, gradients):
        self._phase, self._path = "backward", [_TOP, self._name_of(module)]

    def _count(self, call):
        name = _COUNTED_AS.get(call.name)
        if name is None:
            return
        key = operation(name)
        self.comm_counts[key] += 1
        self._entered(self._path[-1])[self._phase][key] += 1

    # ------------------------------------------------------------- answers

    @property
    def comm_module_counts(self) -> dict[str, dict[str, Any]]:
        """module -> "forward" or "backward" -> operation -> how many."""
        return self._by_module

    def get_total_counts(self) -> int:
        """How many collectives there were."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self) -> dict[Any, int]:
        """operation -> how many."""
        return self.comm_counts

    def get_parameter_info(self) -> dict[str, dict[str, Any]]:
        """module -> name -> parameter."""
        return {name: found for name, found in self._parameters.items() if found}

    def get_sharding_info(self) -> dict[str, Any]:
        """module.name -> placements of a parameter that is a DTensor."""
        return {
            f"{module}.{key}": value.placements
            for module, found in self._parameters.items()
            for key, value in found.items()
            if isinstance(value, DTensor)
        }

    def generate_comm_debug_tracing_table(self, noise_level: int = 3) -> str:
        """Collectives by module as text.

        Args:
            noise_level: 0 for the modules that have any, more for all of them, with the placements
                of their parameters.
        """
        lines = []
        for name, phases in self._by_module.items():
            depth = 0 if name == _TOP else name.count(".") + 1
            counts = [
                f"{'  ' * (depth + 1)}{phase}: {key.__name__} {count}"
                for phase, found in phases.items()
                for key, count in found.items()
            ]
            if counts or noise_level > 0:
                lines += [f"{'  ' * depth}{name}", *counts]
            if noise_level > 0:
                lines += [
                    f"{'  ' * (depth + 1)}{key}: {value.placements}"
                    for key, value in self._parameters.get(name, {}).items()
                    if isinstance(value, DTensor)
                ]
        return "\n".join(lines)

    def log_comm_debug_tracing_table_to_file(
        self, file_name: str = "comm_mode_log.txt", noise_level: int = 3
    ) -> None:
        """Write that text to a file."""
        with open(file_name, "w") as file:
            file.write(self.generate_comm_debug_tracing_table(noise_level) + "\n")

    def generate_json_dump(
        self, file_name: str = "comm_mode_log.json", noise_level: int = 3
    ) -> None:
        """Write collectives by module to a file, as JSON; see generate_comm_debug_tracing_table."""
        written = {
            name: {
                phase: {key.__name__: count for key, count in found.items()}
                for phase, found in phases.items()
            }
            for name, phases in self._by_module.items()
            if noise_level > 0 or any(phases.values())
        }
        with open(file_name, "w") as file:
            json.dump(written, file, indent=2)


__all__ = ["CommDebugMode"]
