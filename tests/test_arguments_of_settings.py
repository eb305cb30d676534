"""Every argument of storages, typed tensors, settings, custom operations, hooks, casts by device
and the hub does something: with another value than its default something changes, or it raises an
error or a warning. What does not is listed with its reason, and the list is no longer than it must
be.
"""

import gc
from collections import OrderedDict

import pytest
from options import found, ignored, in_python

import rushlight as rl
from rushlight import hub, library, nn
from rushlight._functorch import make_functional
from rushlight.autograd import profiler_legacy
from rushlight.autograd.function import InplaceFunction
from rushlight.nn.modules import module as hooks_of_all
from rushlight.utils import weak
from rushlight.utils.hooks import RemovableHandle

NO_COMPILER = "operations run as they are called: docs/differences.md"
ONE_WAY = "chooses among ways to compute the same"
BY_SOURCE = "is about repositories on the web, which are refused by their source"
NO_EFFECT = {
    "compiler.disable": {"recursive": NO_COMPILER, "reason": NO_COMPILER},
    "compiler.list_backends": {"exclude_tags": NO_COMPILER},
    "compiler.set_stance": {"stance": NO_COMPILER},
    "library.infer_schema": {"tags": "they are no part of a schema's text"},
    "nn.attention.sdpa_kernel": {"set_priority": ONE_WAY},
    "hub.help": dict.fromkeys(("force_reload", "skip_validation", "trust_repo"), BY_SOURCE),
    "hub.list": dict.fromkeys(("force_reload", "skip_validation", "trust_repo"), BY_SOURCE),
    "hub.load": dict.fromkeys(("force_reload", "trust_repo", "verbose"), BY_SOURCE),
}


def error_of(call):
    try:
        return call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:60]}"


# ---- storages, typed tensors, settings

STORAGES = [
    f"{kind}Storage"
    for kind in (
        "BFloat16 Bool Byte Char ComplexDouble ComplexFloat Double Float Half Int Long Short"
    ).split()
]
TENSORS = [f"{kind}Tensor" for kind in "BFloat16 Bool Byte Char Double Float Half Int Long Short"
           .split()]  # fmt: skip


def storage(name):
    def run(**named):
        made = getattr(rl, name)(**named)
        return made.tolist(), str(made.device), str(made.dtype)

    return lambda **named: error_of(lambda: run(**named))


def typed(name):
    def made(**named):
        tensor = getattr(rl, name)(*() if "size" in named else (2,), **named)
        return str(tensor.device), tensor.shape

    return lambda **named: error_of(lambda: made(**named))


def printed(**named):
    try:
        rl.set_printoptions(**named)
        return [repr(t) for t in (rl.arange(2000.0) / 3, rl.arange(40.0), rl.tensor([1.5]))]
    finally:
        rl.set_printoptions(profile="default")


def deterministic(**named):
    try:
        rl.use_deterministic_algorithms(True, **named)
        return rl.is_deterministic_algorithms_warn_only_enabled()
    finally:
        rl.use_deterministic_algorithms(False)


def of_file(**named):
    rl.arange(4.0).numpy().tofile(PATH)
    made = rl.from_file(str(PATH), **{"size": 4, **named})
    made.detach()[0] = 9
    return made.detach(), str(made.dtype), made.requires_grad, PATH.read_bytes()


def of_file_whole(**named):
    rl.arange(4.0).numpy().tofile(PATH)
    return len(rl.from_file(str(PATH), **named))


def branch(**named):
    return error_of(lambda: rl.cond(rl.tensor(True), lambda *x: len(x), lambda *x: -1, **named))


def under_autocast(**named):
    with rl.autocast("cpu", rl.bfloat16):
        return rl.is_autocast_enabled(**named)


def quantized(dims):
    def run(**named):
        x = rl.quantize_per_tensor(rl.randn(1, 2, *(10,) * dims), 0.1, 64, rl.quint8)
        call = getattr(rl, f"quantized_max_pool{dims}d")
        return error_of(lambda: call(x, [3] * dims, **named).dequantize())

    return run


# ---- custom operations


