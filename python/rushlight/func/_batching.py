"""How operations are computed for all examples of a mapped function at once.

A rule is found by the operation's name. It gets the tensors of all examples, whose first dim counts
them, where the program passed a stand-in, and returns the result in the same form; or
NotImplemented where the arguments are beyond it, and the examples are computed one by one.
"""

import rushlight
from rushlight import Tensor
from rushlight.utils._pytree import tree_flatten, tree_unflatten

_RULES = {}


def compute(level, func, args, kwargs):
    """`func` of the arguments, among which are stand-ins of the level and other tensors."""
    name = func.__name__
    if name == "__get__":
        name = func.__self__.__name__
        return _attribute(level, func, name, args)
    leaves = tree_flatten((args, kwargs))[0]
    mapped = [leaf for leaf in leaves if level.examples(leaf) is not None]
    if name in _RANDOM:
        return _random(level, func, name, args, kwargs, mapped)
    if not mapped:
        return func(*args, **kwargs)
    if name in _OF_ONE_VALUE:
        raise RuntimeError(
            f"vmap: It looks like you're calling {_OF_ONE_VALUE[name]} on a Tensor that has a "
            "value for each example: a program cannot depend on one; use torch.where, or map "
            "outside"
        )
    if name in _AS_THEY_ARE:
        return func(*args, **kwargs)
    if kwargs.get("out") is not None:
        raise RuntimeError(f"vmap: {name}() cannot write into out=")
    rule = getattr(func, "batching_rule", None) or _RULES.get(name)
    result = NotImplemented if rule is None else rule(level, func, args, kwargs)
    if result is not NotImplemented:
        return result
    inner = getattr(func, "__wrapped__", None)  # written in Python: its operations have rules
    if inner is not None:
        return level.run_inside(inner, args, kwargs)
    return level.one_by_one(func, args, kwargs)


def pointwise_names():
    """The operations that are computed element by element."""
    return frozenset(name for name, rule in _RULES.items() if rule is _pointwise)


def _names(text):
    return frozenset(text.split())


def _wrap(level, result):
    if isinstance(result, Tensor):
        return level.stand_in(result)
    if isinstance(result, (tuple, list)):
        members = [_wrap(level, member) for member in result]
        return type(result)._make(members) if hasattr(result, "_make") else type(result)(members)
    return result


def _register(names, rule):
    for name in names.split():
        _RULES[name] = rule


def _of_first(names):
    """Registers a rule for calls with one stand-in, the first argument; it gets (x, rank, *args,
    **kwargs) after the function, `x` being all examples and `rank` the dims that each has.
    """

    def register(rule):
        def checked(level, func, args, kwargs):
            x = level.examples(args[0]) if args else None
            rest = tree_flatten((args[1:], kwargs))[0]
            if x is None or any(level.examples(leaf) is not None for leaf in rest):
                return NotImplemented
            try:
                result = rule(func, x, x.dim() - 1, *args[1:], **kwargs)
            except TypeError:  # arguments in a form that the rule does not know
                return NotImplemented
            return result if result is NotImplemented else _wrap(level, result)

        _register(names, checked)
        return rule

    return register


def _shifted(d, rank):
    """The place in the tensor of all examples of dim `d` of one example; or of several dims."""
    if isinstance(d, (tuple, list)):
        return [_shifted(one, rank) for one in d]
    if not -max(rank, 1) <= d < max(rank, 1):
        last = max(rank, 1) - 1
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-last - 1}, {last}], "
            f"but got {d})"
        )
    return d % max(rank, 1) + 1


def _padded(examples, rank):
    """All examples, each with dims of size 1 before its own, so that it has `rank` of them."""
    missing = rank - (examples.dim() - 1)
    if missing <= 0:
        return examples
    return examples.reshape(examples.shape[0], *[1] * missing, *examples.shape[1:])


# ---- element by element


