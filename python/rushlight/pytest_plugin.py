"""pytest -p rushlight.pytest_plugin: the tests, and what they import, get rushlight as torch.

Where rushlight is installed, `pytest --rushlight` does the same; without that option nothing
changes.
"""

from __future__ import annotations

import rushlight


def pytest_load_initial_conftests() -> None:
    """Comes before the first conftest.py is imported."""
    rushlight.as_torch()


def pytest_configure() -> None:
    """Comes in time for the tests where a conftest.py names this plugin."""
    rushlight.as_torch()


def pytest_report_header() -> str:
    """Says so at the top of the report."""
    return f"torch: rushlight, version {rushlight.__version__}"
