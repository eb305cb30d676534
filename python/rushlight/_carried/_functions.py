"""The functions that take tensors of carried dtypes, or make them; all others refuse by name."""

from __future__ import annotations

import rushlight
from rushlight import _C, Tensor
from rushlight._absent_dtypes import _CarriedDtype
from rushlight._carried import _history
from rushlight._carried._codecs import bits_of, carrier_of, is_unsigned, numbers_of
from rushlight._carried._promotion import common_dtype, promoted
from rushlight._carried._tensor import CarriedTensor, array_of, elements, make, plain
from rushlight._ignored import warn_program
from rushlight._python_types import as_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# What is known without the elements' meaning.
_OF_THE_SHAPE = set(
    """size dim ndimension numel nelement element_size stride storage_offset is_contiguous data_ptr
    __len__ get_device is_same_size untyped_storage _is_view is_inference __hash__ is_conj is_neg
    is_set_to is_pinned is_shared __dlpack__ __dlpack_device__ from_dlpack""".split()
)
_ATTRIBUTES = set(
    """shape ndim itemsize requires_grad grad grad_fn is_leaf _version is_cuda is_cpu is_meta is_mps
    is_xpu is_sparse layout device nbytes _backward_hooks is_nested name _base is_quantized
    is_mkldnn""".split()
)
_VIEWS = {"T", "mT", "H", "mH", "data"}
# What moves elements, whatever they are: it is done to the bits.
_MOVES = set(
    """view reshape flatten ravel transpose t permute squeeze unsqueeze select narrow __getitem__
    expand index_select repeat flip unflatten movedim moveaxis swapaxes swapdims split chunk unbind
    view_as reshape_as expand_as clone contiguous detach cpu roll diagonal unfold hsplit vsplit
    dsplit tensor_split split_with_sizes gather take take_along_dim masked_select tril triu
    as_strided broadcast_to repeat_interleave positive alias rot90 fliplr flipud tile requires_grad_
    pin_memory share_memory_ zeros_like empty_like new_empty new_zeros resolve_conj resolve_neg
    alias_copy as_strided_copy detach_copy diagonal_copy expand_copy narrow_copy permute_copy
    select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy
    unbind_copy unfold_copy unsqueeze_copy view_copy as_strided_scatter diagonal_scatter
    select_scatter slice_scatter unsafe_chunk unsafe_split unsafe_split_with_sizes _chunk_cat diag
    diag_embed diagflat fftshift ifftshift meshgrid cartesian_prod combinations""".split()
)
# What changes where the elements of a tensor lie, and in which shape.
_RESHAPES_IN_PLACE = set(
    """unsqueeze_ squeeze_ t_ transpose_ swapaxes_ swapdims_ as_strided_ resize_ set_
    detach_ zero_""".split()
)
# What writes elements of others, which are made bits of this dtype first.
_WRITES = set(
    """copy_ fill_ fill __setitem__ index_put index_put_ index_copy index_copy_ index_fill
    index_fill_ masked_fill masked_fill_ masked_scatter masked_scatter_ scatter scatter_ where
    new_full full_like""".split()
)
# What computes elements of the dtype of its operands.
_SAME = set(
    """add sub mul __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ rsub bitwise_and bitwise_or
    bitwise_xor __and__ __or__ __xor__ __rand__ __ror__ __rxor__ floor ceil round trunc nan_to_num
    neg __neg__ abs __abs__ sgn conj_physical unique msort sort maximum minimum index_add
    diff outer kron""".split()
)
# Those whose first two arguments are promoted, and what joins all its tensors.
_BITS_SERVE = set("add sub mul rsub outer kron bitwise_and bitwise_or bitwise_xor".split())
_OF_TWO = _BITS_SERVE | {"maximum", "minimum"}
_JOINS = set("cat concat stack hstack vstack dstack column_stack block_diag".split())
# What makes a tensor of a dtype that `out` may say.
_MAKERS = set("arange empty eye full linspace logspace ones range zeros".split())
# What makes a tensor like another one, but for what is asked for.
_MAKERS_OF_ALIKE = set(
    """empty_like full_like ones_like zeros_like rand_like randn_like randint_like new_empty
    new_full new_ones new_zeros new_tensor new_empty_strided""".split()
)
_PRODUCTS = set("mm matmul __matmul__ addmm linear".split())  # of floats of 8 bits
_LOGIC = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}
# What gives other dtypes: of the numbers.
_OTHER = set(
    """eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ equal isnan isinf isfinite isreal
    signbit any all isclose allclose div true_divide divide __truediv__ __rtruediv__ sqrt exp log
    sin sigmoid reciprocal rsqrt erf tanh atan2 copysign xlogy ldexp pow __pow__ floor_divide
    __floordiv__ remainder __mod__ fmod fmax fmin hypot nextafter sum nansum prod cumsum argsort
    cumprod mean float_power nonzero _nonzero argwhere nonzero_static count_nonzero std var norm
    logical_and logical_or logical_xor abs_real __bool__ __int__ __float__ __complex__ __index__
    item is_nonzero i0 i0e i1 i1e ndtr entr log_ndtr erfcx xlog1py zeta airy_ai bessel_j0 bessel_j1
    bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1
    scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 chebyshev_polynomial_t
    chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h
    hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t
    shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
    shifted_chebyshev_polynomial_w""".split()
)
# What is made of no elements, or of zeros, whose bits are 0 in every dtype that has them.
_OF_ZERO_BITS = set(
    """empty empty_like zeros zeros_like new_empty new_zeros frombuffer empty_strided
    new_empty_strided empty_permuted""".split()
)
_CASTS = dict(
    double="float64", float="float32", half="float16", bfloat16="bfloat16", long="int64",
    int="int32", short="int16", char="int8", byte="uint8", bool="bool", cfloat="complex64",
    cdouble="complex128", chalf="complex32",
)  # fmt: skip


