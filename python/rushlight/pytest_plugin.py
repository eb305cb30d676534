"""pytest -p rushlight.pytest_plugin: the tests, and what they import, get rushlight as torch.

Where rushlight is installed, `pytest --rushlight` does the same; without that option nothing
changes.
"""

from __future__ import annotations

import pytest

import rushlight
from rushlight._alias import reach_children

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


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


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests() -> Iterator[None]:
    """Comes before the first conftest.py is imported, and in pytest 8 before the classes of
    warnings that settings name.
    """
    activate()
    yield


def pytest_configure() -> None:
    """Comes in time for the tests where a conftest.py names this plugin."""
    activate()


def pytest_report_header() -> str:
    """Says so at the top of the report."""
    return f"torch: rushlight, version {rushlight.__version__}"
