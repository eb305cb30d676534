"""Forks while threads compute, and models in several threads at once."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import rushlight
from rushlight import nn

sys.path.insert(0, str(Path(__file__).parent))
from fork_under_load import run


@pytest.mark.keeps_tensors("threads that have just ended")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_forks_under_load():
    """`python tests/fork_under_load.py 1000` does more of them."""
    before = rushlight.get_num_threads()
    rushlight.set_num_threads(2)
    try:
        right, wrong, hung, problems = run(15)
    finally:
        rushlight.set_num_threads(before)
    assert (right, wrong, hung, problems) == (15, 0, 0, [])


def train(seed, steps=15):
    """Losses and weights of a small network; no generator is used while it trains."""
    generator = rushlight.Generator().manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(6 * 8 * 8, 16), nn.LayerNorm(16), nn.Linear(16, 5),
    )  # fmt: skip
    with rushlight.no_grad():
        for parameter in model.parameters():
            parameter.copy_(rushlight.randn(parameter.shape, generator=generator) * 0.1)
    images = rushlight.randn(8, 3, 16, 16, generator=generator)
    labels = rushlight.randint(0, 5, (8,), generator=generator)
    optimizer = rushlight.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.keeps_tensors("threads that have just ended")
@pytest.mark.parametrize("threads_per_op", [1, 2])
def test_models_in_several_threads(threads_per_op):
    before = rushlight.get_num_threads()
    rushlight.set_num_threads(threads_per_op)
    try:
        expected = [train(seed) for seed in range(4)]
        found, errors = {}, []

        def work(seed):
            try:
                found[seed] = [train(seed) for _ in range(2)]
            except BaseException as error:
                errors.append(error)
                raise

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        rushlight.set_num_threads(before)
    assert not errors
    for seed, (losses, weights) in enumerate(expected):
        for losses_here, weights_here in found[seed]:
            assert losses_here == pytest.approx(losses, rel=1e-4)
            for ours, theirs in zip(weights_here, weights, strict=True):
                assert rushlight.allclose(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.fixture
def any_number_of_threads():
    """Yields a function that gives the results of another on 1, 2, 3 and 7 threads."""
    before = rushlight.get_num_threads()

    def results(function):
        found = []
        for count in (1, 2, 3, 7):
            rushlight.set_num_threads(count)
            found.append(function())
        return found

    yield results
    rushlight.set_num_threads(before)


@pytest.mark.parametrize("layout", [rushlight.contiguous_format, rushlight.channels_last])
@pytest.mark.parametrize(
    ("channels", "filters", "size", "options"),
    [
        (32, 64, (64, 48), {"padding": 1}),  # by rows
        (3, 64, (113, 112), {"padding": 3, "stride": 2, "kernel_size": 7}),
        (16, 64, (64, 64), {"padding": 4, "dilation": 2}),
        (64, 64, (96, 96), {"padding": 1, "groups": 32}),
        (256, 300, (9, 8), {"padding": 1}),  # by filters
        (512, 512, (7, 7), {"padding": 2, "stride": 2}),
        (1024, 2048, (5, 5), {"kernel_size": 1, "bias": False}),
        (512, 256, (33,), {"padding": 1}),
        (16, 40, (20, 18, 17), {"padding": 1}),
    ],
)
def test_convolution_of_one_image(any_number_of_threads, layout, channels, filters, size, options):
    if layout is rushlight.channels_last and len(size) != 2:
        pytest.skip("a layout of 4 dims")
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[len(size) - 1]
    conv = kind(channels, filters, **{"kernel_size": 3, **options})
    image = rushlight.randn(1, channels, *size).contiguous(memory_format=layout)
    with rushlight.no_grad():
        first, *others = any_number_of_threads(lambda: conv(image).contiguous())
        exact = conv.double()(image.double())
    assert all(rushlight.equal(first, other) for other in others)
    assert rushlight.allclose(first.double(), exact, rtol=1e-4, atol=1e-4)


ENDLESS = """
import sys, threading, time
import rushlight as rl

a = rl.randn(300, 300, dtype=rl.float64, requires_grad=True)
image, conv = rl.randn(2, 8, 64, 64), rl.nn.Conv2d(8, 8, 3)
large = rl.randn(1 << 21)
jobs = [lambda: (a @ a).sum().backward(), lambda: conv(image), lambda: large + large,
        lambda: rl.linalg.inv(a.detach())]

def repeat(job):
    while True:
        job()

for job in jobs:
    threading.Thread(target=repeat, args=(job,), daemon=True).start()
time.sleep(float(sys.argv[1]))
"""


def test_the_process_ends_while_threads_compute():
    # The interpreter ends threads in the middle, which therefore leak.
    options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    environment = {**os.environ, "ASAN_OPTIONS": options}
    for i in range(8):
        command = [sys.executable, "-c", ENDLESS, str(0.05 + 0.007 * i)]
        assert subprocess.run(command, timeout=60, env=environment).returncode == 0


def test_long_kernels_let_other_threads_run():
    """A thread that waits for the GIL gets on in the middle of one operation."""
    a = rushlight.randn(2000, 2000)
    started, ended, times, during = threading.Event(), threading.Event(), [], 0

    def watch():
        started.wait()
        while not ended.is_set():
            times.append(time.perf_counter())
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(100)  # nobody is made to give it up
    try:
        started.set()
        for _ in range(20):  # others may have had the processor in one of them
            begin = time.perf_counter()
            a @ a
            end = time.perf_counter()
            during = sum(begin < t < end for t in list(times))
            if during >= 3:
                break
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        watcher.join()
    assert during >= 3