def call(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Carry out a function that was given a carried tensor or dtype."""
    name, owner = getattr(func, "__name__", str(func)), getattr(func, "__self__", None)
    if name == "__get__" and owner is not None:
        return _attribute(func, owner.__name__, *args)
    if name == "__set__" and owner is not None and owner.__name__ == "requires_grad":
        return _history.require(args[0], args[1])
    if name == "__set__" and owner is not None and owner.__name__ == "grad":
        return _history.set_grad(args[0], args[1])
    if name == "__set__" and owner is not None and owner.__name__ == "data":
        return _changed(func, "data", args, kwargs)
    if "." in name:  # an operation with its overload's name
        return _operation(func, args, kwargs)
    if name in _OF_THE_SHAPE:
        with _C._SubclassesOff():
            return func(*args, **kwargs)
    if name not in _OF_AUTOGRAD and any(map(_followed, _parts((args, kwargs)))):
        return _followed_call(func, name, args, kwargs)
    if kwargs.get("out") is not None:
        return _into(func, name, args, **kwargs)
    if name in _MAKERS_OF_ALIKE and type(kwargs.get("dtype")) is rushlight.dtype:
        return func(*_each(plain, list(args)), **kwargs)
    if name in _FUNCTIONS:
        return _FUNCTIONS[name](func, *args, **kwargs)
    if name in _CASTS and not (len(args) > 1 or kwargs.get("memory_format")):
        return cast(args[0], getattr(rushlight, _CASTS[name]))
    if isinstance(kwargs.get("dtype"), _CarriedDtype):
        return _creation(func, args, kwargs)
    in_place = name.endswith("_") and not name.endswith("__") or name[:3] == "__i" != name[:5]
    if name in _RESHAPES_IN_PLACE and isinstance(args[0], CarriedTensor):
        return _changed(func, name, args, kwargs)
    if name in _JOINS:
        return _joined(func, args, kwargs)
    if name in _MOVES:
        return _moved(func, args, kwargs)
    if name in _WRITES:
        return _written(func, args, kwargs)
    if name in _SAME or (in_place and _bare(name) in _SAME):
        return _computed(func, _bare(name), in_place and name not in _SAME, args, kwargs)
    if name in _OTHER:
        return _measured(func, args, kwargs)
    if name in _PRODUCTS and _dtype_of(args, kwargs).itemsize == 1:
        return _computed(func, name, False, args, kwargs)
    raise NotImplementedError(
        f"{name}: not implemented for dtype {_dtype_of(args, kwargs)}; convert it, as by "
        "x.to(torch.int64) or x.float()"
    )


def _operation(op, args, kwargs):
    """What an operation of `torch.ops` gives: the library's function, or what a program defined."""
    own = getattr(op, "_function", None)
    if own is not None:
        return own(*args, **kwargs)
    tensors = [part for part in _parts((args, kwargs)) if isinstance(part, Tensor)]
    return op._dispatch(list(args), kwargs, tuple(tensors))


_OF_AUTOGRAD = {"requires_grad_", "detach", "backward", "retain_grad"}


def _followed(part):
    return _history.history_of(part) is not None


def _followed_call(func, name, args, kwargs):
    """What a function does with tensors that need a gradient."""
    writes = name.endswith("_") and not name.endswith("__") or name == "__setitem__"
    if not (writes and isinstance(args[0], CarriedTensor)):
        if _C._records():
            return _history.call(func, args, kwargs, _each)
    elif rushlight.is_grad_enabled():
        raise NotImplementedError(
            f"{name}: in place on a tensor of {args[0].dtype} that requires grad; compute another"
        )
    held = args[0].__dict__.pop("_history", None) if writes else None
    with rushlight.no_grad():
        result = call(func, _each(_unfollowed, list(args)), kwargs) if held is None else call(
            func, args, kwargs
        )  # fmt: skip
    if held is not None:
        args[0]._history = held
        held.detach().copy_(numbers_of(plain(args[0]), args[0].dtype))
    return result


def _unfollowed(tensor):
    return make(plain(tensor), tensor.dtype) if _followed(tensor) else tensor


def _bare(name):
    bare = name.strip("_") if name.endswith("_") else name
    if name.startswith(("__i", "__r")) and name != "__rsub__":
        bare = bare[1:]
    return _LOGIC.get(bare, bare)


def _parts(value):
    """The tensors and dtypes in arguments."""
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _parts(part)
    elif isinstance(value, dict):
        yield from _parts(list(value.values()))
    elif isinstance(value, Tensor) or type(value) is _CarriedDtype:
        yield value


def _dtype_of(*arguments):
    """The carried dtype that is meant, of several that of the first."""
    for part in _parts(arguments):
        if isinstance(part, CarriedTensor) or type(part) is _CarriedDtype:
            return part.dtype if isinstance(part, CarriedTensor) else part
    raise AssertionError("no argument is of a carried dtype")


def _each(function, value):
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, (list, tuple)) and any(True for _ in _parts(value)):
        parts = [_each(function, part) for part in value]
        return type(value)(parts) if type(value) in (list, tuple) else type(value)(*parts)
    if isinstance(value, dict):
        return {key: _each(function, part) for key, part in value.items()}
    return value


