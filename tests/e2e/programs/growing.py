# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""
Touches memory: so many MiB in each function, of which some is given back. Begins when it is told to by a line
of stdin, then prints what its resident memory grew by, and ends at the end of stdin. `pause` waits for another line.

    growing.py LABEL:MIB...
"""
import mmap
import os
import sys
import tempfile
import threading

MIB = 1 << 20
kept = []


def keep(size):
    """malloc() maps it, memset() touches it."""
    kept.append(b"x" * size)


def mapped(size):
    area = mmap.mmap(-1, size)
    for at in range(0, size, mmap.PAGESIZE):
        area[at] = 1
    kept.append(area)


def huge(size):
    area = mmap.mmap(-1, size)
    area.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, size, mmap.PAGESIZE):
        area[at] = 1
    kept.append(area)


def small(size):
    """Blocks of Python's own allocator."""
    kept.append([bytes(424) for _ in range(size // 464)])


def load(size):
    """The kernel touches it: it copies a file there."""
    with tempfile.TemporaryFile() as f:
        chunk = os.urandom(MIB)
        for _ in range(size // MIB):
            f.write(chunk)
        f.seek(0)
        kept.append(f.read(size))


def threads(size):
    """Several at a time: the interpreter's lock is free while the kernel copies."""
    with tempfile.TemporaryFile() as f:
        f.write(os.urandom(size // 4))
        f.flush()
        workers = [threading.Thread(target=lambda: kept.append(os.pread(f.fileno(), size // 4, 0))) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def churn(size):
    """Given back at once, and touched anew."""
    for _ in range(size // (4 * MIB)):
        bytes(1) + b"y" * (4 * MIB)


def freed(size):
    """Given back, never touched again."""
    for area in [mmap.mmap(-1, 4 * MIB) for _ in range(size // (4 * MIB))]:
        for at in range(0, 4 * MIB, mmap.PAGESIZE):
            area[at] = 1
        area.close()


def turn(path, reached):
    """The path is a number below 1,024: its bits are the way."""
    if path > 1:
        (left if path & 1 else right)(path >> 1, reached)
    else:
        reached()


def left(path, reached):
    turn(path, reached)


def right(path, reached):
    turn(path, reached)


def many(size):
    """By many stacks."""
    area = mmap.mmap(-1, size)
    for at in range(0, size, mmap.PAGESIZE):
        turn(at // mmap.PAGESIZE % 1024, lambda: area.__setitem__(at, 1))
    kept.append(area)


held = []


def hold(size):
    """Until `drop`."""
    held.append(mmap.mmap(-1, size))
    for at in range(0, size, mmap.PAGESIZE):
        held[-1][at] = 1


def drop(_):
    held.pop().close()


def pause(_):
    print("pause", flush=True)
    sys.stdin.readline()


def rss():
    with open("/proc/self/smaps_rollup") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("Rss:"))


def main():
    print("ready", flush=True)
    sys.stdin.readline()
    before = rss()
    for word in sys.argv[1:]:
        label, mib = word.split(":")
        globals()[label](int(mib) * MIB)
    print(rss() - before, flush=True)
    sys.stdin.read()


main()
