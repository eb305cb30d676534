"""Batches of tensors whose sizes differ."""

import copy
import pickle

import pytest

import rushlight
from rushlight import nested, nn

F = nn.functional
LAYOUTS = [rushlight.strided, rushlight.jagged]


def rows():
    return [rushlight.arange(4.0).reshape(2, 2), rushlight.arange(6.0).reshape(3, 2)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "call",
    [lambda x: x + 1, lambda x: x * x, lambda x: 1 - x, lambda x: x.sin(), lambda x: x > 1,
     lambda x: F.linear(x, rushlight.ones(3, 2)), lambda x: x @ rushlight.ones(2, 3),
     lambda x: x.softmax(-1), lambda x: x.sum(-1), lambda x: x.unsqueeze(-1),
     lambda x: x.to(rushlight.float64), lambda x: F.layer_norm(x, (2,)), lambda x: x.clone(),
     lambda x: rushlight.where(x > 1, x, x * 2), lambda x: x.chunk(2, -1)[1]],
)  # fmt: skip
def test_operations_are_those_on_each_tensor(layout, call):
    found = call(nested.nested_tensor(rows(), layout=layout))
    assert found.is_nested and found.layout is layout
    for ours, row in zip(found.unbind(), rows(), strict=True):
        rushlight.testing.assert_close(ours, call(row))


def test_what_jagged_tensors_say_of_themselves():
    x = nested.nested_tensor(rows(), layout=rushlight.jagged)
    assert x.dim() == 3 and x.size(0) == len(x) == 2 and x.shape[2] == 2 and x.numel() == 10
    assert x.shape == (x * 2).shape
    assert x.shape != nested.as_nested_tensor(list(x), layout=rushlight.jagged).shape
    with pytest.raises(TypeError, match="another number for each"):
        range(x.shape[1])
    assert x.offsets().tolist() == [0, 2, 5] and x.values().shape == (5, 2)
    assert repr(x).startswith("NestedTensor(size=(2, j") and "offsets=tensor([0, 2, 5])" in repr(x)
    assert x.sum(1).tolist() == [[2, 4], [6, 9]] and x.mean().item() == pytest.approx(2.1)
    assert x.transpose(1, 2)[1].shape == (2, 3)
    assert x.reshape(2, x.shape[1], 2, 1)[0].shape == (2, 2, 1)
    assert [t.tolist() for t in pickle.loads(pickle.dumps(x))] == [t.tolist() for t in x]


def test_strided_tensors():
    x = nested.nested_tensor(rows())
    assert repr(x).startswith("nested_tensor([\n  tensor([[0., 1.],\n          [2., 3.]]),\n")
    assert rushlight.cat([x, x]).size(0) == 4 and x.values().numel() == 10
    with pytest.raises(RuntimeError, match="dim 1 differs"):
        x.size(1)
    with pytest.raises(RuntimeError, match="has no shape"):
        x.shape  # noqa: B018
    two = nested.nested_tensor([rushlight.ones(1, 2), rushlight.ones(2, 1)])
    assert two.to_padded_tensor(0.0).tolist() == [[[1, 1], [0, 0]], [[1, 0], [1, 0]]]


def test_padding_and_parts_of_tensors():
    x = nested.nested_tensor(rows(), layout=rushlight.jagged)
    padded = nested.to_padded_tensor(x, -1, (2, 4, 2))
    assert padded.shape == (2, 4, 2) and padded[0, 2:].tolist() == [[-1, -1]] * 2
    back = nested.narrow(
        padded, 1, rushlight.tensor([0, 1]), rushlight.tensor([2, 2]), layout=rushlight.jagged
    )
    assert back[0].tolist() == rows()[0].tolist() and back[1].tolist() == rows()[1][1:].tolist()
    picked = nested.masked_select(
        rushlight.arange(6).reshape(2, 3), rushlight.tensor([[1, 0, 1], [0, 1, 0]]).bool()
    )
    assert [t.tolist() for t in picked] == [[0, 2], [4]]
    parts = nested.nested_tensor_from_jagged(rushlight.arange(5), rushlight.tensor([0, 2, 5]))
    assert [t.tolist() for t in parts] == [[0, 1], [2, 3, 4]]


