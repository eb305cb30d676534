"""Odd Python objects where tensors are made, indexed and exchanged: an exception or a result, never a crash.

Each case is a program of its own, so that the one that kills the process is known by name.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAD = """
import faulthandler, warnings
import rushlight as rl
faulthandler.enable()
faulthandler.dump_traceback_later(50, exit=True)
warnings.simplefilter("ignore")

def attempt(call, *args, **named):
    try:
        return call(*args, **named)
    except (TypeError, ValueError, IndexError, RuntimeError, OverflowError, BufferError, ArithmeticError,
            RecursionError, MemoryError, AttributeError, NotImplementedError, KeyError, OSError) as error:
        assert not isinstance(error, SystemError), error
        assert str(error) or type(error) in (RecursionError, MemoryError), repr(error)
        return error
    except AssertionError as error:  # as in torch
        assert str(error).startswith("CUDA is not available"), error
"""

CASES = {
    "nested lists": """
cycle = []; cycle.append(cycle)
two = [[1, 2], [3, 4]]; two[0][0] = two
deep = 1
for _ in range(100_000): deep = [deep]
ragged = [[1], [1, 2]], [[[1]], [1]], [1, [2]], [[1, 2], 3], [[], [1]], [[1], []], [[[]], [1]], [(), 1]
for data in (cycle, two, deep, *ragged, [None], ["a"], [b"a"], {}, {1: 2}, {1}, object(), None, "abc", b"abc",
             bytearray(b"ab"), range(10**12), [range(2**62)], iter([1]), (i for i in range(3)), [2**70], [1e400],
             [float("nan")], memoryview(b"abcd"), [rl.ones(3), rl.ones(2)], [rl.ones(()), rl.ones(1)], int, [int],
             [[]] * 3, [rl.empty(2, device="meta")], [rl.empty((), device="meta")], rl.empty(0, 3), [rl.empty(0)]):
    for dtype in (None, rl.float32, rl.int8, rl.bool, rl.complex64, rl.bfloat16):
        for make in (rl.tensor, rl.as_tensor, rl.asarray, lambda d, dtype: rl.Tensor(d), rl.ones(2).new_tensor):
            attempt(make, data, dtype=dtype)
    attempt(rl.stack, data); attempt(rl.zeros, data); attempt(rl.ones(3).__getitem__, data)
del deep, data, ragged
""",
    "lists that change while they are read": """
class Clears:
    def __init__(self, target, result): self.target, self.result = target, result
    def act(self):
        self.target.clear(); rubbish = [object() for _ in range(100)]
        return self.result
    __index__ = __int__ = __float__ = __bool__ = __len__ = lambda self: self.act()
class ClearsSequence(Clears):
    def __getitem__(self, i):
        if i > 100: raise IndexError("end")  # or Python's own tuple() would read for ever
        self.act(); return 1
class ClearsNumber(int):
    def __index__(self): return self.target.clear() or 1
    __int__ = __float__ = __index__
class ClearsFloat(float):
    def __float__(self): return self.target.clear() or 1.0
class Grows(Clears):
    def act(self):
        self.target.extend([1] * 1000); return self.result
class ClearsProtocol(Clears):
    @property
    def __torch_function__(self): return self.act() and None
    @property
    def __array_interface__(self):
        self.act(); raise AttributeError
def lists():
    for kind in (Clears, ClearsSequence, Grows, ClearsProtocol, ClearsNumber, ClearsFloat):
        for place in (0, 1, 50, 99):
            for inner in (False, True):
                values = [1] * 100
                one = kind(values, 1) if kind not in (ClearsNumber, ClearsFloat) else kind(1)
                one.target = values
                values[place] = one
                yield [values] if inner else values
x = rl.zeros(4, 5)
calls = [rl.tensor, rl.as_tensor, rl.asarray, rl.Tensor, rl.Size, rl.zeros, rl.ones, rl.stack, rl.cat, x.__getitem__, x.new_tensor,
         lambda v: rl.tensor(v, dtype=rl.float32), lambda v: rl.tensor(v, dtype=rl.complex64),
         lambda v: x.__setitem__(v, 1), lambda v: x.__setitem__(0, v), x.reshape, x.permute, x.sum, x.expand, lambda v: rl.sum(x, dim=v),
         lambda v: x.as_strided(v, v), lambda v: rl.nn.functional.pad(x, v), lambda v: rl.meshgrid(v),
         lambda v: rl.autograd.grad(v, v), lambda v: rl.autograd.backward(v, v), lambda v: rl._C._functions, x.split,
         lambda v: rl.gradient(x, spacing=v), lambda v: rl.einsum("ij->i", v), lambda v: rl.tensordot(x, x, v), lambda v: rl.block_diag(*v)]
