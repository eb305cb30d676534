"""How an operation may be done in parts, as programs say it."""

from __future__ import annotations

import functools

import rushlight
from rushlight import Tensor
from rushlight.distributed.tensor import _operations
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor._options import NEVER, Call, Option, brought, cost, placements_of
from rushlight.library._operator import OpOverload, OpOverloadPacket
from rushlight.overrides import DisableTorchFunctionSubclass
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


def register_sharding(op: OpOverload | list[OpOverload]) -> Callable[..., Any]:
    """A decorator of functions that say how an operation of DTensors can be done in parts.

    The function gets the operation's arguments and returns pairs: the placements of the results,
    and those of the arguments, None for what is no tensor. Each pair is for one dim of a mesh. Of
    all, the one is taken for which processes send least. It replaces what DTensors would do.

    Args:
        op: an operation, such as `torch.ops.aten._softmax.default` or one that the program has
            registered, or a list of them.

    Example:
        >>> import rushlight
        >>> import rushlight.distributed as dist
        >>> from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor
        >>> @rushlight.library.custom_op("doc::twice", mutates_args=())
        ... def twice(x: rushlight.Tensor) -> rushlight.Tensor:
        ...     return x * 2
        >>> _ = twice.register_fake(lambda x: rushlight.empty_like(x))
        >>> @register_sharding(rushlight.ops.doc.twice.default)
        ... def ways(x):
        ...     return [([way], [way]) for way in (Replicate(), Shard(0))]
        >>> dist.init_process_group("gloo", rank=0, world_size=1)
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> twice(distribute_tensor(rushlight.ones(2), mesh, [Shard(0)])).placements
        (Shard(dim=0),)
        >>> dist.destroy_process_group()
    """
    operations = op if isinstance(op, list) else [op]
    for one in operations:
        if not isinstance(one, OpOverload):
            raise TypeError(
                f"register_sharding: expected an operation such as torch.ops.aten.add.Tensor, got "
                f"{one!r}"
            )

    def decorate(function):
        for one in operations:
            _operations.registered[_key(one)] = functools.partial(_run, function, one)
        return function

    return decorate


# Operations that Python programs call by another name.
_NAMES = {"_softmax": "softmax", "_log_softmax": "log_softmax", "native_layer_norm": "layer_norm"}


def _key(op):
    if op.namespace != "aten":
        return op
    return _NAMES.get(op._opname, op._opname)


def _arguments(op, call):
    """The arguments as the operation has them, not the function that programs call."""
    is_softmax = op.namespace == "aten" and op._opname in ("_softmax", "_log_softmax")
    if is_softmax and call.func is not op:
        return _of_softmax(*call.args, **call.kwargs), {}
    return call.args, call.kwargs


def _of_softmax(input, dim=None, _stacklevel=3, dtype=None):
    return input, dim, False


def _run(function, op, func, name, args, kwargs):
    """The operation, by one of the ways that `function` names."""
    if isinstance(func, OpOverloadPacket):
        func = op
    call = Call(func, name, args, kwargs)
    args_of_op, kwargs_of_op = _arguments(op, call)
    ways = [_way(call, op, *pair) for pair in function(*args_of_op, **kwargs_of_op)]
    chosen = [_cheapest(call, op, i, ways) for i in range(call.mesh.ndim)]
    operands = [brought(one, call, n, chosen) for n, one in enumerate(call.operands)]
    args, kwargs = call.with_operands(operands)
    with DisableTorchFunctionSubclass():
        result = call.func(*args, **kwargs)
    return _wrapped(result, call, op, chosen)


class _Way(Option):
    """An option whose results lie each in their own way."""

    def __init__(self, ins: Sequence[Any], outs: Sequence[Any]) -> None:
        divided = [one for one in outs if one is not None and not one.is_replicate()]
        super().__init__(ins, (divided or [rushlight.distributed.tensor.Replicate()])[0])
        self.outs = list(outs)


def _way(call, op, outs, ins):
    ins = [one for one in ins if one is not None]
    if len(ins) != len(call.operands):
        raise ValueError(
            f"register_sharding: {op} has {len(call.operands)} tensors, but a way to do it names "
            f"placements of {len(ins)}"
        )
    return _Way(ins, outs)


def _cheapest(call, op, i, ways):
    size, now = call.mesh.size(i), [placements_of(one, call.mesh)[i] for one in call.operands]
    costs = [
        cost(call, now, way, size) if _can_be_divided(call, way, size) else NEVER for way in ways
    ]
    if not costs or min(costs) == NEVER:
        raise RuntimeError(
            f"DTensor: {op}: none of the {len(ways)} registered ways fits tensors of shapes "
            f"{[tuple(one.shape) for one in call.operands]} with placements {now}"
        )
    return ways[costs.index(min(costs))]


def _can_be_divided(call, way, size):
    return all(
        not wanted._divides() or operand.shape[wanted.dim] >= size
        for operand, wanted in zip(call.operands, way.ins)
    )


def _wrapped(result, call, op, chosen):
    """The results as DTensors, which say how large the wholes are."""
    results, structure = tree_flatten(result, is_leaf=_is_tensor)
    wholes, _ = tree_flatten(call.on_meta(), is_leaf=_is_tensor)
    made = []
    for n, (one, whole) in enumerate(zip(results, wholes)):
        if isinstance(one, Tensor):
            if any(n >= len(way.outs) for way in chosen):
                raise ValueError(
                    f"register_sharding: {op} gives {len(results)} results, but a way to do it "
                    f"names placements of {len(chosen[0].outs)}"
                )
            one = DTensor._make(one, call.mesh, [way.outs[n] for way in chosen], whole.shape)
        made.append(one)
    return tree_unflatten(made, structure)


def _is_tensor(thing):
    return isinstance(thing, Tensor)


__all__ = ["register_sharding"]
