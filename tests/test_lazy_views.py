"""Conjugate and negative views: what they share, how they are read, written and differentiated."""

import copy
import io
import pickle
import threading

import pytest

import rushlight as rl

VALUES = [[1 + 2j, 3 - 4j], [5 + 1j, -2 + 0j]]
CONJUGATES = [[1 - 2j, 3 + 4j], [5 - 1j, -2 - 0j]]


def example():
    return rl.tensor(VALUES)


def test_a_conjugate_is_a_view():
    x = example()
    y = x.conj()
    assert y.is_conj() and not y.is_neg() and not x.is_conj()
    assert y._base is x and y.data_ptr() == x.data_ptr()
    assert y.tolist() == CONJUGATES and y[0, 1].item() == 3 + 4j
    x[0, 0] = 7j
    assert y[0, 0].item() == -7j
    assert y.conj().tolist() == x.tolist() and not y.conj().is_conj()
    real = rl.ones(2)
    assert real.conj() is real and rl.resolve_conj(real) is real


@pytest.mark.parametrize(
    "look",
    [
        lambda x: x.mH, lambda x: x.H, lambda x: x.adjoint(), lambda x: x.mT.conj(),
        lambda x: rl.conj(x.t()), lambda x: rl.adjoint(x),
    ],
)  # fmt: skip
def test_adjoints_are_views(look):
    x = example()
    y = look(x)
    assert y.is_conj() and y.stride() == (1, 2) and y.data_ptr() == x.data_ptr()
    assert y.tolist() == [[1 - 2j, 5 - 1j], [3 + 4j, -2]]


def test_parts_of_a_conjugate_share_its_memory():
    x = example()
    y = x.conj()
    assert y.real.data_ptr() == x.data_ptr() and not y.real.is_neg()
    assert y.imag.is_neg() and y.imag.tolist() == [[-2, 4], [-1, 0]]
    y.imag[0, 0] = 9.0
    assert x[0, 0].item() == 1 - 9j
    assert not y.imag.resolve_neg().is_neg() and rl._neg_view(x.real).is_neg()


def test_views_of_a_conjugate_are_conjugate():
    x = example()
    y = x.conj()
    for view in (y[0], y.view(4), y.T, y[None].expand(3, 2, 2), y.unbind()[0], y.diagonal(),
                 y.detach(), y.data, y.contiguous(), y.as_strided((2,), (2,))):  # fmt: skip
        assert view.is_conj()
    for copied in (y.clone(), y + 0, y.T.contiguous(), y[[0, 1]], y.resolve_conj(), y.to(
        rl.complex128), copy.deepcopy(y), rl.empty_like(y)):  # fmt: skip
        assert not copied.is_conj()
    assert y[1].tolist() == CONJUGATES[1] and y.diagonal().tolist() == [1 - 2j, -2]


def written(x, change):
    y = x.clone()
    change(y.conj())
    return y.tolist()


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.copy_(rl.tensor([[1j, 2], [3, 4j]])), lambda y: y.mul_(2j),
        lambda y: y.__setitem__((0, 0), 7j), lambda y: y.fill_(1j), lambda y: y.zero_(),
        lambda y: y[1].add_(1j), lambda y: y.t().add_(rl.tensor([[1j, 2], [3, 4j]])),
        lambda y: y.masked_fill_(rl.eye(2).bool(), 5j), lambda y: y.conj_physical_(),
        lambda y: y.index_put_((rl.tensor([0]),), rl.tensor([1j, 2j])),
        lambda y: y.index_add_(1, rl.tensor([1, 0]), rl.tensor([[1j, 2], [3, 4j]])),
        lambda y: y.index_fill_(0, rl.tensor([1]), 2j), lambda y: y.addmm_(y.clone(), y.clone()),
        lambda y: y.scatter_(1, rl.tensor([[1], [0]]), 3j), lambda y: y.tril_(),
        lambda y: y.put_(rl.tensor([3]), rl.tensor([1j])), lambda y: y.diagonal().mul_(2j),
        lambda y: rl.mul(y, 3j, out=y), lambda y: rl.mm(y.clone(), y.clone(), out=y),
        lambda y: rl.stack([y[0] * 2j, y[1] * 1j], out=y), lambda y: y.lerp_(y * 1j, 0.5),
        lambda y: y.addcmul_(y, y, value=2j), lambda y: y.sub_(y * 1j), lambda y: y.pow_(2),
        lambda y: y.masked_scatter_(rl.eye(2).bool(), rl.tensor([1j, 2j])), lambda y: y.neg_(),
        lambda y: y.index_copy_(0, rl.tensor([1]), rl.tensor([[1j, 2j]])), lambda y: y.exp_(),
    ],
)  # fmt: skip
def test_writing(change):
    """What is written to a conjugate is what is written to a copy of it, seen through conj."""
    x = example()
    plain = x.conj().clone()
    change(plain)
    seen = x.clone()
    view = seen.conj()
    change(view)
    rl.testing.assert_close(view.resolve_conj(), plain)
    if view.is_conj():
        rl.testing.assert_close(seen, plain.conj().clone())


