"""The table of rules, and what rules are written with.

A rule is found by the operation's name and gets the level, the operation and its arguments. Where
the program passed a stand-in, `level.examples(argument)` is the tensor of all examples, whose first
dim counts them. The rule returns the result as a stand-in; or NotImplemented where the arguments
are beyond it, and the examples are computed one by one.
"""

from rushlight import Tensor
from rushlight.utils._pytree import tree_flatten

RULES = {}


def wrap(level, result):
    if isinstance(result, Tensor):
        return level.stand_in(result)
    if isinstance(result, (tuple, list)):
        members = [wrap(level, member) for member in result]
        return type(result)._make(members) if hasattr(result, "_make") else type(result)(members)
    return result


def register(names, rule):
    for name in names.split():
        RULES[name] = rule


def of_first(names):
    """Registers a rule for calls with one stand-in, the first argument; it gets (x, rank, *args,
    **kwargs) after the function, `x` being all examples and `rank` the dims that each has.
    """

    def decorate(rule):
        def checked(level, func, args, kwargs):
            x = level.examples(args[0]) if args else None
            rest = tree_flatten((args[1:], kwargs))[0]
            if x is None or any(level.examples(leaf) is not None for leaf in rest):
                return NotImplemented
            try:
                result = rule(func, x, x.dim() - 1, *args[1:], **kwargs)
            except TypeError:  # arguments in a form that the rule does not know
                return NotImplemented
            return result if result is NotImplemented else wrap(level, result)

        register(names, checked)
        return rule

    return decorate


def shifted(d, rank):
    """The place in the tensor of all examples of dim `d` of one example; or of several dims."""
    if isinstance(d, (tuple, list)):
        return [shifted(one, rank) for one in d]
    if not -max(rank, 1) <= d < max(rank, 1):
        last = max(rank, 1) - 1
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-last - 1}, {last}], "
            f"but got {d})"
        )
    return d % max(rank, 1) + 1


def padded(examples, rank):
    """All examples, each with dims of size 1 before its own, so that it has `rank` of them."""
    missing = rank - (examples.dim() - 1)
    if missing <= 0:
        return examples
    return examples.reshape(examples.shape[0], *[1] * missing, *examples.shape[1:])


def inside(names):
    """Registers a function of other operations, which are computed by their own rules."""

    def decorate(function):
        def rule(level, func, args, kwargs):
            return level.run_inside(function, args, kwargs)

        register(names, rule)
        return function

    return decorate


def words(text):
    return frozenset(text.split())
