"""Attention of sequences that lie behind each other is that of each by itself."""

import pytest

import rushlight as torch
from rushlight.nn.attention.varlen import AuxRequest, varlen_attn

pytestmark = pytest.mark.kernels

LENGTHS_Q, LENGTHS_K = (3, 1, 4), (5, 1, 4)


def ends(lengths):
    return torch.tensor([0, *lengths]).cumsum(0)


def alone(q, k, v, before, after):
    """Attention of one sequence, written out; also the logarithms of the sums."""
    q, k, v = (x.transpose(0, 1).double() for x in (q, k, v))
    k, v = (x.repeat_interleave(len(q) // len(x), 0) for x in (k, v))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    for i in range(q.shape[1]):
        for j in range(k.shape[1]):
            distance = j - (i + k.shape[1] - q.shape[1])
            if (before >= 0 and distance < -before) or (after >= 0 and distance > after):
                scores[:, i, j] = float("-inf")
    return (scores.softmax(-1) @ v).transpose(0, 1), scores.logsumexp(-1)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (1, 0), (1, 1)], ids=str)
@pytest.mark.parametrize("heads_of_keys", [4, 2])
def test_each_sequence_by_itself(window, heads_of_keys):
    q = torch.randn(sum(LENGTHS_Q), 4, 8)
    k, v = (torch.randn(sum(LENGTHS_K), heads_of_keys, 8) for _ in range(2))
    options = {"window_size": window, "enable_gqa": heads_of_keys != 4}
    found, lse = varlen_attn(q, k, v, ends(LENGTHS_Q), ends(LENGTHS_K), 4, 5,
                             return_aux=AuxRequest(lse=True), **options)  # fmt: skip
    parts = zip(q.split(LENGTHS_Q), k.split(LENGTHS_K), v.split(LENGTHS_K))
    results = [alone(*part, *window) for part in parts]
    torch.testing.assert_close(
        found.double(), torch.cat([r for r, _ in results]), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(
        lse.double(), torch.cat([s for _, s in results], 1), rtol=1e-5, atol=1e-5
    )


def test_gradients():
    inputs = [torch.randn(n, 2, 3, dtype=torch.float64, requires_grad=True) for n in (8, 10, 10)]
    assert torch.autograd.gradcheck(
        lambda q, k, v: varlen_attn(
            q, k, v, ends(LENGTHS_Q), ends(LENGTHS_K), 4, 5, window_size=(-1, 0), scale=0.3
        ),
        inputs,
    )


def test_pages_of_keys():
    q = torch.randn(2, 4, 8)
    pool_k, pool_v = torch.randn(6, 4, 4, 8), torch.randn(6, 4, 4, 8)
    table = torch.tensor([[5, 0, 3], [1, 2, 4]], dtype=torch.int32)
    used = torch.tensor([9, 3])
    found = varlen_attn(q, pool_k, pool_v, ends((1, 1)), None, 1, 12, seqused_k=used,
                        block_table=table)  # fmt: skip
    for i in range(2):
        k, v = (pool[table[i].long()].flatten(0, 1)[: int(used[i])] for pool in (pool_k, pool_v))
        expected = alone(q[i : i + 1], k, v, -1, -1)[0]
        torch.testing.assert_close(found[i : i + 1].double(), expected, rtol=1e-5, atol=1e-5)


def test_what_does_not_fit():
    q = torch.randn(4, 1, 2)
    with pytest.raises(ValueError, match="sequence 0 has 4 queries and 4 keys, more than max_q=3"):
        varlen_attn(q, q, q, ends((4,)), ends((4,)), 3, 4)
    with pytest.raises(ValueError, match="block_table needs seqused_k"):
        varlen_attn(q, q[None], q[None], ends((4,)), None, 4, 4, block_table=torch.zeros(1, 1))
    with pytest.raises(ValueError, match="cu_seq_k is needed"):
        varlen_attn(q, q, q, ends((4,)), None, 4, 4)
