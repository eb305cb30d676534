"""Operations on "cuda" beside the same on the CPU, forward and backward: `python kernels.py GROUP`.

Prints a line for each that differs, and how many agreed.
"""

import os
import sys

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

                def run(*operands, options=options, dtype=dtype, gqa=shares):
                    device = operands[0].device
                    given = {k: v.to(device) if k == "attn_mask" else v for k, v in options.items()}
                    narrow = (x.to(dtype) for x in operands)
                    out = F.scaled_dot_product_attention(*narrow, enable_gqa=gqa, **given)
                    return out.double()

                both(f"{name} {query} {dtype}", run, q, k, v, tolerance=close)
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
        curves.append(torch.tensor(example.first_losses(model, loader, optimizer, device, 4)))
    compare("quickstart", *curves, 1e-3)


GROUPS = {f.__name__: f for f in (
    elementwise, formulas, reductions, more_reductions, losses, more_losses, products,
    more_products, images, more_images, norms, indexing, order, long_orders, long_scans,
    resampling, distances, tables, transforms, recurrent_layers, attention, attention_dropout,
    cublas_products,
    placement, matrices, distinct, host_elements, optimizers, random_numbers,
    training, mixed_precision, saving, quickstart,
)}  # fmt: skip

if __name__ == "__main__":
    for group in sys.argv[1:]:
        torch.manual_seed(0)
        GROUPS[group]()
    print(f"{agreed} agreed")
