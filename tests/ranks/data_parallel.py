"""DistributedDataParallel against one process that sees all data."""

import copy
import logging
import sys

import rushlight as torch
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from rushlight.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 40)
        self.norm = nn.LayerNorm(40)
        self.last = nn.Linear(40, 3)
        self.spare = nn.Linear(2, 2)

    def forward(self, x, with_spare=True):
        y = self.last(torch.relu(self.norm(self.first(x))))
        return y + self.spare(torch.ones(2).type_as(y)).sum() if with_spare else y


def data(step, n=4 * 6):
    g = torch.Generator().manual_seed(step)
    return torch.randn(n, 6, generator=g), torch.randn(n, 3, generator=g)


def mine(x):
    return x.chunk(size)[rank]


def same(a, b, tolerance=1e-6):
    for (name, p), (_, q) in zip(a.named_parameters(), b.named_parameters()):
        torch.testing.assert_close(p, q, rtol=tolerance, atol=tolerance, msg=name)
        assert (p.grad is None) == (q.grad is None), name
        if p.grad is not None:
            torch.testing.assert_close(p.grad, q.grad, rtol=tolerance, atol=tolerance, msg=name)


def train(steps=5, tolerance=1e-6, hook=None, model=None, alike=True, **options):
    torch.manual_seed(rank)  # rank 0's parameters are taken
    ddp = DDP(model or Net(), **options)
    if hook is not None:
        ddp.register_comm_hook(*hook)
    alone = copy.deepcopy(ddp.module)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (ddp, alone)]
    for step in range(steps):
        x, y = data(step)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss = nn.functional.mse_loss(ddp(mine(x)), mine(y))
        loss.backward()
        nn.functional.mse_loss(alone(x), y).backward()
        if alike:
            same(ddp.module, alone, tolerance)
        for optimizer in optimizers:
            optimizer.step()
    return ddp, alone


def buckets():
    for options in (
        {},
        {"gradient_as_bucket_view": True},
        {"bucket_cap_mb": 0.0005},
        {"bucket_cap_mb": 0.0005, "gradient_as_bucket_view": True},
        {"static_graph": True},
        {"find_unused_parameters": True},
        {"init_sync": True, "broadcast_buffers": False},
    ):
        ddp, _ = train(**options)
    ddp, _ = train(bucket_cap_mb=0.0003)
    assert len(ddp.reducer.buckets) > 2
    assert ddp.reducer.buckets[0].indices[0] in (6, 7)  # those whose gradients come first
    assert all(name.startswith("module.") for name in ddp.state_dict())


def accumulation():
    torch.manual_seed(3)
    for as_views in (False, True):
        ddp = DDP(Net(), gradient_as_bucket_view=as_views)
        alone = copy.deepcopy(ddp.module)
        for step in range(3):
            with ddp.no_sync():
                for part in range(2):
                    ddp(mine(data(10 * step + part)[0])).sum().backward()
            ddp(mine(data(10 * step + 2)[0])).sum().backward()
            for part in range(3):
                (alone(data(10 * step + part)[0]).sum() / size).backward()
            same(ddp.module, alone, 1e-5)
            ddp.zero_grad(set_to_none=step != 1)
            alone.zero_grad(set_to_none=step != 1)


def unused():
    ddp = DDP(Net(), find_unused_parameters=True)
    for _ in range(2):
        ddp.zero_grad()
        ddp(torch.ones(2, 6), with_spare=False).sum().backward()
        assert ddp.module.spare.weight.grad is None
    ddp(torch.ones(2, 6), with_spare=rank == 0).sum().backward()  # one rank uses it
    assert ddp.module.spare.weight.grad.tolist() == [[6 / size] * 2] * 2
    ddp = DDP(Net())
    ddp(torch.ones(2, 6), with_spare=False).sum().backward()
    try:
        ddp(torch.ones(2, 6), with_spare=False)
        raise AssertionError("unused parameters went unnoticed")
    except RuntimeError as error:
        assert "spare.weight, spare.bias" in str(error), error


def ignored_outputs():
    for options in ({}, {"find_unused_parameters": True}):
        ddp = DDP(Net(), **options)
        alone = copy.deepcopy(ddp.module)
        for step in range(3):
            x, _ = data(step)
            for _ in range(2):
                ddp(mine(x))  # for its values alone
            ddp(mine(x)).sum().backward()
            (alone(x).sum() / size).backward()
            same(ddp.module, alone, 1e-5)


def annotations_of_hooks():
    def takes_a_number(state, bucket: int):
        raise AssertionError

    def returns_a_number(state, bucket: dist.GradBucket) -> int:
        return 1

    def returns_something(state, bucket):
        return 1

    ddp = DDP(nn.Linear(2, 2))
    for hook, what in ((takes_a_number, "bucket annotation"), (returns_a_number, "return annot")):
        try:
            ddp.register_comm_hook(None, hook)
            raise AssertionError(f"{hook.__name__} is accepted")
        except ValueError as error:
            assert what in str(error), error
    ddp.register_comm_hook(None, returns_something)
    try:
        ddp(torch.ones(1, 2)).sum().backward()
        raise AssertionError("a number is taken for a future")
    except RuntimeError as error:
        assert "must return a torch.futures.Future object, but got int" in str(error), error


def buffers_of_rank_0():
    norm = DDP(nn.BatchNorm1d(2))
    norm(torch.full((4, 2), float(rank + 1)) * torch.arange(4.0)[:, None]).sum().backward()
    found = [torch.empty(2) for _ in range(size)]
    norm(torch.zeros(4, 2))
    dist.all_gather(found, norm.module.running_mean)
    assert all(torch.equal(one, found[0]) for one in found)
    wrong = nn.Linear(2, 2 + rank)
    try:
        DDP(wrong)
        raise AssertionError("different models were accepted")
    except RuntimeError as error:
        assert "rank 1 has ('weight', (3, 2)" in str(error), error


