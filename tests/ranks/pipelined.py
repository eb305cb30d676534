"""Pipelines of every schedule, against the same model in one process."""

import copy
import sys

from refusal import refused

import rushlight as torch
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.pipelining import (
    Pipe,
    PipelineStage,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    SplitPoint,
    build_stage,
    pipe_split,
    pipeline,
    schedules as kinds,
)
from rushlight.distributed.pipelining.microbatch import TensorChunkSpec

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()


class Layer(nn.Module):
    """Two tensors in and out, of which one is of integers; one layer has a frozen weight."""

    def __init__(self, number):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.linear.bias.requires_grad_(number % 2 == 0)

    def forward(self, x, ids):
        return torch.tanh(self.linear(x)) + ids.unsqueeze(1) * 0.1, ids


class Last(Layer):
    def forward(self, x, ids):
        return super().forward(x, ids)[0].sum(1)


def layers(count):
    torch.manual_seed(0)
    return [(Last if i == count - 1 else Layer)(i) for i in range(count)]


def loss(output, target, power=2):
    return (output - target).abs().pow(power).mean()


def check(kind, local, count, style="loop"):
    stages = size * local
    alone = layers(stages)
    mine = {i: copy.deepcopy(layer) for i, layer in enumerate(alone)}
    numbers = [rank + i * size for i in range(local)]
    if style == "v":
        numbers = [rank, stages - 1 - rank]
    parts = [PipelineStage(mine[i], i, stages, "cpu") for i in numbers]
    schedule = kind(parts if local > 1 or style == "v" else parts[0], count, loss)
    for step in range(2):
        x = torch.randn(2 * count, 4, generator=torch.Generator().manual_seed(step))
        ids, target = torch.arange(2 * count), torch.ones(2 * count)
        out = (x, ids)
        for layer in alone:
            out = layer(*out)
        wanted = loss(out, target, 3)
        for layer in (*alone, *mine.values()):
            layer.zero_grad()
        wanted.backward()
        losses = []
        given = (x, ids) if 0 in numbers else ()
        last = {"target": target, "losses": losses} if stages - 1 in numbers else {}
        found = schedule.step(*given, **last, loss_kwargs={"power": 3})
        if stages - 1 in numbers:
            torch.testing.assert_close(found, out)
            assert len(losses) == count
            torch.testing.assert_close(torch.stack(losses).mean(), wanted)
        else:
            assert found is None
        for i in numbers:
            for p, q in zip(mine[i].parameters(), alone[i].parameters()):
                assert (p.grad is None) == (q.grad is None), (kind, i)
                if q.grad is not None:
                    torch.testing.assert_close(p.grad, q.grad, msg=f"{kind} {i}")
        seen = schedule.eval(*given, **last)
        assert (seen is None) == (stages - 1 not in numbers)
    return schedule


def schedules():
    check(ScheduleGPipe, 1, 3)
    check(Schedule1F1B, 1, 4)
    for local in (1, 2, 3):
        check(ScheduleLoopedBFS, local, 2) if local > 1 else None
    check(ScheduleInterleaved1F1B, 2, 2 * size)
    check(ScheduleInterleaved1F1B, 3, size)
    check(ScheduleInterleavedZeroBubble, 2, 2 * size)
    check(ScheduleZBVZeroBubble, 2, 2 * size + 1, "v")
    check(ScheduleZBVZeroBubble, 2, 2, "v")
    dual = check(ScheduleDualPipeV, 2, 2 * size + 2, "v")
    assert any(action.sub_actions for action in dual.pipeline_order[rank])


def errors():
    stage = PipelineStage(Layer(0), rank, size, "cpu")
    refused(ValueError, "must be greater than or equal", Schedule1F1B, stage, size - 1)
    refused(ValueError, "cannot divide", PipelineStage, Layer(0), 0, size + 1, "cpu")
    two = [PipelineStage(Layer(i), rank + i * size, 2 * size, "cpu") for i in range(2)]
    refused(ValueError, "number of rounds", ScheduleInterleaved1F1B, two, 2 * size + 1)
    refused(ValueError, "belongs to member", ScheduleZBVZeroBubble, two, 4)
    refused(ValueError, "and 1 in this one", ScheduleLoopedBFS, two[:1], 4)
    schedule = ScheduleGPipe(stage, 2, loss)
    with torch.no_grad():
        refused(RuntimeError, "call eval()", schedule.step)


