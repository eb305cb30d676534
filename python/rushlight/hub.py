"""Models from a folder with a hubconf.py, and files from the web."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import urllib.request
from urllib.parse import urlparse

import rushlight
from rushlight._replaced_file import replacing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from os import PathLike
    from typing import Any


HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder = None


class _Faketqdm:
    """The bar that `tqdm` is where that package is not installed: it counts, and shows no more."""

    def __init__(
        self, total: float | None = None, disable: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        self.total, self.disable, self.n = total, disable, 0

    def update(self, n: float) -> None:
        """Count `n` more, and show how far it is."""
        if self.disable:
            return
        self.n += n
        share = f"{self.n} bytes" if self.total is None else f"{100 * self.n / self.total:.1f}%"
        print(f"\r{share}", end="", file=sys.stderr, flush=True)

    def set_description(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: no more than the share is shown."""

    def write(self, text: str) -> None:
        """Show a line."""
        print(text, file=sys.stderr)

    def close(self) -> None:
        """End the line."""
        self.disable = True

    def __enter__(self) -> _Faketqdm:
        return self

    def __exit__(self, *error: object) -> None:
        if not self.disable:
            print(file=sys.stderr)


def __getattr__(name: str) -> Any:
    if name != "tqdm":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from tqdm import tqdm
    except ImportError:
        return _Faketqdm
    return tqdm


def get_dir() -> str:
    """The folder of downloads: what set_dir said, or hub in TORCH_HOME, or ~/.cache/torch/hub."""
    if _folder is not None:
        return _folder
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home():
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d: str | PathLike[str]) -> None:
    """Set the folder of downloads."""
    global _folder
    _folder = os.path.expanduser(d)


def _validate_not_a_forked_repo(repo_owner, repo_name, ref):
    """Would ask the web whether a branch belongs to a repository: nothing is fetched from there."""
    raise NotImplementedError(
        f"hub: {repo_owner}/{repo_name}:{ref}: repositories are not fetched: give a folder, "
        'source="local"'
    )


def _entry_points(repo_or_dir, source):
    if source != "local":
        raise ValueError(
            f"source must be 'local' here, got {source!r}: clone the repository and pass its folder"
        )
    path = os.path.join(repo_or_dir, "hubconf.py")
    sys.path.insert(0, str(repo_or_dir))
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(repo_or_dir))
    return module


def _entry(repo_or_dir, name, source):
    function = getattr(_entry_points(repo_or_dir, source), name, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    source: str = "local",
) -> Any:
    """The names of the models that the hubconf.py of a folder offers."""
    members = vars(_entry_points(github, source))
    return [name for name, value in members.items() if callable(value) and not name.startswith("_")]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    source: str = "local",
) -> Any:
    """The docstring of a model."""
    return _entry(github, model, source).__doc__


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    **kwargs: Any,
) -> Any:
    """Call the function `model` of the hubconf.py in a folder; source must be "local"."""
    return _entry(repo_or_dir, model, source)(*args, **kwargs)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Download a file.

    Args:
        hash_prefix: what its SHA-256 must begin with.
        progress: show how far it is, on a terminal.
    """
    digest = hashlib.sha256()
    with replacing(os.path.expanduser(dst)) as file:
        with urllib.request.urlopen(url) as response:
            size, show = int(response.headers.get("Content-Length") or 0), sys.stderr.isatty()
            while chunk := response.read(1 << 20):
                file.write(chunk)
                digest.update(chunk)
                if progress and show:
                    of = f" of {size >> 20}" if size else ""
                    print(f"\r{url}: {file.tell() >> 20}{of} MiB", end="", file=sys.stderr)
            if progress and show:
                print(file=sys.stderr)
        if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(
                f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")'
            )


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> dict[str, Any]:
    """Load what rushlight.save or torch.save wrote, downloaded once and kept in the hub's
    folder."""
    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found[1] if found else None, progress)
    return rushlight.load(path, map_location=map_location, weights_only=weights_only)
