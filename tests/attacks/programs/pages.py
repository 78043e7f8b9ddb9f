# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Touches pages at addresses that are never used again, and gives each MiB back at once: a line of stdin is for so many
MiB, answered when they were touched.

usage: pages.py
"""
import mmap
import sys

MIB = 1 << 20
print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    size = int(line) * MIB
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        area.madvise(mmap.MADV_NOHUGEPAGE)
        for at in range(0, size, mmap.PAGESIZE):
            area[at] = 1
            if not (at + mmap.PAGESIZE) % MIB:
                area.madvise(mmap.MADV_DONTNEED, at // MIB * MIB, MIB)
    print("done", flush=True)