for call in calls:
    for values in lists():
        attempt(call, values)
""",
    "lengths and items that lie": """
class Liar:
    def __init__(self, length, item=1): self.length, self.item = length, item
    def __len__(self): return self.length
    def __getitem__(self, i):
        if isinstance(self.item, Exception): raise self.item
        if i > 1000: raise IndexError("end")
        return self.item
class Itself:
    def __len__(self): return 1
    def __getitem__(self, i):
        if i > 1000: raise IndexError("end")
        return self
class Sub(list):
    def __len__(self): return 10**9
    def __iter__(self): raise RuntimeError("no")
class SubTuple(tuple):
    def __len__(self): return -1
    def __iter__(self): return iter([1, 2])
class Index:
    def __init__(self, value): self.value = value
    def __index__(self):
        if isinstance(self.value, Exception): raise self.value
        return self.value
objects = [Liar(3), Liar(-1), Liar("a"), Liar(2**70), Liar(10**6, IndexError("end")), Liar(3, KeyError("a")), Liar(3, "a"), Itself(), [Itself()],
           Sub([1, 2]), SubTuple([1]), [Sub([1])], [SubTuple([1, 2])], Index(1), Index(-1), Index("a"), Index(None), Index(2**70), Index(ValueError("x")),
           [Index(1)], [Index("a")], [Index(2**70)], [Index(ValueError("x"))], slice(Index(1), Index(2)), slice(Index("a"), 1), slice("a"),
           slice(None, None, Index(0)), slice(2**70, -2**70), slice(None, None, 2**70), slice(None, None, -1), slice(0, 10, 2**63 - 1)]
x = rl.arange(20.0).reshape(4, 5)
for o in objects:
    for make in (rl.tensor, rl.as_tensor, rl.asarray, rl.Tensor, rl.Size, rl.zeros, x.__getitem__, lambda v: x.__setitem__(v, 1), x.fill_,
                 lambda v: x.__setitem__(0, v), lambda v: x[v, v], lambda v: x[..., v], lambda v: x[[v]], lambda v: x[[0, 1], v], x.reshape, x.sum,
                 x.add, rl.arange, rl.full((2,), 1).fill_, rl.manual_seed, rl.eye, x.select, lambda v: x.select(0, v), x.new_zeros, x.size, x.flatten,
                 rl.Generator, rl.device, lambda v: rl.device("cpu", v), rl.randperm, rl.set_num_threads if type(o) is not Index or o.value != 1 else x.size):
        attempt(make, o)
""",
    "odd indices": """
import itertools
x = rl.arange(24.0).reshape(2, 3, 4)
items = [0, -1, 5, -2**63, 2**63 - 1, 2**70, True, False, None, ..., slice(None), slice(1, None, 2), slice(5, 2), slice(-100, 100), slice(0, 0), [], [0],
         [0, 1], [5], [-2**63], [True, False], [[0, 1], [1, 0]], [1.5], ["a"], "a", 1.5, 1j, (), (0,), rl.tensor(1), rl.tensor(7), rl.tensor(True),
         rl.tensor([True, False]), rl.tensor([0, 1]), rl.tensor([9]), rl.tensor([-9]), rl.zeros(0, dtype=rl.int64), rl.zeros(0, 3, dtype=rl.int64),
         rl.ones(2, 3, dtype=rl.bool), rl.zeros(2, 3, 4, dtype=rl.bool), rl.ones(3, 2, dtype=rl.bool), rl.ones(1, dtype=rl.uint8), rl.ones(2),
         rl.empty(2, dtype=rl.int64, device="meta"), rl.empty(2, dtype=rl.bool, device="meta"), rl.ones(1, dtype=rl.int64).expand(3),
         rl.ones((), dtype=rl.int64).expand(1000), object(), rl, int, {}, {1}, range(2), range(2**60)]
