# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""A file system of files (file, file1 .. file9) whose server answers everything but reads, unless it is told otherwise.

Only what the kernel asks for on the way to a read (include/uapi/linux/fuse.h, version 7.31).
"""
import ctypes
import os
import signal
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, FLUSH, INIT, BATCH_FORGET = 1, 2, 3, 14, 15, 17, 25, 26, 42
ROOT, FILE, SIZE, AN_HOUR = 1, 2, 1 << 20, 3600
NAME = b"file"
USER = 65534


def attr(node):
    mode, size = (0o40755, 4096) if node == ROOT else (0o100755, SIZE)
    return struct.pack("<6Q10I", node, size, size // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def entry(node):
    return struct.pack("<4Q2I", node, 1, AN_HOUR, AN_HOUR, 0, 0) + attr(node)


def zeros(body):
    """The answer to a READ."""
    return 0, bytes(struct.unpack_from("<QQI", body)[2])


def answer(opcode, node, body):
    """(error, payload), or None: it waits for ever."""
    if opcode == INIT:
        return 0, struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 8, 8, 4096, 1, 0, 0, *[0] * 8)
    if opcode == GETATTR:
        return 0, struct.pack("<QII", AN_HOUR, 0, 0) + attr(node)
    if opcode == LOOKUP and body.startswith(NAME):
        return 0, entry(FILE + int(body.rstrip(b"\0")[len(NAME):] or 0))
    if opcode == LOOKUP:
        return -2, b""
    if opcode == OPEN:
        return 0, struct.pack("<QII", 0, 0, 0)
    if opcode == STATFS:
        return 0, struct.pack("<5Q10I", 1, 1, 1, 1, 1, 4096, 255, 4096, *[0] * 7)
    if opcode in (READ, FORGET, BATCH_FORGET):
        return None
    return -38, b""  # ENOSYS: for FLUSH, the kernel asks no more


def serve(dev, answers):
    while True:
        request = os.read(dev, 1 << 17)
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        found = answers(opcode, node, request[40:])
        if found:
            error, payload = found
            os.write(dev, struct.pack("<IiQ", 16 + len(payload), error, unique) + payload)


def open_and_mount(place, user):
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        dev = os.open("fuse", os.O_RDWR)  # everyone's, as udev makes it; /dev of a container may be stricter
    except OSError as e:
        print(e)
        sys.exit(0)
    options = b"fd=%d,rootmode=40000,user_id=%d,group_id=%d" % (dev, user, user)
    if libc.mount(b"tenant", place.encode(), b"fuse", 6, options):  # MS_NOSUID | MS_NODEV
        print("no FUSE: %s" % os.strerror(ctypes.get_errno()))
        sys.exit(0)
    return dev


def serve_in_child(dev, answers=answer):
    child = os.fork()
    if child:
        os.close(dev)
        return child
    signal.alarm(300)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    os.closerange(0, 3)
    serve(dev, answers)


def mount_own(place, answers=answer):
    """As a user may in a user namespace. The child's number. `answers`: as answer()."""
    return serve_in_child(open_and_mount(place, 0), answers)


def mount(place):
    """Mounts it as fusermount does for a user, becomes that user, and serves it in a child. The child's number."""
    dev = open_and_mount(place, USER)
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    return serve_in_child(dev)
