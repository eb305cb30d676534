"""What torch warns of: the same category here. Words are our own."""

import warnings

import numpy
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
rl.utils.checkpoint, rl.cpu.amp  # noqa: B018

pytestmark = pytest.mark.torch


def read_only():
    array = numpy.ones(2)
    array.flags.writeable = False
    return array


def scheduled(T, then):
    optimizer = T.optim.SGD([T.nn.Parameter(T.ones(1))], lr=1.0)
    then(T.optim.lr_scheduler.StepLR(optimizer, 1), optimizer)


def hooked(T):
    module = T.nn.Sequential(T.nn.Tanh(), T.nn.Tanh())
    module.register_backward_hook(lambda *arguments: None)
    module(T.ones(2, requires_grad=True))


PROGRAMS = {
    "out that is resized": lambda T: T.add(T.ones(3), T.ones(3), out=T.ones(2)),
    "out without elements": lambda T: T.add(T.ones(3), T.ones(3), out=T.ones(0)),
    "outs that are resized": lambda T: T.sort(T.ones(3), out=(T.ones(2), T.ones(2).long())),
    "grad of a result": lambda T: (T.ones(2, requires_grad=True) * 2).grad,
    "scheduler before optimizer": lambda T: scheduled(T, lambda s, o: (s.step(), s.step())),
    "scheduler told the epoch": lambda T: scheduled(T, lambda s, o: (o.step(), s.step(3))),
    "get_lr": lambda T: scheduled(T, lambda s, o: s.get_lr()),
    "mse of uneven sizes": lambda T: T.nn.functional.mse_loss(T.ones(3, 1), T.ones(3)),
    "l1 of uneven sizes": lambda T: T.nn.functional.l1_loss(T.ones(3, 1), T.ones(3)),
    "smooth l1 of uneven sizes": lambda T: T.nn.functional.smooth_l1_loss(T.ones(3, 1), T.ones(3)),
    "huber of uneven sizes": lambda T: T.nn.functional.huber_loss(T.ones(3, 1), T.ones(3)),
    "softmax without dim": lambda T: T.nn.functional.softmax(T.ones(3)),
    "log_softmax without dim": lambda T: T.nn.functional.log_softmax(T.ones(3)),
    "Softmax without dim": lambda T: T.nn.Softmax()(T.ones(3)),
    "size_average": lambda T: T.nn.functional.mse_loss(T.ones(3), T.ones(3), size_average=True),
    "reduce of a module": lambda T: T.nn.MSELoss(reduce=True),
    "bce size_average": lambda T: T.nn.functional.binary_cross_entropy(
        T.ones(2), T.ones(2), size_average=False
    ),
    "mean of kl_div": lambda T: T.nn.functional.kl_div(T.zeros(3), T.ones(3) / 3),
    "functional.upsample": lambda T: T.nn.functional.upsample(T.ones(1, 1, 2, 2), scale_factor=2),
    "grid_sample": lambda T: T.nn.functional.grid_sample(T.ones(1, 1, 2, 2), T.zeros(1, 2, 2, 2)),
    "affine_grid": lambda T: T.nn.functional.affine_grid(T.ones(1, 2, 3), (1, 1, 2, 2)),
    "masks of two dtypes": lambda T: T.nn.MultiheadAttention(4, 2)(
        *[T.ones(2, 1, 4)] * 3,
        key_padding_mask=T.zeros(1, 2, dtype=T.bool),
        attn_mask=T.zeros(2, 2),
    ),
    "masks of an encoder of two dtypes": lambda T: T.nn.TransformerEncoderLayer(4, 2, 4)(
        T.ones(2, 1, 4), T.zeros(2, 2), T.zeros(1, 2, dtype=T.bool)
    ),
    "init.uniform": lambda T: T.nn.init.uniform(T.ones(2)),
    "init of nothing": lambda T: T.nn.init.kaiming_uniform_(T.ones(0, 2)),
    "clip_grad_norm": lambda T: T.nn.utils.clip_grad_norm([T.nn.Parameter(T.ones(1))], 1),
    "weight_norm": lambda T: T.nn.utils.weight_norm(T.nn.Linear(2, 2)),
    "tensor of a tensor": lambda T: T.tensor(T.ones(2)),
    "new_tensor of a tensor": lambda T: T.ones(2).new_tensor(T.ones(2)),
    "where with bytes": lambda T: T.where(T.ones(2, dtype=T.uint8), T.ones(2), T.zeros(2)),
    "scatter with reduce": lambda T: T.zeros(3).scatter(
        0, T.tensor([0, 1]), T.ones(2), reduce="add"
    ),
    "copy of complex numbers": lambda T: T.ones(2).copy_(T.ones(2) * 1j),
    "cov of one": lambda T: T.cov(T.ones(2, 1)),
    "T of a number": lambda T: T.ones(()).T,
    "H of a number": lambda T: T.ones(()).H,
    "array that is not writable": lambda T: T.from_numpy(read_only()),
    "T of three dims": lambda T: T.ones(2, 2, 2).T,
    "meshgrid": lambda T: T.meshgrid(T.ones(2), T.ones(2)),
    "meshgrid with indexing": lambda T: T.meshgrid(T.ones(2), T.ones(2), indexing="xy"),
    "dropout of one layer": lambda T: T.nn.LSTM(2, 2, dropout=0.5),
    "other channels": lambda T: T.nn.InstanceNorm1d(3)(T.ones(2, 4, 5)),
    "dropout2d of a matrix": lambda T: T.nn.functional.dropout2d(T.ones(2, 3)),
    "complex to real": lambda T: T.ones(2, dtype=T.complex64).to(T.float32),
    "deviation of one": lambda T: T.ones(1).std(),
    "cross without dim": lambda T: T.cross(T.ones(2, 3), T.ones(2, 3)),
    "grad_variables": lambda T: T.autograd.backward(
        [T.ones(2, requires_grad=True) * 1], grad_variables=[T.ones(2)]
    ),
    "index by bytes": lambda T: T.ones(2)[T.ones(2, dtype=T.uint8)],
    "default tensor type": lambda T: T.set_default_tensor_type(T.FloatTensor),
    "cpu.amp.autocast": lambda T: T.cpu.amp.autocast(),
    "cpu.amp.GradScaler": lambda T: T.cpu.amp.GradScaler(),
    "cuda.amp.autocast": lambda T: T.cuda.amp.autocast(),
    "cuda.amp.GradScaler": lambda T: T.cuda.amp.GradScaler(),
    "autocast to float64": lambda T: T.autocast("cpu", dtype=T.float64).__enter__(),
    "functional_call": lambda T: T.nn.utils.stateless.functional_call(
        T.nn.Linear(2, 2), {}, T.ones(2)
    ),
    "old hook of several nodes": hooked,
    "stft without a window": lambda T: T.stft(T.ones(400), 100, return_complex=True),
    "eps of gumbel_softmax": lambda T: T.nn.functional.gumbel_softmax(T.ones(2), eps=1e-3),
    "parameters twice": lambda T: T.optim.SGD([T.nn.Parameter(T.ones(1))] * 2, lr=1.0),
    "volatile": lambda T: T.autograd.Variable(T.ones(2)),
    "anomalies": lambda T: T.autograd.detect_anomaly(),
    "lazy": lambda T: T.nn.LazyLinear(3),
}


def categories(program, T):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        program(T)
    return {one.category for one in caught}


@pytest.fixture(autouse=True)
def always():
    torch._C._set_warnAlways(True)
    rl._ignored._warned.clear()
    yield
    torch._C._set_warnAlways(False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_categories(name):
    assert categories(PROGRAMS[name], rl) == categories(PROGRAMS[name], torch)
