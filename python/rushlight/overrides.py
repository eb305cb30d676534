"""Taking over functions: `__torch_function__` of classes, and modes that see every function.

A function of the library asks the innermost active mode, then each argument whose class defines
`__torch_function__`, subclasses first, before it computes anything itself.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import types

import rushlight
from rushlight import _C, Tensor, _numpy_names
from rushlight._ignored import warn_program as _warn_program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from typing_extensions import Self

_PythonFunction = types.FunctionType
has_torch_function_unary = _C._has_torch_function_unary
has_torch_function = _C._has_torch_function
DisableTorchFunction = _C.DisableTorchFunction
DisableTorchFunctionSubclass = _C.DisableTorchFunctionSubclass


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """May one of the arguments, or a mode, take over?"""
    return has_torch_function(relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Ask the modes and `relevant_args` to compute public_api(*args, **kwargs).

    Args:
        public_api: the function that the caller called.
        relevant_args: the arguments that may take over.

    Raises:
        TypeError: all of them return NotImplemented.
    """
    return _C._handle_torch_function(public_api, tuple(relevant_args), args, kwargs)


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function be taken over; `dispatcher`, with its signature, returns the arguments that
    may.
    """

    def wrap(function):
        @functools.wraps(function)
        def checked(*args, **kwargs):
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(checked, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return checked

    return wrap


# Functions of the table that torch writes in Python.
_IN_PYTHON = set(
    """_max_pool1d _max_pool2d _max_pool3d batch_norm binary_cross_entropy
    binary_cross_entropy_with_logits celu cross_entropy dropout elu embedding fold glu group_norm
    hardsigmoid hardswish hardtanh kl_div layer_norm leaky_relu mish nll_loss pad relu relu6
    rms_norm selu silu threshold unfold""".split()
)
_forms = {}  # of functions: (required parameters, defaults of the others, how many by position)


def _form_of(function):
    parameters = inspect.signature(function).parameters.values()
    kinds = [p.kind for p in parameters]
    required = [
        p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL
    ]
    optional = {p.name: p.default for p in parameters if p.default is not p.empty}
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return required, {name: v for name, v in optional.items() if name != "out"}, None
    return required, optional, kinds.count(inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _handed_over(function, args, kwargs):
    """(args, kwargs) as a function that torch writes in Python hands them to who takes it over: all
    arguments, those with a default by their names.
    """
    form = _forms.get(function)
    if form is None:
        form = _forms[function] = _form_of(function)
    required, optional, by_position = form
    if by_position is None:  # any number of tensors
        return args, {**optional, **kwargs}
    given = dict(zip((*required, *optional), args))
    given.update(kwargs)
    fits = len(args) <= by_position and len(given) == len(args) + len(kwargs)
    named = {name: given.pop(name, default) for name, default in optional.items()}
    if not fits or len(given) != len(required) or not all(name in given for name in required):
        inspect.signature(function).bind(*args, **kwargs)  # says what is wrong
    return tuple([given[name] for name in required]), named


def _handed_over_by_table(function, args, kwargs):
    """(args, kwargs) of an operation of `nn.functional` that is to be taken over; the core calls
    it.
    """
    if function.__name__ not in _IN_PYTHON:
        return args, kwargs
    return _handed_over(function, args, kwargs or {})


def _overridable(function, home, numpy_names=None, classes_alone=False):
    """The function as users call it from the module `home`: any argument may take it over.

    Args:
        numpy_names: its parameters by NumPy's names for them, where torch has it in its core: it
            takes those names too, and who takes the function over sees the arguments as they were
            given. None where torch writes it in Python: see `_handed_over`.
        classes_alone: modes and the library's own kinds of tensors see what it calls instead.
    """

    @functools.wraps(function)
    def checked(*args, **kwargs):
        relevant = (*args, *kwargs.values()) if kwargs else args
        lists = []  # as einsum and meshgrid take tensors
        for value in relevant:
            if type(value) is list or type(value) is tuple:
                lists.append(value)
        if lists:
            relevant = (*relevant, *itertools.chain.from_iterable(lists))
        if has_torch_function(relevant) and not (classes_alone and _is_seen_inside(relevant)):
            if numpy_names is None:
                args, kwargs = _handed_over(function, args, kwargs)
            return _C._handle_torch_function(checked, relevant, args, kwargs)
        if kwargs and numpy_names:
            kwargs = _numpy_names.rename(function, numpy_names, kwargs)
        try:
            return function(*args, **kwargs)
        except (AttributeError, TypeError):
            _check_tensors(function, args, kwargs)
            raise

    checked.__module__ = home  # where pickle finds it
    return checked


def _check_tensors(function, args, kwargs):
    """Say which argument should have been a tensor, if that is why the function failed."""
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:  # which says itself what is wrong
        return
    for position, (name, value) in enumerate(given.items(), 1):
        is_number = isinstance(value, (bool, int, float, complex))  # an operation may take one
        if function.__annotations__.get(name) == "Tensor" and not (
            is_number or isinstance(value, Tensor) or is_tensor_like(value)
        ):
            raise TypeError(
                f"{function.__name__}(): argument '{name}' (position {position}) must be Tensor, "
                f"not {type(value).__name__}"
            ) from None


def _is_seen_inside(relevant):
    kinds = any(getattr(type(value), "_is_of_core", False) for value in relevant)
    return kinds or _C._len_torch_function_stack() > 0


def _make_overridable(names, home, but=(), only=None, core=None, classes_alone=False):
    """Let the public functions written in Python in a module's table of names be taken over; `only`
    those, where there are others beside them. Those that torch has in its `core` take NumPy's names
    of arguments too; None is all.
    """
    chosen = names if only is None else only
    for name, value in [(name, names[name]) for name in chosen]:
        is_public = only is not None or (not name.startswith("_") and name not in but)
        if is_public and isinstance(value, types.FunctionType):
            in_core = core is None or name in core
            names[name] = _overridable(
                value, home, _numpy_names.numpy_names_of(value) if in_core else None, classes_alone
            )


def is_tensor_like(inp: Any) -> bool:
    """Is it a tensor, or of a class that takes over functions?"""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


# ---- modes


class TorchFunctionMode:
    """A context in which `__torch_function__` of this object sees every function that is called.

    What it calls itself goes to the mode outside of it, if there is one.

    Example:
        >>> class Count(TorchFunctionMode):
        ...     calls = 0
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         self.calls += 1
        ...         return func(*args, **(kwargs or {}))
        >>> with Count() as count:
        ...     y = rushlight.ones(2) + 1
        >>> count.calls
        2
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __torch_function__")

    def __enter__(self) -> Self:
        _C._push_torch_function_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _C._pop_torch_function_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """The older way to write `cls(...)`."""
        _warn_program(
            "`Mode.push()` is `Mode()` by now: enter it by `with`",
        )
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode_stack():
    return [_C._get_function_stack_at(i) for i in range(_C._len_torch_function_stack())]