def put_off():
    """A stage that computes gradients by weights itself."""
    seen = []

    def builder():
        return lambda: seen.append("weights")

    stages = [
        PipelineStage(nn.Linear(3, 3), i, 2 * size, "cpu", dw_builder=builder)
        for i in (rank, 2 * size - 1 - rank)
    ]
    schedule = ScheduleZBVZeroBubble(stages, 2, loss)
    target = {"target": torch.ones(4, 3)} if rank == 0 else {}
    schedule.step(*([torch.ones(4, 3)] if rank == 0 else []), **target)
    assert seen == ["weights"] * 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return x + torch.relu(self.inner(x))


class Net(nn.Module):
    """What one layer gives is used by the last one too, and so is a size of the input."""

    def __init__(self, splits):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.blocks = nn.ModuleList([Block() for _ in range(2)])
        self.scale, self.splits = nn.Parameter(torch.ones(4)), splits

    def forward(self, x, factor=2.0, mask=None):
        rows = x.shape[0]
        kept = y = self.first(x)
        if mask is not None:
            y = y * mask
        for i, block in enumerate(self.blocks):
            if self.splits and i == 1:
                pipe_split()
            y = block(y)
        return (y * self.scale * factor + kept).view(rows, -1)


def tracing():
    torch.manual_seed(0)
    for spec in (None, {"blocks.1": SplitPoint.BEGINNING}, {"blocks.0": SplitPoint.END},
                 {"blocks.1.inner": SplitPoint.BEGINNING}):  # fmt: skip
        net = Net(spec is None)
        x, mask = torch.randn(4, 3, generator=torch.Generator().manual_seed(3)), torch.rand(4, 4)
        for p in (*net.parameters(), mask):
            dist.broadcast(p.detach(), 0)
        alone = copy.deepcopy(net)
        pipe = pipeline(net, (x[:2], 0.5), {"mask": mask[:2]}, split_spec=spec)
        assert pipe.num_stages == 2 == pipe.info().num_stages
        assert not pipe.info().has_loss_and_backward
        assert torch.equal(pipe(x, 0.5, mask)[0], net(x, 0.5, mask))
        stage = pipe.build_stage(rank, "cpu") if rank else build_stage(
            pipe.get_stage_module(0), 0, pipe.info(), "cpu"
        )  # fmt: skip
        schedule = ScheduleGPipe(stage, 2, loss, scale_grads=True)
        target = torch.ones(4, 4)
        if rank == 0:
            schedule.step(x, 0.5, mask=mask)
        else:
            found = schedule.step(target=target)
            torch.testing.assert_close(found, alone(x, 0.5, mask))
        loss(alone(x, 0.5, mask), target).backward()
        wanted = dict(alone.named_parameters())
        for name, p in stage.submod.named_parameters():
            torch.testing.assert_close(p.grad, wanted[name].grad, msg=name)
        mine = {name for name, _ in stage.submod.named_parameters()}
        assert 0 < len(mine) < len(wanted)
    shared = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    shared[2].weight = shared[0].weight
    x = torch.ones(2, 3)
    refused(NotImplementedError, "both use", pipeline, shared, (x,), split_spec={
        "1": SplitPoint.END})  # fmt: skip
    refused(AttributeError, "no module", pipeline, shared, (x,), split_spec={"9": SplitPoint.END})
    refused(ValueError, "not both", pipeline, shared, (x,), None, {}, lambda g: g)

    def policy(traced):
        (relu,) = [n for n in traced.graph.nodes if n.target == "1"]
        with traced.graph.inserting_after(relu):
            traced.graph.call_function(pipe_split)
        return traced

    plain = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    assert pipeline(plain, (x,), split_policy=policy).num_stages == 2
    pipe = Pipe.from_tracing(plain, (x,), split_policy=policy)
    assert pipe.num_stages == 2 and torch.equal(pipe(x)[0], plain(x))
    assert (pipe.has_loss_and_backward, pipe.loss_spec, pipe.replicated_params) == (False, None, [])


