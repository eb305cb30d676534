"""torch.jit: traced and scripted programs do what their source does, or refuse it by name."""

import copy
import inspect
import io
import math
import warnings
from typing import Dict, List, Optional  # noqa: UP035

import pytest
from test_export import GPT, LeNet, ResNet, same

import rushlight as torch
from rushlight import Tensor, nn
from rushlight.jit import CompilationError

F = nn.functional


class Gate(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x
        else:
            return -x


class Cell(nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.gate = gate
        self.linear = nn.Linear(4, 4)

    def forward(self, x, h):
        new = torch.tanh(self.gate(self.linear(x)) + h)
        return new, new


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell(Gate())

    def forward(self, xs):
        h, y = torch.zeros(3, 4), torch.zeros(3, 4)
        for i in range(xs.size(0)):
            y, h = self.cell(xs[i], h)
        return y, h


class LayerList(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.drop = nn.Dropout(0.5)
        self.scale = 2

    def forward(self, x: Tensor, flip: bool = False) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = F.relu(layer(x)) if i < 2 else layer(x)
        assert x.dim() == 2, f"got {x.dim()} dims"
        if flip:
            x = -x
        return self.drop(x) * self.scale


class Outputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 5)

    def forward(self, x: Tensor, state: tuple[Tensor, int]) -> tuple[Tensor, list[Tensor]]:
        h, n = state
        outputs = torch.jit.annotate(list[Tensor], [])
        for t in range(len(x)):
            h = self.cell(x[t], h)
            outputs = outputs + [h * n]
        return torch.stack(outputs), outputs


def fib(n: int) -> int:
    a, b = 0, 1
    i = 0
    while i < n:
        a, b = b, a + b
        i += 1
    return a


def arithmetic(x: Tensor, n: int, f: float):
    y = x
    k = n // 2 + n % 3 - int(f) ** 2
    if n > 3 and not f < 1 or n == 1:
        y = y + k
    elif n == 2:
        y = y * float(k)
    else:
        y = y / max(n, 2)
    z = (y if f > 2 else x) - 1
    return y, z, k, 1 - x, 2**x, -x, x[0], x[..., -1], x[:, 1:], x[None], x.shape[0] * n


def in_place(x: Tensor, ys: List[Tensor]):  # noqa: UP006
    x = x.clone()
    x[0] = 5.0
    x[:, 0] += 2
    for y in ys:
        x += y
    if len(ys) > 1:
        x.mul_(2)
    return x, [x, x + 1]


def early(x: Tensor, n: int):
    if n == 0:
        return x
    y = x * 2
    if n == 1:
        y = y + 1
        if x.sum() > 3:
            return y * 10
    return y - n


def repeated(x: Tensor, n: int):
    rows = x.sum(1).view([x.size(0)] + [1] * (x.dim() - 1))
    return rows, (n * [x.size(1), 2]), torch.stack([x, x + 1] * n), [n] * 0


def shapes(x: Tensor):
    b, c = x.shape
    if x.dim() != 2:
        raise ValueError("two dims")
    sizes = torch.tensor(x.shape), torch.tensor(x.shape[:1])
    filled = torch.full(x.size(), 1.5)
    return x.reshape(c, b), torch.zeros(b, 2), x.new_zeros(x.shape), filled, sizes


def constants(x: Tensor):
    width, names = 3, ["a", "b"]
    return x * len(f"{width:03d} {names!r}") + max([1, width]) + list((1, 2))[1] + tuple([4])[0]


def called(script, *args):
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file)(*args)


FUNCTIONS = [
    (fib, [(0,), (10,)]),
    (
        arithmetic,
        [(torch.rand(3, 4), n, f) for n in (1, 2, 3, 4, 9) for f in (0.5, 1.5, 2.5)],
    ),
    (in_place, [(torch.ones(2, 3), []), (torch.ones(2, 3), [torch.ones(3), torch.ones(2, 1)])]),
    (early, [(torch.ones(2), 0), (torch.ones(2), 1), (torch.ones(9), 1), (torch.ones(2), 5)]),
    (shapes, [(torch.ones(2, 3),), (torch.ones(4, 5),)]),
    (repeated, [(torch.ones(2, 3), 1), (torch.ones(4, 5), 3)]),
    (constants, [(torch.ones(2),)]),
]


@pytest.mark.keeps_tensors("the arguments above")
@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: case[0].__name__)
def test_scripted_functions(case):
    function, calls = case
    script = torch.jit.script(function)
    for args in calls:
        torch.manual_seed(0)
        same(script(*args), function(*args))
        same(called(script, *args), function(*args))
    assert isinstance(script, torch.jit.ScriptFunction) and "def forward" in script.code


@pytest.mark.parametrize(
    ("make", "calls"),
    [
        (Gate, [(torch.ones(3),), (-torch.ones(3),)]),
        (Loop, [(torch.randn(5, 3, 4),), (torch.randn(2, 3, 4),)]),
        (
            lambda: LayerList().eval(),
            [(torch.randn(2, 4),), (torch.randn(3, 4), True), (torch.randn(3, 4), False)],
        ),
        (
            Outputs,
            [(torch.randn(4, 2, 4), (torch.zeros(2, 5), 3)),
             (torch.randn(1, 2, 4), (torch.zeros(2, 5), 2))],
        ),
        (LeNet, [(torch.randn(2, 1, 28, 28),), (torch.randn(5, 1, 28, 28),)]),
        (lambda: ResNet().eval(), [(torch.randn(2, 3, 32, 32),), (torch.randn(1, 3, 64, 64),)]),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.GELU()), [(torch.ones(2, 4),)]),
    ],
    ids=["gate", "loop", "layers", "outputs", "lenet", "resnet", "sequential"],
)  # fmt: skip
@pytest.mark.keeps_tensors("the arguments above")
def test_scripted_modules(make, calls):
    net = make()
    script = torch.jit.script(net)
    assert isinstance(script, torch.jit.ScriptModule) and script is not net
    assert script.state_dict().keys() == net.state_dict().keys()
    for args in calls:
        same(script(*args), net(*args))
        if len(calls[0]) == len(args) and not isinstance(net, LayerList):
            same(called(script, *args), net(*args))


