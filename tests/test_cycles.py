"""The garbage collector finds reference cycles that lead through the graph, whoever owns what."""

import gc
import os
import random
import subprocess
import sys
import threading
import time
import weakref
from collections import OrderedDict

import pytest
from test_memory import resident

import rushlight as torch
from rushlight import _C, nn


@pytest.fixture(scope="module", autouse=True)
def quick_collections():
    """What was there before is left out of them."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def live():
    gc.collect()
    gc.collect()  # what two cycles had in common
    return _C._live_tensors(), _C._live_nodes()


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        return first * 2 + second * 3


class Packed:
    """What a saved tensor was packed into."""

    def __init__(self, tensor):
        self.tensor = tensor


class Sub(torch.Tensor):
    pass


class Slotted(torch.Tensor):
    __slots__ = ("thing",)


def leaf(*shape):
    return torch.ones(*shape, requires_grad=True)


def holding(thing):
    def hook(*grads):
        assert thing is not None

    return hook


def noting(seen, thing):
    def hook(*grads):
        seen.append(thing)

    return hook


# Each gives `thing` to something of the graph from x to y.
OWNERS = {
    "hook of a leaf": lambda x, y, thing: x.register_hook(holding(thing)),
    "hooks of a leaf": lambda x, y, thing: setattr(
        x, "_backward_hooks", OrderedDict({0: holding(thing)})
    ),
    "accumulate hook": lambda x, y, thing: x.register_post_accumulate_grad_hook(holding(thing)),
    "hook of a result": lambda x, y, thing: y.register_hook(holding(thing)),
    "hook of a node": lambda x, y, thing: y.grad_fn.register_hook(holding(thing)),
    "prehook of a node": lambda x, y, thing: y.grad_fn.register_prehook(holding(thing)),
    "hook of an accumulator": lambda x, y, thing: y.grad_fn.next_functions[0][0].register_hook(
        holding(thing)
    ),
    "metadata of a node": lambda x, y, thing: y.grad_fn.metadata.update(thing=thing),
    "context": lambda x, y, thing: setattr(y.grad_fn, "thing", thing),
    "attribute of a leaf": lambda x, y, thing: setattr(x, "thing", thing),
    "attribute of a result": lambda x, y, thing: setattr(y, "thing", thing),
}
THINGS = {
    "leaf": lambda x, y: x,
    "result": lambda x, y: y,
    "a later result": lambda x, y: y.exp(),
    "view": lambda x, y: y.view(-1),
    "node": lambda x, y: y.grad_fn,
    "accumulator": lambda x, y: y.grad_fn.next_functions[0][0],
    "tuple": lambda x, y: (y.sin(),),
    "subclass": lambda x, y: y.as_subclass(Sub),
    "leaf and result": lambda x, y: (x, y),
}


def closed(owner, thing):
    x = leaf(4)
    y = Double.apply(x)
    OWNERS[owner](x, y, THINGS[thing](x, y))


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("owner", OWNERS)
def test_cycles_of_an_owner_and_what_it_holds(owner, thing):
    before = live()
    for _ in range(3):
        closed(owner, thing)
    assert live() == before


@pytest.mark.parametrize("thing", THINGS)
@pytest.mark.parametrize("owner", OWNERS)
def test_what_is_in_use_stays(owner, thing):
    """A collection changes nothing of a graph that somebody has."""
    x = leaf(4)
    y = Double.apply(x)
    OWNERS[owner](x, y, THINGS[thing](x, y))
    z = y.sum()
    seen = []
    x.register_hook(seen.append)
    y.register_hook(seen.append)
    del x, y
    gc.collect()
    z.backward()
    assert len(seen) == 2
    del z, seen
    gc.collect()


def a_hook_of_a_module():
    m = nn.Linear(8, 8)
    m.weight.register_hook(lambda grad, m=m: None)
    return m.weight


def a_hook_of_a_module_that_was_used():
    m = nn.Linear(8, 8)
    m.weight.register_hook(lambda grad, m=m: None)
    m(torch.ones(2, 8)).sum().backward()
    return m.weight


def a_module_that_keeps_its_output():
    m = nn.Linear(8, 8)
    m.weight.register_hook(lambda grad, m=m: None)
    m.out = m(torch.ones(2, 8))
    return m.weight


def a_bound_method_as_hook():
    class Model(nn.Linear):
        def seen(self, grad):
            return None

    m = Model(8, 8)
    m.weight.register_post_accumulate_grad_hook(m.seen)
    m.out = m(torch.ones(2, 8)).sum()
    return m.weight


def a_function_that_stores_its_output():
    class Stores(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.out = x * 2
            return ctx.out

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    return Stores.apply(leaf(4))


def an_unused_output_of_a_function():
    first, second = Two.apply(leaf(4))
    first.grad_fn.out = second
    return second


def packed_with_the_result():
    class Holder(list):
        pass

    holder = Holder()
    x = leaf(4)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (t, holder), lambda p: p[0]):
        y = x.exp()
    holder.append(y)
    return y


def an_unpack_hook_with_the_result():
    held = []
    with torch.autograd.graph.saved_tensors_hooks(Packed, lambda p: held and p.tensor):
        y = leaf(4).exp()
    held.append(y)
    return y


def a_gradient_with_its_tensor():
    x = leaf(4)
    x.grad = torch.ones(4)
    x.grad.of = x
    return x


def a_gradient_of_a_subclass():
    x = leaf(4)
    x.grad = torch.ones(4).as_subclass(Sub)
    x.grad.of = x
    return x


def an_attribute_with_a_view():
    x = torch.ones(4)
    x.flat = x.view(2, 2)
    return x


def a_subclass():
    x = torch.ones(4).as_subclass(Sub)
    x.itself = [x]
    return x


def a_subclass_with_slots():
    x = torch.ones(4).as_subclass(Slotted)
    x.thing = [x]
    return x


def a_parameter():
    p = nn.Parameter(torch.ones(4))
    p.used = p * 2
    return p


def changed_in_place():
    x = torch.zeros(4)
    x += leaf(4)
    x.register_hook(lambda grad: x)
    return x


def changed_through_a_view():
    x = leaf(4) * 2
    x[0].mul_(3)
    x.register_hook(lambda grad: x)
    return x


def changed_by_what_kept_it():
    x = leaf(4) * 2
    x += x.exp() * x
    return x


def changed_by_what_kept_it_and_a_hook():
    x = leaf(4) * 2
    x += x * x
    x.register_hook(lambda grad: x)
    return x


def changed_by_what_kept_a_view():
    x = leaf(4) * 2
    view = x[:]
    x += view * view
    return view


def a_view_changed_by_what_kept_it():
    x = leaf(4) * 2
    view = x[1:]
    view += view * view
    return x


def a_stale_view_that_was_kept():
    x = leaf(4) * 2
    view = x[1:]
    kept = view * view
    x[1:] += kept
    assert view.grad_fn is not None  # which is made anew
    return view


def without_a_history_until_changed_by_what_kept_it():
    x = leaf(4)
    w = x.detach()
    w += w * x
    return w


def changed_by_what_kept_it_in_a_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(changed_by_what_kept_it()))
    thread.start()
    thread.join()
    return found.pop()


def a_leaf_that_became_the_result_of_its_own():
    x = leaf(4)
    y = x * 2
    x.requires_grad_(False)
    x += y
    return x


def two_that_were_changed_by_each_other():
    x, w = leaf(4) * 2, leaf(4) * 3
    of_x, of_w = x * x, w * w
    x += of_w
    w += of_x
    return w


def a_retained_gradient():
    y = leaf(4) * 2
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    y.grad.of = y
    return y


def a_hook_and_the_history_of_a_gradient():
    x = leaf(4)
    x.register_hook(lambda grad: grad * x.numel())
    (x**3).sum().backward(create_graph=True)
    return x


def the_history_of_a_gradient():
    x = leaf(4)
    (x**3).sum().backward(create_graph=True)
    return x


def the_history_of_two_gradients():
    x, w = leaf(4), leaf(4)
    (x**3 * w**2).sum().backward(create_graph=True)
    return x


def the_history_of_a_gradient_whose_leaf_went_first():
    x = leaf(4)
    y = (x**3).sum()
    del x
    y.backward(create_graph=True)
    return y


def accumulator_of(x):
    return x.view_as(x).grad_fn.next_functions[0][0]


def a_hook_of_an_accumulator_with_two_results():
    x = leaf(4)
    first, second = x * 2, x * 3
    accumulator_of(x).register_hook(holding((first, second)))
    return first


def a_hook_of_a_leaf_with_two_results():
    x = leaf(4)
    first, second = x * 2, x.exp()
    x.register_hook(holding([first, second]))
    return second


def a_multi_grad_hook(mode="all"):
    x, w = leaf(4), leaf(4)
    results = [x * w, (x + w).exp(), x.sin()]
    torch.autograd.graph.register_multi_grad_hook(results, holding(results), mode=mode)
    return results[1]


def a_multi_grad_hook_for_any():
    return a_multi_grad_hook("any")


def a_multi_grad_hook_of_leaves_and_results():
    m = nn.Linear(4, 4)
    m.results = [m(torch.ones(2, 4)), m(torch.zeros(2, 4))]
    seen = [*m.parameters(), *m.results]
    torch.autograd.graph.register_multi_grad_hook(seen, holding(m))
    return m.weight


def a_hook_of_a_node_that_three_lead_to():
    shared = leaf(4) * 2
    results = [shared.sin(), shared.cos(), shared.exp()]
    shared.grad_fn.register_prehook(holding(results))
    return results[0]


def two_outputs_of_one_node():
    first, second = (leaf(4) * 2).unbind(0)[:2]
    first.grad_fn.metadata["outputs"] = first, second
    return first


def two_outputs_of_a_function():
    first, second = Two.apply(leaf(4))
    first.grad_fn.outputs = first, second
    return second


def packed_with_two_results():
    holder = []
    x = leaf(4)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (t, holder), lambda p: p[0]):
        y = x.exp()
    holder += [y.sin(), y.cos(), y]
    return holder[0]


def two_views_of_itself():
    x = torch.ones(4)
    x.__dict__.update(a=x[0], b=x[1])
    return x


def two_views_of_a_result():
    x = leaf(4) * 2
    x.views = x[0], x[1:]
    return x


def a_saved_tensor_in_a_hook():
    y = leaf(4).exp()
    y.grad_fn.register_hook(holding(y.grad_fn._raw_saved_result))
    return y


def a_gradient_with_history_and_an_attribute():
    x = leaf(4)
    x.itself = [x]
    (x**3).sum().backward(create_graph=True)
    return x


def two_gradients_with_history_and_attributes():
    x, w = leaf(4), leaf(4)
    x.other, w.other = w, x
    (x**3 * w**2).sum().backward(create_graph=True)
    return x


def a_retained_gradient_with_history():
    y = leaf(4) * 2
    y.itself = y
    y.retain_grad()
    (y**3).sum().backward(create_graph=True)
    return y


def a_result_that_backward_accumulates_into():
    y = leaf(4) * 2
    y.itself = y
    (y**3).sum().backward(inputs=[y], create_graph=True)
    return y


def cycles_that_share_a_cycle():
    x = leaf(4)
    first, second = x * 2, x * 3
    accumulator_of(x).register_hook(holding((first, second)))
    third = first * second
    first.grad_fn.register_hook(holding((second, third)))
    second.grad_fn.metadata["third"] = third
    return third


PROGRAMS = [
    a_hook_of_an_accumulator_with_two_results,
    a_hook_of_a_leaf_with_two_results,
    a_multi_grad_hook,
    a_multi_grad_hook_for_any,
    a_multi_grad_hook_of_leaves_and_results,
    a_hook_of_a_node_that_three_lead_to,
    two_outputs_of_one_node,
    two_outputs_of_a_function,
    packed_with_two_results,
    two_views_of_itself,
    two_views_of_a_result,
    a_saved_tensor_in_a_hook,
    a_gradient_with_history_and_an_attribute,
    two_gradients_with_history_and_attributes,
    a_retained_gradient_with_history,
    a_result_that_backward_accumulates_into,
    cycles_that_share_a_cycle,
    a_hook_of_a_module,
    a_hook_of_a_module_that_was_used,
    a_module_that_keeps_its_output,
    a_bound_method_as_hook,
    a_function_that_stores_its_output,
    an_unused_output_of_a_function,
    packed_with_the_result,
    an_unpack_hook_with_the_result,
    a_gradient_with_its_tensor,
    a_gradient_of_a_subclass,
    an_attribute_with_a_view,
    a_subclass,
    a_subclass_with_slots,
    a_parameter,
    changed_in_place,
    changed_through_a_view,
    changed_by_what_kept_it,
    changed_by_what_kept_it_and_a_hook,
    changed_by_what_kept_a_view,
    a_view_changed_by_what_kept_it,
    a_stale_view_that_was_kept,
    without_a_history_until_changed_by_what_kept_it,
    changed_by_what_kept_it_in_a_thread,
    a_leaf_that_became_the_result_of_its_own,
    two_that_were_changed_by_each_other,
    a_retained_gradient,
    a_hook_and_the_history_of_a_gradient,
    the_history_of_a_gradient,
    the_history_of_two_gradients,
    the_history_of_a_gradient_whose_leaf_went_first,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_cycles(program):
    before = live()
    references = [weakref.ref(program()) for _ in range(3)]
    assert live() == before
    assert [reference() for reference in references] == [None] * 3


class Net:
    """Random results with hooks that hold some of them and say their numbers when called."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.results, self.seen = {0: leaf(2)}, []
        for number in range(1, 15):
            self.grow(number)

    def grow(self, number):
        a, b = self.rng.choices(list(self.results.values()), k=2)
        deed = self.rng.randrange(6)
        if deed < 3:
            self.results[number] = [a * 1.5, a + b, a.view(-1)][deed]
            return
        seen = self.seen

        def hook(*grads):
            assert a.shape == b.shape == (2,)
            seen.append(number)

        on = self.rng.choice(list(self.results.values()))
        if deed == 3 or on.grad_fn is None:
            on.register_hook(hook)
        elif deed == 4:
            on.grad_fn.register_hook(hook)
        else:
            on.grad_fn.next_functions[0][0].register_hook(hook)

    def called_from(self, root):
        """The hooks that a backward from one result calls, now and in this order."""
        self.seen.clear()
        root.sum().backward(retain_graph=True)
        return list(self.seen)


