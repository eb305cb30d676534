"""Every argument of masked, sparse, nested and random tensors, of casts, attention by functions and
comparisons does something: with another value than its default something changes, or it raises an
error or a warning. What does not is listed with its reason, and the list is no longer than it must
be.
"""

import gc

import numpy as np
import pytest
from options import found, ignored, in_python

import rushlight as rl
from rushlight.nn.attention import flex_attention as flex

COMPILED = "options of a compiler of kernels, of which there is none"
CHECKED = "they are always checked"
NO_EFFECT = {
    "nn.attention.flex_attention.flex_attention": {"kernel_options": COMPILED},
    "sparse.check_sparse_tensor_invariants": {"enable": CHECKED},
}


# ---- rushlight.testing, random, amp


def compared(actual, expected):
    def run(assertion, **named):
        try:
            assertion(actual(), expected(), **named)
        except (AssertionError, TypeError, ValueError) as error:
            return str(error)
        return "close"

    return run


class OfAClass(rl.Tensor):
    pass


COMPARED = [
    compared(lambda: rl.ones(2), lambda: rl.ones(2) * 1.1),
    compared(lambda: rl.tensor([np.nan]), lambda: rl.tensor([np.nan])),
    compared(lambda: rl.ones(2), lambda: rl.ones(2, dtype=rl.float64)),
    compared(lambda: rl.ones(2, 3), lambda: rl.ones(3, 2).t()),
    compared(lambda: rl.ones(2), lambda: rl.ones(2, device="meta")),
    compared(lambda: rl.eye(2), lambda: rl.eye(2).to_sparse()),
    compared(lambda: rl.ones(2).as_subclass(OfAClass), lambda: rl.ones(2)),
]


def comparisons(name):
    return [lambda run=run, **named: run(getattr(rl.testing, name), **named) for run in COMPARED]


def one_size(**named):
    return rl.testing.make_tensor(2, 3, 4, 5, **{"dtype": rl.float32, "device": "cpu", **named})


def small_numbers(**named):
    bounds = {"low": -1, "high": 2, **named}
    return rl.testing.make_tensor(100, dtype=rl.int64, device="cpu", **bounds)


def forked(**named):
    with rl.random.fork_rng(**named):
        rl.rand(1)
    return rl.rand(1)


def cast(how, **named):
    """What a custom Function sees under autocast, forward and backward."""
    seen = []
    decorate_fwd = rl.amp.custom_fwd(**{"device_type": "cpu", **(named if how == "fwd" else {})})
    decorate_bwd = rl.amp.custom_bwd(**{"device_type": "cpu", **(named if how == "bwd" else {})})

    class Watched(rl.autograd.Function):
        @staticmethod
        @decorate_fwd
        def forward(ctx, x):
            seen.append((x.dtype, rl.is_autocast_enabled("cpu")))
            return x * 2

        @staticmethod
        @decorate_bwd
        def backward(ctx, grad):
            seen.append((grad.dtype, rl.is_autocast_enabled("cpu")))
            return grad * 2

    x = rl.ones(2, dtype=rl.bfloat16, requires_grad=True)
    with rl.autocast("cpu", rl.bfloat16):
        out = Watched.apply(x).sum()
    out.backward()
    return [str(part) for part in seen]


def autocast_to(**named):
    with rl.autocast(**{"device_type": "cpu", **named}):
        enabled = rl.is_autocast_enabled("cpu"), rl.is_autocast_cache_enabled()
        return str((rl.ones(2, 2) @ rl.ones(2, 2)).dtype), enabled


