"""Derivatives of functions of tensors, and functions of a module's parameters.

The transforms run the function as it is and ask autograd, so they nest; `vmap` computes each
operation for all examples at once.
"""

from rushlight import _absent
from rushlight._functorch.batch_norm_replacement import replace_all_batch_norm_modules_
from rushlight._set_module import set_module
from rushlight.func._derivatives import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
)
from rushlight.func._functionalize import functionalize
from rushlight.func._rearrange import rearrange
from rushlight.func._vmap import vmap

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev",
    "jvp", "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state",
    "vjp", "vmap",
]  # fmt: skip

set_module(__name__, *(globals()[name] for name in __all__))

globals().update(
    _absent.refused(
        {"debug_unwrap": "print the tensor: it shows its elements, or the examples of a batch"}
    )
)
