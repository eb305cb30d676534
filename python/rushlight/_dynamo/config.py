"""The graph compiler's options, which programs set: there is no compiler; none has an effect."""

import sys

from rushlight._settings_module import patch_of

accumulated_cache_size_limit = 256
accumulated_recompile_limit = 256
allow_rnn = False
allow_unspec_int_on_nn_module = False
assume_static_by_default = True
automatic_dynamic_shapes = True
cache_size_limit = 8
capture_dynamic_output_shape_ops = False
capture_func_transforms = True
capture_scalar_outputs = False
compiled_autograd = False
disable = False
dynamic_shapes = True
error_on_recompile = False
force_parameter_static_shapes = True
guard_nn_modules = True
inline_inbuilt_nn_modules = True
log_level = None
numpy_default_float = "float64"
optimize_ddp = True
optimize_ddp_lazy_compile = False
recompile_limit = 8
skip_fwd_side_effects_in_bwd_under_checkpoint = False
specialize_float = False
specialize_int = False
suppress_errors = False
trace_numpy = True
verbose = False

patch = patch_of(sys.modules[__name__])
