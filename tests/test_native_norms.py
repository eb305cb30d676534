"""The normalisations that give statistics, and copies of views, beside what they are made of."""

import pytest

import rushlight as rl

pytestmark = pytest.mark.kernels

F = rl.nn.functional


def test_native_layer_norm():
    x, weight, bias = rl.randn(2, 3, 4), rl.rand(4), rl.rand(4)
    output, mean, rstd = rl.native_layer_norm(x, [4], weight, bias, 1e-5)
    assert rl.equal(output, F.layer_norm(x, [4], weight, bias, 1e-5))
    rebuilt = (x - mean) * rstd * weight + bias
    assert rl.allclose(rebuilt, output, atol=1e-6)
    assert mean.shape == rstd.shape == (2, 3, 1)


@pytest.mark.parametrize("training", [True, False])
def test_native_batch_norm(training):
    x, running_mean, running_var = rl.randn(5, 3, 2), rl.zeros(3), rl.ones(3)
    output, mean, rstd = rl.native_batch_norm(
        x, None, None, running_mean, running_var, training, 0.1, 1e-5
    )
    if not training:
        assert mean.numel() == rstd.numel() == 0
        assert rl.allclose(output, x, atol=1e-4)
        return
    assert rl.allclose((x - mean[:, None]) * rstd[:, None], output, atol=1e-6)
    assert rl.allclose(running_mean, 0.1 * mean)


def test_native_group_norm():
    x = rl.randn(2, 4, 3, dtype=rl.float64, requires_grad=True)
    output, mean, rstd = rl.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5)
    grouped = x.reshape(2, 2, 6)
    assert rl.allclose(((grouped - mean[..., None]) * rstd[..., None]).reshape(2, 4, 3), output)
    assert rl.equal(rl.autograd.grad(mean.sum(), x)[0], rl.full((2, 4, 3), 1 / 6, dtype=rl.float64))
    with pytest.raises(RuntimeError, match=r"2 \* 4 \* 5 elements"):
        rl.native_group_norm(x, None, None, 2, 4, 5, 2, 1e-5)


def test_copies_of_parts():
    x = rl.arange(6).reshape(3, 2)
    rows = rl.unbind_copy(x)
    parts = rl.split_with_sizes_copy(x, [1, 2])
    rows[0][0] = parts[1][0, 0] = 9
    assert x.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert [part.tolist() for part in parts] == [[[0, 1]], [[9, 3], [4, 5]]]


def test_convolution_with_the_older_arguments():
    x, weight = rl.randn(1, 2, 5), rl.randn(3, 2, 3)
    found = rl._convolution(x, weight, None, [1], [1], [1], False, [0], 1, False, False, False)
    assert rl.equal(found, F.conv1d(x, weight, padding=1))


def test_errors_of_out():
    x = rl.arange(6.0).reshape(3, 2)
    with pytest.raises(RuntimeError, match="unbind_copy: expected an out= argument of size 2"):
        rl.unbind_copy(x, 1, out=[rl.empty(3)])
    with pytest.raises(RuntimeError, match="have dtype torch.float32, but got torch.int64"):
        rl.split_copy(x, 2, out=[rl.empty(2, 2), rl.empty(1, 2, dtype=rl.int64)])
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        rl.split_copy(x.requires_grad_(), 2, out=[rl.empty(2, 2), rl.empty(1, 2)])
    with pytest.raises(TypeError, match="tuple of 3 Tensors but got 2"):
        rl.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5, out=(x, x))
    with pytest.raises(TypeError, match="_native_batch_norm_legit.*momentum"):
        rl._native_batch_norm_legit(x, None, None, x, x, True, 0.1)


@pytest.mark.parametrize(
    ("tensors", "dim", "chunks", "message"),
    [
        ([], 0, 1, "at least one tensor"),
        ([rl.ones(2)], 0, 0, "positive num_chunks but got 0"),
        ([rl.ones(2)], 1, 1, "dim 1 is out of range"),
        ([rl.ones(2), rl.ones(2, dtype=rl.int64)], 0, 1, "got one of torch.int64"),
        ([rl.ones(2, 2), rl.ones(3, 2)], 1, 1, r"before dim 1, but got shape \(3, 2\)"),
        ([rl.ones(0)], 0, 1, r"got shape \(0,\)"),
    ],
)
@pytest.mark.keeps_tensors("the arguments are made before")
def test_errors_of_chunk_cat(tensors, dim, chunks, message):
    with pytest.raises((RuntimeError, IndexError), match=message):
        rl._chunk_cat(tensors, dim, chunks)


def test_more_indices_than_dims():
    x, place = rl.ones(2), rl.tensor([0])
    with pytest.raises(IndexError, match="at most 1 indices"):
        rl._unsafe_masked_index(x, place, [place, place], 0)