def cast(tensor: Tensor, dtype: Any, copy: bool = False) -> Tensor:
    """Return a tensor in another dtype, where one of the two is carried."""
    if tensor.dtype == dtype:
        return tensor.clone() if copy else tensor
    given = plain(tensor)  # int64 holds the bits of uint64: these are copied
    if isinstance(tensor, CarriedTensor):
        tensor = _exact(tensor) if _is_integral(dtype) else numbers_of(plain(tensor), tensor.dtype)
    if not isinstance(dtype, _CarriedDtype):
        return tensor.to(dtype, copy=_is_same(tensor, given))
    if tensor.is_meta:
        return make(rushlight.empty_like(tensor.detach(), dtype=carrier_of(dtype)), dtype)
    bits = bits_of(tensor.detach(), dtype)
    bits = bits.clone() if _is_same(bits, given) else bits
    return _history.follow(make(bits, dtype), tensor)


def _is_same(tensor, given):
    return tensor.dtype is given.dtype and tensor.is_set_to(given)


def _is_integral(dtype):
    return not (dtype.is_floating_point or dtype.is_complex or dtype is rushlight.bool)


def _exact(tensor):
    """Numbers from which whole ones modulo 2**64 can be taken."""
    bits = plain(tensor)
    return bits if bits.dtype is rushlight.int64 else numbers_of(bits, tensor.dtype)


