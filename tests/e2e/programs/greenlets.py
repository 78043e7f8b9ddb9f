# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Greenlets that call each other and take turns, each with C code between its Python frames."""
import functools
import sys

import greenlet

from common import Recorder, clock, finish, rounds, start

record = Recorder()


def spin(label):
    x = 1
    record(sys._getframe(), label)
    end = clock() + 0.004
    while clock() < end:
        for i in range(300):
            x = (x * 31 + i) & 0xffff
    return 0


def inner():
    functools.reduce(lambda a, b: spin("inner"), (1, 2))


def outer():
    sorted([1], key=lambda value: spin("outer"))
    greenlet.greenlet(inner).switch()
    spin("back in outer")


def worker(label, depth):
    if depth:
        return max((1,), key=lambda value: worker(label, depth - 1) or 0)
    while True:
        spin(label)
        greenlet.getcurrent().parent.switch()


def main():
    running = start()
    workers = [greenlet.greenlet(functools.partial(worker, "worker %d" % n, n)) for n in range(3)]
    for _ in rounds(running):
        spin("main")
        greenlet.greenlet(outer).switch()
        for each in workers:
            each.switch()
    finish({"stacks": record.truth()})


main()
