"""Methods of `Tensor` that are neither operations nor worth C++: copies, pickles, protocols."""

from __future__ import annotations

import rushlight
from rushlight import _C, Tensor
from rushlight._numpy_names import takes_numpy_names, wrapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray
    from typing_extensions import Self

    from rushlight.sparse._tensor import SparseTensor
    from rushlight.storage import TypedStorage
    from rushlight.types import Device, _dtype, _layout


_LEGACY_NAMES = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}
_DTYPE_OF_LEGACY_NAME = {legacy: name for name, legacy in _LEGACY_NAMES.items()}


def _dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def _copied_elements(tensor, memo):
    """A tensor of the same elements, for a deep copy."""
    import copy

    if "_wrapper_device" in tensor.__dict__:  # a wrapper has none: its class says how it is copied
        with rushlight.no_grad():
            return tensor.clone()
    with _C.DisableTorchFunctionSubclass():
        if tensor.is_conj() or tensor.is_neg():
            return tensor.detach().clone()
        storage = copy.deepcopy(tensor.untyped_storage(), memo)
        return _C._tensor_on_storage(
            storage, tensor.dtype, tensor.storage_offset(), tensor.size(), tensor.stride()
        )


def _slots_of(tensor):
    """The values in the slots of a tensor of a subclass, by name."""
    kind = type(tensor)
    if kind is Tensor:
        return {}
    import copyreg

    names = copyreg._slotnames(kind)
    return {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}


def _state_of(tensor):
    """What a pickle keeps of a tensor besides its elements: as `object.__getstate__` gives it."""
    own = getattr(type(tensor), "__getstate__", None)
    if own is not getattr(object, "__getstate__", None):
        return tensor.__getstate__()
    state, slots = dict(tensor.__dict__), _slots_of(tensor)
    return (state, slots) if slots else state