def tensors():
    yield from (x.clone(), rl.zeros(()), rl.zeros(0), rl.zeros(2, 0, 3), rl.ones(1).expand(2, 3, 4), x.t() if x.dim() < 3 else x.transpose(0, 2),
                rl.ones(1).expand(2**40), rl.empty(2, 3, device="meta"), x.clone().requires_grad_(), (x.clone().requires_grad_() * 1), rl.ones([1] * 64))
values = [1, 1.5, 1j, 2**70, "a", None, [1], rl.ones(3), rl.ones(2, 3, 4), rl.ones(0), rl.ones(1, 1, 1, 1, 1), rl.zeros(3, dtype=rl.int64), rl.empty(3, device="meta"), x]
for t in tensors():
    for index in [*items, *itertools.product(items, items)]:
        attempt(t.__getitem__, index)
        attempt(t.__setitem__, index, 1)
    for index in items:
        for value in values:
            attempt(t.__setitem__, index, value)
    for index in itertools.product(items[::3], items[::4], items[::5]):
        attempt(t.__getitem__, index)
        attempt(t.__setitem__, index, 2)
    attempt(t.__getitem__, (None,) * 100); attempt(t.__getitem__, (0,) * 100); attempt(t.__getitem__, (...,) * 3)
    attempt(t.__getitem__, [None] * 31); attempt(t.__getitem__, ([0],) * 64); attempt(t.__delitem__, 0)
    attempt(t.__getitem__, (rl.tensor([[0]]),) * 3 + (None,) * 62)
    for other in items:
        attempt(t.__contains__, other)
overlapping = rl.zeros(10).as_strided([3, 3], [1, 1])
attempt(overlapping.__setitem__, slice(None), x[0, :, :3]); y = rl.zeros(10); y[1:] = y[:-1]; y[rl.tensor([0, 1])] = y[:2]
""",
    "foreign arrays": """
class Array:
    def __init__(self, **changes):
        self.__array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (BUFFER, False), "version": 3, **changes}
import ctypes
memory = ctypes.create_string_buffer(1024)
BUFFER = ctypes.addressof(memory)
for key, values in {
    "shape": [None, 3, (), (-1,), (2**62, 4), (2**63 - 1,) * 2, ("a",), (1.5,), [2], (1,) * 65, (1,) * 1000, (0,), (0, -1), (2**70,), (0, 2**62, 2**62)],
    "typestr": [None, "", "<", "f4", ">f4", "<f16", "<U4", "|O", "<V8", 5, b"<f4", "<f4" * 1000, "\\ud800", "<M8[s]", "|b1", "<c8"],
    "data": [None, (), (None, False), (BUFFER,), (BUFFER, False, 1), ("a", False), (2**70, False), (0, False), [BUFFER, False], (BUFFER, object()), (BUFFER + 1, False)],
    "strides": [(), (4, 4), (1,), (-4,), (0,), (2**63 - 1,), (2**62,), ("a",), 5, (4,) * 70, (2**70,)],
    "mask": [1], "descr": [1], "offset": [5], "version": [None]}.items():
    for value in values:
        o = Array(**{key: value})
        for make in (rl.tensor, rl.as_tensor, rl.asarray, rl.from_numpy, rl.Tensor, rl.ones(2).__getitem__, rl.ones(2).new_tensor):
            made = attempt(make, o)
            if isinstance(made, rl.Tensor) and made.numel() < 100:
                attempt(made.sum)
for strides in [(4, 4), (), (2**61,)]:
    for shape in [(2, 2), (2,), (3, 2**40)]:
        attempt(rl.as_tensor, Array(shape=shape, strides=strides))
class NoDict:
    __array_interface__ = 5
class Raises:
    @property
    def __array_interface__(self): raise MemoryError("m")
    def __array__(self, *a, **k): raise KeyError("k")
    def __len__(self): raise ValueError("v")
    def __getitem__(self, i): raise ValueError("v")
for o in (NoDict(), Raises(), [Raises()], Array):
    for make in (rl.tensor, rl.as_tensor, rl.asarray, rl.from_numpy, rl.Tensor):
        attempt(make, o)
""",
    "numpy arrays": """
