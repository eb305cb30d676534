"""Objects of a state by their places in a checkpoint."""

from __future__ import annotations

from rushlight.distributed.checkpoint.api import CheckpointException as CheckpointException
from rushlight.distributed.checkpoint.default_planner import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor
    from rushlight.distributed.checkpoint.metadata import MetadataIndex


def find_state_dict_object(state_dict: dict[str, Any], index: MetadataIndex) -> Any:
    """What a process has of an object: of a tensor, its part.

    Args:
        state_dict: the state.
        index: the object's place in a checkpoint.

    Raises:
        ValueError: there is none, or no part begins where the index says.
    """
    return find(state_dict, index)


def find_tensor_shard(tensor: Tensor, index: MetadataIndex) -> Tensor:
    """This process's part of a tensor.

    Args:
        tensor: the tensor.
        index: its place in a checkpoint.

    Raises:
        ValueError: no part begins where the index says.
    """
    return find_state_dict_object({index.fqn: tensor}, index)


__all__ = ["find_state_dict_object", "find_tensor_shard"]
