"""Functions of plain tensors as functions of DTensors."""

from __future__ import annotations

import functools

from rushlight import Tensor
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight.distributed.device_mesh import DeviceMesh
    from rushlight.distributed.tensor.placement_types import Placement


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Sequence[Placement] | tuple[Sequence[Placement] | None, ...] | None = None,
    in_placements: Sequence[Sequence[Placement] | None] | None = None,
    in_grad_placements: Sequence[Sequence[Placement] | None] | None = None,
    device_mesh: DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """A function of plain tensors as one of DTensors: it gets this process's parts, and what it
    returns are parts of the results.

    Args:
        func: the function; None for a decorator.
        out_placements: how the results lie: a list of placements for all, or a tuple with one list
            for each; None for what is no tensor.
        in_placements: how each argument must lie; None for those that are no DTensors. Results are
            DTensors where an argument is one.
        in_grad_placements: how the gradients of the parts lie; as the arguments by default.
        device_mesh: the mesh of results; that of the first DTensor by default.
        redistribute_inputs: bring arguments into their placements instead of raising.

    Raises:
        ValueError: an argument lies otherwise than `in_placements` say.
        AssertionError: the numbers of arguments or results and of placements differ.
    """
    if func is None:
        return functools.partial(
            local_map, out_placements=out_placements, in_placements=in_placements,
            in_grad_placements=in_grad_placements, device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )  # fmt: skip

    @functools.wraps(func)
    def of_parts(*args, **kwargs):
        leaves, structure = tree_flatten(args, is_leaf=_is_tensor)
        if in_placements is not None and len(in_placements) != len(leaves):
            raise AssertionError(
                f"in_placements length {len(in_placements)} does not match the number of input "
                f"args {len(leaves)}!"
            )
        mesh, local, is_divided = device_mesh, [], False
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, DTensor):
                mesh, is_divided = leaf.device_mesh if mesh is None else mesh, True
                wanted = _of_argument(in_placements, i, "placements")
                grad = _of_argument(in_grad_placements, i, "in grad placements")
                leaf = _part(leaf, i, wanted, grad, redistribute_inputs)
            elif in_placements is not None and in_placements[i] is not None and (
                not isinstance(leaf, Tensor)
            ):  # fmt: skip
                raise AssertionError(
                    f"local_map: argument {i} is no tensor, but has placements {in_placements[i]}"
                )
            local.append(leaf)
        result = func(*tree_unflatten(local, structure), **kwargs)
        return _of_parts(result, mesh, out_placements) if is_divided else result

    return of_parts


def _is_tensor(thing):
    return isinstance(thing, Tensor)


def _of_argument(all_placements, i, what):
    if all_placements is None:
        return None
    if all_placements[i] is None:
        raise AssertionError(f"local_map: argument {i} is a DTensor and expects {what}, got None")
    return all_placements[i]


def _part(argument, i, wanted, grad_placements, redistribute_inputs):
    if wanted is not None and argument.placements != tuple(wanted):
        if not redistribute_inputs:
            raise ValueError(
                f"local_map: argument {i} has placements {argument.placements}, but the input "
                f"placements are {tuple(wanted)}: set redistribute_inputs=True to change them"
            )
        argument = argument.redistribute(placements=wanted)
    return argument.to_local(grad_placements=grad_placements)


def _of_parts(result, mesh, out_placements):
    leaves, structure = tree_flatten(result, is_leaf=_is_tensor)
    each = out_placements if isinstance(out_placements, tuple) else (out_placements,) * len(leaves)
    if len(each) != len(leaves):
        raise AssertionError(
            f"local_map: {len(leaves)} results, but out_placements for {len(each)}"
        )
    made = []
    for leaf, placements in zip(leaves, each):
        if isinstance(leaf, DTensor) or placements is not None and not isinstance(leaf, Tensor):
            raise AssertionError(
                f"local_map: a result is {type(leaf).__name__}, where a plain tensor is expected "
                f"for placements {placements}"
            )
        if isinstance(leaf, Tensor) and placements is not None:
            leaf = DTensor.from_local(leaf, mesh, placements)
        made.append(leaf)
    return tree_unflatten(made, structure)


__all__ = ["local_map"]
