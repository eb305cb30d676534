"""Compilers of graphs, of which there are none."""
