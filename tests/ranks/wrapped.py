"""FullyShardedDataParallel beside DistributedDataParallel: the same losses, states, gradients."""

import copy
import functools
import sys
import warnings

from refusal import refused

import rushlight as torch
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.algorithms._comm_hooks import default_hooks
from rushlight.distributed.fsdp import (
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel as FSDP,
    MixedPrecision,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictType,
)
from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from rushlight.distributed.fsdp.wrap import (
    CustomPolicy,
    ModuleWrapPolicy,
    enable_wrap,
    size_based_auto_wrap_policy,
    transformer_auto_wrap_policy,
    wrap,
)
from rushlight.distributed.tensor import DTensor
from rushlight.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
close = torch.testing.assert_close


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(6), nn.Linear(6, 11), nn.Linear(11, 6)

    def forward(self, x):
        return x + self.outer(torch.relu(self.inner(self.norm(x))))


class Net(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.ModuleList([Layer(), Layer()])
        self.out = nn.Linear(6, 3)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.out(x) * self.scale


by_layer = ModuleWrapPolicy({Layer})


def losses(model, steps=5, clip=None, precision=None):
    """The mean loss of all processes in each step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    found = []
    for step in range(steps):
        g = torch.Generator().manual_seed(step)
        x, y = torch.randn(4 * size, 6, generator=g), torch.randint(0, 3, (4 * size,), generator=g)
        x, y = x.chunk(size)[rank], y.chunk(size)[rank]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x).float(), y)
        loss.backward()
        if clip is not None:
            norm = (
                model.clip_grad_norm_(clip)
                if isinstance(model, FSDP)
                else nn.utils.clip_grad_norm_(model.parameters(), clip)
            )
            found.append(norm.detach().clone())
        optimizer.step()
        loss = loss.detach().clone()
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        found.append(loss)
    return torch.stack(found), optimizer


def curves():
    wanted, _ = losses(DistributedDataParallel(Net()), clip=0.4)
    policies = {
        "none": None,
        "classes": by_layer,
        "transformer": functools.partial(
            transformer_auto_wrap_policy, transformer_layer_cls={Layer}
        ),
        "size": functools.partial(size_based_auto_wrap_policy, min_num_params=60),
        "custom": CustomPolicy(lambda module: isinstance(module, nn.Linear)),
    }
    counts = {"none": 1, "classes": 3, "transformer": 3, "size": 5, "custom": 6}
    for name, policy in policies.items():
        model = FSDP(Net(), auto_wrap_policy=policy)
        assert len(FSDP.fsdp_modules(model)) == counts[name], name
        assert FSDP.fsdp_modules(model, root_only=True) == [model]
        close(losses(model, clip=0.4)[0], wanted, msg=lambda text: f"{name}: {text}")  # noqa: B023
    for strategy in ShardingStrategy:
        model = FSDP(Net(), sharding_strategy=strategy, auto_wrap_policy=by_layer)
        close(losses(model, clip=0.4)[0], wanted)
        shares = sum(p.to_local().numel() for p in model.parameters())
        whole = sum(p.numel() for p in Net().parameters())
        assert shares == whole if strategy is ShardingStrategy.NO_SHARD else shares < 0.8 * whole
    other = FSDP(
        Net(rank), sync_module_states=True, use_orig_params=True, auto_wrap_policy=by_layer,
        cpu_offload=CPUOffload(offload_params=True), device_id=torch.device("cpu"),
    )  # fmt: skip
    close(losses(other, clip=0.4)[0], wanted)
    with enable_wrap(wrapper_cls=FSDP, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP):
        net = Net()
        net.layers[0] = wrap(net.layers[0])
        net = wrap(net)
    assert net.layers[0].sharding_strategy is ShardingStrategy.SHARD_GRAD_OP
    close(losses(net, clip=0.4)[0], wanted)
    empty = Net()
    with torch.device("meta"):
        empty = Net()
    model = FSDP(empty, param_init_fn=fill)
    model.load_state_dict(Net().state_dict())
    close(losses(model, clip=0.4)[0], wanted)


def fill(module):
    module.to_empty(device="cpu", recurse=False)


def states():
    model = FSDP(Net(), auto_wrap_policy=by_layer)
    _, optimizer = losses(model)
    names = list(Net().state_dict())
    whole = model.state_dict()
    assert sorted(whole) == sorted(names)
    alone = Net(1)
    alone.load_state_dict(whole)
    x = torch.randn(3, 6)
    close(model(x), alone(x))
    kinds = {StateDictType.FULL_STATE_DICT: torch.Tensor,
             StateDictType.SHARDED_STATE_DICT: DTensor,
             StateDictType.LOCAL_STATE_DICT: torch.Tensor}  # fmt: skip
    for kind, cls in kinds.items():
        other = FSDP(Net(2), auto_wrap_policy=by_layer)
        with FSDP.state_dict_type(model, kind), FSDP.state_dict_type(other, kind):
            saved = model.state_dict()
            assert sorted(saved) == sorted(names)
            assert type(saved["layers.0.inner.weight"]) is cls
            assert other.load_state_dict(saved).missing_keys == []
        assert FSDP.get_state_dict_type(model).state_dict_type is StateDictType.FULL_STATE_DICT
        close(other(x), model(x))
    with FSDP.state_dict_type(
        model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(rank0_only=True),
        FullOptimStateDictConfig(rank0_only=True),
    ):  # fmt: skip
        assert bool(model.state_dict()) is (rank == 0)
        assert bool(FSDP.optim_state_dict(model, optimizer)) is (rank == 0)
    for kind in (StateDictType.FULL_STATE_DICT, StateDictType.SHARDED_STATE_DICT):
        with FSDP.state_dict_type(model, kind):
            kept = FSDP.optim_state_dict(model, optimizer)
        assert set(kept["state"]) == {n for n, _ in alone.named_parameters()}
        other = FSDP(Net(2), auto_wrap_policy=by_layer)
        other.load_state_dict(whole)
        adam = torch.optim.AdamW(other.parameters(), lr=1.0)
        adam.load_state_dict(FSDP.optim_state_dict_to_load(other, adam, kept))
        assert adam.param_groups[0]["lr"] == 0.05
        for one, two in zip(model.parameters(), other.parameters()):
            a, b = optimizer.state[one]["exp_avg"], adam.state[two]["exp_avg"]
            assert torch.equal(a.full_tensor(), b.full_tensor())
    refused(RuntimeError, "takes a ShardedStateDictConfig", FSDP.set_state_dict_type, model,
            StateDictType.SHARDED_STATE_DICT, FullStateDictConfig())  # fmt: skip
    refused(RuntimeError, "size mismatch", model.load_state_dict,
            whole | {"out.bias": torch.ones(4)})  # fmt: skip
    assert ShardedStateDictConfig().offload_to_cpu is False


def whole_parameters():
    model, alone = FSDP(Net(), auto_wrap_policy=by_layer), Net()
    model(torch.ones(2, 6)).sum().backward()
    alone(torch.ones(2, 6)).sum().backward()
    assert all("_fsdp_wrapped_module" in name for name, _ in model.named_parameters())
    with FSDP.summon_full_params(model, with_grads=True):
        found = dict(model.named_parameters())
        for name, parameter in alone.named_parameters():
            assert type(found[name]) is nn.Parameter and torch.equal(found[name], parameter)
            close(found[name].grad, parameter.grad)
        with torch.no_grad():
            model.module.out.weight.fill_(2.0)
            found["layers.1.norm.bias"].grad.fill_(3.0)
        refused(RuntimeError, "summon_full_params", model, torch.ones(2, 6))
    assert torch.equal(model.out.weight.full_tensor(), torch.full((3, 6), 2.0))
    assert torch.equal(model.layers[1].norm.bias.grad.full_tensor(), torch.full((6,), 3.0))
    with FSDP.summon_full_params(model, writeback=False, rank0_only=True):
        assert isinstance(model.out.weight, DTensor) is (rank != 0)
        if rank == 0:
            model.out.weight.data.zero_()
    assert torch.equal(model.out.weight.full_tensor(), torch.full((3, 6), 2.0))
    refused(NotImplementedError, "writeback=False", FSDP.summon_full_params(
        model, rank0_only=True).__enter__)  # fmt: skip

    def ones(module):
        if isinstance(module, nn.Linear):
            nn.init.ones_(module.weight)

    model.apply(ones)
    assert torch.equal(model.layers[1].inner.weight.full_tensor(), torch.ones(11, 6))


def details():
    model = FSDP(nn.Linear(2, 2), backward_prefetch=None)
    assert (model.rank, model.world_size, model.compute_device.type) == (rank, size, "cpu")
    assert model.backward_prefetch is None and not model.cpu_offload.offload_params
    assert model.limit_all_gathers and not model.forward_prefetch
    model, alone = FSDP(Net(), auto_wrap_policy=by_layer), Net()
    for number in range(3):  # gradients add up, and are exchanged once
        with model.no_sync() if number < 2 else torch.enable_grad():
            model(torch.full((2, 6), rank + number + 0.5)).square().sum().backward()
        for r in range(size):
            (alone(torch.full((2, 6), r + number + 0.5)).square().sum() / size).backward()
    for p, q in zip(model.parameters(), alone.parameters()):
        close(p.grad.full_tensor(), q.grad, rtol=1e-4, atol=1e-4)
    for order in (1.0, 3.0, float("inf")):
        a, b = (copy.deepcopy([p.grad for p in m.parameters()]) for m in (model, alone))
        norm = model.clip_grad_norm_(0.5, order)
        close(norm, nn.utils.clip_grad_norm_(alone.parameters(), 0.5, order))
        for p, q, before, other in zip(model.parameters(), alone.parameters(), a, b):
            close(p.grad.full_tensor(), q.grad)
            p.grad, q.grad = before, other
    half = MixedPrecision(torch.bfloat16, torch.float32, torch.bfloat16)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    net.register_buffer("extra", torch.ones(2))
    reference = copy.deepcopy(net)
    model = FSDP(net, mixed_precision=half)
    x = torch.randn(4, 6)
    out = model(x)
    assert out.dtype is torch.bfloat16 and isinstance(model.module[1], FSDP)
    close(out.float(), reference(x), rtol=0.1, atol=0.05)
    out.float().sum().backward()
    assert {p.grad.dtype for p in model.parameters()} == {torch.float32}
    assert model.module.extra.dtype is torch.bfloat16
    assert model.state_dict()["extra"].dtype is torch.float32
    kept = Net()
    model = FSDP(kept, ignored_modules=[kept.out], auto_wrap_policy=by_layer)
    assert type(model.out.weight) is nn.Parameter
    assert losses(model)[0].isfinite().all()
    scaler = ShardedGradScaler()
    model = FSDP(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler.scale(model(x).sum() * (float("inf") if rank == 0 else 1.0)).backward()
    before = model.out.weight.full_tensor()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(model.out.weight.full_tensor(), before) and scaler.get_scale() == 2.0**15
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        FSDP(Net(), forward_prefetch=True)
    assert any("forward_prefetch" in str(warning.message) for warning in seen)
    refused(ValueError, "tuple of two groups", FSDP, Net(), dist.group.WORLD,
            ShardingStrategy.HYBRID_SHARD)  # fmt: skip
    refused(ValueError, "CPU alone", FSDP, Net(), device_id=0)
    refused(ValueError, "one already", FSDP, FSDP(Net()))


def hooks():
    """Gradients by hooks of fewer bytes, and what cannot have a hook."""
    wanted, _ = losses(DistributedDataParallel(Net()))
    world = dist.group.WORLD
    state = default_hooks.LowPrecisionState(world)
    assert (state.world_size, state.parameter_type) == (size, torch.float32)
    assert state.gradient_predivide_factor * state.gradient_postdivide_factor == size
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.NO_SHARD):
        for hook in (default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook):
            model = FSDP(Net(), sharding_strategy=strategy, auto_wrap_policy=by_layer)
            model.register_comm_hook(state, hook)
            found, _ = losses(model)
            close(found, wanted, rtol=0.05, atol=0.02)
            assert not torch.equal(found, wanted)
    sizes = []

    def first_part(state, gradients, mine):
        sizes.append((gradients.numel(), mine.numel()))
        mine.copy_(gradients.view(size, -1)[rank])

    model = FSDP(nn.Linear(3, 2 * size, bias=False))
    model.register_comm_hook(None, first_part)
    model(torch.full((1, 3), rank + 1.0)).sum().backward()
    assert sizes == [(6 * size, 6)]
    assert torch.equal(model.weight.grad.to_local(), torch.full((2, 3), rank + 1.0))
    refused(AssertionError, "already registered", model.register_comm_hook, None, first_part)
    model = FSDP(Net(), auto_wrap_policy=by_layer)
    refused(ValueError, "must be callable", model.register_comm_hook, None, 3)
    model(torch.ones(1, 6))
    refused(AssertionError, "root instance", model.layers[0].register_comm_hook, None, first_part)
    model = FSDP(Net(), sharding_strategy=ShardingStrategy.HYBRID_SHARD)
    refused(AssertionError, "hybrid strategies", model.register_comm_hook, None, first_part)
    refused(ValueError, "explicit ProcessGroup", default_hooks.DefaultState, None)


for section in sys.argv[1:]:
    globals()[section]()
dist.barrier()
dist.destroy_process_group()
print("done")
