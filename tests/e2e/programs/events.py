# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""
Page faults and context switches that are known in number and place. With `wait` it begins when it is told to by a line of
stdin, says that it is done, and ends at the end of stdin.

    events.py PAGES SLEEPS [TIMES [wait]]
"""
import mmap
import sys
import time

PAGE = mmap.PAGESIZE


def touch(memory, pages):
    for i in range(pages):
        memory[i * PAGE] = 1  # FAULT


def fault(pages):
    memory = mmap.mmap(-1, pages * PAGE)
    if hasattr(memory, "madvise"):  # 3.8: each page is one fault, whatever the machine's huge pages do
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    touch(memory, pages)


def switch(sleeps):
    for _ in range(sleeps):
        time.sleep(0.0002)  # SWITCH


waits = "wait" in sys.argv
if waits:
    print("ready", flush=True)
    sys.stdin.readline()
for _ in range(int(sys.argv[3]) if len(sys.argv) > 3 else 1):
    fault(int(sys.argv[1]))
switch(int(sys.argv[2]))
if waits:
    print("done", flush=True)
    sys.stdin.read()
