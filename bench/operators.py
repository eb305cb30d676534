"""Every operator of torch's own test database that rushlight has, beside torch.

    python -m bench.operators [--only TEXT] [--gradients] [--samples N] [--below RATIO]
                              [--rounds N] [--threads N] [--json FILE]

The inputs are those that torch's tests make: small, and of the kinds that an operator takes. A line
sums over the samples of one operator; `bench.kernels` has the large inputs that matter most. What
cannot be called in both libraries is counted at the end.
"""

import timeit
import warnings
from functools import reduce

from bench import report
from bench.timing import time_in_turns

DTYPES = ("float32", "int64", "bool", "complex64")  # the first that an operator takes is timed


class Untranslatable(Exception):
    """A value of torch's that has no equal in the other library."""


class Translation:
    """Values of torch's samples as a library's.

    Args:
        library: whose they become; torch's own are copied.
        gradients: whether tensors that may have a gradient shall have one.
    """

    def __init__(self, library, torch, gradients):
        self.library, self.torch, self.gradients = library, torch, gradients

    def value(self, x):
        torch = self.torch
        if isinstance(x, torch.Tensor):
            return self.tensor(x)
        if isinstance(x, (torch.dtype, torch.memory_format)):
            return getattr(self.library, str(x).removeprefix("torch."))
        if isinstance(x, (list, tuple)):
            return type(x)(map(self.value, x)) if type(x) in (list, tuple) else tuple(x)
        if isinstance(x, dict):
            return {key: self.value(item) for key, item in x.items()}
        if type(x).__module__.startswith("torch") or callable(x):
            raise Untranslatable(type(x).__name__)
        return x

    def tensor(self, x):
        if x.layout is not self.torch.strided or type(x) is not self.torch.Tensor:
            raise Untranslatable(f"{x.layout} {type(x).__name__}")
        made = self.library.tensor(x.detach().resolve_conj().resolve_neg().numpy())
        return made.requires_grad_(self.gradients and x.requires_grad)


def function_of(library, name):
    """The operator by its public name: `add`, `linalg.det`, or a method alone, as `__getitem__`."""
    if not name.startswith("__") and hasattr(library, name.split(".")[0]):
        return reduce(getattr, name.split("."), library)
    return getattr(library.Tensor, name)


def with_gradients(library, function, args, kwargs):
    """A call that runs the function and computes its gradients."""
    tensors = [t for x in (*args, *kwargs.values()) for t in tensors_in(x, library)]
    inputs = [t for t in tensors if t.requires_grad]
    if not inputs:
        raise Untranslatable("nothing has a gradient")

    def call():
        outputs = [t for t in tensors_in(function(*args, **kwargs), library) if t.requires_grad]
        library.autograd.grad(outputs, inputs, [library.ones_like(t) for t in outputs],
                              allow_unused=True)

    return call


def tensors_in(x, library):
    if isinstance(x, library.Tensor):
        return [x]
    return [t for item in x for t in tensors_in(item, library)] if type(x) in (list, tuple) else []


def time_sample(operator, sample, libraries, options, clock):
    """Seconds by library."""
    timers = {}
    for name, library in libraries.items():
        translate = Translation(library, libraries["torch"], options.gradients).value
        args = [translate(x) for x in (sample.input, *sample.args)]
        kwargs = translate(sample.kwargs)
        function = function_of(library, operator.name)
        call = lambda f=function, a=args, k=kwargs: f(*a, **k)  # noqa: E731
        if options.gradients:
            call = with_gradients(library, function, args, kwargs)
        timers[name] = timeit.Timer(call, timer=clock)
    return time_in_turns(timers, options.rounds, clock)


def time_operator(operator, libraries, options, clock):
    """Microseconds by library, of as many samples as can be called; none if none can."""
    torch = libraries["torch"]
    takes = operator.supported_dtypes("cpu")
    if options.gradients:
        takes = operator.supported_backward_dtypes("cpu") if operator.supports_autograd else ()
    dtype = next((getattr(torch, d) for d in DTYPES if getattr(torch, d) in takes), None)
    if dtype is None:
        return {}
    samples = list(operator.sample_inputs("cpu", dtype, requires_grad=options.gradients))
    sums = {}
    for sample in samples[:: max(1, len(samples) // options.samples)][: options.samples]:
        try:
            seconds = time_sample(operator, sample, libraries, options, clock)
        except Exception:  # any refusal, by either library, leaves the sample out
            continue
        for name, t in seconds.items():
            sums[name] = sums.get(name, 0) + t * 1e6
    return sums


def arguments():
    parser = report.arguments("bench.operators", rounds=3)
    parser.add_argument("--gradients", action="store_true",
                        help="the call with the gradients of its inputs")
    parser.add_argument("--samples", type=int, default=4, help="at most so many of an operator")
    parser.add_argument("--below", type=float, default=0.9, help="list what is slower than this")
    return parser.parse_args()


def main():
    options = arguments()
    libraries = report.begin(options)
    from torch.testing._internal.common_methods_invocations import op_db

    warnings.simplefilter("ignore")
    clock = report.clock_of(options)
    table = report.Table("Operators" + " and their gradients" * options.gradients, libraries)
    uncalled = []
    for operator in sorted(op_db, key=lambda o: o.full_name):
        private = operator.name.startswith("_") and not operator.name.startswith("__")
        if options.only not in operator.full_name or private:
            continue
        values = time_operator(operator, libraries, options, clock)
        if values:
            group = operator.name.rpartition(".")[0] or "torch"
            table.add(report.Figure("operators", operator.full_name, "us", values, group=group))
        else:
            uncalled.append(operator.full_name)
    if table.figures:
        table.add(report.mean_of(table.figures, "geometric mean"))
    print(f"\nNot called in both: {len(uncalled)}: {' '.join(uncalled)}")
    report.print_closing(table.figures, options.below)
    report.finish(options, table)


if __name__ == "__main__":
    main()
