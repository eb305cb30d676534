"""Every row of the op table with DTensors: the values and gradients of one process.

Words: which share of the samples, as "3/8".
"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

from table import PUBLIC, case, is_random, plain_dtype, texts_of, tree_map  # noqa: E402

import rushlight as torch  # noqa: E402
import rushlight.distributed as dist  # noqa: E402
from rushlight.distributed.device_mesh import init_device_mesh  # noqa: E402
from rushlight.distributed.tensor import (  # noqa: E402
    DTensor,
    Partial,
    Replicate,
    Shard,
    distribute_tensor,
)

warnings.simplefilter("ignore")
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (size,))


class Spread:
    """Makes DTensors of arrays: the first array in one way, the others by `others`."""

    def __init__(self, way, others, leaves):
        self.way, self.others, self.leaves, self.made = way, others, leaves, []

    def __call__(self, array):
        plain = array.tensor(torch)
        way = self.others if self.made else self.way
        if way.is_shard() and (plain.dim() <= way.dim or plain.shape[way.dim] < 2):
            way = Replicate()
        if way.is_partial():
            half = plain / size if plain.is_floating_point() else plain
            way = way if plain.is_floating_point() else Replicate()
            made = DTensor.from_local(half if way.is_partial() else plain, mesh, [way]).detach()
        else:
            made = distribute_tensor(plain, mesh, [way])
        wants = any(array is one for one in self.leaves)
        self.made.append((made.requires_grad_(wants), array))
        return self.made[-1][0]


def tensors_in(result):
    found = []
    tree_map(found.append, result if isinstance(result, (tuple, list)) else (result,), torch.Tensor)
    return found


def run(call, convert):
    """Results and, of what the row has gradients for, gradients of their sum by fixed weights."""
    result = call.run(torch, convert)
    outs = tensors_in(result)
    differentiable = [
        o for o in outs if o.requires_grad and (o.is_floating_point() or o.is_complex())
    ]
    if differentiable:
        total = sum((whole(o) * weights(o)).sum().abs() for o in differentiable)
        total.backward()
    return result


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def weights(tensor):
    count = tensor.numel()
    return (torch.arange(count, dtype=torch.float64) * 0.37 % 1 + 0.5).view(tensor.shape)


class Plain:
    def __init__(self, leaves):
        self.leaves, self.made = leaves, []

    def __call__(self, array):
        wants = any(array is one for one in self.leaves)
        self.made.append((array.tensor(torch).requires_grad_(wants), array))
        return self.made[-1][0]


WAYS = [
    (Shard(0), Shard(0)), (Shard(1), Shard(1)), (Shard(0), Replicate()), (Replicate(), Shard(0)),
    (Shard(2), Shard(2)), (Partial(), Replicate()), (Shard(1), Replicate()), (Partial(), Partial()),
    (Shard(0), Shard(1)),
]  # fmt: skip


def same(ours, theirs, what):
    ours, theirs = tensors_in(ours), tensors_in(theirs)
    assert len(ours) == len(theirs), f"{what}: {len(ours)} results, not {len(theirs)}"
    for a, b in zip(ours, theirs):
        assert tuple(a.shape) == tuple(b.shape), f"{what}: shape {a.shape}, not {b.shape}"
        close = torch.testing.assert_close
        a, b = whole(a.detach()), b.detach()
        close(
            a.resolve_conj(), b.resolve_conj(), equal_nan=True, msg=lambda text: f"{what}: {text}"
        )


def compare(op, number, way):
    call = case(op, number, plain_dtype(op))
    leaves = call.differentiable()
    plain = Plain(leaves)
    try:
        expected = run(call, plain)
    except Exception:  # what one process does not do either
        return "skipped"
    if not tensors_in(expected):
        return "skipped"
    spread = Spread(*way, leaves)
    what = f"{op.full_name} {number} of {[str(a.values.shape) for a in call.arrays()]} as {way}"
    try:
        result = run(call, spread)
    except NotImplementedError as refusal:
        return f"refused {refusal}"
    same(result, expected, what)
    for (ours, _), (theirs, _) in zip(spread.made, plain.made):
        if theirs.grad is not None:
            assert ours.grad is not None, f"{what}: no gradient"
            same(ours.grad, theirs.grad, f"{what}: gradient")
    return "same"


def main(share):
    part, of = map(int, share.split("/"))
    counts, wrong, refused, n = {}, [], {}, 0
    for op in PUBLIC:
        if is_random(op) or "empty" in op.full_name:  # whose values are nobody's
            continue
        for number in range(len(texts_of(op))):
            for way in WAYS:
                n += 1
                if n % of != part:
                    continue
                try:
                    outcome = compare(op, number, way)
                except Exception as error:
                    outcome = "wrong"
                    wrong.append(f"{op.full_name} {number} {way}: {type(error).__name__}: {error}")
                if outcome.startswith("refused"):
                    refused[op.full_name] = outcome
                    outcome = "refused"
                counts[outcome] = counts.get(outcome, 0) + 1
    if rank == 0:
        print("\n".join(wrong))
        print("\n".join(f"{name}: {text}" for name, text in refused.items()))
        print("rows", counts)


main(sys.argv[1])
dist.destroy_process_group()
