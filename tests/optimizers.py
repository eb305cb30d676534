"""Every optimizer and learning-rate scheduler in all combinations of what changes their rules."""

from itertools import product

FLAG = [False, True]
# What each option may be; a run takes one of each.
OPTIONS = {
    "SGD": {
        "lr": [0.1],
        "momentum": [0, 0.9],
        "dampening": [0, 0.1],
        "weight_decay": [0, 0.01],
        "nesterov": FLAG,
        "maximize": FLAG,
    },
    "Adam": {
        "lr": [0.01],
        "betas": [(0.9, 0.999), (0.5, 0.7)],
        "weight_decay": [0, 0.1],
        "amsgrad": FLAG,
        "maximize": FLAG,
        "decoupled_weight_decay": FLAG,
    },
    "AdamW": {
        "lr": [0.01],
        "eps": [1e-8, 1e-3],
        "weight_decay": [0, 0.1],
        "amsgrad": FLAG,
        "maximize": FLAG,
    },
    "Adamax": {
        "lr": [0.01],
        "betas": [(0.9, 0.999), (0.5, 0.7)],
        "weight_decay": [0, 0.1],
        "maximize": FLAG,
    },
    "NAdam": {
        "lr": [0.01],
        "weight_decay": [0, 0.1],
        "momentum_decay": [0.004, 0.1],
        "decoupled_weight_decay": FLAG,
        "maximize": FLAG,
    },
    "RAdam": {
        "lr": [0.01],
        "betas": [(0.9, 0.999), (0.5, 0.7)],
        "weight_decay": [0, 0.1],
        "decoupled_weight_decay": FLAG,
        "maximize": FLAG,
    },
    "Adagrad": {
        "lr": [0.1],
        "lr_decay": [0, 0.1],
        "weight_decay": [0, 0.1],
        "initial_accumulator_value": [0, 0.5],
        "maximize": FLAG,
    },
    "Adadelta": {"lr": [1.0, 0.1], "rho": [0.9, 0.5], "weight_decay": [0, 0.1], "maximize": FLAG},
    "Adafactor": {
        "lr": [0.01],
        "beta2_decay": [-0.8, -0.3],
        "eps": [(None, 1e-3), (1e-8, 1e-2)],
        "d": [1.0, 2.0],
        "weight_decay": [0, 0.1],
        "maximize": FLAG,
    },
    "RMSprop": {
        "lr": [0.01],
        "alpha": [0.99, 0.5],
        "weight_decay": [0, 0.1],
        "momentum": [0, 0.9],
        "centered": FLAG,
        "maximize": FLAG,
    },
    "Rprop": {
        "lr": [0.01],
        "etas": [(0.5, 1.2)],
        "step_sizes": [(1e-6, 50), (0.005, 0.02)],
        "maximize": FLAG,
    },
    "ASGD": {
        "lr": [0.1],
        "lambd": [1e-4, 0.1],
        "t0": [1e6, 3],
        "weight_decay": [0, 0.1],
        "maximize": FLAG,
    },
    "Muon": {
        "lr": [0.01],
        "weight_decay": [0, 0.1],
        "momentum": [0.95, 0.5],
        "nesterov": FLAG,
        "adjust_lr_fn": [None, "match_rms_adamw"],
    },
    "LBFGS": {
        "lr": [1, 0.3],
        "max_iter": [4],
        "history_size": [2, 100],
        "line_search_fn": [None, "strong_wolfe"],
    },
    "SparseAdam": {"lr": [0.01], "maximize": FLAG},
}


def combinations(name):
    """All ways to set the options of an optimizer."""
    options = OPTIONS[name]
    return [dict(zip(options, values)) for values in product(*options.values())]


