"""Chains of objects that own each other, freed without a deep stack.

In a process of its own, with a thread of a small stack: a deep recursion crashes.
"""

import gc
import subprocess
import sys
import weakref

import pytest

import rushlight
from rushlight import _C

LENGTH = 60_000

CHAINS = {
    "from_numpy": "t = rl.from_numpy(t.numpy())",
    "frombuffer": "t = rl.frombuffer(t.numpy(), dtype=rl.float32)",
    "memoryview": "t = rl.frombuffer(memoryview(t.numpy()), dtype=rl.float32)",
    "from_dlpack": "t = rl.from_dlpack(t)",
    "array interface": "t = rl.as_tensor(np.asarray(t))",
    "views of numpy": "t = rl.from_numpy(t.view(2, 2).numpy().reshape(-1))",
    "detach": "t = t.detach()",
    "views": "t = t.view(2, 2).view(4)",
    "grads": "u = rl.ones(4); u.grad = t; t = u",
    "graph": "t = (t if t.requires_grad else t.requires_grad_()) * 1",
    "saved tensors": "t = (t if t.requires_grad else t.requires_grad_()).exp()",
    "attributes": "u = rl.ones(4); u.next = t; t = u",
    "hooks": "u = rl.ones(4, requires_grad=True); u.register_hook(lambda g, t=t: g); t = u",
    "bound hooks": "u = rl.ones(4, requires_grad=True); u.register_hook(Holder(t).hook); t = u",
    "node hooks": "u = rl.ones(4, requires_grad=True) * 1; "
    "u.grad_fn.register_hook(lambda a, b, t=t: None); t = u",
    "tuples": "u = rl.ones(4); u.next = (t,); t = u",
    "functions": "t = Keep.apply(t if t.requires_grad else t.requires_grad_())",
    "slots": "u = Slotted(rl.ones(4)); u.next = t; t = u",
    "finalizers": "u = Finalized(rl.ones(4)); u.next = t; t = u",
    "weak references": "u = Watched(rl.ones(4)); u.next = t; "
    "seen.append(weakref.ref(u, drop)); t = u",
    "contexts": "t = Follow.apply(t)",
    "parameters": "u = rl.nn.Parameter(rl.ones(4)); u.next = t; t = u",
    "data": "u = rl.ones(4); u.data = t; t = u",
    "hooks of saved tensors": "t = packed(t)",
    "numpy attributes": "t = rl.from_numpy(np.asarray(Owner(t)))",
}

PROGRAM = """
import gc, threading, weakref
import numpy as np
import rushlight as rl
from rushlight import _C

class Holder:
    def __init__(self, t): self.t = t
    def hook(self, g): return g

class Owner:
    def __init__(self, t): self.t = t
    @property
    def __array_interface__(self): return self.t.numpy().__array_interface__

class Keep(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.kept = x
        return x * 1
    @staticmethod
    def backward(ctx, g): return g

class Slotted(rl.Tensor):
    __slots__ = ("next",)

class Finalized(rl.Tensor):
    def __del__(self):
        with _C.DisableTorchFunctionSubclass(): self.view(2, 2).sum()

class Watched(rl.Tensor): pass

seen = []
def drop(reference): rl.ones(4).view(2, 2)

class Follow(rl.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = x
        return (x.detach() * 1).requires_grad_()
    @staticmethod
    def backward(ctx, g): return g

def packed(t):
    u = rl.ones(4, requires_grad=True)
    with rl.autograd.graph.saved_tensors_hooks(lambda x, t=t: (x, t), lambda p: p[0]):
        return u.exp()

def chain():
    t = rl.ones(4)
    for _ in range({length}):
        {step}
    del t
    u = None
    gc.collect()

before = _C._live_tensors(), _C._live_nodes()
threading.stack_size(1 << 20)
threads = [threading.Thread(target=chain) for _ in range({threads})]
for thread in threads: thread.start()
for thread in threads: thread.join()
seen.clear()
gc.collect()
after = _C._live_tensors(), _C._live_nodes()
assert after[0] <= before[0] + 8, (before, after)
print("freed")
"""


def free(chain, length, threads):
    program = PROGRAM.replace("{length}", str(length)).replace("{step}", CHAINS[chain])
    program = program.replace("{threads}", str(threads))
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0 and "freed" in run.stdout, run.stderr[-2000:] or run.returncode


@pytest.mark.parametrize("chain", CHAINS)
def test_a_long_chain_is_freed(chain):
    free(chain, LENGTH, 1)


@pytest.mark.parametrize("chain", ["attributes", "hooks", "slots", "functions", "graph"])
def test_threads_free_long_chains_at_the_same_time(chain):
    free(chain, LENGTH // 4, 4)


class Slotted(rushlight.Tensor):
    __slots__ = ("next",)


class Plain(rushlight.Tensor):
    pass


@pytest.mark.parametrize("kind", [rushlight.Tensor, Plain, Slotted, rushlight.nn.Parameter])
@pytest.mark.parametrize("length", [1, 31, 32, 33, 34, 65, 500])
@pytest.mark.parametrize("branches", [1, 3])
def test_all_of_a_chain_is_gone_when_its_end_is(kind, length, branches):
    """At once, however deep it is, and each object's callbacks have run once."""
    dead, references, collected = [], [], gc.isenabled()
    gc.disable()
    try:
        before, t = _C._live_tensors(), None
        for i in range(length):
            u = kind(rushlight.ones(2)) if kind is not rushlight.Tensor else rushlight.ones(2)
            u.next = [t, *(rushlight.ones(1) for _ in range(branches - 1))]
            references.append(weakref.ref(u, lambda _, i=i: dead.append(i)))
            t = u
        del u, t
        assert _C._live_tensors() == before
        assert sorted(dead) == list(range(length)) and not any(r() for r in references)
    finally:
        if collected:
            gc.enable()


def test_what_finalizers_make_of_a_dying_chain_lives():
    """Deep in a chain an object brings itself back, and another keeps a view of itself."""
    kept = []

    class Reviving(rushlight.Tensor):
        def __del__(self):
            if self.place == 10:
                kept.append(self)
            elif self.place == 50:
                with _C.DisableTorchFunctionSubclass():
                    kept.append(self.view(2, 2))

    t = None
    for i in range(100):
        u = Reviving(rushlight.full((4,), float(i)))
        u.place, u.next = i, t
        t = u
    del u, t
    view, back = kept
    assert back.tolist() == [10.0] * 4 and back.place == 10 and back.next.place == 9
    assert view.tolist() == [[50.0] * 2] * 2 and view._base.tolist() == [50.0] * 4
    kept.clear()
