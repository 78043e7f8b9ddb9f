# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""CNT processes, each of which maps another file that looks like an interpreter.

usage: interpreters.py DIRECTORY FILE CNT (a file that looks like one)
"""
import os
import signal
import sys

import tenant

with open(sys.argv[2], "rb") as f:
    forged = f.read()
for n in range(int(sys.argv[3])):
    path = "%s/libpython3.%d.so" % (sys.argv[1], n)
    with open(path, "wb") as f:
        f.write(forged + b"%d" % n)
    if not os.fork():
        tenant.map_file(os.open(path, os.O_RDONLY), 1 << 14)
        os.closerange(0, 3)
        signal.alarm(300)
        tenant.LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        signal.pause()
tenant.work()
