"""Random numbers."""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.func._batching._rules import words
from rushlight.utils._pytree import tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


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
            f"vmap: called random operation while in randomness error mode: {name}(); draw the "
            "numbers outside, or pass randomness='same' (all examples alike) or 'different'"
        )
    if level.randomness == "same":
        return _same(level, func, name, args, kwargs, mapped)
    in_place = name.endswith("_")
    if in_place and level.examples(args[0]) is None:
        raise RuntimeError(
            f"vmap: Cannot ask for different inplace randomness on an unbatched tensor: {name}() "
            "would write the numbers of all examples into one tensor, which they share; use "
            "randomness='same', or expand the tensor for the examples"
        )
    if name in _FACTORIES and not mapped:
        return level.batched_tensor(_drawn_together(level, func, name, args, kwargs))
    if name == "multinomial":
        return _multinomial(level, func, *args, **kwargs)
    if name in _ELEMENTWISE:
        all_args, all_kwargs = _aligned(level, args, kwargs)
        whole = func(*all_args, **all_kwargs)
        return args[0] if in_place else level.batched_tensor(whole)
    if not mapped:
        results = [func(*args, **kwargs) for _ in range(level.size)]
        return level.batched_tensor(rushlight.stack(results))
    return level.loop_fallback(func, args, kwargs)


# Drawn for all examples in one call, as the numbers of a seed depend on how many are drawn at once.
_FACTORIES = {"rand", "randn", "randint"}
_ELEMENTWISE = words(
    """
    _standard_gamma bernoulli bernoulli_ binomial cauchy_ dropout dropout_ exponential_ geometric_
    log_normal_ normal normal_ poisson rand_like randint_like randn_like random_ uniform_
    """
)


# What they draw depends on what they are given.
_OF_THEIR_ARGUMENTS = words("_standard_gamma bernoulli binomial multinomial normal poisson")


def _same(level, func, name, args, kwargs, mapped):
    if not mapped:
        return func(*args, **kwargs)
    others = tree_leaves((args[1:], kwargs))
    has_probability = name == "bernoulli" and (len(args) > 1 or "p" in kwargs)
    depends = name in _OF_THEIR_ARGUMENTS and not has_probability
    if depends or any(level.examples(other) is not None for other in others):
        raise RuntimeError(
            "Vmap does not currently support same randomness with a batched tensor input: "
            f"{name}() draws other numbers for other arguments; draw them outside, or pass "
            "randomness='different'"
        )
    generator = kwargs.get("generator") or rushlight.default_generator
    state = generator.get_state()

    def repeated(*args, **kwargs):
        generator.set_state(state)
        return func(*args, **kwargs)

    repeated.__name__ = name
    return level.loop_fallback(repeated, args, kwargs)


def _multinomial(level, func, input, num_samples, replacement=False, **options):
    weights = level.all_examples(input)
    drawn = func(weights.reshape(-1, weights.shape[-1]), num_samples, replacement, **options)
    return level.batched_tensor(drawn.reshape(*weights.shape[:-1], -1))


def _drawn_together(level, func, name, args, kwargs):
    """What a function of a size gives for all examples: that size has one more dim, the first."""
    args, kwargs = list(args), dict(kwargs)
    if "size" in kwargs:
        kwargs["size"] = (level.size, *_size(kwargs["size"]))
        return func(*args, **kwargs)
    if name == "randint":
        return func(*args[:-1], (level.size, *_size(args[-1])), **kwargs)
    size = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
    return func((level.size, *size), **kwargs)


def _size(value):
    return (value,) if isinstance(value, int) else tuple(value)


def _aligned(level, args, kwargs):
    """The tensors of all examples, which their first dim counts, with as many others each."""
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
    if not tensors:  # normal(mean, std, size)
        if "size" in kwargs:
            return args, {**kwargs, "size": (level.size, *_size(kwargs["size"]))}
        return (*args[:2], (level.size, *_size(args[2])), *args[3:]), kwargs
    dims = max(a.dim() for a in tensors)

    def whole(a):
        if not isinstance(a, Tensor):
            return a
        found = level.all_examples(a)
        missing = [1] * (dims - a.dim())
        return found.reshape(level.size, *missing, *a.shape) if missing else found

    return [whole(a) for a in args], {name: whole(a) for name, a in kwargs.items()}


def _off(args, kwargs):
    p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    training = args[2] if len(args) > 2 else kwargs.get("training", True)
    return not training or p == 0.0
