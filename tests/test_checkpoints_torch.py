"""Checkpoints of modules, optimizers, schedulers and generators, to torch and back, to the bit."""

import io
import warnings

import pytest

torch = pytest.importorskip("torch")

import modules  # noqa: E402
import optimizers  # noqa: E402

import rushlight  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

DIRECTIONS = [
    pytest.param(rushlight, torch, id="to-torch"),
    pytest.param(torch, rushlight, id="from-torch"),
]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    STATEFUL = [
        text
        for text, _ in modules.CASES
        if "Lazy" not in text and modules.make(torch, text).state_dict()
    ]


def through_file(obj, writer, reader):
    stream = io.BytesIO()
    writer.save(obj, stream)
    stream.seek(0)
    return reader.load(stream)


def bits(value):
    """Nested state in which every tensor is its dtype, shape and bytes."""
    if isinstance(value, (rushlight.Tensor, torch.Tensor)):
        return str(value.dtype), tuple(value.shape), value.detach().numpy().tobytes()
    if isinstance(value, dict):
        return {key: bits(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [bits(part) for part in value]
    return value


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
@pytest.mark.parametrize("text", STATEFUL)
def test_modules(writer, reader, text):
    source = modules.make(writer, text)
    reader.manual_seed(99)
    target = modules.make(reader, text)
    with reader.no_grad():
        for tensor in target.state_dict().values():
            if isinstance(tensor, reader.Tensor):
                tensor.zero_()
    loaded = through_file(source.state_dict(), writer, reader)
    assert str(target.load_state_dict(loaded)) == "<All keys matched successfully>"
    assert loaded._metadata == source.state_dict()._metadata
    assert bits(target.state_dict()) == bits(source.state_dict())
    assert bits(through_file(target.state_dict(), reader, writer)) == bits(source.state_dict())


def trained(library, name, options, state=None, parameters=None, steps=3):
    """(parameters, optimizer) after some steps from the start or from a given state."""
    params, set_gradients = optimizers.parameters(library, name)
    optimizer = optimizers.make(library, name, options, params)
    if state is not None:
        optimizer.load_state_dict(state)
        with library.no_grad():
            for param, value in zip(params, parameters):
                param.copy_(value)
        library.manual_seed(7)
    for _ in range(steps):
        optimizers.step(name, optimizer, params, set_gradients)
    return params, optimizer


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
@pytest.mark.parametrize("name", list(optimizers.OPTIONS))
def test_optimizers(writer, reader, name):
    for options in optimizers.combinations(name)[:2] + optimizers.combinations(name)[-2:]:
        if options.get("nesterov") and options.get("dampening"):
            continue
        params, source = trained(writer, name, options)
        state = {"optimizer": source.state_dict(), "params": [p.detach() for p in params]}
        loaded = through_file(state, writer, reader)
        _, target = trained(reader, name, options, loaded["optimizer"], loaded["params"], steps=0)
        assert bits(target.state_dict()) == bits(state["optimizer"])
        back = through_file(target.state_dict(), reader, writer)
        assert bits(back) == bits(state["optimizer"])
        # Both go on alike.
        states = [through_file(state, writer, library) for library in (rushlight, torch)]
        ours = trained(rushlight, name, options, *states[0].values())
        theirs = trained(torch, name, options, *states[1].values())
        for mine, other in zip(ours[0], theirs[0]):
            other = rushlight.from_numpy(other.detach().numpy())
            tolerance = 2e-2 if name == "Muon" else 1e-5  # Muon computes in bfloat16
            rushlight.testing.assert_close(mine.detach(), other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
@pytest.mark.parametrize("text", optimizers.SCHEDULERS)
def test_schedulers(writer, reader, text):
    def go_on(optimizer, scheduler, steps):
        for epoch in range(steps):
            optimizer.step()
            scheduler.step(*[float(epoch % 4)] * ("Plateau" in text))
        return [group["lr"] for group in optimizer.param_groups]

    optimizer, scheduler = optimizers.make_scheduler(writer, text)
    go_on(optimizer, scheduler, 5)
    state = {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}
    loaded = through_file(state, writer, reader)
    assert bits(loaded) == bits(state)
    target, resumed = optimizers.make_scheduler(reader, text)
    target.load_state_dict(loaded["optimizer"])
    resumed.load_state_dict(loaded["scheduler"])
    assert bits(resumed.state_dict()) == bits(state["scheduler"])
    assert bits(through_file(resumed.state_dict(), reader, writer)) == bits(state["scheduler"])
    assert go_on(target, resumed, 6) == pytest.approx(go_on(optimizer, scheduler, 6), rel=1e-12)


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
def test_random_numbers_go_on(writer, reader):
    writer.manual_seed(5)
    writer.randn(7)
    reader.set_rng_state(through_file(writer.get_rng_state(), writer, reader))
    for draw in ("randn(5)", "rand(3)", "randperm(9)", "randn(40)", "randint(10, (4,))"):
        ours, theirs = (eval(f"library.{draw}", {"library": lib}) for lib in (writer, reader))
        assert bits(ours)[1:] == bits(theirs)[1:]
    generators = [library.Generator().manual_seed(3) for library in (writer, reader)]
    writer.rand(5, generator=generators[0])
    generators[1].set_state(through_file(generators[0].get_state(), writer, reader))
    drawn = [lib.rand(5, generator=g) for lib, g in zip((writer, reader), generators)]
    assert bits(drawn[0])[1:] == bits(drawn[1])[1:]


@pytest.mark.parametrize(("writer", "reader"), DIRECTIONS)
def test_averaged_models_and_scalers(writer, reader):
    models = {}
    for library in (writer, reader):
        library.manual_seed(4 if library is writer else 5)
        average = library.optim.swa_utils.AveragedModel(library.nn.Linear(3, 2))
        scaler = library.amp.GradScaler("cpu")
        models[library] = average, scaler
    models[writer][0].update_parameters(writer.nn.Linear(3, 2))
    state = [part.state_dict() for part in models[writer]]
    for part, loaded in zip(models[reader], through_file(state, writer, reader)):
        part.load_state_dict(loaded)
    assert bits([part.state_dict() for part in models[reader]]) == bits(state)
