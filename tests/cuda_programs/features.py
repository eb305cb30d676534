"""Parts of `rushlight.cuda` that programs written for torch use: `python features.py NAME ...`.

Each prints "right", or what was wrong.
"""

import io
import pickle
import sys
import warnings

import rushlight as torch

cuda = torch.cuda


def generators():
    """A generator of a GPU draws the same again from its state, and from no other's."""
    g = torch.Generator("cuda").manual_seed(7)
    assert g.device == torch.device("cuda", 0) and g.initial_seed() == 7
    state = g.get_state()
    assert state.tolist() == [7, *[0] * 15] and state.device.type == "cpu"
    x = torch.rand(8, device="cuda", generator=g)
    after = torch.randn(8, device="cuda", generator=g)
    assert not torch.equal(x.cpu(), after.cpu())
    g.set_state(state)
    copy = g.clone_state()
    pickled = pickle.loads(pickle.dumps(g))
    for again in (g, copy, pickled):
        assert again.device == g.device
        assert torch.equal(torch.rand(8, device="cuda", generator=again).cpu(), x.cpu())
    # The default generator of the device is another one, which manual_seed seeds.
    torch.manual_seed(7)
    assert torch.equal(torch.rand(8, device="cuda").cpu(), x.cpu())
    assert cuda.default_generators[0].get_state().tolist() == cuda.get_rng_state().tolist()
    assert torch.equal(
        torch.randperm(9, device="cuda", generator=g.manual_seed(1)).cpu(),
        torch.randperm(9, device="cuda", generator=copy.manual_seed(1)).cpu(),
    )
    shared = g.graphsafe_get_state()
    first = torch.rand(8, device="cuda", generator=shared)
    g.set_state(state), shared.set_state(shared.get_state())
    assert shared.get_state().tolist() == state.tolist() and first.is_cuda
    for wrong, device in ((g, "cpu"), (torch.Generator(), "cuda"), (g, "cuda:1")):
        try:
            torch.rand(2, device=device, generator=wrong)
            raise AssertionError(f"a generator of {wrong.device} drew on {device}")
        except RuntimeError as error:
            assert "generator" in str(error) and str(wrong.device.type) in str(error), error
    try:
        torch.Generator().graphsafe_get_state()
        raise AssertionError("a generator of the CPU shared its state")
    except RuntimeError as error:
        assert "does not share its state" in str(error)


def random_graphs():
    """Each replay draws on: as many calls without a graph draw the same numbers."""
    g = torch.Generator("cuda")
    stream, out, other = cuda.Stream(), torch.empty(8, device="cuda"), torch.empty(5, device="cuda")

    def step():
        out.uniform_()
        other.normal_(generator=g)
        out.add_(torch.rand(8, device="cuda"))

    step()
    cuda.synchronize()
    torch.manual_seed(3), g.manual_seed(4)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph, stream=stream):
        step()
    graph.register_generator_state(g)
    assert cuda.get_rng_state().tolist() == [3, *[0] * 15]  # a capture draws nothing
    drawn = []
    for _ in range(3):
        graph.replay()
        drawn.append((out.cpu(), other.cpu()))
    state = cuda.get_rng_state()
    torch.manual_seed(3), g.manual_seed(4)
    for expected, expected_other in drawn:
        step()
        assert torch.equal(out.cpu(), expected) and torch.equal(other.cpu(), expected_other)
    assert torch.equal(cuda.get_rng_state(), state)
    assert not torch.equal(drawn[0][0], drawn[1][0])
    torch.manual_seed(3)  # and a graph goes on where the program seeds anew
    graph.replay()
    assert torch.equal(out.cpu(), drawn[0][0])


