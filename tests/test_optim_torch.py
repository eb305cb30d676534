"""optim beside torch.optim: what optimizers and schedulers do to parameters and to their state."""

import inspect
import warnings

import pytest

torch = pytest.importorskip("torch")

import optimizers  # noqa: E402

import rushlight  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

LIBRARIES = (rushlight, torch)
NAMES = [
    name
    for name, member in vars(torch.optim).items()
    if isinstance(member, type) and name != "Optimizer"
]
CASES = [
    pytest.param(name, options, id=f"{name}-{i}")
    for name in optimizers.OPTIONS
    for i, options in enumerate(optimizers.combinations(name))
]


def signature_of(cls):
    return [(p.name, p.kind, p.default) for p in inspect.signature(cls).parameters.values()]


def test_every_optimizer_has_a_case():
    assert set(optimizers.OPTIONS) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name):
    assert signature_of(getattr(rushlight.optim, name)) == signature_of(getattr(torch.optim, name))


BASE = torch.optim.lr_scheduler.LRScheduler
SCHEDULERS = [
    name
    for name, member in vars(torch.optim.lr_scheduler).items()
    if isinstance(member, type) and issubclass(member, BASE)
]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_scheduler_signatures(name):
    ours, theirs = (getattr(library.optim.lr_scheduler, name) for library in LIBRARIES)
    assert signature_of(ours) == signature_of(theirs)


def tensors_of(state):
    """The numbers in nested state, with the path to each."""
    if isinstance(state, dict):
        for key, value in sorted(state.items(), key=str):
            yield from ((f"{key}.{path}", v) for path, v in tensors_of(value))
    elif isinstance(state, (list, tuple)):
        for key, value in enumerate(state):
            yield from ((f"{key}.{path}", v) for path, v in tensors_of(value))
    elif isinstance(state, (rushlight.Tensor, torch.Tensor)):
        yield str(state.dtype).split(".")[1], state.detach().double().tolist()
    else:
        yield type(state).__name__, state


def check_state(ours, theirs, tolerance=1e-5):
    ours, theirs = list(tensors_of(ours)), list(tensors_of(theirs))
    assert [path for path, _ in ours] == [path for path, _ in theirs]
    for (path, mine), (_, other) in zip(ours, theirs):
        if isinstance(mine, (float, list)):
            mine, other = (rushlight.tensor(v, dtype=rushlight.float64) for v in (mine, other))
            assert rushlight.allclose(mine, other, tolerance, tolerance, equal_nan=True), path
        else:
            assert mine == other, path


def train(library, name, options, steps=6):
    """Parameters and state after some steps; or the kind of error that the options raise."""
    params, set_gradients = optimizers.parameters(library, name)
    try:
        optimizer = optimizers.make(library, name, options, params)
    except ValueError as error:
        return type(error).__name__
    for _ in range(steps):
        optimizers.step(name, optimizer, params, set_gradients)
    return [p.detach() for p in params], optimizer.state_dict(), repr(optimizer)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_steps(name, options):
    ours, theirs = (train(library, name, options) for library in LIBRARIES)
    assert isinstance(ours, str) == isinstance(theirs, str), (ours, theirs)
    if not isinstance(ours, str):
        # Muon computes in bfloat16.
        tolerance = 2e-2 if name == "Muon" else 1e-4 if name == "LBFGS" else 1e-5
        check_state(ours[0], theirs[0], tolerance)
        check_state(ours[1], theirs[1], tolerance)
        assert ours[2] == theirs[2]


FLAGS = [
    (name, flag, value)
    for name in NAMES
    for flag in ("foreach", "fused")
    for value in (True, False)
    if flag in inspect.signature(getattr(torch.optim, name)).parameters
]


@pytest.mark.parametrize(("name", "flag", "value"), FLAGS)
def test_ways_to_run(name, flag, value):
    options = {key: values[-1] for key, values in optimizers.OPTIONS[name].items()}
    if name == "SGD":
        options["dampening"] = 0
    ours, theirs = (train(library, name, {**options, flag: value}) for library in LIBRARIES)
    check_state(ours[0], theirs[0])
    check_state(ours[1], theirs[1])


# torch's own rule changes in place what backward needs, for Adamax and Rprop.
DIFFERENTIABLE = [
    name
    for name in NAMES
    if "differentiable" in inspect.signature(getattr(torch.optim, name)).parameters
    and name not in ("Adamax", "Rprop")
]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_through_steps(name):
    results = []
    for library in LIBRARIES:
        library.manual_seed(2)
        start, grad = (library.rand(3, dtype=library.float64).requires_grad_() for _ in range(2))
        param = start.clone()
        optimizer = getattr(library.optim, name)([param], lr=0.1, differentiable=True)
        for step in range(1, 4):
            param.grad = grad * step
            optimizer.step()
        results.append([g.tolist() for g in library.autograd.grad(param.sum(), [start, grad])])
        param.grad = None
        del optimizer
    check_state(*results, 1e-7)


@pytest.mark.parametrize("text", optimizers.SCHEDULERS)
def test_schedulers(text):
    histories = []
    for library in LIBRARIES:
        optimizer, scheduler = optimizers.make_scheduler(library, text)
        history = []
        for epoch in range(20):
            optimizer.step()
            scheduler.step(*[(5.0, 4, 4, 4, 4, 3, 3, 3, 7, 7)[epoch % 10]] * ("Plateau" in text))
            momenta = [group["momentum"] for group in optimizer.param_groups]
            rates = [group["lr"] for group in optimizer.param_groups]
            history.append([rates, momenta, scheduler.get_last_lr()])
        groups = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
        state = {
            key: value
            for key, value in scheduler.state_dict().items()
            if not callable(value) and "anneal" not in key and "scale_fn" not in key
        }
        histories.append([history, groups, state])
    check_state(*histories, 1e-12)


