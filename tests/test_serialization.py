"""Saving and loading: what comes back, what is shared, what is refused, and torch's own files."""

import collections
import io
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
import threading
import time
import warnings
import zipfile

import pytest
import sanitizers

import rushlight
from rushlight import _replaced_file, serialization
from rushlight._checkpoint_reader import CheckpointReader
from rushlight._checkpoint_types import storage_of, typed_storage
from rushlight.serialization import load, save

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64"]
DTYPES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


def through_file(obj, **options):
    stream = io.BytesIO()
    save(obj, stream)
    stream.seek(0)
    return load(stream, **options)


def check_same(a, b):
    assert type(a) is type(b)
    if isinstance(a, rushlight.Tensor):
        assert (a.dtype, a.shape, a.stride(), a.device) == (b.dtype, b.shape, b.stride(), b.device)
        assert a.requires_grad == b.requires_grad
        assert a.is_meta or a.tolist() == b.tolist()
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            check_same(a[key], b[key])
    elif isinstance(a, (list, tuple)) and not isinstance(a, rushlight.Size):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            check_same(left, right)
    else:
        assert a == b


def plain_values():
    return {
        "none": None,
        "numbers": [0, -1, 255, 65536, -(2**31), 2**40, -(10**30), 1.5, -1e300, 1 + 2j],
        "flags": (True, False),
        "text": ["", "plain", "ünï\n", "x" * 300],
        "bytes": [b"", b"\x00\xff", bytearray(b"abc")],
        "sets": [{1, "a"}, frozenset([(1, 2)])],
        "nested": [[[{}]], ((), ((),))],
        "ordered": collections.OrderedDict(b=1, a=2),
        "counter": collections.Counter("aab"),
        "default": collections.defaultdict(list, a=[1]),
        "deque": collections.deque([1, 2], maxlen=4),
        "others": [slice(1, None, 2), range(3)],
        5: "number as key",
        (1, "a"): "tuple as key",
    }


def tensor_values():
    x = rushlight.arange(6.0).reshape(2, 3)
    values = {name: rushlight.ones(3, dtype=getattr(rushlight, name)) for name in DTYPES}
    values.update(
        transposed=x.t(),
        strided=x[:, ::2],
        scalar=rushlight.tensor(2.5),
        empty=rushlight.ones(0, 3),
        trained=rushlight.ones(2, requires_grad=True),
        parameter=rushlight.nn.Parameter(rushlight.ones(2)),
        frozen=rushlight.nn.Parameter(rushlight.ones(2), requires_grad=False),
        meta=rushlight.empty(2, 3, device="meta"),
        dtype=rushlight.bfloat16,
        device=rushlight.device("cpu"),
        size=x.shape,
        layout=rushlight.strided,
        random=rushlight.get_rng_state(),
    )
    return values


def test_plain_values_round_trip():
    check_same(through_file(plain_values()), plain_values())


def test_tensors_round_trip():
    check_same(through_file(tensor_values()), tensor_values())


def test_sharing_is_kept():
    x = rushlight.arange(6.0)
    loaded = through_file({"x": x, "row": x[2:4], "again": x, "list": [x]})
    assert loaded["x"] is loaded["again"] is loaded["list"][0]
    loaded["row"].fill_(7)
    assert loaded["x"].tolist() == [0, 1, 7, 7, 4, 5]
    recursive = []
    recursive.append(recursive)
    loaded = through_file(recursive)
    assert loaded[0] is loaded


def test_only_a_storage_that_is_seen_is_written_once():
    x = rushlight.zeros(10_000)
    stream = io.BytesIO()
    save([x, x[5:], x.view(100, 100)], stream)
    assert 40_000 < len(stream.getvalue()) < 44_000
    with pytest.raises(RuntimeError, match="different types"):
        save([x, x.view(rushlight.int32)], io.BytesIO())