class Kept(logging.Handler):
    """Keeps what is logged."""

    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


def hooks():
    train(hook=(None, default_hooks.allreduce_hook))
    train(hook=(dist.group.WORLD, default_hooks.fp16_compress_hook), tolerance=5e-3)
    train(hook=(None, default_hooks.bf16_compress_hook), tolerance=5e-2)
    twice = default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)
    train(hook=(None, twice), tolerance=5e-3)
    seen = []

    def mean_of_squares(state, bucket):
        seen.append((bucket.index(), bucket.is_last(), len(bucket.parameters())))
        assert bucket.gradients()[0].shape == bucket.parameters()[0].shape
        work = dist.all_reduce(bucket.buffer().mul_(2), async_op=True)
        return work.get_future().then(lambda f: f.value()[0].div_(2 * size))

    train(hook=(None, mean_of_squares), bucket_cap_mb=0.0005)
    assert seen[0][0] == 0 and seen[-1][1]
    for function in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        for batched in (False, True):
            state = powerSGD_hook.PowerSGDState(
                None, 2, start_powerSGD_iter=2, batch_tensors_with_same_shape=batched,
                compression_stats_logging_frequency=50,
            )  # fmt: skip
            logged = logging.getLogger(powerSGD_hook.__name__)
            logged.addHandler(Kept()), logged.setLevel(logging.INFO)
            ddp, alone = train(120, hook=(state, function), alike=False)
            x, y = data(0)
            losses = [nn.functional.mse_loss(m(x), y).item() for m in (ddp, alone)]
            assert losses[0] < losses[1] * 1.3 + 0.05, losses
            assert state.compression_stats()[0] > 1.3
            kept = logged.handlers.pop()
            assert [record.args[0] for record in kept.records] == [2, 52, 102]
            assert kept.records[1].args[1] > kept.records[1].args[2] > 0
            assert state.next_stats_report == 152
            flat = torch.cat([p.detach().reshape(-1) for p in ddp.parameters()])
            found = [torch.empty_like(flat) for _ in range(size)]
            dist.all_gather(found, flat)
            assert torch.equal(found[0], found[1])


def uneven_inputs():
    for by_initial in (True, False):
        torch.manual_seed(0)
        model = DDP(nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1, affine=False)))
        model.module[1].eval()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        found = []
        with model.join(divide_by_initial_world_size=by_initial):
            for _ in range(3 + 2 * rank):
                optimizer.zero_grad()
                model(torch.ones(1, 1)).sum().backward()
                found.append(model.module[0].weight.grad.item())
        full = found[0]
        working = [sum(i < 3 + 2 * r for r in range(size)) for i in range(3 + 2 * rank)]
        for value, count in zip(found, working):
            wanted = full * count / size if by_initial else full
            assert abs(value - wanted) < 1e-6, (found, working)
    model = DDP(nn.Linear(1, 1))
    raised = None
    try:
        with model.join(throw_on_early_termination=True):
            for _ in range(2 + rank):
                model(torch.ones(1, 1)).sum().backward()
    except RuntimeError as error:
        raised = str(error)
    # The first one to end says so itself.
    assert raised and ("exhausted inputs" in raised) is (f"Rank {rank} exhausted" not in raised)


def sparse_gradients():
    torch.manual_seed(0)
    ddp = DDP(nn.Sequential(nn.Embedding(10, 3, sparse=True), nn.Linear(3, 2)))
    alone = copy.deepcopy(ddp.module)
    tokens = torch.tensor([[1, 2], [2, 7], [0, 1], [4, 4], [5, 2], [9, 9]])[: 2 * size]
    for _ in range(2):
        ddp.zero_grad()
        alone.zero_grad()
        ddp(mine(tokens)).mean().backward()
        alone(tokens).mean().backward()
        gradient = ddp.module[0].weight.grad
        assert gradient.is_sparse
        torch.testing.assert_close(gradient.to_dense(), alone[0].weight.grad.to_dense())
        torch.testing.assert_close(ddp.module[1].weight.grad, alone[1].weight.grad)


def precision():
    from rushlight.nn.parallel.distributed import _MixedPrecision

    half = _MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16)
    ddp = DDP(Net(), mixed_precision=half)
    out = ddp(mine(data(0)[0]))
    assert out.dtype is torch.bfloat16
    out.float().sum().backward()
    alone = copy.deepcopy(ddp.module)
    alone.zero_grad()
    (alone(data(0)[0]).sum() / size).backward()
    for p, q in zip(ddp.module.parameters(), alone.parameters()):
        assert p.grad.dtype is torch.float32
        torch.testing.assert_close(p.grad, q.grad, rtol=0.1, atol=0.1)


def parts_of_calls():
    """What forward consists of, as methods."""
    model = DDP(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    assert model.will_sync_module_buffers()
    with model.no_sync():
        model(torch.ones(4, 2))
    assert not model.will_sync_module_buffers()  # the pass before was not exchanged
    assert not DDP(nn.BatchNorm1d(2), broadcast_buffers=False).will_sync_module_buffers()
    assert not DDP(nn.Linear(2, 2)).will_sync_module_buffers()
    x = torch.ones(4, 2)
    assert model.to_kwargs((x, 3), {"y": [x]}, 0) == (((x, 3),), ({"y": [x]},))


for section in sys.argv[1:]:
    globals()[section]()
dist.barrier()
dist.destroy_process_group()
print("done")
