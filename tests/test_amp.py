"""Autocast: which dtypes operations run in, nesting, the cache of weights; and GradScaler."""

import warnings

import pytest

import rushlight
from rushlight import nn
from rushlight.amp import autocast

F = nn.functional
BF16, F32, F64 = rushlight.bfloat16, rushlight.float32, rushlight.float64


def test_matrix_products_and_convolutions_run_in_the_lower_dtype():
    x, w = rushlight.rand(2, 4), rushlight.rand(4, 4)
    image, kernel = rushlight.rand(1, 2, 6, 6), rushlight.rand(3, 2, 3, 3)
    with autocast("cpu"):
        results = [x @ w, x.mm(w), rushlight.mm(x, w), F.linear(x, w), F.conv2d(image, kernel)]
        results += [nn.Linear(4, 2)(x), rushlight.einsum("ij,jk->ik", x, w)]
    assert {r.dtype for r in results} == {BF16}
    assert rushlight.allclose(results[0].float(), x @ w, rtol=2e-2)


def test_other_operations_keep_their_dtype():
    x = rushlight.rand(2, 4)
    with autocast("cpu"):
        assert {f(x).dtype for f in (rushlight.exp, F.relu, rushlight.sum)} == {F32}
        assert F.softmax(x.bfloat16(), 1).dtype is BF16


def test_losses_run_in_float32():
    x, target = rushlight.rand(2, 3).bfloat16(), rushlight.tensor([0, 2])
    with autocast("cpu"):
        assert F.cross_entropy(x, target).dtype is F32
        assert F.multi_margin_loss(x, target).dtype is F32  # written in Python
        assert F.mse_loss(x, x).dtype is F32
        assert rushlight.fft.fft(x).dtype is rushlight.complex64


def test_the_widest_dtype_wins():
    a, b = rushlight.ones(2), rushlight.ones(2).bfloat16()
    with autocast("cpu"):
        assert rushlight.cat([b, a]).dtype is F32
        assert rushlight.stack([b, b]).dtype is BF16


def test_float64_is_left_alone():
    x = rushlight.rand(2, 2, dtype=F64)
    with autocast("cpu"):
        assert (x @ x).dtype is F64 and F.mse_loss(x, x).dtype is F64


def test_regions_nest_and_can_be_disabled():
    x = rushlight.rand(2, 2)
    with autocast("cpu"):
        with autocast("cpu", enabled=False):
            assert (x @ x).dtype is F32
            with autocast("cpu", dtype=rushlight.float16):
                assert (x @ x).dtype is rushlight.float16
                assert rushlight.get_autocast_dtype("cpu") is rushlight.float16
            assert not rushlight.is_autocast_enabled("cpu")
        assert (x @ x).dtype is BF16 and rushlight.is_autocast_cpu_enabled()
    assert (x @ x).dtype is F32 and rushlight.overrides._get_current_function_mode() is None


def test_disabled_outside():
    x = rushlight.rand(2, 2)
    with autocast("cpu", enabled=False), autocast("cpu"):
        assert (x @ x).dtype is BF16
    with autocast("cpu", enabled=False):
        assert (x @ x).dtype is F32


def test_an_exception_ends_the_region():
    with pytest.raises(ZeroDivisionError), autocast("cpu"):
        raise ZeroDivisionError
    assert not rushlight.is_autocast_enabled("cpu")


def test_as_a_decorator():
    @autocast("cpu")
    def product(x):
        return x @ x

    assert product(rushlight.rand(2, 2)).dtype is BF16
    assert not rushlight.is_autocast_enabled("cpu")


def test_switches_without_a_region():
    x = rushlight.rand(2, 2)
    rushlight.set_autocast_enabled("cpu", True)
    assert (x @ x).dtype is BF16
    rushlight.set_autocast_enabled("cpu", False)
    assert (x @ x).dtype is F32 and rushlight.overrides._get_current_function_mode() is None


