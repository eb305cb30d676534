"""Operations on "cuda" beside the same on the CPU, forward and backward: `python kernels.py GROUP`.

Prints a line for each that differs, and how many agreed.
"""

import contextlib
import copy
import functools
import io
import os
import sys

import numpy

import rushlight as torch
import rushlight.nn.functional as F
import rushlight.nn.utils.prune

agreed = 0


def compare(name, expected, got, tolerance):
    global agreed
    expected, got = expected.detach(), got.detach().cpu()
    same = expected.dtype == got.dtype and expected.shape == got.shape
    if same and expected.is_floating_point():
        same = torch.allclose(
            expected.double(), got.double(), rtol=tolerance, atol=tolerance, equal_nan=True
        )
    elif same:
        same = torch.equal(expected, got)
    if same:
        agreed += 1
    else:
        print(f"{name}: {expected} on the CPU, {got} on cuda")


def both(name, function, *inputs, tolerance=1e-4):
    """Runs it on both devices, with gradients where inputs have any."""
    outputs = []
    for device in ("cpu", "cuda"):
        own = [x.detach().clone().to(device).requires_grad_(x.is_floating_point()) for x in inputs]
        try:
            result = function(*own)
        except Exception as error:
            print(f"{name} on {device}: {type(error).__name__}: {error}")
            return
        grads = []
        if result.requires_grad:
            weights = torch.linspace(-1, 1, max(result.numel(), 1))[: result.numel()]
            weights = weights.view(result.shape).to(result.dtype).to(device)
            result.backward(weights)
            grads = [x.grad for x in own if x.grad is not None]
        outputs.append([result, *grads])
    for i, (expected, got) in enumerate(zip(*outputs)):
        compare(f"{name} grad {i}" if i else name, expected, got, tolerance)


def at(x, values):
    return torch.tensor(values, device=x.device)


def elementwise():
    x, y = torch.randn(4, 5), torch.rand(4, 5) + 0.5
    both("add", lambda a, b: a + b, x, y)
    both("broadcast", lambda a, b: a * b, x, y[:1])
    both("strided", lambda a, b: a.t() - b.t(), x, y)
    both("number", lambda a: a * 2.5 + 1, x)
    both("tanh", torch.tanh, x)
    both("where", lambda a, b: torch.where(a > 0, a, b), x, y)
    both("half", lambda a: (a.half() * 2).float(), x, tolerance=1e-2)
    both("to int", lambda a: (a * 10).to(torch.int64), x)
    both(
        "many dims",
        lambda a: (a.view((1,) * 5 + (2,) * 14).transpose(5, 18) + 1).sum(),
        torch.randn(2**14),
    )


def formulas():
    x, y = torch.rand(37) + 0.1, torch.rand(37) + 0.1
    for name in ("exp", "log", "sin", "cos", "sqrt", "erf", "sigmoid", "log1p", "expm1", "lgamma",
                 "digamma", "rsqrt", "abs", "floor", "reciprocal", "atan", "sinh"):  # fmt: skip
        both(name, getattr(torch, name), x)
    for name in ("pow", "atan2", "fmod", "maximum", "hypot", "xlogy", "logaddexp"):
        both(name, getattr(torch, name), x, y)
    for name in ("gelu", "silu", "softplus", "elu", "leaky_relu", "hardswish", "mish", "relu6"):
        both(name, getattr(F, name), x - 0.5)
    both("complex", lambda a, b: torch.complex(a, b).exp().abs(), x, y)
    both("bfloat16", lambda a: a.bfloat16().exp().float(), x, tolerance=1e-2)
    both("float64", lambda a: a.double().exp(), x)
    both("integers", lambda a: (a * 100).int() // 7 % 5, x)
    both("bool", lambda a: (a > 0.5) & (a < 0.9), x)


def reductions():
    x = torch.randn(5, 7)
    both("sum", lambda a: a.sum(), x)
    both("sum of a dim", lambda a: a.sum(0), x)
    both("mean", lambda a: a.mean(1), x)
    both("amax", lambda a: a.amax(1), x)
    both("argmax", lambda a: a.argmax(1), x)
    both("large", lambda a: a.sum(), torch.randn(40000) / 100, tolerance=1e-3)


def more_reductions():
    x = torch.randn(5, 40)
    for name in ("prod", "all", "any", "var", "std", "logsumexp", "amin", "argmin", "nansum"):
        both(name, lambda a, n=name: getattr(a, n)(1), x)
    both("norm", lambda a: a.norm(), x)
    for p in (1, 3, float("inf"), 0):
        both(f"norm {p}", lambda a, p=p: torch.linalg.vector_norm(a, p, 1), x)
    both("median", lambda a: a.median(1).values, x)
    both("count_nonzero", lambda a: (a > 0).count_nonzero(1), x)


def losses():
    x = torch.randn(5, 7)
    both("softmax", lambda a: a.softmax(1), x)
    both("log_softmax", lambda a: a.log_softmax(0), x)
    both("cross_entropy", lambda a: F.cross_entropy(a, at(a, [0, 3, 6, 1, 2])), x)


def more_losses():
    x = torch.randn(5, 7)
    t = [0, 3, 6, 1, 2]
    for reduction in ("none", "sum", "mean"):
        both(f"ce {reduction}", lambda a, r=reduction: F.cross_entropy(
            a, at(a, t), torch.arange(1.0, 8, device=a.device), reduction=r, ignore_index=6,
            label_smoothing=0.1), x)  # fmt: skip
        both(f"nll {reduction}", lambda a, r=reduction: F.nll_loss(a, at(a, t), reduction=r), x)
    both("mse", lambda a: F.mse_loss(a, a * 2 + 1), x)
    both("bce", lambda a: F.binary_cross_entropy_with_logits(a, a.detach().sigmoid()), x)
    both(
        "images",
        lambda a: F.cross_entropy(a, torch.ones(2, 4, dtype=torch.int64, device=a.device)),
        torch.randn(2, 3, 4),
    )


def products():
    a, b = torch.randn(5, 7), torch.randn(7, 3)
    both("mm", lambda a, b: a @ b, a, b)
    both("tiles", lambda a, b: a @ b, torch.randn(70, 90), torch.randn(90, 65), tolerance=1e-3)
    both("linear", F.linear, a, torch.randn(4, 7), torch.randn(4))


def more_products():
    both("bmm", torch.bmm, torch.randn(3, 4, 5), torch.randn(3, 5, 2))
    both("mv", torch.mv, torch.randn(4, 5), torch.randn(5))
    both(
        "addmm",
        lambda a, b, c: torch.addmm(c, a, b, beta=0.5, alpha=2.0),
        torch.randn(4, 5),
        torch.randn(5, 3),
        torch.randn(4, 3),
    )
    both("float64", lambda a: a.double() @ a.double().t(), torch.randn(4, 5))
    both("half", lambda a: (a.half() @ a.half().t()).float(), torch.randn(4, 5), tolerance=1e-2)
    both("int", lambda a: (a * 9).long() @ (a * 9).long().t(), torch.randn(4, 5))
    q = torch.randn(2, 2, 6, 4)
    both("attention", lambda q: F.scaled_dot_product_attention(q, q * 2, q + 1, is_causal=True), q)


def images():
    x = torch.randn(2, 4, 6, 6)
    both(
        "conv2d",
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        x,
        torch.randn(5, 4, 3, 3),
        torch.randn(5),
        tolerance=1e-3,
    )
    both("max_pool", lambda x: F.max_pool2d(x, 2), x)


def convolutions():
    """Dims, strides, layouts and dtypes, by cuDNN where it is there, and without it."""
    sizes = {1: (11,), 2: (7, 6), 3: (5, 4, 6)}
    formulas = {
        "plain": dict(padding=1), "stride": dict(stride=2), "dilated": dict(dilation=2, padding=2),
        "groups": dict(groups=2), "uneven": dict(stride=(2, 1), padding=(0, 2)),
    }  # fmt: skip
    for dims, size in sizes.items():
        x = torch.randn(3, 4, *size)
        for transposed in (False, True):
            function = getattr(F, f"conv{'_transpose' * transposed}{dims}d")
            for name, given in formulas.items():
                if name == "uneven" and dims != 2:
                    continue
                groups = given.get("groups", 1)
                w = torch.randn(4, 6 // groups, *(3,) * dims) if transposed else torch.randn(
                    6, 4 // groups, *(3,) * dims
                )  # fmt: skip
                both(
                    f"{function.__name__} {name}",
                    functools.partial(function, **given),
                    x, w, torch.randn(6), tolerance=1e-3,
                )  # fmt: skip
    x, w, b = torch.randn(2, 4, 5, 6), torch.randn(6, 4, 3, 3), torch.randn(6)
    last = torch.channels_last
    layouts = {
        "channels last": lambda x, w, b: F.conv2d(x.to(memory_format=last), w, b),
        "of a weight": lambda x, w, b: F.conv2d(x, w.to(memory_format=last), b),
        "of both": lambda x, w, b: F.conv2d(
            x.to(memory_format=last), w.to(memory_format=last), b, padding=1
        ),
        "strided": lambda x, w, b: F.conv2d(x.transpose(2, 3)[:, :, ::2], w, b, padding=1),
        "unaligned": lambda x, w, b: F.conv2d(x.flatten()[1:201].view(2, 4, 5, 5), w, b),
        "no bias": lambda x, w, b: F.conv2d(x, w),
        "no images": lambda x, w, b: F.conv2d(x[:0], w, b),
        "1x1": lambda x, w, b: F.conv2d(x, w[:, :, :1, :1], b),
    }
    for name, function in layouts.items():
        both(name, function, x, w, b, tolerance=1e-3)
    got = F.conv2d(x.cuda().to(memory_format=last), w.cuda(), b.cuda())
    is_last = torch.tensor(got.is_contiguous(memory_format=last))
    compare("the layout", torch.tensor(True), is_last, 0)
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float16, 3e-2), (torch.bfloat16, 2e-1)):
        for name in ("channels last", "no bias"):
            narrow = [t.to(dtype) for t in (x, w, b)]
            both(f"{name} {dtype}", layouts[name], *narrow, tolerance=tolerance)


def cudnn_switches():
    """What each switch lets through: the numbers are those of the engine that was taken."""
    x, w = torch.randn(2, 64, 16, 16), torch.randn(64, 64, 3, 3)
    expected = F.conv2d(x, w)
    ours, weight = x.cuda(), w.cuda()
    cudnn = torch.backends.cudnn

    def distance(**switches):
        with cudnn.flags(**switches):
            return (F.conv2d(ours, weight).cpu() - expected).abs().max().item()

    compare("exact", torch.tensor(True), torch.tensor(distance(allow_tf32=False) < 1e-3), 0)
    compare("without", torch.tensor(True), torch.tensor(distance(enabled=False) < 1e-3), 0)
    if cudnn.is_available():
        rounded = 1e-3 < distance(allow_tf32=True) < 1
        compare("TF32", torch.tensor(True), torch.tensor(rounded), 0)
        timed = distance(allow_tf32=True, benchmark=True, benchmark_limit=2) < 1
        compare("timed", torch.tensor(True), torch.tensor(timed), 0)
    with cudnn.flags(deterministic=True, allow_tf32=False):
        first, second = (F.conv2d(ours, weight) for _ in range(2))
        compare("deterministic", first.cpu(), second, 0)
        compare("its values", expected, first, 1e-3)


