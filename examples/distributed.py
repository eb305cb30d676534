"""The small GPT of gpt.py, trained by two processes: each has half of every batch.

    python examples/distributed.py             starts the processes itself
    python -m rushlight.distributed.run --nproc-per-node 2 examples/distributed.py

Needs MPI: pip install "rushlight[mpi]".
"""

import os
import sys
import time

import rushlight as torch
from gpt import GPT, batch_of, initialize, load_text, train_step
from rushlight import distributed as dist
from rushlight.distributed import run
from rushlight.nn.parallel import DistributedDataParallel


def main(steps=200, batch_size=32, length=64):
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    text = load_text()
    alphabet = sorted(set(text))
    index = {character: i for i, character in enumerate(alphabet)}
    tokens = torch.tensor([index[character] for character in text])
    torch.manual_seed(0)
    model = GPT(len(alphabet), length, width=64, heads=4, layers=2)
    model.apply(initialize)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    torch.manual_seed(1)  # all draw the same batches, and each takes its part
    average, began = torch.zeros(()), time.perf_counter()
    for step in range(steps):
        inputs, targets = batch_of(tokens, batch_size, length)
        mine = slice(rank, None, size)
        loss = train_step(model, optimizer, inputs[mine], targets[mine]).detach()
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        average = loss if step == 0 else 0.9 * average + 0.1 * loss
        if rank == 0 and step % 50 == 49:
            speed = (step + 1) * batch_size * length / (time.perf_counter() - began)
            print(f"step {step + 1}: {average:.3f} nats per character, {speed:.0f} characters/s")
    dist.destroy_process_group()


if __name__ == "__main__":
    settings = [int(word) for word in sys.argv[1:]]
    if "RANK" in os.environ:
        main(*settings)
    else:
        run.main(["--nproc-per-node", "2", __file__, *sys.argv[1:]])
