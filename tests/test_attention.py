"""Attention in blocks: shapes that span several blocks of queries and of keys, masks, shared
heads."""

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn.attention import bias, flex_attention
from rushlight.nn.functional import scaled_dot_product_attention

pytestmark = pytest.mark.kernels

# samples, heads of the query, heads of key and value, queries, keys, width, width of values
SHAPES = [
    (2, 4, 4, 7, 5, 8, 8),
    (1, 2, 1, 130, 70, 16, 24),
    (1, 2, 2, 65, 1100, 20, 8),
    (1, 1, 1, 1, 1, 1, 1),
    (2, 6, 2, 1, 600, 17, 9),
    (1, 4, 4, 3, 70, 8, 16),
]
MASKS = ["none", "causal", "bool", "float"]


def reference(q, k, v, mask, causal):
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], axis=1) for t in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        scores[..., ~np.tri(*scores.shape[-2:], dtype=bool)] = -np.inf
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def operands(shape, mask, strided):
    samples, heads, shared, queries, keys, width, value_width = shape
    random = np.random.default_rng(0)
    arrays = [
        random.standard_normal(s)
        for s in (
            (samples, heads, queries, width),
            (samples, shared, keys, width),
            (samples, shared, keys, value_width),
        )
    ]
    tensors = [rl.from_numpy(a) for a in arrays]
    if strided:  # heads beside each other, every second element
        tensors = [
            t.transpose(1, 2).repeat_interleave(2, -1)[..., ::2].transpose(1, 2) for t in tensors
        ]
    allowed = None
    if mask == "bool":
        allowed = random.random((samples, 1, queries, keys)) > 0.3
        allowed[:, :, -1] = False  # the last query attends to nothing
    if mask == "float":
        allowed = random.standard_normal((heads, queries, keys))
    return arrays, [t.requires_grad_() for t in tensors], allowed


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_attention(shape, mask, strided):
    arrays, tensors, allowed = operands(shape, mask, strided)
    given = None if allowed is None else rl.from_numpy(allowed)

    def attend():
        return scaled_dot_product_attention(
            *tensors, attn_mask=given, is_causal=mask == "causal", enable_gqa=True
        )

    out = attend()
    np.testing.assert_allclose(
        out.detach().numpy(), reference(*arrays, allowed, mask == "causal"), rtol=1e-10, atol=1e-12
    )
    weights = rl.cos(rl.arange(out.numel(), dtype=rl.float64)).view(out.shape)
    by_blocks = rl.autograd.grad(out, tensors, weights)
    by_ops = rl.autograd.grad(attend(), tensors, weights, create_graph=True)
    for blocks, ops in zip(by_blocks, by_ops, strict=True):
        rl.testing.assert_close(blocks, ops.detach(), rtol=1e-9, atol=1e-11)


def test_the_matrix_of_weights_never_exists():
    q = rl.randn(1, 1, 4096, 8)
    rl.reset_peak_memory_stats()
    before = rl.memory_stats()["peak"]
    scaled_dot_product_attention(q, q, q, is_causal=True)
    assert rl.memory_stats()["peak"] - before < 4096 * 4096


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_dropout(shape, mask, strided):
    """Dropout of the matrix of weights, with the numbers that it draws."""
    arrays, tensors, allowed = operands(shape, mask, strided)
    given = None if allowed is None else rl.from_numpy(allowed)
    q, k, v = tensors
    group = q.shape[1] // k.shape[1]

    def attend():
        rl.manual_seed(5)
        return scaled_dot_product_attention(
            q, k, v, given, dropout_p=0.3, is_causal=mask == "causal", enable_gqa=True
        )

    def by_definition():
        scores = q @ k.repeat_interleave(group, 1).transpose(-1, -2) / math.sqrt(q.shape[-1])
        attends = given if mask == "bool" else rl.ones(scores.shape[-2:]).bool()
        if mask == "causal":
            attends = attends.tril()
        if mask == "float":
            scores = scores + given
        scores = scores.masked_fill(~attends, -math.inf)
        weights = scores.softmax(-1).masked_fill(~attends.any(-1, keepdim=True), 0)
        rl.manual_seed(5)
        return rl.dropout(weights, 0.3, True) @ v.repeat_interleave(group, 1)

    out, expected = attend(), by_definition()
    after = rl.rand(1)
    attend()
    assert rl.equal(rl.rand(1), after)
    rl.testing.assert_close(out, expected, rtol=1e-10, atol=1e-12)
    grad = rl.cos(rl.arange(out.numel(), dtype=rl.float64)).view(out.shape)
    if mask == "bool":  # whose last queries' softmax has no gradient there
        grad[:, :, -1] = 0
        expected = by_definition()[:, :, :-1]
        reference = rl.autograd.grad(expected, tensors, grad[:, :, :-1]) if expected.numel() else ()
    else:
        reference = rl.autograd.grad(expected, tensors, grad)
    by_blocks = rl.autograd.grad(out, tensors, grad)
    by_ops = rl.autograd.grad(attend(), tensors, grad, create_graph=True)
    for blocks, ops in zip(by_blocks, by_ops, strict=True):
        rl.testing.assert_close(blocks, ops.detach(), rtol=1e-9, atol=1e-11)
    for blocks, definition in zip(by_blocks, reference):
        rl.testing.assert_close(blocks, definition.nan_to_num(), rtol=1e-9, atol=1e-11)


