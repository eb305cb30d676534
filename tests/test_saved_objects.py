"""What files may hold besides plain tensors: storages, instances of subclasses, nested tensors; and
from what objects files are read.
"""

import copy
import io
import os
import pickle
import struct
import zipfile

import pytest

import rushlight
from rushlight.serialization import load, safe_globals, save

FORMATS = [pytest.param(True, id="zip"), pytest.param(False, id="before-zip")]


def saved(obj, **options):
    stream = io.BytesIO()
    save(obj, stream, **options)
    stream.seek(0)
    return stream


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("new_format", FORMATS)
def test_storages_inside_of_containers(new_format, weights_only):
    tensor = rushlight.arange(4.0)
    typed, bare = tensor.storage(), rushlight.ones(3).untyped_storage()
    stream = saved(
        [tensor, (typed, 1), {"bare": bare}, typed, [bare]],
        _use_new_zipfile_serialization=new_format,
    )
    whole, (first, _), inner, again, (other,) = load(stream, weights_only=weights_only)
    assert type(first) is rushlight.TypedStorage and first.dtype is rushlight.float32
    assert first.tolist() == [0, 1, 2, 3] and first is again
    first[0] = 7
    assert whole[0] == 7
    assert isinstance(inner["bare"], rushlight.UntypedStorage) and len(inner["bare"]) == 12
    assert inner["bare"].data_ptr() == other.data_ptr()


def old_file_of_a_part(first, count):
    """A file in the format from before zip with a tensor, and a storage that is a part of its."""

    class Pickler(pickle._Pickler):
        def persistent_id(self, obj):
            kind = Named("torch", "FloatStorage")
            if obj == "whole":
                return ("storage", kind, "0", "cpu", 5, None)
            if obj == "part":
                return ("storage", kind, "0", "cpu", 5, ("1", first, count))
            return None

        def save(self, obj, save_persistent_id=True):
            if isinstance(obj, Named):
                self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
            else:
                super().save(obj, save_persistent_id)

    class Named:
        def __init__(self, module, name):
            self.module, self.name = module, name

    stream = io.BytesIO()
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}
    for value in (0x1950A86A20F9469CFC6C, 1001, system):
        pickle.dump(value, stream, 2)
    Pickler(stream, 2).dump(["whole", "part", "part"])
    pickle.dump(["0"], stream, 2)
    stream.write(struct.pack("<q5f", 5, 0, 1, 2, 3, 4))
    stream.seek(0)
    return stream


def test_a_part_of_a_storage_in_an_old_file():
    whole, part, same = load(old_file_of_a_part(1, 3))
    assert part.tolist() == [1, 2, 3] and part is same
    part[0] = 9
    assert whole.tolist() == [0, 9, 2, 3, 4]
    with pytest.raises(pickle.UnpicklingError, match="not within its storage"):
        load(old_file_of_a_part(3, 3))


class Slotted(rushlight.Tensor):
    __slots__ = ["inner", "unset"]


class Stateful(rushlight.Tensor):
    def __getstate__(self):
        return ("of", self.__dict__)

    def __setstate__(self, state):
        mark, attributes = state
        assert mark == "of"
        self.__dict__.update(attributes, restored=True)


def slotted():
    tensor = rushlight.arange(3.0).as_subclass(Slotted)
    tensor.inner, tensor.label = rushlight.ones(2), "n"
    return tensor


@pytest.mark.parametrize("weights_only", [True, False])
def test_subclasses_of_tensors_that_are_trusted(weights_only):
    with safe_globals([Slotted, Stateful]):
        slots = load(saved(slotted()), weights_only=weights_only)
        assert type(slots) is Slotted and slots.tolist() == [0, 1, 2]
        assert slots.inner.tolist() == [1, 1] and slots.label == "n"
        assert not hasattr(slots, "unset")
        tensor = rushlight.zeros(2).as_subclass(Stateful)
        tensor.kept = 5
        state = load(saved(tensor), weights_only=weights_only)
        assert type(state) is Stateful and state.kept == 5 and state.restored
        empty = load(saved(rushlight.empty(0).as_subclass(Slotted)), weights_only=weights_only)
        assert type(empty) is Slotted and empty.numel() == 0
    with pytest.raises(pickle.UnpicklingError, match=r"add_safe_globals\(\[Slotted\]\)"):
        load(saved(slotted()))


