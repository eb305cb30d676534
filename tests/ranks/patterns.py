"""Programs of the shapes in which data parallelism, sharding and tensor parallelism are taught.

Written for torch; `python -m rushlight` runs it too, and prints the same losses.
"""

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


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for section in sys.argv[1:]:
        globals()[section]()
    dist.barrier()
    dist.destroy_process_group()
