"""Analyses of graphs, and changes to them."""

from rushlight.fx.passes import shape_prop
