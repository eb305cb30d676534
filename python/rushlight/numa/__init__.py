"""Binding processes to parts of a machine."""
