"""The option --rushlight of pytest. A package of its own: pytest imports it at every start, and
that must not load rushlight.
"""

import pytest


def pytest_addoption(parser):
    """Adds the option."""
    group = parser.getgroup("rushlight")
    group.addoption(
        "--rushlight", action="store_true", help="`import torch` gives rushlight to the tests"
    )


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config):
    """Loads the plugin proper, before the first conftest.py is imported and before the classes of
    warnings that settings name, if the option was given.
    """
    if early_config.known_args_namespace.rushlight:
        from rushlight import pytest_plugin

        pytest_plugin.activate()
        early_config.pluginmanager.register(pytest_plugin)
    yield
