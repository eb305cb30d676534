"""Every argument of the functions that are written in Python does something: with another value
than its default something changes, or it raises an error or a warning. What does not is listed with
its reason, and the lists are no longer than they must be.
"""

import gc
import importlib
import inspect
import types
import warnings

import pytest
from test_arguments import some_has_effect, tensors
from test_arguments_of_functions import AS_TORCH, seen_of

import rushlight as rl

ONE_WAY = "chooses among ways to compute the same"
CHECKED = "they are always checked"

NO_EFFECT = {
    "lobpcg": {"method": ONE_WAY},
    "segment_reduce": {"unsafe": CHECKED},
    **{f"sparse_{kind}_tensor": {"check_invariants": CHECKED}
       for kind in ("bsc", "bsr", "compressed", "coo", "csc", "csr")},
    "unique": {"sorted": AS_TORCH},
    **{f"nn.functional.{kind}_pool{d}d_with_indices": {"return_indices": AS_TORCH}
       for kind in ("max", "adaptive_max") for d in (1, 2, 3)},
    **{f"nn.functional.fractional_max_pool{d}d_with_indices": {"return_indices": AS_TORCH}
       for d in (2, 3)},
    "nn.functional.linear_cross_entropy": {"options": ONE_WAY},
    "layer_norm": {"cudnn_enable": ONE_WAY}, "group_norm": {"cudnn_enabled": ONE_WAY},
    **{f"nn.utils.{name}": {"foreach": ONE_WAY} for name in (
        "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm")},
}  # fmt: skip
WITHOUT_GRADIENT = {"lobpcg"}  # which takes another way for matrices that need one

NAMESPACES = (
    "", "nn.functional", "linalg", "fft", "signal.windows", "nn.utils", "nn.init",
)  # fmt: skip
# They change settings of the process, run for long, or need files, models, functions or quantized
# tensors, as test_quantized_layers.py does.
ELSEWHERE = {
    "": "cond compile vmap from_file get_device_module is_autocast_enabled load save "
    "set_printoptions use_deterministic_algorithms fused_moving_avg_obs_fake_quant "
    "slice_inverse quantized_max_pool1d quantized_max_pool2d".split(),
    "nn.utils": "fuse_conv_bn_eval fuse_conv_bn_weights remove_spectral_norm remove_weight_norm "
    "spectral_norm weight_norm".split(),
    "nn.functional": ["multi_head_attention_forward"],  # by nn.MultiheadAttention
}

SIGNAL, IMAGE = "T.randn(2, 4, 13)", "T.randn(2, 4, 9, 8)"
VOLUME, ROWS = "T.randn(2, 4, 6, 7, 5)", "T.randn(3, 5)"
LABELS = "T.tensor([1, 0, 4])"
SIGNS = "T.tensor([1.0, -1.0, 1.0])"
POOLED = {1: SIGNAL, 2: IMAGE, 3: VOLUME}

