"""torch.export: programs as data, the same bits from the graph, from its file, and from Python."""

import copy
import dataclasses
import io
import json
import random
import struct
import time
import zipfile

import pytest

import rushlight as torch
from rushlight import nn
from rushlight._higher_order_ops import map as map_along, scan, while_loop
from rushlight.export import Dim, GuardError, UnsupportedOperation, export, load, passes, save
from rushlight.utils._pytree import tree_leaves

F = nn.functional


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(x.size(0), -1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.n = nn.BatchNorm2d(channels)
        self.b = nn.Conv2d(channels, channels, 3, padding=1)
        self.m = nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.m(self.b(F.relu(self.n(self.a(x)), inplace=True))))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(True), nn.MaxPool2d(2)
        )
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("mask", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (
            part.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(c, dim=2)
        )
        a = (q @ k.transpose(-2, -1)) * (1.0 / (k.size(-1)) ** 0.5)
        a = a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        return self.out((F.softmax(a, -1) @ v).transpose(1, 2).contiguous().view(b, t, c))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(50, 32), nn.Embedding(64, 32)
        self.n1, self.n2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.attention = Attention(32, 4)
        self.mlp = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32))
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, i):
        _, t = i.size()
        assert t <= 64
        x = self.tokens(i) + self.places(torch.arange(t, device=i.device))
        x = x + self.attention(self.n1(x))
        return self.head(x + self.mlp(self.n2(x)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True)
        self.g = nn.GRU(10, 3)

    def forward(self, x):
        y, (h, c) = self.l(x)
        z, _ = self.g(y)
        return {"y": y, "h": [h, c], "z": z}


class Indexing(nn.Module):
    def forward(self, x, i):
        x = x.clone()
        x[0] = 1.0
        x[:, 1:3] += 2
        x[i] = x[i] * 2
        x[:, -1] = torch.tensor([5.0] * x.shape[0])
        y = x[..., None, ::2]
        w = x.new_zeros(2, 3) + x.mean().item()
        z = torch.cat([row[None] for row in x])
        return x, y, x[x > 0], torch.topk(x, 2)[1], z, w, x.T, x[i, 2], x[:, [0, 2]], x[i.sum() - 3]


class Operators(nn.Module):
    def forward(self, x):
        return [
            1 - x, 2**x, -x, x // 2, 1 / x, x % 3, x @ x.T, x > 1, ~(x > 1), 3 // x, abs(x), x**2,
            torch.einsum("ij,kj->ik", x, x), F.interpolate(x[None, None], scale_factor=2),
            F.pad(x, (1, 2)), torch.stack([x, x]).sum((0, 1)), torch.where(x > 0, x, 0.0), x.max(1),
            x.std(0), x.float().double().half(), x.to("cpu"), torch.full_like(x, 2), x.chunk(2),
            torch.linalg.norm(x), torch.fft.fft(x), torch.special.erf(x), F.gelu(x), F.silu(x),
            F.cosine_similarity(x, x), torch.tensor(3), x.sum() + torch.tensor(2.5),
        ]  # fmt: skip


def same(got, want):
    got, want = tree_leaves(got), tree_leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want):
        if not isinstance(b, torch.Tensor):
            assert type(a) is type(b) and a == b
            continue
        assert a.shape == b.shape and a.dtype is b.dtype
        assert torch.equal(a, b)


def check(net, *inputs, other=None, dynamic_shapes=None):
    """The program, after its graph and the graph from its file gave the bits of `net`."""
    program = export(net, inputs, dynamic_shapes=dynamic_shapes)
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    loaded = load(file)
    assert str(loaded.graph) == str(program.graph)
    again = io.BytesIO()
    save(loaded, again)
    assert again.getvalue() == file.getvalue()
    for module in (program.module(), loaded.module()):
        for arguments in (inputs, other):
            if arguments is not None:
                torch.manual_seed(0)
                want = net(*arguments)
                torch.manual_seed(0)
                same(module(*arguments), want)
    return program


NETS = {
    "lenet": (LeNet, (4, 1, 28, 28)),
    "resnet, training": (ResNet, (2, 3, 32, 32)),
    "recurrent": (Recurrent, (2, 7, 4)),
    "encoder, training": (lambda: nn.TransformerEncoderLayer(8, 2, 16), (3, 2, 8)),
    "operators": (Operators, (4, 4)),
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)), (3, 4)),
}


@pytest.mark.parametrize("name", NETS)
def test_same_bits(name):
    make, shape = NETS[name]
    net = make()
    if name == "resnet, training":
        # Running statistics differ from run to run: each run here begins with new ones.
        program = export(net, (x := torch.randn(shape),))
        before = {k: v.clone() for k, v in net.state_dict().items()}
        want = net(x)
        after = {k: v.clone() for k, v in net.state_dict().items()}
        net.load_state_dict(before)
        same(program.module()(x), want)
        same(dict(program.named_buffers()), {k: after[k] for k, _ in program.named_buffers()})
        return
    check(net, torch.rand(shape) + 0.5)


