"""From checkpoints of folders to files of `rushlight.save`, and back."""

from __future__ import annotations

import os

import rushlight
from rushlight.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from rushlight.distributed.checkpoint.state_dict_saver import save


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike[str], torch_save_path: str | os.PathLike[str]
) -> None:
    """Write what a checkpoint's folder has into one file.

    Args:
        dcp_checkpoint_dir: the folder.
        torch_save_path: the file.
    """
    whole = _load_state_dict_from_keys(checkpoint_id=dcp_checkpoint_dir, no_dist=True)
    rushlight.save(whole, torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike[str], dcp_checkpoint_dir: str | os.PathLike[str]
) -> None:
    """Write what a file has as a checkpoint's folder.

    Args:
        torch_save_path: the file.
        dcp_checkpoint_dir: the folder.
    """
    save(rushlight.load(torch_save_path), checkpoint_id=dcp_checkpoint_dir, no_dist=True)


__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]
