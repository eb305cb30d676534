"""What is given as an iterator, which can be read once, has the effect of the list.

`model.parameters()` is one, and the usual argument of half of these functions.
"""

import pytest

import rushlight
from rushlight import nn, optim
from rushlight.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)
from rushlight.utils import data


def parameters(with_gradients=False):
    made = [rushlight.tensor([1.0, 2.0], requires_grad=True) for _ in range(3)]
    for number, one in enumerate(made):
        if with_gradients:
            one.grad = rushlight.tensor([3.0, 4.0 + number])
    return made


def scalars(given):
    return [(one * one).sum() for one in given]


def gradients_of(given):
    return [one.grad for one in given]


def grad(as_given):
    made = parameters()
    return rushlight.autograd.grad(sum(scalars(made)), as_given(made))


def grad_of_several(as_given):
    made = parameters()
    weights = [rushlight.tensor(2.0)] * 3
    return rushlight.autograd.grad(as_given(scalars(made)), as_given(made), as_given(weights))


def grad_in_batches(as_given):
    made = parameters()
    weights = [rushlight.ones(2)] * 3
    return rushlight.autograd.grad(
        as_given(scalars(made)), as_given(made), as_given(weights), is_grads_batched=True
    )


def grad_with_zeros(as_given):
    made = parameters()
    return rushlight.autograd.grad(made[0].sum(), as_given(made), materialize_grads=True)


def backward(as_given):
    made = parameters()
    weights = as_given([rushlight.tensor(2.0)] * 3)
    rushlight.autograd.backward(as_given(scalars(made)), weights, inputs=as_given(made[:2]))
    return gradients_of(made)


def backward_of_a_tensor(as_given):
    made = parameters()
    sum(scalars(made)).backward(inputs=as_given(made[:2]))
    return gradients_of(made)


def hook_on_several(as_given):
    made, seen = parameters(), []
    rushlight.autograd.graph.register_multi_grad_hook(as_given(made), seen.extend)
    sum(scalars(made)).backward()
    return seen


def hook_on_any(as_given):
    made, seen = parameters(), []
    rushlight.autograd.graph.register_multi_grad_hook(as_given(made), seen.append, mode="any")
    sum(scalars(made)).backward()
    return seen


def clipped_by_norm(as_given):
    made = parameters(with_gradients=True)
    return [clip_grad_norm_(as_given(made), 1.0), *gradients_of(made)]


def clipped_one_by_one(as_given):
    made = parameters(with_gradients=True)
    norm = clip_grad_norm_(as_given(made), 1.0, error_if_nonfinite=True, foreach=False)
    return [norm, *gradients_of(made)]


def clipped_by_value(as_given):
    made = parameters(with_gradients=True)
    clip_grad_value_(as_given(made), 3.5)
    return gradients_of(made)


def clipped_with_norm(as_given):
    made = parameters(with_gradients=True)
    clip_grads_with_norm_(as_given(made), 1.0, rushlight.tensor(5.0))
    return gradients_of(made)


def total_norm(as_given):
    return get_total_norm(as_given(parameters()))


def vector(as_given):
    return parameters_to_vector(as_given(parameters()))


def from_vector(as_given):
    made = parameters()
    vector_to_parameters(rushlight.arange(6.0), as_given(made))
    return made


def optimizer(as_given):
    made = parameters(with_gradients=True)
    optim.AdamW(as_given(made), lr=0.5).step()
    return made


def optimizer_of_groups(as_given):
    made = parameters(with_gradients=True)
    groups = [{"params": as_given(made[:2])}, {"params": as_given(made[2:]), "lr": 0.25}]
    steps = optim.SGD(as_given(groups), lr=0.5)
    steps.step()
    return made


def optimizer_of_names(as_given):
    made = parameters(with_gradients=True)
    steps = optim.SGD(as_given([(str(i), one) for i, one in enumerate(made)]), lr=0.5)
    steps.step()
    return [made, steps.param_groups[0]["param_names"]]


