"""Passes for one kind of execution."""