def test_weights_are_cast_once_in_a_region():
    weight = rushlight.rand(3, 3, requires_grad=True)
    x = rushlight.rand(2, 3)
    cache = rushlight.amp.autocast_mode._state.cache
    with autocast("cpu"):
        F.linear(F.linear(x, weight), weight)
        assert len(cache) == 1
        with rushlight.no_grad():
            y = F.linear(x, weight)
        assert not y.requires_grad and F.linear(x, weight).requires_grad
        with rushlight.no_grad():
            weight.mul_(0)
        assert F.linear(x, weight).float().abs().sum() == 0, "a changed weight is cast again"
    assert not cache
    with autocast("cpu", cache_enabled=False):
        F.linear(x, weight)
        assert not cache


def test_training_in_bfloat16():
    model = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = rushlight.optim.Adam(model.parameters(), lr=1e-2)
    x = rushlight.rand(64, 4)
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        with autocast("cpu", dtype=BF16):
            loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert all(p.grad.dtype is F32 for p in model.parameters())
    assert losses[-1] < losses[0] / 20


def test_inside_a_function_of_ones_own():
    class Product(rushlight.autograd.Function):
        @staticmethod
        @rushlight.amp.custom_fwd(device_type="cpu", cast_inputs=F32)
        def forward(ctx, x):
            assert not rushlight.is_autocast_enabled("cpu")
            ctx.save_for_backward(x)
            return x @ x

        @staticmethod
        @rushlight.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            assert (x @ x).dtype is F32
            return grad @ x.T + x.T @ grad

    x = rushlight.rand(2, 2, requires_grad=True)
    with autocast("cpu"):
        y = Product.apply(x.bfloat16())
    assert y.dtype is F32
    y.sum().backward()
    assert x.grad is not None


def test_backward_runs_with_the_autocast_of_the_forward():
    seen = []

    class Probe(rushlight.autograd.Function):
        @staticmethod
        @rushlight.amp.custom_fwd(device_type="cpu")
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @rushlight.amp.custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            seen.append(rushlight.is_autocast_enabled("cpu"))
            return grad * 2

    x = rushlight.rand(2, requires_grad=True)
    with autocast("cpu"):
        y = Probe.apply(x)
    y.sum().backward()
    Probe.apply(x).sum().backward()
    assert seen == [True, False]


@pytest.mark.parametrize("device", ["cuda", "xpu"])
def test_devices_that_are_not_there_are_warned_of(device):
    phrase = "^CUDA is not available or" if device == "cuda" else "'xpu', but it is not available"
    with pytest.warns(UserWarning, match=phrase):
        region = autocast(device)
    with region:
        assert (rushlight.ones(1, 1) @ rushlight.ones(1, 1)).dtype is F32
    autocast(device, enabled=False)


def test_a_dtype_that_is_not_for_autocast_is_warned_of():
    with pytest.warns(UserWarning, match="^In CPU autocast, but the target dtype is not supported"):
        region = autocast("cpu", dtype=F64)
    with region:
        assert not rushlight.is_autocast_enabled("cpu")


def test_threads_have_regions_of_their_own():
    import threading

    x, found = rushlight.rand(2, 2), []
    with autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert found == [F32]


# ---- GradScaler


def test_the_scaler_skips_steps_that_overflow():
    p = nn.Parameter(rushlight.ones(2))
    optimizer = rushlight.optim.SGD([p], lr=1.0)
    scaler = rushlight.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
    scaler.scale(p.sum()).backward()
    assert p.grad.tolist() == [4.0, 4.0]
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.0, 0.0] and scaler.get_scale() == 8.0
    optimizer.zero_grad()
    scaler.scale((p * float("inf")).sum()).backward()
    assert scaler.step(optimizer) is None
    scaler.update()
    assert p.tolist() == [0.0, 0.0] and scaler.get_scale() == 4.0


def test_large_gradients_are_not_an_overflow():
    p = nn.Parameter(rushlight.ones(4))
    optimizer = rushlight.optim.SGD([p], lr=0.0)
    scaler = rushlight.amp.GradScaler("cpu", init_scale=1.0)
    scaler.scale(rushlight.ones(()))
    p.grad = rushlight.full((4,), 3e38)
    assert scaler.unscale_(optimizer) is None
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 1.0


