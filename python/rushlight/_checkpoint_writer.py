"""Writes an object in torch's form of the pickle format, so that torch can read it.

rushlight's own classes and functions are written under the names that torch has for them.
"""

from __future__ import annotations

import itertools
import math
import pickle
import types
from collections import OrderedDict

import rushlight
from rushlight._absent_dtypes import _AbsentDtype, _CarriedDtype
from rushlight._checkpoint_types import QUANTIZED_STORAGES, STORAGE_NAMES
from rushlight._tensor import _bits_of_view, _reduce_wrapper, _state_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rushlight.nn.modules.module import Module
    from rushlight.types import _dtype


class _TorchName:
    """Something of torch's that has to be named in the file."""

    def __init__(self, module: Module, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self) -> Any:
        raise TypeError(f"{self.module}.{self.name} exists in files only")


_REBUILD_TENSOR = _TorchName("torch._utils", "_rebuild_tensor_v2")
_REBUILD_CARRIED = _TorchName("torch._utils", "_rebuild_tensor_v3")
_REBUILD_META = _TorchName("torch._utils", "_rebuild_meta_tensor_no_storage")
_REBUILD_PARAMETER = _TorchName("torch._utils", "_rebuild_parameter")
_REBUILD_PARAMETER_WITH_STATE = _TorchName("torch._utils", "_rebuild_parameter_with_state")
_REBUILD_FROM_TYPE = _TorchName("torch._tensor", "_rebuild_from_type_v2")
_STORAGE_TYPES = {dtype: _TorchName("torch", name) for dtype, name in STORAGE_NAMES.items()}
_REBUILD_SPARSE = _TorchName("torch._utils", "_rebuild_sparse_tensor")
_REBUILD_QUANTIZED = _TorchName("torch._utils", "_rebuild_qtensor")
_QUANTIZED_STORAGES = {
    dtype: _TorchName("torch", name) for name, dtype in QUANTIZED_STORAGES.items()
}
_UNTYPED_STORAGE = _TorchName("torch.storage", "UntypedStorage")
_REBUILD_WRAPPER = _TorchName("torch._utils", "_rebuild_wrapper_subclass")
_REBUILD_NESTED = _TorchName("torch._utils", "_rebuild_nested_tensor")
_REBUILD_JAGGED = _TorchName("torch.nested._internal.nested_tensor", "_rebuild_njt")
_NESTED = _TorchName("torch.nested._internal.nested_tensor", "NestedTensor")
_TENSOR = _TorchName("torch", "Tensor")


class StoredData:
    """A storage of a tensor, together with the dtype that the file gives it."""

    def __init__(self, storage: Any, dtype: _dtype, quantized: bool = False) -> None:
        self.storage = storage
        self.dtype = dtype
        self.quantized = quantized