def _pointwise(level, func, args, kwargs):
    leaves, structure = tree_flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    rank = max(t.dim() for t in tensors)
    in_place = level.changes_its_first(func, args) or kwargs.get("inplace")
    mixed = len({t.dtype for t in tensors}) > 1
    common = rushlight.result_type(*tensors[:2]) if mixed and len(tensors) == 2 else None
    changed = []
    for leaf in leaves:
        found = level.examples(leaf)
        if found is None:
            changed.append(leaf)
            continue
        if common is not None and rank and not leaf.dim() and found is not level.examples(args[0]):
            found = found.to(common)  # a number by its rank does not decide the dtype
        changed.append(_padded(found, rank))
    args_, kwargs_ = tree_unflatten(changed, structure)
    result = func(*args_, **kwargs_)
    return args[0] if in_place else _wrap(level, result)


_register(
    """
    abs absolute acos acosh addcdiv addcmul angle arccos arccosh arcsin arcsinh arctan arctan2
    arctanh asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min clip conj conj_physical
    copysign cos cosh deg2rad digamma div divide elu eq erf erfc erfinv exp exp2 expit expm1
    float_power floor floor_divide fmax fmin fmod frac gammainc gammaincc gammaln gcd ge gelu
    greater greater_equal gt
    hardshrink hardsigmoid hardswish hardtanh heaviside hypot i0 i0e i1 i1e igamma igammac isclose
    isfinite isinf isnan isneginf isposinf isreal lcm ldexp le leaky_relu lerp less less_equal
    lgamma log log10 log1p log2 log_ndtr logaddexp logaddexp2 logical_and logical_not logical_or
    logical_xor logit logsigmoid lt masked_fill maximum minimum mish mul multiply mvlgamma
    nan_to_num ndtr ndtri ne neg negative nextafter not_equal polygamma positive pow psi rad2deg
    real reciprocal relu relu6 remainder round rsqrt rsub selu sgn sigmoid sign signbit silu sin
    sinc sinh softplus softshrink softsign sqrt square sub subtract tan tanh tanhshrink threshold
    true_divide trunc fix where xlog1py xlogy zeta entr erfcx
    airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1
    modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1
    spherical_bessel_j0 chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v
    chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l
    legendre_polynomial_p shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u
    shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w log_expit polar complex
    multigammaln
    """,
    _pointwise,
)
for _name in list(_RULES):
    _RULES[_name + "_"] = _pointwise
_register("copy_", _pointwise)


def _fill(level, func, args, kwargs):
    value = args[1] if len(args) > 1 else kwargs["value"]
    return NotImplemented if isinstance(value, Tensor) else _pointwise(level, func, args, kwargs)


_register("fill", _fill)
_register(
    " ".join(
        f"__{side}{name}__"
        for name in "add sub mul truediv div floordiv mod pow and or xor lshift rshift".split()
        for side in ("", "r", "i")
    )
    + " __eq__ __ne__ __lt__ __le__ __gt__ __ge__ __neg__ __pos__ __abs__ __invert__ add add_",
    _pointwise,
)

# ---- one tensor, whatever its dims


@_of_first(
    """
    clone contiguous detach to float double half bfloat16 int long short char byte bool cfloat
    cdouble type zeros_like ones_like full_like empty_like cpu tril triu
    matrix_exp inv inverse det slogdet logdet cholesky cholesky_ex qr svd svdvals eigh eigvalsh eig
    eigvals pinv pinverse matrix_power inv_ex lu lu_factor adjoint
    view_as_real view_as_complex resolve_conj resolve_neg alias_copy layer_norm rms_norm
    """
)
def _as_it_is(func, x, rank, *args, **kwargs):
    return func(x, *args, **kwargs)


def _keeping_itself(level, func, args, kwargs):
    examples = level.examples(args[0])
    if examples is None or len(tree_flatten((args, kwargs))[0]) > 2:
        return NotImplemented
    func(examples, *args[1:], **kwargs)
    if func.__name__ == "requires_grad_":
        func(args[0], *args[1:], **kwargs)
    return args[0]


