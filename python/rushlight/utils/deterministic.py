"""Options of deterministic algorithms."""

# Programs assign to it: should memory that nobody wrote be filled when deterministic algorithms are
# asked for?
fill_uninitialized_memory = True
