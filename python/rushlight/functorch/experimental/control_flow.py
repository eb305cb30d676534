"""`cond` and `map`, by the names under which programs import them."""

from rushlight._higher_order_ops.control_flow import cond, map

__all__ = ["cond", "map"]