class CheckpointWriter(pickle._Pickler):
    """Pickles one object; `storages` then maps the keys of its storages to them, in order.

    It builds on Python's own pickler in Python, for the one in C cannot write a name that does not
    exist here.
    """

    def __init__(self, stream: Any, protocol: int) -> None:
        super().__init__(stream, protocol)
        self.storages = {}
        self._keys = {}
        self._dtypes = {}
        self._devices = {}

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if type(obj) is rushlight.Tensor and self._save_plain(obj):
            return
        super().save(obj, save_persistent_id)

    def _save_plain(self, tensor):
        """Write an ordinary tensor as the methods below would, in a third of the time."""
        if tensor.layout is not rushlight.strided or tensor.is_nested or tensor.is_meta:
            return False
        if tensor.is_quantized or type(tensor.dtype) is _CarriedDtype:
            return False
        if id(tensor) in self.memo or _state_of(tensor) or _bits_of_view(tensor):
            return False
        storage, kind = tensor.untyped_storage(), _STORAGE_TYPES[tensor.dtype]
        self._again(_REBUILD_TENSOR)
        self.write(pickle.MARK + pickle.MARK)
        self._again("storage")
        self._again(kind)
        self._text(self._key(storage, kind))
        self._again(self._devices.setdefault(storage.device, str(storage.device)))
        self._whole(storage.nbytes() // tensor.dtype.itemsize)
        self.write(pickle.TUPLE + pickle.BINPERSID)
        self._whole(tensor.storage_offset())
        for numbers in (tensor.shape, tensor.stride()):
            self.write(pickle.MARK)
            for number in numbers:
                self._whole(number)
            self.write(pickle.TUPLE)
        self.write(pickle.NEWTRUE if tensor.requires_grad else pickle.NEWFALSE)
        self._again(OrderedDict)
        self.write(pickle.EMPTY_TUPLE + pickle.REDUCE + pickle.TUPLE + pickle.REDUCE)
        self.memoize(tensor)
        return True

    def _again(self, obj):
        """Write something that many tensors have."""
        known = self.memo.get(id(obj))
        self.save(obj) if known is None else self.write(self.get(known[0]))

    def _text(self, text):
        data = text.encode()
        self.write(pickle.BINUNICODE + len(data).to_bytes(4, "little") + data)

    def _whole(self, number):
        if 0 <= number < 256:
            self.write(pickle.BININT1 + number.to_bytes(1, "little"))
        elif number < 2**31:
            self.write(pickle.BININT + number.to_bytes(4, "little", signed=True))
        else:
            self.save(number)

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, rushlight.Tensor):
            return self._reduce_tensor(obj)
        if isinstance(obj, rushlight.dtype):
            return str(obj).rpartition(".")[2]
        if isinstance(obj, rushlight.Size):
            return _TorchName("torch", "Size"), (tuple(obj),)
        if isinstance(obj, rushlight.device):
            parts = (obj.type,) if obj.index is None else (obj.type, obj.index)
            return _TorchName("torch", "device"), parts
        if isinstance(obj, rushlight.layout):
            return _TorchName("torch.serialization", "_get_layout"), (str(obj),)
        return NotImplemented

    def save_global(self, obj: Any, name: str | None = None) -> None:
        if isinstance(obj, _TorchName):
            module, name = obj.module, obj.name
        elif isinstance(obj, (rushlight.dtype, _AbsentDtype, rushlight.qscheme)):
            module = "torch"
        else:
            module = getattr(obj, "__module__", None) or ""
            if module.partition(".")[0] != "rushlight":
                super().save_global(obj, name)
                return
            module = "torch" + module.removeprefix("rushlight")
            name = name or obj.__qualname__
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    dispatch = {
        **pickle._Pickler.dispatch, _TorchName: save_global, types.FunctionType: save_global
    }  # fmt: skip

    def persistent_id(self, obj: Any) -> tuple[_TorchName | str, ...] | None:
        if isinstance(obj, rushlight.TypedStorage):
            obj = StoredData(obj.untyped(), obj.dtype)
        if isinstance(obj, StoredData):
            types = _QUANTIZED_STORAGES if obj.quantized else _STORAGE_TYPES
            storage, kind = obj.storage, types[obj.dtype]
            count = storage.nbytes() // obj.dtype.itemsize
        elif isinstance(obj, rushlight.UntypedStorage):
            storage, kind, count = obj, _UNTYPED_STORAGE, obj.nbytes()
        else:
            return None
        return ("storage", kind, self._key(storage, kind), str(storage.device), count)

    def _key(self, storage, kind):
        # Storages without bytes share nothing.
        address = storage.data_ptr() if storage.nbytes() else ("empty", storage._cdata, kind)
        key = self._keys.setdefault(address, str(len(self._keys)))
        if self._dtypes.setdefault(key, kind) is not kind:
            raise RuntimeError(
                "save: Cannot save multiple tensors or storages that view the same data as "
                "different types: save a clone of one"
            )
        self.storages.setdefault(key, storage)
        return key

    def _reduce_tensor(self, tensor):
        if "_wrapper_device" in getattr(tensor, "__dict__", {}):
            _, (_, *others) = _reduce_wrapper(tensor)
            return _REBUILD_FROM_TYPE, (_REBUILD_WRAPPER, *others)
        if tensor.is_nested:
            return self._nested(tensor)
        kind = type(tensor)
        state = _state_of(tensor)
        if tensor.is_quantized:
            return _REBUILD_QUANTIZED, self._quantized(tensor)
        if type(tensor.dtype) is _CarriedDtype:
            place = (tensor.storage_offset(), tuple(tensor.size()), tensor.stride())
            arguments = (tensor.untyped_storage(), *place, False, OrderedDict(), tensor.dtype)
            return _REBUILD_CARRIED, arguments
        if kind is not rushlight.Tensor and kind is rushlight.nn.Parameter:
            arguments = (tensor.data, tensor.requires_grad, OrderedDict())
            if state:
                return _REBUILD_PARAMETER_WITH_STATE, (*arguments, state)
            return _REBUILD_PARAMETER, arguments
        if tensor.layout is not rushlight.strided:
            indices, plain, values, _, is_coalesced = tensor._state()
            parts = (indices, values, tensor.shape, is_coalesced)
            if plain is not None:
                parts = (indices, plain, values, tensor.shape)
            return _REBUILD_SPARSE, (tensor.layout, parts)
        with rushlight._C.DisableTorchFunctionSubclass():
            # What a class says of itself may be more than it has, as a DTensor's shape is.
            rebuild, arguments = self._plain_tensor(tensor.as_subclass(rushlight.Tensor))
        if kind is rushlight.Tensor and not state:
            return rebuild, arguments
        named = _TENSOR if kind is rushlight.Tensor else kind
        return _REBUILD_FROM_TYPE, (rebuild, named, arguments, state or None)

    @staticmethod
    def _quantized(tensor):
        integers, quantizer = tensor.int_repr(), tensor._quantizer
        data = StoredData(integers.untyped_storage(), integers.dtype, quantized=True)
        parts = (quantizer.scheme, quantizer.scale, quantizer.zero_point)
        if quantizer.axis is not None:
            parts = (*parts, quantizer.axis)
        place = (integers.storage_offset(), tuple(integers.size()), integers.stride())
        return data, *place, parts, False, OrderedDict()

    @staticmethod
    def _nested(tensor):
        if tensor.layout is rushlight.jagged:
            with rushlight.no_grad():
                parts = {
                    "values": tensor.values().detach(), "offsets": tensor.offsets(),
                    "lengths": tensor.lengths(), "_ragged_idx": tensor._ragged_idx,
                    "_metadata_cache": {}, "requires_grad": tensor.requires_grad,
                }  # fmt: skip
            return _REBUILD_FROM_TYPE, (_REBUILD_JAGGED, _NESTED, (parts,), {})
        with rushlight.no_grad():
            buffer = tensor.values().detach()
        parts = tensor._parts
        sizes = [tuple(p.shape) for p in parts]
        strides = [rushlight.empty(size, device="meta").stride() for size in sizes]
        starts = [0, *itertools.accumulate(map(math.prod, sizes))][: len(sizes)]
        places = [rushlight.tensor(n, dtype=rushlight.int64) for n in (sizes, strides, starts)]
        return _REBUILD_NESTED, (buffer.requires_grad_(tensor.requires_grad), *places)

    @staticmethod
    def _plain_tensor(tensor):
        size, stride = tuple(tensor.size()), tensor.stride()
        if tensor.is_meta:
            return _REBUILD_META, (tensor.dtype, size, stride, tensor.requires_grad)
        if tensor.layout is not rushlight.strided:
            raise RuntimeError(f"save: tensors of layout {tensor.layout} are not supported")
        data = StoredData(tensor.untyped_storage(), tensor.dtype)
        place = (tensor.storage_offset(), size, stride)
        arguments = (data, *place, tensor.requires_grad, OrderedDict())
        bits = _bits_of_view(tensor)
        return _REBUILD_TENSOR, (*arguments, bits) if bits else arguments
