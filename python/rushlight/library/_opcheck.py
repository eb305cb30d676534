"""Does a custom operation do what its schema says?"""

from __future__ import annotations

import rushlight
from rushlight.testing import assert_close
from rushlight.utils._pytree import tree_leaves, tree_map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.library import CustomOpDef
    from rushlight.library._operator import OpOverload, OpOverloadPacket


class OpCheckError(Exception):
    """A test of `opcheck` failed."""


def _copied(tree):
    def copy(value):
        if not isinstance(value, rushlight.Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    return tree_map(copy, tree)


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, rushlight.Tensor)]


def _test_schema(op, args, kwargs, tolerances):
    """Arguments change where the schema says so, and nowhere else."""
    given, named = op.bind(*_copied((args, kwargs)))
    before = _copied((given, named))
    with rushlight.no_grad():
        op(*given, **named)
    old = [*before[0], *before[1].values()]
    for (argument, new), value in zip(op._values(given, named), old):
        same = all(
            rushlight.allclose(a, b, 0, 0, equal_nan=True)
            for a, b in zip(_tensors([new]), _tensors([value]))
        )
        if not same and not argument.is_write:
            raise AssertionError(
                f"Argument {argument.name} is not defined as mutable but was mutated: {op._schema}"
            )


def _test_autograd_registration(op, args, kwargs, tolerances):
    """What needs a gradient has one that is registered with the operation."""
    # One that changes its arguments can have none.
    if op._schema.is_mutable or not any(t.requires_grad for t in _tensors((args, kwargs))):
        return
    if op.gradient is None and not {"autograd", "composite"} & set(op.kernels):
        raise AssertionError(
            f"{op.name()} was called with a tensor that requires a gradient, and no autograd "
            "formula is registered for it: use register_autograd"
        )


def _test_faketensor(op, args, kwargs, tolerances):
    """On the meta device, results have the same shapes, strides and dtypes."""
    with rushlight.no_grad():
        expected = _tensors(op(*_copied(args), **_copied(kwargs)))

        def without_data(value):
            return value.to("meta") if isinstance(value, rushlight.Tensor) else value

        found = _tensors(op(*tree_map(without_data, args), **tree_map(without_data, kwargs)))
    if len(found) != len(expected):
        raise AssertionError(
            f"the fake implementation returns {len(found)} tensors, the operation {len(expected)}"
        )
    for fake, real in zip(found, expected):
        for what in ("shape", "dtype", "stride"):
            a, b = getattr(fake, what), getattr(real, what)
            a, b = (a(), b()) if what == "stride" else (a, b)
            if a != b and (what != "stride" or real.numel()):
                raise AssertionError(f"the fake implementation gives {what} {a}, the operation {b}")


def _test_repeated(op, args, kwargs, tolerances):
    """Run again, the results and gradients are the same: nothing is kept between calls."""
    first, second = (_results_and_gradients(op, *_copied((args, kwargs))) for _ in range(2))
    assert_close(first, second, equal_nan=True, **tolerances)


def _results_and_gradients(op, args, kwargs):
    if op._schema.is_mutable:
        with rushlight.no_grad():
            return [t.detach() for t in (*_tensors(op(*args, **kwargs)), *_tensors((args, kwargs)))]
    results = _tensors(op(*args, **kwargs))
    inputs = [t for t in _tensors((args, kwargs)) if t.requires_grad]
    moving = [t for t in results if t.requires_grad]
    if not moving or not inputs:
        return [t.detach() for t in results]
    grads = rushlight.autograd.grad(
        moving, inputs, [rushlight.ones_like(t) for t in moving], allow_unused=True
    )
    for t, grad in zip(inputs, grads):
        if grad is not None and grad.shape != t.shape:
            raise AssertionError(f"a gradient has shape {grad.shape}, its argument {t.shape}")
    return [t.detach() for t in results] + [g for g in grads if g is not None]


_TESTS = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_static": _test_repeated,
    "test_aot_dispatch_dynamic": _test_repeated,
}
_DEFAULT = (
    "test_schema",
    "test_autograd_registration",
    "test_faketensor",
    "test_aot_dispatch_dynamic",
)


def opcheck(
    op: OpOverload | OpOverloadPacket | CustomOpDef,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _DEFAULT,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, str]:
    """Check on examples that an operation keeps to its schema and has what it needs.

    Args:
        test_utils: which tests: test_schema, test_autograd_registration, test_faketensor,
            test_aot_dispatch_dynamic (there being no compiler, the last compares two runs).
        raise_exception: raise the first failure, or return the errors.

    Returns:
        dict: for each test, "SUCCESS" or the error.

    Raises:
        OpCheckError: a test failed.
    """
    op = getattr(op, "_opoverload", op)
    op = op.default if hasattr(op, "_overloads") else op
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if names == ("ALL",):
        names = tuple(_TESTS)
    if set(names) - set(_TESTS):
        raise ValueError(
            f"opcheck: invalid test_utils {set(names) - set(_TESTS)}, expected some of "
            f"{tuple(_TESTS)}"
        )
    tolerances = {} if rtol is None and atol is None else {"rtol": rtol or 0, "atol": atol or 0}
    results = {}
    for name in names:
        try:
            _TESTS[name](op, tuple(args), kwargs or {}, tolerances)
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error}") from error
            results[name] = OpCheckError(f"{name} failed with {error}")
    return results
