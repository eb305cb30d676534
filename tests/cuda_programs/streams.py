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


def forked_graph(wait):
    """A second stream is part of a capture: its memory is the graph's, and it draws on."""
    x, side, g = torch.ones(4096, device="cuda"), cuda.Stream(), cuda.CUDAGraph()
    drop = torch.nn.Dropout(0.5)
    drop(x * 3 - x.sqrt()).sum()  # compiles the kernels
    with cuda.graph(g):
        main = cuda.current_stream()
        y = x * 3
        side.wait_stream(main)
        with cuda.stream(side):
            root = (x + x).sqrt()  # on memory that only the graph may use from now on
            dropped = drop(torch.ones_like(x))
        z = y * 2
        if wait:
            side.wait_stream(main)
        with cuda.stream(side):
            part = z + root * root
        main.wait_stream(side)
        total = part + 0
    right, counts = True, set()
    for value in (1.0, 2.0, 3.0):
        x.fill_(value)
        with cuda.stream(side):
            others = [torch.full((4096,), -1.0, device="cuda") for _ in range(64)]
        cuda.current_stream().wait_stream(side)
        g.replay()
        right = right and torch.allclose(total.cpu(), torch.full((4096,), value * 8))
        right = right and all((t == -1).all().item() for t in others)
        counts.add(tuple(dropped.cpu()[:64].tolist()))
    answer(right and len(counts) == 3)


def unjoined_graph():
    """A stream that a capture was forked to and that is not joined again is told, and no more."""
    x, side, g = torch.ones(16, device="cuda"), cuda.Stream(), cuda.CUDAGraph()
    x + 1
    try:
        with cuda.graph(g):
            side.wait_stream(cuda.current_stream())
            with cuda.stream(side):
                x + 1
        text = ""
    except RuntimeError as error:
        text = str(error)
    with cuda.stream(side):
        y = x + 2
    cuda.current_stream().wait_stream(side)
    again = cuda.CUDAGraph()
    with cuda.graph(again):
        z = x * 2
    again.replay()
    answer("UNJOINED" in text and y.tolist() == [3.0] * 16 and z.tolist() == [2.0] * 16)


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


def complaint(call):
    """What the error says that a call leads to, or ""."""
    try:
        call()
        cuda.synchronize()
    except (IndexError, RuntimeError) as error:
        return str(error)
    return ""


def errors():
    """A bad index names the op, the index, the size and the line, and the device goes on."""
    x = torch.arange(12.0, device="cuda").view(3, 4)
    scores = torch.zeros(2, 4, device="cuda", requires_grad=True)
    index, chosen = torch.tensor([0, 7], device="cuda"), torch.zeros(1, 1, device="cuda").long()
    entropy = torch.nn.functional.cross_entropy
    rows, picks = lambda: x[index], lambda: x.gather(1, chosen)
    losses = lambda: entropy(scores, index)  # noqa: E731
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        captured = picks()
    for _ in range(5000):  # more calls than are remembered
        picks()
    graph.replay()
    right = captured.tolist() == [[0.0]]
    chosen.fill_(9)
    for call, source, text in (
        (rows, rows, "index: index 7 is out of bounds for dimension 0 with size 3"),
        (losses, losses, "Target 7 is out of bounds for 4 classes"),
        (graph.replay, picks, "gather: index 9 is out of bounds for dimension 1 with size 4"),
    ):
        said = complaint(call)
        line = f"on line {source.__code__.co_firstlineno} of {__file__}"
        right = right and text in said and line in said
    try:
        x.to(torch.complex128).scatter_reduce(1, chosen - 9, x.to(torch.complex128), "prod")
        missing = ""
    except NotImplementedError as error:
        missing = str(error)
    answer(right and "scatter: not implemented on CUDA" in missing and (x + 1).sum().item() == 78.0)


def memory():
    """The caching allocator: peaks, reuse, an error that says who holds what."""
    before = cuda.memory_allocated()
    x = torch.empty(1 << 20, device="cuda")
    held = cuda.memory_allocated() - before
    del x
    reserved = cuda.memory_reserved()
    x = torch.empty(1 << 20, device="cuda")
    reused = cuda.memory_reserved() == reserved
    total = cuda.get_device_properties(0).total_memory
    cuda.set_per_process_memory_fraction((64 << 20) / total)
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