def more_images():
    x = torch.randn(2, 4, 6, 6)
    both(
        "groups",
        lambda x, w, b: F.conv2d(x, w, b, 2, 1, groups=2),
        x,
        torch.randn(6, 2, 3, 3),
        torch.randn(6),
        tolerance=1e-3,
    )
    both(
        "transposed",
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2),
        x,
        torch.randn(4, 3, 3, 3),
        torch.randn(3),
        tolerance=1e-3,
    )
    both(
        "conv1d",
        lambda x, w: F.conv1d(x, w, dilation=2),
        torch.randn(2, 3, 9),
        torch.randn(4, 3, 3),
        tolerance=1e-3,
    )
    both("conv3d", F.conv3d, torch.randn(1, 2, 4, 4, 4), torch.randn(2, 2, 2, 2, 2), tolerance=1e-3)
    both("avg_pool", lambda x: F.avg_pool2d(x, 3, 2, 1), x)
    both("adaptive_avg", lambda x: F.adaptive_avg_pool2d(x, (3, 4)), x)
    both("adaptive_max", lambda x: F.adaptive_max_pool2d(x, (3, 4)), x)
    both("unfold", lambda x: F.unfold(x, 3), x)
    both("fold", lambda x: F.fold(x, (4, 5), 2), torch.randn(1, 8, 12))


def norms():
    x = torch.randn(4, 6, 5)

    def batch_norm(x, w, b, train=True):
        mean, var = torch.zeros(6, device=x.device), torch.ones(6, device=x.device)
        out = F.batch_norm(x, mean, var, w, b, train)
        return out + mean.sum() + var.sum()

    both(
        "layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b), x, torch.randn(5), torch.randn(5)
    )
    both("rms_norm", lambda x, w: F.rms_norm(x, (5,), w), x, torch.randn(5))
    both("no rows", lambda x, w: F.layer_norm(x[:0], (5,), w), x, torch.randn(5))
    both("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), x, torch.randn(6), torch.randn(6))
    both("batch_norm", batch_norm, x, torch.randn(6), torch.randn(6))
    both(
        "batch_norm eval",
        lambda x, w, b: batch_norm(x, w, b, False),
        x,
        torch.randn(6),
        torch.randn(6),
    )


def indexing():
    x = torch.randn(4, 5, 6)
    both("index", lambda x: x[1:3, :, at(x, [2, 0, 5])], x)
    both(
        "gather", lambda x: x.gather(1, torch.ones(4, 2, 6, dtype=torch.int64, device=x.device)), x
    )
    both("index_select", lambda x: x.index_select(1, at(x, [2, 0, 3])), x)
    both("mask", lambda x: x[x > 0].sum(), x)
    both(
        "index_add",
        lambda x: x.index_add(1, at(x, [2, 0, 2]), torch.ones(4, 3, 6, device=x.device)),
        x,
    )
    both("scatter_reduce", lambda x: x.scatter_reduce(
        1, torch.zeros(4, 5, 6, dtype=torch.int64, device=x.device), x * 2, "amax"), x)  # fmt: skip
    both("nonzero", lambda x: (x > 0).nonzero(), x)
    both("flip and roll", lambda x: x.flip(0, 2).roll(2, 1), x)
    both("triangles", lambda x: x.tril(1) + x.triu(), x)
    both(
        "embedding",
        lambda w: F.embedding(at(w, [[0, 2], [1, 1]]), w, padding_idx=0),
        torch.randn(3, 4),
    )
    both("cat", lambda x: torch.cat([x, x * 2], 1), x)
    both("take", lambda x: x.take(at(x, [0, 7, -1])), x)


def order():
    x = torch.randn(3, 50)
    for name in ("cumsum", "cumprod", "logcumsumexp"):
        both(name, lambda a, n=name: getattr(a, n)(1), x)
    both("cummax", lambda a: a.cummax(1).values, x)
    both("sort", lambda a: a.sort(1).values, x)
    both("argsort", lambda a: a.argsort(1, descending=True), x)
    both("topk", lambda a: a.topk(5, 1).values, x)
    both("kthvalue", lambda a: a.kthvalue(3, 1).values, x)
    both("long lines", lambda a: a.repeat(1, 60).sort(1).values, x)
    both("searchsorted", lambda a: torch.searchsorted(a.sort(1).values, a[:, :4].contiguous()), x)
    both("bincount", lambda a: (a.abs() * 3).long().view(-1).bincount(), x)


def compare_all(name, function, x, tolerance=1e-4):
    """The results of a function, one or several, of x on both devices; x keeps its strides."""
    results = []
    for device in ("cpu", "cuda"):
        moved = x if device == "cpu" else x.as_strided(x.size(), x.stride())
        if device == "cuda":
            flat = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).cuda()
            moved = flat.as_strided(x.size(), x.stride(), x.storage_offset())
        try:
            result = function(moved)
        except Exception as error:
            print(f"{name} on {device}: {type(error).__name__}: {error}")
            return
        results.append(result if isinstance(result, tuple) else (result,))
    for i, (expected, got) in enumerate(zip(*results)):
        compare(f"{name} {i}", expected, got, tolerance)


def orders_of(name, x, dim, k):
    """All that sorts or selects: values and places."""
    for falling in (False, True):
        compare_all(
            f"{name}: sort {falling}",
            lambda a, f=falling: tuple(a.sort(dim, descending=f, stable=True)), x)  # fmt: skip
        compare_all(f"{name}: topk {falling}", lambda a, f=falling: tuple(a.topk(k, dim, f)), x)
    compare_all(f"{name}: kthvalue", lambda a: tuple(a.kthvalue(k, dim)), x)
    compare_all(f"{name}: median", lambda a: tuple(a.median(dim)), x)
    if x.is_floating_point():
        compare_all(f"{name}: nanmedian", lambda a: tuple(a.nanmedian(dim)), x)


# One block sorts 1024 elements; others go in tiles of 2048 or 4096.
SORTED = (1, 1023, 1024, 1025, 2047, 2048, 2049, 4096, 4097, 9001)


def long_orders():
    for n in SORTED:
        orders_of(f"{n}", torch.randn(n), 0, (n + 4) // 5)
        orders_of(f"ties of {n}", torch.randint(-3, 4, (2, n)), 1, (n + 2) // 3)
        compare_all(f"mode of {n}", lambda a: tuple(a.mode(0)), torch.randint(n, (n,)))
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
                  torch.int16, torch.int8, torch.uint8, torch.bool):  # fmt: skip
        x = torch.randn(3, 2500)
        x = x.to(dtype) if dtype.is_floating_point else (x * 50).to(torch.int64).to(dtype)
        orders_of(f"{dtype}", x, 1, 3)
        orders_of(f"many of {dtype}", x, 1, 2490)
    wide = torch.randint(-(2**62), 2**62, (5000,))
    wide[::7] = torch.iinfo(torch.int64).min
    wide[::11] = torch.iinfo(torch.int64).max
    orders_of("wide integers", wide, 0, 1100)
    for digits in (0, 0xFF00FF0000, -1 << 56):  # of which keys differ in some alone
        orders_of(f"digits {digits}", wide[:2500] & digits, 0, 700)
    strange = torch.randn(4, 6000)
    strange[0, ::13] = float("nan")
    strange[1, ::2] = 0.0
    strange[1, 1::2] = -0.0
    strange[2] = float("nan")
    strange[3, ::5], strange[3, 1::5] = float("inf"), -float("inf")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for k in (1, 1024, 1025, 1500, 5000) if dtype == torch.float32 else (1500,):
            orders_of(f"strange {dtype} {k}", strange.to(dtype), 1, k)
    for falling in (False, True):
        compare_all(
            f"signs {falling}",
            lambda a, f=falling: 1 / a.sort(descending=f, stable=True).values,
            strange[1])  # fmt: skip
    whole = torch.randint(2000, (2, 1300, 6)).float()
    for name, x, dim in (("columns", whole, 1), ("steps", whole.transpose(1, 2)[:, ::2, ::1], 2),
                         ("not aligned", whole.view(2, -1)[:, 1:], 1),
                         ("expanded", whole[0, :, 0].expand(3, 1300), 1)):  # fmt: skip
        orders_of(name, x, dim, 7)
    orders_of("many parts", torch.randn(40000), 0, 100)
    compare_all("empty", lambda a: tuple(a.sort(1)), torch.randn(3, 0))
    compare_all("no lines", lambda a: tuple(a.sort(1)), torch.randn(0, 2000))
    compare_all("no elements", lambda a: tuple(a.topk(0, 1)), torch.randn(3, 2000))
    compare_all("quantile", lambda a: a.quantile(0.3), torch.randn(3000))
    x = torch.randint(500, (5000,))
    compare_all("unique", lambda a: torch.unique(a, return_inverse=True, return_counts=True), x)
    compare_all("order", lambda a: torch.randperm(5000, device=a.device).sort().values, x)


# 16 elements a thread, 32 or 256 threads a block: lines around the ends of tiles and parts.
SCANNED = (1, 2, 15, 16, 17, 100, 511, 512, 513, 4095, 4096, 4097, 8200, 40000)


def long_scans():
    sums = ("cumsum", "cumprod", "logcumsumexp")
    for n in SCANNED:
        x = torch.rand(n) * 0.5 + 0.75
        for name in (*sums, "cummax", "cummin"):
            compare_all(f"{name} of {n}", lambda a, o=name: getattr(a, o)(0), x.sub(0.01))
        compare_all(f"lines of {n}", lambda a: a.cumsum(1), torch.randn(3, n), 1e-3)
        compare_all(f"columns of {n}", lambda a: a.cumsum(0), torch.randn(n, 19), 1e-3)
        compare_all(f"extremes of {n}", lambda a: a.cummax(0), torch.randint(9, (n, 17)))
        both(f"reverse of {n}", lambda a: a.cumsum(0), x)
        both(f"reverse in columns of {n}", lambda a: a.cumsum(0), torch.randn(n, 16).double())
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
                  torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64):  # fmt: skip
        x = torch.randint(-2, 3, (2, 4100)).to(dtype)
        for dim in (0, 1):
            compare_all(f"{dtype} sum", lambda a, d=dim: a.cumsum(d), x, 1e-2)
            compare_all(f"{dtype} product", lambda a, d=dim: a.cumprod(d), x, 1e-2)
        compare_all(f"{dtype} kept", lambda a, t=dtype: a.cumsum(1, dtype=t), x[:, :600], 1e-2)
        if not dtype.is_complex:
            compare_all(f"{dtype} largest", lambda a: a.cummax(1), x)
            compare_all(f"{dtype} least", lambda a: a.cummin(0), x.t())
    strange = torch.randn(3, 5000)
    strange[0, 4321] = strange[0, 4400] = float("nan")
    strange[1, 77] = float("inf")
    strange[1, 4999] = -float("inf")
    strange[2, ::2] = -float("inf")
    for name in (*sums, "cummax", "cummin"):
        x = strange.sign() if name == "cumprod" else strange  # no product is too small
        compare_all(f"{name}, strange", lambda a, o=name: getattr(a, o)(1), x, 1e-3)
        compare_all(f"{name}, strange columns", lambda a, o=name: getattr(a, o)(0), x.t(), 1e-3)
    whole = torch.randn(4, 4, 2100)
    for name, x in (("steps", whole[:, :, ::2]), ("not aligned", whole[:, 1:, 1:]),
                    ("transposed", whole.transpose(1, 2)), ("none", whole[:, :0]),
                    ("one", whole[:, :, :1]),
                    ("expanded", whole[:, :1].expand(4, 3, 2100))):  # fmt: skip
        for dim in range(3):
            compare_all(f"{name}, dim {dim}", lambda a, d=dim: a.cumsum(d), x, 1e-3)
            compare_all(f"{name}, extremes, dim {dim}", lambda a, d=dim: a.cummin(d), x)
    compare_all("in place", lambda a: a.clone().cumsum_(1), whole[0], 1e-3)
    compare_all("in place in columns", lambda a: a.clone().cumsum_(0), whole[0].t(), 1e-3)
    both("many parts", lambda a: a.cumsum(0), torch.randn(60000), tolerance=1e-2)