_register("zero_ fill_ requires_grad_", _keeping_itself)


def _shape_in_place(level, func, args, kwargs):
    rule = _RULES[func.__name__.removesuffix("_")]
    held = rule(level, func, args, kwargs)
    if held is NotImplemented:
        raise RuntimeError(f"vmap: {func.__name__}() of these arguments is not supported")
    func(*args, **kwargs)
    args[0].__dict__["_examples"] = held.__dict__["_examples"]
    return args[0]


_register("squeeze_ unsqueeze_ transpose_ swapaxes_ swapdims_ t_", _shape_in_place)


# ---- along a dim


def _along(names, place, whole=None, keywords=("dim", "axis")):
    """Operations with the dim as the argument number `place`, the tensor being number 0.

    `whole`: what computes the result over all dims, for calls without a dim.
    """

    @_of_first(names)
    def rule(func, x, rank, *args, **kwargs):
        args = list(args)
        if not rank:
            return NotImplemented
        key = next((k for k in keywords if k in kwargs), None)
        given = kwargs.get(key) if key else (args[place - 1] if len(args) >= place else None)
        if given is None:
            if whole is None:
                return NotImplemented
            return whole(func, x, *args, **{k: v for k, v in kwargs.items() if k != key})
        if not isinstance(given, (int, tuple, list)) or isinstance(given, bool):
            return NotImplemented
        if isinstance(given, (tuple, list)) and not given:
            return NotImplemented
        if key:
            kwargs[key] = _shifted(given, rank)
        else:
            args[place - 1] = _shifted(given, rank)
        return func(x, *args, **kwargs)


def _over_all(func, x, *args, **kwargs):
    return NotImplemented if args else func(x.flatten(1), dim=1, **kwargs)


def _largest(func, x, *args, **kwargs):
    if args or kwargs:
        return NotImplemented
    return x.flatten(1).amax(1) if func.__name__ == "max" else x.flatten(1).amin(1)


def _at_the_end(func, x, *args, **kwargs):
    return func(x, *args, **kwargs)


_along(
    "sum mean prod all any nansum nanmean argmax argmin count_nonzero var std var_mean std_mean",
    1,
    _over_all,
)
_along("amax amin logsumexp softmax log_softmax softmin cumsum cumprod cummax cummin", 1)
_along("logcumsumexp unbind unflatten select narrow glu", 1)
_along("max min", 1, _largest)
_along("median nanmedian mode sort argsort", 1)
_along("topk kthvalue", 2, _at_the_end)
_along("vector_norm normalize", 2)
_along("flip", 1, None, ("dims", "dim"))
_along("roll", 2, None, ("dims", "dim"))
_along("chunk split tensor_split split_with_sizes", 2, lambda f, x, n, **k: f(x, n, 1, **k))


@_of_first("norm")
def _norm(func, x, rank, p="fro", dim=None, keepdim=False, dtype=None):
    if not rank or keepdim and dim is None or isinstance(p, str) and rank != 2 and dim is not None:
        return NotImplemented
    if dim is None:
        order = 2.0 if p in ("fro", None) else p
        if not isinstance(order, (int, float)):
            return NotImplemented
        return rushlight.linalg.vector_norm(x.flatten(1), order, 1, dtype=dtype)
    return func(x, p, _shifted(dim, rank), keepdim, dtype=dtype)


# ---- other windows on the same elements


def _sizes(args):
    return args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args


@_of_first("reshape view")
def _reshape(func, x, rank, *sizes, shape=None):
    if sizes and isinstance(sizes[0], rushlight.dtype):
        return NotImplemented
    sizes = _sizes(sizes) if shape is None else shape
    if -1 in sizes and not x.numel():
        return NotImplemented
    return x.reshape(x.shape[0], *sizes)


@_of_first("view_as reshape_as")
def _view_as(func, x, rank, other):
    return x.reshape(x.shape[0], *other.shape)


