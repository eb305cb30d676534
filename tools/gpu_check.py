"""All that a GPU can show: `make gpu-check`. Prints a table, and exits with 1 if something failed.

    python tools/gpu_check.py [--checks-only | --figures-only] [--jobs N] [--quick] [--torch PYTHON]

The programs of tests/cuda_programs run on the GPU itself in place of the simulator, and the samples
of all rows of the op table on it and on the CPU; figures are measured, beside torch where the
interpreter of --torch has one with CUDA. Without a GPU it says what is missing and exits with 2.
Checks run in as many processes as there are processors, figures alone. --quick measures little, and
is for tests of this program.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "cuda_programs"
STREAMS = ("two_streams", "reused_memory", "pinned_memory", "reused_pinned_memory", "events",
           "graph", "two_devices", "errors", "memory", "backward", "exchange", "sync_debug",
           "training_graph", "random_allocations")  # fmt: skip
FIGURES = {
    "launch": "one small op, host's time, us",
    "add": "elementwise, GB/s",
    "sum": "reduction, GB/s",
    "product": "matrix product 4096^3, float32, TFLOP/s",
    "lenet": "LeNet, batch 8, training step, ms",
    "lstm": "LSTM of 2 layers, batch 8, training step, ms",
    "gpt": "GPT of 4 layers, batch 8, training step, ms",
    "resnet": "ResNet-50, batch 64, bfloat16, training step, ms",
    "gpt2": "GPT-2 124M, batch 8 of 512, bfloat16, training step, ms",
    "peak": "GPT-2 124M, peak memory, MiB",
}


def kernel_groups():
    """The groups of tests/cuda_programs/kernels.py."""
    sys.path.insert(0, str(PROGRAMS))
    import kernels

    return list(kernels.GROUPS)


def run(program, *arguments):
    """(the exit status, the output, what it said of errors) of one of the programs."""
    command = [sys.executable, str(PROGRAMS / program), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    except subprocess.TimeoutExpired as error:
        return None, f"no end after {error.timeout} s", ""
    return done.returncode, done.stdout.strip(), done.stderr[-2000:]


def check_group(group):
    status, said, errors = run("kernels.py", group)
    return status == 0 and "\n" not in said, said + errors


def check_rows(*arguments):
    status, said, errors = run("rows.py", *arguments)
    return status == 0, said + errors


def check_streams(name):
    _, said, errors = run("streams.py", name)
    return said == "right", said + errors


def checks(quick, jobs):
    """(name, function, arguments) of each check: long ones first."""
    import rushlight

    if quick:
        yield "rows: float32", check_rows, ("--dtype", "float32", "tril")
    else:
        for part in range(jobs):
            for dtype in ("float32", "float64", "float16", "bfloat16"):
                name = f"{part}/{jobs}"
                yield f"rows: {dtype} {name}", check_rows, ("--dtype", dtype, "--part", name)
    for group in ["losses"] if quick else kernel_groups():
        yield f"kernels: {group}", check_group, (group,)
    for name in STREAMS[:1] if quick else STREAMS:
        if name != "two_devices" or rushlight.cuda.device_count() > 1:
            yield f"streams: {name}", check_streams, (name,)


def run_checks(quick, jobs):
    """The number of checks that failed."""
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        named = {pool.submit(f, *arguments): name for name, f, arguments in checks(quick, jobs)}
        for future in concurrent.futures.as_completed(named):
            right, said = future.result()
            failed += not right
            print(f"{'passed' if right else 'FAILED'}  {named[future]}", flush=True)
            if not right:
                print(said, flush=True)
    return failed


# ---- figures, by the same program for each library


def seconds_of(cuda, step, repeats):
    for _ in range(3):
        step()
    cuda.synchronize()
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(repeats):
            step()
        cuda.synchronize()
        best = min(best, (time.perf_counter() - begin) / repeats)
    return best


def host_seconds(torch, repeats):
    """What the call of an op costs while the GPU is not waited for."""
    x, y = (torch.ones(4, device="cuda") for _ in range(2))
    best = float("inf")
    for _ in range(5):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(repeats):
            x + y
        best = min(best, (time.perf_counter() - begin) / repeats)
    return best


def training_step(torch, model, make_inputs, loss_of, half=False):
    model = model.cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    inputs = [x.cuda() for x in make_inputs()]

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=half):
            loss = loss_of(model, *inputs)
        loss.backward()
        optimizer.step()

    return step


def networks(torch, quick):
    """The name, the training step and the repeats of each network that is measured."""
    from bench.models import load_source

    nn, functional = torch.nn, torch.nn.functional
    lenet = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.Tanh(), nn.Linear(120, 10),
    )  # fmt: skip

    def images(count, channels, size, classes):
        return lambda: (torch.randn(count, channels, size, size), torch.arange(count) % classes)

    def classify(model, x, y):
        return functional.cross_entropy(model(x).float(), y)

    def predict(model, x):
        logits = model(x)
        logits = logits[0] if isinstance(logits, tuple) else logits
        return functional.cross_entropy(logits.float().flatten(0, -2), x.flatten())

    yield "lenet", training_step(torch, lenet, images(8, 1, 28, 10), classify), 50
    lstm = nn.LSTM(64, 128, 2)
    yield "lstm", training_step(
        torch, lstm, lambda: (torch.randn(20, 8, 64),), lambda m, x: m(x)[0].pow(2).mean()
    ), 10  # fmt: skip
    if quick:
        return
    gpt = load_source("gpt", torch)
    small = gpt.GPT(512, 64, 128, 4, 4)
    yield "gpt", training_step(
        torch, small, lambda: (torch.randint(0, 512, (8, 64)),), predict
    ), 20  # fmt: skip
    resnet = load_source("resnet", torch).ResNet50()
    yield "resnet", training_step(torch, resnet, images(64, 3, 224, 1000), classify, True), 5
    torch.cuda.reset_peak_memory_stats()
    gpt2 = gpt.GPT(50257, 512, 768, 12, 12)
    yield "gpt2", training_step(
        torch, gpt2, lambda: (torch.randint(0, 50257, (8, 512)),), predict, True
    ), 5  # fmt: skip


def figures(torch, quick):
    """What this library measures, by the names of FIGURES."""
    found, n = {}, 1 << 12 if quick else 1 << 26
    found["launch"] = host_seconds(torch, 100 if quick else 20000) * 1e6
    x, y, out = (torch.ones(n, device="cuda") for _ in range(3))
    found["add"] = 12 * n / seconds_of(torch.cuda, lambda: torch.add(x, y, out=out), 2) / 1e9
    found["sum"] = 4 * n / seconds_of(torch.cuda, lambda: x.sum(), 2) / 1e9
    size = 64 if quick else 4096
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    found["product"] = 2 * size**3 / seconds_of(torch.cuda, lambda: a @ b, 3) / 1e12
    for name, step, repeats in networks(torch, quick):
        found[name] = seconds_of(torch.cuda, step, 1 if quick else repeats) * 1e3
    if not quick:
        found["peak"] = torch.cuda.max_memory_allocated() / (1 << 20)
    return found


def figures_of(library, python, quick):
    """The figures of a library, measured in a process of its own; what went wrong instead."""
    command = [python, __file__, "--measure", library, *(["--quick"] if quick else [])]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{ROOT}"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600)
    last = done.stdout.splitlines()[-1:] or [""]
    if done.returncode == 0:
        return json.loads(last[0]), ""
    lines = done.stderr.strip().splitlines() or ["no message"]
    return {}, f"{library}: {next((x for x in reversed(lines) if 'Error' in x), lines[-1])}"


def table(ours, theirs):
    """The figures, as docs/cuda.md has them."""
    lines = ["| | rushlight | torch |", "|---|---|---|"]
    for name, text in FIGURES.items():
        cells = [f"{f[name]:.4g}" if name in f else "not yet measured" for f in (ours, theirs)]
        lines.append(f"| {text} | {cells[0]} | {cells[1]} |")
    return "\n".join(lines)


def show_figures(options):
    """Prints the table, and returns how many libraries could not be measured."""
    ours, wrong = figures_of("rushlight", sys.executable, options.quick)
    theirs, missing = (
        figures_of("torch", options.torch, options.quick) if options.torch else ({}, "")
    )
    for text in filter(None, (wrong, missing)):
        print(f"figures: {text}")
    print(table(ours, theirs))
    return bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--checks-only", action="store_true")
    only.add_argument("--figures-only", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--torch", default="", help="an interpreter whose torch has CUDA")
    parser.add_argument("--measure", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        import importlib

        print(json.dumps(figures(importlib.import_module(options.measure), options.quick)))
        return 0
    import rushlight
    from rushlight import _C

    if not rushlight.cuda.is_available():
        print(f"gpu-check: there is no GPU to check: {_C._cuda.why_unavailable()}")
        return 2
    for index in range(rushlight.cuda.device_count()):
        print(f"cuda:{index} {rushlight.cuda.get_device_properties(index)}")
    failed = 0 if options.figures_only else run_checks(options.quick, options.jobs)
    if not options.checks_only:
        failed += show_figures(options)
    print(f"{failed} failed" if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
