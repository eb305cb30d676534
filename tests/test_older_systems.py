"""What the module asks of the system's libraries: a wheel for glibc 2.28 has the rest itself."""

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sanitizers

from rushlight import _C

SOURCE = Path(__file__).parent.parent / "cmake" / "older_systems.cpp"
# The newest that glibc 2.28 and the library of gcc 8 have.
NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25), "CXXABI": (1, 3, 11)}


@pytest.mark.skipif(platform.libc_ver() > ("glibc", "2.36"), reason="wheels are made on Debian 12")
@pytest.mark.skipif(sanitizers.ADDRESS, reason="the sanitizer's own functions are newer")
@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("nm"), reason="needs nm")
def test_newer_functions_are_in_the_file_for_older_systems():
    """Otherwise auditwheel refuses the wheel, which few changes are tried with."""
    command = ["nm", "--dynamic", "--undefined-only", "--with-symbol-versions", "--demangle"]
    listed = subprocess.run([*command, _C.__file__], capture_output=True, text=True, check=True)
    known = set(re.findall(r"\w+", SOURCE.read_text()))
    newer = []
    for line in listed.stdout.splitlines():
        found = re.search(r"U (.*?)@(GLIBCXX|GLIBC|CXXABI)_([\d.]+)$", line)
        if not found or tuple(map(int, found[3].split("."))) <= NEWEST[found[2]]:
            continue
        name = re.search(r"(\w+)(?:\[abi:\w+\])?(?:\(.*)?$", found[1].split("(")[0])
        if name is None or name[1] not in known:
            newer.append(line.strip())
    assert "@GLIBC_" in listed.stdout and not newer, "\n".join(newer)