@_of_first("expand broadcast_to")
def _expand(func, x, rank, *sizes, size=None):
    sizes = _sizes(sizes) if size is None else size
    return _padded(x, len(sizes)).expand(x.shape[0], *sizes)


@_of_first("expand_as")
def _expand_as(func, x, rank, other):
    return _padded(x, other.dim()).expand(x.shape[0], *other.shape)


@_of_first("repeat tile")
def _repeat(func, x, rank, *sizes):
    sizes = list(_sizes(sizes))
    if func.__name__ == "tile":
        sizes = [1] * (rank - len(sizes)) + sizes
    return _padded(x, len(sizes)).repeat(1, *sizes)


@_of_first("flatten")
def _flatten(func, x, rank, start_dim=0, end_dim=-1):
    if not rank:
        return x.unsqueeze(1)
    return x.flatten(_shifted(start_dim, rank), _shifted(end_dim, rank))


@_of_first("ravel")
def _ravel(func, x, rank):
    return x.flatten(1) if rank else x.unsqueeze(1)


@_of_first("squeeze")
def _squeeze(func, x, rank, dim=None):
    if dim is None:
        return x.reshape(x.shape[0], *(s for s in x.shape[1:] if s != 1))
    return x.squeeze(_shifted(dim, rank)) if rank else NotImplemented


@_of_first("unsqueeze")
def _unsqueeze(func, x, rank, dim):
    return x.unsqueeze(_shifted(dim, rank + 1))


@_of_first("transpose swapaxes swapdims")
def _transpose(func, x, rank, dim0, dim1):
    return x.transpose(_shifted(dim0, rank), _shifted(dim1, rank)) if rank else NotImplemented


@_of_first("t")
def _transposed(func, x, rank):
    return x.permute(0, *range(rank, 0, -1))


@_of_first("permute")
def _permute(func, x, rank, *dims):
    return x.permute(0, *_shifted(_sizes(dims), rank))


@_of_first("movedim moveaxis")
def _movedim(func, x, rank, source, destination):
    return x.movedim(_shifted(source, rank), _shifted(destination, rank))


@_of_first("diagonal")
def _diagonal(func, x, rank, offset=0, dim1=0, dim2=1):
    return x.diagonal(offset, _shifted(dim1, rank), _shifted(dim2, rank))


@_of_first("diag_embed")
def _diag_embed(func, x, rank, offset=0, dim1=-2, dim2=-1):
    return x.diag_embed(offset, _shifted(dim1, rank + 1), _shifted(dim2, rank + 1))


@_of_first("trace")
def _trace(func, x, rank):
    return x.diagonal(0, 1, 2).sum(-1)


def _attribute(level, func, name, args):
    examples = level.examples(args[0])
    if examples is None or name not in ("T", "mT", "H", "mH", "real", "imag", "data", "grad"):
        return func(*args)
    if name == "grad":
        return None if examples.grad is None else level.stand_in(examples.grad)
    if name in ("T", "H"):
        turned = _transposed(None, examples, examples.dim() - 1)
        return level.stand_in(turned.conj() if name == "H" else turned)
    return level.stand_in(getattr(examples, name))


# ---- several tensors of equal rank, along a dim


def _with_equal_ranks(names, place, default=None):
    """Each tensor gets a value for each example; the dim is argument number `place`."""

    def rule(level, func, args, kwargs):
        leaves, structure = tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        rank = tensors[0].dim()
        if not rank or any(t.dim() != rank for t in tensors):
            return NotImplemented
        dim = args[place] if len(args) > place else kwargs.get("dim", default)
        if dim is None:
            return NotImplemented
        leaves = [level.all_examples(t) if isinstance(t, Tensor) else t for t in leaves]
        args, kwargs = tree_unflatten(leaves, structure)
        args = args[:place] + args[place + 1 :]
        kwargs.pop("dim", None)
        return _wrap(level, func(*args[:place], _shifted(dim, rank), *args[place:], **kwargs))

    _register(names, rule)


_with_equal_ranks("cat concat concatenate", 1, 0)
_with_equal_ranks("gather scatter scatter_add scatter_reduce", 1)
_with_equal_ranks("take_along_dim", 2)