def optimizer_of_a_later_group(as_given):
    made = parameters(with_gradients=True)
    steps = optim.SGD(made[:1], lr=0.5)
    steps.add_param_group({"params": as_given(made[1:])})
    steps.step()
    return made


def modules(as_given):
    layers = nn.ModuleList(as_given([nn.Linear(1, 2), nn.ReLU()]))
    layers.extend(as_given([nn.Linear(2, 3)]))
    named = nn.ModuleDict(as_given([("a", nn.ReLU())]))
    named.update(as_given([("b", nn.Tanh())]))
    return [str(layers), str(named), str(nn.Sequential().extend(as_given([nn.ReLU()])))]


def parameter_containers(as_given):
    held = nn.ParameterList(as_given(parameters()))
    held.extend(as_given(parameters()))
    named = nn.ParameterDict(as_given([("a", parameters()[0])]))
    return [list(held), sorted(named)]


def state(as_given):
    models = [nn.Linear(2, 2) for _ in range(2)]
    for number, model in enumerate(models):
        nn.init.constant_(model.weight, number)
        nn.init.zeros_(model.bias)
    held, _ = rushlight.func.stack_module_state(as_given(models))
    return [held["weight"], held["bias"]]


def averaged(as_given):
    model = nn.Sequential(nn.BatchNorm1d(2))
    optim.swa_utils.update_bn(as_given([rushlight.arange(6.0).view(3, 2)]), model)
    return model[0].running_mean


def datasets(as_given):
    joined = data.ConcatDataset(as_given([[1, 2], [3]]))
    return [
        list(joined),
        joined.cumulative_sizes,
        list(data.BatchSampler(as_given([0, 1]), 1, False)),
    ]


def transforms(as_given):
    chosen = rushlight.distributions.transforms
    transform = chosen.ComposeTransform(as_given([chosen.ExpTransform(), chosen.ExpTransform()]))
    return transform(rushlight.tensor([0.0, 1.0]))


def layers_of_a_checkpoint(as_given):
    x = rushlight.ones(2, requires_grad=True)
    layers = as_given([nn.Tanh(), nn.Sigmoid()])
    y = rushlight.utils.checkpoint.checkpoint_sequential(layers, 1, x, use_reentrant=False)
    y.sum().backward()
    return [y, x.grad]


FUNCTIONS = [
    grad, grad_of_several, grad_in_batches, grad_with_zeros, backward, backward_of_a_tensor,
    hook_on_several, hook_on_any, clipped_by_norm, clipped_one_by_one, clipped_by_value,
    clipped_with_norm, total_norm, vector, from_vector, optimizer, optimizer_of_groups,
    optimizer_of_names, optimizer_of_a_later_group, modules, parameter_containers, state, averaged,
    datasets, transforms, layers_of_a_checkpoint,
]  # fmt: skip


def flat(result):
    """A nested list as one of numbers and strings, to be compared."""
    if isinstance(result, (list, tuple)):
        return [part for one in result for part in [*flat(one), "end"]]
    if isinstance(result, rushlight.Tensor):
        return [tuple(result.shape), result.tolist()]
    return [result]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_an_iterator_is_read_once(function):
    expected = flat(function(list))
    assert len(expected) > 1
    assert flat(function(iter)) == expected
    assert flat(function(lambda given: (one for one in given))) == expected


def test_gradients_by_the_parameters_of_a_module():
    model = nn.Linear(2, 1)
    found = rushlight.autograd.grad(model(rushlight.ones(1, 2)).sum(), model.parameters())
    assert [tuple(one.shape) for one in found] == [(1, 2), (1,)]
    assert all(one.grad is None for one in model.parameters())


def test_functional_call_takes_dicts_alone():
    model, x = nn.Linear(2, 2), rushlight.ones(1, 2)
    weight = {"weight": rushlight.ones(2, 2)}
    with pytest.raises(ValueError, match="list or tuple of dicts, but got generator"):
        rushlight.func.functional_call(model, (one for one in [weight]), x)
    with pytest.raises(ValueError, match=r"\['weight'\] appeared in multiple dictionaries"):
        rushlight.func.functional_call(model, [weight, weight], x)