# What each is called with, beside the argument that is looked at: one call, or several.
CALLS = {
    **{f"nn.functional.adaptive_max_pool{d}d{end}": f"{x}, 3"
       for d, x in POOLED.items() for end in ("", "_with_indices")},
    **{f"nn.functional.max_pool{d}d{end}": f"{x}, 3"
       for d, x in POOLED.items() for end in ("", "_with_indices")},
    **{f"nn.functional.lp_pool{d}d": f"{x}, 2.0, 3" for d, x in POOLED.items()},
    **{f"nn.functional.dropout{d}d": x for d, x in POOLED.items()},
    **{f"nn.functional.fractional_max_pool{d}d{end}": [f"{x}, 2, output_size=3", f"{x}, 2"]
       for d, x in POOLED.items() if d > 1 for end in ("", "_with_indices")},
    **{f"nn.functional.max_unpool{d}d": f"*T.nn.functional.max_pool{d}d(T.randn(2, 4{', 6' * d}), "
       "2, return_indices=True), 2" for d in POOLED},
    **{f"fft.{name}": ["T.randn(4, 6)", "T.randn(4, 6) + 1j * T.randn(4, 6)"]
       for name in "fft fft2 fftn hfft hfft2 hfftn ifft ifft2 ifftn ihfft ihfft2 ihfftn irfft "
       "irfft2 irfftn rfft rfft2 rfftn fftshift ifftshift".split()},
    "fft.fftfreq": "5", "fft.rfftfreq": "5",
    "slice_copy": ["T.randn(4, 4), 0, 1, 3", "T.randn(4, 4)"], "detach_copy": "T.randn(3)",
    "view_as_real_copy": "T.randn(3) * 1j", "view_as_complex_copy": "T.randn(3, 2)",
    **{f"{part}_copy": "T.eye(3).to_sparse()" for part in ("indices", "values")},
    **{f"{part}_indices_copy": "T.eye(3).to_sparse_csr()" for part in ("crow", "col")},
    **{f"{part}_indices_copy": "T.eye(3).to_sparse_csc()" for part in ("ccol", "row")},
    "batch_norm_elemt": "T.randn(2, 3), None, None, T.zeros(3), T.ones(3), 0.0",
    "split_copy": "T.randn(4, 4), 2", "split_with_sizes_copy": "T.randn(4, 4), [1, 3]",
    "unbind_copy": "T.randn(3, 4)",
    "native_batch_norm": [
        "T.randn(4, 3), T.ones(3), T.ones(3), T.zeros(3), T.ones(3), True, 0.1, 1e-5"
    ],
    **{f"signal.windows.{name}": "7" for name in "bartlett blackman cosine exponential gaussian "
       "hamming hann kaiser nuttall".split()},
    "signal.windows.exponential": ["7", "7, sym=False"],
    "signal.windows.general_cosine": "7, a=[0.5, 0.3, 0.2]",
    "signal.windows.general_hamming": "7",
    **{f"{name}_window": "7" for name in "bartlett blackman hamming hann kaiser".split()},
    **{f"nn.init.{name}": "T.empty(6, 4)" for name in "kaiming_normal_ kaiming_uniform_ normal_ "
       "orthogonal_ trunc_normal_ uniform_ xavier_normal_ xavier_uniform_".split()},
    "nn.init.sparse_": "T.empty(6, 4), 0.3", "nn.init.dirac_": "T.empty(4, 2, 3)",
    "nn.init.calculate_gain": "'leaky_relu'",
    **{f"nn.utils.{name}": ["[with_grad(T)], 0.5", "[with_grad(T, float('nan'))], 0.5"]
       for name in ("clip_grad_norm", "clip_grad_norm_", "clip_grad_value_")},
    "nn.utils.clip_grads_with_norm_": "[with_grad(T)], 0.5, T.tensor(2.0)",
    "nn.utils.get_total_norm": [
        "[with_grad(T).grad, with_grad(T).grad * 2]", "[with_grad(T, float('nan')).grad]"],
    "linalg.cond": ROWS, "linalg.diagonal": "T.randn(2, 4, 4)",
    "linalg.lstsq": "T.randn(4, 3), T.randn(4, 2)", "linalg.matrix_norm": "T.randn(2, 3, 3)",
    "linalg.matrix_rank": ["T.diag(T.tensor([1.0, 0.5, 0.1, 0.0]))",
                           "T.tensor([[0.0, 1.0], [0.0, 0.0]])"],
    "linalg.norm": "T.randn(3, 3)",
    "linalg.pinv": ["T.diag(T.tensor([1.0, 0.5, 0.1, 0.0]))", "T.tensor([[1.0, 0.5], [0.1, 0.3]])"],
    "linalg.tensorinv": "T.randn(4, 6, 8, 3)", "linalg.tensorsolve":
    "T.randn(2, 3, 6), T.randn(2, 3)",
    "linalg.vander": "T.randn(3)", "linalg.vecdot": "T.randn(3, 3), T.randn(3, 3)",
    "nn.functional.affine_grid": "T.randn(2, 2, 3), (2, 3, 4, 5)",
    "layer_norm": f"{ROWS}, [5]", "group_norm": f"{IMAGE}, 2",
    "nn.functional.alpha_dropout": [ROWS, f"{ROWS}, training=True"],
    "nn.functional.feature_alpha_dropout": [IMAGE, f"{IMAGE}, training=True"],
    **{f"{place}conv_tbc": "T.randn(5, 2, 3), T.randn(2, 3, 4), T.randn(4)"
       for place in ("", "nn.functional.")},
    **{f"{place}cosine_embedding_loss": f"{ROWS}, {ROWS}, {SIGNS}"
       for place in ("", "nn.functional.")},
    **{f"{place}cosine_similarity": f"{ROWS}, {ROWS} * 1e-3"
       for place in ("", "nn.functional.")},
    **{f"{place}pairwise_distance": f"{ROWS}, {ROWS}" for place in ("", "nn.functional.")},
    **{f"{place}ctc_loss": ["T.randn(8, 2, 5).log_softmax(2), T.tensor([[1, 2], [3, 3]]), "
                            "T.tensor([8, 8]), T.tensor([2, 2])",
                            "T.randn(2, 2, 5).log_softmax(2), T.tensor([[1, 1], [3, 3]]), "
                            "T.tensor([2, 2]), T.tensor([2, 2])"]
       for place in ("", "nn.functional.")},
    "embedding_bag": [f"{ROWS}, T.tensor([0, 2, 2]), T.tensor([0, 1])",
                      f"{ROWS}, T.tensor([0, 2, 2]), T.tensor([0, 1]), padding_idx=2"],
    "nn.functional.embedding_bag": [
        f"T.tensor([0, 2, 2]), {ROWS}, T.tensor([0, 1])",
        f"T.tensor([0, 2, 2]), {ROWS}, T.tensor([0, 1]), max_norm=0.5",
        f"T.tensor([0, 2, 2]), {ROWS}, T.tensor([0, 1]), mode='sum'"],
    **{f"{place}hinge_embedding_loss": f"T.randn(3), {SIGNS}" for place in ("", "nn.functional.")},
    **{f"{place}margin_ranking_loss": f"T.randn(3), T.randn(3), {SIGNS}"
       for place in ("", "nn.functional.")},
    **{f"{place}triplet_margin_loss": f"{ROWS}, {ROWS}, {ROWS}"
       for place in ("", "nn.functional.")},
    **{f"{place}{name}": [ROWS, f"{ROWS}, training=True"] for name in ("rrelu", "rrelu_")
       for place in ("", "nn.functional.")},
    "binary_cross_entropy_with_logits": f"{ROWS}, T.rand(3, 5)", "kl_div": f"{ROWS}, T.rand(3, 5)",
    "nn.functional.gaussian_nll_loss": [f"{ROWS}, {ROWS}, T.rand(3, 5)",
                                        f"{ROWS}, {ROWS}, T.rand(3, 5) * 1e-7"],
    "nn.functional.grid_sample": f"{IMAGE}, T.rand(2, 3, 3, 2) * 3 - 1.5",
    "nn.functional.grouped_mm": "T.randn(2, 3, 4), T.randn(2, 4, 5)",
    "nn.functional.gumbel_softmax": ROWS, "nn.functional.instance_norm": [
        IMAGE, f"{IMAGE}, T.zeros(4), T.ones(4)"],
    **{f"nn.functional.{name}": f"{ROWS}, {ROWS}"
       for name in ("huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss", "poisson_nll_loss")},
    "nn.functional.poisson_nll_loss": [f"{ROWS}, T.rand(3, 5) * 4",
                                       "T.rand(3, 5) * 1e-8, T.rand(3, 5) * 4, log_input=False"],
    "nn.functional.interpolate": [f"{IMAGE}, scale_factor=2.3", f"{IMAGE}, scale_factor=0.6, "
                                  "mode='bilinear'", IMAGE],
    "nn.functional.upsample": [f"{IMAGE}, scale_factor=2", f"{IMAGE}, 5, mode='bilinear'", IMAGE],
    "nn.functional.upsample_bilinear": [f"{IMAGE}, scale_factor=2", IMAGE],
    "nn.functional.upsample_nearest": [f"{IMAGE}, scale_factor=2", IMAGE],
    "nn.functional.linear_cross_entropy": f"{ROWS}, T.randn(5, 5), {LABELS}",
    "nn.functional.local_response_norm": f"{IMAGE}, 2",
    **{f"nn.functional.{name}": ROWS for name in ("softmax", "log_softmax", "softmin")},
    "nn.functional.normalize": [ROWS, f"{ROWS} * 1e-13"],
    **{f"nn.functional.{name}": f"{ROWS}, {LABELS}" for name in ("multi_margin_loss",)},
    "nn.functional.multilabel_margin_loss":
    f"{ROWS}, T.tensor([[1, -1, 0, 0, 0], [2, 3, -1, 0, 0], [0, -1, 1, 1, 1]])",
    "nn.functional.multilabel_soft_margin_loss": f"{ROWS}, T.rand(3, 5).round()",
    "nn.functional.soft_margin_loss": f"T.randn(3), {SIGNS}",
    "nn.functional.triplet_margin_with_distance_loss": f"{ROWS}, {ROWS}, {ROWS}",
    "chain_matmul": "T.randn(2, 3), T.randn(3, 4)", "frobenius_norm": f"{ROWS}, 1",
    "nuclear_norm": ROWS,
    "gradient": "T.randn(4, 4)", "hash_tensor": "T.arange(6).reshape(2, 3)",
    **{f"{name}_cell": "T.randn(2, 3), " + state + ", T.randn(G * 4, 3), T.randn(G * 4, 4)".replace(
        "G", str(gates)) for name, state, gates in (
            ("gru", "T.randn(2, 4)", 3), ("lstm", "(T.randn(2, 4), T.randn(2, 4))", 4),
            ("rnn_relu", "T.randn(2, 4)", 1), ("rnn_tanh", "T.randn(2, 4)", 1))},
    "histogram": "T.randn(9), 4", "histogramdd": "T.randn(9, 2), [2, 3]",
    "istft": ["T.stft(T.ones(400), 64, window=T.hann_window(64), return_complex=True), 64, "
              "window=T.hann_window(64)"],
    "stft": ["T.randn(400), 64, window=T.hann_window(64), return_complex=True"],
    "sym_constrain_range": ["3"],
    "sym_constrain_range_for_size": ["3"],
    "lobpcg": "T.diag(T.arange(1.0, 13.0)) + 0.1 * T.ones(12, 12)",
    "lu": "T.tensor([[1.0, 2.0], [3.0, 4.0]])", "meshgrid": "T.randn(2), T.randn(3)",
    "nonzero": "T.tensor([[1, 0], [2, 3]])",
    "nonzero_static": "T.tensor([[1, 0], [2, 3]]), size=5", "norm": "T.randn(3, 3)",
    "norm_except_dim": ROWS, "pca_lowrank": "T.randn(9, 7)", "svd_lowrank": "T.randn(9, 7)",
    "range": "1, 5", "saddmm": "T.eye(2).to_sparse(), T.eye(2).to_sparse(), T.randn(2, 2)",
    "sspaddmm": "T.eye(2).to_sparse(), T.eye(2).to_sparse(), T.randn(2, 2)",
    "scalar_tensor": "2.5", "segment_reduce": [
        "T.randn(5), 'sum', lengths=T.tensor([2, 3])", "T.randn(5), 'sum'"],
    "sparse_coo_tensor": "[[0, 1], [1, 0]], [1.0, 2.0], (2, 2)",
    "sparse_csr_tensor": "[0, 1, 2], [0, 1], [1.0, 2.0], (2, 2)",
    "sparse_csc_tensor": "[0, 1, 2], [0, 1], [1.0, 2.0], (2, 2)",
    "sparse_bsr_tensor": "[0, 1, 2], [0, 1], [[[1.0]], [[2.0]]], (2, 2)",
    "sparse_bsc_tensor": "[0, 1, 2], [0, 1], [[[1.0]], [[2.0]]], (2, 2)",
    "sparse_compressed_tensor":
    "[0, 1, 2], [0, 1], [1.0, 2.0], (2, 2), layout=T.sparse_csr",
    "split": "T.randn(6, 4), 2", "unsafe_split_with_sizes": "T.randn(6, 4), [2, 2, 2]",
    "spmm": "T.eye(2).to_sparse(), T.randn(2, 2)",
    "tensordot": "T.randn(3, 3, 3), T.randn(3, 3, 3)",
    "unique": "T.tensor([[3, 1], [3, 1], [2, 2]])",
    "unique_consecutive": "T.tensor([[3, 1], [3, 1], [2, 2]])",
}  # fmt: skip

