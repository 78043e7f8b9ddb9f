# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""CNT processes, each of which runs one function after the other that is new, with names as long as any that are read.

usage: many_names.py CNT
"""
import os
import signal
import sys
import time

import tenant


def flood():
    """Each lasts as long as it takes to be sampled."""
    n = 0
    while True:
        n += 1
        function = tenant.named("%d.%d" % (os.getpid(), n) + "x" * (1 << 17))
        end = time.process_time() + 0.004
        while time.process_time() < end:
            function(1000)


for _ in range(int(sys.argv[1])):
    if not os.fork():
        os.closerange(0, 3)
        signal.alarm(300)
        tenant.LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        flood()
tenant.work()
