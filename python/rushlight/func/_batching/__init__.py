"""How operations are computed for all examples of a mapped function at once."""

from __future__ import annotations

import inspect
import types

import rushlight
from rushlight import _C, Tensor
from rushlight.func._batching import (  # noqa: F401  their rules
    _bodies,
    _composed,
    _elements,
    _indexing,
    _networks,
    _products,
)
from rushlight.func._batching._random import random
from rushlight.func._batching._rules import (
    FUNCTIONS,
    check_ranks,
    register,
    rules_of,
    rules_of_ops,
    words,
)
from rushlight.func._batching._views import transposed
from rushlight.utils._pytree import tree_leaves

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def compute(level: int, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """`func` of the arguments, among which are stand-ins of the level and other tensors."""
    name = func.__name__
    if name == "__get__":
        name = func.__self__.__name__
        return _attribute(level, func, name, args)
    if name in _OF_THE_SHAPE:
        with _C.DisableTorchFunction():  # levels around would answer the same, one after the other
            return func(*args, **kwargs)
    leaves = tree_leaves((args, kwargs))
    mapped = [leaf for leaf in leaves if level.examples(leaf) is not None]
    kinds = rules_of_ops().get(name, ())
    inner = getattr(func, "__wrapped__", None)
    is_python = inner is not None and isinstance(inspect.unwrap(func), types.FunctionType)
    if "random" in kinds and not is_python:  # as `nn.init.normal_` is
        return random(level, func, name, args, kwargs, mapped)
    if not mapped:
        if is_python:  # it may draw random numbers
            return _parts_or_whole(level, inner, name, args, kwargs, func)
        return func(*args, **kwargs)
    if name in _OF_ONE_VALUE or "value" in kinds:
        call = _OF_ONE_VALUE.get(name) or f"{name.strip('_').removesuffix('_tuple')}()"
        raise DependsOnValues(
            f"vmap: It looks like you're calling {call} on a Tensor that has a "
            "value for each example: data-dependent control flow, or what else depends on one of "
            "them, is not possible; use torch.where, or map outside"
        )
    if name in _AS_THEY_ARE or "metadata" in kinds:
        return func(*args, **kwargs)
    if kwargs.get("out") is not None:
        raise RuntimeError(f"vmap: {name}() cannot write into out=")
    check_ranks(name.rstrip("_"), args)
    own = getattr(func, "batching_rule", None)
    for rule in (own,) if own is not None else rules_of(name, func):
        result = rule(level, func, args, kwargs)
        if result is not NotImplemented:
            return result
    if not is_python:
        return level.loop_fallback(func, args, kwargs)

    def loop(*args, **kwargs):
        return level.loop_fallback(func, args, kwargs)

    return _parts_or_whole(level, inner, name, args, kwargs, loop)


def _parts_or_whole(level, inner, name, args, kwargs, whole):
    """A function written in Python, as its operations; or, where it asks for values that differ
    among examples, for its checks, by `whole`."""
    try:
        return level.run_inside(inner, args, kwargs)
    except DependsOnValues:
        if name.endswith("_"):  # of what it has changed already
            raise
    return whole(*args, **kwargs)


class DependsOnValues(RuntimeError):
    """Something was asked that each example may answer in another way."""


def _of_all_examples(level, func, args, kwargs):
    """What programs ask that check their arguments: they go on if no example is wrong."""
    return func(level.examples(args[0]))


for _asks in (rushlight._is_all_true, rushlight._is_any_true):
    _asks.batching_rule = _of_all_examples

# Of methods that are no ops of the table.
_OF_ONE_VALUE = {
    "item": ".item()", "__bool__": "bool() (as `if` does)", "__int__": "int()",
    "__float__": "float()", "__index__": "int()", "__complex__": "complex()", "tolist": ".tolist()",
    "numpy": ".numpy()", "__array__": "numpy.asarray()", "__contains__": "`in`",
}  # fmt: skip
_AS_THEY_ARE = words(
    """
    stride is_contiguous storage_offset get_device data_ptr is_tensor
    is_inference is_conj is_neg __format__ __hash__ is_shared
    """
)
_OF_THE_SHAPE = words(
    "size dim ndimension numel nelement is_floating_point is_complex element_size __len__"
)
_ATTRIBUTES_OF_THE_SHAPE = words("shape dtype device ndim layout itemsize nbytes requires_grad")


def _attribute(level, func, name, args):
    if name in _ATTRIBUTES_OF_THE_SHAPE:
        with _C.DisableTorchFunction():
            return func(*args)
    examples = level.examples(args[0])
    if examples is None or name not in ("T", "mT", "H", "mH", "real", "imag", "data", "grad"):
        return func(*args)
    if name == "grad":
        return None if examples.grad is None else level.batched_tensor(examples.grad)
    if name in ("T", "H"):
        turned = transposed(None, examples, examples.dim() - 1)
        return level.batched_tensor(turned.conj() if name == "H" else turned)
    return level.batched_tensor(getattr(examples, name))


def _show(level, func, args, kwargs):
    return f"vmap: one of {level.size} examples\n{func(level.examples(args[0]))}"


register("__repr__ __str__", _show, FUNCTIONS)


def _gradient(level, func, args, kwargs):
    """autograd.grad: of all examples at once, if each input has a value for each."""
    given = dict(zip(("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph"), args))
    given.update(kwargs)
    outputs, inputs, weights = (
        [value] if value is None or isinstance(value, Tensor) else list(value)
        for value in (given.pop("outputs"), given.pop("inputs"), given.pop("grad_outputs", None))
    )
    if len(weights) == 1 and weights[0] is None:
        weights = [None] * len(outputs)
    sources = [level.examples(leaf) for leaf in inputs]
    batched = given.get("is_grads_batched")
    if any(found is None for found in sources):
        return _gradient_of_shared(level, func, outputs, inputs, weights, given)
    outputs = [level.all_examples(out) for out in outputs]
    if batched:  # then their batch comes before the examples
        weights = [None if w is None else level.all_examples(w).movedim(1, 0) for w in weights]
    else:
        weights = [
            rushlight.ones_like(out) if w is None else level.all_examples(w)
            for out, w in zip(outputs, weights)
        ]
    gradients = func(outputs, sources, weights, **given)
    return tuple(
        None if g is None else level.batched_tensor(g.movedim(1, 0) if batched else g)
        for g in gradients
    )


def _gradient_of_shared(level, func, outputs, inputs, weights, given):
    """One backward pass for each example, as all of them end in the same tensors."""
    create_graph = given.get("create_graph", False)
    retain = given.pop("retain_graph", None)
    retain = create_graph if retain is None else retain
    wholes = [level.examples(out) for out in outputs]
    sources = [leaf if (f := level.examples(leaf)) is None else f for leaf in inputs]
    found = []
    for i in range(level.size):
        roots = [out if f is None else f.select(0, i) for out, f in zip(outputs, wholes)]
        parts = [w if (f := level.examples(w)) is None else f.select(0, i) for w in weights]
        gradients = func(roots, sources, parts, retain_graph=retain or i < level.size - 1, **given)
        found.append(
            [
                g if g is None or level.examples(leaf) is None else g.select(0, i)
                for g, leaf in zip(gradients, inputs)
            ]
        )
    return tuple(
        None if column[0] is None else level.batched_tensor(rushlight.stack(column))
        for column in zip(*found)
    )


register("grad", _gradient, FUNCTIONS)


def _backward(level, func, args, kwargs):
    raise RuntimeError("backward() called inside torch.vmap, on a mapped tensor; use func.grad")


register("backward", _backward, FUNCTIONS)
