"""Copies a shared library of C and Fortran without symbols and without tables for unwinding.

    python drop_unwind_tables.py STRIP LIBRARY COPY

Nothing throws through OpenBLAS, and its tables are 1.9 of its 24 MB. When it removes them, GNU
strip leaves a program header that points at nothing, and may drop the one that makes relocated data
read-only: this one takes the place of the other.
"""

import struct
import subprocess
import sys
from pathlib import Path

HEADER = struct.Struct("<2I6Q")  # type, flags, offset, address, physical, in file, in memory, align
UNUSED, LOAD, EH_FRAME, RELRO = 0, 1, 0x6474E550, 0x6474E552
TABLES = (".eh_frame", ".eh_frame_hdr")


def program_headers(image):
    """Places of the program headers of a 64-bit little-endian ELF file, and what they say."""
    assert image[:6] == b"\x7fELF\x02\x01", "not a 64-bit little-endian ELF file"
    (begin,) = struct.unpack_from("<Q", image, 32)
    size, count = struct.unpack_from("<2H", image, 54)
    places = range(begin, begin + size * count, size)
    return {place: HEADER.unpack_from(image, place) for place in places}


def main(strip, library, copy):
    remove = [f"--remove-section={table}" for table in TABLES]
    subprocess.run([strip, "--strip-unneeded", *remove, "-o", copy, library], check=True)
    image = bytearray(Path(copy).read_bytes())
    headers = program_headers(image)
    replacement = bytes(HEADER.size)  # of type UNUSED
    if not any(header[0] == RELRO for header in headers.values()):
        for header in program_headers(Path(library).read_bytes()).values():
            if header[0] == RELRO:
                replacement = HEADER.pack(*moved(header, headers.values()))
    for place, header in headers.items():
        if header[0] == EH_FRAME:
            image[place : place + HEADER.size] = replacement
    Path(copy).write_bytes(image)


def moved(header, headers):
    """A header of the library, with the offset that its address has in the copy."""
    kind, flags, _, address, *rest = header
    for load in headers:
        if load[0] == LOAD and load[3] <= address < load[3] + load[6]:
            return kind, flags, load[2] + address - load[3], address, *rest
    raise SystemExit(f"no segment of the copy has address {address:#x}")


main(*sys.argv[1:])
