"""Processes that a test of PyTorch's starts by multiprocessing get what the test itself has: this
folder is on their path.
"""

import sys

if "--multiprocessing-fork" in sys.orig_argv:
    import torch_helpers  # noqa: F401
