# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The name of the file of the code that it runs and calls lies in memory whose contents a FUSE never tells.

usage: fuse_name.py DIRECTORY (as root, in a mount namespace of its own)
"""
import ctypes
import mmap
import os
import sys

import fuse
import tenant


def step(x):
    for i in range(1000):
        x = (x * 31 + i) & 0xffff
    return x


def busy():
    x = 1
    while True:
        x = step(x)


fuse.mount(sys.argv[1])
fd = os.open(sys.argv[1] + "/file", os.O_RDONLY)
memory = tenant.map_file(fd, 4096, mmap.PROT_READ | mmap.PROT_WRITE)
for code in busy.__code__, step.__code__:
    words = ctypes.cast(id(code), ctypes.POINTER(ctypes.c_uint64))
    at = next(i for i in range(32) if words[i] == id(code.co_filename))
    words[at] = memory + 64
tenant.threading.Thread(target=busy, daemon=True).start()
tenant.work()
