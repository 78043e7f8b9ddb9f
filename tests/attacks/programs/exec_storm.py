# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Starts programs as fast as it can, each in a place of its own, so that none is known from before.

usage: exec_storm.py DIRECTORY
"""
import os
import shutil
import sys

import tenant

paths = []
for n in range(600):
    paths.append("%s/true%d" % (sys.argv[1], n))
    shutil.copyfile("/bin/true", paths[-1])
    os.chmod(paths[-1], 0o755)
tenant.begin()
n = 0
while True:
    n += 1
    os.waitpid(os.posix_spawn(paths[n % len(paths)], ["true"], {}), 0)