_KNOWN_TO_AUTOGRAD = {"requires_grad", "grad", "grad_fn", "is_leaf", "retains_grad"}


def _attribute(func, name, self, *rest):
    if name in _KNOWN_TO_AUTOGRAD and _followed(self):
        return _history.attribute(name, self)
    if name in _ATTRIBUTES:
        with _C._SubclassesOff():
            return func(self, *rest)
    if name in _VIEWS:
        moved = make(func(plain(self)), self.dtype)
        return _conj(None, moved) if name in ("H", "mH") else moved
    if name in ("real", "imag") and self.dtype.is_complex and _followed(self):
        return getattr(_history.recorded(self), name).half()
    if name in ("real", "imag"):
        return _real(None, self) if name == "real" else _imag(None, self)
    raise NotImplementedError(f"{name}: not implemented for dtype {self.dtype}")


def _creation(func, args, kwargs):
    rest = {key: kwargs[key] for key in kwargs if key not in ("dtype", "requires_grad")}
    made = _made_in(kwargs["dtype"], func, args, rest)
    return made.requires_grad_() if kwargs.get("requires_grad") else made


def _made_in(dtype, func, args, rest):
    """Makes what was asked for in a dtype that serves, and converts it."""
    name = func.__name__
    if name in ("tensor", "as_tensor", "asarray"):
        return _from_data(func, dtype, *args, **rest)
    if name in ("sum", "prod", "cumsum", "mean", "softmax", "log_softmax"):
        return cast(func(*_each(_numbers, list(args)), **rest), dtype)
    args = [plain(arg) if isinstance(arg, Tensor) else arg for arg in args]
    if name in _OF_ZERO_BITS:
        return make(func(*args, dtype=carrier_of(dtype), **rest), dtype)
    if name in ("full", "full_like", "new_full"):
        *shape, value = args if "fill_value" not in rest else (*args, rest.pop("fill_value"))
        empty = {"full": rushlight.empty, "full_like": rushlight.empty_like}.get(name)
        if name == "new_full":
            empty, shape = shape[0].new_empty, shape[1:]
        return make(empty(*shape, dtype=carrier_of(dtype), **rest), dtype).fill_(value)
    through = (
        rushlight.complex64 if dtype.is_complex
        else rushlight.float32 if dtype.is_floating_point else rushlight.int64
    )  # fmt: skip
    return cast(func(*args, dtype=through, **rest), dtype)


def _from_data(func, dtype, data, device=None, copy=None, **rest):
    def within(value):
        if isinstance(value, (list, tuple)):
            return [within(v) for v in value]
        if isinstance(value, int) and value >= 2**63:
            return value - 2**64 if is_unsigned(dtype) else float(value)
        return value

    if func.__name__ == "asarray" and _is_buffer(data):
        data = rushlight.frombuffer(data, dtype=dtype)
    elif hasattr(data, "dtype") and not isinstance(data, Tensor):  # an array
        data = rushlight.from_numpy(data) if hasattr(data, "ndim") and data.ndim else data.item()
    is_new = not isinstance(data, Tensor)
    if is_new:
        data = rushlight.tensor(within(data))
    moves = device is not None and rushlight.device(device) != data.device
    if copy is False and (is_new or moves or data.dtype != dtype):
        raise ValueError(
            f"{func.__name__}: can't alias what is no tensor, array or buffer of {dtype} on the "
            "device asked for; leave out copy=False"
        )
    made = cast(data.detach(), dtype, copy=func.__name__ == "tensor" or bool(copy))
    return made.to(device) if device is not None else made


def _is_buffer(data):
    """Does an object have memory, and no other meaning?"""
    if isinstance(data, (Tensor, str)) or hasattr(data, "dtype"):
        return False
    try:
        memoryview(data)
    except TypeError:
        return False
    return True


