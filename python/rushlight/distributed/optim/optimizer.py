"""An optimizer of parameters in other processes, which remote procedure calls would reach."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.optim.optimizer import Optimizer


class DistributedOptimizer:
    """Steps an optimizer at the owners of remote parameters, by remote procedure calls.

    There are none here (see `distributed.rpc`), so parameters are never remote.
    `ZeroRedundancyOptimizer` divides an optimizer's state among processes by collectives.

    Raises:
        NotImplementedError: always.
    """

    def __init__(
        self,
        optimizer_class: type[Optimizer],
        params_rref: Sequence[object],
        *args: object,
        **kwargs: object,
    ) -> None:
        raise NotImplementedError(
            f"DistributedOptimizer: {getattr(optimizer_class, '__name__', optimizer_class)} of "
            "remote parameters: rushlight has no remote procedure calls; ZeroRedundancyOptimizer "
            "and fully_shard divide an optimizer's state among processes"
        )


__all__ = ["DistributedOptimizer"]
