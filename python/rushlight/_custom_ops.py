"""The older names of parts of `torch.library`."""

from rushlight.library import impl_abstract, register_fake

__all__ = ["impl_abstract", "register_fake"]
