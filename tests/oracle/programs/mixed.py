# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""The standard library in four threads: callbacks through ctypes and qsort, generators, exceptions,
pickling, recursion, signals."""
import copy
import ctypes
import decimal
import functools
import os
import pickle
import random
import re
import signal
import threading
import time

libc = ctypes.CDLL(None)
INT_P = ctypes.POINTER(ctypes.c_int)
ORDER = ctypes.CFUNCTYPE(ctypes.c_int, INT_P, INT_P)(lambda a, b: a[0] - b[0])


class Odd:
    def __getattr__(self, name):
        return len(name)

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


def nested(depth):
    if depth:
        yield from nested(depth - 1)
    yield depth


def recurse(depth):
    return depth and recurse(depth - 1)


def work():
    while True:
        re.sub(r"(a+)(b+)", lambda m: m.group(1), "aabb" * 20)
        list(nested(10))
        recurse(30)
        {Odd(): 1}[Odd()] + Odd().abc
        pickle.loads(pickle.dumps([decimal.Decimal(1) / 7] * 10))
        copy.deepcopy({"a": [1, 2, {"b": 3}]})
        libc.qsort((ctypes.c_int * 50)(*random.sample(range(1000), 50)), 50, 4, ORDER)
        sorted(range(100), key=lambda x: (x * 7) % 11)
        functools.reduce(lambda a, b: a + b, range(30))
        exec("x = [i for i in range(9)]")
        try:
            raise ValueError(1)
        except ValueError:
            pass
        os.stat("/")
        time.sleep(0.0005)


signal.signal(signal.SIGALRM, lambda *_: sum(range(50)))
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
work()
