"""An optimizer with other parameters and states for a while."""

from __future__ import annotations

import contextlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rushlight import Tensor
    from rushlight.optim.optimizer import Optimizer


@contextlib.contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer,
    swapin_parameters: dict[str, Tensor],
    swapin_optim_state: dict[str, Any],
) -> Iterator[None]:
    """A context in which the optimizer has other parameters and states, by the names of its own.

    Args:
        optimizer: made of pairs of names and parameters, so that it has their names.
        swapin_parameters: name -> the parameter to stand for that one; others stay.
        swapin_optim_state: name -> its state.

    Raises:
        ValueError: the optimizer has no names, or none of these.

    Example:
        >>> import rushlight
        >>> w = rushlight.nn.Parameter(rushlight.ones(1))
        >>> optimizer = rushlight.optim.SGD([("w", w)], lr=1.0)
        >>> other = rushlight.nn.Parameter(rushlight.zeros(1))
        >>> with swap_in_optimizer_params_and_state(optimizer, {"w": other}, {}):
        ...     optimizer.param_groups[0]["params"][0] is other
        True
    """
    groups = optimizer.param_groups
    before = [(list(group["params"]), group.get("param_names")) for group in groups]
    if any(names is None for _, names in before):
        raise ValueError(
            "swap_in_optimizer_params_and_state: the optimizer has no names of parameters: make it "
            "of model.named_parameters()"
        )
    known = {name for _, names in before for name in names}
    unknown = sorted((set(swapin_parameters) | set(swapin_optim_state)) - known)
    if unknown:
        raise ValueError(
            f"swap_in_optimizer_params_and_state: {unknown} are no parameters of the optimizer, "
            f"which has {sorted(known)}"
        )
    state = dict(optimizer.state)
    optimizer.state.clear()
    for group, (params, names) in zip(groups, before):
        group["params"] = [swapin_parameters.get(n, p) for n, p in zip(names, params)]
        for name, old, new in zip(names, params, group["params"]):
            if name in swapin_optim_state:
                optimizer.state[new] = swapin_optim_state[name]
            elif new is old and old in state:
                optimizer.state[new] = state[old]
    try:
        yield
    finally:
        optimizer.state.clear()
        optimizer.state.update(state)
        for group, (params, _) in zip(groups, before):
            group["params"] = params
