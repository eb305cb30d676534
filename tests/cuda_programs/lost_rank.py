"""Two processes with a GPU each, of which one is lost inside of a collective of NCCL: the other one
ends it and says who it was.
"""

import multiprocessing
import os
import socket
import sys

import rushlight as torch
import rushlight.distributed as dist


def worker(rank, port):
    os.environ.update(
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2"
    )
    dist.init_process_group("nccl")
    x = torch.ones(4, device=f"cuda:{rank}")
    dist.all_reduce(x)  # opens the communicator
    assert x.tolist() == [2.0] * 4
    try:
        for _ in range(3):  # the second of all calls is the last of rank 1
            dist.all_reduce(x)
            dist.barrier()
    except RuntimeError as error:
        os.write(1, f"rank {rank}: {error}\n".encode())
        os._exit(0)


if __name__ == "__main__":
    os.environ["RUSHLIGHT_SIMULATOR_NCCL_DIES"] = "1:2"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=worker, args=(rank, port)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(0 if [process.exitcode for process in processes] == [0, 9] else 1)
