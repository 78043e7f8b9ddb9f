# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Many threads, or many processes, each of which works in the function that its number names.

many.py threads|processes|twins N. Twins make their function themselves, all at the same address. Says "ready" when
all are there; ends with its stdin, and they with it.
"""
import os
import signal
import sys
import threading
import time

KINDS = 7
LIMIT = 120
# Of one, so that all of them together have one CPU at most.
WORK_S, REST_S = 0.001, 1.0

kinds = {"clock": time.perf_counter}


def make(number):
    """The function of this number."""
    exec("def kind_%d(until):\n    while clock() < until:\n        pass\n" % (number % KINDS), kinds)


def live(number):
    work = kinds["kind_%d" % (number % KINDS)]
    while True:
        work(time.perf_counter() + WORK_S)
        time.sleep(REST_S)


def threads(count):
    for kind in range(KINDS):
        make(kind)
    threading.stack_size(256 * 1024)
    for _ in range(count):
        threading.Thread(target=lambda: live(threading.get_native_id()), daemon=True).start()


def fork(count, begin):
    for _ in range(count):
        if not os.fork():
            signal.alarm(LIMIT)
            begin(os.getpid())
            live(os.getpid())


def processes(count):
    for kind in range(KINDS):
        make(kind)
    fork(count, lambda number: None)


def twins(count):
    fork(count, make)


def main():
    signal.alarm(LIMIT)
    {"threads": threads, "processes": processes, "twins": twins}[sys.argv[1]](int(sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
