"""Pipelines of every schedule, against the same model in one process."""

import copy
import sys

from refusal import refused

import rushlight as torch
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.pipelining import (
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
        assert torch.equal(pipe(x, 0.5, mask), net(x, 0.5, mask))
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


for section in sys.argv[1:]:
    globals()[section]()
dist.barrier()
dist.destroy_process_group()
print("done")