def drop_one_by_one(net):
    """Three results of a net, of which every one calls the same hooks until it goes."""
    del net.results[0]  # a leaf does not keep its accumulator, nor the hooks of that
    roots = net.rng.sample(list(net.results.values()), min(3, len(net.results)))
    expected = [net.called_from(root) for root in roots]
    net.results.clear()
    while roots:
        for generation in (0, 2, 1, 2):
            for root, calls in zip(roots, expected):
                assert net.called_from(root) == calls
            gc.collect(generation)
            closed("hook of an accumulator", "a later result")
        del roots[0], expected[0]


@pytest.mark.parametrize("seed", range(40))
def test_hooks_of_random_graphs_live_as_long_as_what_leads_to_them(seed):
    before = live()
    drop_one_by_one(Net(seed))
    assert live() == before


def test_what_an_older_generation_owns_too_stays():
    """One of two results is too old for a quick collection: it leads to the hook all the same."""
    x = leaf(4)
    first, second, seen = x * 2, x * 3, []
    gc.collect()  # they are old now
    third = x * 4
    accumulator_of(x).register_hook(noting(seen, third))
    del second, third, x
    for _ in range(3):
        gc.collect(0)
    first.sum().backward()
    assert len(seen) == 1
    seen.clear()


def test_what_the_graph_alone_leads_to_stays():
    """An untracked owner in C++, the list of results that backward works on, is in use."""
    x = leaf(4)
    first, second, seen = x * 2, x * 3, []
    accumulator_of(x).register_hook(noting(seen, (first, second)))

    def collect(grad):
        gc.collect()

    total = first.sum() + second.sum()
    total.register_hook(collect)
    backward = total.backward
    del x, first, second, total
    gc.collect()
    backward()
    assert len(seen) == 1
    seen.clear()
    del backward
    gc.collect()