def test_indexing():
    check(Indexing(), torch.randn(4, 6), torch.tensor([1, 2]))


def test_sizes_that_change():
    n = Dim("n", max=64)
    program = check(
        LeNet(), torch.randn(4, 1, 28, 28), dynamic_shapes={"x": {0: n}},
        other=(torch.randn(9, 1, 28, 28),),
    )  # fmt: skip
    assert "x: float32[n, 1, 28, 28]" in program.guards and "0 <= n <= 64" in program.guards
    check(
        ResNet().eval(), torch.randn(2, 3, 32, 32),
        dynamic_shapes=[{0: Dim.DYNAMIC, 2: Dim.AUTO, 3: Dim.AUTO}],
        other=(torch.randn(5, 3, 64, 64),),
    )  # fmt: skip
    program = check(
        GPT(), torch.randint(0, 50, (2, 8)), dynamic_shapes=({0: Dim("b"), 1: Dim("t")},),
        other=(torch.randint(0, 50, (3, 64)),),
    )  # fmt: skip
    with pytest.raises(RuntimeError, match=r"exported for t <= 64, .* test_export.py"):
        program.module()(torch.randint(0, 50, (1, 65)))


def test_guards_name_the_assumption():
    net = LeNet()
    x = torch.randn(4, 1, 28, 28)
    run = export(net, (x,), dynamic_shapes={"x": {0: Dim("n", min=2)}}).module()
    for bad, message in (
        (x[:1], r"'x': expected n in \[2, inf\], got 1"),
        (x[..., 1:], r"'x': expected size 28 in dim 3, got 27"),
        (x.double(), r"'x': expected dtype torch.float32, got torch.float64"),
        (x[0], r"'x': expected 4 dims"),
        (3, "'x': expected a Tensor, got int"),
    ):
        with pytest.raises(GuardError, match=message):
            run(bad)
    with pytest.raises(GuardError, match="another structure"):
        run(x, x)


class Branching(nn.Module):
    def forward(self, x, scale=2, flip=False):
        if x.shape[0] > 3 and not flip:
            return x * x.shape[0] * scale
        return x


def test_decisions_on_sizes_are_guards_and_other_inputs_are_fixed():
    program = check(
        Branching(), torch.randn(4), 2, False, dynamic_shapes=[{0: Dim("n")}, None, None],
        other=(torch.randn(7), 2, False),
    )  # fmt: skip
    assert program.guards[-1] == "n > 3"
    with pytest.raises(RuntimeError, match="n > 3"):
        program.module()(torch.randn(2), 2, False)
    with pytest.raises(GuardError, match="'scale': expected 2, .* got 3"):
        program.module()(torch.randn(5), 3, False)
    program = export(Branching(), (torch.randn(4),), {"flip": True})
    same(program.module()(torch.ones(4), flip=True), torch.ones(4))


@pytest.mark.parametrize(
    ("forward", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, r"branches on the value .* \(test_export.py:\d+"),
        (lambda x: torch.tensor(x.tolist()), "tolist"),
        (lambda x: x * float(x.sum()), r"__float__\(\)"),
        (lambda x: torch.from_numpy(x.detach().numpy()), "numpy"),
        (lambda x: x + len([0] * x.shape[0]), r"n cannot change.* gets 4 in one run and 9"),
        (lambda x: x.view(2, 2), "n cannot change"),
        (lambda x: object(), "returns a object"),
        (lambda x: torch.autograd.grad(x.requires_grad_().sum(), x)[0], "autograd.grad"),
    ],
)
def test_refusals_name_what_and_where(forward, message):
    class Net(nn.Module):
        pass

    Net.forward = lambda self, x: forward(x)
    with pytest.raises(UnsupportedOperation, match=message):
        export(Net(), (torch.randn(4),), dynamic_shapes=[{0: Dim("n", max=9)}])


def test_what_the_recorder_does_not_see_is_an_error():
    class Net(nn.Module):
        def forward(self, x):
            with torch._C.DisableTorchFunction():
                y = x * 2
            return y + x

    with pytest.raises(UnsupportedOperation, match="made anew in each run"):
        export(Net(), (torch.randn(3),))


def test_no_grad_and_gradients():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(3))
            self.c = torch.arange(3.0)

        def forward(self, x):
            with torch.no_grad():
                y = self.w * 2
            return x * self.w + y + self.c

    program = check(Net(), torch.randn(3))
    module = program.module()
    module(torch.full((3,), 5.0)).sum().backward()
    assert module.w.grad.tolist() == [5.0, 5.0, 5.0]
    assert program.graph_signature.lifted_tensor_constants == ("c",)


def test_state_in_buffers():
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("keys", torch.zeros(4, 2))

        def forward(self, x, place):
            self.keys.index_copy_(0, place, x)
            return self.keys.sum(0)

    net = Cache()
    module = export(net, (torch.ones(1, 2), torch.tensor([0]))).module()
    assert net.keys.sum() == 0  # recording leaves no trace
    assert module(torch.ones(1, 2), torch.tensor([1])).tolist() == [1.0, 1.0]
    assert module(torch.ones(1, 2), torch.tensor([2])).tolist() == [2.0, 2.0]


