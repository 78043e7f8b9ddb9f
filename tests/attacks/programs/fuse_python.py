# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Python whose file lies in a FUSE that it has mounted and serves itself, from a process of its own.

usage: fuse_python.py DIRECTORY [PROGRAM ARG...] (as root of a user namespace, in a mount namespace of its own)
"""
import os
import struct
import sys

import fuse
import tenant


def served(opcode, node, body):
    """As fuse.answer(), but for one file alone, and with what it holds."""
    if opcode == fuse.LOOKUP and body != fuse.NAME + b"\0":
        return -2, b""
    if opcode != fuse.READ:
        return fuse.answer(opcode, node, body)
    _, offset, size = struct.unpack_from("<QQI", body)
    return 0, os.pread(interpreter, size, offset)


place = sys.argv[1]
if sys.executable.startswith(place):
    tenant.work()
interpreter = os.open(os.path.realpath(sys.executable), os.O_RDONLY)
fuse.NAME, fuse.SIZE = b"python", os.fstat(interpreter).st_size
fuse.mount_own(place, served)
os.environ["PYTHONHOME"] = "/usr"
program = sys.argv[2:] or [place + "/python", "-B", *sys.argv[:2]]
os.execvp(program[0], program)