def test_gradients():
    leaf = nested.nested_tensor(rows(), layout=rushlight.jagged, requires_grad=True)
    (leaf * leaf).sum().backward()
    assert leaf.requires_grad and leaf.grad[1].tolist() == (rows()[1] * 2).tolist()
    a, b = (r.requires_grad_() for r in rows())
    layer = nn.Linear(2, 3)
    layer(nested.as_nested_tensor([a, b])).to_padded_tensor(0.0).sum().backward()
    assert a.grad.shape == (2, 2) and layer.weight.grad is not None
    twin = copy.deepcopy(layer)
    assert twin.weight.shape == (3, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [(lambda x: x.svd(), "nested: svd: no implementation"),
     (lambda x: x + nested.nested_tensor(rows()[::-1]), "differ in size"),
     (lambda x: nested.nested_tensor([rushlight.ones(1), rushlight.ones(1, 1)]), "number of dims"),
     (lambda x: nested.nested_tensor([rushlight.ones(1, 2), rushlight.ones(2, 1)],
                                     layout=rushlight.jagged), "one dim may differ"),
     (lambda x: nested.nested_tensor_from_jagged(rushlight.ones(2)), "give offsets"),
     (lambda x: nested.nested_tensor_from_jagged(rushlight.ones(2), rushlight.tensor([0, 5])),
      "do not fit values"),
     (lambda x: nested.to_padded_tensor(x, 0.0, (2, 1, 2)), "smaller than the tensors"),
     (lambda x: x.softmax(0), "that of the batch"),
     (lambda x: nested.nested_tensor([], pin_memory=True), "pin_memory")],
)  # fmt: skip
def test_errors(call, message):
    with pytest.raises((RuntimeError, NotImplementedError), match=message):
        call(nested.nested_tensor(rows()))


def test_a_leaf_says_that_it_requires_grad():
    parts = [rushlight.ones(1), rushlight.ones(2)]
    leaf = rushlight.nested.nested_tensor(parts, requires_grad=True)
    assert repr(leaf) == (
        "nested_tensor([\n  tensor([1.], requires_grad=True),\n"
        "  tensor([1., 1.], requires_grad=True)\n], requires_grad=True)"
    )
    assert repr(leaf * 2) == (
        "nested_tensor([\n  tensor([2.], requires_grad=True),\n"
        "  tensor([2., 2.], requires_grad=True)\n], grad_fn=<MulBackward0>)"
    )
    assert repr(leaf.detach()) == "nested_tensor([\n  tensor([1.]),\n  tensor([1., 1.])\n])"
    made = rushlight.nested.as_nested_tensor(leaf.unbind())
    assert repr(made).endswith("], grad_fn=<NestedTensorFromTensorListBackward0>)")
    made = rushlight.nested.as_nested_tensor(rushlight.ones(2, 2, requires_grad=True))
    assert repr(made).endswith("], grad_fn=<NestedViewFromBufferBackward0>)")


def test_made_of_tensors_it_is_no_leaf():
    a, b = (rushlight.ones(n, requires_grad=True) for n in (2, 3))
    for layout in (rushlight.strided, rushlight.jagged):
        x = nested.as_nested_tensor([a, b], layout=layout)
        assert x.requires_grad and not x.is_leaf and x.grad_fn is not None
        (x * 2).sum().backward()
        x.backward(nested.nested_tensor([[1.0, 2.0], [3.0, 4.0, 5.0]], layout=layout))
    assert a.grad.tolist() == [6, 8] and b.grad.tolist() == [10, 12, 14]
    with pytest.raises(RuntimeError, match="nested gradient of 2 tensors"):
        x.backward()
    plain = nested.as_nested_tensor([a.detach(), b.detach()])
    assert plain.is_leaf and plain.grad_fn is None
    assert "requires_grad=True" in repr(
        nested.nested_tensor([a, b], layout=rushlight.jagged, requires_grad=True)
    )