def saved():
    file = io.BytesIO()
    save(export(nn.Linear(2, 2), (torch.ones(1, 2),)), file, extra_files={"note": "hello"})
    return file.getvalue()


def test_files():
    extra = {"note": ""}
    load(io.BytesIO(saved()), extra_files=extra)
    assert extra == {"note": "hello"}
    with zipfile.ZipFile(io.BytesIO(saved())) as archive:
        assert archive.namelist() == ["weights.safetensors", "program.json", "extra/note"]
        weights = archive.getinfo("weights.safetensors")
        start = weights.header_offset + 30 + len(weights.filename)
        header = int.from_bytes(archive.read("weights.safetensors")[:8], "little")
        assert (start + 8 + header) % 64 == 0


def _edit(change):
    source = io.BytesIO(saved())
    with zipfile.ZipFile(source) as archive:
        document = json.loads(archive.read("program.json"))
        weights = archive.read("weights.safetensors")
    change(document)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("weights.safetensors", weights)
        archive.writestr("program.json", json.dumps(document))
    out.seek(0)
    return out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(version=99), "version 99"),
        (lambda d: d.update(format="pickle"), "format is 'pickle'"),
        (lambda d: d["graphs"][0]["nodes"][0].update(op="os.system"), "no operation"),
        (lambda d: d["graphs"][0]["nodes"][0].update(op=".__import__"), "no operation"),
        (lambda d: d["graphs"][0]["nodes"][0].update(op="mine::op"), "not registered"),
        (lambda d: d["graphs"][0]["nodes"][0].update(name="x = 1; y"), "as a name"),
        (lambda d: d["graphs"][0]["nodes"][0].update(name="import"), "cannot be a name"),
        (lambda d: d["graphs"][0]["nodes"][0]["args"].append({"node": "later"}), "before it is"),
        (lambda d: d["graphs"][0]["nodes"][0].update(kwargs={"a b": 1}), "as a name"),
        (lambda d: d["graphs"][0]["nodes"][0].update(kwargs={"exec": 1}), "no argument 'exec'"),
        (lambda d: d["graphs"][0]["nodes"][0].update(args=["text"]), "linear"),
        (lambda d: d["graphs"][0]["nodes"][0].update(args=[]), "without its argument"),
        (lambda d: d["graphs"][0]["inputs"][0].update(target="__class__"), "__class__"),
        (lambda d: d["graphs"][0]["inputs"][0].update(target="nothing"), "no tensor"),
        (lambda d: d["graphs"][0].update(outputs=[]), "differ in number"),
        (lambda d: d["graphs"][0].update(outputs=[{"graph": 0}]), "used twice"),
        (lambda d: d["graphs"][0]["inputs"][-1].update(shape=[2**40, 2**40]), "damaged|input"),
        (lambda d: d.update(inputs={"type": "eval"}), "damaged"),
        (lambda d: d["graphs"][0].update(outputs=[10**30]), "number"),
    ],
)
def test_hostile_files(change, message):
    with pytest.raises(ValueError, match=message):
        load(_edit(change)).module()(torch.ones(1, 2))


@pytest.mark.parametrize("depth", [900, 100_000])
def test_deep_files(depth):
    text = '{"format": "rushlight.program", "version": 1, "symbols": {}, "graphs": [{"inputs": []'
    text += ', "nodes": [], "outputs": [' + "[" * depth + "]" * depth + "]}]}"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("weights.safetensors", (2).to_bytes(8, "little") + b"{}")
        archive.writestr("program.json", text)
    out.seek(0)
    with pytest.raises(ValueError, match="damaged"):
        load(out)


def nested_graphs(count):
    """A file of graphs, each of which calls the next."""
    graphs = [
        {"name": f"body_graph_{i}", "inputs": [], "outputs": [], "nodes": [
            {"op": ".scan", "name": "a", "args": [{"graph": i + 1}], "kwargs": {}}]}
        for i in range(count)
    ]  # fmt: skip
    document = {"format": "rushlight.program", "version": 1, "symbols": {}, "graphs": graphs}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("weights.safetensors", (2).to_bytes(8, "little") + b"{}")
        archive.writestr("program.json", json.dumps(document))
    return out.getvalue()


def test_nested_graphs():
    with pytest.raises(ValueError, match="nested too deeply"):
        load(io.BytesIO(nested_graphs(20_000)))


def weights_of(entry, data=b""):
    header = json.dumps({"w": entry}).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("weights.safetensors", struct.pack("<Q", len(header)) + header + data)
        archive.writestr("program.json", '{"format": "rushlight.program", "version": 1}')
    out.seek(0)
    return out


def test_a_tensor_of_many_dims():
    """Whose number of elements alone would take hours to compute."""
    for shape, data in (([2**61] * 300_000, b""), ([1] * 65, bytes(4))):
        entry = {"dtype": "F32", "shape": shape, "data_offsets": [0, len(data)]}
        before = time.process_time()
        with pytest.raises(ValueError, match="dims"):
            load(weights_of(entry, data))
        assert time.process_time() - before < 30


