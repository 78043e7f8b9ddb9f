# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Maps a file of an overlay over a FUSE whose server has answered so far, and keeps it to itself how large it is now.

Who opens all files of this process by one question hears nothing of those either that others map, too.

usage: silent_attributes.py FUSE OTHER OVERLAY (directories; as root of a user namespace, in a mount namespace of its own)
"""
import mmap
import os
import sys

import fuse
import tenant


silent = mmap.mmap(-1, 1)  # shared with the server


def forgotten_at_once(opcode, node, body):
    if opcode == fuse.GETATTR and silent[0]:
        return None
    error, payload = fuse.answer(opcode, node, body) or (-5, b"")
    if opcode == fuse.GETATTR or (opcode == fuse.LOOKUP and not error):
        at = 24 if opcode == fuse.LOOKUP else 0  # for how long the attributes hold
        payload = payload[:at] + bytes(8) + payload[at + 8:]
    return error, payload


lower, other, overlay = sys.argv[1:4]
fuse.mount_own(lower, forgotten_at_once)
options = "lowerdir=%s:%s" % (lower, other)
tenant.check(tenant.LIBC.mount(b"overlay", overlay.encode(), b"overlay", 0, options.encode()), "overlay")
tenant.map_file(os.open(overlay + "/file", os.O_RDONLY), 1 << 16)
silent[0] = 1
tenant.work()
