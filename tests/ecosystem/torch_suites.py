"""PyTorch's own tests: what it expects of itself, by area.

They are of an older release, whose source Debian has; those that torch passes today count.
`torch_helpers.py` puts rushlight in torch's place there.
"""

from .libraries import LIBRARIES, Library

_ARCHIVE = "http://deb.debian.org/debian/pool/main/p/pytorch/pytorch_2.6.0%2Bdfsg.orig.tar.xz"


# Left out: a test that leaves hooks behind which outlive the backward pass they were entered in,
# so that all after it fail, and `torch._refs`, operations written a second time for compilers.
_LEFT_OUT = (
    "--deselect",
    "test_autograd.py::TestAutograd::test_saved_tensor_hooks_extra_enter_during_bw_no_leak",
    "-k",
    "not _refs_",
)


def _suite(area, *files, sample=400, plugins=()):
    return Library(
        f"pytorch-{area}", "2.6.0", files, archive=_ARCHIVE, folder="test",
        plugins=("torch_helpers",), shared_plugins=("older_names", *plugins), install=False,
        sample=sample,
        arguments=("--noconftest", *_LEFT_OUT),
        environment=(("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cpu"),),
    )  # fmt: skip


SUITES = [
    _suite("autograd", "test_autograd.py", "test_stateless.py"),
    _suite("data", "test_dataloader.py", "test_serialization.py", sample=200),
    _suite("derivatives", "test_ops_gradients.py", "test_ops_fwd_gradients.py"),
    _suite("distributed", "distributed/test_c10d_gloo.py", "distributed/checkpoint",
           "distributed/optim", "distributed/algorithms/test_join.py",
           "distributed/_tensor/test_dtensor.py", "distributed/fsdp/test_wrap.py",
           sample=150, plugins=("several_processes",)),
    _suite("distributions", "distributions/test_distributions.py",
           "distributions/test_constraints.py", "distributions/test_utils.py"),
    _suite("layouts", "test_sparse.py", "test_sparse_csr.py", "test_masked.py",
           "test_maskedtensor.py"),
    _suite("modules", "test_modules.py", "test_native_mha.py", "test_foreach.py",
           "test_segment_reductions.py", "test_testing.py", "test_flop_counter.py",
           "test_autocast.py"),
    _suite("functorch", "functorch/test_eager_transforms.py", "functorch/test_vmap.py",
           "autograd"),
    _suite("fx", "test_fx.py", "fx", "export/test_unflatten.py"),
    _suite("nn", "test_nn.py", "nn"),
    _suite("operators", "test_binary_ufuncs.py", "test_unary_ufuncs.py", "test_reductions.py",
           "test_linalg.py", "test_spectral_ops.py"),
    _suite("optim", "test_optim.py"),
    _suite("quantization", "quantization/eager", "ao/sparsity"),
    _suite("overrides", "test_overrides.py", "test_subclass.py", "test_weak.py",
           "test_numpy_interop.py", "test_dlpack.py"),
    _suite("tensors", "test_torch.py", "test_indexing.py", "test_view_ops.py",
           "test_shape_ops.py", "test_scatter_gather_ops.py", "test_sort_and_select.py",
           "test_tensor_creation_ops.py", "test_type_promotion.py"),
]  # fmt: skip

ALL = sorted([*LIBRARIES, *SUITES], key=lambda library: library.name.lower())
