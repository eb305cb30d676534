"""How exact float32 is: kernels and networks of both libraries beside torch in float64.

    python -m bench.accuracy [--only TEXT] [--group NAME] [--seeds N] [--threads N] [--above RATIO]
                             [--no-models] [--json FILE]

The rows are those of bench.kernels whose result is float32, and one training step of the networks
of bench.models: loss, output and each gradient. Both libraries get the same numbers, which a seed
gives in each. An error is the root of the mean square of the differences from float64, by that of
the values. For networks, how often the sign of what a ReLU gives differs is counted too.
Promised are a geometric mean of our error by torch's of at most 1, and no row of over 2.
"""

import argparse
import copy
import json
import math
from pathlib import Path

import torch

import rushlight
from bench import kernels, models

LIBRARIES = {"rushlight": rushlight, "torch": torch}
MOST = 2.0


# ---- numbers of two libraries, compared --------------------------------------------------------


def tensors_in(value):
    """The tensors of a result, of either library, in order."""
    if isinstance(value, (torch.Tensor, rushlight.Tensor)):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part)]
    return []


def as_torch(tensor):
    """In float64, or complex128."""
    if isinstance(tensor, rushlight.Tensor):
        tensor = torch.from_numpy(tensor.detach().numpy())
    tensor = tensor.detach()
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def error_of(tensors, reference):
    """The relative error of a list of tensors, all elements taken together."""
    square = of_values = 0.0
    for tensor, exact in zip(tensors, reference, strict=True):
        exact = as_torch(exact)
        apart = (as_torch(tensor) - exact).abs()
        finite = apart.isfinite()
        square += apart[finite].square().sum().item()
        of_values += exact.abs()[finite].square().sum().item()
    return math.sqrt(square / of_values) if of_values else 0.0


def ratio_of(ours, theirs):
    """Where both are exact, or nearly so beside a rounding, neither is the better."""
    least = 2.0**-30
    return max(ours, least) / max(theirs, least)


# ---- kernels -----------------------------------------------------------------------------------


def in_double(value):
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).double()
    if isinstance(value, torch.Tensor):
        double = {torch.float32: torch.float64, torch.complex64: torch.complex128}.get(value.dtype)
        if double is None:
            return value
        return value.detach().to(double).requires_grad_(value.requires_grad)
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return value.double()
    if isinstance(value, (list, tuple)):
        return type(value)(map(in_double, value))
    return value


def result_of(row, library, seed, double=False):
    """The tensors that a row's statement gives."""
    library.manual_seed(seed)
    scope = {"T": library}
    graph = row.setup.rpartition("; y = ")[2].rpartition("; g = ")[0]
    exec(row.setup, scope)
    if double:
        scope = {
            "T": library,
            **{
                name: in_double(value)
                for name, value in scope.items()
                if name not in ("T", "F", "__builtins__")
            },
        }
        scope["F"] = library.nn.functional
        if row.name.endswith(", backward"):  # its graph is made of the numbers in float64
            exec(f"y = {graph}", scope)
    return [t for t in tensors_in(eval(row.statement, scope)) if t.is_floating_point()]


def is_comparable(row):
    """Rows of float32 numbers that are the same in each run."""
    if "randn(" not in row.setup and "rand(" not in row.setup:
        return False  # numbers of its own, which would be float32 in the reference too
    try:
        compile(row.statement, row.name, "eval")
        first, again = (result_of(row, torch, 0) for _ in range(2))
    except SyntaxError:
        return False
    return bool(first) and all(
        a.dtype == torch.float32 and torch.equal(a, b) and not a.isnan().any()
        for a, b in zip(first, again, strict=True)
    )


def kernel_rows(options):
    """Yields (name, error of ours, of torch's)."""
    for group, rows in kernels.GROUPS.items():
        if options.group not in group or group in ("random", "optimizers", "reduced"):
            continue
        for row in rows:
            if options.only not in row.name or not is_comparable(row):
                continue
            errors = {}
            for seed in range(options.seeds):
                reference = result_of(row, torch, seed, double=True)
                for name, library in LIBRARIES.items():
                    error = error_of(result_of(row, library, seed), reference)
                    errors[name] = errors.get(name, 0.0) + error**2
            yield (
                f"{group}: {row.name}",
                *(math.sqrt(errors[name] / options.seeds) for name in LIBRARIES),
            )


