"""The NaN trap: what is not finite is reported at the line that made it."""

import math
import threading

import numpy as np
import pytest

import rushlight
from rushlight import debug, nn
from rushlight.autograd import detect_anomaly
from rushlight.utils.data import DataLoader, Dataset


def line_of(function, offset):
    """What an error says of a line of a function."""
    return f"line {function.__code__.co_firstlineno + offset} of {__file__}"


def trapped(program, *words):
    """The error that a program raises in the trap; the trap is off afterwards."""
    with pytest.raises(RuntimeError) as caught, debug.trap_nan():
        program()
    text = str(caught.value)
    for word in words:
        assert word in text, f"{word!r} is not in\n{text}"
    (rushlight.zeros(2) / 0).sum()  # nobody looks any more
    return text


def test_forward():
    x = rushlight.tensor([[1.0, 4.0], [9.0, -1.0]])

    def program():
        y = x * 2
        return y.sqrt()

    text = trapped(
        program, "sqrt: the result is not finite: 1 nan of 4 elements, the first at [1, 1]",
        line_of(program, 2), "input: float32 [2, 2]: from -2 to 18, mean 6.5",
    )  # fmt: skip
    assert "carried it" not in text
    assert f"mul on {line_of(program, 1)}, in program: largest magnitude 18" in text


def test_infinity():
    x = rushlight.tensor([0.0, 1.0])
    text = trapped(lambda: x.log(), "log: the result is not finite: 1 inf of 2 elements")
    assert "from 0 to 1" in text
    with debug.trap_nan(infinity=False):
        assert x.log()[0] == -math.inf


def test_what_the_program_asks_for_is_no_error():
    scores, mask = rushlight.randn(3, 3), rushlight.ones(3, 3).tril() == 0
    with debug.trap_nan():
        masked = scores.masked_fill(mask, -math.inf)
        weights = masked.softmax(-1)
        assert weights.isfinite().all()
        hidden = rushlight.full((2,), math.nan)
        assert rushlight.where(hidden.isnan(), rushlight.zeros(2), rushlight.ones(2)).sum() == 0
        rushlight.empty(1000), rushlight.empty_like(scores)
        assert (masked + 1).max().isfinite() and hidden.nan_to_num().sum() == 0
        ignored = rushlight.full((3,), -100)
        nn.functional.cross_entropy(scores, rushlight.tensor([0, 2, -100])), ignored


def test_an_input_that_carried_it_is_named():
    bad = rushlight.ones(2, 3)
    bad[1, 2] = math.nan
    good = rushlight.ones(2, 3)
    text = trapped(lambda: good + bad, "add: ", "1 nan; the others from 1 to 1")
    (line,) = (line for line in text.splitlines() if "carried it" in line)
    assert line.strip().startswith("other: ")


def test_in_place():
    x = rushlight.tensor([1.0, 0.0])

    def program():
        y = x.clone()
        y.div_(rushlight.zeros(2))

    trapped(program, "div_: ", "1 nan, 1 inf of 2", line_of(program, 2), "changed in place")


def test_backward():
    x = rushlight.tensor([0.0, 1.0], requires_grad=True)

    def program():
        y = x.sqrt()
        y.sum().backward()

    trapped(
        program, "SqrtBackward0: the gradient of input 0 is not finite: 1 inf of 2",
        f"it belongs to sqrt on {line_of(program, 1)}",
        "the gradient that came for output 0: largest magnitude 1",
        "it saved result: float32 [2]: from 0 to 1",
    )  # fmt: skip


def test_rows_that_are_added_up():
    """A table whose rows are looked at instead of itself, unless their sum may overflow."""
    table, places = rushlight.ones(500, 4, requires_grad=True), rushlight.tensor([3, 3, 7])
    with debug.trap_nan():
        (nn.functional.embedding(places, table) * 1e30).sum().backward()
        (nn.functional.embedding(places, table) * 2).sum().backward()
    assert table.grad[3].isfinite().all() and table.grad[3, 0] > 1e30

    def program():
        rows = nn.functional.embedding(places, table)
        rows.backward(rushlight.full_like(rows, 3e38))

    trapped(
        program, "EmbeddingBackward0: the gradient of input 0 is not finite: 4 inf of 2000",
        "the first at [3, 0]", line_of(program, 1),
    )  # fmt: skip


class Broken(rushlight.autograd.Function):
    @staticmethod
    def forward(ctx, x, place):
        if place == "outside":
            return rushlight.from_numpy(np.log(x.detach().numpy() - 2))
        return (x - 2).log() if place == "forward" else x * 2

    @staticmethod
    def backward(ctx, grad):
        zero = grad - grad
        return zero / zero, None


