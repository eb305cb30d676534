"""The older place of what rushlight.hub downloads."""

from __future__ import annotations

from rushlight import hub as _hub
from rushlight.hub import (
    download_url_to_file as _download_url_to_file,  # noqa: F401
    load_state_dict_from_url as load_url,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    if name == "tqdm":  # programs that download show their progress with it
        return _hub.tqdm
    raise AttributeError(f"module 'rushlight.utils.model_zoo' has no attribute {name!r}")
