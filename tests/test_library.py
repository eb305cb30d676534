"""torch.library: operations of one's own."""

# ruff: noqa: UP006, UP007, UP045  (annotations as programs write them)

import copy
import gc
import math
import pickle
from typing import List, Optional, Sequence, Tuple, Union  # noqa: UP035

import numpy as np
import pytest

import rushlight as torch
from rushlight import Tensor, library
from rushlight.library import Library, custom_op, infer_schema, opcheck


@custom_op("rltest::sine", mutates_args=())
def sine(x: Tensor, scale: float = 2.0, *, shift: float = 0.0) -> Tensor:
    return torch.from_numpy(np.sin(x.detach().numpy()) * scale + shift)


@sine.register_fake
def _(x, scale=2.0, *, shift=0.0):
    return torch.empty_like(x)


def _save(ctx, inputs, keyword_only_inputs, output):
    assert set(keyword_only_inputs) == {"shift"}
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


sine.register_autograd(
    lambda ctx, grad: (grad * ctx.saved_tensors[0].cos() * ctx.scale, None), setup_context=_save
)


@pytest.fixture
def lib():
    with library._scoped_library("rlscratch", "FRAGMENT") as made:
        yield made


@pytest.fixture
def scratch():
    """A namespace for custom operations, empty afterwards."""
    yield "rlscratch"
    torch.ops.rlscratch._packets.clear()


# ---- schemas


def of_everything(
    x: Tensor, y: Optional[Tensor], z: List[Tensor], a: int = 3, b: float = 1.5, c: bool = False,
    d: str = "x", e: torch.dtype = torch.float32, f: Optional[torch.device] = None,
    g: Optional[Sequence[int]] = None, h: Union[int, float, bool] = 2, *, k: float | None = None,
) -> Tuple[Tensor, List[Tensor], int, float, bool]: ...  # fmt: skip


def test_schemas_of_annotations():
    rest = (
        'SymInt a=3, float b=1.5, bool c=False, str d="x", ScalarType e=float32, Device? f=None, '
        "SymInt[]? g=None, Scalar h=2, *, float? k=None) -> (Tensor, Tensor[], SymInt, float, bool)"
    )
    plain = "(Tensor x, Tensor? y, Tensor[] z, " + rest
    assert infer_schema(of_everything, mutates_args=()) == plain
    written = "(Tensor(a0!) x, Tensor(a1!)? y, Tensor(a2!)[] z, " + rest
    assert infer_schema(of_everything, mutates_args="unknown") == written
    assert infer_schema(of_everything, mutates_args=["y"], op_name="op").startswith(
        "op(Tensor x, Tensor(a1!)? y, Tensor[] z, "
    )

    def quoted(x: "Tensor", n: "list[int] | None" = None) -> "None": ...

    assert infer_schema(quoted, mutates_args={"x"}) == "(Tensor(a0!) x, SymInt[]? n=None) -> ()"


def _bad_functions():
    def untyped(x) -> Tensor: ...
    def of_dict(x: dict) -> Tensor: ...
    def of_tuple(x: tuple[int, int]) -> Tensor: ...
    def no_result(x: Tensor): ...
    def gives_dict(x: Tensor) -> dict: ...
    def variadic(*x: Tensor) -> Tensor: ...
    def list_default(x: List[int] = [1]) -> Tensor: ...  # noqa: B006
    def unevaluated(x: "Missing") -> Tensor: ...  # noqa: F821

    return [
        (untyped, "Parameter x must have a type annotation"),
        (of_dict, "Parameter x has unsupported type <class 'dict'>"),
        (of_tuple, "do not support Tuple inputs"),
        (no_result, "No return type annotation"),
        (gives_dict, "Return has unsupported type"),
        (variadic, "positional-only args, varargs, or varkwargs"),
        (list_default, "unsupported default value"),
        (unevaluated, "Missing"),
    ]


@pytest.mark.parametrize(("function", "message"), _bad_functions())
def test_functions_without_a_schema(function, message):
    with pytest.raises(ValueError, match=message):
        infer_schema(function, mutates_args=())


def test_arguments_that_cannot_be_written():
    def scale(x: Tensor, n: int) -> Tensor: ...

    with pytest.raises(ValueError, match="holds no Tensors"):
        infer_schema(scale, mutates_args={"n"})
    with pytest.raises(ValueError, match="were not found"):
        infer_schema(scale, mutates_args={"q"})
    with pytest.raises(ValueError, match="unknown"):
        infer_schema(scale, mutates_args="x")