class _Methods:
    """What `install` gives to `Tensor`; not a base class, so that its type stays a plain one."""

    # NumPy leaves `array + tensor` to the tensor.
    __array_priority__ = 1000

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[builtins.type[Any]],
        args: Any = (),
        kwargs: Any = None,
    ) -> Any:
        """Call `func` and turn tensors in its result into this subclass."""
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        if getattr(cls, "_takes_dispatch", False):
            from rushlight._dispatch import _of_class

            return _of_class(cls, func, types, args, kwargs)
        with _C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            return result if func in _keeps_class() else _convert(result, cls)

    @staticmethod
    def __torch_dispatch__(func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What an operation gives without asking a class: for `super()` in that of a subclass."""
        from rushlight._dispatch import compute

        return compute(func, tuple(args), kwargs or {})

    @classmethod
    def __init_subclass__(cls, **options: Any) -> None:
        if "__torch_dispatch__" in cls.__dict__:
            from rushlight._dispatch import adopt

            adopt(cls)
        super(Tensor, cls).__init_subclass__(**options)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Describe memory of a GPU to other libraries, and the stream that computes it."""
        if not self.is_cuda:
            raise AttributeError(
                f"__cuda_array_interface__: the tensor is on {self.device}, not on a GPU"
            )
        if self.is_sparse or self.requires_grad:
            kind = "a sparse tensor" if self.is_sparse else "a tensor that requires grad"
            raise AttributeError(f"__cuda_array_interface__: not of {kind}")
        if self.is_conj() or self.is_neg():
            raise AttributeError(
                "__cuda_array_interface__: not of a conjugate or negative view; use resolve_conj() "
                "or resolve_neg()"
            )
        name = _dtype_name(self.dtype)
        if name == "bfloat16":
            raise AttributeError("__cuda_array_interface__: bfloat16 has no NumPy type")
        code = "b" if name == "bool" else name[0]
        size = self.element_size()
        strides = None if self.is_contiguous() else tuple(s * size for s in self.stride())
        return {
            "typestr": f"{'<' if size > 1 else '|'}{code}{size}",
            "shape": tuple(self.shape),
            "strides": strides,
            "data": (self.data_ptr(), False),
            "version": 3,
            "stream": _C._cuda.current_stream(self.get_device()) or 1,
        }

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and not self.is_meta and type(self) is Tensor:
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def __rdiv__(self, other: Tensor | float | complex) -> Tensor:
        """Return other / self, under its Python 2 name."""
        return self.reciprocal() * other

    def set_(
        self,
        source: Any = None,
        storage_offset: int = 0,
        size: Sequence[int] | None = None,
        stride: Sequence[int] | None = None,
    ) -> Self:
        """Look at the elements of another tensor or of a storage from now on, or at none.

        Args:
            source: a tensor, or a storage, which grows where size and stride look past its end.
        """
        if self.requires_grad and rushlight.is_grad_enabled():
            raise RuntimeError(
                "set_: a tensor that requires grad cannot look elsewhere; use no_grad() or detach()"
            )
        if source is None:
            source = rushlight.empty(0, dtype=self.dtype, device=self.device)
        elif not isinstance(source, Tensor):
            source = _on_storage(source, self.dtype, storage_offset, size, stride)
        elif size is not None:
            stride = _dense_strides(size) if stride is None else stride
            source = source.detach().as_strided(size, stride, storage_offset)
        if source.dtype != self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}"
            )
        self.data = source.detach()
        return self

    def __reversed__(self) -> Any:
        return self if self.dim() == 0 else self.flip(0)

    def _repr_html_(self):
        return rushlight._printing.html(self)

    def __array__(self, dtype: _dtype | None = None, copy: Any = None) -> NDArray[Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                raise ValueError(
                    f"a tensor of {self.dtype} becomes an array of {dtype} only by a copy"
                )
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(
        self, array: NDArray[Any], context: Any = None, return_scalar: bool = False
    ) -> Tensor:
        return rushlight.from_numpy(array) if array.ndim else rushlight.as_tensor(array)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) can be deepcopied; "
                "this one was computed. Of a module, look for an attribute that holds such a "
                "tensor; detach() makes a leaf."
            )
        import copy  # here and below: `import rushlight` loads few modules

        result = _copied_elements(self, memo)
        with _C.DisableTorchFunctionSubclass():
            if type(result) is not type(self):
                result = result.as_subclass(type(self))
            result.requires_grad_(self.requires_grad)
            if self.volatile:
                result.volatile = True
            memo[id(self)] = result
            if self.grad_dtype is not self.dtype:
                result.grad_dtype = self.grad_dtype
            if self.grad is not None:
                result.grad = copy.deepcopy(self.grad, memo)
            for name, value in self.__dict__.items():
                result.__dict__[name] = copy.deepcopy(value, memo)
            for name, value in _slots_of(self).items():
                setattr(result, name, copy.deepcopy(value, memo))
        return result

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        if not self.is_leaf and self.requires_grad:
            _warn_lost_history()
        if self._backward_hooks:
            rushlight.utils.hooks.warn_if_has_hooks(self)
        if "_wrapper_device" in self.__dict__:
            return _reduce_wrapper(self)
        function, args = _reduce_elements(self)
        state = _state_of(self)
        if type(self) is Tensor and not state:
            return function, args
        return _rebuild_from_type_v2, (function, type(self), args, state)

    def __setstate__(self, state: dict[str, Any] | tuple[Any, Any]) -> None:
        attributes, slots = state if isinstance(state, tuple) else (state, None)
        self.__dict__.update(attributes or {})
        for name, value in (slots or {}).items():
            setattr(self, name, value)

    def type(self, dtype: _dtype | None = None, non_blocking: bool = False) -> Self | Tensor | str:
        """Return the legacy type's name, as "torch.FloatTensor", or a copy of another dtype."""
        if dtype is None:
            device = "" if self.device.type == "cpu" else f"{self.device.type}."
            return f"torch.{device}{_LEGACY_NAMES[_dtype_name(self.dtype)]}Tensor"
        if dtype is Tensor or dtype == "torch.Tensor":
            dtype = rushlight.get_default_dtype()
        if isinstance(dtype, type):  # FloatTensor, or cuda.FloatTensor
            dtype = f"{dtype.__module__}.{dtype.__qualname__}"
        if isinstance(dtype, str):
            home, _, name = dtype.rpartition(".")
            legacy = name.removesuffix("Tensor")
            if legacy not in _DTYPE_OF_LEGACY_NAME:
                raise ValueError(f"invalid type: {dtype!r}")
            device = home.partition(".")[2] or "cpu"
            return self.to(device, getattr(rushlight, _DTYPE_OF_LEGACY_NAME[legacy]), non_blocking)
        return self.to(dtype, non_blocking=non_blocking)

    def is_nonzero(self) -> bool:
        """Return whether the only element is nonzero."""
        return bool(self)

    @takes_numpy_names
    def is_same_size(self, other: Tensor) -> bool:
        """Return whether both have the same shape."""
        return self.shape == other.shape

    def new(self, *args: Any, device: Device = None, size: Any = None) -> Tensor:
        """Return a tensor of this dtype and device, as the constructor `Tensor(...)` makes one."""
        from rushlight._typed_tensors import construct

        return construct(self.dtype, device or self.device, args, size)

    def pin_memory(self, device=None):
        """Return a copy in page-locked memory, which a GPU reads by itself; itself if it is there.

        Args:
            device: the GPU that will read it; any can.

        Raises: RuntimeError without a GPU, whose transfers are what such memory serves.
        """
        if not rushlight.cuda.is_available():
            raise RuntimeError(
                "pin_memory: page-locked memory speeds up transfers to an accelerator, but no"
                " accelerator is available"
            )
        if device is not None and rushlight.device(device).type != "cuda":
            raise NotImplementedError(f"pin_memory: not implemented for device {device}")
        if _C._cuda.is_pinned(self):
            return self
        return _C._cuda.pin_memory(self)

    def is_pinned(self, device=None):
        """Return whether the tensor is in page-locked memory of the CPU, for whatever GPU."""
        if device is not None and rushlight.device(device).type != "cuda":
            raise NotImplementedError(f"is_pinned: not implemented for device {device}")
        return _C._cuda.is_pinned(self)

    def record_stream(self, stream):
        """Say that a stream uses the tensor's memory too: it waits for that before it is reused.

        Args:
            stream: a torch.cuda.Stream.
        """
        _C._cuda.record_stream(self, stream.cuda_stream)

    def apply_(self, function: Callable[..., Any]) -> Any:
        """Replace each element by `function(element)`, a Python call each."""
        values = [_as_number(function(value)) for value in self.flatten().tolist()]
        with rushlight.no_grad():
            return self.copy_(rushlight.tensor(values, dtype=self.dtype).view(self.shape))

    def map_(self, other: Tensor, function: Callable[..., Any]) -> Any:
        """Replace each element by `function(element, other's element)`."""
        _refuse_gradient("map_", self, other)
        pairs = zip(self.flatten().tolist(), other.expand_as(self).flatten().tolist(), strict=True)
        values = [_as_number(function(a, b)) for a, b in pairs]
        with rushlight.no_grad():
            return self.copy_(rushlight.tensor(values, dtype=self.dtype).view(self.shape))

    def norm(
        self,
        p: float | str | None = "fro",
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        dtype: _dtype | None = None,
    ) -> Tensor:
        """Return the norm of the elements or along dims, as `torch.norm`."""
        return rushlight.norm(self, p, dim, keepdim, dtype=dtype)

    def lu(self, pivot: bool = True, get_infos: bool = False) -> Any:
        """Return the packed factorisation, as `torch.lu`."""
        return rushlight.lu(self, pivot, get_infos)

    def stft(self, n_fft: int, *args: Any, **kwargs: Any) -> Tensor:
        """Return the short-time Fourier transform, as `torch.stft`."""
        return rushlight.stft(self, n_fft, *args, **kwargs)

    def histogram(
        self,
        bins: Any = 100,
        *,
        range: Any = None,
        weight: Tensor | None = None,
        density: bool = False,
    ) -> Any:
        """Return how many elements lie in each bin, as `torch.histogram`."""
        return rushlight.histogram(self, bins, range=range, weight=weight, density=density)

    def istft(self, n_fft: int, *args: Any, **kwargs: Any) -> Any:
        """Return the signal of a short-time Fourier transform, as `torch.istft`."""
        return rushlight.istft(self, n_fft, *args, **kwargs)

    def unique(
        self,
        sorted: bool = True,
        return_inverse: bool = False,
        return_counts: bool = False,
        dim: int | None = None,
    ) -> Any:
        """Return the different elements, as `torch.unique`."""
        return rushlight.unique(self, sorted, return_inverse, return_counts, dim)

    def unique_consecutive(
        self, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
    ) -> Any:
        """Return the elements without those that repeat the one before."""
        return rushlight.unique_consecutive(self, return_inverse, return_counts, dim)

    def nonzero(self, *, as_tuple: bool = False) -> Any:
        """Return the places of elements that are not zero; see `rushlight.nonzero`."""
        return rushlight._nonzero_tuple(self) if as_tuple else rushlight._nonzero(self)

    def to_dense(self, dtype: _dtype | None = None, *, masked_grad: Any = None) -> Self:
        """Return this tensor, or one of another dtype: it is dense."""
        return self if dtype is None else self.to(dtype)

    def to_sparse(
        self,
        sparse_dim: int | None = None,
        *,
        layout: _layout | None = None,
        blocksize: Sequence[int] | None = None,
        dense_dim: int | None = None,
    ) -> SparseTensor:
        """Return the elements that are not zero as a sparse tensor; see `rushlight.sparse`."""
        from rushlight.sparse._convert import dense_to_sparse

        return dense_to_sparse(
            self, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim
        )

    def to_sparse_coo(self) -> Any:
        """Return the elements that are not zero as a sparse tensor; see `rushlight.sparse`."""
        return self.to_sparse()

    def to_sparse_csr(self, dense_dim: int | None = None) -> SparseTensor:
        """Return this tensor in layout CSR; see `rushlight.sparse`."""
        return self.to_sparse(layout=rushlight.sparse_csr, dense_dim=dense_dim)

    def to_sparse_csc(self, dense_dim: int | None = None) -> Any:
        """Return this tensor in layout CSC; see `rushlight.sparse`."""
        return self.to_sparse(layout=rushlight.sparse_csc, dense_dim=dense_dim)

    def to_sparse_bsr(self, blocksize: Sequence[int], dense_dim: int | None = None) -> Any:
        """Return this tensor in layout BSR; see `rushlight.sparse`."""
        return self.to_sparse(layout=rushlight.sparse_bsr, blocksize=blocksize, dense_dim=dense_dim)

    def to_sparse_bsc(self, blocksize: Sequence[int], dense_dim: int | None = None) -> Any:
        """Return this tensor in layout BSC; see `rushlight.sparse`."""
        return self.to_sparse(layout=rushlight.sparse_bsc, blocksize=blocksize, dense_dim=dense_dim)

    def sparse_mask(self, mask: Tensor) -> SparseTensor:
        """Return the elements at the indices of a sparse `mask`, as a sparse tensor."""
        from rushlight.sparse._convert import sparse_mask

        return sparse_mask(self, mask)

    @takes_numpy_names
    def narrow_copy(self, dim: int, start: int, length: int) -> Any:
        """Return a copy of `length` places along `dim`, the first of them `start`."""
        return self.narrow(dim, start, length).clone()

    def smm(self, mat2: Tensor) -> Any:
        """Return the product of this COO matrix and a dense one, as a COO matrix."""
        return rushlight.smm(self, mat2)

    def sspaddmm(self, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
        """Return beta * self + alpha * (mat1 @ mat2); see `rushlight.sspaddmm`."""
        return rushlight.sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)

    def sparse_dim(self) -> int:
        """Return 0: no dim is sparse."""
        return 0

    def dense_dim(self) -> Any:
        """Return how many dims are dense: all."""
        return self.dim()

    def storage(self) -> TypedStorage:
        """Return the elements this tensor looks at, as a `TypedStorage`."""
        from rushlight.storage import TypedStorage

        return TypedStorage(self.untyped_storage(), self.dtype)

    _typed_storage = storage

    def share_memory_(self) -> Self:
        """Move the memory to where other processes can map it too, in place; views follow.

        A process started afterwards, or sent the tensor, works on the same memory. Returns self.

        Raises: RuntimeError if tensors other than this one and the base it is a view of look at
            the memory, for these cannot follow.
        """
        self.untyped_storage().share_memory_()
        return self