@pytest.mark.parametrize("count", [0, 1, 3])
def test_numbers_with_another_count_of_operands(count):
    def change(document):
        node = {"op": ".add", "name": "odd", "args": [1] * count, "kwargs": {}}
        document["graphs"][0]["nodes"].append(node)

    with pytest.raises(ValueError, match=rf"\.add of {count} arguments"):
        load(_edit(change))


def test_a_size_of_a_symbol_that_is_no_name():
    def change(document):
        size = {"symbol": [], "factor": 1, "offset": 0}
        document["graphs"][0]["inputs"][-1]["shape"][0] = size

    with pytest.raises(ValueError, match="symbol"):
        load(_edit(change))


def test_damaged_files():
    good, random_ = saved(), random.Random(0)
    with pytest.raises(ValueError):
        load(io.BytesIO(b""))
    for _ in range(300):
        data = bytearray(good)
        if random_.random() < 0.3:
            data = data[: random_.randrange(len(data))]
        else:
            for _ in range(random_.choice([1, 1, 2, 8])):
                data[random_.randrange(len(data))] = random_.randrange(256)
        try:
            module = load(io.BytesIO(bytes(data))).module()
        except ValueError:
            continue
        try:
            module(torch.ones(1, 2))
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue


# ---- control flow


class Choice(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        y = x * 2
        return torch.cond(
            x.sum() > 0,
            lambda x: torch.cond(x[0, 0] > 5, lambda x: x - y, lambda x: self.linear(x) + y, (x,)),
            lambda x: x.cos(),
            (x,),
        )


class Loop(nn.Module):
    def forward(self, x, n):
        return while_loop(
            lambda i, y: i < n.sum(), lambda i, y: (i + 1, y * x.cos()), (torch.tensor(0), x)
        )


class Scan(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)

    def forward(self, x):
        def step(h, x):
            h = self.cell(x, h)
            return h, h * 2

        return (
            scan(step, torch.zeros(2, 4), x),
            scan(step, torch.zeros(2, 4), x, reverse=True),
            map_along(lambda x: x.sum(), x),
        )


BRANCHING = {
    "cond": (Choice, (torch.ones(2, 3),), [(-torch.ones(2, 3),), (6 * torch.ones(2, 3),)], None),
    "while_loop": (
        Loop, (torch.ones(2), torch.tensor(3)), [(torch.ones(2), torch.tensor(5))], None,
    ),
    "scan": (Scan, (torch.ones(5, 2, 3),), [(torch.ones(8, 2, 3),)], [{0: Dim("t")}]),
}  # fmt: skip


@pytest.mark.keeps_tensors("those of the table above")
@pytest.mark.parametrize("name", BRANCHING)
def test_control_flow(name):
    make, inputs, others, dynamic_shapes = BRANCHING[name]
    net = make()
    for other in others:
        program = check(net, *inputs, other=other, dynamic_shapes=dynamic_shapes)
    assert any(n.target is getattr(torch.ops.higher_order, name) for n in program.graph.nodes)


def test_control_flow_is_checked():
    class Net(nn.Module):
        def __init__(self, true_fn, false_fn):
            super().__init__()
            self.functions = (true_fn, false_fn)

        def forward(self, x):
            return torch.cond(x.sum() > 0, *self.functions, (x,))

    for functions, message in (
        ((lambda x: x, lambda x: x.long()), "different kinds"),
        ((lambda x: x, lambda x: x.sum()), "different kinds"),
        ((lambda x: x, lambda x: (x, x)), "different structures"),
        ((lambda x: x, lambda x: x.add_(1)), "changes an operand"),
        ((lambda x: x, lambda x: x if x.sum() > 1 else -x), "branches on the value"),
    ):
        with pytest.raises(UnsupportedOperation, match=message):
            export(Net(*functions), (torch.ones(2),))


def test_gradients_through_control_flow():
    net = Choice()
    module = export(net, (torch.ones(2, 3),)).module()
    net(torch.ones(2, 3)).sum().backward()
    module(torch.ones(2, 3)).sum().backward()
    same(module.linear.weight.grad, net.linear.weight.grad)


# ---- passes


def calls(program):
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


def test_dead_code():
    class Net(nn.Module):
        def forward(self, x):
            (x * 3).sum()
            y = x + 1
            y.add_(2)
            return x * 2

    # y is not returned, but a change in place is never taken for dead.
    assert calls(export(Net(), (torch.ones(2),))) == [
        "aten.add.default", "aten.add_.default", "aten.mul.default",
    ]  # fmt: skip


def test_constants_are_folded():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.arange(6.0).reshape(2, 3)
            self.w = nn.Parameter(torch.ones(3))

        def forward(self, x):
            noise = torch.randn(3)
            steps = torch.zeros(3)
            steps += 1
            return x + self.table[1] * torch.arange(3) + self.w * 2 + noise * 0 + steps

    net = Net()
    program = export(net, (torch.ones(3),))
    folded = passes.fold_constants(program)
    x = torch.randn(3)
    same(folded.module()(x), program.module()(x))
    assert len(calls(folded)) < len(calls(program))
    assert "aten.randn.default" in calls(folded) and "aten.zeros.default" in calls(folded)
    assert "aten.select.default" not in calls(folded)
    assert calls(program) == calls(export(net, (torch.ones(3),)))  # it was left alone


def test_fusion():
    net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(True), nn.Linear(8, 2))
    program = export(net, (torch.randn(3, 4),))
    fused = passes.fuse_linear_activation(program)
    assert calls(fused) == ["aten.linear.rectified"] * 2 + ["aten.linear.default"]
    same(fused.module()(x := torch.randn(3, 4)), net(x))

    net = ResNet().eval()
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.uniform_(m.running_mean)
            nn.init.uniform_(m.running_var, 0.5, 2)
            nn.init.uniform_(m.weight)
    program = export(net, (torch.randn(2, 3, 32, 32),))
    fused = passes.fuse_conv_batch_norm(program)
    assert calls(program).count("aten.batch_norm.default") == 5
    assert "aten.batch_norm.default" not in calls(fused)
    torch.testing.assert_close(fused.module()(x := torch.randn(2, 3, 32, 32)), net(x))
    file = io.BytesIO()
    save(fused, file)
    file.seek(0)
    same(load(file).module()(x), fused.module()(x))
    assert "blocks.0.n.weight" not in fused.state_dict


