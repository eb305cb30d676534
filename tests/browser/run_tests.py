"""Runs the tests of this folder in Pyodide: run.mjs calls it, and `make test-wasm` that."""

import sys

import pytest

if __name__ == "__main__":
    chosen = sys.argv[1:] or ["/tests"]
    sys.exit(pytest.main(["-p", "no:cacheprovider", "-p", "no:faulthandler", "-o", "addopts=",
                          "-q", "--rootdir=/tests", "--confcutdir=/tests", *chosen]))  # fmt: skip
