"""Every collective operation, with all dtypes and reductions, against what one process computes."""

import datetime
import functools
import operator
import os
import sys

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed import _agreement, _shared_memory

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()
Op = dist.ReduceOp

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
ALL = [*FLOATS, *INTEGERS, *COMPLEX, torch.bool]
COPIED_ONLY = [
    torch.uint16, torch.uint32, torch.uint64, torch.complex32, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip


def of_rank(r, shape, dtype):
    """What rank r has: small integers, so that sums in any order are exact."""
    g = torch.Generator().manual_seed(100 + r)
    values = torch.randint(0, 4, shape, generator=g)
    if dtype is torch.bool:
        return values % 2 == 0
    if dtype.is_complex:
        return torch.complex(values.double(), values.flip(0).double()).to(dtype)
    return values.to(dtype)


def everyone(shape, dtype):
    return [of_rank(r, shape, dtype) for r in range(size)]


def expected(parts, op):
    dtype = parts[0].dtype
    if dtype is torch.bool:
        fold = {
            Op.SUM: operator.or_, Op.PRODUCT: operator.and_, Op.MIN: operator.and_,
            Op.MAX: operator.or_, Op.BAND: operator.and_, Op.BOR: operator.or_,
            Op.BXOR: operator.xor,
        }[op]  # fmt: skip
    else:
        fold = {
            Op.SUM: torch.add, Op.AVG: torch.add, Op.PRODUCT: torch.mul, Op.MIN: torch.minimum,
            Op.MAX: torch.maximum, Op.BAND: operator.and_, Op.BOR: operator.or_,
            Op.BXOR: operator.xor,
        }[op]  # fmt: skip
    total = functools.reduce(fold, parts)
    if op is Op.AVG:
        floating = dtype.is_floating_point or dtype.is_complex
        total = total / size if floating else torch.div(total, size, rounding_mode="trunc")
    return total.to(dtype)


def same(got, wanted, what):
    assert got.dtype is wanted.dtype and got.shape == wanted.shape, what
    assert torch.equal(got, wanted), f"rank {rank}: {what}: {got} instead of {wanted}"


def ops_of(dtype):
    if dtype is torch.bool:
        return [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX, Op.BAND, Op.BOR, Op.BXOR]
    if dtype.is_complex:
        return [Op.SUM, Op.AVG, Op.PRODUCT]
    if dtype.is_floating_point:
        return [Op.SUM, Op.AVG, Op.PRODUCT, Op.MIN, Op.MAX]
    return [Op.SUM, Op.AVG, Op.PRODUCT, Op.MIN, Op.MAX, Op.BAND, Op.BOR, Op.BXOR]


def refused(error, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except error:
        return
    raise AssertionError(f"{function.__name__} accepts {args} {kwargs}")


def reductions(large_count=300_001):
    for dtype in ALL:
        for op in ops_of(dtype):
            parts = everyone((5, 3), dtype)
            wanted, what = expected(parts, op), (dtype, op)
            x = parts[rank].clone()
            assert dist.all_reduce(x, op) is None
            same(x, wanted, ("all_reduce", *what))
            strided = torch.zeros(3, 10, dtype=dtype)[:, ::2].t()
            strided.copy_(parts[rank])
            dist.all_reduce(strided, op)
            same(strided, wanted, ("all_reduce of a view", *what))
            x = parts[rank].clone()
            dist.reduce(x, size - 1, op)
            same(x, wanted if rank == size - 1 else parts[rank], ("reduce", *what))
            lists = [[of_rank(10 * r + i, (4,), dtype) for i in range(size)] for r in range(size)]
            out = torch.empty(4, dtype=dtype)
            dist.reduce_scatter(out, lists[rank], op)
            same(out, expected([parts[rank] for parts in lists], op), ("reduce_scatter", *what))
            dist.reduce_scatter_tensor(out, torch.cat(lists[rank]), op)
            same(out, expected([parts[rank] for parts in lists], op), ("scatter_tensor", *what))
    uneven = [torch.full((i + 1,), float(rank)) for i in range(size)]
    out = torch.empty(rank + 1)
    dist.reduce_scatter(out, uneven)
    same(out, torch.full((rank + 1,), float(sum(range(size)))), "uneven reduce_scatter")
    x = torch.ones(3)
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.5))
    same(x, torch.full((3,), 0.5 * size), "premultiplied sum")
    refused(ValueError, dist.all_reduce, torch.ones(2), Op.BAND)
    refused(ValueError, dist.all_reduce, torch.ones(2, dtype=torch.complex64), Op.MAX)
    refused(TypeError, dist.all_reduce, [1.0])
    refused(RuntimeError, dist.all_reduce, torch.ones(2, device="meta"))
    x = torch.ones(3, dtype=torch.complex64).conj() * (1 + 1j)
    dist.all_reduce(x)
    same(x.resolve_conj(), torch.full((3,), size + size * 1j, dtype=torch.complex64), "conj")
    several = [torch.ones(2), torch.ones(3, 2)]
    dist.all_reduce_coalesced(several)
    same(several[1], torch.full((3, 2), float(size)), "coalesced")
    large = torch.ones(large_count)
    dist.all_reduce(large)
    same(large, torch.full((large_count,), float(size)), "large")


