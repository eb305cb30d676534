"""Learns weights from which a few gradient steps fit any sine wave, from ten of its points.

Finn, Abbeel and Levine, "Model-Agnostic Meta-Learning for Fast Adaptation of Deep Networks", 2017.
The gradient of the loss after the steps runs through the steps: second derivatives.
"""

import math

import rushlight as torch
from rushlight import nn
from rushlight.func import functional_call
from rushlight.nn import functional as F


def sample_task(points=10):
    """A sine wave of random amplitude and phase: points to learn from, and points to judge by."""
    amplitude = torch.empty(()).uniform_(0.1, 5.0)
    phase = torch.empty(()).uniform_(0.0, math.pi)
    x = torch.empty(2 * points, 1).uniform_(-5.0, 5.0)
    y = amplitude * torch.sin(x - phase)
    return (x[:points], y[:points]), (x[points:], y[points:])


def loss_of(model, weights, data):
    x, y = data
    return F.mse_loss(functional_call(model, weights, (x,)), y)


def adapt(model, weights, data, steps, rate, second_order=True):
    """The weights after some gradient steps, as a differentiable function of those before."""
    for _ in range(steps):
        loss = loss_of(model, weights, data)
        grads = torch.autograd.grad(loss, list(weights.values()), create_graph=second_order)
        weights = {name: w - rate * grad for (name, w), grad in zip(weights.items(), grads)}
    return weights


def meta_step(model, optimizer, tasks, rate):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(tasks):
        support, query = sample_task()
        weights = adapt(model, dict(model.named_parameters()), support, 1, rate)
        loss = loss_of(model, weights, query) / tasks
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


def evaluate(model, steps, rate, tasks=100):
    """The mean loss on new tasks before and after adapting."""
    before = after = 0.0
    for _ in range(tasks):
        support, query = sample_task()
        weights = dict(model.named_parameters())
        before += loss_of(model, weights, query).item() / tasks
        adapted = adapt(model, weights, support, steps, rate, second_order=False)
        after += loss_of(model, adapted, query).item() / tasks
    return before, after


def main(iterations=3000, tasks=10, rate=0.01):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(),
                          nn.Linear(40, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for iteration in range(1, iterations + 1):
        loss = meta_step(model, optimizer, tasks, rate)
        if iteration % 500 == 0:
            print(f"iteration {iteration}: loss after one step {loss:.3f}")
    before, after = evaluate(model, 10, rate)
    print(f"on new tasks: loss {before:.2f} at first, {after:.2f} after ten steps on ten points")
    return after


if __name__ == "__main__":
    main()
