"""What operations do with DTensors: they compute with the parts where a rule says how, and with the
whole otherwise.
"""

from __future__ import annotations

import contextlib
import threading

import rushlight
from rushlight import Tensor
from rushlight._ignored import warn_once
from rushlight._set_module import home_of
from rushlight.distributed.tensor._creation import agreed_draws, agreed_generator
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor._options import (
    Call,
    brought,
    is_whole,
    whole_option,
    wrapped,
)
from rushlight.distributed.tensor._redistribute import local_of, of_gradient
from rushlight.distributed.tensor._rules import (
    kinds_of,
    of_elements,
    rules_of,
)
from rushlight.distributed.tensor.placement_types import Partial, Replicate
from rushlight.overrides import DisableTorchFunctionSubclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

# What does not look at elements, or may see this process's alone.
_PLAIN = frozenset(
    "requires_grad_ register_post_accumulate_grad_hook retain_grad data_ptr element_size "
    "is_floating_point is_complex is_contiguous dim ndimension get_device "
    "is_signed is_same_size __hash__ is_inference has_names untyped_storage is_conj is_neg "
    "detach_ is_shared is_pinned result_type can_cast".split()
)
_PLAIN_ATTRIBUTES = frozenset(
    "requires_grad is_leaf grad_fn dtype device layout _version output_nr retains_grad is_cpu "
    "is_cuda is_meta is_sparse is_sparse_csr is_quantized is_nested is_mkldnn ndim itemsize "
    "_backward_hooks _post_accumulate_grad_hooks volatile is_mps is_xpu name names".split()
)
_VIEWS = frozenset("T mT H mH real imag".split())
# What they would give or change is this process's part.
_REFUSED = frozenset(
    "numpy __array__ __dlpack__ share_memory_ set_ resize_ resize_as_ storage as_strided "
    "as_strided_ map_ map2_ apply_ to_sparse to_sparse_csr to_sparse_csc to_sparse_bsr "
    "to_sparse_bsc to_mkldnn squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_".split()
)
# What a random tensor is must not depend on how it lies.
_FILLED = frozenset(
    "normal_ uniform_ bernoulli_ exponential_ cauchy_ geometric_ log_normal_ random_".split()
)
# Plain tensors beside DTensors are the same in all processes.
_MIXED = frozenset("linear embedding layer_norm rms_norm index_select __getitem__".split())


class _State(threading.local):
    plain_is_replicated = False


_state = _State()


@contextlib.contextmanager
def plain_is_replicated() -> Iterator[None]:
    """A context in which plain tensors beside DTensors are the same in all processes."""
    before, _state.plain_is_replicated = _state.plain_is_replicated, True
    try:
        yield
    finally:
        _state.plain_is_replicated = before


# What `register_sharding` has been told: a function's name or an operation -> what does it.
registered: dict[Any, Callable[..., Any]] = {}


def _raw(func, args, kwargs):
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def _refuse(name):
    raise NotImplementedError(f"DTensor: {name} is not supported; use to_local() or full_tensor()")


