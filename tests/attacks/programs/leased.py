# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Holds write leases on the files that it maps: who opens one has to wait until the lease is broken.

usage: leased.py DIRECTORY CNT
"""
import fcntl
import os
import shutil
import signal
import sys

import tenant

signal.signal(signal.SIGIO, signal.SIG_IGN)
for n in range(int(sys.argv[2])):
    path = "%s/leased%d.so" % (sys.argv[1], n)
    shutil.copyfile("/proc/self/exe", path)
    fd = os.open(path, os.O_RDWR)
    tenant.map_file(fd, 1 << 16)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except OSError as e:
        print("lease: %s" % e)
        sys.exit(0)
tenant.work()