def test_shape_is_a_size():
    x = nested.as_nested_tensor([rushlight.ones(n, 4) for n in (2, 3)], layout=rushlight.jagged)
    assert type(x.shape) is rushlight.Size and repr(x.shape).startswith("torch.Size([2, j")


def test_parts_with_gaps_between_them():
    base = rushlight.arange(24.0).reshape(3, 8)
    starts, lengths = rushlight.tensor([0, 1, 2]), rushlight.tensor([3, 2, 4])
    x = nested.narrow(base, 1, starts, lengths, layout=rushlight.jagged)
    assert not x.is_contiguous() and x.lengths().tolist() == [3, 2, 4]
    assert x.offsets().tolist() == [0, 9, 18, 22]
    assert x.values().shape == (24,) and x.values().data_ptr() == base.data_ptr()
    packed = x.contiguous()
    assert packed.is_contiguous() and packed.lengths() is None and packed.contiguous() is packed
    assert packed.values().tolist() == [0, 1, 2, 9, 10, 18, 19, 20, 21]
    assert (x * 2).offsets().tolist() == [0, 3, 5, 9]
    again = nested.nested_tensor_from_jagged(x.values(), x.offsets(), x.lengths())
    assert [p.tolist() for p in again.unbind()] == [p.tolist() for p in x.unbind()]
    assert again.values() is not None and not again.is_contiguous()


@pytest.mark.parametrize("layout", ["jagged", "strided"])
class TestOperands:
    """Dense and nested operands side by side, and changes in place."""

    def pair(self, layout):
        parts = [rushlight.arange(8.0).view(2, 4), rushlight.ones(3, 4)]
        return nested.nested_tensor(parts, layout=getattr(rushlight, layout)), parts

    def test_a_dense_operand_with_the_dim_of_the_batch_gives_each_its_row(self, layout):
        x, parts = self.pair(layout)
        rows = rushlight.arange(8.0).view(2, 1, 4)
        for result in (x + rows, rows + x, rushlight.add(x, rows)):
            for got, part, row in zip(result.unbind(), parts, rows, strict=True):
                assert rushlight.equal(got, part + row)
        both = x * rushlight.full((1, 1, 4), 3.0)
        assert rushlight.equal(both.unbind()[1], parts[1] * 3)
        with pytest.raises(RuntimeError, match="does not fit a nested one of 3 dims and 2 tensors"):
            x + rushlight.ones(3, 1, 4)

    def test_products(self, layout):
        x, parts = self.pair(layout)
        dense = rushlight.arange(40.0).view(2, 4, 5)
        for result in (rushlight.bmm(x, dense), x @ dense):
            for got, part, matrix in zip(result.unbind(), parts, dense, strict=True):
                assert rushlight.equal(got, part @ matrix)
        squares = rushlight.matmul(x.transpose(1, 2), x).unbind()
        assert rushlight.equal(squares[0], parts[0].t() @ parts[0])

    def test_in_place(self, layout):
        x, parts = self.pair(layout)
        assert x.mul_(2) is x and x.add_(rushlight.ones(2, 1, 4)) is x
        assert rushlight.equal(x.unbind()[0], parts[0] * 2 + 1)
        x -= 9
        assert rushlight.nn.functional.relu(x, inplace=True) is x
        assert rushlight.equal(x.unbind()[0], (parts[0] * 2 - 8).relu())
        assert x.zero_().unbind()[1].sum() == 0

    def test_pieces(self, layout):
        x, parts = self.pair(layout)
        pieces = x.split_with_sizes([1, 3], dim=-1)
        assert rushlight.equal(pieces[1].unbind()[0], parts[0][:, 1:])
        with pytest.raises(RuntimeError, match="dim 1 differs, and so the number of pieces"):
            x.split(2, 1)

    def test_sizes(self, layout):
        x, parts = self.pair(layout)
        assert x._nested_tensor_size().tolist() == [[2, 4], [3, 4]]
        assert x._nested_tensor_strides().tolist() == [[4, 1], [4, 1]]
        assert x.is_same_size(rushlight.zeros_like(x)) and not x.is_same_size(x.transpose(1, 2))
        if layout == "jagged":
            assert x._offsets.tolist() == [0, 2, 5] and (x._min_seqlen, x._max_seqlen) == (2, 3)
            assert x._values.shape == (5, 4) and x._lengths is None
        with pytest.raises(RuntimeError, match="without the dim argument"):
            x.squeeze()
        with pytest.raises(RuntimeError, match=r"dim\(\) > \d, got shape \(\)"):
            nested.as_nested_tensor(rushlight.ones(()), layout=getattr(rushlight, layout))

    def test_reductions_over_the_batch(self, layout):
        x, parts = self.pair(layout)
        if layout == "strided":
            with pytest.raises(RuntimeError, match="dim 0 is that of the batch"):
                x.sum(dim=(0, 1))
            return
        whole = rushlight.cat(parts)
        assert rushlight.equal(x.sum(dim=(0, 1)), whole.sum(0))
        assert rushlight.equal(x.mean(dim=(0, 1), keepdim=True), whole.mean(0).view(1, 1, 4))
        assert rushlight.equal(x.sum(dim=(0, 1, 2)), whole.sum())


