"""How an operation can be done in parts, and the choice among the ways.

Along one dim of a mesh, an operation computes with parts of its operands where that gives parts of
the result. An `Option` says which parts: one placement for each operand, and one for the results.
Dims of the mesh are chosen for one by one, since each divides what the others have left.

Gradients follow from one rule. The gradient of a tensor lies as the tensor does, that of a Partial
one is the same in all processes. So an operand that all processes have whole, while each computes a
part of the result with it, gets the sum of their gradients (`UsedInParts`); nothing else is to be
done, for every option here is one under which the local operation is the whole one's part.
"""

from __future__ import annotations

import copy

import rushlight
from rushlight import Tensor
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor._redistribute import UsedInParts
from rushlight.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from rushlight.overrides import DisableTorchFunctionSubclass
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight.distributed.device_mesh import DeviceMesh

NEVER = float("inf")


class Option:
    """A way to do an operation along one dim of a mesh.

    Args:
        ins: how each operand has to lie.
        out: how the results lie then.
        length: of the dim that `out` divides, in the whole; None: that of this process's result.
    """

    def __init__(self, ins: Sequence[Placement], out: Placement, length: int | None = None) -> None:
        self.ins, self.out, self.length = tuple(ins), out, length


class Call:
    """An operation with its arguments, of which some tensors are DTensors."""

    def __init__(self, func: Callable[..., Any], name: str, args: Any, kwargs: Any) -> None:
        self.func, self.name, self.args, self.kwargs = func, name, args, kwargs
        self._leaves, self._structure = tree_flatten((args, kwargs), is_leaf=_is_tensor)
        self.operands: list[Any] = [leaf for leaf in self._leaves if isinstance(leaf, Tensor)]
        self.dtensors = [one for one in self.operands if isinstance(one, DTensor)]
        self.mesh: DeviceMesh = self.dtensors[0].device_mesh
        if any(one.device_mesh != self.mesh for one in self.dtensors):
            raise RuntimeError(
                f"DTensor does not support cross-mesh operation yet! {name}: the tensors lie on "
                "different meshes"
            )

    @property
    def first(self) -> Any:
        """The first operand."""
        return self.operands[0]

    def with_operands(self, operands: Sequence[Any]) -> Any:
        """Arguments and keyword arguments with other tensors in place of its own."""
        rest = iter(operands)
        leaves = [next(rest) if isinstance(one, Tensor) else one for one in self._leaves]
        return tree_unflatten(leaves, self._structure)

    def on_meta(self) -> Any:
        """What the operation gives of tensors of these sizes without elements, in order."""
        operands = [
            rushlight.empty(tuple(one.shape), dtype=one.dtype, device="meta")
            for one in self.operands
        ]
        args, kwargs = self.with_operands(operands)
        with rushlight.no_grad():
            return self.func(*args, **kwargs)

    def by_identity(self, entries: Sequence[tuple[Any, Any]]) -> list[Any]:
        """For each operand, what `entries` says of it: pairs of a tensor and something."""
        left = list(entries)
        found = []
        for operand in self.operands:
            place = next(i for i, (tensor, _) in enumerate(left) if tensor is operand)
            found.append(left.pop(place)[1])
        return found


def _is_tensor(thing):
    return isinstance(thing, Tensor)


def placements_of(tensor: Tensor, mesh: DeviceMesh) -> Any:
    """How an operand lies; a plain tensor is the same in all processes."""
    if isinstance(tensor, DTensor):
        return tensor.placements
    return (Replicate(),) * mesh.ndim


def moved_to(placement: Shard, dim: int) -> Shard:
    """The same division, of another dim."""
    if placement.dim == dim:
        return placement
    placement = copy.copy(placement)
    placement.dim = dim
    return placement


def is_whole(placements: Sequence[Placement]) -> bool:
    """Does each process have all of it?"""
    return all(placement.is_replicate() for placement in placements)


def run_in_parts(
    call: Call, options_along: Callable[[int], Sequence[Option]], local: Any = None
) -> Any:
    """Do an operation by the options that cost least.

    Args:
        call: the operation.
        options_along: options_along(i) gives those for dim `i` of the mesh; that all have all is
            always one.
        local: local(chosen, args, kwargs) computes this process's part, given the options that
            were chosen; the operation itself by default.
    """
    chosen = [_cheapest(call, i, options_along(i)) for i in range(call.mesh.ndim)]
    operands = [brought(operand, call, n, chosen) for n, operand in enumerate(call.operands)]
    args, kwargs = call.with_operands(operands)
    with DisableTorchFunctionSubclass():
        result = call.func(*args, **kwargs) if local is None else local(chosen, args, kwargs)
    return wrapped(result, call.mesh, chosen)


def whole_option(call: Call) -> Option:
    """The option that all processes compute with the whole."""
    return Option([Replicate()] * len(call.operands), Replicate())


