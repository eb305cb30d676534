"""Smaller things: options of groups, DTensors made in parts, losses of divided classes."""

import datetime
import sys
import warnings

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
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from rushlight.utils._pytree import tree_leaves

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))


def options():
    group, mine = dist.group.WORLD, torch.full((2,), float(rank + 1))
    total = size * (size + 1) / 2
    reducing = dist.AllreduceOptions()
    reducing.reduceOp = dist.ReduceOp.MAX
    x = mine.clone()
    group.allreduce([x], reducing).wait()
    assert x.tolist() == [size] * 2
    many = [mine.clone(), mine.clone()]
    group.allreduce_coalesced(many, dist.AllreduceCoalescedOptions()).wait()
    assert [t.tolist() for t in many] == [[total] * 2] * 2
    rooted = dist.ReduceOptions()
    rooted.rootRank = size - 1
    x = mine.clone()
    group.reduce([x], rooted).wait()
    assert x.tolist() == [total if rank == size - 1 else rank + 1] * 2
    x, giving = mine.clone(), dist.BroadcastOptions()
    giving.rootRank = 1
    group.broadcast([x], giving).wait()
    assert x.tolist() == [2.0, 2.0]
    parts = [torch.empty(2) for _ in range(size)]
    group.allgather([parts], [mine]).wait()
    assert [p.tolist() for p in parts] == [[r + 1.0] * 2 for r in range(size)]
    getting = dist.GatherOptions()
    getting.rootRank = 1
    parts = [torch.empty(2) for _ in range(size)] if rank == 1 else []
    group.gather([parts] if parts else [], [mine], getting).wait()
    assert [p.tolist() for p in parts] == ([[r + 1.0] * 2 for r in range(size)] if parts else [])
    x, giving = torch.empty(1), dist.ScatterOptions()
    lists = [[torch.tensor([r * 10.0]) for r in range(size)]] if rank == 0 else []
    group.scatter([x], lists, giving).wait()
    assert x.item() == rank * 10
    x = torch.empty(2)
    group.reduce_scatter([x], [[mine] * size], dist.ReduceScatterOptions()).wait()
    assert x.tolist() == [total] * 2
    x = torch.empty(size)
    group.alltoall_base(x, torch.arange(size) + 10.0 * rank, [], [], dist.AllToAllOptions()).wait()
    assert x.tolist() == [rank + 10.0 * r for r in range(size)]
    parts = [torch.empty(1) for _ in range(size)]
    group.alltoall(parts, list(torch.arange(size * 1.0).split(1))).wait()
    assert [p.item() for p in parts] == [rank] * size
    waiting = dist.BarrierOptions()
    waiting.asyncOp = False
    assert group.barrier(waiting).is_completed()
    waiting.device_ids = [0]
    refused(ValueError, "there are none", group.barrier, waiting)
    x = torch.empty(2)
    if rank == 0:
        group.send([mine], 1, 7).wait()
    elif rank == 1:
        group.recv([x], 0, 7).wait()
        assert x.tolist() == [1.0, 1.0]
    refused(TypeError, "does not support shrinking", dist.shrink_group, [1])
    refused(ValueError, "cannot be empty", dist.shrink_group, [])
    options = dist.ProcessGroupGloo.Options()
    options._timeout = 60.0
    assert options._timeout == datetime.timedelta(seconds=60)
    store = dist.PrefixStore("by hand", group.get_group_store())
    by_hand = dist.ProcessGroupGloo(store, rank, size, options)
    assert (by_hand.rank(), by_hand.size(), by_hand.name()) == (rank, size, "gloo")
    summed = torch.ones(2)
    by_hand.allreduce([summed]).wait()
    assert summed.tolist() == [float(size)] * 2
    dist.all_reduce(dist.new_group(pg_options=options) and summed, group=by_hand)
    assert summed.tolist() == [float(size * size)] * 2
    with torch.profiler.profile() as profile, dist.record_comm("my exchange"):
        dist.all_reduce(mine.clone())
    assert [e.name for e in profile.events()].count("my exchange") == 1
    dist.breakpoint(rank=0, skip=1)  # passed by


