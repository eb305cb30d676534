"""Attention to sequences in parts, and operations whose sharding a program says.

sequences.py SECTION ...
"""

import sys

from refusal import refused

import rushlight as torch
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from rushlight.distributed.tensor.experimental import context_parallel, register_sharding
from rushlight.distributed.tensor.experimental._attention import (
    _context_parallel_shard,
    _cp_options,
    _HeadTailLoadBalancer,
    context_parallel_unshard,
    set_rotate_method,
)
from rushlight.nn import functional as F

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))


def attention():
    """Outputs and gradients are those of one process."""
    for method in ("allgather", "alltoall"):
        for balanced in (True, False):
            for causal in (True, False):
                for heads in (4, 2):
                    set_rotate_method(method)
                    _cp_options.enable_load_balance = balanced
                    check_attention(causal, heads)
    set_rotate_method("allgather")
    _cp_options.enable_load_balance = True


def check_attention(causal, heads):
    draw, length = torch.Generator().manual_seed(0), 12 * size
    wide = {"generator": draw, "dtype": torch.float64}
    q = torch.randn(2, 4, length, 8, **wide).requires_grad_()
    k = torch.randn(2, heads, length, 8, **wide).requires_grad_()
    v = torch.randn(2, heads, length, 6, **wide).requires_grad_()
    grad = torch.randn(2, 4, length, 6, **wide)
    how = {"is_causal": causal, "enable_gqa": heads < 4, "scale": 0.3}
    wanted = F.scaled_dot_product_attention(q, k, v, **how)
    gradients = torch.autograd.grad(wanted, (q, k, v), grad)
    parts = [t.detach().clone() for t in (q, k, v, grad)]
    with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2] * 4):
        assert all(part.shape[2] == length // size for part in parts)
        inputs = [part.clone().requires_grad_() for part in parts[:3]]
        output = F.scaled_dot_product_attention(*inputs, **how)
        output.backward(parts[3])
        found = context_parallel_unshard(mesh, [output, *[t.grad for t in inputs]], [2] * 4)
    for whole, before in zip(parts, (q, k, v, grad)):
        assert torch.equal(whole, before)
    for one, other in zip(found, (wanted, *gradients)):
        torch.testing.assert_close(one, other.detach())


def details():
    """Dims, dtypes, dropout, buffers that stay in parts, and what is refused."""
    draw, length = torch.Generator().manual_seed(1), 8 * size
    x = torch.randn(3, length, 4, generator=draw)
    wanted = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    before = F.scaled_dot_product_attention
    for dtype, near in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        part = x.clone().to(dtype)
        with context_parallel(
            mesh, buffers=[part], buffer_seq_dims=[-2], no_restore_buffers={part}
        ):
            output = F.scaled_dot_product_attention(part, part, part, is_causal=True)
            (whole,) = context_parallel_unshard(mesh, [output], [1])
        assert output.dtype == dtype and part.shape == (3, 8, 4)
        torch.testing.assert_close(whole.float(), wanted, rtol=near, atol=near)
        assert F.scaled_dot_product_attention is before
    balancer = _HeadTailLoadBalancer(length, size, "cpu")
    order, back = balancer._generate_indices(), balancer._generate_indices(restore=True)
    assert order[0, :8].tolist() == [0, 1, 2, 3, *range(length - 4, length)]
    assert torch.equal(order[0][back[0]], torch.arange(length))
    pair = _context_parallel_shard(mesh, {"a": x, "b": [x.mT]}, {"a": 1, "b": [2]}, balancer)
    assert torch.equal(pair["a"], x[:, order[0].chunk(size)[rank]])
    assert torch.equal(pair["b"][0], pair["a"].mT)
    _cp_options.enable_load_balance = True
    with context_parallel(mesh):
        part = torch.zeros(1, 2, 4, 4)
        ones = torch.ones(1, 2, 4, 4).requires_grad_()
        torch.manual_seed(rank)
        dropped = F.scaled_dot_product_attention(part, part, ones, dropout_p=0.5)
        counts = dropped * 4 * size / 2  # of 4 * size keys, those that were kept
        torch.testing.assert_close(counts, counts.round())
        assert 0 < counts.mean() < 4 * size
        dropped.sum().backward()
        kept = counts[..., 0].sum()
        dist.all_reduce(kept)
        total = ones.grad.sum()
        dist.all_reduce(total)
        torch.testing.assert_close(total, kept.detach() / (4 * size / 2) * 4)
        mask = torch.ones(4, 4, dtype=torch.bool)
        refused(NotImplementedError, "attn_mask", F.scaled_dot_product_attention, part, part, part,
                mask)  # fmt: skip
        refused(ValueError, "as many queries", F.scaled_dot_product_attention, part[:, :, :2],
                part, part, is_causal=True)  # fmt: skip
    for problem, arguments in (
        ("buffer_seq_dims", {"buffers": [x]}),
        ("parts of equal length", {"buffers": [x[:, 1:]], "buffer_seq_dims": [1]}),
        ("not in buffers", {"no_restore_buffers": {x}}),
    ):
        refused(ValueError, problem, context_parallel(mesh, **arguments).__enter__)
    refused(NotImplementedError, "'allgather' or 'alltoall'", set_rotate_method, "tree")


def training():
    """A transformer whose sequences lie in parts has the losses of one process."""
    torch.manual_seed(0)
    length = 4 * size
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)
    model = nn.ModuleDict(
        {"words": nn.Embedding(11, 16), "layer": layer, "last": nn.Linear(16, 11)}
    )
    places, tokens = torch.randn(1, length, 16), torch.randint(0, 11, (2, length + 1))
    mask = nn.Transformer.generate_square_subsequent_mask(length)

    def loss_of(x, places, y, mask):
        h = model["layer"](model["words"](x) + places, src_mask=mask, is_causal=True)
        return F.cross_entropy(model["last"](h).flatten(0, 1), y.flatten())

    def losses(in_parts):
        kept, found = {n: p.detach().clone() for n, p in model.named_parameters()}, []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            x, y = tokens[:, :-1].clone(), tokens[:, 1:].clone()
            optimizer.zero_grad()
            if in_parts:
                where = places.clone()
                with context_parallel(mesh, buffers=[x, y, where], buffer_seq_dims=[1, 1, 1]):
                    loss = loss_of(x, where, y, mask[: x.size(1), : x.size(1)])
                    loss.backward()
                for p in model.parameters():
                    dist.all_reduce(p.grad, dist.ReduceOp.AVG)
                loss = loss.detach()
                dist.all_reduce(loss, dist.ReduceOp.AVG)
            else:
                loss = loss_of(x, places, y, mask)
                loss.backward()
            optimizer.step()
            found.append(loss.item())
        model.load_state_dict(kept)
        return found

    alone = losses(False)
    torch.testing.assert_close(losses(True), alone, rtol=1e-5, atol=1e-6)
    assert alone[-1] < alone[0]


