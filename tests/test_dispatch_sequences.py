"""Composite functions show dispatch modes the operations that torch makes of them."""

import copy

import pytest
from dispatch_sequences import SEQUENCES, seen

import rushlight
import rushlight.masked
from rushlight import Tensor
from rushlight.utils import _pytree as pytree
from rushlight.utils._python_dispatch import TorchDispatchMode


@pytest.mark.parametrize("call", SEQUENCES)
def test_the_operations_of_a_call(call):
    assert seen(rushlight, TorchDispatchMode, call) == SEQUENCES[call]


class Wrapper(Tensor):
    """A tensor around another; `seen` has the operations on such tensors."""

    seen = []

    @staticmethod
    def __new__(cls, elem):
        made = Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, device=elem.device
        )
        made.elem = elem
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(str(func).removeprefix("aten."))
        args, kwargs = pytree.tree_map_only(cls, lambda t: t.elem, (args, kwargs or {}))
        return pytree.tree_map_only(Tensor, cls, func(*args, **kwargs))


SAME = [
    lambda x: x.cpu(), lambda x: x.conj(), lambda x: +x, lambda x: x.to(x), lambda x: x.float(),
    lambda x: x.to(rushlight.float), lambda x: x.type_as(x), lambda x: x.real,
    lambda x: rushlight.broadcast_tensors(x, x)[0], lambda x: rushlight.atleast_2d(x),
    lambda x: rushlight.nn.functional.dropout(x, 0.5, False), lambda x: x.contiguous(),
]  # fmt: skip


@pytest.mark.parametrize("call", SAME)
def test_what_does_nothing_gives_the_object_itself(call):
    Wrapper.seen = []
    x = Wrapper(rushlight.ones(2, 3))
    assert call(x) is x and Wrapper.seen == []


def test_a_deep_copy_of_a_wrapper_is_a_clone():
    Wrapper.seen = []
    x = Wrapper(rushlight.ones(2))
    y = copy.deepcopy([x, x])
    assert type(y[0]) is Wrapper and y[0] is y[1] and y[0] is not x
    assert y[0].elem is not x.elem and Wrapper.seen == ["clone.default"]


def test_results_are_those_outside_of_a_mode():
    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = rushlight.arange(24.0).reshape(2, 3, 4).sin()
    F = rushlight.nn.functional
    calls = [
        lambda: rushlight.einsum("bij,bkj->ik", x, x), lambda: x @ x[0].T,
        lambda: rushlight.quantile(x, rushlight.tensor([0.2, 0.7]), 1), lambda: x[0].cov(),
        lambda: F.interpolate(x[None], scale_factor=1.7, mode="bilinear"),
        lambda: F.pad(x, (3, 2), "circular"), lambda: F.instance_norm(x),
        lambda: rushlight.fft.hfftn(x, (3, 5)), lambda: rushlight.fft.irfft2(x),
        lambda: rushlight.linalg.svd(x).S, lambda: F.conv1d(x, x, padding="same"),
        lambda: F.cross_entropy(x[0], x[1].softmax(1), label_smoothing=0.2),
        lambda: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2),
        lambda: F.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda: rushlight.linalg.multi_dot([x[0], x[1].T, x[0]]),
        lambda: rushlight.tensordot(x, x, ([1, 2], [1, 2])),
    ]  # fmt: skip
    for call in calls:
        expected = call()
        with Nothing():
            found = call()
        rushlight.testing.assert_close(found, expected)
