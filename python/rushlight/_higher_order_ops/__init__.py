"""Functions of functions, by the names under which libraries import them."""

from rushlight._higher_order_ops.associative_scan import associative_scan

__all__ = ["associative_scan"]
