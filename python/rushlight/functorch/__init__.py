"""The transforms of functions under the name of the package in which they began: `functorch`.

After `rushlight.as_torch()`, `import functorch` gives this module.
"""

import functools

from rushlight import func as _func
from rushlight._functorch.batch_norm_replacement import replace_all_batch_norm_modules_
from rushlight._functorch.make_functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)
from rushlight._ignored import warn_program as _warn_program
from rushlight.fx.experimental.proxy_tensor import make_fx

TYPE_CHECKING = False


def _older(name, newer):
    function = getattr(_func, name)

    @functools.wraps(function)
    def older(*args, **kwargs):
        _warn_program(
            f"functorch.{name} is an older name. Please use `torch.{newer}` instead", FutureWarning
        )
        return function(*args, **kwargs)

    return older


if TYPE_CHECKING:
    from rushlight.func import (
        functionalize as functionalize,
        grad as grad,
        grad_and_value as grad_and_value,
        hessian as hessian,
        jacfwd as jacfwd,
        jacrev as jacrev,
        jvp as jvp,
        vjp as vjp,
        vmap as vmap,
    )
else:
    functionalize = _older("functionalize", "func.functionalize")
    grad = _older("grad", "func.grad")
    grad_and_value = _older("grad_and_value", "func.grad_and_value")
    hessian = _older("hessian", "func.hessian")
    jacfwd = _older("jacfwd", "func.jacfwd")
    jacrev = _older("jacrev", "func.jacrev")
    jvp = _older("jvp", "func.jvp")
    vjp = _older("vjp", "func.vjp")
    vmap = _older("vmap", "vmap")

__version__ = "2.13.0"

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble",
    "functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
    "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "make_fx",
    "replace_all_batch_norm_modules_", "vjp", "vmap",
]  # fmt: skip
