"""Every dtype in every layout: what `bench.kernels`, whose rows are mostly float32 and contiguous,
does not ask.

    python -m bench.layouts [--dtypes float64,int32] [--only "sum"] [--below 0.9] [--every]

A row is an operation on a quarter of a million elements, in one of two shapes: matrices of
512 x 512 that lie in different ways, and rows of 2 to 64 elements. Prints the rows that are slower
than `--below` of torch (all of them with `--every`) and, of each dtype, the geometric mean. Rows
that a library refuses are left out. Ten minutes on one thread.
"""

from bench import report
from bench.timing import Row, time_row

DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "int16", "uint8", "bool",
          "complex64")

# x, y and z lie as the name says.
MATRICES = {
    "contiguous": "x, y = a, b",
    "transposed": "x, y = a.t(), b.t()",
    "one transposed": "x, y = a, b.t()",
    "every second column": "x, y = wide[:, ::2], b",
    "columns cut out": "x, y = wide[:, 1:513], wide[:, 2:514]",
    "one row": "x, y = a, b[0]",
    "one column": "x, y = a, b[:, :1]",
    "channels_last": "x = a.view(4, 64, 32, 32).contiguous(memory_format=T.channels_last); "
                     "y = b.view(4, 64, 32, 32)",
}  # fmt: skip
ROWS = (2, 3, 4, 7, 10, 16, 32, 64)

ONE_OPERAND = (
    "abs neg sign exp log sqrt rsqrt sin tanh sigmoid floor round frac reciprocal square log1p "
    "isnan isfinite logical_not bitwise_not signbit relu nan_to_num lgamma erf"
).split()
ACTIVATIONS = "relu gelu silu leaky_relu hardswish softplus elu logsigmoid".split()
TWO_OPERANDS = (
    "add sub mul div floor_divide remainder pow maximum minimum fmax atan2 eq lt ge logical_and "
    "bitwise_and bitwise_left_shift copysign logaddexp where lerp addcmul"
).split()
ALONG_A_DIM = (
    "sum mean prod amax argmax any all std norm logsumexp cumsum cumprod cummax sort argsort max "
    "median softmax log_softmax count_nonzero"
).split()
OF_ALL = "sum prod amax any argmax std norm max".split()

CALLS = {"where": "T.where(m, x, y)", "lerp": "T.lerp(x, y.expand_as(x), 0.3)",
         "addcmul": "T.addcmul(x, x, y)"}  # fmt: skip


def prepared(dtype):
    """Code that defines `make(*sizes)` for the dtype."""
    if dtype == "bool":
        made = "T.rand(s) > 0.5"
    elif dtype.startswith(("int", "uint")):
        made = f"T.randint({0 if dtype == 'uint8' else -20}, 20, s).to(T.{dtype})"
    else:
        made = f"T.randn(s, dtype=T.{'complex64' if dtype == 'complex64' else 'float32'})"
        made += f".to(T.{dtype})"
    return f"T.manual_seed(0); F = T.nn.functional; make = lambda *s: {made}; "


def matrices(dtype):
    setup = prepared(dtype) + "a, b, wide = make(512, 512), make(512, 512), make(512, 1024); "
    for layout, lies in MATRICES.items():
        code = setup + lies + "; m = T.rand(x.shape) > 0.5"
        calls = {name: CALLS.get(name, f"T.{name}(x, y)") for name in TWO_OPERANDS}
        if layout not in ("one row", "one column", "one transposed"):
            calls |= {name: f"T.{name}(x)" for name in ONE_OPERAND}
            calls |= {f"F.{name}": f"F.{name}(x)" for name in ACTIVATIONS}
            calls |= {f"{name}, all": f"T.{name}(x)" for name in OF_ALL}
            for dim in (0, 1):
                calls |= {f"{name}({dim})": f"T.{name}(x, dim={dim})" for name in ALONG_A_DIM}
            calls |= {f"to {other}": f"x.to(T.{other})" for other in DTYPES if other != dtype}
        for name, call in calls.items():
            yield Row(f"{name}, {layout}", call, code)


