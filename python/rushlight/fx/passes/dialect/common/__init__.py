"""Passes for graphs of any operations."""