# ---- flex_attention


def far(score, b, h, q, kv):
    return score - 0.1 * (h + 1) * (q - kv).abs()


def within(b, h, q, kv):
    return (q >= kv) & (q - kv < 3) & (q != 4)


def test_flex_attention_changes_scores_and_selects_pairs():
    arrays, (q, k, v), _ = operands((2, 4, 2, 7, 5, 8, 6), "none", False)
    h, i, j = np.ogrid[:4, :7, :5]
    mask = (i >= j) & (i - j < 3) & (i != 4)
    bias = np.where(mask, -0.1 * (h + 1) * np.abs(i - j), -np.inf)
    expected = reference(*arrays, bias, False)
    block_mask = flex_attention.create_block_mask(within, None, None, 7, 5, BLOCK_SIZE=2)
    got, lse = flex_attention.flex_attention(
        q, k, v, far, block_mask, enable_gqa=True, return_lse=True
    )
    np.testing.assert_allclose(got.detach().numpy(), expected, rtol=1e-5, atol=1e-6)
    assert (got[:, :, 4] == 0).all() and (lse[:, :, 4] == -math.inf).all()
    assert block_mask.shape == (1, 1, 7, 5) and block_mask[0].seq_lengths == (7, 5)
    blocks = [[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1]]
    assert block_mask.to_dense().tolist() == [[blocks]]


def test_flex_attention_has_gradients():
    q, k, v = (rl.randn(1, 2, 4, 3, dtype=rl.float64, requires_grad=True) for _ in range(3))
    block_mask = flex_attention.create_block_mask(within, 1, 2, 4, 4)
    assert rl.autograd.gradcheck(
        lambda *operands: flex_attention.flex_attention(*operands, far, block_mask), (q, k, v)
    )


def test_masks_of_flex_attention_are_joined():
    def later(b, h, q, kv):
        return q >= kv

    def even(b, h, q, kv):
        return kv % 2 == 0

    i, j = np.ogrid[:3, :3]
    for join, expected in (
        (flex_attention.and_masks, (i >= j) & (j % 2 == 0)),
        (flex_attention.or_masks, (i >= j) | (j % 2 == 0)),
    ):
        got = flex_attention.create_mask(join(later, even), None, 2, 3, 3)
        assert got.shape == (1, 2, 3, 3) and (got.numpy() == expected).all()
    everything = flex_attention.create_block_mask(flex_attention.noop_mask, 1, 1, 3, 3)
    assert everything.to_dense().tolist() == [[[[1]]]]


