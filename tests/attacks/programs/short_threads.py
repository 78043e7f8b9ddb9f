# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads by the ten thousand, each of which waits once, in a function, and ends.

usage: short_threads.py PROCESSES
"""
import _thread
import os
import sys
import threading
import time

import tenant


def waits_once(room):
    time.sleep(0)
    time.sleep(1e-5)
    room.release()


threading.stack_size(1 << 16)
for _ in range(int(sys.argv[1]) - 1):  # its stdin and alarm are the parent's, too
    if not os.fork():
        break
tenant.begin()
room = threading.Semaphore(50)
while True:
    room.acquire()
    try:
        _thread.start_new_thread(waits_once, (room,))
    except RuntimeError:  # as many as may be
        room.release()
        time.sleep(0.001)
