"""Options of a compiler that is not here: none has an effect."""

import sys
from types import SimpleNamespace

from rushlight._settings_module import patch_of

conv_1x1_as_mm = False
coordinate_descent_check_all_directions = False
coordinate_descent_tuning = False
cpp_wrapper = False
debug = False
epilogue_fusion = True
force_fuse_int_mm_with_mul = False
freezing = False
fx_graph_cache = True
max_autotune = False
max_autotune_gemm_backends = "ATEN,TRITON,CPP"
shape_padding = True
use_mixed_mm = False
triton = SimpleNamespace(
    cudagraphs=False, cudagraph_trees=True, cudagraph_support_input_mutation=True,
    unique_kernel_names=True,
)  # fmt: skip
cpp = SimpleNamespace(threads=-1, simdlen=None)

patch = patch_of(sys.modules[__name__])
