"""What trainers say of layers, processes, functions of functions and files, checked by
`mypy --strict`: not run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import rushlight as torch
import rushlight.distributed as dist
import rushlight.nn.functional as F
from rushlight import Tensor, nn, optim
from rushlight.amp import GradScaler
from rushlight.ao.quantization import QConfig, get_default_qconfig
from rushlight.autograd import Function
from rushlight.futures import Future
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.nn.utils.rnn import PackedSequence
from rushlight.optim import Optimizer
from rushlight.optim.lr_scheduler import LRScheduler, SequentialLR
from rushlight.utils.checkpoint import checkpoint
from rushlight.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    StatefulDataLoader,
    Subset,
    get_worker_info,
    random_split,
)


# --- subclasses of layers, whose forward has the type that theirs has
class ScaledPool(nn.MaxPool2d):
    def forward(self, input: Tensor) -> Tensor:
        return F.max_pool2d(input, self.kernel_size, self.stride) * 2


class Up(nn.ConvTranspose2d):
    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, 3, stride=2, padding=1, output_padding=(1, 1))

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        return super().forward(input, output_size).relu()


class Unet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 8, 3, padding="same")
        self.pool = nn.AvgPool2d(2)
        self.up = Up(8)
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
        self.last = nn.Sequential(OrderedDict([("norm", nn.BatchNorm2d(8)), ("act", nn.GELU())]))
        self.classes = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5])

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        y: Tensor = self.pool.forward(self.down(x))
        for block in self.blocks:
            y = checkpoint(block, y, use_reentrant=False)
        y = self.last(self.up.forward(y))
        output, loss = self.classes.forward(y.flatten(1), labels)
        return loss + output.mean()


def removed(blocks: nn.ModuleList) -> nn.Module:
    first: nn.Module = blocks.pop(0)
    return first


class Tagger(nn.LSTM):
    def forward(self, input: Tensor | PackedSequence, hx: Any = None) -> Any:
        output, state = super().forward(input, hx)
        return (output, state) if isinstance(output, PackedSequence) else output


def normed(sizes: tuple[int, ...]) -> list[nn.Module]:
    return [nn.LayerNorm(sizes), nn.RMSNorm([3, 4]), nn.LayerNorm(5), Tagger(3, 4)]


def utilities(x: Tensor) -> tuple[nn.Linear, nn.Conv2d]:
    edge = torch.autograd.graph.get_gradient_edge(x)
    torch.autograd.backward([edge], [torch.ones_like(x)])
    linear: nn.Linear = nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
    nn.utils.prune.l1_unstructured(linear, "bias", amount=1).reset_parameters()
    return linear, nn.utils.fusion.fuse_conv_bn_eval(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))


class Exp(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.exp(), x

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0]


def applied(x: Tensor) -> Tensor:
    y, _ = Exp.apply(x)
    values, places, counts = torch.unique(x, return_inverse=True, return_counts=True)
    rows, columns = x.nonzero(as_tuple=True)
    total: Tensor = y.sum() + values.sum() + places.sum() + counts.sum() + rows.sum()
    return total + columns.sum() + x.norm(dim=[0, 1])


def of_functions(x: Tensor) -> Tensor:
    pooled = F.lp_pool2d(x, 2, 3, stride=2) + F.lp_pool2d(x, 2.0, (3, 3))
    back = F.max_unpool2d(x, x.long(), 2, 2, output_size=[4, 4])
    weights = F.softmax(pooled, dim=-1, dtype=torch.float64)
    kept = torch.masked.mean(back, dim=0, dtype=torch.float64, mask=back > 0)
    summed = torch.sparse.sum(torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0]), dim=0)
    return weights.sum() + kept.sum() + summed


# --- functions of functions
def loss_of(weight: Tensor, x: Tensor) -> Tensor:
    return (x @ weight).square().sum()


def per_example(weight: Tensor, x: Tensor) -> Tensor:
    values: Tensor = torch.vmap(loss_of, in_dims=(None, 0))(weight, x)
    slopes = torch.func.grad(loss_of, argnums=(0, 1))(weight, x)
    value, push = torch.func.linearize(torch.sin, x)
    total: Tensor = values + slopes[0].sum() + push(x).sum() + value.sum()
    return total


# --- data
class Lines(IterableDataset[str]):
    def __iter__(self) -> Iterator[str]:
        worker = get_worker_info()
        yield "all" if worker is None else f"{worker.id} of {worker.num_workers}"


def parts(data: Dataset[tuple[Tensor, int]]) -> Subset[tuple[Tensor, int]]:
    first, _ = random_split(data, [0.5, 0.5])
    loader: StatefulDataLoader[tuple[Tensor, int]] = StatefulDataLoader(first, batch_size=2)
    loader.load_state_dict(loader.state_dict())
    return first


# --- processes
def run(rank: int, world_size: int, data: Dataset[Tensor]) -> float:
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    assert dist.is_initialized() and dist.get_rank() == rank
    model = DistributedDataParallel(nn.Linear(2, 1), find_unused_parameters=True)
    sampler: DistributedSampler[Tensor] = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, sampler=sampler)
    scaler = GradScaler("cpu", enabled=False)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    schedule: LRScheduler = SequentialLR(optimizer, [optim.lr_scheduler.ConstantLR(optimizer)], [])
    seen = torch.zeros(1)
    for x in loader:
        loss: Tensor = model(x).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        seen += x.size(0)
        schedule.step()
    dist.all_reduce(seen, op=dist.ReduceOp.SUM, group=dist.group.WORLD)
    dist.destroy_process_group()
    ddp_waits: bool = model.require_backward_grad_sync
    return float(seen) + schedule.last_epoch + ddp_waits


def later(value: Future[Tensor]) -> Future[float]:
    doubled: Future[float] = value.then(lambda future: future.wait().item() * 2)
    return doubled


def closures(optimizer: Optimizer, model: nn.Module) -> float:
    def closure() -> float:
        optimizer.zero_grad()
        loss = model(torch.ones(1)).sum()
        loss.backward()
        return float(loss)

    loss = optimizer.step(closure)
    model.load_state_dict({name: value.cpu() for name, value in model.state_dict().items()})
    optimizer.step()
    return loss


# --- dtypes, quantization, scripts
def narrow(x: Tensor) -> Tensor:
    dtypes: list[torch.dtype] = [torch.uint16, torch.float8_e4m3fn, torch.qint8, torch.complex32]
    return x.to(torch.uint16).to(dtypes[1]) + torch.zeros(3, dtype=torch.uint32)


def configured() -> QConfig:
    config: QConfig = get_default_qconfig("x86")
    config.activation()
    return QConfig(activation=config.activation, weight=config.weight)


class Ruled(nn.Module):
    @torch.jit.export
    def twice(self, x: Tensor) -> Tensor:
        return x * 2 if torch.is_tensor(x) else x


def saved(path: str) -> float:
    module = torch.jit.load(path, map_location="cpu")
    torch.jit.freeze(module.eval()).save(path)
    spectrum = torch.fft.fft2(torch.ones(2, 2), norm="ortho")
    return float(spectrum.abs().sum())
