"""The cost of an operation when the arithmetic is next to nothing: four floats, small layers.

    python -m bench.overhead [--only TEXT] [--rounds N] [--json FILE]
"""

import importlib

from bench import report
from bench.timing import Row, time_row

VECTORS = "a = T.ones(4); b = T.ones(4)"
NUMPY_VECTORS = "a = T.ones(4, dtype='float32'); b = T.ones(4, dtype='float32')"
NO_GRAD = "T.set_grad_enabled(False); "
GRAD = "T.set_grad_enabled(True); "

CHAIN = """
x = T.ones(4, requires_grad=True)
w = T.full((4,), 0.5)
def chain():
    y = x
    for _ in range(50):
        y = (y * w).tanh()
    y.backward(w)
"""

MLP = """
T.manual_seed(0)
model = T.nn.Sequential(T.nn.Linear(32, 32), T.nn.ReLU(), T.nn.Linear(32, 32))
optimizer = T.optim.Adam(model.parameters())
x, y = T.randn(8, 32), T.randn(8, 32)
def step():
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
"""


MODULE = """
class Empty(T.nn.Module):
    def forward(self, x):
        return x
empty, layer, a = Empty(), T.nn.Linear(4, 4), T.ones(1, 4)
"""


def plain(name, statement, target, setup=VECTORS, numpy=None, numpy_setup=NUMPY_VECTORS):
    """A row without gradients; `numpy` is its statement there, if it has one."""
    numpy = (numpy, numpy_setup) if numpy else None
    return Row(name, statement, NO_GRAD + setup, target=target, numpy=numpy)


ROWS = [
    plain("a + b", "a + b", 15, numpy="a + b"),
    Row("a * b, grad recorded", "a * b",
        GRAD + "a = T.ones(4, requires_grad=True); b = T.ones(4)", target=15),
    Row("chain of 100 ops, forward + backward, per op", "chain()",
        GRAD + CHAIN, per=100, target=15),
    plain("a[1:3]", "a[1:3]", 8, numpy="a[1:3]"),
    plain("a.view(2, 2)", "a.view(2, 2)", 8, numpy="a.reshape(2, 2)"),
    plain("a.sum()", "a.sum()", 8, numpy="a.sum()"),
    plain("8x8 @ 8x8", "m @ m", 8, "m = T.ones(8, 8)",
          numpy="m @ m", numpy_setup="m = T.ones((8, 8), dtype='float32')"),
    plain("a.relu()", "a.relu()", 8),
    plain("a.add_(b)", "a.add_(b)", 8, numpy="T.add(a, b, out=a)"),
    plain("a + 1.0", "a + 1.0", 8, numpy="a + 1.0"),
    plain("tensor([1.0, 2.0, 3.0, 4.0])", "T.tensor([1.0, 2.0, 3.0, 4.0])", 8,
          numpy="T.array([1.0, 2.0, 3.0, 4.0])"),
    plain("empty nn.Module, called", "empty(a)", 5, MODULE),
    plain("Linear(4, 4) of 1x4", "layer(a)", 5, MODULE),
    plain("layer.weight", "layer.weight", 5, MODULE),
    Row("MLP 32-32-32, batch 8, step with Adam", "step()", GRAD + MLP, target=10),
]


def main():
    options = report.arguments("bench.overhead", rounds=7).parse_args()
    libraries = report.begin(options)
    libraries["numpy"] = importlib.import_module("numpy")
    clock = report.clock_of(options)
    table = report.Table("One operation", libraries)
    for row in ROWS:
        if options.only in row.name:
            values = time_row(row, libraries, options.rounds, clock)
            targets = {"torch": row.target} if row.target else {}
            table.add(report.Figure("overhead", row.name, "ns", values, targets))
    report.finish(options, table)


if __name__ == "__main__":
    main()