def registered():
    """Operations that are done in the ways that a program names."""
    seen = []

    @torch.library.custom_op("ranks::halves", mutates_args=())
    def halves(x: torch.Tensor, y: torch.Tensor, by: int) -> tuple[torch.Tensor, torch.Tensor]:
        seen.append(tuple(x.shape))
        return x / by, (x * y).sum(0)

    @halves.register_fake
    def _(x, y, by):
        return torch.empty_like(x), x.new_empty(x.shape[1:])

    def setup(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:2])
        ctx.by = inputs[2]

    def backward(ctx, a, b):
        x, y = ctx.saved_tensors
        return a / ctx.by + b * y, b * x, None

    halves.register_autograd(backward, setup_context=setup)

    @register_sharding(torch.ops.ranks.halves.default)
    def _(x, y, by):
        assert by == 2 and x.ndim == 2
        rows = ([Shard(0), Partial()], [Shard(0), Shard(0), None])
        columns = ([Shard(1), Shard(0)], [Shard(1), Shard(1), None])
        return [([Replicate(), Replicate()], [Replicate(), Replicate(), None]), rows, columns]

    draw = torch.Generator().manual_seed(0)
    x = torch.randn(2 * size + 1, 3 * size, generator=draw)
    y = torch.randn(3 * size, generator=draw)
    for placement, result in ((Shard(0), Partial()), (Shard(1), Shard(0)), (Replicate(), None)):
        whole = x.clone().requires_grad_()
        other = y.expand_as(x).clone().requires_grad_()
        wanted = halves(whole, other, 2)
        (wanted[0].sum() + wanted[1].square().sum()).backward()
        seen.clear()
        parts = [distribute_tensor(t.detach(), mesh, [placement]) for t in (whole, other)]
        for like in (parts[0].view_as(parts[1]), parts[0].expand_as(parts[1])):
            assert like.placements == (placement,) and like.shape == x.shape
        parts = [part.requires_grad_() for part in parts]
        a, b = halves(*parts, 2)
        assert a.placements == (placement,) and b.placements == (result or Replicate(),)
        assert seen == [parts[0].to_local().shape] and b.shape == (3 * size,)
        (a.sum() + b.square().sum()).backward()
        torch.testing.assert_close(b.full_tensor(), wanted[1])
        torch.testing.assert_close(parts[0].grad.full_tensor(), whole.grad)
        torch.testing.assert_close(parts[1].grad.full_tensor(), other.grad)

    called = []

    @register_sharding(torch.ops.aten._softmax.default)
    def _(x, dim, half_to_float):
        called.append((dim, half_to_float))
        dims = [d for d in range(x.ndim) if d != dim % x.ndim]
        ways = [Replicate(), *map(Shard, dims)]
        return [([way], [way, None, None]) for way in ways]

    tall = distribute_tensor(x, mesh, [Shard(0)])
    for function in (lambda t: F.softmax(t, 1), lambda t: t.softmax(-1)):
        found = function(tall)
        assert found.placements == (Shard(0),)
        torch.testing.assert_close(found.full_tensor(), function(x))
    assert called == [(1, False), (-1, False)]
    assert torch.softmax(tall, 0).placements == (Shard(1),)  # less to send than the whole
    refused(TypeError, "expected an operation", register_sharding, torch.softmax)

    @register_sharding(torch.ops.ranks.halves.default)
    def _(x, y, by):
        return [([Shard(0), Partial()], [Shard(0), Shard(0), None])]

    little = distribute_tensor(torch.ones(1, 2), mesh, [Replicate()])
    refused(RuntimeError, "none of the 1 registered ways", halves, little, little, 2)


for section in sys.argv[1:]:
    globals()[section]()
dist.barrier()
dist.destroy_process_group()
print("done")
