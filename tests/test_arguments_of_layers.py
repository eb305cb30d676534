"""Every argument of what wraps, prunes, averages and counts modules, packs sequences and computes
gradients of convolutions does something: with another value than its default something changes, or
it raises an error or a warning. What does not is listed with its reason, and the list is no longer
than it must be.
"""

import contextlib
import gc
import io

import pytest
from options import found, ignored, in_python

import rushlight as rl
from rushlight import nn
from rushlight.nn.utils import parametrizations, parametrize, prune, rnn
from rushlight.optim import swa_utils
from rushlight.utils.flop_counter import FlopCounterMode

ONE_DEVICE = "the CPU is one device"
NO_EFFECT = {
    "nn.parallel.data_parallel": {
        "device_ids": ONE_DEVICE, "output_device": ONE_DEVICE, "dim": ONE_DEVICE},
}  # fmt: skip


def linear(inputs=4, outputs=3):
    rl.manual_seed(0)
    return nn.Linear(inputs, outputs)


def shown(module, x=None):
    """The result of a module, its state and its gradients."""
    out = module(rl.ones(2, 4) if x is None else x)
    out.sum().backward()
    return out, dict(module.state_dict()), {n: p.grad for n, p in module.named_parameters()}


class TwoWeights(nn.Module):
    """Two matrices of different shapes."""

    def __init__(self):
        super().__init__()
        rl.manual_seed(0)
        self.weight = nn.Parameter(rl.randn(3, 4))
        self.other = nn.Parameter(rl.randn(4, 3) * 1e-13)

    def forward(self, x):
        return x @ self.weight.t() @ self.other.t()


def wrapped(wrap):
    def run(**named):
        return shown(wrap(TwoWeights(), **named))

    def small(**named):
        return shown(wrap(TwoWeights(), **{"name": "other", **named}))

    return [run, small]


def unwrapped(wrap, unwrap):
    def run(**named):
        module = TwoWeights()
        wrap(module), wrap(module, name="other")
        return sorted(unwrap(module, **named).state_dict())

    return run


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2

    def right_inverse(self, weight):
        return weight / 2


class Narrowed(nn.Module):
    def forward(self, weight):
        return weight[:2]


def registered(**named):
    module = linear()
    try:
        parametrize.register_parametrization(module, "weight", Narrowed(), **named)
    except ValueError as error:
        return str(error)[:40]
    return module.weight


def parametrized():
    module = linear()
    parametrize.register_parametrization(module, "weight", Doubled())
    return module


def removed(**named):
    module = parametrize.remove_parametrizations(parametrized(), "weight", **named)
    return module.weight


def transferred(**named):
    source, target = parametrized(), linear()
    parametrize.register_parametrization(source, "bias", Doubled())
    parametrize.transfer_parametrizations_and_params(source, target, **named)
    return sorted(target.state_dict())


def is_parametrized(**named):
    return parametrize.is_parametrized(parametrized(), **named)


def pruned(apply, *arguments):
    def run(**named):
        module = linear()
        apply(module, *arguments, **named)
        return module.weight_mask

    return run


def pruned_by(cls, *arguments):
    def run(**named):
        rl.manual_seed(3)
        return cls(*arguments, **named).compute_mask(linear().weight, rl.ones(3, 4))

    return run


def pruned_all(**named):
    module = linear()
    prune.global_unstructured([(module, "weight")], prune.L1Unstructured, amount=3, **named)
    return module.weight_mask


SCORES = rl.arange(12.0).reshape(3, 4)


def packed_in_order(lengths=(3, 2)):
    def run(**named):
        try:
            return list(rnn.pack_padded_sequence(rl.arange(12.0).reshape(3, 4)[:, :2].contiguous()
                                                 if not named.get("batch_first") else
                                                 rl.arange(12.0).reshape(2, 6),
                                                 list(lengths), **named))  # fmt: skip
        except RuntimeError as error:
            return str(error)[:40]

    return run


def sequences(*lengths):
    return [rl.arange(1.0, 1 + n) for n in lengths]


def packed(**named):
    try:
        return list(rnn.pack_sequence(sequences(1, 2), **named))
    except RuntimeError as error:
        return str(error)[:40]


def unpacked(**named):
    return rnn.pad_packed_sequence(rnn.pack_sequence(sequences(3, 1)), **named)


def unpadded(**named):
    return rnn.unpad_sequence(rl.arange(4.0).reshape(2, 2), rl.tensor([2, 1]), **named)


def a_packed_sequence(**named):
    given = {"batch_sizes": rl.tensor([2, 1]), **named}
    made = rnn.PackedSequence(rl.arange(3.0), **given)
    return list(made)


def fused(**named):
    rl.manual_seed(0)
    bn = nn.BatchNorm2d(4).eval()
    bn.weight.data.uniform_()
    return nn.utils.fuse_conv_bn_eval(nn.ConvTranspose2d(4, 4, 2).eval(), bn, **named).weight


