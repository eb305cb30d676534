"""Gradients of the operations that `__torch_dispatch__` sees, made of such operations themselves.

A formula names the arguments that it needs (the others are told by their shapes) and returns a
gradient for each argument. An operation without a formula has one backward operation,
`aten.NAME_backward`, which computes it again and takes its gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import rushlight
from rushlight import _C, Tensor
from rushlight._dispatch import below, call, compute, dispatches, is_in_place, state, tensors_of
from rushlight._dispatch._emit import emit, reshape, to
from rushlight.autograd.function import Function
from rushlight.library._operator import OpOverload, OpOverloadPacket, _Builtin

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_CONSTANT = set(
    """
    detach detach_ eq ne lt le gt ge isnan isinf isfinite argmax argmin argsort any all sign round
    floor ceil trunc zeros_like ones_like empty_like rand_like randn_like full_like randint_like
    new_zeros new_ones new_empty new_full _local_scalar_dense nonzero is_same_size equal
    bernoulli multinomial bincount sgn_ signbit count_nonzero floor_divide
    """.split()
)


def is_constant(op: OpOverload) -> bool:
    """Has its result no gradient?"""
    return op.namespace == "aten" and op._opname in _CONSTANT


def records_itself(op: OpOverload) -> bool:
    """Operations in place and views: only their own nodes keep a view and its base together."""
    if op.namespace != "aten":
        return True
    return op._opname in _VIEWS or is_in_place(op)


_VIEWS = set(
    """
    alias as_strided diagonal expand narrow permute real imag select slice split split_with_sizes
    squeeze t transpose unbind unfold unsqueeze view view_as_complex view_as_real movedim
    """.split()
)


@dataclass(frozen=True)
class _Like:
    """An argument that was not kept: what it was like."""

    shape: tuple[int, ...]
    dtype: Any


_FORMULAS: dict[str, tuple[Any, bool, Callable[..., Any]]] = {}


def _formula(names: str, needs: Any = (), result: bool = False) -> Callable[..., Any]:
    """`needs`: the places of the arguments that it needs, or what tells them from the arguments."""

    def add(function):
        for name in names.split():
            _FORMULAS[name] = (needs, result, function)
        return function

    return add


def _to_shape(grad, like):
    """The gradient of what was broadcast: summed to its shape."""
    if not hasattr(like, "shape") or grad.shape == like.shape:
        return grad
    extra = grad.dim() - len(like.shape)
    dims = list(range(extra)) + [
        d + extra for d, n in enumerate(like.shape) if n == 1 and grad.shape[d + extra] != 1
    ]
    grad = emit("sum.dim_IntList", grad, dims, True)
    return emit("view", grad, list(like.shape)) if extra else grad


def _is_tensor(value):
    return isinstance(value, (Tensor, _Like))


@_formula("add.Tensor")
def _add(grad, a, b, alpha=1):
    other = None
    if _is_tensor(b):
        other = _to_shape(grad if alpha == 1 else emit("mul.Tensor", grad, alpha), b)
    return (_to_shape(grad, a) if _is_tensor(a) else None), other


@_formula("sub.Tensor")
def _sub(grad, a, b, alpha=1):
    other = None
    if _is_tensor(b):
        other = emit("neg", grad)
        other = _to_shape(other if alpha == 1 else emit("mul.Tensor", other, alpha), b)
    return (_to_shape(grad, a) if _is_tensor(a) else None), other


@_formula("rsub.Scalar")
def _rsub(grad, a, b, alpha=1):
    negated = emit("neg", grad)
    return negated if alpha == 1 else emit("mul.Tensor", negated, alpha), None


@_formula("mul.Tensor", (0, 1))
def _mul(grad, a, b, need):
    first = _to_shape(emit("mul.Tensor", grad, b), a) if need[0] else None
    return first, _to_shape(emit("mul.Tensor", grad, a), b) if need[1] else None


@_formula("div.Tensor", (0, 1))
def _div(grad, a, b, need):
    first = _to_shape(emit("div.Tensor", grad, b), a) if need[0] else None
    if not need[1]:
        return first, None
    quotient = emit("div.Tensor", emit("div.Tensor", a, b), b)
    return first, _to_shape(emit("mul.Tensor", emit("neg", grad), quotient), b)


@_formula("neg")
def _neg(grad, a):
    return (emit("neg", grad),)


@_formula("pow.Tensor_Scalar", (0,))
def _pow(grad, a, exponent):
    if exponent == 0:
        return emit("zeros_like", grad), None
    power = emit("pow.Tensor_Scalar", a, exponent - 1)
    return emit("mul.Tensor", grad, emit("mul.Scalar", power, exponent)), None


@_formula("exp", result=True)
def _exp(grad, a, result):
    return (emit("mul.Tensor", grad, result),)


@_formula("log", (0,))
def _log(grad, a):
    return (emit("div.Tensor", grad, a),)


@_formula("sqrt", result=True)
def _sqrt(grad, a, result):
    return (emit("div.Tensor", grad, emit("mul.Tensor", result, 2)),)


@_formula("sin", (0,))
def _sin(grad, a):
    return (emit("mul.Tensor", grad, emit("cos", a)),)


@_formula("cos", (0,))
def _cos(grad, a):
    return (emit("mul.Tensor", grad, emit("neg", emit("sin", a))),)


@_formula("abs", (0,))
def _abs(grad, a):
    return (emit("mul.Tensor", grad, emit("sgn", a)),)


@_formula("tanh", result=True)
def _tanh(grad, a, result):
    return (emit("tanh_backward", grad, result),)


@_formula("sigmoid", result=True)
def _sigmoid(grad, a, result):
    return (emit("sigmoid_backward", grad, result),)


@_formula("relu", result=True)
def _relu(grad, a, result):
    return (emit("threshold_backward", grad, result, 0),)


@_formula("_softmax", result=True)
def _softmax(grad, a, dim, half, result):
    return emit("_softmax_backward_data", grad, result, dim, a.dtype), None, None


@_formula("_log_softmax", result=True)
def _log_softmax(grad, a, dim, half, result):
    return emit("_log_softmax_backward_data", grad, result, dim, a.dtype), None, None


@_formula("sum")
def _sum(grad, a, dtype=None):
    return (emit("expand", grad, list(a.shape)),)


@_formula("mean")
def _mean(grad, a, dtype=None):
    count = 1
    for n in a.shape:
        count *= n
    return (emit("div.Scalar", emit("expand", grad, list(a.shape)), count),)


def _reduced_dims(a, dim):
    return sorted(d % len(a.shape) for d in ([dim] if isinstance(dim, int) else dim))


@_formula("sum.dim_IntList")
def _sum_dim(grad, a, dim=None, keepdim=False, dtype=None):
    if a.shape and dim and not keepdim:
        for d in _reduced_dims(a, dim):
            grad = emit("unsqueeze", grad, d)
    return emit("expand", grad, list(a.shape)), None, None


@_formula("mean.dim")
def _mean_dim(grad, a, dim=None, keepdim=False, dtype=None):
    count = 1
    for d in _reduced_dims(a, dim) if a.shape else ():
        count *= a.shape[d]
    spread = _sum_dim(grad, a, dim, keepdim)[0]
    return emit("div.Scalar", spread, count), None, None


@_formula("mm", (0, 1))
def _mm(grad, a, b, need):
    first = emit("mm", grad, emit("t", b)) if need[0] else None
    return first, emit("mm", emit("t", a), grad) if need[1] else None


@_formula("bmm", (0, 1))
def _bmm(grad, a, b, need):
    first = emit("bmm", grad, emit("transpose.int", b, 1, 2)) if need[0] else None
    return first, emit("bmm", emit("transpose.int", a, 1, 2), grad) if need[1] else None


@_formula("addmm", (1, 2))
def _addmm(grad, bias, a, b, need, beta=1, alpha=1):
    scaled = grad if alpha == 1 else emit("mul.Tensor", grad, alpha)
    factors = _mm(scaled, a, b, need[1:])
    if not need[0]:
        return None, *factors
    return _to_shape(grad if beta == 1 else emit("mul.Tensor", grad, beta), bias), *factors


@_formula("convolution", (0, 1))
def _convolution(grad, a, weight, bias, *geometry, need):
    sizes = None if bias is None else list(bias.shape)
    mask = [*need[:2], bias is not None and need[2]]
    found = emit("convolution_backward", grad, a, weight, sizes, *geometry, mask)
    return *found, *[None] * len(geometry)


# Operations that draw random numbers, or write into an argument, cannot be computed again.


@_formula("native_batch_norm", lambda args: (0, 1) if args[5] else (0, 1, 3, 4))
def _native_batch_norm(grad, input, weight, bias, mean, var, training, momentum, eps, need):
    statistics = (None, None) if training else (mean, var)
    found = emit("native_batch_norm_backward", grad, input, weight, *statistics, None, None,
                 training, eps, need[:3])  # fmt: skip
    return *found, *[None] * 5


@_formula("rrelu_with_noise", (0, 1))
def _rrelu(grad, a, noise, lower=1 / 8, upper=1 / 3, training=False, generator=None):
    found = emit("rrelu_with_noise_backward", grad, a, noise, lower, upper, training, False)
    return found, *[None] * 5


@_formula("normal.Tensor_Tensor normal.Tensor_float normal.float_Tensor")
def _normal(grad, mean, std=1, generator=None):
    zeros = emit("zeros_like", grad)
    return tuple(_to_shape(zeros, t) if _is_tensor(t) else None for t in (mean, std))


@_formula("view _unsafe_view")
def _view(grad, a, size):
    return reshape(grad, tuple(a.shape)), None


@_formula("expand")
def _expand(grad, a, size, implicit=False):
    return _to_shape(grad, a), None


@_formula("t")
def _t(grad, a):
    return (emit("t", grad),)


@_formula("transpose.int")
def _transpose(grad, a, dim0, dim1):
    return emit("transpose.int", grad, dim0, dim1), None, None


@_formula("permute")
def _permute(grad, a, dims):
    places = [d % len(dims) for d in dims]
    return emit("permute", grad, [places.index(d) for d in range(len(dims))]), None


@_formula("unsqueeze")
def _unsqueeze(grad, a, dim):
    return emit("squeeze.dim", grad, dim), None


@_formula("squeeze squeeze.dim squeeze.dims squeeze_.dim")
def _squeeze(grad, a, dim=None):
    return reshape(grad, tuple(a.shape)), None


@_formula("select.int")
def _select(grad, a, dim, index):
    return emit("select_backward", grad, list(a.shape), dim, index), None, None


@_formula("slice.Tensor")
def _slice(grad, a, dim=0, start=None, end=None, step=1):
    start, end = 0 if start is None else start, 2**63 - 1 if end is None else end
    return emit("slice_backward", grad, list(a.shape), dim, start, end, step), *[None] * 4


@_formula("diagonal")
def _diagonal(grad, a, offset=0, dim1=0, dim2=1):
    return emit("diagonal_backward", grad, list(a.shape), offset, dim1, dim2), None, None, None


@_formula("clone")
def _clone(grad, a, memory_format=None):
    return (grad,)


@_formula("_to_copy")
def _to_copy(grad, a, **options):
    return (to(grad, a.dtype),)


@_formula("masked_fill.Scalar", (1,))
def _masked_fill(grad, a, mask, value):
    return emit("masked_fill.Scalar", grad, mask, 0), None, None


@_formula("cat")
def _cat(grad, tensors, dim=0):
    parts, start = [], 0
    for t in tensors:
        size = t.shape[dim]
        parts.append(emit("slice.Tensor", grad, dim, start, start + size))
        start += size
    return parts, None


@_formula("stack")
def _stack(grad, tensors, dim=0):
    return list(emit("unbind.int", grad, dim)), None


# ---- a node


def check_origin(grads: Any) -> None:
    """Let modes that must know all gradients refuse those of nodes that they did not see."""
    for mode in state.modes:
        if hasattr(mode, "check_gradients"):
            mode.check_gradients(grads)


class _Call:
    """An operation and its arguments, without their tensors."""

    def __init__(self, op: OpOverload, args: Any, kwargs: Any) -> None:
        self.op, self.tensors = op, []
        self.args = tuple(self._take(v) for v in args)
        self.kwargs = {name: self._take(v) for name, v in kwargs.items()}
        self.kind = None  # of a result of several tensors

    def _take(self, value):
        if isinstance(value, Tensor):
            self.tensors.append(value)
            return _Place(len(self.tensors) - 1)
        if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
            return [self._take(v) for v in value]
        return value

    def rebuild(self, tensors: Sequence[Any]) -> tuple[Any, Any]:
        def put(value):
            if isinstance(value, _Place):
                return tensors[value.number]
            return [put(v) for v in value] if isinstance(value, list) else value

        return tuple(map(put, self.args)), {name: put(v) for name, v in self.kwargs.items()}

    def needed(self, places: Sequence[int]) -> set[int]:
        """The numbers of the tensors that stand at these places."""
        found: set[int] = set()
        for place in places:
            if place < len(self.args):
                values = self.args[place]
                values = values if isinstance(values, list) else [values]
                found |= {v.number for v in values if isinstance(v, _Place)}
        return found


@dataclass(frozen=True)
class _Place:
    number: int


class _Dispatched(Function):
    """An operation whose modes run below autograd."""

    @staticmethod
    def forward(ctx: Any, made: _Call, *tensors: Tensor) -> Any:
        args, kwargs = made.rebuild(tensors)
        ctx.changed = is_in_place(made.op) and dispatches(type(args[0]))
        if ctx.changed:  # its gradient is that of the operation that leaves its argument alone
            before = emit("clone", args[0])
            result = below(made.op, args, kwargs)
            made.op = _out_of_place(made.op)
            tensors = (before, *tensors[1:])
        else:
            result = _without_base(made.op, below(made.op, args, kwargs), tensors)
        ctx.set_materialize_grads(False)  # a mode or a class knows no plain zeros
        needs, keeps_result, _ = _FORMULAS.get(_key(made.op), (None, False, None))
        needs = needs(args) if callable(needs) else needs
        # A saved result comes back as a plain tensor: that of a class is computed again.
        again = keeps_result and type(result) is not Tensor
        kept = range(len(tensors)) if needs is None or again else sorted(made.needed(needs))
        ctx.made, ctx.kept = made, list(kept)
        ctx.likes = [_Like(tuple(t.shape), t.dtype) for t in tensors]
        results = (result,) if isinstance(result, Tensor) else tuple(result)
        ctx.own = emit("detach", result) if again else None
        ctx.kind = type(results[0])
        with_result = keeps_result and ctx.own is None
        ctx.save_for_backward(*(tensors[i] for i in kept), *(results[:1] if with_result else ()))
        if ctx.changed or (is_in_place(made.op) and any(result is t for t in tensors)):
            ctx.mark_dirty(result)
        made.kind = None if isinstance(result, Tensor) else type(result)
        return result if isinstance(result, Tensor) else results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        made, saved = ctx.made, list(ctx.saved_tensors)
        if all(grad is None for grad in grads):
            return (None,) * (1 + len(ctx.likes))
        for grad in grads:
            _check_class(grad, ctx.kind)
        if ctx.changed and rushlight.is_grad_enabled():
            raise NotImplementedError(
                f"{made.op}_: no second derivative of an operation in place on a "
                f"{ctx.kind.__name__}, whose class has __torch_dispatch__; write it out of place"
            )
        check_origin(grads)
        values: list[Any] = list(ctx.likes)
        for place, number in enumerate(ctx.kept):
            values[number] = saved[place]
        key = _key(made.op)
        # A formula takes the gradient of the first result.
        if key not in _FORMULAS or any((g is None) == (i == 0) for i, g in enumerate(grads)):
            return None, *_by_computing_again(made, values, grads)
        _, keeps_result, function = _FORMULAS[key]
        args, kwargs = made.rebuild(values)
        if keeps_result:
            if ctx.own is None:
                kwargs["result"] = saved[-1]
            elif rushlight.is_grad_enabled():  # the gradient has a graph, which the copy has not
                kwargs["result"] = call(made.op, args, kwargs)
            else:
                kwargs["result"] = ctx.own
        if "need" in function.__code__.co_varnames:
            needs = ctx.needs_input_grad[1:]
            kwargs["need"] = [isinstance(a, _Place) and needs[a.number] for a in made.args]
        given = function(grads[0], *args, **kwargs)
        found: list[Any] = [None] * len(values)
        for argument, gradient in zip(made.args, given):
            pairs = zip(argument, gradient) if isinstance(argument, list) and gradient is not None \
                else [(argument, gradient)]  # fmt: skip
            for place, one in pairs:
                if isinstance(place, _Place):
                    found[place.number] = one
        return None, *found


def _without_base(op, result, inputs):
    """A result that is a view of what the operation has made inside as a tensor of its own."""
    if not isinstance(result, Tensor):
        return type(result)([_without_base(op, one, inputs) for one in result])
    with _C.DisableTorchFunction():
        if op._opname in _VIEWS or type(result) is not Tensor or not result._is_view():
            return result
        place = result.untyped_storage().data_ptr()
        if op._opname != "_unsafe_view" and any(
            type(t) is Tensor and t.untyped_storage().data_ptr() == place for t in inputs
        ):
            return result
        return result.detach()


def _out_of_place(op):
    packet = getattr(rushlight.ops.aten, op._opname[:-1])
    return getattr(packet, op._overloadname)


def _key(op):
    return op._opname if op._overloadname == "default" else f"{op._opname}.{op._overloadname}"


def record(op: OpOverload, args: Any, kwargs: Any) -> Any:
    """Run an operation that needs a gradient."""
    made = _Call(op, args, kwargs)
    if any(dispatches(type(t)) for t in made.tensors):
        for tensor in made.tensors:
            keep_gradient(tensor)
        first = made.tensors[0]
        if is_in_place(op) and first.__dict__.get("_wrapper_view"):
            raise NotImplementedError(
                f"{op}: changes a view of a {type(first).__name__} in place, whose class has "
                "__torch_dispatch__; the history of what it is a view of would not tell: write it "
                "out of place"
            )
    result = _Dispatched.apply(made, *made.tensors)
    if op._opname in _VIEWS:
        for one in tensors_of((result,)):
            if dispatches(type(one)):
                one.__dict__["_wrapper_view"] = True
    if made.kind in (None, tuple):
        return result
    return made.kind(result)


def keep_gradient(tensor: Tensor, retained: bool = False) -> None:
    """Have `tensor.grad` be of its class: the tensor does not keep the object that stands for it.

    Args:
        tensor: a leaf, or a tensor that retains its gradient.
    """
    with _C.DisableTorchFunction():
        own = tensor.__dict__
        if "_wrapper_grad" in own or not tensor.requires_grad or not (retained or tensor.is_leaf):
            return
        own["_wrapper_grad"] = None

        def keep(grad):
            own["_wrapper_grad"] = grad

        if retained:
            tensor.register_hook(keep)
        else:
            tensor.register_post_accumulate_grad_hook(lambda _: keep(_plain_grad(tensor)))


def _plain_grad(leaf):
    with _C.DisableTorchFunction():
        return leaf.grad


def _check_class(grad, kind):
    if dispatches(kind) and type(grad) is Tensor and grad.is_meta:
        raise NotImplementedError(
            f"backward: a gradient of class {kind.__name__} came as a plain tensor, without "
            "elements: an operation that __torch_dispatch__ of the class is not asked for was "
            "between; write an autograd.Function around it"
        )


class _Backward(_Builtin):
    """The gradient of an operation that has no formula: it is computed again for it.

    Its arguments are the gradient of the result (a list if there are several), and those of the
    operation; it returns a gradient, or None, for each tensor among these.
    """

    def __init__(self, op: OpOverload) -> None:
        OpOverload.__init__(self, "aten", f"{op._opname.removesuffix('_forward')}_backward")
        self._of = op
        self.__module__ = "aten"  # torch.ops has it not under its name, or another one

    def __reduce__(self) -> tuple[Any, ...]:
        return _Backward, (self._of,)

    @property
    def overloadpacket(self) -> OpOverloadPacket:
        """That of torch.ops.aten by this name, or a name alone: there is no other overload."""
        known = getattr(rushlight.ops.aten, self._opname, None)
        return OpOverloadPacket("aten", self._opname) if known is None else known

    _overloadpacket = overloadpacket

    def _function(self, grads: Any, *args: Any, **kwargs: Any) -> list[Any]:
        made, again = _Call(self._of, args, kwargs), rushlight.is_grad_enabled()
        with rushlight.enable_grad():
            inputs = [_leaf(t, again) for t in made.tensors]
            args, kwargs = made.rebuild(inputs)
            result = compute(made.op, args, kwargs)
            results = (result,) if isinstance(result, Tensor) else tuple(result)
            given = (grads,) if isinstance(grads, Tensor) else grads
            pairs = [(r, g) for r, g in zip(results, given) if g is not None and r.requires_grad]
            wanted = [t for t in inputs if t.requires_grad]
            found = rushlight.autograd.grad(
                [r for r, _ in pairs], wanted, [g for _, g in pairs],
                allow_unused=True, create_graph=again,
            )  # fmt: skip
        left = iter(found)
        return [next(left) if t.requires_grad else None for t in inputs]


def _leaf(tensor, keeps_history):
    if keeps_history and tensor.requires_grad:
        return tensor.view_as(tensor)
    has_gradient = tensor.is_floating_point() or tensor.is_complex()
    return tensor.detach().requires_grad_(has_gradient)


def _by_computing_again(made, tensors, grads):
    args, kwargs = made.rebuild(tensors)
    return call(_Backward(made.op), (grads[0] if len(grads) == 1 else list(grads), *args), kwargs)
