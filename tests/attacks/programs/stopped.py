# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Children that are stopped most of the time, some of them traced, each in the middle of Python.

usage: stopped.py CNT
"""
import os
import random
import signal
import sys
import time

import tenant

TRACEME = 0
children = []
for n in range(int(sys.argv[1])):
    pid = os.fork()
    if not pid:
        if n % 2:
            tenant.LIBC.ptrace(TRACEME, 0, None, None)
        signal.alarm(300)
        tenant.LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        while True:
            sum(range(1000))
    children.append(pid)
tenant.begin()
while True:
    pid = random.choice(children)
    os.kill(pid, signal.SIGSTOP)
    if random.randrange(3):
        os.kill(pid, signal.SIGCONT)
    time.sleep(0.002)