def chunks():
    """Micro-batches along another dim, and outputs merged along it."""

    class Pair(nn.Module):
        def forward(self, x, y=None):
            return {"a": x * 2} if rank else (x if y is None else x + y)

    stage = PipelineStage(Pair(), rank, 2, "cpu", input_args=torch.ones(3, 2))
    schedule = ScheduleGPipe(
        stage, 2, args_chunk_spec=TensorChunkSpec.from_tuple((1,)) if rank == 0 else None,
        kwargs_chunk_spec=TensorChunkSpec.from_dict({"y": 1}),
        output_merge_spec={"a": TensorChunkSpec(1)},
    )  # fmt: skip
    x = torch.arange(12.0).view(3, 4)
    found = schedule.step(*([x] if rank == 0 else []), **({"y": x} if rank == 0 else {}))
    assert rank == 0 or torch.equal(found["a"], x * 4)


def functions():
    """Steps of a schedule that functions of the program perform."""
    done = []

    def forward(action, context):
        stages = {stage.stage_index: stage for stage in context.schedule_ref._stages}
        stage, number = stages[action.stage_index], action.microbatch_index
        args = context.arg_mbs[number] if stage.is_first else ()
        output = stage.forward_one_chunk(number, args, context.kwarg_mbs[number])
        context.schedule_ref._maybe_compute_loss(stage, output, context.target_mbs, number)
        done.append(str(action))

    def backward(action, context):
        schedule, number = context.schedule_ref, action.microbatch_index
        (stage,) = [s for s in schedule._stages if s.stage_index == action.stage_index]
        schedule.backward_counter[stage.stage_index] += 1
        is_last = schedule.backward_counter[stage.stage_index] == schedule._n_microbatches
        stage.backward_one_chunk(number, schedule._maybe_get_loss(stage, number), True, is_last)
        done.append(str(action))

    class Own(ScheduleLoopedBFS):
        def __init__(self, *args):
            super().__init__(*args)
            self.register_custom_function(kinds.FORWARD, forward)
            self.register_custom_function(kinds.FULL_BACKWARD, backward)

    schedule = check(Own, 2, 3)
    order = list(map(str, schedule.pipeline_order[rank]))
    once = [step for step in order if "F" in step]
    assert done == (order + once) * 2, done
    refused(ValueError, "Invalid computation type F", schedule.register_custom_function, "F", None)
    whole = check(ScheduleInterleaved1F1B, 2, 2 * size)
    assert (whole.n_local_stages, whole.number_of_rounds) == (2, 2)
    assert whole.microbatches_per_round == size