def test_memory_plan():
    net = nn.Sequential(*[nn.Linear(16, 16) for _ in range(6)])
    plan = passes.plan_memory(export(net, (torch.randn(4, 16),)))
    assert plan.without_reuse == 6 * 256 and plan.total == 2 * 256
    program = export(GPT(), (torch.randint(0, 50, (2, 8)),))
    plan = passes.plan_memory(program)
    assert plan.total < plan.without_reuse / 2
    # No two values that live at the same time share a byte.
    nodes = [n for n in program.graph.nodes if n.op == "call_function"]
    for i, a in enumerate(nodes):
        for b in nodes[i + 1 :]:
            if {a.name, b.name} <= set(plan.offsets) and b in list(a.users):
                begin, end = plan.offsets[a.name], plan.offsets[a.name] + plan.sizes[a.name]
                other = plan.offsets[b.name]
                assert end <= other or other + plan.sizes[b.name] <= begin
    assert str(plan).endswith("without reuse")


def test_decompositions():
    net = nn.TransformerEncoderLayer(8, 2, 16, activation="gelu", batch_first=True).eval()
    x = torch.randn(3, 5, 8)
    program = export(net, (x,), dynamic_shapes=[{0: Dim("n")}])
    done = program.run_decompositions()
    assert not {"aten.linear.default", "aten.layer_norm.default"} & set(calls(done))
    torch.testing.assert_close(done.module()(x), net(x))
    other = torch.randn(7, 5, 8)
    torch.testing.assert_close(done.module()(other), net(other))
    gelu = torch.ops.aten.gelu.default  # one object, whoever asks first
    assert gelu in [n.target for n in program.graph.nodes]
    assert torch.ops.aten.silu.default is torch.ops.aten.silu.default
    own = program.run_decompositions({gelu: lambda x, approximate="none": x * torch.sigmoid(x)})
    assert "aten.gelu.default" not in calls(own) and "aten.linear.default" in calls(own)
    assert torch.ops.aten.linear.default in torch.export.default_decompositions()


# ---- modules of a program


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.full((3,), 2.0))

    def forward(self, x, y):
        return self.linear(x) + y * self.scale


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.rest = Scaled(), torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())

    def forward(self, x, *, y):
        z = self.rest(self.part(x, y))
        return {"once": z, "twice": self.part(z, y)}


def assert_unflattens(net, args, kwargs, **options):
    program = torch.export.export(net, args, kwargs, **options)
    module = torch.export.unflatten(program)
    expected = net(*args, **kwargs)
    for key, value in module(*args, **kwargs).items():
        torch.testing.assert_close(value, expected[key])
    return module


def test_unflatten():
    net, x = Nested(), torch.rand(2, 3)
    module = assert_unflattens(net, (x,), {"y": x})
    assert list(dict(module.named_modules())) == ["", "part", "part.linear", "rest", "rest.0",
                                                  "rest.1"]  # fmt: skip
    assert module.state_dict().keys() == net.state_dict().keys()
    calls = [n.target for n in module.graph.nodes if n.op == "call_module"]
    assert calls == ["part", "rest", "part"]
    assert module.part.type_name().endswith("test_export.Scaled")
    module.rest = torch.nn.Identity()
    assert not torch.equal(module(x, y=x)["once"], net(x, y=x)["once"])
    with pytest.raises(TypeError, match="flat_args_adapter"):
        module(x, x)
    with pytest.raises(torch.export.GuardError, match="size was fixed"):
        module(torch.rand(4, 3), y=x)


