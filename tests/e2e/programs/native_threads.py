# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Threads made by C code: one that Python never sees, and two that call Python.

    native_threads.py LIBRARY THREADS
"""
import ctypes
import sys
import time

from common import Recorder, clock, finish, start

record = Recorder()
library = ctypes.CDLL(sys.argv[1])
count = int(sys.argv[2])
CALLBACK = ctypes.CFUNCTYPE(None)


def spin(label):
    x = 1
    record(sys._getframe(), label)
    end = clock() + 0.004
    while clock() < end:
        for i in range(300):
            x = (x * 31 + i) & 0xffff


@CALLBACK
def called_again():
    spin("again")


@CALLBACK
def called_keeping():
    spin("keeping")


def give(name, function):
    pointer = ctypes.cast(function, ctypes.c_void_p)
    ctypes.c_void_p.in_dll(library, name).value = pointer.value


def main():
    give("again", called_again)
    give("keeping", called_keeping)
    give("ensure", ctypes.pythonapi.PyGILState_Ensure)
    give("release", ctypes.pythonapi.PyGILState_Release)
    give("save", ctypes.pythonapi.PyEval_SaveThread)
    give("restore", ctypes.pythonapi.PyEval_RestoreThread)
    library.begin(count)
    running = start()
    while running.now:
        time.sleep(0.05)
    library.end(count)
    tids = list((ctypes.c_int * 3).in_dll(library, "tids"))
    finish({"stacks": record.truth(), "tids": dict(zip(("spin", "again", "keeping"), tids))})


main()
