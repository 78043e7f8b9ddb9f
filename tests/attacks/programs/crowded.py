# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A process of 64 Ki threads that do nothing, beside one that works, or of as many as the kernel's limits permit.

Others start programs meanwhile, so some numbers of processes are left to them.

usage: crowded.py CNT
"""
import ctypes
import mmap
import sys

import tenant

VM, FS, FILES, SIGHAND, THREAD, SYSVSEM = 0x100, 0x200, 0x400, 0x800, 0x10000, 0x40000  # CLONE_*
STACK = 64  # what clone() of the C library puts there, before the code runs
LEAST, LEFT = 4096, 8192
PAUSE = b"\xb8\x22\0\0\0\x0f\x05\xeb\xf7"  # mov eax, SYS_pause; syscall; jmp to it


def number(path):
    with open(path, encoding="ascii") as f:
        return int(f.read())


most = min(number("/proc/sys/kernel/pid_max"), number("/proc/sys/kernel/threads-max")) - LEFT
cnt = min(int(sys.argv[1]), most)
tenant.LIBC.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
code = tenant.map_code(PAUSE)
stacks = tenant.check(tenant.LIBC.mmap(None, STACK * cnt, mmap.PROT_READ | mmap.PROT_WRITE,
                                       mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0), "mmap")
started = 0
while started < cnt and tenant.LIBC.clone(code, stacks + STACK * (started + 1), VM | FS | FILES | SIGHAND | THREAD | SYSVSEM,
                                          None) > 0:
    started += 1
if started < LEAST:
    print("only %d threads may be started" % started)
    sys.exit(0)
tenant.work()
