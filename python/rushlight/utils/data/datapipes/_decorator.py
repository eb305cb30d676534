"""Where torch has the decorator of data pipes."""

from rushlight.utils.data.datapipes.datapipe import functional_datapipe

__all__ = ["functional_datapipe"]