def graphed_callables():
    """Modules and functions that replay graphs have the values and gradients of their own."""
    torch.manual_seed(0)
    plain = [torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 2).cuda()]
    graphed = [torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 2).cuda()]
    for a, b in zip(plain, graphed):
        b.load_state_dict(a.state_dict())
    x = torch.linspace(-1, 1, 12, device="cuda").view(3, 4)
    inner = torch.ones(3, 4, device="cuda", requires_grad=True)
    graphed = cuda.make_graphed_callables(tuple(graphed), ((x.clone(),), (inner,)))

    def losses(modules):
        found = []
        for i in range(3):
            for module in modules:
                module.zero_grad(set_to_none=True)
            loss = modules[1](modules[0](x + i).tanh()).square().sum()
            loss.backward()
            found += [loss.detach(), *(p.grad.clone() for m in modules for p in m.parameters())]
        return [t.cpu() for t in found]

    for expected, got in zip(losses(plain), losses(graphed), strict=True):
        assert torch.allclose(expected, got, rtol=1e-5, atol=1e-6), (expected, got)
    graphed[0].eval()  # runs the module itself
    assert torch.equal(graphed[0](x[:2]).cpu(), plain[0](x[:2]).cpu())
    double = cuda.make_graphed_callables(lambda a: (a * 2, a.detach()), (x.clone(),))
    twice, same = double(x)
    assert torch.equal(twice.cpu(), 2 * x.cpu()) and not same.requires_grad
    try:
        double(x, x)
        raise AssertionError("other arguments were taken")
    except TypeError:
        pass


class ForeignArray:
    """What another library gives: memory of a GPU by its interface alone."""

    def __init__(self, tensor, **changes):
        self.tensor = tensor
        self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, **changes}


def foreign_arrays():
    x = torch.arange(6.0, device="cuda").view(2, 3)
    y = torch.as_tensor(ForeignArray(x.t()))
    assert y.device == x.device and y.shape == (3, 2) and y.stride() == (1, 3)
    y += 1
    assert x.cpu().tolist() == [[1, 2, 3], [4, 5, 6]] and y.data_ptr() == x.data_ptr()
    other = torch.as_tensor(ForeignArray(torch.ones(2, dtype=torch.int64, device="cuda:1")))
    assert str(other.device) == "cuda:1" and other.dtype == torch.int64
    assert torch.tensor(ForeignArray(x)).device.type == "cpu"
    assert torch.asarray(ForeignArray(x), device="cuda").data_ptr() == x.data_ptr()
    side = cuda.Stream()
    with cuda.stream(side):
        for _ in range(4):
            x += 1
        described = ForeignArray(x)
    assert torch.as_tensor(described).cpu().tolist() == [[5, 6, 7], [8, 9, 10]]
    empty = torch.as_tensor(ForeignArray(torch.empty(0, 3, device="cuda"), data=(0, False)))
    assert empty.shape == (0, 3) and empty.is_cuda
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        pointer = x.data_ptr()
        torch.as_tensor(ForeignArray(x, data=(pointer, True)))
    assert len(warned) == 1
    for changes, kind in (
        ({"typestr": ">f4"}, ValueError),
        ({"mask": x}, ValueError),
        ({"strides": (-12, 4)}, ValueError),
        ({"data": None}, TypeError),
    ):
        try:
            torch.as_tensor(ForeignArray(x, **changes))
            raise AssertionError(f"taken: {changes}")
        except kind:
            pass


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)
        self.register_buffer("shift", torch.ones(3))
        self.seen = []

    def forward(self, x, scale=None):
        self.seen.append(x.device)
        hidden = (self.first(x) + self.shift).tanh()
        if scale is not None:
            hidden = hidden * scale
        return {"out": self.second(hidden), "parts": (hidden,)}


