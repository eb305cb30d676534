"""Kernels one by one beside torch, grouped by what they do.

    python -m bench.kernels [--only TEXT] [--group NAME] [--below RATIO] [--rounds N]
                            [--threads N] [--json FILE]

After each group stands the geometric mean; at the end, the promises not kept and the rows below a
ratio.
"""

from bench import report
from bench.timing import Row, time_row

NO_GRAD = "T.set_grad_enabled(False); F = T.nn.functional; "
GRAD = "T.set_grad_enabled(True); F = T.nn.functional; "


def forward(name, statement, setup="", target=None):
    return Row(name, statement, NO_GRAD + setup, target=target)


def backward(name, output, setup, inputs="x", target=None):
    """The backward pass alone: gradients of `output` by `inputs`, the graph kept."""
    needs = f"[t.requires_grad_() for t in [{inputs}]]"
    setup = f"{GRAD}{setup.rstrip('; ')}; {needs}; y = {output}; g = T.randn_like(y)"
    return Row(name + ", backward", f"T.autograd.grad(y, [{inputs}], g, retain_graph=True)", setup,
               target=target)


def both(name, output, setup, inputs="x", target=None):
    return [forward(name, output, setup, target), backward(name, output, setup, inputs, target)]


FLOATS = "n = 1 << 20; a = T.rand(n) + 0.5; b = T.rand(n) + 0.5; m = a > 1.0; "
SIGNED = "x = T.randn(1 << 20); "
MATRIX = "x = T.randn(1024, 1024); "
IMAGES = "x = T.randn(4, 64, 56, 56); "
# How many, of what size: any, positive definite ones, lower triangles; right sides.
MATRICES = ("a = T.randn({0}, {1}, {1}) + {1} * T.eye({1}); s = a @ a.mT + T.eye({1});"
            " t = T.linalg.cholesky(s); b = T.randn({0}, {1}, {1}); v = T.randn({0}, {1}, 1)")