def _stack(level, func, args, kwargs):
    tensors, *rest = args
    dim = rest[0] if rest else kwargs.get("dim", 0)
    rank = tensors[0].dim()
    if any(t.dim() != rank for t in tensors):
        return NotImplemented
    stacked = rushlight.stack([level.all_examples(t) for t in tensors], _shifted(dim, rank + 1))
    return level.stand_in(stacked)


_register("stack", _stack)

# ---- matrices


def _as_matrices(level, a, b):
    """All examples of both, vectors as matrices and dims in line; and the dims to take away."""
    vector_a, vector_b = a.dim() == 1, b.dim() == 1
    rank = max(a.dim(), b.dim(), 2)

    def prepared(t, vector, at):
        found = level.examples(t)
        if found is None:
            return t.unsqueeze(at) if vector else t
        return _padded(found.unsqueeze(at) if vector else found, rank)

    return prepared(a, vector_a, -2), prepared(b, vector_b, -1), vector_a, vector_b


def _product(level, a, b):
    """a @ b of stand-ins and plain tensors, for all examples."""
    a, b, vector_a, vector_b = _as_matrices(level, a, b)
    result = rushlight.matmul(a, b)
    if vector_a:
        result = result.squeeze(-2)
    return result.squeeze(-1) if vector_b else result


def _matmul(level, func, args, kwargs):
    if len(args) != 2 or kwargs:
        return NotImplemented
    a, b = args if func.__name__ != "__rmatmul__" else args[::-1]
    return level.stand_in(_product(level, a, b))


_register("matmul mm bmm mv dot __matmul__ __rmatmul__", _matmul)


def _inner(level, func, args, kwargs):
    a, b = args
    return _matmul(level, func, (a, b), kwargs) if a.dim() == b.dim() == 1 else NotImplemented


_register("inner", _inner)


def _inside(names):
    """Registers a function of other operations, which are computed by their own rules."""

    def register(function):
        def rule(level, func, args, kwargs):
            return level.run_inside(function, args, kwargs)

        _register(names, rule)
        return function

    return register


@_inside("linear")
def _linear_parts(input, weight, bias=None):
    product = input @ (weight.t() if weight.dim() == 2 else weight)
    return product if bias is None else product + bias


@_inside("outer ger")
def _outer_parts(input, vec2):
    return input.unsqueeze(-1) * vec2.unsqueeze(-2)


@_inside("addmm addmv baddbmm")
def _add_product(input, first, second, *, beta=1, alpha=1):
    product = first @ second
    return beta * input + (product if alpha == 1 else alpha * product)


def _einsum(level, func, args, kwargs):
    equation, *operands = args
    if not isinstance(equation, str) or "." in equation or kwargs:
        return NotImplemented
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = operands[0]
    letters = equation.replace(" ", "")
    inputs, arrow, output = letters.partition("->")
    if not arrow:
        output = "".join(sorted(c for c in set(inputs) if inputs.count(c) == 1 and c != ","))
    free = next((c for c in "ZYXWVUTSRQ" if c not in letters), None)
    terms = inputs.split(",")
    if free is None or len(terms) != len(operands):
        return NotImplemented
    found = [level.examples(t) for t in operands]
    terms = [t if f is None else free + t for t, f in zip(terms, found)]
    operands = [t if f is None else f for t, f in zip(operands, found)]
    return level.stand_in(func(f"{','.join(terms)}->{free}{output}", *operands))


_register("einsum", _einsum)


def _attention(level, func, args, kwargs):
    leaves, structure = tree_flatten((args, kwargs))
    rank = max(t.dim() for t in leaves if isinstance(t, Tensor))
    found = [level.examples(leaf) for leaf in leaves]
    leaves = [leaf if f is None else _padded(f, rank) for leaf, f in zip(leaves, found)]
    args, kwargs = tree_unflatten(leaves, structure)
    query, key, value = args[:3]
    if query.dim() != key.dim() or query.dim() != value.dim():
        return NotImplemented
    return level.stand_in(func(*args, **kwargs))


