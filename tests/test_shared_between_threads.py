"""What several Python threads may do with the same tensors, graphs, modules and lists.

With a GIL they alternate every few bytecodes here; on a free-threaded interpreter they run at once.
"""

import contextlib
import gc
import sys
import threading
import weakref

import pytest

import rushlight as rl
from rushlight import _C, nn
from rushlight.autograd import Function
from rushlight.utils.data import DataLoader

pytestmark = pytest.mark.keeps_tensors("threads that have just ended")
COUNT = 6


@pytest.fixture(autouse=True)
def quick_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*works):
    """Calls each function in a thread of its own, all at once: their results or the first error."""
    results, errors, start = [None] * len(works), [], threading.Barrier(len(works))

    def run(i):
        try:
            start.wait()
            results[i] = works[i]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    return results


def many(work, count=COUNT):
    return together(*[work] * count)


# ---- objects that come and go ------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask",
    [
        lambda y, x: y.grad_fn,
        lambda y, x: y.grad_fn.next_functions[0][0],
        lambda y, x: y.grad_fn.next_functions[0][0].variable,
        lambda y, x: x.grad,
        lambda y, x: y[1:]._base,
        lambda y, x: x.untyped_storage(),
        lambda y, x: y.grad_fn._saved_self,
    ],
    ids=["grad_fn", "accumulator", "variable", "grad", "base", "storage", "saved"],
)
def test_one_object_at_a_time(ask):
    """Threads that ask for the same thing at once get the same object, however often it dies."""
    for _ in range(40):
        x = rl.ones(4, requires_grad=True)
        y = x.sin()
        x.grad = rl.ones(4)
        held = many(lambda y=y, x=x: [ask(y, x) for _ in range(3)][-1])
        assert len({id(one) for one in held}) == 1
        del held

        def ask_and_drop(y=y, x=x):
            for _ in range(30):
                assert ask(y, x) is not None

        many(ask_and_drop, 3)


def test_attributes_survive_while_threads_hold_and_drop():
    """An object whose tensor lives on in a graph is kept by it: one thread's drop is no other's."""
    for i in range(60):
        leaf = rl.ones(3, requires_grad=True)
        leaf.tag = i
        seen = weakref.ref(leaf)
        y = leaf * 2
        node = y.grad_fn.next_functions[0][0]
        del leaf

        def look(node=node, i=i):
            for _ in range(20):
                assert node.variable.tag == i

        def upgrade(seen=seen, i=i):
            for _ in range(20):
                found = seen()
                assert found.tag == i and found.sum().item() == 3

        together(look, look, upgrade, upgrade)
        del y, node, look, upgrade
        gc.collect()
        assert seen() is None


def test_a_weak_reference_beside_the_end_of_the_graph():
    """What it gives is whole, or nothing."""
    for i in range(150):
        leaf = nn.Parameter(rl.full((3,), float(i)))
        leaf.tag = i
        seen = weakref.ref(leaf)
        graphs = [[leaf * 2] for _ in range(3)]
        del leaf

        def upgrade(seen=seen, i=i):
            for _ in range(50):
                if (found := seen()) is None:
                    break
                assert found.tag == i and found[0].item() == i
                del found

        together(upgrade, upgrade, *(graph.clear for graph in graphs))
        assert seen() is None


def test_a_subclass_with_a_finalizer():
    ended = []

    class Noted(rl.Tensor):
        def __del__(self):
            ended.append(tuple(self.shape))

    for _ in range(40):
        leaf = rl.ones(3).as_subclass(Noted).requires_grad_()
        graphs = [[leaf * 2] for _ in range(4)]
        del leaf
        together(*(graph.clear for graph in graphs))
    gc.collect()
    assert set(ended) == {(3,)}


# ---- graphs ------------------------------------------------------------------------------------


def test_threads_share_leaves():
    weight, bias = rl.ones(5, 5, requires_grad=True), rl.zeros(5, requires_grad=True)
    x = rl.ones(4, 5)

    def train():
        for _ in range(30):
            (x @ weight + bias).sum().backward()

    many(train)
    assert rl.equal(weight.grad, rl.full((5, 5), 4.0 * 30 * COUNT))
    assert rl.equal(bias.grad, rl.full((5,), 4.0 * 30 * COUNT))