def methods():
    """Of a ProcessGroup: what its functions have as functions too, and its end."""
    group, mine = dist.group.WORLD, torch.full((2,), float(rank + 1))
    others = [[r + 1.0] * 2 for r in range(size)]
    outputs = [torch.empty(2 * size) for _ in range(2)]
    for gather in (group.allgather_into_tensor_coalesced, group.all_gather_single_coalesced):
        gather(outputs, [mine, -mine]).wait()
        assert outputs[0].view(-1, 2).tolist() == others and torch.equal(outputs[1], -outputs[0])
    into = torch.empty(2 * size)
    group.all_gather_single(into, mine).wait()
    assert torch.equal(into, outputs[0])
    lists = [[torch.empty(2), torch.empty(2)] for _ in range(size)]
    group.allgather_coalesced(lists, [mine, -mine]).wait()
    assert [first.tolist() for first, _ in lists] == others
    assert all(torch.equal(first, -second) for first, second in lists)
    options = dist.ReduceScatterOptions()
    options.reduceOp = dist.ReduceOp(dist.ReduceOp.MAX)
    assert options.reduceOp.op is dist.ReduceOp.MAX
    part = torch.empty(1)
    group.reduce_scatter_single(part, torch.arange(size) + 1.0 * rank, options).wait()
    assert part.item() == rank + size - 1
    parts = [torch.empty(1), torch.empty(1)]
    whole = torch.arange(size * 1.0)
    group.reduce_scatter_tensor_coalesced(parts, [whole, -whole]).wait()
    assert [p.item() for p in parts] == [rank * size, -rank * size]
    group.reduce_scatter_single_coalesced(parts, [whole, -whole], options).wait()
    assert [p.item() for p in parts] == [rank, -rank]
    x = torch.empty(size)
    group.all_to_all_single(x, torch.arange(size) + 10.0 * rank, [], []).wait()
    assert x.tolist() == [rank + 10.0 * r for r in range(size)]
    if rank == 0:
        group.send([mine], 1, 3).wait()
    elif rank == 1:
        work = group.recv_anysource([mine], 3)
        work.block_current_stream()
        assert mine.tolist() == [1.0, 1.0] and work.source_rank() == 0
    group.monitored_barrier(datetime.timedelta(seconds=30), True)
    work = group.allreduce([torch.ones(2)])
    assert work.get_future_result().wait() == 0
    assert dist.Work.unbox(work.boxed()) is work
    assert dist.ProcessGroup.unbox(group.boxed()) is group
    if rank == 0:
        group.get_group_store().set("from 0", "here")
    assert group.get_group_store().get("from 0") == b"here"
    assert group.GLOO is dist.Backend.backend_type_map["gloo"] and int(group.GLOO) == 1
    group.use_pg_for_symm_mem_rendezvous = False
    assert not group.use_pg_for_symm_mem_rendezvous
    refused(
        NotImplementedError, "symmetric memory", setattr, group, "use_pg_for_symm_mem_rendezvous",
        True,
    )  # fmt: skip
    refused(NotImplementedError, "cannot join it", group.merge_remote_group, dist.HashStore(), 9)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        device = dist.ProcessGroupGloo.create_device(interface="lo")
        dist.ProcessGroupGloo.Options().devices = [
            device,
            dist.ProcessGroupGloo.create_default_device(),
        ]
    assert ["chooses the network" in str(warning.message) for warning in told] == [True, True]
    before = dist.get_debug_level()
    dist.set_debug_level(dist.DebugLevel.INFO)
    assert dist.get_debug_level().name == "INFO" and int(dist.get_debug_level()) == 1
    dist.set_debug_level(before)
    refused(TypeError, "expected a DebugLevel", dist.set_debug_level, "INFO")
    refused(NotImplementedError, "device_types", group.split_group, [0], device_types=["cpu"])
    first = group.split_group([0, 1], group_name="first two", group_desc="of some use")
    refused(ValueError, "is a group 0", group.split_group, [0], group_name="0")
    assert (first is None) is (rank > 1)
    if first is not None:
        assert (first.group_name, first.group_desc) == ("first two", "of some use")
        x = torch.ones(3)
        work = first.allreduce([x])
        first.shutdown()
        assert work.is_completed() and x.tolist() == [2.0] * 3
        refused(dist.DistBackendError, "was shut down", first.allreduce, [x])
        dist.destroy_process_group(first)
    second = group.split_group([0, 1])
    if rank == 0:  # the other never comes
        work = second.allreduce([torch.ones(3)])
        second.abort()
        refused(dist.DistBackendError, "was aborted", work.wait)
        assert work.get_future_result().wait() == 2
        refused(dist.DistBackendError, "was aborted", second.allreduce, [x])
    dist.barrier()


