"""Learning rates that change as training goes on."""

from rushlight._set_module import set_module
from rushlight.optim._lr_base import LRScheduler, _LRScheduler
from rushlight.optim._lr_combined import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from rushlight.optim._lr_cycles import CyclicLR, OneCycleLR
from rushlight.optim._lr_functions import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "_LRScheduler",
]

set_module(__name__, *(globals()[name] for name in __all__))
