"""Calls on tensors beside torch: same values, dtype, shape and strides, or same class of error."""

import copy
import itertools
import math

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


def described(result):
    if isinstance(result, (list, tuple)):
        return [described(r) for r in result]
    if not isinstance(result, (rl.Tensor, torch.Tensor)):
        return str(result).replace("rushlight", "torch")
    values = result.detach().clone().reshape(-1).tolist()
    return str(result.dtype), tuple(result.shape), result.stride(), repr(values)


def outcome(call, lib):
    try:
        return described(call(lib))
    except Exception as error:
        return type(error)


def assigned(tensor, index, value):
    tensor[index] = value
    return tensor


def all_as_torch(calls):
    different = []
    for i, call in enumerate(calls):
        ours, theirs = outcome(call, rl), outcome(call, torch)
        if ours != theirs:
            different.append(f"call {i}: got {ours}, expected {theirs}")
    assert not different, "\n".join(different)


ASSIGNMENTS = [
    lambda t: assigned(t.zeros(2, 3), 0, t.ones(1, 1, 3)),
    lambda t: assigned(t.zeros(2, 3), [0, 1], t.ones(1, 1, 3)),
    lambda t: assigned(t.zeros(3, 3), (range(3), range(3)), t.arange(3.0).reshape(1, 3)),
    lambda t: assigned(t.zeros(2, 3), t.zeros(2, 3) == 0, t.arange(6.0).reshape(1, 1, 6)),
    lambda t: assigned(t.zeros(2, 3), True, t.ones(1, 1, 2, 3)),
    lambda t: assigned(t.tensor(3), True, t.ones(1, 1, dtype=t.int64)),
    lambda t: t.zeros(2, 3).index_put_((t.tensor([0]),), t.ones(1, 1, 3)),
    lambda t: t.zeros(2, 3).index_put_((t.tensor([0]),), t.ones(2, 3)),
    # A single value for a mask is a number: its dtype and dims do not matter.
    lambda t: assigned(t.zeros(2, 3), (slice(None), t.tensor([True, False, True])), t.tensor(2)),
    lambda t: assigned(t.zeros(2, 3), t.tensor([True, False]), t.ones(1, 1, 1, dtype=t.int8)),
    lambda t: assigned(t.zeros(2, 3), t.tensor([0]), t.tensor(2)),
    lambda t: assigned(t.arange(4), t.arange(4) > -1, t.tensor([])),
    lambda t: assigned(t.arange(4), t.arange(4) > 1, t.tensor([1, 2, 3])),
]


def test_assignments():
    all_as_torch(ASSIGNMENTS)


def test_an_index_out_of_bounds_is_told_with_the_tensors_dim():
    x = rl.zeros(2, 5, 10)
    for index, dim, size in (
        ((0, 5), 1, 5),
        ((0, 1, 15), 2, 10),
        ((..., 12), 2, 10),
        ((0, None, 7), 1, 5),
    ):
        with pytest.raises(IndexError, match=f"out of bounds for dimension {dim} with size {size}"):
            x[index]


def test_masks_of_bytes_are_warned_of_wherever_they_come_in():
    mask = np.array([1, 0, 1], dtype=np.uint8)
    for call in (lambda t, m: t[m], lambda t, m: t.index_put_((m,), t[m])):
        with pytest.warns(UserWarning, match="uint8"):
            call(rl.zeros(3), rl.from_numpy(mask))


DTYPES = ("bool", "uint8", "int32", "float16", "float32", "float64", "complex64")


def made(lib, name, *shape):
    return lib.ones(*shape, dtype=getattr(lib, name))


def test_factors_are_of_a_kind_that_the_result_has():
    calls = {
        "add": lambda t, x, a: t.add(x, x, alpha=a),
        "sub": lambda t, x, a: t.sub(x, x, alpha=a),
        "sub of a number": lambda t, x, a: t.sub(x, 1, alpha=a),
        "add_": lambda t, x, a: x.clone().add_(x, alpha=a),
        "addcmul": lambda t, x, a: t.addcmul(x, x, x, value=a),
        "addcdiv": lambda t, x, a: t.addcdiv(x, x, x, value=a),
        "addr": lambda t, x, a: t.addr(x, x[0], x[0], alpha=a),
        "beta of addr": lambda t, x, a: t.addr(x, x[0], x[0], beta=a),
        "addmm": lambda t, x, a: t.addmm(x, x, x, alpha=a),
        "baddbmm": lambda t, x, a: t.baddbmm(x[None], x[None], x[None], beta=a),
        "foreach": lambda t, x, a: t._foreach_add([x], [x], alpha=a)[0],
    }
    different = []
    for (name, call), dtype in itertools.product(calls.items(), ("int32", "float32", "complex64")):
        for factor in (True, 2, 1.5, 1j):
            ours, theirs = (
                outcome(lambda t: call(t, made(t, dtype, 2, 2), factor), lib)  # noqa: B023
                for lib in (rl, torch)
            )
            if ours != theirs:
                different.append(f"{name} {dtype} {factor}: got {ours}, expected {theirs}")
    assert not different, "\n".join(different)


