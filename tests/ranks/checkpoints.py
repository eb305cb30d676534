"""Writes a sharded checkpoint, or reads one that another number of ranks has written.

checkpoints.py FOLDER (write | read)
"""

import sys

import rushlight as torch
import rushlight.distributed as dist
import rushlight.distributed.checkpoint as dcp
from rushlight import nn
from rushlight.distributed.checkpoint.format_utils import dcp_to_torch_save
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import Replicate, Shard, distribute_tensor

folder, what = sys.argv[1:3]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))


def net(seed):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 2))


def train(model, optimizer):
    for step in range(3):
        optimizer.zero_grad()
        model(torch.arange(6.0).view(2, 3) + step).square().sum().backward()
        optimizer.step()


reference = net(0)
optimizer = torch.optim.Adam(reference.parameters(), lr=0.1)
train(reference, optimizer)
whole = torch.arange(35.0).view(7, 5)


def state(model, optimizer, fill):
    return {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "columns": distribute_tensor(whole * fill, mesh, [Shard(1 if what == "write" else 0)]),
        "copies": distribute_tensor(whole * fill, mesh, [Replicate()]),
        "plain": whole * fill,
        "half": (whole * fill).bfloat16(),
        "epoch": 5 if fill else 0,
        "notes": {"a": ["b", 2.5]} if fill else {"a": None},
    }


model = fully_shard(net(0 if what == "write" else 1))
mine = torch.optim.Adam(model.parameters(), lr=0.1 if what == "write" else 0.5)
train(model, mine)
if what == "write":
    dcp.save(state(model, mine, 1), checkpoint_id=folder)
    group = dist.new_group()
    future = dcp.async_save({"x": whole}, checkpoint_id=folder + "/later", process_group=group)
    assert list(future.result().state_dict_metadata) == ["x"]
    dist.barrier()
    found = {"x": torch.zeros(7, 5)}
    dcp.load(found, checkpoint_id=folder + "/later")
    assert torch.equal(found["x"], whole)
else:
    found = state(model, mine, 0)
    dcp.load(found, checkpoint_id=folder)
    model.load_state_dict(found["model"])
    mine.load_state_dict(found["optimizer"])
    for key in ("columns", "copies"):
        assert torch.equal(found[key].full_tensor(), whole), key
    assert torch.equal(found["plain"], whole) and torch.equal(found["half"], whole.bfloat16())
    assert found["epoch"] == 5 and found["notes"] == {"a": ["b", 2.5]}, found["notes"]
    for p, q in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(p.full_tensor(), q)
    assert mine.param_groups[0]["lr"] == 0.1
    train(model, mine)  # the optimizer's state too
    train(reference, optimizer)
    for p, q in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(p.full_tensor(), q, rtol=1e-4, atol=1e-5)
    for wanted, text in (({"x": whole}, "Missing key"), ({"plain": whole[:2]}, "Size mismatch")):
        try:
            dcp.load(wanted, checkpoint_id=folder)
            raise AssertionError(f"load found {list(wanted)}")
        except dcp.CheckpointException as error:
            assert text in str(error), error
    if rank == 0:  # one process alone
        dcp_to_torch_save(folder, folder + ".pt")
        assert torch.equal(torch.load(folder + ".pt")["columns"], whole)
dist.destroy_process_group()
print("done")
