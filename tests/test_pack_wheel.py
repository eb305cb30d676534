"""The wheel of the C++ library, as tools/pack_wheel.py packs it: name, metadata and files."""

import email
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rushlight as torch

pytest.importorskip("tomllib", reason="the tool needs Python 3.11")
TOOL = Path(__file__).parent.parent / "tools" / "pack_wheel.py"
VERSION = torch.__version__.partition("+")[0]


def test_the_cpp_wheel_is_one_for_all_pythons(tmp_path):
    library = tmp_path / "installed" / "rushlight_cpp" / "lib" / "librushlight.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"code")
    (library.parent / "libscipy_openblas.so").write_bytes(b"BLAS")
    tag = "py3-none-linux_x86_64"
    subprocess.run(
        [sys.executable, TOOL, tmp_path / "installed", tmp_path, "--cpp", "--tag", tag], check=True
    )
    information = f"rushlight_cpp-{VERSION}.dist-info"
    with zipfile.ZipFile(tmp_path / f"rushlight_cpp-{VERSION}-{tag}.whl") as wheel:
        assert wheel.read("rushlight_cpp/lib/librushlight.so") == b"code"
        metadata = email.message_from_bytes(wheel.read(f"{information}/METADATA"))
        assert f"Tag: {tag}\n" in wheel.read(f"{information}/WHEEL").decode()
        assert wheel.read(f"{information}/entry_points.txt").strip() == b""
    assert metadata["Name"] == "rushlight-cpp" and metadata["Version"] == VERSION
    assert metadata.get_all("Provides-Extra") is None
    assert "GPL-3.0-or-later WITH GCC-exception" in metadata["License-Expression"]  # OpenBLAS
