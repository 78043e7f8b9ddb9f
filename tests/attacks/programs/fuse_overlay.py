# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Three processes, each of which maps a file of an overlay, which passes for a file system that holds data, over a
FUSE whose server never answers a read, or after some seconds.

usage: fuse_overlay.py FUSE OTHER OVERLAY [SECONDS] (directories; as root of a user namespace, in a mount namespace of
its own)
"""
import os
import signal
import sys
import time

import fuse
import tenant



def late(opcode, node, body):
    if opcode != fuse.READ:
        return fuse.answer(opcode, node, body)
    time.sleep(float(sys.argv[4]))
    return fuse.zeros(body)


lower, other, overlay = sys.argv[1:4]
fuse.mount_own(lower, late if sys.argv[4:] else fuse.answer)
options = "lowerdir=%s:%s" % (lower, other)
tenant.check(tenant.LIBC.mount(b"overlay", overlay.encode(), b"overlay", 0, options.encode()), "overlay")
for name in "file1", "file2":
    if not os.fork():
        tenant.map_file(os.open(overlay + "/" + name, os.O_RDONLY), 1 << 16)
        signal.alarm(300)
        tenant.LIBC.prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        signal.pause()
tenant.map_file(os.open(overlay + "/file", os.O_RDONLY), 1 << 16)
tenant.work()
