"""`utils.benchmark`'s fuzzer, and what knows the modules that run."""

import pytest

import rushlight as torch
from rushlight.utils.benchmark import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
from rushlight.utils.module_tracker import ModuleTracker

nn = torch.nn


def fuzzer(seed=3, **limits):
    return Fuzzer(
        [
            FuzzedParameter("n", minval=1, maxval=100, distribution="loguniform"),
            FuzzedParameter("m", distribution={ParameterAlias("n"): 0.5, 3: 0.5}),
            [FuzzedParameter("step", distribution={1: 0.5, 2: 0.5}),
             FuzzedParameter("scale", minval=0.5, maxval=2.0, distribution="uniform")],
        ],
        [
            FuzzedTensor("x", ("n", "m"), ("step", 1), **limits),
            FuzzedTensor("i", ("n",), dtype=torch.int32, probability_contiguous=1.0),
        ],
        constraints=[lambda params: params["n"] != params["m"] + 1],
        seed=seed,
    )  # fmt: skip


def test_tensors_of_random_sizes_and_strides():
    drawn = list(fuzzer(min_elements=16, max_elements=4000).take(60))
    for tensors, known, params in drawn:
        x, i = tensors["x"], tensors["i"]
        assert x.shape == (params["n"], params["m"]) and i.dtype is torch.int32
        assert 16 <= x.numel() <= 4000 and params["n"] != params["m"] + 1
        assert params["m"] in (3, params["n"]) and 0.5 <= params["scale"] <= 2
        assert known["x"]["steps"] == (params["step"], 1) and known["x"]["numel"] == x.numel()
        assert known["x"]["is_contiguous"] == x.is_contiguous() and 0 <= x.min() <= x.max() < 1
        order = known["x"]["order"]
        strides = [x.stride()[d] for d in order]
        assert strides == sorted(strides, reverse=True) or 1 in x.shape
        assert i.is_contiguous() and 1 <= i.min() <= i.max() < 127
    assert {known["x"]["order"] for _, known, _ in drawn} == {(0, 1), (1, 0)}
    assert len({params["n"] for _, _, params in drawn}) > 10


def test_the_seed_says_what_is_drawn():
    one, again, other = (list(fuzzer(seed).take(5)) for seed in (1, 1, 2))
    assert [p for _, _, p in one] == [p for _, _, p in again] != [p for _, _, p in other]
    assert all(torch.equal(a["x"], b["x"]) for (a, _, _), (b, _, _) in zip(one, again))


def test_impossible_constraints_are_errors():
    made = Fuzzer(
        [FuzzedParameter("n", 1, 4, "uniform")], [FuzzedTensor("x", ("n",), min_elements=9)]
    )
    with pytest.raises(ValueError, match="none of 1000 sets"):
        next(iter(made.take(1)))
    assert made.rejection_rate == 1.0
    for arguments in (("n", 1, 4), ("n", None, 4, "uniform"), ("n", 0, 4, "loguniform"),
                      ("n", 4, 1, "uniform"), ("n", None, None, {1: 0.5})):  # fmt: skip
        with pytest.raises(ValueError, match="FuzzedParameter n"):
            FuzzedParameter(*arguments)
    with pytest.raises(ValueError, match="called \\['n'\\]"):
        Fuzzer([FuzzedParameter("n", 1, 4, "uniform")], [FuzzedTensor("n", (1,))])
    loop = {"a": "b", "b": "a"}
    parameters = [
        FuzzedParameter(k, distribution={ParameterAlias(v): 1.0}) for k, v in loop.items()
    ]
    with pytest.raises(ValueError, match="has no value"):
        next(iter(Fuzzer(parameters, []).take(1)))


def test_parts_of_a_tensor_by_dims_and_places():
    made = Fuzzer(
        [
            FuzzedParameter("dim", distribution={2: 1.0}),
            FuzzedParameter("roll", distribution={1: 1.0}),
        ],
        [FuzzedTensor("x", (2, 3, 4), dim_parameter="dim", roll_parameter="roll")],
    )
    assert [t["x"].shape for t, _, _ in made.take(1)] == [(3, 2)]


class Noted(nn.Module):
    def __init__(self, tracker, notes):
        super().__init__()
        self.tracker, self.notes = tracker, notes

    def forward(self, x):
        self.notes.append((sorted(self.tracker.parents), self.tracker.is_bw))
        y = x * 2
        y.register_hook(self.note_gradient)
        return y + 1

    def note_gradient(self, gradient):
        self.notes.append((sorted(self.tracker.parents), self.tracker.is_bw))


def test_modules_that_run():
    tracker, notes = ModuleTracker(), []
    net = nn.Sequential(nn.Linear(2, 2), nn.Sequential(Noted(tracker, notes)))
    with tracker:
        y = net(torch.ones(1, 2))
        assert tracker.parents == {"Global"}
        y.sum().backward()
    inside = ["Global", "Sequential", "Sequential.1", "Sequential.1.0"]
    assert notes == [(inside, False), (inside, True)]
    assert tracker.parents == {"Global"}
    notes.clear()
    net(torch.ones(1, 2))
    assert notes == [(["Global"], False)]  # nothing is followed outside


def test_modules_named_though_their_container_is_not_called():
    tracker, notes = ModuleTracker(), []
    net = nn.Module()
    net.parts = nn.ModuleList([Noted(tracker, notes)])
    net.forward = lambda x: net.parts[0](x)
    with tracker:
        net(torch.ones(1, 2, requires_grad=True)).sum().backward()
        assert tracker.parents == {"Global"} and not tracker.is_bw
    inside = ["Global", "Module", "Module.parts.0"]
    assert notes == [(inside, False), (inside, True)]


def test_no_module_runs_when_backward_has_ended():
    with ModuleTracker() as tracker:
        # No tensor's gradient tells that the backward pass of a module without inputs ended.
        nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
        assert tracker.parents == {"Global"} and not tracker.is_bw


def test_a_strict_parameter_is_drawn_once_for_each_set():
    made = Fuzzer(
        [
            FuzzedParameter("few", distribution={True: 0.5, False: 0.5}, strict=True),
            FuzzedParameter("n", 1, 100, "uniform"),
        ],
        [],
        constraints=[lambda params: params["n"] <= (3 if params["few"] else 100)],
        seed=0,
    )
    few = [params["few"] for _, _, params in made.take(200)]
    assert 80 < sum(few) < 120 and made.rejection_rate > 0.5


@pytest.mark.torch
def test_the_numbers_are_those_of_torch():
    other = pytest.importorskip("torch")
    import torch.utils.benchmark as theirs

    def draw(lib, library):
        made = lib.Fuzzer(
            [
                lib.FuzzedParameter("n", minval=1, maxval=16, distribution="loguniform"),
                lib.FuzzedParameter("m", minval=1, maxval=9, distribution="uniform"),
                lib.FuzzedParameter("scale", minval=0.5, maxval=2.0, distribution="uniform"),
            ],
            [lib.FuzzedTensor("x", size=("n",)), lib.FuzzedTensor("y", size=("n", "m"))],
            constraints=[lambda params: params["n"] != 2],
            seed=5,
        )
        return [
            (tensors["x"].tolist(), tensors["y"].tolist(), tensors["y"].stride(), params)
            for tensors, _, params in made.take(20)
        ]

    from rushlight.utils import benchmark as ours

    assert draw(ours, torch) == draw(theirs, other)
