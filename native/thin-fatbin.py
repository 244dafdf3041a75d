#!/usr/bin/env python3
"""Keeps a library's device code for the given GPU architectures, and overwrites all other device code with zeros.

Usage: thin-fatbin.py FILE ARCHITECTURE..., for example thin-fatbin.py lib.so 90 100.

Sizes, offsets and headers do not change.
"""

import struct
import sys

MAGIC = struct.pack("<I", 0xBA55ED50)  # first word of a container; then u16 version, u16 header, u64 bytes


def elements(data, at):
    """Yields (architecture, start of the code, end of the code) for each element of the container that begins at
    offset `at`."""
    _, header, size = struct.unpack_from("<HHQ", data, at + 4)
    end = at + header + size
    at += header
    while at + 64 <= end:
        # u16 kind, u16, u32 header, u64 bytes, u32 compressed, u32, u16 minor, u16 major, u32 architecture
        head, size = struct.unpack_from("<IQ", data, at + 4)
        (arch,) = struct.unpack_from("<I", data, at + 28)
        if head < 64 or at + head + size > end:
            return
        yield arch, at + head, at + head + size
        at += head + size


def main():
    path, keep = sys.argv[1], {int(a) for a in sys.argv[2:]}
    with open(path, "rb") as f:
        data = bytearray(f.read())
    found, zeroed, at = set(), 0, data.find(MAGIC)
    while at >= 0:
        for arch, start, end in elements(data, at):
            found.add(arch)
            if arch not in keep:
                data[start:end] = bytes(end - start)
                zeroed += end - start
        at = data.find(MAGIC, at + 4)
    if missing := keep - found:
        sys.exit("%s: no device code for %s, it has %s" % (path, sorted(missing), sorted(found)))
    with open(path, "wb") as f:
        f.write(data)
    print("%s: architectures %s, %d of %d bytes zeroed" % (path, sorted(found), zeroed, len(data)))


main()