ELEMENTWISE = [
    *(forward(f"{op}, 1 M", f"T.{op}(a)", FLOATS) for op in
      ("exp", "log", "tanh", "sigmoid", "sin", "cos", "atan", "exp2", "log2", "log1p", "sqrt",
       "rsqrt", "erf", "erfc", "lgamma", "digamma", "asin", "tan", "abs", "floor", "relu")),
    *(forward(f"{op}, 1 M", op, FLOATS) for op in
      ("a + b", "a * b", "a / b", "a ** b", "a ** 2", "a > b", "T.maximum(a, b)", "a + 1.5",
       "F.gelu(a)", "F.silu(a)", "T.clamp(a, 0.6, 0.9)", "T.lerp(a, b, 0.3)",
       "T.addcmul(a, a, b)", "a ** 3", "a % b", "a == b", "T.where(m, a, 0.0)", "~m",
       "a.to(T.float64)", "a.int()", "a.half()")),
    *(forward(f"{op}, 1 M", op, FLOATS) for op in ("T.polygamma(1, a)", "T.igamma(a, b)")),
    *(forward(f"{op}, 1 M", op, SIGNED) for op in
      ("F.softplus(x)", "F.mish(x)", "F.leaky_relu(x)", "F.elu(x)", "F.hardswish(x)",
       "F.gelu(x, approximate='tanh')")),
    *(backward(f"{op}, 1 M", op, SIGNED) for op in
      ("T.tanh(x)", "T.sigmoid(x)", "F.silu(x)", "F.relu(x)", "F.gelu(x)")),
    *(forward(f"{dtype} a + b, 1 M", "a + b",
              f"a = (T.rand(1 << 20) * 99).to(T.{dtype}); b = a.flip(0)")
      for dtype in ("bfloat16", "float16", "float64", "int32", "uint8", "complex64")),
    *(forward(f"float64 {op}, 1 M", f"T.{op}(a)", "a = T.rand(1 << 20, dtype=T.float64) + 0.5")
      for op in ("exp", "log", "sin", "tan", "atan", "tanh", "erf", "erfc", "lgamma")),
    *(forward(f"float64 {op}, 1 M", op, "x = T.randn(1 << 20, dtype=T.float64); a = x.abs() + 0.5")
      for op in ("a ** x", "x % a", "T.atan2(x, a)", "F.gelu(x)")),
    *(forward(f"{dtype} {op}, 1 M", op, f"x = T.randn(1 << 20).to(T.{dtype})")
      for dtype in ("bfloat16", "float16") for op in ("F.gelu(x)", "F.silu(x)", "T.exp(x)")),
    *(forward(f"{dtype} {op}, 1 M", op, f"x = T.randn(1 << 20).to(T.{dtype})")
      for dtype in ("bfloat16", "float16") for op in ("-x", "F.relu(x)", "x.fill_(1.5)")),
    *(forward(f"{dtype} {op}, 1 M", op,
              f"a = T.randint(0, 100, (1 << 20,), dtype=T.{dtype}); b = a % 7 + 1")
      for dtype in ("int64", "int32", "uint8")
      for op in ("a // b", "a % b", "a // 7", "a << b", "a >> b", "a & b", "a == b", "T.abs(a)",
                 "T.clamp(a, 3, 50)")),
    forward("logical_not of bool, 1 M", "T.logical_not(m)", FLOATS),
    *(forward(f"{dtype} bessel_{kind}, 256 K", f"T.special.bessel_{kind}(x)",
              f"x = T.rand(1 << 18, dtype=T.{dtype}) * 50")
      for dtype in ("float32", "float64") for kind in ("j0", "j1", "y0", "y1")),
    *(forward(f"rows of {n} + {what}", "x + y", f"x = T.randn(1 << 17, {n}); y = T.randn({sizes})")
      for n, what, sizes in ((3, "row", "3"), (8, "column", "1 << 17, 1"))),
    forward("a.add_(b), 1 M", "a.add_(b)", FLOATS),
    forward("a.lt_(b), 1 M", "a.lt_(b)", FLOATS),
    forward("x.t().square_()", "y.square_()", "y = T.ones(1024, 1024).t()"),
    *(forward(f"complex64 {op}, 256 K", op, "x = T.randn(1 << 18, dtype=T.complex64)")
      for op in ("x.conj() + x", "x.conj().resolve_conj()", "x.conj_physical()")),
    forward("a + b, 1 K", "a + b", "a, b = T.randn(1024), T.randn(1024)"),
    forward("a + b, 64 K", "a + b", "a, b = T.randn(65536), T.randn(65536)"),
    forward("a + b, 64 MB results", "a + b", "a, b = T.randn(1 << 24), T.randn(1 << 24)", 2.5),
    forward("exp, 64 MB results", "T.exp(a)", "a = T.randn(1 << 24)", 2.5),
    forward("x + row", "x + r", MATRIX + "r = T.randn(1024)"),
    forward("x + column", "x + c", MATRIX + "c = T.randn(1024, 1)"),
    forward("x + x.t()", "x + x.t()", MATRIX),
    forward("int64 a + b, 1 M", "a + b", "a = T.arange(1 << 20); b = T.arange(1 << 20)"),
]
MEMORY = [
    forward("zeros, 16 MB", "T.zeros(1 << 22)", "", 3),
    forward("ones, 1 MB", "T.ones(1 << 18)"),
    forward("fill_, 4 MB", "x.fill_(1.5)", MATRIX),
    forward("arange of 1 M floats", "T.arange(0.0, n)", "n = 1 << 20"),
    forward("linspace, 1 M", "T.linspace(0, 1, 1 << 20)"),
    forward("clone, 4 MB", "a.clone()", FLOATS),
    forward("clone, 64 MB", "a.clone()", "a = T.randn(1 << 24)"),
    forward("x.t().contiguous()", "x.t().contiguous()", MATRIX, 3),
    forward("x.permute(0, 2, 3, 1).contiguous()", "x.permute(0, 2, 3, 1).contiguous()", IMAGES, 3),
    forward("int64 x.t().contiguous()", "x.t().contiguous()", MATRIX + "x = x.long()", 3),
    forward("pictures to channels first", "x.permute(0, 3, 1, 2).contiguous()",
            "x = T.ones(8, 224, 224, 3, dtype=T.uint8)"),
    forward("heads before positions", "x.transpose(1, 2).contiguous()",
            "x = T.randn(8, 128, 8, 64)"),
    forward("cat of 4 along 0", "T.cat([x, x, x, x])", MATRIX),
    forward("cat of 4 along 1", "T.cat([x, x, x, x], 1)", MATRIX),
    forward("stack of 4", "T.stack([x, x, x, x])", MATRIX),
    forward("x[:, ::2].contiguous()", "x[:, ::2].contiguous()", MATRIX),
    forward("x.repeat(2, 2)", "x.repeat(2, 2)", MATRIX),
    forward("x.repeat_interleave(2, 1)", "x.repeat_interleave(2, 1)", MATRIX),
    forward("x.flip(1)", "x.flip(1)", MATRIX),
    forward("x.rot90()", "x.rot90()", MATRIX),
    forward("x.roll(3, 1)", "x.roll(3, 1)", MATRIX),
    forward("tril", "x.tril()", MATRIX),
]
REDUCTIONS = [
    *(forward(f"{op} of 1 M", f"a.{op}()", FLOATS) for op in
      ("sum", "mean", "max", "argmax", "prod", "norm")),
    forward("var of 1 M", "a.var()", FLOATS, 3),
    forward("std of 1 M", "a.std()", FLOATS, 3),
    *(forward(f"{op}({d})", f"x.{op}({d})", MATRIX) for op in ("sum", "mean", "amax", "argmax")
      for d in (0, 1)),
    forward("max(0) with indices", "x.max(0)", MATRIX, 3),
    forward("max(1) with indices", "x.max(1)", MATRIX, 3),
    forward("var(0)", "x.var(0)", MATRIX, 3),
    forward("var(1)", "x.var(1)", MATRIX, 3),
    forward("sum((0, 2, 3))", "x.sum((0, 2, 3))", IMAGES),
    forward("mean((2, 3))", "x.mean((2, 3))", IMAGES),
    forward("logsumexp(1)", "x.logsumexp(1)", MATRIX),
    *(forward(f"trapezoid({d})", f"T.trapezoid(x, dx=0.1, dim={d})", MATRIX) for d in (0, 1)),
    forward("cumsum(0)", "x.cumsum(0)", MATRIX, 3),
    forward("cumsum(1)", "x.cumsum(1)", MATRIX),
    forward("cumprod(1)", "x.cumprod(1)", MATRIX),
    forward("cummax(0)", "x.cummax(0)", MATRIX),
    forward("cummax(1)", "x.cummax(1)", MATRIX),
    forward("logsumexp(0)", "x.logsumexp(0)", MATRIX),
    forward("logcumsumexp(1)", "x.logcumsumexp(1)", MATRIX),
    forward("std((0, 2, 3))", "x.std((0, 2, 3))", IMAGES),
    *(backward(f"{op}({d})", f"x.{op}({d})", MATRIX)
      for op in ("sum", "mean", "amax", "var", "logsumexp", "cumsum") for d in (0, 1)),
    backward("norm(dim=1)", "x.norm(dim=1)", MATRIX),
    forward("norm(dim=0)", "x.norm(dim=0)", MATRIX),
    forward("norm(dim=1)", "x.norm(dim=1)", MATRIX),
    forward("norm(p=1)", "a.norm(p=1)", FLOATS),
    forward("nansum(1)", "x.nansum(1)", MATRIX),
    forward("nanmean(1)", "x.nanmean(1)", MATRIX),
    forward("aminmax of 1 M", "a.aminmax()", FLOATS),
    forward("all(0) of bool", "m.all(0)", MATRIX + "m = x < 9"),
    forward("any(1) of bool", "m.any(1)", MATRIX + "m = x > 9"),
    forward("sum(0) of bool", "m.sum(0)", MATRIX + "m = x > 1"),
    forward("sum(1) of bool", "m.sum(1)", MATRIX + "m = x > 1"),
    forward("sum of int64", "i.sum()", "i = T.randint(0, 100, (1 << 20,))"),
    forward("sum(0) of int64", "i.sum(0)", "i = T.randint(0, 100, (1024, 1024))"),
    forward("sum of int32", "i.sum()", "i = T.randint(0, 100, (1 << 20,), dtype=T.int32)"),
    *(forward(f"{op} of {dtype}", f"x.{op}", MATRIX + f"x = x.to(T.{dtype})")
      for dtype in ("float16", "bfloat16") for op in ("sum()", "sum(0)", "sum(1)", "amax(1)")),
    *(forward(f"{op} of 100,000 rows of 10", f"x.{op}(1)", "x = T.randn(100000, 10)") for op in
      ("sum", "amax", "argmax", "var", "logsumexp")),
    *(forward(f"{op} of 300,000 rows of 3", f"x.{op}(1)", "x = T.randn(300000, 3)") for op in
      ("sum", "argmax", "any")),
    *both("cumsum of 300,000 rows of 3", "x.cumsum(1)", "x = T.randn(300000, 3)"),
    forward("amax(1) of bfloat16 rows of 3", "x.amax(1)", "x = T.randn(300000, 3).bfloat16()"),
    forward("sum((0, 2)) of 100 x 100 x 100", "x.sum((0, 2))", "x = T.randn(100, 100, 100)"),
    forward("cummin(1)", "x.cummin(1)", MATRIX),
    forward("any of bool", "m.any()", FLOATS + "m = a > 9"),
    forward("count of bool", "m.sum()", FLOATS),
]
SOFTMAX = [
    *both("softmax(1), 1024 x 1024", "x.softmax(1)", MATRIX, target=1.1),
    *both("softmax(0), 1024 x 1024", "x.softmax(0)", MATRIX, target=1.1),
    *both("softmax(1), 64 x 50000", "x.softmax(1)", "x = T.randn(64, 50000)", target=1.1),
    *both("log_softmax(1), 1024 x 1024", "x.log_softmax(1)", MATRIX, target=1.1),
    *both("softmin(1), 1024 x 1024", "F.softmin(x, 1)", MATRIX, target=1.1),
    forward("softmax(0) of channels_last", "x.softmax(0)",
            "x = T.randn(8, 32, 32, 32).to(memory_format=T.channels_last)"),
]
NORMS = [
    *both("layer_norm, 1024 x 1024", "F.layer_norm(x, (1024,), w, b)",
          MATRIX + "w = T.ones(1024); b = T.zeros(1024)", "x, w, b", 1.1),
    *both("layer_norm, 8192 x 64", "F.layer_norm(x, (64,), w, b)",
          "x = T.randn(8192, 64); w = T.ones(64); b = T.zeros(64)", "x, w, b", 1.1),
    *both("layer_norm, 8 x 128 x 192", "F.layer_norm(x, (192,), w, b)",
          "x = T.randn(8, 128, 192); w = T.ones(192); b = T.zeros(192)", "x, w, b", 1.1),
    *both("rms_norm, 1024 x 1024", "F.rms_norm(x, (1024,), w)", MATRIX + "w = T.ones(1024)",
          "x, w", 1.1),
    *both("group_norm, 8 groups", "F.group_norm(x, 8, w, b)",
          IMAGES + "w = T.ones(64); b = T.zeros(64)", "x, w, b"),
    *both("instance_norm", "F.instance_norm(x, None, None, w, b)",
          IMAGES + "w = T.ones(64); b = T.zeros(64)", "x, w, b"),
    *both("normalize, 1024 x 1024", "F.normalize(x)", MATRIX),
    *both("batch_norm, training", "F.batch_norm(x, None, None, w, b, True)",
          IMAGES + "w = T.ones(64); b = T.zeros(64)", "x, w, b", 3),
    *(forward(f"batch_norm of {what}, training={training}",
              f"F.batch_norm(x, m, v, training={training})",
              f"x = T.randn{made}; m = T.zeros(1024); v = T.ones(1024)")
      for what, made in (("every second column", "(1024, 2048)[:, ::2]"),
                         ("columns", "(1024, 1024).t()"))
      for training in (True, False)),
    forward("batch_norm, inference", "F.batch_norm(x, m, v, w, b)",
            IMAGES + "m = T.zeros(64); v = T.ones(64); w = T.ones(64); b = T.zeros(64)", 3),
]
INDEXING = [
    forward("a[m]", "a[m]", FLOATS, 3),
    forward("a[m] = 0", "a[m] = 0.0", FLOATS, 3),
    forward("masked_fill", "a.masked_fill(m, 0.0)", FLOATS, 3),
    forward("where(m, a, b)", "T.where(m, a, b)", FLOATS, 3),
    forward("nonzero", "m.nonzero()", FLOATS, 3),
    forward("x[i] of rows", "x[i]", MATRIX + "i = T.randint(0, 1024, (1024,))"),
    forward("index_select(1)", "x.index_select(1, i)", MATRIX + "i = T.randint(0, 1024, (1024,))"),
    forward("x[i] = rows", "x[i] = y", MATRIX + "i = T.randperm(1024); y = x + 1"),
    forward("gather(1)", "x.gather(1, i)", MATRIX + "i = T.randint(0, 1024, (1024, 1024))"),
    forward("gather(0)", "x.gather(0, i)", MATRIX + "i = T.randint(0, 1024, (1024, 1024))"),
    forward("scatter_add(1)", "x.scatter_add(1, i, x)",
            MATRIX + "i = T.randint(0, 1024, (1024, 1024))"),
    forward("scatter_add(0)", "x.scatter_add(0, i, x)",
            MATRIX + "i = T.randint(0, 1024, (1024, 1024))"),
    forward("scatter(1)", "x.scatter(1, i, x)", MATRIX + "i = T.randint(0, 1024, (1024, 1024))"),
    forward("scatter_reduce(1, amax)", "x.scatter_reduce(1, i, x, 'amax')",
            MATRIX + "i = T.randint(0, 1024, (1024, 1024))"),
    forward("scatter_reduce(1, mean)", "x.scatter_reduce(1, i, x, 'mean')",
            MATRIX + "i = T.randint(0, 1024, (1024, 1024))"),
    forward("index_add(0)", "x.index_add(0, i, x)", MATRIX + "i = T.randint(0, 1024, (1024,))"),
    forward("index_add of columns", "x.t().index_add(0, i, x.t())",
            MATRIX + "i = T.randint(0, 1024, (1024,))"),
    forward("index_add_(0)", "x.index_add_(0, i, y)",
            MATRIX + "i = T.randint(0, 1024, (1024,)); y = T.randn(1024, 1024)"),
    forward("index_copy_(0)", "x.index_copy_(0, i, y)", MATRIX + "i = T.randperm(1024); y = x + 1"),
    forward("index_fill_(0)", "x.index_fill_(0, i, 0)", MATRIX + "i = T.randint(0, 1024, (512,))"),
    forward("index_put_, accumulate", "x.index_put_((i,), y, True)",
            MATRIX + "i = T.randint(0, 1024, (1024,)); y = T.randn(1024, 1024)"),
    forward("index_put_ of pairs, accumulate", "x.index_put_((i, j), y, True)",
            MATRIX + "i, j = T.randint(0, 1024, (2, 1 << 18)); y = T.randn(1 << 18)"),
    forward("x[i, j]", "x[i, j]", MATRIX + "i, j = T.randint(0, 1024, (2, 1 << 18))"),
    forward("x[rows of a mask] = 0", "x[m] = 0.0", MATRIX + "m = T.rand(1024) > 0.5"),
    forward("a[m] = values", "a[m] = v", FLOATS + "v = a[m]"),
    forward("masked_fill_", "a.masked_fill_(m, 0.0)", FLOATS),
    forward("masked_scatter", "a.masked_scatter(m, b)", FLOATS),
    forward("repeat_interleave", "a.repeat_interleave(r)",
            "a = T.rand(1 << 16); r = T.randint(0, 8, (1 << 16,))"),
    forward("gather of expanded indices", "x.gather(1, i)",
            "x = T.randn(16, 512, 128); i = T.randint(0, 512, (16, 512, 1)).expand(16, 512, 128)"),
    forward("scatter_add of expanded indices", "x.scatter_add(0, i, x)",
            "x = T.randn(8192, 128); i = T.randint(0, 8192, (8192, 1)).expand(8192, 128)"),
    forward("index_fill(1)", "x.index_fill(1, i, 0)", MATRIX + "i = T.randint(0, 1024, (512,))"),
    forward("index_reduce(0, amax)", "x.index_reduce(0, i, x, 'amax')",
            MATRIX + "i = T.randint(0, 1024, (1024,))"),
    *both("pad by reflection", "F.pad(x, (1, 1, 1, 1), 'reflect')", IMAGES),
    *both("pad by replication", "F.pad(x, (2, 2, 2, 2), 'replicate')", IMAGES),
    *both("pad circularly", "F.pad(x, (2, 2, 2, 2), 'circular')", IMAGES),
    *both("pad a long line by reflection", "F.pad(x, (200, 200), 'reflect')",
          "x = T.randn(1, 1, 16000)"),
    forward("index_select of single elements", "a.index_select(0, i)",
            "a = T.rand(100000); i = T.randint(0, 100000, (100000,))"),
    forward("x[i] = row", "x[i] = v", MATRIX + "i = T.randperm(1024); v = T.rand(1024)"),
    forward("clamp_", "a.clamp_(-0.5, 0.5)", FLOATS),
    forward("unique_consecutive", "i.unique_consecutive()", "i = T.randint(0, 1000, (100000,))"),
    *(row for n, table, width in ((10, 2000, 64), (20, 100000, 64), (4, 1000, 10)) for row in both(
        f"embedding_bag of {n}, {table} x {width}", "F.embedding_bag(i, w, s, mode='mean')",
        f"w = T.randn({table}, {width}); i = T.randint(0, {table}, (20000,)); "
        f"s = T.arange(0, 20000, {n})", "w")),
    forward("fill_", "a.fill_(1.0)", FLOATS),
    forward("take", "a.take(i)", FLOATS + "i = T.randint(0, n, (n,))"),
    forward("embedding, 30000 x 256, 4096 rows", "F.embedding(i, w)",
            "w = T.randn(30000, 256); i = T.randint(0, 30000, (4096,))"),
    backward("embedding, 30000 x 256, 4096 rows", "F.embedding(i, w)",
             "w = T.randn(30000, 256); i = T.randint(0, 30000, (4096,))", "w", 1.5),
    backward("index_select", "x.index_select(0, i)", MATRIX + "i = T.randint(0, 1024, (1024,))"),
    backward("x[i, j]", "x[i, j]", MATRIX + "i, j = T.randint(0, 1024, (2, 1 << 18))"),
    backward("gather(1)", "x.gather(1, i)", MATRIX + "i = T.randint(0, 1024, (1024, 1024))"),
    backward("take", "x.take(i)", MATRIX + "i = T.randint(0, 1 << 20, (1 << 18,))"),
    backward("64 slices of 16 columns, added", "sum(x[:, 16 * k:16 * k + 16] for k in range(64))",
             MATRIX),
    forward("one_hot", "F.one_hot(i, 100)", "i = T.randint(0, 100, (8192,))"),
]
SORTING = [
    forward("sort, 1 M", "a.sort()", "a = T.randn(1 << 20)", 1),
    forward("sort(1), 1024 x 1024", "x.sort(1)", MATRIX, 1),
    forward("argsort of int64, 256 K", "a.argsort()", "a = T.randint(0, 1 << 40, (1 << 18,))", 1),
    forward("topk(10), 1024 x 1024", "x.topk(10)", MATRIX, 1),
    forward("topk(5), 1000 x 1000", "x.topk(5)", "x = T.randn(1000, 1000)"),
    *(forward(f"mode({d}) of 20 values, 1024 x 1024", f"x.mode({d})",
              "x = T.randint(0, 20, (1024, 1024))") for d in (0, 1)),
    forward("topk(100) of 1 M", "a.topk(100)", "a = T.randn(1 << 20)", 1),
    forward("median of 1 M", "a.median()", "a = T.randn(1 << 20)", 1),
    forward("unique of 256 K", "a.unique()", "a = T.randint(0, 1000, (1 << 18,))", 1),
    forward("unique of sorted 256 K", "a.unique_consecutive()",
            "a = T.randint(0, 1000, (1 << 18,)).sort()[0]"),
    forward("unique, inverse and counts", "a.unique(return_inverse=True, return_counts=True)",
            "a = T.randint(0, 1000, (1 << 18,))"),
    forward("mode(1), 1024 x 1024", "x.mode(1)", MATRIX),
    forward("kthvalue(1), 1024 x 1024", "x.kthvalue(500, 1)", MATRIX),
    forward("median(1), 1024 x 1024", "x.median(1)", MATRIX),
    *(forward(f"{op}, 1024 x 1024", f"x.{op}", MATRIX)
      for op in ("topk(5, 0)", "sort(0)", "median(0)", "kthvalue(500, 0)")),
    forward("bincount of 1 M", "i.bincount()", "i = T.randint(0, 1000, (1 << 20,))"),
    forward("histc of 1 M", "a.histc(100)", "a = T.randn(1 << 20)"),
    forward("bucketize", "T.bucketize(a, s)",
            "s = T.linspace(-3, 3, 33); a = T.randn(1 << 18)"),
    forward("isin", "T.isin(i, j)",
            "i = T.randint(0, 10000, (1 << 18,)); j = T.randint(0, 10000, (1000,))"),
    forward("searchsorted", "T.searchsorted(s, a)",
            "s = T.randn(10000).sort()[0]; a = T.randn(1 << 18)"),
]