def creation():
    for ways in ([Shard(0)], [Shard(1)], [Replicate()], None):
        way = {"device_mesh": mesh, "placements": ways}
        for make, value in ((ones, 1.0), (zeros, 0.0)):
            made = make(5, 3, **way, requires_grad=True)
            assert isinstance(made, DTensor) and made.requires_grad and made.is_leaf
            assert made.placements == tuple(ways or [Replicate()]) and made.shape == (5, 3)
            assert torch.equal(made.full_tensor(), torch.full((5, 3), value))
        assert full((5, 3), 7, **way).full_tensor().tolist() == [[7] * 3] * 5
        assert empty([5, 3], dtype=torch.float64, **way).full_tensor().dtype is torch.float64
    torch.manual_seed(rank)  # that of the first counts
    drawn = []
    for ways in ([Shard(0)], [Shard(1)], [Replicate()]):
        torch.manual_seed(rank)
        drawn.append(rand(5, 3, device_mesh=mesh, placements=ways).full_tensor())
        drawn.append(randn(5, 3, device_mesh=mesh, placements=ways).full_tensor())
    assert torch.equal(drawn[0], drawn[2]) and torch.equal(drawn[0], drawn[4])
    assert torch.equal(drawn[1], drawn[3]) and 0 <= drawn[0].min() < drawn[0].max() < 1
    refused(ValueError, "Partial", zeros, 2, device_mesh=mesh, placements=[Partial()])
    refused(ValueError, "same length", zeros, 2, device_mesh=mesh, placements=[Shard(0)] * 2)
    refused(TypeError, "integers", zeros, 2.5, device_mesh=mesh)


def losses():
    from rushlight.distributed.tensor.parallel import loss_parallel

    cross_entropy = nn.functional.cross_entropy
    draw = torch.Generator().manual_seed(0)
    cases = [((6, 7), (6,)), ((4, 7, 3), (4, 3)), ((7,), ())]
    for shape, targets in cases:
        classes = 1 if len(shape) > 1 else 0
        logits = torch.randn(shape, generator=draw) * 5
        target = torch.randint(0, 7, targets, generator=draw)
        if targets:
            target.view(-1)[0] = -100
        for weight in (None, torch.rand(7, generator=draw)):
            for reduction in ("mean", "sum", "none"):
                whole = logits.clone().requires_grad_()
                wanted = cross_entropy(whole, target, weight, reduction=reduction)
                wanted.sum().backward()
                divided = distribute_tensor(logits, mesh, [Shard(classes)]).requires_grad_()
                with loss_parallel():
                    found = cross_entropy(divided, target, weight, reduction=reduction)
                    found.sum().to_local().backward()
                assert found.placements == (Replicate(),)
                torch.testing.assert_close(found.to_local(), wanted)
                torch.testing.assert_close(divided.grad.full_tensor(), whole.grad)
    divided = distribute_tensor(torch.randn(4, 7, generator=draw), mesh, [Shard(1)])
    target = torch.tensor([0, 1, 2, 3])
    refused(RuntimeError, "mixed torch.Tensor and DTensor", cross_entropy, divided, target)
    target_everywhere = distribute_tensor(target, mesh, [Replicate()])
    torch.testing.assert_close(  # the classes are gathered first
        cross_entropy(divided, target_everywhere).full_tensor(),
        cross_entropy(divided.full_tensor(), target),
    )
    with loss_parallel():
        refused(NotImplementedError, "label_smoothing", cross_entropy, divided, target,
                label_smoothing=0.1)  # fmt: skip
        rows = divided.redistribute(placements=[Shard(0)])
        refused(ValueError, "exactly one dim", cross_entropy, rows, target)
        refused(IndexError, "not in [0, 7)", cross_entropy, divided, target + 4)
    grid = init_device_mesh("cpu", (size, 1))
    logits = torch.randn(2 * size, 7, generator=draw)
    divided = distribute_tensor(logits, grid, [Shard(0), Shard(1)])
    target = torch.arange(2 * size) % 7
    with loss_parallel():
        refused(ValueError, "not clear", cross_entropy, divided, target, reduction="sum")
        lies = distribute_tensor(target, grid, [Shard(0), Replicate()])
        found = cross_entropy(divided, lies, reduction="sum")
        refused(NotImplementedError, "several dims", cross_entropy, divided, lies)
    torch.testing.assert_close(found.full_tensor(), cross_entropy(logits, target, reduction="sum"))


