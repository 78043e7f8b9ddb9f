# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""CNT processes with MAPPINGS executable mappings of one page each, and as many more pairs as are given.

usage: mapper.py CNT MAPPINGS...
"""
import mmap
import os
import sys

import tenant

fd = os.open("/proc/self/exe", os.O_RDONLY)


def start(cnt):
    """A child with so many mappings; the descriptor that ends it."""
    begun, begin = os.pipe()
    end, stay = os.pipe()
    if os.fork():
        os.close(end)
        os.close(begin)
        os.read(begun, 1)
        return stay
    tenant.signal.alarm(300)
    os.close(stay)
    for i in range(cnt):
        tenant.check(tenant.LIBC.mmap(None, 4096, 5, mmap.MAP_PRIVATE, fd, 4096 * (i % 2) * 7), "mmap")
    os.write(begin, b".")
    os.read(end, 1)
    os._exit(0)


sizes = list(map(int, sys.argv[1:]))
ends = [start(size) for cnt, size in zip(sizes[::2], sizes[1::2]) for _ in range(cnt)]
tenant.work()
