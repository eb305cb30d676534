"""The option --rushlight of pytest. A package of its own: pytest imports it at every start, and
that must not load rushlight.
"""


def pytest_addoption(parser):
    """Adds the option."""
    group = parser.getgroup("rushlight")
    group.addoption(
        "--rushlight", action="store_true", help="`import torch` gives rushlight to the tests"
    )


def pytest_load_initial_conftests(early_config):
    """Loads the plugin proper, before the first conftest.py is imported, if the option was
    given.
    """
    if early_config.known_args_namespace.rushlight:
        from rushlight import pytest_plugin

        early_config.pluginmanager.register(pytest_plugin)
        pytest_plugin.pytest_load_initial_conftests()
