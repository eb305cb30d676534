"""Programs of the shapes in which data parallelism, sharding and tensor parallelism are taught.

Written for torch; `python -m rushlight` runs it too, and prints the same losses.
"""

import copy
import functools
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel as DDP


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1, self.relu, self.net2 = nn.Linear(10, 12), nn.ReLU(), nn.Linear(12, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
        self.fc1, self.fc2 = nn.Linear(8 * 4 * 4, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = nn.functional.relu(self.conv2(nn.functional.relu(self.conv1(x))))
        x = torch.flatten(nn.functional.max_pool2d(x, 2), 1)
        return nn.functional.log_softmax(self.fc2(nn.functional.relu(self.fc1(x))), dim=1)


def show(name, losses):
    if dist.get_rank() == 0:
        print(name, *(f"{loss:.5f}" for loss in losses), flush=True)


def data_parallel():
    torch.manual_seed(0)
    model = DDP(Toy())
    optimizer, losses = optim.SGD(model.parameters(), lr=0.1), []
    for step in range(4):
        torch.manual_seed(10 * step + dist.get_rank())
        inputs, labels = torch.randn(20, 10), torch.randn(20, 5)
        optimizer.zero_grad()
        loss = nn.MSELoss()(model(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    path = os.path.join(tempfile.gettempdir(), f"toy-{os.environ['MASTER_PORT']}.pt")
    if dist.get_rank() == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    again = DDP(Toy())
    again.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    dist.barrier()
    if dist.get_rank() == 0:
        os.remove(path)
    losses.append(again(torch.ones(1, 10)).sum().item())
    show("data_parallel", losses)


def sharded():
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy

    torch.manual_seed(0)
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=200)
    model = FSDP(Digits(), auto_wrap_policy=policy, device_id=torch.device("cpu"))
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler, losses = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7), []
    for epoch in range(3):
        totals = torch.zeros(2)
        for batch in range(2):
            torch.manual_seed(100 * epoch + 10 * batch + dist.get_rank())
            data, target = torch.randn(8, 1, 12, 12), torch.randint(0, 10, (8,))
            optimizer.zero_grad()
            loss = nn.functional.nll_loss(model(data), target, reduction="sum")
            loss.backward()
            optimizer.step()
            totals[0] += loss.item()
            totals[1] += len(data)
        dist.all_reduce(totals, op=dist.ReduceOp.SUM)
        scheduler.step()
        losses.append((totals[0] / totals[1]).item())
    states = model.state_dict()
    losses.append(sum(float(value.double().sum()) for value in states.values()))
    show("sharded", losses)


def tensor_parallel():
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    plan = {"net1": ColwiseParallel(), "net2": RowwiseParallel()}
    model = parallelize_module(Toy(), mesh, plan)
    optimizer, losses = optim.AdamW(model.parameters(), lr=0.05), []
    for step in range(4):
        torch.manual_seed(step)  # all ranks have the same inputs
        optimizer.zero_grad()
        loss = model(torch.rand(20, 10)).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    show("tensor_parallel", losses)


class Attention(nn.Module):
    """Heads that are counted from what came: a process may have some of them."""

    def __init__(self, width, heads):
        super().__init__()
        self.size = width // heads
        self.wq, self.wk = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.wv, self.wo = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)

    def forward(self, x):
        rows, length = x.size(0), x.size(1)
        q, k, v = (
            layer(x).view(rows, length, -1, self.size).transpose(1, 2)
            for layer in (self.wq, self.wk, self.wv)
        )
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(rows, length, -1))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.w1, self.w3 = (
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(width, 2 * width, bias=False),
        )
        self.w2 = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class RootMeanSquare(nn.Module):
    """A norm written out, as models of the Llama kind have it."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return scaled.type_as(x) * self.weight


class Block(nn.Module):
    def __init__(self, width, heads, norm):
        super().__init__()
        self.attention_norm, self.ffn_norm = norm(width), norm(width)
        self.attention, self.feed_forward = Attention(width, heads), FeedForward(width)

    def forward(self, x):
        h = x + self.attention(self.attention_norm(x))
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, words=16, width=8, heads=2, depth=2, norm=nn.LayerNorm):
        super().__init__()
        self.tok_embeddings = nn.Embedding(words, width)
        self.layers = nn.ModuleList([Block(width, heads, norm) for _ in range(depth)])
        self.norm, self.output = norm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers:
            h = layer(h)
        return self.output(self.norm(h))

    def reset_parameters(self):
        """The same numbers for all libraries, and however they are divided."""
        for number, p in enumerate(self.parameters()):
            with torch.no_grad():
                p.fill_(0.1 + 0.05 * number)


def words_of(step, rank=0):
    torch.manual_seed(100 * rank + step)
    tokens = torch.randint(0, 16, (4, 7))
    return tokens[:, :-1], tokens[:, 1:]


def fully_sharded():
    """fully_shard on each layer, mixed precision, prefetching, states by name and whole."""
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_model_state_dict,
        get_optimizer_state_dict,
        set_model_state_dict,
        set_optimizer_state_dict,
    )
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
    from torch.distributed.tensor import DTensor, Shard

    def made(seed, policy=None):
        torch.manual_seed(seed)
        model = Transformer()
        options = {} if policy is None else {"mp_policy": policy}
        for layer in model.layers:
            fully_shard(layer, **options)
        fully_shard(model, **options)
        model.layers[0].set_modules_to_forward_prefetch([model.layers[1]])
        model.layers[1].set_modules_to_backward_prefetch([model.layers[0]])
        return model

    losses = []
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for policy in (None, half):
        model = made(0, policy)
        assert isinstance(model, FSDPModule) and isinstance(model, Transformer)
        for p in model.parameters():
            assert isinstance(p, DTensor) and p.placements == (Shard(0),)
            assert p.dtype == torch.float32
        optimizer = optim.Adam(model.parameters(), lr=1e-2)
        for step in range(3):
            model.unshard()
            x, y = words_of(step, dist.get_rank())
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1).float(), y.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(round(loss.item(), 2 if policy else 5))
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    states = get_model_state_dict(model, options=whole)
    kept = get_optimizer_state_dict(model, optimizer, options=whole)
    assert bool(states) is (dist.get_rank() == 0) is bool(kept)
    again = made(1)
    set_model_state_dict(
        again, states, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    )
    adam = optim.Adam(again.parameters(), lr=1e-2)
    whole = StateDictOptions(full_state_dict=True)
    kept = get_optimizer_state_dict(model, optimizer, options=whole)
    set_optimizer_state_dict(again, adam, kept, options=whole)
    for p, q in zip(model.parameters(), again.parameters()):
        assert torch.equal(p.full_tensor(), q.full_tensor())
        one, two = optimizer.state[p]["exp_avg"], adam.state[q]["exp_avg"]
        assert torch.equal(one.full_tensor(), two.full_tensor())
    with torch.device("meta"):
        empty = Transformer()
    for layer in empty.layers:
        fully_shard(layer)
    fully_shard(empty)
    assert all(p.device == torch.device("meta") for p in empty.parameters())
    empty.to_empty(device="cpu")
    empty.reset_parameters()
    losses.append(float(sum(p.full_tensor().sum() for p in empty.parameters())))
    assert empty(words_of(0)[0]).shape == (4, 6, 16)
    show("fully_sharded", losses)


class Branches(nn.Module):
    """Two layers, of which a call uses one."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(6, 6), nn.Linear(6, 6)
        self.out = nn.Linear(6, 2)

    def forward(self, x, goes_left=True):
        return self.out(torch.relu(self.left(x) if goes_left else self.right(x)))


