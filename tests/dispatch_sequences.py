"""What a dispatch mode sees of a call, as torch 2.13 shows it: names of `aten` operations with
their overloads, `default` left out.

`x` is 2 by 4, `b` the same in a batch, `z` complex, `s` symmetric.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

SEQUENCES = {
    "x.cpu()": "",
    "x.conj()": "",
    "+x": "",
    "x.to(x)": "",
    "x.to(t.float32)": "",
    "x.int()": "_to_copy",
    "x.double()": "_to_copy",
    "x.type_as(x)": "",
    "x.float()": "",
    "x.contiguous()": "",
    "x.T.contiguous()": "permute clone",
    "x.real": "",
    "z.real": "view_as_real select.int",
    "z.imag": "view_as_real select.int",
    "z.H": "transpose.int _conj",
    "z.mH": "transpose.int _conj",
    "x.H": "transpose.int",
    "x.mT": "transpose.int",
    "x.T": "permute",
    "x.data": "detach",
    "x[:]": "slice.Tensor",
    "x[...]": "alias",
    "x[0]": "select.int",
    "x[:, 1:]": "slice.Tensor",
    "x[None]": "unsqueeze",
    "x[[0, 1]]": "lift_fresh index.Tensor",
    "x[x > 0]": "gt.Scalar index.Tensor",
    "x.reshape(8)": "view",
    "x.T.reshape(8)": "permute clone _unsafe_view",
    "x.flatten()": "view",
    "x.T.ravel()": "permute clone view",
    "x.unflatten(1, (2, 2))": "view",
    "x.view_as(x)": "view",
    "x.expand_as(x)": "expand",
    "x.broadcast_to(3, 2, 4)": "expand",
    "t.broadcast_tensors(x, x)": "",
    "t.broadcast_tensors(x, x[0])": "select.int expand",
    "x.narrow(1, 0, 2)": "slice.Tensor",
    "x.movedim(0, 1)": "permute",
    "x.swapaxes(0, 1)": "transpose.int",
    "x.tile(2, 1)": "repeat",
    "x.chunk(2, 1)": "split.Tensor",
    "x.split([1, 3], 1)": "split_with_sizes",
    "x.tensor_split(2, 1)": "slice.Tensor slice.Tensor",
    "t.hsplit(x, 2)": "slice.Tensor slice.Tensor",
    "t.vsplit(x, 2)": "slice.Tensor slice.Tensor",
    "t.hstack([x, x])": "cat",
    "t.vstack([x[0], x[1]])": "select.int select.int unsqueeze unsqueeze cat",
    "t.column_stack([x, x])": "cat",
    "x.diag()": "diagonal_copy",
    "t.diagflat(x)": "view diag_embed",
    "x.fliplr()": "flip",
    "x.repeat_interleave(2, 0)": "unsqueeze expand clone view",
    "x.take_along_dim(t.zeros_like(x).long(), 1)": (
        "zeros_like _to_copy expand expand remainder.Scalar gather"
    ),
    "x.sum_to_size(1, 4)": "sum.dim_IntList",
    "t.outer(x[0], x[1])": "select.int select.int view mul.Tensor",
    "t.kron(x, x)": "_unsafe_view _unsafe_view mul.Tensor _unsafe_view",
    "x.nonzero(as_tuple=True)": "nonzero unbind.int",
    "t.argsort(x)": "sort",
    "x.msort()": "sort",
    "x.square()": "pow.Tensor_Scalar",
    "x.isfinite()": "abs ne.Scalar eq.Tensor mul.Tensor",
    "x.isclose(x)": (
        "eq.Tensor mul.Scalar abs add.Scalar sub.Tensor abs abs ne.Scalar eq.Tensor mul.Tensor "
        "le.Tensor bitwise_and_.Tensor bitwise_or_.Tensor"
    ),
    "x.diff()": "slice.Tensor slice.Tensor sub.Tensor",
    "x.quantile(0.5)": (
        "scalar_tensor view sort view mul.Scalar isnan any.dim expand masked_fill.Scalar "
        "_to_copy gather sub.Tensor ceil_ _to_copy gather lerp_.Tensor squeeze_.dim"
    ),
    "x.nanmean()": "detach ne.Tensor logical_not_ sum.dim_IntList nansum div.Tensor",
    "x.cov()": (
        "scalar_tensor sum.dim_IntList div.Tensor scalar_tensor le.Scalar new_ones equal "
        "unsqueeze sub.Tensor t mm div.Tensor squeeze"
    ),
    "t.cdist(x, x)": "_cdist_forward",
    "1 - x": "rsub.Scalar",
    "2 / x": "reciprocal mul.Tensor",
    "x // 2": "floor_divide",
    "2**x": "pow.Scalar",
    "t.max(x, x)": "maximum",
    "x.clamp(0, 1)": "clamp",
    't.einsum("ij,kj->ik", x, x)': (
        "unsqueeze permute unsqueeze permute permute view permute view bmm view permute view"
    ),
    't.einsum("bij,bjk->bik", x[None], x.T[None])': (
        "unsqueeze permute unsqueeze unsqueeze permute unsqueeze permute permute view permute "
        "view bmm view permute view"
    ),
    "t.tensordot(x, x, 2)": "permute permute view view dot view",
    "t.inner(x, x)": "permute view permute view mm view",
    "x @ x.T": "permute mm",
    "x[0] @ x.T": "select.int permute unsqueeze mm squeeze_.dim",
    "b @ x.T": "permute view mm _unsafe_view",
    "b @ b.mT": "transpose.int expand view expand view bmm _unsafe_view",
    "F.linear(x, x)": "t mm",
    "F.linear(b, x, x[:, 0])": "select.int t view mm _unsafe_view add.Tensor",
    "F.linear(b.transpose(0, 1), x, x[:, 0])": (
        "transpose.int select.int t expand view expand view bmm _unsafe_view add.Tensor"
    ),
    "F.conv1d(b, b)": "convolution",
    "F.conv1d(b[0], b)": "select.int unsqueeze convolution squeeze.dim",
    'F.conv1d(b, b[:, :, :3], padding="same")': "slice.Tensor convolution",
    "F.conv_transpose1d(b, b.transpose(0, 1))": "transpose.int convolution",
    "F.max_pool1d(b, 2)": "unsqueeze max_pool2d_with_indices squeeze.dim squeeze.dim",
    "F.avg_pool1d(b, 2)": "unsqueeze avg_pool2d squeeze.dim",
    "F.adaptive_avg_pool2d(b, 2)": "_adaptive_avg_pool2d",
    "F.adaptive_avg_pool2d(b, 1)": "mean.dim",
    "F.adaptive_max_pool1d(b, 2)": "unsqueeze adaptive_max_pool2d squeeze.dim squeeze.dim",
    "F.interpolate(b, scale_factor=2)": "upsample_nearest1d",
    'F.interpolate(b[None], size=3, mode="bilinear")': "unsqueeze upsample_bilinear2d",
    "F.pad(x, (1, 1))": "constant_pad_nd",
    'F.pad(x, (1, 1), "reflect")': "reflection_pad1d",
    'F.pad(x, (1, 1), "circular")': (
        "new_empty slice.Tensor slice.Tensor copy_ slice.Tensor slice.Tensor copy_ slice.Tensor "
        "slice.Tensor copy_"
    ),
    "F.unfold(b[None], 1)": "unsqueeze im2col",
    "F.pixel_shuffle(t.ones(1, 4, 2, 2), 2)": "ones pixel_shuffle",
    "F.batch_norm(x, x[0], x[1], training=True)": (
        "select.int select.int empty.memory_format native_batch_norm"
    ),
    "F.group_norm(b, 1)": "native_group_norm",
    "F.layer_norm(x, (4,))": "native_layer_norm",
    "F.rms_norm(x, (4,))": "pow.Tensor_Scalar mean.dim add_.Scalar rsqrt mul.Tensor",
    "F.instance_norm(b)": "view empty.memory_format native_batch_norm view",
    "F.relu6(x)": "hardtanh",
    "F.silu(x, inplace=True)": "silu_",
    "F.elu(x, 1.0, True)": "elu_",
    "F.hardtanh(x, inplace=True)": "hardtanh_",
    "x.flip(0)": "flip",
    "F.selu(x)": "elu",
    "F.logsigmoid(x)": "log_sigmoid_forward",
    "F.prelu(x, x[0, :1])": "select.int slice.Tensor view _prelu_kernel",
    "F.dropout(x, 0.5)": "empty_like bernoulli_.float div_.Scalar mul.Tensor",
    "F.dropout(x, 0.5, False)": "",
    "F.dropout1d(b, 0.5)": "new_empty bernoulli_.float div_.Scalar mul.Tensor",
    "F.alpha_dropout(x, 0.5, True)": (
        "empty_like bernoulli_.float add.Scalar mul_.Scalar add_.Scalar mul_.Scalar mul.Tensor "
        "add_.Tensor"
    ),
    "x.softmax(1)": "_softmax",
    "F.log_softmax(x, 1)": "_log_softmax",
    "F.cross_entropy(x, t.tensor([0, 1]))": "lift_fresh _log_softmax nll_loss_forward",
    "F.cross_entropy(x, x)": "_log_softmax mul.Tensor sum neg div.Scalar",
    "F.cross_entropy(x, t.tensor([0, 1]), label_smoothing=0.1)": (
        "lift_fresh _log_softmax nll_loss_forward sum.dim_IntList neg eq.Scalar "
        "masked_fill_.Scalar bitwise_not sum sum div.Tensor mul.Scalar mul.Scalar add.Tensor"
    ),
    "F.cross_entropy(b, t.zeros(1, 4).long())": (
        "zeros _to_copy _log_softmax view view nll_loss2d_forward"
    ),
    "F.mse_loss(x, x)": "mse_loss",
    "F.l1_loss(x, x)": "sub.Tensor abs mean",
    "F.smooth_l1_loss(x, x)": "smooth_l1_loss",
    "F.huber_loss(x, x)": "huber_loss",
    'F.kl_div(x, x, reduction="batchmean")': "mul.Tensor xlogy.Tensor sub.Tensor sum div.Tensor",
    "F.soft_margin_loss(x, x)": "soft_margin_loss",
    "F.cosine_similarity(x, x)": (
        "linalg_vector_norm clone linalg_vector_norm clone scalar_tensor clamp_min_.Tensor "
        "clamp_min_.Tensor div.Tensor div.Tensor mul.Tensor sum.dim_IntList"
    ),
    "F.pairwise_distance(x, x)": "sub.Tensor add.Scalar norm.ScalarOpt_dim",
    "F.triplet_margin_loss(x, x, x)": (
        "sub.Tensor add.Scalar norm.ScalarOpt_dim sub.Tensor add.Scalar norm.ScalarOpt_dim "
        "add.Scalar sub.Tensor clamp_min mean"
    ),
    "F.one_hot(t.tensor([0, 1]))": (
        "lift_fresh aminmax _local_scalar_dense _local_scalar_dense zeros unsqueeze scatter_.value"
    ),
    "F.embedding(t.tensor([0]), x)": "lift_fresh embedding",
    "F.embedding_bag(t.tensor([[0]]), x)": (
        "lift_fresh arange.start_step view _embedding_bag_forward_only"
    ),
    "F.grid_sample(b[None], t.zeros(1, 1, 1, 2), align_corners=False)": (
        "unsqueeze zeros grid_sampler_2d"
    ),
    "F.scaled_dot_product_attention(b[None], b[None], b[None])": (
        "unsqueeze unsqueeze unsqueeze _scaled_dot_product_flash_attention_for_cpu"
    ),
    "F.scaled_dot_product_attention(b[None], b[None], b[None], is_causal=True)": (
        "unsqueeze unsqueeze unsqueeze _scaled_dot_product_flash_attention_for_cpu"
    ),
    "F.scaled_dot_product_attention(b, b, b)": (
        "mul.Scalar transpose.int mul.Scalar expand view expand view bmm _unsafe_view "
        "_safe_softmax expand view expand view bmm _unsafe_view"
    ),
    "t.fft.fft(x)": "_fft_r2c",
    "t.fft.ifft(x)": "_fft_r2c _conj",
    "t.fft.rfft(x, 6)": "constant_pad_nd _fft_r2c",
    "t.fft.irfft(x)": "_to_copy _fft_c2r",
    "t.fft.fft2(z)": "_fft_c2c",
    "t.fft.hfft(z)": "_conj clone _fft_c2r",
    "t.linalg.svd(x)": "_linalg_svd",
    "t.linalg.svdvals(x)": "_linalg_svd",
    "t.linalg.inv(s)": "linalg_inv_ex _linalg_check_errors",
    "t.linalg.solve(s, s)": "_linalg_solve_ex _linalg_check_errors",
    "t.linalg.cholesky(s)": "linalg_cholesky_ex _linalg_check_errors",
    "t.linalg.det(s)": "_linalg_det",
    "t.linalg.eigh(s)": "_linalg_eigh",
    "t.linalg.matrix_power(s, 3)": "mm mm",
    "t.linalg.pinv(s)": "linalg_pinv.atol_rtol_tensor",
    "s.logdet()": "_linalg_slogdet eq.Scalar scalar_tensor where.self",
    "t.special.entr(x)": "special_entr",
    "t.special.zeta(s, s)": "special_zeta",
    "t.special.i0e(x)": "special_i0e",
    "t.masked.sum(x, 1, mask=x > 0)": "gt.Scalar lift_fresh where.self sum.dim_IntList",
    "x.std()": "std.correction",
    "x.var(1)": "var.correction",
    "x.max(1)": "max.dim",
    "x.any(1)": "any.dim",
    "x.norm()": "linalg_vector_norm",
    "t.tensor([1])": "lift_fresh",
    "t.full((2,), 1)": "full",
    "t.arange(3)": "arange",
    "t.arange(0, 3)": "arange.start",
    "t.linspace(0, 1, 3)": "linspace",
}


def seen(library: ModuleType, dispatch_mode: type[Any], call: str) -> str:
    """The operations that a call shows to a mode of the library's own class of modes."""
    names = []

    class Log(dispatch_mode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func).removeprefix("aten.").removesuffix(".default"))
            return func(*args, **(kwargs or {}))

    x = library.arange(8.0).reshape(2, 4) / 8
    values = {
        "t": library, "F": library.nn.functional, "x": x, "b": x[None].clone(),
        "z": library.complex(x, x), "s": library.tensor([[2.0, 1.0], [1.0, 3.0]]),
    }  # fmt: skip
    with Log():
        eval(call, values)
    return " ".join(names)
