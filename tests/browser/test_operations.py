"""The operations of the table, called in a browser: see make_cases.py for what is expected."""

import base64
import importlib
import json
import warnings
from pathlib import Path

import pytest

import rushlight as rl

CASES = [json.loads(line) for line in Path("/tests/cases.jsonl").read_text().splitlines()]
CLOSE = {
    "float64": 1e-9, "complex128": 1e-9, "float32": 3e-5, "complex64": 3e-5, "bfloat16": 2e-2,
    "float16": 2e-3,
}  # fmt: skip


def tensor_of(value):
    dtype = getattr(rl, value["dtype"])
    data = bytearray(base64.b64decode(value["tensor"]))
    if not data:
        return rl.empty(value["shape"], dtype=dtype)
    return rl.frombuffer(data, dtype=dtype).reshape(value["shape"]).clone()


def value_of(value, made=None):
    """A recorded value; its tensors are added to `made`."""
    if isinstance(value, list):
        return [value_of(item, made) for item in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        t = tensor_of(value)
        if made is not None:
            made.append(t)
        return t
    if "tuple" in value:
        return tuple(value_of(item, made) for item in value["tuple"])
    if "dict" in value:
        return {key: value_of(item, made) for key, item in value["dict"].items()}
    if "complex" in value:
        return complex(*value["complex"])
    return getattr(rl, value["dtype"])


def function(name):
    module, _, bare = name.rpartition(".")
    if module == "Tensor":
        return getattr(rl.Tensor, bare)
    if bare.startswith("_"):
        return rl._C._functions[module.removeprefix("torch")][bare]
    place = "rushlight." + module.removeprefix("torch").removeprefix(".")
    return getattr(importlib.import_module(place.rstrip(".")), bare)


def listed(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def assert_same(got, want, arguments=()):
    """To the precision of the result, or of the arguments if that is less."""
    if not isinstance(want, rl.Tensor):
        assert got == want or isinstance(want, float) and got == pytest.approx(want, nan_ok=True)
        return
    assert got.dtype == want.dtype and got.shape == want.shape
    dtypes = [want.dtype, *(t.dtype for t in arguments if want.dtype.is_floating_point)]
    close = max(CLOSE.get(str(dtype).removeprefix("torch."), 0) for dtype in dtypes)
    rl.testing.assert_close(got, want, rtol=close, atol=close, equal_nan=True)


@pytest.mark.parametrize("call", CASES, ids=[c["id"] for c in CASES])
def test_operation(call):
    made = []
    args, named = value_of(call["args"], made), value_of(call["named"], made)
    for t, wanted in zip(made, call.get("differentiable", [])):
        t.requires_grad_(wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [r for r in listed(function(call["name"])(*args, **named)) if r is not None]
    want = [value_of(r) for r in call["results"]]
    assert len(results) == len(want)
    for got, expected in zip(results, want):
        assert_same(got.detach() if isinstance(got, rl.Tensor) else got, expected, made)
    if call.get("gradients"):
        compare_gradients(call, made, results)


def compare_gradients(call, made, results):
    leaves = [t for t, wanted in zip(made, call["differentiable"]) if wanted]
    total = sum(
        (r * rl.arange(r.numel()).reshape(r.shape).cos()).sum()
        for r in results
        if isinstance(r, rl.Tensor) and r.requires_grad and r.is_floating_point()
    )
    grads = rl.autograd.grad(total, leaves, allow_unused=True)
    assert len(grads) == len(call["gradients"])
    for got, want in zip(grads, call["gradients"]):
        assert (got is None) == (want is None)
        if want is not None:
            assert_same(got, value_of(want))