def _dense_strides(size):
    return rushlight.empty(size, device="meta").stride()


def _as_number(value):
    if isinstance(value, str):
        raise TypeError("expected a number for each element, got str")
    return value


def _refuse_gradient(name, *tensors):
    if any(t.requires_grad for t in tensors):
        raise RuntimeError(
            f"{name}: a tensor that requires grad needs a gradient, which a Python function does "
            "not have; use detach()"
        )


def _on_storage(storage, dtype, offset, size, stride):
    """A tensor that looks at a storage, which grows if need be."""
    storage = rushlight.storage._untyped_of(storage, dtype)
    size = (storage.nbytes() // dtype.itemsize,) if size is None else tuple(size)
    stride = _dense_strides(size) if stride is None else tuple(stride)
    last = offset + sum((n - 1) * step for n, step in zip(size, stride))
    needed = 0 if 0 in size else (last + 1) * dtype.itemsize
    if needed >= 2**63:
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(size)} and "
            f"strides={list(stride)}"
        )
    if needed > storage.nbytes():
        storage.resize_(needed)
    return rushlight.storage.tensor_on(storage, dtype, size, stride, offset)


def _needs_sparse(name, wanted):
    def refuse(self):
        raise RuntimeError(f"{name} expected sparse {wanted} tensor layout but got Strided")

    refuse.__name__ = name
    refuse.__doc__ = "Raise RuntimeError: this is for sparse tensors."
    return refuse


