"""The gradients that stand in torch.ops.aten as functions of their own, beside torch's."""

import numpy
import pytest

import rushlight as rl
from rushlight.library import _backward

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

random = numpy.random.default_rng(0)


def normal(*shape):
    return random.normal(size=shape)


def positive(*shape):
    return random.uniform(0.1, 0.9, size=shape)


def whole(high, *shape):
    return random.integers(high, size=shape)


X, Y, G = normal(3, 4), normal(3, 4), normal(3, 4)
IMAGE, SMALL, VOLUME = normal(2, 3, 6, 8), normal(2, 3, 3, 4), normal(2, 3, 4, 6, 8)
ONE = numpy.array(1.5)
CLASSES, MARGINS = whole(4, 3), numpy.array([[1, 2, -1, 0]] * 3)
POOL = [2, 2], [2, 2], [0, 0]
MEAN, RSTD = X.mean(1, keepdims=True), 1 / numpy.sqrt(X.var(1, keepdims=True) + 1e-5)
CHANNELS = [IMAGE.mean((0, 2, 3)), 1 / numpy.sqrt(IMAGE.var((0, 2, 3)) + 1e-5)]

# The arguments of calls; arrays are tensors.
CALLS = {
    "adaptive_avg_pool3d_backward": [],  # torch has no kernel of it for the CPU
    "adaptive_max_pool2d_backward": [(SMALL, IMAGE, whole(48, 2, 3, 3, 4))],
    "adaptive_max_pool3d_backward": [(normal(2, 3, 2, 2, 2), VOLUME, whole(192, 2, 3, 2, 2, 2))],
    "affine_grid_generator_backward": [(normal(2, 3, 4, 2), [2, 1, 3, 4], False)],
    "avg_pool2d_backward": [(SMALL, IMAGE, *POOL, False, True, None)],
    "avg_pool3d_backward": [
        (normal(2, 3, 2, 3, 4), VOLUME, [2] * 3, [2] * 3, [0] * 3, False, True, 5)
    ],
    "binary_cross_entropy_backward": [
        (ONE, positive(3, 4), positive(3, 4)), (G, positive(3, 4), positive(3, 4), positive(4), 0)
    ],
    "convolution_backward": [
        (normal(2, 4, 6, 8), IMAGE, normal(4, 3, 3, 3), [4], [1, 1], [1, 1], [1, 1], False,
         [0, 0], 1, [True, True, True]),
        (normal(2, 2, 7, 9), IMAGE, normal(3, 2, 2, 2), None, [1, 1], [0, 0], [1, 1], True,
         [0, 0], 1, [True, False, False]),
    ],
    "cummaxmin_backward": [(G, X, whole(4, 3, 4), 1)],
    "cumprod_backward": [(G, X, 1, X.cumprod(1))],
    "diagonal_backward": [(normal(3), [3, 4], 1, 0, 1)],
    "elu_backward": [(G, 1.5, 2.0, 0.5, False, X), (G, 1.5, 2.0, 0.5, True, X)],
    "embedding_backward": [(normal(5, 4), whole(6, 5), 6, -1, False, False)],
    "embedding_dense_backward": [(normal(5, 4), whole(6, 5), 6, 2, True)],
    "embedding_sparse_backward": [(normal(5, 4), whole(6, 5), 6, 1, False)],
    "fractional_max_pool2d_backward": [(SMALL, IMAGE, [2, 2], [3, 4], whole(48, 2, 3, 3, 4))],
    "fractional_max_pool3d_backward": [
        (normal(2, 3, 2, 2, 2), VOLUME, [2] * 3, [2] * 3, whole(192, 2, 3, 2, 2, 2))
    ],
    "gather_backward": [(G, X, 1, whole(4, 3, 4), False)],
    "gelu_backward": [(G, X)],
    "glu_backward": [(normal(3, 2), X, 1)],
    "grid_sampler_2d_backward": [
        (normal(2, 3, 3, 4), IMAGE, positive(2, 3, 4, 2), 0, 0, False, [True, True]),
        (normal(2, 3, 3, 4), IMAGE, positive(2, 3, 4, 2), 0, 1, True, [False, True]),
    ],
    "grid_sampler_3d_backward": [
        (normal(2, 3, 2, 3, 4), VOLUME, positive(2, 2, 3, 4, 3), 0, 0, False, [True, True])
    ],
    "hardshrink_backward": [(G, X, 0.5)],
    "hardsigmoid_backward": [(G, X * 4)],
    "hardswish_backward": [(G, X * 4)],
    "hardtanh_backward": [(G, X, -0.5, 0.5)],
    "huber_loss_backward": [(ONE, X, Y, 1, 0.7), (G, X, Y, 0, 0.7)],
    "index_select_backward": [(normal(2, 4), [3, 4], 0, numpy.array([2, 0]))],
    "infinitely_differentiable_gelu_backward": [(G, X)],
    "leaky_relu_backward": [(G, X, 0.1, False)],
    "linear_backward": [],  # as adaptive_avg_pool3d_backward
    "log_sigmoid_backward": [(G, X, numpy.exp(-abs(X)))],
    "logit_backward": [(G, positive(3, 4)), (G, positive(3, 4), 0.3)],
    "masked_select_backward": [(normal(int((X > 0).sum())), X, X > 0)],
    "matmul_backward": [],
    "matrix_exp_backward": [(normal(3, 3), normal(3, 3))],
    "max_pool2d_backward": [],
    "max_pool2d_with_indices_backward": [(SMALL, IMAGE, *POOL, [1, 1], False, "indices")],
    "max_pool3d_with_indices_backward": [
        (normal(2, 3, 2, 3, 4), VOLUME, [2] * 3, [2] * 3, [0] * 3, [1] * 3, False, "indices")
    ],
    "mish_backward": [(G, X)],
    "mse_loss_backward": [(ONE, X, Y, 1), (ONE, X, Y, 2), (G, X, Y, 0)],
    "multi_margin_loss_backward": [(ONE, X, CLASSES, 1, 1.0), (normal(3), X, CLASSES, 2, 0.5,
                                    positive(4), 0)],
    "multilabel_margin_loss_backward": [
        (ONE, X, MARGINS, 1, numpy.array([[1.0, 1, 1, 0]] * 3) * [[0, 1, 1, 0]])
    ],
    "native_batch_norm_backward": [
        (normal(2, 3, 6, 8), IMAGE, positive(3), None, None, *CHANNELS, True, 1e-5, [True] * 3),
        (normal(2, 3, 6, 8), IMAGE, positive(3), normal(3), positive(3), *CHANNELS, False, 1e-5,
         [True, True, True]),
    ],
    "native_dropout_backward": [(G, X > 0, 2.0)],
    "native_layer_norm_backward": [(G, X, [4], MEAN, RSTD, positive(4), normal(4), [True] * 3)],
    "nll_loss2d_backward": [
        (ONE, normal(2, 3, 4, 5), whole(3, 2, 4, 5), None, 1, -100, numpy.array(40.0))
    ],
    "nll_loss_backward": [(normal(3), X, CLASSES, positive(4), 0, -100, numpy.array(0.0))],
    "reflection_pad1d_backward": [(normal(2, 3, 7), normal(2, 3, 4), [1, 2])],
    "reflection_pad2d_backward": [(normal(2, 3, 8, 11), IMAGE, [1, 2, 2, 0])],
    "reflection_pad3d_backward": [(normal(2, 3, 5, 6, 11), VOLUME, [1, 2, 0, 0, 1, 0])],
    "replication_pad1d_backward": [(normal(2, 3, 7), normal(2, 3, 4), [1, 2])],
    "replication_pad2d_backward": [(normal(2, 3, 8, 11), IMAGE, [1, 2, 2, 0])],
    "replication_pad3d_backward": [(normal(2, 3, 5, 6, 11), VOLUME, [1, 2, 0, 0, 1, 0])],
    "rrelu_with_noise_backward": [(G, X, positive(3, 4), 0.1, 0.3, True, False),
                                  (G, X, positive(3, 4), 0.1, 0.3, False, False)],
    "select_backward": [(normal(3), [3, 4], 1, 2)],
    "sigmoid_backward": [(G, positive(3, 4))],
    "silu_backward": [(G, X)],
    "slice_backward": [(normal(3, 2), [3, 4], 1, 0, 4, 2)],
    "smooth_l1_loss_backward": [(ONE, X, Y, 1, 0.7), (G, X, Y, 0, 0.7)],
    "soft_margin_loss_backward": [(ONE, X, numpy.sign(Y), 1)],
    "softplus_backward": [(G, X, 2.0, 1.0)],
    "softshrink_backward": [(G, X, 0.5)],
    "tanh_backward": [(G, positive(3, 4))],
    "threshold_backward": [(G, X, 0.2)],
    "trace_backward": [(ONE, [3, 4])],
    "unfold_backward": [(normal(3, 2, 2), [3, 4], 1, 2, 2)],
    "upsample_bicubic2d_backward": [(normal(2, 3, 12, 16), [12, 16], [2, 3, 6, 8], False)],
    "upsample_bilinear2d_backward": [(normal(2, 3, 12, 16), [12, 16], [2, 3, 6, 8], True),
                                     (normal(2, 3, 12, 16), [12, 16], [2, 3, 6, 8], False, 2.0,
                                      2.0)],
    "upsample_linear1d_backward": [(normal(2, 3, 8), [8], [2, 3, 4], False)],
    "upsample_nearest1d_backward": [(normal(2, 3, 8), [8], [2, 3, 4])],
    "upsample_nearest2d_backward": [(normal(2, 3, 12, 16), [12, 16], [2, 3, 6, 8])],
    "upsample_nearest3d_backward": [(normal(1, 1, 4, 4, 4), [4] * 3, [1, 1, 2, 2, 2])],
    "upsample_trilinear3d_backward": [(normal(1, 1, 4, 4, 4), [4] * 3, [1, 1, 2, 2, 2], False)],
    "value_selecting_reduction_backward": [(normal(3), 1, whole(4, 3), [3, 4], False)],
}  # fmt: skip


