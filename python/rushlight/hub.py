"""Models from a folder with a hubconf.py, and files from the web."""

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
import urllib.request
from urllib.parse import urlparse

import rushlight

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_folder = None


def get_dir():
    """The folder of downloads: what set_dir said, or hub in TORCH_HOME, or ~/.cache/torch/hub."""
    if _folder is not None:
        return _folder
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home():
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d):
    """Set the folder of downloads."""
    global _folder
    _folder = os.path.expanduser(d)


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


def list(github, force_reload=False, skip_validation=False, trust_repo=None, source="local"):
    """The names of the models that the hubconf.py of a folder offers."""
    members = vars(_entry_points(github, source))
    return [name for name, value in members.items() if callable(value) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo=None, source="local"):
    """The docstring of a model."""
    return _entry(github, model, source).__doc__


def load(
    repo_or_dir,
    model,
    *args,
    source="github",
    trust_repo=None,
    force_reload=False,
    verbose=True,
    **kwargs,
):
    """Call the function `model` of the hubconf.py in a folder; source must be "local"."""
    return _entry(repo_or_dir, model, source)(*args, **kwargs)


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Download a file; hash_prefix is what its SHA-256 must begin with."""
    digest = hashlib.sha256()
    folder = os.path.dirname(os.path.abspath(os.path.expanduser(dst)))
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
        try:
            with urllib.request.urlopen(url) as response:
                while chunk := response.read(1 << 20):
                    file.write(chunk)
                    digest.update(chunk)
            if hash_prefix and not digest.hexdigest().startswith(hash_prefix):
                raise RuntimeError(
                    f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")'
                )
            file.close()
            os.replace(file.name, dst)
        finally:
            if os.path.exists(file.name):
                os.remove(file.name)


def load_state_dict_from_url(
    url,
    model_dir=None,
    map_location=None,
    progress=True,
    check_hash=False,
    file_name=None,
    weights_only=True,
):
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
