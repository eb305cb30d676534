"""Files made to exhaust time or memory, to be read in two ways, or to reach what is not theirs.

Each is loaded in a process of its own that may take some seconds of CPU and some memory more than
it has: what must come is an error of the kinds that `load` documents, or, where the file is only
odd, its value.
"""

import io
import os
import pickle
import resource
import struct
import time
import zipfile

import pytest

import rushlight
from rushlight.serialization import load

SECONDS = 10
MEMORY = 400 << 20
ERRORS = (RuntimeError, pickle.UnpicklingError, EOFError)
BIG = 1 << 20  # bytes of what a file uses again and again


# --- pieces of pickles


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def data_of(value):
    return b"B" + struct.pack("<I", len(value)) + value


def number(value):
    size = max(1, (value.bit_length() + 8) // 8)
    return b"\x8b" + struct.pack("<I", size) + value.to_bytes(size, "little", signed=True)


def name(path):
    module, _, attribute = path.rpartition(".")
    return f"c{module}\n{attribute}\n".encode()


def put(place):
    return b"r" + struct.pack("<I", place)


def get(place):
    return b"j" + struct.pack("<I", place)


def marked(*parts):
    return b"(" + b"".join(parts) + b"t"


def call(path, *arguments):
    return name(path) + marked(*arguments) + b"R"


def storage(key="0", count=2, kind="FloatStorage", location="cpu"):
    reference = marked(
        text("storage"), name(f"torch.{kind}"), text(key), text(location), number(count)
    )
    return reference + b"Q"


def tensor(data, offset=0, size=(2,), stride=(1,), rest=b""):
    numbers = [marked(*map(number, part)) for part in (size, stride)]
    hooks = call("collections.OrderedDict")
    return call(
        "torch._utils._rebuild_tensor_v2", data, number(offset), *numbers, b"\x89", hooks, rest
    )


def doubled_tuples(count):
    """A tuple of two references to a tuple of two references ..., `count` deep."""
    text = b")" + put(0)
    for place in range(count):
        text += b"0" + get(place) + get(place) + b"\x86" + put(place + 1)
    return text


# --- archives


def archive(description, data=bytes(8), root="archive", **entries):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as target:
        target.writestr(f"{root}/data.pkl", b"\x80\x02" + description + b".")
        target.writestr(f"{root}/data/0", data)
        for key, content in entries.items():
            target.writestr(f"{root}/{key}", content)
    return stream.getvalue()


def changed_directory(content, change):
    """Change the entries of the central directory: (number, bytearray of 46 bytes) -> None."""
    content = bytearray(content)
    at, count = content.index(b"PK\x01\x02"), 0
    while content[at : at + 4] == b"PK\x01\x02":
        header = content[at : at + 46]
        name_length, extra, comment = struct.unpack("<HHH", header[28:34])
        change(count, header)
        content[at : at + 46] = header
        at += 46 + name_length + extra + comment
        count += 1
    return bytes(content)


def with_size(size):
    def change(count, header):
        if count == 1:
            header[20:28] = struct.pack("<II", size, size)

    return change


def overlapping(count):
    """An archive whose directory names one big record many times."""
    stream = io.BytesIO()
    keys = [str(i) for i in range(count)]
    tensors = b"".join(tensor(storage(key, BIG)) for key in keys)
    with zipfile.ZipFile(stream, "w") as target:
        target.writestr("archive/data.pkl", b"\x80\x02" + marked(tensors) + b".")
        target.writestr("archive/data/0", bytes(4 * BIG))
        for key in keys[1:]:
            target.writestr(f"archive/data/{key}", b"")
    place = stream.getvalue().index(b"PK\x03\x04", 4)

    def change(number, header):
        if number > 1:
            header[16:28] = struct.pack("<III", 0, 4 * BIG, 4 * BIG)
            header[42:46] = struct.pack("<I", place)

    return changed_directory(stream.getvalue(), change)


def bomb():
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as target:
        target.writestr("archive/data.pkl", bytes(1 << 28))
    return stream.getvalue()


def twice():
    stream = io.BytesIO()
    with pytest.warns(UserWarning), zipfile.ZipFile(stream, "w") as target:
        target.writestr("archive/data.pkl", b"\x80\x02K\x01.")
        target.writestr("archive/data.pkl", b"\x80\x02K\x02.")
    return stream.getvalue()


def many_entries(count):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as target:
        target.writestr("archive/data.pkl", b"\x80\x02K\x01.")
        for i in range(count):
            target.writestr(f"archive/{i}", b"")
    return stream.getvalue()


# --- the format before zip


def legacy(description, keys, storages=b"", system=b""):
    head = [0x1950A86A20F9469CFC6C, 1001]
    pickles = [pickle.dumps(value, 2) for value in head]
    pickles += [system or pickle.dumps({"little_endian": True}, 2)]
    pickles += [b"\x80\x02" + description + b".", b"\x80\x02" + keys + b"."]
    return b"".join(pickles) + storages


def legacy_storage(count=2, **options):
    reference = storage(count=count, **options)
    return reference.replace(b"tQ", b"NtQ")


FLOATS = struct.pack("<qff", 2, 1, 2)
KEYS = b"]" + text("0") + b"a"

# --- the files

COLLIDING = b"".join(number((2**61 - 1) * i + 5) + b"N" for i in range(1, 60_000))
BYTES = data_of(bytes(BIG)) + put(0)
AGAIN = 20_000  # uses of what has BIG bytes
HUGE = number(1 << 80_000) + put(0)

HOSTILE = {
    # much work from few bytes
    "size of a range": archive(call("torch.Size", call("builtins.range", number(10**12)))),
    "tuples doubled as key": archive(b"}" + doubled_tuples(40) + b"Ns"),
    "tuples doubled as keys": archive(
        b"}" + put(99) + doubled_tuples(15) + put(98) + b"0" + (get(98) + b"Ns") * 2_000
    ),
    "wide tuples as key": archive(
        b"}" + (marked(*[b"K\x01"] * 1000) + put(1))
        + (marked(*[get(1)] * 1000) + put(2)) + (marked(*[get(2)] * 1000) + put(3)) + b"Ns"
    ),
    "tuples doubled in a set": archive(call("builtins.set", b"]" + doubled_tuples(40) + b"a")),
    "keys of one hash": archive(b"}(" + COLLIDING + b"u"),
    "elements of one hash": archive(
        b"\x8f(" + b"".join(number((2**61 - 1) * i + 5) for i in range(1, 60_000)) + b"\x90"
    ),
    "pairs of one hash": archive(
        call(
            "collections.OrderedDict",
            b"](" + b"".join(number((2**61 - 1) * i) + b"N\x86" for i in range(1, 60_000)) + b"e",
        )
    ),
    "a huge int as key": archive(
        b"}" + put(9) + number(1 << (8 * BIG)) + put(0) + b"Ns" + (get(0) + b"Ns") * 4 * AGAIN
    ),
    "huge ints as sizes": archive(
        tensor(storage(), size=(), stride=()).replace(b"(t(t", HUGE + b"0("
        + get(0) * 200_000 + b"t(" + get(0) * 200_000 + b"t")
    ),
    "huge ints in a Size": archive(call("torch.Size", HUGE + b"0" + marked(get(0) * 200_000))),
    "huge ints of a meta tensor": archive(
        call(
            "torch._utils._rebuild_meta_tensor_no_storage", name("torch.float32"),
            HUGE + b"0" + marked(get(0) * 200_000), marked(get(0) * 200_000), b"\x89",
        )
    ),
    "huge ints of an array": archive(
        call("numpy.core.multiarray._reconstruct", name("numpy.ndarray"), b"K\0\x85", text("b"))
        + marked(
            number(1), HUGE + b"0" + marked(get(0) * 200_000),
            call("numpy.dtype", text("f4")), b"\x89", data_of(b""),
        ) + b"b"
    ),
    "copies of bytes": archive(
        BYTES + b"0](" + (name("builtins.bytearray") + get(0) + b"\x85R") * AGAIN + b"e"
    ),
    "copies of encoded text": archive(
        text("x" * BIG) + put(0) + b"0" + text("latin1") + put(1) + b"0]("
        + (name("_codecs.encode") + get(0) + get(1) + b"\x86R") * AGAIN + b"e"
    ),
    "copies of a list": archive(
        b"](" + b"N" * BIG + b"e" + put(0) + b"0]("
        + (name("collections.deque") + get(0) + b"\x85R") * AGAIN + b"e"
    ),
    "copies of a dict": archive(
        b"}(" + b"".join(number(i) + b"N" for i in range(BIG // 8)) + b"u" + put(0) + b"0]("
        + (name("collections.Counter") + get(0) + b"\x85R") * AGAIN + b"e"
    ),
    "copies of a set": archive(
        b"](" + b"".join(number(i) for i in range(BIG // 8)) + b"e" + put(0) + b"0]("
        + (name("builtins.frozenset") + get(0) + b"\x85R") * AGAIN + b"e"
    ),
    "arrays of the same bytes": archive(
        BYTES + b"0" + call("numpy.dtype", text("u1")) + put(1) + b"0]("
        + (
            call("numpy.core.multiarray._reconstruct", name("numpy.ndarray"), b"K\0\x85", text("b"))
            + marked(number(1), number(BIG) + b"\x85", get(1), b"\x89", get(0)) + b"b"
        ) * 5_000 + b"e"
    ),
    "attributes set again": archive(
        b"}(" + b"".join(text(f"a{i}") + b"N" for i in range(BIG // 16)) + b"u" + put(0) + b"0"
        + call("collections.OrderedDict") + (get(0) + b"b") * AGAIN
    ),
    "pairs that are ranges": archive(
        call("collections.OrderedDict", b"]" + call("builtins.range", number(10**12)) + b"a")
    ),
    "a range as contents": archive(
        call("collections.deque", call("builtins.range", number(10**12)))
    ),
    "expanded indices": archive(
        call(
            "torch._utils._rebuild_sparse_tensor",
            call("torch.serialization._get_layout", text("torch.sparse_coo")),
            marked(
                tensor(storage(kind="LongStorage", count=1), size=(1, 2**36), stride=(0, 0)),
                tensor(storage("1", 2), size=(2**36,), stride=(0,)), marked(number(9)),
            ),
        ),
        **{"data/1": bytes(8)},
    ),
    "expanded conjugate": archive(
        tensor(
            storage(kind="ComplexFloatStorage", count=1), size=(2**36,), stride=(0,),
            rest=b"}" + text("conj") + b"\x88s",
        )
    ),
    "expanded negative": archive(
        tensor(storage(), size=(2**36,), stride=(0,), rest=b"}" + text("neg") + b"\x88s")
    ),
    "a tensor that is rebuilt from itself": archive(
        name("torch._tensor._rebuild_from_type_v2") + put(0) + b"0" + name("torch.Tensor")
        + put(1) + b"0)" + (put(2) + b"0" + marked(get(0), get(1), get(2), b"N")) * 20_000 + put(2)
        + b"0" + get(0) + get(2) + b"R"
    ),
    # numbers that lie
    "an offset below 0": archive(tensor(storage(), offset=-1)),
    "a stride below 0": archive(tensor(storage(), offset=1, stride=(-1,))),
    "a huge stride": archive(tensor(storage(), stride=(2**62,))),
    "a stride above 64 bits": archive(tensor(storage(), size=(1,), stride=(2**64,))),
    "a huge offset": archive(tensor(storage(), offset=2**63 - 1, size=(0,))),
    "65 dims": archive(tensor(storage(), size=(1,) * 65, stride=(1,) * 65)),
    "elements that overflow": archive(
        tensor(storage(), size=(2**31, 2**31, 2**31, 0), stride=(0, 0, 0, 0)) + b"0"
        + tensor(storage(), size=(2**32, 2**32), stride=(0, 0))
    ),
    "strides of a meta tensor": archive(
        call(
            "torch._utils._rebuild_meta_tensor_no_storage", name("torch.float64"),
            marked(number(2**30)), marked(number(2**62)), b"\x89",
        )
    ),
    "sizes of a meta tensor without elements": archive(
        call(
            "torch._utils._rebuild_meta_tensor_no_storage", name("torch.float64"),
            marked(number(2**62), number(2**62), number(0)), marked(*[number(1)] * 3), b"\x89",
        )
    ),
    "a storage of another size": archive(tensor(storage(count=3))),
    "a storage of fewer than no elements": archive(tensor(storage(count=-2))),
    "a storage under two types": archive(
        marked(tensor(storage()), tensor(storage(kind="LongStorage", count=1), size=(1,)))
    ),
    "a storage that is not there": archive(tensor(storage("7"))),
    "a storage with a path": archive(tensor(storage("../data/0"))),
    "a storage with the path of another file": archive(tensor(storage("/etc/passwd"))),
    "an unknown device": archive(tensor(storage(location="moon"))),
    "an unknown byte order": archive(tensor(storage()), byteorder=b"middle"),
    "an unknown property": archive(tensor(storage(), rest=b"}" + text("magic") + b"\x88s")),
    "an attribute of the class": archive(
        name("torch._tensor._rebuild_from_type_v2")
        + marked(
            name("torch._utils._rebuild_tensor_v2"), name("torch.Tensor"),
            marked(storage(), number(0), number(2) + b"\x85", number(1) + b"\x85"),
            b"}" + text("grad") + b"Ns",
        ) + b"R"
    ),
    "a memo that is not there": archive(get(5)),
    "a memo of itself": archive(b"]" + put(0) + get(0) + b"a" + b"}" + get(0) + b"Ns"),
    "a mark too many": archive(b"N(" + b"0"),
    "a name to call that is a value": archive(b"N)R"),
    "a call of another library": archive(call("os.system", text("true"))),
    "a call of our own": archive(call("rushlight.hub.download_url_to_file", text("file:///x"))),
    "a name with dots": archive(call("collections.OrderedDict.fromkeys", b"]")),
    # archives
    "a bomb": bomb(),
    "records that overlap": overlapping(500),
    "an entry twice": twice(),
    "a size beyond the file": changed_directory(
        archive(tensor(storage(count=2**29))), with_size(2**31)
    ),
    "a size below the true one": changed_directory(archive(tensor(storage())), with_size(4)),
    "the middle of another entry": changed_directory(
        archive(tensor(storage())),
        lambda number, header: header.__setitem__(slice(42, 46), struct.pack("<I", 3)),
    ),
    "a program": archive(b"N", **{"constants.pkl": b"N."}),
    "no object": many_entries(1)[:-22] + b"PK\x05\x06" + bytes(18),
    # the format before zip
    "legacy: a huge storage": legacy(tensor(legacy_storage(count=2**40)), KEYS, FLOATS),
    "legacy: many storages": legacy(
        marked(*[tensor(legacy_storage(key=str(i), count=BIG)) for i in range(1000)]), KEYS, FLOATS
    ),
    "legacy: fewer than no elements": legacy(tensor(legacy_storage(count=-1)), KEYS, FLOATS),
    "legacy: contents that are short": legacy(tensor(legacy_storage()), KEYS, FLOATS[:-1]),
    "legacy: contents of another size": legacy(
        tensor(legacy_storage()), KEYS, struct.pack("<qff", 1, 1, 2)
    ),
    "legacy: no contents": legacy(tensor(legacy_storage()), b"]", FLOATS),
    "legacy: contents twice": legacy(
        tensor(legacy_storage()), b"](" + text("0") * 2 + b"e", FLOATS * 2
    ),
    "legacy: keys without end": legacy(
        tensor(legacy_storage()), call("builtins.range", number(10**12)), FLOATS
    ),
    "legacy: two types": legacy(
        marked(
            tensor(legacy_storage()), tensor(legacy_storage(kind="LongStorage", count=1), size=(1,))
        ), KEYS, FLOATS,
    ),
    "legacy: a part of a storage": legacy(
        tensor(storage().replace(b"tQ", marked(text("0"), b"K\0K\1") + b"tQ")), KEYS, FLOATS
    ),
    "legacy: another machine": legacy(b"N", b"]", system=pickle.dumps({"little_endian": False}, 2)),
    "legacy: a tar file": b"sys_info".ljust(257, b"\0") + b"ustar".ljust(255, b"\0"),
}  # fmt: skip

# Odd, but with a value, within the same limits.
HARMLESS = {
    "deep lists": archive(b"]" * 300_000 + b"a" * 299_999),
    "deep dicts": archive(b"}" + (b"K\x01}") * 200_000 + b"s" * 200_000),
    "deep tuples": archive(b")" + b"\x85" * 500_000),
    "deep deques": archive((name("collections.deque") + b"(]") * 50_000 + b"N" + b"atR" * 50_000),
    "deep attributes of dicts": archive(
        (call("collections.OrderedDict") + b"}" + text("a")) * 20_000 + b"N" + b"sb" * 20_000
    ),
    "deep attributes of tensors": archive(
        (
            name("torch._tensor._rebuild_from_type_v2")
            + b"("
            + name("torch._utils._rebuild_tensor_v2")
            + name("torch.Tensor")
            + marked(storage(), number(0), b")", b")", b"\x89", b"N")
            + b"}"
            + text("a")
        )
        * 20_000
        + b"N"
        + b"stR" * 20_000
    ),
    "deep attributes of parameters": archive(
        (
            name("torch._utils._rebuild_parameter_with_state")
            + b"("
            + tensor(storage())
            + b"\x88N}"
            + text("a")
        )
        * 20_000
        + b"N"
        + b"stR" * 20_000
    ),
    "tuples doubled as key": archive(b"}" + doubled_tuples(15) + b"Ns"),
    "many empty lists": archive(b"](" + b"]" * 500_000 + b"e"),
    "many entries": many_entries(20_000),
    "bytes used a few times": archive(BYTES + b"0](" + get(0) * AGAIN + b"e"),
    "tuples as keys": archive(
        b"}(" + b"".join(marked(number(i), text("state")) + b"N" for i in range(50_000)) + b"u"
    ),
    "one tuple as key of many": archive(
        marked(*[b"K\x01"] * 20) + put(0) + b"0](" + (b"}" + get(0) + b"Ns") * 50_000 + b"e"
    ),
    "a list in itself": archive(b"]" + put(0) + get(0) + b"a"),
    "an expanded tensor": archive(tensor(storage(), size=(2**36,), stride=(0,))),
}


def outcome_within_limits(content, path=None):
    """Load it in a child with limits; return "error", "loaded", or what else happened."""
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        answer = "nothing"
        try:
            with open("/proc/self/statm") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            options = {"f": io.BytesIO(content)} if path is None else {"f": path, "mmap": True}
            load(**options)
            answer = "loaded"
        except ERRORS:
            answer = "error"
        except BaseException as error:
            answer = repr(error)
        finally:
            os.write(writable, answer.encode()[:1000])
            os._exit(0)
    os.close(writable)
    with open(readable, "rb") as answers:
        answer = answers.read().decode()
    _, status = os.waitpid(child, 0)
    return answer if status == 0 else f"killed by signal {os.waitstatus_to_exitcode(status)}"


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_errors(kind):
    assert outcome_within_limits(HOSTILE[kind]) == "error"


@pytest.mark.parametrize("kind", [kind for kind in HOSTILE if not kind.startswith("legacy")])
def test_hostile_files_that_are_mapped_are_errors(kind, tmp_path):
    path = tmp_path / "x.pt"
    path.write_bytes(HOSTILE[kind])
    assert outcome_within_limits(b"", path) == "error"


@pytest.mark.parametrize("kind", HARMLESS)
def test_odd_files_load(kind):
    assert outcome_within_limits(HARMLESS[kind]) == "loaded"


def test_the_pieces_of_these_files_are_right():
    assert load(io.BytesIO(archive(tensor(storage())))).tolist() == [0, 0]
    assert load(io.BytesIO(legacy(tensor(legacy_storage()), KEYS, FLOATS))).tolist() == [1, 2]
    assert load(io.BytesIO(archive(call("torch.Size", marked(number(3)))))) == rushlight.Size([3])
    key = load(io.BytesIO(archive(b"}" + doubled_tuples(3) + b"Ns")))
    assert key == {((((), ()), ((), ())), (((), ()), ((), ()))): None}


def test_reading_takes_time_in_proportion_to_the_file():
    def seconds(count):
        content = archive(b"](" + (b"}" + text("a") + number(1) + b"s") * count + b"e")
        before = time.process_time()
        load(io.BytesIO(content))
        return time.process_time() - before

    # In proportion is 32 times as long; the square of it would be 1,024 times.
    assert seconds(320_000) < 300 * max(seconds(10_000), 0.01)
