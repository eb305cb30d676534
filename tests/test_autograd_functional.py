"""The Python side of autograd: entry points, modes, functional, gradcheck, Function, graph."""

import warnings

import pytest

import rushlight
from rushlight import autograd
from rushlight.autograd import functional, graph
from rushlight.autograd.function import once_differentiable
from rushlight.autograd.grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from rushlight.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from rushlight.autograd.variable import Variable


def double(*values):
    return rushlight.tensor(values, dtype=rushlight.float64, requires_grad=True)


def recording():
    return (double(1.0) * 2).requires_grad


# --- backward and grad


def test_backward_accumulates_into_leaves():
    x = double(1.0, 2.0)
    autograd.backward((x * x).sum())
    autograd.backward([x * 3, x.sum()], [rushlight.ones_like(x), None])
    assert x.grad.tolist() == [6.0, 8.0]
    y = double(1.0)
    autograd.backward((x.sum() * y).sum(), inputs=[y])
    assert x.grad.tolist() == [6.0, 8.0] and y.grad.tolist() == [3.0]


def test_grad_returns_what_was_asked_for():
    x, y = double(3.0), double(2.0)
    assert [g.item() for g in autograd.grad(x * y, (x, y))] == [2.0, 3.0]
    assert autograd.grad(x * y, {"of x": x})["of x"].item() == 2.0
    (first,) = autograd.grad(x**3, x, create_graph=True)
    assert autograd.grad(first, x)[0].item() == 18.0
    assert autograd.grad(x * 2, (x, y), allow_unused=True)[1] is None
    assert autograd.grad(x * 2, (x, y), materialize_grads=True)[1].tolist() == [0.0]
    edge = graph.get_gradient_edge(x)
    assert autograd.grad(x * y, edge)[0].item() == 2.0


def test_batched_gradients():
    x = double(1.0, 2.0)
    rows = rushlight.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=x.dtype)
    (batched,) = autograd.grad(x * x, x, rows, is_grads_batched=True)
    assert batched.tolist() == [[2.0, 0.0], [0.0, 4.0], [2.0, 4.0]]
    (none,) = autograd.grad(x * x, x, rows[:0], is_grads_batched=True)
    assert none.shape == (0, 2) and none.dtype == x.dtype


