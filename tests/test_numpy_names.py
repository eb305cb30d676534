"""NumPy's names of arguments: torch takes them in all functions that it has in its core, whatever
language they are written in here.
"""

import types

import numpy
import pytest

import rushlight as torch
from rushlight._numpy_names import NUMPY_NAMES, numpy_names_of

# Functions written in Python here that torch has in its core, beside all of linalg and fft.
IN_CORE = """adaptive_max_pool1d alpha_dropout batch_norm conv_tbc cosine_similarity
    dequantize detach_ fake_quantize_per_tensor_affine feature_dropout frobenius_norm gradient
    grid_sampler group_norm gru_cell hash_tensor hinge_embedding_loss histogram histogramdd
    instance_norm int_repr is_complex is_floating_point istft kl_div layer_norm lstm_cell
    native_batch_norm native_group_norm native_layer_norm nonzero nonzero_static norm_except_dim
    nuclear_norm numel pairwise_distance poisson_nll_loss q_scale
    quantize_per_tensor rrelu rrelu_ slice_inverse smm split_copy split_with_sizes_copy sspaddmm
    unbind_copy unsafe_split_with_sizes""".split()


def _functions():
    for name in IN_CORE:
        yield name, getattr(torch, name)
    for home in ("linalg", "fft"):
        space = getattr(torch, home)
        for name in space.__all__:
            if isinstance(getattr(space, name), types.FunctionType):
                yield f"{home}.{name}", getattr(space, name)


@pytest.mark.parametrize("name, function", list(_functions()))
def test_each_name_is_taken(name, function):
    for given, own in numpy_names_of(function).items():
        with pytest.raises(Exception) as error:
            function(**{given: object()})
        assert "unexpected keyword" not in str(error.value), given
        with pytest.raises(TypeError):
            function(**{given: object(), own: object()})


def test_python_has_the_names_of_the_core():
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.sum(x=x, axis=0, keepdims=True).shape == (1, 3)
    assert torch.transpose(x, axis0=0, axis1=1).shape == (3, 2)
    assert torch.add(x1=x, x2=x).equal(x + x)
    assert set(NUMPY_NAMES) == {"dim", "keepdim", "input", "other", "dim0", "dim1"}


def test_values():
    a = numpy.random.default_rng(0).standard_normal((3, 4))
    x = torch.tensor(a)
    assert numpy.allclose(torch.fft.fft(x, axis=0), numpy.fft.fft(a, axis=0))
    assert torch.fft.fftshift(x, axis=1).equal(torch.fft.fftshift(x, 1))
    expected = numpy.linalg.norm(a, axis=1, keepdims=True)
    assert numpy.allclose(torch.linalg.norm(x, axis=1, keepdims=True), expected)
    assert torch.linalg.vecdot(x, x, axis=0).equal(torch.linalg.vecdot(x, x, dim=0))
    assert torch.cosine_similarity(x, 2 * x, axis=1).shape == (3,)
    assert x.narrow_copy(axis=1, start=1, length=2).equal(x[:, 1:3])
    with pytest.raises(TypeError, match="multiple values for argument 'dim'"):
        torch.fft.fft(x, dim=0, axis=0)


def test_a_mode_sees_the_names_that_were_given():
    seen = []

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func, len(args), kwargs))
            return func(*args, **(kwargs or {}))

    x = torch.ones(3)
    with Mode():
        torch.fft.fft(x, axis=0)
    assert seen[0] == (torch.fft.fft, 1, {"axis": 0})


def test_names_of_linalg():
    """Those of torch's parser, which its documentation calls A."""
    x = torch.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    inverse = torch.linalg.inv(A=x)
    torch.testing.assert_close(torch.linalg.pinv(input=x), inverse)
    torch.testing.assert_close(torch.linalg.tensorinv(input=x, ind=1), inverse)
    torch.testing.assert_close(torch.linalg.lstsq(input=x, b=x)[0], torch.eye(2).double())
    solution = torch.linalg.tensorsolve(input=x, other=x[0])
    torch.testing.assert_close(x @ solution, x[0])
    for name in ("cond", "matrix_norm", "matrix_rank", "norm"):
        getattr(torch.linalg, name)(input=x)
        with pytest.raises(TypeError):
            getattr(torch.linalg, name)(A=x)
    for name in ("eig", "eigh", "eigvals", "eigvalsh", "matrix_exp", "ldl_factor"):
        getattr(torch.linalg, name)(input=x)
    assert torch.linalg.matrix_power(input=x, n=2).equal(x @ x)
    lower = torch.linalg.solve_triangular(input=x.tril(), B=x, upper=False)
    torch.testing.assert_close(x.tril() @ lower, x)
    assert x.clone().copy_(other=inverse).equal(inverse)


def test_functions_of_the_core_have_their_own_order():
    x = torch.arange(8.0).reshape(2, 4)
    F = torch.nn.functional
    assert torch.layer_norm(x, [4], None, None, 1e-5, False).equal(F.layer_norm(x, [4]))
    assert torch.group_norm(x, 2, None, None, 1e-5, True).equal(F.group_norm(x, 2))
    assert torch.alpha_dropout(x, p=0.5, train=False).equal(x)
    assert torch.feature_alpha_dropout(x, p=0.5, train=False).equal(x)
    draws = [
        torch.rrelu(-x, training=True, generator=torch.Generator().manual_seed(3)) for _ in "ab"
    ]
    assert draws[0].equal(draws[1]) and not draws[0].equal(-x)
    weights = [torch.ones(3, 4), torch.ones(3, 3)]
    options = {"has_biases": False, "num_layers": 1, "dropout": 0.0, "train": False,
               "bidirectional": False}  # fmt: skip
    hx = torch.zeros(1, 1, 3)
    padded = torch.rnn_tanh(
        input=x[:, None], hx=hx, params=weights, batch_first=False, **options
    )  # fmt: skip
    packed = torch.rnn_tanh(x, torch.tensor([1, 1]), hx, params=weights, **options)
    assert padded[0][:, 0].equal(packed[0])
    with pytest.raises(TypeError, match="rnn_tanh"):
        torch.rnn_tanh(x, hx=hx)
