"""Tensors of dtypes that no kernel computes with."""
