"""Functions below torch's modules: beside the modules that they are steps of, and torch."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn

rng = np.random.default_rng(0)


def batch(*shape):
    return rl.from_numpy(rng.standard_normal(shape).astype(np.float32))


# ---- batch normalization of several processes


@pytest.mark.parametrize("shape", [(6, 3), (6, 3, 4), (6, 3, 2, 5)])
@pytest.mark.parametrize("affine", [True, False])
def test_steps_of_batch_norm_are_batch_norm(shape, affine):
    """Two processes, with 4 and 2 images: the results and gradients of one batch of 6."""
    x = batch(*shape).mul_(2).add_(1)
    grad = batch(*shape)
    layer = nn.BatchNorm1d if len(shape) < 4 else nn.BatchNorm2d
    whole = layer(3, affine=affine, momentum=0.3)
    if affine:
        rl.nn.init.uniform_(whole.weight), rl.nn.init.uniform_(whole.bias)
    weight, bias = whole.weight, whole.bias
    leaf = x.clone().requires_grad_()
    expected = whole(leaf)
    expected.backward(grad)
    parts, grads = x.split([4, 2]), grad.split([4, 2])
    stats = [rl.batch_norm_stats(part, 1e-5) for part in parts]
    means, invstds = (rl.stack(column) for column in zip(*stats, strict=True))
    running_mean, running_var = rl.zeros(3), rl.ones(3)
    counts = rl.tensor([part.numel() / 3 for part in parts])
    mean, invstd = rl.batch_norm_gather_stats_with_counts(
        x, means, invstds, running_mean, running_var, 0.3, 1e-5, counts
    )
    assert rl.allclose(running_mean, whole.running_mean, atol=1e-6)
    assert rl.allclose(running_var, whole.running_var, atol=1e-6)
    made = rl.cat([rl.batch_norm_elemt(p, weight, bias, mean, invstd, 1e-5) for p in parts])
    assert rl.allclose(made, expected.detach(), atol=1e-5) and not made.requires_grad
    sums = [
        rl.batch_norm_backward_reduce(g, p, mean, invstd, weight, True, affine, affine)
        for g, p in zip(grads, parts, strict=True)
    ]
    sum_dy, sum_dy_xmu = sums[0][0] + sums[1][0], sums[0][1] + sums[1][1]
    found = rl.cat([
        rl.batch_norm_backward_elemt(g, p, mean, invstd, weight, sum_dy, sum_dy_xmu, counts.int())
        for g, p in zip(grads, parts, strict=True)
    ])  # fmt: skip
    assert rl.allclose(found, leaf.grad, atol=1e-5)
    if affine:
        assert rl.allclose(sums[0][2] + sums[1][2], weight.grad, atol=1e-5)
        assert rl.allclose(sums[0][3] + sums[1][3], bias.grad, atol=1e-5)
    else:
        assert sums[0][2] is None and sums[0][3] is None
    without = rl.batch_norm_backward_reduce(grad, x, mean, invstd, weight, False, False, False)
    assert without == (None,) * 4


def test_statistics_of_equal_batches():
    x = batch(8, 3, 5)
    stats = [rl.batch_norm_stats(part, 1e-5) for part in x.chunk(2)]
    means, invstds = (rl.stack(column) for column in zip(*stats, strict=True))
    mean, invstd = rl.batch_norm_gather_stats(x, means, invstds, None, None, 0.1, 1e-5, 20)
    expected = rl.batch_norm_stats(x, 1e-5)
    assert rl.allclose(mean, expected[0], atol=1e-6) and rl.allclose(invstd, expected[1], rtol=1e-5)
    half = rl.batch_norm_stats(x.half(), 1e-5)
    assert half[0].dtype is rl.float32 and rl.allclose(half[0], expected[0], atol=1e-3)
    assert rl.batch_norm_elemt(x.half(), None, None, *half, 1e-5).dtype is rl.float16
    with pytest.raises(RuntimeError, match="N, C"):
        rl.batch_norm_stats(rl.ones(3), 1e-5)


# ---- gradient scaling


def test_scale_of_gradients():
    scale, steps = rl.tensor([8.0]), rl.zeros(1, dtype=rl.int32)
    fine, wrong = rl.zeros(1), rl.ones(1)
    said = []
    for found in (fine, fine, fine, wrong, fine):
        assert rl._amp_update_scale_(scale, steps, found, 2.0, 0.5, 2) is scale
        said.append((scale.item(), steps.item()))
    assert said == [(8, 1), (16, 0), (16, 1), (8, 0), (8, 1)]
    scale = rl.tensor([3e38])
    rl._amp_update_scale_(scale, steps.zero_(), fine, 2.0, 0.5, 1)
    assert rl.isfinite(scale).all()


def test_gradients_are_unscaled_and_overflow_is_found():
    grads = [rl.full((2,), 4.0), rl.full((), 8.0), rl.full((3,), 2.0, dtype=rl.float64)]
    found, inverse = rl.zeros(1), rl.tensor([0.5])
    assert rl._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse) is None
    assert [g.sum().item() for g in grads] == [4, 4, 3] and found.item() == 0
    grads[1].fill_(float("nan"))
    rl._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
    assert found.item() == 1
    rl._amp_foreach_non_finite_check_and_unscale_([rl.ones(1)], found, inverse)
    assert found.item() == 1, "what was found stays"
    with pytest.raises(RuntimeError, match="inv_scale"):
        rl._amp_foreach_non_finite_check_and_unscale_(grads, found, rl.ones(2))


# ---- copies, dropout, packing


def test_copies_of_views_are_copies():
    x, z = batch(3, 4), rl.tensor([1 + 2j, 3 - 1j])
    sparse = rl.eye(3).to_sparse()
    rows = rl.eye(3).to_sparse_csr()
    columns = rl.eye(3).to_sparse_csc()
    for copy, view in (
        (rl.slice_copy(x, 1, -3, None, 2), x[:, -3::2]),
        (rl.slice_copy(x), x),
        (rl.detach_copy(x), x),
        (rl.view_as_real_copy(z), rl.view_as_real(z)),
        (rl.view_as_complex_copy(x.view(3, 2, 2)), rl.view_as_complex(x.view(3, 2, 2))),
        (rl.indices_copy(sparse), sparse.indices()),
        (rl.values_copy(sparse), sparse.values()),
        (rl.crow_indices_copy(rows), rows.crow_indices()),
        (rl.col_indices_copy(rows), rows.col_indices()),
        (rl.ccol_indices_copy(columns), columns.ccol_indices()),
        (rl.row_indices_copy(columns), columns.row_indices()),
    ):
        assert rl.equal(copy, view) and copy.data_ptr() != view.data_ptr()
    out = rl.empty(0)
    assert rl.slice_copy(x, 0, 1, 2, out=out) is out and rl.equal(out, x[1:2])
    with pytest.raises(RuntimeError, match="step"):
        rl.slice_copy(x, step=0)


def test_dropout_with_its_mask():
    x = rl.ones(1000)
    for train in (True, None):
        kept, mask = rl.native_dropout(x, 0.25, train)
        assert rl.equal(kept, mask / 0.75) and 600 < mask.sum() < 900
    for p, train, value in ((0.5, False, 1.0), (0.0, True, 1.0), (1.0, True, 0.0)):
        kept, mask = rl.native_dropout(x, p, train)
        assert (kept == value).all() and (mask == bool(value)).all()


def test_sequences_are_packed_and_padded():
    x, lengths = batch(3, 5, 2), rl.tensor([5, 3, 1])
    data, sizes = rl._pack_padded_sequence(x, lengths, True)
    assert sizes.tolist() == [3, 2, 2, 1, 1] and rl.equal(data[0], x[0, 0])
    padded, again = rl._pad_packed_sequence(data, sizes, True, 0.0, 7)
    assert padded.shape == (3, 7, 2) and again.tolist() == lengths.tolist()
    assert rl._pad_packed_sequence(data, sizes, True, 0.0, -1)[0].shape == (3, 5, 2)


def test_bools_alone_are_all_true_or_any():
    assert rl._is_all_true(rl.tensor([True, True])) and not rl._is_any_true(rl.tensor([False]))
    for function in (rl._is_all_true, rl._is_any_true):
        with pytest.raises(RuntimeError, match="bools"):
            function(rl.ones(2))


# ---- random numbers' gradients, products of bytes, attention


def test_gradients_of_gamma_and_dirichlet_numbers():
    from rushlight.distributions import Dirichlet, Gamma

    a = (batch(50).abs() + 0.3).requires_grad_()
    rl.manual_seed(0)
    x = Gamma(a, rl.ones(50)).rsample()
    x.sum().backward()
    assert rl.allclose(rl._standard_gamma_grad(a, x), a.grad, rtol=1e-4)
    b = rl.tensor([0.5, 2.0, 3.0], requires_grad=True)
    x = Dirichlet(b).rsample()
    (x * rl.tensor([1.0, 2.0, 3.0])).sum().backward()
    shift = rl._dirichlet_grad(x.detach(), b, b.sum().expand(3))
    grad = rl.tensor([1.0, 2.0, 3.0])
    assert rl.allclose(shift * (grad - (x * grad).sum()), b.grad, rtol=1e-4)


def test_product_by_a_weight_of_bytes():
    x, scales = batch(3, 8), batch(5).abs()
    weight = rl.from_numpy(rng.integers(-127, 127, (5, 8)).astype(np.int8))
    expected = x @ (weight.float() * scales[:, None]).t()
    assert rl.allclose(rl._weight_int8pack_mm(x, weight, scales), expected, rtol=1e-4, atol=1e-4)
    with pytest.raises(RuntimeError, match="int8"):
        rl._weight_int8pack_mm(x, weight.float(), scales)


@pytest.mark.parametrize("dtype", [rl.float32, rl.bfloat16])
def test_product_by_a_weight_of_half_bytes(dtype):
    levels = rl.from_numpy(rng.integers(0, 16, (32, 64)).astype(np.int32))
    packed = rl._convert_weight_to_int4pack_for_cpu(levels, 2)
    assert packed.shape == (32, 32) and packed.dtype is rl.uint8
    x, scales_and_zeros = batch(3, 64).to(dtype), batch(2, 32, 2).to(dtype)
    scale, zero = scales_and_zeros.float().repeat_interleave(32, 0).permute(2, 1, 0)
    expected = x.float() @ ((levels - 8) * scale + zero).t()
    found = rl._weight_int4pack_mm_for_cpu(x, packed, 32, scales_and_zeros)
    tolerance = 1e-4 if dtype is rl.float32 else 0.03
    assert found.dtype is dtype
    assert (found - expected).abs().max() < tolerance * expected.abs().max()
    for arguments in ((packed.int(), 32), (packed, 16), (packed, 64), (packed[:, 1:], 32)):
        with pytest.raises(RuntimeError, match="_weight_int4pack_mm_for_cpu"):
            rl._weight_int4pack_mm_for_cpu(x, *arguments, scales_and_zeros)
    for bad in (levels.long(), levels[:8], levels[:, 1:], levels[0]):
        with pytest.raises(RuntimeError, match="expected int32 of shape"):
            rl._convert_weight_to_int4pack_for_cpu(bad, 2)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_by_plain_operations(is_causal):
    q, k, v = batch(2, 4, 5, 8), batch(2, 2, 5, 8), batch(2, 2, 5, 8)
    made, weights = rl._scaled_dot_product_attention_math(
        q, k, v, is_causal=is_causal, enable_gqa=True
    )
    expected = nn.functional.scaled_dot_product_attention(
        q, k, v, is_causal=is_causal, enable_gqa=True
    )
    assert rl.allclose(made, expected, atol=1e-5) and rl.allclose(weights.sum(-1), rl.ones(()))
    mask = rl.rand(2, 4, 5, 5) > 0.5
    kept = rl._scaled_dot_product_attention_math(
        q, k, v, dropout_p=0.5, dropout_mask=mask, enable_gqa=True
    )[1]
    assert (kept[~mask] == 0).all() and (kept[mask] > 0).all()


@pytest.mark.torch
def test_beside_torch():
    import torch

    x = rng.standard_normal((4, 3, 5)).astype(np.float32)
    for lib in (rl, torch):
        mean, var = lib.batch_norm_update_stats(
            lib.from_numpy(x), running := lib.zeros(3), spread := lib.ones(3), 0.1
        )
        found = [t.numpy() for t in (mean, var, running, spread)]
        if lib is rl:
            ours = found
    for a, b in zip(ours, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    keys = rng.integers(0, 5, 20)
    pairs = (lib._unique2(lib.from_numpy(keys), True, True, True) for lib in (rl, torch))
    for a, b in zip(*pairs, strict=True):
        assert a.tolist() == b.tolist()
