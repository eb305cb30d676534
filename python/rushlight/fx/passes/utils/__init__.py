"""Finding patterns in graphs, and moving parts of them into modules of their own."""

from rushlight.fx.passes.utils.common import HolderModule, compare_graphs, lift_subgraph_as_module
