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


def reductions(rank, size, device):
    """As those of the CPU, by gloo."""
    for dtype in DTYPES:
        x = (torch.arange(5) + rank).to(dtype)
        for op in REDUCTIONS:
            got, expected = x.to(device), x.clone()
            dist.all_reduce(got, op)
            dist.all_reduce(expected, op)
            assert torch.equal(got.cpu(), expected), (dtype, op, got, expected)
    large = torch.randn(300000, generator=torch.Generator().manual_seed(rank))
    got = large.to(device)
    dist.all_reduce(got)
    dist.all_reduce(large)
    assert torch.allclose(got.cpu(), large, atol=1e-5)
    turned = torch.full((2,), 1j * rank, device=device, dtype=torch.complex64)
    dist.all_reduce(turned)
    assert turned.cpu()[0].item() == 1j * sum(range(size))
    try:
        dist.all_reduce(torch.ones(2, dtype=torch.int64, device=device), dist.ReduceOp.BAND)
        raise AssertionError("NCCL has no BAND")
    except NotImplementedError as error:
        assert "BAND" in str(error)
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


def worker(rank, size, port):
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(size)
    )
    dist.init_process_group("nccl")
    device = torch.device("cuda", rank % 2)
    torch.cuda.set_device(device)
    for part in (reductions, copies, training):
        part(rank, size, device)
    dist.destroy_process_group()
    os.write(1, f"right {rank}\n".encode())  # one write: lines of several ranks must not mix


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=worker, args=(rank, 2, port)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(any(process.exitcode for process in processes))
