"""The older place of what rushlight.hub downloads."""

from rushlight.hub import download_url_to_file as _download_url_to_file  # noqa: F401
from rushlight.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __getattr__(name):
    if name == "tqdm":  # programs that download show their progress with it
        from tqdm import tqdm

        return tqdm
    raise AttributeError(f"module 'rushlight.utils.model_zoo' has no attribute {name!r}")