def test_attributes_and_metadata_come_along():
    x = rushlight.ones(2)
    x.note = "kept"
    p = rushlight.nn.Parameter(rushlight.ones(1))
    p.group = 3
    state = collections.OrderedDict(weight=p)
    state._metadata = collections.OrderedDict({"": {"version": 2}})
    loaded = through_file([x, state])
    assert loaded[0].note == "kept" and loaded[1]["weight"].group == 3
    assert loaded[1]._metadata == state._metadata


def test_numpy_values():
    numpy = pytest.importorskip("numpy")
    values = [
        numpy.arange(6.0).reshape(2, 3),
        numpy.asfortranarray(numpy.arange(6).reshape(2, 3)),
        numpy.array(["ab", "ü"]),
        numpy.array([True]),
        numpy.arange(3, dtype=">i4"),
        numpy.zeros((0, 2)),
    ]
    for value, loaded in zip(values, through_file(values), strict=True):
        # NumPy itself turns other byte orders into the machine's when it unpickles
        assert type(loaded) is numpy.ndarray and loaded.dtype == value.dtype.newbyteorder("=")
        assert loaded.shape == value.shape and (loaded == value).all()
    assert through_file(numpy.float32(1.5)) == 1.5
    with pytest.raises(pickle.UnpicklingError, match="not supported"):
        through_file(numpy.array([None]))


def test_files(tmp_path):
    path = tmp_path / "run.v1.pt"
    save(tensor_values(), path)
    check_same(load(path), tensor_values())
    check_same(load(str(path), mmap=True), tensor_values())
    mapped = load(path, mmap=True)
    mapped["float32"].zero_()  # changes memory, not the file
    check_same(load(path), tensor_values())
    assert os.listdir(tmp_path) == ["run.v1.pt"]
    with zipfile.ZipFile(path) as archive, open(path, "rb") as raw:
        for info in archive.infolist():
            raw.seek(info.header_offset + 26)
            lengths = raw.read(4)
            start = info.header_offset + 30
            start += int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
            assert start % 64 == 0
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.pt")


def test_a_failed_save_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "x.pt"
    save([1], path)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        save([rushlight.ones(2), lambda: None], path)
    assert load(path) == [1] and os.listdir(tmp_path) == ["x.pt"]


def test_a_killed_save_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "x.pt"
    save("before", path)
    program = (
        "import os, signal, rushlight\n"
        "from rushlight.serialization import save\n"
        "class Deadly:\n"
        "    def __reduce__(self):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        f"save([rushlight.ones(3), Deadly()], {str(path)!r})\n"
    )
    result = subprocess.run([sys.executable, "-c", program])
    assert result.returncode == -signal.SIGKILL and load(path) == "before"
    assert os.listdir(tmp_path) == ["x.pt"], "the file that was begun"


def test_without_unnamed_files_the_next_save_removes_what_was_left(tmp_path, monkeypatch):
    """Some file systems have no O_TMPFILE."""
    monkeypatch.setattr(_replaced_file, "_open_unnamed", lambda folder: None)
    path = tmp_path / "x.pt"
    child = os.fork()
    if child == 0:
        with _replaced_file.replacing(path) as stream:
            stream.write(b"half")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (left,) = os.listdir(tmp_path)
    with _replaced_file.replacing(tmp_path / "other"):
        (held,) = set(os.listdir(tmp_path)) - {left}
        save("whole", path)
        assert sorted(os.listdir(tmp_path)) == sorted([held, "x.pt"]), "that of another saver stays"
    assert sorted(os.listdir(tmp_path)) == ["other", "x.pt"] and load(path) == "whole"
    with pytest.raises(KeyError), _replaced_file.replacing(path):
        raise KeyError
    assert load(path) == "whole" and len(os.listdir(tmp_path)) == 2


