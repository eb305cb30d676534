"""The operations of torchaudio's compiled libraries, beside loops over samples."""

import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels


@pytest.fixture(scope="module")
def ops():
    rl.ops.load_library("/somewhere/torchaudio/lib/_torchaudio.abi3.so")
    rl.ops.load_library("/somewhere/torchaudio/lib/libtorchaudio.abi3.so")
    return rl.ops.torchaudio


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 63, 64, 200])
def test_a_recursive_filter(ops, order, length):
    rl.manual_seed(0)
    x = rl.randn(2, 3, length, dtype=rl.float64)
    coefficients = rl.randn(3, order, dtype=rl.float64) * 0.3
    coefficients[:, 0] = 1
    flipped, y = coefficients.flip(1), rl.zeros(2, 3, length + order - 1, dtype=rl.float64)
    y[:, :, : order - 1] = rl.randn(2, 3, order - 1)
    expected, given = y.clone(), x.clone()
    for t in range(length):
        of_before = (expected[:, :, t : t + order] * flipped).sum(2)
        expected[:, :, t + order - 1] = x[:, :, t] - of_before
    assert ops._lfilter_core_loop(x, flipped, y) is None
    assert rl.allclose(y, expected, atol=1e-12) and rl.equal(x, given)


def test_overdrive(ops):
    rl.manual_seed(0)
    wave, driven = rl.randn(2, 150, dtype=rl.float64), rl.randn(2, 150, dtype=rl.float64)
    before, after = rl.randn(2, dtype=rl.float64), rl.randn(2, dtype=rl.float64)
    expected, out = rl.empty_like(wave), rl.empty_like(wave)
    ops._overdrive_core_loop(wave, driven, before, after, out)
    for t in range(150):
        after = driven[:, t] - before + 0.995 * after
        before = driven[:, t]
        expected[:, t] = wave[:, t] * 0.5 + after * 0.75
    assert rl.allclose(out, expected)


def test_what_the_libraries_say_of_themselves(ops):
    assert rl.ops._torchaudio.cuda_version() is None
    assert rl.ops._torchaudio.is_align_available() is True


def cost_of_transducer(scores, targets, blank):
    """-log of the sum over all ways from the first step and no label to the last and all."""
    steps, labels = scores.size(0), len(targets)
    total = []

    def go(t, u, so_far):
        if u < labels:
            go(t, u + 1, so_far + scores[t, u, targets[u]])
        if t + 1 < steps:
            go(t + 1, u, so_far + scores[t, u, blank])
        elif u == labels:
            total.append(so_far + scores[t, u, blank])

    go(0, 0, rl.zeros((), dtype=scores.dtype))
    return -rl.stack(total).logsumexp(0)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("blank", [0, -1])
def test_the_loss_of_transducers(ops, fused, blank):
    rl.manual_seed(0)
    logits = rl.randn(3, 4, 4, 5, dtype=rl.float64)
    targets = rl.tensor([[1, 2, 2], [3, 1, 0], [2, 0, 0]], dtype=rl.int32)
    lengths = rl.tensor([[4, 3, 1], [3, 2, 0]], dtype=rl.int32)
    if not fused:
        logits = logits.log_softmax(3)
    x = logits.clone().requires_grad_()
    scores = x.log_softmax(3) if fused else x
    expected = rl.stack([
        cost_of_transducer(scores[i, :steps, :], targets[i, :count].tolist(), blank)
        for i, (steps, count) in enumerate(lengths.t().tolist())
    ])  # fmt: skip
    expected.sum().backward()
    costs, grad = ops.rnnt_loss_forward(logits, targets, *lengths, blank, -1.0, fused)
    assert rl.allclose(costs, expected) and rl.allclose(grad, x.grad)
    assert not costs.requires_grad and not grad.requires_grad
    clamped = ops.rnnt_loss_forward(logits.float(), targets, *lengths, blank, 0.1, fused)[1]
    near = rl.allclose(clamped, x.grad.clamp(-0.1, 0.1).float(), atol=1e-5)
    assert clamped.dtype == rl.float32 and near
    with pytest.raises(RuntimeError, match="input length mismatch"):
        ops.rnnt_loss_forward(logits, targets, lengths[0] + 1, lengths[1], blank, -1.0, fused)


@pytest.mark.parametrize("targets", [[1, 2, 2], [3], [1, 2, 3, 1], [2, 2], []])
def test_forced_alignment(ops, targets):
    import itertools

    rl.manual_seed(len(targets))
    scores = rl.randn(1, 6, 4, dtype=rl.float64).log_softmax(2)
    labels = rl.tensor([targets], dtype=rl.int32)
    lengths = rl.tensor([6]), rl.tensor([len(targets)])
    path, same = ops.forced_align(scores, labels, *lengths, 0)
    paths = [p for p in itertools.product(range(4), repeat=6)
             if [k for k, _ in itertools.groupby(p) if k] == targets]  # fmt: skip
    best = max(paths, key=lambda p: scores[0, range(6), list(p)].sum().item())
    assert path.dtype == rl.int32 and path.tolist() == [list(best)] and rl.equal(same, scores)
    with pytest.raises(RuntimeError, match="too long for CTC"):
        ops.forced_align(scores, rl.ones(1, 4, dtype=rl.int32), *lengths, 0)