def test_finalizers_may_take_out_a_part_of_a_cycle():
    """The collector asks again after finalizers have run; what they revive keeps its hooks."""
    before = live()
    revived, seen = [], []

    class Revives:
        def __init__(self, result):
            self.result = result

        def __del__(self):
            revived.append(self.result)

    def make():
        x = leaf(4)
        first, second = x * 2, x * 3
        accumulator_of(x).register_hook(holding((first, second, Revives(first))))
        x.register_hook(seen.append)

    for _ in range(5):
        make()
        gc.collect()
    assert len(revived) == 5
    for result in revived:
        result.sum().backward()
    assert len(seen) == 5
    revived.clear()
    seen.clear()
    del result
    assert live() == before


def test_callbacks_of_others_may_hide_a_collection():
    """gc passes over the next callback when one removes itself; then nothing is found, or lost."""
    before = live()

    def once(phase, info):
        gc.callbacks.remove(once)

    x = leaf(4)
    first, second, seen = x * 2, x * 3, []
    accumulator_of(x).register_hook(noting(seen, second))
    ours = [c for c in gc.callbacks if "_on_collection" in repr(c)]
    assert len(ours) == 1
    for place in (0, len(gc.callbacks)):
        for _ in range(3):
            gc.callbacks.insert(place, once)
            a_hook_of_an_accumulator_with_two_results()
            gc.collect()
    gc.callbacks.remove(ours[0])
    a_hook_of_an_accumulator_with_two_results()
    gc.collect()
    gc.callbacks.append(ours[0])
    first.sum().backward()
    assert len(seen) == 1
    seen.clear()
    del x, first, second
    assert live() == before


