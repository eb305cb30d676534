"""Every argument of the learning rate schedulers changes the rates, momenta or losses seen."""

import inspect
import warnings

import pytest

import rushlight as rl
from rushlight.optim import lr_scheduler as schedulers

STEPS = 14


def half(step):
    return 0.5**step


def less(step):
    return 0.9


def constant(optimizer):
    return schedulers.ConstantLR(optimizer, 0.5, 3)


def several(optimizer):
    return [constant(optimizer), schedulers.ExponentialLR(optimizer, 0.8)]


# Of each: arguments that it must have, and another value of each argument.
CASES = {
    "LambdaLR": ({"lr_lambda": half}, {"lr_lambda": less}),
    "MultiplicativeLR": ({"lr_lambda": less}, {"lr_lambda": half}),
    "StepLR": ({"step_size": 3}, {"step_size": 2, "gamma": 0.5}),
    "MultiStepLR": ({"milestones": [2, 5]}, {"milestones": [3], "gamma": 0.5}),
    "ConstantLR": ({}, {"factor": 0.5, "total_iters": 2}),
    "LinearLR": ({}, {"start_factor": 0.5, "end_factor": 0.9, "total_iters": 3}),
    "ExponentialLR": ({"gamma": 0.9}, {"gamma": 0.8}),
    "PolynomialLR": ({}, {"total_iters": 3, "power": 2.0}),
    "CosineAnnealingLR": ({"T_max": 5}, {"T_max": 7, "eta_min": 0.01}),
    "CosineAnnealingWarmRestarts": ({"T_0": 4}, {"T_0": 5, "T_mult": 2, "eta_min": 0.01}),
    "CyclicLR": (
        {"base_lr": 0.01, "max_lr": 0.1, "step_size_up": 3},
        {"base_lr": 0.02, "max_lr": 0.2, "step_size_up": 4, "step_size_down": 5,
         "mode": "triangular2", "gamma": 0.9, "scale_fn": half, "scale_mode": "iterations",
         "cycle_momentum": False, "base_momentum": 0.7, "max_momentum": 0.95},
    ),
    "OneCycleLR": (
        {"max_lr": 0.1, "total_steps": 20},
        {"max_lr": 0.2, "total_steps": 16, "epochs": 4, "steps_per_epoch": 5, "pct_start": 0.5,
         "anneal_strategy": "linear", "cycle_momentum": False, "base_momentum": 0.7,
         "max_momentum": 0.99, "div_factor": 10.0, "final_div_factor": 10.0,
         "three_phase": True},
    ),
    "ReduceLROnPlateau": (
        {},
        {"mode": "max", "factor": 0.5, "patience": 2, "threshold": 0.3, "threshold_mode": "abs",
         "cooldown": 2, "min_lr": 0.05, "eps": 1.0},
    ),
}  # fmt: skip
# With which other arguments a difference shows.
BESIDE = {
    ("CyclicLR", "gamma"): {"mode": "exp_range"},
    ("CyclicLR", "scale_mode"): {"scale_fn": half},
    ("OneCycleLR", "epochs"): {"total_steps": None, "steps_per_epoch": 5},
    ("OneCycleLR", "steps_per_epoch"): {"total_steps": None, "epochs": 5},
    ("OneCycleLR", "final_div_factor"): {"total_steps": STEPS},
    ("ReduceLROnPlateau", "mode"): {"patience": 2},
    ("ReduceLROnPlateau", "threshold"): {"patience": 2},
    ("ReduceLROnPlateau", "threshold_mode"): {"threshold": 0.3, "patience": 2},
    ("ReduceLROnPlateau", "cooldown"): {"patience": 0},
    ("ReduceLROnPlateau", "min_lr"): {"patience": 0},
    ("ReduceLROnPlateau", "factor"): {"patience": 0},
    ("ReduceLROnPlateau", "eps"): {"patience": 0},
}
# How the steps are counted when training goes on; the same rates otherwise.
OTHERWISE = {"last_epoch", "optimizer"}


def seen(name, arguments):
    """The rates and momenta of some steps, or the error."""
    optimizer = rl.optim.SGD([rl.zeros(1)], lr=0.1, momentum=0.9)
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps of a scheduler without those of an optimizer
        try:
            scheduler = getattr(schedulers, name)(optimizer, **arguments)
            for step in range(STEPS):
                loss = 2 - 0.08 * step if step < 9 else 3.0  # less and less, then more
                scheduler.step(*[loss] * (name == "ReduceLROnPlateau"))
                (group,) = optimizer.param_groups
                rows.append((group["lr"], group["momentum"]))
        except ValueError as error:
            rows.append(str(error))
    return rows


@pytest.mark.parametrize("name", CASES)
def test_arguments_change_the_rates(name):
    needed, others = CASES[name]
    parameters = inspect.signature(getattr(schedulers, name)).parameters
    assert set(others) == set(parameters) - OTHERWISE
    ignored = []
    for argument, value in others.items():
        usual = {**needed, **BESIDE.get((name, argument), {})}
        if seen(name, usual) == seen(name, {**usual, argument: value}):
            ignored.append(argument)
    assert not ignored


@pytest.mark.parametrize("name", [name for name in CASES if name != "ReduceLROnPlateau"])
def test_last_epoch_goes_on(name):
    needed, _ = CASES[name]
    optimizer = rl.optim.SGD([rl.zeros(1)], lr=0.1, momentum=0.9)
    with pytest.raises(KeyError, match="initial_lr"):
        getattr(schedulers, name)(optimizer, last_epoch=3, **needed)


@pytest.mark.parametrize("name", ["ChainedScheduler", "SequentialLR"])
def test_schedulers_of_schedulers(name):
    def rates(make, *others):
        optimizer = rl.optim.SGD([rl.zeros(1)], lr=0.1)
        arguments = (optimizer, make(optimizer)) if name == "SequentialLR" else (make(optimizer),)
        scheduler = getattr(schedulers, name)(*arguments, *others)
        found = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(STEPS):
                scheduler.step()
                found.append(optimizer.param_groups[0]["lr"])
        return found

    def other(optimizer):
        return [schedulers.StepLR(optimizer, 2), constant(optimizer)]

    places = [[4]] if name == "SequentialLR" else []
    assert rates(several, *places) != rates(other, *places)
    if places:
        assert rates(several, [4]) != rates(several, [6])
