"""What functorch offered on trial: `replace_all_batch_norm_modules_`, `functionalize`, `jvp` ..."""

from rushlight._functorch.batch_norm_replacement import replace_all_batch_norm_modules_
from rushlight.func import functionalize, grad_and_value, hessian, jacfwd, jvp, vmap
from rushlight.func._vmap import chunk_vmap

__all__ = [
    "chunk_vmap", "functionalize", "grad_and_value", "hessian", "jacfwd", "jvp",
    "replace_all_batch_norm_modules_", "vmap",
]  # fmt: skip