@pytest.mark.parametrize("layout", [rushlight.strided, rushlight.jagged])
def test_gradients_of_nested_tensors_by_grad(layout):
    parts = [rushlight.ones(2, 3), rushlight.ones(4, 3)]
    x = rushlight.nested.nested_tensor(parts, layout=layout, requires_grad=True)
    other, unused = rushlight.tensor(2.0, requires_grad=True), rushlight.ones(1, requires_grad=True)
    y = x * x * other
    of_x, of_other, nothing = rushlight.autograd.grad(
        y,
        (x, other, unused),
        rushlight.nested.nested_tensor(parts, layout=layout),
        allow_unused=True,
    )
    assert of_x.layout is layout and nothing is None and of_other.item() == 18
    assert all(p.equal(4 * o) for p, o in zip(of_x.unbind(), parts, strict=True))
    total = sum(p.sum() for p in (x * 3).unbind())
    found = rushlight.autograd.grad(total, {"x": x})
    assert found["x"].unbind()[1].eq(3).all()


def test_the_size_that_differs_is_a_symbol():
    x = rushlight.nested.nested_tensor(
        [rushlight.ones(2, 3), rushlight.ones(4, 3)], layout=rushlight.jagged
    )
    assert isinstance(x.shape[1], rushlight.SymInt) and x.shape[1] == x.size(1)


def test_views_of_a_buffer():
    buffer = rushlight.arange(12.0, requires_grad=True)
    sizes = rushlight.tensor([[2, 3], [1, 3], [0, 3]])
    strides, offsets = rushlight._nested_compute_contiguous_strides_offsets(sizes)
    assert strides.tolist() == [[3, 1]] * 3 and offsets.tolist() == [0, 6, 9]
    nested = rushlight._nested_view_from_buffer(buffer, sizes, strides, offsets)
    assert [tuple(part.shape) for part in nested.unbind()] == [(2, 3), (1, 3), (0, 3)]
    assert nested.unbind()[1].tolist() == [[6, 7, 8]]
    (nested * 2).to_padded_tensor(0.0).sum().backward()
    assert buffer.grad.tolist() == [2.0] * 9 + [0.0] * 3