def fused_weights(**named):
    return nn.utils.fuse_conv_bn_weights(
        rl.arange(8.0).reshape(2, 2, 2, 1), None, rl.zeros(2), rl.ones(2), 1e-5,
        rl.tensor([1.0, 2.0]), rl.zeros(2), **named)[0]  # fmt: skip


def gradient(name, dims):
    function = getattr(nn.grad, name)
    sides = (5,) * dims

    def run(groups=1, **named):
        def conv(x, weight):
            return getattr(nn.functional, f"conv{dims}d")(x, weight, groups=groups, **named)

        x, weight = rl.ones(1, 4, *sides), rl.ones(4, 4 // groups, *(2,) * dims)
        grad = rl.randn_like(conv(x, weight))
        named = {**named, **({"groups": groups} if groups != 1 else {})}
        if name.endswith("input"):
            return function(x.shape, weight, grad, **named)
        return function(x, weight.shape, grad, **named)

    return run


# ---- parameters, parallel modules, averages


def registers(**named):
    module = nn.Module()
    module.kept = nn.Buffer(**{"data": rl.ones(2), **named})
    return module.kept, sorted(module.state_dict())


def parameter(kind):
    def run(**named):
        p = kind(**named)
        return p.requires_grad, str(p.device), str(p.dtype), getattr(p, "persistent", None)

    return run


def of_data(**named):
    return nn.Parameter(**{"data": rl.ones(2), **named}).requires_grad, \
        nn.Parameter(**{"data": rl.ones(2), **named}).detach()  # fmt: skip


def parallel(**named):
    return nn.parallel.data_parallel(nn.Bilinear(2, 2, 1), (rl.ones(2, 2), rl.ones(2, 2)), **named)


def parallel_by_name(module_kwargs=None, **named):
    return nn.parallel.data_parallel(Scaled(), rl.ones(2, 2), module_kwargs=module_kwargs, **named)


class Scaled(nn.Module):
    def forward(self, x, by=1.0):
        return x * by


def applied(**named):
    return nn.parallel.parallel_apply([Scaled()], [(rl.ones(2),)], **named)


def replicated(**named):
    module = linear()
    (copy,) = nn.parallel.replicate(module, ["cpu"], **named)
    return copy.weight.requires_grad and copy.weight.grad_fn is not None or \
        copy.weight.is_leaf and copy.weight.requires_grad  # fmt: skip


def rates(**named):
    optimizer = rl.optim.SGD([nn.Parameter(rl.ones(1))], lr=1.0)
    for group in optimizer.param_groups:
        group["initial_lr"] = 1.0
    scheduler = swa_utils.SWALR(optimizer, 0.1, **named)
    seen = []
    for _ in range(5):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return seen, scheduler.last_epoch


def averaged(**named):
    model = nn.BatchNorm1d(2)
    average = swa_utils.AveragedModel(model, **named)
    for value in (1.0, 3.0, 4.0):
        model.weight.data.fill_(value)
        model.running_mean.fill_(value)
        average.update_parameters(model)
    return str(average.module.weight.device), average.module.weight, average.module.running_mean


def averaging(**named):
    return swa_utils.get_ema_avg_fn(**named)(rl.ones(1), rl.zeros(1), 3)


def averaging_of_lists(**named):
    averages = [rl.ones(1)]
    swa_utils.get_ema_multi_avg_fn(**named)(averages, [rl.zeros(1)], 3)
    return averages


def updated(**named):
    model = nn.BatchNorm1d(2)
    swa_utils.update_bn([rl.randn(4, 2)], model, **named)
    return model.running_mean


def counted(**named):
    text = io.StringIO()
    model = nn.Sequential(nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))))
    with contextlib.redirect_stdout(text), FlopCounterMode(**named) as counter:
        model(rl.ones(2, 4))
    return text.getvalue(), counter.get_total_flops()


def flops_of_linear(*args, out_val=None, **kwargs):
    return 7