def _cheapest(call, i, options):
    whole = whole_option(call)
    placements = [placements_of(one, call.mesh)[i] for one in call.operands]
    if all(placement.is_replicate() for placement in placements):
        return whole  # dividing what nobody divided is not for an operation to begin
    size = call.mesh.size(i)
    costs = [cost(call, placements, option, size) for option in (*options, whole)]
    return (*options, whole)[costs.index(min(costs))]


def cost(call: Call, placements: Sequence[Placement], option: Option, size: int) -> float:
    """How many elements a process has to receive.

    Args:
        call: the operation.
        placements: how its operands lie along a dim of the mesh.
        option: how they would have to lie.
        size: the number of processes along that dim.
    """
    total = 0.0
    for operand, now, wanted in zip(call.operands, placements, option.ins):
        if now == wanted or now.is_replicate() and not wanted.is_replicate():
            continue
        if wanted.is_partial():
            return NEVER
        elements = operand.numel() * (2 if now.is_partial() else 1)
        total += elements / size if wanted._divides() else elements
    return total


def brought(operand: Tensor, call: Call, n: int, chosen: Sequence[Option]) -> Tensor:
    """Operand `n` as the options want it, as a plain tensor with a gradient."""
    mesh, wanted = call.mesh, [option.ins[n] for option in chosen]
    if isinstance(operand, DTensor):
        local = operand.redistribute(placements=wanted).to_local()
    elif is_whole(wanted):
        local = operand
    else:
        replicated = DTensor.from_local(operand, mesh)
        local = replicated.redistribute(placements=wanted).to_local()
    if local.requires_grad and rushlight._C._records():
        for i, option in enumerate(chosen):
            if wanted[i].is_replicate() and not option.out.is_replicate():
                local = UsedInParts.apply(local, mesh.get_group(i))
    return local


def wrapped(result: Any, mesh: DeviceMesh, chosen: Sequence[Option]) -> Any:
    """Results of this process as DTensors; what is no tensor stays as it is."""
    if isinstance(result, Tensor):
        shape = list(result.shape)
        for option in chosen:
            if option.out._divides() and option.length is not None:
                shape[option.out.dim] = option.length
        return DTensor._make(result, mesh, [option.out for option in chosen], shape)
    if isinstance(result, (tuple, list)):
        members = [wrapped(one, mesh, chosen) for one in result]
        return type(result)._make(members) if hasattr(result, "_make") else type(result)(members)
    return result


# ---- options of kinds of operations


def labelled(
    call: Call, operands: Sequence[tuple[Any, str]], out: str, sums: str = "", added: Any = None
) -> Any:
    """Options of an operation whose dims have letters: along a letter, each operand that has it is
    divided, and so is the result; along one of `sums`, which the result lacks, the result is a sum.

    Args:
        call: the operation.
        operands: each operand with its letters; a dot stands for a dim that cannot be divided.
        out: letters of the result.
        sums: letters along which parts of the result are summed.
        added: an operand that is added to the result, and so is to be added once to the sum.
    """
    letters = call.by_identity(operands)
    lengths = {}
    for operand, word in zip(call.operands, letters):
        for letter, length in zip(word, operand.shape):
            if lengths.get(letter, 1) == 1:
                lengths[letter] = length
            elif length not in (1, lengths[letter]) and letter != ".":
                return lambda i: ()  # an error, which the operation itself reports

    def options(i):
        found = []
        for letter, placement in _divided_letters(call, letters, i):
            if letter == "." or letter not in out + sums or lengths[letter] == 1:
                continue
            ins = [
                moved_to(placement, word.index(letter))
                if letter in word and operand.shape[word.index(letter)] != 1
                else Partial()
                if letter in sums and operand is added
                else Replicate()
                for operand, word in zip(call.operands, letters)
            ]
            if letter in sums:
                found.append(Option(ins, Partial()))
            else:
                place = out.index(letter)
                found.append(Option(ins, moved_to(placement, place), lengths[letter]))
        return found

    return options


def _divided_letters(call, letters, i):
    """The letters that dim `i` of the mesh divides, each with the placement that does."""
    for operand, word in zip(call.operands, letters):
        placement = placements_of(operand, call.mesh)[i]
        if placement._divides():
            yield word[placement.dim], placement


def kept_dims(call: Call, kept: Callable[[int], int | None], linear: bool = False) -> Any:
    """Options of an operation of one operand that looks at some dims alone.

    Args:
        call: the operation.
        kept: kept(d) is the place in the result of dim `d`, None if the operation works along it.
        linear: a sum of operands gives the sum of results.
    """

    def options(i):
        placement = placements_of(call.first, call.mesh)[i]
        if placement.is_partial("sum") and linear:
            return (Option([placement], placement),)
        if placement._divides() and len(call.operands) == 1:
            place = kept(placement.dim)
            if place is not None:
                length = call.first.shape[placement.dim]
                return (Option([placement], moved_to(placement, place), length),)
        return ()

    return options
