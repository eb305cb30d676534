"""What is built on collectives: gradients through them, batch norms, sharded optimizers, meshes."""

import copy
import sys

from refusal import refused

import rushlight as torch
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed import _functional_collectives as functional, nn as dist_nn
from rushlight.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from rushlight.distributed.device_mesh import DeviceMesh, init_device_mesh
from rushlight.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from rushlight.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


def weights(r):
    return torch.arange(1.0, 5.0) * (r + 1)


def gradients():
    """Each rank's loss weighs what it got; the gradient is that of the sum of all losses."""
    every = [torch.arange(4.0) + r for r in range(size)]

    def leaf():
        return every[rank].clone().requires_grad_()

    x = leaf()
    (dist_nn.all_reduce(x) * weights(rank)).sum().backward()
    assert torch.equal(x.grad, sum(weights(r) for r in range(size)))
    x = leaf()
    y = dist_nn.broadcast(x, size - 1)
    assert torch.equal(y, every[-1])
    (y * weights(rank)).sum().backward()
    wanted = sum(weights(r) for r in range(size)) if rank == size - 1 else torch.zeros(4)
    assert torch.equal(x.grad, wanted)
    x = leaf()
    (dist_nn.reduce(x, 0) * weights(rank)).sum().backward()
    assert torch.equal(x.grad, weights(0))
    x = leaf()
    parts = dist_nn.all_gather(x)
    assert all(torch.equal(p, e) for p, e in zip(parts, every))
    sum((p * weights(rank + i)).sum() for i, p in enumerate(parts)).backward()
    assert torch.equal(x.grad, sum(weights(r + rank) for r in range(size)))
    xs = [leaf() for _ in range(size)]
    (dist_nn.reduce_scatter(torch.empty(4), xs) * weights(rank)).sum().backward()
    assert all(torch.equal(one.grad, weights(i)) for i, one in enumerate(xs))
    x = leaf()
    sum((p * weights(i)).sum() for i, p in enumerate(dist_nn.gather(x, 1))).backward()
    assert torch.equal(x.grad, weights(rank))
    xs = [leaf() for _ in range(size)]
    (dist_nn.scatter(xs, 1) * weights(rank)).sum().backward()
    assert rank != 1 or all(torch.equal(one.grad, weights(i)) for i, one in enumerate(xs))
    xs = [leaf() for _ in range(size)]
    got = dist_nn.all_to_all([torch.empty(4) for _ in xs], xs)
    sum((p * weights(rank)).sum() for p in got).backward()
    assert all(torch.equal(one.grad, weights(i)) for i, one in enumerate(xs))
    x = torch.arange(2.0 * size, requires_grad=True)
    got = dist_nn.all_to_all_single(torch.empty(2 * size), x)
    (got * (rank + 1)).sum().backward()
    assert x.grad.tolist() == [r + 1 for r in range(size) for _ in range(2)]


def functions():
    x = torch.arange(6.0).view(2, 3) + rank
    total = functional.all_reduce(x, "sum", dist.group.WORLD)
    assert torch.equal(total, sum(torch.arange(6.0).view(2, 3) + r for r in range(size)))
    assert torch.equal(functional.all_reduce(x, "sum", list(range(size))), total)
    alone = functional.all_reduce(x, "sum", [[one] for one in range(size)])
    assert torch.equal(alone, x)
    refused(ValueError, "is not in [99]", functional.all_reduce, x, "sum", [99])
    assert functional.all_gather_tensor(x, 1, dist.group.WORLD).shape == (2, 3 * size)
    y = torch.arange(2.0 * size).view(1, -1)
    part = functional.reduce_scatter_tensor(y, "avg", 1, dist.group.WORLD)
    assert part.tolist() == [[2.0 * rank, 2.0 * rank + 1]]
    x = x.requires_grad_()
    functional.all_gather_tensor_autograd(x, 0, dist.group.WORLD).sum().backward()
    assert x.grad.tolist() == [[size] * 3] * 2


