"""Operations of one's own: by `custom_op`, from a function, or by `define` and `impl`, from a
schema; from then on they are `torch.ops.ns.name`.

Example:
    >>> @custom_op("docs::scaled", mutates_args=())
    ... def scaled(x: rushlight.Tensor, by: float) -> rushlight.Tensor:
    ...     return rushlight.from_numpy(x.numpy() * by)
    >>> scaled.register_autograd(
    ...     lambda ctx, grad: (grad * ctx.by, None),
    ...     setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
    ... )
    >>> x = rushlight.ones(2, requires_grad=True)
    >>> rushlight.ops.docs.scaled(x, 3.0).sum().backward()
    >>> x.grad
    tensor([3., 3.])
"""

from __future__ import annotations

import contextlib

import rushlight
from rushlight._set_module import set_module
from rushlight.library._batching import batching_rule
from rushlight.library._dispatch_keys import DispatchKey, DispatchKeySet
from rushlight.library._gradient import Formula
from rushlight.library._opcheck import OpCheckError, opcheck
from rushlight.library._operator import (
    COMPOSITE,
    EVERY_DEVICE,
    BelowAutograd,
    OpOverload,
    OpOverloadPacket,
    by_name,
    finalizer,
    namespace,
    place_of,
    while_alive,
)
from rushlight.library._schema import infer_schema, parse_schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from rushlight.library._schema import Tag
    from rushlight.types import _dtype

_RESERVED = ("prim",)
_owners = {}  # namespace -> the Library of kind DEF that defines it


# ---- a function as an operation


