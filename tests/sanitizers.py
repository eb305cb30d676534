"""Whether the tests run under a sanitizer: `make sanitize`."""

import os

ADDRESS = "libasan" in os.environ.get("LD_PRELOAD", "")
