"""Programs of several streams, right ones and some with a planted fault: `python streams.py NAME`.

Each prints "right" or "wrong".
"""

import sys

import rushlight as torch

cuda = torch.cuda


def answer(right):
    print("right" if right else "wrong")


def two_streams(wait):
    """A stream computes what another reads."""
    side, x = cuda.Stream(), torch.zeros(64, device="cuda")
    cuda.synchronize()
    with cuda.stream(side):
        for _ in range(6):
            x += 1
    if wait:
        cuda.current_stream().wait_stream(side)
    y = x * 2
    answer(y.cpu().tolist() == [12.0] * 64)
    cuda.synchronize()


def reused_memory(record):
    """A block is freed while another stream still reads it."""
    side, out = cuda.Stream(), torch.zeros(64, device="cuda")
    x = torch.ones(64, device="cuda")
    cuda.synchronize()
    with cuda.stream(side):
        for _ in range(6):
            out += x
    if record:
        x.record_stream(side)
    del x
    y = torch.full((64,), 100.0, device="cuda")
    y += 1
    cuda.synchronize()
    answer(out.cpu().tolist() == [6.0] * 64)


def pinned_memory(wait):
    """A pinned buffer is written again while a copy still reads it."""
    host = torch.ones(64).pin_memory()
    x = host.to("cuda", non_blocking=True)
    y = x + 0
    if wait:
        cuda.synchronize()
    host.fill_(7)
    answer(y.cpu().tolist() == [1.0] * 64)


def reused_pinned_memory():
    """The allocator does not hand pinned memory out again before copies from it have run."""
    results = []
    for i in range(8):
        host = torch.full((64,), float(i)).pin_memory()
        results.append(host.to("cuda", non_blocking=True))
        del host
    answer([r.cpu()[0].item() for r in results] == [float(i) for i in range(8)])


def events():
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    begin.record()
    x = torch.ones(64, device="cuda") + 1
    end.record()
    end.synchronize()
    answer(end.query() and begin.elapsed_time(end) >= 0 and x.sum().item() == 128)


def graph():
    """A captured step is replayed, with other inputs in the same memory."""
    x, g = torch.ones(16, device="cuda"), cuda.CUDAGraph()
    y = x * 3 + 1  # compiles the kernels
    with cuda.graph(g):
        y = x * 3 + 1
    x.fill_(2)
    g.replay()
    first = y.cpu().tolist()
    x.fill_(5)
    g.replay()
    answer(first == [7.0] * 16 and y.cpu().tolist() == [16.0] * 16)


def two_devices():
    x = torch.ones(8, device="cuda:1")
    y = (x + 1).to("cuda:0")
    try:
        x + y
    except RuntimeError as error:
        named = "cuda:1" in str(error) and "cuda:0" in str(error)
    with cuda.device(1):
        z = torch.zeros(2, device="cuda")
    answer(named and y.cpu().tolist() == [2.0] * 8 and str(z.device) == "cuda:1")


def errors():
    """A bad index names the op, the index and the size, and the device goes on."""
    x = torch.arange(12.0, device="cuda").view(3, 4)
    try:
        x[torch.tensor([0, 7], device="cuda")].cpu()
        text = ""
    except IndexError as error:
        text = str(error)
    named = "index 7 is out of bounds for dimension 0 with size 3" in text
    try:
        x.fft_of_nothing = torch.fft.fft(x)
        missing = ""
    except NotImplementedError as error:
        missing = str(error)
    answer(named and "cuda:0" in missing and (x + 1).sum().item() == 78.0)


def memory():
    """The caching allocator: peaks, reuse, an error that says who holds what."""
    before = cuda.memory_allocated()
    x = torch.empty(1 << 20, device="cuda")
    held = cuda.memory_allocated() - before
    del x
    reserved = cuda.memory_reserved()
    x = torch.empty(1 << 20, device="cuda")
    reused = cuda.memory_reserved() == reserved
    cuda.set_per_process_memory_fraction(0.01)
    try:
        torch.empty(1 << 26, device="cuda")
        text = ""
    except cuda.OutOfMemoryError as error:
        text = str(error)
    cuda.set_per_process_memory_fraction(1.0)
    del x
    cuda.empty_cache()
    named = "Tried to allocate 256.00 MiB" in text and "the largest tensors hold 4.00 MiB" in text
    answer(held == 4 << 20 and reused and named and cuda.memory_reserved() < reserved)


def random_allocations(count=3000):
    """Blocks of 4 streams hold what was written into them; the default for a look is 10^6."""
    import random

    draw = random.Random(0)
    streams = [cuda.default_stream(), *(cuda.Stream() for _ in range(3))]
    live, right = [], True
    for i in range(count):
        stream = draw.choice(streams)
        if live and draw.random() < 0.5:
            t, value, home = live.pop(draw.randrange(len(live)))
            if draw.random() < 0.05:
                with cuda.stream(home):
                    right &= t.amin().item() == value == t.amax().item()
            elif stream is not home:
                stream.wait_stream(home)
                with cuda.stream(stream):
                    t.add_(0)
                t.record_stream(stream)
            del t
        else:
            with cuda.stream(stream):
                size = draw.choice((1, 100, 1000, 5000, 300000))
                t = torch.full((size if i % 50 == 0 else min(size, 1000),), float(i), device="cuda")
            live.append((t, float(i), stream))
    for t, value, home in live:
        with cuda.stream(home):
            right &= t.amin().item() == value == t.amax().item()
    answer(right)


PROGRAMS = {
    "two_streams": lambda: two_streams(True),
    "missing_wait": lambda: two_streams(False),
    "reused_memory": lambda: reused_memory(True),
    "missing_record": lambda: reused_memory(False),
    "pinned_memory": lambda: pinned_memory(True),
    "pinned_too_early": lambda: pinned_memory(False),
    "reused_pinned_memory": reused_pinned_memory,
    "events": events,
    "graph": graph,
    "two_devices": two_devices,
    "errors": errors,
    "memory": memory,
    "random_allocations": random_allocations,
}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        PROGRAMS[name]()
