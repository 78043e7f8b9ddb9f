# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Runs a command beside a file system that makes files, and never answers a write.

usage: hanging_output.py DIRECTORY COMMAND... (as root, in a mount namespace of its own)
"""
import os
import struct
import sys

import fuse

CREATE, RELEASE = 35, 18
NODE = 3


def answer(opcode, node, body):
    if opcode == fuse.LOOKUP:
        return -2, b""
    if opcode == CREATE:
        return 0, fuse.entry(NODE) + struct.pack("<QII", 0, 1, 0)  # FOPEN_DIRECT_IO
    if opcode in (fuse.FLUSH, RELEASE):
        return 0, b""
    if opcode in (fuse.INIT, fuse.GETATTR, fuse.STATFS, fuse.FORGET):
        return fuse.answer(opcode, node, body)
    return (-38, b"") if opcode != 16 else None  # WRITE


fuse.serve_in_child(fuse.open_and_mount(sys.argv[1], 0), answer)
os.execv(sys.argv[2], sys.argv[2:])