def test_unflatten_with_signatures():
    net, x = Nested(), torch.rand(2, 3)
    module = assert_unflattens(net, (x,), {"y": x}, preserve_module_call_signature=("part",))
    entries = {e.fqn: e.signature is not None for e in module.module_call_graph}
    assert entries["part"] and entries["part@1"] and not entries["rest"]
    assert type(module.part).__name__ == "InterpreterModuleDispatcher"

    class Difference(torch.nn.Module):
        def forward(self, x, y):
            return x - y

    module.part = Difference()
    assert float(module(x, y=x)["once"].sum()) == float(net.rest(torch.zeros(2, 3)).sum())
    with pytest.raises(ValueError, match="no module 'other'"):
        torch.export.export(net, (x,), {"y": x}, preserve_module_call_signature=("other",))


def test_strict_has_no_effect_and_says_so():
    net = torch.nn.Linear(2, 3)
    with pytest.warns(UserWarning, match="strict has no effect"):
        strict = torch.export.export(net, (torch.ones(1, 2),), strict=True)
    assert str(strict.graph) == str(torch.export.export(net, (torch.ones(1, 2),)).graph)


def test_unflatten_what_was_decomposed_and_what_was_read():
    net, x = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Softmax(-1)), torch.rand(2, 3)
    program = torch.export.export(net, (x,))
    module = torch.export.unflatten(program.run_decompositions())
    torch.testing.assert_close(module(x), net(x))
    assert [name for name, _ in module.named_children()] == ["0", "1"]
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    with pytest.raises(ValueError, match="read from a file"):
        torch.export.unflatten(torch.export.load(file))


def test_additional_inputs():
    shapes = torch.export.AdditionalInputs()
    shapes.add((torch.rand(5, 3),))
    net = torch.nn.Linear(3, 2)
    program = torch.export.export(net, (torch.rand(2, 3),), dynamic_shapes=shapes)
    assert program.module()(torch.rand(7, 3)).shape == (7, 2)
    shapes.add((torch.rand(5, 3, dtype=torch.float64),))
    with pytest.raises(torch.export.GuardError, match="dtype"):
        shapes.verify(program)


def test_suggested_fixes():
    from rushlight.export import Dim
    from rushlight.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes

    dx, dy = Dim("dx"), Dim("dy")
    message = "Suggested fixes:\n  dx = Dim('dx', min=3, max=6)\n  dy = 2*dx - 1\n"
    x, y = refine_dynamic_shapes_from_suggested_fixes(message, ({0: dx}, [dy, None]))
    assert (x[0].min, x[0].max, repr(y[0])) == (3, 6, "2*dx - 1")
    fixed = refine_dynamic_shapes_from_suggested_fixes("Suggested fixes:\n dx = 4", {"x": [dx]})
    assert fixed == {"x": [4]}
    with pytest.raises(ValueError, match="suggests no fixes"):
        refine_dynamic_shapes_from_suggested_fixes("no", {})


@pytest.mark.parametrize("sizes", [2, [1, 2]])
def test_decompositions_of_an_op_with_several_forms(sizes):
    class Split(nn.Module):
        def forward(self, x):
            return x.split(sizes)

    x = torch.arange(3.0)
    found = export(Split(), (x,)).run_decompositions().module()(x)
    assert [t.tolist() for t in found] == [t.tolist() for t in x.split(sizes)]


def test_decomposition_tables_lose_entries():
    softmax = torch.ops.aten.softmax.default
    table = torch.export.default_decompositions()
    assert table.pop(softmax) and softmax not in table
    program = torch.export.export(torch.nn.Softmax(-1), (torch.rand(2, 3),))
    targets = [n.target for n in program.run_decompositions(table).graph.nodes]
    assert softmax in targets
    assert softmax in torch.export.default_decompositions()


def test_programs_move_to_devices():
    class Filled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x) + torch.ones(3, device=x.device)

    program = torch.export.export(Filled(), (torch.rand(2, 3),))
    moved = torch.export.passes.move_to_device_pass(program, {"cpu": "meta"})
    assert moved is program and program.state_dict["linear.weight"].is_meta
    assert program.module()(torch.rand(2, 3, device="meta")).is_meta


def test_drafts_are_refused():
    with pytest.raises(NotImplementedError, match="draft_export"):
        torch.export.draft_export(torch.nn.ReLU(), (torch.rand(2),))


def test_names_in_a_signature_are_replaced():
    program = export(nn.Linear(2, 3), (torch.ones(1, 2),))
    signature = program.graph_signature
    (output,) = signature.user_outputs
    assert signature.input_tokens == signature.output_tokens == signature.lifted_custom_objs == ()
    assert signature.assertion_dep_token is None and signature.inputs_to_lifted_custom_objs == {}
    signature.replace_all_uses(output, "renamed")
    assert signature.user_outputs == ("renamed",)
    node = program.graph.output_node()
    hook = signature.get_replace_hook()
    placeholder = next(n for n in program.graph.nodes if n.op == "placeholder")
    hook(placeholder, "first", placeholder)  # inputs stay
    assert "first" not in signature.inputs_to_parameters
    signature.get_replace_hook(replace_inputs=True)(placeholder, "first", node)
    assert "first" in signature.inputs_to_parameters
    with pytest.raises(AssertionError, match="expected new to be str"):
        signature.replace_all_uses("first", 1)


