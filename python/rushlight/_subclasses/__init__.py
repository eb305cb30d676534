"""Kinds of tensors that compilers use, by the names under which libraries ask for them."""

from rushlight._subclasses.fake_tensor import FakeTensor, FakeTensorMode, is_fake

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]