def product(m, k, n, target, batch=()):
    sizes = " x ".join(map(str, (*batch, m, k, n)))
    setup = f"a = T.randn({(*batch, m, k)}); b = T.randn({(*batch, k, n)})"
    return forward(f"matmul {sizes}", "a @ b", setup, target)


MATMUL = [
    *(product(n, n, n, 1.2 if n <= 128 else 0.95) for n in (16, 32, 64, 128, 256, 512, 1024, 2048)),
    product(64, 1024, 4096, 0.95), product(4096, 1024, 64, 0.95), product(128, 768, 768, 0.95),
    product(2048, 3072, 768, 0.95), product(1, 4096, 4096, 0.95), product(4096, 4096, 1, 0.95),
    product(128, 64, 128, 0.95, (32,)), product(128, 128, 64, 0.95, (96,)),
    product(16, 16, 16, 0.95, (256,)),
    forward("a @ b.t(), 512", "a @ b.t()", "a, b = T.randn(512, 512), T.randn(512, 512)", 0.95),
    forward("a.t() @ b, 512", "a.t() @ b", "a, b = T.randn(512, 512), T.randn(512, 512)", 0.95),
    forward("matrix-vector, 2048", "a @ v", "a, v = T.randn(2048, 2048), T.randn(2048)"),
    forward("double, 512", "a @ a", "a = T.randn(512, 512, dtype=T.float64)"),
    *(forward(f"{kind}, 256", "a @ b",
              f"a, b = (T.randn(256, 256).to(T.{kind}) for _ in range(2))")
      for kind in ("bfloat16", "float16", "complex64", "complex128")),
    *(forward(f"{kind}, 256", "a @ b",
              f"a, b = (T.randint(0, 9, (256, 256)).to(T.{kind}) for _ in range(2))")
      for kind in ("int64", "int32", "int8", "uint8")),
    *(forward(f"_int_mm {m} x {k} x {n}", "T._int_mm(a, b)",
              f"a, b = (T.randint(-99, 99, s).to(T.int8) for s in (({m}, {k}), ({k}, {n})))")
      for m, k, n in ((256, 256, 256), (64, 1024, 1024), (1024, 1024, 1024))),
    forward("complex matrix-vector, 512", "a @ v",
            "a, v = T.randn(512, 512).to(T.complex64), T.randn(512).to(T.complex64)"),
    forward("addmv, 512", "T.addmv(c, a, v)",
            "a, v, c = T.randn(512, 512), T.randn(512), T.randn(512)"),
    forward("addbmm, 16 x 64", "T.addbmm(c, a, b)",
            "a, b, c = T.randn(16, 64, 64), T.randn(16, 64, 64), T.randn(64, 64)"),
    *(forward(f"outer {op}", op, "c, a, b = T.randn(1024, 1024), T.randn(1024, 1), "
              "T.randn(1, 1024); v, w = a[:, 0], b[0]")
      for op in ("a @ b", "T.addmm(c, a, b)", "T.addr(c, v, w)", "c.addr_(v, w)")),
    *(forward(f"every second column, {op}", op,
              "a = T.randn(1024, 2048)[:, ::2]; v, w = T.randn(1024), T.randn(40000)[::2]")
      for op in ("a @ v", "v @ a", "w @ w")),
    *(forward(f"complex {op}", f"T.{op}(a, a)", "a = T.randn(512, 512, dtype=T.complex64)" + more)
      for op, more in (("linalg.vecdot", ""), ("vdot", ".view(-1)"))),
    forward("vector-matrix, 2048", "v @ a", "a, v = T.randn(2048, 2048), T.randn(2048)"),
    forward("addmm, 256", "T.addmm(c, a, b)",
            "a, b, c = T.randn(256, 256), T.randn(256, 256), T.randn(256, 256)"),
    forward("baddbmm, 32 x 64", "T.baddbmm(c, a, b)",
            "a, b, c = T.randn(32, 64, 64), T.randn(32, 64, 64), T.randn(32, 64, 64)"),
    forward("matmul, one matrix of a batch of 32", "a @ b",
            "a, b = T.randn(32, 64, 64), T.randn(64, 64)"),
    forward("matmul, steps", "a[:, ::2] @ b[::2]", "a, b = T.randn(256, 512), T.randn(512, 256)"),
    forward("outer, 1024", "T.outer(v, w)", "v, w = T.randn(1024), T.randn(1024)"),
    forward("multi_dot, 4 of 8 x 8", "T.linalg.multi_dot(m)",
            "m = [T.randn(8, 8) for _ in range(4)]"),
    forward("kron, 32", "T.kron(a, b)", "a, b = T.randn(32, 32), T.randn(32, 32)"),
    forward("tensordot", "T.tensordot(a, b, 2)", "a, b = T.randn(64, 32, 32), T.randn(32, 32, 64)"),
    forward("cdist, 512 x 64", "T.cdist(a, b)", "a, b = T.randn(512, 64), T.randn(512, 64)"),
    *both("cdist p=1, 300 x 64", "T.cdist(a, b, 1.0)", "a, b = T.randn(300, 64), T.randn(300, 64)",
          "a, b"),
    *both("cdist p=inf, 1000 x 8", "T.cdist(a, b, float('inf'))",
          "a, b = T.randn(1000, 8), T.randn(1000, 8)", "a, b"),
    *both("cdist p=2, 10 x 3", "T.cdist(a, b)", "a, b = T.randn(10, 3), T.randn(10, 3)", "a, b"),
    *both("pdist, 700 x 32", "F.pdist(x)", "x = T.randn(700, 32)"),
    *(forward(f"{call}, {batch} of {n} x {n}", f"T.linalg.{call}", MATRICES.format(batch, n))
      for batch, n in ((10000, 3), (1000, 16), (1, 512))
      for call in ("inv(a)", "det(a)", "cholesky(s)", "solve(a, b)", "solve(a, v)",
                   "solve_triangular(t, b, upper=False)", "solve_triangular(t, v, upper=False)")),
    forward("multi_dot of four", "T.linalg.multi_dot([a, b, c, d])",
            "a, b, c, d = T.randn(10, 20), T.randn(20, 5), T.randn(5, 30), T.randn(30, 4)"),
    forward("einsum bhid,bhjd->bhij", "T.einsum('bhid,bhjd->bhij', q, k)",
            "q, k = T.randn(4, 8, 128, 64), T.randn(4, 8, 128, 64)"),
    *both("linear, 256 x 768 to 3072", "F.linear(x, w, b)",
          "x = T.randn(256, 768); w = T.randn(3072, 768); b = T.randn(3072)", "x, w, b"),
    *(forward(f"linear + {name.lower()}, {m} x {k} to {n}", "f(x)",
              f"f = T.nn.Sequential(T.nn.Linear({k}, {n}), T.nn.{name}()); x = T.randn({m}, {k})")
      for name in ("ReLU", "GELU")
      for m, k, n in ((8, 32, 32), (1, 1024, 1024), (64, 32, 256), (1024, 256, 256),
                      (1024, 192, 768), (256, 768, 3072))),
    backward("linear + relu, 1024 x 256 to 256", "f(x)",
             "f = T.nn.Sequential(T.nn.Linear(256, 256), T.nn.ReLU()); x = T.randn(1024, 256)"),
    forward("_addmm_activation, 256", "T._addmm_activation(c, a, b)",
            "a, b, c = T.randn(256, 256), T.randn(256, 256), T.randn(256)"),
]
# Of the networks: (channels, filters, kernel, stride, groups, size), and padding kernel // 2.
DENSE = [
    ("ResNet stem", 3, 64, 7, 2, 1, 224), ("ResNet", 64, 64, 1, 1, 1, 56),
    ("ResNet", 64, 64, 3, 1, 1, 56), ("ResNet", 64, 256, 1, 1, 1, 56),
    ("ResNet", 256, 512, 1, 2, 1, 56), ("ResNet", 128, 128, 3, 2, 1, 56),
    ("ResNet", 256, 256, 3, 1, 1, 14), ("ResNet", 1024, 256, 1, 1, 1, 14),
    ("ResNet", 512, 512, 3, 1, 1, 7), ("VGG", 64, 128, 3, 1, 1, 112),
    ("VGG", 256, 256, 3, 1, 1, 56), ("VGG", 512, 512, 3, 1, 1, 28),
]
DEPTHWISE = [
    ("MobileNet", 32, 32, 3, 1, 32, 112), ("MobileNet", 96, 96, 3, 2, 96, 112),
    ("MobileNet", 144, 144, 3, 1, 144, 56), ("MobileNet", 384, 384, 3, 1, 384, 14),
    ("MobileNet", 960, 960, 3, 1, 960, 7),
]


