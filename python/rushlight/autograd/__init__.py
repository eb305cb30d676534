"""Automatic differentiation: gradients of any program made of tensor ops."""

from __future__ import annotations

import importlib
import sys
import warnings

import rushlight
from rushlight import _C
from rushlight._ignored import warn_program as _warn_program
from rushlight.autograd import function, graph
from rushlight.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from rushlight.autograd.function import Function
from rushlight.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from rushlight.autograd.gradcheck import gradcheck, gradgradcheck
from rushlight.autograd.variable import Variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, overload

    from typing_extensions import Self

    from rushlight import Tensor
    from rushlight.autograd import (
        forward_ad as forward_ad,
        function as function,
        functional as functional,
        profiler as profiler,
        profiler_legacy as profiler_legacy,
    )
    from rushlight.autograd.graph import GradientEdge

__all__ = [
    "Function",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "variable",
]


def __getattr__(name: str) -> Any:
    if name in ("InplaceFunction", "NestedIOFunction"):
        return getattr(function, name)
    if name in ("DeviceType", "ProfilerActivity"):
        return getattr(importlib.import_module(f"{__name__}.profiler"), name)
    if name in ("forward_ad", "functional", "profiler", "profiler_legacy", "profiler_util"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_asked_for_threads = True


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` was told last; it changes nothing."""
    return _asked_for_threads


class set_multithreading_enabled:
    """A context, or call: backward runs on the thread that calls it, whatever is said here.

    Args:
        mode: True, with a warning, asks for a thread for each device.
    """

    def __init__(self, mode: Any) -> None:
        from rushlight._ignored import warn_of

        warn_of("set_multithreading_enabled", "backward runs on the thread that calls it",
                mode=bool(mode))  # fmt: skip
        self.mode = mode
        self._before = _asked_for_threads
        _set_asked_for_threads(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        _set_asked_for_threads(self._before)

    def clone(self) -> Any:
        """Another one."""
        return type(self)(self.mode)


def _set_asked_for_threads(mode):
    global _asked_for_threads
    _asked_for_threads = bool(mode)


class enforce_grad_layout_policy:
    """Whether gradients are laid out as their leaves are: they always are.

    Raises:
        NotImplementedError: `enable` is False.
    """

    def __init__(self, enable: bool = True) -> None:
        if not enable:
            raise NotImplementedError(
                f"enforce_grad_layout_policy: enable={enable}: gradients have their leaves' layout"
            )

    def clone(self) -> enforce_grad_layout_policy:
        """Another one."""
        return type(self)()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def _profiler_enabled():
    """Is a profiler recording this thread?"""
    return _C._profiler_active()


def _is_checkpoint_valid():
    """Does the backward pass that runs go to all leaves, so that it may run parts anew?"""
    return not _C.backward_is_restricted()


def _disable_profiler():
    """End the trace of the profile under way, and return what it has recorded.

    Raises:
        RuntimeError: nothing is recorded.
    """
    from rushlight.profiler import profile_under_way

    prof = profile_under_way()
    if prof is None:
        raise RuntimeError("can't disable profiler when it's not running")
    prof.stop_trace()
    return prof.recording


def _older_argument(function, older, given, newer, other):
    """What was given under the older or the newer name of an argument; a warning for the older."""
    if given is None:
        return other
    if other is not None:
        raise RuntimeError(f"{function}: {newer} and its old name {older} were both given")
    text = f"`{older}` is deprecated. Use `{newer}` instead."
    _warn_program(text, FutureWarning)
    return given


def backward(
    tensors: Tensor | GradientEdge | Sequence[Tensor | GradientEdge] | None = None,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool | None = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: Any = None,
    *,
    variables: Tensor | Sequence[Tensor] | None = None,
    retain_variables: bool | None = None,
) -> None:
    """Accumulate gradients of `tensors` into the `.grad` of the leaves that they depend on.

    Args:
        tensors: a tensor, or several.
        grad_tensors: the gradient with respect to each of them; None stands for 1 where a tensor
            has one element, and for nothing where it requires no gradient.
        retain_graph: keep saved tensors for another backward pass; by default as `create_graph`.
        create_graph: record the computation of the gradients, for derivatives of higher order.
        grad_variables: the old name of `grad_tensors`.
        inputs: accumulate into these alone.
        variables: the name of `tensors` in 2017.
        retain_variables: the name of `retain_graph` in 2017.

    Raises:
        RuntimeError: the graph does not fit the arguments, or has been freed.
    """
    tensors = _older_argument("backward", "variables", variables, "tensors", tensors)
    if tensors is None:
        raise TypeError("backward() missing 1 required positional argument: 'tensors'")
    grad_tensors = _older_argument(
        "backward", "grad_variables", grad_variables, "grad_tensors", grad_tensors
    )
    retain_graph = _older_argument(
        "backward", "retain_variables", retain_variables, "retain_graph", retain_graph
    )
    create_graph = bool(create_graph)
    targets = () if inputs is None else _as_tuple(inputs)
    if inputs is not None and not targets:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots = _as_tuple(tensors)
    weights = _weights(roots, grad_tensors)
    keep_graph = create_graph if retain_graph is None else retain_graph
    _C.run_backward(roots, weights, keep_graph, create_graph, targets, True, True)


if TYPE_CHECKING:

    @overload
    def grad(
        outputs: Any, inputs: dict[str, Tensor], *args: Any, **options: Any
    ) -> dict[str, Tensor]: ...
    @overload
    def grad(outputs: Any, inputs: Any, *args: Any, **options: Any) -> tuple[Tensor, ...]: ...


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Return the gradients of `outputs` with respect to `inputs`, leaving `.grad` as it is.

    Args:
        outputs: a tensor, or several; their gradients are summed.
        inputs: a tensor, several, or a dict of them.
        grad_outputs: the gradient with respect to each output; None stands for 1 where an output
            has one element.
        retain_graph: keep saved tensors for another backward pass; by default as `create_graph`.
        create_graph: record the computation of the gradients, for derivatives of higher order.
        only_inputs: ignored.
        allow_unused: return None for an input that the outputs do not depend on, in place of an
            error; by default as `materialize_grads`.
        is_grads_batched: `grad_outputs` have a leading batch dimension, and so have the results,
            which one backward pass computes. Where tensors or nodes have hooks, and in nodes of
            custom Functions, gradients are taken one after the other.
        materialize_grads: return zeros in place of None.

    Returns:
        A tuple of tensors, or a dict if `inputs` is one.

    Example:
        >>> x = rushlight.tensor(3.0, requires_grad=True)
        >>> (dy,) = grad(x * x, x)
        >>> dy
        tensor(6.)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, which "
            "gives zeros where nothing depends on an input"
        )
    if not only_inputs:
        _warn_program("only_inputs is deprecated and ignored.", FutureWarning)
    roots, targets = _as_tuple(outputs), _as_tuple(inputs)
    if materialize_grads and any(isinstance(t, graph.GradientEdge) for t in targets):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge"
        )
    if not isinstance(inputs, dict):
        inputs = targets  # an iterator, such as `model.parameters()`, can be read once
    if not targets:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if _C._has_torch_function(roots + targets):
        options = {
            "grad_outputs": grad_outputs,
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "only_inputs": only_inputs,
            "allow_unused": allow_unused,
            "is_grads_batched": is_grads_batched,
            "materialize_grads": materialize_grads,
        }
        return _C._handle_torch_function(grad, roots + targets, (roots, inputs), options)
    return _grad(
        roots, inputs, grad_outputs, retain_graph, create_graph, only_inputs, allow_unused,
        is_grads_batched, materialize_grads,
    )  # fmt: skip


def _grad(
    outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True,
    allow_unused=None, is_grads_batched=False, materialize_grads=False,
):  # fmt: skip
    """`grad`, whoever might have taken it over."""
    roots, targets = _as_tuple(outputs), _as_tuple(inputs)
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    keep_graph = create_graph if retain_graph is None else retain_graph

    def run(weights, keep, batch=0):
        return _C.run_backward(
            roots, weights, keep, create_graph, targets, allow_unused, False, batch
        )

    if is_grads_batched:
        count, results = _batched(run, roots, targets, grad_outputs, keep_graph)
        batch = (count,)
    else:
        results, batch = run(_weights(roots, grad_outputs), keep_graph), ()
    if materialize_grads:
        results = tuple(
            t.new_zeros((*batch, *t.shape), requires_grad=create_graph) if found is None else found
            for found, t in zip(results, targets, strict=True)
        )
    return dict(zip(inputs, results, strict=True)) if isinstance(inputs, dict) else results


def _as_tuple(tensors):
    if type(tensors) is tuple:
        return tensors
    if isinstance(tensors, graph.GradientEdge) or hasattr(tensors, "__torch_function__"):
        return (tensors,)
    return tuple(tensors.values()) if isinstance(tensors, dict) else tuple(tensors)


def _given_weights(roots, weights):
    if weights is None:
        return (None,) * len(roots)
    weights = (weights,) if isinstance(weights, rushlight.Tensor) else tuple(weights)
    if len(weights) != len(roots):
        raise RuntimeError(f"got {len(roots)} tensors and {len(weights)} gradients")
    return weights


def _weights(roots, weights):
    """Check the gradients given for the roots and fill in those that are implied."""
    given = _given_weights(roots, weights)
    return tuple([
        _implied_weight(roots[i])
        if given[i] is None
        else _checked_weight(roots[i], given[i], i)
        for i in range(len(roots))
    ])  # fmt: skip


def _checked_weight(root, weight, position):
    if not isinstance(weight, rushlight.Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(weight).__name__}")
    root = _metadata(root)
    if weight.shape != root.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{position}] has a shape of {weight.shape} and"
            f" output[{position}] has a shape of {root.shape}."
        )
    if weight.is_complex() != root.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, a gradient has its output's dtype. Mismatch in dtype: "
            f"grad_output[{position}] has a dtype of {weight.dtype} and output[{position}] has a "
            f"dtype of {root.dtype}."
        )
    return weight


def _metadata(root):
    """What has the shape, dtype and device of a tensor, or of what an edge stands for."""
    is_edge = isinstance(root, graph.GradientEdge)
    return root.node._input_metadata[root.output_nr] if is_edge else root


def _implied_weight(root):
    is_edge = isinstance(root, graph.GradientEdge)
    if not (is_edge or root.requires_grad):
        return None
    if is_edge:
        root = _metadata(root)
    if root.shape.numel() != 1:
        raise RuntimeError(
            "grad can be implicitly created only for scalar outputs, and this one has shape"
            f" {tuple(root.shape)}"
        )
    if not root.dtype.is_floating_point:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {root.dtype}"
        )
    if is_edge:
        return rushlight.ones(root.shape, dtype=root.dtype, device=root.device)
    return rushlight.ones_like(root, memory_format=rushlight.preserve_format)


# Fewer gradients take a backward pass each: that of many costs as much as two.
_LEAST_BATCH = 3


def _batched(run, roots, targets, batched_weights, keep_graph):
    """The size of the batch, and the gradients for its entries: in one backward pass if may be."""
    batched = _given_weights(roots, batched_weights)
    sizes = {weight.shape[0] for weight in batched if weight is not None}
    if len(sizes) != 1:
        raise RuntimeError(f"is_grads_batched: batch sizes of grad_outputs differ: {sorted(sizes)}")
    (count,) = sizes
    for position, (root, weight) in enumerate(zip(roots, batched)):
        if weight is not None and weight.shape[1:] != _metadata(root).shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                f"as the batch dimension: the sizes of the others must be {_metadata(root).shape}, "
                f"but grad_output[{position}] has a shape of {weight.shape}"
            )
    if not count:
        return 0, tuple(target.new_empty((0, *target.shape)) for target in targets)
    first = [None if weight is None else weight[0] for weight in batched]
    one_of_each = _weights(roots, first)
    if count >= _LEAST_BATCH:
        whole = [
            one.expand(count, *one.shape) if weight is None and one is not None else weight
            for weight, one in zip(batched, one_of_each)
        ]
        found = run(tuple(whole), keep_graph, count)
        if found is not None:
            return count, found
    parts = [
        [one] * count if weight is None else weight.unbind(0)
        for weight, one in zip(batched, one_of_each)
    ]
    rows = [
        run(weights, keep_graph or entry < count - 1)
        for entry, weights in enumerate(zip(*parts, strict=True))
    ]
    return count, tuple(
        _stacked(column, target)
        for column, target in zip(zip(*rows, strict=True), targets, strict=True)
    )


def _stacked(column, target):
    """One gradient for each entry; a backward may return None for some of them."""
    if all(entry is None for entry in column):
        return None
    return rushlight.stack(
        [rushlight.zeros_like(target) if entry is None else entry for entry in column]
    )