def tensors(library, values):
    return [library.from_numpy(v.copy()) if isinstance(v, numpy.ndarray) else v for v in values]


def call(library, name, values):
    given = tensors(library, values)
    if given[-1] == "indices":  # those of torch, for both
        pool = getattr(torch.nn.functional, f"max_pool{name[8]}d")
        indices = pool(*tensors(torch, values)[1:-1], return_indices=True)[1]
        given[-1] = library.tensor(indices.numpy())
    result = getattr(library.ops.aten, name)(*given)
    results = result if isinstance(result, tuple) else (result,)
    return [None if r is None else (r.to_dense() if r.is_sparse else r).numpy() for r in results]


@pytest.mark.parametrize("name", sorted(_backward.FUNCTIONS))
def test_backward(name):
    for values in CALLS[name]:
        for found, expected in zip(call(rl, name, values), call(torch, name, values), strict=True):
            assert (found is None) == (expected is None), values
            if expected is not None:
                numpy.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


F = torch.nn.functional

# Those that torch's CPU has not: the arguments, and torch's function with what to differentiate by.
WITHOUT_KERNEL = {
    "adaptive_avg_pool3d_backward": (
        (normal(2, 3, 2, 2, 2), VOLUME), [VOLUME], lambda x: F.adaptive_avg_pool3d(x, 2)
    ),
    "linear_backward": (
        (X, normal(3, 2), numpy.ones((2, 4)), [True] * 3),
        [X, numpy.ones((2, 4)), numpy.zeros(2)], F.linear,
    ),
    "matmul_backward": ((normal(3, 3), X, Y.T.copy(), [True] * 2), [X, Y.T.copy()], torch.matmul),
    "max_pool2d_backward": ((SMALL, IMAGE, [2, 2]), [IMAGE], lambda x: F.max_pool2d(x, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, calls in CALLS.items() if not calls])
def test_backward_by_the_engine(name):
    values, inputs, function = WITHOUT_KERNEL[name]
    leaves = [torch.from_numpy(v).requires_grad_() for v in inputs]
    grad = next(v for v in values if v is not X and isinstance(v, numpy.ndarray))
    expected = torch.autograd.grad(function(*leaves), leaves, torch.from_numpy(grad))
    for found, wanted in zip(call(rl, name, values), expected, strict=True):
        numpy.testing.assert_allclose(found, wanted.numpy(), rtol=1e-6, atol=1e-9)


def test_a_gradient_can_be_differentiated():
    x, g = (rl.tensor(v, dtype=rl.float64).requires_grad_() for v in ([0.3, -0.7], [1.0, 2.0]))
    found = rl.autograd.grad(rl.ops.aten.silu_backward(g, x).sum(), (g, x))
    y, h = (torch.tensor(v.tolist(), dtype=torch.float64).requires_grad_() for v in (x, g))
    (first,) = torch.autograd.grad(F.silu(y), y, h, create_graph=True)
    expected = torch.autograd.grad(first.sum(), (h, y))
    for a, b in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_the_gradient_of_a_pooling_of_channels_last_is_channels_last():
    for lib in (rl, torch):
        x = lib.rand(2, 3, 4, 6).contiguous(memory_format=lib.channels_last)
        out, places = lib.nn.functional.max_pool2d(x, 2, return_indices=True)
        found = lib.ops.aten.max_pool2d_with_indices_backward(
            lib.ones_like(out), x, [2, 2], [2, 2], [0, 0], [1, 1], False, places
        )
        assert found.is_contiguous(memory_format=lib.channels_last)
        assert found.sum() == out.numel() and lib.allclose((found * x).sum(), out.sum())