def test_operations_that_do_not_promote_refuse_two_dtypes():
    calls = {
        "lerp": lambda t, x, y: t.lerp(x, y, 0.5),
        "weight of lerp": lambda t, x, y: t.lerp(x, x, y),
        "lerp_": lambda t, x, y: x.clone().lerp_(y, 0.5),
        "heaviside": lambda t, x, y: t.heaviside(x, y),
        "cross": lambda t, x, y: t.cross(x, y, dim=0),
        "addr": lambda t, x, y: t.addr(t.outer(x, x), y, y),
        "addcdiv": lambda t, x, y: t.addcdiv(x, y, y),
        "polar": lambda t, x, y: t.polar(x, y).dtype,
        "isin": lambda t, x, y: t.isin(x, y),
    }
    different = []
    for (name, call), one, two in itertools.product(calls.items(), DTYPES, DTYPES):
        if name == "polar" and one == two == "float16":
            continue  # torch cannot
        ours, theirs = (
            outcome(lambda t: call(t, made(t, one, 3), made(t, two, 3)), lib)  # noqa: B023
            for lib in (rl, torch)
        )
        refused = isinstance(ours, type) and isinstance(theirs, type)
        if ours != theirs and not refused:  # both say why in their own class
            different.append(f"{name} {one} {two}: got {ours}, expected {theirs}")
    assert not different, "\n".join(different)


EXACT = "neg floor ceil trunc round sign sgn frac bitwise_not".split()


def test_dtypes_of_out():
    different = []
    for name, one, two in itertools.product((*EXACT, "sin", "exp"), DTYPES, DTYPES):
        ours, theirs = (
            outcome(lambda t: getattr(t, name)(made(t, one, 2), out=made(t, two, 2)), lib)  # noqa: B023
            for lib in (rl, torch)
        )
        if isinstance(ours, type) != isinstance(theirs, type):
            different.append(f"{name} {one} {two}: got {ours}, expected {theirs}")
    assert not different, "\n".join(different)


def test_out_says_nothing_of_the_dtype_to_compute_in():
    values = np.array([33000.0, 0.666], dtype=np.float16)
    for call in (
        lambda t, x, out: t.add(x, x, out=out),
        lambda t, x, out: t.div(x, 3, out=out),
        lambda t, x, out: t.sin(x, out=out),
        lambda t, x, out: t.addcmul(x, x, x, out=out),
    ):
        for dtype in ("float32", "float64", "complex64"):
            found = [
                call(t, t.from_numpy(values), t.empty(0, dtype=getattr(t, dtype))).tolist()
                for t in (rl, torch)
            ]
            assert found[0] == found[1]


def filled(t, make):
    whole = t.zeros(2, 3)
    make(t, whole.narrow(1, 1, 2))
    return whole


class WithoutItems:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        raise TypeError("no items")