def resampling():
    x = torch.randn(2, 3, 5, 6)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        both(mode, lambda x, m=mode: F.interpolate(x, (8, 4), mode=m), x)
    for mode in ("bilinear", "bicubic"):
        both(
            f"{mode} antialias",
            lambda x, m=mode: F.interpolate(x, (3, 4), mode=m, antialias=True),
            x,
        )
        both(
            f"{mode} corners",
            lambda x, m=mode: F.interpolate(x, scale_factor=1.7, mode=m, align_corners=True),
            x,
        )
    both("linear", lambda x: F.interpolate(x, 9, mode="linear"), torch.randn(2, 3, 5))
    both("trilinear", lambda x: F.interpolate(x, (3, 4, 5), mode="trilinear"), x[None])
    both(
        "half",
        lambda x: F.interpolate(x.half(), (8, 4), mode="bilinear").float(),
        x,
        tolerance=1e-2,
    )
    images = (torch.arange(2 * 3 * 5 * 6) * 7 % 256).to(torch.uint8).view(2, 3, 5, 6)
    both("bytes", lambda x: F.interpolate(x, (3, 9), mode="bilinear", antialias=True), images)
    for mode in ("reflect", "replicate", "circular"):
        both(mode, lambda x, m=mode: F.pad(x, (1, 2, 2, 1), m), x)
    both("replicate 1d", lambda x: F.pad(x, (3, 0), "replicate"), torch.randn(2, 5))
    grid = torch.rand(2, 4, 5, 2) * 2.4 - 1.2
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            both(
                f"grid {mode} {padding}",
                lambda x, g, m=mode, p=padding: F.grid_sample(x, g, m, p, False),
                x,
                grid,
                tolerance=1e-3,
            )
    both(
        "grid 3-D",
        lambda x, g: F.grid_sample(x, g, align_corners=True),
        x[None],
        torch.rand(1, 3, 2, 4, 3) * 2 - 1,
    )


def distances():
    a, b = torch.randn(2, 5, 4), torch.randn(2, 3, 4)
    for p in (0.0, 1.0, 2.0, 3.5, float("inf")):
        both(f"cdist {p}", lambda a, b, p=p: torch.cdist(a, b, p), a, b)
        if p:
            both(f"pdist {p}", lambda a, p=p: F.pdist(a, p), a[0])
    log_probs = torch.randn(8, 2, 5).log_softmax(2)
    both(
        "ctc",
        lambda x: F.ctc_loss(x, at(x, [[1, 2, 2], [3, 1, 0]]), at(x, [8, 6]), at(x, [3, 2])),
        log_probs,
    )
    both(
        "ctc impossible",
        lambda x: F.ctc_loss(
            x, at(x, [[1, 1, 1]] * 2), at(x, [3, 8]), at(x, [3, 3]), zero_infinity=True
        ),
        log_probs,
    )


def tables():
    w = torch.randn(6, 4)
    for mode in ("sum", "mean", "max"):
        both(
            f"bag {mode}",
            lambda w, m=mode: F.embedding_bag(
                at(w, [1, 2, 2, 5, 0]), w, at(w, [0, 3, 3]), mode=m, padding_idx=5
            ),
            w,
        )
    both(
        "bag weights",
        lambda w, s: F.embedding_bag(at(w, [[1, 2], [2, 0]]), w, mode="sum", per_sample_weights=s),
        w,
        torch.randn(2, 2),
    )
    both(
        "bag frequency",
        lambda w: F.embedding_bag(at(w, [[1, 2], [2, 2]]), w, scale_grad_by_freq=True),
        w,
    )

    def renormed(w):
        w = w.detach().clone()
        F.embedding(at(w, [1, 1, 3]), w, max_norm=0.5)
        return w

    both("max_norm", renormed, w)


def transforms():
    for n in (1, 8, 12, 35, 31, 64):
        x = torch.randn(3, n)
        both(f"rfft {n}", lambda x: torch.view_as_real(torch.fft.rfft(x)), x, tolerance=1e-3)
        both(
            f"irfft {n}",
            lambda x: torch.fft.irfft(torch.fft.rfft(x), x.shape[-1]),
            x,
            tolerance=1e-3,
        )
    both("fft2", lambda x: torch.fft.fft2(x).abs(), torch.randn(4, 6), tolerance=1e-3)
    both(
        "hfft", lambda x: torch.fft.hfft(torch.complex(x, x * 2)), torch.randn(2, 5), tolerance=1e-3
    )
    both(
        "stft",
        lambda x: torch.stft(
            x, 16, window=torch.hann_window(16, device=x.device), return_complex=True
        ).abs(),
        torch.randn(64),
        tolerance=1e-3,
    )


def recurrent_layers():
    x = torch.randn(5, 3, 4)
    for kind in ("RNN", "LSTM", "GRU"):
        for options in ({}, {"bidirectional": True, "num_layers": 2}, {"bias": False}):
            torch.manual_seed(1)
            layer = getattr(torch.nn, kind)(4, 6, **options)
            state = layer.state_dict()

            def run(x, *parameters, kind=kind, options=options, names=tuple(state)):
                layer = getattr(torch.nn, kind)(4, 6, **options).to(x.device)
                given = dict(zip(names, parameters))
                return torch.func.functional_call(layer, given, (x,))[0]

            both(f"{kind} {options}", run, x, *state.values(), tolerance=1e-3)
    lengths = torch.tensor([5, 4, 2])
    lstm = torch.nn.LSTM(4, 6)

    def packed(x):
        given = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
        out = torch.func.functional_call(
            lstm, {name: p.to(x.device) for name, p in lstm.state_dict().items()}, (given,)
        )[0]
        return out.data

    both("packed", packed, x, tolerance=1e-3)


def attending(dtype, options):
    """Attention of operands that become of a dtype; the mask goes to their device."""

    def run(*operands):
        device = operands[0].device
        given = {k: v.to(device) if k == "attn_mask" else v for k, v in options.items()}
        narrow = (x.to(dtype) for x in operands)
        return F.scaled_dot_product_attention(*narrow, **given).double()

    return run


def attention():
    shapes = [((1, 2, 5, 8), (7, 8)), ((2, 4, 70, 16), (66, 24)), ((3, 9, 80), (130, 40))]
    shapes += [((1, 1, 9, 256), (70, 200)), ((7, 12), (65, 12))]
    for query, (keys, width) in shapes:
        shares = query[-3:-2] == (4,)  # heads of queries those of keys
        q, k = torch.randn(query), torch.randn(*query[:-2], keys, query[-1])
        v, mask = torch.randn(*query[:-2], keys, width), torch.randn(query[-2], keys)
        allowed = mask > -0.3
        allowed[0] = False  # a query that may attend to nothing
        if shares:
            k, v = k[:, :2], v[:, ::2]
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
            close = {torch.float32: 2e-5, torch.float64: 1e-7}.get(dtype, 3e-2)
            ways = [
                ("float", {"attn_mask": mask}), ("causal", {"is_causal": True}),
                ("plain", {}), ("scale", {"scale": -0.3}), ("bool", {"attn_mask": allowed}),
            ]  # fmt: skip
            for name, options in ways if dtype == torch.float32 else ways[:2]:
                run = attending(dtype, {"enable_gqa": shares, **options})
                both(f"{name} {query} {dtype}", run, q, k, v, tolerance=close)
    for query, keys, width in (
        ((1, 2, 200, 64), 150, 64),
        ((2, 2, 130, 40), 300, 72),
        ((1, 4, 100, 128), 70, 128),
    ):  # more rows than four warps take
        q, k = torch.randn(query), torch.randn(*query[:2], keys, query[3])
        v, mask = torch.randn(*query[:2], keys, width), torch.randn(query[2], keys)
        for dtype in (torch.float16, torch.bfloat16):
            for name, options in {
                "plain": {}, "causal": {"is_causal": True}, "scale": {"scale": -0.3},
                "mask": {"attn_mask": mask},
            }.items():  # fmt: skip
                run = attending(dtype, options)
                both(f"{name} {query} {keys} {dtype}", run, q, k, v, tolerance=3e-2)
    heads = torch.randn(2, 33, 3 * 2 * 8)  # as models cut them: transposed views

    def merged(x):
        q, k, v = x.view(2, 33, 3, 2, 8).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    both("transposed", merged, heads)