def convolutions(shapes):
    rows = []
    for net, channels, filters, kernel, stride, groups, size in shapes:
        name = f"{net} {channels}-{filters} {kernel}x{kernel}/{stride}, {size} px"
        setup = (f"x = T.randn(4, {channels}, {size}, {size}); "
                 f"w = T.randn({filters}, {channels // groups}, {kernel}, {kernel})")
        output = f"F.conv2d(x, w, None, {stride}, {kernel // 2}, 1, {groups})"
        rows += both(name, output, setup, "w" if channels == 3 else "x, w")
    return rows


def others(name, function, sizes, weight, arguments):
    setup = f"x = T.randn({sizes}); w = T.randn({weight})"
    return both(name, f"F.{function}(x, w, None, {arguments})", setup, "x, w")


KINDS = [
    *others("conv1d 64-128, 5 wide", "conv1d", "8, 64, 1024", "128, 64, 5", "1, 2"),
    *others("conv1d 256-256, 1 wide", "conv1d", "8, 256, 512", "256, 256, 1", "1"),
    *others("conv3d 32-64, 3x3x3", "conv3d", "2, 32, 16, 28, 28", "64, 32, 3, 3, 3", "1, 1"),
    *others("conv3d 64-64, 3x3x3/2", "conv3d", "2, 64, 16, 28, 28", "64, 64, 3, 3, 3", "2, 1"),
    *others("transposed 128-64, 4x4/2", "conv_transpose2d", "4, 128, 28, 28", "128, 64, 4, 4",
            "2, 1"),
    *others("transposed 64-32, 3x3", "conv_transpose2d", "4, 64, 56, 56", "64, 32, 3, 3", "1, 1"),
    *others("32 groups of 128, 3x3", "conv2d", "4, 128, 56, 56", "128, 4, 3, 3", "1, 1, 1, 32"),
    *others("2 groups of 192, 5x5", "conv2d", "4, 96, 27, 27", "256, 48, 5, 5", "1, 2, 1, 2"),
    *others("dilated 64-64, 3x3", "conv2d", "4, 64, 56, 56", "64, 64, 3, 3", "1, 2, 2"),
    *others("one image 256-256, 3x3", "conv2d", "1, 256, 14, 14", "256, 256, 3, 3", "1, 1"),
    *others("digits 1-16, 5x5", "conv2d", "32, 1, 28, 28", "16, 1, 5, 5", "1, 2"),
]