def test_a_script_follows_its_mode_and_shares_parameters():
    net = LayerList()
    script = torch.jit.script(net)
    x = torch.ones(2, 4)
    torch.manual_seed(0)
    want = net(x)
    torch.manual_seed(0)
    same(script(x), want)
    script.eval()
    same(script(x), net.eval()(x))
    script(x).sum().backward()
    assert net.layers[0].weight.grad is not None
    with torch.no_grad():
        net.layers[2].bias += 1
    same(script(x), net(x))


def test_a_loaded_module_refuses_the_other_mode():
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(LayerList()), file)
    file.seek(0)
    module = torch.jit.load(file)
    with pytest.raises(NotImplementedError, match="was fixed to training"):
        module.eval()
    assert module.train() is module


class WithDict(nn.Module):
    def forward(self, x: Dict[str, Tensor]):  # noqa: UP006
        return x["a"]


def with_try(x):
    try:
        return x + 1
    except ValueError:
        return x


def with_item(x):
    return x * x.sum().item()


def with_print(x):
    print(x)
    return x


def with_break(x):
    i = 0
    while x.sum() < 10:
        if i > 3:
            break
        x = x + 1
    return x


def with_types(x, n: int):
    if n > 0:
        return x
    return n


def with_lambda(x):
    return (lambda y: y + 1)(x)


def with_with(x):
    with torch.no_grad():
        return x + 1


def with_numpy(x):
    return torch.from_numpy(x.numpy())


def with_recursion(x, n: int):
    return with_recursion(x, n - 1)


@torch.jit.unused
def left_to_python(x):
    return x


def with_unused(x):
    return left_to_python(x)


def with_name(x):
    if x.sum() > 0:
        y = x
    return y  # noqa: F821


def with_list(x):
    return list(x)


def with_extreme(n: list[int]):
    return max(n)


def with_text(n: int):
    return f"{n}"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (with_list, "a loop over a value whose length is not known"),
        (with_extreme, "a loop over a value whose length is not known"),
        (with_text, "an f-string of a computed value"),
        (WithDict(), "argument x of type .*Dict"),
        (with_try, r"try is not compiled \(test_jit.py:\d+, in with_try\)"),
        (with_item, r"item\(\)"),
        (with_print, "print"),
        (with_break, "break"),
        (with_types, "branches give a Tensor and a int|different structure"),
        (with_lambda, "lambda"),
        (with_with, "with is not compiled"),
        (with_numpy, "numpy"),
        (with_recursion, "nest too deeply"),
        (with_unused, "left_to_python, which is marked as unused"),
        (with_name, "the name y, which may have no value"),
    ],
)
def test_what_is_not_compiled_is_named_and_runs_as_python(function, message, tmp_path):
    with pytest.warns(UserWarning, match=message):
        script = torch.jit.script(function)
    for use in (lambda: script.graph, lambda: script.code, lambda: script.save(tmp_path / "a"),
                lambda: torch.jit.save(script, tmp_path / "a")):  # fmt: skip
        with pytest.raises(CompilationError, match=message):
            use()
    assert not list(tmp_path.iterdir())
    assert not hasattr(script, "graph") and "code" not in dict(inspect.getmembers(script))


@pytest.mark.filterwarnings("ignore:.* runs as Python")
def test_a_module_that_runs_as_python_shows_no_program():
    class Named(torch.nn.Module):
        code = "of the source"

        def forward(self, x):
            return {str(x.shape[0]): x}

    script = torch.jit.script(Named())
    assert not hasattr(script, "graph") and "code" not in dict(inspect.getmembers(script))
    with pytest.raises(CompilationError, match="a call of str"):
        script.code  # noqa: B018


@pytest.mark.parametrize(
    ("object", "message"), [(3, "int is no function"), (Gate, "the class Gate")]
)
def test_what_is_no_function_is_refused(object, message):
    with pytest.raises(CompilationError, match=message):
        torch.jit.script(object)


class Guarded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x, scale: Optional[torch.Tensor] = None):  # noqa: UP045
        with torch.no_grad():
            y = self.linear(x)
        return y if scale is None else y * scale

    @torch.jit.export
    def doubled(self, x):
        return self.linear(x) * 2


def test_an_interpreted_module_is_the_module():
    source = Guarded()
    with pytest.warns(UserWarning, match=r"Guarded runs as Python.* with is not compiled"):
        script = torch.jit.script(source)
    x = torch.ones(3, 2)
    assert isinstance(script, torch.jit.ScriptModule)
    assert script.linear is source.linear
    assert torch.equal(script(x), source(x))
    assert torch.equal(script(x, torch.tensor(2.0)), source(x) * 2)
    assert torch.equal(script.doubled(x), source.doubled(x))
    assert list(script.state_dict()) == ["linear.weight", "linear.bias"]
    assert not script.eval().training
    assert not source.training
    copied = copy.deepcopy(script)
    assert copied.linear is not source.linear
    assert torch.equal(copied(x), source(x))


class Scaled(torch.nn.Module):
    def forward(self, x, scale: Optional[torch.Tensor] = None, how: str = "sum"):  # noqa: UP045
        if scale is not None:
            x = x * scale
        return x.sum() if how == "sum" else x.mean()

    @torch.jit.export
    def doubled(self, x):
        return x * 2


def test_arguments_that_are_fixed_may_be_given():
    script = torch.jit.script(Scaled())
    x = torch.tensor([1.0, 3.0])
    assert script(x).item() == 4
    assert script(x, torch.tensor(2.0)).item() == 8
    assert script(x, how="mean").item() == 2
    assert script.doubled(x).tolist() == [2, 6]
    assert not hasattr(script, "halved")


def test_shapes_are_compared_and_legacy_types_are_tensors():
    @torch.jit.script
    def same(x: torch.LongTensor, y):
        return (x.shape[:2] == y.shape, x.shape == y.shape, x.shape != y.shape)

    x = torch.zeros(2, 3, dtype=torch.int64)
    assert same(x, torch.zeros(2, 3)) == (True, True, False)
    assert same(x[None], torch.zeros(2, 3)) == (False, False, True)


@pytest.mark.parametrize(
    "looks, what",
    [
        (lambda x: x * 2 if x.sum() > 0 else x, "branches on the value"),
        (lambda x: x * (2 if x.sum() > 0 else int(x[0])), "branches on the value"),
        (lambda x: x * int(x[0] * 2), "__int__"),
        (lambda x: x * float(x[0] * 2), "__float__"),
        (lambda x: x * (x[0] * 2).tolist(), "tolist"),
        (lambda x: x * torch.from_numpy((x * 2).numpy()), "numpy"),
        (lambda x: x * (2 if 1 in x else 3), "__contains__"),
        (lambda x: x * (2 if (x[0] > 0).item() else 3), "item"),
    ],
)
def test_trace_keeps_what_a_program_reads_of_elements(looks, what):
    with pytest.warns(torch.jit.TracerWarning, match=what) as warned:
        traced = torch.jit.trace(looks, torch.ones(3))
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(traced(torch.full((3,), -5.0)), torch.full((3,), -10.0))


