"""pytest -p rushlight.pytest_plugin: the tests, and what they import, get rushlight as torch.

Where rushlight is installed, `pytest --rushlight` does the same; without that option nothing
changes.
"""

from __future__ import annotations

import sys

import pytest

import rushlight
from rushlight._alias import reach_children


def activate() -> None:
    """`rushlight.as_torch`, here and in programs that tests start; where it is too late, say so."""
    try:
        rushlight.as_torch()
        reach_children()
    except RuntimeError as error:
        raise pytest.UsageError(
            f"{error}. pytest itself imports classes of warnings that filterwarnings names, from "
            "version 9 on before its plugins: `python -m rushlight -m pytest` comes before that"
        ) from None


def pytest_plugin_registered(plugin: object) -> None:
    """Is called as soon as this plugin is registered: with `-p` before installed plugins, which may
    import torch, and before classes of warnings that settings name (in pytest 8).
    """
    if plugin is sys.modules[__name__]:
        activate()


def pytest_report_header() -> str:
    """Says so at the top of the report."""
    return f"torch: rushlight, version {rushlight.__version__}"