def chain(name, layers, setup):
    """Two convolutions around layers, so that what they are given is what a network gives them."""
    module = f"T.nn.Sequential(T.nn.Conv2d(64, 64, 1), {layers}, T.nn.Conv2d(64, 64, 1))"
    setup = f"{setup}f = {module}"
    return both(name, "f(x)", setup, "x, *f.parameters()")


CHAINS = [
    *chain("conv + bn + relu + conv", "T.nn.BatchNorm2d(64), T.nn.ReLU()", IMAGES),
    *chain("conv + max_pool + conv", "T.nn.MaxPool2d(3, 2, 1)", IMAGES),
]
POOLING = [
    *both("max_pool 3x3/2", "F.max_pool2d(x, 3, 2, 1)", "x = T.randn(4, 64, 112, 112)", target=4),
    *both("max_pool 2x2", "F.max_pool2d(x, 2)", IMAGES, target=4),
    *both("avg_pool 2x2", "F.avg_pool2d(x, 2)", IMAGES),
    *both("adaptive_avg_pool to 1", "F.adaptive_avg_pool2d(x, 1)", IMAGES),
    *both("max_pool 2x2 of 8 px", "F.max_pool2d(x, 2)", "x = T.randn(64, 64, 8, 8)"),
    *both("avg_pool 2x2 of 4 px", "F.avg_pool2d(x, 2)", "x = T.randn(64, 256, 4, 4)"),
    *both("avg_pool of whole planes", "F.avg_pool2d(x, 7)", "x = T.randn(64, 256, 7, 7)"),
    forward("max_pool1d of 3", "F.max_pool1d(x, 3, 1, 1)", "x = T.randn(8, 16, 256)"),
    forward("max_pool1d of 4", "F.max_pool1d(x, 4)", "x = T.randn(32, 64, 256)"),
    *both("interpolate nearest, 2x", "F.interpolate(x, scale_factor=2)", IMAGES),
    *both("interpolate bilinear, 2x", "F.interpolate(x, scale_factor=2, mode='bilinear')", IMAGES),
    *(row for mode in ("bilinear", "nearest", "bicubic") for size in (16, 128) for row in
      both(f"grid_sample {mode}, {size}",
           f"F.grid_sample(x, p, mode='{mode}', align_corners=False)",
           f"x = T.randn(2, 16, {size}, {size}); p = T.rand(2, {size}, {size}, 2) * 2 - 1",
           "x, p")),
    *both("affine_grid, 128", "F.affine_grid(x, (2, 3, 128, 128), align_corners=False)",
          "x = T.randn(2, 2, 3)"),
    forward("interpolate bilinear, bytes", "F.interpolate(x, (224, 224), mode='bilinear')",
            "x = T.randint(0, 256, (8, 3, 300, 400), dtype=T.uint8)"),
]
CLASSES = "x = T.randn(1024, 1000); t = T.randint(0, 1000, (1024,)); "
PAIR = "x = T.randn(1 << 20); t = T.rand(1 << 20); "
LOSSES = [
    *both("cross_entropy, 1024 x 1000", "F.cross_entropy(x, t)", CLASSES, target=3),
    *both("cross_entropy, 512 x 32000", "F.cross_entropy(x, t)",
          "x = T.randn(512, 32000); t = T.randint(0, 32000, (512,))", target=3),
    *both("cross_entropy, weights and ignore_index",
          "F.cross_entropy(x, t, w, ignore_index=0)", CLASSES + "w = T.rand(1000)", target=3),
    *both("cross_entropy, label_smoothing", "F.cross_entropy(x, t, label_smoothing=0.1)",
          CLASSES, target=3),
    *both("cross_entropy, probabilities", "F.cross_entropy(x, p)",
          CLASSES + "p = T.rand(1024, 1000).softmax(1)", target=3),
    *both("cross_entropy, 4 x 21 x 128 x 128", "F.cross_entropy(x, t)",
          "x = T.randn(4, 21, 128, 128); t = T.randint(0, 21, (4, 128, 128))", target=3),
    *both("nll_loss, 65536 x 16", "F.nll_loss(x, t)",
          "x = T.randn(65536, 16); t = T.randint(0, 16, (65536,))"),
    *both("ctc_loss, 200 steps, 16 x 40 of 30", "F.ctc_loss(x, t, [200] * 16, [40] * 16)",
          "x = T.randn(200, 16, 30).log_softmax(2); t = T.randint(1, 30, (16, 40))"),
    *both("l1_loss, 1 M", "F.l1_loss(x, t)", PAIR),
    *both("huber_loss, 1 M", "F.huber_loss(x, t)", PAIR),
    *both("kl_div, 1 M", "F.kl_div(x, t, reduction='batchmean')", PAIR),
    *both("binary_cross_entropy, 1 M", "F.binary_cross_entropy(x, t)",
          "x = T.rand(1 << 20) * 0.9 + 0.05; t = T.rand(1 << 20)"),
    *both("cosine_similarity, 4096 x 256", "F.cosine_similarity(x, t)",
          "x = T.randn(4096, 256); t = T.randn(4096, 256)"),
    *both("multi_margin_loss, 1024 x 1000", "F.multi_margin_loss(x, t)", CLASSES),
    *both("mse_loss, 1 M", "F.mse_loss(x, t)", PAIR),
    *both("smooth_l1_loss, 1 M", "F.smooth_l1_loss(x, t)", PAIR),
    *both("bce_with_logits, 1 M", "F.binary_cross_entropy_with_logits(x, t)", PAIR),
]
HEADS = "q, k, v = T.randn(4, 8, 256, 64), T.randn(4, 8, 256, 64), T.randn(4, 8, 256, 64)"
ATTENTION = [
    *both("attention, 4 x 8 x 256 x 64", "F.scaled_dot_product_attention(q, k, v)", HEADS,
          "q, k, v", 1.2),
    *both("causal attention", "F.scaled_dot_product_attention(q, k, v, is_causal=True)", HEADS,
          "q, k, v", 1.2),
    *both("attention with a mask", "F.scaled_dot_product_attention(q, k, v, m)",
          HEADS + "; m = T.rand(256, 256) > 0.2", "q, k, v", 1.2),
    *both("attention with dropout", "F.scaled_dot_product_attention(q, k, v, None, 0.1, True)",
          HEADS, "q, k, v", 1.2),
    *both("gelu, 1 M", "F.gelu(x)", "x = T.randn(1 << 20)"),
]