def copies():
    for dtype in [*ALL, *COPIED_ONLY]:
        parts = everyone((2, 3), dtype)
        x = parts[rank].clone()
        dist.broadcast(x, src=size - 1)
        same(x, parts[size - 1], ("broadcast", dtype))
        view = torch.zeros(3, 2, dtype=dtype).t()
        view.copy_(parts[rank])
        dist.broadcast(view, group_src=0)
        same(view, parts[0], ("broadcast of a view", dtype))
        found = [torch.empty(2, 3, dtype=dtype) for _ in range(size)]
        dist.all_gather(found, parts[rank])
        for one, wanted in zip(found, parts):
            same(one, wanted, ("all_gather", dtype))
        into = torch.empty(size * 2, 3, dtype=dtype)
        dist.all_gather_into_tensor(into, parts[rank])
        same(into, torch.cat(parts), ("all_gather_into_tensor", dtype))
        into = torch.zeros(size * 2, 3, dtype=dtype)  # whose own part is there already
        into[2 * rank : 2 * rank + 2] = parts[rank]
        dist.all_gather_into_tensor(into, into[2 * rank : 2 * rank + 2])
        same(into, torch.cat(parts), ("all_gather_into_tensor in place", dtype))
        stacked = torch.empty(size, 2, 3, dtype=dtype)
        dist.all_gather_into_tensor(stacked, parts[rank])
        same(stacked, torch.stack(parts), ("stacked", dtype))
        found = [torch.empty(2, 3, dtype=dtype) for _ in range(size)] if rank == 0 else None
        dist.gather(parts[rank], found, dst=0)
        for one, wanted in zip(found or [], parts):
            same(one, wanted, ("gather", dtype))
        x = torch.empty(2, 3, dtype=dtype)
        dist.scatter(x, parts if rank == size - 1 else None, src=size - 1)
        same(x, parts[rank], ("scatter", dtype))
        sent = [of_rank(10 * rank + i, (i + 1,), dtype) for i in range(size)]
        got = [torch.empty(rank + 1, dtype=dtype) for _ in range(size)]
        dist.all_to_all(got, sent)
        for r, one in enumerate(got):
            same(one, of_rank(10 * r + rank, (rank + 1,), dtype), ("all_to_all", dtype))
        out = torch.empty(size * (rank + 1), dtype=dtype)
        dist.all_to_all_single(
            out, torch.cat(sent), [rank + 1] * size, [i + 1 for i in range(size)]
        )
        same(out, torch.cat(got), ("all_to_all_single", dtype))
    even = torch.arange(size * 2) + 100 * rank
    out = torch.empty_like(even)
    dist.all_to_all_single(out, even)
    wanted = torch.cat([torch.arange(2 * rank, 2 * rank + 2) + 100 * r for r in range(size)])
    same(out, wanted, "even all_to_all_single")
    uneven = [torch.empty(r + 1) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank)))
    assert [t.tolist() for t in uneven] == [[float(r)] * (r + 1) for r in range(size)]
    for function in (dist.all_reduce, lambda t: dist.broadcast(t, 0)):
        function(torch.empty(0))
    empty = [torch.empty(0) for _ in range(size)]
    dist.all_gather(empty, torch.empty(0))
    dist.all_to_all(empty, [torch.empty(0)] * size)


