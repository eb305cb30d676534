"""Gradients of every sample by vmap, Jacobians, and a second-order step through an inner loop."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call, grad, jacrev, vmap

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
data, targets = torch.randn(5, 3), torch.randint(0, 2, (5,))
params = {k: v.detach() for k, v in model.named_parameters()}


def compute_loss(params, sample, target):
    predictions = functional_call(model, params, (sample.unsqueeze(0),))
    return F.cross_entropy(predictions, target.unsqueeze(0))


per_sample = vmap(grad(compute_loss), in_dims=(None, 0, 0))(params, data, targets)
for i in range(5):
    model.zero_grad()
    F.cross_entropy(model(data[i : i + 1]), targets[i : i + 1]).backward()
    for name, p in model.named_parameters():
        assert torch.allclose(per_sample[name][i], p.grad, atol=1e-6)
norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample.values()]).norm(dim=0)
print(" ".join(f"{n:.4f}" for n in norms))

jacobian = vmap(jacrev(lambda x: functional_call(model, params, (x,))))(data)
assert jacobian.shape == (5, 2, 3)
by_autograd = torch.autograd.functional.jacobian(model, data[0])
assert torch.allclose(jacobian[0], by_autograd, atol=1e-6)


def task():
    """Sine waves that differ in phase."""
    phase = torch.rand(1) * 3
    x = torch.rand(10, 1) * 6 - 3
    return x[:5], torch.sin(x[:5] + phase), x[5:], torch.sin(x[5:] + phase)


net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
meta_optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
history = []
for step in range(40):
    meta_loss = 0
    for _ in range(3):
        x, y, x_test, y_test = task()
        weights = dict(net.named_parameters())
        inner = F.mse_loss(functional_call(net, weights, (x,)), y)
        gradients = torch.autograd.grad(inner, list(weights.values()), create_graph=True)
        adapted = {k: w - 0.05 * g for (k, w), g in zip(weights.items(), gradients)}
        meta_loss = meta_loss + F.mse_loss(functional_call(net, adapted, (x_test,)), y_test)
    meta_optimizer.zero_grad()
    meta_loss.backward()
    meta_optimizer.step()
    history.append(meta_loss.item())
    if step < 2:
        print(f"{meta_loss.item():.4f}")
assert sum(history[-10:]) < sum(history[:10])