for _name in ("coalesce", "is_coalesced", "indices", "values", "_indices", "_values", "_nnz"):
    setattr(_Methods, _name, _needs_sparse(_name, "coordinate"))
for _name in ("crow_indices", "col_indices"):
    setattr(_Methods, _name, _needs_sparse(_name, "row compressed"))
for _name in ("ccol_indices", "row_indices"):
    setattr(_Methods, _name, _needs_sparse(_name, "column compressed"))


def _handed_over(function):
    """The method as it is called: kinds of tensors of the library's own may have another, and a
    class with a `__torch_function__` of its own may take it over, as any operation.
    """
    name = function.__name__

    def method(self, *args, **kwargs):
        kind = type(self)
        if kind is not Tensor:
            if "_is_of_core" in vars(kind):
                return (vars(kind).get(name) or function)(self, *args, **kwargs)
            # Modes see what it is made of.
            if name not in _OF_THE_LIBRARY and _takes_over(kind):
                if _C._has_torch_function((self,)) and not _C._len_torch_function_stack():
                    return _C._handle_torch_function(method, (self, *args), (self, *args), kwargs)
        return function(self, *args, **kwargs)

    return wrapping(method, function)


def _takes_over(kind):
    """Has the class a `__torch_function__` that is not the library's?"""
    taken_by = getattr(getattr(kind, "__torch_function__", None), "__func__", None)
    return taken_by is not None and taken_by.__module__.partition(".")[0] != "rushlight"


