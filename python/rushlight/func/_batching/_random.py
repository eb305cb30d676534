"""Random numbers."""

from __future__ import annotations

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import Tensor


def random(
    level: int,
    func: Callable[..., Any],
    name: str,
    args: Any,
    kwargs: Any,
    mapped: Sequence[Tensor],
) -> Any:
    if "dropout" in name and _off(args, kwargs):
        return args[0]
    if level.randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation {name}() while in randomness error mode: draw the "
            "numbers outside, or pass randomness='same' (all examples alike) or 'different'"
        )
    if level.randomness == "same":
        if not mapped:
            return func(*args, **kwargs)
        state = rushlight.get_rng_state()

        def repeated(*args, **kwargs):
            rushlight.set_rng_state(state)
            return func(*args, **kwargs)

        repeated.__name__ = name
        return level.loop_fallback(repeated, args, kwargs)
    if not mapped:
        results = [func(*args, **kwargs) for _ in range(level.size)]
        return level.batched_tensor(rushlight.stack(results))
    return level.loop_fallback(func, args, kwargs)


def _off(args, kwargs):
    p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    training = args[2] if len(args) > 2 else kwargs.get("training", True)
    return not training or p == 0.0
