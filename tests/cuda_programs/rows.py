"""Samples of the op table's rows on "cuda" beside the CPU: `python rows.py [--dtype D] [--layout L]
[NAME ...]`, the tensors in a layout of tests/layouts.py, or "empty first" or "empty last".

Prints a line for each that differs, and exits with 1 if there is one.
"""

import argparse
import collections
import pathlib
import sys
import warnings

sys.path[:0] = [str(pathlib.Path(__file__).parents[1]), str(pathlib.Path(__file__).parents[2])]

import numpy as np  # noqa: E402
from layouts import LAYOUTS, laid_out  # noqa: E402
from table import PUBLIC, Array, as_numpy, case, is_random, listed, texts_of  # noqa: E402

import rushlight as torch  # noqa: E402

TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-3, "float64": 1e-6,
             "complex64": 1e-3, "complex128": 1e-6}  # fmt: skip
# What may differ from device to device: random numbers, memory that nobody wrote, vectors of
# factorisations are up to a sign, and names of a device.
SKIPPED = (
    "empty",
    "svd",
    "eigh",
    "eig",
    "qr",
    "geqrf",
    "lstsq",
    "pin_memory",
    "is_pinned",
    "_data_ptr",
)


# They tell where elements lie, which a layout changes.
ABOUT_STRIDES = (
    "as_strided",
    "view",
    "resize",
    "stride",
    "is_contiguous",
    "storage_offset",
    "data_ptr",
    "set_",
    "dim_order",
)


def arranged(tensor, layout, size):
    """The tensor in a layout; one whose first, or last, dim is of the size loses all elements of it
    where that is to be empty.
    """
    if layout in LAYOUTS:
        laid = laid_out(tensor, layout)
        return tensor if laid is None else laid
    if layout and tensor.dim():
        dim = 0 if layout == "empty first" else -1
        if tensor.shape[dim] == size:
            return tensor.narrow(dim, 0, 0)
    return tensor


# Dtypes that CUDA's kernels refuse and the CPU's do not (docs/cuda.md).
REFUSED = {
    ("scatter_reduce", "complex128"),
    ("index_reduce", "complex128"),
}


class Run:
    """One call on a device: its results, and the gradients of their weighted sum."""

    def __init__(self, call, device, layout):
        self.inputs = []
        differentiable = [id(a) for a in call.differentiable()]
        sizes = [a.tensor(torch).shape for a in call.arrays() if isinstance(a, Array)]
        dim = 0 if layout == "empty first" else -1
        size = next((s[dim] for s in sizes if len(s)), None)

        def convert(array):
            tensor = arranged(array.tensor(torch, device), layout, size)
            if id(array) in differentiable and (tensor.is_floating_point() or tensor.is_complex()):
                tensor.requires_grad_()
                self.inputs.append(tensor)
            return tensor

        results = call.run(torch, convert)
        self.results = [r for r in listed(results) if isinstance(r, torch.Tensor)]
        self.grads = self.gradients(device)

    def gradients(self, device):
        total = None
        for r in self.results:
            if not r.requires_grad or r.numel() == 0:
                continue
            weights = torch.linspace(-1, 1, r.numel() + 1)[1:].view(r.shape).to(r.device)
            part = (r.abs() if r.is_complex() else r).float().mul(weights).sum().to(device)
            total = part if total is None else total + part
        if total is None:
            return []
        return torch.autograd.grad(total, self.inputs, allow_unused=True)


# Between steps their states are of the dtype on the CPU and of float32 on CUDA; gates, which are of
# float32 on both, come of these.
CARRIES_STATES = {"recurrent_layer"}


def differences(expected, got, least=0):
    """Why the results of a device are not those of the CPU, or "" if they are."""
    if len(expected) != len(got):
        return f"{len(got)} results, not {len(expected)}"
    for e, g in zip(expected, got):
        if e is None or g is None:
            if e is not g:
                return "a gradient is missing"
            continue
        if e.dtype != g.dtype or e.shape != g.shape:
            return f"{g.dtype} {tuple(g.shape)}, not {e.dtype} {tuple(e.shape)}"
        tolerance = max(least, TOLERANCE.get(str(e.dtype).removeprefix("torch."), 0))
        a, b = as_numpy(e.to_dense().cpu()), as_numpy(g.to_dense().cpu())
        scale = float(np.abs(a[np.isfinite(a)]).max(initial=0)) if a.size and tolerance else 0
        if not np.allclose(a, b, tolerance, tolerance * max(scale, 1e-3), equal_nan=True):
            return f"{np.array2string(b, threshold=6)} is not {np.array2string(a, threshold=6)}"
    return ""


def compare(op, number, dtype, layout):
    """What differs; None where the sample is refused in this dtype."""
    call = case(op, number, dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            on_cpu = Run(call, "cpu", layout)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return None
    if not any(isinstance(a, Array) for a in call.arrays()) or not on_cpu.results:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            on_cuda = Run(call, "cuda", layout)
            least = TOLERANCE.get(dtype, 0) if op.full_name in CARRIES_STATES else 0
            found = differences(on_cpu.results, on_cuda.results, least)
            return found or differences(on_cpu.grads, on_cuda.grads, least)
    except Exception as error:
        refused = isinstance(error, NotImplementedError) and "not implemented on CUDA" in str(error)
        if refused and (op.full_name, dtype) in REFUSED:
            return None
        return f"{type(error).__name__}: {error}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--layout", default="", choices=["", *LAYOUTS, "empty first", "empty last"])
    parser.add_argument("--part", default="0/1", help="every fourth row, beginning with the first")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    torch.backends.cudnn.allow_tf32 = False
    counts = collections.Counter()
    for op in PUBLIC[part::parts]:
        if options.names and op.full_name not in options.names:
            continue
        left_out = SKIPPED + ABOUT_STRIDES if options.layout else SKIPPED
        if options.layout == "broadcast":
            left_out += ("pinverse",)  # of a singular matrix
        if is_random(op) or any(part in op.full_name for part in left_out):
            continue
        for number in range(len(texts_of(op))):
            found = compare(op, number, options.dtype, options.layout)
            counts["refused" if found is None else "differ" if found else "agree"] += 1
            if found:
                print(f"{op.full_name} {number}: {' '.join(found.split())[:300]}", flush=True)
    print(f"{options.dtype}: {dict(counts)}")
    return 1 if counts["differ"] or not counts["agree"] else 0


if __name__ == "__main__":
    sys.exit(main())
