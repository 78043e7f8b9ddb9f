# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Its root directory is one that does not exist any more, and its perf map a link to itself.

usage: deleted_root.py DIRECTORY
"""
import os
import sys

import tenant

ROOT = sys.argv[1] + "/root"
os.makedirs(ROOT + "/tmp")
fd = os.open(ROOT + "/tmp", os.O_PATH)
parent = os.open(sys.argv[1], os.O_PATH)
tenant.spin_at(tenant.map_code())  # code of no file has its names there
link = "perf-%d.map" % os.getpid()
os.symlink(link, link, dir_fd=fd)
os.chroot(ROOT)
os.chdir("/tmp")
os.unlink(link, dir_fd=fd)
os.rmdir("root/tmp", dir_fd=parent)
os.rmdir("root", dir_fd=parent)
tenant.work()
