"""Functions of functions, by the names under which libraries import them."""

from rushlight._higher_order_ops.associative_scan import associative_scan
from rushlight._higher_order_ops.control_flow import cond, map, scan, while_loop
from rushlight._higher_order_ops.out_dtype import out_dtype

__all__ = ["associative_scan", "cond", "map", "out_dtype", "scan", "while_loop"]