import numpy as np
a = np.arange(24.0).reshape(2, 3, 4)
arrays = [a[::-1], a[:, ::-1], a[..., ::2], a.T, a[:0], a[:, :0], np.float32(1), np.array(5), np.array("a"), np.array([None]), np.array(["a", "bc"]), a.astype(">f8"),
          a.astype(np.float16), a.astype("u2"), a.astype("u4"), a.astype("u8"), np.zeros(3, "M8[s]"), np.zeros(3, "m8[s]"), np.zeros(3, [("a", "f4"), ("b", "i8")]),
          np.zeros(3, [("a", "f4"), ("b", "i1")])["a"], np.zeros(3, "V7"), np.zeros(3, np.longdouble), np.zeros(3, np.clongdouble), np.broadcast_to(np.float32(1), (2, 3)),
          np.broadcast_to(np.float32(1), (2**40,)), np.frombuffer(bytes(41), "f8", 5, 1), np.frombuffer(bytearray(41), "f8", 5, 1), np.lib.stride_tricks.as_strided(a, (2, 2), (8, 8)),
          np.ma.array([1, 2], mask=[True, False]), np.matrix([[1, 2]]), np.empty((0,) * 10), np.empty((1,) * 64), np.zeros((3, 0, 2**40)), np.nditer(a), np.dtype("f4"), np.float64,
          np.array([1, 2]).view(np.recarray), np.int64(3), np.bool_(True), np.complex64(1j), np.datetime64("2020"), np.str_("a"), np.bytes_(b"a"), np.void(b"abc")]
x = rl.zeros(4, 5)
for array in arrays:
    for make in (rl.from_numpy, rl.tensor, rl.as_tensor, rl.asarray, rl.Tensor, rl.from_dlpack, rl.zeros, x.__getitem__, x.fill_, x.add, lambda v: v + x, lambda v: x + v, lambda v: x == v,
                 lambda v: x.__setitem__(0, v), lambda v: rl.tensor([v, v]), lambda v: rl.frombuffer(v, dtype=rl.float32), lambda v: rl.frombuffer(v, dtype=rl.float64, offset=3)):
        made = attempt(make, array)
        if isinstance(made, rl.Tensor) and made.numel() < 1000 and not made.is_meta:
            attempt(lambda: (made.sum(), made.clone(), made + 1, made.tolist(), made.sort(), repr(made), made.add_(1)))
shared = np.zeros(5)
t = rl.from_numpy(shared)
attempt(t.resize_, 100); attempt(shared.resize, 100, refcheck=False); attempt(t.untyped_storage().resize_, 1000)
big = np.frombuffer(bytearray(4 * 6_000_000 + 4), np.float32, 6_000_000, 4)  # large enough for streaming stores, and not aligned for them
t = rl.from_numpy(big); t.fill_(3); t.add_(1); t.copy_(rl.ones(6_000_000)); rl.add(t, t, out=t); t.mul_(t); t.exp_(); t.zero_(); t.normal_(); t.bernoulli_(0.5)
assert float(rl.ones(6_000_000).add(t.fill_(1)).sum()) == 12_000_000
for t in (rl.ones(3).expand(2, 3), rl.ones(1).expand(2**40), rl.ones(1).expand(3, 2**40), rl.zeros(2, 0), rl.empty(2, device="meta"), rl.ones(2).bfloat16()):
    attempt(t.numpy); attempt(np.asarray, t); attempt(memoryview, t); attempt(t.__array__); attempt(np.add, t, 1) if t.numel() < 100 else None
""",
    "buffers and capsules": """
import array, ctypes
buffers = [b"", b"a", b"abcd" * 3, bytearray(b"abcdefgh"), memoryview(b"abcdefgh")[::2], memoryview(bytearray(16)), array.array("d", [1.0]), array.array("u", "ab"), (ctypes.c_int * 4)(),
           "text", None, 5, [1], object(), rl.ones(3), rl.ones(3)[::2], memoryview(b"abcdefgh").cast("h"), rl.ones(3, requires_grad=True), rl.ones(1).expand(4)]
for buffer in buffers:
    for dtype in (rl.float32, rl.bool, rl.complex128, rl.int16, None, "float", rl.bfloat16):
        for count in (-1, 0, 1, 2, -2, 2**62, 2**63 - 1, 2**70, "a"):
            for offset in (0, 1, 3, -1, 100, 2**63 - 1, -2**63):
                made = attempt(rl.frombuffer, buffer, dtype=dtype, count=count, offset=offset)
                if isinstance(made, rl.Tensor):
                    made.clone(), attempt(made.sum), made.tolist()