def test_without_links_to_unnamed_files_they_are_copied(tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError

    path = tmp_path / "x.pt"
    save("before", path)
    monkeypatch.setattr(os, "link", refuse)
    save(rushlight.arange(3), path)
    assert load(path).tolist() == [0, 1, 2] and os.listdir(tmp_path) == ["x.pt"]


def test_savers_at_once_leave_one_whole_file(tmp_path):
    path = tmp_path / "x.pt"

    def run(number):
        for _ in range(20):
            save(rushlight.full((1000,), number), path)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(load(path).unique()) == 1 and os.listdir(tmp_path) == ["x.pt"]


def test_a_mapped_file_that_is_truncated(tmp_path):
    path = tmp_path / "x.pt"
    save({"x": rushlight.arange(500_000)}, path)
    mapped = load(path, mmap=True)["x"]
    save({"x": rushlight.zeros(500_000, dtype=rushlight.int64)}, path)
    assert mapped[-1] == 499_999, "another file took the place; that which is mapped is whole"
    program = (
        "import os, rushlight, time\n"
        f"x = rushlight.load({str(path)!r}, mmap=True)['x']\n"
        f"y = rushlight.from_file({str(path)!r}, size=2**18, dtype=rushlight.int64, shared=True)\n"
        f"os.truncate({str(path)!r}, 5000)\n"
        "for use in (x.sum, y.add_, x.numpy().sum, x.untyped_storage().tolist):\n"
        "    for expected in (1, 0):\n"
        "        errors = 0\n"
        "        try:\n"
        "            use(*([1] if use == y.add_ else []))\n"
        # A page that another thread missed is an error once this one takes the interpreter again.
        "            time.sleep(0.001)\n"
        "        except RuntimeError as error:\n"
        "            assert 'x.pt' in str(error) and 'truncated' in str(error)\n"
        "            errors = 1\n"
        "    print(errors, end=' ')\n"
        "try:\n"
        f"    rushlight.load({str(path)!r}, mmap=True)\n"
        "except RuntimeError:\n"
        "    print('damaged')\n"
    )
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program], capture_output=True, text=True
    )
    assert (result.stdout, result.returncode) == ("0 0 0 0 damaged\n", 0), result.stderr


@pytest.mark.skipif(sanitizers.ADDRESS, reason="the sanitizer reports the signal itself")
def test_other_bus_errors_still_end_the_process(tmp_path):
    path = str(tmp_path / "x")
    program = (
        "import mmap, os, rushlight\n"
        f"file = open({path!r}, 'w+b')\n"
        "file.truncate(100_000)\n"
        f"rushlight.from_file({path!r}, size=10)\n"
        "other = mmap.mmap(file.fileno(), 100_000)\n"
        "file.truncate(1)\n"
        "other[50_000]\n"
    )
    result = subprocess.run([sys.executable, "-c", program])
    assert result.returncode == -signal.SIGBUS


def test_map_location():
    x = {"x": rushlight.ones(2)}
    for where in ("meta", rushlight.device("meta"), {"cpu": "meta"}):
        assert through_file(x, map_location=where)["x"].is_meta
    seen = []

    def stay(storage, location):
        seen.append((storage.nbytes(), location))

    assert through_file(x, map_location=stay)["x"].tolist() == [1, 1] and seen == [(8, "cpu")]
    if not rushlight.cuda.is_available():
        with pytest.raises(RuntimeError, match="on a CUDA device"):
            through_file(x, map_location="cuda")


# --- what is refused

ran = []


def dangerous():
    ran.append(1)


class Dangerous:
    def __reduce__(self):
        return dangerous, ()


class Plain:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x


def test_nothing_in_a_file_runs():
    with pytest.raises(pickle.UnpicklingError, match="GLOBAL .*dangerous was not an allowed"):
        through_file([Dangerous()])
    with pytest.raises(pickle.UnpicklingError, match="GLOBAL builtins.eval was not an allowed"):
        through_file([eval])
    assert not ran
    through_file([Dangerous()], weights_only=False)  # which says that the file is trusted
    assert ran == [1]


