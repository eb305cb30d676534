"""What operations do with DTensors: they compute with the parts where that gives the parts of the
result, and exchange something first where it does not.
"""

from __future__ import annotations

import rushlight
from rushlight import Tensor
from rushlight.distributed.tensor._creation import agreed_generator
from rushlight.distributed.tensor._dtensor import DTensor
from rushlight.distributed.tensor._redistribute import UsedInParts, local_of, sizes_of_parts
from rushlight.distributed.tensor.placement_types import Partial, Replicate, Shard
from rushlight.overrides import DisableTorchFunctionSubclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What does not look at elements, or may see this process's alone.
_PLAIN = frozenset(
    "requires_grad_ register_hook register_post_accumulate_grad_hook retain_grad data_ptr "
    "element_size is_floating_point is_complex is_contiguous backward dim get_device is_signed "
    "is_same_size __hash__ is_inference has_names".split()
)
_PLAIN_ATTRIBUTES = frozenset(
    "requires_grad is_leaf grad_fn dtype device layout _version output_nr retains_grad is_cpu "
    "is_cuda is_meta is_sparse is_quantized is_nested is_mkldnn ndim itemsize _backward_hooks "
    "_post_accumulate_grad_hooks volatile is_mps is_xpu name names".split()
)
_ELEMENTWISE = frozenset(
    "detach clone zeros_like ones_like empty_like full_like to float half bfloat16 double type "
    "type_as contiguous add sub mul div neg relu gelu silu tanh sigmoid exp log sqrt rsqrt square "
    "abs sign pow reciprocal maximum minimum clamp clamp_min clamp_max where isfinite isnan isinf "
    "eq ne lt le gt ge leaky_relu softplus elu hardtanh relu6 logsigmoid mish lerp addcmul addcdiv "
    "true_divide alpha_dropout logical_not logical_and logical_or requires_grad cpu sin cos "
    "__add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__ __neg__ __pow__ "
    "__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __abs__ detach_".split()
)
_IN_PLACE = frozenset(
    "copy_ zero_ fill_ add_ sub_ mul_ div_ addcmul_ addcdiv_ lerp_ sqrt_ clamp_ clamp_min_ "
    "clamp_max_ neg_ abs_ relu_ pow_ sign_ reciprocal_ __iadd__ __isub__ __imul__ __itruediv__ "
    "normal_ uniform_".split()
)
# What a random tensor is must not depend on how it lies.
_RANDOM = frozenset(("normal_", "uniform_"))


def _raw(func, args, kwargs):
    with DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def _refuse(name):
    raise NotImplementedError(f"DTensor: {name} is not supported; use to_local() or full_tensor()")


