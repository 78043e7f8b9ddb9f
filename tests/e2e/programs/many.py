# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Many threads, or many processes, each of which works in the function that its number names.

many.py threads|processes N. Says "ready" when all are there; ends with its stdin, and they with it.
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
for kind in range(KINDS):
    exec("def kind_%d(until):\n    while clock() < until:\n        pass\n" % kind, kinds)


def live(number):
    work = kinds["kind_%d" % (number % KINDS)]
    while True:
        work(time.perf_counter() + WORK_S)
        time.sleep(REST_S)


def threads(count):
    threading.stack_size(256 * 1024)
    for _ in range(count):
        threading.Thread(target=lambda: live(threading.get_native_id()), daemon=True).start()


def processes(count):
    for _ in range(count):
        if not os.fork():
            signal.alarm(LIMIT)
            live(os.getpid())


def main():
    signal.alarm(LIMIT)
    {"threads": threads, "processes": processes}[sys.argv[1]](int(sys.argv[2]))
    print("ready", flush=True)
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