NEW = [
    lambda t: t.zeros(1, 3).expand(2, 3).fill_(2.0),
    lambda t: t.ones(1, 3).expand(2, 3).zero_(),
    lambda t: t.ones(1, 3).expand(2, 3).add_(1),
    # A line fills whatever has as many elements.
    lambda t: filled(t, lambda t, out: t.arange(0, 4, out=out)),
    lambda t: filled(t, lambda t, out: t.range(0, 3, out=out)),
    lambda t: filled(t, lambda t, out: t.linspace(0, 3, 4, out=out)),
    lambda t: filled(t, lambda t, out: t.logspace(0, 3, 4, base=2, out=out)),
    lambda t: t.arange(3, out=t.zeros(2, 2)),
    # Integers of more than 64 bits are numbers of floating dtypes.
    *(
        lambda t, v=value, d=dtype: t.tensor(v, dtype=getattr(t, d))
        for value in (2**63, 2**64 + 5, -(2**63) - 1, 10**400)
        for dtype in ("float16", "float32", "float64", "bool", "int64", "uint8", "complex64")
    ),
    lambda t: t.tensor([1.0, 2**70]),
    lambda t: t.linspace(0, 1j, 5, dtype=t.float32),
    lambda t: t.logspace(0, 1j, 5, dtype=t.float32),
    lambda t: t.cat([t.empty(0), t.empty(0)], dim=1),
    lambda t: t.asarray(np.float64(0.5), copy=False),
    lambda t: t.asarray(t.utils.dlpack.to_dlpack(t.ones(2))),
    lambda t: t.asarray(np.array([1, 2, 3], dtype=np.uint16)),
    lambda t: t.FloatTensor(np.int64(2)).shape,
    *(
        lambda t, make=make, dtype=dtype: make(t, t.ones(4, dtype=getattr(t, dtype)))
        for dtype in ("float32", "float64")
        for make in (
            lambda t, x: t.Tensor(x.storage()).data_ptr() == x.data_ptr(),
            lambda t, x: t.FloatTensor(x.storage()).data_ptr() == x.data_ptr(),
            lambda t, x: t.FloatTensor(x.untyped_storage()).shape,
            lambda t, x: t.tensor(x.storage(), dtype=t.float32),
            lambda t, x: t.tensor(x.untyped_storage(), dtype=t.int16),
            lambda t, x: t.as_tensor(x.storage()).data_ptr() == x.data_ptr(),
            lambda t, x: t.ones(1).new(x).data_ptr() == x.data_ptr(),
            lambda t, x: t.ones(1).new(x.storage()),
            lambda t, x: t.ones(1).set_(x.storage()),
            lambda t, x: t.ones(1).set_(x.storage(), 0, (2,), (1,)),
        )
    ),
    lambda t: t.FloatTensor(np.array([1, 2])),
    lambda t: t.tensor(((7, np.array(5)), (np.array(9), 5.0))),
    lambda t: t.tensor(((7, 5), (9, np.array(5.0)))),
    lambda t: t.tensor(WithoutItems()),
    lambda t: t.UntypedStorage(8, device="meta")[0],
    lambda t: t.TypedStorage(8, dtype=t.int16, device="meta")[9],
    lambda t: copy.copy(t.ones(2).untyped_storage()).tolist(),
    lambda t: t.UntypedStorage([1, 2, 3]).tolist(),
    lambda t: t.UntypedStorage((1, 2), device="meta").nbytes(),
    lambda t: t.unravel_index(t.tensor([1]), t.tensor([2, 3])),
    lambda t: t.unique(t.empty(0, 0, 2), dim=1),
    lambda t: t.Tensor(size=(2, 3)).shape,
    lambda t: t.ones(1).new(size=(2, 3)).shape,
    lambda t: type("Sub", (t.FloatTensor,), {}),
    lambda t: t.linspace(t.tensor(0.0, requires_grad=True), 1, 3),
    lambda t: t.arange(3).apply_(lambda x: "a"),
    lambda t: t.ones(2).map_(t.ones(2, requires_grad=True), max),
    lambda t: str(t.device("cuda:100")),
    lambda t: t.device("cpu:01"),
    lambda t: len(t.FloatStorage(np.int32(3))),
    lambda t: t.frombuffer(bytearray(10), dtype=t.float32, offset=7),
    lambda t: t.ones(1).__dlpack__(stream=object()),
    lambda t: t.randperm(257, dtype=t.uint8),
    lambda t: t.randperm(2050, dtype=t.float16),
    lambda t: t.randperm(257, out=t.empty(0, dtype=t.uint8)),
    lambda t: t.empty(1).uniform_(-3.4e38, 3.4e38),
    lambda t: t.iinfo(t.bool),
    lambda t: t.int32.to_complex(),
    lambda t: isinstance(t.quint8, t.dtype) and isinstance(t.bits8, t.dtype),
]


def test_new_tensors():
    all_as_torch(NEW)


ELEMENTS_AS_INTEGERS = """
t.rand(TWO).shape
t.randn(TWO, t.tensor(3)).shape
t.zeros([TWO, 3])
t.ones((3, TWO))
t.randint(TWO, (TWO, TWO)).shape
t.eye(TWO, 3)
t.full((TWO,), 3.0)
t.randperm(TWO).shape
t.zeros(t.tensor([[2]]), TWO)
t.arange(6).view(TWO, -1)
t.arange(6).reshape((TWO, 3))
t.arange(6).topk(TWO)
t.arange(6).split(TWO)
t.arange(6).split([TWO, 4])
t.ones(2, 3, 4).sum(TWO)
t.ones(2, 3, 4).sum((0, TWO))
t.ones(2, 3, 4).permute(TWO, 0, 1)
t.arange(6).tile(TWO)
t.arange(6).repeat(TWO, 1)
t.ones(1, 3).expand(TWO, 3)
t.ones(6).new_zeros(TWO, 1)
t.arange(6).select(0, TWO)
t.nn.functional.max_pool2d(t.ones(1, 4, 4), (TWO, 1))
t.nn.functional.conv1d(t.ones(1, 1, 6), t.ones(1, 1, 2), stride=TWO)
t.arange(6).tensor_split(TWO)
t.arange(4).repeat_interleave(TWO)
t.zeros(t.tensor([2, 3]))
t.zeros(t.tensor([2.0]))
t.arange(6).view(t.tensor([2, 3]))
t.tensor([1, 2, 3])[t.tensor([2])]
t.arange(6).narrow(0, TWO, 1)
""".strip().splitlines()


