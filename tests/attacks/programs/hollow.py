# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs code of ELF files that are nearly all hole: each section claims 500 MiB that are not there, or MIB that are.

usage: hollow.py DIRECTORY CNT [MIB]
"""
import os
import struct
import sys

import tenant

SECTIONS = [b".symtab", b".strtab", b".dynsym", b".dynstr", b".eh_frame", b".debug_frame", b".gnu_debugdata"]
CLAIM = int(sys.argv[3]) << 20 if sys.argv[3:] else 500 << 20
CODE, NAMES, HEADERS = 4096, 8192, 12288


def make(path, n):
    names = b"\0" + b"\0".join(SECTIONS) + b"\0.shstrtab\0"
    head = [bytes(64)]
    offset = 1 << 20
    for i, name in enumerate(SECTIONS):
        kind = {b".symtab": 2, b".dynsym": 11, b".strtab": 3, b".dynstr": 3}.get(name, 1)
        link = i + 2 if kind in (2, 11) else 0
        head.append(struct.pack("<IIQQQQIIQQ", names.index(name), kind, 2, offset, offset, CLAIM, link,
                                0, 8, 24 if link else 0))
        offset += CLAIM
    head.append(struct.pack("<IIQQQQIIQQ", names.index(b".shstrtab"), 3, 0, 0, NAMES, len(names),
                            0, 0, 1, 0))
    elf = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1" + bytes(9), 3, 62, 1, 0, 64, HEADERS, 0,
                      64, 56, 2, 64, len(head), len(head) - 1)
    elf += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 1 << 16, 1 << 16, 4096)
    elf += struct.pack("<IIQQQQQQ", 4, 4, 256, 256, 256, 36, 36, 4)
    note = struct.pack("<III4s", 4, 20, 3, b"GNU\0") + struct.pack("<IIIII", n, 7, 7, 7, os.getpid())
    with open(path, "wb") as f:
        f.write(elf.ljust(256, b"\0") + note)
        f.seek(CODE)
        f.write(tenant.SPIN)
        f.seek(NAMES)
        f.write(names)
        f.seek(HEADERS)
        f.write(b"".join(head))
        f.truncate(offset)
        if sys.argv[3:]:
            os.posix_fallocate(f.fileno(), 0, offset)


for n in range(int(sys.argv[2])):
    path = "%s/hollow%d.so" % (sys.argv[1], n)
    make(path, n)
    fd = os.open(path, os.O_RDONLY)
    tenant.spin_at(tenant.map_file(fd, 1 << 16) + CODE)
tenant.work()
