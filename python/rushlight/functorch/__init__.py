"""The transforms of functions under the name of the package in which they began: `functorch`.

After `rushlight.as_torch()`, `import functorch` gives this module.
"""

from rushlight._functorch.batch_norm_replacement import replace_all_batch_norm_modules_
from rushlight._functorch.make_functional import (
    FunctionalModule,
    FunctionalModuleWithBuffers,
    combine_state_for_ensemble,
    make_functional,
    make_functional_with_buffers,
)
from rushlight.func import (
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)
from rushlight.fx.experimental.proxy_tensor import make_fx

__version__ = "2.13.0"

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble",
    "functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
    "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "make_fx",
    "replace_all_batch_norm_modules_", "vjp", "vmap",
]  # fmt: skip
