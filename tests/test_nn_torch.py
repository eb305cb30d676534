"""nn beside torch.nn: signatures, printed forms, state, initial values, results and gradients."""

import copy
import importlib
import inspect
import pickle
import re
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import modules  # noqa: E402

import rushlight  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

NAMES = sorted(name for name in dir(torch.nn) if isinstance(getattr(torch.nn, name), type))
CASES = [pytest.param(*case, id=case[0]) for case in modules.CASES]


def test_every_module_has_a_case():
    covered = set().union(*(modules.names(text) for text, _ in modules.CASES))
    assert not set(NAMES) - covered - modules.NOT_CASES


def plain(value):
    """A printed form in which the library's name does not show."""
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value)).replace("built-in function", "function")
    return re.sub(r"\b(rushlight|torch)\b", "library", text)


def parameters_of(function):
    """(name, kind, default) of each parameter, but for annotations."""
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind.name, plain(p.default)) for p in parameters]


def public_methods(cls):
    """The functions that a class itself or its bases of the library define."""
    for name, member in inspect.getmembers(cls, callable):
        if name in ("__init__", "forward") or not name.startswith("_"):
            if inspect.isfunction(member) or inspect.ismethod(member):
                yield name, member


def difference(ours, theirs):
    """Both signatures, if they differ; a function written in C equals its Python like."""
    mine, other = parameters_of(ours), parameters_of(theirs)
    return None if mine == other else (inspect.signature(ours), inspect.signature(theirs))


# What stays different, and why.
OTHER_METHODS = {
    "DataParallel": {"gather", "parallel_apply", "replicate", "scatter"},  # for several devices
    "RNNBase": {"forward"},  # abstract there
}
MODULES = [name for name in NAMES if issubclass(getattr(torch.nn, name), torch.nn.Module)]


@pytest.mark.parametrize("name", MODULES)
def test_signatures(name):
    ours, theirs = getattr(rushlight.nn, name), getattr(torch.nn, name)
    expected = dict(public_methods(theirs))
    for method in OTHER_METHODS.get(name, ()):
        del expected[method]
    assert not [method for method in expected if not hasattr(ours, method)]
    differences = {m: difference(getattr(ours, m), f) for m, f in expected.items()}
    assert not {m: d for m, d in differences.items() if d}


# Dispatched by return_indices, these take anything and name nothing.
DISPATCHED = re.compile(r"(adaptive|fractional)?_?max_pool\dd(_with_indices)?")
FUNCTIONS = [
    name
    for name, member in vars(torch.nn.functional).items()
    if inspect.isfunction(member)
    and member.__module__ == "torch.nn.functional"
    and not name.startswith("_")
    and not DISPATCHED.fullmatch(name)
]
# Products in the 8-bit formats of GPUs, and a check that is torch's own.
for _name in ("scaled_mm", "scaled_grouped_mm", "grouped_mm", "assert_int_or_pair"):
    FUNCTIONS.remove(_name)
FUNCTIONS.remove("sigmoid")  # takes `out` too


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_signatures(name):
    assert (
        difference(getattr(rushlight.nn.functional, name), getattr(torch.nn.functional, name))
        is None
    )


def flat(value):
    """The tensors in nested results, in order."""
    if isinstance(value, (rushlight.Tensor, torch.Tensor)):
        return [value]
    if isinstance(value, (tuple, list)):
        return [tensor for part in value for tensor in flat(part)]
    return []


# For torch's fused inference, which needs them, and nested tensors.
INTERNAL = {"activation_relu_or_gelu", "use_nested_tensor"}


def attributes(module):
    """What a user reads off a module that is no tensor and no module."""
    return {
        key: plain(value)
        for key, value in vars(module).items()
        if not key.startswith("_") and key not in INTERNAL
    }


def check_equal_bits(ours, theirs):
    assert list(ours) == list(theirs)
    for key in ours:
        assert plain(ours[key].dtype) == plain(theirs[key].dtype)
        assert ours[key].numpy().tobytes() == theirs[key].numpy().tobytes(), key


def run(library, module, values):
    """Outputs, and the gradients of the inputs and parameters, from equal random numbers."""
    values = [v.clone().requires_grad_() if v.is_floating_point() else v for v in values]
    library.manual_seed(3)
    # Each in-place layer works on a copy: leaves that need gradients refuse it.
    outputs = flat(module(*[v * 1 if v.is_floating_point() else v for v in values]))
    floating = [out for out in outputs if out.is_floating_point() and out.requires_grad]
    wanted = [v for v in (*values, *module.parameters()) if v.requires_grad]
    grads = ()
    if floating:
        loss = sum(
            (out * library.linspace(0, 1, out.numel(), dtype=out.dtype).view_as(out)).sum()
            for out in floating
        )
        grads = library.autograd.grad(loss, wanted, allow_unused=True)
    return outputs, grads