def prefetch():
    import copy

    from rushlight.distributed.fsdp import (
        CPUOffloadPolicy,
        UnshardHandle,
        fully_shard,
        share_comm_ctx,
    )

    torch.manual_seed(0)
    alone = nn.Sequential(*[nn.Linear(3, 3) for _ in range(3)])
    model = copy.deepcopy(alone)
    for layer in model:
        fully_shard(layer, offload_policy=CPUOffloadPolicy(pin_memory=False))
    fully_shard(model)
    refused(RuntimeError, "pin", fully_shard, nn.Linear(2, 2), offload_policy=CPUOffloadPolicy())
    model[0].set_modules_to_forward_prefetch([model[1], model[2]])
    model[2].set_modules_to_backward_prefetch([model[1]])
    refused(ValueError, "expected modules", model[0].set_modules_to_forward_prefetch, [alone])
    share_comm_ctx([model, model[0]])
    model[1].set_gradient_divide_factor(1.0)  # the sum in place of the mean
    seen = []
    model[0].register_forward_hook(lambda *_: seen.append(model[2]._fsdp.full is not None))
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, alone)]
    for step in range(2):
        x = torch.full((2, 3), step + 1.0)
        for m, optimizer in zip((model, alone), optimizers):
            optimizer.zero_grad()
            m(x).square().sum().backward()
            if m is alone:
                for p in alone[1].parameters():
                    p.grad.mul_(size)
            optimizer.step()
    assert seen == [True, True]
    for p, q in zip(model.parameters(), alone.parameters()):
        torch.testing.assert_close(p.full_tensor(), q)
    handle = model[1].unshard(async_op=True)
    handle.wait()
    assert isinstance(handle, UnshardHandle) and not isinstance(model[1].weight, DTensor)
    model[1].reshard()
    assert isinstance(model[1].weight, DTensor)


def keys():
    from rushlight.distributed.fsdp import FullyShardedDataParallel as FSDP, OptimStateKeyType

    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    wrapped = FSDP(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)))
    for m in (alone, wrapped):
        optimizer = torch.optim.Adam(m.parameters(), lr=0.1)
        m(torch.ones(2, 3)).sum().backward()
        optimizer.step()
    named = FSDP.full_optim_state_dict(wrapped, optimizer, rank0_only=False)
    fresh = torch.optim.Adam(alone.parameters(), lr=0.5)
    numbered = FSDP.rekey_optim_state_dict(named, OptimStateKeyType.PARAM_ID, alone)
    fresh.load_state_dict(numbered)
    assert fresh.param_groups[0]["lr"] == 0.1 and len(fresh.state) == 4
    for name, p in alone.named_parameters():
        assert torch.equal(fresh.state[p]["exp_avg"], named["state"][name]["exp_avg"])
    again = FSDP.rekey_optim_state_dict(numbered, OptimStateKeyType.PARAM_NAME, alone, optim=fresh)
    assert set(again["state"]) == set(named["state"])


