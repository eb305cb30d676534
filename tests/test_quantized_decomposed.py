"""The operations of quantized_decomposed: integers by formulas written here, and refusals."""

import pytest

import rushlight as torch
from rushlight.ao.quantization.fx import _decomposed as functions
from rushlight.ao.quantization.utils import determine_qparams

ops = torch.ops.quantized_decomposed
INT8 = (-128, 127, torch.int8)


def numbers():
    torch.manual_seed(0)
    return torch.randn(4, 6)


def levels(x, scale, zero, low=-128, high=127):
    return ((x / scale).round() + zero).clamp(low, high)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_per_tensor(dtype):
    x = numbers()
    low, high = (0, 255) if dtype is torch.uint8 else (-100, 120)
    q = ops.quantize_per_tensor(x, 0.125, 3, low, high, dtype)
    assert q.dtype is dtype and torch.equal(q.float(), levels(x, 0.125, 3, low, high))
    scale, zero = torch.tensor(0.125), torch.tensor(3)
    same = ops.quantize_per_tensor.tensor(x, scale, zero, low, high, dtype)
    limits = torch.tensor(low), torch.tensor(high)
    assert torch.equal(q, same)
    assert torch.equal(q, ops.quantize_per_tensor.tensor2(x, scale, zero, *limits, dtype))
    back = ops.dequantize_per_tensor(q, 0.125, 3, low, high, dtype)
    assert torch.equal(back, (q.float() - 3) * 0.125)
    half = ops.dequantize_per_tensor.tensor(
        q, scale, zero, low, high, dtype, out_dtype=torch.float16
    )
    assert half.dtype is torch.float16 and torch.equal(half.float(), back)
    arguments = (scale, zero, *limits, dtype)
    assert torch.equal(back, ops.dequantize_per_tensor.tensor2(q, *arguments))


def test_per_channel_and_group():
    x = numbers()
    for axis, count in ((0, 4), (1, 6), (-1, 6)):
        scales, zeros = torch.arange(1, count + 1) / 16, torch.arange(count)
        shape = (-1, 1) if axis == 0 else (1, -1)
        q = ops.quantize_per_channel(x, scales, zeros, axis, *INT8)
        assert torch.equal(q.float(), levels(x, scales.view(shape), zeros.view(shape)))
        back = ops.dequantize_per_channel(q, scales, zeros, axis, *INT8)
        assert torch.equal(back, (q.float() - zeros.view(shape)) * scales.view(shape))
        plain = ops.dequantize_per_channel(q, scales, None, axis, *INT8)
        assert torch.equal(plain, q.float() * scales.view(shape))
    scales, zeros = torch.arange(1, 9).view(4, 2) / 16, torch.arange(8).view(4, 2)
    q = functions.quantize_per_channel_group(x, scales, zeros, -8, 7, torch.int8, 3)
    wide = [t.repeat_interleave(3, 1) for t in (scales, zeros)]
    expected = (x / wide[0] + wide[1]).round().clamp(-8, 7)
    assert torch.equal(q.float(), expected)
    back = functions.dequantize_per_channel_group(q, scales, zeros, -8, 7, torch.int8, 3)
    assert torch.equal(back, (q.float() - wide[1]) * wide[0])


def test_per_token():
    x = numbers()
    scales, zeros = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
    assert (scales.dtype, zeros.dtype, zeros.shape) == (torch.float64, torch.int64, (4, 1))
    q = ops.quantize_per_token(x, scales, zeros, *INT8)
    assert int(q.max()) == 127 or int(q.min()) == -128
    back = ops.dequantize_per_token(q, scales, zeros, *INT8, torch.float32)
    assert bool(((back - x).abs() <= scales).all())
    scales, zeros = ops.choose_qparams_per_token(x.half(), torch.int8)
    assert scales.dtype is torch.float32 and not zeros.any()
    assert torch.allclose(scales, x.half().float().abs().amax(1, keepdim=True) / 127)


def test_scales_that_cover_a_tensor():
    x = numbers()
    scale, zero = ops.choose_qparams.tensor(x, -128, 127, 1e-5, torch.int8)
    assert (scale.dtype, zero.dtype) == (torch.float64, torch.int64)
    assert torch.allclose(scale.float(), (x.max() - x.min()).view(1) / 255)
    scale, zero = ops.choose_qparams_symmetric.tensor(x, -127, 127, 1e-5, torch.int8)
    assert torch.allclose(scale.float(), x.abs().max().view(1) / 127) and not zero
    ranges = -torch.ones(2), torch.ones(2), -128, 127
    for dtype in (torch.int8, torch.float8_e4m3fn, torch.uint16):
        scheme = torch.per_channel_symmetric
        scale, zero = determine_qparams(*ranges, dtype, torch.tensor([1e-5]), False, scheme)
        assert scale.dtype is torch.float64 and zero.tolist() == [0, 0]


def test_gradient_of_a_fake_quantization():
    x = numbers()
    w = x.clone().requires_grad_()
    scales, zeros = torch.full((4,), 0.125), torch.zeros(4, dtype=torch.int64)
    found = ops.fake_quant_per_channel(w, scales, zeros, 0, -8, 7)
    found.sum().backward()
    unbounded = (x / 0.125).round()
    assert torch.equal(found, unbounded.clamp(-8, 7) * 0.125)
    assert torch.equal(w.grad, ((unbounded >= -8) & (unbounded <= 7)).float())
    assert ops.convert_element_type.no_fuse(x, torch.float16).dtype is torch.float16


def test_meta_tensors():
    x = numbers()
    m = x.to("meta")
    number = torch.ones((), device="meta")
    for made in (
        ops.quantize_per_tensor(m, 0.1, 0, *INT8),
        ops.quantize_per_tensor.tensor(m, number, number, *INT8),
        ops.quantize_per_token(m, m[:, :1], m[:, :1], *INT8),
        ops.quantize_per_channel_group(m, m[:, :2], m[:, :2], *INT8, 3),
    ):
        assert made.is_meta and made.dtype is torch.int8 and made.shape == x.shape
    assert ops.choose_qparams.tensor(m, -128, 127, 1e-5, torch.int8)[0].is_meta


def test_what_does_not_go_together():
    x = numbers()
    q, one = x.to(torch.int8), torch.ones(4)
    for refused in (
        lambda: ops.quantize_per_tensor(x.double(), 0.1, 0, *INT8),
        lambda: ops.quantize_per_tensor(x, 0.1, 0, -129, 127, torch.int8),
        lambda: ops.quantize_per_tensor.tensor(x, torch.ones(2), torch.ones(1), *INT8),
        lambda: ops.dequantize_per_tensor(q, 0.1, 0, 0, 255, torch.uint8),
        lambda: ops.quantize_per_channel(x, one, one, 2, *INT8),
        lambda: ops.quantize_per_token(x, one[:2], one, *INT8),
        lambda: ops.quantize_per_channel_group(x, one, one, *INT8, 4),
        lambda: ops.quantize_per_channel_group(x / 0, one, one, *INT8, 1),
        lambda: ops.choose_qparams.tensor(x, 0, 1, 1e-5, torch.int64),
    ):
        with pytest.raises(AssertionError):
            refused()
    with pytest.raises(ValueError, match="Unsupported dtype"):
        ops.quantize_per_tensor(x, 0.1, 0, 0, 1, torch.int64)
    with pytest.raises(Exception, match="unsupported dtype"):
        ops.choose_qparams_per_token(x, torch.uint8)