def check_close(ours, theirs):
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs):
        assert (mine is None) == (other is None)
        if mine is not None:
            other = rushlight.from_numpy(other.detach().numpy())
            rushlight.testing.assert_close(mine.detach(), other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("text", "inputs"), CASES)
def test_module(text, inputs):
    ours, theirs = (modules.make(library, text) for library in (rushlight, torch))
    assert plain(ours) == plain(theirs)
    assert attributes(ours) == attributes(theirs)
    for train in (True, False):
        ours.train(train), theirs.train(train)
        if inputs:
            results = [
                run(library, module, modules.inputs(library, inputs))
                for library, module in ((rushlight, ours), (torch, theirs))
            ]
            check_close(results[0][0], results[1][0])
            if "CrossMapLRN2d" not in text:  # see the next test
                check_close(results[0][1], results[1][1])
        assert plain(ours) == plain(theirs)  # a lazy module has become another
        assert attributes(ours) == attributes(theirs)
    assert list(ours.state_dict()._metadata.items()) == list(theirs.state_dict()._metadata.items())


def test_gradient_of_crossmap_normalisation_that_torch_has_wrong():
    for library, right in ((rushlight, True), (torch, False)):
        x = library.randn(1, 4, 2, 2, dtype=library.float64, requires_grad=True)
        layer = library.nn.CrossMapLRN2d(3, alpha=0.5)
        assert library.autograd.gradcheck(layer, x, raise_exception=False) is right


@pytest.mark.parametrize(("text", "inputs"), CASES)
def test_initial_values(text, inputs):
    ours, theirs = (modules.make(library, text) for library in (rushlight, torch))
    if "Lazy" in text:  # in evaluation: running averages are rounded sums
        ours.eval()(*modules.inputs(rushlight, inputs))
        theirs.eval()(*modules.inputs(torch, inputs))
    check_equal_bits(ours.state_dict(), theirs.state_dict())
    for name in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        assert [k for k, _ in getattr(ours, name)()] == [k for k, _ in getattr(theirs, name)()]
    assert rushlight.get_rng_state().tolist() == torch.get_rng_state().tolist()


@pytest.mark.parametrize(("text", "inputs"), CASES)
def test_copies(text, inputs):
    module = modules.make(rushlight, text)
    if "Lazy" in text:
        module(*modules.inputs(rushlight, inputs))
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert type(copied) is type(module) and repr(copied) == repr(module)
        state = copied.state_dict()
        assert all(v.equal(state[k]) for k, v in module.state_dict().items())


def hook_log(library, old_backward):
    """What every kind of hook, own and global, sees and when: call, backward, save and load."""
    nn, log = library.nn, []
    hooks = library.nn.modules.module

    def record(name, change=None):
        def hook(module, *args, **kwargs):
            seen = [plain(type(a)) if not isinstance(a, tuple) else len(a) for a in args]
            log.append((name, type(module).__name__, seen, sorted(kwargs)))
            return change(*args) if change else None

        return hook

    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    handles = [
        hooks.register_module_forward_pre_hook(record("global pre")),
        hooks.register_module_forward_hook(record("global forward")),
        hooks.register_module_forward_hook(record("global always"), always_call=True),
        hooks.register_module_forward_hook(record("global keywords"), with_kwargs=True),
        hooks.register_module_buffer_registration_hook(lambda *a: log.append(("buffer", a[1]))),
        hooks.register_module_parameter_registration_hook(lambda *a: log.append(("param", a[1]))),
        hooks.register_module_module_registration_hook(lambda *a: log.append(("module", a[1]))),
    ]
    if old_backward:
        handles.append(hooks.register_module_backward_hook(record("global old backward")))
        model[0].register_backward_hook(record("old backward"))
    else:
        handles.append(hooks.register_module_full_backward_pre_hook(record("global full pre")))
        handles.append(hooks.register_module_full_backward_hook(record("global full")))
        for module in model.modules():
            module.register_full_backward_pre_hook(record("full pre"))
            module.register_full_backward_pre_hook(record("first full pre"), prepend=True)
            module.register_full_backward_hook(record("full"))
            module.register_full_backward_hook(record("first full"), prepend=True)
        model[1].register_full_backward_pre_hook(record("times 2", lambda g: (g[0] * 2,)))
        model[0].register_full_backward_hook(
            record("times 3", lambda before, after: tuple(g * 3 for g in before))
        )
    for module in model.modules():
        module.register_forward_pre_hook(record("pre"))
        module.register_forward_pre_hook(record("first pre"), prepend=True)
        module.register_forward_pre_hook(record("keywords pre"), with_kwargs=True)
        module.register_forward_hook(record("forward"))
        module.register_forward_hook(record("first forward"), prepend=True)
        module.register_forward_hook(record("keywords"), with_kwargs=True)
        module.register_forward_hook(record("always"), always_call=True)
        module.register_state_dict_pre_hook(record("before state"))
        module.register_state_dict_post_hook(record("after state"))
        module.register_load_state_dict_pre_hook(record("before load"))
        module.register_load_state_dict_post_hook(record("after load"))
    model[0].register_forward_pre_hook(record("plus 1", lambda args: (args[0] + 1,)))
    model[1].register_forward_hook(record("halve", lambda args, out: out / 2))
    x = library.ones(4, 3, requires_grad=True)
    with library.no_grad():
        model[0].weight.fill_(0.25), model[0].bias.fill_(-0.5)
    y = model(x)
    y.sum().backward()
    numbers = [t.tolist() for t in (y, x.grad, model[0].weight.grad)]
    model.load_state_dict(model.state_dict())
    model.register_buffer("kept", library.ones(1))
    model.late = nn.Linear(1, 1)
    with pytest.raises(RuntimeError):
        model(library.ones(4, 2))
    for handle in handles:
        handle.remove()
    del model.kept
    log.append("removed")
    nn.Linear(1, 1)(library.ones(1, 1))
    # The kind of the global ones is settled by the first.
    home = hooks if library is torch else library.nn.modules._hooks
    home._global_is_full_backward_hook = None
    return log, numbers


