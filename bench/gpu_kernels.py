"""What kernels do on a GPU: bytes, products or microseconds, of rushlight or of torch.

    python -m bench.gpu_kernels [rushlight | torch] [--small] [NAME ...]

One library a process. Of three turns the least counts; a call's time is that of the GPU, as long
as it is longer than what the call costs the host. GB/s count what has to be read and written once.
NAMEs are substrings of the rows to measure; --small takes tiny operands, to test this program.
"""

import argparse
import functools
import importlib
import json
import time

MEBI = 1 << 20


def seconds_of(torch, call, least=0.02):
    """Seconds of a call: many are queued, then waited for."""
    call()
    torch.cuda.synchronize()
    best, count = float("inf"), 1
    while True:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        took = time.perf_counter() - begin
        if took >= least:
            break
        count = max(2 * count, min(1000, int(count * least / took)))
    for _ in range(2):
        begin = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begin) / count)
    return min(best, took / count)


def backward_of(torch, out, inputs):
    grad = torch.ones_like(out)
    return lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True)


def elementwise(torch, n):
    side = int(n**0.5)
    x, y, out = (torch.randn(n, device="cuda") for _ in range(3))
    half, half_out = x.to(torch.bfloat16), torch.empty(n, dtype=torch.bfloat16, device="cuda")
    mask, square, row, column = x > 0, x[: side**2].view(side, side), y[:side], y[:side, None]
    yield "x + y", "GB/s", 12 * n, lambda: torch.add(x, y, out=out)
    yield "x * 2", "GB/s", 8 * n, lambda: torch.mul(x, 2, out=out)
    yield "x + row", "GB/s", 8 * side**2, lambda: square + row
    yield "x + column", "GB/s", 8 * side**2, lambda: square + column
    yield "gelu", "GB/s", 8 * n, lambda: torch.nn.functional.gelu(x)
    yield "bfloat16 x + y", "GB/s", 6 * n, lambda: torch.add(half, half, out=half_out)
    yield "float32 to bfloat16", "GB/s", 6 * n, lambda: x.to(torch.bfloat16)
    yield "where", "GB/s", 13 * n, lambda: torch.where(mask, x, y)
    yield "transpose", "GB/s", 8 * side**2, lambda: square.t().contiguous()
    yield "cat", "GB/s", 16 * n, lambda: torch.cat([x, y])
    yield "dropout", "GB/s", 9 * n, lambda: torch.nn.functional.dropout(x, 0.1)
    yield "randn", "GB/s", 4 * n, lambda: out.normal_()


