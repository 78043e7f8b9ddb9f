# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads in known functions: two that compete for the GIL, three in native code without it."""
import ctypes
import hashlib
import os
import sys
import threading
import types
import zlib

from common import Recorder, Running, finish, gettid, images, start

record = Recorder()
tids, names = {}, {}
entered = threading.Semaphore(0)
libc = ctypes.CDLL(None)
libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
memory = ctypes.create_string_buffer(16 << 20)
data = os.urandom(4 << 20)


def spin_alpha(running):
    x = 1
    record(sys._getframe(), "alpha")
    while running.now:
        for i in range(500):
            x = (x * 31 + i) & 0xffff


def spin_beta(running):
    x = 1
    record(sys._getframe(), "beta")
    while running.now:
        for i in range(500):
            x = (x * 31 + i) & 0xffff


def native_pbkdf2(running):
    record(sys._getframe(), "pbkdf2")
    while running.now:
        hashlib.pbkdf2_hmac("sha256", b"secret", b"salt", 100000)


def native_zlib(running):
    record(sys._getframe(), "zlib")
    while running.now:
        zlib.compress(data, 9)


def native_ctypes(running):
    address = ctypes.addressof(memory)
    record(sys._getframe(), "ctypes")
    while running.now:
        libc.memset(address, 1, len(memory))


def enter(work, running):
    label = work.__name__
    tids[label] = gettid()
    names[label] = threading.current_thread().name
    with open("/proc/self/task/%d/comm" % tids[label], "w") as comm:
        comm.write(label[:15])
    if sys.version_info >= (3, 14):  # Python tells the kernel a thread's name at its start
        names[label] = label[:15]
    entered.release()
    work(running)


def main():
    running = Running()
    works = [spin_alpha, spin_beta, native_zlib, native_ctypes]
    # Without OpenSSL it is written in Python, or (3.12) not there.
    if isinstance(getattr(hashlib, "pbkdf2_hmac", None), types.BuiltinFunctionType):
        works.append(native_pbkdf2)
    threads = [threading.Thread(target=enter, args=(work, running)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        entered.acquire()
    start(running)  # nothing is sampled of a thread that has no name yet
    for thread in threads:
        thread.join()
    finish({"file": __file__, "stacks": record.truth(), "tids": tids, "names": names, "images": images()})


main()
