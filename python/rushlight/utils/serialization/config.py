"""How files are read and written unless a call says otherwise: `config.load` and `config.save`.

    config.load.mmap = True      # load() maps files into memory

They are the settings of `rushlight.serialization` under other names.
"""

from __future__ import annotations

from rushlight import _checkpoint_settings as _settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Load:
    """What `load` does.

    mmap: map a file given by its path into memory, unless the call says otherwise (False).
    endianness: a `serialization.LoadEndianness` for files that do not say theirs, or None.
    mmap_flags: mmap.MAP_PRIVATE or mmap.MAP_SHARED.
    calculate_storage_offsets: only False: offsets are read, which takes no time that counts.
    """

    mmap: property = property(
        lambda self: _settings.maps_files(), lambda self, value: _settings.map_files(value)
    )
    endianness: property = property(
        lambda self: _settings.get_default_load_endianness(),
        lambda self, value: _settings.set_default_load_endianness(value),
    )
    mmap_flags: property = property(
        lambda self: _settings.get_default_mmap_options(),
        lambda self, value: _settings.set_default_mmap_options(value),
    )
    calculate_storage_offsets: property = property(
        lambda self: False,
        lambda self, value: _only("load.calculate_storage_offsets", value, False),
    )


class _Save:
    """What `save` does.

    compute_crc32: checksums are written whatever it says: see `serialization.set_crc32_options`.
    use_pinned_memory_for_d2h: only False: storages of a GPU are copied as they are.
    storage_alignment: only 64, in bytes of the file.
    """

    compute_crc32: property = property(
        lambda self: _settings.get_crc32_options(),
        lambda self, value: _settings.set_crc32_options(value),
    )
    use_pinned_memory_for_d2h: property = property(
        lambda self: False,
        lambda self, value: _only("save.use_pinned_memory_for_d2h", value, False),
    )
    storage_alignment: property = property(
        lambda self: 64, lambda self, value: _only("save.storage_alignment", value, 64)
    )


def _only(name: str, value: Any, supported: Any) -> None:
    if value != supported:
        raise NotImplementedError(f"serialization.config.{name}: only {supported}, got {value!r}")


load: _Load = _Load()
save: _Save = _Save()