@pytest.mark.parametrize(
    "program",
    [
        a_hook_of_an_accumulator_with_two_results,
        a_multi_grad_hook,
        two_views_of_itself,
        a_hook_of_a_module,
        a_gradient_with_its_tensor,
        an_attribute_with_a_view,
        packed_with_the_result,
    ],
    ids=lambda program: program.__name__,
)
def test_the_first_cycle_of_a_process(program):
    """Tensors are tracked from when the graph holds objects; so are those that it then holds."""
    script = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_cycles import live, {program.__name__} as program
before = live()
program()
after = live()
assert after == before, (before, after)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_what_was_asked_for_a_gradient_and_got_none_is_forgotten_with_its_object():
    script = """
import gc, rushlight
(rushlight.ones(2, requires_grad=True) * 2).register_hook(print)
for _ in range(1000):
    rushlight.ones(2, requires_grad=True).retain_grad()
    try:
        rushlight.ones(2).retain_grad()
    except RuntimeError:
        pass
others = [object() for _ in range(100000)]
gc.collect()
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_cycle_that_is_in_use_keeps_its_hooks():
    """The module is out of reach but for its output, whose backward calls the hook."""
    seen = []

    def output():
        m = nn.Linear(4, 4)
        m.weight.register_hook(lambda grad, m=m: seen.append(m))
        m.weight.note = "kept"
        return m(torch.ones(2, 4)).sum()

    out = output()
    gc.collect()
    out.backward()
    assert len(seen) == 1 and seen[0].weight.note == "kept"
    seen.clear()


@pytest.mark.parametrize("kind", ["tensor", "leaf", "history"])
def test_a_finalizer_may_revive_what_it_is_called_for(kind):
    revived = []

    class Revives(torch.Tensor):
        def __del__(self):
            revived.append(self)

    def make():
        x = torch.ones(4).as_subclass(Revives)
        x.itself = x
        if kind != "tensor":
            x.requires_grad_()
        if kind == "history":
            (x**3).sum().backward(create_graph=True)

    make()
    revived.clear()  # results of the same class, whose graph leads to x: it would be in use
    gc.collect()
    (x,) = [found for found in revived if "itself" in found.__dict__]
    assert x.itself is x and x.tolist() == [1.0] * 4
    if kind == "history":
        assert x.grad.tolist() == [3.0] * 4 and x.grad.requires_grad
        x.grad = None
    del x.itself, x
    revived.clear()


def penalized():
    """A step of a network whose loss has the gradient of its output in it."""
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    handle = model[0].register_forward_hook(lambda module, given, out: out * 1.5)
    assert handle is not None

    def step():
        x = torch.randn(4, 8, requires_grad=True)
        out = Double.apply(model(x)).sum()
        (grad,) = torch.autograd.grad(out, x, create_graph=True)
        optimizer.zero_grad()
        (out + (grad.norm(dim=1) - 1).square().mean()).backward()
        optimizer.step()

    return step


def of_a_leaf():
    """A step that leaves the history of a gradient in a leaf."""

    def step():
        x = torch.ones(1000, requires_grad=True)
        loss = (x**3).sum()
        loss.backward(create_graph=True)
        x.grad.sum().backward()

    return step


def of_a_block():
    """A step of a network outside no_grad that adds to a tensor what it computes of it."""
    weights = torch.randn(3, 8, 8, requires_grad=True)

    def step():
        x = torch.randn(2, 8)
        for weight in weights:
            x = x @ weight
            x += (x @ weight).tanh() * x
        return x.sum()

    return step


@pytest.mark.parametrize("make", [of_a_leaf, of_a_block, penalized])
def test_steady_state_without_the_collector(make):
    """Second-order steps leave nothing behind where the program itself makes no cycle."""
    step = make()

    def held():
        return _C._live_tensors(), _C._live_nodes(), torch.memory_stats()["allocated"]

    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            step()
        before, start = held(), resident()
        for _ in range(10_000):
            step()
        assert held() == before
        # 3 MiB: 300 bytes a step. Sanitizers keep memory of their own.
        assert resident() - start < 3 << 20 or "san.so" in os.environ.get("LD_PRELOAD", "")
    finally:
        gc.enable()
        gc.collect()


def test_what_was_changed_by_what_kept_it_lives_as_long_as_it_is_of_use():
    x, w = leaf(4), leaf(4)
    before = live()
    y = x * 2
    product = y * w  # keeps y
    y += 1
    y.retain_grad()
    seen = []
    y.grad_fn.register_hook(lambda *grads: seen.append(len(grads)))
    reference, total, node = weakref.ref(y), y.sum(), y.grad_fn
    del y
    gc.collect()
    y = reference()  # which product has kept
    total.backward(retain_graph=True)
    assert x.grad.tolist() == [2.0] * 4 and y.grad.tolist() == [1.0] * 4 and seen == [2]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    x.grad = None
    del y, product, total, node
    assert live() == before and reference() is None


def test_a_growing_graph_of_tensors_that_were_kept_and_changed():
    """Looking for garbage takes time in proportion to the graph, and is done seldom enough."""
    w = leaf(4)

    def seconds(steps):
        x = w * 2
        start = time.process_time()
        for _ in range(steps):
            x = x * w
            x += x * x
        return time.process_time() - start

    seconds(500)
    gc.collect()
    few = seconds(2_000)
    gc.collect()
    assert seconds(16_000) < 30 * max(few, 0.01)
    gc.collect()


def test_threads_collect_while_others_run_backward():
    stop, failures = threading.Event(), []

    def work():
        try:
            m = nn.Linear(16, 16)
            m.weight.register_hook(lambda grad, m=m: None)
            while not stop.is_set():
                x = leaf(4, 16)
                x.out = m(x).tanh()
                x.out.sum().backward()
                x = leaf(4, 16)
                m(x).sin().sum().backward(create_graph=True)
                m.zero_grad()
        except BaseException as error:
            failures.append(error)

    before = live()
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        gc.collect()
        cycle = closed("hook of a leaf", "a later result")
        del cycle
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    del threads, thread
    assert live() == before


def test_small_operations_are_not_tracked_until_needed():
    script = """
import gc, rushlight as torch
x = torch.ones(4, requires_grad=True)
y = (x * 2).exp()
assert not gc.is_tracked(x) and not gc.is_tracked(y) and not gc.is_tracked(torch.ones(4) + 1)
y.register_hook(print)
assert gc.is_tracked(y) and gc.is_tracked(x * 2) and not gc.is_tracked(torch.ones(4) + 1)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