def attention_dropout():
    """Weights are dropped as often as was asked, and by the gradient those that were dropped."""
    global agreed
    attend = F.scaled_dot_product_attention
    q, k = torch.randn(1, 2, 70, 8).cuda(), torch.randn(1, 2, 130, 8).cuda()
    one = torch.eye(130).expand(1, 2, 130, 130).cuda()  # the result is the matrix of weights
    weights, whole = attend(q, k, one, dropout_p=0.3), attend(q, k, one)
    kept = weights != 0
    share = kept.float().mean().item()
    if abs(share - 0.7) < 0.02 and torch.allclose(weights, whole * kept / 0.7, atol=1e-5):
        agreed += 1
    else:
        print(f"dropout keeps {share}")
    v = torch.randn(1, 2, 130, 9).cuda()
    for dtype in (torch.float32, torch.float64):
        both_ways = []
        for create_graph in (False, True):  # by kernels, and by ops that draw the matrix again
            torch.manual_seed(3)
            own = [x.to(dtype).detach().requires_grad_() for x in (q, k, v)]
            out = attend(*own, dropout_p=0.3, is_causal=True)
            grads = torch.autograd.grad(out.square().sum(), own, create_graph=create_graph)
            both_ways.append([out, *grads])
        for i, (expected, got) in enumerate(zip(*both_ways)):
            compare(f"dropout {dtype} {i}", expected.cpu(), got, 1e-4)


def real_view(x):
    return torch.view_as_real(x)


def cublas_products():
    """All that one call computes: transposed, strided, batched, with what is added, and relu."""
    global agreed
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64):
        close = 3e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-4

        def random(*sizes, dtype=dtype):
            return torch.randn(*sizes).to(dtype)

        def check(name, function, *inputs, dtype=dtype, close=close):
            if dtype.is_complex:
                both(f"{name} {dtype}", lambda *given: real_view(function(*given)), *inputs)
            else:
                both(f"{name} {dtype}", function, *inputs, tolerance=close)

        x, y, b = random(5, 7), random(7, 6), random(6)
        check("mm", lambda x, y: x @ y, x, y)
        check("transposed", lambda x, y: x.t() @ y.t(), x, random(6, 5))
        check("bias", torch.addmm, b, x, y)
        check("addmm", lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2), random(5, 6), x, y)
        check("added column", torch.addmm, random(5, 1), x, y)
        check("bmm", torch.bmm, random(3, 5, 7), random(3, 7, 4))
        check("one matrix for all", torch.matmul, random(3, 5, 7), y)
        check("baddbmm", torch.baddbmm, random(1, 5, 4), random(3, 5, 7), random(3, 7, 4))
        check("mv", lambda x, y: x @ y[:, 0], x, y)
        check("dot", lambda x, y: x[0] @ y[:, 0], x, y)
        check("strided", lambda x, y: x[:, ::2] @ y[::2], x, y)
        check("parts", lambda x, y: x[1:, 2:] @ y[2:, 1:4], x, y)
        check("a row", lambda x, y: x[:1] @ y, x, y)
        check("a column", lambda x, y: x @ y[:, :1], x, y)
        check("depth 1", lambda x, y: x[:, :1] @ y[:1], x, y)
        if not dtype.is_complex:
            check("relu", lambda x, w, b: F.relu(F.linear(x, w, b)), x, random(6, 7), b)
    x, y = (torch.randn(*size, dtype=torch.bfloat16) / 23 for size in ((513, 520), (520, 515)))
    for name, function in (
        ("odd lines", lambda x, y: x @ y), ("turned", lambda x, y: (y.t() @ x.t()).t()),
        ("off alignment", lambda x, y: off_alignment(x[:512, :512]) @ y[:512]),
        ("with a bias", lambda x, y: F.linear(x, y.t(), y[0])),
    ):  # fmt: skip
        both(name, function, x, y, tolerance=3e-2)
    x = torch.randn(8, 8).cuda()
    exact = x.double() @ x.double()
    torch.set_float32_matmul_precision("high")
    error = ((x @ x).double() - exact).abs().max().item()
    torch.set_float32_matmul_precision("highest")
    if (error > 1e-4) == (os.environ.get("RUSHLIGHT_CUDA_WITHOUT") != "cublasLt"):
        agreed += 1
    else:
        print(f"TF32: error {error}")


def placement():
    """Tensors that ops make on the way are where their inputs are; indices may be on the CPU."""
    x = torch.rand(4, 4) + 0.1
    both("index of the CPU", lambda x: x[torch.tensor([0, 2])], x)
    both("mask of the CPU", lambda x: x[torch.tensor([True, False, True, True])], x)

    def put(x):
        x = x.clone()
        x[torch.tensor([0, 1])] = torch.tensor(2.0)
        x[torch.tensor([False, False, True, False])] = 5.0
        return x

    both("index_put of the CPU", put, x)
    both("bucketize a number", lambda x: torch.bucketize(0.5, x[0].sort().values), x)
    both("isin of a number", lambda x: torch.isin(x, 1.0) | torch.isin(1.0, x), x)
    both("mvlgamma", lambda x: torch.mvlgamma(x + 3, 3), x)
    both("vander", lambda x: torch.linalg.vander(x), x)
    both("unravel_index", lambda x: torch.unravel_index(at(x, [1, 3]), (2, 2))[1], x)
    both("segment_reduce", lambda x: torch.segment_reduce(x, "max", lengths=at(x, [1, 3])), x)
    for lengths in ([[1, 2]] * 4, [[1, 1]] * 4):  # the second leaves elements out
        both(
            "segments of rows",
            lambda x, n=lengths: torch.segment_reduce(
                x, "sum", lengths=at(x, n), axis=1, unsafe=True
            ),
            torch.randn(4, 3),
        )
    both("rrelu", lambda x: (F.rrelu(x - 0.5, training=True) > 0).int(), x)
    for make in (
        lambda x: torch.distributions.Normal(x, 1.0),
        lambda x: torch.distributions.Gumbel(x, 2.0),
        lambda x: torch.distributions.StudentT(x + 3),
        lambda x: torch.distributions.HalfCauchy(x),
        lambda x: torch.distributions.LKJCholesky(3, x[0, 0]),
    ):
        both(f"sample of {make(x)}", lambda x, m=make: m(x).sample().isfinite(), x)
    both("prune", lambda x: pruned_rows(x.device), x)
    weight = torch.empty(6, 5)
    both("sparse_", lambda w: (torch.nn.init.sparse_(w.detach(), 0.5) == 0).sum(0), weight)


def pruned_rows(device):
    layer = torch.nn.Linear(4, 4).to(device)
    torch.nn.utils.prune.random_structured(layer, "weight", 2, 0)
    return (layer.weight == 0).all(1).sum()


def matrices():
    """On the host, as docs/cuda.md says."""
    a = torch.randn(2, 4, 4)
    spd = a @ a.mT + torch.eye(4)
    both("inv", torch.linalg.inv, spd, tolerance=1e-3)
    both("cholesky", lambda a: torch.linalg.cholesky((a + a.mT) / 2), spd, tolerance=1e-3)
    both("solve", torch.linalg.solve, spd, torch.randn(2, 4, 3), tolerance=1e-3)
    both("det", torch.linalg.det, spd, tolerance=1e-2)
    both("slogdet", lambda a: torch.linalg.slogdet(a)[1], spd, tolerance=1e-3)
    both("eigvalsh", torch.linalg.eigvalsh, spd, tolerance=1e-3)
    both("svdvals", torch.linalg.svdvals, a, tolerance=1e-3)
    both("qr", lambda a: torch.linalg.qr(a)[1].abs(), a, tolerance=1e-3)
    both(
        "lstsq", lambda a, b: torch.linalg.lstsq(a, b)[0], spd, torch.randn(2, 4, 1), tolerance=1e-3
    )


def distinct():
    x = torch.randn(40).mul(3).round()
    for options in ({}, {"return_inverse": True, "return_counts": True}):
        for i in range(len(options) + 1):
            both(
                f"unique {i}",
                lambda x, o=options, i=i: (
                    torch.unique(x.detach(), **o)[i] if o else torch.unique(x.detach())
                ),
                x,
            )
            both(
                f"unique_consecutive {i}",
                lambda x, o=options, i=i: (
                    torch.unique_consecutive(x.detach(), **o)[i]
                    if o
                    else torch.unique_consecutive(x.detach())
                ),
                x,
            )
            both(
                f"rows {i}",
                lambda x, o=options, i=i: (
                    torch.unique(x.detach().view(20, 2), dim=0, **o)[i]
                    if o
                    else torch.unique(x.detach().view(20, 2), dim=0)
                ),
                x,
            )
    both("mode", lambda x: x.view(4, 10).mode(1).values, x)
    both("mode place", lambda x: x.view(4, 10).mode(1).indices, x)
    both("histc", lambda x: x.detach().histc(5, -4, 4), x)
    both("histc of its range", lambda x: x.detach().histc(7), x)
    both("bytes", lambda x: (x.view(5, 8) * 3).to(torch.int8).int() @ x.view(8, 5).int(), x)


def host_elements():
    """What the host reads or writes itself, by copies."""
    x = torch.randn(6)
    both("arange", lambda x: torch.arange(2, 20, 3, device=x.device), x)
    both("linspace", lambda x: torch.linspace(0, 9, 4, dtype=torch.int64, device=x.device), x)
    both("frexp", lambda x: torch.frexp(x)[0], x)
    both("exponents", lambda x: torch.frexp(x)[1], x)
    both("repeats", lambda x: x.repeat_interleave(at(x, [1, 0, 2, 1, 9, 1])), x)
    both("split", lambda x: x.tensor_split(at(x, [1, 4]).cpu())[1], x)
    both("combinations", lambda x: torch.combinations(x, 2), x)
    both("condition", lambda x: x[True] * 2, x)
    both("list", lambda x: torch.tensor(x.tolist(), device=x.device), x)
    both("bytes", lambda x: torch.tensor(list(x.untyped_storage())[:8], device=x.device), x)
    both("numpy", lambda x: torch.from_numpy(x.numpy(force=True)).to(x.device), x)
    for read in (torch.Tensor.numpy, numpy.asarray):
        try:
            print(f"numpy of a GPU: {read(x.cuda())}")
        except TypeError as error:
            compare(
                "numpy of a GPU",
                torch.tensor(True),
                torch.tensor("Use Tensor.cpu()" in str(error)),
                0,
            )


def optimizers():
    for make in (
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.Adam(p, 0.1, amsgrad=True),
        lambda p: torch.optim.AdamW(p, 0.1),
        lambda p: torch.optim.RMSprop(p, 0.1, centered=True, momentum=0.5),
        lambda p: torch.optim.Adagrad(p, 0.1),
    ):
        weights = []
        for device in ("cpu", "cuda"):
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 3).to(device)
            optimizer = make(model.parameters())
            for step in range(3):
                optimizer.zero_grad()
                x = (torch.arange(8.0).view(2, 4) / 8 + step).to(device)
                model(x).pow(2).sum().backward()
                optimizer.step()
            weights.append(model.weight)
        compare(type(optimizer).__name__, *weights, 1e-4)