def numbers_of(model):
    """A few sums of gradients; a parameter without one counts as -1."""
    grads = [p.grad for p in model.parameters()]
    return [-1.0 if g is None else float((g.full_tensor() ** 2).sum()) for g in grads]


def set_on_modules():
    """What methods of FSDPModule set: which gradients come out, and what is exchanged."""
    from torch.distributed.fsdp import fully_shard

    rank, size, losses, calls = dist.get_rank(), dist.get_world_size(), [], []

    class Gather:
        def allocate(self, size, *, dtype, device):
            return torch.empty(*size, dtype=dtype, device=device)

        def __call__(self, output_tensor, input_tensor, group, async_op=False):
            calls.append("gather")
            return dist.all_gather_into_tensor(output_tensor, input_tensor, group, async_op)

    class Reduce(Gather):
        def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
            calls.append("reduce")
            return dist.reduce_scatter_tensor(output_tensor, input_tensor, op, group, async_op)

    def made(mesh=None):
        torch.manual_seed(0)
        return fully_shard(Branches(), mesh=mesh)

    def passed(model, *goes_left, seed=0):
        torch.manual_seed(seed + rank)
        model(torch.randn(3, 6), *goes_left).square().sum().backward()

    model = made()
    passed(model)
    losses += numbers_of(model)  # the other branch has no gradient
    model = made()
    model.set_reduce_scatter_unused_params(True)
    passed(model, rank == 0)
    losses += numbers_of(model)
    model = made()
    model.set_custom_all_gather(Gather())
    model.set_custom_reduce_scatter(Reduce())
    model.set_force_sum_reduction_for_comms(True)
    passed(model)
    assert set(calls) == {"gather", "reduce"}, calls
    losses += numbers_of(model)
    model = made()
    model.set_all_reduce_hook(lambda reduced: reduced.mul_(3))
    model.set_separate_reduce_scatter_group()
    passed(model)
    losses += numbers_of(model)
    grid = init_device_mesh("cpu", (size, 1), mesh_dim_names=("copies", "parts"))
    model = made(grid)
    for step in range(2):
        model.set_requires_all_reduce(step == 1)
        passed(model, seed=10 * step)
        assert (model.out.weight.grad is None) is (step == 0)
    losses += numbers_of(model)
    model = made()
    model.set_custom_all_gather(Gather())
    model.set_reshard_after_backward(False)
    counts = []
    for step in range(4):
        del calls[:]
        model.set_reshard_after_backward(step % 2 == 1)
        passed(model)
        counts.append(len(calls))
    assert counts == [1, 0, 1, 0], counts
    losses += numbers_of(model)
    for wrong, error in ((1, ValueError), (None, ValueError)):
        try:
            model.set_reshard_after_forward(wrong)
        except error:
            continue
        raise AssertionError(wrong)

    class Failing(nn.Module):
        def forward(self, x):
            if self.fails:
                raise KeyError("on purpose")
            return x * 2

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), Failing(), nn.Linear(6, 2))
    fully_shard(model[0])
    fully_shard(model)
    for fails in (True, False):
        model[1].fails = fails
        try:
            passed(model)
            assert not fails
        except KeyError:
            model.reset_iter_state()
    losses += numbers_of(model)
    try:
        model[0].reset_iter_state()
    except RuntimeError as error:
        assert "root" in str(error)
    else:
        raise AssertionError("reset_iter_state of an inner module")
    show("set_on_modules", losses)