def test_trusted_classes():
    of_others = serialization.get_safe_globals()
    serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError, match="Plain"):
        through_file(Plain(3))
    with serialization.safe_globals([Plain]):
        assert through_file([Plain(3)]) == [Plain(3)]
        assert serialization.get_safe_globals() == [Plain]
    serialization.add_safe_globals([(Plain, f"{Plain.__module__}.Plain")])
    assert through_file(Plain([1])) == Plain([1])
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals(of_others)


def with_description(description):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", description)
        archive.writestr("archive/data/0", bytes(8))
        archive.writestr("archive/version", "3\n")
    stream.seek(0)
    return stream


STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02tQ"


@pytest.mark.parametrize(
    "geometry",
    [
        b"K\x01K\x02\x85K\x01\x85",  # one element too far
        b"K\x00K\x02\x85K\x02\x85",
        b"K\x00J\xff\xff\xff\xff\x85K\x01\x85",  # negative size
        b"K\x00K\x02\x85J\xff\xff\xff\xff\x85",  # negative stride
        b"K\x00\x8a\x08\0\0\0\0\0\0\0\x40\x85K\x00\x85",  # 2**62 elements
        b"K\x00K\x02\x85)",
        b"K\x00X\x01\0\0\0aK\x01\x85",
    ],
)
def test_impossible_tensors(geometry):
    head = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
    tail = b"\x89ccollections\nOrderedDict\n)RtR."
    good = load(with_description(head + STORAGE + b"K\x00K\x02\x85K\x01\x85" + tail))
    assert good.tolist() == [0, 0]
    with pytest.raises(pickle.UnpicklingError):
        load(with_description(head + STORAGE + geometry + tail))


@pytest.mark.parametrize(
    "description",
    [
        b"",
        b"\x80\x02",
        b"\x80\x02.",
        b"\x80\x63N.",
        b"\x80\x02h\x05.",
        b"\x80\x02Nt.",
        b"\x80\x02N)R.",
        b"\x80\x02]NNs.",
        b"\x80\x02X\xff\xff\xff\xffabc.",
        b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\0\0\0\0\x40\x85R.",
        b"\x80\x02}]Ns.",
        b"\x80\x02" + b"N" + b"\x85" * 100 + b"}" + b"q\0" + b"h\0Ns.",
        b"\x80\x02ccollections\nOrderedDict\n)R}X\x04\0\0\0keysNsb.",
        b"\x80\x02X\x07\0\0\0storageQ.",
        b"\x80\x02(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x09tQ.",
        b"\x80\x02I1\n.",
    ],
)
def test_damaged_descriptions(description):
    with pytest.raises(pickle.UnpicklingError):
        load(with_description(description))


def test_deep_keys_do_not_exhaust_the_stack():
    description = b"\x80\x02}" + b")" + b"\x85" * 1_000_000 + b"Ns."
    with pytest.raises(pickle.UnpicklingError, match="nested too deeply"):
        load(with_description(description))


def test_files_that_are_no_checkpoints(tmp_path):
    with pytest.raises(EOFError):
        load(io.BytesIO())
    for content in (b"text", b"PK\x03\x04", pickle.dumps([1])):
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            load(io.BytesIO(content))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**6))
    stream.seek(0)
    with pytest.raises(RuntimeError, match="compressed"):
        load(stream)


def mutated(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 6])):
        place, kind = rng.randrange(len(data)), rng.randrange(4)
        if kind == 0:
            data[place] = rng.randrange(256)
        elif kind == 1:
            del data[place : place + rng.randrange(1, 9)]
        elif kind == 2:
            data[place:place] = rng.randbytes(rng.randrange(1, 5))
        else:
            data[place] = rng.choice(b"cRbQ\x81\x93tq\x85e(]}.usa")
    return bytes(data)


def checkpoint():
    """One of many kinds of values: the bytes of the file, and its parts by name."""
    values = plain_values()
    del values["others"]
    stream = io.BytesIO()
    save([values, tensor_values()], stream)
    with zipfile.ZipFile(stream) as archive:
        return stream.getvalue(), {info.filename: archive.read(info) for info in archive.infolist()}