@pytest.mark.parametrize(
    "text",
    [
        "a::b.c(Tensor(a) self, int dim=0, *, bool keepdim=False, int[2] p=[1, 2]) -> Tensor(a)",
        'f(Tensor?[] ind, Scalar s=1.5, str mode="bi", float[]? sc=None) -> (Tensor v, Tensor[] i)',
        "f(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        "f() -> ()",
        "f(Tensor(b!)[] y, Device? d=None) -> ()",
    ],
)
def test_schemas_are_read_and_written(text):
    assert str(library.parse_schema(text)) == text


def test_what_schemas_say():
    schema = library.parse_schema("f(Tensor(a!) x, int[2] n=1, *, ScalarType t=float32) -> Tensor")
    x, n, t = schema.arguments
    assert schema.is_mutable and x.alias_info.is_write and x.alias_info.before_set == {"a"}
    assert not x.has_default_value() and n.default_value == [1, 1] and not n.kwarg_only
    assert t.kwarg_only and t.default_value is torch.float32 and t.alias_info is None


@pytest.mark.parametrize(
    "text",
    ["f", "f(Tens x) -> ()", "f(Tensor x -> ()", "f(Tensor x)", "f(Tensor x) -> () x",
     "f(Tensor) ->", "f(int n=) -> ()", "f(int n=a) -> ()", "f($) -> ()", "f(Tensor(a x) -> ()",
     "f(int[ n) -> ()", "", "f(int n=[1) -> ()"],
)  # fmt: skip
def test_texts_that_are_no_schemas(text):
    with pytest.raises((RuntimeError, SyntaxError)):
        library.parse_schema(text)


# ---- calls


def test_a_custom_operation_by_its_names():
    x = torch.linspace(0, 1, 5)
    expected = torch.sin(x) * 2
    for call in (sine, torch.ops.rltest.sine, torch.ops.rltest.sine.default, sine._opoverload):
        torch.testing.assert_close(call(x), expected)
    torch.testing.assert_close(sine(x=x, scale=3, shift=1), torch.sin(x) * 3 + 1)
    assert str(sine) == "<CustomOpDef(rltest::sine)>" and sine._name == "sine"
    assert str(torch.ops.rltest.sine) == "rltest.sine"
    op = torch.ops.rltest.sine.default
    assert op.name() == "rltest::sine" and str(op) == "rltest.sine.default"
    assert str(op._schema) == "rltest::sine(Tensor x, float scale=2., *, float shift=0.) -> Tensor"
    assert op.overloadpacket is torch.ops.rltest.sine
    assert op.overloadpacket.overloads() == ["default"]
    assert copy.deepcopy(op) is op and pickle.loads(pickle.dumps(op)) is op
    assert torch._ops.OpOverload is type(op)


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"rltest::sine\(\) is missing value for argument 'x'"),
        ((3,), {}, "Expected a value of type 'Tensor' for argument 'x' .* 'int'"),
        ((torch.ones(1), "a"), {}, "of type 'float' for argument 'scale' .* 'str'"),
        ((torch.ones(1), 1.0, 2.0), {}, "at most 2"),
        ((torch.ones(1),), {"by": 1}, "Unknown keyword argument 'by'"),
        ((torch.ones(1),), {"x": torch.ones(1)}, "multiple values for argument 'x'"),
    ],
)
def test_calls_that_do_not_fit(args, kwargs, message):
    with pytest.raises(RuntimeError, match=message):
        sine(*args, **kwargs)


def test_names_that_are_not_there():
    for expression in ("rltest.nope", "nowhere.nope", "rltest.sine.nope"):
        with pytest.raises(AttributeError, match="nope"):
            eval(f"torch.ops.{expression}")
    with pytest.raises(ValueError, match="namespace::name"):
        custom_op("sine", mutates_args=())(lambda: None)
    with pytest.raises(OSError, match="PyTorch"):
        torch.ops.load_library("libcustom.so")


