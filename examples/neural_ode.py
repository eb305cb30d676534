"""Learns the law of motion of a spiral from a few noisy points, by gradients through a solver.

Chen et al., "Neural Ordinary Differential Equations", 2018: the gradients come from a second
equation, solved backwards in time, so that memory does not grow with the number of steps.
"""

import rushlight as torch
from rushlight import nn


def runge_kutta(rates, state, start, end, steps):
    """Solve d state / dt = rates(t, state) from `start` to `end`; states are tuples of tensors."""
    h = (end - start) / steps

    def moved(by, slopes):
        return tuple(s + by * k for s, k in zip(state, slopes))

    for i in range(steps):
        t = start + i * h
        k1 = rates(t, state)
        k2 = rates(t + h / 2, moved(h / 2, k1))
        k3 = rates(t + h / 2, moved(h / 2, k2))
        k4 = rates(t + h, moved(h, k3))
        state = moved(h / 6, [a + 2 * b + 2 * c + d for a, b, c, d in zip(k1, k2, k3, k4)])
    return state


class Solve(torch.autograd.Function):
    """y(end) from y(start); keeps only y(end) for its backward."""

    @staticmethod
    def forward(ctx, y, law, start, end, steps, *parameters):
        (y,) = runge_kutta(lambda t, state: (law(t, *state),), (y,), start, end, steps)
        ctx.save_for_backward(y, *parameters)
        ctx.problem = law, start, end, steps
        return y

    @staticmethod
    def backward(ctx, grad):
        y, *parameters = ctx.saved_tensors
        law, start, end, steps = ctx.problem

        def rates(t, state):
            """Of y, of the loss's gradient with respect to it, and of that of the parameters."""
            y, adjoint = state[0].detach().requires_grad_(), state[1]
            with torch.enable_grad():
                rate = law(t, y)
            grads = torch.autograd.grad(rate, [y, *parameters], -adjoint, materialize_grads=True)
            return (rate.detach(), *grads)

        state = (y, grad, *(torch.zeros_like(p) for p in parameters))
        _, grad_y, *grads = runge_kutta(rates, state, end, start, steps)
        return grad_y, None, None, None, None, *grads


def solve(law, y, times, steps=2):
    """The states at `times`, of which the first is y."""
    states = [y]
    for start, end in zip(times, times[1:]):
        states.append(Solve.apply(states[-1], law, start, end, steps, *law.parameters()))
    return torch.stack(states)


class Law(nn.Module):
    """How fast the state changes, as a function of the state's cubes."""

    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2))

    def forward(self, t, y):
        return self.layers(y**3)


class Spiral(nn.Module):
    """The law to be found."""

    def __init__(self):
        super().__init__()
        self.register_buffer("matrix", torch.tensor([[-0.1, 2.0], [-2.0, -0.1]]))

    def forward(self, t, y):
        return y**3 @ self.matrix


def main(steps=300, length=8, count=32):
    torch.manual_seed(0)
    times = torch.linspace(0, 10, 200).tolist()
    with torch.no_grad():
        truth = solve(Spiral(), torch.tensor([[2.0, 0.0]]), times).squeeze(1)
    data = truth + 0.01 * torch.randn_like(truth)
    law = Law()
    optimizer = torch.optim.Adam(law.parameters(), lr=1e-2)
    for step in range(steps):
        starts = torch.randint(len(times) - length, (count,))
        pieces = data[starts + torch.arange(length).unsqueeze(1)]
        optimizer.zero_grad()
        loss = (solve(law, pieces[0], times[:length]) - pieces).abs().mean()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            with torch.no_grad():
                error = (solve(law, truth[:1], times).squeeze(1) - truth).abs().mean().item()
            print(f"step {step + 1}: {error:.4f} from the true path on average")
    return loss.item()


if __name__ == "__main__":
    main()
