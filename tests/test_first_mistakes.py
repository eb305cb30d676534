"""What first mistakes are told by: the call, the argument, and the line of the program."""

import ast
import functools
import sys
import warnings
from pathlib import Path

import pytest

import rushlight
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, Dataset

HERE = Path(__file__).name
ROOT = Path(rushlight.__file__).parent


def place_of_warning(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    (warning,) = caught
    return Path(warning.filename).name


@functools.wraps(F.mse_loss)
def by_a_wrapper(*args):
    return F.mse_loss(*args)


def softmax_by_a_wrapper(x):
    return eval("softmax(x, _stacklevel=4)", {"softmax": F.softmax, "x": x})  # of no file


def test_warnings_name_the_program_s_line():
    column, row = rushlight.rand(4, 1), rushlight.rand(4)
    parameter = nn.Parameter(rushlight.ones(2))
    schedule = rushlight.optim.lr_scheduler.StepLR(rushlight.optim.SGD([parameter], lr=0.1), 3)
    assert {
        place_of_warning(warns)
        for warns in (
            lambda: F.mse_loss(column, row),
            lambda: nn.MSELoss()(column, row),
            lambda: by_a_wrapper(column, row),
            lambda: nn.KLDivLoss()(column, column),
            lambda: F.softmax(column),
            lambda: nn.Softmax()(column),
            lambda: softmax_by_a_wrapper(column),
            lambda: list(DataLoader([1, 2], pin_memory=True)),
            lambda: nn.LSTM(2, 2, dropout=0.5),
            lambda: rushlight.std(rushlight.ones(1)),  # which the core warns of
            schedule.step,
        )
    } == {HERE}


def test_all_warnings_go_the_same_way():
    """`warn_program` finds the line; whoever counts frames is wrong as soon as one is added."""
    counts_itself = {"_ignored.py", "_dynamo/utils.py"}  # of which the latter takes a stacklevel
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"
    }
    assert found == counts_itself


LOSSES = "mse_loss l1_loss smooth_l1_loss huber_loss kl_div binary_cross_entropy_with_logits"


@pytest.mark.parametrize("name", LOSSES.split())
@pytest.mark.filterwarnings("ignore")
def test_losses_name_themselves(name):
    """Not the operation that computes their elements."""
    loss = getattr(F, name)
    for target in (rushlight.rand(3, 5), rushlight.rand(3, 4).to(rushlight.complex64)):
        try:
            loss(rushlight.rand(3, 4), target)
        except (RuntimeError, ValueError) as error:
            assert "elements" not in str(error).partition(":")[0]


def test_arguments_that_are_no_tensors():
    x = rushlight.rand(3, 4)
    for name in f"{LOSSES} soft_margin_loss poisson_nll_loss hinge_embedding_loss".split():
        with pytest.raises(TypeError, match=rf"{name}\(\): argument 'target' .* must be Tensor"):
            getattr(F, name)(x, [1, 2])
    with pytest.raises(TypeError, match=r"cosine_similarity\(\): argument 'x2' \(position 2\)"):
        F.cosine_similarity(x, [1.0])
    assert F.poisson_nll_loss(x, 1.0).dim() == 0  # a number is taken by what computes it


def test_sizes_that_do_not_fit_attention():
    query = rushlight.rand(2, 4, 8, 16)
    for key, value in (((9, 17), (9, 17)), ((9, 16), (8, 16))):
        with pytest.raises(RuntimeError, match="^scaled_dot_product_attention: Expected query"):
            F.scaled_dot_product_attention(query, rushlight.rand(key), rushlight.rand(value))


def test_stacking_from_two_devices():
    with pytest.raises(RuntimeError, match="^stack: .* tensor 0 is on cpu and tensor 1 on meta"):
        rushlight.stack([rushlight.ones(2), rushlight.ones(2, device="meta")])


def test_parameters_that_cannot_be_optimized():
    class Hidden(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(2, 2)]

    with pytest.raises(ValueError, match=r"empty parameter list; .* nn\.ModuleList"):
        rushlight.optim.SGD(Hidden().parameters(), lr=0.1)
    leaf = rushlight.ones(2, requires_grad=True)
    with pytest.raises(
        ValueError, match="non-leaf Tensor: parameter 1 is a result of MulBackward0"
    ):
        rushlight.optim.SGD([leaf, leaf * 2], lr=0.1)


class Samples(Dataset):
    def __init__(self):
        self.steps = {"scale": [abs, lambda x: 2 * x]}

    def __len__(self):
        return 2

    def __getitem__(self, i):
        return i


@pytest.mark.skipif(sys.version_info < (3, 11), reason="errors have notes from 3.11 on")
def test_what_cannot_be_pickled_is_found(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].scale = lambda x: 2 * x
    with pytest.raises(Exception) as caught:
        rushlight.save({"epoch": 1, "model": model}, tmp_path / "model.pt")
    (note,) = caught.value.__notes__
    assert note.startswith("save: obj['model'].1.scale is test_what_cannot_be_pickled_is_found")
    assert not (tmp_path / "model.pt").exists()
    with pytest.raises(Exception) as caught:
        iter(DataLoader(Samples(), num_workers=1, multiprocessing_context="spawn"))
    (note,) = caught.value.__notes__
    assert note.startswith("DataLoader: dataset.steps['scale'][1] is Samples.__init__.<locals>")


def test_the_library_warns_of_nothing_of_its_own_making():
    x = rushlight.ones(2, requires_grad=True)
    optimizer = rushlight.optim.LBFGS([x], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = (x - 3).square().sum()
        loss.backward()
        return loss

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step(closure)
    assert x.detach().allclose(rushlight.tensor(3.0))