def through_shared_memory():
    """All again, with chunks so small that each tensor is cut into many. To be called first."""
    assert dist.group.WORLD._transport.memory._segments is None
    _shared_memory.SMALLEST, _shared_memory.CHUNK_BYTES = 1, 16 * 2 * size
    _agreement._LARGEST_GROUP = 0  # headers travel alone
    reductions(3001)  # a barrier for each chunk of 16 elements: on a busy machine, 4 ms
    copies()
    group = dist.new_group()
    if rank == 0:
        unpatched, os.memfd_create = os.memfd_create, out_of_memory
    x = torch.full((400,), rank + 1.0)
    dist.all_reduce(x, group=group)
    same(x, torch.full((400,), size * (size + 1) / 2), "without shared memory")
    assert group._transport.memory.is_refused
    assert not dist.group.WORLD._transport.memory.is_refused
    if rank == 0:
        os.memfd_create = unpatched


def out_of_memory(*arguments):
    raise OSError(12, "planted")


def messages():
    other = (rank + 1) % size
    before = (rank - 1) % size
    for dtype in [*ALL, *COPIED_ONLY]:
        x = of_rank(rank, (3, 2), dtype)
        got = torch.empty(2, 3, dtype=dtype).t()
        work = dist.isend(x, other, tag=3)
        assert dist.recv(got, before, tag=3) == before
        work.wait()
        same(got, of_rank(before, (3, 2), dtype), ("send", dtype))
    works = [dist.isend(torch.full((2,), float(i)), other) for i in range(5)]
    into = [torch.empty(2) for _ in range(5)]
    works += [dist.irecv(one, before) for one in into]
    for work in reversed(works):
        work.wait()
    assert [one[0].item() for one in into] == [0, 1, 2, 3, 4]
    got = torch.empty(4)
    for work in dist.batch_isend_irecv(
        [dist.P2POp(dist.irecv, got, before), dist.P2POp(dist.isend, torch.arange(4.0), other)]
    ):
        work.wait()
    same(got, torch.arange(4.0), "batch")
    if rank == 0:
        from_whom = {dist.recv(torch.empty(1), tag=7) for _ in range(size - 1)}
        assert from_whom == set(range(1, size))
    else:
        dist.send(torch.ones(1), 0, tag=7)
    big = torch.arange(1_000_000.0)
    work = dist.isend(big, other)
    got = torch.empty(1_000_000)
    dist.recv(got, before)
    work.wait()
    same(got, big, "a large message")
    refused(ValueError, dist.send, got, rank)
    refused(ValueError, dist.send, got, size)
    if rank == 0:
        dist.send(torch.ones(3), 1)
        dist.send(torch.full((2,), 5.0), 1)
    elif rank == 1:
        try:
            dist.recv(torch.ones(4), 0)
            raise AssertionError("a message of another size was received")
        except dist.DistBackendError as error:
            assert "rank 0 sends 3 elements of float32" in str(error), error
            assert "collectives.py:" in str(error), error
        got = torch.empty(2)
        dist.recv(got, 0)  # the next message is not mistaken
        assert got.tolist() == [5, 5]
    dist.barrier()


def objects():
    mine = {"rank": rank, "tensor": torch.full((rank + 1,), 2.0)}
    found = [None] * size
    dist.all_gather_object(found, mine)
    assert [one["rank"] for one in found] == list(range(size))
    assert all(one["tensor"].tolist() == [2.0] * (r + 1) for r, one in enumerate(found))
    found = [None] * size if rank == 1 else None
    dist.gather_object("x" * rank, found, dst=1)
    assert rank != 1 or found == ["x" * r for r in range(size)]
    things = ["a", {2: 3}, None] if rank == 0 else [None] * 3
    dist.broadcast_object_list(things, src=0)
    assert things == ["a", {2: 3}, None]
    got = [None]
    dist.scatter_object_list(got, [f"to {r}" for r in range(size)] if rank == 0 else None, src=0)
    assert got == [f"to {rank}"]
    if rank == 0:
        dist.send_object_list(["hello", 1], dst=1)
    elif rank == 1:
        got = [None, None]
        assert dist.recv_object_list(got, src=0) == 0 and got == ["hello", 1]