def test_shapes_of_jagged_batches():
    parts = [rushlight.arange(16.0).reshape(2, 8), rushlight.arange(40.0).reshape(5, 8)]
    x = rushlight.nested.nested_tensor(parts, layout=rushlight.jagged)
    heads = x.unflatten(-1, [2, 4])
    assert all(p.equal(q) for p, q in zip(heads.flatten(-2).unbind(), parts, strict=True))
    assert heads.transpose(1, 2).transpose(1, 2).flatten(2, 3).shape == x.shape
    with pytest.raises(RuntimeError, match="flatten: the dim that differs"):
        heads.flatten(1, 2)
    assert [tuple(p.shape) for p in x.permute(0, -1, 1).unbind()] == [(8, 2), (8, 5)]
    with pytest.raises(ValueError, match="permute: dim 0"):
        x.permute(1, 0, 2)
    wide = x.unsqueeze(-1).expand(2, -1, 8, 3)
    assert [tuple(p.shape) for p in wide.unbind()] == [(2, 8, 3), (5, 8, 3)]
    assert x.view_as(x).shape == x.expand_as(x).shape == x.shape
    with pytest.raises(RuntimeError, match="expand: the first of"):
        x.expand(3, -1, 8)


def test_extremes_of_jagged_batches():
    parts = [rushlight.randn(2, 8), rushlight.randn(5, 8)]
    x = rushlight.nested.nested_tensor(parts, layout=rushlight.jagged)
    values, places = x.max(1)  # along the dim that differs: a row for each tensor
    assert values.equal(rushlight.stack([p.amax(0) for p in parts]))
    assert places.equal(x.argmax(1)) and places.shape == (2, 8)
    found = x.min(-1, keepdim=True)
    assert found.values.unbind()[1].equal(parts[1].amin(-1, keepdim=True))
    assert found.indices.unbind()[1].equal(parts[1].argmin(-1, keepdim=True))
    assert x.max().item() == max(p.max().item() for p in parts)
    assert x.argmax(2).unbind()[0].equal(parts[0].argmax(1))
    with pytest.raises(RuntimeError, match="max: dim 0"):
        x.max(0)


@pytest.mark.parametrize("layout", [rushlight.jagged, rushlight.strided])
@pytest.mark.parametrize("make", [nested.nested_tensor, nested.as_nested_tensor])
def test_values_and_parts_are_one_memory_of_their_own(layout, make):
    rows = [rushlight.ones(2, 3), rushlight.ones(1, 3)]
    batch = make(rows, layout=layout)
    batch.values().add_(1)
    batch.unbind()[1].mul_(2)
    padded = batch.to_padded_tensor(0.0)
    assert padded[:, 0].tolist() == [[2] * 3, [4] * 3] and padded[1, 1].tolist() == [0] * 3
    assert batch.values().flatten().tolist() == [2] * 6 + [4] * 3
    assert all(bool((row == 1).all()) for row in rows)
    wide = make([rushlight.ones(2, 3), rushlight.zeros(2, 1)], layout=layout)
    assert [part.sum().item() for part in wide.unbind()] == [6, 0]


def test_gradients_of_some_of_the_tensors():
    """What no gradient reached was None for the whole."""
    batch = nested.nested_tensor(
        [rushlight.ones(n, 2) for n in (2, 3)], layout=rushlight.jagged, requires_grad=True
    )
    batch.unbind()[1].sum().backward()
    assert [g.tolist() for g in batch.grad.unbind()] == [[[0, 0]] * 2, [[1, 1]] * 3]
    (grad,) = rushlight.autograd.grad(batch.unbind()[0].sum() * 2, [batch])
    assert [g.sum().item() for g in grad.unbind()] == [8, 0]
    other = rushlight.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="allow_unused=True"):
        rushlight.autograd.grad(other.sum(), [batch])
    assert rushlight.autograd.grad(other.sum(), [batch], allow_unused=True) == (None,)