class CustomOpDef:
    """An operation made by `custom_op`; a call is one of `torch.ops.ns.name`."""

    __name__: str

    def __init__(
        self,
        qualname: str,
        schema: str,
        function: Callable[..., Any],
        tags: Tag | Sequence[Tag] | None = (),
    ) -> None:
        self._qualname, self._init_fn = qualname, function
        self._namespace, self._name = qualname.split("::")
        op = self._opoverload = by_name(qualname)
        op.__init__(op.namespace, op._opname, op._overloadname)  # of its last definition, nothing
        op.define(schema, tags)
        op.is_opaque, op.original = True, function
        self.__name__, self.__doc__ = self._name, function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def register_kernel(
        self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """Set what runs on kinds of devices; None: on all that have nothing of their own."""
        return _or_decorator(lambda f: register_kernel(self._opoverload, device_types, f), fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """Set what makes results without data, for tensors on the meta device."""
        return register_fake(self._opoverload, fn)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Set the gradient; see `register_autograd`."""
        register_autograd(self._opoverload, backward, setup_context=setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """Set what vmap does; see `register_vmap`."""
        return _or_decorator(lambda f: register_vmap(self._opoverload, f), func)

    def register_autocast(self, device_type: str, cast_inputs: _dtype) -> None:
        """Set the dtype under autocast; see `register_autocast`."""
        register_autocast(self._opoverload, device_type, cast_inputs)

    def register_torch_dispatch(
        self, torch_dispatch_class: Any, fn: Callable[..., Any] | None = None, /
    ) -> Callable[..., Any]:
        """Refused, with a reason: see `register_torch_dispatch`."""
        return register_torch_dispatch(self._opoverload, torch_dispatch_class, fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[Any]:
        """Within the context, use the kernel for the kind of device, or the function itself."""
        disabled = self._opoverload.disabled
        before = device_type in disabled
        (disabled.discard if enabled else disabled.add)(device_type)
        try:
            yield
        finally:
            (disabled.add if before else disabled.discard)(device_type)


def _or_decorator(register, fn):
    return register if fn is None else register(fn)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Tag | Sequence[Tag] | None = None,
) -> Callable[[Callable[..., object]], CustomOpDef] | CustomOpDef:
    """Make an operation of a function.

    Nothing looks inside: what the function does is not recorded, and its gradient is the one that
    `register_autograd` gives it.

    Args:
        name: "namespace::name".
        mutates_args: names of the arguments that it changes in place, or "unknown": any tensor.
        device_types: the kinds of devices whose tensors it takes; None: all.
        schema: the signature; None: that of the annotations, see `infer_schema`.

    Returns:
        CustomOpDef: what is called in place of the function.
    """

    def make(function):
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        parsed = parse_schema(f"{name}{text}")
        written = {a.name for a in parsed.arguments if a.is_write}
        if schema is not None and mutates_args != "unknown" and written != set(mutates_args):
            raise ValueError(
                f"custom_op: mutates_args={mutates_args}, but by its schema {schema} the "
                f"operation changes {written or 'nothing'}"
            )
        for argument in parsed.arguments:
            if argument.kwarg_only and argument.is_of_tensors:
                raise NotImplementedError(
                    "custom_op with kwarg-only Tensor args: tensors must be positional, got "
                    f"{parsed}"
                )
        made = CustomOpDef(name, parsed, function, _listed(tags))
        made.register_kernel(device_types, function)
        return made

    if name.count("::") != 1:
        raise ValueError(f"custom_op: expected a name of the form namespace::name, got {name!r}")
    return make if fn is None else make(fn)


def _listed(tags):
    return [] if tags is None else list(tags) if isinstance(tags, (list, tuple)) else [tags]


def triton_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    schema: str | None = None,
) -> Callable[..., Any]:
    """As `custom_op`: the function may hold Triton kernels only where there is a GPU."""
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Callable[..., Any], /) -> Any:
    """Refused: Triton's kernels need a GPU, and rushlight was built without."""
    raise NotImplementedError(
        f"wrap_triton: {getattr(triton_kernel, '__name__', triton_kernel)} is a Triton kernel, "
        "which needs a GPU; rushlight was built without CUDA"
    )


# ---- operations from schemas


class Library:
    """A group of definitions and kernels, which end when it is deleted.

    Args:
        ns: the namespace.
        kind: "DEF" for the one library that owns the namespace, "FRAGMENT" for others that define
            operations in it, "IMPL" for kernels alone.
        dispatch_key: that of `impl` where it is given none.
    """

    ns: str
    dispatch_key: str

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED and kind != "IMPL":
            raise ValueError(f"{ns} is a reserved namespace")
        if kind == "DEF":
            if ns in _owners:
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; use "
                    "the kind FRAGMENT for more definitions, or IMPL for kernels"
                )
            _owners[ns] = True
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._undo = [] if kind != "DEF" else [lambda: _owners.pop(ns, None)]
        self._finalizer = finalizer(self, self._undo)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Sequence[Any] = ()) -> str:
        """Add an operation, by its schema without the namespace; returns its name."""
        if self.kind == "IMPL":
            raise RuntimeError(f"define() cannot be called inside of a Library of kind {self.kind}")
        parsed = parse_schema(f"{self.ns}::{schema}")
        op = by_name(parsed.name + (f".{parsed.overload_name}" if parsed.overload_name else ""))
        if op._schema is not None:
            raise RuntimeError(
                f"Tried to register an operator ({parsed}) whose name and overload name are "
                f"taken: {op._schema}"
            )
        op.define(parsed, _listed(tags))
        while_alive(self, lambda: setattr(op, "_schema", None))
        return op._opname

    def impl(
        self,
        op_name: str,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = True,
    ) -> None:
        """Add a kernel: `fn` runs where the dispatch key says, such as "CPU"."""
        if with_keyset:
            raise NotImplementedError("Library.impl: there are no key sets, with_keyset=True")
        if isinstance(op_name, (OpOverload, OpOverloadPacket)):
            op_name = str(op_name).partition(".")[2]
        if self.ns == "aten" and by_name(f"aten::{op_name}")._schema is None:
            raise NotImplementedError(
                f"Library.impl: aten::{op_name} is rushlight's own, which cannot be replaced"
            )
        place = place_of(dispatch_key or self.dispatch_key)
        op = by_name(f"{self.ns}::{op_name.rpartition('::')[2]}")
        if not allow_override and place in op.kernels:
            raise RuntimeError(
                f"Library.impl: {op_name} has a kernel for {place}, and allow_override=False"
            )
        _set_kernel(op, place, fn, self)

    def fallback(
        self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False
    ) -> Any:
        """Refused: no function can stand in for all operations of a device."""
        raise NotImplementedError("Library.fallback: register a kernel for each operation")

    def register_symm_mem_args(self, op_name: Any, arg_names: Sequence[str]) -> None:
        """Refused: no compiler here could allocate arguments in memory that GPUs share."""
        raise NotImplementedError(
            f"Library.register_symm_mem_args: {op_name}: {', '.join(arg_names)}: arguments are "
            "allocated by programs; there is no compiler that would put them into symmetric memory"
        )

    def _destroy(self):
        self._finalizer()


def _set_kernel(op, place, fn, lib=None):
    op.kernels[place] = fn

    def undo():
        if op.kernels.get(place) is fn:
            del op.kernels[place]

    while_alive(lib, undo)


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


_kept = {}  # the libraries of `define` and `impl` without lib=