def parts():
    pair = dist.new_group([0, 1])
    alone = dist.new_group([0])
    assert dist.get_world_size(pair) == (2 if rank < 2 else -1)
    if rank < 2:
        x = torch.ones(2)
        dist.all_reduce(x, group=pair)
        assert x.tolist() == [2, 2] and dist.get_rank(pair) == rank
        assert dist.get_process_group_ranks(pair) == [0, 1]
    if rank == 0:
        x = torch.ones(2)
        dist.all_reduce(x, group=alone)
        assert x.tolist() == [1, 1]
    last = dist.new_group([size - 2, size - 1], group_desc="the last")
    if rank >= size - 2:
        assert dist.get_group_rank(last, rank) == rank - size + 2
        assert dist.get_global_rank(last, 0) == size - 2
        assert dist.distributed_c10d._get_global_rank(last, 0) == size - 2
        x = torch.full((2,), float(rank))
        dist.broadcast(x, src=size - 1, group=last)
        assert x.tolist() == [size - 1] * 2 and last.group_desc == "the last"
        dist.destroy_process_group(last)
        refused(ValueError, dist.all_reduce, x, group=last)
    split = dist.split_group(split_ranks=[[0], list(range(1, size))])
    assert dist.get_world_size(split) == (1 if rank == 0 else size - 1)
    mine, every = dist.new_subgroups(1)
    assert dist.get_world_size(mine) == 1 and len(every) == size
    refused(ValueError, dist.new_group, [0, size])


def without_waiting():
    works, tensors = [], [torch.full((1000,), float(rank + i)) for i in range(20)]
    for tensor in tensors:
        works.append(dist.all_reduce(tensor, async_op=True))
    seen = []
    futures = [work.get_future().then(lambda f: seen.append(f.value()[0])) for work in works]
    torch.futures.wait_all(futures)  # nobody polls
    assert all(work.is_completed() and work.is_success() for work in works)
    total = sum(range(size))
    assert [t[0].item() for t in tensors] == [float(total + size * i) for i in range(20)]
    assert len(seen) == 20 and works[3].result()[0] is tensors[3]
    saved = torch.ones(2, requires_grad=True)
    y = torch.ones(2)
    product = saved * y
    dist.all_reduce(y)
    refused(RuntimeError, product.sum().backward)  # y has changed since


def of_other_kinds():
    """Sparse tensors, tensors of inference mode, several at once, roots and operations by name."""
    mine = torch.sparse_coo_tensor([[0, rank]], [[1.0, 2.0], [3.0, 4.0]], (size, 2))
    dist.all_reduce(mine)
    whole = torch.zeros(size, 2)
    whole[0] += torch.tensor([1.0, 2.0]) * size
    whole += torch.tensor([3.0, 4.0])
    assert mine.is_sparse and torch.equal(mine.to_dense(), whole)
    refused(ValueError, dist.all_reduce, mine, Op.MAX)
    with torch.inference_mode():
        parts = [torch.zeros(2) for _ in range(size)]
        dist.all_gather(parts, torch.full((2,), float(rank)))
        work = dist.all_reduce(total := torch.ones(3, 2).t(), async_op=True)
    work.get_future().wait()
    assert [p[0].item() for p in parts] == list(range(size)) and total.sum().item() == 6 * size
    tensors = [torch.ones(2), torch.full((3,), 2.0)]
    found = dist.all_reduce_coalesced(tensors, async_op=True).wait()
    assert found[1].tolist() == [2.0 * size] * 3
    lists = [[torch.empty(1)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [torch.tensor([rank * 1.0])], async_op=True).wait()
    assert [one.item() for (one,) in lists] == list(range(size))
    group = dist.group.WORLD
    x = torch.tensor([rank + 1.0])
    group.broadcast(x, root=size - 1).wait()
    assert x.item() == size
    group.allreduce(x, op=Op.MAX).wait()
    group.reduce(x, root=0, op=Op.SUM).wait()
    assert x.item() == (size * size if rank == 0 else size)
    refused(RuntimeError, group.broadcast, x, root=size)
    refused(RuntimeError, group.allreduce, [])
    refused(ValueError, dist.new_group, [0, 0])
    refused(ValueError, dist.all_gather, [torch.ones(1, dtype=torch.half)] * size, torch.ones(1))
    first = dist.new_group([0])
    for function in (dist.get_process_group_ranks, dist.get_backend):
        if rank > 0:
            refused(ValueError, function, first)
    for function in (dist.get_global_rank, dist.get_group_rank):
        if rank > 0:
            refused(ValueError, function, first, 0)
        else:
            assert function(first, 0) == 0
    assert group._get_backend("cpu").options._timeout == datetime.timedelta(seconds=60)
    assert (dist.new_group([0], use_local_synchronization=True) is None) is (rank > 0)


def meeting():
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=30))
    with dist._coalescing_manager() as manager:
        x = torch.ones(2)
        manager.append(dist.all_reduce(x, async_op=True))
    assert x.tolist() == [size] * 2


for section in sys.argv[1:]:
    globals()[section]()
dist.barrier()
dist.destroy_process_group()
assert not dist.is_initialized()
print("done")