class WithDefault(rushlight.Tensor):
    size_of_dim = None

    def grow(self):
        return self + 1


def test_attributes_may_hide_default_values_of_a_class_but_not_its_methods():
    tensor = rushlight.zeros(2).as_subclass(WithDefault)
    tensor.size_of_dim = 3
    with safe_globals([WithDefault]):
        assert load(saved(tensor), weights_only=True).size_of_dim == 3
        tensor.grow = 3
        with pytest.raises(pickle.UnpicklingError, match="the file sets WithDefault.grow"):
            load(saved(tensor), weights_only=True)


def test_slots_and_states_are_copied_and_pickled():
    tensor = slotted()
    deep = copy.deepcopy(tensor)
    assert deep.inner.tolist() == [1, 1] and deep.inner is not tensor.inner and deep.label == "n"
    assert pickle.loads(pickle.dumps(tensor)).inner.tolist() == [1, 1]
    assert copy.copy(tensor).inner is tensor.inner
    tensor = rushlight.zeros(2).as_subclass(Stateful)
    assert pickle.loads(pickle.dumps(tensor)).restored


def test_what_no_program_can_allow():
    with safe_globals([os.execv]):
        with pytest.raises(pickle.UnpicklingError, match=f"module {os.name}, which is blocked"):
            load(saved(os.execv))


def test_the_environment_decides_about_weights_only(monkeypatch, tmp_path):
    path = tmp_path / "layer.pt"
    save(rushlight.nn.Linear(2, 2), path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="forcing weights_only=False"):
        assert isinstance(load(path), rushlight.nn.Linear)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        load(path, weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "yes")
    with pytest.raises(RuntimeError, match="both set"):
        load(path)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        load(path, weights_only=False)


@pytest.mark.parametrize("weights_only", [True, False])
def test_texts_of_python_2(weights_only):
    class Pickler(pickle._Pickler):
        """Writes texts as Python 2 did."""

        def save(self, obj, save_persistent_id=True):
            if isinstance(obj, str):
                data = obj.encode()
                self.write(pickle.SHORT_BINSTRING + bytes([len(data)]) + data)
            else:
                super().save(obj, save_persistent_id)

        def persistent_id(self, obj):
            return ("storage", kind, "0", "cpu", 2, None) if obj is marker else None

        def reducer_override(self, obj):
            return (getattr, (obj,)) if obj is kind else NotImplemented

        def save_reduce(self, *args, **kwargs):
            self.write(pickle.GLOBAL + b"torch\nFloatStorage\n")

    kind, marker = slice(0), object()
    stream = io.BytesIO()
    system = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}
    for value in (0x1950A86A20F9469CFC6C, 1001, system):
        pickle.dump(value, stream, 2)
    Pickler(stream, 2).dump(["\u017c", marker])
    pickle.dump(["0"], stream, 2)
    stream.write(struct.pack("<q2f", 2, 1, 2))
    texts = {"utf-8": "\u017c", "bytes": "\u017c".encode(), "latin1": "\xc5\xbc"}
    for encoding, text in texts.items():
        stream.seek(0)
        found, storage = load(stream, weights_only=weights_only, encoding=encoding)
        assert found == text and storage.tolist() == [1, 2]


def test_empty_storages_of_several_dtypes():
    empty = rushlight.empty(0)
    other = rushlight.TypedStorage(wrap_storage=empty.untyped_storage(), dtype=rushlight.int8)
    first, second = load(saved([empty, other]))
    assert first.dtype is rushlight.float32 and second.dtype is rushlight.int8


class Stream:
    """A file with the few methods that a program may have thought of."""

    def __init__(self, data, *names):
        self._file = io.BytesIO(data)
        for name in names:
            setattr(self, name, getattr(self._file, name))


def test_objects_that_are_less_than_files():
    tensor = rushlight.arange(6).view(2, 3)
    for new_format in (True, False):
        target = Stream(b"", "write", "flush")
        save(tensor, target, _use_new_zipfile_serialization=new_format)
        data = target._file.getvalue()
        for names in (("read",), ("read", "readline", "seek", "tell")):
            assert load(Stream(data, *names)).tolist() == tensor.tolist()
        for wrong in (tensor, [1], 3):
            with pytest.raises(AttributeError, match="attribute 'write'"):
                save("text", wrong, _use_new_zipfile_serialization=new_format)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("layout", ["jagged", "strided"])
