"""The functional collectives as operations: `torch.ops._c10d_functional.all_reduce` and others,
also in `c10d_functional`.
"""

from __future__ import annotations

import rushlight
from rushlight.distributed import _functional_collectives as functional
from rushlight.library import Library

_SIGNATURES = {
    "all_reduce": "(Tensor input, str reduce_op, str group_name) -> Tensor",
    "all_gather_into_tensor": "(Tensor input, int group_size, str group_name) -> Tensor",
    "reduce_scatter_tensor": (
        "(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor"
    ),
    "all_to_all_single": (
        "(Tensor input, int[] output_split_sizes, int[] input_split_sizes, str group_name) -> "
        "Tensor"
    ),
    "all_reduce_coalesced": "(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]",
    "broadcast": "(Tensor input, int src, str group_name) -> Tensor",
    "wait_tensor": "(Tensor tensor) -> Tensor",
    "_wrap_tensor_autograd": "(Tensor input) -> Tensor",
}


_FUNCTIONS = {
    "all_reduce": lambda input, op, name: functional.all_reduce(input, op, name).wait(),
    "all_reduce_coalesced": lambda inputs, op, name: [
        tensor.wait() for tensor in functional.all_reduce_coalesced(inputs, op, name)
    ],
    "all_gather_into_tensor": lambda input, size, name: functional.all_gather_tensor(
        input, 0, name
    ).wait(),
    "reduce_scatter_tensor": lambda input, op, size, name: functional.reduce_scatter_tensor(
        input, op, 0, name
    ).wait(),
    "all_to_all_single": lambda input, output_sizes, input_sizes, name: (
        functional.all_to_all_single(input, output_sizes, input_sizes, name).wait()
    ),
    "broadcast": lambda input, src, name: functional.broadcast(input, src, name).wait(),
    "wait_tensor": lambda tensor: tensor.clone(),
    "_wrap_tensor_autograd": lambda input: input.clone(),
}

_libraries = []  # operations live as long as these
for _namespace in ("_c10d_functional", "c10d_functional"):
    _library = Library(_namespace, "FRAGMENT")
    _libraries.append(_library)
    for _name, _signature in _SIGNATURES.items():
        _library.define(_name + _signature)
        _library.impl(_name, _FUNCTIONS[_name], "CompositeExplicitAutograd")


def _scatter(outputs, inputs, group, root, asynchronous=True, timeout=-1):
    raise NotImplementedError("c10d::scatter_ is not implemented: call distributed.scatter")


_library = Library("c10d", "FRAGMENT")
_libraries.append(_library)
_library.define(
    "scatter_(Tensor[] output_tensors, Tensor[][] input_tensors, "
    "Any process_group, int root_rank, bool async_op=True, "
    "int timeout=-1) -> (Tensor[], Any)"
)
_library.impl("scatter_", _scatter, "CompositeExplicitAutograd")


def operation(name: str) -> object:
    """torch.ops.c10d_functional.NAME"""
    return getattr(rushlight.ops.c10d_functional, name)


__all__ = ["operation"]
