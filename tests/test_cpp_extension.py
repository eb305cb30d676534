"""Operators of one's own in C++."""

import shutil

import pytest
import sanitizers

import rushlight as torch
from rushlight.utils import cpp_extension

pytestmark = [
    pytest.mark.skipif(not shutil.which("g++"), reason="no C++ compiler"),
    sanitizers.no_compilers,
]

SOURCE = r"""
using rushlight::Tensor;

Tensor scaled_product(const Tensor& x, const Tensor& y, double scale) {
  rushlight::check(x.sizes() == y.sizes(), "scaled_product: x and y differ in shape");
  Tensor out = rushlight::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i)
    out.data<double>()[i] = x.data<double>()[i] * y.data<double>()[i] * scale;
  return out;
}
std::vector<Tensor> scaled_product_backward(const Tensor& grad, const Tensor& x, const Tensor& y,
                                            double scale) {
  return {scaled_product(grad, y, scale), scaled_product(grad, x, scale)};
}
RUSHLIGHT_FUNCTION_OF(scaled_product_backward, 2)

std::vector<Tensor> halves(const Tensor& x, int64_t at, bool swap, std::string mode) {
  rushlight::check(mode == "copy", "mode " + mode);
  const int64_t n = x.numel();
  Tensor a = rushlight::empty({at}, x.dtype()), b = rushlight::empty({n - at}, x.dtype());
  std::memcpy(a.data<float>(), x.data<float>(), at * 4);
  std::memcpy(b.data<float>(), x.data<float>() + at, (n - at) * 4);
  if (swap) return {b, a};
  return {a, b};
}
RUSHLIGHT_FUNCTION_OF(halves, 2)

Tensor same(const Tensor& x) { return x; }
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    return cpp_extension.load_inline(
        "mine_inline", SOURCE, functions=["scaled_product", "same"],
        build_directory=tmp_path_factory.mktemp("build"),
    )  # fmt: skip


def test_values_and_gradients(mine):
    x = torch.randn(3, 4, dtype=torch.float64).t().requires_grad_()  # of any strides
    y = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    out = torch.ops.mine_inline.scaled_product(x, y, 2.5)
    torch.testing.assert_close(out, x * y * 2.5)
    assert torch.autograd.gradcheck(lambda x, y: mine.scaled_product(x, y, 2.5), (x, y))
    rows = torch.func.vmap(lambda a, b: mine.scaled_product(a, b, 1.0))(x.detach(), y.detach())
    torch.testing.assert_close(rows, x * y)


def test_several_results_and_kinds_of_arguments(mine):
    x = torch.arange(5.0)
    a, b = mine.halves(x, 2, False, "copy")
    assert (a.tolist(), b.tolist()) == ([0, 1], [2, 3, 4])
    assert mine.halves(x, 2, True, "copy")[0].tolist() == [2, 3, 4]
    y = mine.same(x)
    y += 1
    assert x.tolist() == [0, 1, 2, 3, 4]


def test_errors(mine, tmp_path):
    x = torch.ones(2, dtype=torch.float64)
    with pytest.raises(RuntimeError, match="scaled_product: x and y differ in shape"):
        mine.scaled_product(x, x[:1], 1.0)
    with pytest.raises(RuntimeError, match="another dtype"):
        mine.scaled_product(x.float(), x.float(), 1.0)
    with pytest.raises(RuntimeError, match="mode other"):
        mine.halves(torch.ones(2), 1, False, "other")
    with pytest.raises(RuntimeError, match="no memory, or bad sizes"):
        mine.halves(torch.ones(2), -1, False, "copy")
    with pytest.raises(RuntimeError, match="does not compile:\n.*nonsense"):
        cpp_extension.load_inline("broken", "nonsense", functions=[], build_directory=tmp_path)
    with pytest.raises(RuntimeError, match="has no functions"):
        cpp_extension.load_inline("nothing", "int x;", build_directory=tmp_path)
    with pytest.raises(RuntimeError, match="wrong_backward takes .*expected"):
        cpp_extension.load_inline(
            "wrong", "rushlight::Tensor wrong(const rushlight::Tensor& x) { return x; }\n"
            "rushlight::Tensor wrong_backward(const rushlight::Tensor& x) { return x; }",
            functions=["wrong", "wrong_backward"], build_directory=tmp_path,
        )  # fmt: skip
    with pytest.raises(NotImplementedError, match="CPU"):
        cpp_extension.load_inline("cuda", "", with_cuda=True)
    with pytest.raises(NotImplementedError, match="PyTorch's C\\+\\+ interface"):
        cpp_extension.CppExtension("x", ["x.cpp"])


def test_files_and_the_version_of_the_interface(tmp_path):
    source = tmp_path / "op.cpp"
    source.write_text(
        "#include <rushlight/extension.h>\n"
        "rushlight::Tensor seven() {\n"
        "  rushlight::Tensor t = rushlight::empty({1});\n"
        "  t.data<float>()[0] = 7;\n  return t;\n}\nRUSHLIGHT_FUNCTION(seven)\n"
    )
    module = cpp_extension.load("mine_file", [source], build_directory=tmp_path)
    assert module.seven().item() == 7 and torch.ops.mine_file.seven().item() == 7
    source.write_text(
        source.read_text().replace("<rushlight/extension.h>", "<rushlight/extension.h>\n"
        "#undef RUSHLIGHT_EXTENSION_ABI\n#define RUSHLIGHT_EXTENSION_ABI 99")
    )  # fmt: skip
    with pytest.raises(RuntimeError, match="built for version 99 .* this is version 1"):
        cpp_extension.load("mine_other", source, build_directory=tmp_path)