def test_dialects_and_types_of_programs():
    program = export(nn.Sequential(nn.Linear(2, 3)), (torch.ones(1, 2),))
    assert program.dialect == "TRAINING" and program.tensor_constants is program.constants
    assert program.run_decompositions().dialect == "ATEN"
    with pytest.raises(NotImplementedError, match="validate"):
        program.verifier  # noqa: B018
    modules = torch.export.unflatten(program)
    assert modules.type_name().endswith("Sequential")
    assert getattr(modules, "0").type_name().endswith("Linear")


def test_records_of_archives(tmp_path):
    from rushlight.export.pt2_archive import PT2ArchiveReader, PT2ArchiveWriter, is_pt2_package

    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "deep" / "file").write_bytes(b"deep")
    path = tmp_path / "made.pt2"
    with PT2ArchiveWriter(str(path)) as writer:
        writer.write_bytes("data/x", b"abc")
        writer.write_string("extra/text", "straße")
        writer.write_folder("extra/folder", str(tmp_path / "in"))
        assert writer.has_record("data/x") and writer.count_prefix("extra/") == 2
        for call, message in (
            (lambda: writer.write_bytes("y", "text"), "Expected bytes"),
            (lambda: writer.write_string("y", b""), "Expected string"),
            (lambda: writer.write_file("y", "nowhere"), "not a valid file path"),
            (lambda: writer.write_folder("y", "nowhere"), "not a valid directory path"),
        ):
            with pytest.raises(AssertionError, match=message):
                call()
        with pytest.raises(RuntimeError, match="was written already"):
            writer.write_bytes("data/x", b"")
    assert is_pt2_package(str(path))
    with PT2ArchiveReader(str(path)) as reader:
        assert reader.read_string("extra/text") == "straße" and reader.archive_version() == 0
        assert reader.read_bytes("extra/folder/deep/file") == b"deep"
        assert {"archive_format", "byteorder", "data/x"} <= set(reader.get_file_names())
        assert reader.archive_file.get_record_offset("data/x") % 64 == 0
    buffer = io.BytesIO()
    with PT2ArchiveWriter(buffer) as writer:
        writer.write_string("archive_format", "other")
    with pytest.raises(AssertionError, match="Invalid archive format"):
        PT2ArchiveReader(buffer)


def test_shapes_of_trees_as_text():
    from collections import OrderedDict, defaultdict, deque, namedtuple

    from rushlight.utils import _pytree as tree

    class Own:
        def __init__(self, parts, note):
            self.parts, self.note = parts, note

    point = namedtuple("point", "x y")
    tree._register_namedtuple(point, serialized_type_name="test.point")
    tree.register_pytree_node(
        Own, lambda o: (o.parts, o.note), Own, serialized_type_name="test.Own",
        to_dumpable_context=lambda note: f"<{note}>", from_dumpable_context=lambda text: text[1:-1],
    )  # fmt: skip
    value = {"a": [1, (2, None)], "b": OrderedDict(c=deque([1], 5), d=defaultdict(list, e=1)),
             "f": point(1, Own([2], "note"))}  # fmt: skip
    spec = tree.tree_structure(value)
    text = tree.treespec_dumps(spec)
    assert tree.treespec_loads(text) == spec and '"<note>"' in text
    assert json.loads(tree.treespec_dumps(tree.tree_structure([1]))) == [1, {
        "type": "builtins.list", "context": "null",
        "children_spec": [{"type": None, "context": None, "children_spec": []}],
    }]  # fmt: skip
    other = namedtuple("other", "x")
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        tree.treespec_dumps(tree.tree_structure(other(1)))
    with pytest.raises(ValueError, match="Unknown protocol 2"):
        tree.treespec_dumps(spec, 2)
    with pytest.raises(NotImplementedError, match="no.such"):
        tree.treespec_loads('[1, {"type": "no.such", "context": "null", "children_spec": []}]')
    with pytest.raises(ValueError, match="must be None or registered"):
        tree.register_pytree_node(other, list, list, to_dumpable_context=str)
    del tree.SUPPORTED_NODES[Own]


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    others: list


torch.export.register_dataclass(Pair)


class OfPairs(nn.Module):
    def forward(self, pair):
        return pair.first * 2 + pair.others[0]


def test_dynamic_shapes_of_a_registered_class():
    dim = torch.export.Dim("dim", min=2, max=10)
    pair = Pair(torch.ones(4), [torch.ones(4)])
    collection = torch.export.ShapesCollection()
    collection[pair.first] = (dim,)
    collection[pair.others[0]] = (dim,)
    of_class = collection.dynamic_shapes(OfPairs(), (pair,))
    for shapes in (of_class, ([{0: dim}, [{0: dim}]],)):
        program = torch.export.export(OfPairs(), (pair,), dynamic_shapes=shapes)
        (bounds,) = program.range_constraints.values()
        assert (bounds.lower, bounds.upper) == (2, 10) and bounds == (2, 10)
        longer = Pair(torch.ones(7), [torch.ones(7)])
        assert program.module()(longer).tolist() == [3.0] * 7