def random_numbers():
    """Distributions by their moments, and that a seed gives the same numbers again."""
    global agreed
    torch.manual_seed(3)
    n = 20000
    u, g = torch.rand(n, device="cuda"), torch.randn(n, device="cuda")
    torch.manual_seed(3)
    again = torch.rand(n, device="cuda")
    e = torch.empty(n, device="cuda").exponential_(2.0)
    i = torch.randint(0, 5, (n,), device="cuda")
    kept = F.dropout(torch.ones(n, device="cuda"), 0.25)
    p = torch.poisson(torch.full((n,), 4.0, device="cuda"))
    gamma = torch._standard_gamma(torch.full((n,), 0.5, device="cuda"))
    shares = torch._sample_dirichlet(torch.rand(50, 4, device="cuda") + 0.1)
    chances = torch.tensor([0.25, 0.0, 0.5, 0.25], device="cuda")
    chosen = chances.multinomial(n, replacement=True)
    several = chances.expand(20, 4).multinomial(3)
    checks = {
        "repeats": torch.equal(u.cpu(), again.cpu()),
        "range": 0 <= u.min().item() and u.max().item() < 1,
        "uniform": abs(u.mean().item() - 0.5) < 0.01 and abs(u.var().item() - 1 / 12) < 0.003,
        "normal": abs(g.mean().item()) < 0.03 and abs(g.std().item() - 1) < 0.02,
        "exponential": abs(e.mean().item() - 0.5) < 0.02,
        "randint": i.cpu().bincount().amin().item() > n / 5 * 0.93,
        "dropout": abs((kept == 0).float().mean().item() - 0.25) < 0.02,
        "poisson": abs(p.mean().item() - 4) < 0.1 and abs(p.var().item() - 4) < 0.3,
        "large poisson": abs(torch.poisson(p * 0 + 30).mean().item() - 30) < 0.3,
        "gamma": abs(gamma.mean().item() - 0.5) < 0.03 and gamma.min().item() > 0,
        "binomial": abs(torch.binomial(p * 0 + 40, p * 0 + 0.5).mean().item() - 20) < 0.2,
        "dirichlet": torch.allclose(shares.sum(1).cpu(), torch.ones(50)),
        "multinomial": abs((chosen == 2).float().mean().item() - 0.5) < 0.02,
        "zero chance": not (chosen == 1).any().item(),
        "without replacement": all(len(set(row)) == 3 for row in several.tolist()),
        "randperm": torch.randperm(100, device="cuda").sort().values.tolist() == list(range(100)),
    }
    for name, right in checks.items():
        if right:
            agreed += 1
        else:
            print(f"random: {name}")


def dropout():
    """One pass draws, notes and scales: its elements are those that a Bernoulli draw keeps."""
    layouts = {
        "dense": lambda x: x, "transposed": lambda x: x.mT, "cut": lambda x: x[:, 1:],
        "unaligned": lambda x: x.flatten()[1:],
    }  # fmt: skip
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for name, layout in layouts.items():
            x = layout(torch.rand(6, 5, 7).cuda().to(dtype) + 1).detach().requires_grad_()
            y = F.dropout(x, 0.3)
            kept = (y != 0).cpu()
            tolerance = 1e-6 if dtype.itemsize > 2 else 1e-2
            expected = (x.detach().cpu().double() * kept / 0.7).to(dtype)
            compare(f"{name} {dtype}", expected, y, tolerance)
            weights = torch.rand(y.shape).to(dtype)
            (grad,) = torch.autograd.grad(y, x, weights.cuda())
            expected = (weights.double() * kept / 0.7).to(dtype)
            compare(f"{name} {dtype} grad", expected, grad, tolerance)
        ones = torch.ones(4099, dtype=dtype, device="cuda")
        torch.cuda.manual_seed(5)
        kept = F.dropout(ones, 0.3) != 0
        torch.cuda.manual_seed(5)
        compare(f"words {dtype}", ones.bernoulli_(0.7).bool().cpu(), kept, 0)
    x = torch.rand(5, dtype=torch.float64, device="cuda", requires_grad=True)

    def square(x):
        torch.cuda.manual_seed(1)
        return F.dropout(x, 0.4) ** 2

    right = torch.autograd.gradcheck(square, (x,)) and torch.autograd.gradgradcheck(square, (x,))
    compare("gradients", torch.tensor(True), torch.tensor(right), 0)


def training():
    """A small network of the quickstart's kinds of layers has the CPU's losses; AMP trains."""
    global agreed
    losses = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
            torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(64, 10),
        )  # fmt: skip
        images, labels = torch.randn(8, 1, 8, 8).to(device), (torch.arange(8) % 10).to(device)
        model.to(device)
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
        losses.append([])
        for _ in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    expected, got = (torch.tensor(x) for x in losses)
    compare("losses", expected, got, 1e-3)
    if not got[-1] < got[0]:
        print(f"training: {losses}")


