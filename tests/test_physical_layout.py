"""The physical layout: convolutions leave their results channels_last behind contiguous strides,
and no program can tell. Random chains of ops that keep that order, ops that do not know of it,
views, in-place changes and exports are compared with NumPy, which has one order only."""

import copy
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

pytestmark = pytest.mark.kernels

CHANNELS = 5
SHAPE = (2, CHANNELS, 6, 8)


def fresh(seed, shape=SHAPE):
    array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return array


def convolve(x, w):
    """3x3 with padding 1, by sums over the nine shifts."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    height, width = x.shape[2:]
    out = np.zeros((len(x), len(w), height, width), np.float32)
    for i in range(3):
        for j in range(3):
            window = padded[:, :, i : i + height, j : j + width]
            out += np.einsum("nchw,oc->nohw", window, w[:, :, i, j])
    return out


def normalise(x):
    mean, var = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    return (x - mean) / np.sqrt(var + 1e-5)


def pool(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


WEIGHT = fresh(1, (CHANNELS, CHANNELS, 3, 3)) / 7
CHANNEL = fresh(2, (1, CHANNELS, 1, 1))


class Pair:
    """A tensor and the array that it must equal; both are views where the program made a view."""

    def __init__(self, tensor, array):
        self.tensor, self.array = tensor, array

    def check(self):
        assert self.tensor.shape == self.array.shape
        np.testing.assert_allclose(self.tensor.numpy(), self.array, rtol=2e-4, atol=2e-4)


def convolved(x):
    """Convolved, so that the elements lie channels_last."""
    return Pair(F.conv2d(x.tensor, rl.from_numpy(WEIGHT), padding=1), convolve(x.array, WEIGHT))


# New tensors of one shape.
def relu(x, y):
    return Pair(F.relu(x.tensor), np.maximum(x.array, 0))


def add(x, y):
    return Pair(x.tensor + y.tensor, x.array + y.array)


def scale(x, y):
    return Pair(x.tensor * 0.5, x.array * np.float32(0.5))


def by_channel(x, y):
    return Pair(x.tensor * rl.from_numpy(CHANNEL), x.array * CHANNEL)


def compare(x, y):
    mask = x.tensor > y.tensor
    return Pair(rl.where(mask, x.tensor, y.tensor), np.maximum(x.array, y.array))


def batch_norm(x, y):
    return Pair(F.batch_norm(x.tensor, None, None, training=True), normalise(x.array))


def batch_norm_and_relu(x, y):
    normalised = F.batch_norm(x.tensor, None, None, training=True)
    return Pair(F.relu(normalised, inplace=True), np.maximum(normalise(x.array), 0))


def fixed_norm(x, y):
    mean, var = rl.full((CHANNELS,), 0.5), rl.full((CHANNELS,), 4.0)
    normalised = F.batch_norm(x.tensor, mean, var)
    mean.fill_(7)
    return Pair(normalised, (x.array - np.float32(0.5)) / np.sqrt(np.float32(4 + 1e-5)))


def residual(x, y):
    made = F.batch_norm(x.tensor, None, None, training=True)
    made += y.tensor
    return Pair(F.relu6(made), np.clip(normalise(x.array) + y.array, 0, 6))


def hardswish(x, y):
    return Pair(F.hardswish(x.tensor), x.array * np.clip(x.array + 3, 0, 6) / 6)


def convolution(x, y):
    return convolved(x)


def pool_and_widen(x, y):
    pooled = F.max_pool2d(x.tensor, 2).repeat_interleave(2, 2).repeat_interleave(2, 3)
    return Pair(pooled, pool(x.array).repeat(2, 2).repeat(2, 3))


def means_widened(x, y):
    n, c, h, w = x.array.shape
    means = x.array.reshape(n, c, h // 2, 2, w // 2, 2).mean((3, 5))
    return Pair(
        F.interpolate(F.avg_pool2d(x.tensor, 2), scale_factor=2), means.repeat(2, 2).repeat(2, 3)
    )


def less_mean(x, y):
    return Pair(
        x.tensor - x.tensor.mean((2, 3), keepdim=True),
        x.array - x.array.mean((2, 3), keepdims=True),
    )


def less_global(x, y):
    return Pair(
        x.tensor - F.adaptive_avg_pool2d(x.tensor, 1), x.array - x.array.mean((2, 3), keepdims=True)
    )


def joined(x, y):
    return Pair(
        rl.cat([x.tensor[:, :2], y.tensor[:, 2:]], 1),
        np.concatenate([x.array[:, :2], y.array[:, 2:]], 1),
    )


def whole_joined(x, y):
    return Pair(
        rl.cat([x.tensor, y.tensor], 1)[:, 2 : 2 + CHANNELS].contiguous(),
        np.concatenate([x.array, y.array], 1)[:, 2 : 2 + CHANNELS].copy(),
    )


def turned(x, y):
    return Pair(x.tensor.flip(3).contiguous(), x.array[..., ::-1].copy())


def reshaped(x, y):
    return Pair((x.tensor.view(2, -1) + 1).view(SHAPE), x.array + 1)


def cloned(x, y):
    return Pair(x.tensor.clone(), x.array.copy())


def deep_copied(x, y):
    return Pair(copy.deepcopy(x.tensor), x.array.copy())


def pickled(x, y):
    return Pair(pickle.loads(pickle.dumps(x.tensor)), x.array.copy())


# Other handles on the same elements.
def detached(x, y):
    return Pair(x.tensor.detach(), x.array)


def data(x, y):
    return Pair(x.tensor.data, x.array)


def viewed(x, y):
    return Pair(x.tensor.view(-1).view(SHAPE), x.array)


def exported(x, y):
    return Pair(rl.from_numpy(x.tensor.numpy()), x.array)


def from_storage(x, y):
    elements = np.frombuffer(x.tensor.untyped_storage(), np.float32)
    return Pair(rl.from_numpy(elements.reshape(SHAPE)), x.array)


# Changes in place.
def relu_(x, y):
    F.relu_(x.tensor)
    np.maximum(x.array, 0, out=x.array)


def add_(x, y):
    x.tensor.add_(y.tensor)
    x.array += y.array


def scale_(x, y):
    x.tensor.mul_(0.75)
    x.array *= np.float32(0.75)


def add_first_(x, y):
    x.tensor += x.tensor[0]
    x.array += x.array[0].copy()


def add_element_(x, y):
    x.tensor.add_(x.tensor.view(-1)[7])
    x.array += x.array.reshape(-1)[7].copy()


def slice_(x, y):
    x.tensor[:, 1:3, ::2] *= 2
    x.array[:, 1:3, ::2] *= 2


def flat_slice_(x, y):
    x.tensor.view(-1)[5:50] = -1
    x.array.reshape(-1)[5:50] = -1


def copy_(x, y):
    x.tensor.copy_(y.tensor)
    x.array[...] = y.array


def through_numpy_(x, y):
    x.tensor.numpy()[1, 2] = 3
    x.array[1, 2] = 3


def masked_(x, y):
    x.tensor[x.tensor > 1] = 0.5
    x.array[x.array > 1] = 0.5


# Questions.
def total(x, y):
    np.testing.assert_allclose(x.tensor.sum().item(), x.array.sum(), rtol=1e-3, atol=1e-2)


def by_axis(x, y):
    np.testing.assert_allclose(
        x.tensor.sum((0, 2, 3)).numpy(), x.array.sum((0, 2, 3)), rtol=1e-3, atol=1e-3
    )


def strides(x, y):
    assert x.tensor.is_contiguous()
    assert x.tensor.stride() == (CHANNELS * 48, 48, 8, 1)
    assert x.tensor.data_ptr() == x.tensor.data_ptr() != 0


OPS = [
    relu,
    add,
    scale,
    by_channel,
    compare,
    batch_norm,
    batch_norm_and_relu,
    fixed_norm,
    residual,
    hardswish,
    convolution,
    pool_and_widen,
    means_widened,
    less_mean,
    less_global,
    joined,
    whole_joined,
    turned,
    reshaped,
    cloned,
    deep_copied,
    pickled,
    detached,
    data,
    viewed,
    exported,
    from_storage,
    relu_,
    add_,
    scale_,
    add_first_,
    add_element_,
    slice_,
    flat_slice_,
    copy_,
    through_numpy_,
    masked_,
    total,
    by_axis,
    strides,
]
STEPS = st.lists(
    st.tuples(st.sampled_from(OPS), st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=12
)


@given(STEPS)
def test_random_chains_equal_numpy(steps):
    pairs = [convolved(Pair(rl.from_numpy(a.copy()), a.copy())) for a in (fresh(3), fresh(4))]
    pairs.append(Pair(rl.from_numpy(fresh(5)), fresh(5)))
    for op, first, second in steps:
        made = op(pairs[first % len(pairs)], pairs[second % len(pairs)])
        if made:
            pairs.append(made)
    for pair in pairs:
        pair.check()


def test_networks_keep_the_order():
    """Where the layout is of use: from convolution to convolution, forward and backward."""
    from rushlight import _C

    kept = []

    def watch(t):
        kept.append(_C._has_physical_layout(t))
        if t.requires_grad:
            t.register_hook(lambda grad: kept.append(_C._has_physical_layout(grad)))
        return t

    x = rl.from_numpy(fresh(3))
    conv1, conv2, norm = nn.Conv2d(5, 8, 3), nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
    x = watch(F.relu(watch(norm(watch(conv1(x)))), inplace=True))
    y = watch(watch(conv2(x)) + x)
    y = watch(rl.cat([watch(F.max_pool2d(y, 2)), watch(F.max_pool2d(F.relu6(y) * 2, 2))], 1))
    F.adaptive_avg_pool2d(watch(y * y.mean((2, 3), keepdim=True)), 1).sum().backward()
    assert len(kept) == 18 and all(kept)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm1, self.norm2 = nn.BatchNorm2d(8), nn.BatchNorm2d(8)
        self.inner, self.outer = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Conv2d(16, 8, 1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Linear(4, 3)

    def forward(self, x, visit):
        x = visit(F.relu(visit(self.norm1(visit(self.stem(x))))))
        y = visit(F.relu(visit(self.norm2(visit(self.inner(x)))), inplace=True))
        y = visit(F.max_pool2d(visit(y + x), 3, 2, 1))
        y = visit(self.outer(visit(rl.cat([y, F.avg_pool2d(x, 2)], 1))))
        y = visit(self.up(visit(F.hardtanh(y) * x.mean((2, 3), keepdim=True))))
        y = visit(F.dropout2d(y, 0.3))
        return self.head(visit(F.adaptive_avg_pool2d(y, 1)).flatten(1))


@pytest.mark.parametrize("second_order", [False, True])
def test_gradients_do_not_depend_on_the_order(second_order):
    def gradients(visit):
        rl.manual_seed(0)
        network, x = Network(), rl.randn(2, 3, 8, 8, requires_grad=True)
        inputs = [x, *network.parameters()]
        loss = network(x, visit).square().sum()
        grads = rl.autograd.grad(loss, inputs, create_graph=second_order)
        if second_order:
            squares = sum(g.square().sum() for g in grads)
            grads = rl.autograd.grad(squares, inputs, allow_unused=True)
        return [g.detach().numpy() for g in grads if g is not None]

    def materialized(t):
        t.data_ptr()
        return t

    for ours, plain in zip(gradients(lambda t: t), gradients(materialized), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=2e-3, atol=1e-4)  # some are 0 but for rounding


# Convolutions that compute lazy inputs as they read them: channels, filters, kernel, stride, size.
LAZY_READERS = {
    "depthwise": (64, 64, 3, 1, 96),
    "depthwise, odd channels": (67, 67, 5, 2, 92),
    "pointwise": (24, 64, 1, 1, 13),
    "pointwise, wide": (4128, 32, 1, 1, 3),
    "pointwise, many filters": (128, 256, 1, 1, 4),
}


@pytest.mark.parametrize("name", LAZY_READERS)
@pytest.mark.parametrize("inplace", [False, True])
def test_convolutions_of_lazy_inputs(name, inplace):
    channels, filters, kernel, stride, size = LAZY_READERS[name]
    groups = channels if kernel > 1 else 1
    first, norm = nn.Conv2d(3, channels, 1), nn.BatchNorm2d(channels)
    second = nn.Conv2d(channels, filters, kernel, stride, kernel // 2, groups=groups)
    x = rl.randn(2, 3, size, size)

    def results(visit):
        y = visit(F.relu6(norm(first(x)), inplace=inplace))
        z = second(y)
        leaves = [*first.parameters(), *norm.parameters(), *second.parameters()]
        grads = rl.autograd.grad(z, leaves, rl.cos(z.detach()))
        return [t.detach().numpy() for t in (z, y, *grads)]

    def written_first(t):
        t.data_ptr()
        return t

    for lazy, written in zip(results(lambda t: t), results(written_first), strict=True):
        np.testing.assert_allclose(lazy, written, rtol=1e-4, atol=2e-5 * np.abs(written).max())


def test_saved_tensors_notice_changes():
    x = rl.from_numpy(fresh(3)).requires_grad_()
    y = F.conv2d(x, rl.from_numpy(WEIGHT), padding=1)
    z = F.relu(y)
    z.view(-1)[0] = 5
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        z.sum().backward()


def test_hooks_and_retained_gradients_see_contiguous_tensors():
    x = rl.from_numpy(fresh(3)).requires_grad_()
    y = F.conv2d(x, rl.from_numpy(WEIGHT), padding=1)
    y.retain_grad()
    seen = []
    y.register_hook(lambda grad: seen.append(grad.stride()))
    F.conv2d(F.relu(y), rl.from_numpy(WEIGHT)).sum().backward()
    assert seen == [y.stride()] == [y.grad.stride()] == [x.grad.stride()]


def test_threads_may_read_one_tensor_in_both_orders():
    x = Pair(rl.from_numpy(fresh(3, (4, 5, 30, 30))), fresh(3, (4, 5, 30, 30)))
    wrong = []

    def compare_results(y, expected):
        kept = np.array([(F.relu(y) + y).sum().item() for _ in range(3)])
        plain = y.flatten()[:100].numpy()
        if not (
            np.allclose(kept, expected.clip(0).sum() + expected.sum(), rtol=1e-3)
            and np.allclose(plain, expected.reshape(-1)[:100], rtol=1e-3, atol=1e-4)
        ):
            wrong.append(plain)

    for _ in range(20):
        y = convolved(x)
        threads = [
            threading.Thread(target=compare_results, args=(y.tensor, y.array)) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_changes_after_a_batch_norm_do_not_show():
    x = rl.from_numpy(fresh(3))
    weight, bias, mean, var = (rl.from_numpy(fresh(i, (CHANNELS,))).abs() for i in range(4))
    convolved = F.conv2d(x, rl.from_numpy(WEIGHT), padding=1)
    before = F.batch_norm(convolved.clone(), mean, var, weight, bias).numpy()
    normalised = F.batch_norm(convolved, mean, var, weight, bias)
    summed = normalised + convolved
    expected = before + convolved.numpy().copy()
    for changed in (weight, bias, mean, var, convolved):
        changed.add_(1)
    np.testing.assert_array_equal(normalised.numpy(), before)
    np.testing.assert_allclose(summed.numpy(), expected, rtol=1e-6)
    normalised.mul_(2)
    np.testing.assert_array_equal(normalised.numpy(), 2 * before)


def test_a_lazy_result_reads_the_same_any_number_of_times():
    x = F.conv2d(rl.from_numpy(fresh(3)), rl.from_numpy(WEIGHT), padding=1)
    normalised = F.batch_norm(x, None, None, training=True)
    positive, kept = F.relu(normalised), normalised.detach()
    del x
    twice = positive + positive
    np.testing.assert_array_equal(twice.numpy(), 2 * positive.numpy())
    np.testing.assert_array_equal(positive.numpy(), kept.numpy().clip(0))


class Recorded:
    """Runs one program of steps on tensors that record, each result shown to `visit`."""

    def __init__(self, visit):
        rl.manual_seed(0)
        self.visit = visit
        self.x = rl.from_numpy(fresh(3)).requires_grad_()
        self.weight = rl.from_numpy(WEIGHT).requires_grad_()
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.values = [self.convolve(self.x, None), self.convolve(self.x.detach() * 2, None)]

    def convolve(self, x, y):
        return F.conv2d(x, self.weight, padding=1)

    def normalise(self, x, y):
        return self.norm(x)

    def estimate(self, x, y):
        self.norm.eval()
        result = self.norm(x)
        self.norm.train()
        return result

    def relu(self, x, y):
        return F.relu(x)

    def relu_(self, x, y):
        return F.relu_(x)

    def relu6_(self, x, y):
        return F.relu6(x, inplace=True)

    def silu(self, x, y):
        return F.silu(x)

    def add(self, x, y):
        return x + y

    def add_(self, x, y):
        x += y
        return x

    def scale(self, x, y):
        return x * 0.5

    def resize(self, x, y):
        return F.interpolate(
            F.adaptive_avg_pool2d(F.avg_pool2d(x, 3, 2, 1), (2, 3)), size=(6, 8), mode="bilinear"
        )

    def widen(self, x, y):
        return F.interpolate(F.avg_pool2d(x, 2), scale_factor=2)

    def multiply(self, x, y):
        return x * y

    def run(self, steps):
        for name, first, second in steps:
            x, y = (self.values[i % len(self.values)] for i in (first, second))
            self.values.append(self.visit(getattr(self, name)(x, y)))
        loss = sum(v.square().mean() for v in self.values)
        loss.backward(retain_graph=True)
        once = self.x.grad.clone()
        loss.backward()
        np.testing.assert_allclose(self.x.grad.numpy(), 2 * once.numpy(), rtol=1e-5, atol=1e-6)
        return [
            t.grad.numpy()
            for t in (self.x, self.weight, *self.norm.parameters())
            if t.grad is not None
        ]


NAMES = [
    "convolve",
    "normalise",
    "estimate",
    "relu",
    "relu_",
    "relu6_",
    "silu",
    "add",
    "add_",
    "scale",
    "resize",
    "widen",
    "multiply",
]
PROGRAMS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=9
)


@given(PROGRAMS)
def test_gradients_of_random_chains_do_not_depend_on_the_order(steps):
    def outcome(visit):
        try:
            return Recorded(visit).run(steps)
        except RuntimeError as error:
            return type(error)

    def materialized(t):
        t.data_ptr()
        return t

    ours, plain = outcome(lambda t: t), outcome(materialized)
    if isinstance(ours, type) or isinstance(plain, type):
        assert ours is plain
        return
    for a, b in zip(ours, plain, strict=True):
        scale = max(1, np.abs(b).max())
        np.testing.assert_allclose(a / scale, b / scale, rtol=2e-3, atol=2e-4)


def test_hooks_see_the_gradients_that_came():
    """Though the gradient of a batch norm may take the memory of the one that it reads."""
    x = rl.from_numpy(fresh(3)).requires_grad_()
    convolved = F.conv2d(x, rl.from_numpy(WEIGHT), padding=1)
    normalised = F.batch_norm(convolved, None, None, training=True)
    seen = []
    normalised.grad_fn.register_hook(lambda inputs, outputs: seen.append(outputs[0]))
    F.conv2d(normalised, rl.from_numpy(WEIGHT)).sum().backward()
    again = normalised.detach().requires_grad_()
    F.conv2d(again, rl.from_numpy(WEIGHT)).sum().backward()
    np.testing.assert_allclose(seen[0].numpy(), again.grad.numpy(), rtol=1e-5)


def test_inference_works_in_the_memory_of_the_convolution():
    norm, weight = nn.BatchNorm2d(CHANNELS).eval(), rl.from_numpy(WEIGHT)
    for relu in (F.relu, F.relu_):
        with rl.no_grad():
            y = F.conv2d(rl.from_numpy(fresh(3, (4, CHANNELS, 60, 60))), weight, padding=1)
            size = y.numel() * y.itemsize
            before = rl.memory_stats()["allocated"]
            rl.reset_peak_memory_stats()
            y = norm(y)
            y = relu(y)
            F.max_pool2d(y, 60)
            assert rl.memory_stats()["peak"] - before < size / 2