CASES = {
    "nn.utils.weight_norm": wrapped(nn.utils.weight_norm),
    "nn.utils.spectral_norm": wrapped(nn.utils.spectral_norm),
    "nn.utils.remove_weight_norm": [
        unwrapped(nn.utils.weight_norm, nn.utils.remove_weight_norm)],
    "nn.utils.remove_spectral_norm": [
        unwrapped(nn.utils.spectral_norm, nn.utils.remove_spectral_norm)],
    **{f"nn.utils.parametrizations.{name}": wrapped(getattr(parametrizations, name))
       for name in ("orthogonal", "spectral_norm", "weight_norm")},
    "nn.utils.parametrize.register_parametrization": [registered],
    "nn.utils.parametrize.remove_parametrizations": [removed],
    "nn.utils.parametrize.transfer_parametrizations_and_params": [transferred],
    "nn.utils.parametrize.is_parametrized": [is_parametrized],
    "nn.utils.prune.l1_unstructured": [pruned(prune.l1_unstructured, "weight", 3)],
    "nn.utils.prune.ln_structured": [pruned(prune.ln_structured, "weight", 1, 2, 0)],
    "nn.utils.prune.LnStructured": [pruned_by(prune.LnStructured, 1, 2)],
    "nn.utils.prune.RandomStructured": [pruned_by(prune.RandomStructured, 1)],
    "nn.utils.prune.global_unstructured": [pruned_all],
    "nn.utils.rnn.pack_padded_sequence": [packed_in_order(), packed_in_order((2, 3))],
    "nn.utils.rnn.pack_sequence": [packed],
    "nn.utils.rnn.pad_packed_sequence": [unpacked],
    "nn.utils.rnn.pad_sequence": [lambda **named: rnn.pad_sequence(sequences(1, 2), **named)],
    "nn.utils.rnn.unpad_sequence": [unpadded],
    "nn.utils.rnn.PackedSequence": [a_packed_sequence],
    "nn.utils.fuse_conv_bn_eval": [fused], "nn.utils.fuse_conv_bn_weights": [fused_weights],
    **{f"nn.grad.conv{d}d_{of}": [gradient(f"conv{d}d_{of}", d)]
       for d in (1, 2, 3) for of in ("input", "weight")},
    "nn.Buffer": [registers], "nn.Parameter": [of_data],
    "nn.UninitializedBuffer": [parameter(nn.UninitializedBuffer)],
    "nn.UninitializedParameter": [parameter(nn.UninitializedParameter)],
    "nn.parallel.data_parallel": [parallel, parallel_by_name],
    "nn.parallel.parallel_apply": [applied],
    "nn.parallel.replicate": [replicated],
    "nn.parallel.gather": [
        lambda **named: nn.parallel.gather([rl.ones(2, 2), rl.ones(2, 2)], "cpu", **named)],
    "nn.parallel.scatter": [
        lambda **named: nn.parallel.scatter(rl.ones(2, 4), ["cpu", "cpu"], **named)],
    "nn.parallel.scatter_gather.scatter_kwargs": [
        lambda **named: nn.parallel.scatter_gather.scatter_kwargs(
            (rl.ones(2, 4),), {"x": rl.ones(4, 2)}, ["cpu", "cpu"], **named)],
    "optim.swa_utils.SWALR": [rates], "optim.swa_utils.AveragedModel": [averaged],
    "optim.swa_utils.get_ema_avg_fn": [averaging],
    "optim.swa_utils.get_ema_multi_avg_fn": [averaging_of_lists],
    "optim.swa_utils.update_bn": [updated],
    "utils.flop_counter.FlopCounterMode": [counted],
}  # fmt: skip

# Other values of an argument than those of booleans and numbers.
VALUES = {
    "name": ["other", "another"], "dim": [1, 0], "eps": [1e-3], "importance_scores": [SCORES, {}],
    "orthogonal_map": ["cayley"], "tensor_name": ["bias", "weight"],
    "total_length": [5], "padding_side": ["left"], "batch_sizes": [rl.tensor([3])],
    "sorted_indices": [rl.tensor([1, 0])], "unsorted_indices": [rl.tensor([1, 0])],
    "stride": [2], "padding": [1], "dilation": [2], "groups": [2], "data": [rl.zeros(3)],
    "device": ["meta"], "dtype": [rl.float64], "module_kwargs": [{"by": 3.0}],
    "device_ids": [["cpu"]], "output_device": ["cpu"], "kwargs_tup": [[{"by": 3.0}]],
    "devices": [["cpu", "cpu"]], "anneal_strategy": ["linear"], "anneal_epochs": [3],
    "last_epoch": [2], "avg_fn": [lambda average, value, count: value],
    "multi_avg_fn": [lambda averages, values, count: [a.fill_(9) for a in averages]],
    "mods": [nn.Linear(1, 1)], "custom_mapping": [{rl.ops.aten.linear: flops_of_linear}],
    "depth": [1],
}  # fmt: skip

SPACES = ("nn nn.utils nn.utils.rnn nn.utils.parametrizations nn.utils.parametrize nn.utils.prune "
          "nn.grad nn.parallel optim.swa_utils utils.flop_counter").split()  # fmt: skip
# Of test_arguments_in_python.py, and what holds what it is given.
ELSEWHERE = {
    "nn.LinearCrossEntropyOptions",
    *(f"nn.utils.{name}" for name in (
        "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
        "get_total_norm")),
}  # fmt: skip


@pytest.fixture(autouse=True)
def always():
    rl.set_warn_always(True)
    yield
    rl.set_warn_always(False)
    gc.collect()


@pytest.mark.parametrize("name", CASES)
def test_arguments(name):
    left = ignored(found(name), CASES[name], VALUES)
    assert set(left) == set(NO_EFFECT.get(name, {}))


@pytest.mark.parametrize("space", SPACES)
def test_each_is_called(space):
    known = [found(name) for name in [*CASES, *ELSEWHERE]]
    assert not {name for name, value in in_python(space).items() if value not in known}