def test_custom_functions():
    x = rushlight.ones(3, requires_grad=True)
    trapped(lambda: Broken.apply(x, "forward"), "log: ", line_of(Broken.forward, 4))
    with np.errstate(all="ignore"):
        trapped(lambda: Broken.apply(x, "outside"), "Broken: the result is not finite: 3 nan")
    trapped(
        lambda: Broken.apply(x, "backward").sum().backward(),
        "div: ", "3 nan of 3", line_of(Broken.backward, 3),
    )  # fmt: skip


class Damaged(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return rushlight.full((2,), math.nan if i == 3 else 1.0)


@pytest.mark.parametrize("workers", [0, 1])
def test_batches(workers):
    loader = DataLoader(Damaged(), batch_size=2, num_workers=workers)

    def program():
        for batch in loader:
            batch * 2

    text = trapped(program, "stack: ", "2 nan of 4", line_of(Damaged.__getitem__, 1))
    if workers == 0:
        assert line_of(program, 1) in text


def test_batches_of_workers_that_began_before():
    loader = DataLoader(Damaged(), batch_size=2, num_workers=1, persistent_workers=True)
    list(loader)

    def program():
        for batch in loader:
            batch * 2

    trapped(program, "DataLoader: the batch: not finite: float32 [2, 2]", line_of(program, 1))


def test_the_module_is_named():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

        def forward(self, x):
            return self.inner[1](self.inner[0](x))

    model = nn.Sequential(Block(), nn.Softplus())
    with rushlight.no_grad():
        model[0].inner[1].weight.fill_(1e30)
    x = rushlight.full((1, 2), 1e30)
    text = trapped(lambda: model(x), "linear", "module 0.inner.1", "How it came about")
    assert "module 0.inner.0" in text


def test_the_chain_leads_back_to_the_first_large_value():
    def program():
        a = rushlight.full((2,), 40.0)
        b = a.exp()
        c = b * b
        return c - c * c

    text = trapped(program, "mul: ")
    chain = text[text.index("How it came about") :].splitlines()[1:]
    assert "mul on" in chain[0] and "exp on" in chain[1] and "full" in chain[2]
    assert "largest magnitude 40" in chain[2] and len(chain) == 3


def test_backward_of_a_module_names_it():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    x = rushlight.ones(1, 2)

    def program():
        y = model(x).sum() * 0
        y.sqrt().backward()

    trapped(program, "SqrtBackward0", line_of(program, 2))


def test_other_threads_are_watched():
    errors = []

    def work():
        try:
            rushlight.zeros(2).log()
        except RuntimeError as error:
            errors.append(str(error))

    with debug.trap_nan():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(errors) == 1 and "log: the result is not finite" in errors[0]


def test_traps_inside_each_other_and_as_decorator():
    @debug.trap_nan()
    def work(x):
        return x.log()

    zero = rushlight.zeros(1)
    with debug.trap_nan():
        with pytest.raises(RuntimeError, match="log"):
            work(zero)
        with pytest.raises(RuntimeError, match="log"):
            zero.log()
    assert zero.log().item() == -math.inf


def test_half_double_and_complex():
    for dtype in (rushlight.float16, rushlight.bfloat16, rushlight.float64, rushlight.complex64):
        x = rushlight.tensor([1.0, 0.0], dtype=dtype)
        trapped(lambda x=x: x / (x - x), "div: ", "not finite")
        with debug.trap_nan():
            assert (x * 3).sum() == 3
            assert x[::2].sum() == 1 and x.expand(5, 2).mul(2).numel() == 10


def test_anomaly_mode_raises_where_torch_does():
    x = rushlight.tensor([-1.0, 1.0], requires_grad=True)
    with pytest.warns(UserWarning), detect_anomaly():
        y = x.sqrt()  # NaN in forward is left to the program
        with pytest.raises(RuntimeError, match=r"SqrtBackward0' returned nan values in its 0th"):
            y.sum().backward()


def test_descriptions():
    assert debug.describe(rushlight.tensor([1.0, math.nan, 3.0, math.inf])) == (
        "float32 [4]: 1 nan, 1 inf; the others from 1 to 3, mean 2"
    )
    assert debug.describe(rushlight.zeros(0)) == "float32 [0]: no elements"
    with pytest.raises(TypeError, match="expected a Tensor, got int"):
        debug.describe(1)


def test_only_what_has_elements_is_described():
    with pytest.raises(RuntimeError, match="on the CPU, got one of shape"):
        debug.describe(rushlight.empty(3, device="meta"))