def reductions(torch, n):
    side = int(n**0.5)
    x = torch.randn(side, side, device="cuda")
    lines = torch.randn(n // 4096, 4096, device="cuda")
    size = 4 * side**2
    yield "sum", "GB/s", size, lambda: x.sum()
    yield "sum of rows", "GB/s", size, lambda: x.sum(1)
    yield "sum of columns", "GB/s", size, lambda: x.sum(0)
    yield "argmax of rows", "GB/s", size, lambda: x.argmax(1)
    yield "var of rows", "GB/s", size, lambda: x.var(1)
    yield "softmax 4096", "GB/s", 8 * lines.numel(), lambda: lines.softmax(1)
    weight = torch.ones(4096, device="cuda", requires_grad=True)
    leaf = lines.detach().requires_grad_()
    norm = torch.nn.functional.layer_norm
    yield "layer_norm 4096", "GB/s", 8 * lines.numel(), lambda: norm(lines, (4096,), weight, weight)
    out = norm(leaf, (4096,), weight, weight)
    yield "its backward", "GB/s", 12 * lines.numel(), backward_of(torch, out, (leaf, weight))
    yield "cumsum of rows", "GB/s", 2 * size, lambda: x.cumsum(1)
    yield "cumsum of columns", "GB/s", 2 * size, lambda: x.cumsum(0)
    flat = x.view(-1)
    yield "cumsum of all", "GB/s", 2 * size, lambda: flat.cumsum(0)
    images = torch.randn(max(n // (64 * 56 * 56), 1), 64, 56, 56, device="cuda")
    batch_norm = torch.nn.BatchNorm2d(64).cuda()
    yield "batch_norm 64x56x56", "GB/s", 12 * images.numel(), lambda: batch_norm(images)


def orders(torch, n):
    x = torch.randn(n // 64, device="cuda")
    scores = torch.randn(max(n // 65536, 1), 32000 if n > MEBI else 2000, device="cuda")
    yield "sort 1 Mi", "us", 0, lambda: x.sort()
    yield "sort int64 1 Mi", "us", 0, lambda: x.long().sort()
    yield "topk 100 of 1 Mi", "us", 0, lambda: x.topk(100)
    yield "median of 1 Mi", "us", 0, lambda: x.median()
    yield "topk 10 of 1024x32000", "us", 0, lambda: scores.topk(10)
    yield "sort 1024x32000", "us", 0, lambda: scores.sort()
    yield "unique 1 Mi", "us", 0, lambda: x.unique()
    count, classes = (8192, 32000) if n > MEBI else (64, 500)
    index = torch.randint(0, classes, (count,), device="cuda")
    table = torch.randn(classes, 1024, device="cuda", requires_grad=True)
    flat = table.detach()
    size = 8 * index.numel() * 1024
    yield "index_select 8192x1024", "GB/s", size, lambda: flat.index_select(0, index)
    embedding = torch.nn.functional.embedding(index, table)
    yield "embedding, backward", "us", 0, backward_of(torch, embedding, (table,))
    logits = torch.randn(count, classes, device="cuda", requires_grad=True)

    def loss():
        value = torch.nn.functional.cross_entropy(logits, index)
        return torch.autograd.grad(value, logits)

    yield "cross_entropy 8192x32000, with backward", "us", 0, loss


def products(torch, n):
    size = 4096 if n > MEBI else 64
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    yield "product 4096^3, float32", "TFLOP/s", 2 * size**3, lambda: a @ b
    c, d = (torch.randn(2 * size, 2 * size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    yield "product 8192^3, bfloat16", "TFLOP/s", 16 * size**3, lambda: c @ d
    attend = torch.nn.functional.scaled_dot_product_attention
    for length in (512, 2048) if n > MEBI else (32,):
        q, k, v = (torch.randn(8, 12, length, 64, device="cuda", dtype=torch.bfloat16,
                               requires_grad=True) for _ in range(3))  # fmt: skip
        call = functools.partial(attend, q, k, v, is_causal=True)
        yield f"attention 8x12x{length}x64", "us", 0, call
        yield f"attention {length}, backward", "us", 0, backward_of(torch, call(), (q, k, v))
    shapes = ((64, 64, 3, 1, 1, 56), (64, 256, 1, 1, 0, 56), (3, 64, 7, 2, 3, 224),
              (128, 128, 3, 2, 1, 56))  # fmt: skip
    for before, after, kernel, stride, padding, side in shapes:
        x = torch.randn(64 if n > MEBI else 1, before, side if n > MEBI else 9,
                        side if n > MEBI else 9, device="cuda", dtype=torch.bfloat16,
                        requires_grad=True)  # fmt: skip
        w = torch.randn(after, before, kernel, kernel, device="cuda", dtype=torch.bfloat16,
                        requires_grad=True)  # fmt: skip
        name = f"conv {before}-{after} {kernel}x{kernel}/{stride} of {side}"
        call = functools.partial(torch.nn.functional.conv2d, x, w, None, stride, padding)
        yield name, "us", 0, call
        yield f"{name}, backward", "us", 0, backward_of(torch, call(), (x, w))
    parameters = [torch.nn.Parameter(torch.randn(n // 32, device="cuda")) for _ in range(8)]
    optimizer = torch.optim.AdamW(parameters)
    for p in parameters:
        p.grad = torch.ones_like(p)
    yield "AdamW", "GB/s", 28 * 8 * (n // 32), optimizer.step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="?", default="rushlight", choices=("rushlight", "torch"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--least", type=float, default=0.02, help="seconds of a turn")
    parser.add_argument("--json", action="store_true", help="the last line is an object of all")
    options = parser.parse_args()
    torch = importlib.import_module(options.library)
    found, scales = {}, {"GB/s": 1e-9, "TFLOP/s": 1e-12}
    for part in (elementwise, reductions, orders, products):
        for name, unit, amount, call in part(torch, 1 << 14 if options.small else 1 << 26):
            if options.names and not any(n in name for n in options.names):
                continue
            seconds = seconds_of(torch, call, 0 if options.small else options.least)
            found[name] = amount / seconds * scales[unit] if amount else seconds * 1e6
            print(f"{name:42} {found[name]:10.1f} {unit}", flush=True)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
