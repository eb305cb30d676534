"""The headers of the installed C++ library include nothing that is not installed.

`make test-cpp` compiles with them; this reads them, in every run of the tests.
"""

import fnmatch
import re
from pathlib import Path

from gen.__main__ import read_tables, texts_of

ROOT = Path(__file__).parent.parent
RULES = (ROOT / "cmake" / "InstallCpp.cmake").read_text()


def installed():
    """{path below include/rushlight: text}, by the rules of cmake/InstallCpp.cmake."""
    found = {}
    for layer in re.search(r"foreach\(layer ([^)]*)\)", RULES)[1].split():
        for path in (ROOT / "src" / layer).glob("*.h"):
            found[f"{layer}/{path.name}"] = path.read_text()
    pattern = re.search(r'FILES_MATCHING PATTERN "([^"]*)"', RULES)[1]
    for name, text in texts_of(read_tables()).items():
        if "/" not in name and fnmatch.fnmatch(name, pattern):
            found[name] = text
    return found


def test_includes_are_installed():
    headers, met = installed(), set()
    waiting = [f"api/{name}.h" for name in ("rushlight", "nn", "optim", "c_api")]
    waiting += ["program/model.h", "program/npy.h", "ops.h"]
    while waiting:
        path = waiting.pop()
        assert path in headers, f"{path} is not installed"
        met.add(path)
        for included in re.findall(r'^ *#include "([^"]*)"', headers[path], re.M):
            beside = f"{Path(path).parent}/{included}"
            one = beside if beside in headers else included
            if one not in met:
                waiting.append(one)
    assert len(met) > 30