def beside_data_parallelism():
    """Stages of which several processes have copies, or parts, that exchange gradients once."""
    grid = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("data", "stages"))
    stages, row = grid.size(1), grid.get_local_rank("data")
    number, count = grid.get_local_rank("stages"), 4
    # Without the rows' numbers, of which a gradient is None.
    alone = [nn.Linear(3, 3) for _ in range(stages)]
    for p in nn.ModuleList(alone).parameters():
        dist.broadcast(p.detach(), 0)
    data = grid.get_group("data")
    exchanged = []
    for kind in (Schedule1F1B, ScheduleGPipe):
        for way in ("copies", "parts"):
            layer = copy.deepcopy(alone[number])
            if way == "copies":
                module = nn.parallel.DistributedDataParallel(layer, process_group=data)
                reducer = module.reducer
                finish = reducer._finish
                reducer._finish = lambda finish=finish: (exchanged.append(1), finish())
            else:
                module = fully_shard(layer, mesh=grid["data"])
                reduce = layer._fsdp.reduce
                layer._fsdp.reduce = lambda *args, reduce=reduce: (
                    exchanged.append(1), reduce(*args),
                )[1]  # fmt: skip
            stage = PipelineStage(module, number, stages, "cpu", group=grid.get_group("stages"))
            schedule = kind(stage, count, loss)
            for step in range(2):
                g = torch.Generator().manual_seed(step)
                whole = torch.randn(2, 2 * count, 3, generator=g)
                found = whole
                nn.ModuleList(alone).zero_grad()
                for one in alone:
                    found = one(found)
                loss(found, torch.ones(2, 2 * count, 3)).backward()
                module.zero_grad()
                del exchanged[:]
                last = {"target": torch.ones(2 * count, 3)} if stage.is_last else {}
                schedule.step(*((whole[row],) if stage.is_first else ()), **last)
                assert exchanged == [1], (way, exchanged)
                for p, q in zip(module.parameters(), alone[number].parameters()):
                    grad = p.grad.full_tensor() if way == "parts" else p.grad
                    torch.testing.assert_close(grad, q.grad, msg=f"{kind} {way}")
    # Gradients that were kept are exchanged when the program says so.
    layer = fully_shard(copy.deepcopy(alone[number]), mesh=grid["data"])
    stage = PipelineStage(layer, number, stages, "cpu", group=grid.get_group("stages"))
    layer.set_requires_gradient_sync(False)
    for _ in range(2):
        layer(torch.full((1, 3), row + 1.0)).sum().backward()
        assert layer.weight.grad is None
    stage.perform_reduce_grad(2)
    assert torch.equal(layer.weight.grad.full_tensor(), torch.full((3, 3), 1.5))
    layer.set_requires_gradient_sync(False)
    layer(torch.full((1, 3), row + 1.0)).sum().backward()
    stage.perform_reduce_grad(1)
    assert torch.equal(layer.weight.grad.full_tensor(), torch.full((3, 3), 3.0))


def by_hand():
    """Stages of one process, with what one gives to the next in the program's hands."""
    group = dist.new_group([rank], use_local_synchronization=True)
    layer = nn.Linear(2, 2)
    stages = [PipelineStage(layer, i, 2, "cpu", group=group) for i in range(2)]
    schedule = ScheduleLoopedBFS(stages, 1, loss)
    output = layer(torch.ones(1, 2))
    stages[1].set_local_fwd_input(output, 0)
    assert stages[1]._arrived[0, 0][0].grad_fn is None
    stages[0].set_local_bwd_input((torch.ones(1, 2),), 0)
    assert len(stages[0]._arrived) == 1
    refused(AssertionError, "is last", stages[1].set_local_bwd_input, (torch.ones(1),), 0)
    refused(AssertionError, "Expected tuple", stages[0].set_local_bwd_input, torch.ones(1), 0)
    refused(AssertionError, "is first", stages[0].get_local_bwd_output, 0)
    assert torch.equal(stages[1].get_local_bwd_output(0)[0], torch.ones(1, 2))
    refused(KeyError, "no gradients of micro-batch 1", stages[1].get_local_bwd_output, 1)
    for name in ("get_fwd_recv_ops", "get_fwd_send_ops", "get_bwd_recv_ops", "get_bwd_send_ops"):
        refused(NotImplementedError, f"{name}(0)", getattr(stages[0], name), 0)
    first = stages[0].forward_one_chunk(0, (torch.ones(1, 2),))
    second = stages[1].forward_one_chunk(0, ())
    assert stages[1].output_chunks == [second]
    stages[1].backward_one_chunk(0, second.sum())
    (given,) = stages[1].get_local_bwd_output(0)
    assert torch.equal(given, layer.weight.detach().sum(0, keepdim=True))
    refused(RuntimeError, "Unknown backward type", stages[0].backward_maybe_with_nosync, "x", {})
    x = torch.ones(1, 2, requires_grad=True)
    about = {
        "stage_output": (layer(x),), "output_grads": (torch.ones(1, 2),), "input_values": [x],
    }  # fmt: skip
    layer.zero_grad()
    (found,), kept = stages[0].backward_maybe_with_nosync("input", about)
    assert torch.equal(found, given) and layer.weight.grad is None
    stages[0].backward_maybe_with_nosync("weight", {"param_groups": kept})
    assert torch.equal(layer.weight.grad, torch.ones(2, 2)) and first.shape == (1, 2)
    assert schedule._stages == stages


for section in sys.argv[1:]:
    globals()[section]()
dist.barrier()
dist.destroy_process_group()
print("done")