# Methods that torch hands to nobody, or does not have.
_OF_THE_LIBRARY = {"__setstate__", "_repr_html_", "_typed_storage", "new", "to_padded_tensor"}


def install() -> None:
    """Give `Tensor` the methods of this module."""
    give(vars(_Methods).items())


def give(members: Iterable[tuple[str, Any]]) -> None:
    """Give `Tensor` these methods, by name."""
    for name, member in members:
        if name in ("__module__", "__qualname__", "__doc__", "__dict__", "__weakref__"):
            continue
        function = getattr(member, "__func__", member)
        if callable(function):
            function.__qualname__ = f"Tensor.{name}"
        if type(member) is type(give):
            member = _handed_over(member)
        setattr(Tensor, name, member)


_without_conversion = None


def _keeps_class():
    """Getters of tensors that have a class of their own: the gradient and the base."""
    global _without_conversion
    if _without_conversion is None:
        _without_conversion = {Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__}
    return _without_conversion


def _convert(result, cls):
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return result.as_subclass(cls)
    if isinstance(result, (tuple, list)) and not isinstance(result, rushlight.Size):
        converted = [_convert(item, cls) for item in result]
        named = hasattr(result, "_fields")
        return type(result)(*converted) if named else type(result)(converted)
    return result


def _warn_lost_history():
    from rushlight._ignored import warn_program

    warn_program(
        "a tensor that was computed is pickled without its history: the copy is a leaf",
    )


