"""Collective operations of two processes, each with a GPU: each prints "right" and its rank."""

import multiprocessing
import os
import socket
import sys

import rushlight as torch
import rushlight.distributed as dist

REDUCTIONS = (
    dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT,
    dist.ReduceOp.AVG,
)  # fmt: skip
DTYPES = (
    torch.float32, torch.float64, torch.int64, torch.float16, torch.bfloat16, torch.uint8,
)  # fmt: skip


def fails(kind, text, function, *arguments):
    try:
        function(*arguments)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"{function.__name__} does not raise {kind.__name__}: {text}")


def reductions(rank, size, device):
    """As those of the CPU, by gloo."""
    for dtype in DTYPES:
        x = (torch.arange(5) + rank).to(dtype)
        for op in REDUCTIONS:
            got, expected = x.to(device), x.clone()
            dist.all_reduce(got, op)
            dist.all_reduce(expected, op)
            # Averages: NCCL divides before it adds.
            close = torch.allclose(got.cpu().double(), expected.double(), rtol=0.02)
            same = torch.equal(got.cpu(), expected)
            assert same or (op is dist.ReduceOp.AVG and close), (dtype, op, got, expected)
    flags = torch.tensor([True, rank == 0, False], device=device)
    dist.all_reduce(flags)
    assert flags.tolist() == [True, True, False]
    x = torch.full((3,), float(rank + 1), device=device, dtype=torch.float16)
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    assert x.tolist() == [0.5 * sum(range(1, size + 1))] * 3
    large = torch.randn(300000, generator=torch.Generator().manual_seed(rank))
    got = large.to(device)
    dist.all_reduce(got)
    dist.all_reduce(large)
    assert torch.allclose(got.cpu(), large, atol=1e-5)
    turned = torch.full((2,), 1j * rank, device=device, dtype=torch.complex64)
    dist.all_reduce(turned)
    assert turned.cpu()[0].item() == 1j * sum(range(size))
    ones = torch.ones(2, dtype=torch.int64, device=device)
    fails(
        ValueError, "Cannot use ReduceOp.BAND with NCCL", dist.all_reduce, ones, dist.ReduceOp.BAND
    )
    assert torch.cuda.nccl.version() >= (2, 14, 0)
    fails(TypeError, "not supported for NCCL", dist.all_reduce, ones.short())
    work = dist.all_reduce(got, async_op=True)
    work.wait()
    assert torch.allclose(got.cpu(), large * size, atol=1e-4)


def copies(rank, size, device):
    b = torch.full((3,), float(rank), device=device)
    dist.broadcast(b, 1)
    assert b.tolist() == [1.0] * 3
    mine = torch.full((2,), rank + 1.0, device=device)
    parts = [torch.empty(2, device=device) for _ in range(size)]
    dist.all_gather(parts, mine)
    assert [p.tolist() for p in parts] == [[i + 1.0] * 2 for i in range(size)]
    whole = torch.empty(2 * size, device=device)
    dist.all_gather_into_tensor(whole, mine)
    assert whole.tolist() == [i + 1.0 for i in range(size) for _ in range(2)]
    part = torch.empty(2, device=device)
    dist.reduce_scatter_tensor(part, torch.arange(2.0 * size, device=device))
    assert part.tolist() == [size * 2.0 * rank, size * (2.0 * rank + 1)]
    dist.reduce(mine, 0)
    assert rank or mine.tolist() == [sum(range(1, size + 1))] * 2
    gathered = [torch.empty(2, device=device) for _ in range(size)] if rank == 0 else None
    dist.gather(torch.ones(2, device=device) * rank, gathered, 0)
    assert rank or [p[0].item() for p in gathered] == list(range(size))