def hooked():
    """Hooks that reduce the gradients of FullyShardedDataParallel."""
    from torch.distributed.algorithms._comm_hooks import default_hooks
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy

    losses = []
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.NO_SHARD):
        is_whole = strategy is ShardingStrategy.NO_SHARD
        plain = default_hooks.allreduce_hook if is_whole else default_hooks.reduce_scatter_hook
        # torch's hooks of fewer bytes want a GPU.
        for hook in (plain, functools.partial(plain)):
            torch.manual_seed(0)
            model = FSDP(Toy(), sharding_strategy=strategy, device_id=torch.device("cpu"))
            model.register_comm_hook(default_hooks.DefaultState(dist.group.WORLD), hook)
            try:
                model.register_comm_hook(None, hook)
            except AssertionError as error:
                assert "already registered" in str(error)
            optimizer = optim.SGD(model.parameters(), lr=0.1)
            for step in range(3):
                torch.manual_seed(10 * step + dist.get_rank())
                optimizer.zero_grad()
                loss = nn.MSELoss()(model(torch.randn(20, 10)), torch.randn(20, 5))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
    show("hooked", losses)


def old_states():
    """The older functions of FullyShardedDataParallel for states of optimizers."""
    import warnings

    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

    warnings.simplefilter("ignore")

    def made(seed, steps):
        torch.manual_seed(seed)
        model = FSDP(Toy(), device_id=torch.device("cpu"))
        optimizer, losses = optim.Adam(model.parameters(), lr=0.1), []
        for step in range(steps):
            train(model, optimizer, step, losses)
        return model, optimizer, losses

    def train(model, optimizer, step, losses):
        torch.manual_seed(10 * step + dist.get_rank())
        optimizer.zero_grad()
        loss = nn.MSELoss()(model(torch.randn(20, 10)), torch.randn(20, 5))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    model, optimizer, losses = made(0, 2)
    whole = FSDP.full_optim_state_dict(model, optimizer, rank0_only=False)
    at_0 = FSDP.full_optim_state_dict(model, optimizer)
    parts = FSDP.sharded_optim_state_dict(model, optimizer)
    state = copy.deepcopy(model.state_dict())
    assert set(parts["state"]) == set(whole["state"])
    for loaded in range(3):
        again, adam, _ = made(1, 1)
        again.load_state_dict(copy.deepcopy(state))
        # What they give and take may share memory with the optimizer, whose step changes it.
        whole, at_0 = copy.deepcopy(whole), copy.deepcopy(at_0)
        if loaded == 0:
            kept = FSDP.shard_full_optim_state_dict(whole, again, optim=adam)
        elif loaded == 1:
            kept = FSDP.scatter_full_optim_state_dict(
                at_0 if dist.get_rank() == 0 else None, again, optim=adam
            )
        else:
            kept = FSDP.flatten_sharded_optim_state_dict(parts, again, adam)
        adam.load_state_dict(copy.deepcopy(kept))
        train(again, adam, 2, losses)
        train(again, adam, 3, losses)
    train(model, optimizer, 2, losses)
    train(model, optimizer, 3, losses)
    show("old_states", losses)


