# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Maps programs whose files shrink, grow, have holes and are other files while they are read: of a memfd and a disk.

usage: shrinking.py DIRECTORY
"""
import ctypes
import os
import random
import shutil
import sys
import threading

import tenant

with open("/proc/self/exe", "rb") as f:
    ELF = f.read(1 << 20)
PUNCH = 3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
fds = []
for n in range(6):
    path = "%s/shrinking%d.so" % (sys.argv[1], n)
    fd = os.memfd_create("libpython3.11.so.1.0") if n % 2 else os.open(path, os.O_RDWR | os.O_CREAT)
    os.write(fd, ELF)
    tenant.map_file(fd, 1 << 16)
    fds.append(fd)


def change():
    while True:
        fd, at = random.choice(fds), random.randrange(len(ELF))
        kind = random.randrange(4)
        if kind == 0:
            os.ftruncate(fd, at)
        elif kind == 1:
            tenant.LIBC.fallocate(fd, PUNCH, ctypes.c_long(at), ctypes.c_long(1 << 16))
        elif kind == 2:
            os.pwrite(fd, os.urandom(256), at)
        else:
            os.pwrite(fd, ELF, 0)
        # Who looks later sees mappings that are new.
        tenant.map_file(fd, 1 << 16)
        other = "%s/other" % sys.argv[1]
        shutil.copyfile("/bin/true", other)
        os.rename(other, "%s/shrinking0.so" % sys.argv[1])


threading.Thread(target=change, daemon=True).start()
tenant.work()
