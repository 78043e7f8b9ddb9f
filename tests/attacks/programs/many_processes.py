# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Processes without end that do nothing, and share one memory so that they cost nothing.

usage: many_processes.py CNT
"""
import ctypes
import mmap
import os
import signal
import sys

import tenant

CLONE_VM, CLONE_NEWPID, PR_SET_PDEATHSIG = 0x100, 0x20000000, 1
STACK = 4096

LIBC = tenant.LIBC
LIBC.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]

# All of them end with the first one of a pid namespace, and that with this one.
tenant.check(LIBC.unshare(CLONE_NEWPID), "unshare")
if os.fork():
    os.close(0)
    os.wait()
    sys.exit(0)
LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

cnt = int(sys.argv[1])
stacks = tenant.check(LIBC.mmap(None, STACK * cnt, mmap.PROT_READ | mmap.PROT_WRITE,
                                mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0), "mmap")
pause = ctypes.cast(LIBC.pause, ctypes.c_void_p)
for n in range(cnt):
    if LIBC.clone(pause, stacks + STACK * (n + 1) - 64, CLONE_VM | signal.SIGCHLD, None) < 0:
        print("only %d processes may be started" % n)
        sys.exit(0)
tenant.work()