def parts(rank, size, device):
    """Scatter, gather, exchanges, and lists of parts of different sizes."""
    for dtype in (torch.float32, torch.int16, torch.bool, torch.complex64):
        whole = torch.arange(3 * size).to(dtype)
        got = torch.empty(3, dtype=dtype, device=device)
        dist.scatter(got, list(whole.to(device).chunk(size)) if rank == 1 else None, 1)
        assert torch.equal(got.cpu(), whole.chunk(size)[rank]), dtype
        places = [torch.empty_like(got) for _ in range(size)] if rank == 1 else None
        dist.gather(got, places, 1)
        assert rank != 1 or torch.equal(torch.cat(places).cpu(), whole), dtype
    # Member i sends rank + j + 1 elements to member j.
    sent = [torch.full((rank + j + 1,), 10.0 * rank + j, device=device) for j in range(size)]
    received = [torch.empty(j + rank + 1, device=device) for j in range(size)]
    dist.all_to_all(received, sent)
    assert [t.tolist() for t in received] == [
        [10.0 * j + rank] * (j + rank + 1) for j in range(size)
    ]
    flat = torch.empty(sum(t.numel() for t in received), device=device)
    sizes = [[t.numel() for t in list] for list in (received, sent)]
    dist.all_to_all_single(flat, torch.cat(sent), *sizes)
    assert torch.equal(flat, torch.cat(received))
    uneven = [torch.empty(i + 1, device=device) for i in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank), device=device))
    assert [t.tolist() for t in uneven] == [[float(i)] * (i + 1) for i in range(size)]
    inputs = [torch.full((i + 1,), float(rank + 1), device=device) for i in range(size)]
    total = torch.empty(rank + 1, device=device)
    dist.reduce_scatter(total, inputs)
    assert total.tolist() == [sum(range(1, size + 1))] * (rank + 1)
    assert inputs[rank].tolist() == [rank + 1.0] * (rank + 1)  # those stay
    outputs = [torch.empty(2 * size, device=device) for _ in range(3)]
    with dist._coalescing_manager(device=device):
        for i, output in enumerate(outputs):
            dist.all_gather_into_tensor(output, torch.full((2,), float(rank + i), device=device))
    assert outputs[2].tolist() == [i + 2.0 for i in range(size) for _ in range(2)]


def messages(rank, size, device):
    """To one member and from one."""
    peer = 1 - rank
    for dtype in (torch.float32, torch.bfloat16, torch.int16, torch.bool):
        mine, theirs = ((torch.arange(4) + r).to(dtype) for r in (rank, peer))
        got = torch.empty(4, dtype=dtype, device=device)
        if rank == 0:
            dist.send(mine.to(device), 1)
            assert dist.recv(got, 1) == 1
        else:
            assert dist.recv(got) == 0  # from any
            dist.send(mine.to(device), 0)
        assert torch.equal(got.cpu(), theirs), dtype
    # Both send first: messages of the two directions do not wait for each other.
    for count in (5, 300000):
        out = torch.full((count,), float(rank), device=device)
        got = torch.empty(2, count, device=device).t()[:, 0]  # not contiguous
        works = [dist.isend(out, peer), dist.irecv(got, peer)]
        together = torch.ones(3, device=device)
        dist.all_reduce(together)
        for work in works:
            work.wait()
        assert got.eq(peer).all() and together.tolist() == [float(size)] * 3
        assert all(work.is_completed() for work in works) or not torch.cuda.synchronize()
    out, got = torch.full((3,), rank + 1.0, device=device), torch.empty(3, device=device)
    operations = [dist.P2POp(dist.irecv, got, peer), dist.P2POp(dist.isend, out, peer)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert got.tolist() == [peer + 1.0] * 3
    if rank == 0:
        dist.send(torch.ones(3, device=device), 1)
    else:
        fails(RuntimeError, "rank 0 sends 3 elements of float32", dist.recv, got[:2], 0)
    fails(ValueError, "tensors of the CPU and of GPUs", dist.batch_isend_irecv, [
        dist.P2POp(dist.isend, out, peer), dist.P2POp(dist.irecv, out.cpu(), peer)])  # fmt: skip


def own_streams(rank, size, device):
    """Work of async_op is on a stream of its own, behind what the caller's was given."""
    x = torch.ones(1000, device=device)
    for step in range(5):
        x = x * 2
        work = dist.all_reduce(x, async_op=True)
        y = torch.full((1000,), float(step), device=device) + 1  # meanwhile
        work.wait()
        x = x / size + y
    expected = torch.ones(1000)
    for step in range(5):
        expected = expected * 2 + step + 1
    assert torch.equal(x.cpu(), expected)
    doubled = (
        dist.all_reduce(torch.ones(4, device=device), async_op=True)
        .get_future()
        .then(lambda done: done.value()[0] * 2)
    )
    assert doubled.wait().tolist() == [2.0 * size] * 4
    for _ in range(3):  # nobody waits, and what is reduced is let go
        dist.all_reduce(torch.ones(5000, device=device), async_op=True)
    dist.barrier(device_ids=[device.index])


def groups(rank, size, device):
    """Groups of which NCCL divides the world's communicator, and the library's own messages."""
    pair = dist.new_group([1, 0])
    alone = dist.new_group([rank], use_local_synchronization=True)
    x = torch.full((2,), rank + 1.0, device=device)
    dist.all_reduce(x, group=pair)
    assert x.tolist() == [3.0, 3.0]
    dist.all_reduce(x, group=alone)
    assert x.tolist() == [3.0, 3.0]
    only_last = dist.new_group([size - 1])
    if rank == size - 1:
        dist.broadcast(x, rank, group=only_last)
    half = dist.split_group(split_ranks=[[0, 1]])
    dist.broadcast(x, 0, group=half)
    dist.destroy_process_group(half)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "tensor": torch.ones(2, device=device) * rank})
    assert [o["rank"] for o in objects] == list(range(size))
    assert objects[1]["tensor"].is_cuda and objects[1]["tensor"].tolist() == [1.0, 1.0]
    for where in (None, device):
        sent = [("a", 1)] if rank == 0 else [None]
        dist.broadcast_object_list(sent, 0, device=where)
        assert sent == [("a", 1)]
    if rank == 0:
        dist.send_object_list([{"b": 2}], 1, device=device)
    else:
        assert dist.recv_object_list(sent, 0, device=device) == 0 and sent == [{"b": 2}]
    mine = [None]
    dist.scatter_object_list(mine, ["x", "y"] if rank == 0 else None, 0)
    assert mine == [["x", "y"][rank]]
    only_gpus = dist.new_group(backend="nccl")
    fails(
        RuntimeError, "No backend type associated with device type cpu",
        lambda: dist.all_reduce(torch.ones(2), group=only_gpus),
    )  # fmt: skip
    dist.all_gather_object(objects, rank, group=only_gpus)
    assert objects == list(range(size))


