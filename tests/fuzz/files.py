"""Checkpoint files with damage: an error or a result, in little time and memory."""

import io
import pickletools
import random
import resource
import time
import zipfile

from bad_input import is_good_error

import rushlight as rl

SECONDS = 2  # of CPU for a file of some kilobytes
BYTES = 512 << 20  # of memory more than before


def _bases():
    model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.BatchNorm1d(4), rl.nn.Linear(4, 2))
    optimizer = rl.optim.Adam(model.parameters())
    model(rl.ones(5, 3)).sum().backward()
    optimizer.step()
    shared = rl.arange(24.0)
    values = [
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3},
        [
            shared[2:9],
            shared.view(4, 6).t(),
            shared[::3],
            rl.tensor(True),
            rl.ones(2, dtype=rl.bfloat16),
        ],
        {"size": rl.Size([1, 2]), "dtype": rl.int32, "sparse": rl.eye(3).to_sparse(), "n": 2**70},
        (rl.nn.Parameter(rl.ones(2)), {"a": (1, 2.5, "x", b"y", None, True, 1j)}, rl.zeros(0, 3)),
    ]
    made = []
    for value in values:
        buffer = io.BytesIO()
        rl.save(value, buffer)
        made.append(buffer.getvalue())
    return made


BASES = []


def damage_bytes(rng, data):
    """Some bytes changed, cut out, doubled or taken from elsewhere."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.randrange(len(data)) if data else 0
        kind = rng.randrange(7)
        if kind < 3 and data:
            data[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        elif kind == 3:
            del data[at : at + rng.choice([1, 2, 8, 100])]
        elif kind == 4:
            data[at:at] = data[at : at + rng.choice([1, 4, 40])]
        elif kind == 5:
            other = rng.randrange(len(data) or 1)
            data[at : at + 8] = data[other : other + 8]
        else:
            data[at : at + 8] = rng.choice([2**31 - 1, 2**40, 2**63 - 1]).to_bytes(8, "little")
    return bytes(data[: rng.randrange(len(data) + 1)] if rng.random() < 0.05 else data)


OPCODES = [op.code.encode("latin-1") for op in pickletools.opcodes]
PIECES = [
    b"]", b"}", b")", b"(", b"t", b"0", b"2", b"R", b"s", b"u", b"b", b"\x85", b"\x86", b"\x87", b"h\x00",
    b"\x94", b"q\x01", b"h\x01", b"K\xff", b"J\xff\xff\xff\x7f", b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00",
    b"X\x03\x00\x00\x00abc", b"cbuiltins\nbytearray\n", b"ccollections\nOrderedDict\n", b"ctorch\nSize\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n", b"cbuiltins\nrange\n", b"cos\nsystem\n", b"Q", b"\x88", b"N",
]  # fmt: skip


def damage_pickle(rng, data):
    """A zip file whose description has other instructions, every check sum right."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for item in old.infolist():
            content = bytearray(old.read(item))
            if item.filename.endswith("data.pkl"):
                starts = [at for _, _, at in pickletools.genops(bytes(content))]
                for _ in range(rng.choice([1, 1, 2, 3, 8])):
                    at = rng.choice(starts[1:])
                    piece = rng.choice(PIECES) if rng.random() < 0.7 else rng.choice(OPCODES)
                    content[at : at + rng.choice([0, 0, 1])] = piece * rng.choice(
                        [1, 1, 1, 5, 2000]
                    )
            elif rng.random() < 0.1:
                content = bytearray(damage_bytes(rng, content))
            new.writestr(item.filename, bytes(content))
    return buffer.getvalue()


def run(seed, report):
    if not BASES:
        BASES.extend(_bases())
    rng = random.Random(seed)
    data = rng.choice(BASES)
    data = (damage_pickle if rng.random() < 0.6 else damage_bytes)(rng, data)
    report.step(lambda: f"load of {len(data)} bytes")
    started, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        rl.load(io.BytesIO(data))
    except Exception as error:
        if not is_good_error(error):
            report.finding("bad error", f"{type(error).__name__} {error}")
    spent = time.process_time() - started
    if spent > SECONDS:
        report.finding("slow", f"{spent:.1f} s for {len(data)} bytes")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    if grown > BYTES:
        report.finding("memory", f"{grown >> 20} MiB for {len(data)} bytes")
