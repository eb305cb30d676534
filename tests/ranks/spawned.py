"""Processes of torch.multiprocessing.spawn that meet at a URL.

spawned.py URL [RANK]: with a rank, that one raises.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, size, url, culprit):
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=size)
    if rank == culprit:
        raise ValueError("spawned and failed")
    x = torch.ones(2)
    dist.all_reduce(x)
    os.write(1, f"rank {rank} has {x.tolist()}\n".encode())
    dist.destroy_process_group()
    # Once more, by the same MPI.
    dist.init_process_group("gloo", init_method=url, rank=rank, world_size=size)
    dist.all_reduce(x)
    os.write(1, f"rank {rank} has {x.tolist()}\n".encode())


if __name__ == "__main__":
    mp.spawn(work, (2, sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None), nprocs=2)
