"""assert_close, make_tensor, the random front, conversion flags and trees."""

import collections
import importlib
import math

import pytest

import rushlight
from rushlight.testing import assert_allclose, assert_close, make_tensor
from rushlight.testing.comparison import default_tolerances
from rushlight.utils import _pytree

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64"]
DTYPES += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
Point = collections.namedtuple("Point", ["x", "y"])


def tensor(values, dtype=None):
    return rushlight.tensor(values, dtype=dtype)


# --- assert_close


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        (1.0, 1.0 + 1e-9, {}),
        (1 + 1j, 1 + 1j, {}),
        (True, True, {}),
        (None, None, {}),
        ([1, (2.0,)], (1, [2.0]), {}),
        ({"a": 1}, collections.OrderedDict(a=1), {}),
        (math.nan, math.nan, {"equal_nan": True}),
        (math.inf, math.inf, {}),
        (1, 1.0, {"check_dtype": False}),
        (1, 2, {"rtol": 0.5, "atol": 0.0}),
    ],
)
def test_close(actual, expected, options):
    assert_close(actual, expected, **options)


def test_close_tensors():
    x = tensor([1.0, 2.0])
    assert_close(x, x + 1e-6)
    assert_close(x.half(), x, check_dtype=False)
    assert_close(x, rushlight.nn.Parameter(x))
    assert_close({"a": [x, 1]}, {"a": [x.clone(), 1]})
    assert_close(tensor([math.nan]), tensor([math.nan]), equal_nan=True)
    assert_close(rushlight.empty(2, device="meta"), rushlight.empty(2, device="meta"))
    assert_close(x.requires_grad_(), x.detach())


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        (1.0, 1.1, "Scalars are not close!\n\nExpected 1.1 but got 1.0."),
        (1, 2, "Scalars are not equal!"),
        (1, 1.0, "The (d)types do not match: <class 'int'> != <class 'float'>."),
        (math.nan, math.nan, "Scalars are not close!"),
        (math.inf, -math.inf, "Scalars are not close!"),
        (True, False, "Booleans mismatch: True is not False"),
        (None, 1, "None mismatch: None is not 1"),
        ([1], [1, 2], "The length of the sequences mismatch: 1 != 2"),
        ({"a": 1}, {"b": 1}, "Missing keys in the actual mapping: ['b']"),
        ({"a": [1, 2]}, {"a": [1, 3]}, "The failure occurred for item ['a'][1]"),
    ],
)
def test_differences(actual, expected, text):
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected)
    assert text in str(caught.value)


def test_tensor_differences_are_described():
    with pytest.raises(AssertionError) as caught:
        assert_close(tensor([[1.0, 2.0], [3.0, 4.0]]), tensor([[1.0, 2.0], [3.0, 5.0]]))
    assert str(caught.value) == (
        "Tensor-likes are not close!\n\n"
        "Mismatched elements: 1 / 4 (25.0%)\n"
        "Greatest absolute difference: 1.0 at index (1, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.20000000298023224 at index (1, 1) (up to 1.3e-06 allowed)"
    )
    for actual, expected, options, text in [
        (tensor([1]), tensor([1.0]), {}, "'dtype' do not match: torch.int64 != torch.float32"),
        (tensor([1]), tensor([1, 2]), {}, "'shape' do not match"),
        (tensor([1]), tensor([2]), {}, "Tensor-likes are not equal!"),
        (tensor(1.0), tensor(2.0), {}, "Scalars are not close!"),
        (tensor([2], rushlight.uint8), tensor([255], rushlight.uint8), {}, "difference: 253 at"),
        (rushlight.ones(1, 2).t(), rushlight.ones(2, 1), {"check_stride": True}, "'stride()'"),
        (tensor([1.0]), rushlight.empty(1, device="meta"), {}, "'device' do not match"),
        (tensor([True]), tensor([False]), {}, "Mismatched elements: 1 / 1 (100.0%)"),
    ]:
        with pytest.raises(AssertionError) as caught:
            assert_close(actual, expected, **options)
        assert text in str(caught.value)


