# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""One thread for each thing that a thread can be doing, and at the end the truth about all of them.

The main thread reads stdin without the GIL, after a first byte with the GIL held, so that all others have
to wait for it, and prints at the end of stdin {tid: {"label": ..., "frames": [[name, file, line], ...]}},
most recent call first, as sys._current_frames() has it. The stacks do not change but for lines of loops.
The thread "foreign" is one that Python never saw; it is not among them. "hiding:LIBRARY" needs one made of hide.c.
Runs on 2.7, but for "hostile".
"""
from __future__ import print_function

import ctypes
import hashlib
import json
import os
import sys
import threading
import time

libc = ctypes.CDLL(None)
holding = ctypes.PyDLL(None)  # its calls keep the GIL
buffer = ctypes.create_string_buffer(1)
labels, idents = {}, {}


def own_tid():
    return int(os.readlink("/proc/thread-self").rpartition("/")[2])


def nested(depth, fn):
    return nested(depth - 1, fn) if depth else fn()


def started(label):
    tid = own_tid()
    idents[tid] = threading.current_thread().ident
    labels[tid] = label


def sleeping():
    started("sleeping")
    time.sleep(10000)


def reading():
    started("reading")
    os.read(pipe[0], 1)


def locking():
    started("locking")
    lock.acquire()


def in_ctypes():
    started("in_ctypes")
    libc.pause()


def hashing():
    digest = hashlib.sha256
    if "_hashlib" not in sys.modules:  # Python's own keeps the GIL
        from zlib import crc32 as digest
    data = b"\0" * (1 << 25)
    started("hashing")
    while True: digest(data)


def spinning():
    started("spinning")
    while True: pass


def hiding():
    """The code of its caller is hidden from who looks at it."""
    started("hiding")
    hider.hide(ctypes.c_void_p(id(nested.__code__)))


def left(depth):
    return left(depth - 1) if depth else time.sleep(0.0001)


def right(depth):
    return right(depth - 1) if depth else time.sleep(0.0001)


def changing():
    """Never has both on its stack."""
    started("changing")
    while True:
        left(30)
        right(30)


def hostile():
    started("hostile")
    lock.acquire()


def keep_the_gil():
    holding.read(0, buffer, 1)


def frames_of(frame):
    frames = []
    while frame:
        frames.append([frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno])
        frame = frame.f_back
    return frames


if hasattr(hostile.__code__, "replace"):
    hostile.__code__ = hostile.__code__.replace(
        co_name="x\x1b[2J\nThread 1 \"y\": running", co_filename="/tmp/\x1b]0;z\x07\n</script>.py")
if hasattr(hostile.__code__, "co_qualname"):
    hostile.__code__ = hostile.__code__.replace(co_qualname=hostile.__code__.co_name)

pipe = os.pipe()
lock = threading.Lock()
lock.acquire()
kinds = {f.__name__: f for f in (sleeping, reading, locking, in_ctypes, hashing, spinning,
                                 hiding, changing)}
kinds["hostile"] = hostile
for arg in sys.argv[1:]:
    kind, _, library = arg.partition(":")
    if library:
        hider = ctypes.CDLL(library)
    if kind == "foreign":
        libc.prctl(15, b"\x1b[31m\xff", 0, 0, 0)  # PR_SET_NAME; inherited
        libc.pthread_create(ctypes.byref(ctypes.c_ulong()), None, libc.pause, None)
        continue
    name = "\x1b[31m\n\"<b>" if kind == "hostile" else kind
    thread = threading.Thread(target=nested, args=(3, kinds[kind]), name=name)
    thread.daemon = True
    thread.start()
    while kind not in labels.values():
        time.sleep(0.001)


def main():
    print("ready")
    sys.stdout.flush()
    if os.read(0, 1):
        keep_the_gil()
    current = sys._current_frames()
    truth = {tid: {"label": label, "frames": frames_of(current[idents[tid]])} for tid, label in labels.items()}
    truth[own_tid()] = {"label": "main", "frames": frames_of(sys._getframe(0))}
    print(json.dumps(truth))
    sys.stdout.flush()
    os._exit(0)


main()
