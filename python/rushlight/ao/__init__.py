"""Quantisation, as far as models that are not quantised need its names."""