def _moved(func, args, kwargs):
    """What is done to the bits."""
    carried = [part for part in _tensors((args, kwargs)) if isinstance(part, CarriedTensor)]
    dtype = carried[0].dtype
    if any(part.dtype != dtype for part in carried):
        raise RuntimeError(f"{func.__name__}: expected all tensors to have the same dtype")
    return _rewrapped(func(*_each(plain, list(args)), **_each(plain, kwargs)), dtype)


def _together(func, *tensors):
    """Of several tensors, each of a dtype of its own, views of one shape."""
    several = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    shape = rushlight.broadcast_shapes(*(tensor.shape for tensor in several))
    return tuple(tensor.expand(shape) for tensor in several)


def _one_by_one(func, *tensors):
    """Of several tensors, each of a dtype of its own, a tuple."""
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return _moved(func, tensors, {})
    several = tensors[0] if isinstance(tensors[0], (list, tuple)) else tensors
    return tuple(func(tensor) for tensor in several)


def _changed(func, name, args, kwargs):
    """A tensor that lies elsewhere, or otherwise, than before."""
    for part in _tensors((args, kwargs)):
        if part.dtype != args[0].dtype:
            raise RuntimeError(
                f"{name}: tensors of {args[0].dtype} and {part.dtype} have no memory in common"
            )
    with _C._SubclassesOff():
        func(*args, **kwargs)
    return args[0]


def _joined(func, args, kwargs):
    """Tensors become one, of the dtype that they are promoted to."""
    tensors = _tensors((args, kwargs))
    if func.__name__ not in ("cat", "concat", "stack"):  # the others give each a dim first
        tensors = [rushlight.atleast_1d(part) for part in tensors]
    dtype = common_dtype(tensors)
    args, kwargs = _each(lambda part: plain(cast(part, dtype)), [list(args), kwargs])
    result = func(*args, **kwargs)
    return make(result, dtype) if isinstance(dtype, _CarriedDtype) else result


def _into(func, name, args, out, **kwargs):
    """What a function writes into tensors that are given: its result, converted."""
    if name in _MAKERS and kwargs.get("dtype") is None:
        kwargs["dtype"] = out.dtype
    result = func(*args, **kwargs)
    is_one = isinstance(out, Tensor)
    for given, made in zip([out] if is_one else out, [result] if is_one else result, strict=True):
        _check_castable(name, made.dtype, given.dtype)
        if given.shape != made.shape:
            if given.numel():
                warn_program(
                    "An output with one or more elements was resized since it had shape "
                    f"{list(given.shape)}, which does not match the required output shape "
                    f"{list(made.shape)}"
                )
            given.resize_(made.shape)
        given.copy_(made)
    return out if is_one else type(result)(out)


def _check_castable(name, dtype, wanted):
    if not rushlight.can_cast(dtype, wanted):
        raise RuntimeError(f"{name}: result type {dtype} can't be cast to {wanted}")


def _rewrapped(result, dtype):
    carrier = carrier_of(dtype)
    return _each(lambda t: make(t, dtype) if t.dtype is carrier else t, result)


def _written(func, args, kwargs):
    """Writes bits of this dtype: of tensors, and of numbers as tensors."""
    first, name = args[0], func.__name__
    if name == "where":
        condition, first, *others = args
        operands = (first, *others)
        dtype = common_dtype(operands)
        result = rushlight.where(condition, *[_bits(part, dtype) for part in operands])
        return make(result, dtype) if isinstance(dtype, _CarriedDtype) else result
    if not isinstance(first, CarriedTensor):  # an ordinary tensor takes the numbers
        return func(*_each(_numbers, list(args)), **_each(_numbers, kwargs))
    dtype = first.dtype
    for key in ("value", "fill_value"):
        if key in kwargs:  # stands last
            args, kwargs = (*args, kwargs[key]), {k: v for k, v in kwargs.items() if k != key}
    *middle, last = args[1:]
    if name in ("copy_", "fill_", "fill", "full_like"):
        middle, last = [], args[1]
    if name.startswith("index_put") and (kwargs.get("accumulate") or any(args[3:])):
        if dtype == rushlight.uint64:
            raise NotImplementedError(f"{name}: accumulate=True is not there for dtype {dtype}")
        total = cast(rushlight.index_put(*_each(_numbers, list(args)), **kwargs), dtype)
        return first.copy_(total) if name.endswith("_") else total
    value = _bits(last, dtype)
    wants_number = name in ("fill_", "fill", "masked_fill", "masked_fill_", "index_fill",
                            "index_fill_", "new_full", "full_like")  # fmt: skip
    value = value.item() if wants_number and value.dim() == 0 else value
    result = func(plain(first), *middle, value, **kwargs)
    if name == "copy_" and isinstance(args[1], Tensor):
        _history.follow(first, _history.recorded(args[1]))
    return first if name.endswith("_") else _rewrapped(result, dtype)