def unique_name():
    unique_name.count = getattr(unique_name, "count", 0) + 1
    return f"settings::op{unique_name.count}"


def twice(x: rl.Tensor) -> rl.Tensor:
    return x * 2


def custom(**named):
    fn = named.pop("fn", twice)
    made = library.custom_op(unique_name(), fn, **{"mutates_args": (), **named})
    given = made if fn is not None else made(twice)
    results, op = error_of(lambda: given(rl.ones(1))), given._opoverload
    return type(made).__name__, results, op.tags, str(op._schema).partition("(")[2]


def defined(**named):
    name = unique_name()
    library.define(name, "(Tensor x) -> Tensor", **named)
    op = getattr(rl.ops.settings, name.partition("::")[2])
    return op.default.tags


def lived(register, use):
    """Whether what is registered ends with the library that was given."""

    def run(lib=None, **named):
        made = library.custom_op(unique_name(), twice, mutates_args=())
        given = {} if lib is None else {"lib": library.Library("settings", "FRAGMENT")}
        register(made, **given, **named)
        first = error_of(lambda: use(made))
        if given:
            given["lib"]._destroy()
        return first, error_of(lambda: use(made))

    return run


def fake(x):
    return rl.empty(7, device="meta")


def of_fake(made):
    return made(rl.ones(2, device="meta")).shape


def overridden(**named):
    made = library.custom_op(unique_name(), twice, mutates_args=())
    library.register_fake(made, fake)
    return error_of(lambda: library.register_fake(made, fake, **named) is fake)


def rule(info, in_dims, x):
    return x * 5, 0


def of_rule(made):
    return rl.vmap(made)(rl.ones(2, 1))


def of_cast(made):
    with rl.autocast("cpu", rl.bfloat16):
        return str(made(rl.ones(1)).dtype)


def implemented(**named):
    name = unique_name()
    library.define(name, "(Tensor x) -> Tensor")
    op = getattr(rl.ops.settings, name.partition("::")[2])
    given = dict(named)
    if "lib" in given:
        given["lib"] = library.Library("settings", "FRAGMENT")
    register = library.impl(name, "cpu", **given)
    if "func" not in given:
        return register(twice) is twice, error_of(lambda: op(rl.ones(1)))
    first = error_of(lambda: op(rl.ones(1)))
    if "lib" in given:
        given["lib"]._destroy()
    return first, error_of(lambda: op(rl.ones(1)))


def decorated(register):
    """With a function it returns that; without one a decorator."""

    def run(**named):
        made = library.custom_op(unique_name(), twice, mutates_args=())
        return type(register(made, **named)).__name__, getattr(register(made, **named),
                                                               "__name__", "")  # fmt: skip

    return run


# ---- hooks, casts by device, processes, the hub


def hooked(**named):
    calls = []

    def hook(*given):
        calls.append(len(given))

    def failing(module, given):
        raise RuntimeError("no")

    handle = hooks_of_all.register_module_forward_hook(hook, **named)
    model = nn.ReLU()
    try:
        model(rl.ones(1))
        model.register_forward_pre_hook(failing)
        error_of(lambda: model(rl.ones(1)))
    finally:
        handle.remove()
    return calls


def removed(**named):
    hooks, more = OrderedDict(), OrderedDict()
    handle = RemovableHandle(hooks, **{"extra_dict": more} if "extra_dict" in named else {})
    hooks[handle.id] = more[handle.id] = 1
    handle.remove()
    return len(hooks), len(more)


def in_place(**named):
    return InplaceFunction(**named).inplace


def legacy(**named):
    with profiler_legacy.profile(**named) as prof:
        with profiler_legacy.profile(enabled=False):
            rl.nn.Linear(2, 2)(rl.ones(1, 2))
    events = prof.function_events or []
    return [(e.name, e.input_shapes, e.flops, e.cpu_memory_usage != 0, bool(e.stack),
             e.use_device) for e in events]  # fmt: skip


def parts(function):
    def run(**named):
        _, parameters, *_ = function(nn.Linear(2, 2), **named)
        return [p.requires_grad for p in parameters]

    return run


