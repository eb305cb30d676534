"""One curve fitted in six ways: by hand, by autograd, by a function of one's own, by modules."""

import math

import torch


class LegendrePolynomial3(torch.autograd.Function):
    """1/2 (5 x^3 - 3 x)"""

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


class Polynomial3(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.randn(()))
        self.b = torch.nn.Parameter(torch.randn(()))
        self.c = torch.nn.Parameter(torch.randn(()))
        self.d = torch.nn.Parameter(torch.randn(()))

    def forward(self, x):
        return self.a + self.b * x + self.c * x**2 + self.d * x**3

    def string(self):
        return f"y = {self.a.item():.3f} + {self.b.item():.3f} x"


dtype = torch.float
device = torch.device("cpu")
x = torch.linspace(-math.pi, math.pi, 400, device=device, dtype=dtype)
y = torch.sin(x)


def by_hand():
    a, b, c, d = (torch.randn((), device=device, dtype=dtype) for _ in range(4))
    for _ in range(400):
        y_pred = a + b * x + c * x**2 + d * x**3
        grad_y_pred = 2.0 * (y_pred - y)
        a -= 5e-6 * grad_y_pred.sum()
        b -= 5e-6 * (grad_y_pred * x).sum()
        c -= 5e-6 * (grad_y_pred * x**2).sum()
        d -= 5e-6 * (grad_y_pred * x**3).sum()
    return (a + b * x + c * x**2 + d * x**3 - y).pow(2).sum().item()


def by_autograd():
    weights = [torch.randn((), dtype=dtype, requires_grad=True) for _ in range(4)]
    for _ in range(400):
        loss = (sum(w * x**i for i, w in enumerate(weights)) - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for w in weights:
                w -= 5e-6 * w.grad
                w.grad = None
    return loss.item()


def by_own_function():
    a = torch.full((), 0.0, requires_grad=True)
    b = torch.full((), -1.0, requires_grad=True)
    c = torch.full((), 0.0, requires_grad=True)
    d = torch.full((), 0.3, requires_grad=True)
    P3 = LegendrePolynomial3.apply
    for _ in range(300):
        y_pred = a + b * P3(c + d * x)
        loss = (y_pred - y).pow(2).sum()
        loss.backward()
        with torch.no_grad():
            for w in (a, b, c, d):
                w -= 2e-5 * w.grad
                w.grad.zero_()
    return loss.item()


def by_module(optimizer_class, **options):
    model = Polynomial3()
    criterion = torch.nn.MSELoss(reduction="sum")
    optimizer = optimizer_class(model.parameters(), **options)
    for _ in range(400):
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model.string().startswith("y = ")
    return loss.item()


def by_sequential():
    xx = x.unsqueeze(-1).pow(torch.tensor([1, 2, 3]))
    model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(0, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2)
    for _ in range(400):
        loss = torch.nn.functional.mse_loss(model(xx), y, reduction="sum")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert model[0].weight.shape == (1, 3)
    return loss.item()


torch.manual_seed(0)
start = (y**2).sum().item()
print(f"{start:.2f}")
losses = {
    "hand": by_hand(),
    "autograd": by_autograd(),
    "function": by_own_function(),
    "sgd": by_module(torch.optim.SGD, lr=1e-6, momentum=0.9),
    "adam": by_module(torch.optim.Adam, lr=5e-2),
    "sequential": by_sequential(),
}
for name, loss in losses.items():
    print(f"{name}: {loss:.1f}")
    assert loss < 2 * start, (name, loss)
inputs = torch.randn(5, dtype=torch.double, requires_grad=True)
assert torch.autograd.gradcheck(LegendrePolynomial3.apply, (inputs,))
