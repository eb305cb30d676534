"""Autocast: a region in which matrix products and convolutions run in 16 bits.

Operations of one list cast their floating-point arguments to the region's dtype, those of another
to float32, and a few to the widest dtype that came; all others run in the dtype of their arguments.
float64 is left alone. The lists are those of torch on the CPU, and so is what recurrent layers do.
"""

import functools
import threading
import warnings
from collections.abc import Iterable, Mapping

import rushlight
from rushlight import Tensor
from rushlight.overrides import TorchFunctionMode, _get_current_function_mode_stack, _remove_mode

_LOWER = (
    "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "bmm", "mm", "baddbmm",
    "addmm", "addbmm", "linear", "matmul", "__matmul__", "__rmatmul__", "chain_matmul",
    "matrix_power", "prelu", "tensordot",
    "scaled_dot_product_attention", "linalg.vecdot", "linalg.multi_dot", "linalg.matmul",
    "linalg.matrix_power",
)  # fmt: skip
_FLOAT32 = (
    "adaptive_avg_pool3d", "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool3d",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "cdist", "cholesky", "cholesky_inverse", "cholesky_solve",
    "cosine_embedding_loss",
    "cross_entropy", "ctc_loss", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "geqrf", "grid_sample", "hinge_embedding_loss",
    "huber_loss", "inverse", "istft",
    "kl_div", "l1_loss", "lu_solve", "margin_ranking_loss", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool2d",
    "max_unpool3d", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "nanquantile",
    "nll_loss", "orgqr", "ormqr",
    "pinverse", "poisson_nll_loss", "polar", "prod", "qr", "quantile", "smooth_l1_loss",
    "soft_margin_loss", "stft", "svd",
    "trace", "triangular_solve", "triplet_margin_loss", "view_as_complex",
    *(f"fft.{name}" for name in (
        "fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ihfft",
        "ihfft2", "ihfftn", "irfft",
        "irfft2", "irfftn", "rfft", "rfft2", "rfftn",
    )),
    *(f"linalg.{name}" for name in (
        "cholesky", "cholesky_ex", "cond", "eig", "eigh", "eigvals", "eigvalsh",
        "householder_product", "inv", "inv_ex", "lstsq",
        "matrix_rank", "qr", "solve", "svd", "svdvals", "tensorinv", "tensorsolve",
    )),
)  # fmt: skip
_WIDEST = ("cat", "concat", "concatenate", "index_copy", "index_copy_", "stack")
_DTYPES = (rushlight.bfloat16, rushlight.float16)


class _State(threading.local):
    """The settings of a thread."""

    def __init__(self):
        self.enabled = {"cpu": False}
        self.dtype = {"cpu": rushlight.bfloat16, "cuda": rushlight.float16}
        self.cache_enabled = True
        self.nesting = 0
        self.cache = {}
        self.mode = None


_state = _State()


# ---- the casts


def _is_castable(value):
    return (
        isinstance(value, Tensor)
        and value.is_floating_point()
        and value.device.type == "cpu"
        and value.dtype is not rushlight.float64
    )


