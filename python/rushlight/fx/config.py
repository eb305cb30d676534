"""Settings of passes over graphs."""

disable_progress: bool = True
verbose_progress: bool = False
do_not_emit_stack_traces: bool = False