def styles():
    from rushlight.distributed.tensor.parallel import PrepareModuleInputOutput, parallelize_module

    linear = nn.Linear(4, 4)
    dist.broadcast(linear.weight.detach(), 0), dist.broadcast(linear.bias.detach(), 0)
    x = torch.randn(size * 2, 4, generator=torch.Generator().manual_seed(5))
    wanted = linear(x).chunk(size)[rank]
    style = PrepareModuleInputOutput(
        input_layouts=Shard(0), desired_input_layouts=Replicate(), use_local_input=True,
        output_layouts=Replicate(), desired_output_layouts=Shard(0),
    )  # fmt: skip
    parallelize_module(linear, mesh, style)
    torch.testing.assert_close(linear(x.chunk(size)[rank]), wanted)


def parts():
    """Functions of parts, and plain tensors beside DTensors."""
    from rushlight.distributed.tensor.experimental import implicit_replication, local_map

    x = torch.randn(2 * size, 4, generator=torch.Generator().manual_seed(5))
    rows = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
    columns = distribute_tensor(x.mT.contiguous(), mesh, [Shard(1)])

    @local_map(out_placements=[Partial()], in_placements=([Shard(1)], [Shard(0)], None))
    def product(a, b, factor):
        assert type(a) is torch.Tensor and a.shape == (4, 2)
        return factor * (a @ b)

    both = product(columns, rows, 2.0)
    assert both.placements == (Partial(),)
    torch.testing.assert_close(both.full_tensor(), 2.0 * x.mT @ x)
    both.sum().backward()
    torch.testing.assert_close(
        rows.grad.full_tensor(), 2.0 * x.sum(1, keepdim=True).expand(2 * size, 4)
    )
    refused(ValueError, "argument 0 has placements (Shard(dim=0),)", product, rows, rows, 1.0)
    refused(AssertionError, "in_placements length 3", product, columns, rows)
    moved = local_map(
        lambda a: (a + 1, a.shape), ([Replicate()], None, None), [[Replicate()]],
        redistribute_inputs=True,
    )  # fmt: skip
    more, *shape = tree_leaves(moved(rows.detach()))
    assert torch.equal(more.full_tensor(), x + 1) and shape == [2 * size, 4]
    refused(RuntimeError, "mixed torch.Tensor and DTensor", lambda: rows + x)
    with implicit_replication():
        torch.testing.assert_close((rows + x).full_tensor(), 2 * x)