_register("scaled_dot_product_attention", _attention)


# ---- indexing


def _getitem(level, func, args, kwargs):
    tensor, index = args
    index = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(i, (list, range)) for i in index):
        return NotImplemented
    x = level.examples(tensor)
    found = [level.examples(i) for i in index]
    advanced = [k for k, i in enumerate(index) if isinstance(i, Tensor)]
    if advanced:  # numbers beside tensors index as tensors do
        advanced = [k for k, i in enumerate(index) if isinstance(i, (Tensor, int))]
    if advanced and advanced[-1] - advanced[0] + 1 != len(advanced):
        return NotImplemented
    if not any(f is not None for f in found):
        if any(isinstance(i, bool) for i in index):
            return NotImplemented
        if advanced and any(isinstance(i, Tensor) and i.dim() == 0 for i in index):
            return NotImplemented  # as a number where no example lies before it
        return level.stand_in(x[(slice(None), *index)])
    if any(isinstance(i, Tensor) and i.dtype in (rushlight.bool, rushlight.uint8) for i in index):
        return NotImplemented
    if advanced[0] != 0:
        return NotImplemented
    rank = max(i.dim() for i in index if isinstance(i, Tensor))
    index = [i if f is None else _padded(f, rank) for i, f in zip(index, found)]
    if x is None:
        return level.stand_in(tensor[tuple(index)])
    which = rushlight.arange(level.size, device=x.device).reshape(-1, *[1] * rank)
    return level.stand_in(x[(which, *index)])


_register("__getitem__", _getitem)


def _where(level, func, args, kwargs):
    if len(args) + len(kwargs) == 1:
        raise RuntimeError("vmap: where() of a condition alone gives each example other sizes")
    return _pointwise(level, func, args, kwargs)


_register("where", _where)


def _as_strided(level, func, args, kwargs):
    if func.__name__ == "as_strided_":
        raise RuntimeError("vmap: as_strided_() is not supported; use as_strided()")
    if level.examples(args[0]) is None:
        return NotImplemented
    held = level.stand_in(level.examples(args[0]).contiguous())

    def of_copy(tensor, *rest, **options):
        return func(tensor.clone(), *rest, **options)

    of_copy.__name__ = "as_strided"
    return level.one_by_one(of_copy, (held, *args[1:]), kwargs)


_register("as_strided as_strided_", _as_strided)


def _index_select(level, func, args, kwargs):
    tensor, dim, index = args
    x, i = level.examples(tensor), level.examples(index)
    if i is None and tensor.dim():
        return level.stand_in(x.index_select(_shifted(dim, tensor.dim()), index))
    return NotImplemented


_register("index_select", _index_select)


def _embedding(level, func, args, kwargs):
    index, weight, *rest = args
    if index.is_floating_point():  # torch.embedding takes the weight first
        return NotImplemented
    if level.examples(weight) is not None:
        return NotImplemented if rest or kwargs else level.run_inside(_rows_of, args, kwargs)
    return level.stand_in(func(level.examples(index), weight, *rest, **kwargs))


def _rows_of(index, weight):
    return weight[index]


_register("embedding", _embedding)

# ---- networks


def _of_batches(names, spatial):
    """Operations of inputs (N, C, *spatial), or of one without N: all examples in one batch."""

    @_of_first(names)
    def rule(func, x, rank, *args, **kwargs):
        if rank == spatial + 1:
            return func(x, *args, **kwargs)
        if rank != spatial + 2:
            return NotImplemented
        result = func(x.flatten(0, 1), *args, **kwargs)
        parts = result if isinstance(result, tuple) else (result,)
        parts = [part.unflatten(0, x.shape[:2]) for part in parts]
        return tuple(parts) if isinstance(result, tuple) else parts[0]