def by_device(kind, name):
    module = getattr(rl, kind).amp

    def run(**named):
        if name == "GradScaler":
            parameter = nn.Parameter(rl.ones(1))
            scaler = module.GradScaler(**named)
            return scaler.state_dict(), scaler.is_enabled(), scaler.get_growth_factor(), \
                parameter.shape  # fmt: skip
        with module.autocast(**named):
            return rl.is_autocast_enabled(kind), str(rl.get_autocast_dtype(kind)), \
                rl.is_autocast_cache_enabled()  # fmt: skip

    return lambda **named: error_of(lambda: run(**named))


def weak_key(**named):
    calls = []

    class Key:
        pass

    key = Key()
    held = weak.WeakIdRef(key, *([calls.append] if "callback" in named else []))
    del key
    gc.collect()
    return held() is None, len(calls)


class OtherRef(weak.WeakIdRef):
    pass


def keyed(kind):
    def run(**named):
        made = kind(**named)
        made[ALIVE] = 1
        return len(made), type(next(iter(made.data))).__name__

    return run


ALIVE, OTHER = rl.ones(1), rl.zeros(1)


def trapped(**named):
    with rl.debug.trap_nan(**named):
        return error_of(lambda: rl.zeros(1).log().item())


def repository(call):
    (FOLDER / "hubconf.py").write_text(
        "def model(a=1):\n    'says'\n    return a\n\ndef _hidden():\n    pass\n"
    )
    return lambda **named: error_of(lambda: call(**{"source": "local", **named}))


PATH = FOLDER = None

CASES = {
    **{name: [storage(name)] for name in STORAGES}, **{name: [typed(name)] for name in TENSORS},
    "set_printoptions": [printed], "use_deterministic_algorithms": [deterministic],
    "from_file": [of_file, of_file_whole], "cond": [branch],
    "is_autocast_enabled": [under_autocast], "finfo": [lambda **a: error_of(
        lambda: rl.finfo(**a).eps)],
    "get_device_module": [lambda **a: rl.get_device_module(**a).__name__],
    "quantized_max_pool1d": [quantized(1)], "quantized_max_pool2d": [quantized(2)],
    "library.custom_op": [custom], "library.define": [defined],
    "library.impl": [implemented, lambda **a: implemented(**{"func": twice, **a})],
    "library.register_fake": [
        lived(lambda made, func=fake, **a: library.register_fake(made, func, **a), of_fake),
        overridden, decorated(
            lambda made, func=None, **a: library.register_fake(made, func, **a))],
    "library.register_vmap": [
        lived(lambda made, func=rule, **a: library.register_vmap(made, func, **a), of_rule),
        decorated(lambda made, func=None, **a: library.register_vmap(made, func, **a))],
    "library.register_autocast": [
        lived(lambda made, **a: library.register_autocast(made, "cpu", rl.bfloat16, **a),
              of_cast)],
    "library.infer_schema": [
        lambda **a: error_of(lambda: library.infer_schema(twice, mutates_args=(), **a))],
    "library.Library": [lambda **a: repr(library.Library("settings", "FRAGMENT", **a))],
    "nn.modules.module.register_module_forward_hook": [hooked],
    "utils.hooks.RemovableHandle": [removed], "autograd.function.InplaceFunction": [in_place],
    "autograd.profiler_legacy.profile": [legacy],
    "functorch.make_functional": [parts(make_functional.make_functional)],
    "functorch.make_functional_with_buffers": [
        parts(make_functional.make_functional_with_buffers)],
    **{f"{kind}.amp.{name}": [by_device(kind, name)]
       for kind in ("cpu", "cuda") for name in ("GradScaler", "autocast")},
    "utils.weak.WeakIdRef": [weak_key],
    **{f"utils.weak.{name}": [keyed(getattr(weak, name))]
       for name in ("WeakIdKeyDictionary", "WeakTensorKeyDictionary")},
    "debug.trap_nan": [trapped],
    "compiler.disable": [lambda **a: rl.compiler.disable(**a) is twice],
    "compiler.list_backends": [lambda **a: rl.compiler.list_backends(**a)],
    "compiler.set_stance": [lambda **a: type(rl.compiler.set_stance(**a)).__name__],
    "nn.attention.sdpa_kernel": [
        lambda **a: type(nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH, **a)).__name__],
    "hub.list": [lambda **a: repository(lambda **b: hub.list(str(FOLDER), **b))(**a)],
    "hub.help": [lambda **a: repository(lambda **b: hub.help(str(FOLDER), "model", **b))(**a)],
    "hub.load": [lambda **a: repository(lambda **b: hub.load(str(FOLDER), "model", **b))(**a)],
}  # fmt: skip