def test_tensors_of_one_element_as_integers():
    calls = [call.replace("TWO", "t.tensor([2])") for call in ELEMENTS_AS_INTEGERS]
    all_as_torch([eval(f"lambda t: {call}") for call in calls])


TYPES_OF_NUMBERS = """
t.finfo(float).eps
t.finfo(complex).bits
t.finfo(int)
t.iinfo(int).max
t.iinfo(bool)
t.iinfo(float)
t.nn.BatchNorm1d(2).to(float).running_mean
t.nn.LayerNorm(2).to("cpu", float).weight.detach()
t.nn.LayerNorm(2).to(dtype=float).weight.detach()
t.nn.LayerNorm(2).to(int)
t.hann_window(3, dtype=float)
t.hamming_window(3, dtype=int)
t.eye(2).to_sparse().to(float).to_dense()
t.eye(2).to_sparse_csr().to("cpu", complex).to_dense()
t.eye(2).to_sparse().to(dtype=bool).to_dense()
""".strip().splitlines()


def test_types_of_numbers_as_dtypes():
    all_as_torch([eval(f"lambda t: {call}") for call in TYPES_OF_NUMBERS])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_sums_of_exponentials_of_complex_infinities(dtype):
    inf, nan = math.inf, math.nan
    parts = [complex(a, b) for a in (inf, -inf, 1, nan) for b in (0, inf, -inf, 1, nan)]

    def sums(t):
        x = t.tensor(parts, dtype=getattr(t, dtype))
        pairs = t.stack(t.meshgrid(x, x, indexing="ij"))
        pairs = pairs.flatten(1)
        scanned = t.logcumsumexp(pairs[:, pairs[1].real != -inf], 0)[1]
        return t.view_as_real(t.cat([t.logaddexp(*pairs), scanned])).numpy()

    np.testing.assert_allclose(sums(rl), sums(torch), rtol=1e-6)


def test_uninitialized_memory_where_it_is_filled():
    def grown(lib, dtype):
        lib.use_deterministic_algorithms(True)
        try:
            made = lib.zeros(1, dtype=getattr(lib, dtype))
            return described([lib.empty(2, dtype=made.dtype), made.resize_(70)])
        finally:
            lib.use_deterministic_algorithms(False)

    for dtype in ("uint8", "int64", "float16", "bfloat16", "float32", "complex64"):
        assert grown(rl, dtype) == grown(torch, dtype)


def test_an_array_of_unsigned_integers_is_copied_where_that_is_asked_for():
    array = np.array([1, 2, 3], dtype=np.uint16)
    for keywords, shares in (({}, True), ({"copy": True}, False), ({"copy": False}, True)):
        for lib in (rl, torch):
            for dtype in ({}, {"dtype": lib.uint16}):
                made = lib.asarray(array, **keywords, **dtype)
                assert (made.data_ptr() == array.ctypes.data) == shares


def test_conversions_of_unsigned_integers_share_no_memory():
    for bits in (16, 32, 64):
        unsigned, signed = getattr(rl, f"uint{bits}"), getattr(rl, f"int{bits}")
        x = rl.tensor([1, 2], dtype=unsigned)
        y = x.to(signed)
        z = y.to(unsigned)
        y[0] = 9
        assert x.tolist() == z.tolist() == [1, 2]
        assert x.to(unsigned) is x and x.view(signed).data_ptr() == x.data_ptr()


def test_a_list_that_holds_itself():
    items = [0]
    items.append(items)
    for data in (items, [[1, 2], items]):
        with pytest.raises(TypeError, match="self-referential"):
            rl.tensor(data)


