# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Greenlets that stand below each other's C functions, and switch there.

Each has Python functions of its own, and a C function of its own that calls one of them. The first one of each pair is
started below the other's, so the C functions of both lie on one stack. The truth is the names: a stack with
Python functions of one greenlet has no function of another one, and below its C function stands its own callback.
"""
import functools
import sys

import greenlet

from common import clock, finish, rounds, start

end_of_work = [0.0]


def work(seconds):
    end_of_work[0] = clock() + seconds
    return end_of_work[0]


def sort_spin(x):
    end = work(0.002)
    while clock() < end:
        for i in range(100):
            x = (x * 31 + i) & 0xffff
    return x


def sort_key(x):
    sort_spin(x)
    sort_next(x)
    sort_spin(x)
    return x


def sort_next(x):
    if not workers["reduce"]:
        workers["reduce"].switch()
    for _ in range(20):
        workers["reduce"].switch()


def sort_body():
    while True:
        sorted([1, 2], key=sort_key)


def reduce_spin(x):
    end = work(0.002)
    while clock() < end:
        for i in range(100):
            x = (x * 33 + i) & 0xffff
    return x


def reduce_step(x, y):
    reduce_spin(x)
    for _ in range(20):
        workers["max"].switch()
    reduce_spin(y)
    return 0


def reduce_deeper(x, y):
    return functools.reduce(reduce_step, (x, y, 3))


def reduce_body():
    while True:
        functools.reduce(reduce_deeper, (1, 2))


def max_spin(x):
    end = work(0.002)
    while clock() < end:
        for i in range(100):
            x = (x * 35 + i) & 0xffff
    return x


def max_key(x):
    max_spin(x)
    for _ in range(20):
        workers["main"].switch()
    return x


def max_body():
    while True:
        max((1, 2), key=max_key)


def main_spin(x):
    end = work(0.001)
    while clock() < end:
        for i in range(100):
            x = (x * 37 + i) & 0xffff
    return x


def main_item(x):
    workers["sort"].switch()
    main_spin(x)
    return x


workers = {}


def main_body():
    workers.update(main=greenlet.getcurrent(), sort=greenlet.greenlet(sort_body),
                   reduce=greenlet.greenlet(reduce_body), max=greenlet.greenlet(max_body))
    running = start()
    for _ in rounds(running):
        list(map(main_item, (1, 2)))
    # What still stands in a greenlet would be raised there when it is freed.
    finish({"greenlets": ["sort", "reduce", "max", "main"]})


main_body()
sys.stdout.flush()
