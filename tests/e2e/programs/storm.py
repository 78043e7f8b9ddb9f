# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Everything that our maps live by, as fast as it goes: processes, threads, mappings, code objects and stacks that
come and go. storm.py fork|exec|thread|mmap|code SECONDS"""
import mmap
import os
import sys
import threading
import time

END = time.monotonic() + float(sys.argv[2])


def deep(n):
    return deep(n - 1) if n else sum(range(2000))


def fork():
    for n in range(8):
        if not os.fork():
            deep(n * 5)
            os._exit(0)
    for n in range(8):
        os.wait()


def exec_():
    if not os.fork():
        os.execv(sys.executable, [sys.executable, "-S", "-E", "-c", "sum(range(20000))"])
    os.wait()


def thread():
    threads = [threading.Thread(target=deep, args=(n,)) for n in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def mmap_():
    for n in range(50):
        memory = mmap.mmap(-1, 64 * mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        for page in range(64):
            memory[page * mmap.PAGESIZE] = 1
        memory.close()


def code():
    for n in range(200):
        scope = {}
        exec("def made_%d(n):\n    return made_%d(n - 1) if n else sum(range(300))\n" % (n, n), scope)
        scope["made_%d" % n](n % 40)


work = {"fork": fork, "exec": exec_, "thread": thread, "mmap": mmap_, "code": code}[sys.argv[1]]
while time.monotonic() < END:
    work()
