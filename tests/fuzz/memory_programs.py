"""Programs for memory.py: each makes (what must stay as it is, a call). Where nothing must stay,
what the call changed is made anew before it is compared."""

import copy
import gc
import io
import os
import pickle
import tempfile
import threading

import rushlight as rl
from rushlight import nn
from rushlight.func import functional_call, grad, jacrev, jvp, vmap
from rushlight.utils.checkpoint import checkpoint
from rushlight.utils.data import DataLoader, TensorDataset

PROGRAMS = {}


def program(make):
    PROGRAMS[make.__name__] = make
    return make


def leaf(*shape):
    return rl.arange(1.0, 1 + rl.zeros(shape).numel()).div_(7).view(shape).requires_grad_()


# ---- memory and threads


@program
def large_blocks():
    x = rl.ones(2000)
    return [x], lambda: x * 2 + x.exp()


@program
def huge_blocks():
    x = rl.ones(1 << 20)
    return [x], lambda: (x * 2).sum()


@program
def in_place_on_large():
    x = rl.ones(3000)
    return [], lambda: x.mul_(2).add_(x.sin())


@program
def several_threads():
    x = rl.arange(60000.0).view(200, 300) / 60000

    def call():
        before = rl.get_num_threads()
        rl.set_num_threads(3)
        try:
            return x.softmax(0).sum(1), x @ x.T, x.sort(1).values, x.cumsum(0)
        finally:
            rl.set_num_threads(before)

    return [x], call


@program
def a_thread_that_frees():
    def call():
        x = [rl.ones(3)]
        thread = threading.Thread(target=x.clear)
        thread.start()
        thread.join()
        return len(x)

    return [], call


@program
def two_threads():
    x = leaf(50, 50)

    def call():
        results = []

        def work():
            try:
                results.append(rl.autograd.grad((x @ x).tanh().sum(), x))
            except rl.OutOfMemoryError as error:
                results.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        work()
        thread.join()
        for result in results:
            if isinstance(result, rl.OutOfMemoryError):
                raise result
        return results

    return [x], call


# ---- autograd


@program
def many_edges():
    x = [leaf(2) for _ in range(40)]
    return [x], lambda: rl.autograd.grad(rl.cat(x).exp().sum(), x)


@program
def accumulation():
    w = leaf(3, 3)

    def call():
        w.grad = None
        for _ in range(3):
            (w @ w).tanh().sum().backward()
        result = w.grad
        w.grad = None
        return result

    return [w], call


@program
def dims_beyond_six():
    x = leaf(1, 2, 1, 2, 1, 2, 1, 2)
    return [x], lambda: rl.autograd.grad((x.transpose(1, 7).exp() + x).flip(3).sum(), x)


@program
def views_and_in_place():
    w = leaf(4, 4)

    def call():
        x = w * 1
        rows = x[1:3]
        rows.mul_(2)
        x.t()[0].add_(w[0])
        rows[:, 0].zero_()
        return rl.autograd.grad((x * x + rows.sum()).sum(), w)

    return [w], call


@program
def unbind_in_place():
    w = leaf(3, 3)

    def call():
        x = w.clone()
        a, b, c = x.unbind()
        b.mul_(3)
        c.copy_(a)
        return rl.autograd.grad(x.sum() + b.prod(), w)

    return [w], call


@program
def second_derivatives():
    x = leaf(3)

    def call():
        (first,) = rl.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
        return rl.autograd.grad((first * first).sum(), x)

    return [x], call


@program
def gradient_with_history():
    def call():
        x = leaf(3)
        (x**3).sum().backward(create_graph=True)
        first = x.grad
        x.grad = None
        first.sum().backward()
        return first, x.grad

    return [], call


