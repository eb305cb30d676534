"""A plugin for pytest: PyTorch's own tests of several processes, on a machine without GPUs.

The processes are forked from that of the tests, where torch starts Python in each and imports
everything again, which takes 15 s a test; and those that ask for GPUs get none, but run: what torch
does on the CPU counts.
"""

import torch.distributed
import torch.multiprocessing
from torch.testing._internal import common_distributed, common_fsdp


def _fork_processes(self):
    if torch.distributed.is_initialized():  # a group of one that an earlier test has left
        torch.distributed.destroy_process_group()
    self._start_processes(torch.multiprocessing.get_context("fork").Process)


def _for_any_number_of_gpus(*args, **options):
    return lambda test: test


common_distributed.MultiProcessTestCase._spawn_processes = _fork_processes
common_distributed.skip_if_lt_x_gpu = _for_any_number_of_gpus
torch.accelerator.device_count = lambda: 8
common_distributed.TIMEOUT_DEFAULT = 50
common_fsdp.DEVICE_COUNT = 2