# Other values of an argument than those by the type of its default.
NAMED = {
    "dtype": [rl.float64, rl.int32], "device": ["meta"], "layout": [rl.sparse_coo, rl.strided],
    "out": [lambda: rl.empty(0)], "generator": [lambda: rl.Generator().manual_seed(7)],
    "reduction": ["sum", "none"], "norm": ["ortho", "forward"], "as_tuple": [True],
    "mode": ["bilinear", "sum", "fan_out", "max", "reflect", "nearest-exact", "complete"],
    "padding_mode": ["border"], "pad_mode": ["constant"], "indexing": ["xy"],
    "nonlinearity": ["relu", "linear"], "ord": [1, 2, float("inf"), "nuc"], "p": [1, 3.0, 0.9],
    "density": [True], "window": [lambda: rl.ones(64)], "driver": ["gels", "gelsy"],
    "method": ["basic"], "dims": [1, ([0], [1]), 3], "distance_function": [lambda a, b: a[:, 0]],
    "swap": [True], "weight": [lambda: rl.rand(5), lambda: rl.rand(3, 5)],
    "size": [(3, 3), 5, (7, 3)], "scale_factor": [3, 1.5], "linear_bias": [lambda: rl.randn(5)],
    "pos_weight": [lambda: rl.rand(5) * 3], "spacing": [2.0], "range": [(-1.0, 1.0)],
    "spline": [1], "bias": [lambda: rl.randn(4)], "offs": [lambda: rl.tensor([1, 3]).int()],
    "B": [lambda: rl.diag(rl.arange(2.0, 14.0))], "X": [lambda: rl.randn(12, 2)],
    "iK": [lambda: rl.diag(rl.arange(12.0, 0.0, -1.0))],
    "tracker": [lambda worker: worker.ivars.update(n=1)],
    "M": [lambda: rl.randn(9, 7)], "rcond": [0.3], "atol": [0.3], "rtol": [0.6], "tol": [0.3, 0.9],
    "hermitian": [True], "length": [100], "offsets": [lambda: rl.tensor([0, 2, 5])],
    "options": ["something"],
}  # fmt: skip
CALLED = {"distance_function", "tracker"}  # functions as values