def _get_current_function_mode():
    """The innermost active mode; None outside of all."""
    modes = _get_current_function_mode_stack()
    return modes[-1] if modes else None


def _remove_mode(mode):
    """End a mode that need not be the innermost one."""
    inner = []
    while (last := _C._pop_torch_function_mode()) is not mode:
        inner.append(last)
    for m in reversed(inner):
        _C._push_torch_function_mode(m)


@contextlib.contextmanager
def _pop_mode_temporarily():
    mode = _C._pop_torch_function_mode()
    try:
        yield mode
    finally:
        _C._push_torch_function_mode(mode)


# ---- which functions there are

_NAMESPACES = ("", "nn.functional", "linalg", "fft", "special", "functional")
_NOT_OVERRIDABLE = (
    "as_tensor", "asarray", "from_dlpack", "from_numpy", "frombuffer", "is_grad_enabled", "load",
    "manual_seed", "save", "seed",
    "initial_seed", "get_rng_state", "set_rng_state", "set_default_dtype", "get_default_dtype",
    "set_default_device",
    "get_default_device", "set_num_threads", "get_num_threads", "set_printoptions", "memory_stats",
    "empty_cache",
    "is_tensor", "is_storage", "typename", "compile", "vmap", "as_torch", "reset_peak_memory_stats",
    "arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randint", "randn",
    "randperm", "tensor",
    "zeros", "empty_strided", "tril_indices", "triu_indices", "scalar_tensor", "promote_types",
    "can_cast", "result_type",
    "as_strided", "bartlett_window", "blackman_window", "broadcast_shapes", "empty_permuted",
    "fill", "from_file", "hamming_window", "hann_window", "kaiser_window", "normal", "rand_like",
    "randint_like", "randn_like", "range", "sparse_bsc_tensor", "sparse_bsr_tensor",
    "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor",
    "vander",
)  # fmt: skip
_METHODS_NOT_OVERRIDABLE = (
    "as_subclass", "eig", "lstsq", "new", "new_empty", "new_empty_strided", "new_full",
    "new_ones", "new_tensor", "new_zeros", "reinforce", "solve", "stride", "symeig",
    "to_padded_tensor", "to_sparse_bsc", "to_sparse_bsr", "to_sparse_coo", "to_sparse_csc",
    "to_sparse_csr", "unflatten", "_make_subclass", "_make_wrapper_subclass",
)  # fmt: skip


