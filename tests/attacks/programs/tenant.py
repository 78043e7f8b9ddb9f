# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What the attacking programs share. Each says "ready" when its attack stands, works, and ends with its stdin."""
import ctypes
import mmap
import os
import signal
import sys
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
                      ctypes.c_long]
SPIN = b"\xf3\x90\xeb\xfc"  # pause; jmp to it


def check(result, what):
    if result in (-1, (1 << 64) - 1):
        print("%s: %s" % (what, os.strerror(ctypes.get_errno())))
        sys.exit(0)
    return result


def bind(source, target):
    check(LIBC.mount(source.encode(), target.encode(), None, 4096, None), "mount")  # MS_BIND


def map_file(fd, size, prot=mmap.PROT_READ | mmap.PROT_EXEC):
    return check(LIBC.mmap(None, size, prot, mmap.MAP_PRIVATE, fd, 0), "mmap")


def map_code(code=SPIN):
    """The address of memory of no file that holds this code."""
    addr = check(LIBC.mmap(None, 4096, 7, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0), "mmap")
    ctypes.memmove(addr, code, len(code))
    return addr


def spin(rounds):
    x = 1
    for i in range(rounds):
        x = (x * 31 + i) & 0xffff


def named(name):
    """spin() as a function of this name, in a file of this name: made anew, as code cannot be changed."""
    changes = {"co_name": name, "co_filename": name + ".py"}
    if hasattr(spin.__code__, "co_qualname"):
        changes["co_qualname"] = name
    return type(spin)(spin.__code__.replace(**changes), {})


def spin_at(addr):
    """A thread runs there from now on."""
    function = ctypes.CFUNCTYPE(None)(addr)
    threading.Thread(target=function, daemon=True).start()


def watch():
    while os.read(0, 4096):
        pass
    os._exit(0)


def begin():
    """What follows goes on until stdin ends."""
    signal.alarm(300)
    threading.Thread(target=watch, daemon=True).start()
    os.write(1, b"ready\n")


def work():
    begin()
    x = 1
    while True:
        for i in range(1000):
            x = (x * 31 + i) & 0xffff
