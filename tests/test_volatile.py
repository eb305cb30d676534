"""The flag `volatile` of 2017: one bit of a tensor, that every operation passes on."""

import copy
import threading

import pytest
from table import PUBLIC, case, cases, listed

import rushlight as torch
from rushlight.autograd import Function, Variable


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


def volatile(*shape):
    return Variable(torch.full(shape, 2.0), volatile=True)


# ---- every operation of the table


def arguments(call, marked):
    """A converter: array number `marked` is volatile, the others need gradients where they can."""
    arrays, wanted = call.arrays(), {id(array) for array in call.differentiable()}

    def convert(array):
        t = array.tensor(torch)
        if array is arrays[marked]:
            t.volatile = True
            return t
        return t.requires_grad_().clone() if id(array) in wanted else t

    return convert


# Whose other arguments give a shape, a type or a place alone.
FIRST_DECIDES = {"type_as", "expand_as", "view_as", "reshape_as", "resize_as_", "narrow",
                 "tensor_split", "to"}  # fmt: skip


@pytest.mark.parametrize(("op", "number"), cases(PUBLIC))
def test_any_volatile_input_makes_results_volatile(op, number):
    call = case(op, number)
    decides = op.python_names[0].rpartition(".")[2] in FIRST_DECIDES
    for marked in range(1 if decides else len(call.arrays())):
        for out in listed(call.run(torch, arguments(call, marked))):
            if isinstance(out, torch.Tensor):
                assert out.volatile and out.grad_fn is None and not out.requires_grad


IN_PLACE = [op for op in PUBLIC if op.row.kind == "elementwise" and len(op.tensor_parameters) > 1
            and hasattr(torch.Tensor, op.python_names[0].rpartition(".")[2] + "_")]  # fmt: skip


@pytest.mark.parametrize(("op", "number"), cases(IN_PLACE))
def test_any_volatile_input_makes_the_target_volatile(op, number):
    call = case(op, number)
    name = "Tensor." + op.python_names[0].rpartition(".")[2] + "_"
    for marked in range(1, len(call.arrays())):
        result = call.run(torch, arguments(call, marked))
        args, _ = call.arguments(arguments(call, marked))
        if not isinstance(args[0], torch.Tensor) or args[0].shape != result.shape:
            continue  # it does not fit into its first argument
        if args[0].dtype == result.dtype:
            target = call.run(torch, arguments(call, marked), name)
            assert target.volatile and target.grad_fn is None and not target.requires_grad


# ---- in-place


@pytest.mark.parametrize(
    "change",
    [
        lambda z, v: z.copy_(v),
        lambda z, v: z.mul_(v),
        lambda z, v: z.add_(1, alpha=1).addcmul_(v, v),
        lambda z, v: z.__imul__(v),
        lambda z, v: z.__setitem__(0, v[0]),
        lambda z, v: z.__setitem__(slice(None), v),
        lambda z, v: z[1:].copy_(v[1:]),
        lambda z, v: z.view(2, 2).mul_(v.view(2, 2)),
        lambda z, v: torch.add(v, 1, out=z),
        lambda z, v: torch._foreach_mul_([z], [v]),
        lambda z, v: z.masked_fill_(v > 0, 1.0),
    ],
)
def test_what_a_volatile_input_changes_becomes_volatile(change):
    w, v = leaf(4), volatile(4)
    z = w * 1 if change.__code__.co_names != ("torch", "add") else torch.empty(4)
    kept = z.view(-1) if z.requires_grad else None
    change(z, v)
    assert z.volatile and z.grad_fn is None and not z.requires_grad
    assert not w.volatile and w.requires_grad
    with pytest.raises(RuntimeError, match="volatile"):
        z.sum().backward()
    if kept is not None:  # another view of it shares the fate
        assert kept.volatile and kept.grad_fn is None
    assert (w * 2).requires_grad


@pytest.mark.parametrize("change", [lambda w, v: w.copy_(v), lambda w, v: w[0].mul_(v[0]),
                                    lambda w, v: w.__setitem__(0, v[0])])  # fmt: skip
