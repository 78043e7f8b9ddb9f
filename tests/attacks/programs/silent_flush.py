# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A process that maps a file of an overlay over a FUSE whose server answers all but that a file is closed.

So who has opened the file waits when he closes it, and when he ends.

usage: silent_flush.py FUSE OTHER OVERLAY (directories; as root of a user namespace, in a mount namespace of its own)
"""
import os
import sys

import fuse
import tenant

closed = []


def answer(opcode, node, body):
    if opcode == fuse.FLUSH:
        closed.append(node)
        return (0, b"") if len(closed) == 1 else None  # the first one is our own
    if opcode == fuse.READ:
        return fuse.zeros(body)
    return fuse.answer(opcode, node, body)


lower, other, overlay = sys.argv[1:]
fuse.mount_own(lower, answer)
options = "lowerdir=%s:%s" % (lower, other)
tenant.check(tenant.LIBC.mount(b"overlay", overlay.encode(), b"overlay", 0, options.encode()), "overlay")
fd = os.open(overlay + "/file", os.O_RDONLY)
tenant.map_file(fd, 1 << 16)
os.close(fd)
tenant.work()
