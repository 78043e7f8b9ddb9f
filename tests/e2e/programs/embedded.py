# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""What embed.c runs: from C into Python, through C back into Python, and in a thread of C.

spin() is always the leaf. At its end it prints the stacks that there were; see common.Recorder.
"""
import sys

import host

from common import Recorder, clock, finish

record = Recorder()


def spin(label):
    x = 1
    record(sys._getframe(), label)
    end = clock() + 0.004
    while clock() < end:
        for i in range(300):
            x = (x * 31 + i) & 0xffff


def directly():
    spin("directly")


def called_back():
    spin("through C")


def called_twice():
    host.call(called_back)


def through_c():
    host.call(called_back)
    host.call(called_twice)


def in_thread():
    spin("in a thread of C")


def main():
    host.start(in_thread)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while host.more():
        directly()
        through_c()
    finish({"stacks": record.truth()})


main()
