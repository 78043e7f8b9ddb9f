# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads that wait, each for one thing and in a function of that name, and the truth of each by its own clocks.

Arguments: a file for the truth, and what to do: names of functions below. It writes {tid: {"label": ..., "elapsed": s,
"cpu": s, "least": s, "run_delay": s}}: of the time in the function its length, what of it the thread was on a CPU, how
long it has waited at least for what it is called after, and what the kernel counts as its time in run queues. Runs on 2.7,
but for those that read WAITING_FILE, which is not in the page cache.
"""
from __future__ import print_function

import ctypes
import json
import mmap
import os
import resource
import select
import socket
import subprocess
import sys
import threading
import time

try:
    from queue import Queue
except ImportError:
    from Queue import Queue

STEP = 0.05
ROUNDS = 10
libc = ctypes.CDLL(None)
holder = ctypes.PyDLL(None)
truth = {}


def thread_cpu():
    used = resource.getrusage(1)  # RUSAGE_THREAD
    return used.ru_utime + used.ru_stime


def run_delay(tid):
    with open("/proc/self/task/%d/schedstat" % tid) as f:
        return int(f.read().split()[1]) / 1e9


def later(action):
    """Calls it again and again, each time after a step, from another thread."""
    def work():
        for _ in range(ROUNDS):
            time.sleep(STEP)
            action()
    thread = threading.Thread(target=work)
    thread.daemon = True
    thread.start()


def sleeping():
    for _ in range(ROUNDS):
        time.sleep(STEP)
    return ROUNDS * STEP


def napping():
    """Each wait is shorter than what counts exactly."""
    for _ in range(2000):
        time.sleep(0.0003)
    return 0.6


def locking():
    queue = Queue()
    later(lambda: queue.put(1))
    for _ in range(ROUNDS):
        queue.get()


def piping():
    ours, theirs = os.pipe()
    later(lambda: os.write(theirs, b"x"))
    for _ in range(ROUNDS):
        os.read(ours, 1)


def receiving():
    """It closes its sockets itself: what their destructors do is not in this function any more."""
    ours, theirs = socket.socketpair()
    later(lambda: theirs.send(b"x"))
    for _ in range(ROUNDS):
        ours.recv(1)
    ours.close()
    theirs.close()


def polling():
    poll = select.poll()
    for _ in range(ROUNDS):
        poll.poll(int(STEP * 1000))
    return ROUNDS * STEP


def epolling():
    poll = select.epoll()
    for _ in range(ROUNDS):
        poll.poll(STEP)
    return ROUNDS * STEP


def awaiting_child():
    for _ in range(3):
        subprocess.call(["sleep", "0.1"])
    return 0.3


def data_file(flags=0):
    fd = os.open(os.environ["WAITING_FILE"], os.O_RDONLY | flags)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    return fd


def reading_disk():
    """Past the page cache."""
    with mmap.mmap(-1, 1 << 22) as buffer:
        fd = data_file(os.O_DIRECT)
        for _ in range(3):
            for at in range(0, os.fstat(fd).st_size, 1 << 22):
                os.preadv(fd, [buffer], at)


def faulting():
    """Each page is read from the disk when it is touched."""
    for _ in range(3):
        fd = data_file()
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as view:
            view.madvise(mmap.MADV_RANDOM)
            for at in range(0, len(view), 1 << 14):
                view[at]
        os.close(fd)


def resting():
    time.sleep(STEP / 10)


def starting():
    """Threads whose stacks and thread states lie where those of ended ones did, many at once."""
    for _ in range(200):
        threads = [threading.Thread(target=resting) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return 200 * STEP / 10


def holding():
    """With the GIL: calls through PyDLL keep it."""
    for _ in range(20):
        holder.usleep(30000)
        time.sleep(0.01)


def wanting():
    """Wants the GIL all the time that another one has it."""
    end = time.time() + 1
    while time.time() < end:
        pass


def holding_alone():
    """All that is waited for the GIL, `wanting` waits while this sleeps: it never waits for long itself."""
    for _ in range(25):
        holder.usleep(30000)


def spinning():
    end = time.time() + 1
    while time.time() < end:
        for _ in range(1000):
            pass


def run(function):
    tid = libc.syscall(186)  # gettid
    cpu, delay, begin = thread_cpu(), run_delay(tid), time.time()
    least = function()
    elapsed = time.time() - begin
    truth[tid] = {"label": function.__name__, "elapsed": elapsed, "cpu": thread_cpu() - cpu, "least": least,
                  "run_delay": run_delay(tid) - delay}


def main():
    threads = [threading.Thread(target=run, args=(globals()[name],)) for name in sys.argv[2:]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open(sys.argv[1], "w") as f:
        json.dump(truth, f)


main()
