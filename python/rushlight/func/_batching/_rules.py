"""The table of rules, and what rules are written with.

Which rule an op has, its row says; this is the code of the rules, by their names. A rule gets the
level, the operation and its arguments. Where the program passed a stand-in,
`level.examples(argument)` is the tensor of all examples, whose first dim counts them. The rule
returns the result as a stand-in; or NotImplemented where the arguments are beyond it, and the
examples are computed one by one.
"""

from __future__ import annotations

import functools

from rushlight import Tensor
from rushlight._integers import wrapped_dim
from rushlight._set_module import home_of
from rushlight.utils._pytree import tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

RULES = {}  # by the name that rows have for them
FUNCTIONS = {}  # of functions that are no ops of the table, by the function's name


@functools.cache
def rules_of_ops() -> Any:
    """Name of an op -> the names of the rules of its overloads, to be tried in this order."""
    from rushlight._op_rules import BATCH

    return {name: tuple(key.split()) for key, names in BATCH.items() for name in names}


def rules_of(name: str, func: Callable[..., Any] | None = None) -> Any:
    """The rules to be tried for an operation."""
    if name in FUNCTIONS:
        return (FUNCTIONS[name],)
    found = rules_of_ops().get(name, ())
    if found and func is not None and is_loop(name, func):
        return ()
    return [RULES[rule] for rule in found if rule in RULES]


@functools.lru_cache(maxsize=4096)
def is_loop(name: str, func: Callable[..., Any]) -> bool:
    """Is it an op without a rule, with the name of one that has some?"""
    from rushlight._op_rules import LOOPS

    home = home_of(func) or "rushlight.Tensor"  # methods have no module
    home = "torch" if home == "rushlight" else home.removeprefix("rushlight.")
    return f"{home}.{name}" in LOOPS


def wrap(level: int, result: Any) -> Tensor:
    if isinstance(result, Tensor):
        return level.batched_tensor(result)
    if isinstance(result, (tuple, list)):
        members = [wrap(level, member) for member in result]
        return type(result)._make(members) if hasattr(result, "_make") else type(result)(members)
    return result


def register(
    names: str, rule: Callable[..., Any], table: dict[str, Callable[..., Any]] = RULES
) -> None:
    for name in names.split():
        table[name] = rule


def of_first(names: str, table: dict[str, Callable[..., Any]] = RULES) -> Callable[..., Any]:
    """Registers a rule for calls with one stand-in, the first argument; it gets (x, rank, *args,
    **kwargs) after the function, `x` being all examples and `rank` the dims that each has.
    """

    def decorate(rule):
        def checked(level, func, args, kwargs):
            x = level.examples(args[0]) if args else None
            rest = tree_leaves((args[1:], kwargs))
            if x is None or any(level.examples(leaf) is not None for leaf in rest):
                return NotImplemented
            try:
                result = rule(func, x, x.dim() - 1, *args[1:], **kwargs)
            except TypeError:  # arguments in a form that the rule does not know
                return NotImplemented
            return result if result is NotImplemented else wrap(level, result)

        register(names, checked, table)
        return rule

    return decorate


_ANY = 1 << 30
# Fewest and most dims of the first arguments of one example. Where a dim of examples comes before
# them, the operation itself would take those for a batch, or for a dim of the matrix.
_RANKS = {
    "mm": ((2, 2), (2, 2)),
    "bmm": ((3, 3), (3, 3)),
    "mv": ((2, 2), (1, 1)),
    "dot": ((1, 1), (1, 1)),
    "vdot": ((1, 1), (1, 1)),
    "outer": ((1, 1), (1, 1)),
    "ger": ((1, 1), (1, 1)),
    "addmm": ((0, 2), (2, 2), (2, 2)),
    "addmv": ((0, 1), (2, 2), (1, 1)),
    "baddbmm": ((0, 3), (3, 3), (3, 3)),
    "matmul": ((1, _ANY), (1, _ANY)),
    "linear": ((1, _ANY), (1, 2)),
    "t": ((0, 2),),
    "t_copy": ((0, 2),),
    "trace": ((2, 2),),
    "pixel_unshuffle": ((3, _ANY),),
    **dict.fromkeys(
        "cholesky cholesky_ex cholesky_inverse cond det eig eigh eigvals eigvalsh geqrf inv "
        "inv_ex inverse ldl_factor ldl_factor_ex logdet lu lu_factor lu_factor_ex matrix_exp "
        "matrix_power matrix_rank pinv pinverse qr slogdet svd svdvals tril triu".split(),
        ((2, _ANY),),
    ),
}


def check_ranks(name: str, args: Any) -> None:
    """Refuse the arguments of one example whose dims are too few or too many."""
    ranks = _RANKS.get(name)
    if ranks is None:
        return
    tensors = [a for a in args if isinstance(a, Tensor)]  # numbers come first in the order of 2017
    for place, ((fewest, most), given) in enumerate(zip(ranks, tensors)):
        if not fewest <= given.dim() <= most:
            wanted = f"{fewest}" if fewest == most else f"at least {fewest}"
            wanted = wanted if fewest or most == _ANY else f"at most {most}"
            raise RuntimeError(
                f"{name}: tensor {place + 1} of one example must have {wanted} dimensions, but "
                f"it has shape {tuple(given.shape)}"
            )


def shifted(d: Sequence[int] | int, rank: int) -> Any:
    """The place in the tensor of all examples of dim `d` of one example; or of several dims."""
    if isinstance(d, (tuple, list)):
        return [shifted(one, rank) for one in d]
    return wrapped_dim(d, max(rank, 1)) + 1


def padded(examples: Tensor, rank: int) -> Tensor:
    """All examples, each with dims of size 1 before its own, so that it has `rank` of them."""
    missing = rank - (examples.dim() - 1)
    if missing <= 0:
        return examples
    return examples.reshape(examples.shape[0], *[1] * missing, *examples.shape[1:])


def composed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of a function of other operations, which are computed by their own rules."""

    def rule(level, func, args, kwargs):
        in_place = level.changes_its_first(func, args)
        result = level.run_inside(function, args, kwargs)
        if not in_place or result is NotImplemented:
            return result
        level.examples(args[0]).copy_(level.all_examples(result))
        return args[0]

    return rule


def inside(names: str) -> Callable[..., Any]:
    """Registers that rule of a function."""

    def decorate(function):
        register(names, composed(function))
        return function

    return decorate


def words(text: str) -> Any:
    return frozenset(text.split())