def test_writing_what_looks_at_the_same_memory():
    x = example()
    assert written(x, lambda y: y.copy_(y.conj())) == CONJUGATES
    assert written(x, lambda y: y.add_(y.conj())) == [[2, 6], [10, -4]]
    x.copy_(x.conj())
    assert x.tolist() == CONJUGATES
    x.add_(x.mH)
    assert x.tolist() == [[2, 8 + 5j], [8 - 5j, -4]]


def test_an_error_while_writing_leaves_the_elements():
    x = example()
    y = x.conj()
    with pytest.raises(RuntimeError):
        y.add_(rl.ones(3))
    with pytest.raises((RuntimeError, IndexError)):
        y.index_fill_(0, rl.tensor([9]), 1j)
    x[0, 0] = 1j
    assert y[0, 0].item() == -1j


def test_an_out_that_is_resized():
    x = example()
    y = x.flatten().clone().conj()
    with pytest.warns(UserWarning):
        rl.mul(rl.tensor([1j, 2j]), 2, out=y)
    assert y.tolist() == [2j, 4j] and y.is_conj()


GRADIENTS = [
    lambda z: z.conj(),
    lambda z: z.mH @ z,
    lambda z: z.conj().imag * 2,
    lambda z: z.conj().real * z.imag,
    lambda z: z.conj() * z + z.conj().conj(),
    lambda z: z.conj()[0] * z.mH[1],
    lambda z: z.conj().resolve_conj() ** 2,
    lambda z: rl.vdot(z[0], z[1]),
]


def changed_through(z, change):
    c = z * 1
    change(c)
    return c * z


GRADIENTS += [
    lambda z: changed_through(z, lambda c: c.conj().mul_(z)),
    lambda z: changed_through(z, lambda c: c.conj()[0].copy_(z[1] * 2j)),
    lambda z: changed_through(z, lambda c: c.conj().imag.mul_(3)),
    lambda z: changed_through(z, lambda c: c.mH.add_(z)),
]


@pytest.mark.parametrize("number", range(len(GRADIENTS)))
def test_gradients(number):
    z = rl.tensor(VALUES, dtype=rl.complex128, requires_grad=True)
    assert rl.autograd.gradcheck(GRADIENTS[number], (z,))
    assert rl.autograd.gradgradcheck(GRADIENTS[number], (z,))


def test_a_view_follows_its_base():
    z = rl.tensor(VALUES, requires_grad=True)
    base = z * 1
    view = base.conj()
    base.mul_(2j)
    (gradient,) = rl.autograd.grad(view.real.sum(), z)
    assert view.grad_fn.name() == "ConjBackward0"
    assert gradient.tolist() == [[-2j, -2j], [-2j, -2j]]


def test_files_keep_the_view():
    x = example()
    for value in (x.conj(), x.conj().imag, x.mH, rl._neg_view(x), rl._neg_view(x).conj()):
        stream = io.BytesIO()
        rl.save(value, stream)
        stream.seek(0)
        for loaded in (rl.load(stream), pickle.loads(pickle.dumps(value))):
            assert loaded.tolist() == value.tolist() and loaded.stride() == value.stride()
            assert (loaded.is_conj(), loaded.is_neg()) == (value.is_conj(), value.is_neg())


def test_what_leaves_the_library_is_resolved_or_refused():
    x = example()
    np = pytest.importorskip("numpy")
    for view, name in ((x.conj(), "resolve_conj"), (x.conj().imag, "resolve_neg")):
        with pytest.raises(RuntimeError, match=name):
            view.numpy()
        assert np.array_equal(view.numpy(force=True), view.tolist())
        with pytest.raises(BufferError, match="resolve"):
            view.__dlpack__()
        with pytest.raises(BufferError, match="resolve"):
            memoryview(view)
    with pytest.raises(RuntimeError, match="resolve_conj"):
        rl.view_as_real(x.conj())
    with pytest.raises(RuntimeError, match="resolve_neg"):
        x.conj().imag.view(rl.int32)
    assert repr(x.conj()) == repr(x.conj().clone())


def test_array_changed_under_a_view():
    x = example()
    pytest.importorskip("numpy")
    array, view = x.numpy(), x.conj()
    assert view.sum().item() == 7 + 1j
    array[0, 0] = 0
    assert view.sum().item() == 6 + 3j


def test_threads_that_read_one_view():
    x = rl.randn(64, 64, dtype=rl.complex64)
    view, expected = x.conj(), x.conj().clone() @ x
    failed = []

    def read():
        for _ in range(50):
            if not rl.allclose(view @ x, expected, rtol=1e-4, atol=1e-4):
                failed.append(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_transforms_and_meta():
    x = example()
    assert rl.func.vmap(lambda row: row.conj() * 1)(x).tolist() == CONJUGATES
    _, tangent = rl.func.jvp(lambda z: z.conj() * 2, (x,), (x,))
    assert tangent.tolist() == (x.conj() * 2).tolist()
    meta = x.to("meta").conj()
    assert meta.is_conj() and (meta + 1).shape == (2, 2)


def test_fused_steps_refuse_a_view():
    x = example()
    parameter = rl.nn.Parameter(x.conj().imag)
    parameter.grad = rl.ones(2, 2)
    with pytest.raises(RuntimeError, match="clone"):
        rl.optim.SGD([parameter], lr=0.1, fused=True).step()