def _map(function, value):
    """`function` of a tensor, or of those in a list or tuple; other values as they are."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, (list, tuple)) and not isinstance(value, rushlight.Size):
        return [_map(function, v) for v in value]
    return value


def _to_lower(value):
    """The tensor in the region's dtype. A weight is cast once, and its gradients meet in that
    cast.
    """
    dtype = _state.dtype["cpu"]
    if not _is_castable(value) or value.dtype is dtype:
        return value
    is_weight = (
        value.dtype is rushlight.float32
        and value.requires_grad
        and value.is_leaf
        and not value._is_view()
    )
    if not (is_weight and _state.cache_enabled and _state.nesting):
        return value.to(dtype)
    key = id(value), dtype, rushlight.is_grad_enabled(), value._version
    if key not in _state.cache:
        _state.cache[key] = value, value.to(dtype)
    return _state.cache[key][1]


def _to_float32(value):
    return value.to(rushlight.float32) if _is_castable(value) else value


def _lower(func, args, kwargs):
    return func(*_map(_to_lower, args), **{k: _map(_to_lower, v) for k, v in kwargs.items()})


def _float32(func, args, kwargs):
    return func(*_map(_to_float32, args), **{k: _map(_to_float32, v) for k, v in kwargs.items()})


def _pad(func, args, kwargs):
    """Reflection of one or two dims, and replication, are on the list of float32; other paddings
    are on none.
    """
    named = dict(zip(("input", "pad", "mode"), args), **kwargs)
    mode = named.get("mode", "constant")
    is_listed = mode == "replicate" or (mode == "reflect" and len(named.get("pad", ())) <= 4)
    return (_float32 if is_listed else _plain)(func, args, kwargs)


def _widest(func, args, kwargs):
    dtypes = []
    _map(lambda t: dtypes.append(t.dtype) if _is_castable(t) else None, (*args, *kwargs.values()))
    if len(set(dtypes)) < 2 or "out" in kwargs:
        return func(*args, **kwargs)
    widest = functools.reduce(rushlight.promote_types, dtypes)

    def cast(value):
        return value.to(widest) if _is_castable(value) else value

    return func(*_map(cast, args), **{k: _map(cast, v) for k, v in kwargs.items()})


def _plain(func, args, kwargs):
    return func(*args, **kwargs)


@functools.cache
def _rules():
    """Function -> how to call it."""
    rules = {}
    homes = (rushlight, Tensor, rushlight.nn.functional)
    for names, rule in (
        (_LOWER, _lower),
        (_FLOAT32, _float32),
        (_WIDEST, _widest),
        (("pad",), _pad),
    ):
        for name in names:
            namespace, _, last = name.rpartition(".")
            for home in (getattr(rushlight, namespace),) if namespace else homes:
                if hasattr(home, last):
                    rules[getattr(home, last)] = rule
    return rules


class _Autocast(TorchFunctionMode):
    """Sees every call while a region may be active, and casts where the lists say so."""

    def __init__(self):
        self.rules = _rules()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not _state.enabled["cpu"]:
            return func(*args, **kwargs)
        rule = self.rules.get(func)
        if rule is not None:
            return rule(func, args, kwargs)
        inside = getattr(func, "__wrapped__", None)
        if inside is None:
            return func(*args, **kwargs)
        with self:  # a function of others, written in Python: these may be on a list
            return inside(*args, **kwargs)


# ---- the switches


def is_autocast_available(device_type):
    """Can autocast be asked for on this kind of device?"""
    return device_type == "cpu"


def is_autocast_enabled(device_type="cuda"):
    """Is an enabled region active for this kind of device?"""
    return _state.enabled.get(device_type, False)


def set_autocast_enabled(device_type, enabled):
    """Switch autocast on or off in this thread, as entering and leaving a region does."""
    if not is_autocast_available(device_type):
        if enabled:
            raise RuntimeError(
                f"set_autocast_enabled: autocast is not available on {device_type!r}"
            )
        return
    _state.enabled[device_type] = bool(enabled)
    if enabled and _state.mode is None:
        _state.mode = _Autocast().__enter__()
    elif (
        not enabled
        and _state.mode is not None
        and _get_current_function_mode_stack()[-1:] == [_state.mode]
    ):
        _leave_mode()


def _leave_mode():
    mode, _state.mode = _state.mode, None
    _remove_mode(mode)


def get_autocast_dtype(device_type):
    """The dtype of regions for which none is given."""
    if device_type not in _state.dtype:
        raise RuntimeError(f"get_autocast_dtype: unknown device type {device_type!r}")
    return _state.dtype[device_type]


def set_autocast_dtype(device_type, dtype):
    """Set the dtype of regions for which none is given."""
    get_autocast_dtype(device_type)
    _state.dtype[device_type] = dtype


def is_autocast_cache_enabled():
    """Are the casts of weights kept within a region?"""
    return _state.cache_enabled


def set_autocast_cache_enabled(enabled):
    """Say whether the casts of weights are kept within a region."""
    _state.cache_enabled = bool(enabled)


def clear_autocast_cache():
    """Drop the casts of weights."""
    _state.cache.clear()


def autocast_increment_nesting():
    """Begin a region, which keeps casts of weights until it ends. Returns the depth."""
    _state.nesting += 1
    return _state.nesting


def autocast_decrement_nesting():
    """End a region. Returns the depth."""
    _state.nesting -= 1
    return _state.nesting


def is_autocast_cpu_enabled():
    """The older name of is_autocast_enabled("cpu")."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled):
    """The older name of set_autocast_enabled("cpu", enabled)."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype():
    """The older name of get_autocast_dtype("cpu")."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype):
    """The older name of set_autocast_dtype("cpu", dtype)."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype():
    """The older name of get_autocast_dtype("cuda")."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype):
    """The older name of set_autocast_dtype("cuda", dtype)."""
    set_autocast_dtype("cuda", dtype)


