# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""
Allocates with blocks.c: a line of stdin is one call of one of its functions, from a Python function of that name, and
is answered when it is done. Ends at the end of stdin.

    blocks.py LIBRARY
"""
import ctypes
import struct
import sys

library = ctypes.CDLL(sys.argv[1])


def leak(*args):
    library.leak(*args)


def large(*args):
    library.leak(*args)


def small(*args):
    library.leak(*args)


def zeroed(*args):
    library.zeroed(*args)


def aligned(*args):
    library.aligned(*args)


def resized(*args):
    library.resized(*args)


def churn(*args):
    library.churn(*args)


def freed(*args):
    library.leak(*args)
    library.drop()


def dropped():
    library.drop()


def filled(cnt, size):
    """Kept, and touched."""
    library.filled(cnt, size)


def turn(path, size):
    """The path is a number: its bits are the way."""
    if path > 1:
        (left if path & 1 else right)(path >> 1, size)
    else:
        library.leak(ctypes.c_long(1), size)


def left(path, size):
    turn(path, size)


def right(path, size):
    turn(path, size)


def many(cnt, size):
    """By many stacks."""
    for path in range(cnt.value):
        turn(path % 1024, size)


def confine():
    """Only what it calls itself is allowed: not the system call of a uprobe's return, number 335."""
    libc = ctypes.CDLL(None)
    code = ctypes.create_string_buffer(struct.pack("=" + "HBBI" * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 335,
                                                   0x06, 0, 0, 0x80000000, 0x06, 0, 0, 0x7fff0000))
    program = struct.pack("HxxxxxxP", 4, ctypes.addressof(code))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0


print("ready", flush=True)
for line in iter(sys.stdin.readline, ""):
    name, *numbers = line.split()
    globals()[name](*[ctypes.c_long(int(n)) for n in numbers])
    print("done", flush=True)