def with_grad(T, scale=1.0):
    x = T.randn(4, requires_grad=True)
    x.grad = T.arange(4.0) * scale
    return x


def others(name, default):
    """Values that an argument may have in place of its default."""
    if name in NAMED:
        values = NAMED[name]
        return [v() if isinstance(v, types.FunctionType) and name not in CALLED else v
                for v in values]  # fmt: skip
    if isinstance(default, bool):
        return [not default]
    if isinstance(default, (int, float)):
        return [default + 1, default * 0.5 + 0.2, 2, 3, 0]
    return [True, 2, 1, 0.5, 0, (1,), (0, 1), (2, 2), [0.3, 0.7], rl.rand(3), rl.rand(5), "max"]


def look(value):
    if isinstance(value, (tuple, list)):
        return [look(part) for part in value]
    return seen_of(value)


def run(function, text, changed, recorded=True):
    """What a call gives, what it leaves of its arguments, and their gradients."""
    rl.manual_seed(0)
    args, named = eval(
        f"call({text})", {"T": rl, "with_grad": with_grad, "call": lambda *a, **n: (a, n)}
    )
    leaves = [t for t in tensors(args) if t.is_floating_point() and t.is_leaf and recorded]
    for t in leaves:
        t.requires_grad_()
    args = [t * 1 if any(t is leaf for leaf in leaves) and t.grad is None else t for t in args]
    result = function(*args, **{**named, **changed})
    out = changed.get("out")
    seen = [look(result), [look(a) for a in args], rl.get_rng_state().tolist(), result is out]
    total = [t.sum() for t in tensors(result) if t.requires_grad and t.device.type != "meta"]
    if total:
        sum(t.to_dense().real if t.is_complex() else t.to_dense() for t in total).backward()
    return [*seen, [None if t.grad is None else look(t.grad.to_dense()) for t in leaves]]


