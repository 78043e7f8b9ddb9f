# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Thousands of threads that wait, while others begin and end.

usage: threads.py CNT
"""
import sys
import threading

import tenant

threading.stack_size(1 << 16)
gate = threading.Event()
started = 0
try:
    for n in range(int(sys.argv[1])):
        threading.Thread(target=gate.wait, name="waits-%d" % n, daemon=True).start()
        started += 1
except RuntimeError:
    if started < 100:
        print("only %d threads may be started" % started)
        sys.exit(0)


def come_and_go():
    while True:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()


threading.Thread(target=come_and_go, daemon=True).start()
tenant.work()