grown = bytearray(16); t = rl.frombuffer(grown, dtype=rl.uint8); attempt(grown.extend, bytes(1000)); t.sum(); view = memoryview(rl.ones(3)); del t
class Capsule:
    def __init__(self, result): self.result = result
    def __dlpack__(self, *a, **k):
        if isinstance(self.result, Exception): raise self.result
        return self.result
    def __dlpack_device__(self): return (1, 0)
used = rl.ones(3).__dlpack__(); rl.from_dlpack(used)
name = b"dltensor"  # the capsules point there
new = ctypes.pythonapi.PyCapsule_New; new.restype = ctypes.py_object; new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
other = new(1, b"other", None)
for o in (used, other, Capsule(used), Capsule(None), Capsule(5), Capsule(other), Capsule(TypeError("t")), Capsule(KeyError("k")), None, 5, [], Capsule, rl.ones(2, requires_grad=True), rl.empty(2, device="meta"), rl.ones(1).expand(2**40)):
    attempt(rl.from_dlpack, o)
class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]
class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]
memory = ctypes.create_string_buffer(1024)
keep = []
def managed(shape, strides, code=2, bits=32, lanes=1, ndim=None, device=1, data=True):
    sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape); steps = (ctypes.c_int64 * max(1, len(strides or ())))(*(strides or ()))
    m = Managed(); m.tensor = DLTensor(ctypes.addressof(memory) if data else None, (ctypes.c_int32 * 2)(device, 0), len(shape) if ndim is None else ndim, code, bits, lanes, sizes, steps if strides is not None else None, 0)
    keep.append((m, sizes, steps))
    return new(ctypes.addressof(m), name, None)
for shape, strides, named in [((2,), (1,), {}), ((2,), None, {}), ((-1,), (1,), {}), ((2**62, 4), None, {}), ((2**62, 4), (1, 1), {}), ((2, 2), (-1, 1), {}), ((2,), (2**62,), {}), ((2,), (1,), {"ndim": -1}),
                              ((0, -5), None, {}), ((1,) * 65, None, {}), ((2,), (1,), {"code": 9}), ((2,), (1,), {"bits": 7}), ((2,), (1,), {"lanes": 4}), ((2,), (1,), {"device": 2}), ((), None, {}),
                              ((0,), None, {"data": False}), ((2,), None, {"data": False}), ((3, 2**62), (0, 0), {})]:
    made = attempt(rl.from_dlpack, managed(shape, strides, **named))
    if isinstance(made, rl.Tensor) and made.numel() < 100:
        attempt(made.clone), attempt(made.sum)
for arguments in ({"max_version": ()}, {"max_version": "a"}, {"max_version": (2**70, 0)}, {"max_version": 5}, {"max_version": (1,)}, {"stream": object()}, {"copy": 5}, {"dl_device": 5}):
    attempt(rl.ones(2).__dlpack__, **arguments)
""",
    "storages": """
x = rl.arange(6.0)
s = x.untyped_storage()
for index in (0, -1, 100, -100, 2**70, "a", None, slice(None), slice(0, 100, 2), 1.5, slice(5, 2)):
    attempt(s.__getitem__, index); attempt(s.__setitem__, index, 1); attempt(s.__setitem__, index, 1000); attempt(s.__setitem__, index, "a"); attempt(s.__setitem__, index, s)
for size in (0, -1, 1, 2**40, 2**62, 2**63 - 1, 2**70, "a", None, 24, 3):
    attempt(s.resize_, size)
    attempt(lambda: x.sum()); attempt(lambda: x.tolist()); attempt(lambda: repr(x)); attempt(lambda: x.clone()); attempt(lambda: x.fill_(1)); attempt(lambda: x[3].item()); attempt(lambda: x.numpy().sum())
    attempt(lambda: memoryview(x).tolist()); attempt(lambda: x.add_(1)); attempt(lambda: x @ x); attempt(lambda: x.sort()); attempt(lambda: x[1:].exp_()); attempt(lambda: rl.cat([x, x]))
    attempt(lambda: x.view(rl.int32).sum()); attempt(lambda: x.to(rl.float64)); attempt(lambda: x.__dlpack__()); attempt(lambda: x.__reduce_ex__(2)); attempt(lambda: x.data_ptr())
    attempt(lambda: rl.nn.functional.linear(x, x)); attempt(lambda: rl.fft.fft(x)); attempt(lambda: rl.linalg.norm(x)); attempt(lambda: x.cumsum(0)); attempt(lambda: x[rl.tensor([0, 5])])