def test_trace():
    net = GPT()
    traced = torch.jit.trace(net, torch.randint(0, 50, (2, 8)))
    for shape in ((2, 8), (3, 20), (1, 1)):
        x = torch.randint(0, 50, shape)
        same(traced(x), net(x))
        same(called(traced, x), net(x))
    with pytest.raises(RuntimeError, match="s1 <= 64"):
        traced(torch.randint(0, 50, (1, 65)))
    function = torch.jit.trace(lambda x, y: x @ y + 1, (torch.ones(2, 3), torch.ones(3, 2)))
    assert function(torch.ones(4, 5), torch.ones(5, 1)).shape == (4, 1)
    with pytest.raises(RuntimeError, match="example_inputs"):
        torch.jit.trace(net)


def test_traced_programs_take_arguments_by_position_and_by_name():
    class Scaled(nn.Module):
        def forward(self, input, pair, scale=None):
            return (input + pair[0]) * scale

    x, pair, scale = torch.ones(2), (torch.ones(2), torch.zeros(2)), torch.full((2,), 3.0)
    traced = torch.jit.trace(Scaled(), (x, pair, scale))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    for program in (traced, torch.jit.load(file)):
        assert program(x, pair, scale=scale).tolist() == [6.0, 6.0]
        for message, args, names in (
            ("missing value for argument 'input'", (), {"scale": scale}),
            ("no argument 'factor'", (x, pair), {"factor": scale}),
            ("two values for argument 'input'", (x, pair, scale), {"input": x}),
            ("takes 3 arguments", (x, pair, scale, x), {"scale": scale}),
        ):
            with pytest.raises(RuntimeError, match=message):
                program(*args, **names)
    function = torch.jit.trace(lambda a, b: a - b, (scale, x))
    assert function(b=scale, a=x).tolist() == function(x, b=scale).tolist() == [-2.0, -2.0]
    named = torch.jit.trace(lambda a, b: a - b, example_kwarg_inputs={"b": x, "a": scale})
    assert named(scale, x).tolist() == named(scale, b=x).tolist() == [2.0, 2.0]


def test_trace_of_a_module_with_control_flow_uses_scripts():
    cell = Cell(torch.jit.script(Gate()))
    net = torch.jit.trace(cell, (torch.ones(3, 4), torch.zeros(3, 4)))
    for x in (torch.ones(3, 4), -torch.ones(3, 4)):
        same(net(x, x), cell(x, x))


def test_freeze_and_optimize():
    net = ResNet().eval()
    x = torch.randn(2, 3, 32, 32)
    frozen = torch.jit.freeze(torch.jit.script(net))
    assert not list(frozen.parameters()) and "batch_norm" not in frozen.code
    torch.testing.assert_close(frozen(x), net(x))
    mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    fast = torch.jit.optimize_for_inference(torch.jit.trace(mlp, torch.ones(2, 4)))
    assert "rectified" in fast.code
    same(fast(torch.ones(2, 4)), mlp(torch.ones(2, 4)))
    with pytest.raises(RuntimeError, match="evaluation"):
        torch.jit.freeze(torch.jit.script(ResNet()))


def test_files():
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(fib), file, _extra_files={"note": "x", "raw": b"\xff\x00"})
    file.seek(0)
    extra = {"note": "", "raw": None}
    torch.jit.load(file, map_location="cpu", _extra_files=extra)
    assert extra == {"note": b"x", "raw": b"\xff\x00"}
    file.seek(0)
    with pytest.raises(RuntimeError, match="no extra file 'other'"):
        torch.jit.load(file, _extra_files={"other": ""})
    with pytest.raises(TypeError, match="expected a traced or scripted"):
        torch.jit.save(nn.Linear(2, 2), io.BytesIO())
    with pytest.raises(ValueError, match="no program"):
        torch.jit.load(io.BytesIO(b"not a file of ours"))
    module = torch.jit.script(fib)
    with pytest.raises(RuntimeError, match="'n': expected a int, got Tensor"):
        module(torch.tensor([3]))


def test_what_code_asks_while_it_is_compiled():
    def f(x):
        if torch.jit.is_scripting():
            return x + 1
        return x

    assert f(torch.zeros(1)).item() == 0
    with pytest.warns(UserWarning, match="source|name torch"):
        torch.jit.script(eval("lambda x: x"))  # a lambda has no source of its own
    assert torch.jit.script(f)(torch.zeros(1)).item() == 1
    answers = []

    def g(x):
        answers.append(torch.jit.is_tracing())
        return x

    torch.jit.trace(g, torch.zeros(1))
    assert answers == [True, True] and not torch.jit.is_tracing()


@pytest.mark.parametrize("wrap", [lambda y: {"y": y}, lambda y: (y, [{"y": y}])])
def test_a_dict_among_the_results_is_asked_for(wrap):
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="jit.trace: the result has a dict.*strict=False"):
        torch.jit.trace(lambda x: wrap(x * 2), x)
    made = torch.jit.trace(lambda x: wrap(x * 2), x, strict=False)
    assert str(made(x * 3)) == str(wrap(x * 6))
    assert torch.jit.trace(lambda x: [x, (x,)], x)(x)[1][0] is x


