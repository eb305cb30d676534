"""The schema of a function: see `rushlight.library.infer_schema`."""

from rushlight.library import infer_schema

__all__ = ["infer_schema"]