def _bits(value, dtype):
    """What is to be written as bits: of a tensor or a number."""
    if not isinstance(value, Tensor):
        value = value - 2**64 if isinstance(value, int) and value >= 2**63 else value
        value = rushlight.tensor(value)
    return plain(cast(value, dtype))


def _numbers(tensor):
    return numbers_of(plain(tensor), tensor.dtype) if isinstance(tensor, CarriedTensor) else tensor


def _computed(func, name, in_place, args, kwargs):
    """What gives elements of the dtype of its operands, or of one that they are promoted to."""
    if in_place:
        out = getattr(rushlight, name)(*args, **kwargs)
        _check_castable(name, out.dtype, args[0].dtype)
        return args[0].copy_(out)
    dtype = common_dtype(_operands(name, args, kwargs))
    if name in _OF_TWO:
        args, kwargs = _each(lambda part: cast(part, dtype), [list(args), kwargs])
    if not isinstance(dtype, _CarriedDtype):
        return func(*args, **kwargs)
    if is_unsigned(dtype) and name in _BITS_SERVE:
        args = [n - 2**64 if isinstance(n, int) and n >= 2**63 else n for n in args]
        return make(func(*_each(plain, args), **_each(plain, kwargs)), dtype)
    if dtype == rushlight.uint64:
        return _ordered(func, name, args, kwargs)
    result = func(*_each(_numbers, list(args)), **_each(_numbers, kwargs))
    if name in ("sort", "unique") and not isinstance(result, Tensor):
        first, *others = result
        parts = (cast(first, dtype), *others)
        return type(result)(parts) if name == "sort" else parts
    if dtype.is_complex and name == "abs":
        return result.half()
    return cast(result, dtype)


def _operands(name, args, kwargs):
    """Those of the arguments that are promoted."""
    if name in _OF_TWO:
        return [*args[:2], *(kwargs[key] for key in ("input", "other") if key in kwargs)]
    return _tensors((args, kwargs)) if name in _PRODUCTS else args[:1] or [kwargs["input"]]


def _tensors(arguments):
    return [part for part in _parts(arguments) if isinstance(part, Tensor)]


_FLIP = -(2**63)  # turns the order of unsigned numbers into that of signed ones


def _ordered(func, name, args, kwargs):
    """Of uint64, what depends on the order of numbers alone."""
    if name in ("floor", "ceil", "round", "trunc", "nan_to_num", "abs", "__abs__", "sgn"):
        return args[0].clone() if name != "sgn" else (args[0] != 0).to(rushlight.uint64)
    if name not in ("sort", "msort", "unique", "maximum", "minimum"):
        raise NotImplementedError(f"{name}: not implemented for dtype torch.uint64")
    turned = [plain(a) ^ _FLIP if isinstance(a, CarriedTensor) else a for a in args]
    result = func(*turned, **kwargs)
    if isinstance(result, Tensor):
        return make(result ^ _FLIP, rushlight.uint64)
    first, *others = result
    parts = (make(first ^ _FLIP, rushlight.uint64), *others)
    return type(result)(parts) if name == "sort" else parts