def run(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Do `func` with arguments of which some are DTensors."""
    name = getattr(func, "__name__", str(func))
    if registered and (done := _registered_for(func, name)) is not None:
        return done(func, name, args, kwargs)
    if name in ("__get__", "__set__", "__delete__"):
        return _attribute(func, name, args, kwargs)
    if home_of(func) == "rushlight.nn.init":
        return func.__wrapped__(*args, **kwargs)  # which fills the tensor by a method of it
    if name in _HANDLERS:
        result = _HANDLERS[name](*args, **kwargs)
        if result is not NotImplemented:
            return result
    if name in _PLAIN or name.startswith("_fused_"):
        return _raw(func, args, kwargs)
    if name in _REFUSED:
        return _refuse(name)
    if isinstance(kwargs.get("out"), Tensor):
        return _into(func, name, args, **kwargs)
    call = Call(func, name, args, kwargs)
    if call.mesh.get_coordinate() is None:
        return call.first if _is_in_place(call) else _outside(call.on_meta(), call)
    if _is_in_place(call):
        return _in_place(call)
    _check_mixed(call)
    if _is_random(func, name):
        return _random(call)
    for rule in rules_of(name, func):
        result = rule(call)
        if result is not NotImplemented:
            return result
    inner = getattr(func, "__wrapped__", None)
    if inner is not None:  # written in Python, of operations that have rules
        with plain_is_replicated():
            return inner(*args, **kwargs)
    return _with_whole(call)


def _into(func, name, args, out, **kwargs):
    """An operation with a result that is there: it lies as before."""
    result = func(*args, **kwargs)
    if not isinstance(out, DTensor) or not isinstance(result, DTensor) or (
        out.shape != result.shape or out.dtype is not result.dtype
    ):  # fmt: skip
        return _refuse(f"{name} with out= that is no DTensor of the result's shape and dtype")
    return out.copy_(result.redistribute(placements=out.placements))


def _registered_for(func, name):
    """What a program has registered for an operation, or for a function or method of its name."""
    from rushlight.library._operator import OpOverload, OpOverloadPacket

    if isinstance(func, OpOverloadPacket):
        func = getattr(func, "default", func)
    if isinstance(func, OpOverload) and func.namespace != "aten":
        return registered.get(func)
    return registered.get(name.partition(".")[0])


def _outside(result, call):
    """The results of an operation in a process outside of the mesh, from those on meta."""
    if isinstance(result, (tuple, list)):
        return type(result)(_outside(one, call) for one in result)
    if not isinstance(result, Tensor):
        return result
    local = rushlight.zeros(0 if result.dim() else (), dtype=result.dtype)
    whole = (Replicate(),) * call.mesh.ndim
    return DTensor._make(local.to(call.mesh.device_type), call.mesh, whole, result.shape)


def _with_whole(call):
    """The operation of the whole, in each process: right for any, and the most expensive."""
    chosen = [whole_option(call)] * call.mesh.ndim
    operands = [brought(one, call, i, chosen) for i, one in enumerate(call.operands)]
    args, kwargs = call.with_operands(operands)
    return wrapped(_raw(call.func, args, kwargs), call.mesh, chosen)


def _check_mixed(call):
    if _state.plain_is_replicated or call.name in _MIXED:
        return
    if all(is_whole(one.placements) for one in call.dtensors):
        return
    for one in call.operands:
        if not isinstance(one, DTensor) and one.dim() > 0:
            if one.dim() == 1 and one.numel() == 1:
                warn_once(
                    "DTensor: Found a non-scalar tensor with numel=1 and ndim!=0: it is taken to "
                    "be the same in all processes"
                )
                continue
            raise RuntimeError(
                f"DTensor: {call.name}: got mixed torch.Tensor and DTensor: distribute the tensor "
                f"of shape {tuple(one.shape)} first"
            )


def _attribute(func, access, args, kwargs):
    attribute = func.__self__.__name__
    if attribute in _PLAIN_ATTRIBUTES:
        return _raw(func, args, kwargs)
    tensor = args[0]
    if attribute == "data":
        if access == "__get__":
            local = _raw(func, args, kwargs)
            return DTensor._make(local, tensor._mesh, tensor._placements, tensor._shape)
        if isinstance(args[1], DTensor) and args[1]._placements == tensor._placements:
            return _raw(func, (tensor, args[1].to_local().detach()), kwargs)
    if access == "__get__" and attribute == "nbytes":
        return tensor.numel() * tensor.element_size()
    if access == "__get__" and attribute in _VIEWS:
        call = Call(lambda one: getattr(one, attribute), attribute, (tensor,), {})
        for rule in rules_of(attribute):
            return rule(call)
    return _refuse(f".{attribute}")


# ---- in place


def _is_in_place(call):
    from rushlight._op_rules import INPLACE_AT

    name = call.name
    if name.startswith("__"):
        return name == "__setitem__" or name.startswith("__i") and name.endswith("__") and (
            name not in ("__int__", "__index__", "__invert__", "__iter__")
        )  # fmt: skip
    if name in INPLACE_AT and name not in ("dropout",):
        place = INPLACE_AT[name]
        at_place = call.args[place] if len(call.args) > place else False
        return bool(call.kwargs.get("inplace", at_place))
    return name.endswith("_") and not name.endswith("__")


def _in_place(call):
    target = call.args[0]
    if not isinstance(target, DTensor):
        if any(one._shape or not is_whole(one._placements) for one in call.dtensors):
            return _refuse(f"{call.name} of a plain tensor with a DTensor")
        local = [o.to_local() if isinstance(o, DTensor) else o for o in call.operands]
        args, kwargs = call.with_operands(local)
        return _raw(call.func, args, kwargs)
    if call.name in _FILLED:
        return _filled(call)
    _check_mixed(call)
    if call.name == "alpha_dropout_" or "random" in kinds_of(call.name):
        return _refuse(call.name)
    if any(kind in ("elementwise", "fill", "keeps_itself") for kind in kinds_of(call.name)) or (
        call.name.startswith("__i") or call.name in _ELEMENTS_IN_PLACE
    ):
        return _in_place_on_parts(call)
    if is_whole(target._placements):
        return _in_place_on_parts(call)
    if any(placement.is_partial() for placement in target._placements):
        return _refuse(f"{call.name} of a tensor with {target._placements}")
    whole = target.redistribute(placements=[Replicate()] * call.mesh.ndim).clone()
    args, kwargs = call.with_operands([whole, *call.operands[1:]])
    run(call.func, args, kwargs)
    return target.copy_(whole.redistribute(placements=target._placements))


# In place by an argument, or methods of which the table has no row.
_ELEMENTS_IN_PLACE = frozenset(
    "relu leaky_relu elu celu selu silu mish hardtanh relu6 hardswish hardsigmoid threshold "
    "clamp_ clip_ lerp_ masked_fill_".split()
)


def _in_place_on_parts(call):
    """The target stays where it is, and other operands come to it."""
    target, chosen = call.args[0], []
    for i, placement in enumerate(target._placements):
        options = [o for o in of_elements(call, i) if o.ins[0] == placement == o.out]
        if placement.is_replicate():
            options = [whole_option(call)]
        if not options:
            return _refuse(f"{call.name} of a tensor with {target._placements}")
        chosen.append(options[0])
    others = [
        target if n == 0 else brought(one, call, n, chosen) for n, one in enumerate(call.operands)
    ]
    args, kwargs = call.with_operands(others)
    _raw(call.func, args, kwargs)
    return target


# ---- random numbers


def _is_random(func, name):
    inner = getattr(func, "__wrapped__", func)
    return "random" in kinds_of(name) or home_of(inner) == "rushlight.nn._random"


def _random(call):
    name, input = call.name, call.args[0] if call.args else None
    if name in _LIKE and isinstance(input, DTensor):
        return _LIKE[name](*call.args, **call.kwargs)
    if name == "dropout":
        return _dropout(call, *call.args, **call.kwargs)
    if call.kwargs.get("generator") is not None:
        return _with_whole(call)
    with agreed_draws(call.mesh):
        return _with_whole(call)


def _dropout(call, input, p=0.5, training=True, inplace=False, train=None):
    if (training if train is None else train) and 0 < p < 1:
        kept = rushlight.zeros_like(input, requires_grad=False)
        kept = kept.redistribute(placements=[
            Replicate() if one.is_partial() else one for one in kept.placements
        ])  # fmt: skip
        with rushlight.no_grad(), agreed_draws(call.mesh, kept.placements):
            kept.to_local().bernoulli_(1 - p).div_(1 - p)
        return input.mul_(kept) if inplace else input * kept
    (rule,) = rules_of("op dropout")
    return rule(call)


def _like(fill):
    def filled(input, *args, dtype=None, requires_grad=False, generator=None, **kwargs):
        if kwargs.pop("memory_format", None) is not None or kwargs:
            return _refuse(f"{fill}like with {', '.join(kwargs) or 'memory_format'}")
        made = rushlight.empty_like(input, dtype=dtype).detach()
        made = made.redistribute(placements=[
            Replicate() if one.is_partial() else one for one in made.placements
        ])  # fmt: skip
        bounds = (0, *args) if len(args) == 1 else args
        return getattr(made, fill)(*bounds, generator=generator).requires_grad_(requires_grad)

    return filled


_LIKE = {
    "rand_like": _like("uniform_"),
    "randn_like": _like("normal_"),
    "randint_like": _like("random_"),
}


def _filled(call):
    """Fill a tensor with random numbers: each process draws the whole by one seed."""
    target, mesh = call.args[0], call.mesh
    if is_whole(target._placements) and call.kwargs.get("generator") is not None:
        return _in_place_on_parts(call)
    if len(call.operands) > 1 or any(one.is_partial() for one in target._placements):
        return _refuse(f"{call.name} of a tensor with {target._placements}")
    whole = rushlight.empty(tuple(target._shape), dtype=target.dtype)
    kwargs = dict(call.kwargs)
    if kwargs.get("generator") is None:
        kwargs["generator"] = agreed_generator(mesh)
    call.func(whole, *call.args[1:], **kwargs)
    replicated = (Replicate(),) * mesh.ndim
    part = local_of(whole.to(target.device), target._shape, mesh, replicated, target._placements)
    with DisableTorchFunctionSubclass():
        target.copy_(part)
    return target


# ---- by hand


def _new(name):
    """A method that makes a tensor: one of this shape lies as this one does."""

    def made(input, *args, **kwargs):
        mesh, whole = input._mesh, (Replicate(),) * input._mesh.ndim
        with DisableTorchFunctionSubclass():
            result = getattr(input.as_subclass(Tensor), name)(*args, **kwargs)
        if result.shape != input._shape or any(one.is_partial() for one in input._placements):
            return DTensor._make(result, mesh, whole, result.shape)
        with rushlight.no_grad():
            local = local_of(result, result.shape, mesh, whole, input._placements)
        made = DTensor._make(local, mesh, input._placements, result.shape)
        return made.requires_grad_(result.requires_grad)

    return made


def _vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if dim is not None or keepdim or not isinstance(x, DTensor):
        return NotImplemented
    x = x.redistribute(placements=[
        Replicate() if p.is_partial() else p for p in x._placements
    ])  # fmt: skip
    local, order = x.to_local(), float(ord)
    norm = rushlight.linalg.vector_norm
    if order in (float("inf"), float("-inf")):
        reduction = "max" if order > 0 else "min"
        if local.numel() == 0:
            part = local.new_full((), 0.0 if order > 0 else float("inf"))
        else:
            part = norm(local, order, dtype=dtype)
    else:
        reduction, part = "sum", norm(local, order, dtype=dtype).pow(order)
    placements = tuple(Partial(reduction) if p._divides() else p for p in x._placements)
    whole = DTensor._make(part, x._mesh, placements, ()).full_tensor()
    if reduction == "sum":
        whole = whole.pow(1 / order)
    return DTensor._make(whole, x._mesh, (Replicate(),) * x._mesh.ndim, ())


def _stack(tensors, dim=0):
    """Numbers, such as norms of gradients, may be on different meshes."""
    if any(one.dim() for one in tensors):
        return NotImplemented
    like = next(one for one in tensors if isinstance(one, DTensor))
    local = [one.full_tensor() if isinstance(one, DTensor) else one for one in tensors]
    whole = (Replicate(),) * like._mesh.ndim
    result = rushlight.stack(local, dim)
    return DTensor._make(result, like._mesh, whole, result.shape)


def _cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
    reduction="mean", label_smoothing=0.0,
):  # fmt: skip
    from rushlight.distributed.tensor.parallel import loss

    if not loss.is_active():
        return NotImplemented
    if size_average is not None or reduce is not None:
        _refuse("cross_entropy with size_average or reduce")
    return loss.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def _grad(outputs, inputs, grad_outputs=None, **options):
    """Gradients lie as the inputs do."""
    if isinstance(inputs, dict) or options.pop("is_grads_batched", False):
        return _refuse("autograd.grad with a dict of inputs, or with batches of gradients")
    outputs, inputs = _listed(outputs), _listed(inputs)
    if grad_outputs is not None:
        grad_outputs = _brought_gradients(_listed(grad_outputs), outputs)
    with DisableTorchFunctionSubclass():
        found = rushlight.autograd.grad(outputs, inputs, grad_outputs, **options)
    return tuple(
        DTensor._make(grad, one._mesh, of_gradient(one._placements), one._shape)
        if isinstance(one, DTensor) and grad is not None
        else grad
        for grad, one in zip(found, inputs)
    )


def _brought_gradients(gradients, outputs):
    """This process's parts of gradients, lying as those of the outputs do."""
    return [
        grad.redistribute(placements=of_gradient(output.placements)).to_local()
        if isinstance(grad, DTensor) and isinstance(output, DTensor)
        else grad
        for grad, output in zip(gradients, outputs)
    ]


def _backward(tensors, gradients=None, *args, **kwargs):
    """Of one tensor, the method, or of several, the function."""
    name = "gradient" if isinstance(tensors, Tensor) else "grad_tensors"
    gradients = kwargs.pop(name, gradients)
    if gradients is not None:
        brought = _brought_gradients(_listed(gradients), _listed(tensors))
        gradients = brought[0] if isinstance(gradients, Tensor) else brought
    with DisableTorchFunctionSubclass():  # but not for the program's hooks
        parts = [one.as_subclass(Tensor) for one in _listed(tensors)]
    if isinstance(tensors, Tensor):
        return parts[0].backward(gradients, *args, **kwargs)
    return rushlight.autograd.backward(parts, gradients, *args, **kwargs)


def _listed(thing):
    return [thing] if isinstance(thing, Tensor) else list(thing)


def _whole(name):
    """A method that gives no tensor, of the whole."""

    def of_whole(tensor, *args):
        return getattr(tensor.full_tensor(), name)(*args)

    return of_whole


def _equal(first, second):
    whole = [t.full_tensor() if isinstance(t, DTensor) else t for t in (first, second)]
    return rushlight.equal(*whole)


_HANDLERS = {
    "grad": _grad,
    "backward": _backward,
    "vector_norm": _vector_norm,
    "linalg_vector_norm": _vector_norm,
    "stack": _stack,
    "cross_entropy": _cross_entropy,
    "equal": _equal,
    **{name: _new(name) for name in ("new_zeros", "new_ones", "new_full", "new_empty")},
    **{
        name: _whole(name)
        for name in (
            "item", "__bool__", "__float__", "__int__", "__index__", "__complex__", "tolist",
            "is_nonzero",
        )
    },
}  # fmt: skip
__all__ = ["plain_is_replicated", "run"]