def test_grad_asks_subclasses():
    class Asked(rushlight.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function is autograd.grad:
                return "asked", kwargs["create_graph"]
            return super().__torch_function__(function, types, args, kwargs or {})

    x = double(1.0).as_subclass(Asked)
    assert autograd.grad(double(1.0) * 2, x, create_graph=True) == ("asked", True)


@pytest.mark.parametrize(
    ("run", "error", "text"),
    [
        (lambda x: autograd.backward(x * 2), RuntimeError, "only for scalar outputs"),
        (lambda x: autograd.backward(x.sum(), inputs=[]), RuntimeError, "cannot be empty"),
        (lambda x: autograd.grad(x.sum(), []), RuntimeError, "cannot be empty"),
        (lambda x: autograd.grad((x * 1j).sum(), x), RuntimeError, "real scalar outputs"),
        (lambda x: autograd.grad(x * 2, x, rushlight.ones(3)), RuntimeError, "Mismatch in shape"),
        (lambda x: autograd.grad(x * 2, x, x * 1j), RuntimeError, "Mismatch in dtype"),
        (lambda x: autograd.grad(x * 2, x, [5]), TypeError, "either Tensors or None"),
        (lambda x: autograd.grad([x.sum()] * 2, x, [None]), RuntimeError, "2 tensors and 1 grad"),
        (lambda x: autograd.grad(x.sum(), double(1.0)), RuntimeError, "appears? to not have been"),
        (
            lambda x: autograd.grad(x.sum(), x, materialize_grads=True, allow_unused=False),
            ValueError,
            "allow_unused",
        ),
    ],
)
def test_argument_errors(run, error, text):
    with pytest.raises(error, match=text):
        run(double(1.0, 2.0))


# --- modes


def test_modes_nest_and_restore():
    with no_grad():
        assert not recording()
        with enable_grad():
            assert recording()
            with set_grad_enabled(False):
                assert not recording()
            assert recording()
        assert not recording()
    with pytest.raises(ZeroDivisionError), no_grad():
        1 / 0  # noqa: B018
    assert recording()
    set_grad_enabled(False)
    assert not recording()
    set_grad_enabled(True)
    with inference_mode():
        assert rushlight.ones(1).is_inference() and not recording()
        with inference_mode(False):
            assert recording()
    assert recording() and not rushlight.ones(1).is_inference()


@pytest.mark.parametrize("mode", [no_grad, no_grad(), inference_mode, inference_mode()])
def test_modes_decorate(mode):
    @mode
    def function(a, b=1):
        """Documented."""
        return a + b, recording()

    assert function(1, b=2) == (3, False) and function.__doc__ == "Documented."
    assert function(1) == (2, False) and recording()


def test_set_grad_enabled_decorates_without_side_effect():
    @set_grad_enabled(False)
    def function():
        return recording()

    assert recording() and not function() and recording()


def test_a_decorated_generator_keeps_its_mode_to_itself():
    events = []

    @no_grad()
    def numbers():
        try:
            while True:
                try:
                    received = yield recording()
                    events.append((received, recording()))
                except KeyError:
                    events.append(("caught", recording()))
        finally:
            events.append(("closed", recording()))

    generator = numbers()
    assert next(generator) is False and recording()
    assert generator.send("sent") is False and recording()
    assert generator.throw(KeyError()) is False and recording()
    generator.close()
    assert events == [("sent", False), ("caught", False), ("closed", False)]

    @no_grad()
    def returning():
        yield 1
        return 2

    def outer():
        return (yield from returning())

    generator = outer()
    next(generator)
    with pytest.raises(StopIteration) as stop:
        next(generator)
    assert stop.value.value == 2


def test_anomaly_mode_is_restored():
    before = rushlight._C.is_anomaly_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with autograd.detect_anomaly(check_nan=False):
            assert rushlight._C.is_anomaly_enabled()
            assert not rushlight._C.is_anomaly_check_nan_enabled()
    with autograd.set_detect_anomaly(True):
        assert rushlight._C.is_anomaly_enabled()
    assert rushlight._C.is_anomaly_enabled() is before


# --- functional


def cubes(x, y):
    return (x**3).sum() * y, x * y.sum()


def test_products_with_the_jacobian():
    x, y = double(1.0, 2.0), double(3.0)
    (first, second), (by_x, by_y) = functional.vjp(
        cubes, (x, y), (rushlight.ones(1).double(), rushlight.ones(2).double())
    )
    assert first.tolist() == [27.0] and second.tolist() == [3.0, 6.0]
    assert by_x.tolist() == [12.0, 39.0] and by_y.tolist() == [12.0]
    _, (along_first, along_second) = functional.jvp(cubes, (x, y), (x, y))
    assert along_first.tolist() == [108.0] and along_second.tolist() == [6.0, 12.0]
    assert functional.vjp(lambda x: (x * x).sum(), x)[1].tolist() == [2.0, 4.0]
    assert not by_x.requires_grad and x.grad is None


def test_jacobian_and_hessian():
    x, y = double(1.0, 2.0), double(3.0)
    blocks = functional.jacobian(cubes, (x, y))
    assert blocks[0][0].tolist() == [[9.0, 36.0]] and blocks[0][1].tolist() == [[9.0]]
    assert blocks[1][0].tolist() == [[3.0, 0.0], [0.0, 3.0]]
    columns = functional.jacobian(cubes, (x, y), vectorize=True, strategy="forward-mode")
    for row, column in zip(blocks, columns, strict=True):
        assert [b.tolist() for b in row] == [b.tolist() for b in column]
    hessian = functional.hessian(lambda x, y: (x**3).sum() * y.sum(), (x, y))
    assert hessian[0][0].tolist() == [[18.0, 0.0], [0.0, 36.0]]
    assert hessian[0][1].tolist() == [[3.0], [12.0]] and hessian[1][1].tolist() == [[0.0]]
    assert functional.hessian(lambda x: (x**2).sum(), x).tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_products_with_the_hessian():
    x, v = double(1.0, 2.0), double(1.0, -1.0).detach()

    def f(x):
        return (x**3).sum() + x[0] * x[1]

    for product in (functional.hvp, functional.vhp):
        value, result = product(f, x, v)
        assert value.item() == 11.0 and result.tolist() == [5.0, -11.0]


def test_results_are_differentiable_on_request():
    x = double(1.0, 2.0)
    jacobian = functional.jacobian(lambda x: x**3, x, create_graph=True)
    assert autograd.grad(jacobian.sum(), x)[0].tolist() == [6.0, 12.0]
    _, product = functional.hvp(lambda x: (x**3).sum(), x, x.detach(), create_graph=True)
    assert autograd.grad(product.sum(), x)[0].tolist() == [6.0, 12.0]


def test_strict_mode_refuses_independence():
    x = double(1.0, 2.0)

    def constant(x):
        return rushlight.ones(2, dtype=x.dtype)

    for call in (functional.vjp, functional.jvp):
        assert call(constant, x, x)[1].tolist() == [0.0, 0.0]
        with pytest.raises(RuntimeError, match="strict"):
            call(constant, x, x, strict=True)
    assert functional.jacobian(constant, x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    for run in (
        lambda: functional.jacobian(constant, x, strict=True),
        lambda: functional.jacobian(lambda x: x * 2, x, strict=True, create_graph=True),
        lambda: functional.hessian(lambda x: x.sum(), x, strict=True),
        lambda: functional.hvp(lambda x: x.sum(), x, x, strict=True),
        lambda: functional.vhp(lambda x: x.sum(), x, x, strict=True),
    ):
        with pytest.raises(RuntimeError, match="strict"):
            run()


@pytest.mark.parametrize(
    ("run", "error"),
    [
        (lambda x: functional.vjp(lambda x: x, x), RuntimeError),
        (lambda x: functional.vjp(lambda x: x, x, x[:1]), RuntimeError),
        (lambda x: functional.vjp(lambda x: x, x, (x, x)), RuntimeError),
        (lambda x: functional.vjp(lambda x: 3, x), TypeError),
        (lambda x: functional.vjp(lambda x: x, [x]), TypeError),
        (lambda x: functional.hvp(lambda x: x, x, x), RuntimeError),
        (lambda x: functional.hessian(lambda x: (x.sum(),), x), RuntimeError),
        (lambda x: functional.jacobian(lambda x: x, x, strategy="best"), AssertionError),
        (lambda x: functional.jacobian(lambda x: x, x, strict=True, vectorize=True), RuntimeError),
        (lambda x: functional.jacobian(lambda x: x * 1j, x), RuntimeError),
    ],
)
def test_functional_errors(run, error):
    with pytest.raises(error):
        run(double(1.0, 2.0))


# --- gradcheck


def sized(function, backward):
    """Return an op with the given forward and backward."""

    class Custom(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return function(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return backward(x, grad)

    return Custom.apply


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_accepts_correct_gradients(fast_mode):
    x, y = double(0.5, 1.5), double(2.0)
    z = rushlight.tensor([1 + 2j, -0.5j], dtype=rushlight.complex128, requires_grad=True)
    functions = [
        (lambda x, y: (x.exp() * y, (x * y).sum()), (x, y)),
        (lambda x, y: x * y, (x.detach(), y)),
        (lambda z: z * z, (z,)),
        (lambda z: z.abs(), (z,)),
        (lambda x: rushlight.complex(x, x * x), (x,)),
        (lambda x, z: x * z.conj(), (x, z)),
        (lambda x: x.new_ones(3), (x,)),
        (lambda x: x[:0] * 2, (x,)),
    ]
    for function, inputs in functions:
        assert gradcheck(function, inputs, fast_mode=fast_mode)
    assert gradcheck(functions[0][0], (x, y), check_batched_grad=True, check_grad_dtypes=True)
    assert x.tolist() == [0.5, 1.5]


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradcheck_finds_errors(fast_mode):
    x = double(0.5, 1.5)
    z = rushlight.tensor([1 + 2j], dtype=rushlight.complex128, requires_grad=True)
    calls = []

    def unsteady(x, grad):
        calls.append(1)
        return grad * (2 + 1e-7 * len(calls))

    def careless(x, grad):
        return (grad + 1) * 2 - 2 if grad.abs().sum() else x * 2

    wrong = [
        (sized(lambda x: x * 2, lambda x, grad: grad * 2.1), x, "Jacobian mismatch for output 0"),
        (sized(lambda z: z * z, lambda z, grad: grad * 2 * z), z, "Jacobian mismatch"),
        (sized(lambda x: x * 2, unsteady), x, "not reentrant"),
        (sized(lambda x: x * 2, careless), x, "undefined output grads"),
        (lambda x: x.detach() * 2, x, "expected to be zero"),
    ]
    for function, point, text in wrong:
        with pytest.raises(GradcheckError, match=text):
            gradcheck(function, point, fast_mode=fast_mode)
        assert gradcheck(function, point, fast_mode=fast_mode, raise_exception=False) is False
    assert gradcheck(wrong[2][0], x, fast_mode=fast_mode, nondet_tol=1e-3)


def test_gradcheck_checks_its_input():
    with pytest.raises(ValueError, match="at least one input"):
        gradcheck(lambda x: x, rushlight.ones(1).double())
    with pytest.warns(UserWarning, match="double precision"):
        gradcheck(lambda x: x * 1, rushlight.ones(1, requires_grad=True), eps=1e-2, atol=1e-2)
    with pytest.raises(RuntimeError, match="stride 0"):
        gradcheck(lambda x: x, double(1.0).expand(3))


@pytest.mark.parametrize("fast_mode", [False, True])
def test_gradgradcheck(fast_mode):
    x, y = double(0.5, 1.5), double(2.0)
    function = lambda x, y: (x**3 * y, x.exp())  # noqa: E731
    assert gradgradcheck(function, (x, y), fast_mode=fast_mode)
    assert gradgradcheck(function, (x, y), gen_non_contig_grad_outputs=True, fast_mode=fast_mode)
    wrong = sized(lambda x: x**3, lambda x, grad: grad * 3 * (x * x).detach())
    assert gradcheck(wrong, x)
    with pytest.raises(GradcheckError):
        gradgradcheck(wrong, x, fast_mode=fast_mode)


# --- custom functions


class Scale(autograd.Function):
    """Two outputs, of which the second has no gradient; forward and context are apart."""

    @staticmethod
    def forward(x, factor):
        return x * factor, x > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.factor = inputs
        ctx.save_for_backward(x)
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad, no_grad):
        assert no_grad is None and ctx.needs_input_grad == (True, False)
        return grad * ctx.factor, None


def test_custom_function():
    x = double(1.0, -2.0)
    scaled, positive = Scale.apply(x, 3)
    assert not positive.requires_grad and scaled.requires_grad
    assert autograd.grad(scaled.sum(), x)[0].tolist() == [3.0, 3.0]


def test_a_dirty_input_is_the_output():
    class Double(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    leaf = double(1.0)
    x = leaf * 1
    assert Double.apply(x) is x and x.tolist() == [2.0]
    assert autograd.grad(x, leaf)[0].tolist() == [2.0]


def test_once_differentiable():
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    x = double(3.0)
    assert autograd.grad(Square.apply(x), x)[0].item() == 6.0
    (first,) = autograd.grad(
        Square.apply(x), x, rushlight.ones_like(x).requires_grad_(), create_graph=True
    )
    with pytest.raises(RuntimeError, match="once_differentiable"):
        autograd.grad(first, x)


def test_incomplete_functions_say_so():
    class Nothing(autograd.Function):
        pass

    with pytest.raises(NotImplementedError, match="forward"):
        Nothing.apply(double(1.0))


# --- graph


def test_saved_tensors_hooks():
    packed = []

    def pack(tensor):
        packed.append(tensor)
        return len(packed) - 1

    x = double(1.0, 2.0)
    with graph.saved_tensors_hooks(pack, lambda place: packed[place]):
        y = x * x
    assert packed and autograd.grad(y.sum(), x)[0].tolist() == [2.0, 4.0]
    with graph.save_on_cpu():
        y = x.exp() * x
    assert rushlight.allclose(autograd.grad(y.sum(), x)[0], (x.exp() * (x + 1)).detach())
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            with graph.saved_tensors_hooks(pack, pack):
                x * x  # noqa: B018


def test_mutation_of_saved_tensors():
    x = double(1.0, 2.0)
    with graph.allow_mutation_on_saved_tensors():
        y = x.exp()
        expected = y.detach().clone()
        y.mul_(3)
        with pytest.raises(RuntimeError, match="nested"):
            with graph.allow_mutation_on_saved_tensors():
                pass
    assert rushlight.allclose(autograd.grad(y.sum(), x)[0], 3 * expected)


def test_gradient_edges():
    x = double(1.0)
    y = x * 2
    assert graph.get_gradient_edge(y).node is y.grad_fn
    assert graph.get_gradient_edge(x).node is y.grad_fn.next_functions[0][0]
    assert isinstance(y.grad_fn, graph.Node)
    with pytest.raises(RuntimeError, match="no gradient edge"):
        graph.get_gradient_edge(x.detach())


def test_hooks_on_several_tensors():
    x, y, z = double(1.0), double(2.0), double(3.0)
    seen = []
    handle = graph.register_multi_grad_hook((x, y, z), seen.append)
    (x * y).sum().backward()
    (x + y + z).sum().backward()
    as_numbers = [[g and g.item() for g in gradients] for gradients in seen]
    assert as_numbers == [[2.0, 1.0, None], [1.0, 1.0, 1.0]]
    handle.remove()
    (x * y).sum().backward()
    assert len(seen) == 2
    first = []
    with graph.register_multi_grad_hook((x, y), first.append, mode="any"):
        (x * y).sum().backward()
        (x * y).sum().backward()
    assert len(first) == 2
    with pytest.raises(ValueError, match="mode"):
        graph.register_multi_grad_hook((x,), seen.append, mode="some")


def test_a_pass_within_a_pass_does_not_call_a_hook_of_any_twice():
    x, y = (rushlight.tensor(v, requires_grad=True) for v in (2.0, 3.0))
    seen = []

    @rushlight.enable_grad()
    def within(gradient):
        for factor in (10, 100):
            (x * factor).backward()

    z = x * 5
    with graph.register_multi_grad_hook((z, x), lambda g: seen.append(g.item()), mode="any"):
        z.register_hook(within)
        out = z * y
        out.backward(retain_graph=True)
        out.backward()
    # The gradient of x comes last in the outer pass, after the passes within it.
    assert seen == [3.0, 10.0, 100.0] * 2


# --- Variable


def test_variable_is_a_tensor():
    x = rushlight.ones(2)
    v = Variable(x, requires_grad=True)
    assert type(v) is rushlight.Tensor and v.is_leaf and v.requires_grad and not x.requires_grad
    assert isinstance(x, Variable) and not isinstance(3, Variable)
    v.data.zero_()
    assert x.tolist() == [0.0, 0.0]
    assert Variable().numel() == 0 and not Variable(v * 2).requires_grad
    with pytest.raises(TypeError, match="has to be a tensor"):
        Variable([1.0])


@pytest.mark.parametrize("fast_mode", [True, False])
@pytest.mark.parametrize("masked", [None, True, False])
def test_sparse_inputs_are_checked_by_their_values(masked, fast_mode):
    x = rushlight.eye(2, dtype=rushlight.float64).to_sparse().requires_grad_()
    y = rushlight.rand(2, 3, dtype=rushlight.float64, requires_grad=True)
    for given in (x, x.detach().to_sparse_csr().requires_grad_(), x.detach()):
        assert gradcheck(lambda x, y: x @ y, (given, y), masked=masked, fast_mode=fast_mode)

    class Wrong(rushlight.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.to_dense() * 2

        @staticmethod
        def backward(ctx, grad):
            return grad.sparse_mask(x.detach()) * 3

    options = {"masked": True, "fast_mode": fast_mode, "raise_exception": False}
    assert not gradcheck(Wrong.apply, (x,), **options)


def test_volatile_spreads():
    weight = Variable(rushlight.ones(2), requires_grad=True)
    x = Variable(rushlight.ones(2), volatile=True)
    y = (weight * x).relu()
    parts = rushlight.stack([y, weight]).unbind(0)
    for result in (x, y, *parts, x.detach(), y.view(2, 1)):
        assert result.volatile and not result.requires_grad and result.grad_fn is None
    assert y.tolist() == [1.0, 1.0]
    assert (weight * y.data).requires_grad and (weight * 2).requires_grad
    with pytest.raises(RuntimeError, match="volatile"):
        y.sum().backward()
    with pytest.raises(ValueError, match="volatile"):
        Variable(rushlight.ones(1), requires_grad=True, volatile=True)
    with pytest.raises(ValueError, match="volatile"):
        y.requires_grad_()


def test_fast_gradcheck_has_the_tolerance_of_all_elements():
    rushlight.manual_seed(0)
    x = rushlight.randn(16, 5, 512, requires_grad=True)
    layer = rushlight.nn.LayerNorm(512, 1e-3, False)
    with pytest.warns(UserWarning, match="double precision"):
        assert gradcheck(layer, (x,), fast_mode=True)

    class Wrong(rushlight.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def backward(ctx, grad):
            return 3 * grad

    x = rushlight.randn(100, dtype=rushlight.float64, requires_grad=True)
    with pytest.raises(GradcheckError):
        gradcheck(Wrong.apply, (x,), fast_mode=True)


def test_hessian_of_what_is_no_tensor_is_a_type_error():
    with pytest.raises(TypeError, match="outputs of the user-provided function given to hessian"):
        functional.hessian(lambda x: (x.sum(), "text"), rushlight.ones(2))
    with pytest.raises(RuntimeError, match="not supported together"):
        functional.jacobian(lambda x: x, rushlight.ones(2), strict=True, vectorize=True)
