"""One rank fails in a way that is named, in some step of some collectives.

failing.py MODE RANK STEP SECONDS
"""

import datetime
import faulthandler
import os
import signal
import sys
import time

import rushlight as torch
import rushlight.distributed as dist

faulthandler.register(signal.SIGUSR1)  # a run that does not end shows where it is
mode, culprit, when, seconds = sys.argv[1], *map(int, sys.argv[2:5])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
dist.group.WORLD.set_timeout(datetime.timedelta(seconds=seconds))
rank, size = dist.get_rank(), dist.get_world_size()


def misbehave():
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif mode == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif mode == "hangs":
        time.sleep(1000)  # the line that is named
    elif mode == "raises":
        raise RuntimeError("no more luck")
    elif mode == "exits":
        sys.exit(0)
    elif mode == "crashes":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif mode == "shape":
        dist.all_reduce(torch.ones(7))
    elif mode == "dtype":
        dist.all_reduce(torch.ones(1000, dtype=torch.float64))
    elif mode == "operation":
        dist.all_reduce(torch.ones(1000), dist.ReduceOp.MAX)
    elif mode == "order":
        dist.broadcast(torch.ones(1000), 0)
    elif mode == "root":
        dist.broadcast(torch.ones(3), rank)
    elif mode == "async":
        dist.all_reduce(torch.ones(1000), async_op=True)
        dist.all_reduce(torch.ones(500), async_op=True)
        os.kill(os.getpid(), signal.SIGKILL)


works = []
for step in range(10):
    if step == when and rank == culprit:
        misbehave()
    if mode == "root" and step == when and rank != culprit:
        dist.broadcast(torch.ones(3), (culprit + 1) % size)
    if step % 3 == 0:
        works.append(dist.all_reduce(torch.ones(200_000), async_op=True))
    dist.all_reduce(torch.ones(1000))
    dist.all_gather([torch.empty(10) for _ in range(size)], torch.ones(10))
    for work in works:
        work.wait()
    works.clear()
dist.destroy_process_group()