def test_warnings_of_order():
    """A scheduler that steps before its optimizer says so."""
    for library in LIBRARIES:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            optimizer, scheduler = optimizers.make_scheduler(library, "s.StepLR(o, 3)")
            scheduler.step()
            scheduler.step(4)
        assert [w.category for w in caught] == [UserWarning, UserWarning]


@pytest.mark.parametrize(
    "name",
    [name for name in NAMES if "fused" in inspect.signature(getattr(torch.optim, name)).parameters],
)
@pytest.mark.parametrize("other", ["foreach", "differentiable"])
def test_fused_goes_without_other_ways_to_run(name, other):
    for library in LIBRARIES:
        parameter = library.zeros(2, requires_grad=True)
        with pytest.raises(RuntimeError, match=f"fused.*{other}"):
            getattr(library.optim, name)([parameter], fused=True, **{other: True})


def test_schedules_copy_the_tensors_they_are_given():
    for library in LIBRARIES:
        bounds = [library.tensor(v) for v in (0.1, 0.2, 0.8, 0.9)]
        optimizer = library.optim.SGD([library.zeros(1, requires_grad=True)], lr=0.1)
        low, high, base, most = bounds
        scheduler = library.optim.lr_scheduler.CyclicLR(
            optimizer, low, high, base_momentum=base, max_momentum=most
        )
        for bound in bounds:
            bound.mul_(0.5)
        (group,) = optimizer.param_groups
        assert scheduler.max_lrs[0].item() == pytest.approx(0.2)
        assert group["max_momentum"].item() == pytest.approx(0.9)


def test_one_cycle_takes_the_state_of_older_versions():
    for library in LIBRARIES:
        optimizer = library.optim.SGD([library.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
        kind = library.optim.lr_scheduler.OneCycleLR
        scheduler = kind(optimizer, 1.0, total_steps=10)
        state = scheduler.state_dict()
        del scheduler._anneal_func_type, state["_anneal_func_type"]
        scheduler.load_state_dict({**state, "anneal_func": kind._annealing_linear})
        optimizer.step()
        scheduler.step()
        assert scheduler.get_last_lr() == [pytest.approx(0.04 + (1 - 0.04) / 2)]


def test_line_search_where_losses_do_not_change():
    for library in LIBRARIES:
        x = library.zeros(2, requires_grad=True)
        optimizer = library.optim.LBFGS([x], line_search_fn="strong_wolfe", tolerance_grad=-1)

        def closure(x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (x * 0).sum()
            loss.backward()
            return loss

        assert optimizer.step(closure).item() == 0


def test_gradients_of_nadam_reach_its_product():
    grads = []
    for library in LIBRARIES:
        product = library.tensor(0.5, dtype=library.float64, requires_grad=True)
        parameter = library.ones(3, dtype=library.float64, requires_grad=True).clone()
        parameter.grad = library.full((3,), 2.0, dtype=library.float64)
        optimizer = library.optim.NAdam([parameter], lr=0.9, differentiable=True)
        optimizer.state[parameter].update(
            step=library.tensor(3.0), mu_product=product.clone(),
            exp_avg=library.ones(3).double(), exp_avg_sq=library.ones(3).double(),
        )  # fmt: skip
        optimizer.step()
        (grad,) = library.autograd.grad(parameter.sum(), product)
        grads.append(grad.item())
    assert grads[0] == pytest.approx(grads[1]) and grads[0] != 0


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_fused_wants_real_parameters_on_a_device(name):
    for library in LIBRARIES:
        parameter = library.ones(2, device="meta", requires_grad=True)
        parameter.grad = library.ones(2, device="meta")
        optimizer = getattr(library.optim, name)([parameter], lr=0.1, fused=True)
        with pytest.raises(RuntimeError, match="`fused=True` requires"):
            optimizer.step()


def test_adafactor_takes_counts_of_older_files():
    for library in LIBRARIES:
        parameter = library.ones(2, requires_grad=True)
        parameter.grad = library.ones(2)
        optimizer = library.optim.Adafactor([parameter])
        optimizer.step()
        state = optimizer.state_dict()
        state["state"][0]["step"] = 1.0
        optimizer.load_state_dict(state)
        optimizer.step()
        assert optimizer.state[parameter]["step"].item() == 2


def test_a_learning_rate_is_one_number():
    for library in LIBRARIES:
        with pytest.raises(ValueError, match="1-element"):
            library.optim.SparseAdam(
                [library.zeros(2, requires_grad=True)], lr=library.tensor([0.1, 0.2])
            )


@pytest.mark.parametrize("max_eval", [3, 6, 25])
@pytest.mark.parametrize("power", [1, 1.5])
def test_a_line_search_ends_where_torchs_does(max_eval, power):
    """Its evaluations are among those that a step may make; kinks make it long."""

    def losses(library):
        x = library.tensor([0.3, -2.0, 5.0], dtype=library.float64, requires_grad=True)
        optimizer = library.optim.LBFGS(
            [x], lr=0.3, max_iter=4, max_eval=max_eval, line_search_fn="strong_wolfe"
        )
        seen = []

        def closure():
            optimizer.zero_grad()
            loss = ((x * library.tensor([1.0, 3.0, 0.2])).abs() ** power).sum() + x[0] * x[1] / 9
            loss.backward()
            seen.append(float(loss.detach()))
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return seen

    assert losses(rushlight) == pytest.approx(losses(torch), rel=1e-9)