def test_the_inputs_that_trace_module_checks():
    x, model = torch.ones(2, 3), nn.Linear(3, 1)
    torch.jit.trace_module(model, {"forward": (x,)}, check_inputs=[{"forward": (x * 2,)}])
    torch.jit.trace_module(model, {"forward": {"input": x}}, example_inputs_is_kwarg=True,
                           check_inputs=[{"forward": {"input": x * 2}}])  # fmt: skip
    calls = []

    class Drifting(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x + len(calls)

    with pytest.raises(AssertionError, match="not close"):
        torch.jit.trace_module(Drifting(), {"forward": (x,)}, check_trace=False,
                               check_inputs=[{"forward": (x,)}])  # fmt: skip


def test_older_arguments_of_ignore():
    with pytest.warns(FutureWarning, match=r"jit.ignore: drop .* deprecated: write jit.unused"):
        torch.jit.ignore(drop=True)
    with pytest.warns(FutureWarning, match="deprecated"):
        torch.jit.ignore(drop_on_export=True)
    with pytest.raises(RuntimeError, match="expected a bool or a function, got 3"):
        torch.jit.ignore(3)
    with pytest.raises(TypeError, match="unexpected arguments other"):
        torch.jit.ignore(other=1)


def _first(x: Tensor) -> Tensor:
    assert x.dim() == 2, "only matrices"
    if x.shape[1] == 7:
        raise ValueError("seven columns")
    return x[0, 5]


def test_errors_in_programs_are_runtime_errors():
    """Whatever class Python's own error has, which is the cause; messages are the program's."""
    scripted, x = torch.jit.script(_first), torch.ones(2, 6)
    traced = torch.jit.trace(lambda x: x[0, 5], x)
    for program in (scripted, traced):
        assert program(x) == 1
        with pytest.raises(torch.jit.Error, match="IndexError: .*out of range") as raised:
            program(torch.ones(2, 3))
        assert isinstance(raised.value, RuntimeError)
        assert isinstance(raised.value.__cause__, IndexError)
    with pytest.raises(torch.jit.Error, match="AssertionError: only matrices"):
        scripted(torch.ones(2))
    with pytest.raises(torch.jit.Error, match="ValueError: seven columns"):
        scripted(torch.ones(2, 7))
    with pytest.raises(torch.jit.Error, match="missing a required argument"):
        scripted()


def test_an_error_where_a_program_runs_as_python():
    class Picks(nn.Module):
        def forward(self, x):
            try:  # which is not compiled
                return {"a": x}[x.dim()]
            finally:
                pass

    with pytest.warns(UserWarning, match="runs as Python"):
        picks = torch.jit.script(Picks())
    with pytest.raises(torch.jit.Error, match="KeyError: 1"):
        picks(torch.ones(1))


def test_a_trace_of_a_function_assertion():
    def doubled(x):
        torch._assert(x.shape[-1] == 3, "three columns")
        return x * 2

    traced = torch.jit.trace(doubled, torch.ones(3))
    assert traced(torch.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(AssertionError, match="three columns"):
        torch.jit.trace(doubled, torch.ones(2))


class ScaledLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("by", torch.tensor(3.0))

    def forward(self, x: Tensor):
        return self.linear(x) * self.by


def test_members_of_script_modules():
    source = ScaledLinear()
    script, traced = torch.jit.script(source), torch.jit.trace(source, torch.ones(1, 2))
    x = torch.rand(4, 2)
    for module in (script, traced):
        assert module.original_name == "ScaledLinear"
        assert module.inlined_graph is module.graph and module.graph_for(x) is module.graph
        code, constants = module.code_with_constants
        assert code == module.code and constants.const_mapping == {}
        loaded = torch.jit.load(io.BytesIO(module.save_to_buffer()))
        same(loaded(x), source(x))
        with pytest.raises(NotImplementedError, match="get_debug_state"):
            module.get_debug_state()
    frozen = torch.jit.freeze(traced.eval())
    _, constants = frozen.code_with_constants
    (name, *_) = constants.const_mapping
    assert getattr(constants, name) is constants.const_mapping[name]


def test_methods_are_defined_by_source():
    source = ScaledLinear()
    script = torch.jit.script(source)
    script.define("""
        def shifted(self, x, by: int = 1):
            return self.linear(x) + by

        def __len__(self):
            return 7
    """)
    x = torch.rand(3, 2)
    same(script.shifted(x), source.linear(x) + 1)
    same(script.shifted(x, by=2), source.linear(x) + 2)
    assert script.forward_magic_method("__len__") == 7
    for bad in ("x = 1", "def f(", ""):
        with pytest.raises(RuntimeError, match="ScriptModule.define"):
            script.define(bad)


def test_what_the_core_shows_of_script_modules():
    script = torch.jit.script(ScaledLinear())
    core = script._c
    assert isinstance(core, torch.ScriptModule) and not isinstance(script, torch.ScriptModule)
    assert core.qualified_name == "__torch__.ScaledLinear"
    assert core.hasattr("linear") and not core.hasattr("other")
    core.setattr("note", 5)
    assert core.getattr("note") == 5 == script.note
    text = core.dump_to_str(code=True, attrs=True, params=False)
    assert text.startswith("module __torch__.ScaledLinear {\n  parameters {\n    linear.weight\n")
    assert "by = tensor(3.)" in text and "linear.default" in text
    assert "linear.default" not in core.dump_to_str(False, False, False)
    assert torch.jit.load(io.BytesIO(core.save_to_buffer()))(torch.ones(2)).shape == (2,)
    names = []
    core.apply(lambda inner: names.append(type(inner._module).__name__))
    assert len(names) == 1 + len(core.children())


def test_members_of_script_functions():
    @torch.jit.script
    def scaled(x: Tensor, n: int = 2, more: bool = False):
        return x * n, 3

    assert scaled.name == "scaled" and scaled.qualified_name == "__torch__.scaled"
    text = "scaled(Tensor x, int n=2, bool more=False) -> (Tensor, int)"
    assert str(scaled.schema) == text
    assert [a.name for a in scaled.schema.arguments] == ["x", "n", "more"]
    assert scaled.inlined_graph is scaled.graph
    loaded = torch.jit.load(io.BytesIO(scaled.save_to_buffer()))
    assert loaded(torch.ones(1), 2, False)[0].item() == 2

    def typed(x: Optional[Tensor], y: List[int], z: Dict[str, float]) -> Tensor:  # noqa: UP006, UP045
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.jit.script(typed).schema
    assert str(found) == "typed(Tensor? x, int[] y, Dict(str, float) z) -> Tensor"


def test_divisions_of_sizes_with_rest():
    def padded(x):
        groups, rest = divmod(x.shape[0], 4)
        left, _ = divmod(9, x.shape[1])
        return x * groups + rest + abs(-x.shape[1]) + math.floor(x.shape[0]) + round(left)

    traced = torch.jit.trace(padded, torch.ones(6, 2))
    for shape in ((6, 2), (11, 3)):
        x = torch.ones(shape)
        assert torch.equal(traced(x), padded(x))


def test_a_traced_function_inside_of_another():
    inner = torch.jit.trace(lambda x: -x, torch.ones(3, 4))
    outer = torch.jit.trace(lambda x: inner(x @ x.t()) + 1, torch.ones(2, 5))
    x = torch.ones(3, 5)
    assert torch.equal(outer(x), 1 - x @ x.t())


def test_lists_and_dicts_are_scripted_as_they_are():
    for given in ([1, 2], {"a": 1}):
        assert torch.jit.script(given) is given


def test_freezing_what_runs_as_python():
    class Branchy(torch.nn.Module):
        def forward(self, x):
            try:
                return x + 1
            finally:
                pass

    with pytest.warns(UserWarning, match="runs as Python"):
        module = torch.jit.script(Branchy().eval())
    for change in (torch.jit.freeze, torch.jit.optimize_for_inference):
        with pytest.warns(UserWarning, match="jit.freeze.*runs as Python"):
            assert change(module)(torch.ones(1)).item() == 2


class Written(torch.jit.ScriptModule):
    """A class of a program that is a script by itself."""

    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(2, width)
        self.factor = torch.jit.Attribute(3, int)

    @torch.jit.script_method
    def forward(self, x):
        if x.sum() > 0:
            return self.scaled(x)
        return self.linear(x)

    @torch.jit.script_method
    def scaled(self, x):
        return self.linear(x) * self.factor


class Derived(Written):
    """A class of such a class."""


def test_classes_derived_from_script_module():
    module, x = Derived(3), torch.ones(1, 2)
    assert isinstance(module, torch.jit.ScriptModule)
    assert issubclass(Derived, torch.jit.ScriptModule)
    assert not isinstance(module.linear, torch.jit.ScriptModule)
    assert torch.jit.script(module) is module and module.original_name == "Derived"
    assert list(module.state_dict()) == ["linear.weight", "linear.bias"]
    expected = module.linear(x) * 3
    for save in (lambda f: module.save(f), lambda f: torch.jit.save(module, f)):
        stream = io.BytesIO()
        save(stream)
        stream.seek(0)
        again = torch.jit.load(stream)
        assert again(x).equal(expected) and again(-x).equal(module.linear(-x))
        assert isinstance(again, torch.jit.ScriptModule) and not isinstance(again, Written)
    assert "cond" in module.code and module(x).equal(expected)
    assert torch.jit.freeze(module.eval())(x).equal(expected)
    assert torch.jit.script(torch.nn.Sequential(module))(x).equal(expected)
    assert module.double()(x.double()).dtype is torch.float64
    with pytest.raises(AttributeError, match="nothing_there"):
        _ = module.nothing_there


def test_a_lambda_is_compiled_where_its_line_has_no_other():
    one = torch.jit.script(lambda x: x * 2 + 1)
    assert isinstance(one, torch.jit.ScriptFunction)
    assert one(torch.ones(2)).tolist() == [3.0, 3.0]
    several = {"double": lambda x: 2 * x, "half": lambda x: x / 2}
    with pytest.warns(UserWarning, match="a lambda is not compiled unless it is the only one"):
        half = torch.jit.script(several["half"])
    assert half(torch.ones(2)).tolist() == [0.5, 0.5]


class Tenfold(torch.Tensor):
    """Its sums are ten times as large."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 10 if func in (torch.add, torch.Tensor.add) else result


def test_traces_follow_the_rules_of_classes_of_tensors():
    held = torch.ones(3).as_subclass(Tenfold)
    x, other = torch.ones(3), torch.full((3,), 5.0)

    def inside(x):
        return (torch.add(x.as_subclass(Tenfold), 1) * 2).as_subclass(torch.Tensor)

    for function in (inside, lambda x: torch.add(x, held) * 2):
        traced = torch.jit.trace(function, x)
        assert traced(other).tolist() == function(other).tolist() == [120, 120, 120]

    class Model(nn.Module):
        def forward(self, x):
            return inside(x)

    assert torch.export.export(Model(), (x,)).module()(other).tolist() == [120, 120, 120]


@pytest.mark.filterwarnings("ignore")
def test_traces_of_quantized_models():
    quantization = torch.ao.quantization

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
            self.conv, self.relu, self.last = nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Linear(16, 2)
            self.sums = torch.ao.nn.quantized.FloatFunctional()

        def forward(self, x):
            x = nn.functional.adaptive_avg_pool2d(self.relu(self.conv(self.quant(x))), 2)
            x = self.last(x.flatten(1))
            return self.dequant(self.sums.add(x, x))

    torch.manual_seed(0)
    model = Model().eval()
    model.qconfig = quantization.get_default_qconfig("x86")
    quantization.prepare(model, inplace=True)
    x, other = torch.randn(2, 1, 8, 8), torch.randn(2, 1, 8, 8)
    model(x)
    quantization.convert(model, inplace=True)
    traced = torch.jit.trace(model, x)
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    for program in (traced, torch.jit.load(file)):
        assert torch.equal(program(other), model(other))


@torch.jit.script
def doubled_until_ten(x, n: int):
    if bool(x.sum() < 0.0):
        x = x * 0
    else:
        x = x + 1
    for i in range(n):
        x = x + i
    while bool(x.sum() < 10.0):
        x = x * 2
    return x


def test_traces_keep_branches_and_loops_of_scripts_that_they_call():
    traced = torch.jit.trace(lambda x: doubled_until_ten(x * 1, 3) + 1, torch.tensor([8.0]))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    for program in (traced, torch.jit.load(file)):
        assert program(torch.tensor([8.0])).tolist() == [13.0]
        assert program(torch.tensor([-1.0])).tolist() == [13.0]  # 0 + 3 = 3, 6, 12
        assert program(torch.tensor([0.0])).tolist() == [17.0]  # 1 + 3 = 4, 8, 16

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = torch.jit.script(Gate())

        def forward(self, x):
            return self.gate(x - 1) * 2

    traced = torch.jit.trace(Model(), torch.ones(2))
    assert traced(torch.zeros(2)).tolist() == [2, 2] and traced(torch.ones(2) * 3).tolist() == [
        4,
        4,
    ]


class Adjusted(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor, self.shifts = 2.0, True

    def forward(self, x):
        x = x * self.factor
        if self.shifts:
            x = x + 1
        return x


def test_attributes_of_scripts_change_what_they_compute():
    script, x = torch.jit.script(Adjusted()), torch.ones(2)
    assert script(x).tolist() == [3, 3]
    script.factor = 10.0
    assert script(x).tolist() == [11, 11] and script.factor == 10.0
    script.shifts = False
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    assert torch.jit.load(file)(x).tolist() == script(x).tolist() == [10, 10]


def test_modules_of_scripts_are_replaced():
    outer = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    script, x = torch.jit.script(outer), torch.ones(1, 2)
    for other in (nn.Linear(2, 3), torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.Tanh()))):
        setattr(script, "0", other)
        assert script(x).equal(other(x).relu())
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.fill_(1)
    assert script(x).equal(other(x).relu())


def places(x):
    several = [x, x + 1, x * 1]
    return several.count(x), several.index(x + 1)


@pytest.mark.filterwarnings("ignore:places")
def test_lists_of_computed_values_are_searched_by_value():
    assert torch.jit.script(places)(torch.ones(1)) == (2, 1)


def of_comment(x, n):
    # type: (Tensor, List[int]) -> Tensor
    return x.new_zeros(n) + x


def of_comments(
    x,  # type: Tensor
    n=2,  # type: int
    z=None,  # type: Optional[Tensor]
):
    # type: (...) -> Tensor
    return x * n if z is None else x * n + z


class OfComment(nn.Module):
    def forward(self, x, n):
        # type: (Tensor, int) -> Tensor
        return x * n


def test_types_in_comments():
    x = torch.ones(1)
    scaled = torch.jit.script(OfComment())
    assert scaled(x, torch.tensor(4)).item() == 4  # as TorchScript converts it
    with pytest.raises(RuntimeError, match="expected a int, got Tensor"):
        scaled(x, torch.tensor(4.5))
    assert torch.jit.script(of_comment)(x, [2]).tolist() == [1, 1]
    script = torch.jit.script(of_comments)
    assert [script(x).item(), script(x, 3).item(), script(x, z=x).item()] == [2, 3, 3]
    assert torch.jit.script(OfComment())(x, 4).item() == 4
    assert "int n" in str(script.schema)


def test_isinstance_of_containers():
    of = torch.jit.isinstance
    assert of([1, 2], list[int]) and not of([1, "2"], list[int])
    assert of({"a": [1]}, dict[str, list[int]]) and not of({"a": 1}, dict[str, list[int]])
    assert of((1, "a"), tuple[int, str]) and not of((1,), tuple[int, str])
    assert of(None, None | int) and of(1, (str, None | int)) and not of(1.0, int | str)
    assert of((1, 2), tuple[int, ...]) and of([torch.ones(1)], list[Tensor])
    for kind in (list, dict, Optional):
        with pytest.raises(RuntimeError, match="without a contained type"):
            of([1], kind)


class Cellular(nn.Module):
    def forward(
        self,
        x: tuple[Tensor, Tensor],
        state: Optional[tuple[Tensor, Tensor]] = None,  # noqa: UP045
    ) -> tuple[Tensor, Tensor]:
        if state is None:
            state = (x[0] * 0, x[1] * 0)
        return x[0] + state[0], x[1] + state[1]


def test_arguments_by_name_and_of_another_structure_than_the_default():
    x = torch.ones(1)
    script = torch.jit.script(Cellular())
    assert [y.item() for y in (*script((x, x)), *script((x, x), (x, x)))] == [1, 1, 2, 2]
    traced = torch.jit.trace(Cellular(), ((x, x), (x, x)))
    assert [y.item() for y in traced(state=(x, x), x=(x, x * 2))] == [2, 3]
    assert [y.item() for y in traced((x, x), state=(x, x))] == [2, 2]


def test_traced_assignments_of_more_dims():
    def put(x, where, values):
        x = x.clone()
        x[where] = values
        return x

    where, values = torch.tensor([1, 2]), torch.ones(1, 1, 2)
    traced = torch.jit.trace(put, (torch.zeros(4), where, values))
    assert traced(torch.zeros(4), where + 1, values).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.interpolate(x * 1, scale_factor=2.5, mode="bilinear"),
        lambda x: F.interpolate(x * 1, scale_factor=0.5, mode="nearest"),
        lambda x: F.pad(x, (0, math.ceil(x.shape[3] / 3) * 3 - x.shape[3])),
        lambda x: x[:, :, : math.floor(x.shape[2] * 0.5)] * 1,
        lambda x: x * math.trunc(x.shape[2] / 4),
    ],
)
def test_traces_compute_sizes_of_sizes(function):
    traced = torch.jit.trace(function, torch.randn(1, 2, 8, 8))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    loaded = torch.jit.load(file)
    for shape in ((2, 2, 6, 4), (1, 2, 9, 13)):
        x = torch.randn(shape)
        assert traced(x).equal(function(x)) and loaded(x).equal(function(x))


READS = [int, float, math.sqrt, lambda n: round(n / 3), lambda n: list(range(n))[-1]]


@pytest.mark.parametrize("read", READS)
def test_traces_hold_what_was_read_of_sizes(read):
    traced = torch.jit.trace(lambda x: x * read(x.shape[1]), torch.ones(2, 4))
    assert traced(torch.ones(3, 4)).equal(torch.ones(3, 4) * read(4))
    with pytest.raises(RuntimeError, match="for .*s1.* == "):
        traced(torch.ones(2, 5))


def test_dicts_of_inputs_in_another_order():
    x = torch.ones(1)
    traced = torch.jit.trace(lambda d: d["a"] - d["b"][0], ({"a": x, "b": [x]},))
    assert traced({"b": [x * 5], "a": x * 7}).item() == 2


@torch.jit.script
def of_lists(x: List[int], y):  # noqa: UP006
    if torch.jit.isinstance(x, List[int]):  # noqa: UP006
        return y + 1
    return y


@torch.jit.script
def of_other_lists(x: List[float], y):  # noqa: UP006
    if torch.jit.isinstance(x, List[int]):  # noqa: UP006
        return y + 1
    return y


def test_isinstance_inside_of_a_script():
    assert of_lists([1], torch.ones(1)).item() == 2
    assert of_other_lists([1.0], torch.ones(1)).item() == 1


def parts(x):
    return x.real + x.imag, x.mT, x.H


def test_parts_of_complex_numbers_in_a_script():
    x = torch.tensor([[1 + 2j, 3.0]])
    for found, expected in zip(torch.jit.script(parts)(x), parts(x)):
        assert found.equal(expected)


def lists_are_equal(x):
    return [x, x + 1] == [x * 1, x + 1], [x] != [x + 1]


@pytest.mark.filterwarnings("ignore:lists_are_equal")
def test_lists_of_computed_values_are_compared_by_value():
    assert torch.jit.script(lists_are_equal)(torch.ones(1)) == (True, True)


class WithProperties(nn.Module):
    @torch.jit.unused
    @property
    def later(self):
        raise AssertionError

    @property
    def factor(self):
        return 3

    def forward(self, x):
        return x * self.factor


def test_properties_that_are_not_compiled():
    assert torch.jit.script(WithProperties())(torch.ones(1)).item() == 3


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.tensor(x.shape[1]) * x,
        lambda x: x.topk(x.argmax() * 0 + 2, dim=1)[0].unsqueeze(x.argmin() * 0),
        lambda x: (x * 2).detach_() * 3,
        lambda x: F.mse_loss(x, x * 2),
        lambda x: F.l1_loss(x, x * 2, reduction="none"),
        lambda x: F.smooth_l1_loss(x, x * 2) + F.huber_loss(x, x * 3, delta=2.0),
    ],
)
def test_traces_of_numbers_as_tensors_and_of_losses(function):
    traced, x = torch.jit.trace(function, torch.ones(2, 3)), torch.randn(4, 5)
    assert traced(x).equal(function(x))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: sum(row * 2 for row in x),
        lambda x: torch.cat([part + 1 for part in x.split(2)]),
        lambda x: torch.stack([part[0] for part in x.chunk(3)]),
        lambda x: torch.stack(x.unbind()),
    ],
)
def test_traces_hold_the_number_of_parts(function):
    traced, x = torch.jit.trace(function, torch.randn(5, 3)), torch.randn(5, 4)
    assert traced(x).equal(function(x))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    for program in (traced, torch.jit.load(file)):
        with pytest.raises(RuntimeError, match=r"for len\(\w+\) == \d|out of range"):
            program(torch.randn(4, 3))


@pytest.mark.filterwarnings("ignore")
def test_traces_of_named_tuples():
    torch.manual_seed(0)
    layer = nn.AdaptiveLogSoftmaxWithLoss(5, 9, [3, 6]).eval()
    x, target = torch.randn(3, 5), torch.tensor([1, 0, 4])
    traced = torch.jit.trace(layer, (x, target), check_trace=False)
    assert traced(x, target)[1].equal(layer(x, target).loss)


def adjusted(x, where, rows: List[int]):  # noqa: UP006
    x = x.clone()
    x[0] = 5
    x[1:] += 1
    x[x > 3] *= 2
    x[where] -= 1
    x[..., 0] += 3
    x[rows] += 1
    return x


@pytest.mark.filterwarnings("ignore:adjusted")
def test_scripts_change_elements_at_computed_places():
    x, where = torch.arange(8.0).view(4, 2), torch.tensor([0, 2])
    assert torch.jit.script(adjusted)(x, where, [1, 3]).equal(adjusted(x, where, [1, 3]))


def again(module):
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file)


class Around(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.first = inner, nn.Linear(2, 2)

    def forward(self, x, n: int):
        x = self.first(x)
        for _ in range(n):
            x = self.inner(x)
        if bool(x.sum() > 0):
            x = self.inner(x) * 2
        return x


@pytest.mark.parametrize("how", ["traced", "loaded", "with a branch", "exported"])
def test_scripts_hold_recorded_modules(how):
    torch.manual_seed(0)
    plain, x = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)), torch.randn(5, 2)
    inner = {
        "traced": lambda: torch.jit.trace(plain, x),
        "loaded": lambda: again(torch.jit.trace(plain, x)),
        "with a branch": lambda: again(torch.jit.script(Gate())),
        "exported": lambda: torch.export.export(plain, (x,)).module(),
    }[how]()
    model = Around(inner)
    script = torch.jit.script(model)
    loaded = again(script)
    assert sorted(script.state_dict()) == sorted(model.state_dict())
    for given in (x, -x):
        for n in (0, 3):
            same([script(given, n), loaded(given, n)], [model(given, n)] * 2)
    with torch.no_grad():
        model.first.weight.fill_(0.5)
    same(script(x, 1), model(x, 1))
    with pytest.raises(CompilationError, match="another structure"):
        from rushlight.jit import _inlined
        from rushlight.jit._values import Builder

        _inlined.call(Builder(), inner, (), {})


def largest(dtype: torch.dtype) -> int:
    if dtype == torch.uint8:
        return 255
    if dtype in (torch.int8, torch.uint16):
        return 127
    return 1


class ByDtype(nn.Module):
    def forward(self, x):
        if x.dtype == torch.uint16:
            return x
        if not torch.is_floating_point(x) and not x.is_complex():
            return x * largest(x.dtype)
        return x + largest(x.dtype)


class Drawn(nn.Module):
    def forward(self, x):
        first = torch.randint(0, x.size(0), size=(1,)).item()
        scale = torch.empty(1).uniform_(0.5, 1.5).item()
        return x[first : first + 2] * scale if x.gt(0).any().item() else x


def reloaded(program):
    file = io.BytesIO()
    torch.jit.save(program, file)
    file.seek(0)
    return torch.jit.load(file)


def test_scripts_ask_for_dtypes():
    script = torch.jit.script(ByDtype())
    for program in (script, reloaded(script)):
        for dtype in (torch.uint8, torch.int8, torch.int64, torch.float64, torch.complex64):
            x = torch.ones(2, dtype=dtype)
            same(program(x), ByDtype()(x))


def test_scripts_take_numbers_out_of_tensors():
    script = torch.jit.script(Drawn())
    for program in (script, reloaded(script)):
        for seed in range(4):
            torch.manual_seed(seed)
            expected = Drawn()(torch.arange(6.0))
            torch.manual_seed(seed)
            same(program(torch.arange(6.0)), expected)


def test_the_name_of_a_scripted_function():
    script = torch.jit.script(sorted_ends)
    assert (script.name, script.__name__) == ("sorted_ends", "ScriptFunction")
    assert script.__qualname__ == "torch.jit.ScriptFunction"


def sorted_ends(x: Tensor):
    found = x.sort(dim=0)
    return found.values[0] + torch.max(x, 0).values, found.indices, torch.topk(x, k=1)[1]


def test_results_of_scripts_have_names():
    script = torch.jit.script(sorted_ends)
    x = torch.tensor([3.0, 1.0, 2.0])
    for a, b in zip(script(x), sorted_ends(x), strict=True):
        same(a, b)

    @torch.jit.script
    def whole(x: Tensor):
        return torch.max(x, 0)

    values, indices = whole(x)
    assert (values.item(), indices.item()) == (3, 0)


class Checked(nn.Module):
    def forward(self, x):
        rows = x.size(0)
        torch._assert(rows == 3, f"3 rows, not {rows}!")
        torch._assert(x.dim() >= 1, "never seen")
        return x * rows


def test_messages_of_assertions_may_have_computed_values():
    script = torch.jit.script(Checked())
    for program in (script, reloaded(script)):
        assert program(torch.ones(3)).tolist() == [3.0] * 3
        with pytest.raises(RuntimeError, match="rows == 3.*3 rows, not {rows}!"):
            program(torch.ones(2))


def test_a_trace_runs_on_the_example_inputs_themselves():
    x, y = torch.ones(2, requires_grad=True), torch.ones(3)
    seen = []

    def program(a, b, c):
        seen.append((a is x, b is y, c is y, a._cdata == x._cdata, a.is_xla))
        return (x * a).sum() + (b + c).sum()

    traced = torch.jit.trace(program, (x, y, y), check_trace=False)
    assert seen == [(True, True, False, True, False)]
    # Where the program names an input another way, it is the input.
    z = torch.tensor([2.0, 3.0], requires_grad=True)
    out = traced(z, y, torch.zeros(3))
    assert out == 4 + 9 + 3
    out.backward()
    assert z.grad.tolist() == [4, 6] and x.grad is None
    torch.jit.trace(lambda a, b: a * b, (x, y[:2]))
    torch.jit.trace(lambda a: a.clone().add_(1), x)


def saved_and_loaded(program):
    file = io.BytesIO()
    torch.jit.save(program, file)
    file.seek(0)
    return torch.jit.load(file)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_traced_model_in_another_dtype(dtype):
    model = LeNet().eval()
    x = torch.randn(2, 1, 28, 28)
    traced = torch.jit.trace(model, x)
    for each in (saved_and_loaded(traced), traced):
        assert_same = torch.testing.assert_close
        assert_same(each.to(dtype)(x.to(dtype)), model.to(dtype)(x.to(dtype)))


def test_traces_take_other_dtypes_and_numbers_of_dims():
    def function(a, b):
        return (a + b).sum(-1) * a.size(0), a.float() / 2, torch.zeros_like(b)

    traced = torch.jit.trace(function, (torch.ones(2, 3), torch.ones(2, 3)))
    numbers = torch.arange(12).reshape(2, 2, 3)
    for each in (traced, saved_and_loaded(traced)):
        for inputs in ((numbers, numbers.double()), (numbers[0, 0], numbers.bool())):
            got, expected = each(*inputs), function(*inputs)
            for one, other in zip(got, expected):
                assert one.dtype is other.dtype and torch.equal(one, other)


def test_scripts_take_lists_for_tuples():
    @torch.jit.script
    def combined(a: tuple[Tensor, Tensor], b: list[Tensor]):
        first, second = a
        return first * second + b[0]

    x = torch.ones(2)
    assert combined([x, 2 * x], [x]).tolist() == [3, 3]
    assert combined((x, x), b=[x]).tolist() == [2, 2]
    with pytest.raises(torch.jit.Error, match="another structure"):
        combined([x], [x])


def test_without_compilation(monkeypatch):
    """As programs are debugged, with PYTORCH_JIT=0 in the environment."""
    from rushlight.jit import _state

    def program(x):
        return x + 1

    _state.disable()
    try:
        module = torch.nn.Linear(1, 1)
        assert torch.jit.script(program) is torch.jit.trace(program, torch.ones(1)) is program
        assert torch.jit.script(module) is torch.jit.trace_module(module, {}) is module
    finally:
        _state.enable()
    assert torch.jit.script(program) is not program
    for text, enabled in (("0", False), ("no", False), ("True", True)):
        monkeypatch.setenv("PYTORCH_JIT", text)
        assert bool(_state.EnabledProxy()) == enabled
    monkeypatch.setenv("PYTORCH_JIT", "maybe")
    with pytest.raises(ValueError, match="PYTORCH_JIT"):
        _state.EnabledProxy()


# ---- lists and dicts that are changed where a computed value says so


def of_list(x):
    w = [0, 0]
    if x.shape[0] > 2:
        w[0] = 5
    return x.sum() + w[0]


def of_dict(x):
    w = {"a": 1}
    if x.shape[0] > 2:
        w["a"] = 2
    else:
        w["a"] = 3
    return x.sum() + w["a"]


def of_inner_branch(x):
    w = [0, 0]
    if x.shape[0] > 2:
        if x.shape[0] > 4:
            w[0] = 5
        w[1] = 1
    return x.sum() + w[0] * 10 + w[1]


def of_operator(x):
    w = [1, 2]
    if x.shape[0] > 2:
        w[0] += 4
    return x.sum() + w[0]


def of_other_name(x):
    w = [0]
    v = w
    if x.shape[0] > 2:
        w[0] = 5
    return x.sum() + v[0]


def changing(w: list[int], x):
    if x.shape[0] > 2:
        w[0] = 5


def of_argument(x):
    w = [0]
    changing(w, x)
    return x.sum() + w[0]


def of_inner_list(x):
    w = [[0], [0]]
    if x.shape[0] > 2:
        w[0][0] = 5
        w[1].append(1)
    return x.sum() + w[0][0] + len(w[1])


def of_loop(x):
    w = [0]
    for i in range(x.shape[0]):
        w[0] = i
    return x.sum() + w[0]


def of_one_of_several(x):
    w = [x, x]
    y = w if x.sum() > 3 else [x + 1, x]
    y[0] = x * 5
    return w[0].sum()


@pytest.mark.parametrize("function", [of_list, of_dict, of_inner_branch, of_operator])
def test_branches_change_lists(function):
    scripted = torch.jit.script(function)
    for count in (1, 3, 5):
        assert scripted(torch.ones(count)).equal(function(torch.ones(count)))


@pytest.mark.parametrize(
    "function", [of_other_name, of_argument, of_inner_list, of_loop, of_one_of_several]
)
def test_what_changes_lists_of_several_names_runs_as_python(function):
    with pytest.warns(UserWarning, match="runs as Python"):
        scripted = torch.jit.script(function)
    for count in (1, 3, 5):
        assert scripted(torch.ones(count)).equal(function(torch.ones(count)))
