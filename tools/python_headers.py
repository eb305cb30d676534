"""Prints the folder that holds Python.h for the interpreter that runs this.

Debian's and Ubuntu's python3 come without it (it is in python3-dev). Their package is then fetched
and unpacked beside the environment, which needs no root.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path


def fetch(folder, version, multiarch):
    """Unpacks Debian's headers into `folder`, the true pyconfig.h in place of its redirection."""
    folder.mkdir(parents=True, exist_ok=True)
    package = f"libpython{version}-dev"
    try:
        subprocess.run(["apt-get", "-qq", "download", package], cwd=folder, check=True, stdout=2)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"Python.h is missing, and `apt-get download {package}` failed ({error}).\n"
                 "Install Python's headers: apt install python3-dev, or your system's like.")
    (archive,) = folder.glob(f"{package}_*.deb")
    subprocess.run(["dpkg-deb", "--extract", archive, folder], check=True)
    archive.unlink()
    include = folder / "usr" / "include"
    headers = include / f"python{version}"
    shutil.copy(include / multiarch / f"python{version}" / "pyconfig.h", headers)
    return headers


def main():
    own = Path(sysconfig.get_path("include"))
    if (own / "Python.h").exists():
        return own
    version = sysconfig.get_python_version()
    folder = Path(sys.prefix) / "python-headers"
    headers = folder / "usr" / "include" / f"python{version}"
    if not (headers / "Python.h").exists():
        headers = fetch(folder, version, sysconfig.get_config_var("MULTIARCH"))
    return headers


print(main())