def _measured(func, args, kwargs):
    """What gives other dtypes than those of its operands."""
    name, dtype = func.__name__, _dtype_of(args, kwargs)
    tensors = _tensors((args, kwargs))
    if name in ("item", "__int__", "__index__", "__bool__", "is_nonzero"):
        return _single(name, args[0])
    if name == "equal" and args[0].shape != args[1].shape:
        return False
    if len(tensors) > 1 and name != "ldexp":
        dtype = common_dtype(tensors)
        args, kwargs = _each(lambda part: cast(part, dtype), [list(args), kwargs])
        if not isinstance(dtype, _CarriedDtype):
            return func(*args, **kwargs)
    compared = name.strip("_") in ("eq", "ne", "lt", "le", "gt", "ge", "equal")
    if compared and dtype == rushlight.uint64 and len(args) == 2 and all(
        isinstance(arg, CarriedTensor) for arg in args
    ):  # fmt: skip
        return func(*_each(lambda t: plain(t) ^ _FLIP, list(args)), **kwargs)
    if dtype == rushlight.uint64 and name in (
        "sum", "nansum", "prod", "cumsum", "cumprod",
    ):  # fmt: skip
        return func(*_each(plain, list(args)), **kwargs)
    result = func(*_each(_numbers, list(args)), **_each(_numbers, kwargs))
    if name != "float_power":
        result = _narrowed(result, dtype, args)
    if dtype.is_complex and name in ("std", "var", "norm") and isinstance(result, Tensor):
        return result.half()
    return result


def _narrowed(result, dtype, args):
    """Numbers of uint64 are float64 here on their way: the result is, if an operand was."""
    wide = (rushlight.float64, rushlight.complex128)
    if dtype != rushlight.uint64 or not (isinstance(result, Tensor) and result.dtype in wide):
        return result
    operands = [part for part in args if isinstance(part, (Tensor, int, float, complex))]
    common = common_dtype(operands)
    is_whole = not (common.is_floating_point or common.is_complex)
    return result.to(rushlight.get_default_dtype() if is_whole else common)


def _single(name, tensor):
    if tensor.numel() != 1:
        return getattr(plain(tensor), name)()
    value = elements(tensor.reshape(()))
    if name == "item":
        return value
    if name in ("__bool__", "is_nonzero"):
        return bool(value)
    if name == "__index__" and not is_unsigned(tensor.dtype):
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(value.real if isinstance(value, complex) else value)


def _to(func, self, *args, **kwargs):
    """`Tensor.to` in its forms: a dtype, a device, both, or another tensor."""
    kwargs = dict(kwargs)
    dtype, copy = kwargs.pop("dtype", None), kwargs.pop("copy", False)
    rest = []
    for arg in args:
        if isinstance(arg, Tensor):
            dtype = arg.dtype
            rest.append(arg.device)
        elif isinstance(arg, (rushlight.dtype, type)) or type(arg) is _CarriedDtype:
            dtype = arg
        elif not isinstance(arg, bool):
            rest.append(arg)
    kwargs.pop("non_blocking", None)
    order = kwargs.pop("memory_format", None)
    if order not in (None, rushlight.preserve_format):
        return _to(func, self, *args, copy=copy, dtype=dtype, **kwargs).contiguous(
            memory_format=order
        )
    dtype = as_dtype(dtype)
    moved = self
    if rest or kwargs.get("device") is not None:
        where = rest[0] if rest else kwargs["device"]
        moved = plain(self).to(where)
        moved = make(moved, self.dtype) if isinstance(self, CarriedTensor) else moved
    if dtype is None or dtype == moved.dtype:
        return moved.clone() if copy and moved is self else moved
    return cast(moved, dtype)


def _viewed(func, self, *args, **kwargs):
    dtype = kwargs.get("dtype", args[0] if args else None)
    if isinstance(dtype, rushlight.dtype):
        wanted = carrier_of(dtype) if isinstance(dtype, _CarriedDtype) else dtype
        seen = plain(self).view(wanted)
        return make(seen, dtype) if isinstance(dtype, _CarriedDtype) else seen
    return _moved(func, (self, *args), kwargs)


def _real(func, self):
    if not self.dtype.is_complex:
        return self
    return _halves(self).select(-1, 0)


def _imag(func, self):
    if not self.dtype.is_complex:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return _halves(self).select(-1, 1)


def _halves(self):
    """Real and imaginary parts over the same memory, in float16."""
    return plain(self).unsqueeze(-1).view(rushlight.float16)