@program
def retained_and_hooked():
    x = leaf(3)

    def call():
        seen, handles = [], []
        y = x * 2
        y.retain_grad()
        try:
            handles.append(y.register_hook(lambda g: seen.append(g) or g * 2))
            handles.append(x.register_hook(lambda g: g + 1))
            handles.append(x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad)))
            y.grad_fn.register_hook(lambda inputs, outputs: seen.append(outputs))
            y.grad_fn.register_prehook(lambda outputs: seen.append(outputs))
            y.exp().sum().backward()
            return y.grad, x.grad, seen
        finally:
            x.grad = None
            for handle in handles:
                handle.remove()

    return [x], call


@program
def saved_tensor_hooks():
    x = leaf(3)

    def call():
        with rl.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), rl.from_numpy):
            y = (x.exp() * x).sum()
        return rl.autograd.grad(y, x)

    return [x], call


@program
def custom_function():
    class Cube(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            ctx.save_for_backward(x)
            ctx.n = n
            return x**3, x.sum()

        @staticmethod
        def backward(ctx, grad, total):
            (x,) = ctx.saved_tensors
            return grad * 3 * x * x + total, None

    x = leaf(3)

    def call():
        y, total = Cube.apply(x, 3)
        return rl.autograd.grad(y.sum() + total, x)

    return [x], call


@program
def modes():
    x = leaf(3)

    def call():
        with rl.no_grad():
            a = x * 2
        with rl.inference_mode():
            b = (x + 1).sum().item()
        with rl.enable_grad(), rl.autograd.detect_anomaly(check_nan=True):
            (c,) = rl.autograd.grad((x * x).sum(), x)
        with rl.autocast("cpu", dtype=rl.bfloat16):
            d = x.detach() @ x.detach()
        return a, b, c, d

    return [x], call


@program
def checkpointed():
    x = leaf(4)

    def call():
        y = checkpoint(lambda t: t.tanh().exp(), x, use_reentrant=False)
        return rl.autograd.grad(y.sum(), x)

    return [x], call


@program
def nested_backward():
    def call():
        x = leaf(2)
        y = x * 2

        def inner(g):
            with rl.enable_grad():
                return rl.autograd.grad((x * x).sum(), x)[0] + g

        y.register_hook(inner)
        return rl.autograd.grad(y.sum(), x)

    return [], call


@program
def garbage_collection():
    def call():
        for _ in range(3):
            x = leaf(3)
            y = (x * 2).exp()
            y.owner = [y, x]
            z = y.sin()
            z.register_hook(lambda g, z=z, y=y: None)
            x.cycle = z
            (z * z).sum().backward(create_graph=True)
        del x, y, z
        return gc.collect() >= 0

    return [], call


@program
def history_that_leads_back():
    def call():
        x = leaf(3)
        (x**2).sum().backward(create_graph=True)
        x = leaf(2)
        y = x.exp()
        y.retain_grad()
        (y * y).sum().backward(create_graph=True)
        del x, y
        gc.collect()
        return 1

    return [], call


# ---- transforms


@program
def transforms():
    x, y = rl.arange(6.0).view(2, 3), rl.ones(3)

    def f(a, b):
        return (a.sin() * b).sum()

    return [x, y], lambda: (
        vmap(grad(f), (0, None))(x, y),
        jacrev(lambda a: a.exp())(y),
        jvp(lambda a: a.tanh(), (y,), (y,)),
        vmap(lambda a: a.sort().values + a[0])(x),
    )


@program
def forward_mode():
    import rushlight.autograd.forward_ad as fwd

    x = rl.ones(3)

    def call():
        with fwd.dual_level():
            dual = fwd.make_dual(x, x * 2)
            return tuple(fwd.unpack_dual(dual.exp() * dual))

    return [x], call


# ---- modules and optimizers


def network():
    rl.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16, 4), nn.LayerNorm(4), nn.Dropout(0.5), nn.GELU(), nn.Linear(4, 2),
    )  # fmt: skip


@program
def module_forward_and_backward():
    net, x = network(), rl.ones(2, 2, 4, 4)

    def call():
        net.zero_grad()
        nn.functional.cross_entropy(net(x), rl.tensor([0, 1])).backward()
        return [p.grad for p in net.parameters()]

    return [], call


