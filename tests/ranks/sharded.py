"""Tensors in parts: placements, tensor parallelism, fully sharded data parallelism."""

import copy
import sys

from refusal import refused

import rushlight as torch
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
)
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))


def placements():
    whole = torch.arange(35.0).view(7, 5)
    ways = [Shard(0), Shard(1), Replicate()]
    for way in ways:
        d = distribute_tensor(whole + 100 * rank, mesh, [way])  # rank 0's counts
        assert d.shape == (7, 5) and d.numel() == 35 and d.placements == (way,)
        assert torch.equal(d.full_tensor(), whole)
        if way.is_shard():
            parts = whole.chunk(size, way.dim)
            assert torch.equal(d.to_local(), parts[rank])
        for other in ways:
            moved = d.redistribute(placements=[other])
            assert moved.placements == (other,) and torch.equal(moved.full_tensor(), whole)
            leaf = distribute_tensor(whole, mesh, [way]).requires_grad_()
            out = leaf.redistribute(placements=[other])
            weights = distribute_tensor(whole + 1, mesh, [other])
            (out * weights).sum().full_tensor().backward()
            assert isinstance(leaf.grad, DTensor) and leaf.grad.placements == (way,)
            assert torch.equal(leaf.grad.full_tensor(), whole + 1), (way, other)
    partial = DTensor.from_local(torch.ones(5, 3), mesh, [Partial()])
    for way in ways:
        assert torch.equal(
            partial.redistribute(placements=[way]).full_tensor(), torch.full((5, 3), float(size))
        )
    short = distribute_tensor(torch.arange(2.0), mesh, [Shard(0)])  # some ranks have nothing
    assert torch.equal(short.full_tensor(), torch.arange(2.0))
    d, e = (distribute_tensor(whole, mesh, [way]) for way in (Shard(0), Replicate()))
    assert torch.equal((d * 2 + e).relu().full_tensor(), whole * 3)
    assert d.sum().full_tensor().item() == whole.sum().item()
    assert abs(d.mean().full_tensor().item() - whole.mean().item()) < 1e-5
    for order in (1, 2, 3, float("inf")):
        norm = torch.linalg.vector_norm(d, order).full_tensor()
        torch.testing.assert_close(norm, torch.linalg.vector_norm(whole, order))
    d.add_(e)
    assert torch.equal(d.full_tensor(), 2 * whole)
    assert torch.equal(copy.deepcopy(d).full_tensor(), 2 * whole)
    refused(NotImplementedError, "DTensor: numpy is not supported", d.numpy)
    refused(NotImplementedError, "DTensor: transpose_ is not supported", d.transpose_, 0, 1)
    refused(RuntimeError, "mixed torch.Tensor and DTensor", lambda: d + whole)
    refused(ValueError, "same length", distribute_tensor, whole, mesh, [Shard(0)] * 2)
    cube = torch.arange(12.0 * size).view(size, 3, 4)
    for way, ends in ((Shard(0), Shard(0)), (Shard(2), Shard(1)), (Replicate(), Replicate())):
        flat = distribute_tensor(cube, mesh, [way]).flatten(0, 1)
        assert flat.placements == (ends,) and torch.equal(flat.full_tensor(), cube.flatten(0, 1))
    within = distribute_tensor(cube, mesh, [Shard(1)])
    assert within.flatten(0, 1).placements == (Replicate(),)
    assert torch.equal(within.flatten(0, 1).full_tensor(), cube.flatten(0, 1))
    uneven = distribute_tensor(torch.arange(2.0 * size + 2).view(-1, 2), mesh, [Shard(0)])
    assert torch.equal(uneven.flatten(0, 1).full_tensor(), torch.arange(2.0 * size + 2))
    two = init_device_mesh("cpu", (1, size), mesh_dim_names=("a", "b"))
    for ways in ((Shard(0), Shard(0)), (Replicate(), Shard(1)), (Shard(1), Shard(0))):
        d = distribute_tensor(whole, two, ways)
        assert torch.equal(d.full_tensor(), whole)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.first, self.last = nn.Linear(6, 10), nn.Linear(10, 6)

    def forward(self, x):
        return x + self.last(torch.relu(self.first(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 6)
        self.layers = nn.ModuleList([Block(), Block()])
        self.out = nn.Linear(6, 11)

    def forward(self, x):
        x = self.tokens(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def compare(model, alone, steps, plan=None):
    """Train both on the same batches: the same losses, gradients and parameters."""
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, alone)]
    for step in range(steps):
        g = torch.Generator().manual_seed(step)
        x = torch.randint(0, 11, (4, size * 2), generator=g)
        y = torch.randint(0, 11, (4, size * 2), generator=g)
        losses, norms = [], []
        for m, optimizer in zip((model, alone), optimizers):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(m(x).flatten(0, 1), y.flatten())
            loss.backward()
            losses.append(loss.detach())
            norms.append(nn.utils.clip_grad_norm_([
                p for name, p in m.named_parameters() if "norm" not in name
            ], 0.5))  # fmt: skip
        torch.testing.assert_close(losses[0], losses[1])
        norm = norms[0].full_tensor() if isinstance(norms[0], DTensor) else norms[0]
        torch.testing.assert_close(norm, norms[1], rtol=1e-4, atol=1e-5)
        same_gradients(model, alone)
        for optimizer in optimizers:
            optimizer.step()
    for (name, p), q in zip(model.named_parameters(), alone.parameters()):
        whole = p.full_tensor() if isinstance(p, DTensor) else p
        torch.testing.assert_close(whole, q, rtol=1e-4, atol=1e-5, msg=name)


def same_gradients(model, alone):
    for (name, p), q in zip(model.named_parameters(), alone.parameters()):
        grad = p.grad.full_tensor() if isinstance(p.grad, DTensor) else p.grad
        torch.testing.assert_close(grad, q.grad, rtol=1e-4, atol=1e-5, msg=name)


def drawn():
    """Random numbers in place do not depend on how a tensor lies, nor on this process's state."""
    torch.manual_seed(rank)
    whole = distribute_tensor(torch.zeros(7, 5), mesh, [Shard(0)])
    state = torch.get_rng_state() if rank == 0 else None
    assert whole.normal_(2.0, 0.5) is whole
    values = whole.full_tensor()
    assert values.unique().numel() == 35 and (values - 2).abs().mean() < 1
    if rank == 0:
        torch.set_rng_state(state)
    across = distribute_tensor(torch.zeros(7, 5), mesh, [Shard(1)]).normal_(2.0, 0.5)
    assert torch.equal(across.full_tensor(), values)
    linear = distribute_tensor(torch.zeros(4, 4), mesh, [Shard(1)])
    nn.init.uniform_(linear, 1, 2)
    assert linear.full_tensor().min() >= 1


class Heads(nn.Module):
    """Attention that counts with the sizes of the whole, so that q, k and v stay DTensors."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = (
            layer(x).view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(rows, length, width))


def operations():
    """Placements of results, and what operations in parts have that those of the whole have not."""
    torch.manual_seed(3)
    x = torch.randn(2 * size, 6, 2 * size)
    d = distribute_tensor(x, mesh, [Shard(0)])
    last = distribute_tensor(x, mesh, [Shard(2)])
    for result, wanted, way in (
        (d.mean(-1, keepdim=True), x.mean(-1, keepdim=True), Shard(0)),
        (last.mean(-1), x.mean(-1), Partial()),
        (d.softmax(-1), x.softmax(-1), Shard(0)),
        (last.softmax(-1), x.softmax(-1), Replicate()),
        (d.transpose(0, 2), x.transpose(0, 2), Shard(2)),
        (d.permute(1, 0, 2), x.permute(1, 0, 2), Shard(1)),
        (d.view(size, 2, 3, 2, -1), x.view(size, 2, 3, 2, -1), Shard(0)),
        (d.flatten(0, 1), x.flatten(0, 1), Shard(0)),
        (last.flatten(0, 1), x.flatten(0, 1), Shard(1)),
        (d.unsqueeze(0), x.unsqueeze(0), Shard(1)),
        (d[:, 1:3], x[:, 1:3], Shard(0)),
        (d[..., None, 0], x[..., None, 0], Shard(0)),
        (d[0], x[0], Replicate()),
        (d @ d.mT, x @ x.mT, Shard(0)),
        (last.mT @ last, x.mT @ x, Shard(1)),
        (last @ last.mT, x @ x.mT, Partial()),
        (torch.cat([d, d], 1), torch.cat([x, x], 1), Shard(0)),
        (torch.cat([d, d]), torch.cat([x, x]), Replicate()),
        (torch.stack([d, d]), torch.stack([x, x]), Shard(1)),
        (torch.einsum("bij,bkj->bik", d, d), torch.einsum("bij,bkj->bik", x, x), Shard(0)),
        (nn.functional.normalize(d, dim=1), nn.functional.normalize(x, dim=1), Shard(0)),
        (d.sum((0, 1)), x.sum((0, 1)), Partial()),
        (-last.mean(-1), -x.mean(-1), Partial()),
        (d.topk(2, -1)[0], x.topk(2, -1)[0], Shard(0)),
        (d.new_zeros(3), x.new_zeros(3), Replicate()),
    ):
        assert result.placements == (way,), (result.placements, way, wanted.shape)
        torch.testing.assert_close(result.full_tensor(), wanted)
    assert [len(part) for part in d.split(4, 1)] == [2 * size] * 2
    assert f"{d.sum():.3f}" == f"{d.sum().full_tensor():.3f}" and d.stride() == x.stride()
    (grad,) = torch.autograd.grad((d.requires_grad_() ** 2).sum(), d)
    assert isinstance(grad, DTensor) and torch.equal(grad.full_tensor(), 2 * x)
    kept = nn.functional.dropout(distribute_tensor(torch.ones(8, size), mesh, [Shard(1)]), 0.5)
    assert set(kept.full_tensor().unique().tolist()) == {0.0, 2.0}
    columns = kept.full_tensor().unbind(1)
    assert any(not torch.equal(one, columns[0]) for one in columns), "each part has its own draws"
    torch.manual_seed(rank)
    same = nn.functional.dropout(distribute_tensor(torch.ones(99), mesh, [Replicate()]), 0.5)
    gathered = [torch.empty(99) for _ in range(size)]
    dist.all_gather(gathered, same.to_local())
    assert all(torch.equal(one, gathered[0]) for one in gathered)
    target = distribute_tensor(torch.zeros(size, 3), mesh, [Shard(0)])
    target[0] = 5.0
    target[:, 1] += distribute_tensor(torch.ones(size), mesh, [Shard(0)])
    assert target.full_tensor()[0].tolist() == [5, 6, 5], target.full_tensor()


def attention():
    torch.manual_seed(0)
    alone = Heads(4 * size, 2 * size)
    model = copy.deepcopy(alone)
    column = ColwiseParallel(use_local_output=False)
    parallelize_module(model, mesh, {
        "q": column, "k": column, "v": column, "out": RowwiseParallel(),
    })  # fmt: skip
    for query in (model.q.weight, model.out.weight):
        assert not query.placements[0].is_replicate()
    x = torch.randn(3, 5, 4 * size, generator=torch.Generator().manual_seed(1))
    losses = [m(x).square().mean() for m in (model, alone)]
    torch.testing.assert_close(*losses)
    for loss in losses:
        loss.backward()
    same_gradients(model, alone)


def tensor_parallel():
    torch.manual_seed(0)
    alone = Net()
    plans = [
        {
            "tokens": RowwiseParallel(input_layouts=Replicate()),
            "layers.*.first": ColwiseParallel(),
            "layers.*.last": RowwiseParallel(),
            "out": ColwiseParallel(output_layouts=Replicate()),
        },
        {"tokens": ColwiseParallel(output_layouts=Replicate()), "out": RowwiseParallel(
            input_layouts=Replicate())},
        {  # sequence parallel: between layers each process has a part of the sequence
            "tokens": RowwiseParallel(
                input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False
            ),
            "layers.*.norm": SequenceParallel(),
            "layers.*.first": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
            "layers.*.last": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
            "out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    ]  # fmt: skip
    for plan in plans:
        model = parallelize_module(copy.deepcopy(alone), mesh, plan)
        assert isinstance(model.tokens.weight, DTensor)
        assert isinstance(model.tokens.weight, nn.Parameter)
        compare(model, copy.deepcopy(alone), 3)
    linear = nn.Linear(4, 4)
    wanted = copy.deepcopy(linear)
    x = torch.randn(size * 2, 4, generator=torch.Generator().manual_seed(5))
    parallelize_module(linear, mesh, PrepareModuleInput(
        input_layouts=Shard(0), desired_input_layouts=Replicate(), use_local_output=True
    ))  # fmt: skip
    parallelize_module(linear, mesh, PrepareModuleOutput(
        output_layouts=Replicate(), desired_output_layouts=Shard(0)
    ))  # fmt: skip
    dist.broadcast(linear.weight.detach(), 0), dist.broadcast(linear.bias.detach(), 0)
    wanted.load_state_dict(linear.state_dict())
    torch.testing.assert_close(linear(x.chunk(size)[rank]), wanted(x).chunk(size)[rank])
    refused(NotImplementedError, "only support nn.Linear", parallelize_module, Net(), mesh,
            ColwiseParallel())  # fmt: skip


def fully_sharded():
    from rushlight.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    torch.manual_seed(0)
    alone = Net()
    part = lambda x: x.chunk(size)[rank]  # noqa: E731
    meshes = [None, init_device_mesh("cpu", (size, 1)), init_device_mesh("cpu", (1, size))]
    for reshards in (None, True, False):
        for grid in meshes if reshards is None else meshes[:1]:
            model, other = copy.deepcopy(alone), copy.deepcopy(alone)
            for layer in model.layers:
                fully_shard(layer, mesh=grid, reshard_after_forward=reshards)
            fully_shard(model, mesh=grid, reshard_after_forward=reshards)
            assert isinstance(model, FSDPModule) and isinstance(model, Net)
            shares = sum(p.to_local().numel() for p in model.parameters())
            whole = sum(p.numel() for p in other.parameters())
            assert shares == whole if grid is meshes[1] else shares < whole * 0.7
            optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, other)]
            layer, gathered = model.layers[0]._fsdp, []
            gather = layer.gather
            layer.gather = lambda parts: (gathered.append(1), gather(parts))[1]  # noqa: B023
            for step in range(3):
                g = torch.Generator().manual_seed(step)
                x = torch.randint(0, 11, (2 * size, 3), generator=g)
                y = torch.randint(0, 11, (2 * size, 3), generator=g)
                norms = []
                for m, o, inputs, targets in (
                    (model, optimizers[0], part(x), part(y)), (other, optimizers[1], x, y)
                ):  # fmt: skip
                    o.zero_grad()
                    out = m(inputs).flatten(0, 1)
                    assert m is other or m.layers[0]._fsdp.full is None
                    nn.functional.cross_entropy(out, targets.flatten()).backward()
                    norms.append(nn.utils.clip_grad_norm_(m.parameters(), 0.3))
                torch.testing.assert_close(norms[0].full_tensor(), norms[1])
                same_gradients(model, other)
                for o in optimizers:
                    o.step()
            # Backward puts together what was dropped.
            assert len(gathered) == (3 if reshards is False else 6)
            for p, q in zip(model.parameters(), other.parameters()):
                assert isinstance(p, DTensor) and isinstance(p, nn.Parameter)
                torch.testing.assert_close(p.full_tensor(), q, rtol=1e-4, atol=1e-5)
            saved = model.state_dict()
            assert list(saved) == list(other.state_dict())
            assert all(isinstance(value, DTensor) for value in saved.values())
            again = fully_shard(copy.deepcopy(alone), mesh=grid)
            again.load_state_dict(saved)
            torch.testing.assert_close(again(x), model(x))
    model, other = fully_shard(copy.deepcopy(alone)), copy.deepcopy(alone)
    for number in range(3):  # gradients add up, and are exchanged once
        model.set_requires_gradient_sync(number == 2)
        model(part(x) * 0 + number).sum().backward()
        (other(x * 0 + number).sum() / size).backward()
    same_gradients(model, other)
    half = MixedPrecisionPolicy(torch.bfloat16, torch.float32, torch.float32)
    model = fully_shard(copy.deepcopy(alone), mp_policy=half)
    out = model(part(x))
    assert out.dtype is torch.float32
    torch.testing.assert_close(out, part(alone(x)), rtol=0.1, atol=0.05)
    out.sum().backward()
    assert model.out.weight.grad.dtype is torch.float32
    unused = copy.deepcopy(alone)
    kept = unused.out.bias
    fully_shard(unused, ignored_params={kept})
    assert unused.out.bias is kept
    refused(ValueError, "already been applied", fully_shard, unused)
    refused(AssertionError, "cannot be copied", copy.deepcopy, unused)
    rows = fully_shard(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    assert type(rows[:1]) is nn.Sequential and rows[:1][0] is rows[0]
    refused(NotImplementedError, "a list of its own", fully_shard, nn.LSTM(2, 2))


def two_dims():
    """Tensor parallelism within rows of a mesh, and fully_shard along its columns."""
    import tempfile

    from rushlight.distributed import checkpoint
    from rushlight.distributed.fsdp import fully_shard
    from rushlight.distributed.tensor.placement_types import _StridedShard

    grid = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "tensor"))
    torch.manual_seed(0)
    alone = Net()
    plan = {
        "tokens": RowwiseParallel(input_layouts=Replicate()),
        "layers.*.first": ColwiseParallel(),
        "layers.*.last": RowwiseParallel(),
        "out": ColwiseParallel(output_layouts=Replicate()),
    }

    def divided():
        model = parallelize_module(copy.deepcopy(alone), grid["tensor"], plan)
        for layer in model.layers:
            fully_shard(layer, mesh=grid["data"])
        return fully_shard(model, mesh=grid["data"])

    model, other = divided(), copy.deepcopy(alone)
    weight, last = model.layers[0].first.weight, model.layers[0].last.weight
    assert weight.placements == (_StridedShard(0, split_factor=size // 2), Shard(0))
    assert last.placements == (Shard(0), Shard(1))
    assert weight.shape == other.layers[0].first.weight.shape
    assert torch.equal(weight.full_tensor(), other.layers[0].first.weight)
    turned = weight.redistribute(placements=[Replicate(), Shard(1)])
    part_of_it = other.layers[0].first.weight.chunk(size // 2, 1)[grid.get_local_rank("tensor")]
    assert torch.equal(turned.to_local(), part_of_it)
    back = turned.redistribute(placements=weight.placements)
    assert torch.equal(back.to_local(), weight.to_local())
    row = grid.get_local_rank("data")
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.01) for m in (model, other)]
    for step in range(3):
        g = torch.Generator().manual_seed(step)
        x, y = (torch.randint(0, 11, (4, 3), generator=g) for _ in range(2))
        for m, o, inputs, targets in (
            (model, optimizers[0], x.chunk(2)[row], y.chunk(2)[row]), (other, optimizers[1], x, y)
        ):  # fmt: skip
            o.zero_grad()
            nn.functional.cross_entropy(m(inputs).flatten(0, 1), targets.flatten()).backward()
        same_gradients(model, other)
        for o in optimizers:
            o.step()
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, 0)
    checkpoint.save({"model": model.state_dict()}, checkpoint_id=folder[0])
    again, whole = divided(), Net()
    for into in (again, whole):
        state = into.state_dict()
        checkpoint.load({"model": state}, checkpoint_id=folder[0])
        into.load_state_dict(state)
    for p, q, r, s in zip(*(m.parameters() for m in (model, other, again, whole))):
        torch.testing.assert_close(p.full_tensor(), q, rtol=1e-4, atol=1e-5)
        assert torch.equal(r.full_tensor(), p.full_tensor()) and torch.equal(s, p.full_tensor())
    loose = parallelize_module(Net(), mesh, {"out": ColwiseParallel()})
    refused(ValueError, "parts of one mesh", fully_shard, loose, mesh=grid["data"])


def states():
    from rushlight.distributed.checkpoint import state_dict as states
    from rushlight.distributed.fsdp import fully_shard

    def made(seed):
        torch.manual_seed(seed)
        model = fully_shard(nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2)))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if seed == 0 else 0.5)
        for _ in range(2):
            model(torch.ones(2, 3)).square().sum().backward()
            optimizer.step()
        return model, optimizer

    model, optimizer = made(0)
    for full in (False, True):
        options = states.StateDictOptions(full_state_dict=full)
        saved, kept = states.get_state_dict(model, optimizer, options=options)
        assert list(saved) == ["0.weight", "0.bias", "1.weight", "1.bias"]
        assert all(isinstance(v, DTensor) is not full for v in saved.values())
        assert isinstance(kept["state"]["0.bias"]["exp_avg"], DTensor) is not full
        other, adam = made(1)
        states.set_state_dict(
            other, adam, model_state_dict=saved, optim_state_dict=kept, options=options
        )
        for p, q in zip(model.parameters(), other.parameters()):
            assert torch.equal(p.full_tensor(), q.full_tensor())
            one, two = optimizer.state[p]["exp_avg"], adam.state[q]["exp_avg"]
            assert torch.equal(one.full_tensor(), two.full_tensor())
        assert adam.param_groups[0]["lr"] == 0.1
    at_rank_0 = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    new = torch.optim.Adam(model.parameters(), lr=0.1)
    before = [p.full_tensor().clone() for p in model.parameters()]
    model.zero_grad()
    states._init_optim_state(new)
    assert len(new.state) == 4 and new.param_groups[0]["lr"] == 0.1
    for p, q in zip(model.parameters(), before):
        assert torch.equal(p.full_tensor(), q) and p.grad is None
    saved = states.get_model_state_dict(model, options=at_rank_0)
    assert bool(saved) is (rank == 0)
    other, _ = made(2)
    options = states.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    states.set_model_state_dict(other, saved, options=options)
    for p, q in zip(model.parameters(), other.parameters()):
        assert torch.equal(p.full_tensor(), q.full_tensor())
    for flat in (False, True):
        options = states.StateDictOptions(
            full_state_dict=True, broadcast_from_rank0=True, flatten_optimizer_state_dict=flat
        )
        kept = states.get_optimizer_state_dict(model, optimizer, options=options)
        other, adam = made(2)
        states.set_optimizer_state_dict(other, adam, kept if rank == 0 else {}, options=options)
        for p, q in zip(model.parameters(), other.parameters()):
            one, two = optimizer.state[p]["exp_avg"], adam.state[q]["exp_avg"]
            assert torch.equal(one.full_tensor(), two.full_tensor())


for section in sys.argv[1:]:
    globals()[section]()
dist.barrier()
dist.destroy_process_group()
print("done")
