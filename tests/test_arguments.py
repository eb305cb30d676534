"""Every argument of every module and optimizer does something: with another value than its default
the results, gradients, states or inputs change, or it raises an error or a warning. What does not
is listed with its reason, and the list is no longer than it must be.
"""

import gc
import inspect
import warnings
from collections import OrderedDict

import modules
import optimizers
import pytest

import rushlight as rl

SAME = "chooses among ways to compute the same"
ONE_DEVICE = "there is one device, and one process"

NO_EFFECT = {
    "DataParallel": {"device_ids": ONE_DEVICE, "output_device": ONE_DEVICE, "dim": ONE_DEVICE},
    "LinearCrossEntropyLoss": {"options": SAME},
    "SyncBatchNorm": {"process_group": ONE_DEVICE},
    "TransformerEncoder": {"enable_nested_tensor": SAME, "mask_check": SAME},
    **dict.fromkeys(
        ("Adadelta", "Adafactor", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"),
        {"foreach": SAME},
    ),
    **dict.fromkeys(("Adagrad", "Adam", "AdamW", "SGD"), {"foreach": SAME, "fused": SAME}),
}

# Further cases, for arguments that say nothing in those of modules.CASES.
FURTHER = {
    "EmbeddingBag": [("nn.EmbeddingBag(6, 3, max_norm=0.5)", "T.tensor([[0, 5], [2, 2]])")],
    "LPPool1d": [("nn.LPPool1d(2, 3)", "T.randn(2, 4, 13)")],
    "MaxPool1d": [("nn.MaxPool1d(3, 2)", "T.randn(2, 4, 12)")],
    "PoissonNLLLoss": [("nn.PoissonNLLLoss(False)", "T.rand(3, 5), T.rand(3, 5)")],
}

# Modules that hold others, and are not called.
HOLDERS = {"Identity", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList"}

# Other values than the default, by its type or by the argument's name.
NAMED = {
    "dtype": ["float64"],
    "device": ["meta"],
    "mode": ["nearest", "bilinear", "sum", "max", "linear", "bicubic"],
    "padding_mode": ["reflect", "circular"],
    "reduction": ["sum", "none"],
    "approximate": ["tanh"],
    "nonlinearity": ["relu"],
    "activation": ["gelu"],
    "weight": [lambda: rl.tensor([0.5, 2.0, 1.0, 3.0, 0.1]), lambda: rl.tensor([0.5] * 3)],
    "pos_weight": [lambda: rl.full((5,), 3.0)],
    "betas": [(0.5, 0.6)],
    "etas": [(0.3, 1.5)],
    "step_sizes": [(1e-3, 2e-3)],
    "out_features": [(2,)],
    "line_search_fn": ["strong_wolfe"],
    "tolerance_grad": [1e3],
    "adjust_lr_fn": ["match_rms_adamw"],
    "padding_idx": [0, 2],
    "max_norm": [0.1],
    "size": [5, (5, 6)],
    "scale_factor": [2, 3],
    "kdim": [3],
    "vdim": [3],
    "proj_size": [2],
    "distance_function": [lambda a, b: (a - b).abs().sum(-1)],
    "head_bias": [True],
    "eps": [0.3, (1e-2, 1e-1)],
}


def others(name, default):
    """Values that an argument may have in place of its default."""
    if name in NAMED:
        return [v for v in NAMED[name] if v != default]
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, (int, float)):
        return [default + 1, default * 0.5 + 0.2, 2, 0.3, 3]
    if isinstance(default, tuple):
        return [tuple(v * 0.5 for v in default)]
    return [True, 2, 0.5, (1, 1)]


def numbers(value):
    if isinstance(value, (tuple, list)):
        return [numbers(part) for part in value]
    if isinstance(value, rl.Tensor):
        if value.device.type == "meta":
            return "meta", tuple(value.shape)
        return str(value.dtype), tuple(value.shape), value.detach().numpy().tobytes()
    return value


def tensors(value):
    if isinstance(value, (tuple, list)):
        return [t for part in value for t in tensors(part)]
    return [value] if isinstance(value, rl.Tensor) else []


def run_module(cls, args, options, inputs):
    """What a module gives, twice in training and once in evaluation, with its gradients."""
    rl.manual_seed(0)
    module = cls(*args, **options)
    given = [t.clone() if isinstance(t, rl.Tensor) else t for t in inputs]
    leaves = [t.requires_grad_() for t in tensors(given) if t.is_floating_point()]
    seen = []
    for training in (True, True, False):
        module.train(training)
        passed = [t * 1 if t in set(leaves) else t for t in given]
        outputs = module(*passed)
        seen += [numbers(outputs), numbers(passed)]
        loss = sum(t.sum() for t in tensors(outputs) if t.requires_grad)
        if isinstance(loss, rl.Tensor):
            loss.backward()
    seen += [numbers(t.grad) for t in [*leaves, *module.parameters()]]
    seen += [(key, numbers(value)) for key, value in module.state_dict().items()]
    return seen


def some_has_effect(run, usual, values):
    """run(value) of some value is not as usual, or is refused where the usual is not, or warns."""
    for value in values:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                if run(value) != usual:
                    return True
            except Exception:
                if usual != "refused":
                    return True
    return False


def has_effect(run, usual, name, default):
    def with_value(value):
        value = value() if callable(value) and name in ("weight", "pos_weight") else value
        return run({name: rl.float64 if name == "dtype" else value})

    return some_has_effect(with_value, usual, others(name, default))


def cases_by_class():
    """The cases of each class of modules."""
    found = {}
    for text, inputs in modules.CASES:
        found.setdefault(text.split("(")[0].removeprefix("nn."), []).append((text, inputs))
    for name, more in FURTHER.items():
        found[name] += more
    return {name: found[name] for name in sorted(set(found) - HOLDERS)}


def arguments_of(name, text):
    """The arguments with which the text of a case makes the module."""
    kept = []

    class Names:
        def __getattr__(self, asked):
            if asked == name:
                return lambda *args, **options: kept.append((args, options))
            return getattr(rl.nn, asked)

    rl.manual_seed(1)
    eval(text, {"T": rl, "nn": Names(), "OrderedDict": OrderedDict})
    return kept[0]


def without_effect(name, text, inputs):
    """The arguments that are left at their default in a case, and change nothing in it."""
    cls = getattr(rl.nn, name)

    def run(changed):
        args, options = arguments_of(name, text)
        return run_module(cls, args, {**options, **changed}, modules.inputs(rl, inputs))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        usual = run({})
        assert usual == run({})
    args, options = arguments_of(name, text)
    return {
        p.name
        for p in list(inspect.signature(cls).parameters.values())[len(args) :]
        if p.default is not p.empty
        and p.name not in options
        and not has_effect(run, usual, p.name, p.default)
    }, set(options)


@pytest.mark.parametrize("name", cases_by_class())
def test_arguments_of_modules(name):
    ignored, given = set(), set()
    for number, (text, inputs) in enumerate(cases_by_class()[name]):
        without, options = without_effect(name, text, inputs)
        given |= options
        ignored = without if number == 0 else ignored & (without | options)
    gc.collect()
    assert ignored == set(NO_EFFECT.get(name, {}))


def run_optimizer(name, options):
    """The parameters after a few steps, and the state."""
    params, set_gradients = optimizers.parameters(rl, name)
    optimizer = optimizers.make(rl, name, options, params)
    for _ in range(4):
        optimizers.step(name, optimizer, params, set_gradients)
    state = [value for one in optimizer.state.values() for value in one.values()]
    return [numbers(p) for p in [*params, *tensors(state)]]


@pytest.mark.parametrize("name", optimizers.OPTIONS)
def test_arguments_of_optimizers(name):
    usual_options = {"lr": optimizers.OPTIONS[name]["lr"][0]}
    if name == "SGD":
        usual_options["momentum"] = 0.9  # without it dampening and nesterov say nothing
    if name in ("Adam", "NAdam", "RAdam"):
        usual_options["weight_decay"] = 0.1  # that may be decoupled
    if name == "LBFGS":
        usual_options.update(lr=0.05, max_iter=4)  # so that a search finds other steps

    def run(changed):
        return run_optimizer(name, {**usual_options, **changed})

    usual = run({})
    assert usual == run({})
    ignored = {
        p.name
        for p in inspect.signature(getattr(rl.optim, name)).parameters.values()
        if p.default is not p.empty and not has_effect(run, usual, p.name, p.default)
    }
    gc.collect()
    assert ignored == set(NO_EFFECT.get(name, {}))