def run(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Do `func` with arguments of which some are DTensors."""
    name = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__", "__delete__"):
        return _attribute(func, name, args, kwargs)
    if name in _HANDLERS:
        return _HANDLERS[name](*args, **kwargs)
    if name in _PLAIN or name.startswith("_fused_"):
        return _raw(func, args, kwargs)
    if name in _ELEMENTWISE or name in _IN_PLACE:
        return _elementwise(func, name, args, kwargs)
    return _refuse(name)


def _attribute(func, access, args, kwargs):
    attribute = func.__self__.__name__
    if attribute in _PLAIN_ATTRIBUTES:
        return _raw(func, args, kwargs)
    if attribute == "data":
        tensor = args[0]
        if access == "__get__":
            return _wrap(_raw(func, args, kwargs), tensor, tensor._shape)
        if isinstance(args[1], DTensor) and args[1]._placements == tensor._placements:
            return _raw(func, (tensor, args[1].to_local().detach()), kwargs)
    return _refuse(f".{attribute}")


def _wrap(local, like, shape):
    return DTensor._make(local, like._mesh, like._placements, shape)


def _flat(args, kwargs):
    for thing in (*args, *kwargs.values()):
        yield from _flat(thing, {}) if isinstance(thing, (list, tuple)) else (thing,)


def _is_whole(placements):
    return all(placement.is_replicate() for placement in placements)


def _draw(func, args, kwargs):
    """Fill a tensor in parts with random numbers: each process draws the whole by one seed."""
    tensor, mesh = args[0], args[0]._mesh
    whole = rushlight.empty(tuple(tensor._shape), dtype=tensor.dtype)
    kwargs = dict(kwargs)
    if kwargs.get("generator") is None:
        kwargs["generator"] = agreed_generator(mesh)
    func(whole, *args[1:], **kwargs)
    replicated = (Replicate(),) * mesh.ndim
    part = local_of(whole.to(tensor.device), tensor._shape, mesh, replicated, tensor._placements)
    with DisableTorchFunctionSubclass():
        tensor.copy_(part)
    return tensor


def _elementwise(func, name, args, kwargs):
    tensors = [thing for thing in _flat(args, kwargs) if isinstance(thing, Tensor)]
    dtensors = [thing for thing in tensors if isinstance(thing, DTensor)]
    mesh = dtensors[0]._mesh
    if any(one._mesh != mesh for one in dtensors):
        raise ValueError(f"DTensor: {name}: the tensors lie on different meshes")
    in_place = name in _IN_PLACE
    if in_place and not isinstance(args[0], DTensor):
        if any(one._shape or not _is_whole(one._placements) for one in dtensors):
            return _refuse(f"{name} of a plain tensor with a DTensor")
        plain = [one.to_local() if isinstance(one, DTensor) else one for one in args]
        return _raw(func, plain, kwargs)
    if name in _RANDOM and not _is_whole(dtensors[0]._placements):
        return _draw(func, args, kwargs)
    keeps_sums = name in ("detach", "clone", "contiguous", "zeros_like", "empty_like")
    placements = _common(name, dtensors, args[0] if in_place else None, keeps_sums)

    def local(thing):
        if isinstance(thing, (list, tuple)):
            return type(thing)(local(one) for one in thing)
        if isinstance(thing, DTensor):
            if _is_whole(thing._placements) and not thing._shape:
                return thing.to_local()
            if in_place and thing is args[0]:
                return thing
            return thing.redistribute(placements=placements).to_local()
        if isinstance(thing, Tensor) and thing.dim() > 0 and not _is_whole(placements):
            raise RuntimeError(
                f"DTensor: {name}: got mixed torch.Tensor and DTensor: distribute the tensor of "
                f"shape {tuple(thing.shape)} first"
            )
        return thing

    shape = rushlight.broadcast_shapes(*(tuple(one.shape) for one in tensors))
    result = _raw(func, tuple(map(local, args)), {k: local(v) for k, v in kwargs.items()})
    if in_place:
        return args[0]
    return DTensor._make(result, mesh, placements, shape)


def _common(name, dtensors, target, keeps_sums):
    """How the operands are to lie, and the result with them."""
    if target is not None:
        if any(p.is_partial() for p in target._placements) and len(dtensors) > 1:
            _refuse(f"{name} of a tensor with {target._placements}")
        return target._placements
    if keeps_sums and len(dtensors) == 1:
        return dtensors[0]._placements
    sized = [one for one in dtensors if one._shape] or dtensors
    divided = [one for one in sized if not _is_whole(one._placements)]
    clean = [
        tuple(Replicate() if p.is_partial() else p for p in one._placements) for one in divided
    ]
    if not clean:
        return sized[0]._placements
    if len({tuple(one._shape) for one in sized}) > 1 and any(not _is_whole(c) for c in clean):
        _refuse(f"{name} of shapes {[tuple(one._shape) for one in sized]}")
    return next((c for c in clean if not _is_whole(c)), clean[0])


def _of_line(name, *tensors):
    """The mesh of operands, of one dim."""
    mesh = next(t._mesh for t in tensors if isinstance(t, DTensor))
    if mesh.ndim != 1:
        _refuse(f"{name} on a mesh of {mesh.ndim} dims")
    return mesh


def _replicated(thing, mesh):
    """A local tensor of something that is, or is made, the same in all processes."""
    if isinstance(thing, DTensor):
        return thing.redistribute(placements=[Replicate()]).to_local()
    return thing


def _used_in_parts(thing, mesh):
    return UsedInParts.apply(_replicated(thing, mesh), mesh.get_group())


def _linear(input, weight, bias=None):
    mesh = _of_line("linear", *(t for t in (input, weight, bias) if t is not None))
    linear = rushlight.nn.functional.linear
    way = weight._placements[0] if isinstance(weight, DTensor) else Replicate()
    if not isinstance(input, DTensor):
        input = DTensor.from_local(input, mesh, [Replicate()])
    (lies,) = input._placements
    shape = (*input._shape[:-1], weight.shape[0])
    last = len(shape) - 1
    if way.is_shard(0):
        x = _used_in_parts(input, mesh)
        b = None if bias is None else _part_of_bias(bias, mesh)
        return DTensor._make(linear(x, weight.to_local(), b), mesh, (Shard(last),), shape)
    if way.is_shard(1):
        x = input.redistribute(placements=[Shard(last)]).to_local()
        out = linear(x, weight.to_local())
        if bias is not None:  # once, not in each process
            b = _used_in_parts(bias, mesh)
            out = out + (b if mesh.get_local_rank() == 0 else b * 0)
        return DTensor._make(out, mesh, (Partial(),), shape)
    if lies.is_shard() and lies.dim != last:
        w = _used_in_parts(weight, mesh)
        b = None if bias is None else _used_in_parts(bias, mesh)
        return DTensor._make(linear(input.to_local(), w, b), mesh, (lies,), shape)
    out = linear(_replicated(input, mesh), _replicated(weight, mesh), _replicated(bias, mesh))
    return DTensor._make(out, mesh, (Replicate(),), shape)


def _part_of_bias(bias, mesh):
    if not isinstance(bias, DTensor):
        bias = DTensor.from_local(bias, mesh, [Replicate()])
    return bias.redistribute(placements=[Shard(0)]).to_local()


def _embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
    sparse=False,
):  # fmt: skip
    if padding_idx is not None or max_norm is not None or scale_grad_by_freq or sparse:
        _refuse("embedding with padding_idx, max_norm, scale_grad_by_freq or sparse")
    if norm_type != 2.0:
        _refuse("embedding with norm_type")
    mesh = _of_line("embedding", input, weight)
    embedding = rushlight.nn.functional.embedding
    x = _replicated(input, mesh)
    way = weight._placements[0] if isinstance(weight, DTensor) else Replicate()
    shape = (*x.shape, weight.shape[1])
    if way.is_shard(1):
        out = embedding(x, weight.to_local())
        return DTensor._make(out, mesh, (Shard(len(shape) - 1),), shape)
    if way.is_shard(0):
        sizes, rank = sizes_of_parts(weight.shape[0], mesh.size()), mesh.get_local_rank()
        begin, count = sum(sizes[:rank]), sizes[rank]
        if x.numel() and not 0 <= x.min() <= x.max() < weight.shape[0]:
            raise IndexError(f"embedding: an index is not in [0, {weight.shape[0]})")
        inside = (x >= begin) & (x < begin + count)
        local = weight.to_local()
        if count == 0:
            out = rushlight.zeros(shape, dtype=local.dtype, device=local.device) + local.sum() * 0
        else:
            out = embedding((x - begin).where(inside, rushlight.zeros_like(x)), local)
            out = out * inside.unsqueeze(-1)
        return DTensor._make(out, mesh, (Partial(),), shape)
    if isinstance(input, DTensor) and not _is_whole(input._placements):
        out = embedding(input.to_local(), _used_in_parts(weight, mesh))
        return DTensor._make(out, mesh, input._placements, shape)
    return DTensor._make(embedding(x, _replicated(weight, mesh)), mesh, (Replicate(),), shape)


def _norm_of_last_dims(function, input, normalized_shape, weight, bias, *rest):
    mesh = _of_line(function.__name__, *(t for t in (input, weight, bias) if t is not None))
    if not isinstance(input, DTensor):
        input = DTensor.from_local(input, mesh, [Replicate()])
    (lies,) = input._placements
    if lies.is_partial() or (
        lies.is_shard() and lies.dim >= len(input._shape) - len(normalized_shape)
    ):
        input, lies = input.redistribute(placements=[Replicate()]), Replicate()
    share = _used_in_parts if lies.is_shard() else _replicated
    extra = [None if t is None else share(t, mesh) for t in (weight, bias)]
    if function is rushlight.nn.functional.rms_norm:
        extra = extra[:1]
    out = function(input.to_local(), normalized_shape, *extra, *rest)
    return DTensor._make(out, mesh, (lies,), input._shape)


def _layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5, *rest):
    function = rushlight.nn.functional.layer_norm
    return _norm_of_last_dims(function, input, normalized_shape, weight, bias, eps)


def _rms_norm(input, normalized_shape, weight=None, eps=None):
    function = rushlight.nn.functional.rms_norm
    return _norm_of_last_dims(function, input, normalized_shape, weight, None, eps)


def _sum(input, dim=None, keepdim=False, *, dtype=None):
    if dim is not None or keepdim:
        _refuse("sum along a dim")
    placements = tuple(Partial() if p.is_shard() else p for p in input._placements)
    return DTensor._make(input.to_local().sum(dtype=dtype), input._mesh, placements, ())


def _mean(input, dim=None, keepdim=False, *, dtype=None):
    if dim is not None or keepdim:
        _refuse("mean along a dim")
    placements = tuple(Partial() if p.is_shard() else p for p in input._placements)
    total = input.to_local().sum(dtype=dtype) / input.numel()
    return DTensor._make(total, input._mesh, placements, ())


def _vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    if dim is not None or keepdim:
        _refuse("vector_norm along a dim")
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
    placements = tuple(Partial(reduction) if p.is_shard() else p for p in x._placements)
    whole = DTensor._make(part, x._mesh, placements, ()).full_tensor()
    if reduction == "sum":
        whole = whole.pow(1 / order)
    return DTensor._make(whole, x._mesh, (Replicate(),) * x._mesh.ndim, ())


def _stack(tensors, dim=0):
    like = next(one for one in tensors if isinstance(one, DTensor))
    local = [one.full_tensor() if isinstance(one, DTensor) else one for one in tensors]
    whole = (Replicate(),) * like._mesh.ndim
    result = rushlight.stack(local, dim)
    return DTensor._make(result, like._mesh, whole, result.shape)


def _flatten(tensor, start_dim=0, end_dim=-1):
    ndim = len(tensor._shape)
    first, last = start_dim % max(ndim, 1), end_dim % max(ndim, 1)
    placements = []
    for i, placement in enumerate(tensor._placements):
        if placement.is_shard():
            # Parts of a merged dim are those of `chunk` where they are equally long.
            uneven = tensor._shape[placement.dim] % tensor._mesh.size(i)
            if first < placement.dim <= last or (placement.dim == first < last and uneven):
                _refuse(f"flatten({start_dim}, {end_dim}) of a tensor with {tensor._placements}")
            if placement.dim > last:
                placement = Shard(placement.dim - (last - first))
        placements.append(placement)
    shape = rushlight.empty(tuple(tensor._shape), device="meta").flatten(first, last).shape
    local = tensor.to_local().flatten(first, last)
    return DTensor._make(local, tensor._mesh, placements, shape)


def _cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
    reduction="mean", label_smoothing=0.0,
):  # fmt: skip
    from rushlight.distributed.tensor.parallel import loss

    if not loss.is_active():
        _refuse("cross_entropy outside of loss_parallel()")
    if size_average is not None or reduce is not None:
        _refuse("cross_entropy with size_average or reduce")
    return loss.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def _item(tensor):
    return tensor.full_tensor().item()


def _truth(tensor):
    return bool(tensor.full_tensor())


def _equal(first, second):
    whole = [t.full_tensor() if isinstance(t, DTensor) else t for t in (first, second)]
    return rushlight.equal(*whole)


_HANDLERS = {
    "linear": _linear,
    "embedding": _embedding,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "sum": _sum,
    "mean": _mean,
    "vector_norm": _vector_norm,
    "linalg_vector_norm": _vector_norm,
    "stack": _stack,
    "cross_entropy": _cross_entropy,
    "flatten": _flatten,
    "item": _item,
    "__bool__": _truth,
    "__float__": lambda tensor: float(_item(tensor)),
    "equal": _equal,
    "tolist": lambda tensor: tensor.full_tensor().tolist(),
}
