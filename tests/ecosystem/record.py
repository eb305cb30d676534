"""A plugin for pytest that writes what became of each test, a line of JSON each, and chooses tests.

It imports nothing of this package: it runs in the environment of the libraries.

    ECOSYSTEM_RECORD    the file to write
    ECOSYSTEM_ONLY      a file of the tests to run, a line each; without it,
    ECOSYSTEM_SAMPLE    how many to run, chosen by the digest of their names
"""

import hashlib
import importlib.util
import json
import os
import random
import sys


def _let_torchvision_load():
    """torchvision's wheel needs CUDA's libraries for its operations; without them it needs the
    name of one, or it cannot be imported beside a torch without CUDA.
    """
    if importlib.util.find_spec("torchvision") is None:
        return
    import torch

    if "+cpu" in torch.__version__:
        for name in ("nms", "qnms"):
            torch.library.define(
                f"torchvision::{name}",
                "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
            )


if os.environ.get("ECOSYSTEM_SIDE") == "torch":
    _let_torchvision_load()


def _write(**entry):
    with open(os.environ["ECOSYSTEM_RECORD"], "a") as stream:
        stream.write(json.dumps(entry) + "\n")


def _digest(item):
    return hashlib.sha256(item.nodeid.encode()).digest()


def pytest_collection_modifyitems(config, items):
    only = os.environ.get("ECOSYSTEM_ONLY")
    if only:
        with open(only) as stream:
            chosen = set(stream.read().splitlines())
        kept = [item for item in items if item.nodeid in chosen]
    else:
        limit = int(os.environ.get("ECOSYSTEM_SAMPLE", "0")) or len(items)
        chosen = set(sorted(map(_digest, items))[:limit])
        kept = [item for item in items if _digest(item) in chosen]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def pytest_collectstart(collector):
    """Tests whose names are drawn at random have the same names with both libraries."""
    _seed()


def pytest_runtest_setup(item):
    """Both libraries start each test from the same numbers."""
    _seed()


def _seed():
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def _cause(report):
    """(message, place) of a failure: its last line, and the innermost line of a file."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr).strip().rpartition("\n")[2], ""
    return crash.message, f"{crash.path}:{crash.lineno}"


def pytest_runtest_logreport(report):
    if report.failed:
        message, place = _cause(report)
        _write(test=report.nodeid, outcome="failed", when=report.when, message=message, at=place)
    elif report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
        _write(test=report.nodeid, outcome="passed")
    elif report.skipped:
        _write(test=report.nodeid, outcome="skipped")


def pytest_collectreport(report):
    if report.failed:
        lines = [line for line in str(report.longrepr).splitlines() if line.strip()]
        errors = [line[1:].strip() for line in lines if line.startswith("E ")] or lines
        _write(test=report.nodeid, outcome="error", message=errors[-1], at="")