def test_flex_attention_refuses():
    q, k = rl.randn(1, 4, 3, 2), rl.randn(1, 2, 3, 2)
    with pytest.raises(ValueError, match="4 heads of query and 2 of key need enable_gqa"):
        flex_attention.flex_attention(q, k, k)
    with pytest.raises(ValueError, match="expected 4 dims of query"):
        flex_attention.flex_attention(q[0], k, k)
    with pytest.raises(ValueError, match="was created for"):
        flex_attention.flex_attention(
            q, q, q, block_mask=flex_attention.create_block_mask(within, 1, 1, 2, 2)
        )
    with pytest.raises(RuntimeError, match="callable mask_mods"):
        flex_attention.and_masks(within, 1)


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("queries,keys,batch", [(0, 3, 2), (0, 0, 2), (3, 2, 0), (3, 0, 2)])
def test_layers_over_nothing(queries, keys, batch, need_weights):
    layer = rl.nn.MultiheadAttention(8, 2)
    q, k = rl.zeros(queries, batch, 8), rl.zeros(keys, batch, 8)
    output, weights = layer(q, k, k, need_weights=need_weights)
    assert output.shape == (queries, batch, 8)
    assert not need_weights or weights.shape == (batch, queries, keys)


@pytest.mark.parametrize("queries,keys", [(3, 5), (4, 4), (5, 3)])
def test_causal_masks_named_by_their_corner(queries, keys):
    q, k, v = (rl.randn(1, 2, n, 8) for n in (queries, keys, keys))
    attend = rl.nn.functional.scaled_dot_product_attention
    rows, columns = rl.arange(queries)[:, None], rl.arange(keys)
    upper = attend(q, k, v, bias.causal_upper_left(queries, keys))
    assert rl.allclose(upper, attend(q, k, v, columns <= rows), atol=1e-6)
    if queries <= keys:
        lower = attend(q, k, v, bias.causal_lower_right(queries, keys))
        assert rl.allclose(lower, attend(q, k, v, columns <= rows + keys - queries), atol=1e-6)
    with pytest.raises(ValueError, match="causal"):
        attend(q, k, v, bias.causal_upper_left(queries, keys), is_causal=True)


def encoder(**options):
    options = {"batch_first": True, "dropout": 0.0, **options}
    layer = rl.nn.TransformerEncoderLayer(8, 2, 16, **options)
    return rl.nn.TransformerEncoder(layer, 2).eval()


PADDING = rl.tensor([[False] * 5, [False, False, True, True, True]])


def test_an_encoder_leaves_padding_out_in_inference():
    model, x = encoder(), rl.randn(2, 5, 8)
    with_gradients = model(x, src_key_padding_mask=PADDING)
    with rl.no_grad():
        found = model(x, src_key_padding_mask=PADDING)
    assert not found[PADDING].any() and with_gradients[PADDING].all()
    assert rl.allclose(found[~PADDING], with_gradients[~PADDING], atol=1e-6)
    model.norm = rl.nn.LayerNorm(8, bias=True)
    rl.nn.init.ones_(model.norm.bias)
    with rl.inference_mode():
        assert (model(x, src_key_padding_mask=PADDING)[PADDING] == 1).all()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.train(), lambda m: setattr(m, "enable_nested_tensor", False),
        lambda m: setattr(m.layers[0], "norm_first", True),
        lambda m: setattr(m.layers[0], "activation", rl.sin),
    ],
)  # fmt: skip
def test_where_an_encoder_computes_padding(change):
    model = encoder()
    change(model)
    with rl.no_grad():
        assert model(rl.randn(2, 5, 8), src_key_padding_mask=PADDING)[PADDING].all()


def test_the_fast_path_can_be_switched_off():
    model, mha = encoder(), rl.backends.mha
    assert mha.get_fastpath_enabled()
    try:
        mha.set_fastpath_enabled(False)
        with rl.no_grad():
            assert model(rl.randn(2, 5, 8), src_key_padding_mask=PADDING)[PADDING].all()
    finally:
        mha.set_fastpath_enabled(True)


def later(b, h, q, kv):
    return q >= kv


