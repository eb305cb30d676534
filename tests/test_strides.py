"""How results lie in memory: torch's strides, which golden/strides.txt lists."""

import pytest
from golden_strides import calls, operands, strides_of

import rushlight as rl

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(("call", "expected"), list(calls()))
def test_results_have_the_strides_of_torch(call, expected):
    assert strides_of(call, operands(rl)) == expected


def test_a_softmax_of_permuted_scores_can_be_viewed():
    assert rl.rand(2, 3, 4).transpose(1, 2).softmax(-1).view(2, 12).shape == (2, 12)


def gradient_of(leaf):
    (leaf.exp() * rl.rand(leaf.shape)).sum().backward()
    return leaf.grad


@pytest.mark.parametrize(
    ("leaf", "expected"),
    [
        (rl.rand(4, 3).t(), (1, 3)),  # dense: its own strides
        (rl.rand(2, 4, 5, 5).to(memory_format=rl.channels_last), (100, 1, 20, 4)),
        (rl.rand(3, 8)[:, ::2], (4, 1)),  # with gaps: contiguous
        (rl.rand(4, 6, 5)[:, ::2].transpose(0, 2), (12, 4, 1)),
        (rl.rand(1, 4).expand(3, 4), (4, 1)),
    ],
)
def test_gradients_lie_as_their_leaves_do(leaf, expected):
    assert gradient_of(leaf.detach().requires_grad_()).stride() == expected


def test_a_tensor_stays_as_it_is_when_asked_for_its_own_format():
    permuted = rl.rand(4, 3).t()
    assert permuted.to(memory_format=rl.contiguous_format) is permuted
    assert permuted.resize_(3, 4).stride() == (1, 3)
    image = rl.rand(2, 3, 4, 4).to(memory_format=rl.channels_last)
    assert image.to(memory_format=rl.channels_last) is image


def test_what_a_convolution_returns_stays_hidden_through_an_elementwise_op_on_plain_operands():
    x = rl.nn.Conv2d(3, 4, 3)(rl.rand(2, 3, 8, 8))
    for out in (x + rl.rand(2, 4, 6, 6), x * x, rl.rand(4, 1, 1) + x):
        assert out.is_contiguous()
        assert out.stride() == (144, 36, 6, 1)
    last = rl.rand(2, 4, 6, 6).to(memory_format=rl.channels_last)
    assert (last + x).is_contiguous(memory_format=rl.channels_last)
    assert (last + x).tolist() == (x.contiguous() + last.contiguous()).tolist()


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda a, out: rl.add(a, 1, out=out), (1, 4)),
        (lambda a, out: rl.exp(a, out=out), (1, 4)),
        (lambda a, out: rl.linalg.inv(a[:3] @ a[:3].mT + rl.eye(3), out=out), (1, 3)),
        (lambda a, out: rl.softmax(a, -1, out=out), (3, 1)),
    ],
)
def test_an_out_that_is_resized_takes_the_strides_of_the_result(call, expected):
    permuted, out = rl.rand(3, 4).t(), rl.empty(0)
    call(permuted, out)
    assert out.stride() == expected
    kept = rl.empty(*out.shape)
    call(permuted, kept)
    assert kept.is_contiguous()


def test_scatters_into_slices_keep_gaps_and_offset():
    gapped = rl.rand(4, 10)[:, 2:7]
    out = gapped.select_scatter(rl.zeros(5), 0, 1)
    assert (out.stride(), out.storage_offset()) == ((10, 1), 2)
    assert out[1].sum() == 0 and out[0].tolist() == gapped[0].tolist()
    late = rl.arange(6.0)[2:]
    assert late.as_strided_scatter(rl.zeros(2), (2,), (1,), 4).tolist() == [2, 3, 0, 0]