class autocast:
    """A region in which matrix products and convolutions run in 16 bits, and what needs it in
    float32.

    Works as a decorator too. Regions nest; a disabled one inside leaves dtypes alone.

    Args:
        device_type: "cpu"; other kinds of device are warned of, the region then being disabled.
        dtype: bfloat16 (default) or float16.
        enabled: whether the region is one.
        cache_enabled: cast a weight once, however often it is used before the outermost region
        ends.

    Example:
        >>> x = rushlight.ones(2, 2)
        >>> with rushlight.amp.autocast("cpu"):
        ...     y = x @ x
        ...     z = y.float().softmax(0)
        >>> y.dtype, z.dtype
        (torch.bfloat16, torch.float32)
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device_type
        self.fast_dtype = _state.dtype.get(device_type) if dtype is None else dtype
        if enabled and not is_autocast_available(device_type):
            warnings.warn(
                f"User provided device_type of {device_type!r}, but it is not available. Disabling",
                stacklevel=2,
            )
            enabled = False
        if enabled and self.fast_dtype not in _DTYPES:
            warnings.warn(
                f"autocast: the target dtype {self.fast_dtype} is not supported. Disabling.\n"
                "CPU autocast only supports dtype of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = bool(enabled)
        self._cache_enabled = _state.cache_enabled if cache_enabled is None else bool(cache_enabled)
        self._before = []

    def __enter__(self):
        state = _state
        self._before.append(
            (is_autocast_enabled("cpu"), state.dtype["cpu"], state.cache_enabled, state.mode)
        )
        autocast_increment_nesting()
        if self.device == "cpu":
            if self._enabled:
                set_autocast_enabled("cpu", True)
                state.dtype["cpu"] = self.fast_dtype
            else:
                state.enabled["cpu"] = False
        state.cache_enabled = self._cache_enabled
        return self

    def __exit__(self, *exception):
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        enabled, dtype, cache_enabled, mode = self._before.pop()
        _state.enabled["cpu"], _state.dtype["cpu"], _state.cache_enabled = (
            enabled,
            dtype,
            cache_enabled,
        )
        if mode is None and _state.mode is not None:
            _leave_mode()

    def __call__(self, function):
        @functools.wraps(function)
        def decorated(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return decorated


# ---- for autograd.Function


def custom_fwd(fwd=None, *, device_type="cpu", cast_inputs=None):
    """Decorates the forward of an autograd.Function; see custom_bwd.

    Args:
        device_type: the kind of device.
        cast_inputs: inside autocast, floating-point inputs become this dtype and the forward runs
            without autocast. By default it runs with what is around it.
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx, *args, **kwargs):
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = is_autocast_enabled(device_type)
        if cast_inputs is None or not ctx._fwd_used_autocast:
            return fwd(ctx, *args, **kwargs)
        ctx._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return decorated


def custom_bwd(bwd=None, *, device_type="cpu"):
    """Decorates the backward of an autograd.Function, which then runs with autocast as its forward
    did.
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx, *args, **kwargs):
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *args, **kwargs)

    return decorated


def _cast(value, dtype):
    """The floating-point tensors in nested containers as `dtype`; float64 stays."""
    if isinstance(value, Tensor):
        return value.to(dtype) if _is_castable(value) else value
    if isinstance(value, (str, bytes)):
        return value
    if isinstance(value, Mapping):
        return {_cast(k, dtype): _cast(v, dtype) for k, v in value.items()}
    if isinstance(value, Iterable):
        items = [_cast(v, dtype) for v in value]
        return (
            type(value)(items)
            if isinstance(value, (list, tuple)) and not hasattr(value, "_fields")
            else items
        )
    return value
