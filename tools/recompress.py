"""Compresses the files of a wheel anew, by zopfli: the same format in 3 % fewer bytes, and minutes.

    python tools/recompress.py dist/*.whl

Needs the package `zopfli`. The wheel is the same, file for file, but for its compressed bytes.
"""

import sys
import zipfile
from pathlib import Path

import zopfli.zlib


class Compressor:
    """What zipfile asks of a compressor, with all data at the end."""

    def __init__(self) -> None:
        self.data: list[bytes] = []

    def compress(self, data: bytes) -> bytes:
        self.data.append(data)
        return b""

    def flush(self) -> bytes:
        stream = zopfli.zlib.compress(b"".join(self.data), numiterations=5)
        return stream[2:-4]  # without the header and the sum of a zlib stream


def recompress(wheel: Path) -> None:
    smaller = wheel.with_suffix(".smaller")
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(smaller, "w") as made:
        for info in given.infolist():
            made.writestr(info, given.read(info))
    before, after = wheel.stat().st_size, smaller.stat().st_size
    if after >= before:  # zipfile did not take the compressor
        raise SystemExit(f"{wheel.name}: {after} bytes, where there were {before}")
    smaller.replace(wheel)
    print(f"{wheel.name}: {before:,} to {after:,} bytes")


def main() -> None:
    zipfile._get_compressor = lambda *_: Compressor()  # type: ignore[attr-defined]
    for name in sys.argv[1:]:
        recompress(Path(name))


if __name__ == "__main__":
    main()
