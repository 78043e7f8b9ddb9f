# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A process whose files and root lie in an overlay over a FUSE whose server answers neither when a file is opened for the
second time nor when a name is looked up that it has not had before.

So who opens a mapped file of it waits, and so does who only looks whether there is a perf map for its code, which runs in
memory of no file.

usage: silent_names.py FUSE OTHER OVERLAY (directories; as root of a user namespace, in a mount namespace of its own)
"""
import os
import sys

import fuse
import tenant

opened = set()


def answer(opcode, node, body):
    if opcode == fuse.LOOKUP and not body.startswith(fuse.NAME):
        return None
    if opcode == fuse.OPEN:
        if node in opened:
            return None
        opened.add(node)
    return fuse.answer(opcode, node, body)


lower, other, overlay = sys.argv[1:]
fuse.mount_own(lower, answer)
options = "lowerdir=%s:%s" % (lower, other)
tenant.check(tenant.LIBC.mount(b"overlay", overlay.encode(), b"overlay", 0, options.encode()), "overlay")
tenant.map_file(os.open(overlay + "/file", os.O_RDONLY), 1 << 16)
tenant.spin_at(tenant.map_code())
os.chroot(overlay)  # /tmp/perf-PID.map is looked up there
tenant.work()