def test_messages_and_misuse():
    with pytest.raises(AssertionError, match="^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match="^Note: Scalars"):
        assert_close(1, 2, msg=lambda text: "Note: " + text)
    with pytest.raises(ValueError, match="got no atol"):
        assert_close(1, 1, rtol=0.1)
    for actual, expected in [("a", "a"), (tensor([1]), [1]), (object(), object())]:
        with pytest.raises(TypeError, match="No comparison pair"):
            assert_close(actual, expected)
    with pytest.raises(TypeError, match="No comparison pair"):
        assert_close(
            rushlight.ones(1), rushlight.nn.Parameter(rushlight.ones(1)), allow_subclasses=False
        )
    with pytest.warns(FutureWarning):
        assert_allclose(tensor([1.0]), [1.0])


def test_numpy_arrays():
    numpy = pytest.importorskip("numpy")
    assert_close(numpy.ones(2), numpy.ones(2))
    assert_close(numpy.float32(1), numpy.float32(1))
    with pytest.raises(AssertionError):
        assert_close(numpy.ones(2), numpy.zeros(2))


def test_default_tolerances_are_the_larger_ones():
    assert default_tolerances(rushlight.float64) == (1e-7, 1e-7)
    assert default_tolerances(rushlight.bfloat16, rushlight.float64) == (1.6e-2, 1e-5)
    assert default_tolerances(rushlight.int32) == (0.0, 0.0)


# --- make_tensor


@pytest.mark.parametrize("name", DTYPES)
def test_make_tensor(name):
    dtype = getattr(rushlight, name)
    x = make_tensor(3, 40, dtype=dtype, device="cpu")
    assert x.shape == (3, 40) and x.dtype == dtype and x.is_contiguous()
    spread = make_tensor((3, 40), dtype=dtype, device="cpu", noncontiguous=True)
    assert spread.shape == (3, 40) and not spread.is_contiguous()
    nonzero = make_tensor(500, dtype=dtype, device="cpu", low=0, high=2, exclude_zero=True)
    assert bool((nonzero != 0).all())
    if not dtype.is_complex and name != "bool":
        bounded = make_tensor(200, dtype=dtype, device="cpu", low=1, high=4)
        assert 1 <= bounded.min().item() and bounded.max().item() <= 4
    if dtype.is_floating_point or dtype.is_complex:
        assert make_tensor(2, dtype=dtype, device="cpu", requires_grad=True).requires_grad
    else:
        with pytest.raises(ValueError, match="requires_grad"):
            make_tensor(2, dtype=dtype, device="cpu", requires_grad=True)


def test_make_tensor_errors():
    for options in [
        {"low": 2, "high": 1},
        {"low": math.nan},
        {"low": 300, "high": 400, "dtype": rushlight.uint8},
        {"noncontiguous": True, "memory_format": rushlight.channels_last},
    ]:
        with pytest.raises(ValueError):
            make_tensor(2, 3, 4, 5, **{"dtype": rushlight.float32, "device": "cpu", **options})


@pytest.mark.torch
@pytest.mark.parametrize("name", DTYPES)
def test_make_tensor_draws_as_torch(name):
    import torch

    for options in [{}, {"low": -3.5, "high": 2.5}, {"noncontiguous": True}]:
        results = []
        for library in (rushlight, torch):
            make = importlib.import_module(f"{library.__name__}.testing").make_tensor
            library.manual_seed(2)
            made = make(3, 5, dtype=getattr(library, name), device="cpu", **options)
            results.append((made.tolist(), made.stride()))
        assert results[0] == results[1]


# --- random numbers


def test_random_front():
    from rushlight import random

    random.manual_seed(3)
    assert random.initial_seed() == 3
    state = random.get_rng_state()
    first = rushlight.rand(3).tolist()
    with random.fork_rng():
        rushlight.rand(7)
        random.manual_seed(9)
    follows = rushlight.rand(3).tolist()
    random.set_rng_state(state)
    assert rushlight.rand(3).tolist() == first and rushlight.rand(3).tolist() == follows
    random.set_rng_state(state)
    with random.fork_rng(enabled=False):
        rushlight.rand(3)
    assert rushlight.rand(3).tolist() == follows
    assert random.seed() == random.initial_seed()
    assert random.manual_seed(4) is rushlight.default_generator


def test_conversion_flags():
    flags = importlib.import_module("rushlight.__future__")
    assert flags.get_overwrite_module_params_on_conversion() is False
    flags.set_overwrite_module_params_on_conversion(True)
    assert flags.get_overwrite_module_params_on_conversion() is True
    flags.set_overwrite_module_params_on_conversion(False)
    flags.set_swap_module_params_on_conversion(True)
    assert flags.get_swap_module_params_on_conversion() is True
    flags.set_swap_module_params_on_conversion(False)


# --- trees

TREE = {
    "list": [1, (2, None)],
    "named": Point(3, []),
    "ordered": collections.OrderedDict(b=4, a=5),
    "default": collections.defaultdict(list, c=6),
    "deque": collections.deque([7], maxlen=3),
}


def test_trees_round_trip():
    leaves, spec = _pytree.tree_flatten(TREE)
    assert leaves == [1, 2, None, 3, 4, 5, 6, 7] == _pytree.tree_leaves(TREE)
    rebuilt = _pytree.tree_unflatten(leaves, spec)
    assert rebuilt == TREE and type(rebuilt["named"]) is Point and rebuilt["deque"].maxlen == 3
    assert spec == _pytree.tree_structure(rebuilt) and hash(spec) == hash(
        _pytree.tree_structure(rebuilt)
    )
    assert spec.num_leaves == 8 and repr(_pytree.tree_structure((1, [2]))) == (
        "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*])])"
    )
    with pytest.raises(ValueError, match="tree of 8"):
        _pytree.tree_unflatten([1], spec)


def test_tree_maps():
    assert _pytree.tree_map(lambda a, b: a + b, {"x": [1, 2]}, {"x": [10, 20]}) == {"x": [11, 22]}
    assert _pytree.tree_map_only(int, lambda x: -x, [1, "a", (2,)]) == [-1, "a", (-2,)]
    assert _pytree.tree_map(len, [(1, 2), (3,)], is_leaf=lambda x: isinstance(x, tuple)) == [2, 1]
    seen = []
    assert _pytree.tree_map_(seen.append, TREE) is TREE and len(seen) == 8
    assert _pytree.tree_all(lambda x: x, [1, [2]]) and not _pytree.tree_any(bool, [0, [None]])
    for tree, other, text in [
        ([1, 2], [1], "arity"),
        ([1], (1,), "Type mismatch"),
        ({"a": 1}, {"b": 1}, "keys mismatch"),
    ]:
        with pytest.raises(ValueError, match=text):
            _pytree.tree_map(lambda a, b: a, tree, other)


def test_tree_paths():
    keyed, _ = _pytree.tree_flatten_with_path(TREE)
    assert [_pytree.keystr(path) for path, _ in keyed][:4] == [
        "['list'][0]",
        "['list'][1][0]",
        "['list'][1][1]",
        "['named'].x",
    ]
    assert all(_pytree.key_get(TREE, path) is leaf for path, leaf in keyed)
    named = _pytree.tree_map_with_path(lambda path, leaf: _pytree.keystr(path), [1, {"a": 2}])
    assert named == ["[0]", {"a": "[1]['a']"}]


def test_registered_nodes():
    class Pair:
        def __init__(self, left, right):
            self.left, self.right = left, right

    assert _pytree.tree_leaves([Pair(1, 2)])[0].left == 1
    _pytree.register_pytree_node(
        Pair, lambda pair: ([pair.left, pair.right], None), lambda children, _: Pair(*children)
    )
    doubled = _pytree.tree_map(lambda x: 2 * x, [Pair(1, [2])])[0]
    assert (doubled.left, doubled.right) == (2, [4])
    with pytest.raises(ValueError, match="already registered"):
        _pytree.register_pytree_node(list, None, None)
    with pytest.raises(ValueError, match="no paths"):
        _pytree.tree_flatten_with_path(Pair(1, 2))


def test_pytree_dataclasses_constants_and_broadcasts():
    import dataclasses

    @dataclasses.dataclass
    class Pair:
        first: object
        second: object
        note: str = "none"

    class Constant:
        pass

    _pytree.register_dataclass(Pair, drop_field_names=["note"])
    _pytree.register_constant(Constant)
    try:
        pair = _pytree.tree_map(lambda x: x + 1, Pair(1, [2, 3], "lost"))
        assert pair == Pair(2, [3, 4])
        assert _pytree.keystr(_pytree.tree_leaves_with_path(Pair(1, [2]))[1][0]) == ".second[0]"
        constant = Constant()
        leaves, spec = _pytree.tree_flatten([constant, 1])
        assert leaves == [1] and _pytree.tree_unflatten([5], spec) == [constant, 5]
        with pytest.raises(ValueError, match="not a dataclass"):
            _pytree.register_dataclass(int)
    finally:
        del _pytree.SUPPORTED_NODES[Pair], _pytree.SUPPORTED_NODES[Constant]
    spec = _pytree.tree_structure([1, (2, {"a": 3})])
    assert _pytree.treespec_pprint(spec) == "[*, (*, {'a': *})]"
    assert _pytree._broadcast_to_and_flatten([0, 1], spec) == [0, 1, 1]
    assert _pytree._broadcast_to_and_flatten([0], spec) is None
    leaf = _pytree.treespec_leaf()
    assert _pytree.treespec_tuple([leaf, leaf]) == _pytree.tree_structure((1, 2))
    assert _pytree.treespec_dict(a=leaf) == _pytree.tree_structure({"a": 1})
    assert _pytree.tree_all_only(int, lambda x: x > 0, [1, "a"])
    assert not _pytree.tree_any_only(int, lambda x: x > 1, [1, "a"])
    assert _pytree.arg_tree_leaves([1], b=(2,)) == [1, 2]
    assert _pytree._dict_flatten({"a": 1}) == ([1], ["a"])
    assert _pytree._list_unflatten([1, 2], None) == [1, 2]


@pytest.mark.parametrize("devices", [None, [0], ["cpu"]])
@pytest.mark.parametrize("kind", ["cpu", "meta"])
def test_forked_generators_of_devices_without_one_of_their_own(kind, devices):
    """Whether or not the program has loaded their subpackage."""
    from rushlight import random

    assert rushlight.cpu.is_available()
    before = rushlight.get_rng_state()
    with random.fork_rng(devices, device_type=kind):
        rushlight.rand(1)
    assert rushlight.get_rng_state().equal(before)
    with pytest.raises(RuntimeError, match="another"), random.fork_rng(device_type="another"):
        pass


def test_differences_of_sparse_tensors_are_told_by_their_parts():
    make = rushlight.sparse_coo_tensor
    one = make([[0, 1], [1, 0]], [1, 2], (2, 2))
    cases = [
        (
            make([[0, 1, 1], [1, 0, 0]], [1, 1, 1], (2, 2)),
            "number of specified values in sparse COO",
        ),
        (make([[0, 0], [1, 0]], [1, 2], (2, 2)), "Sparse COO indices are not equal"),
        (make([[0, 1], [1, 0]], [1, 3], (2, 2)), "Sparse COO values are not equal"),
        (make([[0, 1]], [[0, 1], [2, 0]], (2, 2)), "number of sparse dimensions in sparse COO"),
    ]
    for other, text in cases:
        with pytest.raises(AssertionError, match=text):
            rushlight.testing.assert_close(one, other)
    rushlight.testing.assert_close(one, make([[0, 1, 1], [1, 0, 0]], [1, 1, 1], (2, 2)).coalesce())
    dense = rushlight.tensor([[0, 1], [2, 0]])
    for layout, text in (("csr", "CSR col_indices"), ("csc", "CSC ccol_indices")):
        a = getattr(dense, f"to_sparse_{layout}")()
        b = getattr(rushlight.tensor([[0, 1], [0, 2]]), f"to_sparse_{layout}")()
        with pytest.raises(AssertionError, match=f"Sparse {text} are not equal"):
            rushlight.testing.assert_close(a, b)


def test_quantized_tensors_are_compared():
    x = rushlight.tensor([1.0, 2.0])
    a = rushlight.quantize_per_tensor(x, 0.1, 0, rushlight.qint8)
    rushlight.testing.assert_close(a, a.clone())
    scales, points = rushlight.tensor([0.1, 0.1]), rushlight.tensor([0, 0])
    others = {
        "not close": rushlight.quantize_per_tensor(x + 1, 0.1, 0, rushlight.qint8),
        "is_quantized": x,
        "qscheme": rushlight.quantize_per_channel(x, scales, points, 0, rushlight.qint8),
    }
    for text, other in others.items():
        with pytest.raises(AssertionError, match=text):
            rushlight.testing.assert_close(a, other, rtol=1e-6, atol=1e-6)


def test_intervals_of_drawn_tensors():
    with pytest.warns(FutureWarning, match="low==high"):
        rushlight.testing.make_tensor(2, dtype=rushlight.float32, device="cpu", low=1, high=1)
    with pytest.raises(ValueError, match="outside the values"):
        rushlight.testing.make_tensor(2, dtype=rushlight.bool, device="cpu", low=2, high=3)
