# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A thread other than the first one calls exec(), again and again: its number is nobody's afterwards, and no exit tells of it.

usage: thread_exec.py TIMES
"""
import os
import sys
import threading
import time

import tenant

times = int(sys.argv[1])


def go_on():
    time.sleep(0.001)  # it has waited
    os.execv(sys.executable, [sys.executable, "-S", "-B", sys.argv[0], str(times - 1)])


if times:
    threading.Thread(target=go_on).start()
    time.sleep(60)
tenant.work()
