"""The order of einsum's products, which rushlight finds without the package opt_einsum."""

import sys

from rushlight.backends._flags import assigned

enabled = True
strategy = "auto"  # or "greedy" or "optimal"


def is_available():
    """Can an order be found?"""
    return True


def set_flags(_enabled=None, _strategy=None):
    """Sets what is given; returns what was before."""
    global enabled, strategy
    before = enabled, strategy
    enabled = enabled if _enabled is None else _enabled
    strategy = strategy if _strategy is None else _strategy
    return before


def flags(enabled=None, strategy=None):
    """Context in which the switches have the given values."""
    return assigned(sys.modules[__name__], {"enabled": enabled, "strategy": strategy})
