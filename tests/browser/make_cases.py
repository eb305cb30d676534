"""Writes calls of the op table's rows with what they must give, for test_operations.py here.

    PYTHONPATH=python python tests/browser/make_cases.py FILE

Runs where NumPy is, on this machine: what is expected is NumPy's result where the row names a
reference, else that of the build here, which the other tests compare. A line of FILE is a call in
JSON.
"""

import base64
import json
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent.parent)]

import test_ops_forward as forward  # noqa: E402
from table import Array, DType, case, dtype_name, listed, texts_of  # noqa: E402

import rushlight as rl  # noqa: E402

OF_EACH = ("bool", "int64", "bfloat16", "float32", "float64", "complex64")
LEAST_CALLS = 4000  # so that they do not become fewer unseen

# Of several right answers, or what this processor or system has and the browser has not.
LEFT_OUT = (
    "svd", "eig", "eigh", "eigvals", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lobpcg", "lstsq",
    "from_file", "pin_memory", "is_pinned", "set_flush_denormal", "get_num_threads", "data_ptr",
    "share_memory", "householder_product", "ormqr", "geqrf", "pca_lowrank", "svd_lowrank",
)  # fmt: skip


class NotRecorded(Exception):
    """The value has no form in JSON."""


def of_tensor(t: rl.Tensor) -> dict:
    raw = t.detach().resolve_conj().contiguous().reshape(-1)
    raw = raw.view(rl.uint8).numpy() if raw.numel() else np.empty(0, np.uint8)
    text = base64.b64encode(raw.tobytes()).decode()
    return {"tensor": text, "dtype": dtype_name(t), "shape": list(t.shape)}


def recorded(value: object) -> object:
    if isinstance(value, Array):
        return of_tensor(value.tensor(rl))
    if isinstance(value, rl.Tensor):
        return of_tensor(value)
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, tuple):
        return {"tuple": [recorded(item) for item in value]}
    if isinstance(value, list):
        return [recorded(item) for item in value]
    if isinstance(value, dict):
        return {"dict": {key: recorded(item) for key, item in value.items()}}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise NotRecorded(type(value).__name__)


def expected(op, number: int, dtype: str, call) -> list:
    """What the call must give: NumPy's numbers, in the dtype that the operation has here."""
    found = [r for r in listed(call.run(rl)) if r is not None]
    known = op.row.ref and op in forward.WITH_REFERENCE and dtype in ("float32", "float64")
    if not known or not forward.in_numpy_too(op, number) or not forward.of_one_dtype(op, number):
        return found
    theirs = forward.reference(op, call)
    theirs = list(theirs) if op.signature.returns == "tuple" else [theirs]
    return [
        rl.from_numpy(np.asarray(e).astype(np.float64)).to(r.dtype)
        if isinstance(r, rl.Tensor) and not r.is_complex()
        else r
        for e, r in zip(theirs, found, strict=True)
    ]


def gradients(call) -> list:
    """Of the sum of what a call gives, each element with a weight of its own."""
    arrays = call.differentiable()
    leaves = {id(a): a.tensor(rl).requires_grad_() for a in arrays}
    results = listed(call.run(rl, lambda a: leaves.get(id(a), None) or a.tensor(rl)))
    total = 0
    for r in results:
        if isinstance(r, rl.Tensor) and r.requires_grad and r.is_floating_point():
            total = total + (r * rl.arange(r.numel()).reshape(r.shape).cos()).sum()
    if not isinstance(total, rl.Tensor) or not leaves:
        return []
    grads = rl.autograd.grad(total, list(leaves.values()), allow_unused=True)
    return [None if g is None else g for g in grads]


def lines():
    for op in forward.DETERMINISTIC:
        name = op.python_names[0]
        if name.rpartition(".")[2].rstrip("_") in LEFT_OUT:
            continue
        for number in range(len(texts_of(op))):
            for dtype in OF_EACH:
                try:
                    call = case(op, number, dtype)
                    args, named = recorded(call.args), recorded(call.named)
                    results = [recorded(r) for r in expected(op, number, dtype, call)]
                except Exception:  # noqa: BLE001, S112 - not for this dtype: nothing to compare
                    continue
                line = {"name": name, "id": f"{op.full_name}-{number}-{dtype}", "args": args,
                        "named": named, "results": results}  # fmt: skip
                if dtype == "float64":
                    arrays = call.arrays()
                    wanted = {id(a) for a in call.differentiable()}
                    line["differentiable"] = [id(a) in wanted for a in arrays]
                    try:
                        line["gradients"] = [recorded(g) for g in gradients(call)]
                    except (RuntimeError, NotImplementedError, TypeError):
                        del line["differentiable"]  # has none, and says so
                yield line


def main(path: str) -> None:
    warnings.simplefilter("ignore")
    count = 0
    with Path(path).open("w") as file:
        for line in lines():
            file.write(json.dumps(line) + "\n")
            count += 1
    print(f"{count} calls of {len(forward.DETERMINISTIC)} rows in {path}")
    if count < LEAST_CALLS:
        raise SystemExit(f"fewer than {LEAST_CALLS} calls could be recorded: what changed?")


if __name__ == "__main__":
    main(sys.argv[1])