def recurrent(kind, steps, batch, width, target=None, dtype="float32", layers=1):
    setup = (f"x = T.randn({steps}, {batch}, {width}).to(T.{dtype}); "
             f"f = T.nn.{kind}({width}, {width}, {layers}).to(T.{dtype})")
    name = f"{kind}, {steps} x {batch} x {width}" + (f", {layers} layers" if layers > 1 else "")
    return both(name if dtype == "float32" else f"{dtype} {name}", "f(x)[0]", setup,
                "x, *f.parameters()", target)


RECURRENT = [*recurrent("LSTM", 32, 16, 256, 1.3), *recurrent("GRU", 32, 16, 256),
             *recurrent("RNN", 32, 16, 256), *recurrent("LSTM", 16, 1, 64, 1.3),
             *recurrent("LSTM", 20, 16, 512), *recurrent("LSTM", 32, 64, 100),
             *both("LSTM, packed 17 to 32 x 16 x 256", "f(p)[0].data",
                   "x = T.randn(32, 16, 256); f = T.nn.LSTM(256, 256); "
                   "p = T.nn.utils.rnn.pack_padded_sequence(x, list(range(32, 16, -1)))",
                   "*f.parameters()")]
OPTIMIZERS = [
    forward(f"{kind}, {count} x {size}", "o.step()",
            f"p = [T.nn.Parameter(T.randn({size})) for _ in range({count})]\n"
            "for q in p: q.grad = T.randn_like(q)\n"
            f"o = T.optim.{make}", target)
    for count, size in ((10, 1 << 20), (200, 1024))
    for kind, make, target in (
        ("SGD with momentum", "SGD(p, lr=1e-3, momentum=0.9)", None), ("Adam", "Adam(p)", 3.5),
        ("AdamW", "AdamW(p)", 3.5), ("RMSprop", "RMSprop(p)", None))
]
RANDOM = [
    forward("rand, 1 M", "T.rand(1 << 20)"),
    forward("randn, 1 M", "T.randn(1 << 20)", "", 3),
    forward("bernoulli, 1 M", "p.bernoulli()", "p = T.full((1 << 20,), 0.5)", 3),
    forward("bernoulli_(0.5), 1 M", "p.bernoulli_(0.5)", "p = T.zeros(1 << 20)", 3),
    *both("dropout, 1 M", "F.dropout(x, 0.1, True)", "x = T.randn(1 << 20)", target=3),
    forward("normal_, 1 M doubles", "p.normal_()", "p = T.zeros(1 << 20, dtype=T.float64)"),
    forward("uniform_, 1 M", "p.uniform_(-1, 1)", "p = T.zeros(1 << 20)"),
    forward("exponential_, 1 M", "p.exponential_()", "p = T.zeros(1 << 20)"),
    forward("randint, 1 M", "T.randint(0, 100, (1 << 20,))"),
    forward("randperm, 100 K", "T.randperm(100000)"),
    forward("multinomial, 1000 x 100", "p.multinomial(10)", "p = T.rand(1000, 100)"),
]
FOURIER = [
    forward("stft, 16000 by 400", "T.stft(x, 400, 160, window=w, return_complex=True)",
            "x = T.randn(16000); w = T.hann_window(400)"),
    *both("fft, 64 x 1024", "T.fft.fft(x)", "x = T.randn(64, 1024, dtype=T.complex64)"),
    *both("rfft, 64 x 1024", "T.fft.rfft(x)", "x = T.randn(64, 1024)"),
    *both("irfft, 64 x 513", "T.fft.irfft(x)", "x = T.randn(64, 513, dtype=T.complex64)"),
    forward("fft, 16", "T.fft.fft(x)", "x = T.randn(16, dtype=T.complex64)"),
    forward("fft, 1 M", "T.fft.fft(x)", "x = T.randn(1 << 20, dtype=T.complex64)"),
    forward("fft, 64 x 1000", "T.fft.fft(x)", "x = T.randn(64, 1000, dtype=T.complex64)"),
    forward("fft, 64 x 1009", "T.fft.fft(x)", "x = T.randn(64, 1009, dtype=T.complex64)"),
    forward("fft of columns, 1024 x 64", "T.fft.fft(x, dim=0)",
            "x = T.randn(1024, 64, dtype=T.complex64)"),
    *both("rfft2, 16 x 128 x 128", "T.fft.rfft2(x)", "x = T.randn(16, 128, 128)"),
    forward("fftn, 64 x 64 x 64 doubles", "T.fft.fftn(x)",
            "x = T.randn(64, 64, 64, dtype=T.complex128)"),
    *both("stft, 16 x 16000", "T.stft(x, 400, 160, window=w, return_complex=True)",
          "x = T.randn(16, 16000); w = T.hann_window(400)"),
]