def _module(namespace):
    module = rushlight
    for part in namespace.split(".") if namespace else ():
        module = getattr(module, part)
    return module


def get_ignored_functions() -> set[Callable[..., Any]]:
    """The functions that programs need not take over, as torch has them: those that take no
    tensors, and makers of tensors. Modes and subclasses see some of them.
    """
    functions = {getattr(rushlight, name) for name in _NOT_OVERRIDABLE if hasattr(rushlight, name)}
    return functions | {getattr(Tensor, name) for name in _METHODS_NOT_OVERRIDABLE}


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """The functions whose results `Tensor.__torch_function__` leaves as they are."""
    return {Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__}


def _is_function(value):
    kinds = (types.BuiltinFunctionType, types.FunctionType, _C.function)
    return isinstance(value, kinds)


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that can be taken over: module or class -> list of functions."""
    ignored = get_ignored_functions()
    return {
        home: [f for f in functions if f not in ignored] for home, functions in _functions().items()
    }


def _functions():
    """All functions that take tensors or make them: module or class -> list of functions."""
    found = {}
    for namespace in _NAMESPACES:
        module = _module(namespace)
        lazy = getattr(module, "_SUBPACKAGES", ())
        values = (
            getattr(module, name)
            for name in dir(module)
            if name not in lazy and not name.startswith("_")
        )
        found[module] = [v for v in values if _is_function(v)]
    methods = found[Tensor] = []
    for name in dir(Tensor):
        value = getattr(Tensor, name)
        if name in _OBJECT_NAMES:
            continue
        if isinstance(value, types.GetSetDescriptorType):
            methods.append(value.__get__)
        elif callable(value) and not isinstance(value, type):
            methods.append(value)
    return found


_OBJECT_NAMES = {
    *dir(object),
    "__torch_function__",
    "__dict__",
    "__weakref__",
    "__array_priority__",
}


@functools.cache
def _names():
    """Function -> (name, is it a method or property of Tensor that may be taken over?)."""
    names, ignored = {}, get_ignored_functions()
    for home, functions in _functions().items():
        _, dot, inside = home.__name__.partition(".")  # of "rushlight", or "torch" as an alias
        prefix = "torch.Tensor" if home is Tensor else f"torch{dot}{inside}"
        for function in functions:
            label = getattr(function, "__name__", "")
            if label == "__get__":
                label = f"{function.__self__.__name__}.__get__"
            is_method = home is Tensor and function not in ignored
            names.setdefault(function, (f"{prefix}.{label}", is_method))
    return names


def resolve_name(f: Any) -> str:
    """The full name of a function, such as "torch.Tensor.add"; None if it is not of the library."""
    if isinstance(f, str):
        return f
    return _names().get(f, (None, False))[0]


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Is it a method of Tensor, or what reads one of its attributes?"""
    return _names().get(func, (None, False))[1] or getattr(func, "__name__", None) == "__get__"


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Function -> a function with the same parameters that returns -1, for each that arguments may
    take over: for tests of classes that do.
    """

    def example_of(function):
        @functools.wraps(function, assigned=("__name__", "__doc__"), updated=())
        def override(*args, **kwargs):
            return -1

        with contextlib.suppress(TypeError, ValueError):  # some of the core do not tell
            override.__signature__ = inspect.signature(function)
        return override

    found = get_overridable_functions()
    return {f: example_of(f) for functions in found.values() for f in functions}


@contextlib.contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """A context in which a handler's own calls may be taken over again: they always may be, by the
    modes outside of its own.
    """
    yield


def redispatch_function(
    func: Callable[..., Any], types: Sequence[type[Any]], args: Any, kwargs: Any
) -> Any:
    """Call a function that arrived at `__torch_function__`: itself it is not taken over again, by
    subclasses or a mode; what a function written in Python calls is.

    Args:
        func, types, args, kwargs: as they came.
    """
    del types  # who might have taken it over
    args = tuple(args)  # where it is none, CPython 3.11 loses a reference to kwargs in `*args`
    inner = getattr(func, "__wrapped__", None)
    if inner is not None:
        return inner(*args, **(kwargs or {}))
    if isinstance(func, _PythonFunction):
        return _C._skip_one_torch_function(func, args, kwargs or None)
    with _C.DisableTorchFunction():
        return func(*args, **(kwargs or {}))


__all__ = [
    "enable_reentrant_dispatch", "get_testing_overrides", "redispatch_function",
    "BaseTorchFunctionMode", "TorchFunctionMode", "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "resolve_name", "wrap_torch_function",
]  # fmt: skip