def test_values_become_what_the_schema_says(lib):
    lib.define("seen(Tensor x, int n, float s, bool b, int[2] l, Scalar c, Device? d) -> Tensor")
    seen = []
    lib.impl("seen", lambda x, *rest: seen.append(rest) or x.clone(), "CPU")
    x = torch.ones(1)
    torch.ops.rlscratch.seen(x, np.int64(2), 1, True, 2, 3.5, "cpu")
    torch.ops.rlscratch.seen(x, torch.tensor(2), np.float32(2), 1, (1, 2), True, None)
    assert seen[0] == (2, 1.0, True, [2, 2], 3.5, torch.device("cpu"))
    assert seen[1] == (2, 2.0, True, [1, 2], True, None)
    assert [type(v) for v in seen[1][:3]] == [int, float, bool]
    for wrong in (1.0, "1", None):
        with pytest.raises(RuntimeError, match="argument 'n'"):
            torch.ops.rlscratch.seen(x, wrong, 1.0, True, 2, 3, None)


def test_devices(scratch):
    @custom_op(f"{scratch}::elsewhere", mutates_args=(), device_types="cuda")
    def elsewhere(x: Tensor) -> Tensor:
        return x + 1

    x = torch.ones(2)
    with pytest.raises(NotImplementedError, match="rlscratch::elsewhere.*'CPU' backend"):
        elsewhere(x)
    elsewhere.register_kernel("cpu")(lambda x: x * 3)
    assert elsewhere(x).tolist() == [3, 3]
    with elsewhere.set_kernel_enabled("cpu", False):
        assert elsewhere(x).tolist() == [2, 2]
    assert elsewhere(x).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="register_fake"):
        elsewhere(x.to("meta"))
    assert sine(x.to("meta")).shape == (2,) and sine(x.to("meta")).is_meta