def mixed_precision():
    """Autocast and GradScaler train, and an overflow skips its step."""
    global agreed
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 4).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
    x, losses = torch.randn(16, 8, device="cuda"), []
    for _ in range(4):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            out = model(x)
            loss = out.float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    before = model.weight.detach().cpu().clone()
    optimizer.zero_grad()
    scaler.scale((model(x) * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    kept = torch.equal(before, model.weight.detach().cpu())
    if out.dtype == torch.float16 and losses[-1] < losses[0] and kept:
        agreed += 1
    else:
        print(f"mixed precision: {out.dtype}, {losses}, kept {kept}")


def saving():
    """Checkpoints of a GPU are read on the CPU, and the other way round."""
    global agreed
    import io

    file, last = io.BytesIO(), f"cuda:{torch.cuda.device_count() - 1}"
    torch.save({"x": torch.arange(3.0, device=last)}, file)
    places = []
    for where in (None, "cpu", "cuda:0", {last: "cuda:0"}):
        file.seek(0)
        x = torch.load(file, map_location=where)["x"]
        places.append((str(x.device), x.tolist()))
    right = [(d, [0.0, 1.0, 2.0]) for d in (last, "cpu", "cuda:0", "cuda:0")]
    if places == right:
        agreed += 1
    else:
        print(f"saving: {places}")


def quickstart():
    """The example's network, but for its dropout, has the CPU's losses."""
    import pathlib

    sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
    import quickstart as example

    curves = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        training, _ = example.load_data()
        loader = example.DataLoader(training, batch_size=8, shuffle=True)
        model = example.LeNet().to(device)
        for layer in model.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        with contextlib.redirect_stdout(io.StringIO()):  # it prints each
            losses = example.first_losses(model, loader, optimizer, device, 4)
        curves.append(torch.tensor(losses))
    compare("quickstart", *curves, 1e-3)


# ---- the sizes, dtypes and strides at which kernels choose another way


def off_alignment(x):
    """The same elements from one behind an aligned address on."""
    flat = x.flatten()
    return torch.cat([flat[:1], flat])[1:].view(x.shape)


def rows_of_elements():
    """Elementwise kernels take packs of a row, or single elements, or go by strides."""

    def add(a, b):
        return a * 2 + b  # one formula for all: few kernels

    for n in (1, 3, 4, 5, 4099):
        both(f"flat {n}", add, torch.randn(n), torch.randn(n))
    x, y = torch.randn(6, 12), torch.randn(6, 12)
    both("off alignment", lambda a, b: add(off_alignment(a), b), x, y)
    both("rows", lambda a, b: add(a[:, :8], b[:, 4:]), x, y)
    both("rows off alignment", lambda a, b: add(a[:, 1:9], b[:, :8]), x, y)
    both("odd rows", lambda a, b: add(a[:, :7], b[:, 5:]), x, y)
    both("one column", lambda a, b: add(a[:, :1], b[:, 3:4]), x, y)
    both("a row for all", add, x, y[:1])
    both("a column for all", lambda a, b: add(a, b[:, 3:4]), x, y)
    both("a column by a row", lambda a, b: add(a[:, :1], b[:1]), x, y)
    both("in the middle", lambda a, b: add(a.view(2, 3, 12), b[:2].view(2, 1, 12)), x, y)
    both("one number", lambda a, b: add(a, b[2, 3]), x, y)
    both("a number of the host", lambda a: a * torch.tensor(2.5) + torch.tensor(1), x)
    both("strides", lambda a, b: add(a[:, ::2], b[:, 6:]), x, y)
    both("transposed both", lambda a, b: add(a.t(), b.t()), x, y)
    both("backwards", lambda a, b: add(a.flip(1), b), x, y)

    def into(out_of):
        def run(a, b):
            out = torch.zeros(14, 14, device=a.device)
            torch.add(a.detach(), b.detach(), out=out_of(out))
            return out

        return run

    both("into columns", into(lambda out: out[1:13, 2:8].t()), x, y)
    both("into rows", into(lambda out: out[2:8, 2:]), x, y)
    both("into every second", into(lambda out: out.view(-1)[:144:2].view(6, 12)), x, y)
    half, double, whole = x.half(), x.double(), (x * 9).int()
    for name, a, b in (
        ("half", half, half), ("half + float", half, y), ("float + half", y, half),
        ("float + double", x, double), ("int + float", whole, x),
        ("int8 + double", whole.to(torch.int8), double), ("bool + half", x > 0, half),
    ):  # fmt: skip
        both(name, add, a, b, tolerance=1e-2)
        both(f"{name} off alignment", lambda a, b: add(off_alignment(a), b), a, b, tolerance=1e-2)
    both("bool", lambda a, b: (a > 0) ^ (b > 0), torch.randn(35), torch.randn(35))
    both("where", lambda a, b: torch.where(a > 0, a.half(), b), x, y, tolerance=1e-2)
    both(
        "complex", lambda a, b: torch.view_as_real(torch.complex(a, b) * torch.complex(b, a)), x, y
    )
    both("three", lambda a, b: torch.addcmul(a[:, :1], b, b[:1], value=0.5), x, y)


def moved_elements():
    """Copies go by packs of rows, by tiles where columns become rows, or by strides."""
    for n, m in ((15, 40), (16, 16), (17, 33), (32, 64), (70, 31)):
        x = torch.randn(n, m)
        both(f"columns {n} {m}", lambda a: a.t().contiguous(), x)
        both(f"columns {n} {m} to half", lambda a: a.t().half(), x, tolerance=1e-2)
    x = torch.randn(3, 34, 20)
    both("batches", lambda a: a.transpose(1, 2).contiguous(), x)
    both("dims round", lambda a: a.permute(2, 0, 1).contiguous(), x)
    both("parts", lambda a: a[:, 1:, 1:18].transpose(1, 2).contiguous(), x)
    both(
        "into columns",
        lambda a: torch.zeros(3, 20, 34, device=a.device).transpose(1, 2).copy_(a),
        x,
    )
    both("channels_last", lambda a: a[None].contiguous(memory_format=torch.channels_last), x)
    for dtype in (torch.uint8, torch.float16, torch.float64, torch.complex128):
        moved = (x * 7).abs().to(torch.uint8).to(dtype)
        real = torch.view_as_real if dtype.is_complex else lambda a: a
        both(
            f"columns {dtype}", lambda a, r=real: r(a.detach().transpose(1, 2).contiguous()), moved
        )
        both(f"rows {dtype}", lambda a, r=real: r(a.detach()[:, :17, :16].contiguous()), moved)
        both(f"odd rows {dtype}", lambda a, r=real: r(a.detach()[:, :, 1:16].contiguous()), moved)
    y = torch.randn(5, 12)
    both("rows to half", lambda a: a[:, :8].half(), y, tolerance=1e-2)
    both("to half off alignment", lambda a: off_alignment(a).half(), y, tolerance=1e-2)
    both("half to double", lambda a: a[:, 1:7].double(), y.half())
    both("every second", lambda a: a[::2, ::3].contiguous(), y)
    both("one for many", lambda a: a[:, :1].expand(5, 9).contiguous() + 0, y)
    both("a row for many", lambda a: a[:1].expand(7, 12).contiguous() + 0, y)

    def filled(a):
        out = torch.ones(6, 8, device=a.device)
        out[:, 1:4] = 2.5
        out[::2, 5].zero_()
        out[1:3].zero_()
        return out

    both("fill", filled, y)


def packed_reductions():
    """A thread, rows of blocks or columns of blocks, whole or in parts, by packs or by elements."""
    for length in (32, 33, 36, 255, 1028):
        x = torch.randn(3, length)
        both(f"rows {length}", lambda a: a.sum(1), x, tolerance=1e-3)
        both(f"rows {length} off alignment", lambda a: off_alignment(a).sum(1), x, tolerance=1e-3)
        both(f"columns {length}", lambda a: a.t().contiguous().sum(0), x, tolerance=1e-3)
        both(f"all {length}", lambda a: a[0].sum(), x, tolerance=1e-3)
    for rows, columns in ((128, 8), (65, 132), (200, 7)):
        x = torch.randn(rows, columns)
        both(f"columns {rows} {columns}", lambda a: a.sum(0), x, tolerance=1e-3)
        both(f"of columns {rows} {columns}", lambda a: a.t().sum(1), x, tolerance=1e-3)
    for n in (32764, 32768, 65541):
        both(f"parts {n}", lambda a: a.sum(), torch.randn(n) / 100, tolerance=1e-3)
    many = torch.randn(257, 40)
    both("many rows", lambda a: a[:, :36].sum(1), many, tolerance=1e-3)
    x = torch.randn(5, 36, 40)
    for dims in (0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        both(f"dims {dims}", lambda a, d=dims: a.sum(d), x, tolerance=1e-3)
        both(f"part {dims}", lambda a, d=dims: a[:, 1:35, ::2].sum(d), x, tolerance=1e-3)
        both(f"largest {dims}", lambda a, d=dims: a.amax(d), x)
    for dim in (0, 1):
        wide = torch.randn(40, 36)
        both(f"where {dim}", lambda a, d=dim: a.detach().max(d).indices, wide)
        both(f"equal {dim}", lambda a, d=dim: (a > 0).int().max(d).indices, wide)
        both(f"var {dim}", lambda a, d=dim: a.var(d), wide)
        both(f"norm {dim}", lambda a, d=dim: a.norm(3, d), wide)
        both(f"logsumexp {dim}", lambda a, d=dim: a.logsumexp(d), wide)
        both(f"half {dim}", lambda a, d=dim: a.half().sum(d), wide, tolerance=2e-2)
        both(f"half to float {dim}", lambda a, d=dim: a.half().sum(d, dtype=torch.float32), wide,
             tolerance=2e-2)  # fmt: skip
        both(f"any {dim}", lambda a, d=dim: (a > 1.5).any(d), wide)
        both(f"bytes {dim}", lambda a, d=dim: (a > 0).to(torch.uint8).sum(d), wide)
    both("NaN", lambda a: torch.where(a > 2, float("nan"), a).amax(1), many)
    both("no elements", lambda a: a[:, :0].sum(1), many)


def packed_norms():
    """Rows of layer and RMS norm lie in registers of a warp or of a block, if they fit."""

    def close(dtype):
        return 1e-3 if dtype == torch.float32 else 3e-2

    for dtype, lengths in (
        (torch.float32, (4, 6, 132, 512, 516, 8192, 8196)), (torch.float16, (8, 264, 1032)),
        (torch.bfloat16, (8,)),
    ):  # fmt: skip
        for n in lengths:
            x = torch.randn(3, n).to(dtype)
            w, b = torch.randn(n), torch.randn(n)
            narrow = [] if dtype == torch.float32 else [(w.to(dtype), b.to(dtype))]
            for weight, bias in [(w, b), *narrow]:
                both(f"layer_norm {dtype} {n} {weight.dtype}",
                     lambda x, w, b: F.layer_norm(x, w.shape, w, b), x, weight, bias,
                     tolerance=close(dtype))  # fmt: skip
    for rows in (9, 70):  # of more than 64 the gradients of the weight are added up in parts
        x, w, b = torch.randn(rows, 132), torch.randn(132), torch.randn(132)
        both(f"rows {rows}", lambda x, w, b: F.layer_norm(x, (132,), w, b), x, w, b, tolerance=1e-3)
    for name, change in (
        ("off alignment", off_alignment), ("strided", lambda x: x[:, ::2]),
        ("parts", lambda x: x[:, 8:]), ("transposed", lambda x: x.t()[:, :8]),
    ):  # fmt: skip
        for norm in (F.layer_norm, F.rms_norm):
            both(f"{name} {norm.__name__}", lambda x, f=norm, c=change: f(c(x), c(x).shape[1:]),
                 torch.randn(9, 16), tolerance=1e-3)  # fmt: skip
    x, w, b = torch.randn(9, 16), torch.randn(16), torch.randn(16)
    both("weightless", lambda x: F.layer_norm(x, (16,)), x, tolerance=1e-3)
    both("bias alone", lambda x, b: F.layer_norm(x, (16,), None, b), x, b, tolerance=1e-3)
    both("weight alone", lambda x, w: F.layer_norm(x, (16,), w), x, w, tolerance=1e-3)
    both("two dims", lambda x, w: F.layer_norm(x, (2, 8), w.view(2, 8)), x.view(9, 2, 8), w,
         tolerance=1e-3)  # fmt: skip
    both("weight off alignment", lambda x, w, b: F.layer_norm(x, (16,), off_alignment(w), b), x, w,
         b, tolerance=1e-3)  # fmt: skip
    for n in (6, 16, 516):
        both(f"rms_norm {n}", lambda x, w: F.rms_norm(x, w.shape, w), torch.randn(70, n),
             torch.randn(n), tolerance=1e-3)  # fmt: skip
    both("rms_norm half", lambda x, w: F.rms_norm(x, (16,), w), x.half(), w.half(), tolerance=3e-2)
    both("frozen weight", lambda x, w: F.layer_norm(x, (16,), w.detach()), x, w, tolerance=1e-3)
    both("frozen input", lambda x, w: F.layer_norm(x.detach(), (16,), w), x, w, tolerance=1e-3)
    both("one group", lambda x, w: F.group_norm(x, 1, w), x, w, tolerance=1e-3)
    both("groups", lambda x, w: F.group_norm(x[:, :, None], 4, w), x, w, tolerance=1e-3)


def packed_batch_norm():
    """Channels that lie in runs, last, or neither; by packs or by elements, in parts."""

    def run(train=True, stats=True, affine=True):
        def batch_norm(x, w, b):
            c = x.shape[1]
            mean = torch.linspace(-1, 1, c, device=x.device) if stats else None
            var = torch.linspace(0.5, 2, c, device=x.device) if stats else None
            out = F.batch_norm(x, mean, var, *((w, b) if affine else ()), training=train)
            return out + (mean.sum() + var.sum() if stats else 0)

        return batch_norm

    def last(x):
        return x.contiguous(memory_format=torch.channels_last)

    def check(name, function, x, tolerance=1e-3):
        w, b = torch.randn(x.shape[1]), torch.randn(x.shape[1])
        both(name, function, x, w, b, tolerance=tolerance)

    for sizes in ((4, 8), (5, 3), (2, 3, 4), (2, 3, 5), (1, 4, 3, 3), (3, 1, 2, 2), (3, 5, 3, 7),
                  (2, 3, 2, 2, 2), (150, 8), (70, 6, 1, 2), (2, 2, 4128)):  # fmt: skip
        x = torch.randn(sizes) * 2 + 1
        check(f"batch_norm {sizes}", run(), x)
        if len(sizes) == 4:
            check(f"last {sizes}", lambda x, w, b: run()(last(x), w, b), x)
    for c in (4, 6, 8):
        x = torch.randn(20, c, 3, 3)
        check(f"last {c}", lambda x, w, b: run()(last(x), w, b), x)
        check(f"last off {c}", lambda x, w, b: run()(
            off_alignment(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), w, b), x)  # fmt: skip
    x = torch.randn(4, 8, 4, 4)
    check("off alignment", lambda x, w, b: run()(off_alignment(x), w, b), x)
    check("strided", lambda x, w, b: run()(x[:, :, ::2], w, b), x)
    check("gradient of another layout", lambda x, w, b: last(run()(x, w, b)) * 2, x)
    check("gradient in rows", lambda x, w, b: run()(last(x), w, b).contiguous() * 2, x)
    check("expanded gradient", lambda x, w, b: run()(x, w, b).sum(), x)
    for name, options in (("eval", {"train": False}), ("no statistics", {"stats": False}),
                          ("no weight", {"affine": False})):  # fmt: skip
        check(name, run(**options), x)
        check(f"{name} last", lambda x, w, b, o=options: run(**o)(last(x), w, b), x)
    for dtype in (torch.float16, torch.bfloat16):
        for name, layout in (("runs", lambda x: x), ("last", last)):
            check(f"{name} {dtype}", lambda x, w, b, f=layout, d=dtype: run(stats=False)(
                f(x).to(d), w, b).float(), x, 5e-2)  # fmt: skip


def packed_softmax():
    """Lines lie in registers where they fit and begin at multiples of 16 bytes."""
    ways = (torch.softmax, torch.log_softmax)
    for way in ways:
        for n in (4, 7, 132, 512, 516, 8192, 8196):
            both(f"{way.__name__} {n}", lambda x, f=way: f(x, 1), torch.randn(3, n) * 3)
        both("off alignment", lambda x, f=way: f(off_alignment(x), 1), torch.randn(3, 8))
        both("parts", lambda x, f=way: f(x[:, 8:], 1), torch.randn(9, 24))
        both("many dims", lambda x, f=way: f(x[:, 1:].transpose(0, 1), 2), torch.randn(3, 4, 8))
        for dim in (0, 1):
            both(f"dim {dim}", lambda x, f=way, d=dim: f(x, d), torch.randn(3, 8, 5))
        both("half", lambda x, f=way: f(x, 1), torch.randn(3, 264).half(), tolerance=1e-2)
        both("half to float", lambda x, f=way: f(x, 1, dtype=torch.float32),
             torch.randn(3, 264).half(), tolerance=1e-2)  # fmt: skip
        both("large", lambda x, f=way: f(x * 1e4, 1), torch.randn(3, 8), tolerance=1e-3)
    blind = torch.randn(3, 8)
    blind[0, 2:] = -float("inf")
    blind[1] = -float("inf")
    both("-inf", lambda x: x.softmax(1), blind)
    both("inf", lambda x: (-x).log_softmax(1), blind)


def entropies():
    """Scores are read once, several ahead: classes about 4 and 1024, of any strides."""
    for classes in (1, 3, 33, 128, 1023, 1029):
        x = torch.randn(4, classes) * 4
        targets = [0, classes - 1, classes // 2, 0]
        weights = torch.rand(classes)
        for name, options in (
            ("", {}), ("smooth", {"label_smoothing": 0.2}), ("ignored", {"ignore_index": 0}),
            ("sum", {"reduction": "sum"}),
        ):  # fmt: skip
            both(f"{name} {classes}", lambda x, o=options, t=targets: F.cross_entropy(
                x, at(x, t), **o), x, tolerance=1e-3)  # fmt: skip
        both(f"weighted {classes}", lambda x, w, t=targets: F.cross_entropy(
            x, at(x, t), w.detach(), label_smoothing=0.1, reduction="none"),
             x, weights)  # fmt: skip
    x, t = torch.randn(2, 5, 3, 4), (torch.arange(24) % 5).view(2, 3, 4)
    for name, layout in (
        ("images", lambda x: x), ("strided", lambda x: x[:, :, ::2]),
        ("last", lambda x: x.contiguous(memory_format=torch.channels_last)),
        ("turned", lambda x: x.transpose(0, 1)[:2]), ("off alignment", off_alignment),
    ):  # fmt: skip

        def images(x, f=layout, **options):
            scores = f(x)
            target = t.to(x.device)[:, : scores.shape[2], : scores.shape[3]] % scores.shape[1]
            return F.cross_entropy(scores, target, ignore_index=2, **options)

        both(name, images, x)
        both(f"{name} each", lambda x, f=images: f(x, reduction="none", label_smoothing=0.1), x)
    x = torch.randn(3, 12)
    for dtype in (torch.float16, torch.float64):
        both(f"{dtype}", lambda x, d=dtype: F.cross_entropy(x.to(d), at(x, [1, 0, 11])).float(), x,
             tolerance=1e-2)  # fmt: skip
    both("targets of another kind", lambda x: F.cross_entropy(x, x.detach().softmax(1)), x)
    both("all ignored", lambda x: F.cross_entropy(x, at(x, [4, 4, 4]), ignore_index=4), x)
    both("one sample", lambda x: F.cross_entropy(x[0], at(x, 3)), x)
    both("no sample", lambda x: F.cross_entropy(x[:0], at(x, [1])[:0], reduction="sum"), x)
    gaps = x.clone()
    gaps[0, 3:9] = -float("inf")
    gaps[1, 1:] = -float("inf")
    both("-inf", lambda x: F.cross_entropy(x, at(x, [1, 0, 11]), reduction="none"), gaps)
    gaps[2, 5] = float("nan")
    both("NaN", lambda x: F.cross_entropy(x, at(x, [1, 0, 11]), reduction="none"), gaps)


def selected_rows():
    """Rows move in elements of up to 16 bytes, as their address and length allow."""
    for n in (1, 2, 4, 6, 12):
        x = torch.randn(5, n)
        both(f"rows {n}", lambda x: x.index_select(0, at(x, [4, 0, 0])), x)
        both(
            f"rows {n} off alignment", lambda x: off_alignment(x).index_select(0, at(x, [4, 1])), x
        )
        both(f"embedding {n}", lambda x: F.embedding(at(x, [[4, 0], [1, 4]]), x), x)
    x = torch.randn(3, 4, 6)
    for dim in (0, 1, 2):
        both(f"dim {dim}", lambda x, d=dim: x.index_select(d, at(x, [2, 0, 2])), x)
        both(f"turned {dim}", lambda x, d=dim: x.transpose(0, 2).index_select(d, at(x, [2, 1])), x)
        both(f"no index {dim}", lambda x, d=dim: x.index_select(d, at(x, [0])[:0]), x)
    both("int32", lambda x: x.index_select(1, at(x, [3, 1]).int()), x)
    both("strided index", lambda x: x.index_select(1, at(x, [3, 1, 0, 2])[::2]), x)
    both("a number", lambda x: x[0, 0].index_select(0, at(x, 3)), x)
    both("0-d", lambda x: x[0, 0, 0].index_select(0, at(x, [0])), x)
    for dtype in (torch.bool, torch.int8, torch.float16, torch.float64):
        both(f"{dtype}", lambda x: x.index_select(0, at(x, [2, 2, 0])), (x * 9).to(dtype))
        both(
            f"odd {dtype}", lambda x: x.index_select(0, at(x, [1, 0])), (x[:, 0, :5] * 9).to(dtype)
        )
    both("columns of a table", lambda w: F.embedding(at(w, [1, 0]), w.t()), torch.randn(4, 3))
    both("frequency", lambda w: F.embedding(
        at(w, [1, 2, 1]), w, padding_idx=2, scale_grad_by_freq=True),
        torch.randn(4, 6))  # fmt: skip


def flash_attention():
    """16-bit floats attend on tensor cores where rows are packs, others elsewhere."""
    attend = F.scaled_dot_product_attention

    def check(name, function, *inputs):
        both(name, lambda *given: function(*given).float(), *inputs, tolerance=3e-2)

    def heads(queries, keys, width, value_width=None, dtype=torch.float16):
        sizes = ((2, queries, width), (2, keys, width), (2, keys, value_width or width))
        return [(torch.randn(1, *s) / 2).to(dtype) for s in sizes]

    for queries, keys, width in (
        (1, 1, 8), (64, 64, 64), (65, 63, 64), (63, 129, 72), (33, 65, 128), (5, 70, 136),
        (9, 20, 12),
    ):  # fmt: skip
        qkv = heads(queries, keys, width)
        check(f"plain {queries} {keys} {width}", attend, *qkv)
        check(f"causal {queries} {keys} {width}",
              lambda q, k, v: attend(q, k, v, is_causal=True), *qkv)  # fmt: skip
    check("widths", attend, *heads(20, 40, 24, 104))
    check("narrow values", attend, *heads(20, 40, 80, 16))
    qkv = heads(66, 70, 32, dtype=torch.bfloat16)
    allowed = torch.randn(66, 70) > 0
    allowed[3] = False  # a query that attends to nothing
    check("mask", lambda q, k, v: attend(q, k, v, allowed.to(q.device), scale=0.4), *qkv)
    added = torch.randn(1, 1, 66, 70).bfloat16()
    check("added", lambda q, k, v: attend(q, k, v, added.to(q.device)), *qkv)
    for name, change in (
        ("off alignment", off_alignment),
        ("strided", lambda x: x.repeat_interleave(2, 3)[..., ::2]),
        ("turned", lambda x: x.transpose(1, 2).contiguous().transpose(1, 2)),
        ("parts", lambda x: torch.cat([x, x], 3)[..., 32:]),
        ("odd parts", lambda x: torch.cat([x, x], 3)[..., 3:35]),
    ):  # fmt: skip
        check(name, lambda q, k, v, c=change: attend(c(q), k, c(v)), *qkv)
    check("one of them", lambda q, k, v: attend(q.float(), k.float(), v.float()), *qkv)
    check("no keys", lambda q, k, v: attend(q, k[:, :, :0], v[:, :, :0]), *qkv)

    def dropped(q, k, v):
        """The weights that stay, by their sum: those of ones are 1 on average."""
        torch.manual_seed(5)
        out = attend(q, k, torch.ones_like(v), dropout_p=0.25)
        torch.manual_seed(5)
        again = attend(q, k, torch.ones_like(v), dropout_p=0.25)
        return ((out.float().mean() - 1).abs() < 0.03) & (out == again).all()

    check("dropout", dropped, *heads(70, 130, 16))


def recurrent_steps():
    """One kernel for all steps up to a size, a product for each from there on."""

    def check(kind, size, dtype=torch.float32, states=False, batch=3, tolerance=1e-3, **options):
        torch.manual_seed(size)
        module = getattr(torch.nn, kind)
        state = module(5, size, **options).to(dtype).state_dict()
        ways = 2 if options.get("bidirectional") else 1
        x = torch.randn(4, batch, 5).to(dtype)
        widths = [options.get("proj_size", 0) or size, *([size] if kind == "LSTM" else [])]
        first = [torch.randn(ways, batch, n).to(dtype) for n in widths if states]

        def run(x, *given):
            layer = module(5, size, **options).to(x.device, dtype)
            before = given[len(state) :]
            before = before if len(before) == 2 else before[0] if before else None
            inputs = (x, before) if states else (x,)
            parameters = dict(zip(state, given))
            out, last = torch.func.functional_call(layer, parameters, inputs)
            last = last if isinstance(last, tuple) else (last,)
            return torch.cat([out.flatten(), *(part.flatten() for part in last)]).double()

        name = f"{kind} {size} {dtype} {options} {'states' if states else ''}"
        both(name, run, x, *state.values(), *first, tolerance=tolerance)

    for size in (31, 33, 128, 129):
        check("LSTM", size, states=True)
    for size in (32, 65, 130):
        check("GRU", size, states=True)
    check("RNN", 64, states=True, nonlinearity="relu")
    check("RNN", 3)
    for kind in ("LSTM", "GRU"):
        check(kind, 64, torch.float64, states=True)
        check(kind, 65, torch.float64)
        check(kind, 6, states=True, bidirectional=True)
        check(kind, 6, batch_first=True, states=False)
        for dtype in (torch.float16, torch.bfloat16):
            check(kind, 8, dtype, states=True, tolerance=5e-2)
    check("LSTM", 8, states=True, proj_size=3)
    check("LSTM", 8, proj_size=3, bidirectional=True)
    check("LSTM", 8, batch=1)
    packed_sequences()


def packed_sequences():
    lengths = torch.tensor([4, 2, 2, 1])
    for kind in ("LSTM", "GRU"):
        layer = getattr(torch.nn, kind)(5, 6, bidirectional=True)

        def run(x, layer=layer):
            given = torch.nn.utils.rnn.pack_padded_sequence(x, lengths)
            state = {name: p.to(x.device) for name, p in layer.state_dict().items()}
            out, last = torch.func.functional_call(layer, state, (given,))
            return out.data.sum(0) + (last[0] if isinstance(last, tuple) else last).sum()

        both(f"packed {kind}", run, torch.randn(4, 4, 5), tolerance=1e-3)


def philox_words(seed, offset, count):
    """The random words of `count` packs of four: Philox4x32 with 10 rounds."""
    words = []
    for place in range(count):
        c, keys = [offset, 0, place, 0], [seed & 0xFFFFFFFF, seed >> 32]
        for _ in range(10):
            a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [b >> 32 ^ c[1] ^ keys[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ keys[1], a & 0xFFFFFFFF]
            keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
        words += c
    return words


def random_packs():
    """Numbers come from the seed, the draws before and their place alone: those of the recipe."""
    n, seed = 1003, 12345
    places = (n + 3) // 4
    first, second = (philox_words(seed, offset, places)[:n] for offset in (0, 1))
    torch.manual_seed(seed)
    uniform, chosen = torch.rand(n, device="cuda"), torch.randint(0, 100, (n,), device="cuda")
    expected = torch.tensor([w * 2.0**-32 + 2.0**-33 for w in first], dtype=torch.float64)
    compare("uniform", torch.where(expected.float() == 1, 0, expected).float(), uniform, 1e-7)
    compare("integers", torch.tensor([w % 100 for w in second]), chosen, 0)

    def again(draw, into):
        torch.manual_seed(seed)
        return draw(into)

    for dtype, name, draw in (
        (torch.float32, "normal", lambda x: x.normal_()),
        (torch.float32, "bernoulli", lambda x: x.bernoulli_(0.3)),
        (torch.float64, "exponential", lambda x: x.exponential_()),
        (torch.float16, "uniform", lambda x: x.uniform_()),
        (torch.int64, "integers", lambda x: x.random_()),
    ):
        expected = again(draw, torch.zeros(n, dtype=dtype, device="cuda")).cpu()
        for how, into in (
            ("of more", torch.zeros(40 * n, dtype=dtype, device="cuda")),
            ("off alignment", torch.zeros(n + 1, dtype=dtype, device="cuda")[1:]),
            ("strided", torch.zeros(59, 34, dtype=dtype, device="cuda")[:, ::2]),
        ):
            compare(f"{name} {how}", expected, again(draw, into).flatten()[:n], 0)
    kept = torch.tensor([(w * 2.0**-32 + 2.0**-33) <= 0.75 for w in first])
    dropped = again(lambda x: F.dropout(x, 0.25), torch.ones(n, device="cuda"))
    compare("dropout", kept / 0.75, dropped, 1e-6)
    for dtype in (torch.float32, torch.float16, torch.float64):
        x = torch.randn(4, 6, 8).to(dtype).cuda()
        for how, change in (
            ("whole", lambda x: x), ("off alignment", off_alignment),
            ("odd", lambda x: x[0, :, 1:]), ("columns", lambda x: x.transpose(0, 2)),
            ("a number", lambda x: x[0, 0, 0]),
            ("repeated", lambda x: x[:1].expand(5, 6, 8)),
        ):  # fmt: skip
            dropped_as_drawn(f"dropout {dtype} {how}", change(x), again)


def dropped_as_drawn(name, x, again):
    """Dropout keeps what bernoulli_ draws, in the order of memory, and so does its gradient."""
    x = x.detach().requires_grad_()
    out = again(lambda x: F.dropout(x, 0.3), x)
    kept = again(lambda x: x.bernoulli_(0.7), torch.empty_like(x).detach())
    if not kept.is_contiguous():
        kept = (out.detach() != 0).to(x.dtype)
    slope = torch.linspace(-1, 1, x.numel(), device="cuda").to(x.dtype).view(x.shape)
    (grad,) = torch.autograd.grad(out, x, slope)
    again(lambda x: F.dropout(x, 0.3, inplace=True), own := x.detach().clone())
    close = 2e-3 if x.dtype == torch.float16 else 1e-6
    compare(name, (x * kept / 0.7).cpu(), out, close)
    compare(f"{name} gradient", (slope * kept / 0.7).cpu(), grad, close)
    compare(f"{name} in place", out.cpu(), own, 0)


def of_parts(x):
    """As real numbers, which can be compared."""
    return torch.view_as_real(x.resolve_conj()) if x.is_complex() else x


def lazy_views():
    """Conjugate and negative views: whatever reads them, or writes into what they show."""
    global agreed
    views = {
        "conj": lambda z: z.conj(), "turned": lambda z: z.mH, "part": lambda z: z.conj()[1:, ::2],
        "imag": lambda z: z.conj().imag, "real": lambda z: z.conj().real,
        "neg": lambda z: torch._neg_view(z), "neg conj": lambda z: torch._neg_view(z.conj()),
        "column": lambda z: z.conj()[:, 1:2], "repeated": lambda z: z[:1].conj().expand(3, 4),
    }  # fmt: skip
    uses = {
        "clone": lambda v: v.clone(), "cpu": lambda v: v.cpu().to(v.device),
        "contiguous": lambda v: v.contiguous(), "arithmetic": lambda v: v * 2 + 1,
        "mixed": lambda v: v + v.detach().clone() * v.mT.sum(), "sum": lambda v: v.sum(1),
        "matmul": lambda v: v @ v.mT, "hermitian": lambda v: v @ v.mH, "mv": lambda v: v @ v[0],
        "cat": lambda v: torch.cat([v, v * 2, v]), "stack": lambda v: torch.stack([v, v]),
        "rows": lambda v: v[at(v, [1, 0, 1])], "mask": lambda v: v[v.abs() > 0.5],
        "index_select": lambda v: v.index_select(0, at(v, [1])), "abs": lambda v: v.abs(),
        "flip": lambda v: v.flip(0), "largest": lambda v: v.abs().argmax(),
        "wide": lambda v: v.to(torch.complex128 if v.is_complex() else torch.float64),
        "copied": lambda v: torch.zeros_like(v).copy_(v), "twice": lambda v: v.conj().clone(),
        "reshape": lambda v: v.reshape(-1), "roll": lambda v: v.roll(1, 0),
        "values": lambda v: torch.tensor(v.tolist(), device=v.device),
        "item": lambda v: torch.tensor(v[1, 0].item(), device=v.device),
        "numpy": lambda v: torch.as_tensor(v.numpy(force=True)).to(v.device),
        "equal": lambda v: torch.tensor(torch.equal(v, v.clone()), device=v.device),
        "bits": lambda v: torch.tensor([v.is_conj(), v.is_neg()], device=v.device),
        "copy": lambda v: copy.deepcopy(v.detach()),
    }  # fmt: skip
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    for view, seen in views.items():
        for use, read in uses.items():

            def run(a, b, seen=seen, read=read):
                return of_parts(read(seen(torch.complex(a, b))))

            both(f"{use} of {view}", run, a, b)
        shown = [
            str(seen(torch.complex(a, b).to(device))).split("device=")[0].rstrip(" ,)\n")
            for device in ("cpu", "cuda")
        ]
        if shown[0] == shown[1]:
            agreed += 1
        else:
            print(f"text of {view}: {shown}")
    for dtype in (torch.float16, torch.float64, torch.int64, torch.uint8):
        x = (a * 9).to(dtype) if dtype.is_floating_point else (a * 9).abs().to(dtype)
        both(f"negative {dtype}", lambda x: torch._neg_view(x) + 1, x, tolerance=1e-2)
    written_views(a, b)


def written_views(a, b):
    def into_conj(a, b):
        z = torch.complex(a, b).detach()
        v = z.conj()
        v.mul_(2 + 1j)
        v[0] = 3 - 1j
        v[1:, 2] += 1j
        v.t()[3].copy_(v[:, 0])
        v.imag.add_(1)
        v[at(v, [1, 2]), at(v, [0, 1])] = at(v, [1j, 2.0])
        torch.add(v, v, out=v)
        z[0].copy_(v[1])
        v.index_add_(0, at(v, [0]), v[1:2].clone())
        return torch.view_as_real(z)

    def into_neg(a, b):
        x = a.detach().clone()
        v = torch._neg_view(x)
        v.add_(b.detach())
        v[0, 1:3] = 5
        v[v > 0] = 2
        v[:, 3].fill_(7)
        v[1:].clamp_(-1, 1)
        x[2].copy_(v[1])
        v.t()[0].mul_(x[:, 1])
        return x

    def own(a, b):
        z = torch.complex(a, b).detach()
        z.copy_(z.conj())
        z.add_(z.conj()[0])
        return torch.view_as_real(z)

    both("writing to a conjugate", into_conj, a, b)
    both("writing to a negative", into_neg, a, b)
    both("its own conjugate", own, a, b)
    both("no elements", lambda a, b: of_parts(torch.complex(a, b)[:0].conj() * 2), a, b)


def grouped_products():
    """With rows of integers of 8 or 4 bits that have a scale for each group."""
    for rows, columns, terms, groups in (
        (0, 3, 32, 1), (1, 3, 32, 1), (5, 7, 192, 3), (8, 4, 64, 2), (32, 2, 96, 1),
        (33, 9, 128, 4),
    ):  # fmt: skip
        x, scales = torch.randn(rows, terms), torch.rand(columns, groups)
        for dtype, width in ((torch.int8, terms), (torch.uint8, terms // 2)):
            integers = (torch.randn(columns, width) * 100).long().to(dtype)
            for name, change in (("", lambda x: x), ("off alignment", off_alignment)):
                both(f"{dtype} {rows} {columns} {terms} {name}", lambda x, i, s, c=change: (
                    torch._group_mm(x.detach(), c(i), s.detach())), x, integers, scales,
                    tolerance=1e-3)  # fmt: skip
            if rows:
                both(f"strided {dtype}", lambda x, i, s: torch._group_mm(
                    x.detach().t().contiguous().t(), i, s.detach()), x, integers, scales,
                    tolerance=1e-3)  # fmt: skip


GROUPS = {f.__name__: f for f in (
    elementwise, formulas, reductions, more_reductions, losses, more_losses, products,
    more_products, images, convolutions, cudnn_switches, more_images, norms, indexing, order,
    long_orders, long_scans, resampling, distances, tables, transforms, recurrent_layers,
    attention, attention_dropout, cublas_products,
    placement, matrices, distinct, host_elements, optimizers, random_numbers, dropout,
    training, mixed_precision, saving, quickstart,
    rows_of_elements, moved_elements, packed_reductions, packed_norms, packed_batch_norm,
    packed_softmax, entropies, selected_rows, flash_attention, recurrent_steps, random_packs,
    lazy_views, grouped_products,
)}  # fmt: skip

if __name__ == "__main__":
    torch.backends.cudnn.allow_tf32 = False
    for group in sys.argv[1:]:
        torch.manual_seed(0)
        GROUPS[group]()
    print(f"{agreed} agreed")
