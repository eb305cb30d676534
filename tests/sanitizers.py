"""Whether the tests run under a sanitizer: `make sanitize`."""

import os

import pytest

ADDRESS = "libasan" in os.environ.get("LD_PRELOAD", "")

# For what compiles: g++ inherits the sanitizer, under which it takes minutes and fails by leaks.
no_compilers = pytest.mark.skipif(ADDRESS, reason="compilers do not run under the sanitizer")
