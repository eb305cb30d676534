"""`utils.cmake_prefix_path`, the C++ library's place: with a package in its stead, or with none."""

import sys
import types

import pytest

import rushlight as torch

VERSION = torch.__version__.partition("+")[0]


def test_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "rushlight_cpp", None)
    message = f"not installed: pip install rushlight-cpp=={VERSION}"
    with pytest.raises(AttributeError, match=message):
        _ = torch.utils.cmake_prefix_path
    assert not hasattr(torch.utils, "cmake_prefix_path")


@pytest.mark.parametrize("version", [VERSION, "0.0.9"])
def test_present(monkeypatch, version):
    library = types.ModuleType("rushlight_cpp")
    library.__version__, library.cmake_prefix_path = version, "/somewhere/rushlight_cpp"
    monkeypatch.setitem(sys.modules, "rushlight_cpp", library)
    if version == VERSION:
        assert torch.utils.cmake_prefix_path == "/somewhere/rushlight_cpp"
    else:
        with pytest.raises(AttributeError, match=f"expected .* version {VERSION}, got 0.0.9"):
            _ = torch.utils.cmake_prefix_path


def test_error_of_the_package_itself_is_seen(monkeypatch, tmp_path):
    (tmp_path / "rushlight_cpp.py").write_text("import no_such_module_at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "rushlight_cpp", raising=False)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_at_all"):
        _ = torch.utils.cmake_prefix_path
