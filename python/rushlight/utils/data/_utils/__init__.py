"""Import paths that existing programs use for parts of `utils.data`."""