# ---- networks ----------------------------------------------------------------------------------


def step(case, library, seed, double=False):
    """({"output": …, "gradient of …": …}, the signs of what its ReLUs gave) of one step."""
    library.manual_seed(seed)
    model, inputs, target, loss = case.make(library)
    model.train()
    for module in model.modules():  # which would draw other numbers in float64
        if type(module).__name__.startswith("Dropout"):
            module.p = 0.0
    if double:
        model, inputs, target = model.double(), in_double(inputs), in_double(target)
    signs = []
    for module in model.modules():
        if isinstance(module, library.nn.ReLU):
            module.register_forward_hook(lambda _, __, out: signs.append((out > 0).detach()))
    output = model(*inputs)
    loss(output, target).backward()
    found = {"output": output}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            found[f"gradient of {name}"] = parameter.grad
    return found, [torch.from_numpy(s.numpy()) for s in signs]


def model_rows(options):
    """Yields (name, error of ours, of torch's, flips of ours, of torch's)."""
    for case in models.CASES:
        if options.only not in case.name or case.autocast:
            continue
        sums = {}
        for seed in range(options.seeds):
            exact, exact_signs = step(case, torch, seed, double=True)
            for name, library in LIBRARIES.items():
                found, signs = step(case, library, seed)
                output = error_of([found.pop("output")], [exact["output"]])
                gradients = error_of(found.values(), [exact[key] for key in found])
                flips = sum(int((a != b).sum()) for a, b in zip(signs, exact_signs, strict=True))
                row = sums.setdefault(name, [0.0, 0.0, 0])
                row[0] += output**2
                row[1] += gradients**2
                row[2] += flips
        for place, what in enumerate(("output", "gradients")):
            yield (
                f"{case.name}: {what}",
                *(math.sqrt(sums[name][place] / options.seeds) for name in LIBRARIES),
            )
        yield f"{case.name}: ReLUs whose sign differs", *(sums[name][2] for name in LIBRARIES)


# ---- tables ------------------------------------------------------------------------------------


def add(rows, name, ours, theirs):
    counts = isinstance(ours, int)
    ratio = (ours + 1) / (theirs + 1) if counts else ratio_of(ours, theirs)
    rows.append({"name": name, "rushlight": ours, "torch": theirs, "ratio": ratio})
    cells = f"{ours:>12}{theirs:>12}" if counts else f"{ours:>12.2e}{theirs:>12.2e}"
    print(f"{name:66}{ratio:>7.2f}{cells}", flush=True)


def close(title, rows, above):
    if not rows:
        return
    mean = math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows))
    over = sorted((row for row in rows if row["ratio"] > above), key=lambda row: -row["ratio"])
    print(
        f"\n{title}: {len(rows)} rows, geometric mean {mean:.3f} (at most 1 promised); "
        f"{len(over)} over {above}"
    )
    for row in over:
        print(f"  {row['name']:66}{row['ratio']:>7.2f}")
    print()


def main():
    parser = argparse.ArgumentParser(prog="bench.accuracy", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("--group", default="", metavar="NAME")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--above", type=float, default=MOST)
    parser.add_argument("--no-models", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for library in LIBRARIES.values():
        library.set_num_threads(options.threads)
    print(f"{'Error of float32 beside float64':66}{'ratio':>7}{'rushlight':>12}{'torch':>12}")
    of_kernels, of_models = [], []
    for name, ours, theirs in kernel_rows(options):
        add(of_kernels, name, ours, theirs)
    close("Kernels", of_kernels, options.above)
    if not options.no_models:
        for name, ours, theirs in model_rows(options):
            add(of_models, name, ours, theirs)
        close("Networks", of_models, options.above)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(of_kernels + of_models, indent=1) + "\n")


if __name__ == "__main__":
    main()