def test_leaves_that_require_a_gradient_are_refused(change):
    w, v = leaf(4), volatile(4)
    with pytest.raises(RuntimeError, match="leaf"):
        change(w, v)
    assert not w.volatile and w.tolist() == [1.0] * 4
    with torch.no_grad():  # the program's own decision
        change(w, v)
    assert w.requires_grad and not w.volatile and w[0].item() == 2.0


def test_what_is_only_returned_is_not_marked():
    w, v = leaf(4), volatile(4)
    z = w * 1
    assert z.type_as(v) is z and z.to(v) is z
    assert not z.volatile and z.grad_fn is not None


def test_buffers_of_a_layer_are_not_marked():
    norm = torch.nn.BatchNorm1d(4)
    out = norm(volatile(3, 4))
    assert out.volatile and not norm.running_mean.volatile
    assert norm(torch.ones(3, 4)).requires_grad


# ---- everywhere else


class Twice(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w, w * 2

    @staticmethod
    def backward(ctx, first, second):
        raise AssertionError("nothing was recorded")


def test_custom_functions_do_not_record():
    results = Twice.apply(volatile(4), leaf(4))
    for out in results:
        assert out.volatile and out.grad_fn is None and not out.requires_grad
    for out in Twice.apply(torch.ones(4), leaf(4)):
        assert not out.volatile and out.requires_grad


def test_parts_of_a_tensor():
    v = volatile(2, 2)
    parts = [*v, *v.unbind(), v[0], v[:, 1], v[[0]], v.T, v.mT, v.real, v.detach(), *v.split(1)]
    assert all(part.volatile for part in parts)
    assert not v.data.volatile and (v.data * leaf(2, 2)).requires_grad
    assert repr(v).endswith("volatile=True)")
    assert copy.deepcopy(v).volatile


def test_the_flag_can_be_set_on_leaves():
    p = torch.ones(2)
    p.volatile = True
    assert (p * leaf(2)).volatile
    p.volatile = False
    assert (p * leaf(2)).requires_grad
    with pytest.raises(ValueError, match="leaf"):
        (leaf(2) * 2).volatile = True
    with pytest.raises(TypeError, match="bool"):
        p.volatile = 1


def test_both_flags_cannot_be_set():
    w, v = leaf(2), volatile(2)
    with pytest.raises(ValueError, match="volatile"):
        w.volatile = True
    with pytest.raises(ValueError, match="volatile"):
        v.requires_grad = True
    with pytest.raises(ValueError, match="volatile"):
        v.requires_grad_()
    with pytest.raises(ValueError, match="volatile"):
        Variable(torch.ones(1), requires_grad=True, volatile=True)
    assert not w.volatile and not v.requires_grad


def test_backward_of_a_volatile_tensor_is_refused():
    v = volatile(1)
    for call in (v.backward, lambda: torch.autograd.backward([v]), v.sum().backward):
        with pytest.raises(RuntimeError, match="volatile"):
            call()
    with pytest.raises(RuntimeError, match="volatile"):
        torch.autograd.grad(v, leaf(1))


def test_threads_that_were_there_before():
    """A thread that has made no volatile tensor is given one."""
    given, back = [threading.Event() for _ in range(2)]
    box = []

    def work():
        (leaf(1) * 2).backward()
        back.set()
        given.wait()
        box.append(box[0] * leaf(2))
        box.append(Twice.apply(box[0], leaf(2))[0])

    thread = threading.Thread(target=work)
    thread.start()
    back.wait()
    box.append(volatile(2))
    given.set()
    thread.join()
    assert len(box) == 3 and all(out.volatile and out.grad_fn is None for out in box)


def test_modules_and_modes():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.LSTM(8, 3))
    out, (hidden, cell) = model(volatile(5, 4))
    assert out.volatile and hidden.volatile and cell.volatile
    assert model(torch.ones(5, 4))[0].requires_grad

    class Seen(torch.overrides.TorchFunctionMode):
        calls = 0

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.calls += 1
            return function(*args, **(kwargs or {}))

    with Seen() as seen:
        assert (volatile(4) * leaf(4)).volatile
    assert seen.calls > 0
