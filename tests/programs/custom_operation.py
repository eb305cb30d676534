"""Operations of one's own, in NumPy: with a gradient, in place, and by a schema; then training."""

import numpy as np
import torch
from torch import Tensor, nn


@torch.library.custom_op("program::bump", mutates_args=())
def bump(x: Tensor, width: float = 1.0) -> Tensor:
    return torch.from_numpy(np.exp(-((x.detach().numpy() / width) ** 2)))


@bump.register_fake
def _(x, width=1.0):
    return torch.empty_like(x)


def setup_context(ctx, inputs, output):
    x, ctx.width = inputs
    ctx.save_for_backward(x, output)


def backward(ctx, grad):
    x, output = ctx.saved_tensors
    return grad * output * x * (-2 / ctx.width**2), None


bump.register_autograd(backward, setup_context=setup_context)


@torch.library.custom_op("program::clip_", mutates_args={"x"})
def clip_(x: Tensor, limit: float) -> None:
    array = x.detach().numpy()
    np.clip(array, -limit, limit, out=array)


library = torch.library.Library("program", "FRAGMENT")
library.define("split_sum(Tensor[] parts, float scale=1.0) -> (Tensor, int)")


@torch.library.impl(library, "split_sum", "CompositeImplicitAutograd")
def split_sum(parts, scale=1.0):
    return sum(part.sum() for part in parts) * scale, len(parts)


class Bumps(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.inner = nn.Linear(1, count)
        self.outer = nn.Linear(count, 1)

    def forward(self, x):
        return self.outer(torch.ops.program.bump(self.inner(x), 1.5))


torch.manual_seed(0)
x = torch.linspace(-2, 2, 64)[:, None]
y = torch.sin(2 * x)
model = Bumps(16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
losses = []
for _ in range(60):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for parameter in model.parameters():
            torch.ops.program.clip_(parameter, 2.0)
    losses.append(loss.item())
print(*(f"{loss:.4f}" for loss in losses[::10]))
assert losses[-1] < losses[0] / 5
assert max(p.abs().max().item() for p in model.parameters()) <= 2

total, count = torch.ops.program.split_sum([model.inner.weight, model.outer.weight], 2.0)
total.backward()
bumps = bump(model.inner(x))
print(f"{total.item():.3f}", count, bumps.grad_fn.name())
print(torch.ops.program.bump.default._schema, bump(x.to("meta")).shape)
print(torch.library.opcheck(bump, (torch.randn(3, requires_grad=True),)))
