#!/bin/bash
# wasm.sh: builds rushlight for the browser, as a wheel for Pyodide, in build/wasm/dist.
#
# Needs node with npm, and emscripten 3.1.60 or later: the machine's own, or else that of a Debian 13
# which debootstrap makes in build/wasm/root (as root). In build/wasm, `node` holds the npm package
# of Pyodide and `python-headers` the headers of its Python, which are made of Debian's for the same
# version; PYTHON_HEADERS names a folder of others. MIRROR is the Debian archive, APT_OPTIONS what apt
# is to be told of it ("[check-valid-until=no]" for a copy that is kept as it is), JOBS how many
# compilers run.
set -euo pipefail
cd "$(git -C "$(dirname "$0")" rev-parse --show-toplevel)"
python=$PWD/.venv/bin/python
folder=$PWD/build/wasm
root=${WASM_ROOT:-$folder/root}
pyodide=314.0.7
version=3.14  # of Pyodide's Python
mirror=${MIRROR:-http://deb.debian.org/debian}
mkdir -p "$folder/downloads"

for tool in node npm; do
  command -v $tool > /dev/null || { echo "wasm.sh: needs $tool" >&2; exit 2; }
done
if [ ! -e "$folder/node/node_modules/pyodide/pyodide.asm.wasm" ]; then
  npm install --silent --no-save --prefix "$folder/node" "pyodide@$pyodide"
fi

# ---- the compiler: `inside` runs a command where it is

newest() { printf '%s\n' 3.1.60 "$1" | sort -V | tail -n 1; }
own=$(emcc -dumpversion 2> /dev/null || true)
if [ -n "$own" ] && [ "$(newest "$own")" = "$own" ]; then
  inside() { "$@"; }
else
  command -v debootstrap > /dev/null || {
    echo "wasm.sh: needs emscripten 3.1.60 or later, or debootstrap to fetch Debian 13's" >&2
    exit 2
  }
  inside() {
    chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      CCACHE_DIR=/ccache DEBIAN_FRONTEND=noninteractive "${proxies[@]}" \
      sh -c 'cd "$0" && exec "$@"' "$PWD" "$@"
  }
  proxies=()
  while IFS= read -r line; do proxies+=("$line"); done < <(
    env | grep -iE '^(https?_proxy|no_proxy)=' || true)
  if [ ! -e "$root/usr/bin/emcc" ]; then
    [ -e "$root/etc/debian_version" ] ||
      debootstrap --variant=minbase --include=ca-certificates trixie "$root" "$mirror"
    cp -L /etc/resolv.conf "$root/etc/"
    (cd / && PWD=/ inside apt-get update -qq &&
      inside apt-get install -qq --no-install-recommends emscripten cmake ninja-build ccache)
  fi
  mkdir -p "$root$PWD"
  mountpoint -q "$root$PWD" || {
    mount --bind "$PWD" "$root$PWD"
    trap 'umount -l "$root$PWD"' EXIT
  }
fi

# ---- the headers of Pyodide's Python

if [ ! -e "$folder/python-headers/pyconfig.h" ]; then
  headers=${PYTHON_HEADERS:-}
  if [ -z "$headers" ]; then
    [ -e "$root/usr/bin/apt-get" ] || {
      echo "wasm.sh: PYTHON_HEADERS has to name the headers of some Python $version" >&2
      exit 2
    }
    # Debian 13 has an older Python: of Debian's testing, this package alone is fetched.
    list=$root/etc/apt/sources.list.d/testing.list
    # A mirror may be weeks behind, which makes no difference to these headers.
    echo "deb ${APT_OPTIONS:-[check-valid-until=no]} $mirror forky main" > "$list"
    inside apt-get update -qq
    (cd / && inside sh -c "cd /tmp && apt-get download -qq libpython$version-dev")
    rm "$list"
    mv "$root"/tmp/libpython$version-dev_*.deb "$folder/downloads/headers.deb"
    dpkg -x "$folder/downloads/headers.deb" "$folder/downloads/headers"
    headers=$folder/downloads/headers/usr/include/python$version
    config=$folder/downloads/headers/usr/include/x86_64-linux-gnu/python$version/pyconfig.h
  fi
  "$python" tools/pyodide_headers.py "$folder/node/node_modules/pyodide" "$headers" \
    "${config:-$headers/pyconfig.h}" "$folder/python-headers"
fi

# ---- the build, and the wheel

inside emcmake cmake -S . -B build/wasm -G Ninja \
  "-DRUSHLIGHT_PYTHON_HEADERS=$folder/python-headers" \
  -DRUSHLIGHT_PYTHON_SUFFIX=.cpython-${version/./}-wasm32-emscripten.so
inside cmake --build build/wasm -j "${JOBS:-$(nproc)}"
rm -rf "$folder/python"
inside cmake --install build/wasm --prefix "$folder/python"
inside cmake --install build/wasm --prefix "$folder/python" --component python
rm -rf "$folder/dist"
"$python" tools/pack_wheel.py "$folder/python" "$folder/dist" --without .pyi .h --most 6000000 \
  --pyodide "$folder/node/node_modules/pyodide"
[ "${1:-}" = test ] || exit 0

# ---- the tests, in node: what runs there is in tests/browser

browser=$folder/tests
rm -rf "$browser"
cp -r tests/browser "$browser"
cp examples/models/lenet.py "$browser/lenet_model.py"
"$python" docs/live/digits.py "$browser/digits.bin"
PYTHONPATH=$PWD/python:$PWD "$python" tests/browser/make_cases.py "$browser/cases.jsonl"
[ -e "$folder/site/pytest" ] || "$python" -m pip install --quiet --target "$folder/site" \
  --only-binary=:all: --platform any --python-version $version pytest
run() {
  node "$browser/run.mjs" "$folder/node/node_modules/pyodide" "$folder"/dist/rushlight-*.whl \
    "$folder/site" "$@"
}
run first.py
run lenet.py
run run_tests.py "${@:2}"
