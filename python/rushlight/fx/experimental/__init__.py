"""Tracing below autograd, as far as programs ask whether it goes on."""
