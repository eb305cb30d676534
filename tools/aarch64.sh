#!/bin/bash
# aarch64.sh [--build | --all | ARGUMENT...]: builds for aarch64 on an x86-64 machine and tests that
# in an emulator.
#
# --build stops after the build, whose result is in build/aarch64/python. --all runs every test file
# that starts no processes, which takes hours; the arguments go to the emulated pytest in place of
# the share that is named below. Needs Debian's
# g++-aarch64-linux-gnu, qemu-user-static and debootstrap, and root for the last. Everything is in
# build/aarch64: `root` is a Debian for that processor with Python, of which nothing runs outside
# the emulator, `site` are Python packages, `python` is rushlight as it is tested. MIRROR is the
# Debian archive. The emulator starts no other processes, so tests that do are left out; its speed
# says nothing about the processor's.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
python=$PWD/.venv/bin/python
folder=$PWD/build/aarch64
root=$folder/root
triple=aarch64-linux-gnu
version=3.13  # of trixie's Python

for tool in $triple-g++ qemu-aarch64-static debootstrap unzip; do
  command -v $tool > /dev/null || {
    echo "aarch64.sh: needs $tool: apt install g++-$triple qemu-user-static debootstrap unzip" >&2
    exit 2
  }
done
mkdir -p "$folder"

# ---- a Python for aarch64, its headers, and packages from PyPI

if [ ! -e "$folder/root.ready" ]; then
  debootstrap --arch=arm64 --foreign --variant=minbase --include=python3,libpython3-dev \
    trixie "$root" "${MIRROR:-http://deb.debian.org/debian}"
  for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
  mkdir -p "$folder/python-headers"
  cp -r "$root/usr/include/python$version/." "$folder/python-headers"
  # In place of the file there that includes it.
  cp "$root/usr/include/$triple/python$version/pyconfig.h" "$folder/python-headers"
  touch "$folder/root.ready"
fi
if [ ! -e "$folder/site.ready" ]; then
  for_aarch64=(--platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64
               --platform manylinux2014_aarch64 --python-version $version --only-binary=:all:)
  "$python" -m pip install --quiet --target "$folder/site" "${for_aarch64[@]}" \
    pytest hypothesis numpy scipy
  "$python" -m pip download --quiet --no-deps --dest "$folder/wheels" "${for_aarch64[@]}" \
    scipy-openblas32
  for wheel in "$folder"/wheels/scipy_openblas32-*.whl; do
    unzip -qo "$wheel" -d "$folder/openblas"
  done
  touch "$folder/site.ready"
fi

# ---- the build

PATH=$PWD/.venv/bin:$PATH
cmake -S . -B "$folder" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/aarch64.cmake" \
  -DPython_EXECUTABLE="$python" -DRUSHLIGHT_PYTHON_HEADERS="$folder/python-headers" \
  -DRUSHLIGHT_PYTHON_SUFFIX=.cpython-${version/./}-$triple.so \
  -DRUSHLIGHT_OPENBLAS="$folder/openblas/scipy_openblas32" -DRUSHLIGHT_WERROR=ON \
  -DRUSHLIGHT_OLDER_SYSTEMS=ON
cmake --build "$folder" -j "${JOBS:-$(nproc)}"
rm -rf "$folder/python"
cmake --install "$folder" --prefix "$folder/python" --strip
cmake --install "$folder" --prefix "$folder/python" --component python

[ "${1:-}" != --build ] || exit 0

# ---- the tests

cmake --build "$folder" -j "${JOBS:-$(nproc)}" --target test_backend test_lazy_expression
# Without SVE, which OpenBLAS would use, NumPy's too: the emulator's gives wrong products there.
emulator="qemu-aarch64-static -cpu max,sve=off -L"
CXX=$triple-g++ EMULATOR="$emulator /usr/$triple" PYTHONPATH=$PWD/python \
  "$python" -m pytest tests/test_cpp.py -k "vectors or core"
libraries=$folder/openblas/scipy_openblas32/lib
for program in test_backend test_lazy_expression; do
  $emulator $root -E LD_LIBRARY_PATH="$libraries" "$folder/$program"
done

# Of the operations against NumPy one call each, in float32.
tests=(-k "not test_ops_forward or 0-float32"
       tests/test_ops_forward.py tests/test_small_networks.py tests/test_matmul.py
       tests/test_convolution.py tests/test_autograd.py tests/test_nn_module.py
       tests/test_linear_systems.py tests/test_norms.py)
if [ "${1:-}" = --all ]; then
  mapfile -t tests < <(grep -LE "subprocess|multiprocessing|os[.]fork|mpi4py" tests/test_*.py)
elif [ $# -gt 0 ]; then
  tests=("$@")
fi
$emulator "$root" -E PYTHONHOME="$root/usr" -E PYTHONPATH="$folder/python:$folder/site" \
  "$root/usr/bin/python$version" -m pytest -p no:cacheprovider -o faulthandler_timeout=1800 \
  "${tests[@]}"