for arguments in ((), (-1,), (2**62,), (2**70,), ("a",), ([1, 2],), ([300],), (object(),), (1, 2)):
    attempt(rl.UntypedStorage, *arguments); attempt(rl.TypedStorage, *arguments) if hasattr(rl, "TypedStorage") else None
y = rl.arange(6.0)
for source in (s, y.untyped_storage(), y, None, 5):
    for offset in (0, -1, 5, 2**62, 2**63 - 1, "a"):
        for size, stride in (((2,), (1,)), ((2**62, 4), (1, 1)), ((2,), (2**62,)), ((2,), (-1,)), ((-1,), (1,)), ((7,), (1,)), ((2, 2), (1,)), ((3, 2**40), (0, 0)), ((0,), (5,)), ((), ())):
            z = rl.zeros(2)
            attempt(lambda: z.set_(source, offset, size, stride))
            attempt(z.sum) if z.numel() < 1000 else None
            for t in (y, z):
                view = attempt(t.as_strided, size, stride, offset)
                if isinstance(view, rl.Tensor) and view.numel() < 1000:
                    attempt(view.sum); attempt(view.fill_, 1)
                attempt(rl.empty_strided, size, stride)
for t in (rl.zeros(3), rl.zeros(3)[1:], rl.ones(1).expand(3), rl.zeros(3, requires_grad=True), rl.empty(3, device="meta"), rl.zeros(2, 3).t()):
    for size in ((0,), (-1,), (2**62,), (2**62, 4), (2**40,), (10,), (2, 2), "a", (1,) * 65, ()):
        attempt(t.resize_, size); attempt(t.sum) if t.numel() < 1000 else None; attempt(t.resize_as_, rl.ones(2, 2))
    attempt(setattr, t, "data", rl.zeros(100)); attempt(setattr, t, "data", 5); attempt(setattr, t, "grad", rl.zeros(9)); attempt(setattr, t, "grad", 5); attempt(delattr, t, "data"); attempt(delattr, t, "grad")
    for name in dir(t):
        if not callable(getattr(type(t), name, None)):
            for value in (None, 5, "a", rl.zeros(2), object()):
                attempt(setattr, t, name, value)
            attempt(delattr, t, name); attempt(getattr, t, name)
""",
    "types without arguments": """
import copy, pickle, gc
for holder in (rl._C, rl):
    for name in dir(holder):
        kind = getattr(holder, name)
        if isinstance(kind, type) and not issubclass(kind, (BaseException, rl.nn.Module)):
            for arguments in ((), (1,), (None,), ("a",), (object(),), (rl.ones(2),), (1, 2, 3)):
                made = attempt(kind, *arguments) if kind.__module__.startswith("rushlight") or kind.__module__ == "torch" else None
                attempt(repr, made); attempt(copy.copy, made); attempt(hash, made); attempt(lambda: made == 1); attempt(lambda: made < 1); attempt(lambda: len(made)); attempt(lambda: list(dir(made)))
            attempt(lambda: kind.__new__(kind)); attempt(object.__new__, kind)
            bare = attempt(lambda: kind.__new__(kind))
            if isinstance(bare, kind):
                for attribute in dir(bare):
                    attempt(getattr, bare, attribute)
                attempt(repr, bare); attempt(copy.deepcopy, bare)
            attempt(type, "Sub", (kind,), {}); attempt(setattr, kind, "x", 1); attempt(gc.collect)
class Sub(rl.Tensor):
    def __new__(cls, *args): return object()
    def __init__(self, *args): pass
attempt(Sub, 1)
class Broken(rl.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): raise KeyError("k")
class Wrong(rl.Tensor):
    __torch_function__ = 5
class Recursive(rl.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): return func(*args, **(kwargs or {}))
for kind in (Broken, Wrong, Recursive):
    made = attempt(lambda: rl.ones(2).as_subclass(kind))
    for call in (lambda: made + 1, lambda: made.sum(), lambda: repr(made), lambda: made[0], lambda: made == made, lambda: rl.cat([made, made]), lambda: bool(made), lambda: len(made), lambda: list(made)):
        attempt(call)
""",
}


@pytest.mark.parametrize("name", CASES)
def test_odd_objects_raise(name):
    source = HEAD + CASES[name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parent,
        timeout=120,
    )
    assert result.returncode == 0, f"exit {result.returncode}\n{result.stderr[-3000:]}"