@pytest.mark.parametrize("value", [2.0, float("inf")])
def test_sparse_gradients_are_unscaled_and_looked_at(value):
    table = nn.Embedding(4, 2, sparse=True)
    before = table.weight.detach().clone()
    optimizer = rushlight.optim.SGD(table.parameters(), lr=1.0)
    scaler = rushlight.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(table(rushlight.tensor([1, 1, 3])).sum() * value).backward()
    scaler.step(optimizer)
    scaler.update()
    steps = [[0.0], [4.0], [0.0], [2.0]] if value == 2.0 else [[0.0]]
    assert rushlight.allclose(table.weight, before - rushlight.tensor(steps))
    assert scaler.get_scale() == (4.0 if value == 2.0 else 2.0)


def scaled_once(*more):
    p = nn.Parameter(rushlight.ones(4))
    p.grad = rushlight.full((4,), 8.0)
    scaler = rushlight.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(rushlight.ones(()))
    return p, scaler, *more


def test_an_optimizer_that_unscales_by_itself_finds_scale_and_overflow():
    class Own(rushlight.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            found.append((self.grad_scale, self.found_inf.item()))

    class Older(Own):
        def step(self, closure=None, *, grad_scaler=None):
            found.append(grad_scaler)

    found = []
    p, scaler = scaled_once()
    optimizer, older = Own([p], lr=0.1), Older([p], lr=0.1)
    scaler.step(optimizer)
    with pytest.warns(FutureWarning, match="grad_scaler"):
        scaler.step(older)
    scaler.update()
    assert found[0][0].item() == 4.0 and found[0][1] == 0.0 and found[1] is scaler
    assert p.grad.tolist() == [8.0] * 4 and not hasattr(optimizer, "grad_scale")
    scaler.unscale_(optimizer)
    p.grad[0] = float("inf")
    scaler.step(optimizer)
    assert found[2] == (None, 0.0) and p.grad[1] == 2.0


def test_steps_of_a_scaler_out_of_order():
    p, scaler = scaled_once()
    optimizer = rushlight.optim.SGD([p], lr=0.1)
    other = rushlight.optim.SGD([nn.Parameter(rushlight.ones(1))], lr=0.1)
    for call in (scaler.update, lambda: scaler.step(other)):
        with pytest.raises(AssertionError, match="No inf checks were recorded"):
            call()
    scaler.step(optimizer)
    for call in (lambda: scaler.step(optimizer), lambda: scaler.unscale_(optimizer)):
        with pytest.raises(RuntimeError, match="step"):
            call()
    with pytest.raises(RuntimeError, match="Closure"):
        scaler.step(other, closure=lambda: 1)
    for call in ("step", "unscale_"):
        with pytest.raises(AssertionError, match="nothing was scaled"):
            getattr(rushlight.amp.GradScaler("cpu"), call)(optimizer)
    p.data, p.grad = p.data.half(), None
    p.grad = rushlight.ones(4, dtype=rushlight.float16)
    scaler.update()
    with pytest.raises(ValueError, match="FP16"):
        scaler.unscale_(optimizer)
    with pytest.raises(ValueError, match="iterable of Tensors"):
        scaler.scale(3)
    assert [t.item() for t in scaler.scale(t for t in [rushlight.ones(())])] == [4.0]


def test_the_scaler_for_gpus_warns_and_passes_through():
    phrase = r"^torch\.cuda\.amp\.GradScaler is enabled, but CUDA is not available"
    with pytest.warns(UserWarning, match=phrase):
        scaler = rushlight.amp.GradScaler()
    with warnings.catch_warnings(), pytest.warns(UserWarning):
        rushlight.cuda.amp.GradScaler()
    loss = rushlight.ones(())
    assert not scaler.is_enabled() and scaler.scale(loss) is loss
    assert not rushlight.amp.GradScaler(enabled=False).is_enabled()


# ---- beside torch


def cases(torch):
    """What autocast does to operations of each list, and to some of none."""

    def a(*shape, dtype=None):
        return torch.rand(*shape).add(0.1).to(dtype)

    eye = torch.eye(2)
    yield from {
        "addmm": lambda d: torch.addmm(a(2, 2, dtype=d), a(2, 2), a(2, 2)),
        "baddbmm": lambda d: torch.baddbmm(a(1, 2, 2, dtype=d), a(1, 2, 2), a(1, 2, 2)),
        "conv1d": lambda d: torch.conv1d(a(1, 2, 8, dtype=d), a(3, 2, 3)),
        "mv": lambda d: a(2, 2).mv(a(2)),
        "dot": lambda d: a(2, dtype=d).dot(a(2, dtype=d)),
        "prelu": lambda d: torch.prelu(a(2, dtype=d), a(1)),
        "bilinear": lambda d: torch.nn.functional.bilinear(a(2, 2), a(2, 2), a(3, 2, 2)),
        "attention": lambda d: torch.nn.functional.scaled_dot_product_attention(
            a(1, 2, 4, dtype=d), a(1, 2, 4), a(1, 2, 4)
        ),
        "multihead": lambda d: torch.nn.MultiheadAttention(4, 2)(*[a(1, 1, 4, dtype=d)] * 3)[0],
        "lstm cell": lambda d: torch.nn.LSTMCell(2, 2)(a(1, 2, dtype=d))[0],
        **{
            f"{kind.lower()} {' '.join(options)}": lambda d, kind=kind, options=options: (
                getattr(torch.nn, kind)(2, 3, **options)(a(4, 1, 2, dtype=d))[0]
            )
            for kind, options in [
                ("RNN", {}), ("LSTM", {}), ("GRU", {}), ("LSTM", {"proj_size": 2}),
                ("LSTM", {"num_layers": 2, "bidirectional": True}),
            ]
        },
        "prod": lambda d: a(2, dtype=d).prod(),
        "cdist": lambda d: torch.cdist(a(2, 2, dtype=d), a(2, 2, dtype=d)),
        "trace": lambda d: a(2, 2, dtype=d).trace(),
        "quantile": lambda d: torch.quantile(a(3, dtype=d), 0.5),
        "inverse": lambda d: torch.inverse(eye.to(d)),
        "solve": lambda d: torch.linalg.solve(eye.to(d), eye.to(d)),
        "cond": lambda d: torch.linalg.cond(eye.to(d)),
        "eigvalsh": lambda d: torch.linalg.eigvalsh(eye.to(d)),
        "avg_pool2d": lambda d: torch.nn.functional.avg_pool2d(a(1, 1, 4, 4, dtype=d), 2),
        "avg_pool3d": lambda d: torch.nn.functional.avg_pool3d(a(1, 1, 4, 4, 4, dtype=d), 2),
        "max_pool2d": lambda d: torch.nn.functional.max_pool2d(a(1, 1, 4, 4, dtype=d), 2),
        "max_pool3d": lambda d: torch.nn.functional.max_pool3d(a(1, 1, 4, 4, 4, dtype=d), 2),
        "grid": lambda d: torch.nn.functional.grid_sample(
            a(1, 1, 4, 4, dtype=d), a(1, 2, 2, 2, dtype=d), align_corners=False
        ),
        "reflect": lambda d: torch.nn.functional.pad(a(1, 1, 4, dtype=d), (1, 1), "reflect"),
        "pad": lambda d: torch.nn.functional.pad(a(1, 1, 4, dtype=d), (1, 1)),
        "ctc": lambda d: torch.nn.functional.ctc_loss(
            a(5, 1, 3, dtype=d), torch.tensor([[1]]), torch.tensor([5]), torch.tensor([1])
        ),
        "kl": lambda d: torch.nn.functional.kl_div(a(2, dtype=d), a(2, dtype=d), reduction="sum"),
        "gaussian": lambda d: torch.nn.functional.gaussian_nll_loss(*[a(2, dtype=d)] * 3),
        "stack": lambda d: torch.stack([a(2, dtype=d), a(2)]),
        "layer_norm": lambda d: torch.nn.functional.layer_norm(
            a(2, 4, dtype=d), (4,), torch.ones(4), torch.ones(4)
        ),
        "logsumexp": lambda d: a(2, dtype=d).logsumexp(0),
        "atan2": lambda d: torch.atan2(a(2, dtype=d), a(2, dtype=d)),
        "rfft": lambda d: torch.fft.rfft(a(4, dtype=d)),
    }.items()  # fmt: skip


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_dtypes_are_those_of_torch(dtype):
    torch = pytest.importorskip("torch")

    def dtypes(library, without=()):
        found, unable = {}, set()
        with library.autocast("cpu", dtype=library.bfloat16):
            for name, run in cases(library):
                try:
                    found[name] = str(run(getattr(library, dtype)).dtype)
                except RuntimeError as error:  # of torch, on processors without AVX-512
                    lacks = "could not create a primitive descriptor for the LSTM"
                    if library is rushlight or lacks not in str(error):
                        raise
                    unable.add(name)
        return {name: kind for name, kind in found.items() if name not in without}, unable

    expected, unable = dtypes(torch)
    assert dtypes(rushlight, without=unable)[0] == expected and len(expected) > 2 * len(unable)


def test_an_lstm_runs_in_the_dtype_of_the_region():
    rushlight.manual_seed(0)
    lstm = rushlight.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    x = rushlight.randn(5, 2, 3, requires_grad=True)
    with autocast("cpu"):
        output, states = lstm(x)
    assert output.dtype is BF16 and all(state.dtype is BF16 for state in states)
    rushlight.testing.assert_close(output.float(), lstm(x)[0], rtol=0.02, atol=0.02)
    output.float().square().sum().backward()
    assert x.grad.dtype is lstm.weight_hh_l1.grad.dtype is rushlight.float32
    gradient = lstm.weight_hh_l1.grad.clone()
    lstm.zero_grad()
    lstm(x)[0].square().sum().backward()
    rushlight.testing.assert_close(gradient, lstm.weight_hh_l1.grad, rtol=0.05, atol=0.05)


def test_what_a_scaler_grows_and_shrinks_by_is_set():
    scaler = rushlight.amp.GradScaler("cpu", init_scale=8.0)
    scaler.set_growth_factor(4.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(1)
    assert scaler.get_growth_factor() == 4 and scaler.get_growth_interval() == 1
    weight = nn.Parameter(rushlight.ones(1))
    optimizer = rushlight.optim.SGD([weight], lr=0.0)
    for loss, scale in ((1.0, 32.0), (float("inf"), 8.0)):
        optimizer.zero_grad()
        scaler.scale(weight.sum() * loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == scale


def test_autocast_of_no_kind_of_device_is_an_error():
    with pytest.raises(RuntimeError, match="autocast: Invalid device string: 'cpus'"):
        rushlight.autocast("cpus")
    with pytest.warns(UserWarning, match="'mps'.*not available"):
        rushlight.autocast("mps")


def test_programs_find_and_override_the_inside_of_a_scaler():
    model = nn.Linear(3, 2)
    optimizer = rushlight.optim.SGD(model.parameters(), lr=0.1)
    asked = []

    class Scaler(rushlight.amp.GradScaler):
        def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
            asked.append(optimizer_state["stage"].name)
            return super()._maybe_opt_step(optimizer, optimizer_state, *args, **kwargs)

        def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
            asked.append(float(inv_scale))
            return super()._unscale_grads_(optimizer, inv_scale, found_inf, True)

    scaler = Scaler("cpu", init_scale=4.0, growth_interval=1)
    assert scaler._get_scale_async() is None and scaler._get_growth_tracker() == 0
    for factor, scale in ((1.0, 8.0), (float("inf"), 4.0)):
        optimizer.zero_grad()
        scaler.scale(model(rushlight.ones(1, 3)).sum() * factor).backward()
        scaler.step(optimizer)
        (found,) = scaler._per_optimizer_states[id(optimizer)]["found_inf_per_device"].values()
        assert found == (factor != 1)
        assert scaler._found_inf_per_device(optimizer)[found.device] is found
        scaler.update()
        assert not scaler._per_optimizer_states and scaler.get_scale() == scale
        assert scaler._get_scale_async().dtype is F32
    assert asked == [0.25, "UNSCALED", 0.125, "UNSCALED"]
    half = nn.Linear(2, 1).half()
    half.weight.grad = rushlight.ones_like(half.weight)
    scaler.unscale_(rushlight.optim.SGD(half.parameters(), lr=0.1))
    assert half.weight.grad.tolist() == [[0.25, 0.25]]


def test_a_loss_in_float16_does_not_overflow_by_its_scale():
    scaler = rushlight.amp.GradScaler("cpu")
    loss = rushlight.ones((), dtype=rushlight.float16, requires_grad=True)
    scaled = scaler.scale(loss)
    assert scaled.dtype is F32 and scaled == 2.0**16
    assert scaler.scale(rushlight.ones(1, dtype=rushlight.float16)).isinf()