def test_gradients_are_read_and_dropped_during_backward():
    weight, done = rl.ones(8, requires_grad=True), threading.Event()

    def train():
        try:
            for _ in range(150):
                (weight * 2).sum().backward()
        finally:
            done.set()

    def look():
        while not done.is_set():
            grad = weight.grad
            assert grad is None or grad.shape == (8,)
            del grad
            weight.grad = None

    together(train, train, look, look)


def test_backward_through_one_graph():
    x = rl.ones(6, requires_grad=True)
    y = (x.exp() * x.sin()).cumsum(0).sum()
    (expected,) = rl.autograd.grad(y, x, retain_graph=True)
    found = many(lambda: [rl.autograd.grad(y, x, retain_graph=True)[0] for _ in range(20)])
    assert all(rl.equal(grad, expected) for grads in found for grad in grads)


def test_saved_tensors_are_read_while_backward_runs():
    """The node is busy in Python code that waits for the interpreter: who wants it leaves that."""

    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            for _ in range(20):
                grad = grad + 0 * x
            return grad * 2

    x = rl.ones(3, requires_grad=True)
    y = Double.apply(x)
    context, done = y.grad_fn, threading.Event()

    def run():
        try:
            for _ in range(20):
                y.sum().backward(retain_graph=True)
        finally:
            done.set()

    def look():
        while not done.is_set():
            assert context.saved_tensors[0] is x

    together(run, look, look)
    assert rl.equal(x.grad, rl.full((3,), 40.0))


def test_the_context_outlives_its_graph():
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = rl.ones(3, requires_grad=True)
    for _ in range(60):
        outputs = [Same.apply(x)]
        context = outputs[0].grad_fn

        def look(context=context):
            for _ in range(50):  # the readers keep the node for each other meanwhile
                assert len(context.saved_tensors) <= 1

        together(look, look, outputs.clear)
        assert context.saved_tensors == ()


def test_hooks():
    calls, x = [], rl.ones(3, requires_grad=True)
    y = x * 2
    node = y.grad_fn

    def register():
        return [
            register(lambda *_: calls.append(1))
            for register in (
                x.register_hook, y.register_hook, node.register_hook, node.register_prehook,
                x.register_post_accumulate_grad_hook,
            )
            for _ in range(20)
        ]  # fmt: skip

    handles = many(register)
    y.sum().backward(retain_graph=True)
    assert len(calls) == COUNT * 100
    together(*([handle.remove for handle in mine][i::3][0] for mine in handles for i in range(2)))
    calls.clear()
    y.sum().backward()
    assert len(calls) == COUNT * 98


def test_views_of_what_has_changed():
    """Each reader finds their producers stale, and none of them changes anything."""
    for _ in range(60):
        x = rl.ones(6, requires_grad=True)
        base = x.clone()
        views = [base[1:], base.view(2, 3).t(), base[::2]]
        base.mul_(3)

        def read(views=views, x=x):
            total = sum(view.sum() for view in views)
            return rl.autograd.grad(total, x, retain_graph=True)[0].tolist()

        assert many(read) == [[6.0, 6.0, 9.0, 6.0, 9.0, 6.0]] * COUNT


def test_in_place_on_what_a_graph_has_saved():
    x = rl.ones(100, requires_grad=True)
    y = x.clone()
    kept = y.exp() * y.detach().sin() + y * y

    def change():
        for _ in range(100):
            with rl.no_grad():
                y.add_(1)

    before = y._version
    many(change)
    assert y._version == before + 100 * COUNT
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.sum().backward()


# ---- elements that come late -------------------------------------------------------------------


