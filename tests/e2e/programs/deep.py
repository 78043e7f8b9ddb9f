# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Recursion. usage: deep.py MODE DEPTH

python   Python functions that call each other directly
mixed    every other call goes through C (sorted with a key function)
"""
import sys

from common import Recorder, clock, finish, rounds, start

record = Recorder()


def bottom():
    x = 1
    record(sys._getframe(), "deep")
    end = clock() + 0.02
    while clock() < end:
        for i in range(500):
            x = (x * 31 + i) & 0xffff


def down_even(left):
    if left:
        return down_odd(left - 1)
    return bottom()


def down_odd(left):
    if left:
        return down_even(left - 1)
    return bottom()


def mixed(left):
    if left:
        sorted((left - 1,), key=mixed)
    else:
        bottom()
    return 0


def main():
    mode, depth = sys.argv[1], int(sys.argv[2])
    function = {"python": down_even, "mixed": mixed}[mode]
    sys.setrecursionlimit(depth + 1000)
    running = start()
    for _ in rounds(running):
        function(depth)
    finish({"file": __file__, "stacks": record.truth()})


main()
