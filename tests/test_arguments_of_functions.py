"""Every argument of every function of the table does something: with another value the result, its
dtype, layout or graph, the gradients or the arguments change, or it raises an error or a warning.
What does not is listed with its reason, and the list is no longer than it must be.
"""

import gc
import re
import warnings

import pytest
from table import PUBLIC, Call, Maker, function, listed, of_library, plain_dtype, texts_of
from test_arguments import numbers, some_has_effect

import rushlight as rl

COPIED = "copies have ended when their calls return"
SORTED = "results are always in order, which the argument allows"
KNOWN = "says what the program knows of its arguments, so that less is to be done"
AS_TORCH = "has no effect in torch either"
NO_EFFECT = {
    **dict.fromkeys(("copy_", "to", "to_device", "to_other"), {"non_blocking": COPIED}),
    "argsort": {"stable": SORTED},
    "topk": {"sorted": SORTED},
    "isin": {"assume_unique": KNOWN},
    **dict.fromkeys(("expand", "expand_copy"), {"implicit": AS_TORCH}),
}

# Further arguments, for those that change nothing in the samples.
SINGULAR = "fixed([[1.0, 2], [2, 4]])"
FURTHER = {
    "allclose": ["fixed([1.0, nan]), fixed([1.0, nan])"],
    "bucketize": ["fixed([1.0, 2]), fixed([1.0, 2, 3])"],
    "can_cast": ["dtype('float64'), dtype('int32')"],
    "fill_diagonal_": ["x(7, 3), 0.5"],
    "functional_embedding": ["index(4, 2), x(4, 3), max_norm=0.5"],
    "functional_hardtanh": ["fixed([3.0, -3])"],
    "isclose": ["fixed([1.0, nan]), fixed([1.0, nan])"],
    "linalg_cholesky_ex": ["fixed([[1.0, 2], [2, -4]])"],
    "linalg_inv_ex": [SINGULAR],
    "linalg_ldl_factor": ["fixed([[2.0 + 0j, 1j], [-1j, 3]], 'complex128')"],
    "linalg_ldl_factor_ex": [
        "fixed([[2.0 + 0j, 1j], [-1j, 3]], 'complex128')",
        "fixed([[0.0, 0], [0, 0]])",
    ],
    "linalg_ldl_solve": [
        "fixed([[2.0, 0], [1j, 3]], 'complex128'), fixed([1, 2], 'int32'), "
        "fixed([[1.0], [2.0]], 'complex128')"
    ],
    "linalg_lu_factor": ["fixed([[1.0, 2], [3, 4]])"],
    "linalg_lu_factor_ex": ["fixed([[1.0, 2], [3, 4]])", SINGULAR],
    "linalg_solve_ex": [f"{SINGULAR}, x(2, 1)"],
    "linspace": ["0.5, 2.5, 4"],
    "logspace": ["0.5, 2.5, 4"],
    "nan_to_num": ["fixed([nan, inf, -inf])"],
    "scaled_dot_product_attention": [
        "x(1, 4, 3, 4), x(1, 2, 5, 4), x(1, 2, 5, 4), enable_gqa=True"
    ],
    "to_other": ["x(2), x(2)"],
    "searchsorted": ["fixed([1.0, 2, 3]), fixed([1.0, 2])"],
}

# Other values of an argument, by its name or else by its type.
NAMED = {
    "reduction": ["sum", "none", "batchmean"],
    "mode": ["nearest", "bilinear", "constant", "reflect", "complete", "r", "sum", "max", "area"],
    "padding_mode": ["border", "reflection"],
    "rounding_mode": ["floor", "trunc"],
    "approximate": ["tanh"],
    "norm": ["forward", "ortho"],
    "compute_mode": ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"],
    "reduce": ["prod", "amax", "add", "multiply", True, False],
    "UPLO": ["U"],
    "driver": ["gesvd", "gels", "gelsd"],
    "dim": [0, 1, -1, (0,), (0, 1), 2],
    "layout": ["sparse_coo"],
    "side": ["right"],
}
BY_TYPE = {
    "dtype": ["float64", "float32", "int64", "complex128"],
    "device": ["meta"],
    "layout": ["sparse_coo"],
    "memory_format": ["channels_last", "channels_last_3d"],
    "int": [0, 1, 2, 3, 5, -1],
    "Dim": [0, 1, -1, 2],
    "float": [0.0, 0.3, 2.5, 1e3],
    "Scalar": [0, 1, 0.3, 2.5, 100],
    "bool": [True, False],
    "str": ["another"],
    "list[int]": [(0,), (1,), (0, 1), (1, 1), (2, 2), (3, 1), 2, 3, (0, 0), (2, 1, 1)],
    "list[float]": [(0.3, 0.6), (2.0,)],
}


