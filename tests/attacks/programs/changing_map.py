# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs code whose perf map grows, shrinks, has holes and is another file while it is read.

usage: changing_map.py
"""
import ctypes
import os
import random
import threading

import tenant

PUNCH = 3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
MOST = 4 << 20
path = "/tmp/perf-%d.map" % os.getpid()
addr = tenant.map_code()
lines = "".join("%x 10 changing%d\n" % (addr + (n << 4), n) for n in range(4096)).encode()


def change():
    fd = os.open(path, os.O_RDWR)
    while True:
        size = os.fstat(fd).st_size
        kind = random.randrange(4)
        if kind == 0 and size < MOST:
            os.pwrite(fd, lines, size)
        elif kind == 1:
            os.ftruncate(fd, random.randrange(size + 1))
        elif kind == 2:
            tenant.LIBC.fallocate(fd, PUNCH, ctypes.c_long(size // 2), ctypes.c_long(1 << 12))
        else:
            os.close(fd)
            fd = os.open(path + "~", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
            os.write(fd, lines)
            os.rename(path + "~", path)


with open(path, "wb") as f:
    f.write(lines)
tenant.spin_at(addr)
threading.Thread(target=change, daemon=True).start()
tenant.work()
