"""`rearrange`: dims by their names, in the notation of the library einops."""

from __future__ import annotations

import math
import re

import rushlight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight import Tensor


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Name the dims of a tensor, and bring them into another order and grouping.

    Args:
        tensor: the tensor, or several, which are stacked along a new first dim.
        pattern: names of dims on both sides of "->": "b c (h s) w -> b (c s) h w". Dims in
            parentheses are one dim, "..." stands for those without names, and 1 for a dim of one.
        axes_lengths: sizes of those within parentheses on the left; one of each group follows.

    Raises:
        ValueError: the pattern does not fit the tensor, or names are not the same on both sides.

    Example:
        >>> import rushlight
        >>> rearrange(rushlight.zeros(2, 6), "b (h w) -> w b h", h=2).shape
        torch.Size([3, 2, 2])
    """
    if not isinstance(tensor, rushlight.Tensor):
        tensor = rushlight.stack(tuple(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: {pattern!r} has no two sides")
    left, right = (_groups(side, pattern) for side in sides)
    rest = tensor.dim() - (len(left) - 1) if ["..."] in left else 0
    if rest < 0 or (["..."] not in left and len(left) != tensor.dim()):
        raise ValueError(
            f"rearrange: {pattern!r} does not fit a tensor of shape {tuple(tensor.shape)}"
        )
    hidden = [f"...{i}" for i in range(rest)]
    left, right = _spread(left, hidden), _spread(right, hidden)
    sizes = _sizes(left, tensor.shape, axes_lengths, pattern)
    names = [name for group in left for name in group]
    wanted = [name for group in right for name in group]
    if sorted(names) != sorted(wanted) or len(set(names)) != len(names):
        raise ValueError(f"rearrange: the names on both sides of {pattern!r} are not the same")
    split = tensor.reshape([sizes[name] for name in names])
    moved = split.permute([names.index(name) for name in wanted])
    return moved.reshape([math.prod(sizes[name] for name in group) for group in right])


def _groups(side, pattern):
    found = []
    for token in re.findall(r"\([^()]*\)|\.\.\.|\w+|\S", side):
        if token.startswith("("):
            found.append([name for name in token[1:-1].split() if name != "1"])
        elif token == "1":
            found.append([])
        elif token == "..." or token.isidentifier():
            found.append([token])
        else:
            raise ValueError(f"rearrange: {token!r} in {pattern!r} is no name of a dim")
    return found


def _spread(groups, hidden):
    """The dims that `...` stands for by names of their own."""
    found = []
    for group in groups:
        if group == ["..."]:
            found += [[name] for name in hidden]
        else:
            found.append([n for name in group for n in (hidden if name == "..." else [name])])
    return found


def _sizes(groups, shape, given, pattern):
    sizes = dict(given)
    for group, size in zip(groups, shape):
        open_names = [name for name in group if name not in sizes]
        known = math.prod(sizes[name] for name in group if name in sizes)
        if len(open_names) > 1:
            raise ValueError(f"rearrange: {pattern!r}: give the sizes of {open_names[1:]}")
        if open_names:
            if known == 0 or size % known:
                raise ValueError(f"rearrange: {pattern!r}: {size} is no multiple of {known}")
            sizes[open_names[0]] = size // known
        elif known != size:
            raise ValueError(f"rearrange: {pattern!r}: {group} is {known}, and the dim {size}")
    return sizes