def _bits_of_view(tensor):
    """How a view is read, as files say it: {"conj": True} for a conjugate one."""
    bits = {"conj": tensor.is_conj(), "neg": tensor.is_neg()}
    return {name: bit for name, bit in bits.items() if bit}


def _with_bits(tensor, bits):
    """The view of `tensor` that `_bits_of_view` described."""
    if bits.get("conj"):
        tensor = tensor.conj()
    return rushlight._neg_view(tensor) if bits.get("neg") else tensor


def _reduce_elements(tensor):
    """What makes the tensor anew, and of what, as files of torch say it: both libraries read it."""
    from collections import OrderedDict

    _utils, size, offset = rushlight._utils, tuple(tensor.size()), tensor.storage_offset()
    strides, grad = tensor.stride(), tensor.requires_grad
    if tensor.is_meta:
        args = (tensor.dtype, size, strides, grad)  # torch forgets the offset
        return _utils._rebuild_meta_tensor_no_storage, (*args, offset) if offset else args
    storage = rushlight.TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype)
    args = (storage, offset, size, strides, grad, OrderedDict())
    bits = _bits_of_view(tensor)
    return _utils._rebuild_tensor_v2, (*args, bits) if bits else args


def _rebuild_from_type_v2(func, new_type, args, state):
    """A tensor of a subclass, with its attributes, as files say it."""
    tensor = func(*args)
    if type(tensor) is not new_type:
        requires_grad = tensor.requires_grad
        tensor = tensor.detach().as_subclass(new_type).requires_grad_(requires_grad)
    if state or new_type.__setstate__ is not Tensor.__setstate__:
        tensor.__setstate__(state)
    return tensor


def _without_ours(attributes):
    return {name: v for name, v in attributes.items() if not name.startswith("_wrapper_")}


def _reduce_wrapper(tensor):
    """A tensor of a class that dispatches, without elements of its own, as files say it."""
    with _C._SubclassesOff():
        args = (
            type(tensor), tensor.dtype, tuple(tensor.size()), tensor.stride(),
            tensor.storage_offset(), tensor.layout, tensor.__dict__["_wrapper_device"],
            tensor.requires_grad,
        )  # fmt: skip
    own = _state_of(tensor)
    if isinstance(own, tuple) and isinstance(own[0], dict):  # with slots
        own = (_without_ours(own[0]), *own[1:])
    elif isinstance(own, dict):
        own = _without_ours(own)
    return _rebuild_from_type_v2, (_rebuild_wrapper_subclass, type(tensor), args, own)


def _rebuild_wrapper_subclass(
    cls, dtype, size, stride, storage_offset, layout, device, requires_grad
):
    return Tensor._make_wrapper_subclass(
        cls, size, strides=stride, dtype=dtype, storage_offset=storage_offset, layout=layout,
        device=device, requires_grad=requires_grad,
    )  # fmt: skip