@pytest.mark.parametrize("grain", [1, 0])
def test_layouts_that_a_convolution_chose(grain):
    """They are settled under locks, in which a kernel must not give the interpreter up: whoever has
    it may wait for the lock."""
    conv, norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
    images = rl.randn(4, 3, 20, 20)
    with rl.no_grad():
        expected = rl.relu(norm(conv(images))).contiguous()
    norm.eval().requires_grad_(False)
    norm.train()

    def compute():
        for _ in range(15):
            with rl.no_grad():
                y = rl.relu(nn.functional.batch_norm(conv(images), None, None, training=True))
                assert rl.allclose(y.reshape(-1)[5], expected.reshape(-1)[5], atol=1e-5)
                assert rl.allclose(y, expected, atol=1e-5)

    threads = rl.get_num_threads()
    rl.set_num_threads(2)
    _C._set_largest_grain(grain)
    try:
        many(compute)
    finally:
        _C._set_largest_grain(0)
        rl.set_num_threads(threads)


# ---- modules, lists, generators, loaders -------------------------------------------------------


def test_modules():
    """Calls beside changes of hooks, attributes, buffers and classes."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x, done = rl.ones(3, 4), threading.Event()
    expected = model(x)

    def call():
        try:
            for _ in range(150):
                assert rl.equal(model(x), expected)
        finally:
            done.set()

    def change():
        i = 0
        while not done.is_set():
            i += 1
            model.register_forward_hook(lambda *_: None).remove()
            model[0].register_forward_pre_hook(lambda *_: None).remove()
            model[0].register_buffer("extra", rl.ones(1))
            assert model[0].extra is not None
            model[0].note = [i]
            assert model[0].note
            model[0].__dict__["other"] = [i]
            del model[0].extra
            type("Fresh", (nn.Module,), {"forward": lambda self, x: x})()(x)

    together(call, call, change)


@pytest.mark.parametrize(
    "read",
    [
        rl.stack, rl.cat, rl.tensor, lambda items: rl.ones(3)[items], lambda items: rl.ones(items),
        lambda items: rl.autograd.grad(rl.ones(1), items),
    ],
    ids=["stack", "cat", "tensor", "index", "sizes", "grad"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning")
def test_lists_that_change_while_they_are_read(read):
    items, done = [], threading.Event()

    def change():
        try:
            for i in range(3000):
                items.append(rl.ones(2) if i % 3 else 1)
                if i % 7 == 0:
                    items.clear()
        finally:
            done.set()

    def use():
        while not done.is_set():
            with contextlib.suppress(RuntimeError, TypeError, ValueError, IndexError):
                read(items)

    together(change, use, use)


def test_the_default_generator():
    """Each call draws its own part of the one stream."""
    rl.manual_seed(7)
    stream = [tuple(rl.randint(0, 1 << 30, (64,)).tolist()) for _ in range(COUNT * 20)]
    rl.manual_seed(7)
    found = many(lambda: [tuple(rl.randint(0, 1 << 30, (64,)).tolist()) for _ in range(20)])
    assert sorted(part for parts in found for part in parts) == sorted(stream)


def test_data_loaders():
    data = [(rl.full((3,), float(i)), i) for i in range(40)]
    loader = DataLoader(data, batch_size=8, shuffle=True)

    def read():
        return [
            sorted(int(i) for _, labels in loader for i in labels) for _ in range(3)
        ]  # fmt: skip

    assert all(seen == list(range(40)) for epochs in many(read) for seen in epochs)


def test_modes_belong_to_a_thread():
    x = rl.ones(2, requires_grad=True)

    def without():
        for _ in range(100):
            with rl.no_grad():
                assert not (x * 2).requires_grad
            with rl.inference_mode():
                assert (x * 2).is_inference()

    def recording():
        for _ in range(100):
            assert (x * 2).requires_grad

    together(without, recording, without, recording)


def test_the_collector_beside_all_that():
    """Cycles through hooks, attributes and contexts, while other threads compute and backward."""
    done, seen = threading.Event(), []

    def work():
        for i in range(60):
            x = rl.ones(4, requires_grad=True)
            y = x * 2
            y.self = y
            x.register_hook(lambda grad, x=x: None)
            y.sum().backward()
            if i % 10 == 0:
                seen.append(weakref.ref(y))

    def collect():
        while not done.is_set():
            gc.collect()

    collector = threading.Thread(target=collect)
    collector.start()
    try:
        many(work, 4)
    finally:
        done.set()
        collector.join()
    gc.collect()
    assert not any(reference() is not None for reference in seen)