def has_effect(run, usual, name, default):
    return some_has_effect(lambda value: run({name: value}), usual, others(name, default))


def functions():
    """The functions that are written in Python and have optional arguments, by dotted name."""
    for space in NAMESPACES:
        module = importlib.import_module(f"rushlight.{space}".rstrip("."))
        for name in getattr(module, "__all__", None) or dir(module):
            found = getattr(module, name, None)
            if name.startswith("_") or name in ELSEWHERE.get(space, ()):
                continue
            if isinstance(found, types.FunctionType) and optional(found):
                yield f"{space}.{name}".lstrip("."), found


def optional(function):
    parameters = inspect.signature(function).parameters.values()
    return [p for p in parameters if p.default is not p.empty]


FUNCTIONS = dict(functions())


@pytest.fixture(autouse=True)
def always():
    rl.set_warn_always(True)
    yield
    rl.set_warn_always(False)
    gc.collect()


def test_each_function_is_called():
    assert set(CALLS) == set(FUNCTIONS)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name in CALLS])
def test_arguments(name):
    texts = CALLS[name] if isinstance(CALLS[name], list) else [CALLS[name]]
    left = optional(FUNCTIONS[name])
    for text in texts:

        def once(changed, text=text):
            return run(FUNCTIONS[name], text, changed, name not in WITHOUT_GRADIENT)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                usual = once({})
            except (TypeError, ValueError, RuntimeError):
                usual = "refused"  # a call that needs the argument
        left = [p for p in left if not has_effect(once, usual, p.name, p.default)]
    assert {p.name for p in left} == set(NO_EFFECT.get(name, {}))