for _n in (1, 2, 3):
    _of_batches(
        f"max_pool{_n}d avg_pool{_n}d adaptive_max_pool{_n}d adaptive_avg_pool{_n}d lp_pool{_n}d "
        f"max_pool{_n}d_with_indices",
        _n,
    )
_of_batches("pixel_shuffle pixel_unshuffle channel_shuffle", 2)


@_of_first("interpolate upsample instance_norm group_norm")
def _of_one_batch(func, x, rank, *args, **kwargs):
    if rank < 2:
        return NotImplemented
    return func(x.flatten(0, 1), *args, **kwargs).unflatten(0, x.shape[:2])


@_of_first("pad")
def _pad(func, x, rank, pad, mode="constant", value=None):
    if mode == "constant" or rank == len(pad) // 2 + 1:
        return func(x, pad, mode, value)
    return func(x.flatten(0, 1), pad, mode).unflatten(0, x.shape[:2])


def _convolution(spatial):
    def rule(level, func, args, kwargs):
        names = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
        given = {"bias": None, "groups": 1, **dict(zip(names, args)), **kwargs}
        tensor, weight, bias = (given.pop(name) for name in names[:3])
        groups = given.pop("groups")
        x = level.examples(tensor)
        batch = tensor.dim() == spatial + 2
        if level.examples(weight) is None and level.examples(bias) is None:
            flat = x.flatten(0, 1) if batch else x
            result = func(flat, weight, bias, groups=groups, **given)
            return level.stand_in(result.unflatten(0, x.shape[:2]) if batch else result)
        # The examples as groups of one convolution.
        x = level.all_examples(tensor)
        x = x if batch else x.unsqueeze(1)
        w = level.all_examples(weight).flatten(0, 1)
        b = None if bias is None else level.all_examples(bias).flatten(0, 1)
        result = func(x.transpose(0, 1).flatten(1, 2), w, b, groups=groups * level.size, **given)
        result = result.unflatten(1, (level.size, -1)).transpose(0, 1)
        return level.stand_in(result if batch else result.squeeze(1))

    return rule


for _n in (1, 2, 3):
    _register(f"conv{_n}d", _convolution(_n))


def _class_loss(level, func, args, kwargs):
    """cross_entropy and nll_loss of class numbers, all classes of equal weight."""
    names = ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction")
    given = {"ignore_index": -100, "reduction": "mean", **dict(zip(names, args)), **kwargs}
    tensor, target, reduction = given.pop("input"), given.pop("target"), given["reduction"]
    plain = given.get("size_average") is None and given.get("reduce") is None
    if not plain or given.get("weight") is not None or target.is_floating_point():
        return NotImplemented
    if reduction not in ("none", "mean", "sum"):
        return NotImplemented
    x, t = level.all_examples(tensor), level.all_examples(target)
    batch = tensor.dim() > 1
    options = {k: given[k] for k in ("ignore_index", "label_smoothing") if k in given}
    if batch:
        loss = func(x.flatten(0, 1), t.flatten(0, 1), reduction="none", **options)
        loss = loss.unflatten(0, x.shape[:2])
    else:
        loss = func(x, t, reduction="none", **options)
    if reduction == "none":
        return level.stand_in(loss)
    total = loss.flatten(1).sum(1) if batch else loss
    if reduction == "mean":
        counted = (t != given["ignore_index"]).reshape(level.size, -1).sum(1)
        total = total / counted
    return level.stand_in(total)


_register("cross_entropy nll_loss", _class_loss)


def _element_loss(level, func, args, kwargs):
    """Losses of pairs of elements, which are then averaged or summed."""
    options = {"reduction": "mean", **kwargs}
    reduction = options.pop("reduction")
    if len(args) != 2 or set(options) - {"beta", "delta"} or reduction not in _REDUCTIONS:
        return NotImplemented
    rank = max(a.dim() for a in args)
    pair = [_padded(level.all_examples(a), rank) for a in args]
    loss = func(*pair, reduction="none", **options)
    return level.stand_in(loss if reduction == "none" else _REDUCTIONS[reduction](loss.flatten(1)))


