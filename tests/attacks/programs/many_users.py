# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Starts programs as fast as it can, each in a place of its own and as another user. Begins as root for what
newuidmap does: it gives the tenant's user namespace the users that /etc/subuid has for it.

usage: many_users.py DIRECTORY TENANT CNT
"""
import os
import shutil
import sys

import tenant

CLONE_NEWUSER = 0x10000000
FIRST = 1 << 20

place, user, cnt = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
paths = []
for n in range(600):
    paths.append("%s/true%d" % (place, n))
    shutil.copyfile("/bin/true", paths[-1])
    os.chmod(paths[-1], 0o755)
made, mapped = os.pipe(), os.pipe()
child = os.fork()
if child:
    os.close(0)
    os.read(made[0], 1)
    for name in ("uid_map", "gid_map"):
        with open("/proc/%d/%s" % (child, name), "w") as f:
            f.write("0 %d %d\n" % (FIRST, cnt))
    os.write(mapped[1], b"x")
    os.wait()
    sys.exit(0)
os.setresgid(user, user, user)
os.setresuid(user, user, user)
tenant.check(tenant.LIBC.unshare(CLONE_NEWUSER), "unshare")
os.write(made[1], b"x")
os.read(mapped[0], 1)
tenant.begin()
n = 0
while True:
    n += 1
    pid = os.fork()
    if not pid:
        os.setresuid(n % cnt, n % cnt, n % cnt)
        os.execv(paths[n % len(paths)], ["true"])
    os.waitpid(pid, 0)