def short_rows(dtype):
    for n in ROWS:
        count = (1 << 18) // n
        code = prepared(dtype) + (
            f"x, z, c, w = make({count}, {n}), make({count}, {n}), make({n}, {count}), make({n}); "
            f"i = T.randint(0, {n}, x.shape); r = T.randint(0, {count}, ({count},)); "
            f"x3, m, col = make({count} // 16, {n}, 16), T.rand(x.shape) > 0.5, z[:, :1]"
        )
        calls = {f"{name}(1)": f"T.{name}(x, dim=1)" for name in ALONG_A_DIM}
        calls |= {f"{name}(0) of columns": f"T.{name}(c, dim=0)" for name in ALONG_A_DIM}
        calls |= {f"{name}(0)": f"T.{name}(x, dim=0)" for name in ALONG_A_DIM[:12]}
        calls |= {f"{name}(1) of (m, n, 16)": f"T.{name}(x3, dim=1)" for name in ALONG_A_DIM}
        calls |= {
            "gather": "x.gather(1, i)", "scatter_add": "x.scatter_add(1, i, z)",
            "index_select of columns": "x.index_select(1, i[0])", "rows": "x[r]",
            "index_add of rows": f"T.zeros(99, {n}, dtype=x.dtype).index_add(0, r % 99, x)",
            "index_put of rows": "x.index_put((r,), z)", "topk": f"x.topk({min(n, 3)}, 1)",
            "flip": "x.flip(1)", "roll": "x.roll(1, 1)", "cat": "T.cat([x, z], 1)",
            "stack": "T.stack([x, z], -1)", "pad": "F.pad(x, (1, 1))", "diff": "x.diff(dim=1)",
            "row": "x + w", "column": "x * col", "where": "T.where(m, x, z)",
            "t": "x.t().contiguous()",
            "sum of a part": "x[:, 1:].sum()", "to float32 of a part": "x[:, 1:].to(T.float32)",
            "from bool of a part": "m[:, 1:].to(x.dtype)", "tril": "T.tril(x)",
            "x @ vector": "x @ w",
            "Linear": "F.linear(x, z[:2])", "dot products": "T.einsum('bi,bi->b', x, z)",
            "layer_norm": f"F.layer_norm(x, ({n},))", "rms_norm": f"F.rms_norm(x, ({n},))",
            "batch_norm": "F.batch_norm(x, None, None, training=True)",
            "cross_entropy": "F.cross_entropy(x, i[:, 0])",
        }  # fmt: skip
        for name, call in calls.items():
            yield Row(f"{name}, rows of {n}", call, code)


def is_refused(row, libraries, clock):
    """Whether one of the libraries has no such operation of this dtype."""
    for library in libraries.values():
        try:
            row.timer(library, clock).timeit(1)
        except (RuntimeError, TypeError, ValueError, IndexError):
            return True
    return False


def arguments():
    parser = report.arguments("bench.layouts", rounds=3)
    parser.add_argument("--dtypes", default=",".join(DTYPES), help="these, parted by commas")
    parser.add_argument("--below", type=float, default=0.9, help="print what is slower than this")
    parser.add_argument("--every", action="store_true", help="print all rows")
    return parser.parse_args()


def main():
    options = arguments()
    libraries = report.begin(options)
    clock = report.clock_of(options)
    table = report.Table("Dtypes and layouts", libraries)
    for dtype in options.dtypes.split(","):
        figures = []
        for row in (*matrices(dtype), *short_rows(dtype)):
            if options.only not in row.name or is_refused(row, libraries, clock):
                continue
            values = {n: t / 1e3 for n, t in
                      time_row(row, libraries, options.rounds, clock).items()}
            figures.append(report.Figure("layouts", f"{dtype} {row.name}", "us", values))
            if options.every or figures[-1].ratio("torch") < options.below:
                table.add(figures[-1])
        if figures:
            slow = sum(figure.ratio("torch") < options.below for figure in figures)
            name = f"{dtype}: {len(figures)} rows, {slow} below {options.below:g}; mean"
            table.add(report.mean_of(figures, name))
    report.finish(options, table)


if __name__ == "__main__":
    main()