def training(rank, size, device):
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):  # the operation belongs to the caller's stream
        x = torch.ones(1000, device=device) * 3
        dist.all_reduce(x)
    stream.synchronize()
    assert x.cpu().eq(3 * size).all()
    torch.manual_seed(rank)  # parameters become those of rank 0
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Linear(4, 2).to(device), device_ids=[device.index]
    )
    model(torch.full((3, 4), float(rank + 1), device=device)).sum().backward()
    expected = torch.full((2, 4), 3 * sum(range(1, size + 1)) / size)
    assert torch.allclose(model.module.weight.grad.cpu(), expected)
    weight = model.module.weight.detach().cpu()
    first = weight.clone()
    dist.broadcast(first, 0)
    assert torch.equal(weight, first)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(10, 12), torch.nn.Linear(12, 5)

    def forward(self, x):
        return self.last(self.first(x).relu())


def sharded(rank, size, device):
    """Inputs of the CPU to modules of GPUs; fully_shard and tensor parallelism there."""
    from rushlight.distributed.fsdp import fully_shard
    from rushlight.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(0)
    alone = Net().to(device)
    dist.broadcast(alone.first.weight.detach(), 0)
    x = torch.randn(4 * size, 10)
    dist.broadcast(x, 0)
    model = Net().to(device)
    model.load_state_dict(alone.state_dict())
    data_parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    assert torch.allclose(data_parallel(x), alone(x.to(device)), atol=1e-5)
    sharded = Net().to(device)
    sharded.load_state_dict(alone.state_dict())
    fully_shard(sharded.first), fully_shard(sharded)
    assert sharded.first.weight.device_mesh.device_type == "cuda"
    optimizers = [torch.optim.AdamW(m.parameters(), lr=0.1) for m in (sharded, alone)]
    for _ in range(2):
        sharded(x.chunk(size)[rank]).square().mean().backward()
        alone(x.to(device)).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for part, whole in zip(sharded.parameters(), alone.parameters()):
        assert part.to_local().is_cuda and torch.allclose(part.full_tensor(), whole, atol=1e-4)
    mesh = dist.init_device_mesh("cuda", (size,))
    divided = Net()  # goes to the GPUs of the mesh
    divided.load_state_dict(alone.cpu().state_dict())
    parallelize_module(divided, mesh, {"first": ColwiseParallel(), "last": RowwiseParallel()})
    assert torch.allclose(divided(x.to(device)).cpu(), alone(x), atol=1e-4)


def worker(rank, size, port, names):
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size)
    )
    dist.init_process_group("cpu:gloo,cuda:nccl")
    device = torch.device("cuda", rank % 2)
    torch.cuda.set_device(device)
    everything = (reductions, copies, parts, messages, own_streams, groups, training, sharded)
    for part in everything if not names else [globals()[name] for name in names]:
        part(rank, size, device)
    dist.destroy_process_group()
    os.write(1, f"right {rank}\n".encode())  # one write: lines of several ranks must not mix


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=worker, args=(rank, 2, port, sys.argv[1:])) for rank in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(any(process.exitcode for process in processes))