def sequence_parallel(norm=nn.LayerNorm, name="sequence_parallel"):
    """A transformer in parts, with the sequence in parts between layers, and the loss too."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleInput,
        RowwiseParallel,
        SequenceParallel,
        loss_parallel,
        parallelize_module,
    )

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = parallelize_module(
        Transformer(norm=norm),
        mesh,
        {
            "tok_embeddings": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "output": ColwiseParallel(
                input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False
            ),
        },
    )
    for block in model.layers:
        parallelize_module(
            block,
            mesh,
            {
                "attention_norm": SequenceParallel(),
                "attention": PrepareModuleInput(
                    input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
                ),
                "attention.wq": ColwiseParallel(),
                "attention.wk": ColwiseParallel(),
                "attention.wv": ColwiseParallel(),
                "attention.wo": RowwiseParallel(output_layouts=Shard(1)),
                "ffn_norm": SequenceParallel(),
                "feed_forward": PrepareModuleInput(
                    input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)
                ),
                "feed_forward.w1": ColwiseParallel(),
                "feed_forward.w2": RowwiseParallel(output_layouts=Shard(1)),
                "feed_forward.w3": ColwiseParallel(),
            },
        )
    optimizer, losses = optim.AdamW(model.parameters(), lr=1e-2), []
    for step in range(4):
        x, y = words_of(step)  # all ranks have the same inputs
        optimizer.zero_grad()
        with loss_parallel():
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
        optimizer.step()
        losses.append(loss.full_tensor().item())
    show(name, losses)


def root_mean_square():
    """The same, with a norm that is no operation: DTensors pass through its parts."""
    sequence_parallel(RootMeanSquare, "root_mean_square")


def pipelined():
    """A model cut by hand in two, and trained by micro-batches."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    losses, rank = [], dist.get_rank()
    for kind in (ScheduleGPipe, Schedule1F1B):
        torch.manual_seed(0)
        model = Transformer()
        if rank == 0:
            del model.layers[1]
            model.norm = model.output = nn.Identity()
        else:
            del model.layers[0]
            model.tok_embeddings = nn.Identity()

        def loss_fn(output, target):
            return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())

        stage = PipelineStage(model, rank, 2, torch.device("cpu"))
        schedule = kind(stage, n_microbatches=2, loss_fn=loss_fn)
        optimizer = optim.SGD(model.parameters(), lr=0.5)
        for step in range(3):
            x, y = words_of(step)
            optimizer.zero_grad()
            if rank == 0:
                schedule.step(x)
            else:
                found = []
                schedule.step(target=y, losses=found)
                losses += [loss.item() for loss in found]
            optimizer.step()
    numbers = torch.tensor(losses or [0.0] * 12)
    dist.broadcast(numbers, 1)
    show("pipelined", numbers.tolist())


