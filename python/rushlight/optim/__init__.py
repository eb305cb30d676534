"""Optimizers, schedules of their learning rates, and averages of models."""

from __future__ import annotations

from typing import Any

from rushlight._set_module import set_module
from rushlight.optim import lr_scheduler
from rushlight.optim._adafactor import Adafactor
from rushlight.optim._muon import Muon
from rushlight.optim._swap import swap_in_optimizer_params_and_state
from rushlight.optim.adadelta import Adadelta
from rushlight.optim.adagrad import Adagrad
from rushlight.optim.adam import Adam
from rushlight.optim.adamax import Adamax
from rushlight.optim.adamw import AdamW
from rushlight.optim.asgd import ASGD
from rushlight.optim.lbfgs import LBFGS
from rushlight.optim.nadam import NAdam
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.radam import RAdam
from rushlight.optim.rmsprop import RMSprop
from rushlight.optim.rprop import Rprop
from rushlight.optim.sgd import SGD
from rushlight.optim.sparse_adam import SparseAdam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rushlight.optim import swa_utils as swa_utils

__all__ = [
    "swap_in_optimizer_params_and_state",
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]

set_module(__name__, Adafactor, Muon, swap_in_optimizer_params_and_state)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # It is the only file here that needs nn, so it waits until asked for.
        if name == "swa_utils":
            import importlib

            return importlib.import_module("rushlight.optim.swa_utils")
        raise AttributeError(f"module 'rushlight.optim' has no attribute '{name}'")