def data_parallel():
    """A model on two devices has the results and gradients of one."""
    torch.manual_seed(0)
    model = TwoHeads().cuda()
    whole = torch.nn.DataParallel(model)
    assert whole.device_ids == [0, 1] and whole.output_device == 0
    x = torch.linspace(-1, 1, 20, device="cuda").view(5, 4).requires_grad_()
    scale = torch.linspace(0, 1, 5, device="cuda").view(5, 1)
    results = []
    for run in (model, whole):
        model.zero_grad(set_to_none=True)
        x.grad = None
        model.seen.clear()
        out = run(x, scale=scale)
        (out["out"].square().sum() + out["parts"][0].sum()).backward()
        results.append([out["out"], out["parts"][0], x.grad, *(p.grad for p in model.parameters())])
    assert sorted(d.index for d in model.seen) == [0, 1]
    for expected, got in zip(*results, strict=True):
        assert got.device == expected.device
        assert torch.allclose(expected.detach().cpu(), got.detach().cpu(), atol=1e-6)
    assert [*whole.state_dict()] == [f"module.{name}" for name in model.state_dict()]
    one = torch.nn.parallel.data_parallel(model, x[:1], [0, 1], output_device=1)
    assert one["out"].device.index == 1
    try:
        torch.nn.DataParallel(model, [1, 0])(x)
        raise AssertionError("parameters on another device were taken")
    except RuntimeError as error:
        assert "device_ids[0]" in str(error)
    parts = cuda.comm.scatter(x.detach(), [0, 1], [2, 3])
    assert [p.device.index for p in parts] == [0, 1] and [len(p) for p in parts] == [2, 3]
    assert torch.equal(cuda.comm.gather(parts, 0, -1), x.detach().cpu())
    copies = cuda.comm.broadcast(scale, [0, 1])
    assert cuda.comm.reduce_add(copies, 1).cpu().tolist() == (scale.cpu() * 2).tolist()