@program
def recurrent():
    rl.manual_seed(0)
    net, x = nn.LSTM(3, 4, 2, bidirectional=True), rl.ones(3, 2, 3)
    return [x], lambda: rl.autograd.grad(net(x)[0].sum(), list(net.parameters()))


@program
def attention():
    rl.manual_seed(0)
    net, x = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), rl.ones(2, 3, 8)
    return [x], lambda: rl.autograd.grad(net(x).sum(), list(net.parameters()))


def optimizer_program(name, **options):
    def make():
        rl.manual_seed(0)
        parameters = [nn.Parameter(rl.ones(3, 2)), nn.Parameter(rl.zeros(4))]
        made = getattr(rl.optim, name)(parameters, lr=0.1, **options)

        def call():
            for p in parameters:
                p.grad = p.detach() + 1
            made.step()
            return [p.detach() for p in parameters]

        return [], call

    kind = "_".join([name.lower(), *map(str, options)])
    PROGRAMS[f"optimizer_{kind}"] = make


for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam",
             "ASGD", "Rprop"):  # fmt: skip
    optimizer_program(name)
    optimizer_program(name, foreach=True)
optimizer_program("SGD", momentum=0.9)
optimizer_program("Adam", fused=True, amsgrad=True)


@program
def adafactor_and_clipping():
    rl.manual_seed(0)
    p = nn.Parameter(rl.ones(3, 2))

    def call():
        p.grad = rl.full((3, 2), 5.0)
        nn.utils.clip_grad_norm_([p], 1.0)
        return p.grad

    return [p], call


@program
def functional_module():
    net = nn.Linear(2, 2)
    with rl.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    x = rl.ones(1, 2)
    return [x], lambda: functional_call(net, {k: v * 2 for k, v in net.named_parameters()}, (x,))


@program
def module_state():
    net = network()

    def call():
        other = copy.deepcopy(net)
        other.load_state_dict(net.state_dict())
        return list(other.state_dict().values())

    return list(net.state_dict().values()), call


# ---- data, files, text


@program
def data_loader():
    data = TensorDataset(rl.arange(12.0).view(6, 2), rl.arange(6))
    return [], lambda: [list(batch) for batch in DataLoader(data, batch_size=4, shuffle=True)]


@program
def save_and_load():
    state = {"a": rl.arange(5.0), "b": [rl.ones(2, 3).t(), "text"], "c": rl.ones(2, dtype=rl.bool)}

    def call():
        file = io.BytesIO()
        rl.save(state, file)
        file.seek(0)
        return rl.load(file)

    return [state], call


@program
def save_over_a_good_file():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "state")
    rl.save(rl.zeros(1000), path)

    def call():
        try:
            rl.save(rl.ones(1000), path)
        finally:
            found = rl.load(path)  # one or the other, whole
            assert found.shape == (1000,) and found.unique().numel() == 1
        return rl.load(path, mmap=True) + 0

    return [], call


@program
def pickling():
    state = [rl.arange(4.0), nn.Parameter(rl.ones(2)), rl.float32, rl.Size([2]), rl.ones(3)[1:]]
    return [state], lambda: pickle.loads(pickle.dumps(state))


@program
def printing():
    x = rl.arange(12.0).view(3, 4) / 7
    return [x], lambda: (repr(x), str(x.requires_grad_(False)), f"{x[0, 0]:.3f}", repr(x > 1))


@program
def lists_and_numpy():
    x = rl.arange(6.0).view(2, 3)
    return [x], lambda: (x.tolist(), x.numpy(), rl.tensor(x.tolist()), rl.from_numpy(x.numpy()),
                         rl.tensor([1, 2.5, True]), x.sum().item(), list(x))  # fmt: skip


@program
def indexing():
    x = rl.arange(24.0).view(2, 3, 4)

    def call():
        y = x.clone()
        y[:, [0, 2], 1:] = 0
        y[y > 20] = -1
        y[..., None, 0].add_(1)
        return x[[0, 1], [1, 2]], x[x > 5], x[1, ..., ::2], y

    return [x], call


