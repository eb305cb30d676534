"""The compiler of graphs is not here: its options are, for programs that set them."""

from rushlight._inductor import config


def cudagraph_mark_step_begin():
    """Mark the begin of an iteration, for graphs that are recorded: none is."""


def compile(gm, example_inputs, options=None):
    """Refused: there is no compiler."""
    raise NotImplementedError(
        f"_inductor.compile: there is no compiler for {type(gm).__name__} "
        f"({len(example_inputs)} inputs, options {options})"
    )


__all__ = ["compile", "config", "cudagraph_mark_step_begin"]