def test_block_masks_list_partial_and_full_blocks():
    mask = flex_attention.create_block_mask(later, None, 2, 7, 9, BLOCK_SIZE=(3, 2), device="cpu")
    assert mask.shape == (1, 2, 7, 9) and mask.seq_lengths == (7, 9) and mask.numel() == 126
    partial, full = mask.kv_num_blocks, mask.full_kv_num_blocks
    assert partial[0, 0].tolist() == [2, 1, 4] and full[0, 0].tolist() == [0, 2, 0]
    assert mask.full_kv_indices[0, 0, 1, :2].tolist() == [0, 1]  # queries 3 to 5, keys 0 to 3
    assert mask.to_dense()[0, 1].tolist() == [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    assert mask.sparsity() == pytest.approx(100 * (1 - 2 * 9 * 6 / 126))
    assert mask.full_q_num_blocks[0, 0].tolist() == [1, 1, 0, 0, 0]
    together = flex_attention.create_block_mask(
        later, 1, 1, 4, 4, "cpu", 2, separate_full_blocks=False
    )
    assert together.full_kv_indices is None and together.kv_num_blocks.tolist() == [[[1, 2]]]
    flat = together.as_tuple()
    assert len(flat) == 17 and flat[:2] == (4, 4) and flat[-3:] == (2, 2, later)
    assert together.as_tuple(flatten=False)[-2:] == ((2, 2), later)


def test_pictures_of_block_masks():
    mask = flex_attention.create_block_mask(later, 2, 1, 8, 8, "cpu", 2)
    assert mask.to_string(limit=1).splitlines()[:5] == [
        "(0, 0)", "██      ", "████    ", "██████  ", "████████"
    ]  # fmt: skip
    assert "limit=N" in mask.to_string(limit=1)
    assert mask.to_string(2).splitlines()[1:3] == ["░░  ", "██░░"]
    assert str(mask).startswith("BlockMask(shape=(2, 1, 8, 8), sparsity=37.50%")
    assert "mask_mod=later" in repr(mask) and "kv_indices=torch.Size([2, 1, 4, 4])" in repr(mask)


def test_what_flex_attention_computes_of_lists_of_blocks():
    q, k, v = rl.randn(3, 1, 1, 4, 8).unbind()
    count, columns = rl.tensor([[[1, 0]]]), rl.tensor([[[[1, 0], [0, 0]]]])
    full = rl.tensor([[[1, 2]]]), rl.tensor([[[[0, 1], [1, 0]]]])

    def odd(b, h, i, j):
        return j % 2 == 1

    mask = flex_attention.BlockMask.from_kv_blocks(count, columns, *full, 2, odd)
    # The first two queries see keys 0 and 1, which are a full block, and the odd one of 2 and 3.
    seen = rl.tensor([[True, True, False, True]] * 2 + [[True] * 4] * 2)
    expected = scaled_dot_product_attention(q, k, v, attn_mask=seen)
    found = flex_attention.flex_attention(q, k, v, block_mask=mask)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    everything = flex_attention.BlockMask.from_kv_blocks(
        count, columns, BLOCK_SIZE=2, compute_q_blocks=False
    )
    assert everything.q_indices is None and everything.seq_lengths == (4, 4)
    found = flex_attention.flex_attention(q, k, v, block_mask=everything)
    assert (found[0, 0, 2:] == 0).all()  # rows without a block see nothing
    expected = scaled_dot_product_attention(q[:, :, :2], k[:, :, 2:], v[:, :, 2:])
    np.testing.assert_allclose(found[:, :, :2].numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)


def test_parts_of_block_masks():
    mask = flex_attention.create_block_mask(lambda b, h, i, j: i >= j + b, 3, 1, 8, 8, "cpu", 2)
    part = mask[1:]
    assert part.shape == (2, 1, 8, 8) and (part.to_dense() == mask.to_dense()[1:]).all()
    assert mask[-1].shape == (1, 1, 8, 8)
    rows = mask[0, 0, rl.tensor([1])]
    assert rows.kv_num_blocks.shape == (1, 1, 1)
    q = rl.randn(1, 1, 8, 4)
    with pytest.raises(RuntimeError, match="from a sliced BlockMask"):
        flex_attention.flex_attention(q, q, q, block_mask=mask[0])
    part = mask[0]
    part.mask_mod = mask.mask_mod
    assert flex_attention.flex_attention(q, q, q, block_mask=part).shape == q.shape
    cut = mask._adjust(5, 3)
    assert cut.shape == (3, 1, 5, 3)
    assert (cut.to_dense() == mask.to_dense()[..., :3, :2]).all()
    assert mask.to("cpu").as_tuple()[-1] is mask.mask_mod


def test_block_masks_refuse():
    count, columns = rl.tensor([1]), rl.tensor([[0]])
    make = flex_attention.BlockMask.from_kv_blocks
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        make(count, count)
    with pytest.raises(AssertionError, match="both provided or omitted"):
        make(count, columns, count)
    with pytest.raises(NotImplementedError, match="dq_write_order is for a kernel of GPUs"):
        make(count, columns, dq_write_order=count)
    with pytest.raises(ValueError, match="dq_kv_order must be a bool"):
        make(count, columns, dq_kv_order=1)
    create = flex_attention.create_block_mask
    with pytest.raises(NotImplementedError, match="compute_dq_write_order"):
        create(later, 1, 1, 2, 2, compute_dq_write_order=True)
    with pytest.raises(AssertionError, match="requires a mask_mod"):
        create(far, 1, 1, 2, 2)
    with pytest.warns(DeprecationWarning, match="_compile"):
        create(later, 1, 1, 2, 2, _compile=True)


def test_masks_of_scores():
    def scores(score, b, h, i, j):
        return rl.where(i >= j, score, -math.inf)

    made = flex_attention.create_mask(scores, None, None, 2, 2, "cpu")
    assert made.tolist() == [[[[True, False], [True, True]]]]


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_layers_as_copies_of_the_modules_call_them(norm_first, activation):
    layer = rl.nn.TransformerEncoderLayer(
        8, 2, 16, activation=activation, norm_first=norm_first, batch_first=True
    ).eval()
    x, own = rl.randn(3, 5, 8), layer.self_attn
    weights = (8, 2, own.in_proj_weight, own.in_proj_bias, own.out_proj.weight, own.out_proj.bias)
    rest = (
        activation == "gelu", norm_first, layer.norm1.eps, layer.norm1.weight, layer.norm1.bias,
        layer.norm2.weight, layer.norm2.bias, layer.linear1.weight, layer.linear1.bias,
        layer.linear2.weight, layer.linear2.bias,
    )  # fmt: skip
    padding = rl.arange(5) >= rl.tensor([[3], [5], [4]])
    causal = rl.ones(5, 5, dtype=rl.bool).triu(1)
    with rl.no_grad():
        for mask, kind, given in (
            (None, None, {}),
            (causal, 0, {"src_mask": causal}),
            (padding, 1, {"src_key_padding_mask": padding}),
        ):
            found = rl._transformer_encoder_layer_fwd(x, *weights, *rest, mask, kind)
            rl.testing.assert_close(found, layer(x, **given))
        rows = [x[0, :3], x[1]]
        nested = rl._transformer_encoder_layer_fwd(rl.nested.nested_tensor(rows), *weights, *rest)
        for found, row in zip(nested.unbind(), rows, strict=True):
            rl.testing.assert_close(found, layer(row.unsqueeze(0))[0])

        both = causal | padding[:, None, None]
        found, weight = rl._native_multi_head_attention(x, x, x, *weights, both, True, False, 2)
        expected, of_heads = own(
            x, x, x, attn_mask=causal, key_padding_mask=padding, average_attn_weights=False
        )
        rl.testing.assert_close((found, weight), (expected, of_heads))
        for mask, kind in ((padding, None), (padding, 3)):
            with pytest.raises(RuntimeError, match="mask_type"):
                rl._native_multi_head_attention(x, x, x, *weights, mask, mask_type=kind)
        batch = rl.nested.nested_tensor(rows)
        found, weight = rl._native_multi_head_attention(batch, batch, batch, *weights)
        for i, row in enumerate(rows):
            expected = own(*[row.unsqueeze(0)] * 3)
            rl.testing.assert_close(found.unbind()[i], expected[0][0])
            count = len(row)
            rl.testing.assert_close(weight[i, :count, :count], expected[1][0])
        assert weight.shape == (2, 5, 5) and not weight[0, 3:].any()
        with pytest.raises(RuntimeError, match="no mask"):
            rl._native_multi_head_attention(batch, batch, batch, *weights, padding, mask_type=1)

        projected, bias = rl.randn(2, 3, 24), rl.randn(24)
        parts = rl._transform_bias_rescale_qkv(projected, bias, 2)
        assert [p.shape for p in parts] == [(2, 2, 3, 4)] * 3
        whole = (projected + bias).view(2, 3, 3, 2, 4)
        rl.testing.assert_close(parts[0], whole[:, :, 0].transpose(1, 2) / 2)
        assert parts[2].equal(whole[:, :, 2].transpose(1, 2))