def own_parts():
    """Which part a process has, of one division and of two of the same dim."""
    from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset
    from rushlight.distributed.tensor.placement_types import _StridedShard
    from rushlight.distributed.utils import _sync_module_states

    whole = torch.arange(10.0 * size).view(5 * size // 2, 4)
    for placement in (Shard(0), Shard(-1), Replicate()):
        part = distribute_tensor(whole, mesh, [placement])
        lengths, first = compute_local_shape_and_global_offset(whole.shape, mesh, part.placements)
        assert part.to_local().shape == lengths
        here = tuple(slice(f, f + n) for f, n in zip(first, lengths))
        assert torch.equal(part.to_local(), whole[here])
    grid = init_device_mesh("cpu", (2, size // 2))
    twice = [_StridedShard(0, split_factor=size // 2), Shard(0)]
    lengths, first = compute_local_shape_and_global_offset((4 * size, 3), grid, twice)
    before, after = grid.get_coordinate()
    assert lengths == (4, 3) and first == (after * 8 + before * 4, 0)
    assert compute_local_shape_and_global_offset((8,), mesh, [Replicate()], True) == ((8,), ())
    refused(
        NotImplementedError, "parts in one piece", distribute_tensor, whole, mesh,
        [_StridedShard(0, split_factor=2)],
    )  # fmt: skip
    refused(
        NotImplementedError, "later placements divide dim 0", compute_local_shape_and_global_offset,
        (4 * size, 3), grid, [_StridedShard(0, split_factor=size), Shard(0)],
    )  # fmt: skip
    strided = twice[0]  # another placement than Shard, which divides all the same
    assert not isinstance(strided, Shard) and not strided.is_shard() and strided.dim == 0
    model = nn.BatchNorm1d(2)
    with torch.no_grad():
        model.weight.fill_(rank)
        model.bias.fill_(rank)
        model.running_mean.fill_(rank)
    _sync_module_states(model, dist.group.WORLD, 1 << 20, 1, {"bias"})
    assert [model.weight[0], model.bias[0], model.running_mean[0]] == [1, rank, 1]


def local_steps():
    """Gradients of all at first, then of a group, and means of parameters from then on."""
    from rushlight.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
    from rushlight.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import (
        PostLocalSGDState,
        post_localSGD_hook,
    )
    from rushlight.nn.parallel import DistributedDataParallel

    def gradients(hook, state, steps):
        model = DistributedDataParallel(nn.Linear(2, 1, bias=False))
        model.register_comm_hook(state, hook)
        found = []
        for _ in range(steps):
            model.zero_grad()
            model(torch.full((1, 2), float(rank + 1))).sum().backward()
            found.append(model.module.weight.grad[0, 0].item())
        return found

    mean = (size + 1) / 2
    assert gradients(noop_hook, None, 1) == [rank + 1]
    alone, _ = dist.new_subgroups(1)
    state = PostLocalSGDState(None, alone, start_localSGD_iter=2)
    assert gradients(post_localSGD_hook, state, 3) == [mean, mean, rank + 1] and state.iter == 3
    state = PostLocalSGDState(None, None, start_localSGD_iter=1)
    assert gradients(post_localSGD_hook, state, 2) == [mean, mean]
    state = PostLocalSGDState(None, None, 0, post_local_gradient_allreduce=False)
    assert gradients(post_localSGD_hook, state, 1) == [rank + 1]


def counted():
    """What processes send, by module, and parts of DTensors as text."""
    import contextlib
    import io

    from rushlight.distributed.tensor.debug import CommDebugMode, visualize_sharding
    from rushlight.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )
    from rushlight.distributed.tensor.parallel.input_reshard import input_reshard

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 2 * size), nn.ReLU(), nn.Linear(2 * size, 4))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallelize_module(model, mesh, plan)
    ops, x = torch.ops.c10d_functional, torch.randn(2 * size, 4, requires_grad=True)
    with CommDebugMode() as mode:
        output = model(x)
        assert dict(mode.get_comm_counts()) == {ops.all_reduce: 1}
        output.sum().backward()
    assert mode.get_total_counts() == 2, mode.get_comm_counts()
    assert mode.get_comm_counts()[ops.all_reduce] == 2, mode.get_comm_counts()
    sharding = mode.get_sharding_info()
    assert sharding["Sequential.0.weight"] == (Shard(0),)
    assert sharding["Sequential.2.weight"] == (Shard(1),)
    table = mode.generate_comm_debug_tracing_table(0)
    assert "Sequential.2\n      forward: all_reduce 1" in table, table
    with CommDebugMode() as mode:
        rows = distribute_tensor(torch.ones(size, 2), mesh, [Shard(0)], src_data_rank=None)
        rows.redistribute(placements=[Replicate()])
        rows.sum().full_tensor()
    assert dict(mode.get_comm_counts()) == {ops.all_gather_into_tensor: 1, ops.all_reduce: 1}
    found = torch.ops._c10d_functional.all_reduce(torch.ones(2), "sum", dist.group.WORLD.group_name)
    assert found.tolist() == [size] * 2
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        visualize_sharding(rows)
    lines = [f"Row {r}-{r}  Col 0-1  cpu:{r}\n" for r in range(size)]
    assert shown.getvalue() == ("".join(lines) if rank == 0 else "")

    alone = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    for p in alone.parameters():
        dist.broadcast(p.detach(), 0)
    x = torch.randn(2 * size, 4, generator=torch.Generator().manual_seed(1))
    alone(x).square().sum().backward()
    wanted = [p.grad.clone() for p in alone.parameters()]
    alone.zero_grad()
    input_reshard(alone, mesh, 0)
    output = alone(x)
    output.square().sum().backward()
    for p, grad in zip(alone.parameters(), wanted):
        torch.testing.assert_close(p.grad, grad)


def together():
    """Values of one process for all, means of parameters in groups, gradients as bytes."""
    from rushlight.distributed import collective_utils as utils
    from rushlight.distributed.algorithms.ddp_comm_hooks import (
        DDPCommHookType,
        register_ddp_comm_hook,
    )
    from rushlight.distributed.algorithms.model_averaging.hierarchical_model_averager import (
        HierarchicalModelAverager,
    )
    from rushlight.nn.parallel import DistributedDataParallel

    world = dist.group.WORLD
    assert utils.broadcast(lambda: rank + 5, rank=1, pg=world) == 6
    assert utils.all_gather(lambda: rank * 2, pg=world) == [2 * r for r in range(size)]

    def fails():
        raise ValueError("not here") if rank == 1 else None

    refused(RuntimeError, "Rank 1 failed: stage s: exception not here", utils.broadcast, fails,
            rank=1, pg=world, stage_name="s")  # fmt: skip
    refused(RuntimeError, "rank 1 failed with exception not here", utils.all_gather, fails,
            pg=world)  # fmt: skip
    refused(TypeError, "first object type is", utils.all_gather_object_enforce_type, world,
            [None] * size, 1 if rank else "1")  # fmt: skip

    averager = HierarchicalModelAverager({2: 1, 4: size}, warmup_steps=1)
    p = nn.Parameter(torch.zeros(2))
    for _ in range(5):
        p.data.fill_(rank)
        p.grad = torch.zeros(2)
        averager.average_parameters([p])  # steps 0 to 4: the last is a multiple of 4
    assert p.tolist() == [(size - 1) / 2] * 2
    refused(ValueError, "must be equal to the size", HierarchicalModelAverager, {2: size + 1})

    for kind, near in (
        (DDPCommHookType.QUANTIZE_PER_TENSOR, 0.05),
        (DDPCommHookType.QUANTIZE_PER_CHANNEL, 0.05),
        (DDPCommHookType.BF16_COMPRESS, 0.02),
        (DDPCommHookType.ALLREDUCE, 1e-6),
    ):
        torch.manual_seed(0)
        model = DistributedDataParallel(nn.Linear(30, 20))
        register_ddp_comm_hook(kind, model)
        x = torch.randn(8, 30, generator=torch.Generator().manual_seed(rank))
        model(x).sum().backward()
        mine = x.sum(0)
        dist.all_reduce(mine, dist.ReduceOp.AVG)
        difference = (model.module.weight.grad - mine).abs().max()
        assert difference < near * mine.abs().max(), (kind, difference)


def broadcast_file():
    """A file that one process reads becomes parts in all."""
    import os
    import tempfile

    import rushlight.distributed.checkpoint as dcp
    from rushlight.distributed.checkpoint.format_utils import (
        BroadcastingTorchSaveReader,
        DynamicMetaLoadPlanner,
    )
    from rushlight.distributed.checkpoint.staging import DefaultStager, StagingOptions

    whole = {"a": torch.arange(3.0 * (size + 1)).view(-1, 3), "b": torch.ones(2)}
    path = os.path.join(tempfile.gettempdir(), f"file-{os.environ['MASTER_PORT']}.pt")
    if rank == 0:
        torch.save({"model": whole}, path)
    places = {"model": {
        "a": distribute_tensor(torch.zeros_like(whole["a"]), mesh, [Shard(0)]),
        "b": torch.zeros(2),
    }}  # fmt: skip
    dcp.load(places, storage_reader=BroadcastingTorchSaveReader(path),
             planner=DynamicMetaLoadPlanner())  # fmt: skip
    dist.barrier()
    if rank == 0:
        os.remove(path)
    assert torch.equal(places["model"]["a"].full_tensor(), whole["a"])
    assert torch.equal(places["model"]["b"], whole["b"])
    stager = DefaultStager(StagingOptions(False, True, True, False))
    copy = stager.stage(places).result()["model"]
    places["model"]["b"].zero_()
    assert copy["b"].tolist() == [1.0, 1.0] and copy["b"].is_shared()
    stager.close()
    refused(AssertionError, "needs a GPU", DefaultStager)


for section in sys.argv[1:]:
    globals()[section]()
dist.barrier()
dist.destroy_process_group()
print("done")
