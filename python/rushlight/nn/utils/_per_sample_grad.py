"""Gradients of each example by themselves, in one backward."""

from __future__ import annotations

import functools
import inspect

import rushlight
from rushlight import Tensor
from rushlight.func import functional_call, vjp, vmap
from rushlight.utils._pytree import tree_flatten, tree_unflatten

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn.modules.module import Module


def call_for_per_sample_grads(
    module: Module,
    *,
    batch_size: int | None = None,
    loss_reduction: str = "sum",
    batch_first: bool = True,
) -> Any:
    """Return a function that calls a module so that backward sets `grad_sample` of its parameters:
    one gradient for each example.

    Args:
        module: one in which examples do not depend on each other.
        batch_size: how many examples; by default from the arguments.
        loss_reduction: "sum" or "mean", as the loss adds up its examples.
        batch_first: the first dim of arguments counts examples, else the second.

    Example:
        >>> net = rushlight.nn.Linear(2, 1)
        >>> call_for_per_sample_grads(net)(rushlight.ones(3, 2)).sum().backward()
        >>> net.weight.grad_sample.shape
        torch.Size([3, 1, 2])
    """
    if not isinstance(module, rushlight.nn.Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(
            f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}"
        )
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(
            f"Batch size passed must be None or an integer, got {type(batch_size).__name__}"
        )
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for name, parameter in module.named_parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError(
                f"Current Tensor's grad_sample must be None to get new gradients: {name} has one"
            )
    dim = 0 if batch_first else 1

    @functools.wraps(module.forward)
    def wrapper(*args, **kwargs):
        bound = inspect.signature(module.forward).bind(*args, **kwargs)
        tensors = [a for a in (*bound.args, *bound.kwargs.values()) if isinstance(a, Tensor)]
        sizes = {t.size(dim) for t in tensors if t.dim() > dim}
        size = batch_size if batch_size is not None else next(iter(sizes), None)
        if size is None:
            raise RuntimeError("Unable to find a tensor in the passed args and kwargs.")
        if sizes != {size}:
            raise RuntimeError(f"batch sizes of the arguments are {sorted(sizes)}, not {size}")
        scale = size if loss_reduction == "mean" else 1
        return _call(module, dim, scale, args, kwargs)

    return wrapper


def _call(module, dim, scale, args, kwargs):
    trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
    parameters = trained.values()

    def one(values, arguments, named):
        # An example of its own, as a batch of one.
        arguments = [a.unsqueeze(dim) if isinstance(a, Tensor) else a for a in arguments]
        named = {n: a.unsqueeze(dim) if isinstance(a, Tensor) else a for n, a in named.items()}
        output = functional_call(module, dict(zip(trained, values)), tuple(arguments), named)
        return output.squeeze(dim)

    leaves, structure = tree_flatten((args, kwargs))
    places = [dim if isinstance(leaf, Tensor) else None for leaf in leaves]
    moving = [n for n, leaf in enumerate(leaves) if isinstance(leaf, Tensor) and leaf.requires_grad]

    def gradients_of_one(grad, values, *leaves):
        """By the parameters, and by the arguments that need gradients."""

        def at(values, moved):
            changed = dict(zip(moving, moved))
            given = [changed.get(n, leaf) for n, leaf in enumerate(leaves)]
            return one(values, *tree_unflatten(given, structure))

        _, pull = vjp(at, values, tuple(leaves[n] for n in moving))
        return pull(grad)

    class Sampled(rushlight.autograd.Function):
        """The module's output, whose backward keeps a gradient for each example."""

        @staticmethod
        def forward(ctx, *sources):
            with rushlight.no_grad():
                return module(*args, **kwargs)

        @staticmethod
        def backward(ctx, grad):
            values = tuple(p.detach() for p in parameters)
            detached = [leaf.detach() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            grads, of_inputs = vmap(gradients_of_one, in_dims=(dim, None, *places))(
                grad, values, *detached
            )
            for parameter, each in zip(parameters, grads):
                parameter.grad_sample = each * scale
            return (None,) * len(values) + tuple(each.movedim(0, dim) for each in of_inputs)

    return Sampled.apply(*parameters, *(leaves[n] for n in moving))
