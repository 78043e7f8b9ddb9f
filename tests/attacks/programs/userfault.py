# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The name of the file of the code that it runs lies in memory whose pages come from it, and it gives none.

usage: userfault.py [SECONDS]   from that time (Unix) on, and other code again each second later
"""
import ctypes
import fcntl
import mmap
import os
import struct
import sys
import threading
import time

import tenant

USERFAULTFD = 323
USER_MODE_ONLY = 1
API, REGISTER = 0xc018aa3f, 0xc020aa00
SIZE = 1 << 16
for flags in (0, USER_MODE_ONLY):
    fd = tenant.LIBC.syscall(USERFAULTFD, os.O_CLOEXEC | flags)
    if fd >= 0:
        break
if fd < 0:
    print("userfaultfd: %s" % os.strerror(ctypes.get_errno()))
    sys.exit(0)
area = tenant.check(tenant.LIBC.mmap(None, SIZE, mmap.PROT_READ | mmap.PROT_WRITE,
                                     mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0), "mmap")
fcntl.ioctl(fd, API, bytearray(struct.pack("QQQ", 0xaa, 0, 0)))
fcntl.ioctl(fd, REGISTER, bytearray(struct.pack("QQQQ", area, SIZE, 1, 0)))


def spin(until=float("inf")):
    x = 1
    while time.time() < until:
        for i in range(1000):
            x = (x * 31 + i) & 0xffff


def hide(code):
    """As fuse_name.py does: the program itself never looks at the name of the file."""
    words = ctypes.cast(id(code), ctypes.POINTER(ctypes.c_uint64))
    at = next(i for i in range(32) if words[i] == id(code.co_filename))
    words[at] = area + 64


def work_until(when):
    kept = []  # nobody may free the name
    tenant.begin()
    while True:
        spin(when)
        kept.append(type(spin)(spin.__code__.replace(co_name="spin%d" % len(kept)), globals()))
        hide(kept[-1].__code__)
        kept[-1](when + 0.5)
        when += 1


if sys.argv[1:]:
    work_until(float(sys.argv[1]))
hide(spin.__code__)
threading.Thread(target=spin, daemon=True).start()
tenant.work()