def test_a_size_without_a_bound_has_the_infinity_of_whole_numbers():
    from rushlight.utils._sympy.numbers import IntInfinity, NegativeIntInfinity, int_oo
    from rushlight.utils._sympy.value_ranges import ValueRanges

    shapes = ({0: torch.export.Dim("rows", min=3)},)
    program = torch.export.export(nn.ReLU(), (torch.ones(4, 2),), dynamic_shapes=shapes)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    for found in (program, torch.export.load(file)):
        (bounds,) = found.range_constraints.values()
        assert isinstance(bounds, ValueRanges) and isinstance(bounds.upper, IntInfinity)
        assert repr(bounds) == "VR[3, int_oo]" and found.guards[-1] == "3 <= rows"
    negative = -int_oo
    assert isinstance(negative, NegativeIntInfinity) and -negative is int_oo
    assert copy.deepcopy(int_oo) > 10**30 > -int_oo and str(-int_oo) == "-int_oo"
    with pytest.raises(OverflowError):
        int(int_oo)


def test_constants_have_the_paths_of_attributes():
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.tensor([2.0, 3.0])

        def forward(self, x):
            return x * self.scale + torch.tensor(1.0)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift, self.part = torch.ones(2), Part()

        def forward(self, x):
            return self.part(x) - self.shift

    x = torch.tensor([1.0, 1.0])
    program = torch.export.export(Model(), (x,))
    assert sorted(program.constants) == ["part.scale", "shift"]
    module = program.module()
    assert module(x).equal(Model()(x)) and module.part.scale.tolist() == [2, 3]
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    again = torch.export.load(stream)
    assert sorted(again.constants) == ["part.scale", "shift"]
    assert again.module()(x).equal(Model()(x))


@pytest.mark.parametrize("kept", [(), ("part", "part.inner"), ("part",)])
def test_unflatten_of_modules_inside_of_one_that_is_not_called(kept):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.seen = nn.Buffer(torch.ones(1))

        def forward(self, x):
            return x + self.seen

    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x) * 2

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = Part()

        def forward(self, x):
            x = x + self.part.inner.seen
            x = self.part(x)
            return self.part.inner(x + 1)

    model, x = Model(), torch.ones(1)
    program = torch.export.export(model, (x,), preserve_module_call_signature=kept)
    assert torch.export.unflatten(program)(x).equal(model(x))


def test_parameters_under_several_names():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Parameter(torch.randn(4))
            self.part = nn.Linear(4, 4)
            self.part.bias = self.bias

        def forward(self, x):
            return self.part(x) + self.bias

    model, x = Tied(), torch.randn(2, 4)
    program = torch.export.export(model, (x,))
    assert sorted(program.state_dict) == sorted(model.state_dict())
    made = torch.export.unflatten(program)
    assert made.part.bias is made.bias and made(x).equal(model(x))
    module = program.module()
    assert sorted(module.state_dict()) == sorted(model.state_dict())
    stream = io.BytesIO()
    torch.export.save(program, stream)
    stream.seek(0)
    assert torch.export.load(stream).module()(x).equal(model(x))


@pytest.mark.parametrize("kept", [(), ("first",), ("first", "second")])
def test_unflatten_computes_sizes_again_where_signatures_are_kept(kept):
    class Part(nn.Module):
        def forward(self, x, y):
            return y[: x.size(0) // 2]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Part(), Part()

        def forward(self, x, y):
            return y[x.size(0) // 2 :] + self.first(x, y) + self.second(x, y)

    size = 2 * Dim("half", max=2048)
    program = torch.export.export(
        Model(),
        (torch.ones(10), torch.ones(10)),
        dynamic_shapes=((size,), (size,)),
        preserve_module_call_signature=kept,
    )
    made = torch.export.unflatten(program)
    assert made(torch.ones(6), torch.arange(6.0)).tolist() == [3, 6, 9]


class OfTrees(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, named, y):
        return {"a": self.layer(named["x"]), "b": (y + 1, named["x"])}


def test_the_graph_of_a_programs_module_runs_in_other_modules():
    args = ({"x": torch.ones(1, 3)}, torch.ones(2))
    module = export(OfTrees(), args).module()
    expected = module(*args)
    for other in (
        torch.fx.GraphModule(module, module.graph),
        torch.fx.GraphModule(nn.Sequential(module)[0], module.graph, "Other"),
        torch.fx.Transformer(module).transform(),
        torch.fx.Interpreter(module).run,
    ):
        found = other(*args)
        assert list(found) == ["a", "b"] and found["a"].equal(expected["a"])
        assert found["b"][0].tolist() == [2, 2]
        with pytest.raises(GuardError):
            other({"x": torch.ones(2, 3)}, torch.ones(2))
