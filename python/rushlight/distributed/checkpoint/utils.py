"""Objects of a state by their places in a checkpoint."""

from __future__ import annotations

from rushlight.distributed.checkpoint.default_planner import find as find_state_dict_object

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight import Tensor
    from rushlight.distributed.checkpoint.metadata import MetadataIndex


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