def _library_of(namespace_name):
    if namespace_name not in _kept:
        _kept[namespace_name] = Library(namespace_name, "FRAGMENT")
    return _kept[namespace_name]


def define(
    qualname: Library | str, schema: str, *, lib: Library | None = None, tags: Sequence[Any] = ()
) -> Callable[..., Any]:
    """Add an operation: define("ns::name", "(Tensor x, int n=2) -> Tensor")."""
    if isinstance(qualname, Library):  # the older form: define(lib, "name(Tensor x) -> Tensor")
        name = qualname.define(schema, tags=tags)

        def decorate(fn):
            qualname.impl(name, fn)
            return fn

        return decorate
    if not isinstance(qualname, str):
        raise ValueError(f"define: expected a name of type str, got {type(qualname).__name__}")
    namespace_name, _, name = qualname.partition("::")
    if not name:
        raise ValueError(f"define: expected a name of the form namespace::name, got {qualname!r}")
    (lib or _library_of(namespace_name)).define(name + schema, tags=tags)


def impl(
    qualname: Any,
    types: str | Sequence[str],
    func: Callable[..., Any] | None = None,
    *,
    lib: Library | None = None,
) -> object:
    """Add a kernel: for kinds of devices ("cpu", "meta"), "default", or a dispatch key."""
    if isinstance(qualname, Library):  # the older form: impl(lib, "name", "CPU")
        return _or_decorator(
            lambda f: (qualname.impl(types, f, "" if func is None else func), f)[1], None
        )

    def register(fn):
        for one in (types,) if isinstance(types, str) else types:
            _set_kernel(by_name(qualname), place_of(one), fn, lib)
        return fn if func is None else None

    return register if func is None else register(func)


# ---- what an operation does in other situations


def _resolve(op):
    if isinstance(op, str):
        return by_name(op)
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, OpOverloadPacket):
        return op.default
    if isinstance(op, OpOverload):
        return op
    raise ValueError(f"expected the name of an operation or the operation, got {op!r}")