def test_the_dim_that_differs_is_known_where_none_does():
    """Of tensors of one length it was taken for the first."""
    values = rushlight.arange(24.0).view(4, 6)
    batch = nested.nested_tensor_from_jagged(values, rushlight.tensor([0, 3, 6]), jagged_dim=2)
    assert batch._ragged_idx == 2 and batch.shape[:2] == (2, 4)
    assert (batch * 2).values().equal(values * 2)
    for turned in (batch.transpose(1, 2), batch.permute(0, 2, 1)):
        assert turned._ragged_idx == 1 and turned.values().equal(values.t())
    assert batch.unsqueeze(1)._ragged_idx == 3 and batch.unsqueeze(-1)._ragged_idx == 2
    assert batch.unsqueeze(1).squeeze(1)._ragged_idx == 2
    assert batch.unflatten(1, (2, 2))._ragged_idx == 3
    assert batch.sum(1)._ragged_idx == 1 and batch.sum(1, keepdim=True)._ragged_idx == 2
    assert batch.amax(1)._ragged_idx == 1 and batch.select(1, 0)._ragged_idx == 1
    assert batch.unsqueeze(1).flatten(1, 2)._ragged_idx == 2
    assert rushlight.cat([batch, batch], 1)._ragged_idx == 2
    assert batch.view(2, 2, 2, batch.shape[2])._ragged_idx == 3
    assert batch.shape[2].is_nested_int()


def test_overloads_parts_and_older_names():
    from rushlight.nested._internal import nested_tensor as older

    batch = nested.nested_tensor([rushlight.ones(n, 2) for n in (2, 3, 1)])
    assert [t.tolist() for t in rushlight.ops.aten.sum.dim_IntList(batch, [1]).unbind()] == [
        [2, 2], [3, 3], [1, 1]
    ]  # fmt: skip
    assert [len(t) for t in batch.narrow(0, 1, 2).unbind()] == [3, 1]
    assert [t.shape for t in batch.narrow(2, 1, 1).unbind()] == [(2, 1), (3, 1), (1, 1)]
    with pytest.raises(RuntimeError, match="narrow"):
        batch.narrow(0, 2, 2)
    with pytest.raises(RuntimeError, match="nested tensors alone"):
        rushlight.cat([batch, rushlight.ones(2)])
    cube, kept = rushlight.arange(8).view(2, 2, 2), rushlight.tensor([True, False])
    chosen = nested.masked_select(cube, kept)
    assert [t.tolist() for t in chosen.unbind()] == [[0], [2], [4], [6]]

    padded = rushlight.arange(12.0).view(2, 3, 2).requires_grad_()
    offsets = rushlight.tensor([0, 1, 4])
    rows = older.nested_from_padded(padded, offsets)
    assert isinstance(rows, older.NestedTensor) and rows.values().shape == (4, 2)
    assert older.buffer_from_jagged(rows).equal(rows.values())
    rows.values().sum().backward()
    assert padded.grad.sum(-1).tolist() == [[2, 0, 0], [2, 2, 2]]
    with pytest.raises(RuntimeError, match="sum_S"):
        older.nested_from_padded(padded, offsets, sum_S=5)
    found, ends = older.jagged_from_list([rushlight.ones(1, 2), rushlight.ones(3, 2)], None)
    assert ends.tolist() == [0, 1, 4] and found._ragged_idx == 1
    with pytest.raises(RuntimeError, match="whose ends are"):
        older.jagged_from_list([rushlight.ones(1, 2)], rushlight.tensor([0, 2]))
    assert older.nested_view_from_values_offsets(rushlight.ones(4, 2), offsets)._max_seqlen == 3
    lengths = rushlight.tensor([1, 2])
    gaps = older.nested_view_from_values_offsets_lengths(rushlight.ones(4, 2), offsets, lengths)
    assert [len(t) for t in gaps.unbind()] == [1, 2]
