#!/bin/bash
# wheel_cpp.sh FOLDER: the wheel of the C++ library, rushlight-cpp, in FOLDER. The library knows no
# Python, so that one wheel serves all of them.
set -euo pipefail
folder=$(realpath -m "$1")
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
python=$PWD/.venv/bin/python
export PATH=$PWD/.venv/bin:$PATH
build=$PWD/build/cpp-wheel
jobs=${JOBS:-$(nproc)}

cmake -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$python" \
  -DPython_INCLUDE_DIR="$("$python" tools/python_headers.py)" -DRUSHLIGHT_OLDER_SYSTEMS=ON \
  -DCMAKE_INSTALL_LIBDIR=lib
cmake --build "$build" -j "$jobs" --target rushlight rushlight_bundle_openblas
rm -rf "$build/package"
for component in cpp cpp_python; do
  cmake --install "$build" --prefix "$build/package/rushlight_cpp" --component $component --strip
done
"$python" tools/pack_wheel.py "$build/package" "$folder" --cpp --tag "py3-none-linux_$(uname -m)"
