"""Trains with checkpoints; in its first attempt a rank is killed in mid-epoch. Prints the end.

resuming.py FOLDER [RANK]
"""

import os
import signal
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


@record
def main():
    folder, culprit = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 4), torch.randn(48, 1))
    sampler = DistributedSampler(data, seed=3)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.2), nn.Linear(16, 1))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    path = os.path.join(folder, f"checkpoint-{rank}.pt")
    begin = 0
    if os.path.exists(path):
        saved = torch.load(path)
        begin = saved["step"] + 1
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    else:
        torch.manual_seed(100 + rank)
    step = 0
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in DataLoader(data, batch_size=4, sampler=sampler):
            if step < begin:
                step += 1
                continue
            if 0 < step == begin:
                torch.set_rng_state(saved["random"])  # the loaders have drawn from it again
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            state = {
                "step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "random": torch.get_rng_state(),
            }  # fmt: skip
            torch.save(state, path + ".new")
            dist.barrier()  # all have written theirs, so all have the same step
            os.replace(path + ".new", path)
            dist.barrier()
            if step == 7 and rank == culprit and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                os.kill(os.getpid(), signal.SIGKILL)
            step += 1
    total = sum(p.double().sum() for p in model.parameters())
    os.write(1, f"rank {rank} from step {begin} ends with {total.item().hex()}\n".encode())
    dist.destroy_process_group()


main()