@program
def errors():
    x = rl.ones(2, 3)

    def call():
        try:
            x @ x
        except rl.OutOfMemoryError:
            raise
        except RuntimeError as error:
            return str(error)

    return [x], call


# ---- other kinds of tensors, captured programs


@program
def sparse():
    x = rl.eye(3)

    def call():
        s = x.to_sparse()
        c = x.to_sparse_csr()
        return (s @ x), (c @ x), (s + s).coalesce().values(), s.to_dense()

    return [x], call


@program
def sparse_gradient():
    table = leaf(4, 2)

    def call():
        out = nn.functional.embedding(rl.tensor([1, 1, 2]), table, sparse=True)
        (found,) = rl.autograd.grad(out.sum(), table)
        return found.coalesce().to_dense()

    return [table], call


@program
def nested():
    parts = [rl.ones(2, 3), rl.ones(1, 3)]

    def call():
        t = rl.nested.nested_tensor(parts, layout=rl.jagged)
        return list((t * 2).unbind()), rl.nested.to_padded_tensor(t, 0.0)

    return [parts], call


@program
def subclass():
    class Tagged(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {})

    x = rl.ones(3).as_subclass(Tagged)
    x.tag = "t"
    return [x], lambda: (x + 1).sum().as_subclass(rl.Tensor)


@program
def function_mode():
    from rushlight.overrides import TorchFunctionMode

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = rl.ones(3)

    def call():
        with Watch():
            return x.exp() + x

    return [x], call


@program
def dispatch_mode():
    from rushlight.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    x = leaf(3)

    def call():
        with Watch():
            return rl.autograd.grad((x.exp() + x).sum(), x)

    return [x], call


@program
def profiled():
    x = rl.ones(4)

    def call():
        with rl.profiler.profile() as p:
            y = x.exp() + 1
        return y, len(p.events()) > 0

    return [x], call


@program
def trace_and_export():
    net, x = nn.Linear(2, 2), rl.ones(1, 2)
    with rl.no_grad():
        for p in net.parameters():
            p.fill_(0.5)

    def call():
        return rl.jit.trace(net, (x,))(x), rl.export.export(net, (x,)).module()(x)

    return [x], call


@program
def foreach():
    x = [rl.ones(3), rl.ones(2, 2)]
    return [x], lambda: (rl._foreach_add(x, 1), rl._foreach_mul(x, x), rl._foreach_norm(x))


@program
def foreach_in_place():
    x = [rl.ones(3), rl.ones(2, 2)]

    def call():
        rl._foreach_add_(x, 1)
        rl._foreach_sqrt_(x)
        return x

    return [], call


@program
def random_numbers():
    return [rl.ones(1)], lambda: (rl.randn(5), rl.randperm(6), rl.rand(2, 2).bernoulli_(),
                                  rl.Generator().manual_seed(3).get_state())  # fmt: skip


@program
def distributions():
    d = rl.distributions.Normal(rl.zeros(2), rl.ones(2))
    return [rl.ones(1)], lambda: (d.sample(), d.log_prob(rl.ones(2)))


@program
def lazy_layouts():
    x = rl.arange(64.0).view(1, 4, 4, 4)
    w = rl.ones(4, 4, 3, 3)

    def call():
        y = nn.functional.conv2d(x, w, padding=1)
        y = nn.functional.relu(y * 2 + 1)
        return y.view(4, 16).t(), y.conj(), (y + 1j).conj().imag + 0

    return [x, w], call


@program
def resizing():
    def call():
        x = rl.ones(3)
        x.resize_(1000)
        x.untyped_storage().resize_(16)
        y = rl.empty(0)
        rl.add(rl.ones(700), 1, out=y)
        return x.numel(), y

    return [], call


@program
def shared_memory():
    def call():
        x = rl.ones(300)
        x.share_memory_()
        return x + 1

    return [], call


@program
def dlpack():
    import rushlight.utils.dlpack as exchange

    x = rl.ones(3)
    return [x], lambda: (rl.from_dlpack(x), exchange.from_dlpack(exchange.to_dlpack(x)))