def test_nested_tensors(layout, weights_only, requires_grad):
    nested = rushlight.nested.nested_tensor(
        [rushlight.arange(4.0).view(2, 2), rushlight.ones(3, 2)],
        layout=getattr(rushlight, layout), requires_grad=requires_grad,
    )  # fmt: skip
    for new in (load(saved(nested), weights_only=weights_only), copy.copy(nested)):
        assert new.layout is nested.layout and new.requires_grad is requires_grad
        pairs = zip(new.unbind(), nested.unbind(), strict=True)
        assert all(rushlight.equal(a, b) for a, b in pairs)


class Pair(rushlight.Tensor):
    """Two tensors that show themselves as one."""

    @staticmethod
    def __new__(cls, first, second):
        return rushlight.Tensor._make_wrapper_subclass(
            cls, first.shape, strides=first.stride(), dtype=first.dtype, device=first.device
        )

    def __init__(self, first, second):
        self.first, self.second = first, second

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        return cls(func(args[0].first), func(args[0].second))


@pytest.mark.parametrize("weights_only", [True, False])
def test_wrappers_without_elements(weights_only):
    pair = Pair(rushlight.ones(2, 3).t(), rushlight.zeros(3, 2))
    with safe_globals([Pair]):
        new = load(saved({"pair": pair}), weights_only=weights_only)["pair"]
    assert type(new) is Pair and new.shape == (3, 2) and new.stride() == (1, 3)
    assert new.first.tolist() == [[1, 1]] * 3 and new.second.tolist() == [[0, 0]] * 3


def test_functions_have_the_names_of_torch():
    functions = [rushlight.nn.functional.relu, rushlight.nn.functional.softmax, rushlight.full]
    stream = saved(functions)
    assert b"rushlight" not in stream.getvalue()
    assert load(stream, weights_only=False) == functions


@pytest.mark.parametrize(
    ("module", "name", "function"),
    [
        ("torch._C._nn", "gelu", rushlight.nn.functional.gelu),
        ("torch._C._linalg", "linalg_inv", rushlight.linalg.inv),
        ("torch._C._special", "special_erf", rushlight.special.erf),
        ("torch._C._fft", "fft_fft", rushlight.fft.fft),
    ],
)
def test_functions_of_the_core_of_torch(module, name, function):
    stream = saved(7)
    with zipfile.ZipFile(stream) as archive:
        entries = {entry: archive.read(entry) for entry in archive.namelist()}
    described = next(entry for entry in entries if entry.endswith("data.pkl"))
    entries[described] = b"\x80\x02c" + f"{module}\n{name}\n.".encode()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for entry, data in entries.items():
            archive.writestr(entry, data)
    stream.seek(0)
    assert load(stream, weights_only=False) is function


def test_an_open_file_is_complete_after_saving(tmp_path):
    for new_format in (True, False):
        with open(tmp_path / "x.pt", "wb") as stream:
            save([1, rushlight.ones(2)], stream, _use_new_zipfile_serialization=new_format)
            assert load(tmp_path / "x.pt")[1].tolist() == [1, 1]


def test_a_storage_as_the_data_of_a_tensor():
    source = rushlight.arange(4.0)
    storage = source.untyped_storage()
    shared = rushlight.tensor(storage, dtype=rushlight.float32)
    shared[1] = 9
    assert source.tolist() == [0, 9, 2, 3]
    assert rushlight.as_tensor(storage, dtype=rushlight.uint8).shape == (16,)
    assert rushlight.tensor(storage).dtype is rushlight.int64


def test_methods_of_sparse_tensors_called_as_functions_of_the_class():
    dense = rushlight.eye(3)
    assert rushlight.Tensor.crow_indices(dense.to_sparse_csr()).tolist() == [0, 1, 2, 3]
    assert rushlight.Tensor.row_indices(dense.to_sparse_csc()).tolist() == [0, 1, 2]
    assert rushlight.Tensor.coalesce(dense.to_sparse())._nnz() == 3
    with pytest.raises(RuntimeError, match="crow_indices"):
        rushlight.Tensor.crow_indices(dense)
