"""TorchTrainer on a local Ray: one worker is killed once, and training goes on.

by_ray.py FOLDER
"""

import os
import signal
import sys
import tempfile

import ray

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed.ray import (
    Checkpoint,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    TorchTrainer,
    get_checkpoint,
    get_context,
    report,
)


def train(config):
    rank = get_context().get_world_rank()
    value, begin = torch.zeros(1), 0
    if get_checkpoint() is not None:
        with get_checkpoint().as_directory() as folder:
            saved = torch.load(os.path.join(folder, "state.pt"))
        value, begin = saved["value"], saved["step"] + 1
    for step in range(begin, config["steps"]):
        if step == 3 and begin == 0 and rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        part = torch.full((1,), float(rank + step))
        dist.all_reduce(part)
        value += part
        with tempfile.TemporaryDirectory() as folder:
            torch.save({"value": value, "step": step}, os.path.join(folder, "state.pt"))
            report({"value": value.item(), "begin": begin}, Checkpoint.from_directory(folder))


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    trainer = TorchTrainer(
        train,
        train_loop_config={"steps": 6},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig("run", sys.argv[1], FailureConfig(max_failures=1)),
    )
    result = trainer.fit()
    print("result", result.metrics["value"], "begun at", result.metrics["begin"])
    print("checkpoint", os.path.basename(result.checkpoint.path))
