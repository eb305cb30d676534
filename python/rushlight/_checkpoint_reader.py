"""Reads the object of a checkpoint without running anything that the file names.

torch writes objects in the pickle format. This reader understands the part of the format that
builds containers, numbers and strings, and of the functions and classes that a file may name, it
knows those that torch itself writes for tensors: each has a plain Python function here. Nothing is
ever looked up by the name in the file; what is not in the tables is refused.

A few bytes can stand for much work, as a value that was read once may be used again and again. So
whatever costs more than the bytes that ask for it is paid from a budget (`Budget`), which grows
with the bytes that were read.
"""

from __future__ import annotations

import copyreg
import math
import pickle
import struct
from collections import Counter, OrderedDict, defaultdict, deque

import rushlight
from rushlight import _tensor
from rushlight._absent_dtypes import _CarriedDtype
from rushlight._checkpoint_numpy import (
    ArrayDtype,
    empty_array,
    is_array,
    scalar_from,
    set_array_state,
)
from rushlight._checkpoint_types import (
    DTYPES,
    QUANTIZED_STORAGES,
    STORAGE_DTYPES,
    check_geometry,
    last_place,
    tensor_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight import TypedStorage, UntypedStorage
    from rushlight.nn.modules.module import Module
    from rushlight.types import _dtype

_MAX_KEY_DEPTH = 16  # hashing nested tuples uses the C stack
_FREE_WORK = 1 << 26  # 64 MB of copies, or about a second of hashing
_WORK_PER_BYTE = 32
_WORK_TO_HASH = 16
_SMALL_INT = 1 << 60  # the hash of a smaller one is the number itself

# Bytes per element that copies take.
_SIZED = {
    **dict.fromkeys((str, bytes, bytearray), 1),
    **dict.fromkeys((list, tuple, deque, rushlight.Size), 8),
    **dict.fromkeys((dict, OrderedDict, Counter, defaultdict, set, frozenset), 64),
}


# What is in them is never allowed, though a program may ask for it.
_BLOCKED_MODULES = {"sys", "os", "posix", "nt"}


class Name:
    """A function or class that the file names, before anything is known about it."""

    def __init__(self, module: Module, name: str) -> None:
        # files written with protocol 2 use the names of Python 2
        module = {"__builtin__": "builtins"}.get(module, module)
        self.key = (module, {"xrange": "range"}.get(name, name))

    def __str__(self) -> str:
        return ".".join(self.key)


class Refused(pickle.UnpicklingError):
    """The file names something that is not known to be safe."""

    def __init__(self, name: Name) -> None:
        module, attribute = name.key
        if module in _BLOCKED_MODULES:
            super().__init__(
                f"Weights only load failed. Unsupported global: GLOBAL {name} is in the module"
                f" {module}, which is blocked: no setting allows it."
            )
            return
        super().__init__(
            f"Weights only load failed. Unsupported global: GLOBAL {name} was not an allowed"
            " global by default. If you trust the source of the file, allow it with"
            f" `torch.serialization.add_safe_globals([{attribute}])`, or for a while with"
            f" `torch.serialization.safe_globals([{attribute}])`, or run whatever the file contains"
            " with `load(..., weights_only=False)`."
        )


def _expect(value, *kinds):
    if type(value) not in kinds:
        names = " or ".join(kind.__name__ for kind in kinds)
        raise pickle.UnpicklingError(f"expected {names}, found {type(value).__name__}")
    return value


class Budget:
    """How much work a file may still ask for, in copied bytes and what takes as long.

    Args:
        read: () -> number of bytes read so far.
    """

    def __init__(self, read: Callable[..., Any]) -> None:
        self._read = read
        self._spent = 0

    def pay(self, work: int) -> None:
        """Raise an error if that is more than the file may ask for."""
        self._spent += work
        if self._spent > _FREE_WORK and self._spent > _FREE_WORK + _WORK_PER_BYTE * self._read():
            raise pickle.UnpicklingError("the checkpoint asks for more work than its size allows")

    def pay_for(self, values: Any) -> None:
        """Pay for going through each of `values`, and each part of those that are tuples."""
        work = _copied_bytes(values)
        for value in values:
            work += _copied_bytes(value)
            if isinstance(value, tuple):
                work += sum(map(_copied_bytes, value))
        self.pay(work)

    def hashable(self, key: str) -> tuple[Any, ...]:
        """Return `key` if it may be a key of a dict or an element of a set."""
        pending = [(key, 0)]
        while pending:
            value, depth = pending.pop()
            self.pay(_WORK_TO_HASH + (value.bit_length() // 8 if isinstance(value, int) else 0))
            if isinstance(value, (tuple, frozenset)):
                if depth > _MAX_KEY_DEPTH:
                    raise pickle.UnpicklingError("a key is nested too deeply")
                self.pay(_WORK_TO_HASH * len(value))
                pending += [(part, depth + 1) for part in value]
            elif isinstance(value, rushlight.Tensor) or value.__hash__ is None:
                raise pickle.UnpicklingError(f"a key is of type {type(value).__name__}")
        return key

    def keys(self) -> Callable[..., Any]:
        """A function that checks and pays for one key after the other of a dict or set.

        Different keys of one hash, which are easily made of numbers, are compared with each other.
        """
        equal_hashes = Counter()

        def checked(key):
            if _is_cheap(key):
                return key
            before = self._spent
            found = hash(self.hashable(key))
            self.pay(equal_hashes[found] * (self._spent - before))
            equal_hashes[found] += 1
            return key

        return checked


_UNLIMITED = Budget(lambda: math.inf)


def _copied_bytes(value):
    width = _SIZED.get(type(value))
    return 0 if width is None else width * len(value)


def _is_cheap(key):
    """Is it one of the usual keys, which need no check?"""
    kind = type(key)
    return kind is str or kind is int and -_SMALL_INT < key < _SMALL_INT


# --- what the file may call; `budget` is for what costs more than going through the arguments once


def _rebuild_tensor(
    storage, offset, size, stride, requires_grad=False, hooks=None, metadata=None, *,
    dtype=None, budget=_UNLIMITED,
):  # fmt: skip
    if dtype is None:
        if not isinstance(storage, rushlight.TypedStorage):
            raise pickle.UnpicklingError("a tensor refers to something that is not a typed storage")
        storage, dtype = storage.untyped(), storage.dtype
    tensor = tensor_of(storage, dtype, offset, _expect(size, tuple), _expect(stride, tuple))
    for name, is_set in _expect({} if metadata is None else metadata, dict, OrderedDict).items():
        if name not in ("conj", "neg"):
            raise pickle.UnpicklingError(f"tensors with the property {name!r} are not supported")
        if is_set:
            budget.pay(tensor.nbytes)  # whoever reads the view computes them
            tensor = tensor.conj() if name == "conj" else rushlight._neg_view(tensor)
    if requires_grad:
        tensor.requires_grad_()
    _expect_no_hooks(hooks)
    return tensor


def _rebuild_tensor_v3(
    storage, offset, size, stride, requires_grad, hooks, dtype, metadata=None, *,
    budget=_UNLIMITED,
):  # fmt: skip
    _expect(dtype, rushlight.dtype, _CarriedDtype)
    if isinstance(storage, rushlight.TypedStorage):
        storage = storage.untyped()
    return _rebuild_tensor(
        _expect(storage, rushlight.UntypedStorage), offset, size, stride, requires_grad, hooks,
        metadata, dtype=dtype, budget=budget,
    )  # fmt: skip


def _expect_no_hooks(hooks):
    if hooks:  # torch leaves them out when it saves
        raise pickle.UnpicklingError("the file has a tensor with hooks")


def _rebuild_meta_tensor(dtype, size, stride, requires_grad):
    _expect(dtype, rushlight.dtype)
    check_geometry(0, _expect(size, tuple, rushlight.Size), _expect(stride, tuple))
    if math.prod(max(n, 1) for n in size) >= 2**59 or last_place(0, size, stride) >= 2**59:
        raise pickle.UnpicklingError(
            f"a meta tensor has the impossible sizes {size} and strides {stride}"
        )
    return rushlight.empty_strided(
        size, stride, dtype=dtype, device="meta", requires_grad=bool(requires_grad)
    )


def _rebuild_sparse(layout, parts, *, budget=_UNLIMITED):
    is_coo = layout is rushlight.sparse_coo
    if layout not in _SPARSE_LAYOUTS.values() or len(_expect(parts, tuple)) not in (
        (3, 4) if is_coo else (4,)
    ):
        raise pickle.UnpicklingError("a sparse tensor of a layout that is not supported")
    *tensors, size = parts[: 3 if is_coo else 4]
    for part in tensors:
        if type(part) is not rushlight.Tensor or part.is_meta:
            raise pickle.UnpicklingError("a sparse tensor is not made of tensors")
        budget.pay(part.nbytes)  # may be more than there are in its storage
    size = rushlight.Size([_expect(n, int) for n in _expect(size, tuple, rushlight.Size)])
    try:
        if is_coo:
            is_coalesced = bool((*parts, None)[3])
            return rushlight.sparse_coo_tensor(*tensors, size, is_coalesced=is_coalesced)
        return rushlight.sparse_compressed_tensor(*tensors, size, layout=layout)
    except (RuntimeError, IndexError) as error:  # indices that the size does not allow
        raise pickle.UnpicklingError(f"a damaged sparse tensor: {error}") from error


def _rebuild_nested(buffer, sizes, strides, offsets, *, budget=_UNLIMITED):
    from rushlight.nested._tensor import make

    for part in (buffer, sizes, strides, offsets):
        _expect(part, rushlight.Tensor)
        budget.pay(_SIZED[dict] * (0 if part is buffer else part.numel()))
    geometry = [offsets.tolist(), sizes.tolist(), strides.tolist()]
    storage, grad = buffer.untyped_storage(), buffer.requires_grad
    return make(
        [
            tensor_of(storage, buffer.dtype, *place).requires_grad_(grad)
            for place in zip(*geometry, strict=True)
        ],
        False,
    )


def _rebuild_jagged(parts, *, budget=_UNLIMITED):
    from rushlight.nested import nested_tensor_from_jagged

    values, offsets, lengths, dim, needs_grad = (
        _expect(parts, dict).get(name)
        for name in ("values", "offsets", "lengths", "_ragged_idx", "requires_grad")
    )
    for part in (values, offsets, *([] if lengths is None else [lengths])):
        _expect(part, rushlight.Tensor)
        budget.pay(_SIZED[dict] * (0 if part is values else part.numel()))
    if not 1 <= _expect(dim, int) <= values.dim():
        raise pickle.UnpicklingError(f"a nested tensor whose dim {dim} differs")
    try:
        nested = nested_tensor_from_jagged(values, offsets, lengths, dim)
    except RuntimeError as error:
        raise pickle.UnpicklingError(f"a damaged nested tensor: {error}") from error
    nested.requires_grad = bool(needs_grad)
    return nested


def _rebuild_wrapper(kind, dtype, size, stride, offset, layout, device, requires_grad):
    """A tensor of a class with `__torch_dispatch__`, without elements; its state follows."""
    if not (isinstance(kind, type) and issubclass(kind, rushlight.Tensor)):
        raise pickle.UnpicklingError("a wrapper is not of a class of tensors")
    _expect(dtype, rushlight.dtype)
    check_geometry(offset, _expect(size, tuple, rushlight.Size), _expect(stride, tuple))
    return _tensor._rebuild_wrapper_subclass(
        kind, dtype, size, stride, offset, layout, device, bool(requires_grad)
    )


class _Hint:
    """What torch notes for its compiler at the tensors of a nested one; not kept."""

    def __setstate__(self, state: Any) -> None:
        pass


def _rebuild_quantized(
    storage, offset, size, stride, parts, requires_grad, hooks, *, budget=_UNLIMITED
):
    from rushlight._quantized._tensor import Quantizer, make

    integers = _rebuild_tensor(storage, offset, size, stride, False, hooks, budget=budget)
    scheme, scale, zero_point, *axis = _expect(parts, tuple)
    if scheme is rushlight.per_tensor_affine and not axis:
        quantizer = Quantizer(_expect(scale, float), _expect(zero_point, int))
    else:
        if scheme not in _PER_CHANNEL or len(axis) != 1:
            raise pickle.UnpicklingError("a quantized tensor of a scheme that is not supported")
        (axis,) = axis
        if not 0 <= _expect(axis, int) < integers.dim():
            raise pickle.UnpicklingError(f"a quantized tensor with its channels at dim {axis}")
        for part in (scale, zero_point):
            if type(part) is not rushlight.Tensor or part.shape != (integers.size(axis),):
                raise pickle.UnpicklingError("a quantized tensor whose channels have no scales")
        quantizer = Quantizer(scale, zero_point, axis, scheme)
    if integers.dtype not in QUANTIZED_STORAGES.values() or requires_grad:
        raise pickle.UnpicklingError("a quantized tensor is not made of integers")
    return make(integers, quantizer)


def _rebuild_parameter(data, requires_grad, hooks, state=None):
    if not isinstance(data, rushlight.Tensor):
        raise pickle.UnpicklingError("a parameter is not made of a tensor")
    parameter = rushlight.nn.Parameter(data, bool(requires_grad))
    _expect_no_hooks(hooks)
    return _with_attributes(parameter, state)


def _with_attributes(tensor, state):
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    _set_attributes(tensor, {} if attributes is None else attributes)
    for name, value in _expect({} if slots is None else slots, dict).items():
        if name not in copyreg._slotnames(type(tensor)):
            raise pickle.UnpicklingError(f"the file sets {type(tensor).__name__}.{name}, no slot")
        setattr(tensor, name, value)
    return tensor


def _set_attributes(target, state):
    """Set attributes of an instance, but none that would hide what its class does."""
    for name, value in _expect(state, dict, OrderedDict).items():
        owner = next((c for c in type(target).__mro__ if _expect(name, str) in vars(c)), None)
        of_class = None if owner is None else vars(owner)[name]
        is_default = not callable(of_class) and not hasattr(of_class, "__get__")
        if not is_default and not _may_hide(type(target), owner, name):
            raise pickle.UnpicklingError(f"the file sets {type(target).__name__}.{name}")
        setattr(target, name, value)


def _may_hide(kind, owner, name):
    """Is it a method of all tensors, whose name a class that the user trusts has for its parts?"""
    return (
        owner in rushlight.Tensor.__mro__[:-1]
        and kind not in (rushlight.Tensor, rushlight.nn.Parameter)
        and not name.startswith("__")
        and not hasattr(type(vars(owner)[name]), "__set__")
    )


def _encode(text, encoding):
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"bytes are encoded as {encoding!r}, expected latin1")
    return _expect(text, str).encode("latin1")


def _bytearray(data=b"", encoding=None):
    return bytearray(_encode(data, encoding) if encoding else _expect(data, bytes))


def _set(items=(), *, budget):
    budget.pay(_SIZED[set] * len(_expect(items, list, tuple)))
    return set(map(budget.keys(), items))


def _frozenset(items=(), *, budget):
    return frozenset(_set(items, budget=budget))


def _ordered_dict(items=None, *, budget):
    items = _expect([] if items is None else items, list)
    budget.pay(_SIZED[dict] * len(items))
    result, checked = OrderedDict(), budget.keys()
    for pair in items:
        key, value = _expect(pair, list, tuple)
        result[checked(key)] = value
    return result


def _default_dict(factory=None, items=None):
    if factory not in (None, *_FACTORIES.values()):
        raise pickle.UnpicklingError("a defaultdict makes its values in an unknown way")
    return defaultdict(factory, _expect({} if items is None else items, dict))


_SPARSE_LAYOUTS = {
    str(layout): layout
    for layout in (
        rushlight.sparse_coo, rushlight.sparse_csr, rushlight.sparse_csc, rushlight.sparse_bsr,
        rushlight.sparse_bsc,
    )
}  # fmt: skip


def _layout(text):
    if text in _SPARSE_LAYOUTS:
        return _SPARSE_LAYOUTS[text]
    if text != "torch.strided":
        raise pickle.UnpicklingError(f"tensors of layout {text!r} are not supported")
    return rushlight.strided


def _size(sizes=()):
    numbers = _expect(sizes, tuple, list, rushlight.Size)
    if not all(type(n) is int and -(2**63) <= n < 2**63 for n in numbers):
        raise pickle.UnpicklingError("a size is made of something other than 64-bit integers")
    return rushlight.Size(numbers)


def _number(kind):
    return lambda *parts: kind(*[_expect(part, int, float) for part in parts])


def _integers(kind):
    return lambda *parts: kind(*[_expect(part, int, type(None)) for part in parts])


_FACTORIES = {
    ("builtins", name): kind
    for name, kind in [
        ("list", list),
        ("dict", dict),
        ("set", set),
        ("int", int),
        ("float", float),
        ("str", str),
        ("bool", bool),
        ("tuple", tuple),
    ]
}
_PER_CHANNEL = (rushlight.per_channel_affine, rushlight.per_channel_affine_float_qparams)
_QUANTIZED_NAMES = (
    "qint8", "quint8", "qint32", "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine",
    "per_channel_symmetric", "per_channel_affine_float_qparams",
)  # fmt: skip
_CONSTANTS = {
    **_FACTORIES,
    **{("torch", name): getattr(rushlight, name) for name in _QUANTIZED_NAMES},
    **{("torch", name): dtype for name, dtype in DTYPES.items()},
    ("builtins", "NoneType"): type(None),
}
_HINT = ("torch._dynamo.decorators", "_DimRange")
_FUNCTIONS = {
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_tensor_v3,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): _rebuild_meta_tensor,
    ("torch._utils", "_rebuild_nested_tensor"): _rebuild_nested,
    ("torch._utils", "_rebuild_wrapper_subclass"): _rebuild_wrapper,
    ("torch.nested._internal.nested_tensor", "_rebuild_njt"): _rebuild_jagged,
    ("torch._utils", "_rebuild_sparse_tensor"): _rebuild_sparse,
    ("torch._utils", "_rebuild_qtensor"): _rebuild_quantized,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("torch.nn.parameter", "Parameter"): lambda data, grad=True: _rebuild_parameter(data, grad, {}),
    _HINT: _Hint,
    ("torch", "Size"): _size,
    ("torch", "device"): lambda kind, *index: rushlight.device(
        _expect(kind, str), *[_expect(i, int) for i in index]
    ),
    ("torch.serialization", "_get_layout"): _layout,
    ("collections", "OrderedDict"): _ordered_dict,
    ("collections", "Counter"): lambda counts={}: Counter(_expect(counts, dict)),  # noqa: B006
    ("collections", "defaultdict"): _default_dict,
    ("collections", "deque"): lambda items=(), maxlen=None: deque(
        _expect(items, list, tuple), _expect(maxlen, int, type(None))
    ),
    ("_codecs", "encode"): _encode,
    ("builtins", "bytearray"): _bytearray,
    ("builtins", "bytes"): lambda data=b"": _expect(data, bytes),
    ("builtins", "set"): _set,
    ("builtins", "frozenset"): _frozenset,
    ("builtins", "complex"): _number(complex),
    ("builtins", "slice"): _integers(slice),
    ("builtins", "range"): _integers(range),
    ("numpy", "dtype"): ArrayDtype,
    ("numpy.core.multiarray", "scalar"): scalar_from,
    ("numpy._core.multiarray", "scalar"): scalar_from,
    ("numpy.core.multiarray", "_reconstruct"): empty_array,
    ("numpy._core.multiarray", "_reconstruct"): empty_array,
}
_WITH_BUDGET = {
    _rebuild_tensor, _rebuild_tensor_v3, _rebuild_sparse, _rebuild_quantized, _rebuild_nested,
    _rebuild_jagged, _set, _frozenset, _ordered_dict,
}  # fmt: skip
_TENSOR_TYPES = {("torch", "Tensor"), ("torch._tensor", "Tensor")}
_NESTED_TYPE = ("torch.nested._internal.nested_tensor", "NestedTensor")
_TYPE_NAMES = {*_TENSOR_TYPES, _NESTED_TYPE, ("numpy", "ndarray")}
_REBUILD_FROM_TYPE = ("torch._tensor", "_rebuild_from_type_v2")


def _as_text(reference):
    """A reference to a storage whose texts may have been read as bytes."""
    return tuple(p.decode("ascii") if isinstance(p, bytes) else p for p in reference)


# What wrong types and counts of arguments, missing memo entries and the like lead to.
_DAMAGE = (
    TypeError,
    ValueError,
    KeyError,
    IndexError,
    AttributeError,
    OverflowError,
    struct.error,
)


class CheckpointReader:
    """Reads one object.

    Args:
        stream: a binary file, positioned at the object.
        load_storage: (dtype or None, key, location, number of elements, ...) -> a storage.
        safe_globals: further functions and classes by (module, name), which the user trusts.
        encoding: of the texts that Python 2 wrote, or "bytes" for them as they are.
    """

    def __init__(
        self,
        stream: Any,
        load_storage: Callable[..., Any] | None,
        safe_globals: dict[tuple[Any, ...], type[Any]] | None = None,
        encoding: str = "utf-8",
    ) -> None:
        self._stream, self._encoding = stream, encoding
        self._load_storage = load_storage
        self._safe_globals = {
            key: value
            for key, value in (safe_globals or {}).items()
            if key[0] not in _BLOCKED_MODULES
        }
        self._stack = []
        self._marks = []
        self._memo = {}
        self._storages = {}  # by id, those that the file has referred to
        self._storage_bytes = 0
        self._keys = {}  # by id of a dict or set, the check of its unusual keys
        start = stream.tell()
        self._budget = Budget(lambda: stream.tell() - start + self._storage_bytes)

    def read(self) -> Any:
        """Return the object.

        Raises:
            pickle.UnpicklingError: the data are damaged, or name something unknown.
        """
        try:
            while True:
                code = self._take(1)
                if code == b".":
                    return self._plain(self._pop())
                step = self._STEPS.get(code)
                if step is None:
                    raise pickle.UnpicklingError(f"the file contains the unsupported code {code!r}")
                step(self)
        except _DAMAGE as error:
            raise pickle.UnpicklingError(f"the checkpoint is damaged: {error!r}") from error

    # --- bytes and stack

    def _take(self, size):
        data = self._stream.read(size)
        if len(data) != size:
            raise pickle.UnpicklingError("the checkpoint ends too early")
        return data

    def _unsigned(self, size):
        return int.from_bytes(self._take(size), "little")

    def _line(self):
        line = self._stream.readline(1000)
        if not line.endswith(b"\n"):
            raise pickle.UnpicklingError("the checkpoint ends too early")
        return line[:-1].decode("utf-8")

    def _counted(self, size):
        """Take as many bytes as the next `size` bytes say, in steps, for the count may lie."""
        left = self._unsigned(size)
        parts = []
        while left:
            part = self._take(min(left, 1 << 20))
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def _text(self, data):
        return data if self._encoding == "bytes" else data.decode(self._encoding)

    def _push(self, value):
        self._stack.append(value)

    def _pop(self):
        if self._marks and len(self._stack) <= self._marks[-1]:
            raise pickle.UnpicklingError("a value is missing")
        return self._stack.pop()

    def _pop_to_mark(self):
        mark = self._marks.pop()
        values = self._stack[mark:]
        del self._stack[mark:]
        return values

    # --- steps that are more than a push

    def _plain(self, value):
        """Return what a name stands for as a value."""
        if not isinstance(value, Name):
            return value
        for table in (_CONSTANTS, self._safe_globals):
            if value.key in table:
                return table[value.key]
        raise Refused(value)

    def _part(self, value):
        """Like `_plain` for a part of a tuple, which may be the arguments of a call."""
        if isinstance(value, Name) and (value.key in _FUNCTIONS or value.key in _TYPE_NAMES):
            return value
        return self._plain(value)

    def _protocol(self):
        version = self._unsigned(1)
        if version > 5:
            raise pickle.UnpicklingError(f"pickle protocol {version} is not supported")

    def _stack_global(self):
        name, module = self._pop(), self._pop()
        self._push(self._storage_type(Name(_expect(module, str), _expect(name, str))))

    def _get(self, index):
        self._push(self._memo[index])

    def _put(self, index):
        value = self._pop()
        self._push(value)
        self._memo[index] = value

    def _tuple(self, count):
        values = [self._part(self._pop()) for _ in range(count)]
        self._push(tuple(reversed(values)))

    def _marked_tuple(self):
        self._push(tuple(map(self._part, self._pop_to_mark())))

    def _append(self, items):
        target = self._stack[-1]
        if not isinstance(target, (list, deque)):
            raise pickle.UnpicklingError(f"cannot append to a {type(target).__name__}")
        target.extend(map(self._plain, items))

    def _add(self, items):
        target = _expect(self._stack[-1], set)
        target.update([self._key(target, self._plain(item)) for item in items])

    def _set_items(self, flat):
        target = self._stack[-1]
        if not isinstance(target, dict) or len(flat) % 2:
            raise pickle.UnpicklingError(f"cannot set items of a {type(target).__name__}")
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            target[self._key(target, self._plain(key))] = self._plain(value)

    def _key(self, target, key):
        """Return `key` if `target` may get it."""
        if _is_cheap(key):
            return key
        checked = self._keys.get(id(target))
        if checked is None:
            checked = self._keys[id(target)] = self._budget.keys()
        return checked(key)

    def _set_one_item(self):
        value, key = self._pop(), self._pop()
        self._set_items([key, value])

    def _persistent(self):
        reference = _as_text(_expect(self._pop(), tuple))
        if len(reference) < 5 or reference[0] != "storage":
            raise pickle.UnpicklingError("the file refers to something other than a storage")
        storage = self._load_storage(*reference[1:])
        if id(storage) not in self._storages:
            self._storages[id(storage)] = storage
            self._storage_bytes += storage.nbytes()
        self._push(storage)

    @staticmethod
    def _storage_type(name):
        """Return the dtype that a storage class stands for; other names stay as they are."""
        module, kind = name.key
        if module == "torch" and kind in STORAGE_DTYPES:
            return STORAGE_DTYPES[kind]
        if name.key == ("torch.storage", "UntypedStorage"):
            return None
        return name

    def _global(self):
        name = Name(self._line(), self._line())
        self._push(self._storage_type(name))

    def _reduce(self):
        arguments = _expect(self._pop(), tuple)
        function = self._pop()
        if not isinstance(function, Name):
            raise pickle.UnpicklingError(f"cannot call a {type(function).__name__}")
        self._push(self._call(function, arguments))

    def _call(self, name, arguments):
        self._budget.pay_for(arguments)
        if name.key == _REBUILD_FROM_TYPE:
            return self._rebuild_from_type(*arguments)
        function = _FUNCTIONS.get(name.key)
        if function in _WITH_BUDGET:
            return function(*arguments, budget=self._budget)
        if function is not None:
            return function(*arguments)
        if name.key in self._safe_globals:
            return self._safe_globals[name.key](*arguments)
        raise Refused(name)

    def _rebuild_from_type(self, function, kind, arguments, state):
        if _expect(function, Name).key == _REBUILD_FROM_TYPE:
            raise pickle.UnpicklingError("a tensor is rebuilt from one that is rebuilt")
        tensor = self._call(function, _expect(arguments, tuple))
        if not isinstance(kind, Name):  # a class that the user trusts
            tensor = tensor.as_subclass(kind)
            if kind.__setstate__ is not rushlight.Tensor.__setstate__:
                tensor.__setstate__(state)
                return tensor
        elif kind.key == _NESTED_TYPE:
            return tensor  # its state follows from its parts
        elif kind.key not in _TENSOR_TYPES:
            raise Refused(kind)
        return _with_attributes(tensor, state)

    def _new_object(self):
        arguments, kind = _expect(self._pop(), tuple), _expect(self._pop(), Name)
        if kind.key in self._safe_globals:
            kind = self._safe_globals[kind.key]
            self._push(kind.__new__(kind, *arguments))
        else:
            self._push(self._call(kind, arguments))

    def _build(self):
        state = self._pop()
        target = self._stack[-1]
        self._budget.pay_for((state,))
        if type(target) is OrderedDict:
            _set_attributes(target, state)
        elif isinstance(target, ArrayDtype):
            target.set_state(state)
        elif is_array(target):
            set_array_state(target, state)
        elif isinstance(target, _Hint):
            pass
        elif type(target) in self._safe_globals.values():
            self._build_trusted(target, state)
        else:
            raise pickle.UnpicklingError(f"cannot set the state of a {type(target).__name__}")

    @staticmethod
    def _build_trusted(target, state):
        if hasattr(target, "__setstate__"):
            target.__setstate__(state)
        else:
            target.__dict__.update(state)

    _STEPS = {
        b"\x80": _protocol,
        b"\x95": lambda self: self._take(8),  # the length of a frame, which only helps buffering
        b"(": lambda self: self._marks.append(len(self._stack)),
        b"0": lambda self: self._pop(),
        # constants and numbers
        b"N": lambda self: self._push(None),
        b"\x88": lambda self: self._push(True),
        b"\x89": lambda self: self._push(False),
        b"K": lambda self: self._push(self._unsigned(1)),
        b"M": lambda self: self._push(self._unsigned(2)),
        b"J": lambda self: self._push(struct.unpack("<i", self._take(4))[0]),
        b"G": lambda self: self._push(struct.unpack(">d", self._take(8))[0]),
        b"\x8a": lambda self: self._push(int.from_bytes(self._counted(1), "little", signed=True)),
        b"\x8b": lambda self: self._push(int.from_bytes(self._counted(4), "little", signed=True)),
        # text and bytes
        b"X": lambda self: self._push(self._counted(4).decode("utf-8", "surrogatepass")),
        b"\x8c": lambda self: self._push(self._counted(1).decode("utf-8", "surrogatepass")),
        b"\x8d": lambda self: self._push(self._counted(8).decode("utf-8", "surrogatepass")),
        b"U": lambda self: self._push(self._text(self._counted(1))),
        b"T": lambda self: self._push(self._text(self._counted(4))),
        b"C": lambda self: self._push(self._counted(1)),
        b"B": lambda self: self._push(self._counted(4)),
        b"\x8e": lambda self: self._push(self._counted(8)),
        b"\x96": lambda self: self._push(bytearray(self._counted(8))),
        # containers
        b")": lambda self: self._push(()),
        b"]": lambda self: self._push([]),
        b"}": lambda self: self._push({}),
        b"\x8f": lambda self: self._push(set()),
        b"t": _marked_tuple,
        b"\x85": lambda self: self._tuple(1),
        b"\x86": lambda self: self._tuple(2),
        b"\x87": lambda self: self._tuple(3),
        b"a": lambda self: self._append([self._pop()]),
        b"e": lambda self: self._append(self._pop_to_mark()),
        b"s": _set_one_item,
        b"u": lambda self: self._set_items(self._pop_to_mark()),
        b"\x90": lambda self: self._add(self._pop_to_mark()),
        b"\x91": lambda self: self._push(_frozenset(self._pop_to_mark(), budget=self._budget)),
        # what was read before
        b"q": lambda self: self._put(self._unsigned(1)),
        b"r": lambda self: self._put(self._unsigned(4)),
        b"\x94": lambda self: self._put(len(self._memo)),
        b"h": lambda self: self._get(self._unsigned(1)),
        b"j": lambda self: self._get(self._unsigned(4)),
        # names and what is made of them
        b"c": _global,
        b"\x93": _stack_global,
        b"R": _reduce,
        b"\x81": _new_object,
        b"b": _build,
        b"Q": _persistent,
    }


def is_known(module, name):
    """Is it one of the functions and classes that a file may name?"""
    key = Name(module, name).key
    known = key in _FUNCTIONS or key in _TENSOR_TYPES or key == _REBUILD_FROM_TYPE
    return known or (module == "torch" and (name in STORAGE_DTYPES or name in DTYPES))


def _of_core(module, name):
    """What a pickle of torch finds in its core: functions, whose home there is no module."""
    if (module, name) == ("torch._C", "_VariableFunctionsClass"):
        return rushlight
    part = module.removeprefix("torch._C").removeprefix(".")
    if part in ("_fft", "_linalg", "_special"):
        return getattr(getattr(rushlight, part[1:]), name.removeprefix(f"{part[1:]}_"))
    home = rushlight._C
    for step in part.split(".") if part else ():
        home = getattr(home, step)
    return getattr(home, name)


class TrustingUnpickler(pickle.Unpickler):
    """Python's own unpickler, with rushlight in the place of torch: runs whatever the file says."""

    def __init__(self, stream: Any, load_storage: Callable[..., Any], **options: Any) -> None:
        super().__init__(stream, **options)
        self._load_storage = load_storage

    def find_class(self, module: Module, name: str) -> Any:
        key = (module, name)
        if module == "torch" and name in STORAGE_DTYPES:
            return STORAGE_DTYPES[name]
        if key == ("torch.storage", "UntypedStorage"):
            return rushlight.UntypedStorage
        if key == _REBUILD_FROM_TYPE:
            return _tensor._rebuild_from_type_v2
        if key == _NESTED_TYPE:
            return rushlight.nested._tensor.NestedTensor
        if key == _HINT:
            return _Hint
        if module.startswith("torch._C"):
            return _of_core(module, name)
        if key in _FUNCTIONS and name.startswith(("_rebuild", "_get")):
            return _FUNCTIONS[key]
        package, dot, rest = module.partition(".")
        return super().find_class("rushlight" + dot + rest if package == "torch" else module, name)

    def persistent_load(self, reference: Sequence[_dtype | str]) -> TypedStorage | UntypedStorage:
        kind, *facts = _as_text(reference[1:])
        return self._load_storage(kind if kind is not rushlight.UntypedStorage else None, *facts)