# Other values of an argument than those of booleans and numbers.
NAMED = {
    "source": [[1, 0], "github"], "dtype": [rl.float16, rl.int32], "wrap_storage": [rl.ones(1)],
    "device": ["meta", "cuda", "cpu"], "size": [(2, 3)], "precision": [2],
    "threshold": [10], "edgeitems": [1], "linewidth": [40], "profile": ["short"],
    "sci_mode": [True], "shared": [True], "operands": [(rl.ones(1),)],
    "device_type": ["cpu"], "type": [rl.float64],
    "stride": [[1, 1]], "start": [1], "end": [3], "priority": [-1], "stream_ptr": [1],
    "fn": [None], "func": [twice], "device_types": ["cuda"], "lib": [True],
    "schema": ["(Tensor y) -> Tensor"], "tags": [[rl.Tag.pt2_compliant_tag]],
    "op_name": ["settings::named"], "dispatch_key": ["CPU"], "extra_dict": [{}],
    "callback": [print], "dict": [{OTHER: 2}], "ref_type": [OtherRef], "bwd": [lambda ctx, g: g],
    "fwd": [lambda ctx, x: x], "cast_inputs": [rl.float32], "recursive": [False],
    "reason": ["words"], "exclude_tags": [()], "stance": ["force_eager"], "trust_repo": [True],
    "skip_validation": [True], "force_reload": [True], "verbose": [False],
    "cache_enabled": [False], "enabled": [False], "padding": [[1], [1, 1]],
    "init_scale": [2.0], "growth_factor": [3.0],
}  # fmt: skip
BY_FUNCTION = {
    "compiler.disable": {"fn": [twice]},
    **{name: {"dtype": [rl.float16 if name != "HalfStorage" else rl.int8]} for name in STORAGES},
}

SPACES = ("library compiler nn.modules.module utils.hooks autograd.function "
          "autograd.profiler_legacy functorch cpu.amp cuda.amp utils.weak debug nn.attention hub "
          ).split()  # fmt: skip
# Of other files, decorators, and what would reach the web.
ELSEWHERE = {
    "compiler.nested_compile_region", "nn.attention.restore_flash_attention_impl",
    "cuda.amp.custom_fwd", "cuda.amp.custom_bwd",  # those of amp, for CUDA
    "library.triton_op", "library.register_torch_dispatch",  # refused by name
    # of tests/test_backend_registration.py and tests/test_throughput_benchmark.py
    "utils.backend_registration.generate_methods_for_privateuse1_backend",
    "utils.throughput_benchmark.format_time",
    "hub.download_url_to_file", "hub.load_state_dict_from_url", "library.impl_abstract",
    *(f"functorch.{name}" for name in (
        "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_fx",
        "vjp", "vmap")),
}  # fmt: skip


@pytest.fixture(autouse=True)
def surroundings(tmp_path):
    global PATH, FOLDER
    PATH, FOLDER = tmp_path / "numbers", tmp_path
    rl.set_warn_always(True)
    yield
    rl.set_warn_always(False)
    gc.collect()


@pytest.mark.parametrize("name", CASES)
def test_arguments(name):
    left = ignored(found(name), CASES[name], {**NAMED, **BY_FUNCTION.get(name, {})})
    assert set(left) == set(NO_EFFECT.get(name, {}))


@pytest.mark.parametrize("space", SPACES)
def test_each_is_called(space):
    known = [found(name) for name in [*CASES, *ELSEWHERE]]
    assert not {name for name, value in in_python(space).items() if value not in known}