def in_old_format(parts):
    """The same values in the format before zip: pickles in a row, then the storages."""
    (description,) = [content for name, content in parts.items() if name.endswith("data.pkl")]
    stored = [name for name in parts if "/data/" in name]
    storages = {name.rpartition("/")[2]: parts[name] for name in stored}
    counts = {}

    def note_count(dtype, key, location, count):
        counts[key] = count
        return typed_storage(storage_of(bytearray(storages[key]), dtype), dtype)

    CheckpointReader(io.BytesIO(description), note_count).read()
    head = [0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}]
    pickles = [pickle.dumps(value, 2) for value in head]
    pickles += [description, pickle.dumps(list(storages), 2)]
    return b"".join(pickles) + b"".join(
        counts[key].to_bytes(8, "little") + content for key, content in storages.items()
    )


def mutated_checkpoints(seed, count, path):
    """Damaged files; every tenth is on disk and to be mapped."""
    rng = random.Random(seed)
    whole, parts = checkpoint()
    old = in_old_format(parts)
    for number in range(count):
        kind = rng.random()
        if kind < 0.2:
            data = mutated(whole, rng)
        elif kind < 0.3:
            data = whole[: rng.randrange(len(whole))]
        elif kind < 0.5:
            data = mutated(old, rng)
        else:
            stream = io.BytesIO()
            with zipfile.ZipFile(stream, "w") as archive:
                for name, content in parts.items():
                    described = name.endswith("data.pkl")
                    archive.writestr(name, mutated(content, rng) if described else content)
            data = stream.getvalue()
        if number % 10:
            yield {"f": io.BytesIO(data)}
        else:
            path.write_bytes(data)
            yield {"f": path, "mmap": True}


def check_mutated_checkpoints(seed, count, path):
    loaded = 0
    for options in mutated_checkpoints(seed, count, path):
        started = time.process_time()
        try:
            load(**options)
            loaded += 1
        except (RuntimeError, pickle.UnpicklingError, OSError):
            pass
        assert time.process_time() - started < 30
    assert 0 < loaded < count  # some changes are harmless, some are not