def others(parameter):
    """Values that it may have in place of another."""
    name, kind = parameter.name, parameter.type.replace(" | None", "")
    if kind == "Generator":
        return [rl.Generator().manual_seed(7)]
    if parameter.is_tensor:
        return [rl.full((n,), 0.7, dtype=rl.float64) for n in (2, 3)] + [
            rl.tensor([1, 0, 2]), rl.full((2, 3), 0.7, dtype=rl.float64), rl.tensor(0.7),
            rl.tensor([[True, False, True], [False, True, True]]),
        ]  # fmt: skip
    if parameter.is_tensor_list:
        return [[rl.full((3,), 0.7, dtype=rl.float64)]]
    values = NAMED.get(name) or BY_TYPE.get(kind.split(", ")[0].rstrip("]") + "]" * ("[" in kind))
    values = values or BY_TYPE.get(kind, [])
    if kind in ("dtype", "device", "layout", "memory_format"):
        return [rl.device(v) if kind == "device" else getattr(rl, v) for v in values]
    return values


def graph(node):
    """The names of the nodes that follow."""
    return node and (node.name(), [graph(n) for n, _ in node.next_functions])


def seen_of(value):
    """All that can be seen of a result."""
    if isinstance(value, rl.Tensor):
        strided = value.layout == rl.strided
        dense = value if strided else value.to_dense()
        strides = value.stride() if strided else str(value.layout)
        values = numbers(dense) if dense.dtype in PLAIN else repr(dense)
        return values, strides, value.requires_grad, graph(value.grad_fn)
    if isinstance(value, (tuple, list)):
        return [seen_of(part) for part in value]
    return re.sub("0x[0-9a-f]+", "", repr(value))  # an address is chance


PLAIN = {
    getattr(rl, name)
    for name in "bool uint8 int8 int16 int32 int64 float32 float64 complex64 complex128".split()
}


def run(op, call, recorded, changed):
    """What a call gives, what it leaves of its arguments, and the gradients."""
    leaves = {}

    def given(array):
        if id(array) not in leaves:
            leaves[id(array)] = array.tensor(rl)
            if recorded and array.differentiable:
                leaves[id(array)].requires_grad_()
        tensor = leaves[id(array)]
        return tensor * 1 if tensor.requires_grad else tensor

    args, named = call.arguments(given)
    args, named = list(of_library(rl, args)), of_library(rl, named)
    place = dict(zip((p.name for p in op.signature.parameters), range(len(args))))
    for name, value in changed.items():
        if name in place:
            args[place[name]] = value
        else:
            named[name.rstrip("_")] = value
    rl.manual_seed(0)
    name = op.python_names[0]
    result = function(rl, name)(*args, **named)
    seen = [seen_of(result), [numbers(t) for t in leaves.values()], rl.get_rng_state().tolist()]
    total = [t.sum() for t in listed(result) if isinstance(t, rl.Tensor) and t.requires_grad]
    if total and recorded:
        sum(t.real if t.is_complex() else t for t in total).backward()
        seen += [numbers(t.grad) for t in leaves.values() if t.is_leaf]
    return seen


def has_effect(op, call, recorded, usual, parameter):
    def with_value(value):
        return run(op, call, recorded, {parameter.name: value})

    return some_has_effect(with_value, usual, others(parameter))


def ignored_in(op, text, candidates):
    """Those of the candidates that change nothing in one call."""
    for recorded in (False, True):
        call = Call(op, *Maker(plain_dtype(op)).arguments(text))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                usual = run(op, call, recorded, {})
            except RuntimeError:
                continue  # it has no gradient
        candidates = [p for p in candidates if not has_effect(op, call, recorded, usual, p)]
    return candidates


def is_public(op):
    name = op.python_names[0]
    return not name.rpartition(".")[2].startswith("_") or name.endswith("__")


@pytest.fixture(autouse=True)
def always():
    """Warnings that are given once are given again."""
    rl.set_warn_always(True)
    yield
    rl.set_warn_always(False)
    gc.collect()


@pytest.mark.parametrize("op", [op for op in PUBLIC if is_public(op)], ids=lambda op: op.full_name)
def test_arguments(op):
    left = [p for p in op.signature.parameters if p.default is not None or not p.is_tensor]
    for text in (*texts_of(op), *FURTHER.get(op.full_name, ())):
        left = ignored_in(op, text, left)
    assert {p.name for p in left} == set(NO_EFFECT.get(op.full_name, {}))