@pytest.mark.parametrize("old_backward", [False, True])
@pytest.mark.keeps_tensors("the exception holds the frames")
def test_hooks(old_backward):
    ours, theirs = (hook_log(library, old_backward) for library in (rushlight, torch))
    assert ours[0] == theirs[0]
    for mine, other in zip(ours[1], theirs[1]):
        rushlight.testing.assert_close(rushlight.tensor(mine), rushlight.tensor(other))


LOSSES = [name for name in MODULES if name.endswith("Loss") or name == "NLLLoss2d"]
REDUCED = [
    name
    for name in LOSSES
    if "size_average" in inspect.signature(getattr(torch.nn, name)).parameters
]


def outcome(function):
    """What came, and the kinds of the warnings on the way."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function()
        except Exception as error:
            result = type(error).__name__
    return result, [warning.category.__name__ for warning in caught]


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("size_average", [None, True, False])
@pytest.mark.parametrize("reduce", [None, True, False])
def test_old_arguments_of_losses(name, size_average, reduce):
    def reduction(library):
        loss = getattr(library.nn, name)(size_average=size_average, reduce=reduce)
        return loss.reduction

    assert outcome(lambda: reduction(rushlight)) == outcome(lambda: reduction(torch))


X, Y = "T.ones(2, 3, 4, 4)", "T.ones(2, 3)"
CALLS = [
    f"nn.Softmax()({Y})",
    f"nn.LogSoftmax()({Y})",
    f"nn.Softmin()({Y})",
    "nn.NLLLoss2d()",
    f"nn.functional.softmax({Y})",
    f"nn.functional.log_softmax({X})",
    f"nn.Softmax2d()({Y})",
    f"nn.functional.upsample({X}, scale_factor=2)",
    f"nn.functional.tanh({Y})",
    f"nn.functional.upsample_nearest({X}, 2)",
    f"nn.functional.upsample_bilinear({X}, 2)",
    f"nn.functional.sigmoid({Y})",
    f"nn.init.uniform({Y})",
    f"nn.init.xavier_normal({Y})",
    f"nn.functional.mse_loss({Y}, T.ones(2, 1))",
    f"nn.functional.l1_loss({Y}, T.ones(1, 3))",
    f"nn.functional.dropout2d({Y})",
    f"nn.functional.dropout({Y}, 2.0)",
    "nn.Dropout(-1)",
    "nn.Linear(0, 3)",
    "nn.LSTM(3, 4, num_layers=0)",
    "nn.LSTM(3, 4, dropout=0.5)",
    "nn.LSTM(3, 4, 2, proj_size=4)",
    "nn.LSTM(3, 4, dropout=2)",
    "nn.RNN(3, 4, nonlinearity='sin')",
    "nn.RNN(3, 4, mode='RNN_RELU')",
    "nn.GRU(3, 4, proj_size=2)",
    "nn.Conv2d(3, 4, 3, groups=2)",
    "nn.Conv2d(3, 4, 3, padding='full')",
    "nn.Conv2d(0, 4, 3)",
    "nn.Conv2d(3, 4, 3, stride=2, padding='same')",
    "nn.Conv2d(3, 4, 3, padding_mode='wrap')",
    f"nn.BatchNorm2d(3)({Y})",
    f"nn.BatchNorm1d(3)({X})",
    "nn.BatchNorm1d(3)(T.ones(1, 3))",
    f"nn.InstanceNorm2d(5)({X})",
    f"nn.InstanceNorm2d(5, affine=True)({X})",
    "nn.GroupNorm(2, 3)",
    f"nn.LayerNorm(3)({X})",
    f"nn.MaxPool2d(3, padding=2)({X})",
    "nn.Embedding(3, 2, padding_idx=3)",
    "nn.Embedding(3, 2)(T.tensor([3]))",
    "nn.Embedding.from_pretrained(T.ones(3))",
    "nn.EmbeddingBag(3, 2)(T.tensor([1]))",
    "nn.MultiheadAttention(5, 2)",
    "nn.MultiheadAttention(0, 2)",
    "nn.PixelShuffle(2)(T.ones(3, 2, 2))",
    f"nn.CrossEntropyLoss()({Y}, T.tensor([1, 3]))",
    f"nn.BCELoss()({Y} * 2, {Y})",
    f"nn.BCELoss()({Y}, T.ones(3))",
    f"nn.NLLLoss()({Y}, T.tensor([1]))",
    "nn.Unflatten(0, (2, 2))(T.ones(3))",
    "nn.Fold(4, 2)(T.ones(1, 3, 9))",
    "nn.Upsample()(T.ones(1))",
    f"nn.Upsample(2, mode='trilinear')({X})",
    "nn.Sequential(nn.ReLU())[1]",
    "nn.ModuleList([3])",
    "nn.ModuleDict({'a': 3})",
    "nn.ModuleDict({1: nn.ReLU()})",
    "nn.Module().missing",
    "nn.Module()(1)",
    "nn.Module(1)",
    "nn.Module().register_buffer('a.b', None)",
    "nn.Module().register_parameter('a', T.ones(1))",
    "nn.Linear(2, 2).register_parameter('', None)",
    "nn.Linear(2, 2).train(3)",
    "nn.Linear(2, 2).get_submodule('x.y')",
    "nn.Linear(2, 2).load_state_dict({})",
    "nn.Linear(2, 2).load_state_dict(3)",
    "nn.Linear(2, 2).load_state_dict({'weight': T.ones(3, 2), 'bias': T.ones(2)})",
    "nn.Linear(2, 2).to(T.int32)",
    "nn.Linear(2, 2).half().weight.dtype",
    "nn.Linear(2, 2)(T.ones(3))",
    "nn.Parameter(T.ones(2, dtype=T.int64))",
    "nn.Hardtanh(min_value=2)",
    "nn.Threshold(1)",
    "nn.TransformerEncoderLayer(8, 2, activation='sin')",
    "nn.AdaptiveLogSoftmaxWithLoss(5, 9, [6, 3])",
    "nn.CosineSimilarity()(T.ones(3), T.ones(4))",
    "nn.LocalResponseNorm(2)(T.ones(2, 2))",
    "nn.GLU()(T.ones(3))",
    f"nn.RReLU(0.5, 0.1)({Y})",
    "nn.Linear(2, 2).to('cpu', True)",
    "nn.Linear(2, 2).to('cpu', memory_format=3)",
    "nn.HuberLoss(delta=1j)",
    "nn.LSTM(0, 3)",
    "nn.functional.embedding_bag(T.tensor([[9]]), T.ones(3, 2))",
    "nn.functional.embedding_bag(T.tensor([[0]]), T.ones(3, 2), padding_idx=3)",
    "nn.functional.embedding_bag(T.tensor([0, 1]), T.ones(3, 2), T.tensor([1]), "
    "include_last_offset=True)",
    "nn.EmbeddingBag(3, 2, sparse=True, mode='sum')(T.tensor([0, 1]), T.tensor([1]))",
    "nn.EmbeddingBag(3, 2, padding_idx=3)",
    "nn.functional.fractional_max_pool2d(T.ones(1, 1, 4, 4), (), output_size=2)",
    "nn.functional.fractional_max_pool2d(T.ones(1, 1, 4, 4), 2, output_size=(2, 2, 2))",
    "nn.functional.fractional_max_pool2d(T.ones(1, 1, 4, 4), 2, output_ratio=(0.5, 0.5, 0.5))",
    "nn.functional.fractional_max_pool2d(T.ones(2, 1, 4, 4), 2, output_size=2, "
    "_random_samples=T.ones(1, 1, 2))",
    "nn.functional.group_norm(T.ones(1, 2), 2)",
    "nn.functional.group_norm(T.ones(1, 4), 2)",
    "nn.functional.ctc_loss(T.zeros(4, 1, 3), T.ones(1, 2), T.tensor([4.0]), T.tensor([2]))",
    "nn.functional.ctc_loss(T.zeros(4, 1, 3), T.ones(1, 2), T.tensor([4]), T.tensor([2.0]))",
    "nn.functional.nll_loss(T.ones(2, 2), T.tensor([0, 1]), weight=T.ones(2).double())",
    "nn.functional.cross_entropy(T.ones(2, 2), T.tensor([0, 1]), weight=T.ones(2).double())",
    "nn.functional.cross_entropy(T.ones(4, 2), T.ones(5, 2))",
    "nn.functional.multi_margin_loss(T.ones(2, 2), T.tensor([0, 1]), weight=T.ones(2).double())",
    "nn.functional.binary_cross_entropy(T.ones(2), T.ones(2), weight=T.ones(2).double()).dtype",
    "list(nn.ParameterDict({'b': T.ones(1), 'a': T.ones(1)}).keys())",
    "list(nn.ParameterDict([('b', T.ones(1)), ('a', T.ones(1))]).keys())",
    "nn.ParameterList([T.ones(2, device='meta')])",
    f"nn.Flatten(2, 1)({X})",
]


@pytest.mark.parametrize("text", CALLS)
@pytest.mark.keeps_tensors("exceptions hold their frames")
def test_errors_and_warnings(text):
    ours, theirs = (
        outcome(lambda library=library: modules.evaluate(library, text, 1))
        for library in (rushlight, torch)
    )
    assert ours[1] == theirs[1]
    assert isinstance(ours[0], str) == isinstance(theirs[0], str), (ours[0], theirs[0])
    if isinstance(theirs[0], str):
        assert ours[0] == theirs[0]


def test_flex_attention():
    results = []
    for library in (torch, rushlight):
        flex = importlib.import_module(f"{library.__name__}.nn.attention.flex_attention")
        library.manual_seed(0)
        q, bias = library.randn(2, 4, 6, 8), library.randn(4, 6, 10)
        k, v = library.randn(2, 2, 10, 8), library.randn(2, 2, 10, 8)
        mask = flex.create_block_mask(
            lambda b, h, q, kv: (q * 2 >= kv) & (q != 3) & (b < 1), 2, None, 6, 10, "cpu", 4
        )
        output, lse = flex.flex_attention(
            q, k, v, lambda score, b, h, q, kv, bias=bias: score * (b + 1) + bias[h, q, kv], mask,
            enable_gqa=True, return_lse=True,
        )  # fmt: skip
        results.append((output, lse, mask.to_dense(), mask.sparsity(), mask.shape))
    for expected, got in zip(*results):
        if isinstance(expected, torch.Tensor):
            np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
        else:
            assert got == pytest.approx(expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_weights_of_regression_losses(name, reduction):
    def run(library):
        library.manual_seed(0)
        x, y, w = (library.randn(3, 4).requires_grad_() for _ in range(3))
        loss = getattr(library.nn.functional, name)(x, y, reduction=reduction, weight=w)
        (loss * 2).sum().backward()
        return [t.detach().numpy() for t in (loss, x.grad, y.grad, w.grad)]

    for expected, got in zip(run(torch), run(rushlight)):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    for library in (torch, rushlight):
        loss = getattr(library.nn.functional, name)
        with pytest.raises(ValueError, match="same size"):
            loss(library.ones(3, 4), library.ones(3, 4), weight=library.ones(4))


@pytest.mark.parametrize("options", [{}, {"norm": True}, {"activation": "gelu"}, {"nhead": 1}])
@pytest.mark.parametrize("padded", [[0, 0, 1], [1, 0, 0]])
def test_padding_of_encoders_in_inference(options, padded):
    def run(library):
        library.manual_seed(0)
        made = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "batch_first": True, **options}
        norm = library.nn.LayerNorm(8) if made.pop("norm", False) else None
        layer = library.nn.TransformerEncoderLayer(**made)
        model = library.nn.TransformerEncoder(layer, 2, norm).eval()
        x, mask = library.randn(2, 3, 8), library.tensor([[0, 0, 0], padded]).bool()
        with library.no_grad():
            return model(x, src_key_padding_mask=mask).numpy()

    np.testing.assert_allclose(run(rushlight), run(torch), rtol=1e-4, atol=1e-5)