def reduced(dtype):
    """Rows of one 16-bit dtype."""

    def tensors(**sizes):
        return "; ".join(f"{name} = T.randn({size}).to(T.{dtype})" for name, size in sizes.items())

    heads = tensors(q="1, 8, 512, 64", k="1, 8, 512, 64", v="1, 8, 512, 64")
    rows = [
        *(forward(f"{dtype} matmul {n}^3", "a @ b", tensors(a=f"{n}, {n}", b=f"{n}, {n}"))
          for n in (128, 512, 1024)),
        forward(f"{dtype} a @ b.t(), 512", "a @ b.t()", tensors(a="512, 512", b="512, 512")),
        forward(f"{dtype} a.t() @ b, 512", "a.t() @ b", tensors(a="512, 512", b="512, 512")),
        forward(f"{dtype} bmm 32 x 128 x 64 x 128", "a @ b",
                tensors(a="32, 128, 64", b="32, 64, 128")),
        forward(f"{dtype} vector-matrix, 4096", "a @ b", tensors(a="1, 4096", b="4096, 4096")),
        *(forward(f"{dtype} Linear {m} x {k} to {n}", "F.linear(x, w, b)",
                  tensors(x=f"{m}, {k}", w=f"{n}, {k}", b=str(n)))
          for m, k, n in ((32, 768, 3072), (1, 4096, 4096), (1024, 192, 768))),
        *both(f"{dtype} Linear 256 x 768 to 3072", "F.linear(x, w, b)",
              tensors(x="256, 768", w="3072, 768", b="3072"), "x, w, b"),
        *both(f"{dtype} attention 8 x 512 x 64", "F.scaled_dot_product_attention(q, k, v)", heads,
              "q, k, v"),
        forward(f"{dtype} layer_norm, 1024 x 768", "F.layer_norm(x, (768,), w, b)",
                tensors(x="1024, 768", w="768", b="768")),
        forward(f"{dtype} softmax(1), 1024 x 1024", "x.softmax(1)", tensors(x="1024, 1024")),
        forward(f"{dtype} embedding, 4096 rows", "F.embedding(i, w)",
                tensors(w="30000, 256") + "; i = T.randint(0, 30000, (4096,))"),
    ]
    for kind, *size, layers in (("LSTM", 32, 32, 256, 2), ("GRU", 32, 32, 256, 2),
                                ("LSTM", 50, 16, 512, 1), ("GRU", 50, 16, 512, 1),
                                ("RNN", 32, 32, 256, 1), ("LSTM", 32, 64, 100, 1),
                                ("LSTM", 16, 1, 64, 1)):
        rows += recurrent(kind, *size, dtype=dtype, layers=layers)
    for c, o, k, stride, size in ((64, 64, 3, 1, 56), (64, 256, 1, 1, 56), (256, 256, 3, 1, 14),
                                  (128, 128, 3, 2, 56)):
        rows += both(f"{dtype} conv {c}-{o} {k}x{k}/{stride}, {size} px",
                     f"F.conv2d(x, w, None, {stride}, {k // 2})",
                     tensors(x=f"4, {c}, {size}, {size}", w=f"{o}, {c}, {k}, {k}"), "x, w")
    return rows


def short_rows(n):
    """Rows of n elements, a quarter of a million in all: classes, coordinates, small vectors."""
    size = f"{(1 << 18) // n}, {n}"
    setup = (f"x, z, i = T.randn({size}), T.randn({size}), T.randint(0, {n}, ({size})); "
             f"m, j, c = x > 0, i[:, 0], z[:, :1]; v = T.randn(2, {n}); w = v[0]")
    name = f"rows of {n}: "
    return [
        *(forward(name + what, statement, setup) for what, statement in (
            ("sum", "x.sum(1)"), ("amax", "x.amax(1)"), ("argmax", "x.argmax(1)"),
            ("sum of bools", "m.sum(1)"), ("cumsum", "x.cumsum(1)"),
            ("gather", "x.gather(1, i)"), ("scatter_add_", "x.scatter_add_(1, i, z)"),
            ("index_select", "x.index_select(1, i[0])"), ("sort", "x.sort(1)"),
            ("topk(2)", "x.topk(2, 1)"), ("median", "x.median(1)"), ("x * column", "x * c"),
            ("cat", "T.cat([x, z], 1)"), ("stack", "T.stack([x, z], 1)"), ("flip", "x.flip(1)"),
            ("pad", "F.pad(x, (1, 1))"), ("diff", "x.diff(dim=1)"), ("tril", "T.tril(x)"),
            ("x @ vector", "x @ w"), ("Linear to 2", "F.linear(x, v)"),
            ("outer products", "T.einsum('bi,bj->bij', x[:1000], z[:1000])"),
            ("dot products", "T.einsum('bi,bi->b', x, z)"))),
        *both(name + "softmax", "x.softmax(1)", setup),
        *both(name + "log_softmax", "x.log_softmax(1)", setup),
        *both(name + "cross_entropy", "F.cross_entropy(x, j)", setup),
        *both(name + "layer_norm", f"F.layer_norm(x, ({n},))", setup),
        *both(name + "norm", "x.norm(dim=1)", setup),
    ]


def planes():
    """Convolutions of one plane or of each alone: blurs, edges, structural similarity."""
    rows = []
    for what, shape, filters, groups in (
        ("3x3 of 1 channel", "8, 1, 256, 256", "1, 1, 3, 3", 1),
        ("two 3x3 of 1 channel", "8, 1, 256, 256", "2, 1, 3, 3", 1),
        ("5x5 of 3 channels", "8, 3, 256, 256", "3, 1, 5, 5", 3),
        ("11x11 of 3 channels", "4, 3, 256, 256", "3, 1, 11, 11", 3),
    ):
        rows += both(f"planes {what}", f"F.conv2d(x, w, padding=w.shape[2] // 2, groups={groups})",
                     f"x, w = T.randn({shape}), T.randn({filters})", "x, w")
    return rows + both("planes 9 taps of 64 signals", "F.conv1d(x, w, padding=4)",
                       "x, w = T.randn(64, 1, 4096), T.randn(1, 1, 9)", "x, w")


def points(n, coordinates):
    """Clouds of n points, or sets of n boxes, an eighth of a million numbers in all."""
    size = f"{(1 << 17) // (n * coordinates)}, {n}, {coordinates}"
    setup = (f"p, i = T.randn({size}), T.randint(0, {n}, ({size})); k = T.arange({n}).flip(0); "
             f"h, z = p.half(), T.randn({size}, dtype=T.complex64)")
    name = f"{n} points of {coordinates}: "
    return [forward(name + what, statement, setup) for what, statement in (
        ("softmax", "p.softmax(1)"), ("log_softmax", "p.log_softmax(1)"),
        ("cumsum", "p.cumsum(1)"), ("complex cumsum", "z.cumsum(1)"), ("cummax", "p.cummax(1)"),
        ("max with places", "p.max(1)"), ("gather", "p.gather(1, i)"),
        ("scatter_add", "p.scatter_add(1, i, p)"),
        ("float16 scatter_add", "h.scatter_add(1, i, h)"),
        ("index_select", "p.index_select(1, k)"), ("mean removed", "p - p.mean(1, keepdim=True)"),
    )]


def few_rows(dtype):
    """A word, or a few, of models that generate, and small batches."""
    of = f"dtype=T.{dtype}"
    rows = [
        forward(f"{dtype} linear, {m} x {k} to {n}", "F.linear(x, w)",
                f"x, w = T.randn({m}, {k}, {of}), T.randn({n}, {k}, {of})")
        for n, k in ((1024, 1024), (4096, 1024), (1024, 4096), (8000, 512))
        for m in (1, 3, 8, 16, 24, 64)
    ]
    return rows + [
        forward(f"{dtype} attention, {queries} to {keys}, {heads} heads of {shared}",
                "F.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
                f"q = T.randn(1, {heads}, {queries}, 64, {of}); "
                f"k, v = (T.randn(1, {shared}, {keys}, 64, {of}) for _ in range(2))")
        for queries in (1, 3)
        for heads, shared, keys in ((16, 16, 1024), (8, 8, 100), (32, 8, 512), (4, 4, 4096))
    ]


def small_matrices(batch, n, dtype="float32"):
    """Linear algebra of n x n, many at a time (poses, covariances, frames) or one, and fits."""
    size = f"{batch}, {n}, {n}, dtype=T.{dtype}"
    setup = (f"x = T.randn({size}); s = x @ x.mT + T.eye({n}, dtype=T.{dtype}); "
             f"t = T.linalg.cholesky(s); v = T.randn({batch}, {n}, 1, dtype=T.{dtype}); "
             f"e = T.randn({batch}, {4 * n}, {n}, dtype=T.{dtype}); "
             f"o = T.randn({batch}, {4 * n}, 1, dtype=T.{dtype})")
    name = f"{dtype} {batch} of {n} x {n}: "
    return [forward(name + call, f"T.linalg.{call}", setup) for call in (
        "det(x)", "inv(x)", "solve(x, v)", "cholesky(s)", "solve_triangular(t, v, upper=False)",
        "qr(x)", "eigh(s)", "eigvalsh(s)", "svd(x)", "svdvals(x)", "pinv(x)", "lstsq(e, o)",
        "matrix_exp(x)",
    )]