def expandable_segments():
    """Memory of one stream lies in one piece, and pages that nobody uses are given back."""
    cuda.memory._set_allocator_settings("expandable_segments:True")
    mib = 1 << 20
    tensors = [torch.full((5 * mib // 4,), float(i), device="cuda") for i in range(24)]
    large = [s for s in cuda.memory_snapshot() if s["segment_type"] == "large"]
    assert len(large) == 1 and large[0]["is_expandable"], large
    assert large[0]["total_size"] == 120 * mib == cuda.memory_reserved(0), large[0]["total_size"]
    try:
        torch._C._cuda.ipc_export(tensors[0].untyped_storage())
        raise AssertionError("memory of expandable segments was exported")
    except RuntimeError as error:
        assert "expandable segments cannot be sent" in str(error)
    del tensors[4:20]  # a free piece of 80 MiB, four pages at least
    one = torch.full((70 * mib // 4,), 1.0, device="cuda")  # fits where they lay
    assert cuda.memory_reserved(0) == 120 * mib
    del one
    cuda.empty_cache()
    assert cuda.memory_reserved(0) == 40 * mib  # whole pages of 20 MiB
    assert len([s for s in cuda.memory_snapshot() if s["segment_type"] == "large"]) == 2
    assert [t[-1].item() for t in tensors] == [0.0, 1.0, 2.0, 3.0, 20.0, 21.0, 22.0, 23.0]
    again = torch.full((70 * mib // 4,), 9.0, device="cuda")  # the hole is mapped again
    assert cuda.memory_reserved(0) == 120 * mib and again[-1].item() == 9.0
    assert [t[0].item() for t in tensors] == [0.0, 1.0, 2.0, 3.0, 20.0, 21.0, 22.0, 23.0]
    del tensors, again
    cuda.empty_cache()
    assert cuda.memory_reserved(0) == cuda.memory_allocated(0) == 0, cuda.memory_snapshot()
    cuda.set_per_process_memory_fraction(0.01)
    try:
        torch.empty(64 * mib, device="cuda")
        raise AssertionError("more than the fraction was allocated")
    except cuda.OutOfMemoryError:
        pass
    cuda.set_per_process_memory_fraction(1.0)
    cuda.memory._set_allocator_settings("expandable_segments:False")
    for wrong in ("expandable_segments:yes",):
        try:
            cuda.memory._set_allocator_settings(wrong)
            raise AssertionError(f"taken: {wrong}")
        except ValueError:
            pass
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        cuda.memory._set_allocator_settings("max_split_size_mb:64")
    assert len(warned) == 1 and "max_split_size_mb" in str(warned[0].message)


def allocate_here():
    return torch.empty(1000, device="cuda")


def memory_history():
    """The history says what became of memory, and which line asked for it."""
    cuda.init()
    cuda.memory._record_memory_history(max_entries=100, clear_history=True)
    x = allocate_here()
    address = x.data_ptr()
    snapshot = cuda.memory._snapshot()
    blocks = [b for s in snapshot["segments"] for b in s["blocks"] if b["address"] == address]
    assert blocks[0]["state"] == "active_allocated" and blocks[0]["requested_size"] == 4000
    assert blocks[0]["frames"][0]["name"] == "allocate_here"
    assert blocks[0]["frames"][0]["filename"].endswith("features.py")
    del x
    actions = [(e["action"], e["size"]) for e in cuda.memory._snapshot()["device_traces"][0]
               if e["addr"] == address]  # fmt: skip
    assert actions[-3:] == [("alloc", 4096), ("free_requested", 4096), ("free_completed", 4096)]
    entry = cuda.memory._snapshot()["device_traces"][0][-1]
    assert sorted(entry) == ["action", "addr", "frames", "size", "stream", "time_us"]
    for _ in range(60):
        allocate_here()
    assert len(cuda.memory._snapshot()["device_traces"][0]) == 100
    cuda.memory._record_memory_history("state", context="state", clear_history=True)
    kept = allocate_here()
    assert cuda.memory._snapshot()["device_traces"][0] == []
    cuda.memory._record_memory_history(None)
    other = allocate_here()
    found = {b["address"]: b["frames"] for s in cuda.memory_snapshot() for b in s["blocks"]}
    assert found[kept.data_ptr()] and not found[other.data_ptr()]
    try:
        cuda.memory._record_memory_history("some")
        raise AssertionError("taken")
    except ValueError as error:
        assert "enabled must be one of" in str(error)


def profiles():
    """A profile shows what ran on the GPU and when, and which op launched it."""
    from rushlight.profiler import ProfilerActivity, profile, record_function

    x = torch.ones(64, device="cuda")
    ones, twice = torch.ones(64, device="cuda"), torch.full((64,), 2.0, device="cuda")
    (x * twice + ones).sum().item()  # compiles the kernels
    side = cuda.Stream()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
        with record_function("part"):
            y = x * twice
        with cuda.stream(side):
            (x + ones).sum().item()
    on_gpu = [e for e in prof.events() if e.device_type.name == "CUDA"]
    on_gpu.sort(key=lambda e: e.linked_correlation_id)  # in the order of launches
    assert [e.name for e in on_gpu] == ["mul", "add", "sum", "Memcpy DtoH"], on_gpu
    assert [e.device_resource_id for e in on_gpu] == [0, *[side.cuda_stream] * 3]
    starts = [e.time_range.start for e in on_gpu[1:]]  # of one stream
    assert starts == sorted(starts) and starts[0] >= 0
    assert all(e.time_range.elapsed_us() >= 0 for e in on_gpu)
    (mul,) = [e for e in prof.events() if e.name == "aten::mul"]
    assert [k.name for k in mul.kernels if k.device == 0] == ["mul"]
    assert mul.device_time_total == on_gpu[0].time_range.elapsed_us() > 0
    (part,) = [e for e in prof.events() if e.name == "part"]
    assert part.device_time_total == mul.device_time_total
    table = prof.key_averages().table(sort_by="cuda_time_total")
    assert "Self CUDA" in table and "CUDA total" in table and "aten::mul" in table
    total = sum(e.self_device_time_total for e in on_gpu)
    assert f"Self CUDA time total: {total:.3f}us" in table or total >= 1000, table

    import json
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        prof.export_chrome_trace(path)
        with open(path) as file:
            rows = json.load(file)["traceEvents"]
    kernels = {r["name"]: r for r in rows if r.get("cat") in ("kernel", "gpu_memcpy")
               and "correlation" in r.get("args", {})}  # fmt: skip
    assert kernels["mul"]["pid"] == 0 and kernels["add"]["tid"] == side.cuda_stream
    arrows = [r for r in rows if r.get("cat") == "ac2g"]
    number = kernels["mul"]["args"]["correlation"]
    begin, end = [r for r in arrows if r["id"] == number]
    (op,) = [r for r in rows if r["name"] == "aten::mul"]
    assert begin["ph"] == "s" and op["ts"] <= begin["ts"] <= op["ts"] + op["dur"]
    assert (end["ph"], end["bp"], end["ts"]) == ("f", "e", kernels["mul"]["ts"])
    assert (begin["pid"], begin["tid"]) == (op["pid"], op["tid"])
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        y += ones
    assert all(e.device_type.name == "CPU" for e in prof.events())
    graph = cuda.CUDAGraph()
    with profile() as prof:  # watches all that there is
        with cuda.graph(graph):
            y += ones
        graph.replay()
    assert [e.name for e in prof.events() if e.device_type.name == "CUDA"] == ["CUDA graph"]


def many_dims():
    """Views of up to 25 dims that do not join, by kernels that count them."""
    base = torch.arange(2.0**14, device="cuda").view((2,) * 14)
    x = base.permute(*range(13, -1, -1))
    host = base.cpu().permute(*range(13, -1, -1))
    index = torch.ones((1,) * 14, dtype=torch.int64)
    assert torch.equal(x.flip(3).cpu(), host.flip(3))
    assert torch.equal(x.sum((1, 4)).cpu(), host.sum((1, 4)))
    assert torch.equal(
        x.gather(5, index.expand(x.shape).cuda()).cpu(), host.gather(5, index.expand(x.shape))
    )
    assert torch.equal(x.cumsum(2).cpu(), host.cumsum(2))


def accelerator():
    """Programs that ask for whichever accelerator there is."""
    a = torch.accelerator
    assert a.is_available() and a.current_accelerator() == torch.device("cuda")
    assert a.device_count() == cuda.device_count() and a.current_device_index() == 0
    device = a.current_accelerator(check_available=True).type
    x = torch.ones(1 << 16, device=device)
    a.synchronize()
    assert a.memory_allocated() == cuda.memory_allocated() >= 1 << 18
    assert a.max_memory_allocated(0) >= a.memory_allocated("cuda") == a.memory_allocated(x.device)
    assert a.memory_reserved() <= a.max_memory_reserved() and a.get_memory_info()[1] > 1 << 20
    assert a.memory_stats()["allocated_bytes.all.current"] == a.memory_allocated()
    a.reset_peak_memory_stats()
    assert a.current_stream() == cuda.current_stream()
    stream = cuda.Stream()
    a.set_stream(stream)
    assert a.current_stream() == stream
    a.set_stream(cuda.default_stream())
    with a.device_index(0), a.device_index(None):
        assert a.current_device_index() == 0
    a.set_device_index(0)
    assert torch.float32 in a.get_device_capability()["supported_dtypes"]
    a.empty_cache()
    a.empty_host_cache()
    y = torch.zeros(8, device=device)
    with a.Graph() as graph:
        y += 1
    graph.replay()
    graph.replay()
    assert torch.get_device_module() is torch.cuda
    assert y.tolist() == [2.0] * 8 and torch._C._get_accelerator() == torch.device("cuda")
    try:
        a.synchronize("cpu")
    except ValueError as error:
        assert "accelerator.synchronize: cpu is no device" in str(error)
    else:
        raise AssertionError("accelerator.synchronize took the CPU")


def older_names():
    """Types of tensors, storages that move and what a build says of itself."""
    assert torch.version.cuda.count(".") == 1 and torch.backends.cuda.is_built()
    x = cuda.FloatTensor([1, 2])
    assert x.is_cuda and x.type() == "torch.cuda.FloatTensor" and isinstance(x, cuda.FloatTensor)
    assert not isinstance(x, cuda.LongTensor) and cuda.LongTensor.dtype is torch.int64
    assert cuda.LongTensor(3).fill_(1).tolist() == [1, 1, 1]
    assert torch.ones(2).type("torch.cuda.HalfTensor").type() == "torch.cuda.HalfTensor"
    assert x.type(torch.FloatTensor).device.type == "cpu" and x.type(cuda.LongTensor).is_cuda
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.set_default_tensor_type("torch.cuda.DoubleTensor")
        assert torch.ones(1).is_cuda and torch.ones(1).dtype is torch.float64
        torch.set_default_tensor_type(torch.FloatTensor)
    assert not torch.ones(1).is_cuda and torch.ones(1).dtype is torch.float32
    storage = torch.arange(4.0).untyped_storage()
    there = storage.cuda()
    assert there.is_cuda and there.get_device() == 0 and there.cuda(0) is there
    assert there.cpu().tolist() == storage.tolist() and storage.cpu() is storage
    assert torch.arange(4.0).storage().cuda().tolist() == [0, 1, 2, 3]
    file = io.BytesIO()
    torch.save({"x": x, "y": torch.ones(3)}, file)
    moves = (None, "cpu", "cuda", torch.device("cuda", 0), {"cuda:0": "cpu", "cpu": "cuda:0"},
             lambda storage, place: storage.cuda(0), lambda storage, place: storage)  # fmt: skip
    expected = ((True, False), (False, False), (True, True), (True, True), (False, True),
                (True, True), (False, False))  # fmt: skip
    for move, on_gpu in zip(moves, expected):
        file.seek(0)
        found = torch.load(file, map_location=move)
        assert (found["x"].is_cuda, found["y"].is_cuda) == on_gpu, move
        assert found["x"].tolist() == [1, 2] and found["y"].tolist() == [1, 1, 1]
    assert (cuda.nvtx.range_push("a"), cuda.nvtx.range_push("b")) == (0, 1)
    assert (cuda.nvtx.range_pop(), cuda.nvtx.range_pop(), cuda.nvtx.range_pop()) == (1, 0, -1)
    cuda.nvtx.range_end(cuda.nvtx.range_start("c"))
    with cuda.nvtx.range("step {}", 1), torch.profiler.profile() as prof:
        cuda.nvtx.mark("here")
        with cuda.nvtx.range("inner"):
            x += 1
    assert "inner" in [event.name for event in prof.events()]


def sparse_and_nested():
    """Sparse and nested tensors give on a GPU what they give on the CPU."""
    dense = torch.tensor([[0.0, 2.0, 0.0, 1.0], [0.0] * 4, [3.0, 0.0, 4.0, 0.0]])
    vector, matrix = torch.arange(4.0), torch.arange(8.0).view(4, 2)
    layouts = (lambda x: x.to_sparse(), lambda x: x.to_sparse_csr(), lambda x: x.to_sparse_csc(),
               lambda x: x.to_sparse_bsr((1, 2)))  # fmt: skip
    for layout in layouts:
        here, there = layout(dense), layout(dense.cuda())
        assert there.is_cuda and there.values().is_cuda and there.layout is here.layout
        assert torch.equal(there.to_dense().cpu(), dense) and torch.equal(
            here.cuda().cpu().to_dense(), dense)  # fmt: skip
        assert here.to("cuda").is_cuda and here.cuda().cuda().values().is_cuda
        assert torch.equal((there * 2).to_dense().cpu(), dense * 2)
    for layout in layouts[:2]:
        there = layout(dense.cuda())
        assert torch.allclose((there @ matrix.cuda()).cpu(), dense @ matrix)
        assert torch.allclose((there @ vector.cuda()).cpu(), dense @ vector)
    coo = dense.cuda().to_sparse()
    assert torch.equal((coo + coo).to_dense().cpu(), dense * 2)
    assert torch.equal(coo.t().to_dense().cpu(), dense.t())
    assert torch.equal((coo @ coo.t()).to_dense().cpu(), dense @ dense.t())
    assert torch.equal(torch.sparse.sum(coo, 0).to_dense().cpu(), dense.sum(0))
    soft = torch.sparse.softmax(coo, 1).to_dense().cpu()
    assert torch.allclose(soft, torch.sparse.softmax(dense.to_sparse(), 1).to_dense())
    made = torch.sparse_coo_tensor([[0, 2], [1, 0]], [2.0, 3.0], (3, 4), device="cuda")
    assert made.is_cuda and made.coalesce().indices().is_cuda
    weight = torch.ones(4, 2, device="cuda", requires_grad=True)
    (coo @ weight).sum().backward()
    assert torch.equal(weight.grad.cpu(), dense.sum(0)[:, None].expand(4, 2))
    table = torch.nn.Embedding(5, 2, sparse=True).cuda()
    table(torch.tensor([1, 1, 3], device="cuda")).sum().backward()
    assert table.weight.grad.is_sparse and table.weight.grad.is_cuda
    torch.optim.SparseAdam(table.parameters()).step()
    parts = [torch.arange(6.0, device="cuda").view(3, 2), torch.ones(1, 2, device="cuda")]
    for layout in (torch.jagged, torch.strided):
        nested = torch.nested.nested_tensor(parts, layout=layout)
        assert nested.is_cuda and nested.device == parts[0].device
        assert nested.to_padded_tensor(0.0).is_cuda and nested.values().is_cuda
        assert torch.equal((nested * 2).unbind()[0].cpu(), parts[0].cpu() * 2)
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged)
    assert jagged.offsets().is_cuda and jagged.offsets().tolist() == [0, 3, 4]


def page_locked():
    """What is made with pin_memory=True, and what is pinned, keeps its layout and its elements."""
    like = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for made, expected in (
        (torch.empty(3, pin_memory=True), None),
        (torch.zeros(2, 3, pin_memory=True), torch.zeros(2, 3)),
        (torch.full((2,), 7, pin_memory=True), torch.full((2,), 7)),
        (torch.ones_like(like, pin_memory=True), like),
        (torch.arange(4, pin_memory=True), torch.arange(4)),
        (torch.tensor([1.0, 2.0], pin_memory=True), torch.tensor([1.0, 2.0])),
        (like.new_tensor([1, 2], pin_memory=True), torch.tensor([1.0, 2.0])),
        (torch.hann_window(4, pin_memory=True), torch.hann_window(4)),
        (torch.empty_strided((2, 3), (1, 2), pin_memory=True), None),
        (like.pin_memory(), like),
        (torch.ones(4)[::2].pin_memory(), torch.ones(2)),
    ):
        assert made.is_pinned() and made.storage().is_pinned() and made.device.type == "cpu"
        assert expected is None or torch.equal(made, expected)
        assert expected is not like or made.stride() == like.stride()
        assert made.pin_memory() is made
    assert torch.empty_strided((2, 3), (1, 2), pin_memory=True).stride() == (1, 2)
    assert torch.zeros(2, pin_memory=True, requires_grad=True).requires_grad
    bytes_of = torch.arange(3).untyped_storage()
    pinned = bytes_of.pin_memory()
    assert pinned.is_pinned() and not bytes_of.is_pinned() and pinned.tolist() == bytes_of.tolist()
    weight = torch.ones(3, device="cuda", requires_grad=True)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        y = (weight * weight).sum()
    y.backward()
    assert weight.grad.tolist() == [2.0] * 3
    for call in (
        lambda: torch.zeros(2, device="cuda", pin_memory=True),
        lambda: torch.ones(2, device="cuda").pin_memory(),
    ):
        try:
            call()
            raise AssertionError("memory of a GPU was pinned")
        except RuntimeError as error:
            assert "only tensors of the CPU" in str(error), error


PROGRAMS = (accelerator, older_names, sparse_and_nested, generators, random_graphs,
            graphed_callables, foreign_arrays, data_parallel, expandable_segments, memory_history,
            many_dims, profiles, page_locked)  # fmt: skip

if __name__ == "__main__":
    named = {program.__name__: program for program in PROGRAMS}
    for name in sys.argv[1:]:
        named[name]()
        print("right")