def batch_norm():
    for shape in ((6, 3), (6, 3, 4, 5)):
        torch.manual_seed(0)
        whole = torch.randn(shape[0] * size, *shape[1:]) * 3 + 5
        uneven = list(whole.split([shape[0] + 2] + [shape[0]] * (size - 2) + [shape[0] - 2]))
        plain = nn.BatchNorm1d(3) if len(shape) == 2 else nn.BatchNorm2d(3)
        with torch.no_grad():
            plain.weight.uniform_()
            plain.bias.uniform_()
        synced = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
        x, y = uneven[rank].clone().requires_grad_(), whole.clone().requires_grad_()
        out, wanted = synced(x), plain(y)
        torch.testing.assert_close(out, wanted.split([len(u) for u in uneven])[rank])
        (out.square() * out).sum().backward()
        (wanted.square() * wanted).sum().backward()
        grad = y.grad.split([len(u) for u in uneven])[rank]
        torch.testing.assert_close(x.grad, grad, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(synced.running_mean, plain.running_mean)
        torch.testing.assert_close(synced.running_var, plain.running_var)
        dist.all_reduce(synced.weight.grad)
        torch.testing.assert_close(synced.weight.grad, plain.weight.grad, rtol=1e-4, atol=1e-3)
        synced.eval(), plain.eval()
        torch.testing.assert_close(synced(x), plain(x))


def sharded_optimizer():
    for as_views in (False, True):
        for optimizer_class in (torch.optim.Adam, torch.optim.SGD):
            options = {"lr": 0.05} | (
                {"momentum": 0.9} if optimizer_class is torch.optim.SGD else {}
            )
            torch.manual_seed(0)
            model = DDP(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)))
            alone = copy.deepcopy(model.module)
            sharded = ZeroRedundancyOptimizer(
                model.parameters(), optimizer_class, parameters_as_bucket_view=as_views, **options
            )
            assert sharded.parameters_as_bucket_view is as_views and sharded.initialized
            assert sharded.global_rank == rank
            plain = optimizer_class(alone.parameters(), **options)
            for step in range(6):
                x = torch.randn(2 * size, 4, generator=torch.Generator().manual_seed(step))
                for m, o, part in ((model, sharded, x.chunk(size)[rank]), (alone, plain, x)):
                    o.zero_grad()
                    m(part).square().mean().backward()
                    o.step()
                for group in (*sharded.param_groups, *plain.param_groups):
                    group["lr"] *= 0.9
            for p, q in zip(model.parameters(), alone.parameters()):
                torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
            assert len(sharded.optim.state) < 4 or size == 1  # the state is divided
            sharded.consolidate_state_dict(to=0)
            saved = [sharded.state_dict() if rank == 0 else None]
            dist.broadcast_object_list(saved)
            wanted = plain.state_dict()["state"]
            key = "exp_avg" if optimizer_class is torch.optim.Adam else "momentum_buffer"
            for number in range(4):
                torch.testing.assert_close(
                    saved[0]["state"][number][key], wanted[number][key], rtol=1e-5, atol=1e-6
                )
            again = ZeroRedundancyOptimizer(model.parameters(), optimizer_class, **options)
            again.load_state_dict(saved[0])
            for p, state in sharded.optim.state.items():
                assert torch.equal(again.optim.state[p][key], state[key])
            assert again.param_groups[0]["lr"] == sharded.param_groups[0]["lr"]


def averages():
    torch.manual_seed(rank)
    model = nn.Linear(2, 1)
    optimizer = PostLocalSGDOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), PeriodicModelAverager(2, warmup_steps=1)
    )
    alike = []
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.full((1, 2), float(rank))).sum().backward()
        optimizer.step()
        found = [torch.empty(1, 2) for _ in range(size)]
        dist.all_gather(found, model.weight.detach())
        alike.append(all(torch.allclose(one, found[0]) for one in found))
    assert alike == [False, True, False, True]


def meshes():
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("data",))
    assert mesh.get_group() is dist.group.WORLD and mesh.get_local_rank() == rank
    assert mesh["data"] is mesh and mesh.size() == size and mesh.shape == (size,)
    tall = init_device_mesh("cpu", (size, 1), mesh_dim_names=("data", "model"))
    assert tall.get_coordinate() == (rank, 0) and tall.ndim == 2
    assert tall["model"].size() == 1 and tall["data"].get_local_rank() == rank
    x = torch.ones(1)
    dist.all_reduce(x, group=tall.get_group("data"))
    assert x.item() == size
    assert tall._flatten().size() == size
    try:
        DeviceMesh("cpu", torch.arange(size + 1))
        raise AssertionError("a mesh larger than the world was made")
    except RuntimeError as error:
        assert "bigger than default world size" in str(error)


def pipelines():
    from rushlight.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    for schedule_class in (ScheduleGPipe, Schedule1F1B):
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(size)]
        whole = nn.Sequential(*copy.deepcopy(layers))
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (layers[rank], whole)]
        stage = PipelineStage(layers[rank], rank, size, "cpu")
        schedule = schedule_class(stage, 4, loss_fn=nn.functional.mse_loss)
        kinds = [action.computation_type.value for action in schedule.pipeline_order[rank]]
        assert kinds.count("F") == kinds.count("B") == 4
        ahead = 4 if schedule_class is ScheduleGPipe else min(4, size - rank)
        assert kinds.index("B") == ahead
        for step in range(3):
            g = torch.Generator().manual_seed(step)
            x, y = torch.randn(8, 5, generator=g), torch.randn(8, 5, generator=g)
            for optimizer in optimizers:
                optimizer.zero_grad()
            losses = []
            if rank == 0:
                out = schedule.step(x, target=y if size == 1 else None, losses=losses)
            elif rank == size - 1:
                out = schedule.step(target=y, losses=losses)
            else:
                out = schedule.step()
            wanted = whole(x)
            loss = nn.functional.mse_loss(wanted, y)
            loss.backward()
            if rank == size - 1:
                torch.testing.assert_close(out, wanted)
                torch.testing.assert_close(torch.stack(losses).mean(), loss.detach())
            else:
                assert out is None and losses == []
            for p, q in zip(layers[rank].parameters(), whole[rank].parameters()):
                torch.testing.assert_close(p.grad, q.grad)
            for optimizer in optimizers:
                optimizer.step()
        out = schedule.eval(*([x] if rank == 0 else []))
        if rank == size - 1:
            torch.testing.assert_close(out, whole(x).detach())
    try:
        schedule.step(torch.ones(7, 5), target=torch.ones(7, 5))
        raise AssertionError("7 examples were divided into 4 parts")
    except ValueError as error:
        assert "does not divide into 4" in str(error)


for section in sys.argv[1:]:
    globals()[section]()
dist.barrier()
dist.destroy_process_group()
print("done")