def _conj(func, self):
    return cast(_numbers(self).conj_physical(), self.dtype) if self.dtype.is_complex else self


def _distinct(func, self, *args, **kwargs):
    """Runs of equal elements, which have equal bits where there is one zero and no NaN."""
    if not is_unsigned(self.dtype):
        raise NotImplementedError(f"{func.__name__}: not implemented for dtype {self.dtype}")
    result = func(plain(self), *args, **kwargs)
    if isinstance(result, Tensor):
        return make(result, self.dtype)
    return make(result[0], self.dtype), *result[1:]


def _drawn(func, self, *args, **kwargs):
    """Random whole numbers below a bound."""
    if not args and not kwargs:
        if not is_unsigned(self.dtype) or self.dtype.itemsize == 8:
            raise NotImplementedError(f"random_: give a bound for dtype {self.dtype}")
        args = (2 ** (8 * self.dtype.itemsize),)
    return self.copy_(func(rushlight.empty_like(self, dtype=rushlight.int64), *args, **kwargs))


def _extreme(func, self, *args, **kwargs):
    if args or kwargs or self.dtype.is_complex:
        raise NotImplementedError(
            f"{func.__name__}: of all elements alone is implemented for dtype {self.dtype}"
        )
    ordered = self.flatten().sort()[0]
    return ordered[-1 if func.__name__ == "max" else 0]


def _castable(func, *args, **kwargs):
    one, other = (*args, *kwargs.values())
    rank = [
        3 if d.is_complex else 2 if d.is_floating_point else 0 if d is rushlight.bool else 1
        for d in (one, other)
    ]
    return rank[0] <= rank[1]


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "to": _to,
    "resize_as_": lambda func, self, other, **options: self.resize_(other.shape, **options),
    "type_as": lambda func, self, other: cast(self, other.dtype),
    "view": _viewed,
    "numpy": lambda func, self, **options: array_of(self),
    "tolist": lambda func, self: elements(self),
    "broadcast_tensors": _together,
    "atleast_1d": _one_by_one,
    "atleast_2d": _one_by_one,
    "atleast_3d": _one_by_one,
    "real": _real,
    "imag": _imag,
    "view_as_real": lambda func, self: _halves(self),
    "conj": _conj,
    "adjoint": lambda func, self: self.mH,
    "max": _extreme,
    "min": _extreme,
    "rand_like": lambda func, self, **options: cast(func(_numbers(self), **options), self.dtype),
    "randn_like": lambda func, self, **options: cast(func(_numbers(self), **options), self.dtype),
    "promote_types": lambda func, *args, **kwargs: promoted(*args, *kwargs.values()),
    "result_type": lambda func, *args, **kwargs: common_dtype((*args, *kwargs.values())),
    "can_cast": _castable,
    "unique_consecutive": _distinct,
    "random_": _drawn,
    "randint_like": lambda func, self, *args, **options: cast(
        func(rushlight.empty_like(self, dtype=rushlight.int64), *args, **options), self.dtype
    ),
    "__contains__": lambda func, self, element: bool((self == element).any()),
    "requires_grad_": lambda func, self, requires_grad=True: _history.require(self, requires_grad),
    "detach": lambda func, self: make(plain(self), self.dtype),
    "backward": lambda func, self, gradient=None, *args, **options: _history.recorded(
        self
    ).backward(_numbers(gradient), *args, **options),
    "retain_grad": lambda func, self: _history.recorded(self).retain_grad(),
    "is_floating_point": lambda func, self: self.dtype.is_floating_point,
    "is_complex": lambda func, self: self.dtype.is_complex,
    "is_signed": lambda func, self: self.dtype.is_signed,
    "ones_like": lambda func, self, **options: rushlight.full_like(self, 1, **options),
    "new_ones": lambda func, self, *size, **options: self.new_empty(*size, **options).fill_(1),
    "pad": lambda func, self, *args, **options: _moved(func, (self, *args), options),
    "constant_pad_nd": lambda func, self, *args, **options: _moved(func, (self, *args), options),
}