PIECES = [
    lambda t: t.eye(2, dtype=t.complex64).to_sparse().conj().resolve_conj().to_dense().real,
    lambda t: t.eye(2).to_sparse().neg().resolve_neg().to_dense(),
    *(
        lambda t, n=name, x=shape, s=sections: getattr(t, n)(t.arange(24.0).reshape(x), s)
        for name in ("hsplit", "vsplit", "dsplit")
        for shape in ((24,), (6, 4), (4, 3, 2))
        for sections in (2, 0, 4, [1, 2])
    ),
    lambda t: t.hsplit(t.tensor(1.0), 2),
    lambda t: t.meshgrid(),
    lambda t: t.meshgrid(t.ones(1), t.ones(1, device="meta")),
    lambda t: t.block_diag(t.ones(2, 2, 2)),
    lambda t: t.nonzero(t.ones(2), as_tuple=True, out=t.empty(0)),
    lambda t: t.ones(7).unfold(0, -1, 1),
    lambda t: int(t.tensor(2 + 0j)),
    lambda t: int(t.tensor(2 + 1j)),
]


def test_pieces_and_views():
    all_as_torch(PIECES)


LISTS = [
    lambda t: t._VF.split(t.arange(4.0), 2),
    lambda t: t._foreach_add([], 1),
    lambda t: t._foreach_neg([]),
    lambda t: t._foreach_addcdiv([t.ones(2)], [t.ones(2)], [t.ones(2)], scalars=[2.0]),
    lambda t: t._foreach_addcdiv([t.ones(2)], [t.ones(2)], [t.ones(2)], t.tensor([2.0])),
    lambda t: t._foreach_addcmul([t.ones(2)], [t.ones(2)], [t.ones(2)], t.tensor([2.0, 3.0])),
    lambda t: t._foreach_maximum([t.ones(2, dtype=t.int8)], 1.5),
    lambda t: t._foreach_clamp_max_([t.ones(2, dtype=t.int8)], 1.5),
    lambda t: t._foreach_minimum([t.ones(2), t.zeros(1)], scalars=[0.5, -1.0]),
    lambda t: t._foreach_pow([t.full((2,), 3.0)], exponent=2),
    lambda t: t._foreach_lerp([t.zeros(2)], tensors1=[t.ones(2)], weight=0.25),
]


def test_lists_of_tensors():
    all_as_torch(LISTS)
    for kind in (list, tuple):
        given = kind([rl.ones(2)])
        assert rl._foreach_add_(given, 1) is given


def test_sums_of_sparse_tensors_of_two_dtypes():
    calls = {
        name: lambda t, x, y, name=name: getattr(x.to_sparse().clone(), name)(y.to_sparse())
        for name in ("add", "sub", "mul", "add_", "sub_", "mul_")
    }
    calls["dense add_"] = lambda t, x, y: x.clone().add_(y.to_sparse())
    calls["dense mul_"] = lambda t, x, y: x.clone().mul_(y.to_sparse())
    calls["alpha"] = lambda t, x, y: t.add(x.to_sparse(), y.to_sparse(), alpha=1.5)
    different = []
    dtypes = ("uint8", "int16", "int64", "float32", "complex64")
    for (name, call), one, two in itertools.product(calls.items(), dtypes, dtypes):
        ours, theirs = (
            outcome(
                lambda t: call(  # noqa: B023
                    t,
                    t.tensor([0, 3], dtype=getattr(t, one)),  # noqa: B023
                    t.tensor([2, 3], dtype=getattr(t, two)),  # noqa: B023
                ).to_dense(),
                lib,
            )
            for lib in (rl, torch)
        )
        if ours != theirs:
            different.append(f"{name} {one} {two}: got {ours}, expected {theirs}")
    assert not different, "\n".join(different)


ROWS = [
    lambda t: t.tensor([[1, 2], t.ones(2)]),
    lambda t: t.tensor([[[1, 0], [0, 1]], t.zeros(2, 2)]),
    lambda t: t.tensor([[True, False], t.tensor([1, 2])]),
    lambda t: t.tensor([[t.tensor(1), 2], t.ones(2, requires_grad=True)]),
    lambda t: t.tensor([[1j, 2], t.ones(2)]),
    lambda t: t.tensor([[[1, 2]], t.ones(1, 2, dtype=t.float64)]),
    lambda t: t.tensor([[], t.ones(0)]),
    lambda t: t.tensor([[1, 2], t.ones(3)]),
    lambda t: t.tensor([[1, 2], t.tensor(3)]),
    lambda t: t.tensor([[[1, 2]], t.ones(2)]),
    lambda t: t.tensor([t.ones(2), [1, 2]]),
    lambda t: t.tensor([1, t.ones(2)]),
]


def test_tensors_stand_among_lists():
    all_as_torch(ROWS)