def backward():
    """Each node runs on the stream of its forward, and the caller's stream waits for all."""
    side, seen = cuda.Stream(), []
    w = torch.ones(64, device="cuda", requires_grad=True)
    cuda.synchronize()
    with cuda.stream(side):
        x = w * 2
        x.register_hook(lambda grad: seen.append(cuda.current_stream()))
        for _ in range(4):
            x = x + x * 0
    cuda.current_stream().wait_stream(side)
    y = x * 3 + w
    y.register_hook(lambda grad: seen.append(cuda.current_stream()))
    y.sum().backward()
    later = w.grad * 2
    (again,) = torch.autograd.grad((w * w).sum(), w)
    right = later.cpu().tolist() == [14.0] * 64 and again.cpu().tolist() == [2.0] * 64
    answer(right and seen == [cuda.default_stream(), side])


def exchange():
    """DLPack and the CUDA array interface name the memory, the device and the stream."""
    side, x = cuda.Stream(), torch.zeros(8, device="cuda")
    cuda.synchronize()
    with cuda.stream(side):
        x += 1
        described = x.__cuda_array_interface__
        y = torch.from_dlpack(x)
        capsule = x.__dlpack__(stream=1)
    z = torch.from_dlpack(capsule) * 2  # the default stream waits for what side was given
    last = torch.device("cuda", cuda.device_count() - 1)
    w = torch.from_dlpack(torch.ones(2, device=last))
    right = z.cpu().tolist() == [2.0] * 8 and y.data_ptr() == x.data_ptr() and y.is_cuda
    right &= x.__dlpack_device__() == (2, 0) and w.device == last
    right &= described["data"] == (x.data_ptr(), False) and described["typestr"] == "<f4"
    right &= described["stream"] == side.cuda_stream and described["shape"] == (8,)
    refused = 0
    for use in (lambda: memoryview(x), lambda: torch.ones(2).__cuda_array_interface__):
        try:
            use()
        except (BufferError, AttributeError, TypeError):
            refused += 1
    answer(right and refused == 2)


def sync_debug():
    """Calls that wait for the GPU warn or are refused, as asked for."""
    import warnings

    x, found = torch.ones(4, device="cuda"), []
    cuda.set_sync_debug_mode("error")
    for use in (lambda: x.cpu(), lambda: x.sum().item(), lambda: x.nonzero(), lambda: x[x > 0]):
        try:
            use()
            found.append("nothing")
        except RuntimeError as error:
            found.append("waits for the GPU" in str(error))
    y = x * 2  # does not wait
    cuda.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        value = y.sum().item()
    mode = cuda.get_sync_debug_mode()
    cuda.set_sync_debug_mode(0)
    answer(found == [True] * 4 and value == 8.0 and len(warned) == 1 and mode == 1)


def train(captured):
    """The losses of six steps, the last four replayed if `captured`, and the weight after them."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 2).cuda()
    optimizer = torch.optim.SGD(layer.parameters(), 0.1, momentum=0.9)
    x, losses = torch.zeros(3, 4, device="cuda"), []

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = layer(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss

    inputs = [torch.linspace(-1, i + 1, 12).view(3, 4) for i in range(6)]
    for i in range(2):  # warms up; what a graph holds begins after it
        x.copy_(inputs[i])
        step()
    run = step
    if captured:
        g = cuda.CUDAGraph()
        with cuda.graph(g):
            loss = step()

        def run():
            g.replay()
            return loss

    for i in range(2, 6):
        x.copy_(inputs[i])
        losses.append(run().item())
    return losses, layer.weight.detach().cpu().tolist()


def training_graph():
    """A whole training step, with its backward and its optimizer, is captured and replayed."""
    answer(train(False) == train(True))


def random_allocations(count=3000):
    """Blocks of 4 streams hold what was written into them."""
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
    "forked_graph": lambda: forked_graph(True),
    "missing_wait_in_graph": lambda: forked_graph(False),
    "unjoined_graph": unjoined_graph,
    "two_devices": two_devices,
    "errors": errors,
    "memory": memory,
    "backward": backward,
    "exchange": exchange,
    "sync_debug": sync_debug,
    "training_graph": training_graph,
    "random_allocations": random_allocations,
    "a_million_allocations": lambda: random_allocations(1000000),
}

if __name__ == "__main__":
    for name in sys.argv[1:]:
        PROGRAMS[name]()