_REDUCTIONS = {
    "none": None, "mean": lambda loss: loss.mean(1), "sum": lambda loss: loss.sum(1)
}  # fmt: skip
_register(
    "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits",
    _element_loss,
)


# ---- random numbers

_RANDOM = _names(
    """
    rand randn randint randperm normal
    rand_like randn_like randint_like bernoulli bernoulli_ dropout dropout1d dropout2d dropout3d
    alpha_dropout feature_alpha_dropout uniform_ normal_ exponential_ cauchy_ log_normal_ geometric_
    random_ multinomial poisson rrelu binomial
    """
)


def _random(level, func, name, args, kwargs, mapped):
    if "dropout" in name and _off(args, kwargs):
        return args[0]
    if level.randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation {name}() while in randomness error mode. Please either "
            "use the 'same' or 'different' randomness flags on vmap or perform the randomness "
            "operation out of vmap"
        )
    if level.randomness == "same":
        if not mapped:
            return func(*args, **kwargs)
        state = rushlight.get_rng_state()

        def repeated(*args, **kwargs):
            rushlight.set_rng_state(state)
            return func(*args, **kwargs)

        repeated.__name__ = name
        return level.one_by_one(repeated, args, kwargs)
    if not mapped:
        return level.stand_in(rushlight.stack([func(*args, **kwargs) for _ in range(level.size)]))
    return level.one_by_one(func, args, kwargs)


def _off(args, kwargs):
    p = args[1] if len(args) > 1 else kwargs.get("p", 0.5)
    training = args[2] if len(args) > 2 else kwargs.get("training", True)
    return not training or p == 0.0


# ---- what is no computation

_OF_ONE_VALUE = {
    "item": ".item()", "__bool__": "bool() (as `if` does)", "__int__": "int()",
    "__float__": "float()", "__index__": "int()", "__complex__": "complex()", "tolist": ".tolist()",
    "numpy": ".numpy()", "__array__": "numpy.asarray()", "nonzero": "nonzero()",
    "_nonzero": "nonzero()", "_nonzero_tuple": "nonzero()",
    "masked_select": "masked_select()", "unique": "unique()", "allclose": "allclose()",
    "equal": "equal()", "__contains__": "`in`",
}  # fmt: skip
_AS_THEY_ARE = _names(
    """
    size dim ndimension stride numel nelement is_floating_point is_complex is_contiguous
    storage_offset element_size get_device is_same_size __len__ data_ptr is_tensor
    is_inference is_conj is_neg result_type can_cast __format__ __hash__ is_shared
    """
)


def _show(level, func, args, kwargs):
    return f"vmap: one of {level.size} examples\n{func(level.examples(args[0]))}"


_register("__repr__ __str__", _show)


def _gradient(level, func, args, kwargs):
    """autograd.grad, whose inputs each have a value for each example."""
    given = dict(zip(("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph"), args))
    given.update(kwargs)
    outputs, inputs, weights = (
        [value] if value is None or isinstance(value, Tensor) else list(value)
        for value in (given.pop("outputs"), given.pop("inputs"), given.pop("grad_outputs", None))
    )
    sources = [level.examples(leaf) for leaf in inputs]
    if any(found is None for found in sources):
        raise RuntimeError(
            "vmap: autograd.grad() of a mapped result by a tensor that all examples share: use "
            "func.grad, or pass the tensor through in_dims"
        )
    weights = weights if weights != [None] else [None] * len(outputs)
    outputs = [level.all_examples(out) for out in outputs]
    weights = [
        rushlight.ones_like(out) if w is None else level.all_examples(w)
        for out, w in zip(outputs, weights)
    ]
    gradients = func(outputs, sources, weights, **given)
    return tuple(None if g is None else level.stand_in(g) for g in gradients)


_register("grad", _gradient)


def _backward(level, func, args, kwargs):
    raise RuntimeError("vmap: backward() cannot be called on a mapped tensor; use func.grad")


_register("backward", _backward)