def test_results_are_checked(scratch):
    def same(x: Tensor) -> Tensor:
        return x[:1]

    def number(x: Tensor) -> Tensor:
        return 3

    def one_of_two(x: Tensor) -> Tuple[Tensor, Tensor]:
        return (x + 1,)

    def twice(x: Tensor) -> List[Tensor]:
        y = x + 1
        return [y, y]

    for function, message in (
        (same, "shares memory"), (number, "returned 3"), (one_of_two, "1 value"),
        (twice, "shares memory"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"rlscratch::{function.__name__}.*{message}"):
            custom_op(f"{scratch}::{function.__name__}", function, mutates_args=())(torch.ones(2))


# ---- gradients


def test_the_gradient():
    x = torch.linspace(-1, 1, 5, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: sine(x, 3.0, shift=1.0), (x,))
    assert type(sine(x).grad_fn).__name__ == "GeneratedBackwardFor_rltest_sine_defaultBackward"
    with torch.no_grad():
        assert not sine(x).requires_grad
    (first,) = torch.autograd.grad(sine(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, -2 * torch.sin(x.detach()))
    torch.testing.assert_close(
        torch.func.grad(lambda x: sine(x).sum())(x.detach()), 2 * torch.cos(x.detach())
    )


def test_lists_and_several_results(scratch):
    @custom_op(f"{scratch}::joined", mutates_args=())
    def joined(xs: List[Tensor], y: Optional[Tensor], n: int) -> Tuple[Tensor, List[Tensor], int]:
        total = sum(xs) * n
        return (total if y is None else total + y), [x * 10 for x in xs], n

    def setup(ctx, inputs, output):
        ctx.count, ctx.n, ctx.needed = len(inputs[0]), inputs[2], ctx.needs_input_grad

    def backward(ctx, grad, grads, _):
        assert ctx.needs_input_grad == ctx.needed == ([True, False], True, False)
        return [grad * ctx.n + g * 10 for g in grads], grad, None

    joined.register_autograd(backward, setup_context=setup)
    a, b, y = torch.ones(2, requires_grad=True), torch.ones(2), torch.ones(2, requires_grad=True)
    total, tens, n = joined([a, b], y, 3)
    assert n == 3 and isinstance(tens, list) and tens[1].tolist() == [10, 10]
    (total.sum() + tens[0].sum()).backward()
    assert a.grad.tolist() == [13, 13] and y.grad.tolist() == [1, 1] and b.grad is None
    assert joined([b], None, 2)[0].tolist() == [2, 2]


def test_gradients_that_do_not_fit(scratch):
    @custom_op(f"{scratch}::plus", mutates_args=())
    def plus(xs: Sequence[Tensor], n: int) -> Tensor:
        return sum(xs) + n

    x = torch.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"rlscratch.plus.default but no autograd formula"):
        plus([x], 1).backward()
    for result, message in (
        (([None], 1.0), "gradient for 'n'"),
        (([None, None], None), "2 gradients for the 1 tensors"),
        (([None], None, x), "3 gradients for 2 arguments"),
    ):  # fmt: skip
        plus.register_autograd(lambda ctx, grad, result=result: result)
        with pytest.raises(RuntimeError, match=f"rlscratch::plus.*{message}"):
            plus([x], 1).backward()
    plus.register_autograd(lambda ctx, grad: ([grad],))  # none for the last
    plus([x], 1).backward()
    assert x.grad.item() == 1


def test_changes_in_place(scratch):
    @custom_op(f"{scratch}::double_", mutates_args={"x"})
    def double_(x: Tensor, n: int) -> None:
        x.detach().numpy()[...] *= 2

    x = torch.ones(2, 2)
    version = x._version
    assert double_(x[0], 1) is None
    assert x.tolist() == [[2, 2], [1, 1]] and x._version == version + 1
    w = torch.ones(2, 2, requires_grad=True)
    y = w * x
    double_(x, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    for target in (w, w * 1):
        with pytest.raises(RuntimeError, match="rlscratch::double_ changes 'x' in place"):
            double_(target, 1)
    with torch.no_grad():
        double_(w, 1)
    assert w.tolist() == [[2, 2], [2, 2]]
    with pytest.raises(RuntimeError, match="non-functional operator"):
        double_.register_autograd(lambda ctx: None)


def test_increment_version():
    for x in (torch.ones(3), torch.tensor(1.0), torch.ones(0), torch.ones(2, 3).t()):
        before, values = x._version, x.tolist()
        torch.autograd.graph.increment_version(x)
        torch.autograd.graph.increment_version([x])
        assert x._version == before + 2 and x.tolist() == values


def test_autograd_kernels(lib):
    lib.define("cube(Tensor x) -> Tensor")
    lib.impl("cube", lambda x: torch.from_numpy(x.detach().numpy() ** 3), "CPU")

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            with torch._C._AutoDispatchBelowAutograd():
                return torch.ops.rlscratch.cube(x)

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    lib.impl("cube", Cube.apply, "Autograd")
    x = torch.tensor([2.0], requires_grad=True)
    torch.ops.rlscratch.cube(x).backward()
    assert x.grad.item() == 12


# ---- libraries


def test_definitions_and_kernels(lib):
    assert lib.define("add_n(Tensor x, int n=2) -> Tensor") == "add_n"
    with pytest.raises(NotImplementedError, match="rlscratch::add_n.*no device"):
        torch.ops.rlscratch.add_n(torch.ones(1))
    lib.impl("add_n", lambda x, n: x + n, "CompositeImplicitAutograd")
    x = torch.ones(1, requires_grad=True)
    y = torch.ops.rlscratch.add_n(x, 5)
    assert y.item() == 6 and type(y.grad_fn).__name__.startswith("Add")
    with pytest.raises(RuntimeError, match="are taken"):
        lib.define("add_n(Tensor x) -> Tensor")
    lib.define("add_n.pair(Tensor x, Tensor y) -> Tensor")
    lib.impl("add_n.pair", lambda x, y: x + y + 100, "CPU")
    packet = torch.ops.rlscratch.add_n
    assert packet.overloads() == ["default", "pair"]
    assert packet(torch.ones(1), torch.ones(1)).item() == 102 and packet(torch.ones(1)).item() == 3
    assert packet.pair.name() == "rlscratch::add_n.pair"
    with pytest.raises(RuntimeError, match="add_n"):
        packet("a")


def test_a_library_ends_what_it_began():
    owner = Library("rlowned", "DEF")
    owner.define("one() -> int")
    owner.impl("one", lambda: 1, "CompositeExplicitAutograd")
    assert torch.ops.rlowned.one() == 1
    with pytest.raises(RuntimeError, match="Only a single"):
        Library("rlowned", "DEF")
    other = Library("rlowned", "IMPL")
    with pytest.raises(RuntimeError, match="IMPL"):
        other.define("two() -> int")
    del owner
    gc.collect()
    assert not hasattr(torch.ops.rlowned, "one")
    Library("rlowned", "DEF")._destroy()
    for kind, name in (("X", "rlowned"), ("DEF", "prim")):
        with pytest.raises(ValueError):
            Library(name, kind)
    with pytest.raises(NotImplementedError, match="cannot be replaced"):
        Library("aten", "IMPL").impl("add", lambda *a: None, "CPU")


def test_functions_in_place_of_methods(lib):
    library.define("rlscratch::half", "(Tensor x) -> Tensor", lib=lib)
    assert library.impl("rlscratch::half", ("cpu", "meta"), lambda x: x / 2, lib=lib) is None
    library.define(lib, "third(Tensor x) -> Tensor")

    @library.impl(lib, "third", "CPU")
    def third(x):
        return x / 3

    x = torch.ones(1, requires_grad=True)
    library.register_autograd("rlscratch::half", lambda ctx, grad: grad * 7, lib=lib)
    torch.ops.rlscratch.half(x).backward()
    assert x.grad.item() == 7 and third(x).item() == torch.ops.rlscratch.third(x).item()
    assert torch.ops.rlscratch.half(torch.ones(2, device="meta")).is_meta
    library.register_fake("rlscratch::third", lambda x: x.new_empty(5), lib=lib)
    assert torch.ops.rlscratch.third(torch.ones(2, device="meta")).shape == (5,)
    library.register_kernel("rlscratch::third", "cpu", lambda x: x * 0, lib=lib)
    assert torch.ops.rlscratch.third(x).item() == 0
    assert library.get_kernel("rlscratch::third", "CPU")(x).item() == 0


def test_kernels_of_the_librarys_own_operations():
    keys = torch.DispatchKeySet(torch.DispatchKey.CPU)
    x = torch.ones(2, requires_grad=True)
    for key in ("CPU", torch.DispatchKey.CPU):
        for op in ("aten::add.Tensor", torch.ops.aten.add.Tensor):
            found = library.get_kernel(op, key).call_boxed(keys, x, x, alpha=2)
            assert found.tolist() == [3, 3] and not found.requires_grad
    on_meta = library.get_kernel("aten::sin", "Meta")
    assert on_meta.call_boxed(keys, torch.ones(2, device="meta")).is_meta
    assert repr(on_meta) == "SafeKernelFunction(debug='aten::sin for Meta')"
    with pytest.raises(RuntimeError, match="a kernel for meta was given a tensor on cpu"):
        on_meta.call_boxed(keys, x)
    with pytest.raises(TypeError, match="DispatchKeySet"):
        on_meta.call_boxed(x)
    with pytest.raises(RuntimeError, match="aten::nothing does not exist"):
        library.get_kernel("aten::nothing", "CPU")
    with pytest.raises(RuntimeError, match="no kernel for Autograd"):
        library.get_kernel("aten::sin", "Autograd")
    with pytest.raises(ValueError, match="Invalid dispatch key: None"):
        library.get_kernel("aten::sin", "None")


def test_autocast(scratch):
    @custom_op(f"{scratch}::kind", mutates_args=())
    def kind(x: Tensor, y: Tensor) -> Tensor:
        assert x.dtype is torch.bfloat16 and y.dtype is torch.int64
        assert not torch.is_autocast_enabled("cpu")
        return x + 1

    kind.register_autocast("cpu", torch.bfloat16)
    with torch.autocast("cpu"):
        assert kind(torch.ones(1), torch.ones(1, dtype=torch.int64)).dtype is torch.bfloat16


def test_vmap(scratch):
    xs = torch.arange(6.0).reshape(3, 2)
    torch.testing.assert_close(torch.vmap(sine)(xs), 2 * xs.sin())
    calls = []

    @custom_op(f"{scratch}::outer", mutates_args=())
    def outer(x: Tensor, y: Tensor) -> Tensor:
        return x[:, None] * y

    @outer.register_vmap
    def rule(info, in_dims, x, y):
        calls.append((info.batch_size, info.randomness, in_dims))
        return torch.einsum("bi,j->ibj", x, y), 1

    y = torch.tensor([1.0, 10.0, 100.0])
    found = torch.vmap(lambda x: outer(x, y).sum(1))(xs)
    torch.testing.assert_close(found, xs * y.sum())
    assert calls == [(3, "error", (0, None))]


def test_vmap_of_several_results(scratch):
    @custom_op(f"{scratch}::halves", mutates_args=())
    def halves(x: Tensor, size: int) -> list[Tensor]:
        return [part.clone() for part in x.split(size)]

    dims = []

    @halves.register_vmap
    def rule(info, in_dims, x, size):
        return [part.clone() for part in x.split(size, 1)], dims[-1]

    xs = torch.arange(10.0).reshape(2, 5)
    for given in (0, [0, 0, 0]):  # one for all, or for each
        dims.append(given)
        found = torch.vmap(lambda x: halves(x, 2))(xs)
        assert [part.tolist() for part in found] == [p.tolist() for p in xs.split(2, 1)]
    dims.append([0, 0])
    with pytest.raises(ValueError, match="out_dims"):
        torch.vmap(lambda x: halves(x, 2))(xs)


def test_functions_of_modes_see_operations():
    seen = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Watch():
        torch.ops.rltest.sine(torch.ones(2))
    assert torch.ops.rltest.sine.default in seen


# ---- opcheck


def test_opcheck_finds_nothing():
    for x in (torch.randn(3), torch.randn(3, requires_grad=True)):
        results = opcheck(sine, (x,), {"shift": 1.0})
        assert len(results) == 4 and set(results.values()) == {"SUCCESS"}


def test_opcheck_finds_what_is_wrong(scratch):
    @custom_op(f"{scratch}::wrong", mutates_args=())
    def wrong(x: Tensor) -> Tensor:
        x += 1
        return x * 2

    wrong.register_fake(lambda x: x.new_empty(x.shape[0] + 1))
    x = torch.ones(2, requires_grad=True)
    results = opcheck(wrong, (x,), raise_exception=False, test_utils="ALL")
    assert "x is not defined as mutable" in str(results["test_schema"])
    assert "register_autograd" in str(results["test_autograd_registration"])
    assert "shape" in str(results["test_faketensor"])
    assert "no autograd formula" in str(results["test_aot_dispatch_static"])
    with pytest.raises(library.OpCheckError, match="test_faketensor"):
        opcheck(wrong, (x,), test_utils="test_faketensor")
    with pytest.raises(ValueError, match="nothing"):
        opcheck(wrong, (x,), test_utils="nothing")


# ---- the library's own


def test_opcheck_of_operations_that_change_their_arguments(scratch):
    @custom_op(scratch + "::increment", mutates_args={"x"})
    def increment(x: Tensor) -> None:
        x.add_(1)

    @custom_op(scratch + "::sine_into", mutates_args={"out"})
    def sine_into(x: Tensor, out: Tensor) -> None:
        out.copy_(x.sin())

    leaf = torch.ones(3, requires_grad=True)
    for op, args in (
        (increment, (torch.ones(3),)),
        (increment, (leaf,)),
        (increment, (leaf * 2,)),
        (increment, (torch.ones(2, 3).t(),)),
        (sine_into, (torch.ones(3), torch.zeros(3))),
        (sine_into, (leaf, torch.zeros(3))),
    ):
        before = [t.detach().clone() for t in args]
        assert set(opcheck(op, args, test_utils="ALL").values()) == {"SUCCESS"}
        assert all(torch.equal(a, b) for a, b in zip(args, before))
    assert increment(torch.ones(3, device="meta")) is None


def test_aten():
    x = torch.rand(2, 3)
    aten = torch.ops.aten
    assert torch.equal(aten.mm.default(x, x.t()), torch.mm(x, x.t()))
    assert torch.equal(aten.add.Tensor(x, x), x + x) and aten.mm.default is aten.mm.default
    assert torch.equal(aten.linalg_vector_norm(x), torch.linalg.vector_norm(x))
    assert aten.mm.default.overloadpacket is aten.mm and str(aten.add.Tensor) == "aten.add.Tensor"
    assert torch.equal(aten.relu(-x), torch.zeros_like(x))
    assert aten.mm.default.__name__ == "mm.default"
    with pytest.raises(AttributeError, match="no_such"):
        _ = aten.no_such


def test_aten_functions_that_call_others():
    aten, F = torch.ops.aten, torch.nn.functional
    x, labels = torch.rand(2, 3, 8, 8), torch.tensor([2, 0])
    rows = x[:, :, 0, 0]
    classes = torch.tensor([[1, -1, 0], [0, 2, -1]])
    for found, expected in (
        (aten.adaptive_avg_pool2d(x, [2, 4]), F.adaptive_avg_pool2d(x, (2, 4))),
        (aten.adaptive_avg_pool3d(x, [1, 2, 4]), F.adaptive_avg_pool3d(x, (1, 2, 4))),
        (aten.log_sigmoid(x), F.logsigmoid(x)),
        (aten.nll_loss_nd(rows, labels, None, 2), F.nll_loss(rows, labels, reduction="sum")),
        (
            aten.cross_entropy_loss(rows, labels, None, 0, -100, 0.1),
            F.cross_entropy(rows, labels, reduction="none", label_smoothing=0.1),
        ),
        (aten.multilabel_margin_loss(rows, classes), F.multilabel_margin_loss(rows, classes)),
        (aten.fft_rfft2(x), torch.fft.rfft2(x)),
        (aten.linalg_matrix_norm(x, "fro"), torch.linalg.matrix_norm(x)),
        (
            aten.pad_sequence([rows[0], rows[1, :2]], True),
            torch.tensor([rows[0].tolist(), [*rows[1, :2].tolist(), 0]]),
        ),
    ):
        assert torch.equal(found, expected)


def test_what_has_no_counterpart():
    for refused in (
        lambda: library.wrap_triton(print),
        lambda: library.register_torch_dispatch("rltest::sine", Tensor, print),
        lambda: library.get_ctx(),
        lambda: library.fallthrough_kernel(),
    ):
        with pytest.raises(NotImplementedError):
            refused()
    assert torch.Tag.pt2_compliant_tag.name == "pt2_compliant_tag"


def test_triton_ops_are_custom_operations(scratch):
    @library.triton_op(f"{scratch}::tri", mutates_args=())
    def tri(x: Tensor) -> Tensor:
        return x + 1

    assert torch.ops.rlscratch.tri(torch.ones(1)).item() == 2


def test_sets_of_dispatch_keys():
    keys, key = torch.DispatchKeySet, torch.DispatchKey
    cpu = keys(key.CPU)
    assert cpu.raw_repr() == 65537 and keys.from_raw_repr(65537) == cpu
    both = cpu.add(key.CUDA).add(key.AutocastCPU)
    assert repr(both) == "DispatchKeySet(CPU, CUDA, AutocastCPU)" and both.has(key.CUDA)
    assert both.highestPriorityTypeId() is key.AutocastCPU
    assert repr(both.remove(key.AutocastCPU)) == "DispatchKeySet(CPU, CUDA)"
    # Backends are of all functionalities in a set.
    assert keys(key.CPU, key.AutogradCUDA).has(key.AutogradCPU)
    assert repr((cpu | keys(key.AutogradCPU)) - cpu) == "DispatchKeySet(AutogradCPU)"
    assert (cpu | keys(key.AutogradCPU)) & cpu == cpu
    assert keys().highestPriorityTypeId() is key.Undefined
    assert (key.AutogradCPU.value, int(key.Meta), key.CompositeExplicitAutograd.value) == (
        134, 64, 154
    )  # fmt: skip
    assert torch.Tag.pointwise.value == 16 and torch.Tag.out_variant.value == 15


def test_classes_of_compiled_libraries_are_not_there():
    with pytest.raises(RuntimeError, match=r"instantiate class 'space.Thing', but it does not"):
        torch.classes.space.Thing  # noqa: B018
    assert torch.classes.loaded_libraries == set()
    with pytest.raises(OSError, match="linked with PyTorch"):
        torch.classes.load_library("some.so")
    assert not hasattr(torch.classes, "__path__")


def test_arguments_in_symmetric_memory_are_refused():
    made = Library("methods_test", "FRAGMENT")
    with pytest.raises(NotImplementedError, match="register_symm_mem_args: op: input"):
        made.register_symm_mem_args("op", ["input"])


def test_an_operation_of_higher_order_may_be_a_class():
    from rushlight._ops import HigherOrderOperator

    class Twice(HigherOrderOperator):
        def __init__(self):
            super().__init__("twice")

        def __call__(self, function, x):
            return function(function(x))

    twice = Twice()
    assert twice(torch.exp, torch.zeros(())).item() == pytest.approx(math.e)
    assert str(twice) == "<HigherOrderOperator twice>"
    with pytest.raises(NotImplementedError, match="empty: the operation has no implementation"):
        HigherOrderOperator("empty")(torch.ones(1))