def mapped():
    """vmap, where it is all overhead: 100 examples of three elements, or of a 3 x 3 matrix."""
    setup = ("x, y = T.randn(100, 3), T.randn(100, 3); m = T.randn(100, 3, 3); "
             "n = T.nn; net = n.Sequential(n.Linear(3, 16), n.LayerNorm(16), n.Linear(16, 3)); "
             "w = {k: v.detach() for k, v in net.named_parameters()}; "
             "many = {k: v.expand(100, *v.shape).clone() for k, v in w.items()}; "
             "call = lambda w, a: T.func.functional_call(net, w, (a,))")
    bodies = (
        ("a.norm()", "x"), ("a.amax()", "x"), ("a.std()", "x"), ("a.roll(1)", "x"),
        ("a.softmax(0)", "x"), ("a.sort()[0]", "x"), ("a[[0, 2]]", "x"), ("T.outer(a, a)", "x"),
        ("T.linalg.det(a)", "m"), ("T.linalg.inv(a)", "m"), ("a @ a", "m"),
        ("T.linalg.solve(a, b)", "m, x"), ("T.linalg.cross(a, b)", "x, y"), ("T.dot(a, b)", "x, y"),
        ("T.searchsorted(a, b)", "x, y"), ("F.mse_loss(a, b)", "x, y"),
    )
    rows = [("lambda a{}: {}".format(", b" if "," in given else "", body), given)
            for body, given in bodies]
    rows += [("T.func.grad(lambda a: a.norm())", "x"), ("T.func.jacrev(T.tanh)", "x"),
             ("T.func.jacfwd(T.tanh)", "x"), ("T.func.hessian(lambda a: a.prod())", "x"),
             ("T.func.grad(lambda a, w: call(w, a).sum())", "x, many"), ("call", "many, x")]
    return [forward(f"mapped: {what}", f"T.func.vmap({what})({given})", setup)
            for what, given in rows]


def jacobians():
    """Many gradients of one function: of 200 outputs, or by each of 200 inputs."""
    setup = ("x = T.randn(200); m = T.randn(200, 200); n = T.nn; i = T.randn(1, 4, 8, 8); "
             "net = n.Sequential(n.Linear(200, 64), n.LayerNorm(64), n.GELU(), n.Linear(64, 20)); "
             "conv = n.Sequential(n.Conv2d(4, 8, 3), n.ReLU(), n.MaxPool2d(2), n.Flatten()); "
             "w = {k: v.detach() for k, v in net.named_parameters()}; "
             "call = lambda w, a: T.func.functional_call(net, w, (a,)); "
             "energy = lambda a: (m @ a).tanh().square().sum()")
    bodies = (
        ("jacrev(T.tanh)", "x"), ("jacfwd(T.tanh)", "x"), ("jacrev(lambda a: (m @ a).tanh())", "x"),
        ("jacfwd(lambda a: (m @ a).tanh())", "x"), ("jacrev(lambda a: a.softmax(0))", "x"),
        ("jacrev(net)", "x"), ("jacfwd(net)", "x"), ("jacrev(call)", "w, x"),
        ("jacrev(conv)", "i"), ("hessian(energy)", "x"), ("jacrev(T.func.jacrev(energy))", "x"),
    )
    rows = [forward(f"T.func.{what}", f"T.func.{what}({given})", setup) for what, given in bodies]
    return [*rows, forward("autograd.functional.hessian", "T.autograd.functional.hessian("
                           "energy, x, vectorize=True)", setup)]


CLOUDS = [row for n, m in ((2, 2), (4, 4), (16, 16)) for row in
          both(f"cdist of 1000 pairs of {n} and {m} points", "T.cdist(x, y)",
               f"x = T.randn(1000, {n}, 3); y = T.randn(1000, {m}, 3)", "x, y")]
GRAPH = ("i, v, d = T.randint(0, 2000, (2, 20000)), T.randn(20000), T.randn(2000, 64); "
         "raw = T.sparse_coo_tensor(i, v, (2000, 2000)); coo = raw.coalesce(); "
         "csr = coo.to_sparse_csr(); dense = coo.to_dense(); k = T.randint(0, 2000, (500,)); "
         "x, y = T.randn(2000, 64), T.randn(64, 2000); full = T.randn(512, 512)")
SPARSE = [forward(f"sparse: {what}", statement, GRAPH) for what, statement in (
    ("coalesce", "raw.coalesce()"), ("COO @ 64 columns", "coo @ d"),
    ("CSR @ 64 columns", "csr @ d"), ("COO @ vector", "coo @ d[:, 0]"),
    ("CSR @ vector", "csr @ d[:, 0]"), ("COO @ COO", "coo @ coo"), ("CSR @ CSR", "csr @ csr"),
    ("COO to dense", "coo.to_dense()"), ("dense to COO", "dense.to_sparse()"),
    ("dense to CSR", "dense.to_sparse_csr()"), ("COO to CSR", "coo.to_sparse_csr()"),
    ("COO * COO", "coo * coo"), ("softmax", "T.sparse.softmax(coo, 1)"),
    ("sum of columns", "T.sparse.sum(coo, 1)"), ("index_select", "coo.index_select(0, k)"),
    ("sampled_addmm", "T.sparse.sampled_addmm(csr, x, y)"),
    ("full matrix to CSR", "full.to_sparse_csr()"), ("full matrix to CSC", "full.to_sparse_csc()"),
    ("full matrix to BSR", "full.to_sparse_bsr((4, 4))"),
)] + both("sparse: mm of a graph", "T.sparse.mm(T.sparse_coo_tensor(i, w, (2000, 2000)), e)",
          GRAPH + "; w, e = v, d", "w, e")


GROUPS = {
    "elementwise": ELEMENTWISE, "memory": MEMORY, "reductions": REDUCTIONS, "softmax": SOFTMAX,
    "norms": NORMS, "indexing": INDEXING, "sorting": SORTING, "matmul": MATMUL,
    "convolutions": convolutions(DENSE), "depthwise": convolutions(DEPTHWISE),
    "planes": planes(),
    "kinds": KINDS, "chains": CHAINS, "pooling": POOLING, "losses": LOSSES, "attention": ATTENTION,
    "recurrent": RECURRENT, "optimizers": OPTIMIZERS, "random": RANDOM,
    "fourier": FOURIER, "reduced": reduced("bfloat16") + reduced("float16"),
    "short rows": short_rows(3) + short_rows(10) + short_rows(32),
    "points": points(2, 2) + points(3, 3) + points(8, 5) + points(64, 3) + CLOUDS,
    "few rows": few_rows("float32") + few_rows("bfloat16"), "sparse": SPARSE,
    "small matrices": (small_matrices(10000, 3) + small_matrices(2000, 6)
                       + small_matrices(500, 16) + small_matrices(10000, 3, "float64")
                       + small_matrices(500, 16, "float64")),
    "mapped": mapped(),
    "jacobians": jacobians(),
    "one matrix": (small_matrices(1, 64) + small_matrices(1, 256)
                   + small_matrices(1, 64, "float64") + small_matrices(1, 256, "float64")),
}


# Promised of a group's geometric mean, not of each row.
GROUP_TARGETS = {"convolutions": 1.4, "depthwise": 2.5}


def arguments():
    parser = report.arguments("bench.kernels")
    parser.add_argument("--group", default="", help="this group of: " + ", ".join(GROUPS))
    parser.add_argument("--below", type=float, default=0.9, help="list what is slower than this")
    return parser.parse_args()


def main():
    options = arguments()
    libraries = report.begin(options)
    clock = report.clock_of(options)
    table = report.Table("Kernels", libraries)
    for group, rows in GROUPS.items():
        figures = []
        for row in rows:
            if options.group not in group or options.only not in row.name:
                continue
            values = {n: t / 1e3 for n, t in
                      time_row(row, libraries, options.rounds, clock).items()}
            targets = {"torch": row.target} if row.target else {}
            figures.append(report.Figure("kernels", row.name, "us", values, targets, group=group))
            table.add(figures[-1])
        if figures:
            target = GROUP_TARGETS.get(group)
            table.add(report.mean_of(figures, f"{group}, geometric mean", target=target))
            print()
    report.print_closing(table.figures, options.below)
    report.finish(options, table)


if __name__ == "__main__":
    main()
