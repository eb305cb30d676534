"""The state of an optimizer, divided as the parameters of a model are."""

from __future__ import annotations

import rushlight
from rushlight.distributed import _group
from rushlight.distributed.checkpoint._nested_dict import set_element
from rushlight.distributed.checkpoint._together import Together
from rushlight.distributed.checkpoint.default_planner import DefaultLoadPlanner
from rushlight.distributed.checkpoint.metadata import TensorStorageMetadata
from rushlight.distributed.checkpoint.state_dict_loader import load_into
from rushlight.distributed.tensor._creation import empty
from rushlight.distributed.tensor._dtensor import DTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed.checkpoint.planner import LoadPlanner
    from rushlight.distributed.checkpoint.storage import StorageReader


def load_sharded_optimizer_state_dict(
    model_state_dict: dict[str, Any],
    optimizer_key: str,
    storage_reader: StorageReader,
    planner: LoadPlanner | None = None,
) -> dict[str, Any]:
    """Read an optimizer's state without an optimizer, divided as the model's parameters are.

    Args:
        model_state_dict: the model's state; a tensor that is kept for a parameter, of its sizes,
            will lie as it does.
        optimizer_key: the key of the optimizer's state in the checkpoint.
        storage_reader: where to read.
        planner: who reads what; a DefaultLoadPlanner by default.

    Returns:
        {optimizer_key: the state}.

    Raises:
        CheckpointException: in all processes, if one fails.
        KeyError: the checkpoint has no such key.
    """
    metadata = storage_reader.read_metadata()
    state_dict: dict[str, Any] = {}
    for key, stored in metadata.state_dict_metadata.items():
        path = (metadata.planner_data or {}).get(key, (key,))
        if path[0] != optimizer_key:
            continue
        place = None
        if isinstance(stored, TensorStorageMetadata):
            place = _place(stored, model_state_dict.get(_parameter(path)))
        set_element(state_dict, path, place)
    if not state_dict:
        raise KeyError(f"load_sharded_optimizer_state_dict: no key {optimizer_key!r} is there")
    alone = not _group.is_initialized()
    load_into(state_dict, storage_reader, planner or DefaultLoadPlanner(), Together(None, alone))
    return state_dict


def _parameter(path):
    """The name of the parameter for which something is kept: optimizer, "state", name, what."""
    return path[2] if len(path) > 3 and path[1] == "state" else None


def _place(stored, parameter):
    dtype = stored.properties.dtype
    if isinstance(parameter, DTensor) and tuple(parameter.shape) == tuple(stored.size):
        return empty(
            tuple(stored.size),
            dtype=dtype,
            device_mesh=parameter.device_mesh,
            placements=parameter.placements,
        )
    return rushlight.empty(stored.size, dtype=dtype)


__all__ = ["load_sharded_optimizer_state_dict"]
