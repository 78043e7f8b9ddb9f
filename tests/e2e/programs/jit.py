# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs machine code of its own: three loops in turn, named in a perf map.

jit.py OWNER: the user that the map belongs to; "-": the caller. Prints the names.
"""
import ctypes
import mmap
import os
import sys

from common import finish, rounds, start

# mov %edi, %ecx; 1: dec %rcx; jnz 1b; ret
LOOP = b"\x89\xf9\x48\xff\xc9\x75\xfb\xc3"


def main():
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    path = "/tmp/perf-%d.map" % os.getpid()
    calls, names = [], []
    with open(path, "w") as f:
        for n in range(3):
            memory[64 * n:64 * n + len(LOOP)] = LOOP
            calls.append(ctypes.CFUNCTYPE(None, ctypes.c_uint)(base + 64 * n))
            names.append("generated %d" % n)
            f.write("%x %x %s\n" % (base + 64 * n, len(LOOP), names[-1]))
    if sys.argv[1] != "-":
        os.chown(path, int(sys.argv[1]), -1)
    running = start()
    for _ in rounds(running):
        for call in calls:
            call(200000)
    os.unlink(path)
    finish({"names": names})


main()