def scaled(value=1.0, steps=3):
    def run(**named):
        parameter = rl.nn.Parameter(rl.ones(2))
        optimizer = rl.optim.SGD([parameter], lr=0.1)
        scaler = rl.amp.GradScaler(**{"device": "cpu", **named})
        for _ in range(steps):
            optimizer.zero_grad()
            scaler.scale((parameter * value).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        return parameter.tolist(), scaler.get_scale(), scaler.state_dict()

    return run


# ---- rushlight.masked, sparse and nested


def masked(name):
    function = getattr(rl.masked, name)
    rows = rl.tensor([[1.0, 5.0, 2.0], [4.0, 3.0, 6.0], [7.0, 0.5, 9.0]])
    more = {"norm": (2.0,), "normalize": (2.0, 1), "logaddexp": (rows * 2,)}.get(name, ())
    if name in ("cumprod", "cumsum", "log_softmax", "softmax", "softmin"):
        more = (1,)
    where = {"argmax": {"dim": 1}, "argmin": {"dim": 1}}.get(name, {})

    def run(**named):
        return function(rows, *more, **(where if "dim" not in named else {}), **named)

    def tiny(**named):
        return function(rows * 1e-14, *more, **where, **named)

    return [run, tiny] if name == "normalize" else [run]


MASK = [rl.tensor([[True, False, False]] * 3)]
EYE = rl.eye(2).to_sparse()
FULL = rl.ones(2, 2)


def is_checked(**named):
    try:
        with rl.sparse.check_sparse_tensor_invariants(**named):
            return rl.sparse.check_sparse_tensor_invariants.is_enabled()
    finally:
        rl.sparse.check_sparse_tensor_invariants.disable()


def parts_of(tensor):
    return str(tensor.layout), [t.tolist() for t in tensor.unbind()], str(tensor.dtype), \
        tensor.requires_grad, str(tensor.device)  # fmt: skip


def nested(**named):
    return parts_of(rl.nested.nested_tensor([rl.ones(2), rl.ones(3)], **named))


def as_nested(**named):
    return parts_of(rl.nested.as_nested_tensor([rl.ones(2), rl.ones(3)], **named))


def narrowed(**named):
    out = rl.nested.narrow(rl.arange(12.0).reshape(3, 4), 1, rl.tensor([0, 1, 0]),
                           rl.tensor([2, 3, 1]), **{"layout": rl.jagged, **named})  # fmt: skip
    return parts_of(out)


def jagged(**named):
    out = rl.nested.nested_tensor_from_jagged(
        rl.arange(12.0).reshape(6, 2), **{"offsets": rl.tensor([0, 2, 6]), **named})  # fmt: skip
    return parts_of(out)


def by_lengths(**named):
    given = {"lengths": rl.tensor([2, 4]), "jagged_dim": 2, **named}
    out = rl.nested.nested_tensor_from_jagged(rl.arange(12.0).reshape(2, 6), **given)
    return parts_of(out)


def padded(**named):
    rows = rl.nested.nested_tensor([rl.ones(2), rl.ones(3)])
    return rl.nested.to_padded_tensor(rows, 0.0, **named)


# ---- attention by functions


def causal(b, h, q, k):
    return q >= k


def attended(heads=2, **named):
    q = rl.randn(1, heads, 4, 8)
    k, v = rl.randn(2, 1, 2, 4, 8)
    return flex.flex_attention(q, k, v, **named)


def block_mask(**named):
    mask = flex.create_block_mask(causal, 1, 1, 256, 256, **{"device": "cpu", **named})
    full = mask.full_kv_num_blocks
    return mask.BLOCK_SIZE, str(mask.to_dense().device), mask.shape, None if full is None else 1


def block_mask_of_lists(**named):
    count, columns = rl.tensor([[[1, 2]]]), rl.tensor([[[[0, 1], [0, 1]]]])
    mask = flex.BlockMask((8, 8), count, columns, *(None,) * 6, **named)
    return mask.BLOCK_SIZE, mask.mask_mod


CASES = {
    "testing.assert_close": comparisons("assert_close"),
    "testing.assert_allclose": comparisons("assert_allclose"),
    "testing.make_tensor": [one_size, small_numbers],
    "random.fork_rng": [forked],
    "amp.custom_fwd": [lambda **named: cast("fwd", **named)],
    "amp.custom_bwd": [lambda **named: cast("bwd", **named)],
    "amp.autocast": [autocast_to],
    "amp.GradScaler": [scaled(), scaled(float("inf"))],
    **{name: masked(name.rpartition(".")[2]) for name in in_python("masked")
       if not name.lower().endswith("tensor")},
    **{f"masked.{name}": [lambda name=name, **named: getattr(rl.masked, name)(
        rl.ones(2), rl.tensor([True, False]), **named).requires_grad]
       for name in ("MaskedTensor", "masked_tensor")},
    "sparse.addmm": [lambda **named: rl.sparse.addmm(FULL, EYE, FULL, **named)],
    "sparse.sampled_addmm": [
        lambda **named: rl.sparse.sampled_addmm(EYE.to_sparse_csr(), FULL, FULL, **named),
        lambda **named: rl.sparse.sampled_addmm(
            EYE.to_sparse_csr(), FULL, FULL, **named) is named.get("out")],
    "sparse.mm": [lambda **named: rl.sparse.mm(FULL.to_sparse_csr(), FULL, **named)],
    "sparse.softmax": [lambda **named: rl.sparse.softmax(EYE, 1, **named)],
    "sparse.log_softmax": [lambda **named: rl.sparse.log_softmax(EYE, 1, **named)],
    "sparse.sum": [lambda **named: rl.sparse.sum(EYE, **named)],
    "sparse.spdiags": [lambda **named: rl.sparse.spdiags(
        rl.ones(1, 3), rl.tensor([0]), (3, 3), **named)],
    "sparse.check_sparse_tensor_invariants": [is_checked],
    "nested.nested_tensor": [nested], "nested.as_nested_tensor": [as_nested],
    "nested.narrow": [narrowed], "nested.nested_tensor_from_jagged": [jagged, by_lengths],
    "nested.to_padded_tensor": [padded],
    "nn.attention.flex_attention.flex_attention": [
        attended, lambda **named: attended(**{"heads": 4, "enable_gqa": True, **named})],
    "nn.attention.flex_attention.create_block_mask": [block_mask],
    "nn.attention.flex_attention.BlockMask": [block_mask_of_lists],
    "nn.attention.flex_attention.create_mask": [lambda **named: str(flex.create_mask(
        causal, 1, 1, 4, 4, **{"device": "cpu", **named}).device)],
}  # fmt: skip

# Other values of an argument than those of booleans and numbers, by function or for all of them.
NAMED = {
    "dtype": [rl.float64], "device": ["meta"], "dim": [1, (0, 1)], "mask": MASK,
    "input_mask": MASK, "other_mask": MASK, "correction": [0, 2], "unbiased": [False, True],
    "layout": [rl.jagged, rl.sparse_csr, rl.strided], "ord": [1.0], "output_size": [(2, 5)],
}  # fmt: skip
VALUES = {
    "testing.assert_close": {"rtol": [0.5], "atol": [0.5], "msg": ["words"]},
    "testing.assert_allclose": {"rtol": [0.5], "atol": [0.5], "msg": ["words"]},
    "testing.make_tensor": {"low": [5.0], "high": [-5.0, 20.0],
                            "memory_format": [rl.channels_last]},
    "random.fork_rng": {"devices": [["cpu"], [0]], "device_type": ["another"]},
    "amp.custom_fwd": {"fwd": [lambda ctx, x: x], "cast_inputs": [rl.float32],
                       "device_type": ["cuda"]},
    "amp.custom_bwd": {"bwd": [lambda ctx, x: x], "device_type": ["cuda"]},
    "amp.autocast": {"dtype": [rl.float16], "cache_enabled": [False]},
    "amp.GradScaler": {"device": ["cuda"], "growth_interval": [2]},
    "sparse.sampled_addmm": {"out": [EYE.to_sparse_csr()]},
    "sparse.mm": {"reduce": ["mean", "amax"]}, "sparse.spdiags": {"layout": [rl.sparse_csr]},
    "nested.nested_tensor_from_jagged": {
        "offsets": [rl.tensor([0, 3, 6])], "lengths": [rl.tensor([1, 3])], "jagged_dim": [1, 2],
        "min_seqlen": [5], "max_seqlen": [1]},
    "nn.attention.flex_attention.flex_attention": {
        "score_mod": [lambda score, b, h, q, k: score + q], "scale": [2.0],
        "block_mask": [flex.create_block_mask(causal, 1, 1, 4, 4, device="cpu")],
        "kernel_options": [{"BLOCK_M": 16}], "enable_gqa": [True, False],
        "return_aux": [flex.AuxRequest(lse=True)]},
    "nn.attention.flex_attention.create_block_mask": {
        "BLOCK_SIZE": [64], "dq_kv_order": [False]},
    "nn.attention.flex_attention.BlockMask": {
        "BLOCK_SIZE": [(4, 4)], "mask_mod": [causal], "dq_kv_order_spt": [True],
        **{name: [rl.ones(1)] for name in ("dq_write_order", "dq_write_order_full",
                                           "dq_kv_order")}},
}  # fmt: skip

SPACES = "masked sparse nested testing random amp nn.attention.flex_attention".split()
# Those that hold what they are given, and those of test_arguments_in_python.py.
ELSEWHERE = {
    *(f"nn.attention.flex_attention.{name}" for name in ("AuxOutput", "AuxRequest")),
    *(f"sparse.sparse_{name}_tensor" for name in "bsc bsr compressed coo csc csr".split()),
}  # fmt: skip


@pytest.fixture(autouse=True)
def always():
    rl.set_warn_always(True)
    yield
    rl.set_warn_always(False)
    gc.collect()


@pytest.mark.parametrize("name", CASES)
def test_arguments(name):
    left = ignored(found(name), CASES[name], {**NAMED, **VALUES.get(name, {})})
    assert set(left) == set(NO_EFFECT.get(name, {}))


@pytest.mark.parametrize("space", SPACES)
def test_each_is_called(space):
    known = [found(name) for name in [*CASES, *ELSEWHERE]]
    assert not {name for name, value in in_python(space).items() if value not in known}
