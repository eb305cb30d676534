"""Fails where less of the public interface has known types than the least share given.

    python tools/type_completeness.py 0.95

Runs `pyright --verifytypes rushlight`; the names that lack a type are shown.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def report():
    """What pyright says, as its JSON."""
    command = [sys.executable, "-m", "pyright", "--ignoreexternal", "--outputjson"]
    ran = subprocess.run(
        [*command, "--verifytypes", "rushlight"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    return json.loads(ran.stdout)["typeCompleteness"]


def main():
    least = float(sys.argv[1])
    found = report()
    counts = found["exportedSymbolCounts"]
    score, total = found["completenessScore"], sum(counts.values())
    lacking = [
        symbol["name"]
        for symbol in found["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"]
    ]
    print(f"types of {score:.1%} of {total} public names are known, at least {least:.0%} wanted")
    if total < 3000:
        sys.exit(f"pyright saw only {total} public names: is the package where it looks?")
    if score < least:
        sys.exit("unknown: " + ", ".join(lacking))


main()
