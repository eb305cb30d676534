"""Chains of objects that own each other, freed without a deep stack.

In a process of its own, with a thread of a small stack: a deep recursion crashes.
"""

import subprocess
import sys

import pytest

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
    "parameters": "u = rl.nn.Parameter(rl.ones(4)); u.next = t; t = u",
    "data": "u = rl.ones(4); u.data = t; t = u",
    "hooks of saved tensors": "t = packed(t)",
    "numpy attributes": "t = rl.from_numpy(np.asarray(Owner(t)))",
}

PROGRAM = """
import gc, threading
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
thread = threading.Thread(target=chain)
thread.start()
thread.join()
gc.collect()
after = _C._live_tensors(), _C._live_nodes()
assert after[0] <= before[0] + 8, (before, after)
print("freed")
"""


@pytest.mark.parametrize("chain", CHAINS)
def test_a_long_chain_is_freed(chain):
    program = PROGRAM.replace("{length}", str(LENGTH)).replace("{step}", CHAINS[chain])
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0 and "freed" in run.stdout, run.stderr[-2000:] or run.returncode