# Expressions over `o`, an optimizer with the momentum 0.9, and `s`, the module of schedulers.
SCHEDULERS = [
    "s.LambdaLR(o, lambda epoch: 0.95**epoch)",
    "s.LambdaLR(o, [lambda epoch: 1 / (epoch + 1), lambda epoch: 0.5])",
    "s.MultiplicativeLR(o, lambda epoch: 0.9)",
    "s.StepLR(o, 3)",
    "s.StepLR(o, 2, gamma=0.5)",
    "s.MultiStepLR(o, [2, 2, 7], 0.3)",
    "s.ConstantLR(o)",
    "s.ConstantLR(o, 0.5, 3)",
    "s.LinearLR(o)",
    "s.LinearLR(o, 0.2, 0.8, 6)",
    "s.ExponentialLR(o, 0.9)",
    "s.PolynomialLR(o, 8, 2.0)",
    "s.CosineAnnealingLR(o, 5)",
    "s.CosineAnnealingLR(o, 7, eta_min=0.01)",
    "s.CosineAnnealingWarmRestarts(o, 3)",
    "s.CosineAnnealingWarmRestarts(o, 2, 2, 0.001)",
    "s.CyclicLR(o, 0.001, 0.1, 3)",
    "s.CyclicLR(o, [0.001, 0.01], [0.1, 0.2], 3, 4, 'triangular2')",
    "s.CyclicLR(o, 0.001, 0.1, 3, mode='exp_range', gamma=0.9, cycle_momentum=False)",
    "s.CyclicLR(o, 0.001, 0.1, 3, scale_fn=lambda x: 0.5**x, scale_mode='iterations')",
    "s.OneCycleLR(o, 0.1, 20)",
    "s.OneCycleLR(o, [0.1, 0.2], epochs=4, steps_per_epoch=5, anneal_strategy='linear')",
    "s.OneCycleLR(o, 0.1, 20, None, None, 0.4, 'cos', False, div_factor=10, three_phase=True)",
    "s.SequentialLR(o, [s.ConstantLR(o, 0.1), s.ExponentialLR(o, 0.9)], [4])",
    "s.SequentialLR(o, [s.LinearLR(o, 0.1), s.CosineAnnealingLR(o, 5), s.StepLR(o, 2)], [3, 9])",
    "s.ChainedScheduler([s.ConstantLR(o, 0.1), s.ExponentialLR(o, 0.9)], optimizer=o)",
    "s.ReduceLROnPlateau(o, patience=1)",
    "s.ReduceLROnPlateau(o, 'max', 0.5, 0, 0.1, 'abs', 1, [0.001, 0.01])",
]


def parameters(library, name="SGD"):
    """Parameters of several shapes, some without a gradient; and a function that sets gradients."""
    shapes = [(3, 4), (5,), (), (2, 3, 2), (0,), (2,)]
    if name == "Muon":  # is for matrices alone
        shapes = [(3, 4), (2, 2), (4, 3)]
    elif name == "SparseAdam":
        shapes = [(3, 4), (5,)]
    elif name == "Adafactor":  # of torch divides by zero on empty ones
        shapes.remove((0,))
    library.manual_seed(1)
    params = [library.nn.Parameter(library.randn(shape)) for shape in shapes]

    def set_gradients():
        for param in params[:-1]:
            param.grad = library.randn(param.shape)

    return params, set_gradients


def make(library, name, options, params):
    """An optimizer with two groups, the second with a smaller learning rate."""
    groups = [{"params": params[:1]}, {"params": params[1:], "lr": options["lr"] / 2}]
    if name == "LBFGS":
        groups = params
    return getattr(library.optim, name)(groups, **options)


def step(name, optimizer, params, set_gradients):
    """One step with the next random gradients; LBFGS minimises a function instead."""

    def closure():
        optimizer.zero_grad()
        loss = sum(((p - 1) ** 4).sum() for p in params[:-1])
        loss.backward()
        return loss

    set_gradients()
    if name == "SparseAdam":
        for param in params[:-1]:
            param.grad = param.grad.to_sparse()
    optimizer.step(*[closure] * (name == "LBFGS"))


def make_scheduler(library, text):
    """(optimizer, scheduler) for one of SCHEDULERS."""
    params, _ = parameters(library)
    optimizer = make(library, "SGD", {"lr": 0.1, "momentum": 0.9}, params)
    return optimizer, eval(text, {"o": optimizer, "s": library.optim.lr_scheduler})
