"""Parts of `rushlight.library`, by the names under which libraries import them."""

from rushlight._library import infer_schema

__all__ = ["infer_schema"]
