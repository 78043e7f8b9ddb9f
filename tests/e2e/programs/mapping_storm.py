# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""To be imported. Maps a file executable on each CPU until the kernel has no room to tell of all mappings."""
import mmap
import os
import sys

CPUS = os.sched_getaffinity(0)


def storm(cnt):
    with open(sys.executable, "rb") as f:
        for cpu in CPUS:
            os.sched_setaffinity(0, [cpu])
            for _ in range(cnt):
                mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC).close()
