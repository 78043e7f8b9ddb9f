# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Keeps the last orders in a queue, and sums them by an extension that leaks a reference to each: for each line on stdin so many
rounds. "end" drops the queue. Says how many references the first order of the queue has."""
import sys
import threading

sys.path.insert(0, sys.argv[1])
import fastsum  # noqa: E402

QUEUE = []


class Order(object):
    __slots__ = ("price",)

    def __init__(self, price):
        self.price = price


def make(count):
    QUEUE[:] = [Order(i) for i in range(count)]


def refresh():
    return fastsum.total(QUEUE)


def check():
    return fastsum.count(QUEUE)


def rounds(count):
    for i in range(count):
        refresh()
        check()


make(50)
print("ready", flush=True)
for line in sys.stdin:
    if line == "end\n":
        make(50)
    elif line == "thread\n":
        thread = threading.Thread(target=rounds, args=(10,))
        thread.start()
        thread.join()
    else:
        rounds(int(line))
    print(sys.getrefcount(QUEUE[0]), flush=True)