def checkpointed():
    """An application whose state is saved by parts and loaded into another one, also later."""
    import shutil
    import warnings

    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.checkpoint.stateful import Stateful
    from torch.distributed.fsdp import fully_shard

    class Application(Stateful):
        def __init__(self, model, optimizer):
            self.model, self.optimizer = model, optimizer

        def state_dict(self):
            model, kept = get_state_dict(self.model, self.optimizer)
            return {"model": model, "optim": kept}

        def load_state_dict(self, state_dict):
            set_state_dict(
                self.model,
                self.optimizer,
                model_state_dict=state_dict["model"],
                optim_state_dict=state_dict["optim"],
            )

    def made(seed):
        torch.manual_seed(seed)
        model = fully_shard(Toy())
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        step(model, optimizer)
        return model, optimizer

    def step(model, optimizer):
        optimizer.zero_grad()
        loss = model(torch.ones(8, 10)).square().sum()
        loss.backward()
        optimizer.step()
        return loss.item()

    folder = os.path.join(tempfile.gettempdir(), f"dcp-{os.environ['MASTER_PORT']}")
    losses = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, optimizer = made(0)
        dcp.save({"app": Application(model, optimizer)}, checkpoint_id=folder)
        expected = step(model, optimizer)
        group = dist.new_group(backend="gloo")  # what nothing else uses
        future = dcp.async_save(
            {"app": Application(model, optimizer)}, checkpoint_id=folder + "b", process_group=group
        )
        after = step(model, optimizer)
        future.result()
        for path, wanted in ((folder, expected), (folder + "b", after)):
            model, optimizer = made(1)
            dcp.load({"app": Application(model, optimizer)}, checkpoint_id=path)
            losses.append(step(model, optimizer))
            assert abs(losses[-1] - wanted) < 1e-4 * abs(wanted), (losses, wanted)
        reader = dcp.FileSystemReader(folder)
        sizes = reader.read_metadata().state_dict_metadata["app.model.net1.weight"].chunks
        losses += [float(chunk.sizes[0]) for chunk in sizes]
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(folder), shutil.rmtree(folder + "b")
    show("checkpointed", losses)


def counted():
    """How many collectives tensor parallelism needs."""
    from torch.distributed.tensor.debug import CommDebugMode
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    mesh, counts = init_device_mesh("cpu", (dist.get_world_size(),)), []
    ops = torch.ops.c10d_functional
    both = {"net1": ColwiseParallel(), "net2": RowwiseParallel()}
    cases = (Toy(), both, (20, 10)), (nn.LayerNorm(8), SequenceParallel(), (2, 4, 8))
    for model, plan, shape in cases:
        model = parallelize_module(model, mesh, plan)
        x = torch.ones(shape, requires_grad=True)
        with CommDebugMode() as mode:
            output = model(x)
            counts.append(mode.get_total_counts())
            # The norm's gradients are added up among the ranks here, and in torch when they are
            # needed.
            if model is not cases[1][0]:
                output.sum().backward()
        counts += [
            mode.get_total_counts(), mode.get_comm_counts()[ops.all_reduce],
            mode.get_comm_counts()[ops.all_gather_into_tensor],
        ]  # fmt: skip
    show("counted", counts)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for section in sys.argv[1:]:
        globals()[section]()
    dist.barrier()
    dist.destroy_process_group()
