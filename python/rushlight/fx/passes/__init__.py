"""Analyses of graphs."""

from rushlight.fx.passes import shape_prop