def register_kernel(
    op: str | OpOverload | CustomOpDef,
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Callable[..., Any]:
    """Set what an operation runs on kinds of devices; None: on all without a kernel."""
    target = _resolve(op)

    def register(fn):
        kinds = (device_types,) if isinstance(device_types, str) else device_types
        for kind in (EVERY_DEVICE,) if kinds is None else kinds:
            _set_kernel(target, place_of(kind), fn, lib)
        return fn

    return _or_decorator(register, func)


def register_fake(
    op: str | OpOverload | CustomOpDef,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = True,
) -> Callable[..., Any]:
    """Set what makes an operation's results without data, for tensors on the meta device."""
    target = _resolve(op)
    if not allow_override and target.fake is not None:
        raise RuntimeError(f"register_fake: {op} has one already, and allow_override=False")

    def register(fn):
        target.fake = fn
        while_alive(lib, lambda: setattr(target, "fake", None))
        return fn

    return _or_decorator(register, func)


def impl_abstract(
    qualname: Any, func: Callable[..., Any] | None = None, *, lib: Any = None, _stacklevel: int = 1
) -> Any:
    """The older name of `register_fake`."""
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: str | OpOverload | CustomOpDef,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Set an operation's gradient.

    Args:
        backward: backward(ctx, *grads), which returns a gradient for each argument, None where
            there is none; for a list of tensors, a list.
        setup_context: setup_context(ctx, inputs, output), which leaves in ctx what backward needs;
            with keyword_only_inputs too where the operation has such.

    Raises:
        RuntimeError: the operation changes arguments in place.
    """
    target = _resolve(op)
    schema = target._schema
    if schema is not None and schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {target} with schema "
            f"{schema}. A gradient belongs to an operation that changes none of its arguments "
            "and returns no view of them."
        )
    if schema is not None and any(a.kwarg_only and a.is_of_tensors for a in schema.arguments):
        raise NotImplementedError(
            "register_autograd with kwarg-only Tensor args: tensors must be positional in the "
            f"definition, got {schema}"
        )
    target.gradient = Formula(backward, setup_context)
    while_alive(lib, lambda: setattr(target, "gradient", None))


def register_vmap(
    op: str | OpOverload | CustomOpDef,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Any = None,
) -> Callable[..., Any]:
    """Set how vmap computes an operation: func(info, in_dims, *args) returns (output, out_dims).

    Without a rule, it is called for each example.
    """
    target = _resolve(op)

    def register(fn):
        target.batching_rule = batching_rule(fn)
        while_alive(lib, lambda: setattr(target, "batching_rule", None))
        return fn

    return _or_decorator(register, func)


def register_autocast(
    op: str | OpOverload | CustomOpDef,
    device_type: str,
    cast_inputs: _dtype,
    /,
    *,
    lib: Library | None = None,
) -> None:
    """Cast an operation's floating-point arguments to `cast_inputs` inside autocast regions."""
    if not isinstance(device_type, str):
        raise ValueError(f"register_autocast: device_type is no str but {device_type!r}")
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device type: {device_type}")
    target = _resolve(op)
    target.casts[device_type] = cast_inputs
    while_alive(lib, lambda: target.casts.pop(device_type, None))


def register_torch_dispatch(
    op: str | OpOverload | CustomOpDef,
    torch_dispatch_class: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Refused: there is no `__torch_dispatch__`; classes see functions by `__torch_function__`."""
    raise NotImplementedError(
        f"register_torch_dispatch: {_resolve(op)} cannot be taken over below autograd; "
        "__torch_function__ sees each call of it"
    )


def fallthrough_kernel() -> Any:
    """A kernel that does nothing, for `Library.impl`."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def get_ctx() -> Any:
    """Refused: sizes that depend on data do not exist on the meta device."""
    raise NotImplementedError(
        "get_ctx: a fake implementation runs on tensors of the meta device, where no size depends "
        "on data"
    )


def get_kernel(op: str | OpOverload | CustomOpDef, dispatch_key: Any) -> Kernel:
    """The kernel that an operation has for a dispatch key.

    Args:
        op: the operation, or its name with that of the overload, as "aten::add.Tensor".
        dispatch_key: "CPU", "CUDA" or "Meta", or such a member of `DispatchKey`.

    Raises:
        RuntimeError: there is no such operation, or it has no kernel for the key.
        ValueError: there is no such key.

    Example:
        >>> kernel = get_kernel("aten::add.Tensor", "CPU")
        >>> keys = rushlight.DispatchKeySet(rushlight.DispatchKey.CPU)
        >>> kernel.call_boxed(keys, rushlight.ones(2), rushlight.ones(2))
        tensor([2., 2.])
    """
    target, key = _resolve(op), str(dispatch_key).removeprefix("DispatchKey.")
    on_device = (EVERY_DEVICE, COMPOSITE) if key in ("CPU", "CUDA", "Meta") else ()
    for place in (place_of(key), *on_device):
        if place in target.kernels:
            return Kernel(target, key, target.kernels[place])
    if key not in DispatchKey.__members__:
        raise ValueError(f"Invalid dispatch key: {key}")
    builtin = _builtin_of(target)
    if builtin is None and target._schema is None:
        raise RuntimeError(f"operator {target.name()} does not exist")
    if builtin is None or not on_device:
        raise RuntimeError(f"{target.name()} has no kernel for {key}")
    return Kernel(target, key, _below_autograd(builtin, key.lower()))


class Kernel:
    """What an operation runs for a dispatch key; see `get_kernel`."""

    def __init__(self, op: OpOverload, key: str, function: Callable[..., Any]) -> None:
        self.op_handle = op
        self._key, self._function = key, function

    def call_boxed(self, keys: DispatchKeySet, /, *args: Any, **kwargs: Any) -> Any:
        """Run it; the keys, of the call that it is a part of, change nothing."""
        if not isinstance(keys, DispatchKeySet):
            raise TypeError(f"call_boxed: expected a DispatchKeySet first, got {type(keys)}")
        return self._function(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"SafeKernelFunction(debug='{self.op_handle.name()} for {self._key}')"


def _builtin_of(op):
    """The library's own operation of that name, or None."""
    if op.namespace != "aten" or not hasattr(rushlight.ops.aten, op._opname):
        return None
    return getattr(getattr(rushlight.ops.aten, op._opname), op._overloadname, None)


def _below_autograd(op, device):
    def kernel(*args, **kwargs):
        for value in (*args, *kwargs.values()):
            if isinstance(value, rushlight.Tensor) and value.device.type != device and value.dim():
                raise RuntimeError(
                    f"{op.name()}: a kernel for {device} was given a tensor on {value.device}"
                )
        with BelowAutograd():
            return op(*args, **kwargs)

    return kernel


__all__ = [
    "Library", "impl", "define", "fallthrough_kernel", "impl_abstract", "register_autocast",
    "register_fake", "register_torch_dispatch", "register_vmap", "get_ctx", "get_kernel",
    "custom_op", "triton_op", "wrap_triton", "infer_schema",
]  # fmt: skip

set_module(__name__, infer_schema, opcheck)
set_module("rushlight._ops", OpOverload)