def test_the_old_format_that_is_mutated_can_be_read():
    whole, parts = checkpoint()
    check_same(load(io.BytesIO(in_old_format(parts))), load(io.BytesIO(whole)))


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_are_errors_or_load(seed, tmp_path):
    check_mutated_checkpoints(seed, 300, tmp_path / "x.pt")


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_mutated_files_are_errors_or_load(seed, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    check_mutated_checkpoints(seed, 5000, tmp_path / "x.pt")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kilobytes


# --- torch's files


def described(value):
    """Return tensors inside `value` as plain values, so that two libraries can be compared."""
    if hasattr(value, "stride"):
        contents = None if value.is_meta else value.tolist()
        kind = type(value).__name__
        return (kind, str(value.dtype), tuple(value.shape), value.stride(), contents)
    if isinstance(value, dict):
        return {key: described(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [described(part) for part in value]
    return str(value) if type(value).__name__ in ("dtype", "device", "layout") else value


def torch_values(library):
    x = library.arange(6.0).reshape(2, 3)
    return {
        "tensors": [library.ones(2, dtype=getattr(library, name)) for name in DTYPES],
        "views": [x, x.t(), x[:, 1:], x[1]],
        "parameter": library.nn.Parameter(x),
        "meta": library.empty(2, device="meta"),
        "others": [library.float16, library.device("cpu"), library.Size([2, 3])],
        "plain": {"a": [1, 2.5, "s", b"by", None, (True,)], "b": collections.OrderedDict(c=1)},
    }


@pytest.mark.torch
def test_torch_reads_our_files():
    import torch

    stream = io.BytesIO()
    save(torch_values(rushlight), stream)
    for options in ({}, {"weights_only": False}):
        stream.seek(0)
        loaded = torch.load(stream, **options)
        assert described(loaded) == described(torch_values(torch))
    assert loaded["views"][0].data_ptr() == loaded["views"][1].data_ptr()


@pytest.mark.torch
@pytest.mark.parametrize("new_format", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_we_read_torch_files(new_format, weights_only):
    import torch

    stream = io.BytesIO()
    torch.save(torch_values(torch), stream, _use_new_zipfile_serialization=new_format)
    stream.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = load(stream, weights_only=weights_only)
    assert described(loaded) == described(torch_values(rushlight))
    assert loaded["views"][0].data_ptr() == loaded["views"][1].data_ptr()


@pytest.mark.torch
def test_bits_of_views():
    """torch notes that a view is to be conjugated or negated, and stores its base."""
    import torch

    x = torch.tensor([1 + 2j, 3 - 4j])
    for value in (x.conj(), x.conj().imag, x.imag, x._neg_view(), x._neg_view().conj()):
        stream = io.BytesIO()
        torch.save(value, stream)
        stream.seek(0)
        assert load(stream).tolist() == value.tolist()


@pytest.mark.torch
def test_big_endian_files(tmp_path):
    import torch

    values = {"x": torch.arange(3.0), "z": torch.tensor([1 + 2j]), "n": torch.arange(3)}
    stream = io.BytesIO()
    torch.save(values, stream)
    swapped = io.BytesIO()
    widths = {"archive/data/0": 4, "archive/data/1": 4, "archive/data/2": 8}
    with zipfile.ZipFile(stream) as source, zipfile.ZipFile(swapped, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name in widths:
                width = widths[name]
                data = b"".join(data[i : i + width][::-1] for i in range(0, len(data), width))
            target.writestr(name, b"big" if name.endswith("byteorder") else data)
    swapped.seek(0)
    (tmp_path / "x.pt").write_bytes(swapped.getvalue())
    mapped = load(tmp_path / "x.pt", mmap=True)
    loaded = load(swapped)
    assert all(rushlight.equal(mapped[key], loaded[key]) for key in loaded)
    assert {key: value.tolist() for key, value in loaded.items()} == {
        key: value.tolist() for key, value in values.items()
    }


def test_a_storage_in_a_file_of_its_own():
    elements = rushlight.arange(3.0, dtype=rushlight.float64)
    for storage in (elements.storage(), elements.untyped_storage()):
        stream = io.BytesIO()
        save(storage, stream)
        stream.seek(0)
        read = load(stream)
        assert type(read) is type(storage)
        assert read.tolist() == storage.tolist()


def test_tensors_that_old_pickles_hold():
    """What torch writes for a tensor in an ordinary pickle: its storage as a file in bytes."""
    stream = io.BytesIO()
    save(rushlight.arange(4.0).storage(), stream)
    storage = rushlight.storage._load_from_bytes(stream.getvalue())
    tensor = rushlight._utils._rebuild_tensor_v2(storage, 1, (2,), (2,), False, {})
    assert tensor.tolist() == [1, 3]


def test_where_records_are():
    file = io.BytesIO()
    save({"a": rushlight.arange(5), "b": rushlight.zeros(300)}, file)
    reader = serialization.PyTorchFileReader(io.BytesIO(file.getvalue()))
    content = file.getvalue()
    for name in ("data.pkl", "data/0", "data/1", "version"):
        start, size = reader.get_record_offset(name), reader.get_record_size(name)
        assert content[start : start + size] == reader.get_record(name)
        header = reader.get_record_header_offset(name)
        assert content[header : header + 4] == b"PK\x03\x04" and header < start
    assert reader.get_record_size("data/1") == 1200
    assert reader.get_record_offset_no_read(100, "data/0", 40) == 192
    assert reader.get_record_offset_no_read(1000, "data/0", 2**33, 4096) == 4096
    assert reader.serialization_id() == ""  # rushlight writes none
    with pytest.raises(RuntimeError, match="'nothing'"):
        reader.get_record_size("nothing")


def _of_contents():
    """Objects whose making asks for the elements of what they are made of."""
    dense = rushlight.tensor([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0], [0.0, 0.0, 4.0]])
    return {
        "coo": dense.to_sparse(),
        "csr": dense.to_sparse_csr(),
        "csc": dense.to_sparse_csc(),
        "bsr": dense.to_sparse_bsr((1, 3)),
        "nested": rushlight.nested.nested_tensor([dense, dense[:2]]),
        "channels": rushlight.quantize_per_channel(
            dense,
            rushlight.tensor([0.1, 0.2, 0.3]),
            rushlight.tensor([0, 1, 2]),
            1,
            rushlight.qint8,
        ),
    }


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("weights_only", [True, False])
def test_what_is_made_of_elements_is_read_from_both_formats(zipped, weights_only):
    for name, saved in _of_contents().items():
        stream = io.BytesIO()
        rushlight.save([saved], stream, _use_new_zipfile_serialization=zipped)
        stream.seek(0)
        (loaded,) = rushlight.load(stream, weights_only=weights_only)
        assert loaded.layout is saved.layout and loaded.dtype is saved.dtype
        for ours, theirs in zip(*(_plain_parts(name, t) for t in (loaded, saved)), strict=True):
            assert ours.equal(theirs)
        assert zipped or not stream.read(1)


def _plain_parts(name, tensor):
    if name == "nested":
        return tensor.unbind()
    return [tensor.dequantize() if name == "channels" else tensor.to_dense()]


def test_tensors_keep_their_places_identities_and_histories():
    base = rushlight.arange(70_000.0)
    leaf = rushlight.ones(2, requires_grad=True)
    marked = rushlight.ones(1)
    marked.note = "kept"
    given = {
        "base": base, "again": [base, (base,)], "far": base[66_000:], "strided": base[1:9:3],
        "turned": base[:6].reshape(2, 3).t(), "empty": rushlight.empty(0, 3), "leaf": leaf,
        "conjugate": rushlight.tensor([1 + 2j]).conj(), "marked": marked,
        "number": rushlight.tensor(3, dtype=rushlight.int16),
        "meta": rushlight.ones(2, device="meta"),
    }  # fmt: skip
    for protocol in (2, 3, 4, 5):
        file = io.BytesIO()
        rushlight.save(given, file, pickle_protocol=protocol)
        file.seek(0)
        with rushlight.device("meta"):  # what is read is not made there
            found = rushlight.load(file)
        assert found["again"][0] is found["base"] and found["again"][1][0] is found["base"]
        for name in ("far", "strided", "turned"):
            one, other = given[name], found[name]
            assert one.equal(other) and one.stride() == other.stride()
            assert one.storage_offset() == other.storage_offset()
            assert other.untyped_storage().data_ptr() == found["base"].untyped_storage().data_ptr()
        assert found["leaf"].requires_grad and found["leaf"].is_leaf
        assert found["empty"].shape == (0, 3) and found["meta"].is_meta
        assert found["conjugate"].equal(given["conjugate"]) and found["marked"].note == "kept"
        assert found["number"].dtype is rushlight.int16 and found["number"].item() == 3


def test_files_are_read_through_read_alone_and_damage_is_found():
    class Reader:
        def __init__(self, data):
            self._file = io.BytesIO(data)

        def read(self, count=-1):
            return self._file.read(min(count, 1000) if count > 0 else count)

        def __getattr__(self, name):
            if name in ("readinto", "_file"):
                raise AttributeError(name)
            return getattr(self._file, name)

    file = io.BytesIO()
    rushlight.save({"x": rushlight.arange(5000)}, file)
    data = file.getvalue()
    assert rushlight.load(Reader(data))["x"].equal(rushlight.arange(5000))
    place = data.index(rushlight.arange(4000, 4010).numpy().tobytes())
    damaged = data[:place] + b"\xff" + data[place + 1 :]
    with pytest.raises(RuntimeError, match="damaged: Bad CRC-32"):
        rushlight.load(io.BytesIO(damaged))
